"""Runs the agent in a child process, which answers each line on its input with its counts, as JSON."""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import attrs

from pykafka4.agent.inputs.reading import IMPLEMENTATION
from pykafka4.agent.service.parts import Parts
from pykafka4.agent.settings.values import AgentSettings, Batching, InputSettings, TopicSettings, TopicsSettings, UnixSettings

__all__ = ["AgentProcess", "Counts"]

WAIT_S = 60.0


@attrs.frozen
class Counts:
    """In seconds and bytes. `discarded`: messages that never reached the producer."""

    at: float
    cpu: float
    loop_cpu: float
    read: int
    refused: int
    accepted: int
    acknowledged: int
    discarded: int
    resident: int
    implementation: str


class AgentProcess:
    def __init__(self, path: Path, bootstrap: str, max_buffer: int, linger_ms: int, nice: int = 0) -> None:
        argv = ["nice", "-n", str(nice), sys.executable, "-m", __name__, str(path), bootstrap, str(max_buffer), str(linger_ms)]
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.look()

    def __enter__(self) -> AgentProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def look(self, word: str = "look") -> Counts:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the agent has ended; its output is above")
        return Counts(**json.loads(line))

    def settled(self) -> Counts:
        deadline = time.monotonic() + WAIT_S
        while (counts := self.look()).acknowledged < counts.accepted:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{counts.accepted - counts.acknowledged} messages were not acknowledged in {WAIT_S:g} s")
            time.sleep(0.1)
        return counts


async def serve(path: Path, bootstrap: str, max_buffer: int, linger_ms: int) -> None:
    inputs = InputSettings(unix_datagram=UnixSettings(path), max_buffer=max_buffer)
    topics = TopicsSettings(TopicSettings(batching=Batching.COMBINED, linger_ms=linger_ms))
    settings = AgentSettings(inputs, {"bootstrap_servers": bootstrap}, topics, http=None)
    parts = Parts(settings)
    await parts.start()
    loop, lines = asyncio.get_running_loop(), asyncio.Queue[str]()
    threading.Thread(target=read_lines, args=(loop, lines), daemon=True).start()
    while await lines.get():
        stats = await asyncio.to_thread(parts.producer.stats)
        inputs = parts.inputs.counters.unix_datagram
        print(json.dumps(attrs.asdict(counts(parts, stats, inputs.forwarded, inputs.refused))), flush=True)
    parts.stop_inputs()
    await parts.close()


def read_lines(loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[str]) -> None:
    for line in sys.stdin:
        loop.call_soon_threadsafe(lines.put_nowait, line)
    loop.call_soon_threadsafe(lines.put_nowait, "")


def counts(parts: Parts, stats: Any, read: int, refused: int) -> Counts:
    used = resource.getrusage(resource.RUSAGE_SELF)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    before = parts.ledger.before_producer()
    discarded = sum(row.count for row in before.topics.values()) + before.others.count
    return Counts(
        time.monotonic(),
        used.ru_utime + used.ru_stime,
        time.thread_time(),
        read,
        refused,
        stats.accepted,
        stats.acked,
        discarded,
        resident,
        IMPLEMENTATION,
    )


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
