"""A batch too large for its broker is split: sequences, bytes, callbacks and losses of the halves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pykafka4.records import Written
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import HEADER_SIZE
from tests.wire.records.chunk_bytes import batch_of, record_of
from tests.wire.records.hot_world import World, each_core, plain_records, wire_bytes

pytestmark = each_core
DEEP = 700  # beyond the interpreter's bound on recursion


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_too_large_is_split_with_its_sequences(core: ModuleType, codec: int) -> None:
    world = World(core, codec=codec)
    seen: list[tuple[int, int]] = []
    deliveries = [
        world.send(
            value=b"%d" % i * 300,
            key=b"k%d" % i,
            headers=[("h", b"%d" % i)],
            timestamp_ms=1000 - i,
            on_delivery=lambda d, i=i: seen.append((i, d.result().offset)),
        )
        for i in range(5)
    ]
    extra: list[Any] = []
    deliveries[4].add_done_callback(extra.append)
    (batch,) = world.seal_all()
    batch.base_sequence, batch.attempts = 2**31 - 2, 3
    original = plain_records(wire_bytes(batch, 1, 1, 2**31 - 2))
    first, second = batch.split()
    assert (first.count, second.count) == (3, 2)
    assert (first.base_sequence, second.base_sequence) == (2**31 - 2, 1)
    assert (first.attempts, first.created, first.ready, second.ready) == (3, batch.created, codec == 0, codec == 0)
    first.compress()
    second.compress()
    assert first.ready
    assert second.ready
    assert not batch.done
    assert plain_records(wire_bytes(first, 1, 1, 0)) + plain_records(wire_bytes(second, 1, 1, 3)) == original
    second.complete(200, -1)()
    assert not deliveries[2].done()
    assert deliveries[3].result().offset == 200
    first.complete(100, -1)()
    assert sorted(seen) == [(0, 100), (1, 101), (2, 102), (3, 200), (4, 201)]
    assert extra == [deliveries[4]]
    assert batch.done
    assert batch.settled
    assert [d.result().offset for d in deliveries] == [100, 101, 102, 200, 201]
    assert (world.acc.acked, world.acc.reserved, world.acc.batches) == (5, 0, 0)


def test_parts_can_be_split_again_and_keep_their_callbacks(core: ModuleType) -> None:
    world = World(core)
    seen: list[int] = []
    deliveries = [world.send(value=b"%d" % i) for i in range(8)]
    for delivery in deliveries:
        delivery.add_done_callback(lambda d: seen.append(d.result().offset))
    (batch,) = world.seal_all()
    parts = batch.split()
    parts = [small for part in parts for small in part.split()]
    for i, part in enumerate(parts):
        part.complete(i * 10, -1)()
    assert seen == [0, 1, 10, 11, 20, 21, 30, 31]
    assert [d.result().offset for d in deliveries] == seen
    assert world.acc.unfinished() == []


def test_parts_of_a_raw_batch_keep_the_bytes_of_header_names(core: ModuleType) -> None:
    header = b"\2" + varint(4) + b"\xff\xfe\xe4n" + varint(1) + b"h"  # one header, whose name is no UTF-8
    body = record_of(b"\0\0\0\1\1" + header) + record_of(b"\0\0\2\1\1" + header)
    world = World(core, find_topic=lambda topic, deadline: deadline)
    halves = world.acc.send_batch("t", 0, batch_of(body, 2, 1)).split()
    pieces = world.acc.send_batch("t", 0, batch_of(body, 2, 1)).set_apart([0, 1])[1]
    assert [wire_bytes(part)[HEADER_SIZE:] for part in (*halves, *pieces)] == [record_of(b"\0\0\0\1\1" + header)] * 4


def test_lost_are_the_records_that_failed_through_splits(core: ModuleType) -> None:
    world = World(core)
    for i in range(4):
        world.send(value=b"%d" % i)
    (batch,) = world.seal_all()
    assert batch.lost() == []
    first, second = batch.split()
    first.complete(0, -1)
    half, rest = second.split()
    assert batch.lost() == []
    half.fail("WHY", Written.MAYBE)
    rest.fail("WHY", Written.NO)
    assert [(record.value, record.written) for record in batch.lost()] == [(b"2", Written.MAYBE), (b"3", Written.NO)]
    assert first.lost() == []


def pieces_of(world: World, count: int, indexes: list[int], **options: Any) -> tuple[list[Any], Any, list[Any]]:
    """(handles of `count` records, the batch of the rest, those of single records)."""
    handles = [world.send(value=b"%d" % i, key=b"k", headers=[("h", b"%d" % i)], timestamp_ms=5000 - i, **options) for i in range(count)]
    (batch,) = world.seal_all()
    batch.base_sequence, batch.attempts = 7, 3
    rest, apart = batch.set_apart(indexes)
    for part in [*apart, *([rest] if rest else [])]:
        assert (part.base_sequence, part.producer_id, part.attempts, part.created) == (-1, -1, 3, batch.created)
        part.compress()
    return handles, rest, apart


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("indexes", [[0], [4], [2], [9], [0, 9], [3, 4], [1, 2, 6], [8, 1, 5], [0, 1, 2, 3, 4, 5, 6, 7, 8]])
def test_records_set_apart_leave_the_others_in_one_batch_in_order(core: ModuleType, codec: int, indexes: list[int]) -> None:
    world = World(core, codec=codec)
    handles, rest, apart = pieces_of(world, 10, indexes)
    others = [i for i in range(10) if i not in indexes]
    assert [record.value for record in rest.records()] == [b"%d" % i for i in others]
    assert [(record.timestamp_ms, record.headers) for record in rest.records()] == [(5000 - i, (("h", b"%d" % i),)) for i in others]
    assert [[record.value for record in part.records()] for part in apart] == [[b"%d" % i] for i in sorted(indexes)]
    assert len(plain_records(wire_bytes(rest, 1, 1, 0))) == len(others)
    rest.complete(100, -1)
    for part in apart:
        part.fail("WHY", Written.NO, None)
    assert [handles[i].result(0).offset for i in others] == list(range(100, 100 + len(others)))
    for i in indexes:
        error = handles[i].exception(0)
        assert (error.code, error.record.value, error.record.timestamp_ms) == ("WHY", b"%d" % i, 5000 - i)
    assert (world.acc.acked, world.acc.failed, world.acc.reserved, world.acc.batches) == (len(others), len(indexes), 0, 0)


def test_all_records_can_be_set_apart(core: ModuleType) -> None:
    world = World(core)
    handles, rest, apart = pieces_of(world, 3, [2, 0, 1])
    assert rest is None
    for n, part in enumerate(apart):
        part.complete(n * 10, -1)
    assert [handle.result(0).offset for handle in handles] == [0, 10, 20]


def test_callbacks_follow_the_records_that_are_set_apart(core: ModuleType) -> None:
    world = World(core)
    seen: list[tuple[bytes, int]] = []
    handles = []
    for i in range(8):
        note = (lambda d, i=i: seen.append((b"on_delivery", i))) if i % 3 == 0 else None
        handles.append(world.send(value=b"%d" % i, on_delivery=note))
        handles[-1].add_done_callback(lambda d, i=i: seen.append((b"done", handles.index(d))))
    (batch,) = world.seal_all()
    rest, apart = batch.set_apart([3, 4])
    for callbacks in [part.fail("WHY", Written.NO, None) for part in apart]:
        callbacks()
    assert sorted(seen) == [(b"done", 3), (b"done", 4), (b"on_delivery", 3)]
    assert (batch.done, batch.settled) == (False, False)
    seen.clear()
    rest.complete(50, -1)()
    assert sorted(seen) == [*((b"done", i) for i in (0, 1, 2, 5, 6, 7)), (b"on_delivery", 0), (b"on_delivery", 6)]
    assert (batch.done, batch.settled) == (True, True)
    assert [handles[i].result(0).offset for i in (0, 1, 2, 5, 6, 7)] == [50, 51, 52, 53, 54, 55]


def test_what_is_left_can_be_divided_again(core: ModuleType) -> None:
    world = World(core)
    handles, rest, (first,) = pieces_of(world, 9, [4])
    rest, (second, third) = rest.set_apart([0, 5])
    left, right = rest.split()
    for code, part in (("A", first), ("B", second), ("C", third)):
        part.fail(code, Written.NO, None)
    left.complete(0, -1)
    right.complete(20, -1)
    assert [handles[i].exception(0).code for i in (4, 0, 6)] == ["A", "B", "C"]
    assert [handles[i].result(0).offset for i in (1, 2, 3, 5, 7, 8)] == [0, 1, 2, 20, 21, 22]


def test_lost_names_each_record_set_apart_once(core: ModuleType) -> None:
    world = World(core)
    for i in range(6):
        world.send(value=b"%d" % i)
    (batch,) = world.seal_all()
    rest, apart = batch.set_apart([1, 3])
    for part in [rest, *apart]:
        part.fail("WHY", Written.NO, None)
    assert sorted(record.value for record in batch.lost()) == [b"%d" % i for i in range(6)]


@pytest.mark.parametrize("indexes", [[], [-1], [3], [0, 3], [1, 1]])
def test_only_records_that_are_there_can_be_set_apart(core: ModuleType, indexes: list[int]) -> None:
    world = World(core)
    for _ in range(3):
        world.send()
    (batch,) = world.seal_all()
    with pytest.raises(ValueError, match="not distinct indexes"):
        batch.set_apart(indexes)
    assert len(batch.records()) == 3


def test_only_a_sealed_batch_without_outcome_can_be_divided(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    batch.complete(0, -1)
    with pytest.raises(RuntimeError, match="cannot become SPLIT"):
        batch.set_apart([0])


def test_a_single_record_cannot_be_split(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    with pytest.raises(ValueError, match="one record"):
        batch.split()


def test_splitting_leaves_bytes_that_are_still_being_sent(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.send()
    (batch,) = world.seal_all()
    data = wire_bytes(batch)
    held = memoryview(batch)
    batch.split()
    assert bytes(held) == data
    held.release()


DESTRUCTORS = """
import gc, importlib, sys
from tests.wire.records.hot_world import World

class Cycle:
    def __init__(self, action):
        self.me, self.action = self, action
    def __del__(self):
        self.action()

core = importlib.import_module(sys.argv[1])
def divide(batch):
    if sys.argv[2] == "split":
        return batch.split()
    rest, apart = batch.set_apart([1, 2])
    return [rest, *apart]

for threshold in range(1, 60):  # the collector runs at another allocation of the division each time
    world, seen = World(core), []
    handles = [world.send(on_delivery=lambda d: None) for _ in range(4)]
    for handle in handles:
        handle.add_done_callback(lambda d: None)
    (batch,) = world.seal_all()
    gc.collect()
    gc.set_threshold(threshold, 1000, 1000)
    for handle in handles:
        Cycle(lambda: seen.append([h.done() for h in handles]))
    parts = divide(batch)
    gc.set_threshold(700, 10, 10)
    gc.collect()
    assert seen == [[False] * 4] * 4, seen
    assert [len(part.records()) for part in parts] == ([2, 2] if sys.argv[2] == "split" else [2, 1, 1])
    for part in parts:
        part.complete(0, -1)()
    assert all(h.settled for h in handles)
print("ok")
"""


@pytest.mark.parametrize("way", ["split", "set_apart"])
def test_destructors_that_look_at_handles_may_run_anywhere_in_a_division(core: ModuleType, way: str) -> None:
    command = [sys.executable, "-c", DESTRUCTORS, core.__name__, way]
    # A failure can be an endless loop that reports without end: nothing of that is kept.
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "ok")


def test_a_batch_may_be_taken_apart_as_often_as_it_has_records(core: ModuleType) -> None:
    world = World(core)
    deliveries = [world.send(value=b"%d" % i) for i in range(DEEP)]
    (batch,) = world.seal_all()
    rest = batch
    while rest is not None:
        rest, (refused,) = rest.set_apart([0])
        assert not batch.done
        refused.fail("INVALID_RECORD", Written.NO)
    assert batch.done
    assert batch.settled
    assert [record.value for record in batch.lost()] == [b"%d" % i for i in range(DEEP)]
    assert deliveries[-1].done()
    assert (world.acc.failed, world.acc.reserved, world.acc.batches) == (DEEP, 0, 0)


def test_threads_that_look_at_a_handle_at_once_find_the_same_record(core: ModuleType) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        found = [offsets for _ in range(60) for offsets in looked_up_by_four_threads(World(core))]
    finally:
        sys.setswitchinterval(interval)
    assert all(offsets == list(range(64)) for offsets in found)
    assert len(found) == 60 * 4


def looked_up_by_four_threads(world: World) -> list[list[int]]:
    deliveries = [world.send(value=b"%d" % i) for i in range(64)]
    parts = world.seal_all()
    while any(part.count > 1 for part in parts):
        parts = [half for part in parts for half in part.split()]
    for offset, part in enumerate(parts):
        part.complete(offset, -1)
    found: list[list[int]] = []
    threads = [threading.Thread(target=lambda: found.append([d.result(0).offset for d in deliveries])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found
