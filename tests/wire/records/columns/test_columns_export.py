"""Columns in the hands of others: every library reads them, and they are released once, by anyone, at any time."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from types import ModuleType
from typing import Any

import arro3.core
import duckdb
import nanoarrow
import pandas
import polars
import psutil
import pyarrow as pa
import pytest

from pykafka4.wire.records import _plain_arrow
from pykafka4.wire.records._plain_arrow import ArrayStruct, SchemaStruct, StreamStruct
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.columns import COLUMN_NAMES
from tests.wire.records.columns.reading import chunk_of, columns_of, lists_of
from tests.wire.records.hot_world import compiled, each_core

only_compiled = pytest.mark.skipif(compiled is None, reason="the compiled core is not built")
DATA = build_batch(
    [
        WireRecord(timestamp_ms=1000, key=b"k", value=b"\xff\x00", headers=(("a", b"1"), ("é", None))),
        WireRecord(timestamp_ms=-1, value=b""),
        WireRecord(timestamp_ms=1002, key=b""),
    ]
)
KEYS, VALUES, HEADERS = [b"k", None, b""], [b"\xff\x00", b"", None], [[("a", b"1"), ("é", None)], [], []]

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


@pytest.fixture(autouse=True)
def plain_export(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plain core exports by itself, as if pyarrow were not loaded."""
    monkeypatch.setattr(_plain_arrow, "loaded_pyarrow", lambda: None)


def struct_in(capsule: Any, kind: Any, name: bytes) -> Any:
    return kind.from_address(_pointer(capsule, name))


def array_in(columns: Any) -> tuple[Any, Any]:
    """(the exported struct, the capsules to keep)"""
    capsules = columns.__arrow_c_array__()
    return struct_in(capsules[1], ArrayStruct, b"arrow_array"), capsules


def moved(struct: Any) -> Any:
    """What a consumer does: it copies the struct and marks the source as released."""
    copy = type(struct).from_buffer_copy(struct)
    ctypes.memset(ctypes.addressof(struct) + type(struct).release.offset, 0, ctypes.sizeof(ctypes.c_void_p))
    return copy


def exported(columns: Any) -> Any:
    """The array, moved out of its capsule."""
    struct, capsules = array_in(columns)
    copy = moved(struct)
    del capsules
    return copy


def release(struct: Any) -> None:
    struct.release(struct)


def finished(core: ModuleType, names: Any = COLUMN_NAMES) -> tuple[Any, Any]:
    """(a builder, the columns that it has finished)"""
    builder = core.ColumnsBuilder(names)
    builder.add(chunk_of(core, DATA), 100)
    return builder, builder.finish()


@each_core
def test_schema(core: ModuleType) -> None:
    item = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = [pa.string(), pa.int32(), pa.int64(), pa.timestamp("us", "UTC"), pa.int32(), pa.binary(), pa.binary(), pa.list_(item)]
    schema = pa.schema(list(zip(COLUMN_NAMES, types, strict=True)))
    columns = columns_of(core, DATA)
    assert pa.schema(columns) == schema
    assert pa.record_batch(columns).schema == schema
    assert pa.RecordBatchReader.from_stream(columns).schema == schema


@each_core
def test_schema_is_the_one_that_spark_makes(core: ModuleType) -> None:
    pandas_types = pytest.importorskip("pyspark.sql.pandas.types")
    parse = pytest.importorskip("pyspark.sql.types")
    pair = parse.StructType([parse.StructField("key", parse.StringType()), parse.StructField("value", parse.BinaryType())])
    fields = (parse.StringType(), parse.IntegerType(), parse.LongType(), parse.TimestampType(), parse.IntegerType(), parse.BinaryType())
    types = (*fields, parse.BinaryType(), parse.ArrayType(pair))
    wanted = parse.StructType([parse.StructField(name, kind) for name, kind in zip(COLUMN_NAMES, types, strict=True)])
    assert pa.record_batch(columns_of(core, DATA)).schema == pandas_types.to_arrow_schema(wanted, timezone="UTC")


@each_core
def test_pyarrow_reads_them(core: ModuleType) -> None:
    columns = columns_of(core, DATA)
    for table in (pa.table(columns), pa.table(pa.record_batch(columns)), pa.RecordBatchReader.from_stream(columns).read_all()):
        table.validate(full=True)
        assert table["value"].to_pylist() == VALUES
        assert [[(h["key"], h["value"]) for h in row] for row in table["headers"].to_pylist()] == HEADERS
        assert table["timestamp"].cast(pa.int64()).to_pylist() == [1_000_000, None, 1_002_000]


@each_core
def test_polars_reads_them(core: ModuleType) -> None:
    frame = polars.DataFrame(columns_of(core, DATA))
    assert frame.columns == list(COLUMN_NAMES)
    assert (frame["key"].to_list(), frame["value"].to_list()) == (KEYS, VALUES)
    assert [[(h["key"], h["value"]) for h in row] for row in frame["headers"].to_list()] == HEADERS
    assert frame.schema["timestamp"] == polars.Datetime("us", "UTC")


@each_core
def test_duckdb_reads_them_on_its_threads(core: ModuleType) -> None:
    columns = columns_of(core, DATA)
    query = 'select offset_, key, value, len(headers), epoch_ms(timestamp) from (select *, "offset" offset_ from columns) order by 1'
    with duckdb.connect() as connection:
        connection.register("columns", columns)
        rows = connection.sql(query).fetchall()
    assert rows == [(0, b"k", b"\xff\x00", 2, 1000), (1, None, b"", 0, None), (2, b"", None, 0, 1002)]


@each_core
def test_pandas_reads_them(core: ModuleType) -> None:
    frame = pandas.DataFrame.from_arrow(columns_of(core, DATA, ["offset", "value"]))
    assert frame["offset"].tolist() == [0, 1, 2]
    assert [None if pandas.isna(value) else value for value in frame["value"]] == VALUES


@each_core
@pytest.mark.parametrize("data", [DATA, build_batch([WireRecord(value=None)]), b""], ids=["rows", "a null", "nothing"])
def test_nanoarrow_and_arro3_find_them_valid(core: ModuleType, data: bytes) -> None:
    columns = columns_of(core, data)
    array = nanoarrow.c_array(columns)
    assert (array.length, array.view().length) == (len(columns), len(columns)), "`view` checks buffers and offsets"
    assert nanoarrow.Array(columns).to_pylist() == pa.record_batch(columns).to_pylist()
    assert pa.table(arro3.core.Table(columns)).to_pylist() == pa.table(columns).to_pylist()


@each_core
def test_no_rows(core: ModuleType) -> None:
    columns = core.ColumnsBuilder().finish()
    assert (len(columns), columns.positions) == (0, {})
    assert all(values == [] for values in lists_of(columns).values())
    assert polars.DataFrame(columns).height == 0
    struct, _keep = array_in(columns)
    for i in range(struct.n_children):
        child = struct.children[i].contents
        assert [bool(child.buffers[b]) for b in range(child.n_buffers)] == [b > 0 for b in range(child.n_buffers)], (
            "no pointer but validity"
        )


@each_core
def test_they_can_be_read_again_and_again(core: ModuleType) -> None:
    builder, columns = finished(core)
    tables = [pa.table(columns), pa.table(columns), polars.DataFrame(columns), pa.table(columns)]
    held = columns.nbytes
    assert builder.held_bytes == held, "nothing was copied"
    del columns
    gc.collect()
    assert builder.held_bytes == held
    assert tables[0]["value"].to_pylist() == VALUES
    tables.clear()
    gc.collect()
    assert builder.held_bytes == 0


class Again:
    """Hands out the same capsules whenever it is asked."""

    def __init__(self, stream: Any, capsules: Any) -> None:
        self.stream, self.capsules = stream, capsules

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.stream

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.capsules


@each_core
def test_a_capsule_is_consumed_once(core: ModuleType) -> None:
    builder, columns = finished(core)
    stream = columns.__arrow_c_stream__()
    capsules = columns.__arrow_c_array__()

    for read in (pa.RecordBatchReader.from_stream, pa.record_batch):
        read(Again(stream, capsules))
        with pytest.raises(pa.ArrowInvalid, match="released"):
            read(Again(stream, capsules))
    del columns, stream, capsules
    gc.collect()
    assert builder.held_bytes == 0


@each_core
def test_capsules_that_nobody_consumes_are_released(core: ModuleType) -> None:
    builder, columns = finished(core)
    kept = [columns.__arrow_c_stream__(), *columns.__arrow_c_array__(), columns.__arrow_c_schema__()]
    del columns
    gc.collect()
    assert builder.held_bytes > 0
    kept.clear()
    gc.collect()
    assert builder.held_bytes == 0


@each_core
def test_a_child_that_was_moved_out_outlives_its_parent(core: ModuleType) -> None:
    builder, columns = finished(core)
    struct, capsules = array_in(columns)
    parent = moved(struct)
    value = moved(parent.children[COLUMN_NAMES.index("value")].contents)
    headers = moved(parent.children[COLUMN_NAMES.index("headers")].contents)
    pairs = moved(headers.children[0].contents)
    release(parent)
    release(headers)
    del columns, capsules, struct
    gc.collect()
    assert builder.held_bytes > 0
    ends = ctypes.cast(value.buffers[1], ctypes.POINTER(ctypes.c_int32))[:4]
    assert (ends, ctypes.string_at(value.buffers[2], ends[-1])) == ([0, 2, 2, 2], b"\xff\x00")
    assert ctypes.string_at(pairs.children[0].contents.buffers[2], 3) == "aé".encode()
    release(value)
    release(pairs)
    assert builder.held_bytes == 0


@each_core
def test_a_released_struct_has_no_pointers(core: ModuleType) -> None:
    columns = columns_of(core, DATA)
    capsules = [columns.__arrow_c_stream__(), *columns.__arrow_c_array__()]
    kinds = ((StreamStruct, b"arrow_array_stream"), (SchemaStruct, b"arrow_schema"), (ArrayStruct, b"arrow_array"))
    for capsule, (kind, name) in zip(capsules, kinds, strict=True):
        struct = struct_in(capsule, kind, name)
        assert struct.release
        release(struct)
        assert bytes(struct) == bytes(ctypes.sizeof(kind))


@each_core
def test_a_stream_fills_structs_that_are_not_initialized(core: ModuleType) -> None:
    capsule = columns_of(core, DATA).__arrow_c_stream__()
    stream = struct_in(capsule, StreamStruct, b"arrow_array_stream")
    schema, array, end = SchemaStruct(), ArrayStruct(), ArrayStruct()
    for struct in (schema, array, end):
        ctypes.memset(ctypes.addressof(struct), 0xEE, ctypes.sizeof(struct))
    assert stream.get_schema(stream, schema) == stream.get_next(stream, array) == stream.get_next(stream, end) == 0
    assert (schema.format, schema.name, schema.metadata, schema.flags, bool(schema.dictionary)) == (b"+s", b"", None, 0, False)
    assert (array.length, array.null_count, array.offset, array.n_buffers, bool(array.dictionary)) == (3, 0, 0, 1, False)
    assert not end.release
    release(schema)
    release(array)


@each_core
def test_a_requested_schema_of_other_columns_is_a_mistake(core: ModuleType) -> None:
    columns = columns_of(core, DATA, ["key", "value"])
    request = pa.schema([("key", pa.large_binary()), ("value", pa.binary_view())])
    assert pa.record_batch(columns, schema=pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])).num_columns == 2
    assert columns.__arrow_c_array__(request.__arrow_c_schema__())[0] is not None, "other types: the consumer converts"
    for method in (columns.__arrow_c_array__, columns.__arrow_c_stream__):
        with pytest.raises(ValueError, match=r"schema: 1, but in these records: 2 \(key, value\)"):
            method(pa.schema([("key", pa.binary())]).__arrow_c_schema__())


@each_core
def test_instances_come_from_a_builder(core: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"cannot create .*RecordColumns' instances"):
        core.RecordColumns()
    assert repr(columns_of(core, DATA, ["key", "value"])) == "<RecordColumns of 3 records: key, value>"


# -- release by others


def pthread() -> Any:
    return ctypes.CDLL(None)


def released_by_foreign_threads(structs: list[Any]) -> None:
    """Each struct is released on a thread that Python does not know."""
    threads = []
    for struct in structs:
        thread = ctypes.c_ulong()
        function = ctypes.cast(struct.release, ctypes.c_void_p)
        assert pthread().pthread_create(ctypes.byref(thread), None, function, ctypes.byref(struct)) == 0
        threads.append(thread)
    for thread in threads:
        assert pthread().pthread_join(thread, None) == 0


@each_core
@pytest.mark.skipif(sys.platform != "linux", reason="it needs pthread_create")
def test_release_on_threads_that_python_does_not_know(core: ModuleType) -> None:
    builder, columns = finished(core)
    structs = [exported(columns) for _ in range(20)]
    children = [moved(struct.children[6].contents) for struct in structs]
    del columns
    released_by_foreign_threads([*structs, *children])
    assert builder.held_bytes == 0


@only_compiled
@pytest.mark.skipif(sys.platform != "linux", reason="it needs pthread_create")
def test_release_does_not_wait_for_the_gil() -> None:
    assert compiled is not None
    builder, columns = finished(compiled)
    struct = exported(columns)
    del columns
    held = ctypes.PyDLL(None)  # its calls keep the GIL
    thread = ctypes.c_ulong()
    function = ctypes.cast(struct.release, ctypes.c_void_p)
    assert held.pthread_create(ctypes.byref(thread), None, function, ctypes.byref(struct)) == 0
    assert held.pthread_join(thread, None) == 0  # would never return
    assert builder.held_bytes == 0


@each_core
def test_columns_made_and_released_by_many_threads(core: ModuleType) -> None:
    builder, columns = finished(core)

    def work(columns: Any) -> None:
        for _ in range(200):
            assert pa.record_batch(columns).num_rows == 3

    threads = [threading.Thread(target=work, args=(columns,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del columns, threads, thread
    gc.collect()
    assert builder.held_bytes == 0


AT_EXIT = """
import ctypes, sys
from tests.wire.records.columns.test_columns_export import compiled, exported, finished, moved
builder, columns = finished(compiled)
structs = [exported(columns) for _ in range(3)]
parts = [moved(structs[0].children[6].contents)]
libc = ctypes.CDLL(None)
for struct in structs + parts:
    libc.__cxa_atexit(ctypes.cast(struct.release, ctypes.c_void_p), ctypes.byref(struct), None)
    for kept in (struct, struct._objects):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
del columns, builder
"""
AT_THE_END = """
import sys
import polars, pyarrow
from pykafka4.wire.records import {core}
from tests.wire.records.columns.test_columns_export import finished
builder, columns = finished({name})
sys.kept = [columns, polars.DataFrame(columns), pyarrow.table(columns), columns.__arrow_c_stream__(), columns.__arrow_c_array__()]
class Late:
    def __init__(self, kept): self.kept = kept
    def __del__(self): self.kept.clear()
sys.late = Late(sys.kept)
"""


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Exception ignored" not in done.stderr


@only_compiled
@pytest.mark.skipif(sys.platform != "linux", reason="it needs __cxa_atexit")
def test_release_when_the_interpreter_has_ended() -> None:
    run(AT_EXIT)


@each_core
def test_columns_that_the_end_of_the_interpreter_releases(core: ModuleType) -> None:
    where, _, name = core.__name__.removeprefix("pykafka4.wire.records.").rpartition(".")
    run(
        AT_THE_END.format(
            core=f"{where}.{name}".strip(".") if not where else f"{where} as _; from pykafka4.wire.records.{where} import {name}", name=name
        )
    )


@only_compiled
@pytest.mark.skipif("PYKAFKA4_SANITIZED" in os.environ, reason="freed memory is kept for a while there")
def test_memory_is_flat_over_many_exports() -> None:
    assert compiled is not None
    process = psutil.Process()
    _, columns = finished(compiled)

    def export(times: int) -> int:
        for _ in range(times):
            columns.__arrow_c_stream__()
            columns.__arrow_c_array__()
        return int(process.memory_info().rss)

    before = export(2_000)
    assert export(50_000) - before < 2_000_000


@only_compiled
@pytest.mark.skipif("PYKAFKA4_SANITIZED" in os.environ, reason="freed memory is kept for a while there")
def test_memory_is_flat_over_many_columns() -> None:
    assert compiled is not None
    process, builder = psutil.Process(), compiled.ColumnsBuilder()
    data = build_batch([WireRecord(value=b"v" * 200) for _ in range(500)])

    def build(times: int) -> int:
        for _ in range(times):
            builder.add(chunk_of(compiled, data), 1000)
            pa.record_batch(builder.finish())
        return int(process.memory_info().rss)

    before = build(300)
    assert build(3_000) - before < 4_000_000
    assert builder.held_bytes == 0


NO_MEMORY = """
import gc, resource
from tests.wire.records.columns.reading import chunk_of, lists_of
from tests.wire.records.columns.test_columns_export import WireRecord, build_batch, compiled
big = lambda i: b"%06d" % i * 5000
keys = [WireRecord(offset=i, timestamp_ms=i, key=big(i), headers=(("n", None), ("h", big(i)))) for i in range(1500)]
data = b"".join(build_batch(keys[i : i + 30], base_offset=i) for i in range(0, 1500, 30))
for names in (["key", "offset", "timestamp"], ["headers", "offset"]):
    builder, chunk, failed = compiled.ColumnsBuilder(names), chunk_of(compiled, data), 0
    gc.collect()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 40_000_000, resource.RLIM_INFINITY))
    while not failed:
        try:
            builder.add(chunk, 100)
        except MemoryError:
            failed += 1
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert 0 < len(builder) == chunk.position < 1500, (len(builder), chunk.position)
    while builder.add(chunk, 100):
        pass
    lists = lists_of(builder.finish())
    assert lists["offset"] == list(range(1500)), "no row is lost or doubled"
    assert lists.get("key", [key.key for key in keys]) == [key.key for key in keys]
    assert lists.get("timestamp", [1000 * i for i in range(1500)]) == [1000 * i for i in range(1500)]
    headers = [[{"key": "n", "value": None}, {"key": "h", "value": big(i)}] for i in range(1500)]
    assert lists.get("headers", headers) == headers
"""


@only_compiled
@pytest.mark.skipif(sys.platform != "linux" or "PYKAFKA4_SANITIZED" in os.environ, reason="it limits the address space")
def test_a_row_for_which_there_is_no_memory_is_the_next_one() -> None:
    run(NO_MEMORY)
