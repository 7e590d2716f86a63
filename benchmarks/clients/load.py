"""Runs the load. Invariant: every client gets the same values, the same keys and the same loop around its own calls."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator

from benchmarks.meter import Meter

SIZE, THREADS, WARM_UP = 100, 8, 10_000
DEADLINE_S = 300.0
SEEDED = random.Random(4)
VALUES = [SEEDED.randbytes(SIZE) for _ in range(1000)]
KEYS = [b"customer-%05d" % number for number in range(997)]


def values(count: int) -> Iterator[bytes]:
    return itertools.islice(itertools.cycle(VALUES), count)


def pairs(count: int) -> Iterator[tuple[bytes, bytes]]:
    return itertools.islice(zip(itertools.cycle(VALUES), itertools.cycle(KEYS)), count)


class Tally:
    """Counts deliveries. One thread at a time may use it."""

    def __init__(self) -> None:
        self.good = 0
        self.failed: list[str] = []

    def check(self, expected: int) -> None:
        if self.failed or self.good != expected:
            raise AssertionError(f"{self.good} of {expected} deliveries; failed: {self.failed[:3]}")


def in_threads(work: Callable[[int], None], count: int, meter: Meter) -> None:
    """The threads' CPU time goes to the meter; the first error is raised here."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work(count // THREADS)
        except BaseException as error:
            errors.append(error)
        meter.application += time.thread_time()

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def drain(batch: Callable[[int], tuple[int, int]], meter: Meter, records: int, offset_sum: int) -> None:
    """`batch(n)` reads up to n records, and returns their number and the sum of their offsets. The first record starts the clock."""
    deadline = time.monotonic() + DEADLINE_S
    read = total = 0
    while not read:
        read, total = batch(1)
        assert time.monotonic() < deadline, "no record came"
    first = read
    meter.start()
    while read < records:
        count, offsets = batch(min(1000, records - read))  # with a larger limit, confluent-kafka waits out its timeout at the end
        read += count
        total += offsets
        assert count or time.monotonic() < deadline, f"{read} of {records} records came"
    meter.stop(read - first)
    assert (read, total) == (records, offset_sum), f"read {read} records with offset sum {total}; the log has {records}, {offset_sum}"
