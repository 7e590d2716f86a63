"""The handle of many rows, and calls that end early: every accepted row has one outcome, by its number."""

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed, KafkaTimeoutError, RecordTooLarge
from pykafka4.partitioners import NAMED
from pykafka4.records import Written
from pykafka4.wire.records.policy import Admission, Policy
from tests.wire.records.columns.sending import NOW, values
from tests.wire.records.hot_world import MIB, World, compiled, each_core, plain_records, wire_bytes


def table(*cells: Any, **columns: Any) -> Any:
    return pa.table({"value": list(cells)} | columns)


def send(world: World, core: ModuleType, data: Any) -> Any:
    return world.acc.send_rows(core.ArrowRows("t", data))


@each_core
def test_rows_are_acknowledged(core: ModuleType) -> None:
    world = World(core, {"t": 3}, batch_size=200)
    handle = send(world, core, table(*["v" * 50] * 40, key=[str(i) for i in range(40)]))
    assert (len(handle), handle.topic, handle.done(), handle.acked) == (40, "t", False, 0)
    assert repr(handle) == "<SentRows of 40 rows to t>"
    world.ack_all()
    assert (handle.done(), handle.acked, handle.failures(), handle.exception(0), handle.result(0)) == (True, 40, {}, None, 40)
    assert (world.acc.accepted, world.acc.acked) == (40, 40)


@each_core
def test_failed_rows_have_their_numbers_and_records(core: ModuleType) -> None:
    world = World(core, {"t": 3})
    handle = send(world, core, table(*[f"v{i}" for i in range(30)], partition=[i % 3 for i in range(30)]))
    for batch in world.seal_all():
        if batch.partition == 1:
            batch.fail("WHY", Written.MAYBE, None)
        else:
            batch.finish(-1, -1, -1)
            batch.complete(0, -1)
    failures = handle.failures()
    assert list(failures) == list(range(1, 30, 3))
    assert all(isinstance(error, DeliveryFailed) for error in failures.values())
    assert [error.record.value for error in failures.values()] == [b"v%d" % i for i in failures]
    assert (handle.done(), handle.acked) == (True, 20)


@each_core
def test_rows_beside_those_of_others_in_a_batch(core: ModuleType) -> None:
    world = World(core)
    world.send(value=b"other")
    first = send(world, core, table("a", "b"))
    world.send(value=b"other")
    second = send(world, core, table("c"))
    (batch,) = world.seal_all()
    batch.fail("WHY", Written.NO, None)
    assert [(row, error.record.value) for row, error in first.failures().items()] == [(0, b"a"), (1, b"b")]
    assert [(row, error.record.value) for row, error in second.failures().items()] == [(0, b"c")]


@each_core
def test_a_batch_that_is_split(core: ModuleType) -> None:
    world = World(core)
    handle = send(world, core, table(*"abcde"))
    (batch,) = world.seal_all()
    one, other = batch.split()
    assert not handle.done()
    one.finish(-1, -1, -1)
    one.complete(0, -1)
    assert handle.acked == 0
    assert (handle.done(), handle.acked) == (False, 3)
    with pytest.raises(KafkaTimeoutError, match="2 of 5 rows not acknowledged"):
        handle.result(0)
    other.fail("WHY", Written.NO, None)
    assert handle.done()
    assert [(row, error.record.value) for row, error in handle.failures().items()] == [(3, b"d"), (4, b"e")]
    assert handle.acked == 3


@each_core
def test_rows_that_failed_since_the_last_look_do_not_count_as_acknowledged_or_twice(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    handle = send(world, core, table("a", "b", partition=[0, 1]))
    one, other = world.seal_all()
    one.finish(-1, -1, -1)
    one.complete(0, -1)
    assert not handle.done()
    other.fail("WHY", Written.NO, None)
    assert handle.acked == 1
    assert (handle.done(), handle.acked) == (True, 1)


@each_core
def test_many_batches_are_forgotten_once_they_are_acknowledged(core: ModuleType) -> None:
    world = World(core, batch_size=128)
    cells = [b"%03d" % i * 20 for i in range(400)]

    def relieve() -> None:
        for batch in world.acc.take(world.now)[0]:
            batch.finish(-1, -1, -1)
            batch.complete(0, -1)

    world.on_full = relieve
    world.acc.set_partitions("t", 2, range(2))
    handle = send(world, core, table(*cells))
    (*_, last) = world.seal_all()
    last.fail("WHY", Written.NO, None)
    world.ack_all()
    for batch in world.acc.unfinished():
        batch.finish(-1, -1, -1)
        batch.complete(0, -1)
    assert [error.record.value for error in handle.failures().values()] == [cells[row] for row in handle.failures()]


@each_core
def test_rows_of_a_topic_that_is_not_known_yet(core: ModuleType) -> None:
    world = World(core, {})
    handle = send(world, core, table("a", "b", "c", key=["k", None, "k"]))
    assert (world.new_topics, len(handle), handle.done()) == (["t"], 3, False)
    world.acc.set_partitions("t", 1, range(1))
    world.acc.designate("t")
    assert not handle.done()
    assert world.ack_all() == 3
    assert (handle.done(), handle.acked) == (True, 3)
    lost = World(core, {})
    handle = send(lost, core, table("a", "b"))
    lost.acc.fail_parked("t", KafkaTimeoutError("no topic"))
    assert (handle.done(), list(handle.failures())) == (True, [0, 1])


@each_core
@pytest.mark.parametrize("name", ["late", "round_robin", "consistent", "fnv1a"])
def test_other_partitioners(core: ModuleType, name: str) -> None:
    one, other = (World(core, {"t": 3}, partitioner=NAMED[name]) for _ in range(2))
    keys = [None if i % 3 else b"%d" % i for i in range(20)]
    send(one, core, pa.table({"value": ["v"] * 20, "key": pa.array(keys, pa.binary())}))
    for key in keys:
        other.send(value=b"v", key=key)
    assert [plain_records(wire_bytes(b)) for b in one.seal_all()] == [plain_records(wire_bytes(b)) for b in other.seal_all()]


@each_core
def test_a_row_that_is_too_large_ends_the_call_at_its_number(core: ModuleType) -> None:
    world = World(core, max_request_size=1000, batch_size=500)
    rows = core.ArrowRows("t", table("a", "b", "x" * 2000, "d"))
    for _ in range(2):
        with pytest.raises(RecordTooLarge) as caught:
            world.acc.send_rows(rows)
        assert rows.position == 2
        (found,) = [text for text in caught.value.__notes__ if text.startswith("pykafka4: send_arrow")]
        assert "ended at row 2, counted from 0" in found
    assert (world.acc.accepted, len(caught.value.accepted)) == (2, 0)  # type: ignore[attr-defined]


@each_core
def test_a_call_that_found_no_room_goes_on_with_the_next_row(core: ModuleType) -> None:
    world = World(core, buffer_memory=4096, max_partition_bytes=4096, max_request_size=2048, batch_size=1024)
    rows, seen, handles = core.ArrowRows("t", table(*[f"{i:03}" * 50 for i in range(100)])), [], []
    for _ in range(100):
        try:
            handles.append(world.acc.send_rows(rows))
            break
        except BufferFull as error:
            handles.append(error.accepted)  # type: ignore[attr-defined]
        for batch in world.seal_all():
            seen += [record[1] if record[2] is None else record[2] for record in plain_records(wire_bytes(batch))]
            batch.fail("WHY", Written.NO, None) if len(seen) == 20 else batch.complete(0, -1)
    world.ack_all()
    assert sum(map(len, handles)) == world.acc.accepted == rows.position == 100
    assert len(handles) > 2
    assert all(handle.done() for handle in handles)
    for handle in handles:
        assert all(error.record.value == b"%03d" % row * 50 for row, error in handle.failures().items())


@each_core
def test_dropped_rows_have_failed_at_once(core: ModuleType) -> None:
    full = BufferFull("full")
    world = World(core, buffer_memory=2048, max_partition_bytes=2048, max_request_size=1024, batch_size=1024, drop_error=full)
    handle = send(world, core, table(*["v" * 100] * 50))
    world.ack_all()
    failures = handle.failures()
    assert 0 < len(failures) == world.acc.dropped < 50
    assert [error.code for error in failures.values()] == ["BUFFER_FULL"] * len(failures)
    assert (handle.done(), handle.acked) == (True, 50 - len(failures))


@each_core
def test_the_rate_limit_of_a_topic_lets_each_row_pass(core: ModuleType) -> None:
    asked: list[float] = []

    def admit(deadline: float) -> Any:
        asked.append(deadline)
        return Admission(deadline, lambda: None) if len(asked) != 3 else BufferFull("limited")

    world = World(core, {"t": 1}, policy=lambda topic: Policy(0.0, 0, admit=admit))
    handle = send(world, core, table(*"abcd"))
    assert len(asked) == 4
    assert world.ack_all() == 3
    assert {row: error.code for row, error in handle.failures().items()} == {2: "RATE_LIMITED"}


@each_core
def test_a_closed_producer_takes_no_rows(core: ModuleType) -> None:
    world = World(core)
    world.acc.refusal = ClosedError("closed")
    rows = core.ArrowRows("t", table("a"))
    with pytest.raises(ClosedError):
        world.acc.send_rows(rows)
    assert rows.position == 0


@each_core
def test_waiting_ends_with_the_time(core: ModuleType) -> None:
    world = World(core)
    handle = send(world, core, table("a"))
    with pytest.raises(KafkaTimeoutError, match=r"t: 1 of 1 rows not acknowledged within 0.5 s"):
        handle.result(0.5)


@each_core
def test_rows_are_sent_by_one_call_at_a_time(core: ModuleType) -> None:
    seen: list[str] = []

    def again() -> Any:
        with pytest.raises(RuntimeError) as caught:
            world.acc.send_rows(rows)
        seen.append(str(caught.value))
        return NOW

    world = World(core, wall=again)
    rows = core.ArrowRows("t", table("a"))
    world.acc.send_rows(rows)
    assert seen == ["t: these rows are being sent already"]
    assert len(world.acc.send_rows(rows)) == 0, "nothing is left"


@each_core
def test_an_interrupt_after_a_row_was_accepted(core: ModuleType) -> None:
    world = World(core)
    rows, interrupts = core.ArrowRows("t", table("a", "b")), [KeyboardInterrupt]

    def wake() -> None:
        if interrupts:
            raise interrupts.pop()

    stopped = World(core, wake=wake)
    with pytest.raises(KeyboardInterrupt) as caught:
        stopped.acc.send_rows(rows)
    assert rows.position == stopped.acc.accepted == len(caught.value.accepted)  # type: ignore[attr-defined]
    stopped.acc.send_rows(rows)
    assert stopped.acc.accepted == 2
    assert values(core, table("a")) == [b"a"]
    assert world.acc.accepted == 0


def test_only_the_accumulator_makes_handles() -> None:
    if compiled is None:
        pytest.skip("the compiled core is not built")
    with pytest.raises(TypeError, match=r"cannot create .*SentRows' instances"):
        compiled.SentRows()


@each_core
@pytest.mark.parametrize("seed", range(8))
def test_rows_make_the_batches_that_send_makes(core: ModuleType, seed: int) -> None:
    """Whether a row goes the short way into an open batch or the long one cannot be told from the batches."""
    dice = random.Random(seed)
    count, size = 400, dice.choice([300, 1_000, 16_384])
    one, other = (World(core, {"t": 3}, batch_size=size, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB) for _ in range(2))
    rows = [
        (
            dice.choice([None, b"", b"k%d" % dice.randrange(50)]),
            dice.choice([None, b"", b"v" * dice.randrange(40), b"w" * dice.choice([10, size + 50])]),
            dice.choice([None, NOW + dice.randrange(-(10**9), 10**9)]),
            dice.choice([None, None, dice.randrange(3)]),
            [("h", dice.choice([None, b"x" * dice.randrange(90)]))] * dice.randrange(3),
        )
        for _ in range(count)
    ]
    keys, cells, times, partitions, headers = zip(*rows, strict=True)
    pairs = pa.array(
        [[{"key": k, "value": v} for k, v in each] for each in headers], pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))
    )
    data = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(cells, pa.binary()),
        "timestamp": pa.array(times, pa.int64()),
        "partition": pa.array(partitions, pa.int8()),
        "headers": pairs,
    }
    handle = send(one, core, pa.table(data))
    for key, cell, timestamp, partition, each in rows:
        other.send(value=cell, key=key, timestamp_ms=timestamp, partition=partition, headers=each)
    made, expected = ([(b.partition, plain_records(wire_bytes(b))) for b in world.seal_all()] for world in (one, other))
    assert made == expected
    assert (one.acc.accepted, one.acc.reserved) == (count, other.acc.reserved)
    assert len(handle) == count
