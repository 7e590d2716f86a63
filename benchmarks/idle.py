"""Measures what clients with nothing to do cost, with brokers and without.

`python -m benchmarks.idle` measures the CPU time of one producer and one consumer in a process of their own: connected, a member of a
group, polling; then with every broker killed. It is stated as a multiple of what a thread costs at the same time that wakes up WAKES times
a second for a little Python: on a shared machine the same wake-up costs two or three times as much from one hour to the next. The bars are
in BARS.
"""

from __future__ import annotations

import argparse
import json
import resource
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

from integration.cluster import Cluster
from integration.local.cluster import LocalCluster

BARS = {"connected": 1.6, "brokers down": 3.4}  # multiples of the reference
WAKES, WORK = 50, 300
TOPIC = "bench-idle"
START, SETTLE = 60.0, 3.0


class Idler:
    """The process that idles; it starts with one record sent and read, so that everything is connected. `options`: of its clients."""

    def __init__(self, options: dict[str, Any], topic: str) -> None:
        command = [sys.executable, "-m", "benchmarks.idle", "--idler", json.dumps(options), topic]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.answer()

    def __enter__(self) -> Idler:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait(10)
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def share(self, seconds: float) -> float:
        """What it costs during that time, as a multiple of the reference."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        return float(self.answer())

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the idle process ended; what it said is above")
        return line


def measure(cluster: Cluster, topic: str, seconds: float, rounds: int = 1) -> dict[str, float]:
    """The share connected, and with every broker killed; the brokers are left down. `rounds`: how often a share over its bar is measured
    at most. The smallest counts: what else the machine does only adds to a share, a client that costs too much does so in every round."""
    with Idler(cluster.client, topic) as idler:
        connected = quietest(idler, seconds, BARS["connected"], rounds)
        for node in cluster.nodes:
            cluster.kill(node)
        return {"connected": connected, "brokers down": quietest(idler, seconds, BARS["brokers down"], rounds)}


def quietest(idler: Idler, seconds: float, bar: float, rounds: int) -> float:
    """The smallest share of up to `rounds` measurements, which end with the first one below `bar`."""
    least = idler.share(seconds)
    for _ in range(rounds - 1):
        if least <= bar:
            break
        least = min(least, idler.share(seconds))
    return least


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def reference(seconds: float) -> float:
    """The part of a core that this thread uses when it wakes up WAKES times a second for WORK steps of Python."""
    began, used = time.monotonic(), time.thread_time()
    while time.monotonic() < began + seconds:
        select.select([], [], [], 1 / WAKES)
        seen: dict[int, str] = {}
        for step in range(WORK):
            seen[step] = str(step)
    return (time.thread_time() - used) / (time.monotonic() - began)


def idle(options: dict[str, Any], topic: str) -> None:
    """In the process of its own: obey until standard input ends."""
    from pykafka4 import Consumer, Producer

    producer = Producer(**options)
    producer.send(topic, b"hello").result(timeout=START)
    consumer = Consumer(**options, group_id=topic, auto_offset_reset="earliest")
    consumer.subscribe([topic])
    deadline = time.monotonic() + START
    while not consumer.poll(timeout=1.0):
        assert time.monotonic() < deadline, "the one record did not come back"

    def poll_for(seconds: float) -> float:
        began, used = time.monotonic(), cpu()
        while (left := began + seconds - time.monotonic()) > 0:
            consumer.poll(timeout=min(left, 1.0))
        return (cpu() - used) / (time.monotonic() - began)

    print("ready", flush=True)
    for line in sys.stdin:
        poll_for(SETTLE)
        share, compared = poll_for(float(line)), reference(float(line) / 4)
        print(share / compared, f"({share:.2%} of a core, the reference {compared:.2%})", file=sys.stderr)
        print(share / compared, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--idler", nargs=2, metavar=("OPTIONS", "TOPIC"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.idler:
        options, topic = arguments.idler
        idle(json.loads(options), topic)
        return 0
    with LocalCluster() as cluster:
        cluster.create_topic(TOPIC, 6, 3)
        shares = measure(cluster, TOPIC, arguments.seconds)
    for name, share in shares.items():
        print(f"{name:14}{share:8.2f} times the reference; the bar is {BARS[name]:.2f}: {'met' if share <= BARS[name] else 'MISSED'}")
    return 0 if all(share <= BARS[name] for name, share in shares.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
