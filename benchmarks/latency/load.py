"""Load. Rule: every contender computes the same steps, and what is measured begins after a warm-up and ends before the load does.

All times are of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from benchmarks.meter import cpu

__all__ = ["LONGEST", "VALUE", "WAIT", "Load", "Samples", "Spec", "Window", "burning", "clock", "compute", "steps_in"]

clock = time.monotonic
VALUE = bytes(100)
WAIT = 30.0  # seconds that an operation may take
LONGEST = 10.0  # seconds that acknowledgements may take after the last record of the window, while the load goes on
STEPS = 1000  # of a computing thread between two looks at whether it should end


@attrs.frozen
class Load:
    """What a contender does.

    `steps`: of computation, between two sends or for each record read. `threads`: that compute all the time. `sample`: the latency of every
    so manieth record is measured. `serve`: after so many records, clients whose callbacks need the sending thread get it. `rate`: records
    per second; 0: as many as the computation allows.
    """

    seconds: float = 3.0
    warm_up: float = 1.0
    steps: int = 0
    threads: int = 0
    sample: int = 1
    serve: int = 1
    rate: float = 0.0


@attrs.frozen
class Spec:
    """One measured process. `way`: how it uses the client, where there are several. `environment`: set before the client is imported."""

    client: str
    way: str
    options: dict[str, Any]
    environment: dict[str, str]
    bootstrap: str
    topic: str
    load: Load

    def as_json(self) -> dict[str, Any]:
        return attrs.asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Spec:
        return cls(**{**told, "load": Load(**told["load"])})


def compute(steps: int) -> int:
    """Work in Python that does not release the GIL."""
    total = 0
    for number in range(steps):
        total += number
    return total


def steps_in(seconds: float) -> int:
    """How many steps of `compute` take this long, at the speed of the fastest of a few attempts."""
    best = float("inf")
    for _ in range(20):
        began = time.thread_time()
        compute(20_000)
        best = min(best, time.thread_time() - began)
    return max(1, round(seconds * 20_000 / best))


@contextlib.contextmanager
def burning(threads: int) -> Iterator[None]:
    """Threads beside the caller that compute and do nothing else."""
    stop = threading.Event()

    def burn() -> None:
        while not stop.is_set():
            compute(STEPS)

    running = [threading.Thread(target=burn, daemon=True) for _ in range(threads)]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in running:
            thread.join()


class Samples:
    """Latencies of records, noted by any one thread; a record that failed is an error at the end."""

    def __init__(self) -> None:
        self.taken = 0
        self.noted: list[tuple[float, float]] = []  # when it was sent, seconds until it was acknowledged
        self.failed: list[str] = []

    def take(self) -> Callable[[object], None]:
        """What to call with the error, or None, of the record that is sent now."""
        self.taken += 1
        began, noted = clock(), self.noted

        def note(error: object) -> None:
            ended = clock()
            if error is None:
                noted.append((began, ended - began))
            else:
                self.failed.append(str(error))

        return note

    @property
    def open(self) -> int:
        """How many have no outcome yet."""
        return self.taken - len(self.noted) - len(self.failed)

    def within(self, window: Window) -> list[float]:
        """Milliseconds, of the records that were sent in the window."""
        if self.failed or self.open:
            sys.exit(f"of {self.taken} sampled records {len(self.failed)} failed and {self.open} had no outcome: {self.failed[:3]}")
        return [round(1e3 * seconds, 4) for began, seconds in self.noted if window.began <= began < window.ended]


@attrs.define
class Window:
    """The time that counts, and the process's CPU time in it."""

    began: float = 0.0
    ended: float = 0.0
    operations: int = 0
    cpu: float = 0.0

    def start(self, operations: int = 0) -> None:
        """`operations`: how many there were before."""
        self.operations, self.cpu, self.began = -operations, -cpu(), clock()

    def stop(self, operations: int) -> None:
        self.ended = clock()
        self.cpu += cpu()
        self.operations += operations

    def result(self, latencies: list[float], sent: int) -> dict[str, Any]:
        """What the measured process answers; `sent`: all records that the cluster has to have in the end."""
        if not latencies or self.operations <= 0:
            sys.exit("nothing was measured in the window")
        return {
            "latencies": latencies,
            "operations": self.operations,
            "seconds": self.ended - self.began,
            "cpu": self.cpu,
            "sent": sent,
        }
