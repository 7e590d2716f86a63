"""Provides the load, the samples and the measured window.

Invariant: every contender computes the same steps, and the window begins after a warm-up and ends before the load does.

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

__all__ = ["LONGEST_S", "VALUE", "WAIT_S", "Load", "Samples", "Spec", "Window", "burning", "clock", "compute", "steps_in"]

clock = time.monotonic
VALUE = bytes(100)
WAIT_S = 30.0  # seconds that an operation may take
LONGEST_S = 10.0  # seconds that acknowledgements may take after the last record of the window, while the load continues
STEPS = 1000  # of a computing thread between two checks whether it should end


@attrs.frozen
class Load:
    """The work of a contender.

    `steps`: steps of computation between two sends, or for each record read. `threads`: threads that compute all the time. `sample`: every
    n-th record is sampled. `serve`: clients whose callbacks need the sending thread run them after this many records. `rate`: records per
    second; 0 for as many as the computation allows.
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
    """The order of a measured process. `way`: the way of use of a client with several. `environment`: set before the client is imported."""

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
    """Run `steps` steps of pure Python, which never waits and so never releases the GIL of its own accord."""
    total = 0
    for number in range(steps):
        total += number
    return total


def steps_in(seconds: float) -> int:
    """The fastest of a few attempts counts."""
    best = float("inf")
    for _ in range(20):
        began = time.thread_time()
        compute(20_000)
        best = min(best, time.thread_time() - began)
    return max(1, round(seconds * 20_000 / best))


@contextlib.contextmanager
def burning(threads: int) -> Iterator[None]:
    """Run threads that only compute, next to the caller."""
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
    """Latencies of sampled records, which a single thread reports. A record that failed ends the process after the window."""

    def __init__(self) -> None:
        self.taken = 0
        self.noted: list[tuple[float, float]] = []  # the moment of the send, the seconds until the acknowledgement
        self.failed: list[str] = []

    def take(self) -> Callable[[object], None]:
        """Return the callback of the record that is sent now; its argument is the record's error, or None."""
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
        return self.taken - len(self.noted) - len(self.failed)

    def within(self, window: Window) -> list[float]:
        """Return milliseconds; exit if any sampled record failed or has no outcome."""
        if self.failed or self.open:
            sys.exit(f"of {self.taken} sampled records {len(self.failed)} failed and {self.open} had no outcome: {self.failed[:3]}")
        return [round(1e3 * seconds, 4) for began, seconds in self.noted if window.began <= began < window.ended]


@attrs.define
class Window:
    began: float = 0.0
    ended: float = 0.0
    operations: int = 0
    cpu: float = 0.0

    def start(self, operations: int = 0) -> None:
        """`operations`: their number so far."""
        self.operations, self.cpu, self.began = -operations, -cpu(), clock()

    def stop(self, operations: int) -> None:
        self.ended = clock()
        self.cpu += cpu()
        self.operations += operations

    def result(self, latencies: list[float], sent: int) -> dict[str, Any]:
        """`sent`: the number of records that the cluster must have in the end."""
        if not latencies or self.operations <= 0:
            sys.exit("nothing was measured in the window")
        return {
            "latencies": latencies,
            "operations": self.operations,
            "seconds": self.ended - self.began,
            "cpu": self.cpu,
            "sent": sent,
        }
