"""Memory: its bounds, the threads that wait for room, and how long a batch's bytes live."""

from __future__ import annotations

import gc
import weakref
from types import ModuleType

import pytest

from pykafka4.core import INFINITY
from pykafka4.errors import BufferFull
from pykafka4.records import Written
from pykafka4.wire.records import reference
from pykafka4.wire.records.policy import Policy
from tests.wire.records.hot_world import MAX_BLOCK, World, each_core, only_compiled, wire_bytes

pytestmark = each_core


# ---------------------------------------------------------------- room


def test_memory_is_reserved_until_the_outcome(core: ModuleType) -> None:
    world = World(core)
    for _ in range(100):
        world.send(value=b"x" * 1000)
    assert world.acc.reserved > 100_000
    assert world.ack_all() == 100
    assert world.acc.reserved == 0
    assert world.acc.batches == 0


def test_callbacks_of_records_count_as_memory_until_they_have_returned(core: ModuleType) -> None:
    world = World(core)
    for _ in range(100):
        world.send(value=b"")
    plain = world.acc.reserved
    for _ in range(100):
        world.send(value=b"", on_delivery=lambda _: None)
    assert world.acc.reserved >= plain + 100 * 24, "references to them and what their handles need"
    world.ack_all()
    assert world.acc.reserved == 0


def test_a_batch_is_full_when_there_is_no_memory_for_more_callbacks(core: ModuleType) -> None:
    for limit in range(16_000, 64_000, 1_500):
        world = World(core, buffer_memory=limit, max_partition_bytes=limit)
        accepted = 0
        with pytest.raises(BufferFull):
            while True:
                world.send(value=b"", on_delivery=lambda _: None)
                accepted += 1
                assert world.acc.reserved <= limit
        assert accepted > limit / 80
        assert world.ack_all() == accepted
        assert world.acc.reserved == 0


def test_parked_records_with_callbacks_stay_within_the_limit_when_they_get_their_partitions(core: ModuleType) -> None:
    world = World(core, buffer_memory=65_536, max_partition_bytes=65_536)
    with pytest.raises(BufferFull):
        for number in range(1_000):
            world.send("new", value=b"", partition=number % 300, on_delivery=lambda _: None)
    world.acc.set_partitions("new", 300, list(range(300)))
    while world.acc.designate("new", 7)[0]:
        assert world.acc.reserved <= 65_536
    assert world.acc.reserved <= 65_536


def test_the_callback_of_a_batchs_first_record_has_to_have_room(core: ModuleType) -> None:
    only_compiled(core)
    world = World(core, {"t": 300}, buffer_memory=65_536, max_partition_bytes=65_536)
    for partition in range(32):
        world.send("t", value=b"", partition=partition)
    assert world.acc.reserved == 65_536
    with pytest.raises(BufferFull):
        world.send("t", value=b"", partition=32, on_delivery=lambda _: None)
    assert world.acc.reserved == 65_536


def test_callbacks_of_a_batch_of_few_records_reserve_no_more_than_it_can_have(core: ModuleType) -> None:
    only_compiled(core)
    world = World(core, policy=lambda _: Policy(linger=0.005, batch_records=2))
    world.send(value=b"", on_delivery=lambda _: None)
    assert world.acc.reserved == 2048 + 2 * 24


def test_halves_of_a_split_batch_reserve_the_memory_of_their_callbacks(core: ModuleType) -> None:
    world = World(core)
    for _ in range(10):
        world.send(value=b"x" * 50, on_delivery=lambda _: None)
    (batch,) = world.seal_all()
    halves = batch.split()
    assert world.acc.reserved == sum(half.size for half in halves) + 10 * 24
    for half in halves:
        callbacks = half.complete(0, -1)
        assert callbacks is not None
        callbacks()
    assert world.acc.reserved == 0


def test_memory_kept_for_later_batches_is_part_of_buffer_memory(core: ModuleType) -> None:
    world = World(core, {"t": 1, "u": 1}, buffer_memory=256 * 1024, max_partition_bytes=256 * 1024)
    limit = 256 * 1024
    world.on_full = world.ack_all
    kept = 0
    for n in range(600):
        world.send(value=b"x" * 5_000)
        kept = max(kept, world.acc.spare_bytes)
        assert world.acc.reserved + world.acc.spare_bytes <= limit
        if n % 7 == 0:
            world.send("u", b"y" * 100)
            assert world.acc.reserved + world.acc.spare_bytes <= limit
    assert kept or core is reference, "blocks are used again"
    world.ack_all()
    world.acc.forget("t")
    world.acc.forget("u")
    assert world.acc.spare_bytes == 0, "an idle producer gives everything back"


def test_blocks_are_used_again_while_callbacks_of_their_batches_still_run(core: ModuleType) -> None:
    only_compiled(core)
    world = World(core, buffer_memory=256 * 1024, max_partition_bytes=256 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 5_000, on_delivery=lambda _: None)
    full = world.acc.reserved
    callbacks = []
    for batch in world.seal_all():
        batch.finish(-1, -1, -1)
        callbacks.append(batch.complete(0, -1))
    assert world.acc.reserved == full, "until the callbacks have returned"
    assert world.acc.spare_bytes == 4 * 16 * 1024, "a quarter of buffer_memory"
    for callback in callbacks:
        callback()
    assert (world.acc.reserved, world.acc.spare_bytes) == (0, 4 * 16 * 1024)


def test_parked_records_take_memory_that_was_kept_for_later_batches(core: ModuleType) -> None:
    world = World(core, buffer_memory=256 * 1024, max_partition_bytes=256 * 1024)
    world.on_full = world.ack_all
    for _ in range(100):
        world.send(value=b"x" * 5_000)
    world.ack_all()
    with pytest.raises(BufferFull):
        world.on_full = None
        while True:
            world.send("unknown", b"x" * 5_000)
    assert 200 * 1024 < world.acc.reserved + world.acc.spare_bytes <= 256 * 1024


def test_a_full_buffer_asks_for_room_and_goes_on_when_there_is_some(core: ModuleType) -> None:
    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    world.on_full = world.ack_all
    deliveries = [world.send(value=b"x" * 1000) for _ in range(300)]
    assert world.asked_for_room
    assert all(topic == "t" and partition == -1 for topic, partition, _ in world.asked_for_room)
    world.ack_all()
    assert all(d.done() for d in deliveries)
    assert world.acc.reserved == 0


@pytest.mark.parametrize("known", [True, False], ids=["partitions known", "partitions unknown"])
def test_a_record_that_waits_for_room_several_times_keeps_its_first_deadline(core: ModuleType, known: bool) -> None:
    world = World(core, {"t": 1} if known else {}, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000)
    first = world.now + MAX_BLOCK
    world.deadlines.clear()

    def taken_by_another_thread() -> None:
        world.now += 10
        if len(world.deadlines) == 4:
            raise BufferFull("no room in time")

    world.on_full = taken_by_another_thread
    with pytest.raises(BufferFull):
        world.send(value=b"x" * 1000)
    assert world.deadlines == [INFINITY, first, first, first]


def test_each_record_has_a_deadline_of_its_own(core: ModuleType) -> None:
    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    world.on_full = world.ack_all
    while len(world.deadlines) < 3:
        world.send(value=b"x" * 1000)
        world.now += 1
    assert world.deadlines == [INFINITY] * 3


def test_waiting_for_a_partition_and_then_for_room_share_a_deadline(core: ModuleType) -> None:
    def find_partition(topic: str, partition: int, deadline: float) -> float:
        world.acc.set_partitions(topic, 2, range(2))
        return min(deadline, 123.0)

    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024, find_partition=find_partition)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000)
    with pytest.raises(BufferFull):
        world.send(value=b"x" * 50_000, partition=1)
    assert world.deadlines[-1] == 123.0


def test_reserved_never_passes_the_bound(core: ModuleType) -> None:
    world = World(core, {"t": 5}, buffer_memory=64 * 1024, max_partition_bytes=32 * 1024)
    high = 0

    def make_room() -> None:
        nonlocal high
        high = max(high, world.acc.reserved)
        world.ack_all()

    world.on_full = make_room
    for i in range(500):
        world.send(value=b"x" * (i * 37 % 3000), partition=i % 5)
        high = max(high, world.acc.reserved)
    assert 48 * 1024 < high <= 64 * 1024


def test_a_full_buffer_that_gets_no_room_raises_and_accepts_nothing(core: ModuleType) -> None:
    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        for _ in range(300):
            world.send(value=b"x" * 1000)
    accepted = world.acc.accepted
    assert world.ack_all() == accepted


def test_room_says_whether_a_retry_would_succeed(core: ModuleType) -> None:
    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000)
    topic, partition, size = world.asked_for_room[-1]
    assert not world.acc.room(topic, partition, size)
    world.ack_all()
    assert world.acc.room(topic, partition, size)


def test_one_full_partition_leaves_the_others_alone(core: ModuleType) -> None:
    world = World(core, {"t": 2}, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000, partition=0)
    assert world.asked_for_room[-1][:2] == ("t", 0)
    assert not world.acc.room("t", 0, 4096)
    assert world.acc.room("t", 1, 4096)
    assert world.acc.crowded("t", 0, 4096)
    assert not world.acc.crowded("t", 1, 4096)
    assert not world.acc.crowded("t", -1, 4096), "a record without a partition goes to the other one"
    world.send(value=b"x" * 1000, partition=1)
    world.send(value=b"x" * 1000)


def test_a_full_buffer_is_no_obstacle_of_one_partition(core: ModuleType) -> None:
    world = World(core, {"t": 2}, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000)
    assert not world.acc.room("t", -1, 4096)
    assert not world.acc.crowded("t", -1, 4096)


def test_records_without_key_leave_a_full_partition(core: ModuleType) -> None:
    world = World(core, {"t": 2}, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000, partition=0)
    for _ in range(40):
        assert world.send(value=b"x" * 1000).partition == 1


def test_a_record_without_key_goes_to_the_partition_that_has_room_for_it(core: ModuleType) -> None:
    world = World(core, {"t": 2}, batch_size=8_192, max_partition_bytes=16_384)
    assert world.send(value=b"x" * 12_000).partition == 0
    assert world.send(value=b"x" * 9_000).partition == 1
    world.seal_all()
    assert world.acc.room("t", -1, 6_100)
    assert world.send(value=b"x" * 6_000).partition == 1, "the other one has room for a small batch only"
    assert world.asked_for_room == []


@pytest.mark.parametrize("partition", [2, 1_000])
def test_a_partition_that_does_not_exist_is_not_full(core: ModuleType, partition: int) -> None:
    world = World(core, {"t": 2}, max_partition_bytes=4_096)
    for known in (0, 1):
        world.send(value=b"x" * 4_000, partition=known)
    assert world.acc.crowded("t", -1, 4_096)
    assert not world.acc.crowded("t", partition, 4_096)


def test_a_partition_takes_one_batch_whatever_its_bound(core: ModuleType) -> None:
    world = World(core, max_partition_bytes=4096)
    world.send(value=b"x" * 100_000)
    with pytest.raises(BufferFull):
        world.send(value=b"x" * 100_000)
    world.ack_all()
    world.send(value=b"x" * 100_000)


def test_new_threads_queue_behind_waiting_ones(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    world.acc.waiters = 1
    with pytest.raises(BufferFull):
        world.send(partition=0)
    world.on_full = lambda: None
    world.send(partition=0)
    assert len(world.asked_for_room) == 2
    world.send(partition=0)
    assert len(world.asked_for_room) == 2


@pytest.mark.parametrize("partition", [0, None])
def test_only_threads_for_the_same_full_partition_queue_behind_its_waiters(core: ModuleType, partition: int | None) -> None:
    world = World(core, {"t": 2})
    world.acc.waiters, world.acc.full_partitions = 1, frozenset({("t", -1 if partition is None else partition)})
    world.send(partition=1)
    world.send(topic="u", partition=partition)  # its partitions are not known yet
    assert world.asked_for_room == []
    world.acc.full_partitions = frozenset({("u", -1 if partition is None else partition), *world.acc.full_partitions})
    for topic in ("t", "u"):
        with pytest.raises(BufferFull):
            world.send(topic=topic, partition=partition)
    world.acc.full_partitions = None  # one of them waits for memory
    for topic in ("t", "v"):
        with pytest.raises(BufferFull):
            world.send(topic=topic, partition=0)


def test_freed_memory_wakes_the_loop_while_a_thread_waits_for_room(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    before = world.wakes
    world.acc.waiters = 1
    batch.complete(0, -1)
    assert world.wakes > before


# ---------------------------------------------------------------- lifetime of the bytes


def test_exported_bytes_outlive_the_outcome_and_are_never_written_again(core: ModuleType) -> None:
    only_compiled(core)
    world = World(core)
    world.send(value=b"first" * 100)
    (batch,) = world.seal_all()
    data = wire_bytes(batch)
    held = memoryview(batch)
    batch.fail("DELIVERY_TIMEOUT", Written.MAYBE, None)
    assert world.acc.reserved > 0
    for _ in range(20):
        world.send(value=b"other" * 400)
        world.ack_all()
    assert bytes(held) == data
    held.release()
    assert world.acc.reserved == 0


def test_slices_of_a_batch_keep_its_bytes(core: ModuleType) -> None:
    world = World(core)
    world.send(value=b"x" * 1000)
    (batch,) = world.seal_all()
    data = wire_bytes(batch)
    rest = memoryview(batch)[50:]
    batch.complete(0, -1)
    del batch
    gc.collect()
    for _ in range(20):
        world.send(value=b"y" * 1000)
    assert bytes(rest) == data[50:]
    rest.release()


def test_a_kept_delivery_does_not_keep_the_bytes(core: ModuleType) -> None:
    world = World(core)
    kept = [world.send(value=b"x" * 1000) for _ in range(100)]
    world.ack_all()
    assert world.acc.reserved == 0
    assert kept[7].result().offset == 7


def test_an_accumulator_with_open_batches_can_be_collected(core: ModuleType) -> None:
    owner = World(core)  # something to watch: the accumulator refers to it through its callables
    gone = weakref.ref(owner)
    owner.send()
    batch = next(iter(owner.acc.unfinished()))
    batch.last_error = owner
    del owner, batch
    gc.collect()
    assert gone() is None
