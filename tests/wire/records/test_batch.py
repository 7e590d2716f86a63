from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable
from typing import Any

import attrs
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import DecodeError, RecordTooLarge
from pykafka4.wire.records import batch as module
from pykafka4.wire.records.batch import (
    ControlType,
    WireRecord,
    batches,
    build_batch,
    control_record,
    control_type,
    records_of,
)
from pykafka4.wire.records.checksum import crc32c
from pykafka4.wire.records.compression import CODEC_NAMES, CODECS
from pykafka4.wire.records.decoder import read_header, read_varint
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    COUNT,
    CRC,
    CREATE_TIME,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP,
    NO_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)
from tests.wire.hostile_bytes import damaged, search
from tests.wire.records.message_sets import build_message_set
from tests.wire.wire_samples import BUFFERS

ALL = sorted(CODECS.values())
OLD = [codec for codec in ALL if codec != CODECS["zstd"]]
RECORDS = [
    WireRecord(timestamp_ms=1000, key=b"k", value=b"v", headers=(("a", b"1"), ("a", None), ("ä", b""))),
    WireRecord(timestamp_ms=1005, key=None, value=b""),
    WireRecord(timestamp_ms=990, key=b"", value=None),
    WireRecord(timestamp_ms=1001, key=b"long" * 100, value=b"x" * 5000),
]


def read(data: Any, max_size: int = 10**6) -> list[WireRecord]:
    return [record for batch in batches(data) for record in records_of(batch, max_size)]


def seal(data: bytearray | bytes) -> bytes:
    """Give a changed batch its right checksum, so that what is behind it is looked at."""
    out = bytearray(data)
    if out[MAGIC] == 2:
        struct.pack_into(">I", out, CRC, crc32c(bytes(out[ATTRIBUTES:])))
    else:
        struct.pack_into(">I", out, 12, zlib.crc32(out[MAGIC:]))
    return bytes(out)


def with_field(data: bytes, at: int, layout: str, number: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(layout, out, at, number)
    return seal(out)


def batch_of(body: bytes, count: int = 1) -> bytes:
    """A batch with this body, whatever it says."""
    head = bytearray(build_batch([])[:HEADER_SIZE]) + body
    struct.pack_into(">i", head, LENGTH, len(head) - 12)
    struct.pack_into(">i", head, COUNT, count)
    return seal(head)


def seen(records: list[WireRecord]) -> list[Any]:
    return [(record.timestamp_ms, record.key, record.value, record.headers) for record in records]


# -- numbers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varints_are_zig_zag(number: int, encoded: str) -> None:
    assert varint(number).hex() == encoded
    assert read_varint(memoryview(bytes.fromhex(encoded)), 0) == (number, len(encoded) // 2)


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_any_int64_fits_a_varint_of_ten_bytes(number: int) -> None:
    encoded = varint(number)
    assert len(encoded) <= 10
    assert read_varint(memoryview(encoded), 0, 64) == (number, len(encoded))


@pytest.mark.parametrize(
    ("data", "bits", "reason"),
    [
        (b"", 32, "truncated varint"),
        (b"\x80" * 4, 32, "truncated varint"),
        (b"\x80" * 5 + b"\0", 32, "more than 32 bits"),
        (b"\x80" * 10 + b"\0", 64, "more than 64 bits"),
    ],
)
def test_a_varint_that_is_cut_or_too_long_is_refused(data: bytes, bits: int, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_varint(memoryview(data), 0, bits)


def test_bits_of_a_varint_that_have_no_room_are_dropped_as_in_java() -> None:
    assert read_varint(memoryview(b"\x82\x80\x80\x80\x70"), 0) == (1, 5)
    assert read_varint(memoryview(b"\x82" + b"\x80" * 8 + b"\x7e"), 0, 64) == (1, 10)


def test_crc32c_is_castagnoli_and_goes_on() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    for buffer in BUFFERS.values():
        assert crc32c(buffer(b"6789"), crc32c(b"12345")) == 0xE3069283


# -- record batches ----------------------------------------------------------------------


@pytest.mark.parametrize("codec", ALL, ids=CODEC_NAMES.get)
def test_what_was_built_is_read(codec: int) -> None:
    data = build_batch(
        RECORDS, base_offset=40, codec=codec, producer_id=7, producer_epoch=2, base_sequence=5, leader_epoch=3, transactional=True
    )
    for buffer in BUFFERS.values():
        records = read(buffer(data))
        assert seen(records) == seen(RECORDS)
        assert [record.offset for record in records] == [40, 41, 42, 43]
        assert [record.sequence for record in records] == [5, 6, 7, 8]
        assert {(r.producer_id, r.producer_epoch, r.leader_epoch, r.transactional, r.control) for r in records} == {(7, 2, 3, True, False)}
        assert {r.timestamp_type for r in records} == {CREATE_TIME}


def test_a_batch_has_the_bytes_of_the_protocol_guide() -> None:
    data = build_batch(
        [WireRecord(timestamp_ms=5, key=b"k", value=b"v", headers=(("h", b"x"),))], base_offset=9, producer_id=7, base_sequence=0
    )
    assert data[HEADER_SIZE:] == bytes.fromhex("18 00 00 00 02 6b 02 76 02 02 68 02 78")
    unsigned = {CRC}
    layout = {BASE_OFFSET: 8, LENGTH: 4, LEADER_EPOCH: 4, MAGIC: 1, CRC: 4, ATTRIBUTES: 2, LAST_OFFSET_DELTA: 4, BASE_TIMESTAMP: 8}
    layout |= {MAX_TIMESTAMP: 8, PRODUCER_ID: 8, PRODUCER_EPOCH: 2, BASE_SEQUENCE: 4, COUNT: 4}
    numbers = [int.from_bytes(data[at : at + size], "big", signed=at not in unsigned) for at, size in layout.items()]
    assert numbers == [9, len(data) - 12, -1, 2, crc32c(data[ATTRIBUTES:]), 0, 0, 5, 5, 7, -1, 0, 1]
    assert sum(layout.values()) == HEADER_SIZE


record_strategy = st.builds(
    WireRecord,
    timestamp_ms=st.integers(0, 2**62),
    key=st.one_of(st.none(), st.binary(max_size=20)),
    value=st.one_of(st.none(), st.binary(max_size=200)),
    headers=st.lists(st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3).map(tuple),
)


@given(records=st.lists(record_strategy, min_size=1, max_size=10), codec=st.sampled_from(ALL))
def test_any_records_come_back(records: list[WireRecord], codec: int) -> None:
    assert seen(read(build_batch(records, codec=codec))) == seen(records)


def test_sequences_go_round_and_compaction_leaves_gaps() -> None:
    records = [WireRecord(offset=100 + delta, timestamp_ms=1) for delta in (0, 3, 20)]
    data = build_batch(records, base_offset=100, producer_id=1, base_sequence=2**31 - 4, last_offset_delta=30)
    (batch,) = batches(data)
    assert (batch.count, batch.last_offset, batch.next_offset) == (3, 130, 131)
    assert [(record.offset, record.sequence) for record in records_of(batch)] == [(100, 2**31 - 4), (103, 2**31 - 1), (120, 16)]


def test_an_empty_batch_still_moves_the_offset() -> None:
    (batch,) = batches(build_batch([], base_offset=100, last_offset_delta=9))
    assert records_of(batch) == []
    assert batch.next_offset == 110


def test_the_append_time_is_every_records_time() -> None:
    records = read(build_batch(RECORDS, timestamp_type=LOG_APPEND_TIME, max_timestamp_ms=77))
    assert {(record.timestamp_ms, record.timestamp_type) for record in records} == {(77, LOG_APPEND_TIME)}


@pytest.mark.parametrize("kind", ControlType)
def test_control_records_say_how_a_transaction_ended(kind: ControlType) -> None:
    (record,) = read(build_batch([control_record(kind, 4)], control=True, transactional=True, producer_id=1))
    assert record.control
    assert control_type(record) is kind
    assert control_type(attrs.evolve(record, key=b"\0\0\0\x05")) is None
    for key in (None, b"\0\0\0"):
        with pytest.raises(DecodeError, match="4 are needed"):
            control_type(attrs.evolve(record, key=key))


def test_only_whole_batches_are_seen_wherever_the_end_is_cut() -> None:
    one = build_batch(RECORDS, base_offset=10)
    for end in range(len(one)):
        assert [batch.base_offset for batch in batches(one + one[:end])] == [10]
        with pytest.raises(DecodeError, match="truncated after"):
            read_header(one[:end])
    assert list(batches(b"")) == []
    assert read_header(b"???" + one, 3).data == one


# -- damage ------------------------------------------------------------------------------------


def test_every_bit_behind_the_checksum_counts() -> None:
    data = build_batch(RECORDS[:2])
    rng = random.Random(5)
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.randrange(CRC, len(data))] ^= 1 << rng.randrange(8)
        with pytest.raises(DecodeError, match="is corrupt: its checksum"):
            read(bytes(changed))


def test_the_checksum_is_compared_before_anything_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(build_batch(RECORDS, codec=1))
    data[-1] ^= 1
    monkeypatch.setattr(module, "decompress", lambda *_: pytest.fail("decompressed before the checksum was compared"))
    with pytest.raises(DecodeError, match="checksum"):
        read(bytes(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (with_field(build_batch(RECORDS), COUNT, ">i", -1), "claims -1 records"),
        (with_field(build_batch(RECORDS), COUNT, ">i", 2**31 - 1), "claims 2147483647 records"),
        (with_field(build_batch(RECORDS), COUNT, ">i", 3), "longer than its records"),
        (with_field(build_batch(RECORDS), COUNT, ">i", 5), "a truncated varint"),
        (with_field(build_batch(RECORDS), ATTRIBUTES, ">h", 5), "codec 5 is unknown"),
        (with_field(build_batch(RECORDS), ATTRIBUTES, ">h", 1), "damaged gzip data"),
        (batch_of(varint(-1) + bytes(9)), "a record's length exceeds its batch"),
        (batch_of(varint(100) + bytes(9)), "a record's length exceeds its batch"),
        (batch_of(varint(9) + bytes(9)), "a record is longer than its fields"),
        (batch_of(varint(6) + b"\0\0\0" + varint(50) + bytes(2)), "a length exceeds its record"),
        (batch_of(varint(6) + b"\0\0\0\x01\x01" + varint(-1)), "more headers than"),
        (batch_of(varint(8) + b"\0\0\0\x01\x01" + varint(2) + bytes(2)), "more headers than"),
        (batch_of(varint(8) + b"\0\0\0\x01\x01" + varint(1) + b"\x01\x01"), "header's name exceeds its record"),
        (batch_of(b"\xff" * 10), "a varint of more than 32 bits"),
        (batch_of(varint(12) + b"\0" + b"\xff" * 11), "a varint of more than 64 bits"),
    ],
)
def test_a_batch_with_wrong_lengths_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes(MAGIC) + b"\x03" + bytes(60), "magic 3; the known ones are 0, 1 and 2"),
        (bytes(MAGIC) + b"\x02" + bytes(60), "magic 2 and 12 bytes; the minimum is 61"),
        (bytes(8) + b"\xff\xff\xff\xff" + bytes(4) + b"\x02" + bytes(60), "magic 2 and 11 bytes"),
        (bytes(8) + b"\x80\0\0\0" + bytes(4) + b"\x01" + bytes(60), "magic 1 and -2147483636 bytes"),
    ],
)
def test_a_header_that_cannot_be_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        list(batches(data))


@pytest.mark.parametrize("codec", ALL[1:], ids=CODEC_NAMES.get)
@pytest.mark.parametrize("build", [build_batch, lambda records, codec: build_message_set(records, 1, codec)], ids=["batch", "message set"])
def test_a_batch_is_bound_once_decompressed(codec: int, build: Callable[..., bytes]) -> None:
    if codec == CODECS["zstd"] and build is not build_batch:
        return
    data = build([WireRecord(value=bytes(50_000))], codec=codec)
    assert len(read(data, 60_000)) == 1
    with pytest.raises(RecordTooLarge, match="max_decompressed_bytes"):
        read(data, 40_000)


# -- message sets ------------------------------------------------------------------------------------

PLAIN = [attrs.evolve(record, headers=()) for record in RECORDS]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD, ids=CODEC_NAMES.get)
def test_old_messages_are_read_at_their_offsets(magic: int, codec: int) -> None:
    data = build_message_set(PLAIN, magic, codec, base_offset=40)
    for buffer in BUFFERS.values():
        records = read(buffer(data))
        assert [(record.offset, record.key, record.value) for record in records] == [(40 + n, r.key, r.value) for n, r in enumerate(PLAIN)]
        assert [record.timestamp_ms for record in records] == ([r.timestamp_ms for r in PLAIN] if magic else [-1] * 4)
        assert {record.timestamp_type for record in records} == {CREATE_TIME if magic else NO_TIMESTAMP}
        assert {(record.producer_id, record.sequence, record.leader_epoch) for record in records} == {(-1, -1, -1)}


@pytest.mark.parametrize("magic", [0, 1])
def test_a_compacted_wrapper_keeps_the_offsets_of_what_is_left(magic: int) -> None:
    records = [WireRecord(offset=offset, value=b"x", timestamp_ms=1) for offset in (40, 45, 59)]
    assert [record.offset for record in read(build_message_set(records, magic, 1))] == [40, 45, 59]


def test_a_wrapper_with_append_time_gives_it_to_all() -> None:
    records = read(build_message_set(PLAIN, 1, 1, timestamp_type=LOG_APPEND_TIME, append_time_ms=77))
    assert {(record.timestamp_ms, record.timestamp_type) for record in records} == {(77, LOG_APPEND_TIME)}


def test_old_lz4_with_its_wrong_header_checksum_is_read() -> None:
    inner = build_message_set(PLAIN, 0)
    frame = bytearray(lz4.frame.compress(inner, store_size=False))
    frame[6] ^= 0xFF
    message = bytearray(build_message_set([WireRecord(offset=3, value=bytes(frame))], 0))
    message[17] = CODECS["lz4"]
    assert [record.value for record in read(seal(message))] == [record.value for record in PLAIN]


def test_formats_may_follow_one_another() -> None:
    data = build_message_set(PLAIN, 0) + build_message_set(PLAIN, 1, 2, base_offset=4) + build_batch(PLAIN, base_offset=8)
    assert [record.offset for record in read(data)] == list(range(12))


def wrapped(inner: bytes | None, magic: int = 1, codec: int = 1) -> bytes:
    packed = None if inner is None else module.compress(codec, inner)
    message = bytearray(build_message_set([WireRecord(offset=9, timestamp_ms=1, value=packed)], magic))
    message[17] = codec
    return seal(message)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (wrapped(None), "is empty"),
        (wrapped(b""), "is empty"),
        (wrapped(build_message_set(PLAIN, 1)[:-1]), "truncated after"),
        (wrapped(build_message_set(PLAIN, 1) + b"tail"), "truncated after 4 bytes"),
        (wrapped(build_message_set(PLAIN, 0)), "magic 1, holds one of magic 0"),
        (wrapped(build_batch(PLAIN)), "magic 1, holds one of magic 2"),
        (wrapped(build_message_set(PLAIN, 1, 1)), "holds one of magic 1, codec 1"),
        (wrapped(build_message_set(PLAIN, 1)[:-1] + b"?"), "checksum"),
        (with_field(build_message_set(PLAIN[:1], 1), 26, ">i", -2), "a field of -2 bytes"),
        (with_field(build_message_set(PLAIN[:1], 1), 26, ">i", 2**31 - 1), "a field of 2147483647 bytes, but only 6 are left"),
        (with_field(build_message_set(PLAIN[:1], 1), 31, ">i", 0), "1 extra bytes after its value"),
        (with_field(build_message_set(PLAIN[:1], 1), 26, ">i", 4), "ends inside a length"),
    ],
)
def test_an_old_message_with_wrong_lengths_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read(data)


# -- many damaged inputs -----------------------------------------------------------------------------


def sealed(data: bytes) -> bytes:
    return seal(data) if len(data) > HEADER_SIZE else data


@pytest.mark.parametrize("codec", ALL, ids=CODEC_NAMES.get)
def test_mutated_batches_are_refused_or_read(codec: int) -> None:
    originals = [build_batch(RECORDS, codec=codec, base_offset=5), build_batch(RECORDS[:1], codec=codec) * 2]
    if codec in OLD:
        originals += [build_message_set(PLAIN, magic, codec) for magic in (0, 1)]
    search(st.one_of(damaged(*originals), damaged(*originals).map(sealed)), read, "batch", RecordTooLarge, many=20)


BODIES = st.lists(st.one_of(st.sampled_from((0, 1, 2, 3, 4, 0x7F, 0x80, 0xFF)), st.integers(0, 255)), max_size=40).map(bytes)


def test_random_record_bodies_behind_a_right_checksum_are_refused_or_read() -> None:
    search(st.builds(batch_of, BODIES, st.sampled_from((0, 1, 2, 5, 2**31 - 1))), read, "batch", RecordTooLarge, many=40)
