"""Batches as they are filled: the bytes that Kafka expects, how they grow, what is too large, and what an open one refuses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import RecordTooLarge
from pykafka4.records import Written
from pykafka4.wire.records import reference
from pykafka4.wire.records.decoder import read_header
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import HEADER_SIZE
from tests.wire.records.hot_world import MIB, World, each_core, only_compiled, plain_records, wire_bytes

pytestmark = each_core


def sized(total: int) -> bytes:
    """A value whose batch of one record takes `total` bytes, or one less where no value gives that."""
    for size in range(total - HEADER_SIZE - 6, 0, -1):
        body = 6 + len(varint(size)) - 1 + size
        if HEADER_SIZE + len(varint(body)) + body <= total:
            return b"x" * size
    raise ValueError(total)


# ---------------------------------------------------------------- bytes


def test_crc32c_is_castagnoli_and_goes_on_from_a_value(core: ModuleType) -> None:
    assert core.crc32c(b"123456789") == 0xE3069283
    assert core.crc32c(b"") == 0
    data = bytes(range(256)) * 200
    for cut in (0, 1, 7, 8, 4095, 12288, 24577, len(data)):
        assert core.crc32c(data[cut:], core.crc32c(data[:cut])) == core.crc32c(data)


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


def test_empty_keys_and_values_are_neither_null_nor_left_out(core: ModuleType) -> None:
    world = World(core)
    for key, value in ((b"", b""), (None, None), (b"", None), (None, b"")):
        world.send(key=key, value=value)
    (batch,) = world.seal_all()
    assert [r[1:3] for r in plain_records(wire_bytes(batch))] == [(b"", b""), (None, None), (b"", None), (None, b"")]


def test_the_header_names_the_first_and_the_largest_timestamp(core: ModuleType) -> None:
    world = World(core)
    for time in (1000, 3000, 2000):
        world.send(timestamp_ms=time)
    (batch,) = world.seal_all()
    header = read_header(wire_bytes(batch, 77, 3, 12))
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 3000)


def test_bytes_that_are_being_written_do_not_change_when_the_batch_gets_new_sequences(core: ModuleType) -> None:
    if core is reference:
        pytest.skip("the plain core's bytes are the batch itself; there `finish` waits until no request is under way")
    world = World(core)
    world.send()
    (batch,) = world.seal_all()
    batch.finish(77, 3, 12)
    held = memoryview(batch)
    before = bytes(held)
    batch.finish(78, 4, 0)
    assert bytes(held) == before
    assert read_header(bytes(memoryview(batch))).producer_id == 78
    held.release()


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


# ---------------------------------------------------------------- size


def test_a_batch_starts_small_and_doubles(core: ModuleType) -> None:
    only_compiled(core)
    world = World(core)
    reserved = []
    for _ in range(15):
        world.send(value=b"x" * 1000)
        reserved.append(world.acc.reserved)
    assert reserved[0] == 2048
    assert sorted(set(reserved)) == [2048, 4096, 8192, 16384]


@pytest.mark.parametrize("size", [2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192, 8193, 16383, 16384])
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
    with pytest.raises(RecordTooLarge, match=f"exceeds the usable buffer_memory={MIB - 128};"):
        world.send(value=b"x" * 2 * MIB)


def test_the_limit_of_a_record_is_exact(core: ModuleType) -> None:
    world = World(core, max_request_size=5000)
    value = sized(5000)
    world.send(value=value, timestamp_ms=0)
    (batch,) = world.seal_all()
    assert batch.size == 5000
    with pytest.raises(RecordTooLarge):
        world.send(value=value + b"x")


# ---------------------------------------------------------------- open and sealed


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
