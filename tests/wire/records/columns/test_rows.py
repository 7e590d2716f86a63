"""Rows from other libraries become the records that `send` would make of them."""

from __future__ import annotations

import decimal
import gc
from types import ModuleType
from typing import Any

import arro3.core
import duckdb
import nanoarrow
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import ConfigError
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.wire.records.columns.reading import chunk_of
from tests.wire.records.columns.sending import NOW, sent, values
from tests.wire.records.hot_world import IMPLEMENTATIONS, MIB, World, each_core, wire_bytes

TEXTS = ["a", None, "", "a long text that is not in its view", "é"]
BYTES = [None if text is None else text.encode() for text in TEXTS]
PAIR = pa.struct([("name", pa.string()), ("content", pa.binary())])
KINDS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
]
TABLE = pa.table({"key": TEXTS, "value": BYTES})
EXPECTED = [(NOW, data, data, ()) for data in BYTES]


@each_core
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_of_text_and_bytes(core: ModuleType, kind: Any) -> None:
    column = pa.array(TEXTS).cast(kind) if not pa.types.is_dictionary(kind) else pa.array(TEXTS).dictionary_encode()
    assert values(core, pa.table({"value": column})) == BYTES
    assert values(core, pa.table({"value": column.slice(1, 3)})) == BYTES[1:4]
    assert values(core, pa.table({"value": pa.chunked_array([column, column.slice(2), column.slice(0, 0)])})) == BYTES + BYTES[2:]


@each_core
@pytest.mark.parametrize(
    "index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_every_index_of_a_dictionary(core: ModuleType, index: Any) -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([1, None, 2, 0], index), pa.array(["x", "y", None], pa.large_string()).slice(0))
    assert values(core, pa.table({"value": column})) == [b"y", None, None, b"x"]
    assert values(core, pa.table({"value": column.slice(2)})) == [None, b"x"]


@each_core
def test_other_columns_of_values(core: ModuleType) -> None:
    assert values(core, pa.table({"value": pa.array([b"ab", None, b"cd"], pa.binary(2))})) == [b"ab", None, b"cd"]
    assert values(core, pa.table({"value": pa.nulls(2)})) == [None, None]
    assert values(core, pa.table({"value": pa.array([b"0123456789abcdef"], pa.uuid())})) == [b"0123456789abcdef"], (
        "an extension: its storage"
    )


@each_core
def test_pyarrow(core: ModuleType) -> None:
    assert sent(core, TABLE) == sent(core, TABLE.to_batches()[0]) == sent(core, pa.RecordBatchReader.from_stream(TABLE)) == EXPECTED
    assert sent(core, TABLE.to_batches()[0].slice(3)) == EXPECTED[3:]
    assert values(core, pa.chunked_array([TEXTS[:2], TEXTS[2:]])) == values(core, pa.array(TEXTS)) == BYTES, "the values alone"
    assert values(core, pa.table({"value": pa.array([], pa.string())})) == []


@each_core
def test_a_struct_array_that_is_sliced_has_its_children_uncut(core: ModuleType) -> None:
    rows = pa.StructArray.from_arrays([pa.array(TEXTS), pa.array(range(5))], ["value", "partition"])
    assert values(core, rows.slice(2, 2), partition=None) == BYTES[2:4]
    lists = pa.array([[("x", b"1")], [("y", b"2"), ("z", None)]], pa.list_(PAIR))
    rows = pa.StructArray.from_arrays([pa.array(["a", "b"]), lists], ["value", "headers"])
    assert [record[3] for record in sent(core, rows.slice(1))] == [(("y", b"2"), ("z", None))]


@each_core
def test_polars(core: ModuleType) -> None:
    frame = polars.DataFrame({"key": TEXTS, "value": BYTES})
    assert sent(core, frame) == EXPECTED
    assert sent(core, frame[1:4]) == EXPECTED[1:4]
    assert values(core, polars.concat([frame, frame[2:]], rechunk=False)) == BYTES + BYTES[2:]
    assert values(core, frame["value"]) == BYTES
    assert values(core, frame.with_columns(polars.col("key").cast(polars.Categorical).alias("value"))) == BYTES
    assert values(core, polars.DataFrame({"value": [None, None]})) == [None, None]
    assert sent(core, frame.clear()) == []
    headers = polars.DataFrame(
        {"value": ["v"], "headers": [[{"key": "h", "value": b"long enough for a view"}, {"key": "", "value": None}]]}
    )
    assert sent(core, headers)[0][3] == (("h", b"long enough for a view"), ("", None))
    with pytest.raises(TypeError, match=r"LazyFrame has neither .*; call collect\(\) first"):
        core.ArrowRows("t", frame.lazy())


@each_core
def test_pandas(core: ModuleType) -> None:
    frame = pandas.DataFrame({"key": TEXTS, "value": BYTES})
    assert sent(core, frame) == EXPECTED
    assert sent(core, frame.iloc[2:]) == EXPECTED[2:], "the index is a column that nobody asked for"
    assert values(core, frame["key"].astype("category")) == BYTES


@each_core
def test_duckdb(core: ModuleType) -> None:
    columns = "'k' || i as key, 'v'::blob as value, map {'h': 'x'::blob} as headers, make_timestamp(i * 1000) as timestamp"
    with duckdb.connect() as connection:
        found = sent(core, connection.sql(f"select {columns} from range(3) r(i)"))
    assert found == [(i, b"k%d" % i, b"v", (("h", b"x"),)) for i in range(3)]


@each_core
def test_nanoarrow_and_arro3(core: ModuleType) -> None:
    assert values(core, nanoarrow.Array(TEXTS, nanoarrow.string())) == BYTES
    assert sent(core, arro3.core.Table(TABLE)) == EXPECTED


@each_core
def test_what_was_read_is_sent_as_it_was(core: ModuleType) -> None:
    records = [
        WireRecord(timestamp_ms=1000 + i, key=b"k", value=None if i else b"v", headers=(("h", b"x" * i), ("n", None))) for i in range(5)
    ]
    builder, world = core.ColumnsBuilder(["key", "value", "headers", "timestamp", "partition"]), World(core, {"t": 4})
    builder.add(chunk_of(core, build_batch(records)), 9)
    assert sent(core, builder.finish(), world=world) == [(r.timestamp_ms, r.key, r.value, r.headers) for r in records]
    assert world.acc.unfinished()[0].partition == 3
    gc.collect()
    assert builder.held_bytes == 0, "everything was released"


@each_core
@pytest.mark.parametrize(
    ("kind", "numbers", "ms"),
    [
        (pa.timestamp("s", "Europe/Vienna"), [3], [3000]),
        (pa.timestamp("ms"), [3, None], [3, NOW]),
        (pa.timestamp("us", "UTC"), [1999, 2000], [1, 2]),
        (pa.timestamp("ns"), [5_999_999], [5]),
        (pa.date32(), [2], [172_800_000]),
        (pa.date64(), [86_400_000], [86_400_000]),
        (pa.int64(), [2**62], [2**62]),
        (pa.uint8(), [255], [255]),
        (pa.null(), [None], [NOW]),
    ],
    ids=str,
)
def test_timestamps(core: ModuleType, kind: Any, numbers: list[Any], ms: list[int]) -> None:
    column = pa.array(numbers, pa.int32() if kind == pa.date32() else pa.null() if kind == pa.null() else pa.int64())
    assert [record[0] for record in sent(core, pa.table({"value": ["v"] * len(ms), "timestamp": column.cast(kind)}))] == ms


@each_core
@pytest.mark.parametrize(
    ("kind", "number"), [(pa.timestamp("s"), 2**62), (pa.uint64(), 2**63), (pa.timestamp("us"), -1), (pa.int8(), -3)], ids=str
)
def test_timestamps_that_kafka_does_not_have(core: ModuleType, kind: Any, number: int) -> None:
    table = pa.table({"value": ["v", "v"], "timestamp": pa.array([1, number], kind)})
    rows, world = core.ArrowRows("t", table), World(core)
    with pytest.raises(ValueError, match=r"t: timestamp of row 1: it is (out of range|before 1970)") as caught:
        world.acc.send_rows(rows)
    assert (len(caught.value.accepted), rows.position) == (1, 1)  # type: ignore[attr-defined]


@each_core
@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()], ids=str
)
def test_partitions(core: ModuleType, kind: Any) -> None:
    world = World(core, {"t": 3})
    sent(core, pa.table({"value": ["a", "b", "c"], "partition": pa.array([2, None, 2], kind), "key": [None, "k", None]}), world=world)
    assert {b.partition: b.count for b in world.acc.unfinished()} in ({2: 2, 0: 1}, {2: 2, 1: 1}, {2: 3})


@each_core
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (-1, "partition of row 0: -1 must be from 0 to 2147483647"),
        (-(2**63), f"partition of row 0: {-(2**63)} must be from 0 to 2147483647"),
        (3, "partition=3, but the highest partition of the topic is 2"),
    ],
)
def test_partitions_that_do_not_exist(core: ModuleType, number: int, reason: str) -> None:
    world = World(core, {"t": 3})
    with pytest.raises(ValueError, match=reason):
        world.acc.send_rows(core.ArrowRows("t", pa.table({"value": ["a"], "partition": [number]})))
    assert world.acc.accepted == 0


@each_core
def test_keys_choose_the_partitions_that_send_chooses(core: ModuleType) -> None:
    keys = [b"%d" % i for i in range(50)]
    one, other = World(core, {"t": 7}), World(core, {"t": 7})
    one.acc.send_rows(core.ArrowRows("t", pa.table({"key": keys, "value": keys})))
    for key in keys:
        other.send(key=key, value=key)
    assert [wire_bytes(b) for b in one.seal_all()] == [wire_bytes(b) for b in other.seal_all()]


@each_core
@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(PAIR),
        pa.large_list(PAIR),
        pa.map_(pa.string(), pa.binary()),
        pa.list_(pa.struct([("a", pa.string_view()), ("b", pa.large_string())])),
    ],
    ids=["list", "large_list", "map", "others"],
)
def test_headers(core: ModuleType, kind: Any) -> None:
    rows = [[("a", b"1"), ("é", None)], None, [], [("", b"")]]
    found = sent(core, pa.table({"value": ["v"] * 4, "headers": pa.array(rows, kind)}))
    assert [record[3] for record in found] == [tuple(row or ()) for row in rows]
    found = sent(core, pa.table({"value": ["v"] * 4, "headers": pa.array(rows, kind)}).slice(2))
    assert [record[3] for record in found] == [(), (("", b""),)]


@each_core
def test_headers_of_a_fixed_number_and_in_the_other_order(core: ModuleType) -> None:
    column = pa.array([[("a", b"1"), ("b", b"2")], None, [("c", b"3"), ("d", None)]], pa.list_(PAIR, 2))
    found = sent(core, pa.table({"value": ["v"] * 3, "headers": column}).slice(1))
    assert [record[3] for record in found] == [(), (("c", b"3"), ("d", None))]
    swapped = pa.list_(pa.struct([("value", pa.binary()), ("key", pa.string())]))
    assert sent(core, pa.table({"value": ["v"], "headers": pa.array([[(b"1", "a")]], swapped)}))[0][3] == (("a", b"1"),)


@each_core
@pytest.mark.parametrize(("header", "reason"), [(None, "a header is null"), ((None, b"1"), "the name of a header is null")])
def test_headers_that_cannot_be_sent(core: ModuleType, header: Any, reason: str) -> None:
    table = pa.table({"value": ["v"] * 2, "headers": pa.array([[("a", b"")], [header]], pa.list_(PAIR))})
    with pytest.raises(ValueError, match=f"t: headers of row 1: {reason}"):
        World(core).acc.send_rows(core.ArrowRows("t", table))


@each_core
@pytest.mark.parametrize(
    ("argument", "column", "message"),
    [
        (
            "value",
            pa.array([1.5]),
            r"the column 'value' \(value=\) is float64; it must be string or binary; cast it: pyarrow cast\(pa.string\(\)\)",
        ),
        ("value", pa.array([1]), "is int64"),
        ("key", pa.array([True]), r"the column 'key' \(key=\) is bool"),
        ("value", pa.array([decimal.Decimal("1.5")]), "is decimal"),
        ("value", pa.array([{"a": 1}]), "is struct<int64>"),
        ("value", pa.array([1]).dictionary_encode(), "is dictionary<int64>"),
        ("value", pa.array([["a"]]), "is list<string>"),
        ("value", pa.array([1], pa.duration("s")), "is duration"),
        ("headers", pa.array([["a"]]), r"is list<string>; it must be list<struct<key: string, value: binary>> or map<string, binary>"),
        ("headers", pa.array([[("a", b"")]], pa.list_view(PAIR)), "is list_view<struct<string, binary>>"),
        ("headers", pa.array([[(b"a", b"")]], pa.map_(pa.binary(), pa.binary())), "is map<struct<binary, binary>>"),
        ("headers", pa.array([[(b"a", 1)]], pa.map_(pa.string(), pa.int8())), "is map<struct<string, int8>>"),
        ("headers", pa.array(["a"]), "is string"),
        (
            "timestamp",
            pa.array(["2026"]),
            r"is string; it must be timestamp, date, or an integer of milliseconds since 1970; cast it: .*timestamp",
        ),
        ("timestamp", pa.array([1], pa.time32("s")), "is time"),
        ("timestamp", pa.array([1.5]), "is float64"),
        ("partition", pa.array(["1"]), r"is string; it must be an integer; cast it: pyarrow cast\(pa.int32\(\)\)"),
        ("partition", pa.array([1], pa.timestamp("s")), "is timestamp"),
        ("value", pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])), "is run_end_encoded"),
    ],
)
def test_a_type_that_cannot_be_sent_is_refused_before_the_first_row(core: ModuleType, argument: str, column: Any, message: str) -> None:
    table = pa.table({"value": ["v"]} | {argument: column})
    with pytest.raises(TypeError, match=f"^t: .*{message}"):
        core.ArrowRows("t", table)


@each_core
def test_names_of_columns(core: ModuleType) -> None:
    table = pa.table({"id": ["k"], "body": ["v"], "value": ["w"], "timestamp": ["no time"]})
    assert sent(core, table, key="id", value="body", timestamp=None) == [(NOW, b"k", b"v", ())]
    assert sent(core, table, value=None, timestamp=None) == [(NOW, None, None, ())]
    for names, message in (
        ({"key": "idd"}, r"there is no column 'idd' \(key=\) among id, body, value, timestamp; did you mean 'id'\?"),
        ({"headers": "x"}, r"there is no column 'x' \(headers=\)"),
        ({"key": 5}, "key=5: must be the name of a column, or None"),
    ):
        with pytest.raises(ConfigError, match=message):
            core.ArrowRows("t", table, timestamp=None, **names)
    with pytest.raises(ConfigError, match=r"there is no column 'value'.*among a; value=None sends null values"):
        core.ArrowRows("t", pa.table({"a": ["v"]}))
    twice = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["value", "value"])
    with pytest.raises(ConfigError, match=r"2 columns have the name 'value' \(value=\); rename all but one"):
        core.ArrowRows("t", twice)
    with pytest.raises(TypeError, match="unexpected keyword argument 'topic_'"):
        core.ArrowRows("t", table, topic_="x")


@each_core
@pytest.mark.parametrize("data", [[1], None, {"value": ["v"]}, "text"])
def test_data_that_is_no_arrow_data(core: ModuleType, data: Any) -> None:
    with pytest.raises(TypeError, match=f"t: {type(data).__name__} has neither __arrow_c_stream__ nor __arrow_c_array__"):
        core.ArrowRows("t", data)


COLUMNS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=300),
        st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=20)), max_size=3),
        st.none() | st.integers(0, 2**60),
    ),
    max_size=40,
)


@given(COLUMNS, st.integers(0, 10), st.integers(1, 20), st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]))
def test_any_rows_are_what_send_makes_of_them(rows: list[Any], skipped: int, chunk: int, kind: Any) -> None:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    types = (kind, kind, pa.list_(PAIR), pa.int64())
    arrays = [pa.array(list(column), wanted) for column, wanted in zip(columns, types, strict=True)]
    table = pa.table(arrays, ["key", "value", "headers", "timestamp"]).slice(skipped)
    cut = pa.Table.from_batches(table.to_batches(max_chunksize=chunk), table.schema)
    for core in IMPLEMENTATIONS:
        one, other = World(core, {"t": 3}, buffer_memory=4 * MIB), World(core, {"t": 3}, buffer_memory=4 * MIB)
        one.acc.send_rows(core.ArrowRows("t", cut))
        for key, value, headers, timestamp in rows[skipped:]:
            other.send(key=key, value=value, headers=headers, timestamp_ms=timestamp)
        assert [wire_bytes(b) for b in one.seal_all()] == [wire_bytes(b) for b in other.seal_all()]
