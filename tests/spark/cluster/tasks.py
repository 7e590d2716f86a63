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

PATIENCE = 180.0  # seconds


def place() -> tuple[int, int]:
    """(partition, attempt) of the task."""
    context = TaskContext.get()
    assert context is not None
    return context.partitionId(), context.attemptNumber()


@attrs.frozen
class Gate:
    """A place in each task where it waits, after so many items, until the test opens the gate. Driver and executors share the folder."""

    folder: Path
    after: int

    def __call__(self, items: Iterable[T]) -> Iterator[T]:
        for taken, item in enumerate(items):
            if taken == self.after:
                self.wait()
            yield item

    def wait(self) -> None:
        partition, attempt = place()
        (self.folder / f"waits-{partition}-{attempt}").touch()
        deadline = time.monotonic() + PATIENCE
        while not self.opened():
            assert time.monotonic() < deadline, "the test did not open the gate"
            time.sleep(0.02)

    def waiting(self) -> int:
        """How many attempts have come to the gate."""
        return len(list(self.folder.glob("waits-*")))

    def opened(self) -> bool:
        return (self.folder / "open").exists()

    def open(self) -> None:
        (self.folder / "open").touch()


def keyed(number: int) -> Row:
    """A row for `partition_writer`."""
    return Row(key=str(number), value=str(number))


def host(_: int) -> str:
    """The host of the worker whose executor runs the task."""
    return os.environ["SPARK_LOCAL_IP"]
