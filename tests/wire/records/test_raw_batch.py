"""RawBatch: a batch from elsewhere is checked before it is a value; what has to be rebuilt keeps its records."""

from __future__ import annotations

import pickle
import struct
from types import ModuleType
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4 import CorruptRecord, DecodeError, RawBatch, RecordTooLarge
from pykafka4.errors import KafkaError
from pykafka4.wire.records.batch import WireRecord, build_batch, records_of
from pykafka4.wire.records.decoder import read_header
from pykafka4.wire.records.layout import HEADER_SIZE
from pykafka4.wire.records.raw_batch import as_sendable, fetched_batch
from tests.wire.hostile_bytes import damaged, hostile, search
from tests.wire.records.chunk_bytes import batch_of, record_of, resealed
from tests.wire.records.hot_world import IMPLEMENTATIONS, MIB, each_core
from tests.wire.records.message_sets import encode_message

ODD = (("h", b"1"), ("h", None), ("größe", b""))


def rows(count: int = 5, step: int = 1, start: int = 10) -> list[WireRecord]:
    return [
        WireRecord(offset=start + i * step, timestamp_ms=1_000 + i, key=None if i % 2 else b"k", value=b"%d" % i * 9, headers=ODD[: i % 4])
        for i in range(count)
    ]


def contents(batch: RawBatch) -> list[tuple[Any, ...]]:
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in records_of(read_header(memoryview(batch.data)))]


def expected(records: list[WireRecord], **changes: Any) -> list[tuple[Any, ...]]:
    changed = [attrs.evolve(r, **changes) for r in records]
    return [(r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in changed]


# ---------------------------------------------------------------- the value


@pytest.mark.parametrize(("codec", "name"), list(enumerate(["none", "gzip", "snappy", "lz4", "zstd"])))
def test_a_batch_says_what_its_header_says(codec: int, name: str) -> None:
    data = build_batch(rows(), base_offset=10, codec=codec, leader_epoch=7)
    batch = RawBatch.from_bytes(memoryview(data), "t", 3)
    assert (batch.topic, batch.partition, batch.base_offset, batch.last_offset, batch.count) == ("t", 3, 10, 14, 5)
    assert (batch.codec, batch.size, len(batch), batch.data, batch.leader_epoch) == (name, len(data), len(data), data, 7)
    assert (batch.timestamp_type, batch.base_timestamp_ms, batch.max_timestamp_ms) == ("CREATE_TIME", 1_000, 1_004)
    assert repr(batch) == f"<RawBatch t-3 offsets 10 to 14, 5 records, {name}, {len(data)} bytes>"


def test_the_brokers_timestamp_is_that_of_every_record() -> None:
    batch = RawBatch.from_bytes(build_batch(rows(), base_offset=10, timestamp_type=1, max_timestamp_ms=9_000))
    assert (batch.timestamp_type, batch.base_timestamp_ms, batch.max_timestamp_ms) == ("LOG_APPEND_TIME", 9_000, 9_000)
    assert (batch.topic, batch.partition) == ("", -1)


def test_a_batch_is_immutable_comparable_and_pickled_with_its_checks() -> None:
    batch = RawBatch.from_bytes(build_batch(rows()), "t", 3)
    copy = pickle.loads(pickle.dumps(batch))
    assert copy == batch != RawBatch.from_bytes(batch.data, "t", 4)
    assert hash(copy) == hash(batch)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        batch.topic = "u"  # type: ignore[misc]
    pickled = pickle.dumps(batch).replace(b"0" * 9, b"1" * 9)
    with pytest.raises(DecodeError, match="is corrupt: its checksum is"):
        pickle.loads(pickled)


def with_field(form: str, at: int, value: int) -> bytes:
    data = bytearray(build_batch(rows()))
    struct.pack_into(form, data, at, value)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes are too few for a record batch, whose header has 61"),
        (build_batch(rows())[:60], "60 bytes are too few"),
        (build_batch(rows())[:-1], "bytes by its header, not"),
        (build_batch(rows()) * 2, "pass exactly one complete batch"),
        (encode_message(0, 1, 0, 1_000, None, b"old"), "format v1: only record batches of format v2"),
        (with_field(">b", 16, 3), "format v3"),
        (with_field(">b", HEADER_SIZE, 99), "is corrupt: its checksum is 0x"),
        (with_field(">q", 0, -1), "the base offset -1 of a batch is out of range"),
        (with_field(">q", 0, 2**63 - 3), "is out of range"),
        (resealed(build_batch(rows()), bits=5), "compression codec 5 is unknown"),
        (resealed(build_batch(rows()), bits=0x20), "is a control batch"),
        (resealed(build_batch(rows()), count=0), "claims 0 records"),
        (resealed(build_batch(rows()), count=-5), "claims -5 records"),
        (resealed(build_batch(rows()), last=3), "claims 5 records, more than it has offsets"),
        (resealed(build_batch(rows()), count=2**31 - 1, last=2**31 - 1), r"claims 2147483647 records, but there is room for \d+"),
        (resealed(build_batch(rows(), codec=1), count=2**31 - 1, last=2**31 - 1), "but there is room for 9586980"),
    ],
)
def test_bytes_that_are_not_one_whole_batch_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason) as caught:
        RawBatch.from_bytes(data)
    assert isinstance(caught.value, ValueError)


def test_a_str_is_no_batch() -> None:
    with pytest.raises(TypeError, match="a raw batch is made of bytes, not of the str 'abc'"):
        RawBatch.from_bytes("abc")  # type: ignore[arg-type]


SAMPLES = [build_batch(rows(), base_offset=10, codec=codec, timestamp_type=codec % 2) for codec in range(5)]


def read(data: bytes) -> None:
    as_sendable(RawBatch.from_bytes(data))


def test_hostile_bytes_are_refused() -> None:
    search(hostile(*SAMPLES), read, "raw_batch", RecordTooLarge)


def test_hostile_bytes_with_a_good_checksum_are_refused_or_rebuilt() -> None:
    search(hostile(*SAMPLES), lambda data: read(resealed(data) if len(data) > HEADER_SIZE else data), "resealed_raw_batch", RecordTooLarge)


# ---------------------------------------------------------------- batches that have to be rebuilt


@pytest.mark.parametrize("codec", range(5))
def test_gaps_are_closed_and_nothing_else_changes(codec: int) -> None:
    records = rows(step=3)
    gaps = RawBatch.from_bytes(build_batch(records, base_offset=8, codec=codec, last_offset_delta=90), "t", 3)
    dense = as_sendable(gaps)
    assert (dense.base_offset, dense.last_offset, dense.count, dense.codec, dense.topic) == (8, 12, 5, gaps.codec, "t")
    assert contents(dense) == [(8 + i, *row[1:]) for i, row in enumerate(expected(records))]
    assert as_sendable(dense) is dense


def test_the_brokers_time_becomes_the_time_of_each_record() -> None:
    appended = RawBatch.from_bytes(build_batch(rows(), base_offset=10, codec=1, timestamp_type=1, max_timestamp_ms=9_000))
    own = as_sendable(appended)
    assert own.timestamp_type == "CREATE_TIME"
    assert contents(own) == expected(rows(), timestamp_ms=9_000)


def test_bits_of_the_source_are_not_sent_on_in_a_rebuilt_batch() -> None:
    data = build_batch(rows(step=2), base_offset=10, transactional=True, producer_id=5, producer_epoch=1, base_sequence=7)
    header = read_header(memoryview(as_sendable(RawBatch.from_bytes(data)).data))
    assert not header.transactional


@pytest.mark.parametrize(("first", "last", "kept"), [(0, 99, "01234"), (11, 99, "1234"), (0, 12, "012"), (12, 12, "2"), (14, 20, "4")])
def test_a_batch_is_cut_to_the_offsets_that_are_read(first: int, last: int, kept: str) -> None:
    data = build_batch(rows(), base_offset=10, codec=3, leader_epoch=6)
    batch = fetched_batch(data, "t", 3, first, last, MIB)
    assert batch is not None
    assert contents(batch) == [row for i, row in enumerate(expected(rows())) if str(i) in kept]
    assert (batch.base_offset, batch.last_offset) == (10 + int(kept[0]), 10 + int(kept[-1]))
    assert (batch.leader_epoch, batch.topic, batch.partition) == (6, "t", 3)
    assert (batch.data == data) is (len(kept) == 5)


def test_a_batch_without_a_record_that_is_read_is_none() -> None:
    data = build_batch(rows(step=5), base_offset=10, last_offset_delta=40)
    assert fetched_batch(data, "t", 3, 31, 49, MIB) is None
    assert fetched_batch(data, "t", 3, 11, 14, MIB) is None


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_becomes_a_batch(magic: int) -> None:
    batch = fetched_batch(encode_message(5, magic, 0, 3_000, b"k", b"old"), "t", 3, 0, 99, MIB)
    assert batch is not None
    assert contents(batch) == [(5, 3_000 if magic else -1, b"k", b"old", ())]
    assert as_sendable(batch) is batch


def test_a_damaged_body_is_located() -> None:
    with pytest.raises(CorruptRecord, match="the batch of offsets 0 to 3: ") as caught:
        fetched_batch(batch_of(record_of(b"\0") * 9, count=2, last=3), "t", 3, 1, 99, MIB)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 3, 1, 4)


def test_a_body_that_is_too_large_is_located() -> None:
    data = build_batch([WireRecord(value=bytes(5_000)), WireRecord(value=b"")], codec=4)
    with pytest.raises(RecordTooLarge, match="more than 1000 bytes when") as caught:
        fetched_batch(data, "t", 3, 1, 99, 1_000)
    assert caught.value.next_offset == 2


# ---------------------------------------------------------------- parts of batches, in both cores


def invalid_name() -> bytes:
    """A record with a header whose name is not UTF-8."""
    return record_of(b"\0\0\0\1\1\2\4\xff\xfe\1")


@each_core
def test_parts_keep_records_byte_for_byte(core: ModuleType) -> None:
    body = build_batch(rows(3, step=4), base_offset=10)[HEADER_SIZE:]
    assert core.cut_records(body, 3, 0, 8) == (body, 3, 0)
    assert core.cut_records(body, 3, 1, 9) == (core.cut_records(body, 3, 4, 8)[0], 2, 4)
    assert core.cut_records(body, 3, 5, 7) == (b"", 0, 0)
    assert core.pack_records(body, 3, False) == build_batch(rows(3), base_offset=10)[HEADER_SIZE:]
    odd = invalid_name()
    assert core.cut_records(odd, 1, 0, 0) == (odd, 1, 0)
    assert core.pack_records(odd, 1, True) == odd


@each_core
@pytest.mark.parametrize(
    "body",
    [
        invalid_name() * 2,  # the same offset twice
        invalid_name() + b"x",
        record_of(b"\0\0\1\1\1\0"),  # a negative offset
        record_of(b"\0\0\0\1\1\2\4\xff\xfe\x7e"),  # a header's value beyond its record
        b"\x7f",
        b"",
    ],
)
def test_damaged_records_have_no_parts(core: ModuleType, body: bytes) -> None:
    with pytest.raises(DecodeError):
        core.pack_records(body, max(1, body.count(b"\xff\xfe")), False)
    with pytest.raises(DecodeError):
        core.cut_records(body, 2**31 - 1, 0, 9)


@given(damaged(build_batch(rows(step=2), base_offset=10)[HEADER_SIZE:]), st.integers(0, 9))
def test_both_cores_make_the_same_parts_of_hostile_records(body: bytes, first: int) -> None:
    def outcome(function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except KafkaError as error:
            return type(error)

    for count in (1, 5):
        for name, arguments in (("cut_records", (first, 6)), ("pack_records", (first > 4,))):
            outcomes = [outcome(getattr(core, name), body, count, *arguments) for core in IMPLEMENTATIONS]
            assert outcomes == outcomes[:1] * len(outcomes)
