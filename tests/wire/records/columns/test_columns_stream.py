"""A stream of columns that are made while somebody reads it."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from types import ModuleType
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pytest

from pykafka4.errors import ConfigError
from pykafka4.wire.records._plain_arrow import ArrayStruct, StreamStruct
from pykafka4.wire.records.batch import build_batch
from tests.wire.records.chunk_bytes import records
from tests.wire.records.columns.reading import columns_of
from tests.wire.records.columns.test_columns_export import (
    compiled,
    moved,
    only_compiled,
    release,
    released_by_foreign_threads,
    run,
    struct_in,
)
from tests.wire.records.hot_world import each_core

NAMES = ["offset", "value"]


class Source:
    """Gives so many batches of two rows, and then None, or an exception."""

    def __init__(self, core: ModuleType, count: int, end: BaseException | None = None) -> None:
        self.core, self.count, self.end, self.calls = core, count, end, 0
        self.threads: set[int] = set()

    def __call__(self) -> Any:
        self.calls += 1
        self.threads.add(threading.get_ident())
        if self.calls <= self.count:
            return columns_of(self.core, build_batch(records(2, start=2 * self.calls), base_offset=2 * self.calls), NAMES)
        if self.end is not None:
            raise self.end
        return None


@each_core
def test_all_batches_are_read_once(core: ModuleType) -> None:
    source = Source(core, 3)
    stream = core.ColumnsStream(NAMES, source)
    reader = pa.RecordBatchReader.from_stream(stream)
    assert (reader.schema.names, source.calls) == (NAMES, 0)
    assert reader.read_next_batch()["offset"].to_pylist() == [2, 3]
    assert source.calls == 1, "not before it is asked"
    assert reader.read_all()["offset"].to_pylist() == [4, 5, 6, 7]
    assert source.calls == 4, "after the end the source is not asked again"
    with pytest.raises(RuntimeError, match="has been handed out already"):
        stream.__arrow_c_stream__()


@each_core
def test_polars_and_duckdb_read_it(core: ModuleType) -> None:
    assert polars.DataFrame(core.ColumnsStream(NAMES, Source(core, 3)))["offset"].to_list() == [2, 3, 4, 5, 6, 7]
    source = Source(core, 3)
    with duckdb.connect() as connection:
        connection.register("rows", core.ColumnsStream(NAMES, source))
        assert connection.sql('select sum("offset") from rows').fetchall() == [(27,)]


@each_core
def test_a_stream_without_batches_has_a_schema(core: ModuleType) -> None:
    assert pa.table(core.ColumnsStream(NAMES, Source(core, 0))).schema == pa.schema(columns_of(core, b"", NAMES))


@each_core
@pytest.mark.parametrize("error", [OSError("the broker is gone"), KeyboardInterrupt("stop")])
def test_an_exception_ends_the_stream(core: ModuleType, error: BaseException) -> None:
    source = Source(core, 1, error)
    stream = core.ColumnsStream(NAMES, source)
    reader = pa.RecordBatchReader.from_stream(stream)
    assert reader.read_next_batch().num_rows == 2
    with pytest.raises((OSError, pa.ArrowException), match=f"{type(error).__name__}: {error}"):
        reader.read_next_batch()
    assert reader.read_all().num_rows == 0
    assert source.calls == 2


@each_core
@pytest.mark.parametrize("made", [5, "other columns"])
def test_a_source_that_returns_something_else(core: ModuleType, made: Any) -> None:
    other = columns_of(core, b"", ["key"]) if made == "other columns" else made
    stream = core.ColumnsStream(NAMES, lambda: other)
    with pytest.raises((OSError, pa.ArrowException), match="TypeError: the source of a stream of offset, value returned"):
        pa.RecordBatchReader.from_stream(stream).read_all()


@each_core
def test_names_are_checked_first(core: ModuleType) -> None:
    with pytest.raises(ConfigError, match="did you mean 'value'"):
        core.ColumnsStream(["values"], Source(core, 0))
    with pytest.raises(ValueError, match="columns in the requested schema: 1, but in these records: 2"):
        core.ColumnsStream(NAMES, Source(core, 0)).__arrow_c_stream__(pa.schema([("offset", pa.int64())]).__arrow_c_schema__())


@each_core
def test_it_is_read_on_other_threads(core: ModuleType) -> None:
    source, found = Source(core, 50), []
    reader = pa.RecordBatchReader.from_stream(core.ColumnsStream(NAMES, source))
    thread = threading.Thread(target=lambda: found.append(reader.read_all().num_rows))
    thread.start()
    thread.join()
    assert found == [100]
    assert threading.get_ident() not in source.threads


@each_core
@pytest.mark.skipif(sys.platform != "linux", reason="it needs pthread_create")
def test_the_source_is_let_go_after_release_on_a_foreign_thread(core: ModuleType) -> None:
    gone: list[int] = []

    class Watched(Source):
        def __del__(self) -> None:
            gone.append(threading.get_ident())

    streams = [core.ColumnsStream(NAMES, Watched(core, 1)) for _ in range(40)]
    capsules = [stream.__arrow_c_stream__() for stream in streams]
    structs = [moved(struct_in(capsule, StreamStruct, b"arrow_array_stream")) for capsule in capsules]
    del streams, capsules
    gc.collect()
    assert gone == []
    released_by_foreign_threads(structs)
    for _ in range(100):
        gc.collect()
        if len(gone) == 40:
            break
    assert len(gone) == 40


@only_compiled
def test_a_stream_reads_structs_that_are_not_initialized() -> None:
    assert compiled is not None
    capsule = compiled.ColumnsStream(NAMES, Source(compiled, 1)).__arrow_c_stream__()
    stream = struct_in(capsule, StreamStruct, b"arrow_array_stream")
    array, end = ArrayStruct(), ArrayStruct()
    for struct in (array, end):
        ctypes.memset(ctypes.addressof(struct), 0xEE, ctypes.sizeof(struct))
    assert stream.get_next(stream, array) == stream.get_next(stream, end) == 0
    assert (array.length, bool(end.release)) == (2, False)
    release(array)


AFTER_THE_END = """
import ctypes
from tests.wire.records.columns.test_columns_export import compiled, moved, struct_in
from tests.wire.records.columns.test_columns_stream import NAMES, Source, StreamStruct, ArrayStruct
capsule = compiled.ColumnsStream(NAMES, Source(compiled, 1)).__arrow_c_stream__()
stream, array = moved(struct_in(capsule, StreamStruct, b"arrow_array_stream")), ArrayStruct()
libc = ctypes.CDLL(None)
for kept in (stream, array, stream._objects):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
libc.__cxa_atexit(ctypes.cast(stream.release, ctypes.c_void_p), ctypes.byref(stream), None)
"""


@only_compiled
@pytest.mark.skipif(sys.platform != "linux", reason="it needs __cxa_atexit")
def test_release_when_the_interpreter_has_ended() -> None:
    run(AFTER_THE_END)


@each_core
def test_a_consumer_that_fails_releases_what_it_has(core: ModuleType) -> None:
    columns, reader = (
        columns_of(core, build_batch(records(2)), NAMES),
        pa.RecordBatchReader.from_stream(core.ColumnsStream(NAMES, Source(core, 2))),
    )
    wrong = pa.schema([("offset", pa.int64()), ("value", pa.list_(pa.int8()))])
    with pytest.raises((pa.ArrowException, TypeError)):
        pa.record_batch(columns, schema=wrong)
    with pytest.raises((pa.ArrowException, TypeError)):
        pa.table(core.ColumnsStream(NAMES, Source(core, 2)), schema=wrong)
    assert reader.read_all().num_rows == 4
