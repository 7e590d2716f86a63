"""Topics that the accumulator keeps nothing of any more: when it may forget one, and what the next record for it meets."""

from __future__ import annotations

from types import ModuleType

import pytest

from pykafka4.records import Written
from tests.wire.records.hot_world import World, each_core

pytestmark = each_core


def test_a_forgotten_topic_is_announced_again_and_its_records_wait_for_partitions(core: ModuleType) -> None:
    world = World(core, {"t": 2, "other": 1})
    world.send("t")
    world.ack_all()
    assert world.acc.forget("t")
    assert not world.acc.forget("t")
    handle = world.send("t", partition=1)
    assert (world.new_topics, world.acc.parked("t")[0], handle.partition) == (["t"], 1, None)
    world.acc.set_partitions("t", 2, [0, 1])
    world.acc.designate("t")
    (batch,) = world.seal_all()
    assert (batch.topic, batch.partition) == ("t", 1)
    assert world.send("other").partition == 0


def test_a_topic_never_heard_of_or_not_known_yet_is_not_forgotten(core: ModuleType) -> None:
    world = World(core)
    assert not world.acc.forget("unknown")
    world.send("unknown")
    assert not world.acc.forget("unknown")
    assert world.acc.parked("unknown")[0] == 1


def test_a_topic_that_never_became_known_is_forgotten_when_its_records_failed(core: ModuleType) -> None:
    world = World(core)
    handle = world.send("unknown", on_delivery=lambda _: None)
    _, callbacks = world.acc.fail_parked("unknown", ValueError("no such topic"))
    assert world.acc.forget("unknown")
    callbacks()
    assert handle.settled
    assert not world.acc.forget("unknown")
    world.send("unknown")
    assert (world.new_topics, world.acc.parked("unknown")[0]) == (["unknown", "unknown"], 1)


@pytest.mark.parametrize("key", [None, b"k"])
def test_a_send_that_waited_for_room_while_its_unknown_topic_was_forgotten_starts_over(core: ModuleType, key: bytes | None) -> None:
    world = World(core, {}, buffer_memory=20_000, max_request_size=20_000)
    world.send("unknown", b"x" * 12_000)

    def room_comes() -> None:
        world.acc.fail_parked("unknown", ValueError("no such topic"))
        assert world.acc.forget("unknown")

    world.on_full = room_comes
    handle = world.send("unknown", b"y" * 12_000, key=key, partition=3)
    assert len(world.asked_for_room) == 1
    assert world.acc.parked("unknown")[0] == 1
    assert world.new_topics[-1] == "unknown"
    world.acc.set_partitions("unknown", 4, range(4))
    world.acc.designate("unknown")
    (batch,) = world.seal_all()
    assert [record.value for record in batch.records()] == [b"y" * 12_000]
    batch.complete(5, -1)
    assert (handle.partition, handle.result(0).offset) == (3, 5)
    assert (world.acc.accepted, world.acc.acked, world.acc.failed, world.acc.reserved) == (2, 1, 1, 0)


def test_a_topic_with_anything_unsettled_is_not_forgotten(core: ModuleType) -> None:
    world = World(core)
    world.send("t", on_delivery=lambda _: None)
    assert not world.acc.forget("t"), "open"
    (batch,) = world.seal_all()
    assert not world.acc.forget("t"), "sealed"
    batch.finish(-1, -1, -1)
    batch.fail("WHY", Written.NO, None)()
    assert world.acc.forget("t")
    assert world.acc.reserved == 0


def test_callbacks_that_have_not_run_keep_a_topic(core: ModuleType) -> None:
    world = World(core)
    world.send("t", on_delivery=lambda _: None)
    (batch,) = world.seal_all()
    callbacks = batch.complete(0, -1)
    assert not world.acc.forget("t")
    callbacks()
    assert world.acc.forget("t")


@pytest.mark.parametrize("key", [None, b"k"])
def test_a_send_that_waited_for_room_while_its_topic_was_forgotten_starts_over(core: ModuleType, key: bytes | None) -> None:
    """What it found before is no longer the topic that the loop knows: a partition of then may not be one of now."""
    world = World(core, {"t": 7}, buffer_memory=20_000, max_request_size=20_000)
    world.send("t", b"x" * 12_000, partition=0)

    def room_comes() -> None:
        world.ack_all()
        assert world.acc.forget("t")

    world.on_full = room_comes
    handle = world.send("t", b"y" * 12_000, key=key)
    assert len(world.asked_for_room) == 1
    assert (world.new_topics, world.acc.parked("t")[0], handle.partition) == (["t"], 1, None)
    world.acc.set_partitions("t", 1, [0])
    world.acc.designate("t")
    (batch,) = world.seal_all()
    assert [record.value for record in batch.records()] == [b"y" * 12_000]
    batch.complete(5, -1)
    assert handle.result(0).offset == 5
    assert (world.acc.accepted, world.acc.acked, world.acc.reserved) == (2, 2, 0)
