"""Fetched bytes to records: what a chunk hands out, where it stops, and how long it holds the bytes."""

from __future__ import annotations

import gc
import struct
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from pykafka4.wire.records.batch import ControlType, WireRecord, build_batch, control_record
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.layout import HEADER_SIZE, LEADER_EPOCH, LOG_APPEND_TIME, MAGIC
from tests.wire.records.chunk_bytes import FINE, batch_of, offsets, record_of, records
from tests.wire.records.hot_world import IMPLEMENTATIONS, MIB, as_tuples, decoded, each_core
from tests.wire.records.message_sets import build_message_set

# ---------------------------------------------------------------- what is handed out


@each_core
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


@each_core
def test_log_append_time_is_that_of_the_batch(core: ModuleType) -> None:
    data = build_batch(records(3), timestamp_type=LOG_APPEND_TIME, max_timestamp_ms=5555)
    out, _, _ = decoded(core, data)
    assert [(r.timestamp_ms, r.timestamp_type) for r in out] == [(5555, "LOG_APPEND_TIME")] * 3


@each_core
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


@each_core
def test_records_before_the_fetch_offset_are_not_handed_out(core: ModuleType) -> None:
    data = build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5)
    out, _, chunk = decoded(core, data, 7)
    assert offsets(out) == [7, 8, 9]
    assert chunk.position == 10


@each_core
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


@each_core
def test_an_empty_batch_moves_the_position(core: ModuleType) -> None:
    out, error, chunk = decoded(core, build_batch([], base_offset=12, last_offset_delta=7), 12)
    assert (out, error, chunk.position, chunk.exhausted) == ([], None, 20, True)


@each_core
def test_control_batches_are_skipped_and_move_the_position(core: ModuleType) -> None:
    marker = build_batch([control_record(ControlType.COMMIT)], base_offset=5, control=True, transactional=True)
    data = build_batch(records(5)) + marker + build_batch(records(2, start=6), base_offset=6)
    out, error, _ = decoded(core, data)
    assert error is None
    assert offsets(out) == [0, 1, 2, 3, 4, 6, 7]
    assert decoded(core, marker, 5)[2].position == 6


@each_core
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview, lambda data: memoryview(b"123" + data)[3:]])
def test_any_buffer_will_do(core: ModuleType, buffer: Any) -> None:
    assert len(decoded(core, buffer(build_batch(records(3))))[0]) == 3


@each_core
def test_a_chunk_says_what_it_is(core: ModuleType) -> None:
    data = build_batch(records(3))
    chunk = core.Chunk("orders", 4, data, 0, serial="s", decompress=decompress, max_decompressed=MIB)
    assert (chunk.topic, chunk.partition, chunk.serial, chunk.size, chunk.position) == ("orders", 4, "s", len(data), 0)


@each_core
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


def test_leader_epoch_and_header_places_are_where_kafka_has_them() -> None:
    data = build_batch(records(1), leader_epoch=9)
    assert struct.unpack_from(">i", data, LEADER_EPOCH) == (9,)
    assert all(decoded(core, data)[0][0].leader_epoch == 9 for core in IMPLEMENTATIONS)


# ---------------------------------------------------------------- cut ends


@each_core
def test_a_cut_last_batch_is_left_for_the_next_fetch(core: ModuleType) -> None:
    whole, second = build_batch(records(5)), build_batch(records(5, start=5), base_offset=5)
    for cut in range(len(second)):
        out, error, chunk = decoded(core, whole + second[:cut])
        assert (len(out), error, chunk.next_offset, chunk.position, chunk.incomplete) == (5, None, 5, 5, 0)


@each_core
def test_a_first_batch_that_is_cut_says_how_much_it_needs(core: ModuleType) -> None:
    data = build_batch(records(50))
    for cut in range(1, len(data)):
        chunk = core.Chunk("t", 0, data[:cut], 0, decompress=decompress, max_decompressed=MIB)
        assert chunk.exhausted
        assert chunk.incomplete == (len(data) if cut > MAGIC else HEADER_SIZE)
        assert (chunk.next_offset, chunk.position, chunk.decode([], 10)) == (0, 0, 0)


@each_core
def test_no_bytes_are_no_records(core: ModuleType) -> None:
    out, error, chunk = decoded(core, b"", 9)
    assert (out, error, chunk.next_offset, chunk.incomplete, chunk.exhausted) == ([], None, 9, 0, True)


# ---------------------------------------------------------------- whose memory


@each_core
def test_the_bytes_are_held_until_they_are_handed_out_and_no_longer(core: ModuleType) -> None:
    data = bytearray(build_batch(records(3)))
    chunk = core.Chunk("t", 0, data, 0, decompress=decompress, max_decompressed=MIB)
    chunk.decode([], 2)
    with pytest.raises(BufferError):
        data.append(0)
    chunk.decode([], 2)
    assert chunk.exhausted
    data.append(0)


@each_core
def test_records_survive_their_chunk(core: ModuleType) -> None:
    data = bytearray(build_batch(records(3, size=100)))
    out, _, chunk = decoded(core, data)
    del chunk
    data[:] = bytes(len(data))
    assert [r.value for r in out] == [b"%d" % i * 100 for i in range(3)]


@pytest.fixture
def small_heap() -> Iterator[None]:
    """What earlier tests left is kept out of collections, which take seconds each when all tests run in one process."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Owner:
    """Holds a chunk that holds it: only the collector ends the two."""

    chunk: Any


@each_core
@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("order", ["owner is older", "bytes are older"])
@pytest.mark.usefixtures("small_heap")
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


@each_core
@pytest.mark.parametrize("before", [0, 5, 7])
@pytest.mark.parametrize("codec", [0, 1])
def test_a_small_chunk_can_let_go_of_its_response_and_hands_out_the_same(core: ModuleType, codec: int, before: int) -> None:
    data = build_batch(records(5)) + build_batch(records(5, start=5), base_offset=5, codec=codec)
    chunk, frame = in_a_response(core, data, 10 * len(data))
    out: list[Any] = []
    chunk.decode(out, before)
    assert is_held(frame)
    chunk.copy_bytes()
    in_plain_batch = core.__name__.endswith("reference") and before in (5, 7)
    assert is_held(frame) == in_plain_batch  # the plain core reads a batch it has entered from where it lies
    if not in_plain_batch:
        frame[:] = bytes(len(frame))
    chunk.copy_bytes()
    while chunk.decode(out, 1):
        pass
    assert [(r.offset, r.value) for r in out] == [(r.offset, r.value) for r in [*records(5), *records(5, start=5)]]
    assert (chunk.exhausted, chunk.position, chunk.size) == (True, 10, len(data))
    assert not is_held(frame)
    chunk.copy_bytes()


@each_core
def test_a_chunk_that_is_most_of_its_response_is_not_copied(core: ModuleType) -> None:
    chunk, frame = in_a_response(core, build_batch(records(5, size=100)), 50)
    chunk.copy_bytes()
    assert is_held(frame)


@each_core
def test_a_batch_that_ends_before_what_was_asked_for_does_not_move_the_position_back(core: ModuleType) -> None:
    data = build_batch(records(3))
    chunk = core.Chunk("t", 0, data, 10, decompress=decompress, max_decompressed=MIB)
    assert (chunk.position, chunk.next_offset) == (10, 10)
    assert chunk.decode([], 10) == 0
    assert chunk.position == 10
