"""Sends records as fast as it can while no broker is up, in a process of its own, and measures the memory that this takes.

SETTINGS, the only argument, is a JSON object: `options` of the producer, `topic`, `unknown` (a topic that does not exist), `seconds`, and
`dense` (every thread sends values that compress to nearly nothing, with a callback). When one record is acknowledged, the process writes a
line with its resident memory, and waits for a line on standard input. Then four threads send: plain records; records with keys, headers and
callbacks; records whose handles are kept for a while; and records of the unknown topic. At the end the process writes the peak of its
resident memory since that line, and the outcomes.
"""

from __future__ import annotations

import collections
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pykafka4 import KafkaError, Producer

__all__ = ["bound", "flooded", "main"]

PARTITIONS = 3
KEPT = 10_000  # handles that the third thread keeps
HALF_RANDOM = bytes(50) + random.Random(1).randbytes(50)  # compresses to about half its size
SAME = b"x" * 100
STATUS, CLEAR, RESET_PEAK = Path("/proc/self/status"), Path("/proc/self/clear_refs"), "5"
OVERHEAD, FACTOR = 48 << 20, 1.5


def bound(base: int, buffer_memory: int) -> float:
    return base + FACTOR * buffer_memory + OVERHEAD


def value(n: int) -> bytes:
    """Half of the value differs from record to record."""
    at = n % 50
    return b"%d " % n + HALF_RANDOM[at:] + HALF_RANDOM[:at]


def memory(field: str) -> int:
    """The memory of this process in bytes: VmRSS is the memory now, VmHWM the peak."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024


class Flood:
    def __init__(self, producer: Producer, settings: dict[str, Any]) -> None:
        self.producer, self.topic, self.unknown = producer, settings["topic"], settings["unknown"]
        self.until = time.monotonic() + settings["seconds"]
        self.refused: collections.Counter[str] = collections.Counter()
        self.called = 0
        self.kept: collections.deque[Any] = collections.deque(maxlen=KEPT)

    def count(self, _: object) -> None:
        self.called += 1

    def plain(self, n: int) -> None:
        self.producer.send(self.topic, value(n), partition=n % PARTITIONS)

    def called_back(self, n: int) -> None:
        self.producer.send(self.topic, value(n), key=b"%d" % n, headers=[("n", b"%d" % n)], on_delivery=self.count)

    def handles(self, n: int) -> None:
        self.kept.append(self.producer.send(self.topic, value(n)))

    def parked(self, n: int) -> None:
        self.producer.send(self.unknown, value(n))

    def work(self, send: Callable[[int], None]) -> None:
        n = 0
        while time.monotonic() < self.until:
            for _ in range(100):
                n += 1
                try:
                    send(n)
                except KafkaError as error:
                    self.refused[type(error).__name__] += 1

    def dense(self, n: int) -> None:
        self.producer.send(self.topic, SAME, partition=n % PARTITIONS, on_delivery=self.count)

    def run(self, dense: bool) -> None:
        sends = (self.dense,) * 4 if dense else (self.plain, self.called_back, self.handles, self.parked)
        threads = [threading.Thread(target=self.work, args=(send,), daemon=True) for send in sends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def note(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def flooded(settings: dict[str, Any], away: Callable[[], object]) -> dict[str, Any]:
    """`away` ends the brokers; it is called when the flood's process is connected."""
    command = [sys.executable, "-m", "integration.workload.flood", json.dumps(settings)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            found: dict[str, Any] = json.loads(child.stdout.readline())
            away()
            child.stdin.write("go\n")
            child.stdin.flush()
            found |= json.loads(child.stdout.readline())
            return found
        finally:
            child.kill()


def main(settings: dict[str, Any]) -> None:
    producer = Producer(**settings["options"])
    producer.send(settings["topic"], b"first", partition=0).result(60)
    note(base=memory("VmRSS"))
    sys.stdin.readline()
    CLEAR.write_text(RESET_PEAK)
    flood = Flood(producer, settings)
    flood.run(settings.get("dense", False))
    stats = producer.stats()
    note(
        peak=memory("VmHWM"), accepted=stats.accepted, lost=stats.lost, queued=stats.queued, buffered=stats.buffered_bytes,
        refused=flood.refused, called=flood.called,
    )  # fmt: skip
    producer.close(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
