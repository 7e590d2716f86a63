"""Chunks that are read up to an offset: no record at it or behind, and a position exactly there, whatever batches and gaps lie around."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.errors import CorruptRecord
from pykafka4.wire.records.batch import build_batch
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.layout import INT64_MAX
from tests.wire.records.chunk_bytes import records
from tests.wire.records.chunks.test_hot_chunk_aborted import data, marker
from tests.wire.records.hot_world import MIB, each_core

GZIP = 1


def plain(first: int, count: int, codec: int = 0) -> bytes:
    return build_batch(records(count, start=first), base_offset=first, codec=codec)


LOGS = {
    "batches": (plain(0, 4) + plain(4, 3) + plain(7, 1), list(range(8)), ()),
    "compressed": (plain(0, 4, GZIP) + plain(4, 4, GZIP), list(range(8)), ()),
    "gaps between batches": (plain(0, 2) + plain(5, 3), [0, 1, 5, 6, 7], ()),
    "a batch that lost its last records": (build_batch(records(2), base_offset=0, last_offset_delta=5) + plain(6, 2), [0, 1, 6, 7], ()),
    "an empty batch": (plain(0, 2) + build_batch([], base_offset=2, last_offset_delta=3) + plain(6, 2), [0, 1, 6, 7], ()),
    "markers": (data(0, 2, 7) + data(2, 1, 8) + marker(3, 7) + data(4, 2, 7) + marker(6, 7) + marker(7, 8), [2], [(7, 0), (7, 4)]),
}


def decode(core: ModuleType, content: bytes, aborted: Any, until: int, start: int, step: int) -> tuple[list[int], int]:
    chunk = core.Chunk("t", 0, content, start, decompress=decompress, max_decompressed=MIB, aborted=aborted, until=until)
    out: list[Any] = []
    while not chunk.exhausted:
        chunk.decode(out, step)
    assert chunk.next_offset >= min(until, 8)
    return [record.offset for record in out], chunk.position


def add(core: ModuleType, content: bytes, aborted: Any, until: int, start: int, step: int) -> tuple[list[int], int]:
    chunk = core.Chunk("t", 0, content, start, decompress=decompress, max_decompressed=MIB, aborted=aborted, until=until)
    builder, found = core.ColumnsBuilder(["offset"]), []
    while not chunk.exhausted:
        before = len(builder)
        builder.add(chunk, step)
        if len(builder) > before:
            found.append(builder.added)
    return [offset for first, last, _ in found for offset in range(first, last + 1)], chunk.position


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("log", LOGS)
@each_core
def test_records_before_the_bound_and_none_behind(core: ModuleType, log: str, step: int) -> None:
    content, offsets, aborted = LOGS[log]
    for until in range(1, 12):
        for start in range(until):
            expected = [offset for offset in offsets if start <= offset < until]
            reached = min(until, 8) if until < 8 or start < 8 else start
            assert decode(core, content, aborted, until, start, step) == (expected, reached), (until, start)
            one_by_one = add(core, content, aborted, until, start, 1)
            assert one_by_one == (expected, reached), (until, start)


@each_core
def test_columns_end_at_the_bound_in_one_step(core: ModuleType) -> None:
    content, _, _ = LOGS["batches"]
    for until in range(1, 9):
        assert add(core, content, (), until, 0, 1000) == (list(range(until)), until)


@each_core
def test_damage_behind_the_bound_is_not_seen(core: ModuleType) -> None:
    broken = plain(4, 3)[:-1] + b"?"
    assert decode(core, plain(0, 4) + broken, (), 4, 0, 1000) == ([0, 1, 2, 3], 4)
    with pytest.raises(CorruptRecord):
        decode(core, plain(0, 4) + broken, (), 5, 0, 1000)
    assert decode(core, plain(0, 4) + b"\xff" * 40, (), 3, 0, 1000) == ([0, 1, 2], 3)


@each_core
def test_a_first_batch_behind_the_bound_ends_the_chunk_at_it(core: ModuleType) -> None:
    cut_off = plain(9, 20)[:70]
    for content in (plain(9, 2), cut_off):
        chunk = core.Chunk("t", 0, content, 5, decompress=decompress, max_decompressed=MIB, until=7)
        assert (chunk.exhausted, chunk.incomplete, chunk.position, chunk.next_offset) == (True, 0, 7, 7)


@each_core
def test_an_incomplete_batch_before_the_bound_is_not_the_end(core: ModuleType) -> None:
    chunk = core.Chunk("t", 0, plain(5, 20)[:70], 5, decompress=decompress, max_decompressed=MIB, until=7)
    assert (chunk.exhausted, chunk.incomplete > 70, chunk.position, chunk.next_offset) == (True, True, 5, 5)


@each_core
def test_without_a_bound_everything_is_read(core: ModuleType) -> None:
    content, offsets, _ = LOGS["batches"]
    assert decode(core, content, (), INT64_MAX, 0, 1000) == (offsets, 8)
