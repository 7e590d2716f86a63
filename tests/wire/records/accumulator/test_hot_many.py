"""Many records in one call: each as by `send`, in order; an error says which were accepted before it."""

from __future__ import annotations

import dataclasses
import gc
import signal
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import BufferFull, ClosedError, RecordTooLarge
from pykafka4.wire.records import reference
from pykafka4.wire.records.policy import Admission, Policy
from tests.wire.records.hot_world import World, each_core, only_compiled, plain_records, wire_bytes


class Column:
    """Like an Arrow array: its own items are no bytes."""

    def __init__(self, items: list[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return iter([object() for _ in self._items])

    def to_pylist(self) -> list[Any]:
        return self._items


def written(world: World) -> list[tuple[Any, ...]]:
    return [record for batch in world.seal_all() for record in plain_records(wire_bytes(batch))]


@each_core
def test_many_records_are_those_of_as_many_sends(core: ModuleType) -> None:
    values, keys = [b"a", "ü", None, bytearray(b"c"), b""], [b"k", None, "l", b"", b"m"]
    one, many = World(core, {"t": 3}), World(core, {"t": 3})
    for value, key in zip(values, keys, strict=True):
        one.send(value=value, key=key, headers=[("h", b"x")], timestamp_ms=5)
    deliveries = many.acc.send_many("t", values, keys=keys, headers=[("h", b"x")], timestamp_ms=5)
    assert [d.partition for d in deliveries] == [0 if key is None else d.partition for key, d in zip(keys, deliveries, strict=True)]
    assert written(many) == written(one)
    assert len(deliveries) == 5
    assert many.acc.accepted == 5


@each_core
@pytest.mark.parametrize(
    "form", [list, tuple, iter, Column, lambda items: (item for item in items), lambda items: dict.fromkeys(items).keys()]
)
def test_values_are_any_iterable(core: ModuleType, form: Callable[[list[Any]], Any]) -> None:
    world = World(core)
    deliveries = world.acc.send_many("t", form([b"a", b"b", b"c"]))
    assert [record[2] for record in written(world)] == [b"a", b"b", b"c"]
    assert [d.partition for d in deliveries] == [0, 0, 0]


@each_core
@pytest.mark.parametrize("wrong", ["text", b"bytes", bytearray(b"b"), memoryview(b"b"), {"a": b"b"}, 5, None])
def test_what_is_no_iterable_of_values_is_refused(core: ModuleType, wrong: Any) -> None:
    world = World(core)
    with pytest.raises(TypeError, match="t: values must be a list or another iterable with a value for each record, not"):
        world.acc.send_many("t", wrong)
    if wrong is not None:
        with pytest.raises(TypeError, match="t: keys must be a list or another iterable with a key for each record, not"):
            world.acc.send_many("t", [b"v"], keys=wrong)
    assert world.acc.accepted == 0


@each_core
def test_keys_of_another_length_are_refused(core: ModuleType) -> None:
    world = World(core)
    with pytest.raises(ValueError, match="t: keys has 1 items, but values has 2"):
        world.acc.send_many("t", [b"a", b"b"], keys=[b"k"])
    assert world.acc.accepted == 0
    with pytest.raises(ValueError, match="t: keys has fewer items than values; keys ended after 1") as caught:
        world.acc.send_many("t", [b"a", b"b"], keys=iter([b"k"]))
    assert len(caught.value.accepted) == world.acc.accepted == 1  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="t: keys has more items than values, which ended after 1") as caught:
        world.acc.send_many("t", iter([b"c"]), keys=[b"k", b"l"])
    assert len(caught.value.accepted) == 1  # type: ignore[attr-defined]
    assert [record[2] for record in written(world)] == [b"a", b"c"]


@each_core
@pytest.mark.parametrize("wrong", [5, b"x" * 1_000_000], ids=["type", "size"])
def test_an_error_says_which_records_were_accepted(core: ModuleType, wrong: Any) -> None:
    world = World(core)
    values = [b"a", b"b", wrong, b"c"]
    with pytest.raises((TypeError, RecordTooLarge)) as caught:
        world.acc.send_many("t", values)
    accepted = caught.value.accepted  # type: ignore[union-attr]
    assert caught.value.__notes__ == [
        "pykafka4: send_many to 't' ended at record 2, counted from 0; the records before it were accepted, "
        "and `accepted` of this exception has their Deliveries"
    ]
    assert len(accepted) == world.acc.accepted == 2
    world.acc.send_many("t", values[len(accepted) + 1 :])
    assert [record[2] for record in written(world)] == [b"a", b"b", b"c"]


@each_core
@pytest.mark.parametrize(
    ("how", "error"),
    [({"partition": -1}, ValueError), ({"timestamp_ms": "x"}, TypeError), ({"headers": 5}, TypeError), ({"on_delivery": 5}, TypeError)],
    ids=str,
)
def test_arguments_for_all_records_are_checked_before_any_is_accepted(core: ModuleType, how: Any, error: type[Exception]) -> None:
    world = World(core)
    with pytest.raises(error):
        world.acc.send_many("t", [], **how)
    with pytest.raises(TypeError, match="topic must be str"):
        world.acc.send_many(5, [])


@each_core
def test_no_room_for_one_of_many(core: ModuleType) -> None:
    world = World(core, buffer_memory=32 * 1024, max_request_size=8 * 1024)
    with pytest.raises(BufferFull) as caught:
        world.acc.send_many("t", [b"v" * 1000] * 100)
    accepted = caught.value.accepted  # type: ignore[attr-defined]
    assert 0 < len(accepted) == world.acc.accepted < 100
    assert world.ack_all() == len(accepted)
    assert [d.result().offset for d in accepted] == list(range(len(accepted)))


@each_core
def test_dropped_records_have_their_deliveries(core: ModuleType) -> None:
    world = World(core, buffer_memory=32 * 1024, max_request_size=8 * 1024, drop_error=BufferFull("full"))
    deliveries = world.acc.send_many("t", [b"v" * 1000] * 100)
    assert len(deliveries) == 100
    assert sum(d.done() for d in deliveries) == world.acc.dropped == 100 - world.acc.accepted > 0


@each_core
def test_a_dropped_record_whose_callback_was_interrupted_is_among_the_accepted(core: ModuleType) -> None:
    def interrupt(callback: Any, delivery: Any) -> None:
        raise KeyboardInterrupt

    world = World(core, buffer_memory=32 * 1024, max_request_size=8 * 1024, drop_error=BufferFull("full"), call_dropped=interrupt)
    with pytest.raises(KeyboardInterrupt) as caught:
        world.acc.send_many("t", [b"v" * 1000] * 100, on_delivery=print)
    accepted = caught.value.accepted  # type: ignore[attr-defined]
    assert len(accepted) == world.acc.accepted + 1
    assert [d.done() for d in accepted[-2:]] == [False, True]
    assert (world.acc.dropped, accepted[-1].exception().code) == (1, "BUFFER_FULL")


@each_core
def test_records_for_an_unknown_topic_are_parked(core: ModuleType) -> None:
    world = World(core, {})
    deliveries = world.acc.send_many("u", [b"a", b"b"])
    assert world.acc.parked("u")[0] == 2
    world.acc.set_partitions("u", 1, [0])
    world.acc.designate("u")
    assert world.ack_all() == 2
    assert [d.result().offset for d in deliveries] == [0, 1]


@each_core
def test_the_topic_may_be_dropped_in_between(core: ModuleType) -> None:
    world = World(core, {"t": 1})

    def values() -> Iterator[bytes]:
        yield b"a"
        world.ack_all()
        assert world.acc.forget("t")
        yield b"b"
        yield b"c"

    world.acc.send_many("t", values())
    assert world.acc.parked("t")[0] == 2
    assert world.new_topics == ["t"]


@each_core
def test_values_may_send_themselves(core: ModuleType) -> None:
    world = World(core)

    def values() -> Iterator[bytes]:
        for n in range(3):
            world.send(value=b"inner %d" % n)
            yield b"outer %d" % n

    world.acc.send_many("t", values())
    assert [record[2] for record in written(world)] == [b"inner 0", b"outer 0", b"inner 1", b"outer 1", b"inner 2", b"outer 2"]


@each_core
def test_the_producer_may_be_closed_in_between(core: ModuleType) -> None:
    world = World(core)

    def values() -> Iterator[bytes]:
        yield b"a"
        world.acc.refusal = ClosedError("closed")
        yield b"b"

    with pytest.raises(ClosedError) as caught:
        world.acc.send_many("t", values())
    assert len(caught.value.accepted) == 1  # type: ignore[attr-defined]


@each_core
def test_ctrl_c_ends_it_between_two_records(core: ModuleType) -> None:
    world = World(core, buffer_memory=1 << 30, max_partition_bytes=1 << 30)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def values() -> Iterator[bytes]:
        for n in range(100_000):
            if n == 10:
                signal.raise_signal(signal.SIGINT)
            yield b"v"

    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            world.acc.send_many("t", values())
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(caught.value.accepted) == world.acc.accepted < 100_000  # type: ignore[attr-defined]


@each_core
def test_a_list_of_values_can_be_interrupted_too(core: ModuleType) -> None:
    values: list[Any] = [b"v"] * 300_000
    interrupted: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("alarm")))
    gc.disable()  # what the alarm raises in a callback of the collector (Hypothesis has one) reaches nobody
    try:
        for _ in range(20):  # the alarm may come before the call begins
            world = World(core, buffer_memory=1 << 30, max_partition_bytes=1 << 30, wall=None)  # no Python code runs per record
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.005)
                world.acc.send_many("t", values)
            except TimeoutError as error:
                interrupted = [len(getattr(error, "accepted", values))]
            if interrupted and interrupted[0] < len(values):
                break
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        gc.enable()
    assert interrupted[0] < len(values)
    assert interrupted[0] - world.acc.accepted in ((0, 1) if core is reference else (0,))  # the plain one may be in the middle of a record


@each_core
def test_a_callback_of_many_records_is_called_for_each(core: ModuleType) -> None:
    world, heard = World(core), []
    world.acc.send_many("t", [b"a", b"b", b"c"], on_delivery=heard.append)
    world.ack_all(offset=7)
    assert [d.result().offset for d in heard] == [7, 8, 9]


@each_core
def test_time_passes_between_many_records(core: ModuleType) -> None:
    world = World(core)

    def values() -> Iterator[bytes]:
        for _ in range(40):
            world.wall_ms += 1
            yield b"v"

    deliveries = world.acc.send_many("t", values())
    assert len({d.timestamp_ms for d in deliveries}) == 40


@each_core
def test_sixteen_records_of_a_list_share_a_reading_of_the_clock(core: ModuleType) -> None:
    only_compiled(core)
    readings = iter(range(100))
    world = World(core, wall=lambda: next(readings))
    deliveries = world.acc.send_many("t", [b"v"] * 40, keys=(b"k",) * 40)
    assert len({d.timestamp_ms for d in deliveries}) == 3
    deliveries = world.acc.send_many("t", [b"v"] * 40, keys=iter([b"k"] * 40))
    assert len({d.timestamp_ms for d in deliveries}) == 40, "each key may come late"


@each_core
def test_the_clock_is_read_again_after_a_wait_for_a_rate_limit(core: ModuleType) -> None:
    def admit(_: float) -> Admission:
        world.wall_ms += 60_000
        return Admission(world.now + 60.0, lambda: None)

    world = World(core, policy=lambda topic: Policy(0.005, admit=admit))
    start = world.wall_ms
    deliveries = world.acc.send_many("t", [b"v"] * 5)
    assert [(d.timestamp_ms - start) // 60_000 for d in deliveries] == [0, 1, 2, 3, 4]


@each_core
def test_a_handle_of_a_batch_hears_its_outcome(core: ModuleType) -> None:
    world, heard = World(core), []
    world.send(value=b"a")
    (batch,) = world.seal_all()
    batch.handle().add_done_callback(lambda delivery: heard.append((delivery.topic, delivery.partition, batch.outcome)))
    batch.finish(-1, -1, -1)
    call = batch.complete(5, -1)
    assert not batch.settled
    call()
    assert heard == [("t", 0, (5, -1, None, None, None))]
    assert batch.settled


@each_core
def test_a_rate_limit_holds_for_each_of_many_records(core: ModuleType) -> None:
    admitted = iter([None, ValueError("over the limit"), None])
    world = World(core, policy=lambda topic: Policy(0.005, admit=lambda _: next(admitted)))
    deliveries = world.acc.send_many("t", [b"a", b"b", b"c"])
    assert [d.done() for d in deliveries] == [False, True, False]
    assert [record[2] for record in written(world)] == [b"a", b"c"]


@each_core
def test_an_exception_of_the_application_that_refuses_notes_is_raised_unchanged(core: ModuleType) -> None:
    @dataclasses.dataclass(frozen=True)
    class Frozen(Exception):
        text: str

    def values() -> Iterator[bytes]:
        yield b"a"
        raise Frozen("mine")

    world = World(core)
    with pytest.raises(Frozen, match="mine"):
        world.acc.send_many("t", values())
    assert world.acc.accepted == 1
