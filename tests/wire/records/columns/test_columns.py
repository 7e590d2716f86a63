"""Records as columns: equal to the records that `decode` hands out, row by row, whatever the bytes are and wherever a call ends."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pykafka4.errors import ConfigError, CorruptRecord, DecodeError, RecordTooLarge
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.batch import ControlType, WireRecord, build_batch
from pykafka4.wire.records.columns import COLUMN_NAMES, ROW_COSTS
from pykafka4.wire.records.encoder import varint
from pykafka4.wire.records.layout import LOG_APPEND_TIME
from tests.wire.hostile_bytes import damaged
from tests.wire.records.chunk_bytes import batch_of, record_of, records
from tests.wire.records.chunks.test_hot_chunk_aborted import data as transactional
from tests.wire.records.chunks.test_hot_chunk_aborted import marker
from tests.wire.records.chunks.test_hot_chunk_hostile import SEEDS, WIRE_RECORDS, resealed_maybe
from tests.wire.records.columns.reading import chunk_of, columns_of, expected, lists_of, rows_of
from tests.wire.records.hot_world import IMPLEMENTATIONS, as_tuples, each_core
from tests.wire.records.message_sets import build_message_set

TP = TopicPartition("t", 3)
NO_MORE = (CorruptRecord, RecordTooLarge, DecodeError)
FULL = [
    WireRecord(offset=i, timestamp_ms=5000 - i, key=b"k" * (i % 3) if i % 4 else None, value=b"v" * i if i % 5 else None, headers=headers)
    for i, headers in enumerate(((), (("a", b"1"), ("é", None)), (("", b""),)) * 7)
]


def steps(chunk: Any, take: Any, step: int) -> list[Any]:
    """What each call of `take(step)` tells, with the position after it; a corrupt batch is skipped once."""
    seen: list[Any] = []
    for _ in range(1000):
        try:
            taken = take(step)
        except NO_MORE as error:
            seen.append((type(error), str(error), chunk.position, chunk.skip()))
            if len(seen) > 1 and seen[-2] == seen[-1]:
                break
        else:
            seen.append((taken, chunk.position, chunk.exhausted))
            if not taken:
                break
    return seen


def check(core: ModuleType, data: bytes, offset: int = 0, step: int = 7, **more: Any) -> list[tuple[Any, ...]]:
    """Columns and records of `data` are the same after every call; returns the rows."""
    out: list[Any] = []
    by_record, by_column = chunk_of(core, data, offset, **more), chunk_of(core, data, offset, **more)
    builder = core.ColumnsBuilder()
    wanted = steps(by_record, lambda n: by_record.decode(out, n), step)
    assert steps(by_column, lambda n: builder.add(by_column, n), step) == wanted
    rows = rows_of(builder.finish())
    assert rows == expected(as_tuples(out))
    return rows


@each_core
@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_columns_have_what_records_have(core: ModuleType, codec: int, step: int) -> None:
    data = build_batch(FULL, codec=codec) + build_batch(records(3, start=30), base_offset=30, timestamp_type=LOG_APPEND_TIME)
    assert len(check(core, data, step=step)) == 24
    assert [row[2] for row in check(core, data, 5, step=step)][:1] == [5], "from the position on"


@each_core
@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_old_message_sets(core: ModuleType, magic: int, codec: int) -> None:
    data = build_message_set(records(10), magic, codec) + build_batch(records(2, start=10), base_offset=10)
    for step in (1, 3, 100):
        rows = check(core, data, step=step)
        assert [row[2] for row in rows] == list(range(12))
    assert rows[0][3] == (1000 if magic else -1)


@each_core
def test_aborted_transactions_and_markers_are_passed_over(core: ModuleType) -> None:
    data = transactional(0, 2, 7) + transactional(2, 1, 8) + marker(3, 7) + transactional(4, 2, 7) + marker(6, 7, ControlType.COMMIT)
    for step in (1, 2, 100):
        assert [row[2] for row in check(core, data, step=step, aborted=[(7, 0)])] == [2, 4, 5]
        assert [row[2] for row in check(core, data, step=step)] == [0, 1, 2, 4, 5]


@each_core
def test_gaps_and_emptied_batches_of_a_compacted_log(core: ModuleType) -> None:
    data = build_batch([WireRecord(offset=i) for i in (3, 9)], base_offset=2, last_offset_delta=10)
    data += build_batch([], base_offset=13, last_offset_delta=4) + build_batch(records(1, start=20), base_offset=20)
    assert [row[2] for row in check(core, data, 5)] == [9, 20]


@each_core
def test_rows_before_a_corrupt_batch_come_first(core: ModuleType) -> None:
    broken = bytearray(build_batch(records(3, start=5), base_offset=5))
    broken[-1] ^= 1
    data = build_batch(records(5)) + bytes(broken) + build_batch(records(2, start=8), base_offset=8)
    chunk, builder = chunk_of(core, data), core.ColumnsBuilder()
    assert builder.add(chunk, 100) == 5
    with pytest.raises(CorruptRecord, match="offsets 5 to 7"):
        builder.add(chunk, 100)
    assert builder.added is None
    assert builder.finish().positions == {TP: OffsetAndMetadata(5)}
    assert (chunk.skip(), builder.add(chunk, 100)) == (8, 2)


@each_core
def test_a_corrupt_record_in_a_batch_comes_after_the_rows_before_it(core: ModuleType) -> None:
    fine, odd = record_of(b"\0\0\0\1\1\0"), record_of(b"\0\0\2\1\x62\0")
    assert len(check(core, batch_of(fine + odd, 2, 1) + build_batch(records(2, start=2), base_offset=2))) == 3


@given(st.one_of(damaged(*SEEDS), damaged(*SEEDS).map(resealed_maybe)), st.sampled_from((0, 3, 7)), st.sampled_from((1, 7, 1000)))
@settings(max_examples=20 * settings.default.max_examples)
def test_damaged_bytes_give_the_same_rows_and_errors(data: bytes, offset: int, step: int) -> None:
    for core in IMPLEMENTATIONS:
        check(core, data, offset, step)


@given(st.lists(WIRE_RECORDS, max_size=20), st.integers(0, 4), st.integers(0, 2**40), st.integers(1, 25))
def test_any_records(put: list[WireRecord], codec: int, base: int, step: int) -> None:
    for core in IMPLEMENTATIONS:
        check(core, build_batch(put, base_offset=base, codec=codec, last_offset_delta=None if put else 0), base, step)


@given(st.binary(max_size=12), st.binary(max_size=3))
@example(b"\xf0\x9f\x98", b"")
@example(b"\xed\xa0\x80\xf4\x90\x80\x80", b"")
@settings(max_examples=10 * settings.default.max_examples)
def test_names_of_headers_become_valid_text_as_in_records(name: bytes, more: bytes) -> None:
    headers = b"\4" + varint(len(name)) + name + b"\1" + varint(len(name + more)) + name + more + b"\0"
    data = batch_of(record_of(b"\0\0\0\1\1" + headers))
    for core in IMPLEMENTATIONS:
        ((*_, found),) = check(core, data)
        assert found == ((name.decode(errors="replace"), None), ((name + more).decode(errors="replace"), b""))


@each_core
@pytest.mark.parametrize(("ms", "us"), [(0, 0), (-2, -2000), (-1, None), (2**62, None), (9223372036854775, 9223372036854775000)])
def test_a_timestamp_that_microseconds_cannot_express_is_null(core: ModuleType, ms: int, us: int | None) -> None:
    data = build_batch([WireRecord(timestamp_ms=ms), WireRecord(timestamp_ms=5)])
    assert lists_of(columns_of(core, data, ["timestamp"])) == {"timestamp": [us, 5000]}


@each_core
@pytest.mark.parametrize("name", COLUMN_NAMES)
def test_one_column_alone(core: ModuleType, name: str) -> None:
    data = build_batch(FULL)
    assert lists_of(columns_of(core, data, [name])) == {name: lists_of(columns_of(core, data))[name]}


@each_core
def test_columns_are_in_the_order_asked_for(core: ModuleType) -> None:
    columns = columns_of(core, build_batch(FULL), ["value", "offset", "key"])
    assert columns.names == ("value", "offset", "key") == tuple(lists_of(columns))


@each_core
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["values"], r"there is no column 'values'.*did you mean 'value'\?"),
        (["key", "key"], "'key' is listed 2 times"),
        ([], "name at least one"),
        ("value", r"must be a list of names, \['value'\]"),
        ([None], "there is no column None"),
    ],
)
def test_names_that_cannot_be_meant(core: ModuleType, names: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        core.ColumnsBuilder(names)


@each_core
def test_rows_of_several_partitions_and_where_each_goes_on(core: ModuleType) -> None:
    builder = core.ColumnsBuilder(["topic", "partition", "offset"])
    one, other = chunk_of(core, build_batch(records(3), leader_epoch=4)), chunk_of(core, build_batch(records(2), leader_epoch=5))
    assert (builder.add(one, 2), builder.added) == (2, (0, 1, 4))
    other = core.Chunk("other", 0, build_batch(records(2), leader_epoch=5), 0, decompress=None, max_decompressed=1)
    assert (builder.add(other, 9), builder.add(one, 9)) == (2, 1)
    columns = builder.finish()
    assert columns.positions == {TP: OffsetAndMetadata(3, 4), TopicPartition("other", 0): OffsetAndMetadata(2, 5)}
    assert lists_of(columns) == {"topic": ["t", "t", "other", "other", "t"], "partition": [3, 3, 0, 0, 3], "offset": [0, 1, 0, 1, 2]}
    assert (len(builder), builder.finish().positions) == (0, {})


@each_core
def test_the_position_passes_over_a_marker_at_the_end(core: ModuleType) -> None:
    builder = core.ColumnsBuilder()
    chunk = chunk_of(core, build_batch(records(2), leader_epoch=1) + marker(2, 7))
    assert builder.add(chunk, 9) == 2
    assert builder.finish().positions == {TP: OffsetAndMetadata(3, 1)}


@each_core
def test_records_and_columns_can_be_taken_in_turns(core: ModuleType) -> None:
    chunk, out, builder = (
        chunk_of(core, build_batch(records(6), leader_epoch=3) + build_batch(records(3, start=6), base_offset=6)),
        [],
        None,
    )
    builder = core.ColumnsBuilder()
    assert (builder.add(chunk, 2), chunk.decode(out, 2), builder.add(chunk, 3), chunk.decode(out, 9)) == (2, 2, 3, 2)
    assert [(r.offset, r.timestamp_ms, r.leader_epoch) for r in out] == [(2, 1002, 3), (3, 1003, 3), (7, 1001, -1), (8, 1002, -1)]
    assert lists_of(builder.finish())["offset"] == [0, 1, 4, 5, 6]


@each_core
def test_rows_end_when_they_have_the_bytes_asked_for(core: ModuleType) -> None:
    builder = core.ColumnsBuilder(["offset", "value"])
    chunk = chunk_of(core, build_batch(records(10, size=20)))
    cost = ROW_COSTS["offset"] + ROW_COSTS["value"] + 20
    assert (builder.add(chunk, 100, 1), chunk.decoded) == (1, cost), "at least one"
    assert (builder.add(chunk, 100, 3 * cost), chunk.decoded) == (3, 3 * cost)
    assert (builder.add(chunk, 100, 3 * cost + 1), chunk.decoded) == (4, 4 * cost)
    assert builder.nbytes == len(builder) * cost + 4, "and the first end"


@given(
    st.lists(WIRE_RECORDS, min_size=1, max_size=12), st.integers(1, 3000), st.sampled_from([COLUMN_NAMES, ["key"], ["headers", "topic"]])
)
def test_both_cores_count_the_same_bytes(put: list[WireRecord], size: int, names: list[str]) -> None:
    seen = []
    for core in IMPLEMENTATIONS:
        chunk, builder = chunk_of(core, build_batch(put)), core.ColumnsBuilder(names)
        seen.append([(builder.add(chunk, 100, size), chunk.decoded, chunk.position) for _ in range(len(put))])
        seen[-1].append(builder.finish().nbytes)
    assert all(one == seen[0] for one in seen)


@each_core
@pytest.mark.parametrize("name", ["key", "value", "headers", "topic"])
@pytest.mark.parametrize("old", [False, True])
def test_a_column_ends_before_its_offsets_would_overflow(core: ModuleType, name: str, old: bool) -> None:
    put = [WireRecord(offset=i, key=b"k" * 10, value=b"v" * 10, headers=() if old else (("n", b"h" * 7),)) for i in range(20)]
    most = 7 if name == "topic" else 75
    builder = core.ColumnsBuilder([name, "offset"], most_bytes=most)
    data = build_message_set(put, 1, 1) if old else build_batch(put[:9]) + build_batch(put[9:], base_offset=9)
    if old and name == "headers":
        return
    chunk, seen, counts = chunk_of(core, data), [], []
    while n := builder.add(chunk, 100):
        counts.append(n)
        assert builder.full == (not chunk.exhausted)
        seen += lists_of(builder.finish())["offset"]
        assert not builder.full
    assert seen == list(range(20))
    assert max(counts) <= 10


@each_core
def test_a_record_that_no_column_can_hold_is_an_error_after_the_rows_before_it(core: ModuleType) -> None:
    put = [WireRecord(offset=i, value=b"v" * size) for i, size in enumerate((5, 101, 5))]
    builder, chunk = core.ColumnsBuilder(["value"], most_bytes=100), chunk_of(core, build_batch(put))
    assert (builder.add(chunk, 9), builder.full) == (1, True)
    builder.finish()
    for _ in range(2):
        with pytest.raises(RecordTooLarge, match=r"t-3 .*offset 1.*does not fit into a column of 100 bytes"):
            builder.add(chunk, 9)
    assert chunk.skip() == 3


@each_core
def test_too_many_headers_are_refused_as_in_records(core: ModuleType) -> None:
    many = WireRecord(offset=1, headers=(("", None),) * 1001)
    rows = check(
        core, build_batch([WireRecord(offset=0), many]) + build_batch(records(1, start=2), base_offset=2), max_decompressed=100_000
    )
    assert [row[2] for row in rows] == [0, 2]


@each_core
def test_a_missing_codec_is_an_error_until_it_is_there(core: ModuleType) -> None:
    def missing(*_: Any) -> bytes:
        raise ConfigError("no library")

    chunk = chunk_of(core, build_batch(records(2)) + build_batch(records(2, start=2), base_offset=2, codec=1), decompress=missing)
    builder = core.ColumnsBuilder()
    assert builder.add(chunk, 9) == 2
    for _ in range(2):
        with pytest.raises(ConfigError, match="t-3 at offset 2: no library"):
            builder.add(chunk, 9)


@each_core
def test_an_interrupt_while_a_batch_is_unpacked_loses_nothing(core: ModuleType) -> None:
    calls: list[int] = []

    def interrupted(codec: int, data: bytes, limit: int) -> bytes:
        from pykafka4.wire.records.compression import decompress

        calls.append(codec)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return decompress(codec, data, limit)

    chunk = chunk_of(core, build_batch(records(2)) + build_batch(records(2, start=2), base_offset=2, codec=1), decompress=interrupted)
    builder = core.ColumnsBuilder()
    with pytest.raises(KeyboardInterrupt):
        builder.add(chunk, 9)
    assert len(builder) == 2
    assert builder.add(chunk, 9) == 2
    assert lists_of(builder.finish())["offset"] == [0, 1, 2, 3]


def test_large_chunks_are_decoded_without_the_gil_with_the_same_rows() -> None:
    data = b"".join(build_batch(records(500, 30, i * 500), base_offset=i * 500, codec=i % 7 == 3, leader_epoch=i) for i in range(40))
    for core in IMPLEMENTATIONS:
        builder, chunk = core.ColumnsBuilder(["offset", "value"]), chunk_of(core, data)
        assert builder.add(chunk, 15_000) == 15_000
        assert builder.added == (0, 14_999, 29)
        out: list[Any] = []
        assert chunk.decode(out, 10) == 10
        assert {(r.leader_epoch, r.timestamp_type) for r in out} == {(30, "CREATE_TIME")}
        assert builder.add(chunk, 100_000) == 4990
        lists = lists_of(builder.finish())
        assert lists["offset"] == [*range(15_000), *range(15_010, 20_000)]
        assert lists["value"] == [b"%d" % (n % 500) * 30 for n in lists["offset"]]


def test_a_chunk_is_not_decoded_by_two_at_once() -> None:
    core = IMPLEMENTATIONS[0]
    if core.__name__.endswith("reference"):
        pytest.skip("the plain core has no such state")
    again: list[str] = []

    def unpack(*_: Any) -> bytes:
        for call in (lambda: builder.add(chunk, 1), lambda: chunk.decode([], 1), builder.finish, chunk.skip):
            with pytest.raises(RuntimeError) as caught:
                call()
            again.append(str(caught.value))
        return b""

    chunk, builder = chunk_of(core, build_batch(records(1), codec=1), decompress=unpack), core.ColumnsBuilder()
    with pytest.raises(CorruptRecord):
        builder.add(chunk, 1)
    assert len(again) == 4


def test_header_of_a_batch_with_an_impossible_count() -> None:
    data = bytearray(build_batch(records(2)))
    struct.pack_into(">i", data, 57, 2**31 - 1)
    for core in IMPLEMENTATIONS:
        check(core, resealed_maybe(bytes(data)))
