"""Arrays that no good library exports, and what good ones do that surprises: each is read right or refused with a reason."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import struct
import threading
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.errors import ConfigError
from pykafka4.wire.records._plain_arrow import ArrayStruct
from pykafka4.wire.records.batch import WireRecord, build_batch
from pykafka4.wire.records.columns import Array, Field
from tests.wire.records.columns.reading import chunk_of
from tests.wire.records.columns.sending import Handmade, batch, int32s, int64s, sent, spans, values, values_only
from tests.wire.records.hot_world import IMPLEMENTATIONS, World, each_core

NULL_POINTERS = ctypes.POINTER(ctypes.c_void_p)()
HEADER = Field("headers", "+l", (Field("item", "+s", (Field("key", "u"), Field("value", "z"))),))


EMPTY = spans(1, int32s(0, 0), b"")


def view(size: int, head: bytes, part: int = 0, begin: int = 0) -> bytes:
    return struct.pack("=i4sii", size, head, part, begin) if size > 12 else struct.pack("=i12s", size, head)


def views(data: bytes, *parts: bytes, length: int = 1, sizes: bytes | None = None) -> Handmade:
    buffers = (None, data, *parts, int64s(*map(len, parts)) if sizes is None else sizes)
    return Handmade(batch(Array(length, 0, buffers)), {"value": "vz"})


def headers(starts: bytes, names: Array, contents: Array = EMPTY, rows: int = 1) -> Handmade:
    pair = Array(names.length, 0, (None,), (names, contents))
    column = Array(rows, 0, (None, starts), (pair,))
    return Handmade(batch(spans(rows, int32s(*[0] * (rows + 1)), b""), column), {"value": "z", "headers": HEADER})


# -- surprising, but right


@each_core
def test_offsets_of_parent_and_child_add_up_and_bits_are_addressed_one_by_one(core: ModuleType) -> None:
    column = spans(20, int32s(*range(21)), bytes(range(20)), (0xFFFFF ^ 1 << 13).to_bytes(3, "little"))._replace(nulls=1)
    whole = Handmade(batch(column, length=2), {"value": "z"}, offset=3)
    assert values(core, whole) == [b"\3", b"\4"]
    child = Handmade(batch(column, length=3), {"value": "z"}, (0,), offset=9, length=11)
    assert values(core, child) == [b"\t", b"\n", b"\x0b"]

    class Both(Handmade):
        def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
            schema, array = super().__arrow_c_array__()
            struct_ = ArrayStruct.from_address(address_of(array))
            struct_.offset, struct_.children[0].contents.offset, struct_.children[0].contents.length = 3, 9, 11
            return schema, array

    assert values(core, Both(batch(column, length=3), {"value": "z"})) == [b"\x0c", None, b"\x0e"]


def address_of(capsule: Any) -> int:
    return int(
        ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))(
            capsule, b"arrow_array"
        )
    )


@each_core
@pytest.mark.parametrize("nulls", [-1, 1])
def test_a_number_of_nulls_may_be_unknown(core: ModuleType, nulls: int) -> None:
    assert values(core, values_only(2, int32s(0, 1, 1), b"a", valid=b"\1", null_count=nulls)) == [b"a", None]
    assert values(core, values_only(2, int32s(0, 1, 1), b"a", null_count=-1)) == [b"a", b""], "no bits: no nulls"
    assert values(core, values_only(2, int32s(0, 1, 1), b"a", valid=b"\1", null_count=0)) == [b"a", b""]


@each_core
def test_an_array_without_rows_may_have_no_buffers(core: ModuleType) -> None:
    assert values(core, values_only(0, None, None)) == []
    assert values(core, Handmade(batch(spans(0, None, None)), {"value": "z"}, (0,), buffers=NULL_POINTERS, n_buffers=3)) == [], "never read"
    assert values(core, values_only(2, int32s(0, 0, 0), None)) == [b"", b""], "nor one without bytes"


@each_core
def test_the_first_end_need_not_be_0(core: ModuleType) -> None:
    assert values(core, values_only(2, int32s(2, 3, 5), b"..abc")) == [b"a", b"bc"]
    assert values(core, values_only(1, int64s(1, 3), b".ab", "Z")) == [b"ab"]


@each_core
def test_numbers_need_not_be_aligned(core: ModuleType) -> None:
    class Shifted(Handmade):
        def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
            schema, array = super().__arrow_c_array__()
            for child in range(2):
                column = ArrayStruct.from_address(address_of(array)).children[child].contents
                column.buffers[1] += 1
            return schema, array

    times = Array(2, 0, (None, b"." + int64s(5, 6)))
    data = Shifted(batch(spans(2, b"." + int32s(0, 1, 3), b"abc"), times), {"value": "z", "timestamp": "l"})
    assert sent(core, data) == [(5, None, b"a", ()), (6, None, b"bc", ())]


@each_core
def test_views_of_several_buffers(core: ModuleType) -> None:
    data = view(3, b"abc") + view(13, b"0123", 1, 2) + view(0, b"") + view(12, b"exactly12345")
    assert values(core, views(data, b"unused", b"..0123456789abc..", length=4)) == [b"abc", b"0123456789abc", b"", b"exactly12345"]
    assert values(core, views(view(3, b"abc"))) == [b"abc"], "none at all"


@each_core
def test_a_batch_of_no_columns_that_count(core: ModuleType) -> None:
    data = Handmade(Array(3, 0, (None,), ()), {})
    assert values(core, data, value=None) == [None, None, None]


# -- refused


@each_core
def test_a_row_that_is_null_is_no_row_of_nulls(core: ModuleType) -> None:
    rows = pa.StructArray.from_arrays([pa.array(["a", "b", "c"])], ["value"], mask=pa.array([False, False, True]))
    arrow, world = core.ArrowRows("t", rows.slice(1)), World(core)
    with pytest.raises(ValueError, match="t: row 1: the row itself is null"):
        world.acc.send_rows(arrow)
    assert world.acc.accepted == 1


REFUSED = [
    (lambda: values_only(2, int32s(0, 2, 1), b"ab"), "value of row 1: its offsets do not increase"),
    (lambda: values_only(1, int32s(-1, 1), b"ab"), "value of row 0: its offsets do not increase"),
    (lambda: values_only(1, int64s(0, -5), b"ab", "Z"), "value of row 0: its offsets do not increase"),
    (lambda: values_only(2, int32s(0, 1, 2), b"ab", length=1), "value of row 0: an array is shorter than its batch"),
    (lambda: values_only(1, int32s(0, 1), b"a", length=-1), "an array is shorter than its batch"),
    (lambda: values_only(1, int32s(0, 1), b"a", offset=-1), "an array is shorter than its batch"),
    (lambda: values_only(1, int32s(0, 1), b"a", n_buffers=2), "an array has an unexpected number of buffers"),
    (lambda: values_only(1, int32s(0, 1), b"a", null_count=1), "an array has nulls, but does not say which"),
    (lambda: values_only(1, None, b"a"), "an array has no buffer"),
    (lambda: values_only(1, int32s(0, 1), None), "value of row 0: an array has no buffer"),
    (lambda: Handmade(batch(spans(1, int32s(0, 1), b"a")), {"value": "z"}, length=-1), "row 0: its batch has a negative length"),
    (lambda: Handmade(batch(spans(1, int32s(0, 1), b"a")), {"value": "z"}, n_children=0), "its batch has fewer columns than the schema"),
    (lambda: views(view(-1, b"")), "a view has a negative length"),
    (lambda: views(view(13, b"", 1), b"0123456789abc"), "a view is of a buffer that does not exist"),
    (lambda: views(view(13, b"", -1), b"0123456789abc"), "a view is of a buffer that does not exist"),
    (lambda: views(view(13, b"", 0, 1), b"0123456789abc"), "a view exceeds its buffer"),
    (lambda: views(view(13, b"", 0, -1), b"0123456789abc"), "a view exceeds its buffer"),
    (lambda: views(view(2**31 - 1, b"", 0, 2**31 - 1), b"0123456789abc"), "a view exceeds its buffer"),
    (lambda: Handmade(batch(Array(1, 0, (None, None, int64s(0)))), {"value": "vz"}), "an array has no buffer"),
    (lambda: Handmade(batch(Array(1, 0, (None, view(1, b"a"), b"a", None))), {"value": "vz"}), "an array of views has no sizes"),
    (lambda: Handmade(batch(Array(1, 0, (None, view(1, b"a")))), {"value": "vz"}), "an array has an unexpected number of buffers"),
    (lambda: headers(int32s(0, 2), spans(1, int32s(0, 1), b"h")), "headers of row 0: its list exceeds the array of headers"),
    (lambda: headers(int32s(1, 0), spans(1, int32s(0, 1), b"h")), "headers of row 0: its offsets do not increase"),
    (lambda: headers(int32s(0, 1), spans(1, int32s(0, 1), b"\xff")), "the name of a header is not valid UTF-8"),
    (lambda: headers(int32s(0, 1), spans(1, int32s(0, -1), b"h")), "headers of row 0: its offsets do not increase"),
]  # fmt: skip


@each_core
@pytest.mark.parametrize(("make", "reason"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
def test_damaged_arrays_are_refused(core: ModuleType, make: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        World(core).acc.send_rows(core.ArrowRows("t", make()))


class Indexed:
    """A column of a dictionary with any indexes."""

    def __init__(self, index: Any) -> None:
        values = pa.array(["x", "y"])
        self.column = pa.DictionaryArray.from_arrays(index, values, safe=False)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return pa.record_batch([self.column], ["value"]).__arrow_c_array__()


@each_core
@pytest.mark.parametrize("index", [pa.array([2], pa.int8()), pa.array([-1], pa.int32()), pa.array([2**64 - 1], pa.uint64())])
def test_an_index_that_is_not_in_the_dictionary(core: ModuleType, index: Any) -> None:
    with pytest.raises(ValueError, match="value of row 0: its index is not in the dictionary"):
        World(core).acc.send_rows(core.ArrowRows("t", Indexed(index)))


@each_core
def test_a_stream_that_fails_says_why_after_the_rows_before(core: ModuleType) -> None:
    table = pa.table({"value": ["a", "b"]})

    def batches() -> Any:
        yield table.to_batches()[0]
        raise OSError("the disk is gone")

    rows, world = core.ArrowRows("t", pa.RecordBatchReader.from_batches(table.schema, batches())), World(core)
    with pytest.raises(RuntimeError, match=r"t: the Arrow stream failed with error .*the disk is gone") as caught:
        world.acc.send_rows(rows)
    assert (len(caught.value.accepted), world.acc.accepted, rows.position) == (2, 2, 2)  # type: ignore[attr-defined]


@each_core
def test_a_stream_whose_batches_another_thread_makes(core: ModuleType) -> None:
    table = pa.table({"value": ["a", "b"]})

    def batches() -> Any:
        for one in table.to_batches(max_chunksize=1):
            made: list[Any] = []
            thread = threading.Thread(target=made.append, args=(one,))
            thread.start()
            thread.join()
            yield from made

    assert values(core, pa.RecordBatchReader.from_batches(table.schema, batches())) == [b"a", b"b"]


class Stream:
    """Hands out the same capsule whenever it is asked."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.capsule


class Arrays:
    """The same, with an array."""

    def __init__(self, capsules: Any) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.capsules


@each_core
def test_a_capsule_is_read_once(core: ModuleType) -> None:
    table = pa.table({"value": ["a"]})
    stream, array = table.__arrow_c_stream__(), table.to_batches()[0].__arrow_c_array__()

    for data in (Stream(stream), Arrays(array)):
        assert values(core, data) == [b"a"]
        with pytest.raises(ValueError, match="t: the Arrow data has been read already"):
            core.ArrowRows("t", data)


@each_core
def test_of_two_threads_one_reads_a_capsule(core: ModuleType) -> None:
    for _ in range(50):
        stream = pa.table({"value": ["a"]}).__arrow_c_stream__()
        got: list[Any] = []
        both = threading.Barrier(2)

        def read(data: Any, both: Any, got: Any) -> None:
            both.wait()
            try:
                got.append(core.ArrowRows("t", data))
            except ValueError as error:
                got.append(error)

        threads = [threading.Thread(target=read, args=(Stream(stream), both, got)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(type(one).__name__ for one in got) == ["ArrowRows", "ValueError"]


@each_core
def test_what_is_refused_or_not_read_is_released(core: ModuleType) -> None:
    for read in (
        lambda rows: core.ArrowRows("t", rows),
        lambda rows: core.ArrowRows("t", rows, value="offset"),
        lambda rows: core.ArrowRows("t", rows, value="nothing"),
        lambda rows: World(core).acc.send_rows(core.ArrowRows("t", rows)),
    ):
        builder = core.ColumnsBuilder(["key", "value", "offset"])
        builder.add(chunk_of(core, build_batch([WireRecord(value=b"v")] * 3)), 9)
        columns = builder.finish()
        with contextlib.suppress(TypeError, ConfigError):
            read(columns)
        assert builder.held_bytes > 0
        del columns
        gc.collect()
        assert builder.held_bytes == 0


@given(
    st.lists(st.integers(-3, 12), min_size=4, max_size=4), st.binary(max_size=1), st.integers(-1, 2), st.integers(-1, 4), st.integers(-1, 0)
)
def test_random_structs_give_the_same_from_both(ends: list[int], bits: bytes, nulls: int, length: int, offset: int) -> None:
    seen = []
    for core in IMPLEMENTATIONS:
        data = values_only(3, int32s(*ends), b"0123456789ab", valid=bits or None, null_count=nulls, length=length, offset=offset)
        try:
            seen.append(values(core, data))
        except ValueError as error:
            seen.append([str(error)])
    assert all(one == seen[0] for one in seen)
