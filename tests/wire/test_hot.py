"""The accumulator, its batches and handles: the same promises of both implementations."""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hot_world import IMPLEMENTATIONS, MIB, World, compiled, name_of, plain_records, wire_bytes

from pykafka4.error_table import Written
from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed, ForkedClientError, KafkaTimeoutError, RecordTooLarge, broker_error
from pykafka4.records import ProducerRecord
from pykafka4.wire import hot
from pykafka4.wire.batch import HEADER_SIZE, read_header, varint
from pykafka4.wire.compression import compress

pytestmark = pytest.mark.parametrize("core", IMPLEMENTATIONS, ids=name_of)

JAVA_HASHES = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def sized(total: int) -> bytes:
    """A value whose batch of one record takes `total` bytes, or one less where no value gives that."""
    for size in range(total - HEADER_SIZE - 6, 0, -1):
        body = 6 + len(varint(size)) - 1 + size
        if HEADER_SIZE + len(varint(body)) + body <= total:
            return b"x" * size
    raise ValueError(total)


# ---------------------------------------------------------------- hashes


@pytest.mark.parametrize(("key", "hashed"), JAVA_HASHES.items())
def test_murmur2_is_that_of_the_java_client(core: ModuleType, key: bytes, hashed: int) -> None:
    assert core.murmur2(key) == hashed
    assert core.murmur2(memoryview(bytearray(key))) == hashed


def test_crc32c_is_castagnoli_and_goes_on_from_a_value(core: ModuleType) -> None:
    assert core.crc32c(b"123456789") == 0xE3069283
    assert core.crc32c(b"") == 0
    data = bytes(range(256)) * 200
    for cut in (0, 1, 7, 8, 4095, 12288, 24577, len(data)):
        assert core.crc32c(data[cut:], core.crc32c(data[:cut])) == core.crc32c(data)


# ---------------------------------------------------------------- what goes in


def test_every_kind_of_value_is_taken_as_its_bytes(core: ModuleType) -> None:
    world = World(core)
    values = [b"bytes", "téxt", bytearray(b"array"), memoryview(b"view"), None, b""]
    for value in values:
        world.send(value=value, key=value)
    expected = [b"bytes", "téxt".encode(), b"array", b"view", None, b""]
    (batch,) = world.seal_all()
    assert [(r[1], r[2]) for r in plain_records(wire_bytes(batch))] == list(zip(expected, expected, strict=True))


@pytest.mark.parametrize("value", [1, 1.5, object(), ["list"], {"a": 1}, memoryview(b"abcdef")[::2]])
@pytest.mark.parametrize("argument", ["value", "key"])
def test_what_is_no_bytes_is_a_type_error_naming_topic_and_argument(core: ModuleType, argument: str, value: object) -> None:
    world = World(core, {"orders": 1})
    with pytest.raises(TypeError, match=f"orders: {argument} must be"):
        world.send("orders", **({"value": value} if argument == "value" else {"key": value}))
    assert world.acc.accepted == 0


@pytest.mark.parametrize(
    "headers",
    [
        [("a", b"1"), ("b", None), ("c", "text"), ("a", bytearray(b"2"))],
        (("a", b"1"), ("b", None), ["c", b"text"], ("a", b"2")),
        deque([("a", b"1"), ("b", None), ("c", b"text"), ("a", memoryview(b"2"))]),
    ],
)
def test_headers_keep_order_and_repetition(core: ModuleType, headers: Any) -> None:
    world = World(core)
    world.send(headers=headers)
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][3] == (("a", b"1"), ("b", None), ("c", b"text"), ("a", b"2"))


def test_headers_may_be_a_mapping(core: ModuleType) -> None:
    world = World(core)
    world.send(headers={"schlüssel": b"1", "b": None})
    (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][3] == (("schlüssel", b"1"), ("b", None))


@pytest.mark.parametrize("headers", [5, "ab", b"ab", ["ab"], [("a",)], [("a", b"1", b"2")], [(None, b"1")], [(b"a", b"1")], [("a", 5)]])
def test_bad_headers_are_a_type_error_naming_the_topic(core: ModuleType, headers: Any) -> None:
    world = World(core, {"orders": 1})
    with pytest.raises(TypeError, match="orders: "):
        world.send("orders", headers=headers)


def test_lone_surrogates_are_refused(core: ModuleType) -> None:
    with pytest.raises(UnicodeEncodeError):
        World(core).send(value="\ud800")


@pytest.mark.parametrize(
    ("partition", "error"), [(-1, ValueError), (3, ValueError), (2**40, ValueError), (2**80, ValueError), ("0", TypeError)]
)
def test_a_partition_that_cannot_be_is_refused_with_its_value(core: ModuleType, partition: Any, error: type[Exception]) -> None:
    world = World(core, {"orders": 3})
    with pytest.raises(error, match=f"orders.*{partition}" if error is ValueError else "orders"):
        world.send("orders", partition=partition)


@pytest.mark.parametrize(("timestamp", "error"), [(-1, ValueError), (2**63, ValueError), (1.5, TypeError)])
def test_a_timestamp_that_cannot_be_is_refused(core: ModuleType, timestamp: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="t: timestamp_ms"):
        World(core).send(timestamp_ms=timestamp)


def test_a_callback_that_cannot_be_called_is_refused(core: ModuleType) -> None:
    with pytest.raises(TypeError, match="t: on_delivery"):
        World(core).send(on_delivery=5)


def test_a_topic_must_be_text(core: ModuleType) -> None:
    with pytest.raises(TypeError, match="topic must be str, not bytes"):
        World(core).send(b"t")


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
    assert world.begged, "it waited"
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


def test_a_partition_that_is_not_known_is_looked_for_before_it_is_refused(core: ModuleType) -> None:
    sought: list[tuple[str, int]] = []

    def seek(topic: str, partition: int) -> None:
        sought.append((topic, partition))
        if partition == 2:
            world.acc.set_partitions(topic, 3, range(3))

    world = World(core, {"t": 2}, seek=seek)
    assert world.send(partition=1).partition == 1
    assert world.send(partition=2).partition == 2
    with pytest.raises(ValueError, match="partition=3 but the topic has 3 partitions"):
        world.send(partition=3)
    assert sought == [("t", 2), ("t", 3)]
    assert world.acc.accepted == 2


def test_new_topic_may_refuse_a_name(core: ModuleType) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    world = World(core, new_topic=refuse)
    with pytest.raises(ValueError, match="bad name"):
        world.send("bad name")
    assert world.acc.accepted == 0
    world.send("t")


# ---------------------------------------------------------------- where it goes


def test_keys_choose_partitions_as_in_java(core: ModuleType) -> None:
    world = World(core, {"t": 7})
    for key, hashed in JAVA_HASHES.items():
        assert world.send(key=key).partition == (hashed & 0x7FFFFFFF) % 7


def test_an_explicit_partition_wins_over_the_key(core: ModuleType) -> None:
    assert World(core, {"t": 7}).send(key=b"abc", partition=5).partition == 5


def test_records_without_key_stick_to_a_partition_until_it_has_had_a_batch(core: ModuleType) -> None:
    world = World(core, {"t": 3})
    partitions = [world.send(value=b"x" * 1000).partition for _ in range(60)]
    runs = [p for i, p in enumerate(partitions) if i == 0 or partitions[i - 1] != p]
    assert len(runs) == 4
    assert set(runs) == {0, 1, 2}


def test_lingered_batches_count_towards_the_share_of_a_partition(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    partitions = []
    for _ in range(40):
        partitions.append(world.send(value=b"x" * 1000).partition)
        world.ack_all()
    assert set(partitions) == {0, 1}
    assert partitions.count(0) in range(14, 27)


def test_records_without_key_avoid_partitions_without_a_leader(core: ModuleType) -> None:
    world = World(core, {"t": 4})
    world.acc.set_partitions("t", 4, [2])
    assert {world.send(value=b"x" * 5000).partition for _ in range(20)} == {2}
    world.acc.set_partitions("t", 4, [])
    assert {world.send(value=b"x" * 5000).partition for _ in range(40)} == {0, 1, 2, 3}


def test_producers_start_with_different_partitions(core: ModuleType) -> None:
    assert len({World(core, {"t": 50}, seed=seed).send().partition for seed in range(20)}) > 10


# ---------------------------------------------------------------- batches


def test_a_batch_is_what_kafka_expects(core: ModuleType) -> None:
    world = World(core)
    for i in range(5):
        world.send(value=b"v%d" % i, timestamp_ms=1000 - i)
    (batch,) = world.seal_all()
    header = read_header(wire_bytes(batch, 77, 3, 12))
    header.check()
    assert (header.base_offset, header.leader_epoch, header.attributes, header.last_offset_delta, header.count) == (0, -1, 0, 4, 5)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 1000)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 12)
    assert [r[0] for r in plain_records(wire_bytes(batch))] == [1000, 999, 998, 997, 996]


def test_timestamps_may_lie_anywhere(core: ModuleType) -> None:
    world = World(core)
    times = [5, 2**63 - 1, 0, 10**12]
    for time in times:
        world.send(timestamp_ms=time)
    (batch,) = world.seal_all()
    assert [r[0] for r in plain_records(wire_bytes(batch))] == times
    assert [r.timestamp_ms for r in batch.records()] == times


def test_without_a_timestamp_it_is_the_wall_clock(core: ModuleType) -> None:
    world = World(core)
    assert world.send().timestamp_ms == world.wall_ms


def test_finishing_again_changes_the_header_only(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    first, second = wire_bytes(batch, 1, 1, 1), wire_bytes(batch, 2, 0, 0)
    assert first[HEADER_SIZE:] == second[HEADER_SIZE:]
    assert read_header(second).producer_id == 2
    read_header(second).check()
    assert wire_bytes(batch, 2, 0, 0) == second


def test_a_batch_starts_small_and_grows_fourfold(core: ModuleType) -> None:
    world = World(core)
    reserved = []
    for _ in range(15):
        world.send(value=b"x" * 1000)
        reserved.append(world.acc.reserved)
    assert reserved[0] == 2048
    assert sorted(set(reserved)) == [2048, 8192, 16384]


@pytest.mark.parametrize("size", [2047, 2048, 2049, 8191, 8192, 8193, 16383, 16384])
def test_a_record_that_just_fits_shares_no_more_memory_than_needed(core: ModuleType, size: int) -> None:
    world = World(core)
    world.send(value=sized(size), timestamp_ms=5)
    (batch,) = world.seal_all()
    assert batch.size in (size, size - 1)
    assert world.acc.reserved >= batch.size
    assert len(plain_records(wire_bytes(batch))) == 1


def test_a_record_larger_than_a_batch_gets_one_of_its_own(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.send(value=b"x" * 100_000)
    world.send()
    first, large, last = world.seal_all()
    assert (first.count, large.count, last.count) == (1, 1, 1)
    assert world.acc.reserved == 2048 + large.size + world.acc.reserved - 2048 - large.size
    assert plain_records(wire_bytes(large))[0][2] == b"x" * 100_000


@pytest.mark.parametrize("part", ["value", "key", "headers"])
def test_a_record_over_max_request_size_is_refused_naming_topic_and_option(core: ModuleType, part: str) -> None:
    world = World(core, {"orders": 1, "other": 1})
    large = b"x" * MIB
    given: dict[str, Any] = {part: [("h", large)] if part == "headers" else large}
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match=f"orders.*max_request_size={MIB // 2}"):
            world.send("orders", **given)
        world.send("orders")
    assert world.acc.accepted == 2


def test_a_record_over_buffer_memory_is_refused_and_does_not_wait(core: ModuleType) -> None:
    world = World(core, max_request_size=4 * MIB)
    with pytest.raises(RecordTooLarge, match=f"buffer_memory={MIB}"):
        world.send(value=b"x" * 2 * MIB)


def test_the_limit_of_a_record_is_exact(core: ModuleType) -> None:
    world = World(core, max_request_size=5000)
    value = sized(5000)
    world.send(value=value, timestamp_ms=0)
    (batch,) = world.seal_all()
    assert batch.size == 5000
    with pytest.raises(RecordTooLarge):
        world.send(value=value + b"x")


def test_an_open_batch_has_no_outcome_and_an_outcome_is_final(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    assert batch.complete(5, -1) is None
    for again in (lambda: batch.complete(5, -1), lambda: batch.fail("X", Written.NO, None), lambda: batch.split()):
        with pytest.raises((RuntimeError, ValueError)):
            again()
    assert (world.acc.acked, world.acc.failed) == (1, 0)


def test_an_open_batch_cannot_be_acknowledged_or_finished(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    with pytest.raises(RuntimeError):
        batch.complete(0, -1)
    with pytest.raises(RuntimeError):
        batch.finish(-1, -1, -1)
    with pytest.raises(RuntimeError):
        batch.compress()


def test_a_batch_may_fail_while_it_is_open(core: ModuleType) -> None:
    world = World(core)
    delivery = world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    batch.fail("CLOSED", Written.NO, None)
    assert delivery.exception().code == "CLOSED"
    assert world.seal_all() == []
    assert world.send().partition == 0


# ---------------------------------------------------------------- taking


def test_full_batches_are_taken_in_order_of_sealing(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    for i in range(100):
        world.send(value=b"x" * 1000, partition=i % 2)
    sealed, due, _ = world.acc.take(world.now)
    assert [b.partition for b in sealed[:4]] == [0, 1, 0, 1]
    assert due == []
    assert world.acc.take(world.now)[0] == []


def test_a_batch_is_due_once_its_linger_is_over(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    world.send(partition=0)
    world.now += 0.003
    world.send(partition=1)
    assert world.acc.take(world.now) == ([], [], pytest.approx(100.005))
    world.now = 100.006
    sealed, due, deadline = world.acc.take(world.now)
    assert (sealed, [b.partition for b in due], deadline) == ([], [0], pytest.approx(100.008))
    world.now = 100.010
    assert [b.partition for b in world.acc.take(world.now)[1]] == [1]
    assert world.acc.take(world.now) == ([], [], float("inf"))


def test_a_due_batch_still_takes_records_until_it_is_sealed(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    world.send()
    assert batch.count == 2
    assert world.acc.seal(batch)
    assert not world.acc.seal(batch)
    world.send()
    assert batch.count == 2
    assert world.acc.take(world.now)[0] == [batch]


def test_a_due_batch_that_fills_up_is_sealed_by_the_sender_of_the_record(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.now += 1
    _, (batch,), _ = world.acc.take(world.now)
    for _ in range(20):
        world.send(value=b"x" * 1000)
    assert not world.acc.seal(batch)
    assert world.acc.take(world.now)[0][0] is batch


def test_expedite_makes_every_open_batch_due(core: ModuleType) -> None:
    world = World(core, {"t": 3}, linger=600.0)
    for partition in range(3):
        world.send(partition=partition)
    assert world.acc.take(world.now)[1] == []
    world.acc.expedite()
    assert [b.partition for b in world.acc.take(world.now)[1]] == [0, 1, 2]
    world.send(partition=0)
    assert world.acc.take(world.now)[1] == []


def test_a_failed_batch_is_not_handed_out_again(core: ModuleType) -> None:
    world = World(core)
    world.send()
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)
    batch.fail("PURGED", Written.NO, None)
    assert world.acc.take(world.now)[0] == []


def test_the_loop_is_woken_by_the_first_record_and_not_by_the_next(core: ModuleType) -> None:
    world = World(core)
    world.send()
    assert world.wakes == 1
    for _ in range(5):
        world.send()
    assert world.wakes == 1
    world.acc.take(world.now)
    world.send()
    assert world.wakes == 1


def test_a_full_batch_wakes_the_loop_only_while_a_connection_could_take_it(core: ModuleType) -> None:
    world = World(core)
    for hungry, expected in ((False, 0), (True, 1)):
        world.acc.take(world.now)
        world.acc.hungry = hungry
        world.send()
        world.acc.wake_at = 0.0
        before = world.wakes
        world.acc.hungry = hungry
        while not world.acc.take(world.now)[0]:
            world.acc.wake_at = 0.0
            world.send(value=b"x" * 5000)
        assert world.wakes - before == expected


# ---------------------------------------------------------------- memory


def test_memory_is_reserved_until_the_outcome(core: ModuleType) -> None:
    world = World(core)
    for _ in range(100):
        world.send(value=b"x" * 1000)
    assert world.acc.reserved > 100_000
    assert world.ack_all() == 100
    assert world.acc.reserved == 0
    assert world.acc.batches == 0


def test_a_full_buffer_asks_for_room_and_goes_on_when_there_is_some(core: ModuleType) -> None:
    world = World(core, buffer_memory=64 * 1024, max_partition_bytes=64 * 1024)
    world.on_full = world.ack_all
    deliveries = [world.send(value=b"x" * 1000) for _ in range(300)]
    assert world.begged
    assert all(topic == "t" and partition == -1 for topic, partition, _ in world.begged)
    world.ack_all()
    assert all(d.done() for d in deliveries)
    assert world.acc.reserved == 0


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
    topic, partition, size = world.begged[-1]
    assert not world.acc.room(topic, partition, size)
    world.ack_all()
    assert world.acc.room(topic, partition, size)


def test_one_full_partition_leaves_the_others_alone(core: ModuleType) -> None:
    world = World(core, {"t": 2}, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000, partition=0)
    assert world.begged[-1][:2] == ("t", 0)
    assert not world.acc.room("t", 0, 4096)
    assert world.acc.room("t", 1, 4096)
    world.send(value=b"x" * 1000, partition=1)
    world.send(value=b"x" * 1000)


def test_records_without_key_leave_a_full_partition(core: ModuleType) -> None:
    world = World(core, {"t": 2}, max_partition_bytes=64 * 1024)
    with pytest.raises(BufferFull):
        while True:
            world.send(value=b"x" * 1000, partition=0)
    for _ in range(40):
        assert world.send(value=b"x" * 1000).partition == 1


def test_a_partition_takes_one_batch_whatever_its_bound(core: ModuleType) -> None:
    world = World(core, max_partition_bytes=4096)
    world.send(value=b"x" * 100_000)
    with pytest.raises(BufferFull):
        world.send(value=b"x" * 100_000)
    world.ack_all()
    world.send(value=b"x" * 100_000)


def test_newcomers_line_up_behind_those_who_wait(core: ModuleType) -> None:
    world = World(core, {"t": 2})
    world.acc.waiters = 1
    with pytest.raises(BufferFull):
        world.send(partition=0)
    world.on_full = lambda: None
    world.send(partition=0)
    assert len(world.begged) == 2
    world.send(partition=0)
    assert len(world.begged) == 2


def test_freed_memory_wakes_the_loop_while_somebody_waits(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    before = world.wakes
    world.acc.waiters = 1
    batch.complete(0, -1)
    assert world.wakes > before


# ---------------------------------------------------------------- lifetime of the bytes


def test_exported_bytes_outlive_the_outcome_and_are_never_written_again(core: ModuleType) -> None:
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
    world = World(core)
    world.send()
    owner = World(core)  # something to watch: the accumulator refers to it through its callables
    gone = weakref.ref(owner)
    owner.send()
    batch = next(iter(owner.acc.unfinished()))
    batch.owner = owner
    del owner, batch
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- compression


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_is_compressed_by_whoever_fills_it(core: ModuleType, codec: int) -> None:
    world = World(core, codec=codec)
    for _ in range(30):
        world.send(value=b"x" * 1000)
    sealed, _, _ = world.acc.take(world.now)
    assert sealed
    assert all(b.ready for b in sealed)
    for batch in sealed:
        data = wire_bytes(batch)
        assert read_header(data).codec == codec
        assert batch.size == len(data) < 2000
        assert [r[2] for r in plain_records(data)] == [b"x" * 1000] * batch.count


def test_a_lingered_batch_is_compressed_by_the_loop(core: ModuleType) -> None:
    world = World(core, codec=1)
    world.send(value=b"x" * 1000)
    world.acc.expedite()
    _, (batch,), _ = world.acc.take(world.now)
    world.acc.seal(batch)
    assert not batch.ready
    before = world.acc.reserved
    batch.compress()
    batch.compress()
    assert batch.ready
    assert world.acc.reserved == batch.size < before
    assert [r.value for r in batch.records()] == [b"x" * 1000]
    wire_bytes(batch)
    batch.complete(0, -1)
    assert world.acc.reserved == 0


def test_compression_that_saves_nothing_is_dropped(core: ModuleType) -> None:
    world = World(core, codec=4)
    world.send(value=b"\x01")
    (batch,) = world.seal_all()
    assert read_header(wire_bytes(batch)).codec == 0


def test_a_codec_that_fails_sends_the_batch_as_it_is(core: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    def broken(codec: int, data: object) -> bytes:
        raise RuntimeError("no such library")

    world = World(core, codec=1, compress=broken)
    world.send(value=b"x" * 1000)
    with caplog.at_level(logging.ERROR, "pykafka4"):
        (batch,) = world.seal_all()
    assert plain_records(wire_bytes(batch))[0][2] == b"x" * 1000
    assert "compressing a batch failed" in caplog.text


def test_a_compressor_that_keeps_its_input_cannot_see_it_change(core: ModuleType) -> None:
    kept: list[Any] = []

    def keeping(codec: int, data: Any) -> bytes:
        kept.append(memoryview(data))
        return b"c"

    world = World(core, codec=1, compress=keeping)
    world.send(value=b"x" * 1000)
    (batch,) = world.seal_all()
    before = bytes(kept[0])
    batch.fail("X", Written.NO, None)
    for _ in range(5):
        world.send(value=b"y" * 1000)
    assert bytes(kept[0]) == before
    kept.clear()


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
    assert (error.topic, error.partition, error.cause) == ("t", 0, cause)
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


def test_acknowledged_records_are_gone(core: ModuleType) -> None:
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    batch.complete(0, -1)
    with pytest.raises(RuntimeError, match="no records any more"):
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
    before = world.wakes
    callbacks()
    assert reserved == [2048]
    assert batch.settled
    assert (world.acc.reserved, world.acc.unfinished()) == (0, [])
    assert world.wakes > before


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


# ---------------------------------------------------------------- splitting


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


# ---------------------------------------------------------------- topics not known yet


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
    assert (failure.code, failure.written, failure.cause) == ("UNKNOWN_TOPIC_OR_PARTITION", Written.NO, error)
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
        ("UNKNOWN_TOPIC_OR_PARTITION", "new: partition=2 but the topic has 2 partitions, 0 to 1"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "new: partition=99 but the topic has 2 partitions, 0 to 1"),
    ]
    assert good.partition == 1
    for delivery, (code, error, _) in zip((bad, worse), misplaced, strict=True):
        failure = delivery.exception()
        assert (failure.code, failure.cause, failure.written, failure.record.value) == (code, error, Written.NO, b"v")
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
    begged, count, high = len(world.begged), world.acc.accepted, 0
    world.acc.set_partitions("new", 3, [0, 1, 2])
    while world.acc.designate("new", 10)[0]:
        high = max(high, world.acc.reserved)
    assert len(world.begged) == begged
    assert high <= 128 * 1024
    assert world.ack_all() == count
    assert world.acc.reserved == 0


# ---------------------------------------------------------------- threads


def test_eight_threads_lose_nothing_and_keep_their_order(core: ModuleType) -> None:
    each = 20_000 if core is compiled else 500
    world = World(core, {"t": 3}, buffer_memory=64 * MIB, max_partition_bytes=64 * MIB)
    errors: list[BaseException] = []

    def run(name: int) -> None:
        try:
            for i in range(each):
                world.acc.send("t", b"%d %d" % (name, i), partition=name % 3, on_delivery=None if i % 7 else (lambda d: None))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in range(8)]
    batches: list[Any] = []
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        batches += world.acc.take(0.0)[0]
    for thread in threads:
        thread.join()
    batches += world.seal_all()
    assert not errors
    seen: dict[int, int] = dict.fromkeys(range(8), 0)
    for batch in batches:
        for record in batch.records():
            name, number = map(int, record.value.split())
            assert batch.partition == name % 3
            assert number == seen[name]
            seen[name] += 1
        callbacks = batch.complete(0, -1)
        if callbacks is not None:
            callbacks()
    assert set(seen.values()) == {each}
    assert world.acc.accepted == world.acc.acked == 8 * each
    assert world.acc.reserved == 0


class Sending:
    """Sends when it is collected, which may be in the middle of anything: it is part of a cycle."""

    running = threading.local()  # has a truth value `here` while one does: it must not wait, whatever its thread is in the middle of

    def __init__(self, world: World) -> None:
        self.world, self.me = world, self

    def __del__(self) -> None:
        self.running.here = True
        try:
            self.world.acc.send("t", b"9 0 from a destructor")
        except BufferFull:
            pass
        self.running.here = False


@pytest.mark.parametrize("codec", [0, 3])
def test_back_pressure_compression_and_destructors_together_lose_nothing(core: ModuleType, codec: int) -> None:
    each = 3000 if core is compiled else 300
    freed, errors, called = threading.Condition(), [], []
    loop = threading.current_thread()

    def make_room(topic: str, partition: int, size: int) -> None:
        if threading.current_thread() is loop or getattr(Sending.running, "here", False):
            raise BufferFull("neither the loop nor a destructor waits")
        world.acc.waiters += 1
        with freed:
            room = freed.wait_for(lambda: world.acc.room(topic, partition, size), 60)
        world.acc.waiters -= 1
        if not room:
            raise BufferFull(f"no room for {size} bytes beside {world.acc.reserved}")

    world = World(core, {"t": 3}, codec=codec, buffer_memory=MIB // 4, make_room=make_room)

    def run(name: int) -> None:
        try:
            for i in range(each):
                world.acc.send("t", b"%d %d " % (name, i) + b"x" * (i * 37 % 2000), partition=name % 3, on_delivery=called.append)
                if i % 50 == 0:
                    Sending(world)
        except BaseException as error:
            errors.append(error)

    def read(batch: Any) -> None:
        for record in batch.records():
            name, number = record.value.split()[:2]
            if name != b"9":
                assert int(number) == seen[int(name)]
                seen[int(name)] += 1

    def settle(batch: Any) -> None:
        read(batch)
        callbacks = batch.fail("X", Written.NO, None) if batch.count % 3 == 0 else batch.complete(0, -1)
        if callbacks is not None:
            callbacks()

    def turn() -> None:
        queue.extend(world.seal_all())
        while queue and queue[0].ready:
            batch = queue.pop(0)
            data = wire_bytes(batch)
            view = memoryview(batch)
            for part in batch.split() if batch.count % 5 == 4 else [batch]:
                settle(part)
            assert bytes(view) == data
            view.release()
        with freed:
            freed.notify_all()

    seen, queue = [0] * 6, []  # type: tuple[list[int], list[Any]]
    threads = [threading.Thread(target=run, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        turn()
    gc.collect()
    while world.acc.unfinished():
        turn()
    assert not errors
    assert seen == [each] * 6
    assert len(called) == each * 6
    assert world.acc.accepted == world.acc.acked + world.acc.failed > each * 6
    assert world.acc.reserved == 0


def test_sending_in_the_middle_of_sending_does_not_break_the_batch(core: ModuleType) -> None:
    depth = 0

    def clock() -> float:
        nonlocal depth
        if depth < 3:
            depth += 1
            try:
                world.acc.send("t", b"from the clock")
            except BufferFull:
                assert core is not compiled  # the plain core holds its lock here, and must refuse rather than wait for itself
            depth -= 1
        return world.now

    world = World(core, clock=clock)
    for i in range(200):
        world.send(value=b"%d" % i * 50)
    values = [r.value for b in world.seal_all() for r in b.records()]
    assert [v for v in values if v != b"from the clock"] == [b"%d" % i * 50 for i in range(200)]
    assert world.acc.accepted == len(values)
    assert (len(values) > 200) == (core is compiled)


# ---------------------------------------------------------------- which one runs


def test_the_choice_of_implementation_is_one_variable(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert hot.IMPLEMENTATION in ("compiled", "python")
    assert hot._choose("python")[1].__name__ == "pykafka4.wire.reference"
    with pytest.raises(ImportError, match="PYKAFKA4_IMPL='fast' must be one of compiled, python"):
        hot._choose("fast")

    def missing(name: str) -> ModuleType:
        if name == "pykafka4.wire._hot":
            raise ImportError("not built")
        return core

    monkeypatch.setattr(importlib, "import_module", missing)
    with caplog.at_level(logging.WARNING, "pykafka4"):
        assert hot._choose(None) == ("python", core)
    assert caplog.text.count("not built") == 1
    with pytest.raises(ImportError):
        hot._choose("compiled")
