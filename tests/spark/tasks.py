"""What runs inside Spark's Python workers: importable there, so that it is shipped by name."""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row

from pykafka4.spark import ArrowWriter, worker_stats

Rows = Iterable[Row]
Writer = Callable[[Rows], None]

PATIENCE_S = 60.0


def attempt() -> int:
    """Which try of its task this is, from 0."""
    context = TaskContext.get()
    assert context is not None
    return context.attemptNumber()


def with_pid(_: int) -> Row:
    """A row that names the worker it was made in."""
    return Row(value=str(os.getpid()))


def acked() -> int:
    """How many records the producers of this worker have delivered."""
    return sum(stats.acked for stats in worker_stats())


@attrs.frozen
class DieMidway:
    """The first attempt of one partition's task is killed when `after` of its rows were taken and some are in the log."""

    partition: int
    after: int

    def __call__(self, index: int, numbers: Iterable[int]) -> Iterator[Row]:
        before = acked()  # by producers that earlier tasks of this worker left
        for taken, number in enumerate(numbers):
            if (index, taken, attempt()) == (self.partition, self.after, 0):
                deadline = time.monotonic() + PATIENCE_S
                while acked() == before:
                    assert time.monotonic() < deadline, "no row was acknowledged"
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGKILL)
            yield Row(key=str(number), value=str(number))


@attrs.frozen
class RowsAroundAnOutage:
    """A hundred rows, and a hundred more once the file says that the brokers are stopped."""

    gone: Path

    def __call__(self, _: Iterable[int]) -> Iterator[Row]:
        yield from (Row(value=f"before {n}") for n in range(100))
        deadline = time.monotonic() + PATIENCE_S
        while not self.gone.exists():
            assert time.monotonic() < deadline, "the test did not stop the brokers"
            time.sleep(0.01)
        yield from (Row(value=f"after {n}") for n in range(100))


@attrs.frozen
class Noted:
    """A writer whose failures are written down: one file for each attempt, the seconds since the outage and the error."""

    writer: Writer
    gone: Path

    def __call__(self, rows: Rows) -> None:
        begun = time.time()
        try:
            self.writer(rows)
        except Exception as error:
            seconds = time.time() - max(begun, self.gone.stat().st_mtime)
            self.gone.with_name(f"attempt-{attempt()}").write_text(f"{seconds}\n{type(error).__name__}: {error}")
            raise


@attrs.frozen
class FirstOneThenTheOther:
    """Two writers in one worker, the first of which fails: the error's text becomes the only row of the second."""

    bad: Writer
    good: Writer

    def __call__(self, rows: Rows) -> None:
        try:
            self.bad(rows)
        except Exception as error:
            self.good([Row(value=f"{os.getpid()} {type(error).__name__}: {error}")])
        else:
            raise AssertionError("the first writer did not fail")


@attrs.frozen
class FromFile:
    """A callable for a password: reads it where it is called."""

    path: str

    def __call__(self) -> str:
        return Path(self.path).read_text()


@attrs.frozen
class Logged:
    """A writer whose worker logs everything to a file."""

    writer: Writer
    file: str

    def __call__(self, rows: Rows) -> None:
        handler, root = logging.FileHandler(self.file), logging.getLogger()
        root.addHandler(handler)
        root.setLevel(logging.DEBUG)
        try:
            self.writer(rows)
        finally:
            root.removeHandler(handler)
            handler.close()


def numbered(first: int) -> pa.RecordBatch:
    """A hundred rows of a kilobyte, which begin with their numbers: more than the buffers between Spark's processes keep back."""
    values = [f"{number:<1000}" for number in range(first, first + 100)]
    return pa.record_batch({"key": [value.strip() for value in values], "value": values})


@attrs.frozen
class BatchesAround:
    """For `mapInArrow`: `before` numbered batches, and `after` more once the file `event` exists; a file says how many rows were taken."""

    event: Path
    before: int
    after: int

    def __call__(self, _: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in range(self.before + self.after):
            if number == self.before:
                wait_for(self.event)
            self.taken.write_text(str(number * 100))
            yield numbered(number * 100)

    @property
    def taken(self) -> Path:
        return self.event.with_name("taken")


def wait_for(event: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not event.exists():
        assert time.monotonic() < deadline, f"the test did not make {event.name}"
        time.sleep(0.01)


@attrs.frozen
class NotedBatches:
    """A writer for `mapInArrow` whose failures are written down, as those of `Noted` are."""

    writer: ArrowWriter
    gone: Path

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        Noted(lambda rows: found.extend(self.writer(rows)), self.gone)(batches)
        return iter(found)


@attrs.frozen
class FrozenObjects:
    """Writes, then counts the objects that the garbage collector passes over."""

    writer: ArrowWriter

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in self.writer(batches):
            yield pa.record_batch({"objects": pa.array([gc.get_freeze_count()], pa.int64())})
