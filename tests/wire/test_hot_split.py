"""A batch too large for its broker is halved: numbers, bytes, callbacks and losses of the halves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hot_world import World, each_core, plain_records, wire_bytes

from pykafka4.error_table import Written

pytestmark = each_core


@pytest.mark.parametrize("codec", [0, 1])
def test_a_batch_too_large_is_halved_with_its_numbering(core: ModuleType, codec: int) -> None:
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
    assert (first.attempts, first.created, first.ready, second.ready) == (3, batch.created, True, True)
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
from hot_world import World

class Cycle:
    def __init__(self, action):
        self.me, self.action = self, action
    def __del__(self):
        self.action()

core = importlib.import_module(sys.argv[1])
for threshold in range(1, 60):  # the collector runs at another allocation of the split each time
    world, seen = World(core), []
    handles = [world.send(on_delivery=lambda d: None) for _ in range(4)]
    for handle in handles:
        handle.add_done_callback(lambda d: None)
    (batch,) = world.seal_all()
    gc.collect()
    gc.set_threshold(threshold, 1000, 1000)
    for handle in handles:
        Cycle(lambda: seen.append([h.done() for h in handles]))
    first, second = batch.split()
    gc.set_threshold(700, 10, 10)
    gc.collect()
    assert seen == [[False] * 4] * 4, seen
    assert [len(part.records()) for part in (first, second)] == [2, 2]
    for part in (first, second):
        part.complete(0, -1)()
    assert all(h.settled for h in handles)
print("ok")
"""


def test_destructors_that_look_at_handles_may_run_anywhere_in_a_split(core: ModuleType) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join([str(here.parent.parent), str(here)])
    command = [sys.executable, "-c", DESTRUCTORS, core.__name__]
    # A failure can be an endless loop that reports without end: nothing of that is kept.
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "ok")
