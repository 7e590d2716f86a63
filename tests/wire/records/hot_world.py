"""A producer's surroundings for the core's tests. Rule: time moves only when a test moves it; whatever the core calls is recorded."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull
from pykafka4.wire.records import reference
from pykafka4.wire.records.batch import batches, records_of
from pykafka4.wire.records.common import dropped_rows
from pykafka4.wire.records.compression import compress, decompress

try:
    compiled: ModuleType | None = importlib.import_module("pykafka4.wire.records.compiled._hot")
except ImportError:
    compiled = None

IMPLEMENTATIONS = [reference] if compiled is None else [compiled, reference]
MIB = 1024 * 1024
MAX_BLOCK = 60.0


def name_of(implementation: ModuleType) -> str:
    return implementation.__name__.rpartition(".")[2]


def only_compiled(core: ModuleType) -> None:
    """Skips a test of the compiled core's own tricks: how it reserves memory, and how rarely it wakes the loop."""
    if core is reference:
        pytest.skip("a trick of the compiled core")


each_core = pytest.mark.parametrize("core", IMPLEMENTATIONS, ids=name_of)  # what both promise, asked of each


class World:
    """An accumulator of `core` and its recorded calls."""

    def __init__(self, core: ModuleType, topics: dict[str, int] | None = None, **options: Any) -> None:
        self.core = core
        self.now = 100.0
        self.wall_ms = 1_700_000_000_000
        self.wakes = 0
        self.new_topics: list[str] = []
        self.asked_for_room: list[tuple[str, int, int]] = []
        self.deadlines: list[float] = []  # for each of these, until when the record may still wait
        self.on_full: Callable[[], object] | None = None  # what a caller that waits for room sees happen
        self.submitted: list[Callable[[], None]] = []
        settings: dict[str, Any] = {
            "batch_size": 16 * 1024,
            "linger": 0.005,
            "buffer_memory": MIB,
            "max_partition_bytes": MIB,
            "max_request_size": MIB // 2,
            "clock": lambda: self.now,
            "wake": self._wake,
            "new_topic": self.new_topics.append,
            "make_room": self._make_room,
            "wait": lambda predicate, timeout: predicate(),
            "submit": self.submitted.append,
            "lock": threading.RLock(),
            "wall": lambda: self.wall_ms,
            "seed": 0,
            "compress": compress,
            "client_id": "me",
        }
        self.acc = core.Accumulator(**(settings | options))
        for topic, count in (topics if topics is not None else {"t": 1}).items():
            self.acc.set_partitions(topic, count, range(count))

    def _wake(self) -> None:
        self.wakes += 1

    def _make_room(self, topic: str, partition: int, size: int, deadline: float) -> float:
        self.asked_for_room.append((topic, partition, size))
        self.deadlines.append(deadline)
        until = min(deadline, self.now + MAX_BLOCK)
        if self.on_full is None:
            raise BufferFull("full")
        self.on_full()
        return until

    def send(self, topic: str = "t", value: Any = b"v", **more: Any) -> Any:
        return self.acc.send(topic, value, **more)

    def seal_all(self) -> list[Any]:
        """Everything sent so far, as sealed batches that are ready to go."""
        self.acc.expedite()
        sealed, due, _ = self.acc.take(self.now)
        for batch in due:
            if self.acc.seal(batch):
                batch.compress()
        return [*sealed, *self.acc.take(self.now)[0]]

    def ack_all(self, offset: int = 0) -> int:
        """Acknowledge everything; returns the number of records."""
        count = 0
        for batch in self.seal_all():
            batch.finish(-1, -1, -1)
            callbacks = batch.complete(offset + count, -1)
            count += batch.count
            if callbacks is not None:
                callbacks()
        return count

    def take_dropped(self) -> list[tuple[str, int, str, int, int, int]]:
        """The rows of what was dropped since the last call."""
        return list(dropped_rows(self.acc.take_dropped()))


def wire_bytes(batch: Any, *stamp: int) -> bytes:
    """The bytes that `batch` sends."""
    batch.finish(*(stamp or (-1, -1, -1)))
    with memoryview(batch) as view:
        return bytes(view)


def plain_records(data: bytes) -> list[tuple[Any, ...]]:
    """(timestamp, key, value, headers) of every record in `data`, by the plain reader."""
    return [(r.timestamp_ms, r.key, r.value, r.headers) for batch in batches(data) for r in records_of(batch)]


def decoded(core: ModuleType, data: Any, offset: int = 0, *, step: int = 1000, bound: int = MIB) -> tuple[list[Any], Any, Any]:
    """What a chunk of `data` hands out: (records, the exception that ended it or None, the chunk)."""
    chunk = core.Chunk("t", 3, data, offset, decompress=decompress, max_decompressed=bound)
    out: list[Any] = []
    try:
        while chunk.decode(out, step):
            pass
    except Exception as error:
        return out, error, chunk
    return out, None, chunk


def as_tuples(records: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Records of either implementation in a form that compares."""
    return [(r.topic, r.partition, r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, r.headers, r.leader_epoch) for r in records]
