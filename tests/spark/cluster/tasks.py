"""What tests run inside Python workers of a standalone cluster: importable there, so that Spark ships it by name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import attrs
from pyspark import TaskContext
from pyspark.sql import Row

T = TypeVar("T")

PATIENCE_S = 600.0  # seconds


@attrs.frozen
class Gate:
    """A place where tasks wait, after so many items, until the test opens the gate. Driver and executors share the folder."""

    folder: Path
    after: int
    partitions: tuple[int, ...] = (0, 1)  # of Spark: tasks of the others find no gate

    def __call__(self, items: Iterable[T]) -> Iterator[T]:
        for taken, item in enumerate(items):
            if taken == self.after:
                self.wait()
            yield item

    def wait(self) -> None:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() not in self.partitions:
            return
        (self.folder / f"waits-{context.partitionId()}-{context.attemptNumber()}").touch()
        deadline = time.monotonic() + PATIENCE_S
        while not (self.folder / "open").exists():
            assert time.monotonic() < deadline, "the test did not open the gate"
            time.sleep(0.02)

    def waiting(self) -> set[tuple[int, int]]:
        """(partition, attempt) of every task that came to the gate while it was closed."""
        names = (path.name.split("-") for path in self.folder.glob("waits-*"))
        return {(int(partition), int(attempt)) for _, partition, attempt in names}

    def open(self) -> None:
        (self.folder / "open").touch()


@attrs.frozen
class Slowed:
    """Items with a pause before each, so that a fault comes while there is work."""

    seconds: float

    def __call__(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            time.sleep(self.seconds)
            yield item


def keyed(number: int) -> Row:
    """A row for `partition_writer`."""
    return Row(key=str(number), value=str(number))


def host(_: int) -> str:
    """The host of the worker whose executor runs the task."""
    return os.environ["SPARK_LOCAL_IP"]
