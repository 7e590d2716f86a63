"""Fetched bytes to records: the same promises of both implementations, and of both on hostile bytes."""

from __future__ import annotations

import gc
import pickle
import struct
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hostile_bytes import damaged, keep
from hot_world import IMPLEMENTATIONS, MIB, as_tuples, decoded, name_of
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_meter import at_most

from pykafka4.errors import CorruptRecord, DecodeError, RecordTooLarge
from pykafka4.wire import hot
from pykafka4.wire.batch import (
    ATTRIBUTES,
    BASE_OFFSET,
    COUNT,
    CRC,
    HEADER_SIZE,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    LENGTH,
    LOG_APPEND_TIME,
    MAGIC,
    ControlType,
    WireRecord,
    build_batch,
    build_message_set,
    control_record,
    crc32c,
    varint,
)
from pykafka4.wire.compression import decompress

each = pytest.mark.parametrize("core", IMPLEMENTATIONS, ids=name_of)
CORPUS = Path(__file__).parent / "corpus_hot"


def records(count: int, size: int = 5, start: int = 0) -> list[WireRecord]:
    return [WireRecord(offset=start + i, timestamp_ms=1000 + i, value=b"%d" % i * size) for i in range(count)]


def offsets(found: list[Any]) -> list[int]:
    return [r.offset for r in found]


def resealed(data: bytes, **fields: int) -> bytes:
    """`data` with header fields changed and the checksum made right again."""
    out = bytearray(data)
    places = {"count": (COUNT, ">i"), "last": (LAST_OFFSET_DELTA, ">i"), "bits": (ATTRIBUTES, ">h")}
    for name, value in fields.items():
        place, kind = places[name]
        struct.pack_into(kind, out, place, value)
    struct.pack_into(">I", out, CRC, crc32c(bytes(out[ATTRIBUTES:])))
    return bytes(out)


def batch_of(body: bytes, count: int = 1, last: int = 0) -> bytes:
    """A batch whose records are `body`, whatever that is, with a good checksum."""
    empty = bytearray(build_batch([]))
    struct.pack_into(">i", empty, LENGTH, HEADER_SIZE - 12 + len(body))
    return resealed(bytes(empty) + body, count=count, last=last)


def record_of(body: bytes) -> bytes:
    return varint(len(body)) + body


# ---------------------------------------------------------------- what is handed out


@each
@pytest.mark.parametrize("codec", range(5))
def test_records_come_out_as_they_went_in(core: ModuleType, codec: int) -> None:
    put = [
        WireRecord(offset=10, timestamp_ms=1000, key=b"k", value=b"v", headers=(("h", b"1"), ("ü", None), ("h", b""))),
        WireRecord(offset=11, timestamp_ms=999, key=None, value=None),
        WireRecord(offset=12, timestamp_ms=2**62, key=b"", value=b""),
        WireRecord(offset=13, timestamp_ms=0, value=b"x" * 70_000),
    ]
    out, error, chunk = decoded(core, build_batch(put, base_offset=10, codec=codec, leader_epoch=7), 10)
    assert error is None
    assert as_tuples(out) == [("t", 3, r.offset, r.timestamp_ms, "CREATE_TIME", r.key, r.value, r.headers, 7) for r in put]
    assert (chunk.position, chunk.next_offset, chunk.exhausted, chunk.last_leader_epoch, chunk.incomplete) == (14, 14, True, 7, 0)


@each
def test_log_append_time_is_that_of_the_batch(core: ModuleType) -> None:
    data = build_batch(records(3), timestamp_type=LOG_APPEND_TIME, max_timestamp_ms=5555)
    out, _, _ = decoded(core, data)
    assert [(r.timestamp_ms, r.timestamp_type) for r in out] == [(5555, "LOG_APPEND_TIME")] * 3


@each
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_decode_hands_out_no_more_than_asked_for_and_goes_on_where_it_stopped(core: ModuleType, limit: int) -> None:
    data = build_batch(records(5)) + build_batch(records(4, start=5), base_offset=5, codec=1)
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=MIB)
    out: list[Any] = []
    while not chunk.exhausted:
        before = len(out)
        n = chunk.decode(out, limit)
        assert len(out) - before == n <= limit
        assert chunk.position == (out[-1].offset + 1 if out else 0)
    assert offsets(out) == list(range(9))
    assert chunk.decode(out, limit) == 0


@each
def test_records_before_the_fetch_offset_are_not_handed_out(core: ModuleType) -> None:
    data = build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5)
    out, _, chunk = decoded(core, data, 7)
    assert offsets(out) == [7, 8, 9]
    assert chunk.position == 10


@each
def test_compaction_gaps_move_the_position(core: ModuleType) -> None:
    data = build_batch([WireRecord(offset=3, value=b"a"), WireRecord(offset=6, value=b"b")], base_offset=2, last_offset_delta=9)
    data += build_batch([], base_offset=12, last_offset_delta=7) + build_batch(records(1, start=30), base_offset=30)
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=MIB)
    out: list[Any] = []
    positions = []
    while chunk.decode(out, 1):
        positions.append(chunk.position)
    assert offsets(out) == [3, 6, 30]
    assert positions[:2] == [4, 7]
    assert chunk.position == chunk.next_offset == 31


@each
def test_an_empty_batch_moves_the_position(core: ModuleType) -> None:
    out, error, chunk = decoded(core, build_batch([], base_offset=12, last_offset_delta=7), 12)
    assert (out, error, chunk.position, chunk.exhausted) == ([], None, 20, True)


@each
def test_control_batches_are_skipped_and_move_the_position(core: ModuleType) -> None:
    marker = build_batch([control_record(ControlType.COMMIT)], base_offset=5, control=True, transactional=True)
    data = build_batch(records(5)) + marker + build_batch(records(2, start=6), base_offset=6)
    out, error, _ = decoded(core, data)
    assert error is None
    assert offsets(out) == [0, 1, 2, 3, 4, 6, 7]
    assert decoded(core, marker, 5)[2].position == 6


@each
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, lambda data: memoryview(b"123" + data)[3:]])
def test_any_buffer_will_do(core: ModuleType, buffer: Any) -> None:
    assert len(decoded(core, buffer(build_batch(records(3))))[0]) == 3


@each
def test_the_bytes_are_held_until_they_are_handed_out_and_no_longer(core: ModuleType) -> None:
    data = bytearray(build_batch(records(3)))
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=MIB)
    chunk.decode([], 2)
    with pytest.raises(BufferError):
        data.append(0)
    chunk.decode([], 2)
    assert chunk.exhausted
    data.append(0)


@each
def test_a_chunk_says_what_it_is(core: ModuleType) -> None:
    data = build_batch(records(3))
    chunk = core.Chunk("orders", 4, data, 0, serial="s", decompress=decompress, max_decompressed=MIB)
    assert (chunk.topic, chunk.partition, chunk.serial, chunk.size, chunk.position) == ("orders", 4, "s", len(data), 0)


@each
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_message_formats_are_read(core: ModuleType, magic: int, codec: int) -> None:
    put = [WireRecord(offset=10 + i, timestamp_ms=50 + i if magic else -1, key=b"k", value=b"%d" % i) for i in range(4)]
    data = build_message_set(put, magic, codec)
    out, error, chunk = decoded(core, data, 11)
    assert error is None
    assert [(r.offset, r.key, r.value) for r in out] == [(10 + i, b"k", b"%d" % i) for i in range(1, 4)]
    assert out[0].timestamp_ms == (51 if magic else -1)
    assert out[0].timestamp_type == ("CREATE_TIME" if magic else "NO_TIMESTAMP_TYPE")
    assert (chunk.position, chunk.exhausted) == (14, True)


# ---------------------------------------------------------------- cut ends


@each
def test_a_cut_last_batch_is_left_for_the_next_fetch(core: ModuleType) -> None:
    whole, second = build_batch(records(5)), build_batch(records(5, start=5), base_offset=5)
    for cut in range(len(second)):
        out, error, chunk = decoded(core, whole + second[:cut])
        assert (len(out), error, chunk.next_offset, chunk.position, chunk.incomplete) == (5, None, 5, 5, 0)


@each
def test_a_first_batch_that_is_cut_says_how_much_it_needs(core: ModuleType) -> None:
    data = build_batch(records(50))
    for cut in range(1, len(data)):
        chunk = core.Chunk("t", 0, data[:cut], 0, decompress=decompress, max_decompressed=MIB)
        assert chunk.exhausted
        assert chunk.incomplete == (len(data) if cut > MAGIC else HEADER_SIZE)
        assert (chunk.next_offset, chunk.position, chunk.decode([], 10)) == (0, 0, 0)


@each
def test_no_bytes_are_no_records(core: ModuleType) -> None:
    out, error, chunk = decoded(core, b"", 9)
    assert (out, error, chunk.next_offset, chunk.incomplete, chunk.exhausted) == ([], None, 9, 0, True)


# ---------------------------------------------------------------- damage


@each
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


@each
def test_damage_never_takes_records_of_the_same_call_along(core: ModuleType) -> None:
    bad = bytearray(build_batch(records(5, start=5), base_offset=5))
    bad[-1] ^= 1
    chunk = core.Chunk("t", 0, build_batch(records(5)) + bad, 0, decompress=decompress, max_decompressed=MIB)
    out: list[Any] = []
    assert chunk.decode(out, 1000) == 5
    with pytest.raises(CorruptRecord):
        chunk.decode(out, 1000)
    assert len(out) == 5


@each
def test_skip_passes_the_damaged_batch(core: ModuleType) -> None:
    bad = bytearray(build_batch(records(5, start=5), base_offset=5))
    bad[-1] ^= 1
    out, error, chunk = decoded(core, build_batch(records(5)) + bad + build_batch(records(2, start=10), base_offset=10))
    assert isinstance(error, CorruptRecord)
    assert chunk.skip() == 10
    assert chunk.decode(out, 10) == 2
    assert offsets(out) == [0, 1, 2, 3, 4, 10, 11]


@each
def test_a_record_damaged_in_the_middle_leaves_those_before_it(core: ModuleType) -> None:
    body = b"".join(record_of(b"\0\0" + varint(i) + b"\1\1\0") for i in range(3)) + record_of(b"\0\0" + varint(3) + varint(50) + b"\1\0")
    out, error, chunk = decoded(core, batch_of(body, 4, 3))
    assert offsets(out) == [0, 1, 2]
    assert isinstance(error, CorruptRecord)
    assert error.offset == chunk.position == 3
    assert chunk.skip() == error.next_offset == 4
    assert chunk.exhausted


FINE = b"\0\0\0\1\1\0"  # attributes, timestamp, offset, no key, no value, no headers
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
    "timestamp of 65 bits": record_of(b"\0" + b"\xff" * 9 + b"\x02" + b"\0\1\1\0"),
    "offset below the base": record_of(b"\0\0" + varint(-1) + b"\1\1\0"),
    "offset past the last": record_of(b"\0\0" + varint(1) + b"\1\1\0"),
    "offset of 2^31": record_of(b"\0\0" + varint(2**31) + b"\1\1\0"),
    "key of -2": record_of(b"\0\0\0" + varint(-2) + b"\1\0"),
    "key beyond the record": record_of(b"\0\0\0" + varint(4) + b"\1\0"),
    "key of 2^31 - 1": record_of(b"\0\0\0" + varint(2**31 - 1) + b"\1\0"),
    "value of -2": record_of(b"\0\0\0\1" + varint(-2) + b"\0"),
    "value beyond the record": record_of(b"\0\0\0\1" + varint(2) + b"\0"),
    "no headers": record_of(b"\0\0\0\1\1"),
    "headers of -1": record_of(b"\0\0\0\1\1" + varint(-1)),
    "more headers than bytes": record_of(b"\0\0\0\1\1" + varint(2) + b"\0\1\0"),
    "2^31 - 1 headers": record_of(b"\0\0\0\1\1" + varint(2**31 - 1) + b"\0\1\0"),
    "header name of -1": record_of(b"\0\0\0\1\1" + varint(1) + b"\1\1"),
    "header name beyond the record": record_of(b"\0\0\0\1\1" + varint(1) + varint(5) + b"\1"),
    "header value of -2": record_of(b"\0\0\0\1\1" + varint(1) + b"\0" + varint(-2)),
    "header value beyond the record": record_of(b"\0\0\0\1\1" + varint(1) + b"\0" + varint(5)),
    "bytes behind the headers": record_of(b"\0\0\0\1\1\0\0"),
    "bytes behind the record": record_of(FINE) + b"\0",
    "record cut": record_of(FINE)[:-1],
}


@each
@pytest.mark.parametrize("name", BODIES)
def test_a_damaged_record_is_corrupt_and_nothing_else(core: ModuleType, name: str) -> None:
    out, error, _ = decoded(core, batch_of(BODIES[name]))
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 1
    assert len(out) == (name == "bytes behind the record")


@each
def test_a_header_name_that_is_no_utf_8_is_read_as_java_reads_it(core: ModuleType) -> None:
    out, error, _ = decoded(core, batch_of(record_of(b"\0\0\0\1\1" + varint(1) + varint(3) + b"a\xffb\1")))
    assert (out[0].headers, error) == ((("a\ufffdb", None),), None)


@each
def test_the_same_bytes_undamaged_are_a_record(core: ModuleType) -> None:
    out, error, _ = decoded(core, batch_of(record_of(FINE)))
    assert (len(out), error) == (1, None)
    longest = record_of(b"\0" + b"\xff" * 9 + b"\x01" + b"\0\1\1\0")
    out, error, _ = decoded(core, batch_of(longest))
    assert (out[0].timestamp_ms, error) == (2**63 - 1, None)


@each
@pytest.mark.parametrize("count", [-1, -(2**31), 2, 100, 2**31 - 1])
def test_a_count_that_cannot_be_is_corrupt(core: ModuleType, count: int) -> None:
    error = decoded(core, batch_of(record_of(FINE), count))[1]
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 1


@each
def test_offsets_that_fall_are_corrupt(core: ModuleType) -> None:
    body = b"".join(record_of(b"\0\0" + varint(i) + b"\1\1\0") for i in (0, 2, 1))
    out, error, _ = decoded(core, batch_of(body, 3, 2))
    assert offsets(out) == [0, 2]
    assert isinstance(error, CorruptRecord)


@each
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
    assert "is not known" in str(error)
    assert not chunk.exhausted
    chunk.skip()
    assert chunk.exhausted


@each
def test_an_unknown_codec_is_corrupt(core: ModuleType) -> None:
    error = decoded(core, resealed(build_batch(records(1)), bits=6))[1]
    assert isinstance(error, CorruptRecord)
    assert "codec 6" in str(error)
    assert error.next_offset == 1


@each
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_batch_that_does_not_unpack_is_corrupt(core: ModuleType, codec: int) -> None:
    error = decoded(core, resealed(build_batch(records(3)), bits=codec))[1]
    assert isinstance(error, CorruptRecord)
    assert error.next_offset == 3


@each
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


# ---------------------------------------------------------------- hostile bytes

SEEDS = [
    build_batch(records(20)),
    build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5, codec=2) + build_batch(records(2, start=10), base_offset=10),
    build_batch([WireRecord(offset=i, key=b"k" * i, value=None, headers=(("h", b"v" * i),) * i) for i in range(6)]),
    build_batch([control_record(ControlType.ABORT)], control=True) + build_batch(records(3, start=1), base_offset=1, codec=4),
    build_message_set(records(4), 1),
    build_message_set(records(4), 1, 1),
    build_message_set(records(4), 0),
]


def resealed_maybe(data: bytes) -> bytes:
    """Changed bytes behind a checksum that is right again, where there is room for one."""
    if len(data) <= HEADER_SIZE:
        return data
    out = bytearray(data)
    length = struct.unpack_from(">i", out, LENGTH)[0] + 12
    if HEADER_SIZE <= length <= len(out):
        struct.pack_into(">I", out, CRC, crc32c(bytes(out[ATTRIBUTES:length])))
    return bytes(out)


def outcome(core: ModuleType, data: bytes, offset: int, step: int) -> tuple[Any, ...]:
    """Everything that can be seen of decoding `data`; anything but the promised errors breaks the test."""
    out, error, chunk = decoded(core, data, offset, step=step)
    assert error is None or isinstance(error, (CorruptRecord, RecordTooLarge, DecodeError)), repr(error)
    where = (chunk.position, chunk.next_offset, chunk.incomplete, chunk.last_leader_epoch, chunk.exhausted)
    more: list[Any] = []
    passed = chunk.skip() if error is not None else None
    return as_tuples(out), type(error), getattr(error, "offset", None), where, passed, as_tuples(more)


def check(data: bytes, offset: int = 0, step: int = 7) -> None:
    """Both give the same; when they do not, the input is kept."""
    try:
        seen = [outcome(core, data, offset, step) for core in IMPLEMENTATIONS]
        assert all(one == seen[0] for one in seen), data.hex()
    except BaseException as error:
        keep(CORPUS, "chunk", type(error).__name__, ".hex", f"{data.hex()}\n{offset} {step}\n".encode())
        raise


MUTANTS = st.one_of(damaged(*SEEDS), damaged(*SEEDS).map(resealed_maybe), damaged(*SEEDS).map(resealed_maybe))


def test_mutated_bytes_give_the_same_records_and_errors_from_both_and_cost_little() -> None:
    @settings(max_examples=60 * settings.default.max_examples)
    @given(MUTANTS, st.sampled_from((0, 0, 3, 7)), st.sampled_from((1, 7, 1000)))
    def decoding(data: bytes, offset: int, step: int) -> None:
        check(data, offset, step)

    with at_most():
        decoding()


def test_an_input_that_fails_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CORPUS", tmp_path)
    monkeypatch.setitem(globals(), "outcome", lambda *args: object())
    with pytest.raises(AssertionError):
        check(b"abc", 3, 1)
    (path,) = tmp_path.glob("chunk-*.hex")
    assert kept(path) == [(b"abc", 3, 1)]


@given(st.binary(max_size=300))
def test_random_bytes_give_the_same_errors_from_both(data: bytes) -> None:
    check(data)


@given(st.binary(max_size=120), st.integers(-1, 5), st.integers(-1, 5))
def test_random_records_behind_a_good_checksum_give_the_same_from_both(body: bytes, count: int, last: int) -> None:
    check(batch_of(body, count, last))


WIRE_RECORDS = st.builds(
    WireRecord,
    timestamp_ms=st.integers(0, 2**62),
    key=st.none() | st.binary(max_size=200),
    value=st.none() | st.binary(max_size=200),
    headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=4).map(tuple),
)


@given(st.lists(WIRE_RECORDS, max_size=20), st.integers(0, 4), st.integers(0, 2**40), st.integers(1, 25))
def test_any_records_give_the_same_from_both(put: list[WireRecord], codec: int, base: int, step: int) -> None:
    data = build_batch(put, base_offset=base, codec=codec, last_offset_delta=None if put else 0)
    check(data, base, step)
    out = decoded(IMPLEMENTATIONS[0], data, base)[0]
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in out] == [(r.timestamp_ms, r.key, r.value, r.headers) for r in put]


def kept(path: Path) -> list[tuple[bytes, int, int]]:
    """(bytes, offset, step) of a kept input; by hand only the bytes are written."""
    data, *rest = path.read_text().split()
    return [(bytes.fromhex(data), int(rest[0]), int(rest[1]))] if rest else [(bytes.fromhex(data), 0, step) for step in (1, 7, 1000)]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.hex")), ids=lambda path: path.stem)
def test_what_once_went_wrong_stays_right(path: Path) -> None:
    for data, offset, step in kept(path):
        check(data, offset, step)


def test_leader_epoch_and_header_places_are_where_kafka_has_them() -> None:
    data = build_batch(records(1), leader_epoch=9)
    assert struct.unpack_from(">i", data, LEADER_EPOCH) == (9,)
    assert all(decoded(core, data)[0][0].leader_epoch == 9 for core in IMPLEMENTATIONS)


# ---------------------------------------------------------------- the record type


@each
def test_records_are_values(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "Record", core.Record)  # pickles name the class by the module that exports it
    full = core.Record("t", 1, 2, 3, "CREATE_TIME", b"k", b"v", (("h", b"1"),), 4)
    assert full == core.Record(
        topic="t",
        partition=1,
        offset=2,
        timestamp_ms=3,
        timestamp_type="CREATE_TIME",
        key=b"k",
        value=b"v",
        headers=(("h", b"1"),),
        leader_epoch=4,
    )
    assert hash(full) == hash(pickle.loads(pickle.dumps(full)))
    assert pickle.loads(pickle.dumps(full)) == full
    assert full != core.Record("t", 1, 3)
    assert full != "t"
    bare = core.Record("t", 1, 2)
    assert (bare.timestamp_ms, bare.timestamp_type, bare.key, bare.value, bare.headers, bare.leader_epoch) == (
        -1,
        "CREATE_TIME",
        None,
        None,
        (),
        -1,
    )
    assert repr(bare) == (
        "Record(topic='t', partition=1, offset=2, timestamp_ms=-1, timestamp_type='CREATE_TIME', "
        "key=None, value=None, headers=(), leader_epoch=-1)"
    )


@each
def test_records_cannot_be_changed(core: ModuleType) -> None:
    record = core.Record("t", 1, 2)
    with pytest.raises(AttributeError):
        record.value = b"x"
    with pytest.raises(AttributeError):
        record.other = 1


@each
@pytest.mark.parametrize("arguments", [(), ("t",), ("t", 1), ("t", 1, 2, 3, 4, 5, 6, 7, 8, 9)])
def test_a_record_needs_its_place(core: ModuleType, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        core.Record(*arguments)


@each
def test_records_survive_their_chunk(core: ModuleType) -> None:
    data = bytearray(build_batch(records(3, size=100)))
    out, _, chunk = decoded(core, data)
    del chunk
    data[:] = bytes(len(data))
    assert [r.value for r in out] == [b"%d" % i * 100 for i in range(3)]


class Owner:
    """Holds a chunk that holds it: only the collector ends the two."""

    chunk: Any


@each
@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("order", ["owner is older", "bytes are older"])
def test_the_collector_ends_a_chunk_that_is_part_of_a_cycle(
    core: ModuleType, monkeypatch: pytest.MonkeyPatch, order: str, kind: type
) -> None:
    """Older garbage is cleared first: neither may pull the rug from under the other."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    for _ in range(20):
        owner = Owner() if order == "owner is older" else None
        view = memoryview(kind(batch_of(record_of(FINE))))[:]
        chunk = core.Chunk("t", 0, view, 0, serial=owner, decompress=decompress, max_decompressed=MIB)
        owner = owner or Owner()
        owner.chunk, owner.me = chunk, owner  # type: ignore[attr-defined]
        chunk.decode([], 1)
        del owner, view, chunk
        gc.collect()
    assert not complaints


# ---------------------------------------------------------------- whose memory


def in_a_response(core: ModuleType, data: bytes, others: int) -> tuple[Any, bytearray]:
    """A chunk of `data` in the middle of a response with so many bytes of others."""
    frame = bytearray(others // 2) + data + bytearray(others - others // 2)
    view = memoryview(frame)[others // 2 : others // 2 + len(data)]
    return core.Chunk("t", 3, view, 0, decompress=decompress, max_decompressed=MIB), frame


def is_held(frame: bytearray) -> bool:
    try:
        frame.append(0)
    except BufferError:
        return True
    return False


@each
@pytest.mark.parametrize("before", [0, 5, 7])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_small_chunk_can_let_go_of_its_response_and_hands_out_the_same(core: ModuleType, codec: int, before: int) -> None:
    data = build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5, codec=codec)
    chunk, frame = in_a_response(core, data, 10 * len(data))
    out: list[Any] = []
    chunk.decode(out, before)
    assert is_held(frame)
    chunk.own()
    in_plain_batch = core.__name__.endswith("reference") and before in (5, 7)
    assert is_held(frame) == in_plain_batch  # the plain core reads a batch it has entered from where it lies
    if not in_plain_batch:
        frame[:] = bytes(len(frame))
    chunk.own()
    while chunk.decode(out, 1):
        pass
    assert [(r.offset, r.value) for r in out] == [(r.offset, r.value) for r in [*records(5), *records(5, start=5)]]
    assert (chunk.exhausted, chunk.position, chunk.size) == (True, 10, len(data))
    assert not is_held(frame)
    chunk.own()


@each
def test_a_chunk_that_is_most_of_its_response_is_not_copied(core: ModuleType) -> None:
    chunk, frame = in_a_response(core, build_batch(records(5, size=100)), 50)
    chunk.own()
    assert is_held(frame)
