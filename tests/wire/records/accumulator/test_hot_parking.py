"""Records of a topic not known yet are parked: they wait, move into batches, or fail, and are bounded."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, KafkaTimeoutError, RecordTooLarge, broker_error
from pykafka4.records import ProducerRecord, Written
from tests.wire.records.hot_world import MIB, World, each_core, plain_records, wire_bytes

pytestmark = each_core


def test_new_topic_may_refuse_a_name(core: ModuleType) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    world = World(core, new_topic=refuse)
    with pytest.raises(ValueError, match="bad name"):
        world.send("bad name")
    assert world.acc.accepted == 0
    world.send("t")


def test_send_does_not_wait_for_metadata(core: ModuleType) -> None:
    world = World(core, {})
    deliveries = [world.send("new", value=b"%d" % i, key=b"k%d" % i, headers={"h": b"1"}) for i in range(10)]
    assert world.new_topics == ["new"]
    assert world.acc.parked("new") == (10, 100.0)
    assert world.acc.parked_records == world.acc.accepted == 10
    assert world.acc.reserved > 10 * 64
    assert deliveries[0].partition is None
    assert not deliveries[0].done()
    assert "waiting for a partition" in repr(deliveries[0])
    world.acc.set_partitions("new", 2, [0, 1])
    assert world.acc.designate("new", 4) == (6, [])
    late = world.send("new", value=b"late", key=b"k0")
    assert late.partition is None
    assert world.acc.designate("new") == (0, [])
    assert world.acc.parked("new") == (0, 0.0)
    assert world.acc.parked_records == 0
    batches = world.seal_all()
    values = {b.partition: [r[2] for r in plain_records(wire_bytes(b))] for b in batches}
    for partition, found in values.items():
        assert found == [b"%d" % i for i in range(10) if (core.murmur2(b"k%d" % i) & 0x7FFFFFFF) % 2 == partition] + (
            [b"late"] if late.partition == partition else []
        )
    assert sum(map(len, values.values())) == world.acc.accepted == 11


def test_a_partition_takes_no_more_through_parking_than_it_may_hold(core: ModuleType) -> None:
    """Else `send` would refill what moves into a partition that is never emptied, up to all of buffer_memory."""
    world = World(core, {}, buffer_memory=4 * MIB, max_partition_bytes=64 * 1024)

    def fill() -> int:
        before = world.acc.accepted
        with pytest.raises(BufferFull):
            while True:
                world.send("new", value=b"x" * 1000, partition=0)
        return int(world.acc.accepted - before)

    assert 40 < fill() < 66
    world.acc.set_partitions("new", 2, [0, 1])
    while world.acc.designate("new", 4)[0]:
        assert fill() == 0
    assert fill() < 20  # the open batch may have room left
    assert world.acc.reserved < 2 * 64 * 1024
    assert world.send("new", value=b"x" * 1000, partition=1).partition == 1


def test_a_topic_that_becomes_known_takes_records_directly(core: ModuleType) -> None:
    world = World(core, {})
    world.send("new")
    world.acc.set_partitions("new", 1, [0])
    world.acc.designate("new")
    assert world.send("new").partition == 0


def test_the_loop_hears_of_a_topic_each_time_records_begin_to_wait(core: ModuleType) -> None:
    world = World(core, {})
    world.send("new")
    world.send("new")
    world.acc.fail_parked("new", ValueError("unknown"))
    world.send("new")
    assert world.new_topics == ["new", "new"]


def test_a_topic_known_while_new_topic_runs_is_not_parked(core: ModuleType) -> None:
    world = World(core, {}, new_topic=lambda name: world.acc.set_partitions(name, 1, [0]))
    assert world.send("new").partition == 0


def test_parked_records_fail_by_age(core: ModuleType) -> None:
    world = World(core, {})
    seen: list[Any] = []
    old = world.send("new", value=b"old", key=b"k", headers={"h": None}, partition=3, on_delivery=seen.append)
    old.add_done_callback(seen.append)
    world.now += 10
    young = world.send("new")
    error = broker_error(3, "new")
    failed, callbacks = world.acc.fail_parked("new", error, world.now - 5)
    assert failed == 1
    assert seen == []
    callbacks()
    assert len(seen) == 2
    assert old.partition is None
    failure = old.exception()
    assert (failure.code, failure.written, repr(failure.cause)) == ("UNKNOWN_TOPIC_OR_PARTITION", Written.NO, repr(error))
    assert failure.record == ProducerRecord("new", b"old", b"k", (("h", None),), 3, world.wall_ms, Written.NO)
    assert not young.done()
    assert world.acc.parked("new") == (1, 110.0)
    assert world.acc.fail_parked("new", KafkaTimeoutError("late"))[0] == 1
    assert young.exception().code == "TIMED_OUT"
    assert (world.acc.failed, world.acc.reserved, world.acc.parked_records) == (2, 0, 0)
    assert world.acc.fail_parked("new", error) == (0, None)
    assert world.acc.fail_parked("never heard of", error) == (0, None)


def test_a_parked_record_for_a_partition_that_is_not_there_fails_alone_and_is_handed_back(core: ModuleType) -> None:
    world = World(core, {})
    seen: list[Any] = []
    good = world.send("new", partition=1)
    bad = world.send("new", partition=2, on_delivery=seen.append)
    worse = world.send("new", partition=99)
    world.acc.set_partitions("new", 2, [0, 1])
    left, misplaced = world.acc.designate("new")
    assert left == 0
    assert [(code, str(error)) for code, error, _ in misplaced] == [
        ("UNKNOWN_TOPIC_OR_PARTITION", "new: partition=2, but the highest partition of the topic is 1"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "new: partition=99, but the highest partition of the topic is 1"),
    ]
    assert good.partition == 1
    for delivery, (code, error, _) in zip((bad, worse), misplaced, strict=True):
        failure = delivery.exception()
        assert (failure.code, repr(failure.cause), failure.written, failure.record.value) == (code, repr(error), Written.NO, b"v")
    assert worse.settled
    assert not bad.settled
    assert not seen
    assert misplaced[1][2] is None
    misplaced[0][2]()
    assert len(seen) == 1
    assert bad.settled
    assert not world.submitted, "whoever called runs the callbacks"
    assert world.ack_all() == 1
    assert (world.acc.failed, world.acc.reserved, world.acc.parked_records) == (2, 0, 0)


def test_callbacks_survive_the_move_into_a_batch(core: ModuleType) -> None:
    world = World(core, {})
    seen: list[Any] = []
    deliveries = [world.send("new", on_delivery=lambda d: seen.append(("on", d.result().offset))) for _ in range(3)]
    deliveries[1].add_done_callback(lambda d: seen.append(("done", d.result().offset)))
    world.acc.set_partitions("new", 1, [0])
    world.acc.designate("new")
    world.ack_all()
    assert seen == [("on", 0), ("on", 1), ("on", 2), ("done", 1)]


def test_parked_records_are_bounded(core: ModuleType) -> None:
    world = World(core, {}, max_partition_bytes=100_000)
    with pytest.raises(BufferFull):
        while True:
            world.send("new", value=b"x" * 1000)
    assert 90_000 < world.acc.reserved <= 100_000
    assert not world.acc.room("new", -1, 2000)
    world.send("other", value=b"x" * 1000)
    with pytest.raises(RecordTooLarge):
        world.send("new", value=b"x" * MIB)


def test_moving_parked_records_never_waits_and_keeps_the_bound(core: ModuleType) -> None:
    world = World(core, {}, buffer_memory=128 * 1024, max_partition_bytes=128 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send("new", value=b"x" * 700)
    asked, count, high = len(world.asked_for_room), world.acc.accepted, 0
    world.acc.set_partitions("new", 3, [0, 1, 2])
    while world.acc.designate("new", 10)[0]:
        high = max(high, world.acc.reserved)
    assert len(world.asked_for_room) == asked
    assert high <= 128 * 1024
    assert world.ack_all() == count
    assert world.acc.reserved == 0


def test_a_batch_of_parked_records_that_fail_is_shown_before_its_outcome(core: ModuleType) -> None:
    told: list[Any] = []

    def watch(batch: Any) -> None:
        batch.handle().add_done_callback(lambda _: told.append((batch.count, [r.value for r in batch.lost()], batch.outcome[2])))

    world = World(core, {})
    world.acc.watch = watch
    heard: list[Any] = []
    deliveries = [world.send("new", value, on_delivery=heard.append) for value in (b"a", b"b")]
    failed, callbacks = world.acc.fail_parked("new", ValueError("mine"))
    assert failed == 2
    assert not any(delivery.settled for delivery in deliveries), "a flush waits"
    callbacks()
    assert told == [(2, [b"a", b"b"], "ValueError")]
    assert heard == deliveries
    assert all(delivery.settled for delivery in deliveries)
    world.send("new", b"c", partition=5)
    world.acc.set_partitions("new", 1, [0])
    ((_, _, callbacks),) = world.acc.designate("new")[1]
    callbacks()
    assert told[1:] == [(1, [b"c"], "UNKNOWN_TOPIC_OR_PARTITION")]
    assert world.acc.reserved == world.acc.batches == 0


def test_a_topic_is_announced_again_if_its_records_have_failed_during_the_announcement(core: ModuleType) -> None:
    """Another thread's record was parked and failed meanwhile: the loop may have forgotten the topic by then."""
    announced = list[str]()

    def announce(name: str) -> None:
        announced.append(name)
        if len(announced) == 1:
            world.send("new", b"of another thread")
            world.acc.fail_parked("new", KafkaTimeoutError("new: no metadata"))

    world = World(core, new_topic=announce)
    world.send("new", b"v")
    assert (announced, world.acc.parked("new")[0]) == (["new"] * 3, 1)
