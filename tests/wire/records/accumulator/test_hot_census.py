"""The census: all records without an outcome, counted at one moment; and the times of parked records that fail."""

from __future__ import annotations

import threading
from contextlib import suppress
from types import ModuleType

from pykafka4.errors import BufferFull
from tests.wire.records.hot_world import World, each_core

pytestmark = each_core


def counted(world: World) -> tuple[int, list[tuple[int, int, bool]], list[tuple[str, int]]]:
    accepted, batches, parked = world.acc.census()
    return accepted, sorted((batch.partition, records, in_flight) for batch, records, in_flight in batches), parked


def test_open_and_sealed_batches_and_parked_records_are_counted(core: ModuleType) -> None:
    world = World(core, {"t": 3})
    for partition, records in ((0, 3), (1, 2)):
        for _ in range(records):
            world.send("t", partition=partition)
    first = world.seal_all()[0]
    first.in_flight = True
    world.send("t", partition=0)
    world.send("new")
    assert counted(world) == (7, [(0, 1, False), (0, 3, True), (1, 2, False)], [("new", 1)])


def test_a_batch_with_an_outcome_is_not_counted_even_if_its_callbacks_have_not_run(core: ModuleType) -> None:
    world = World(core, {"t": 1})
    world.send("t", partition=0, on_delivery=lambda delivery: None)
    (batch,) = world.seal_all()
    batch.compress()
    batch.finish(-1, -1, -1)
    assert batch.complete(0, -1) is not None
    assert not batch.settled
    assert counted(world) == (1, [], [])


def test_of_a_split_batch_its_halves_are_counted(core: ModuleType) -> None:
    world = World(core, {"t": 1})
    for _ in range(5):
        world.send("t", partition=0)
    (batch,) = world.seal_all()
    batch.split()
    assert counted(world) == (5, [(0, 2, False), (0, 3, False)], [])


def test_all_numbers_are_of_one_moment(core: ModuleType) -> None:
    """Threads send all the time; the parts are never more or less than the whole."""
    world, over = World(core, {"t": 4}, lock=threading.RLock()), threading.Event()

    def send(partition: int) -> None:
        with suppress(BufferFull):  # on a fast machine
            while not over.is_set():
                world.send("t", value=b"", partition=partition)

    threads = [threading.Thread(target=send, args=(partition,)) for partition in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(50):
            accepted, batches, _ = world.acc.census()
            assert sum(records for _, records, _ in batches) == accepted
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_batch_tells_its_sizes_and_times(core: ModuleType) -> None:
    world = World(core, {"t": 1})
    for time in (50, 90, 40, 70):
        world.send("t", partition=0, timestamp_ms=time)
    (batch,) = world.seal_all()
    assert (batch.times, batch.raw_size) == ((40, 90), batch.size)


def test_parked_records_that_fail_leave_their_first_and_last_time(core: ModuleType) -> None:
    world = World(core, {})
    for time in (60, 40, 90):
        world.send("new", timestamp_ms=time)
    assert world.acc.lost_times == (-1, -1)
    world.acc.fail_parked("new", ValueError("unknown"))
    assert world.acc.lost_times == (40, 90)
    world.acc.fail_parked("new", ValueError("unknown"))
    assert world.acc.lost_times == (-1, -1)
    world.send("new", partition=7, timestamp_ms=20)
    world.acc.set_partitions("new", 1, [0])
    world.acc.designate("new")
    assert world.acc.lost_times == (20, 20)
