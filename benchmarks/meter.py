"""Measures the cost of a client: the user and system time of its process between start and stop, without start-up."""

from __future__ import annotations

import ctypes
import resource
import threading
import time
from pathlib import Path
from typing import Any

import attrs


@attrs.frozen
class Spec:
    client: str
    case: str
    bootstrap: str
    topic: str
    records: int
    ends: dict[str, int] = attrs.field(factory=dict)
    options: dict[str, Any] = attrs.field(factory=dict)

    @property
    def offset_sum(self) -> int:
        """A consumer that has read each record once has the same sum of offsets."""
        return sum(end * (end - 1) // 2 for end in self.ends.values())


def cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def loop_cpu() -> float:
    """CPU seconds of the loop thread of the only pykafka4 client in this process."""
    thread = next(t for t in threading.enumerate() if t.name == "pykafka4-loop")
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def resident() -> int:
    """Bytes of this process in memory, after the C library has given back its free memory."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@attrs.define
class Meter:
    """Other threads of the application add their CPU time to `application`."""

    records: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    application: float = 0.0
    extra: dict[str, Any] = attrs.field(factory=dict)
    _began: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def start(self) -> None:
        self._began = (time.perf_counter(), cpu(), time.thread_time())

    def stop(self, records: int) -> None:
        """The calling thread counts as a thread of the application."""
        began, used, mine = self._began
        self.seconds, self.cpu = time.perf_counter() - began, cpu() - used
        self.application += time.thread_time() - mine
        self.records = records

    def result(self) -> dict[str, Any]:
        millions = self.records / 1e6
        return {
            "records": self.records,
            "seconds": self.seconds,
            "rate": self.records / self.seconds,
            "cpu": self.cpu / millions,
            "application": self.application / millions,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            **self.extra,
        }
