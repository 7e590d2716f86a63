"""Chunks with aborted transactions: what both cores pass over, and where that ends (Kafka's CompletedFetch)."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import CorruptRecord
from pykafka4.wire.records.batch import ControlType, WireRecord, build_batch, control_record
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import TRANSACTIONAL_BIT
from tests.wire.records.chunk_bytes import batch_of, offsets, record_of, records, resealed
from tests.wire.records.hot_world import IMPLEMENTATIONS, MIB, as_tuples, each_core

NONE = -1  # no producer


def data(first: int, count: int, producer: int, *, codec: int = 0, transactional: bool = True) -> bytes:
    return build_batch(
        records(count, start=first), base_offset=first, codec=codec, producer_id=producer, producer_epoch=0, transactional=transactional
    )


def marker(offset: int, producer: int, kind: ControlType = ControlType.ABORT, **changes: Any) -> bytes:
    row = WireRecord(timestamp_ms=1, key=changes.get("key", control_record(kind).key), value=control_record(kind).value)
    rows = [row] * changes.get("count", 1)
    return build_batch(
        rows,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        transactional=True,
        control=True,
        codec=changes.get("codec", 0),
        last_offset_delta=changes.get("last"),
    )


def read(core: ModuleType, content: bytes, aborted: Any, *, start: int = 0, step: int = 1000) -> tuple[list[int], int, type | None]:
    """(offsets, the position afterwards, what ended it)"""
    chunk = core.Chunk("t", 0, content, start, decompress=decompress, max_decompressed=MIB, aborted=aborted)
    out: list[Any] = []
    try:
        while chunk.decode(out, step) or (not chunk.exhausted and chunk.decode(out, step)):
            pass
    except CorruptRecord as error:
        return offsets(out), chunk.position, type(error)
    return offsets(out), chunk.position, None


@each_core
def test_records_of_an_aborted_transaction_are_passed_over_up_to_its_marker(core: ModuleType) -> None:
    content = data(0, 2, 7) + data(2, 1, 8) + marker(3, 7) + data(4, 2, 7) + marker(6, 7, ControlType.COMMIT)
    assert read(core, content, [(7, 0)]) == ([2, 4, 5], 7, None)
    assert read(core, content, []) == ([0, 1, 2, 4, 5], 7, None)


@each_core
def test_the_list_counts_from_the_first_offset_of_each_transaction(core: ModuleType) -> None:
    content = data(0, 2, 7) + marker(2, 7, ControlType.COMMIT) + data(3, 1, 7) + marker(4, 7) + data(5, 1, 7) + marker(6, 7)
    assert read(core, content, [(7, 3)]) == ([0, 1, 5], 7, None)
    assert read(core, content, [(7, 5), (7, 3)]) == ([0, 1], 7, None), "in any order"


@each_core
def test_a_list_in_the_order_of_the_markers_is_put_into_that_of_the_first_offsets(core: ModuleType) -> None:
    content = data(0, 1, 1) + data(1, 1, 2) + marker(2, 2) + data(3, 1, 2) + marker(4, 1) + marker(5, 2, ControlType.COMMIT)
    assert read(core, content, [(2, 1), (1, 0)]) == ([3], 6, None)


@each_core
def test_a_fetch_from_the_middle_of_an_aborted_transaction(core: ModuleType) -> None:
    content = data(0, 4, 7) + data(4, 1, 8) + marker(5, 7)
    assert read(core, content, [(7, 0)], start=2) == ([4], 6, None)
    assert read(core, content[len(data(0, 4, 7)) :], [(7, 0)], start=4) == ([4], 6, None)
    assert read(core, marker(5, 7) + data(6, 1, 7), [(7, 0)], start=5) == ([6], 7, None)


@each_core
def test_a_commit_marker_ends_no_aborted_transaction(core: ModuleType) -> None:
    content = data(0, 1, 7) + marker(1, 7, ControlType.COMMIT) + data(2, 1, 7) + marker(3, 7)
    assert read(core, content, [(7, 0)]) == ([], 4, None)


@each_core
def test_transactions_that_begin_behind_the_chunk_do_not_count_yet(core: ModuleType) -> None:
    assert read(core, data(0, 3, 7), [(7, 3)]) == ([0, 1, 2], 3, None)


@each_core
def test_a_transaction_that_begins_inside_a_batch_takes_the_whole_batch(core: ModuleType) -> None:
    assert read(core, data(0, 3, 7), [(7, 2)]) == ([], 3, None), "as Java does: brokers never list such a one"


@each_core
def test_batches_without_a_transaction_are_never_passed_over(core: ModuleType) -> None:
    plain = build_batch(records(1, start=1), base_offset=1)
    content = data(0, 1, 7, transactional=False) + plain + data(2, 1, 7)
    assert read(core, content, [(7, 0), (NONE, 0)]) == ([0, 1], 3, None)


@each_core
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_an_aborted_batch_is_not_unpacked(core: ModuleType, codec: int) -> None:
    called: list[int] = []

    def unpack(codec: int, content: Any, bound: int) -> bytes:
        called.append(codec)
        return decompress(codec, content, bound)

    content = data(0, 50, 7, codec=codec) + marker(50, 7) + data(51, 2, 7, codec=codec)
    chunk = core.Chunk("t", 0, content, 0, decompress=unpack, max_decompressed=MIB, aborted=[(7, 0)])
    out: list[Any] = []
    assert (chunk.decode(out, 100), offsets(out), called) == (2, [51, 52], [codec])


@each_core
def test_small_steps_and_markers_between(core: ModuleType) -> None:
    content = b"".join(data(3 * n, 2, 7) + marker(3 * n + 2, 7, ControlType(n % 2)) for n in range(10))
    aborted = [(7, 3 * n) for n in range(0, 10, 2)]
    expected = [3 * n + i for n in range(1, 10, 2) for i in (0, 1)]
    for step in (1, 2, 3, 100):
        assert read(core, content, aborted, step=step) == (expected, 30, None)


ODD_KEYS = {
    "no key": (None, CorruptRecord),
    "an empty key": (b"", CorruptRecord),
    "three bytes": (b"\0\0\0", CorruptRecord),
    "a negative version": (b"\xff\xff\0\0", CorruptRecord),
    "a type to come": (b"\0\0\0\x09", None),
    "a version to come": (b"\0\x05\0\0", None),
    "more bytes": (b"\0\0\0\0tail", None),
}


@each_core
@pytest.mark.parametrize("what", ODD_KEYS)
def test_markers_with_odd_keys(core: ModuleType, what: str) -> None:
    key, error = ODD_KEYS[what]
    content = data(0, 1, 7) + marker(1, 7, key=key) + data(2, 1, 7)
    aborts = key is not None and key[2:4] == b"\0\0"
    told = read(core, content, [(7, 0)])
    assert told == (([2] if aborts and error is None else []), 1 if error else 3, error)
    assert read(core, content, [(8, 0)]) == ([0, 2], 3, None), "markers of others are not looked at"


@each_core
def test_a_marker_without_a_record_ends_nothing(core: ModuleType) -> None:
    content = data(0, 1, 7) + marker(1, 7, count=0, last=0) + data(2, 1, 7)
    assert read(core, content, [(7, 0)]) == ([], 3, None)


@each_core
def test_a_damaged_marker_can_be_skipped(core: ModuleType) -> None:
    bad = resealed(batch_of(record_of(b"\0\0\0" + varint(99)), count=1), bits=TRANSACTIONAL_BIT | 0x20)
    bad = build_with(bad, base=1, producer=7)
    chunk = core.Chunk("t", 0, data(0, 1, 7) + bad + data(2, 1, 8), 0, decompress=decompress, max_decompressed=MIB, aborted=[(7, 0)])
    out: list[Any] = []
    with pytest.raises(CorruptRecord):
        chunk.decode(out, 10)
    assert (chunk.position, chunk.skip()) == (1, 2)
    assert (chunk.decode(out, 10), offsets(out)) == (1, [2])


def build_with(batch: bytes, *, base: int, producer: int) -> bytes:
    out = bytearray(batch)
    struct.pack_into(">q", out, 0, base)
    struct.pack_into(">q", out, 43, producer)
    return resealed(bytes(out))


@each_core
def test_an_interrupted_unpacking_begins_again(core: ModuleType) -> None:
    content = data(0, 1, 7) + marker(1, 7) + data(2, 1, 7, codec=1) + data(3, 1, 8)
    calls: list[int] = []

    def unpack(codec: int, packed: Any, bound: int) -> bytes:
        calls.append(codec)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return decompress(codec, packed, bound)

    chunk = core.Chunk("t", 0, content, 0, decompress=unpack, max_decompressed=MIB, aborted=[(7, 0), (8, 3)])
    out: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        chunk.decode(out, 10)
    assert (chunk.decode(out, 10), offsets(out), chunk.position) == (1, [2], 4)


NUMBERS = st.integers(-(2**63), 2**63 - 1)
PARTS = st.lists(
    st.tuples(st.sampled_from(["data", "plain", "abort", "commit", "odd"]), st.integers(-1, 3), st.binary(max_size=6)), max_size=12
)
LISTS = st.lists(st.tuples(st.one_of(st.integers(-1, 3), NUMBERS), st.one_of(st.integers(-2, 30), NUMBERS)), max_size=8)


def built(parts: list[tuple[str, int, bytes]]) -> bytes:
    made = {
        "data": lambda at, producer, key: data(at, 2, producer),
        "plain": lambda at, producer, key: data(at, 2, producer, transactional=False),
        "abort": lambda at, producer, key: marker(at, producer, last=1),
        "commit": lambda at, producer, key: marker(at, producer, ControlType.COMMIT, last=1),
        "odd": lambda at, producer, key: marker(at, producer, key=key, last=1),
    }
    return b"".join(made[kind](2 * place, producer, key) for place, (kind, producer, key) in enumerate(parts))


def everything(core: ModuleType, content: bytes, aborted: list[tuple[int, int]], start: int, step: int) -> Any:
    chunk = core.Chunk("t", 0, content, start, decompress=decompress, max_decompressed=MIB, aborted=aborted)
    out: list[Any] = []
    told: list[Any] = []
    for _ in range(100):
        try:
            if not chunk.decode(out, step) and chunk.exhausted:
                break
        except CorruptRecord as error:
            told.append((str(error), chunk.position, chunk.skip()))
    return as_tuples(out), told, chunk.position


def expected(parts: list[tuple[str, int, bytes]], aborted: list[tuple[int, int]]) -> list[int]:
    """What Kafka's CompletedFetch would return, written in the simplest way."""
    begun: set[int] = set()
    waiting = sorted((first, producer) for producer, first in aborted)
    found = []
    for place, (kind, producer, _) in enumerate(parts):
        while waiting and waiting[0][0] <= 2 * place + 1:
            begun.add(waiting.pop(0)[1])
        if kind == "abort":
            begun.discard(producer)
        elif kind == "plain" or (kind == "data" and producer not in begun):
            found += [2 * place, 2 * place + 1]
    return found


@given(PARTS, LISTS, st.integers(0, 24), st.integers(1, 5))
def test_any_list_gives_the_same_in_both_cores(
    parts: list[tuple[str, int, bytes]], aborted: list[tuple[int, int]], start: int, step: int
) -> None:
    content = built(parts)
    told = [everything(core, content, aborted, start, step) for core in IMPLEMENTATIONS]
    assert all(one == told[0] for one in told)


@given(PARTS.map(lambda parts: [part for part in parts if part[0] != "odd" and part[1] >= 0]), LISTS)
def test_any_list_gives_what_java_gives(parts: list[tuple[str, int, bytes]], aborted: list[tuple[int, int]]) -> None:
    for core in IMPLEMENTATIONS:
        assert read(core, built(parts), aborted)[0] == expected(parts, aborted)
