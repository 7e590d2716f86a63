"""Records without room under on_full=drop: counted and reported, and nothing of them is kept."""

from __future__ import annotations

import contextlib
import gc
import inspect
import pickle
import time
import traceback
import tracemalloc
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed
from pykafka4.partitioners import NAMED
from pykafka4.records import Written
from pykafka4.wire.records.policy import Admission, Policy
from tests.wire.records.hot_world import World, compiled, each_core

ROOM = {"buffer_memory": 64 * 1024, "max_partition_bytes": 64 * 1024, "max_request_size": 16 * 1024, "batch_size": 16 * 1024}


def full_world(core: ModuleType, topics: dict[str, int] | None = None, **options: Any) -> World:
    """A world whose buffer is full."""
    world = World(core, topics, **(ROOM | {"drop_error": BufferFull("full")} | options))
    while not world.acc.dropped:
        world.send(value=b"v" * 1000)
    return world


@each_core
def test_a_record_without_room_is_accepted_and_dropped(core: ModuleType) -> None:
    world = full_world(core)
    kept = world.acc.accepted
    delivery = world.send(value=b"v" * 1000)
    assert delivery.done()
    assert delivery.settled
    assert delivery.partition is None
    error = delivery.exception()
    assert isinstance(error, DeliveryFailed)
    assert (error.topic, error.code, error.written, error.record) == ("t", "BUFFER_FULL", Written.NO, None)
    assert "full" in str(error)
    assert delivery.lost() == []
    assert world.asked_for_room == []
    assert world.acc.dropped == 2
    assert world.ack_all() == kept == world.acc.accepted
    assert world.acc.acked == kept
    assert world.acc.failed == 0


@each_core
def test_drops_are_counted_by_partition_with_their_timestamps(core: ModuleType) -> None:
    world = full_world(core, {"t": 2})
    world.send(value=b"v" * 1000, partition=1, timestamp_ms=7)
    world.send(value=b"v" * 1000, partition=1, timestamp_ms=5)
    rows = world.take_dropped()
    assert ("t", 1, "BUFFER_FULL", 2, 5, 7) in rows
    assert sum(row[3] for row in rows) == world.acc.dropped
    assert world.take_dropped() == []
    world.send(value=b"v" * 1000, partition=1, timestamp_ms=6)
    assert world.take_dropped() == [("t", 1, "BUFFER_FULL", 1, 6, 6)]


@each_core
def test_a_full_partition_drops_while_others_take_records(core: ModuleType) -> None:
    world = World(core, {"t": 2}, drop_error=BufferFull("full"), batch_size=2048, max_partition_bytes=4096, linger=10.0)
    world.send(partition=1)
    while not world.acc.dropped:
        world.send(value=b"v" * 1000, partition=0)
    assert world.acc.take(world.now)[1] == []  # a full partition makes no other batch due
    assert world.send(value=b"v" * 1000, partition=1).done() is False


@each_core
def test_a_drop_for_lack_of_memory_makes_open_batches_due(core: ModuleType) -> None:
    world = World(core, {"t": 2}, **ROOM | {"batch_size": 2048}, drop_error=BufferFull("full"), linger=10.0)
    world.send(partition=1)
    while not world.acc.dropped:
        world.send(value=b"v" * 1000, partition=0)
    assert [batch.partition for batch in world.acc.take(world.now)[1]] == [1]
    world.acc.can_send = True
    before = world.wakes
    for _ in range(3):
        world.send(value=b"v" * 1000, partition=0)
    assert world.wakes == before + 1  # once per turn, however many are dropped


@each_core
def test_a_parked_record_without_room_is_dropped(core: ModuleType) -> None:
    world = World(core, {}, **ROOM, drop_error=BufferFull("full"))
    while not world.acc.dropped:
        world.send("unknown", b"v" * 1000)
    kept = world.acc.parked_records
    assert kept == world.acc.accepted
    world.acc.set_partitions("unknown", 1, [0])
    assert world.acc.designate("unknown", 10_000)[0] == 0
    assert world.ack_all() == kept


@each_core
def test_the_callback_of_a_dropped_record_is_called_once(core: ModuleType) -> None:
    calls: list[tuple[Any, Any]] = []
    world = full_world(core, call_dropped=lambda callback, delivery: calls.append((callback, delivery)))
    delivery = world.send(value=b"v" * 1000, on_delivery=print)
    assert calls == [(print, delivery)]
    delivery.add_done_callback(calls.append)
    world.submitted.pop()()
    assert calls[1:] == [delivery]


@each_core
def test_an_interrupt_while_the_callback_is_queued_leaves_a_handle_with_its_outcome(core: ModuleType) -> None:
    queued: list[Any] = []

    def interrupted(callback: Any, delivery: Any) -> None:
        queued.append(delivery)
        raise KeyboardInterrupt

    world = full_world(core, call_dropped=interrupted)
    before = world.acc.accepted, world.acc.dropped
    with pytest.raises(KeyboardInterrupt):
        world.send(value=b"v" * 1000, on_delivery=print)
    (delivery,) = queued
    assert (delivery.topic, delivery.done(), delivery.exception().code) == ("t", True, "BUFFER_FULL")
    assert (world.acc.accepted, world.acc.dropped) == (before[0], before[1] + 1)
    assert sum(row[3] for row in world.take_dropped()) == world.acc.dropped


@each_core
def test_a_handle_of_a_record_that_was_not_accepted_says_so(core: ModuleType) -> None:
    found: list[Any] = []

    def admit(_: float) -> None:
        handles = [o[0] for o in gc.get_objects() if type(o) is list and len(o) == 1 and type(o[0]) is core.Delivery]
        found.extend(handle for handle in handles if handle.timestamp_ms == 7)
        raise ValueError("mine")

    world = World(core, policy=lambda topic: Policy(0.0, admit=admit))
    with pytest.raises(ValueError, match="mine"):
        world.acc.send_many("t", [b"v"], timestamp_ms=7)
    (handle,) = found
    assert handle.timestamp_ms == 7
    assert repr(handle) == "<Delivery of a record that was not accepted>"
    for act in (
        lambda: handle.topic,
        lambda: handle.partition,
        lambda: handle.settled,
        lambda: handle.add_done_callback(print),
        lambda: handle.add_done_callback(5),
        handle.done,
        handle.result,
        handle.exception,
        handle.lost,
        handle.__await__,
    ):
        with pytest.raises(RuntimeError, match="was not accepted"):
            next(iter(act() or ()))


@each_core
def test_a_closed_producer_refuses_instead_of_dropping(core: ModuleType) -> None:
    world = full_world(core)
    world.acc.refusal = ClosedError("closed")
    with pytest.raises(ClosedError):
        world.send(value=b"v" * 1000)


@each_core
def test_drops_keep_no_memory(core: ModuleType) -> None:
    world = full_world(core)
    value = b"v" * 1000
    for _ in range(100):
        world.send(value=value)
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10_000):
            world.send(value=value)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


@each_core
def test_the_first_drop_of_a_topic_is_logged(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    world = full_world(core, {"t": 3})
    for partition in range(3):
        world.send(value=b"v" * 1000, partition=partition)
    assert [record.message for record in caplog.records] == ["me: t: records are dropped: BUFFER_FULL (full); stats() counts them"]


@each_core
def test_with_raise_the_error_comes_at_once_names_the_partition_and_survives_a_copy(core: ModuleType) -> None:
    world = World(core, {"t": 2}, **ROOM, limits="all is used up")
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"v" * 1000, partition=1)
    told = f"all is used up ({world.acc.reserved} bytes in use), t-1 needs 1070 more; on_full=raise"
    with pytest.raises(BufferFull) as caught:
        world.send(value=b"v" * 1000, partition=1)
    assert [str(e) for e in (caught.value, caught.value.again(), pickle.loads(pickle.dumps(caught.value)))] == [told] * 3
    with pytest.raises(BufferFull, match=r"\), t needs"):
        world.send(value=b"v" * 2000)
    assert world.asked_for_room == []
    assert world.ack_all() == world.acc.accepted


@pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
def test_with_raise_the_traceback_has_only_the_applications_frames() -> None:
    assert compiled is not None
    world = World(compiled, {"t": 1}, **ROOM, limits="all is used up")
    send = world.acc.send
    with pytest.raises(BufferFull) as caught:
        for _ in range(100):
            try:
                {}["before"]
            except KeyError:
                send("t", b"v" * 1000)
    frames = [entry.name for entry in traceback.extract_tb(caught.value.__traceback__)]
    assert frames == ["test_with_raise_the_traceback_has_only_the_applications_frames"]
    assert isinstance(caught.value.__context__, KeyError)


@each_core
def test_with_raise_every_way_of_sending_raises(core: ModuleType) -> None:
    given_back: list[bool] = []
    rated = Policy(0.0, admit=lambda deadline: Admission(deadline, lambda: given_back.append(True)))
    usual = Policy(0.0)
    world = World(core, {"t": 1, "rated": 1}, **ROOM, limits="all is used up", policy=lambda name: rated if name == "rated" else usual)
    with pytest.raises(BufferFull) as caught:
        world.acc.send_many("t", [b"v" * 1000] * 100)
    assert len(caught.value.accepted) == world.acc.accepted > 0
    with pytest.raises(BufferFull, match="rated-0 needs"):
        world.send("rated", b"v" * 1000, partition=0)
    with pytest.raises(BufferFull, match=r"\), rated needs"):
        world.send("rated", b"v" * 1000, on_delivery=print)
    with pytest.raises(BufferFull):
        world.send("rated", b"v" * 1000, headers={"a": "b"}, key=b"k")
    assert len(given_back) == 3
    assert world.ack_all() == world.acc.accepted


@each_core
@pytest.mark.parametrize("policy", ["raise", "drop"])
def test_a_record_without_a_partition_is_refused_only_when_all_are_full(core: ModuleType, policy: str) -> None:
    on_full = {"limits": "all is used up"} if policy == "raise" else {"drop_error": BufferFull("full")}
    world = World(core, {"t": 2}, **(ROOM | {"max_partition_bytes": 16 * 1024}), **on_full)
    for _ in range(100):
        with contextlib.suppress(BufferFull):
            world.send(value=b"v" * 1000, partition=0)
    alone = world.acc.accepted
    for _ in range(5):
        world.send(value=b"v" * 1000)
    assert world.acc.accepted == alone + 5
    for _ in range(100):
        with contextlib.suppress(BufferFull):
            world.send(value=b"v" * 1000)
    assert alone + 5 < world.acc.accepted < alone + 100
    assert world.acc.reserved <= 32 * 1024


@each_core
def test_send_shows_its_arguments(core: ModuleType) -> None:
    told = inspect.signature(World(core).acc.send)
    assert [(p.name, p.default, p.kind.name) for p in told.parameters.values()] == [
        ("topic", inspect.Parameter.empty, "POSITIONAL_OR_KEYWORD"),
        ("value", None, "POSITIONAL_OR_KEYWORD"),
        *((name, None, "KEYWORD_ONLY") for name in ("key", "headers", "partition", "timestamp_ms", "on_delivery")),
    ]
    assert "Accept a record" in (core.Accumulator.send.__doc__ or "")


@each_core
def test_each_partition_of_a_topic_has_its_own_drops_whatever_the_order(core: ModuleType) -> None:
    world = full_world(core, {"t": 2, "u": 2})
    before = {row[:2]: row[3] for row in world.take_dropped()}
    assert before
    places = [("t", 0), ("u", 0), ("t", 1), ("t", 1), ("u", 0), ("t", 0), ("t", 0)]
    for name, partition in places:
        world.send(topic=name, value=b"v" * 1000, partition=partition)
    assert {row[:2]: row[3] for row in world.take_dropped()} == {place: places.count(place) for place in places}


@each_core
def test_the_drops_of_a_topic_that_is_forgotten_are_counted_and_then_gone(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    over = Policy(0.0, admit=lambda _: BufferFull("over"))
    world = World(core, {}, policy=lambda topic: over)
    caplog.set_level("ERROR", "pykafka4")
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(3_000):
            world.send(f"t{number}", timestamp_ms=number)
            world.acc.forget(f"t{number}")
        rows = world.take_dropped()
        assert [row[:5] for row in rows] == [(f"t{number}", -1, "RATE_LIMITED", 1, number) for number in range(3_000)]
        assert world.take_dropped() == []
        del rows
        world.new_topics.clear()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()


@each_core
def test_the_first_drop_in_each_of_many_partitions_is_cheap(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    def seconds(partitions: int) -> float:
        world = World(core, {"t": partitions}, policy=lambda topic: Policy(0.0, admit=lambda _: BufferFull("over")))
        start = time.process_time()
        for partition in range(partitions):
            world.send(partition=partition)
            if partition % 100 == 0:
                world.take_dropped()
        return time.process_time() - start

    small = min(seconds(500) for _ in range(3))
    assert seconds(10_000) < 100 * small, "20 if it does not grow with what was dropped before"
    assert len(caplog.records) == 4


@each_core
def test_a_dropped_record_is_counted_in_a_partition_that_exists(core: ModuleType) -> None:
    policy = Policy(0.0, admit=lambda _: BufferFull("over"))
    world = World(core, {"t": 3}, policy=lambda topic: policy)
    with pytest.raises(ValueError, match="partition=77, but the highest partition of the topic is 2"):
        world.send(partition=77)
    keys = World(core, {"t": 3}, policy=lambda topic: policy, partitioner=NAMED["partition_key"])
    for partition in (2**32 - 2, 2**32 - 1, 4):
        delivery = keys.send(partition=partition)
        assert delivery.partition == partition % 3
    assert sorted(row[:4] for row in keys.take_dropped()) == [("t", p, "RATE_LIMITED", 1) for p in range(3)]
    parked = World(core, {}, policy=lambda topic: policy, partitioner=NAMED["partition_key"])
    assert parked.send(partition=2**32 - 2).partition is None
    assert parked.take_dropped()[0][:2] == ("t", -1)
