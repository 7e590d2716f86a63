"""`Chunk.whole_batch` and `skip`: the batches that `decode` would read, as they are, in turns with it."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import ConfigError, CorruptRecord, RecordTooLarge
from pykafka4.wire.records.batch import ControlType, WireRecord, build_batch, control_record
from pykafka4.wire.records.compression import decompress
from tests.wire.records.chunk_bytes import records
from tests.wire.records.hot_world import MIB, each_core
from tests.wire.records.message_sets import build_message_set


def made(core: ModuleType, data: bytes, offset: int = 0, **more: Any) -> Any:
    return core.Chunk("t", 3, data, offset, decompress=decompress, max_decompressed=MIB, **more)


def taken(chunk: Any) -> list[bytes]:
    """All batches that are left."""
    found = []
    while (data := chunk.whole_batch()) is not None:
        found.append(data)
        chunk.skip()
    return found


def batch(start: int, count: int = 3, **more: Any) -> bytes:
    return build_batch(records(count, start=start), base_offset=start, **more)


@each_core
def test_all_batches_come_in_order_and_move_the_position(core: ModuleType) -> None:
    parts = [batch(0), batch(3, codec=1), batch(8, last_offset_delta=9)]
    chunk = made(core, b"".join(parts) + parts[0][:40])
    assert chunk.whole_batch() == chunk.whole_batch() == parts[0]
    assert (chunk.position, chunk.decoded) == (0, len(parts[0]))
    assert chunk.skip() == 3
    assert taken(chunk) == parts[1:]
    assert (chunk.position, chunk.exhausted, chunk.decoded) == (18, True, 0)


@each_core
@pytest.mark.parametrize(("rows", "position", "whole"), [(2, 2, 0), (4, 4, 1)])
def test_a_batch_that_columns_have_begun_comes_whole(core: ModuleType, rows: int, position: int, whole: int) -> None:
    parts = [batch(0), batch(3), batch(6)]
    chunk = made(core, b"".join(parts))
    assert core.ColumnsBuilder().add(chunk, rows) == rows
    chunk.copy_bytes()
    assert (chunk.whole_batch(), chunk.position) == (parts[whole], position)
    assert taken(chunk) == parts[whole:]


@each_core
def test_a_batch_that_decode_has_begun_comes_whole(core: ModuleType) -> None:
    for codec in (0, 4):
        parts = [batch(0, codec=codec), batch(3, codec=codec)]
        data = b"".join(parts)
        response = bytearray(data + bytes(10 * len(data)))
        chunk = made(core, memoryview(response)[: len(data)])
        out: list[Any] = []
        chunk.decode(out, 2)
        chunk.copy_bytes()  # as `pause` does
        if not core.__name__.endswith("reference"):  # the plain core reads a batch that it has entered from where it lies
            response[:] = bytes(len(response))
        assert chunk.whole_batch() == parts[0]
        assert chunk.position == 2
        chunk.skip()
        chunk.decode(out, 1)
        assert [record.offset for record in out] == [0, 1, 3]
        chunk.decode(out, 2)
        assert chunk.whole_batch() is None


@each_core
def test_a_batch_whose_records_were_all_returned_is_passed_over(core: ModuleType) -> None:
    parts = [batch(0), batch(3)]
    chunk = made(core, b"".join(parts))
    chunk.decode([], 3)
    assert taken(chunk) == parts[1:]


@each_core
def test_markers_aborted_and_emptied_batches_are_passed_over(core: ModuleType) -> None:
    own = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    marker = build_batch([control_record(ControlType.ABORT)], base_offset=6, control=True, **own)  # type: ignore[arg-type]
    kept = batch(7, **own)
    empty = build_batch([], base_offset=10, last_offset_delta=4)
    chunk = made(core, batch(0) + batch(3, **own) + marker + kept + empty + batch(15), aborted=[(7, 3)])
    assert taken(chunk) == [batch(0), kept, batch(15)]
    assert chunk.position == 18


@each_core
def test_a_damaged_batch_raises_again_and_again_until_it_is_skipped(core: ModuleType) -> None:
    wrong = bytearray(batch(3))
    wrong[-1] ^= 1
    chunk = made(core, batch(0) + bytes(wrong) + batch(6))
    assert chunk.whole_batch() == batch(0)
    chunk.skip()
    for _ in range(2):
        with pytest.raises(CorruptRecord) as caught:
            chunk.whole_batch()
        assert (caught.value.offset, caught.value.next_offset) == (3, 6)
    chunk.skip()
    assert taken(chunk) == [batch(6)]


@each_core
@pytest.mark.parametrize("kind", [ConfigError, RecordTooLarge])
def test_a_marker_that_cannot_be_decompressed_is_named(core: ModuleType, kind: type[Exception]) -> None:
    def unpack(codec: int, content: bytes, bound: int) -> bytes:
        raise kind("no")

    own = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    marker = build_batch([control_record(ControlType.ABORT)], base_offset=6, control=True, codec=1, **own)  # type: ignore[arg-type]
    for step in ("whole_batch", "decode"):
        chunk = core.Chunk("t", 3, marker, 6, decompress=unpack, max_decompressed=MIB, aborted=[(7, 3)])
        with pytest.raises(kind, match=r"t-3.*offset.* 6.*no"):
            chunk.whole_batch() if step == "whole_batch" else chunk.decode([], 1)


@each_core
def test_an_invalid_header_raises(core: ModuleType) -> None:
    chunk = made(core, batch(0) + b"\xff" * 70)
    chunk.whole_batch()
    chunk.skip()
    with pytest.raises(CorruptRecord, match="a batch header is invalid"):
        chunk.whole_batch()


@each_core
@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (1, 1)])
def test_messages_of_old_formats_come_one_by_one(core: ModuleType, magic: int, codec: int) -> None:
    rows = [WireRecord(value=b"%d" % n, timestamp_ms=5) for n in range(3)]
    data = build_message_set(rows, magic, codec)
    chunk = made(core, data)
    assert b"".join(taken(chunk)) == data
    assert (chunk.position, chunk.exhausted) == (3, True)


@each_core
def test_a_bound_in_a_batch_is_where_the_chunk_ends(core: ModuleType) -> None:
    chunk = made(core, batch(0) + batch(3) + batch(6), until=4)
    assert chunk.until == 4
    assert taken(chunk) == [batch(0), batch(3)]
    assert (chunk.position, chunk.exhausted) == (4, True)
