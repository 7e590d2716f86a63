"""Damaged chunks: what lies before the damage is handed out, the error tells where it is, and it can be passed."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import CorruptRecord, RecordTooLarge
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import BASE_OFFSET, LAST_OFFSET_DELTA, LENGTH, MAGIC
from tests.wire.records.chunk_bytes import FINE, batch_of, offsets, record_of, records, resealed
from tests.wire.records.hot_world import MIB, decoded, each_core

# ---------------------------------------------------------------- whole batches


@each_core
@pytest.mark.parametrize("codec", [0, 1])
def test_a_wrong_checksum_stops_at_its_batch_and_delivers_what_lies_before(core: ModuleType, codec: int) -> None:
    good, bad = build_batch(records(5)), bytearray(build_batch(records(5, start=5), base_offset=5, codec=codec))
    bad[-1] ^= 1
    out, error, chunk = decoded(core, good + bad + good)
    assert offsets(out) == [0, 1, 2, 3, 4]
    assert isinstance(error, CorruptRecord)
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 3, 5, 10)
    assert "5 to 9" in error.reason
    assert "seek to 10 " in str(error)
    assert chunk.position == 5
    with pytest.raises(CorruptRecord):
        chunk.decode([], 1)


@each_core
@pytest.mark.parametrize("size", [100, 20_000, 150_000, 300_000, 2_000_000])
def test_a_wrong_checksum_is_noticed_in_batches_of_any_size(core: ModuleType, size: int) -> None:
    bad = bytearray(build_batch([WireRecord(offset=0, timestamp_ms=1, value=bytes(size))]))
    bad[len(bad) // 2] ^= 1  # in the value: nothing but the checksum can tell
    out, error, _ = decoded(core, bytes(bad))
    assert out == []
    assert isinstance(error, CorruptRecord)


@each_core
def test_damage_never_takes_records_of_the_same_call_along(core: ModuleType) -> None:
    bad = bytearray(build_batch(records(5, start=5), base_offset=5))
    bad[-1] ^= 1
    chunk = core.Chunk("t", 0, build_batch(records(5)) + bad, 0, decompress=decompress, max_decompressed=MIB)
    out: list[Any] = []
    assert chunk.decode(out, 1000) == 5
    with pytest.raises(CorruptRecord):
        chunk.decode(out, 1000)
    assert len(out) == 5


@each_core
def test_skip_passes_the_damaged_batch(core: ModuleType) -> None:
    bad = bytearray(build_batch(records(5, start=5), base_offset=5))
    bad[-1] ^= 1
    out, error, chunk = decoded(core, build_batch(records(5)) + bad + build_batch(records(2, start=10), base_offset=10))
    assert isinstance(error, CorruptRecord)
    assert chunk.skip() == 10
    assert chunk.decode(out, 10) == 2
    assert offsets(out) == [0, 1, 2, 3, 4, 10, 11]


@each_core
@pytest.mark.parametrize(
    ("place", "kind", "value"),
    [
        (LENGTH, ">i", -1),
        (LENGTH, ">i", 0),
        (LENGTH, ">i", 48),
        (LENGTH, ">i", -(2**31)),
        (MAGIC, ">b", 3),
        (MAGIC, ">b", -1),
        (BASE_OFFSET, ">q", -1),
        (BASE_OFFSET, ">q", 2**63 - 1),
        (LAST_OFFSET_DELTA, ">i", -2),
    ],
)
def test_a_header_that_makes_no_sense_is_corrupt_and_ends_the_chunk(core: ModuleType, place: int, kind: str, value: int) -> None:
    bad = bytearray(build_batch(records(5, start=5), base_offset=5))
    struct.pack_into(kind, bad, place, value)
    out, error, chunk = decoded(core, build_batch(records(5)) + bad)
    assert offsets(out) == [0, 1, 2, 3, 4]
    assert isinstance(error, CorruptRecord)
    assert (error.offset, error.next_offset, chunk.position, chunk.next_offset) == (5, None, 5, 5)
    assert "is unknown" in str(error)
    assert not chunk.exhausted
    chunk.skip()
    assert chunk.exhausted


@each_core
def test_an_unknown_codec_is_corrupt(core: ModuleType) -> None:
    error = decoded(core, resealed(build_batch(records(1)), bits=6))[1]
    assert isinstance(error, CorruptRecord)
    assert "codec 6" in str(error)
    assert error.next_offset == 1


@each_core
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_does_not_unpack_is_corrupt(core: ModuleType, codec: int) -> None:
    error = decoded(core, resealed(build_batch(records(3)), bits=codec))[1]
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 3


@each_core
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_bomb_stops_at_the_bound_and_can_be_passed(core: ModuleType, codec: int) -> None:
    bomb = build_batch(
        [WireRecord(offset=5, value=b"\0" * 3 * MIB), WireRecord(offset=6, value=b"\0" * 3 * MIB)], base_offset=5, codec=codec
    )
    out, error, chunk = decoded(core, build_batch(records(5)) + bomb + build_batch(records(1, start=7), base_offset=7))
    assert len(out) == 5
    assert isinstance(error, RecordTooLarge)
    assert "t-3 at offset 5: the batch of offsets 5 to 6" in str(error)
    assert "max_decompressed_bytes" in str(error)
    assert "seek to 7 " in str(error)
    assert (error.topic, error.partition, error.offset) == ("t", 3, 5)
    assert chunk.position == 5
    assert chunk.skip() == error.next_offset == 7
    assert chunk.decode(out, 5) == 1


# ---------------------------------------------------------------- records within a batch


@each_core
def test_a_record_damaged_in_the_middle_leaves_those_before_it(core: ModuleType) -> None:
    body = b"".join(record_of(b"\0\0" + varint(i) + b"\1\1\0") for i in range(3)) + record_of(b"\0\0" + varint(3) + varint(50) + b"\1\0")
    out, error, chunk = decoded(core, batch_of(body, 4, 3))
    assert offsets(out) == [0, 1, 2]
    assert isinstance(error, CorruptRecord)
    assert error.offset == chunk.position == 3
    assert chunk.skip() == error.next_offset == 4
    assert chunk.exhausted


BODIES = {
    "nothing": b"",
    "zero length": b"\0" + FINE,
    "negative length": varint(-1) + FINE,
    "length beyond the batch": varint(100) + FINE,
    "length of 2^31 - 1": varint(2**31 - 1) + FINE,
    "length of -2^31": varint(-(2**31)) + FINE,
    "length of six bytes": b"\x8c\x80\x80\x80\x80\x00" + FINE,
    "length of eleven bytes": b"\xff" * 10 + b"\0" + FINE,
    "length without end": b"\xff" * 30,
    "timestamp of eleven bytes": record_of(b"\0" + b"\xff" * 10 + b"\0\0\1\1\0"),
    "offset below the base": record_of(b"\0\0" + varint(-1) + b"\1\1\0"),
    "offset past the last": record_of(b"\0\0" + varint(1) + b"\1\1\0"),
    "key beyond the record": record_of(b"\0\0\0" + varint(4) + b"\1\0"),
    "key of 2^31 - 1": record_of(b"\0\0\0" + varint(2**31 - 1) + b"\1\0"),
    "value beyond the record": record_of(b"\0\0\0\1" + varint(2) + b"\0"),
    "no headers": record_of(b"\0\0\0\1\1"),
    "headers of -1": record_of(b"\0\0\0\1\1" + varint(-1)),
    "more headers than bytes": record_of(b"\0\0\0\1\1" + varint(2) + b"\0\1\0"),
    "2^31 - 1 headers": record_of(b"\0\0\0\1\1" + varint(2**31 - 1) + b"\0\1\0"),
    "header name of -1": record_of(b"\0\0\0\1\1" + varint(1) + b"\1\1"),
    "header name beyond the record": record_of(b"\0\0\0\1\1" + varint(1) + varint(5) + b"\1"),
    "header value beyond the record": record_of(b"\0\0\0\1\1" + varint(1) + b"\0" + varint(5)),
    "bytes behind the headers": record_of(b"\0\0\0\1\1\0\0"),
    "bytes behind the record": record_of(FINE) + b"\0",
    "record cut": record_of(FINE)[:-1],
}


@each_core
@pytest.mark.parametrize("name", BODIES)
def test_a_damaged_record_is_corrupt_and_nothing_else(core: ModuleType, name: str) -> None:
    out, error, _ = decoded(core, batch_of(BODIES[name]))
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 1
    assert len(out) == (name == "bytes behind the record")


SLOPPY = {
    "timestamp of 65 bits": record_of(b"\0" + b"\x80" * 9 + b"\x02" + b"\0\1\1\0"),
    "offset of 2^31": record_of(b"\0\0" + varint(2**31) + b"\1\1\0"),
    "key of -2": record_of(b"\0\0\0" + varint(-2) + b"\1\0"),
    "value of -2": record_of(b"\0\0\0\1" + varint(-2) + b"\0"),
}


@each_core
@pytest.mark.parametrize("name", SLOPPY)
def test_a_record_that_kafka_appends_is_read_as_java_reads_it(core: ModuleType, name: str) -> None:
    (record,), error, _ = decoded(core, batch_of(SLOPPY[name]))
    assert error is None
    assert (record.offset, record.timestamp_ms, record.key, record.value) == (0, -1, None, None)


@each_core
def test_bytes_of_a_batch_without_records_have_no_meaning(core: ModuleType) -> None:
    out, error, chunk = decoded(core, batch_of(record_of(FINE), count=0, last=4))
    assert (out, error, chunk.position) == ([], None, 5)


@each_core
def test_a_header_name_that_is_no_utf_8_is_read_as_java_reads_it(core: ModuleType) -> None:
    out, error, _ = decoded(core, batch_of(record_of(b"\0\0\0\1\1" + varint(1) + varint(3) + b"a\xffb\1")))
    assert (out[0].headers, error) == ((("a\ufffdb", None),), None)


@each_core
def test_the_same_bytes_undamaged_are_a_record(core: ModuleType) -> None:
    out, error, _ = decoded(core, batch_of(record_of(FINE)))
    assert (len(out), error) == (1, None)
    longest = record_of(b"\0" + b"\xff" * 9 + b"\x01" + b"\0\1\1\0")
    out, error, _ = decoded(core, batch_of(longest))
    assert (out[0].timestamp_ms, error) == (2**63 - 1, None)


@each_core
@pytest.mark.parametrize("count", [-1, -(2**31), 2, 100, 2**31 - 1])
def test_a_count_that_cannot_be_is_corrupt(core: ModuleType, count: int) -> None:
    error = decoded(core, batch_of(record_of(FINE), count))[1]
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 1


@each_core
def test_offsets_that_fall_are_corrupt(core: ModuleType) -> None:
    body = b"".join(record_of(b"\0\0" + varint(i) + b"\1\1\0") for i in (0, 2, 1))
    out, error, _ = decoded(core, batch_of(body, 3, 2))
    assert offsets(out) == [0, 2]
    assert isinstance(error, CorruptRecord)


# ---------------------------------------------------------------- offsets that no batch can have


def ends_at(core: ModuleType, data: bytes, high_watermark: int) -> tuple[int, list[int], bool]:
    """The offset behind the chunk, the offsets decoded, and whether the rest is corrupt."""
    chunk = core.Chunk("t", 3, data, 0, decompress=decompress, max_decompressed=MIB, high_watermark=high_watermark)
    out: list[Any] = []
    try:
        while chunk.decode(out, 10):
            pass
    except CorruptRecord:
        return chunk.next_offset, offsets(out), True
    return chunk.next_offset, offsets(out), False


@each_core
@pytest.mark.parametrize("last", [9, 2**31 - 1])
def test_a_batch_with_fewer_records_than_offsets_ends_at_the_high_watermark_or_before(core: ModuleType, last: int) -> None:
    data = bytes(build_batch(records(3))) + resealed(build_batch(records(2, start=3), base_offset=3), last=last)
    assert ends_at(core, data, 3 + last + 1) == (3 + last + 1, [0, 1, 2, 3, 4], False), "compacted"
    assert ends_at(core, data, 3 + last) == (3, [0, 1, 2], True)


@each_core
def test_a_whole_batch_may_be_newer_than_the_high_watermark_of_its_response(core: ModuleType) -> None:
    assert ends_at(core, bytes(build_batch(records(3))), 0) == (3, [0, 1, 2], False)


@each_core
def test_a_batch_with_fewer_offsets_than_records_is_corrupt(core: ModuleType) -> None:
    data = resealed(build_batch(records(3)), last=1)
    assert ends_at(core, data, 100) == (2, [0, 1], True)
