"""What a closed producer refuses, whatever the send was in the middle of, and what it still finishes."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import ClosedError, ForkedClientError
from pykafka4.wire.records.compression import compress
from tests.wire.records.hot_world import World, each_core

pytestmark = each_core


def test_refusal_is_raised_by_every_send(core: ModuleType) -> None:
    world = World(core)
    world.acc.refusal = ClosedError("closed")
    for _ in range(2):
        with pytest.raises(ClosedError):
            world.send()
    assert world.acc.accepted == 0


def closing(world: World, then: Callable[[], object] = lambda: None) -> Callable[..., Any]:
    """What the core calls outside: meanwhile the producer is closed, and `then` happens."""

    def close(*args: Any) -> Any:
        world.acc.refusal = ClosedError("closed")
        return then()

    return close


@pytest.mark.parametrize("topics", [{"t": 1}, {}], ids=["known", "parked"])
def test_a_send_that_waits_for_room_is_refused_when_the_producer_closes(core: ModuleType, topics: dict[str, int]) -> None:
    world = World(core, topics, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    world.on_full = closing(world, lambda: [world.ack_all(), world.acc.fail_parked("t", ClosedError("closed"))])
    sent = []
    with pytest.raises(ClosedError):
        while True:
            sent.append(world.send("t", b"x" * 5000))
    assert world.asked_for_room, "it waited"
    assert world.acc.accepted == len(sent)
    assert all(delivery.done() for delivery in sent)
    assert world.acc.unfinished() == []
    assert world.acc.take(world.now + 60)[:2] == ([], [])


def test_a_send_that_seals_a_batch_is_refused_when_the_producer_closes_meanwhile(core: ModuleType) -> None:
    world = World(core, codec=3, batch_size=4096, compress=lambda codec, data: closing(world, lambda: compress(codec, data))())
    with pytest.raises(ClosedError):
        while True:
            world.send(value=b"x" * 1000)
    (batch,) = world.seal_all()
    assert batch.count == world.acc.accepted


@pytest.mark.parametrize("topics", [{"t": 1}, {}], ids=["known", "parked"])
def test_a_send_is_refused_when_the_producer_closes_while_it_reads_its_arguments(core: ModuleType, topics: dict[str, int]) -> None:
    world = World(core, topics)

    class Headers(dict[str, bytes]):
        def items(self) -> Any:
            closing(world)()
            return super().items()

    for fill in (False, True):
        if fill:
            world.send()
        with pytest.raises(ClosedError):
            world.send(headers=Headers(h=b"1"))
        assert world.acc.accepted == fill
        world.acc.refusal = None


def test_after_a_fork_no_callback_is_promised_that_cannot_come(core: ModuleType) -> None:
    world = World(core)
    deliveries = [world.send(), world.send("new")]
    world.acc.refusal = ForkedClientError("made in the parent")
    for delivery in deliveries:
        with pytest.raises(ForkedClientError):
            delivery.add_done_callback(print)


def test_records_accepted_before_the_producer_closed_are_still_moved_into_batches(core: ModuleType) -> None:
    world = World(core, {})
    delivery = world.send("new")
    closing(world)()
    world.acc.set_partitions("new", 1, [0])
    assert world.acc.designate("new") == (0, [])
    assert world.ack_all() == 1
    assert delivery.result().offset == 0
