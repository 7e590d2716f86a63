"""Delivery: the outcome of a record, its handle, and its callbacks."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest

from pykafka4.errors import ClosedError, DeliveryFailed, KafkaTimeoutError
from pykafka4.records import ProducerRecord, Written
from tests.wire.records.hot_world import World, each_core

pytestmark = each_core


# ---------------------------------------------------------------- outcomes


def test_acknowledged_records_tell_where_they_lie(core: ModuleType) -> None:
    world = World(core)
    deliveries = [world.send(value=b"value", key=b"k", timestamp_ms=50 + i) for i in range(3)]
    empty = world.send(value=None, timestamp_ms=60)
    assert not deliveries[0].done()
    (batch,) = world.seal_all()
    batch.complete(1000, -1)
    meta = deliveries[2].result()
    assert (meta.topic, meta.partition, meta.offset, meta.timestamp_ms) == ("t", 0, 1002, 52)
    assert (meta.serialized_key_size, meta.serialized_value_size) == (1, 5)
    assert (empty.result().serialized_key_size, empty.result().serialized_value_size) == (-1, -1)
    assert deliveries[0].exception() is None


def test_the_brokers_time_wins_where_it_counts(core: ModuleType) -> None:
    world = World(core)
    delivery = world.send()
    (batch,) = world.seal_all()
    batch.complete(-1, 777)
    assert (delivery.result().offset, delivery.result().timestamp_ms) == (-1, 777)


def test_a_repeated_batch_keeps_its_records_own_times_although_the_broker_tells_its_last_one(core: ModuleType) -> None:
    for attempts, told, wanted in ((2, 52, [50, 51, 52]), (2, 777, [777] * 3), (1, 52, [52] * 3), (2, -1, [50, 51, 52])):
        world = World(core)
        deliveries = [world.send(timestamp_ms=50 + i) for i in range(3)]
        (batch,) = world.seal_all()
        batch.attempts = attempts
        batch.complete(0, told)
        assert [delivery.result().timestamp_ms for delivery in deliveries] == wanted


def test_a_failed_record_comes_back_whole(core: ModuleType) -> None:
    world = World(core)
    world.send(value=b"a")
    delivery = world.send(value=b"b", key="k", headers=[("h", b"1")], timestamp_ms=9)
    (batch,) = world.seal_all()
    cause = RuntimeError("why")
    batch.fail("MESSAGE_TOO_LARGE", Written.MAYBE, cause)
    with pytest.raises(DeliveryFailed, match="t-0: MESSAGE_TOO_LARGE, maybe written") as caught:
        delivery.result()
    error = caught.value
    assert error.record == ProducerRecord("t", b"b", b"k", (("h", b"1"),), 0, 9, Written.MAYBE)
    assert (error.topic, error.partition, repr(error.cause)) == ("t", 0, repr(cause))
    assert [r.value for r in batch.records()] == [b"a", b"b"]
    assert world.acc.reserved == 0


@pytest.mark.parametrize("codec", [0, 1, 4])
def test_records_of_a_failed_compressed_batch_come_back_unpacked(core: ModuleType, codec: int) -> None:
    world = World(core, codec=codec)
    for i in range(10):
        world.send(value=b"%d" % i * 500)
    (batch,) = world.seal_all()
    expected = [b"%d" % i * 500 for i in range(10)]
    assert [r.value for r in batch.records()] == expected
    batch.fail("X", Written.NO, None)
    assert [r.value for r in batch.records()] == expected


def test_an_acknowledged_batch_no_longer_has_records(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    batch.complete(0, -1)
    with pytest.raises(RuntimeError, match="no longer has records"):
        batch.records()


def test_records_before_the_outcome_say_whether_they_may_be_written(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    assert batch.records()[0].written is Written.NO
    batch.written = True
    assert batch.records()[0].written is Written.MAYBE


def test_waiting_for_an_outcome_ends_with_the_time(core: ModuleType) -> None:
    world = World(core, wait=lambda predicate, timeout: False)
    delivery = world.send()
    with pytest.raises(KafkaTimeoutError, match=r"t-0: not acknowledged within 1\.5 s"):
        delivery.result(1.5)
    with pytest.raises(KafkaTimeoutError):
        delivery.exception(timeout=0)


def test_the_ledger_balances(core: ModuleType) -> None:
    world = World(core, {"t": 3})
    for i in range(50):
        world.send(value=b"x" * 900, partition=i % 3)
    world.send("new")
    sealed = world.seal_all()
    sealed[0].fail("X", Written.NO, None)
    sealed[1].complete(0, -1)
    acc = world.acc
    pending = sum(b.count for b in sealed[2:]) + acc.parked_records
    assert acc.accepted == acc.acked + acc.failed + pending == 51


def test_unfinished_is_what_flush_waits_for(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    world.send(partition=0)
    parked = world.send("new")
    pending = world.acc.unfinished()
    assert len(pending) == 2
    assert parked in pending
    assert not any(item.settled for item in pending)
    world.ack_all()
    world.acc.set_partitions("new", 1, [0])
    world.acc.designate("new")
    world.ack_all()
    assert all(item.settled for item in pending)
    assert world.acc.unfinished() == []


# ---------------------------------------------------------------- callbacks


def test_callbacks_run_once_in_order_with_their_delivery(core: ModuleType) -> None:
    world = World(core)
    seen: list[tuple[str, int]] = []
    world.send(value=b"", on_delivery=lambda d: seen.append(("first", d.result().offset)))
    world.send(value=b"")
    third = world.send(value=b"abc", key=b"k", timestamp_ms=7, on_delivery=lambda d: seen.append(("third", d.result().offset)))
    metas: list[Any] = []
    third.add_done_callback(lambda d: metas.append(d.result()))
    (batch,) = world.seal_all()
    callbacks = batch.complete(10, -1)
    assert seen == []
    callbacks()
    callbacks()
    assert seen == [("first", 10), ("third", 12)]
    assert metas == [third.result()]
    assert (metas[0].timestamp_ms, metas[0].serialized_key_size, metas[0].serialized_value_size) == (7, 1, 3)


def test_a_batch_keeps_its_reservation_until_its_callbacks_have_returned(core: ModuleType) -> None:
    world = World(core)
    reserved: list[int] = []
    world.send(on_delivery=lambda d: reserved.append(world.acc.reserved))
    (batch,) = world.seal_all()
    callbacks = batch.complete(0, -1)
    assert batch.done
    assert not batch.settled
    assert world.acc.unfinished() == [batch]
    callbacks()
    assert reserved[0] > 24, "its bytes, too"
    assert batch.settled
    assert (world.acc.reserved, world.acc.unfinished()) == (0, [])


@pytest.mark.parametrize("waiters", [0, 1])
def test_callbacks_that_have_returned_wake_the_loop_only_if_a_thread_waits_for_their_memory(core: ModuleType, waiters: int) -> None:
    world = World(core)
    world.send(on_delivery=lambda d: None)
    (batch,) = world.seal_all()
    callbacks = batch.complete(0, -1)
    world.acc.waiters = waiters
    before = world.wakes
    callbacks()
    assert bool(world.wakes > before) is bool(waiters)


def test_a_callback_that_raises_does_not_stop_the_next(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    world = World(core)
    seen: list[int] = []

    def bad(delivery: object) -> None:
        raise ValueError("bad callback")

    world.send(on_delivery=bad)
    world.send(on_delivery=lambda d: seen.append(1))
    (batch,) = world.seal_all()
    with caplog.at_level(logging.ERROR, "pykafka4"):
        batch.complete(0, -1)()
    assert seen == [1]
    assert batch.settled
    assert "me: the delivery callback" in caplog.text
    assert "bad callback" in caplog.text


def test_a_callback_added_after_the_outcome_runs_on_the_executor(core: ModuleType) -> None:
    world = World(core)
    delivery = world.send()
    world.ack_all()
    seen: list[Any] = []
    delivery.add_done_callback(seen.append)
    assert seen == []
    (job,) = world.submitted
    job()
    assert seen == [delivery]


def test_callbacks_of_failed_records_see_the_failure(core: ModuleType) -> None:
    world = World(core)
    seen: list[Any] = []
    world.send(on_delivery=lambda d: seen.append(d.exception()))
    (batch,) = world.seal_all()
    batch.fail("X", Written.NO, None)()
    assert seen[0].code == "X"


def test_callbacks_may_start_in_the_middle_of_a_batch(core: ModuleType) -> None:
    world = World(core)
    seen: list[int] = []
    for i in range(500):
        world.send(value=b"", on_delivery=(lambda d: seen.append(d.result().offset)) if i % 100 == 99 else None)
    for batch in world.seal_all():
        batch.complete(0, -1)()
    assert seen == [99, 199, 299, 399, 499]


def test_a_delivery_can_be_awaited(core: ModuleType) -> None:
    def awaiting(delivery: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        delivery.add_done_callback(lambda d: future.set_result(d.result()))
        return future.__await__()

    world = World(core, awaiting=awaiting)

    async def main() -> Any:
        delivery = world.send()
        asyncio.get_running_loop().call_soon(world.ack_all, 5)
        return await delivery

    assert asyncio.run(main()).offset == 5


# ---------------------------------------------------------------- errors and the collector


def test_a_handle_of_a_failed_record_is_in_no_cycle_with_its_error(core: ModuleType) -> None:
    class Canary:
        pass

    def fails() -> weakref.ref[Canary]:
        canary, world = Canary(), World(core)
        delivery, parked = world.send(), world.send("unknown")
        error = ClosedError("over")
        world.acc.refusal = error
        (batch,) = world.seal_all()
        batch.fail("CLOSED", Written.NO, error)
        world.acc.fail_parked("unknown", error)
        for handle in (delivery, parked):
            for raising in (lambda handle=handle: handle.result(), world.send, lambda: raised(error)):
                try:
                    raising()
                except (ClosedError, DeliveryFailed):
                    pass
            try:
                raise handle.exception().cause
            except ClosedError:
                pass
        return weakref.ref(canary)

    left = fails()
    gc.collect()
    assert left() is None


def raised(error: BaseException) -> None:
    raise error


def test_what_a_refused_send_raises_is_a_new_error_each_time(core: ModuleType) -> None:
    world = World(core)
    world.acc.refusal = ClosedError("over")
    seen = []
    for _ in range(3):
        with pytest.raises(ClosedError, match="over") as caught:
            world.send()
        seen.append(caught.value)
    assert len({id(error) for error in (*seen, world.acc.refusal)}) == 4
    assert world.acc.refusal.__traceback__ is None


def test_what_a_failed_handle_raises_is_a_new_error_with_a_new_cause_each_time(core: ModuleType) -> None:
    world = World(core)
    delivery = world.send()
    (batch,) = world.seal_all()
    batch.fail("CODE", Written.NO, KeyError("k"))
    one, other = delivery.exception(), delivery.exception()
    assert one is not other
    assert one.cause is not other.cause
    assert repr(one.cause) == repr(other.cause) == "KeyError('k')"


def test_a_cause_that_cannot_be_copied_is_kept_as_it_is(core: ModuleType) -> None:
    class Odd(Exception):
        def __init__(self, one: int, two: int) -> None:
            super().__init__("odd")

    world = World(core)
    delivery = world.send()
    (batch,) = world.seal_all()
    odd = Odd(1, 2)
    batch.fail("CODE", Written.NO, odd)
    assert delivery.exception().cause is odd


async def awaited(delivery: Any) -> None:
    """A callback that nobody would await."""


class Awaited:
    async def __call__(self, delivery: Any) -> None: ...

    async def method(self, delivery: Any) -> None: ...

    @staticmethod
    async def static(delivery: Any) -> None: ...


async def several(delivery: Any) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("wrong", [awaited, Awaited(), Awaited().method, Awaited.static, partial(partial(awaited)), several])
def test_a_coroutine_function_is_refused_as_a_callback(core: ModuleType, wrong: Any) -> None:
    world = World(core)
    delivery = world.send()
    for send in (lambda: world.send(on_delivery=wrong), lambda: world.acc.send_many("t", [b"v"], on_delivery=wrong)):
        with pytest.raises(TypeError, match=r"t: on_delivery is the coroutine function .*, and nobody would await it"):
            send()
    with pytest.raises(TypeError, match="t: a callback is the coroutine function"):
        delivery.add_done_callback(wrong)
    assert world.acc.accepted == 1


def test_whatever_else_can_be_called_is_taken_as_a_callback(core: ModuleType) -> None:
    class Callable:
        def __call__(self, delivery: Any) -> None: ...

        def method(self, delivery: Any) -> None: ...

    world = World(core)
    for callback in (print, [].append, lambda _: None, partial(print), Callable(), Callable().method, Callable, MagicMock()):
        world.send(on_delivery=callback).add_done_callback(callback)
    assert world.ack_all() == 8
