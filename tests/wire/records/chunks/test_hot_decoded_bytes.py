"""`decode` ends when the records that it has appended take so much memory: values, headers as objects, and the records themselves."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.compression import decompress
from tests.wire.records.chunk_bytes import offsets
from tests.wire.records.hot_world import MIB, each_core
from tests.wire.records.message_sets import build_message_set

pytestmark = each_core


def chunk_of(core: ModuleType, data: bytes) -> Any:
    return core.Chunk("t", 3, data, 0, decompress=decompress, max_decompressed=MIB)


@pytest.mark.parametrize("codec", [0, 1])
def test_decode_ends_at_the_record_that_reaches_the_limit_and_goes_on_behind_it(core: ModuleType, codec: int) -> None:
    batches = [build_batch([WireRecord(value=b"x" * 10_000)] * 2, base_offset=2 * i, codec=codec) for i in range(5)]
    chunk, out = chunk_of(core, b"".join(map(bytes, batches))), list[Any]()
    assert chunk.decode(out, 500, 25_000) == 3
    assert (chunk.decoded, chunk.position, chunk.exhausted) == (3 * 10_211, 3, False)
    assert chunk.decode(out, 500, 25_000) == 3
    assert chunk.decode(out, 500) == 4
    assert offsets(out) == list(range(10))
    assert (chunk.decoded, chunk.exhausted) == (4 * 10_211, True)


def test_one_record_is_decoded_whatever_its_size(core: ModuleType) -> None:
    chunk = chunk_of(core, build_batch([WireRecord(value=b"x" * 10_000)] * 2))
    assert chunk.decode([], 500, 1) == 1


def test_headers_weigh_as_the_objects_that_they_become(core: ModuleType) -> None:
    chunk = chunk_of(core, build_batch([WireRecord(headers=(("", None),) * 100)] * 5))
    assert chunk.decode([], 500, 2 * 100 * 160) == 2


def test_records_without_a_value_weigh_something(core: ModuleType) -> None:
    chunk = chunk_of(core, build_batch([WireRecord()] * 100))
    assert chunk.decode([], 500, 2_000) == 10


def test_records_before_the_position_do_not_count(core: ModuleType) -> None:
    data = build_batch([WireRecord(value=b"x" * 10_000)] * 8)
    chunk = core.Chunk("t", 3, data, 6, decompress=decompress, max_decompressed=MIB)
    assert chunk.decode([], 500, 20_000) == 2


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_sets_count_as_well(core: ModuleType, magic: int) -> None:
    data = build_message_set([WireRecord(offset=i, value=b"x" * 10_000) for i in range(5)], magic=magic)
    chunk = chunk_of(core, data)
    assert chunk.decode([], 500, 20_000) == 2
    assert chunk.decode([], 500, 20_000) == 2
    assert chunk.decode([], 500, 20_000) == 1
