"""Exports and imports data through the Arrow C data interface, with ctypes, for the plain core.

The compiled counterparts are `_export.h`, `_live.h` and `_rows.pxi`.

Python code runs when a reader releases an array. The process aborts if this code runs after the end of the interpreter, or, as with
pyarrow, while an exception passes through the reader's C code. (The compiled core is safe in both cases.) Therefore pyarrow, if it is
loaded, exports the data.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import sys
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int64, c_void_p, cast, pointer, py_object, pythonapi, sizeof
from typing import Any, Final

from pykafka4.wire.records.columns import Array, Field
from pykafka4.wire.records.rows import no_arrow, read_already, stream_failed

__all__ = [
    "ArrayStruct",
    "Imported",
    "SchemaStruct",
    "StreamStruct",
    "array_capsule",
    "exported",
    "exported_stream",
    "fields_requested",
    "schema_capsule",
]

NULLABLE: Final = 2  # ARROW_FLAG_NULLABLE of the specification


class SchemaStruct(Structure):
    """`struct ArrowSchema`."""


class ArrayStruct(Structure):
    """`struct ArrowArray`."""


class StreamStruct(Structure):
    """`struct ArrowArrayStream`."""


SCHEMA_RELEASE = CFUNCTYPE(None, POINTER(SchemaStruct))
ARRAY_RELEASE = CFUNCTYPE(None, POINTER(ArrayStruct))
STREAM_RELEASE = CFUNCTYPE(None, POINTER(StreamStruct))
GET_SCHEMA = CFUNCTYPE(c_int, POINTER(StreamStruct), POINTER(SchemaStruct))
GET_NEXT = CFUNCTYPE(c_int, POINTER(StreamStruct), POINTER(ArrayStruct))
GET_LAST_ERROR = CFUNCTYPE(c_char_p, POINTER(StreamStruct))

SchemaStruct._fields_ = [
    ("format", c_char_p),
    ("name", c_char_p),
    ("metadata", c_void_p),
    ("flags", c_int64),
    ("n_children", c_int64),
    ("children", POINTER(POINTER(SchemaStruct))),
    ("dictionary", POINTER(SchemaStruct)),
    ("release", SCHEMA_RELEASE),
    ("private_data", c_void_p),
]
ArrayStruct._fields_ = [
    ("length", c_int64),
    ("null_count", c_int64),
    ("offset", c_int64),
    ("n_buffers", c_int64),
    ("n_children", c_int64),
    ("buffers", POINTER(c_void_p)),
    ("children", POINTER(POINTER(ArrayStruct))),
    ("dictionary", POINTER(ArrayStruct)),
    ("release", ARRAY_RELEASE),
    ("private_data", c_void_p),
]
StreamStruct._fields_ = [
    ("get_schema", GET_SCHEMA),
    ("get_next", GET_NEXT),
    ("get_last_error", GET_LAST_ERROR),
    ("release", STREAM_RELEASE),
    ("private_data", c_void_p),
]

# The objects that an exported struct points to, by its `private_data`. Readers move structs, so the address of a struct identifies nothing.
_kept: dict[int, Any] = {}
_numbers = itertools.count(1)


def _keep(*things: object) -> int:
    number = next(_numbers)
    _kept[number] = things
    return number


def _released(
    struct: Any, kept: dict[int, Any] = _kept, size: Any = sizeof, clear: Any = ctypes.memset, at: Any = ctypes.addressof
) -> None:
    """All names of this module that the function uses are arguments, because it may run while the interpreter clears the module."""
    for i in range(getattr(struct.contents, "n_children", 0)):
        child = struct.contents.children[i]
        if child.contents.release:
            child.contents.release(child)
    kept.pop(struct.contents.private_data, None)
    clear(at(struct.contents), 0, size(struct.contents))


_schema_released = SCHEMA_RELEASE(_released)
_array_released = ARRAY_RELEASE(_released)
_stream_released = STREAM_RELEASE(_released)


def _set_children(out: Any, kind: Any, children: tuple[Any, ...], fill: Any) -> Any:
    structs = (kind * len(children))()
    pointers = (POINTER(kind) * len(children))(*map(pointer, structs))
    for struct, child in zip(structs, children, strict=True):
        fill(child, struct)
    out.n_children = len(children)
    out.children = cast(pointers, POINTER(POINTER(kind)))
    return structs, pointers


def _set_schema(field: Field, out: Any) -> None:
    ctypes.memset(ctypes.addressof(out), 0, sizeof(out))
    name, form = field.name.encode(), field.format.encode()
    out.format, out.name, out.flags = form, name, NULLABLE * field.nullable
    out.private_data = _keep(name, form, _set_children(out, SchemaStruct, field.children, _set_schema))
    out.release = _schema_released


def _set_array(array: Array, out: Any) -> None:
    ctypes.memset(ctypes.addressof(out), 0, sizeof(out))
    out.length, out.null_count, out.n_buffers = array.length, array.nulls, len(array.buffers)
    buffers = (c_void_p * len(array.buffers))(*(None if data is None else cast(c_char_p(data), c_void_p).value for data in array.buffers))
    out.buffers = cast(buffers, POINTER(c_void_p))
    out.private_data = _keep(array, buffers, _set_children(out, ArrayStruct, array.children, _set_array))
    out.release = _array_released


class _Batches:
    """A stream of record batches, which `source()` returns until it returns None."""

    def __init__(self, field: Field, source: Callable[[], Array | None]) -> None:
        self.field, self.source, self.text = field, source, b""


def _stream_schema(stream: Any, out: Any) -> int:
    _set_schema(_kept[stream.contents.private_data][0].field, out.contents)
    return 0


def _stream_next(stream: Any, out: Any) -> int:
    batches = _kept[stream.contents.private_data][0]
    ctypes.memset(ctypes.addressof(out.contents), 0, sizeof(out.contents))  # an array without `release` is the end of the stream
    try:
        array = batches.source()
        if array is not None:
            _set_array(array, out.contents)
    except BaseException as error:
        batches.text = f"{type(error).__name__}: {error}".encode(errors="replace")
        return errno.EINTR if isinstance(error, KeyboardInterrupt) else errno.EIO
    return 0


_get_schema, _get_next = GET_SCHEMA(_stream_schema), GET_NEXT(_stream_next)
_get_last_error = CFUNCTYPE(c_void_p, POINTER(StreamStruct))(
    lambda stream: cast(c_char_p(_kept[stream.contents.private_data][0].text), c_void_p).value
)


# -- capsules

_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(("PyCapsule_New", pythonapi))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, c_char_p)(("PyCapsule_GetPointer", pythonapi))
_DROP = ctypes.PYFUNCTYPE(None, c_void_p)
SCHEMA, ARRAY, STREAM = b"arrow_schema", b"arrow_array", b"arrow_array_stream"
_structs: dict[int, Any] = {}  # the structs in capsules, by address


def _dropper(kind: Any, name: bytes) -> Any:
    def drop(capsule: int, structs: dict[int, Any] = _structs, pointer_of: Any = _pointer_of) -> None:
        struct = structs.pop(pointer_of(capsule, name))
        if struct.release:  # otherwise a reader has moved or released it
            struct.release(struct)

    return _DROP(drop)


_droppers = {SCHEMA: _dropper(SchemaStruct, SCHEMA), ARRAY: _dropper(ArrayStruct, ARRAY), STREAM: _dropper(StreamStruct, STREAM)}
for _function in (*_droppers.values(), _schema_released, _array_released, _stream_released, _get_schema, _get_next, _get_last_error):
    pythonapi.Py_IncRef(py_object(_function))  # structs may outlive this module, so the functions that they point to must outlive it, too


def _capsule(struct: Any, name: bytes) -> object:
    address = ctypes.addressof(struct)
    _structs[address] = struct
    return _new_capsule(address, name, cast(_droppers[name], c_void_p))


def schema_capsule(field: Field) -> object:
    struct = SchemaStruct()
    _set_schema(field, struct)
    return _capsule(struct, SCHEMA)


def array_capsule(array: Array) -> object:
    struct = ArrayStruct()
    _set_array(array, struct)
    return _capsule(struct, ARRAY)


def stream_capsule(field: Field, source: Callable[[], Array | None]) -> object:
    struct = StreamStruct(_get_schema, _get_next, cast(_get_last_error, GET_LAST_ERROR), _stream_released)
    struct.private_data = _keep(_Batches(field, source))
    return _capsule(struct, STREAM)


def fields_requested(capsule: object) -> int:
    return int(SchemaStruct.from_address(_pointer_of(id(capsule), SCHEMA)).n_children)


# -- export by pyarrow


def loaded_pyarrow() -> Any:
    """The module pyarrow if it has been imported, else None. Every reader that uses pyarrow has imported it."""
    return sys.modules.get("pyarrow")


def _pyarrow_type(pa: Any, field: Field) -> Any:
    if field.format == "+s":
        return pa.struct([pa.field(child.name, _pyarrow_type(pa, child)) for child in field.children])
    if field.format == "+l":
        return pa.list_(_pyarrow_type(pa, field.children[0]))
    return {"u": pa.string(), "z": pa.binary(), "i": pa.int32(), "l": pa.int64(), "tsu:UTC": pa.timestamp("us", "UTC")}[field.format]


def _pyarrow_array(pa: Any, field: Field, array: Array) -> Any:
    children = [_pyarrow_array(pa, *pair) for pair in zip(field.children, array.children, strict=True)]
    buffers = [None if data is None else pa.py_buffer(data) for data in array.buffers]
    return pa.Array.from_buffers(_pyarrow_type(pa, field), array.length, buffers, array.nulls, children=children or None)


def _pyarrow_batch(pa: Any, field: Field, array: Array) -> Any:
    columns = [_pyarrow_array(pa, *pair) for pair in zip(field.children, array.children, strict=True)]
    return pa.RecordBatch.from_arrays(columns, [child.name for child in field.children])


def exported(field: Field, array: Array) -> tuple[object, object]:
    """Capsules of the schema and the array; nothing is copied."""
    pa = loaded_pyarrow()
    if pa is not None:
        return _pyarrow_batch(pa, field, array).__arrow_c_array__()  # type: ignore[no-any-return]
    return schema_capsule(field), array_capsule(array)


def exported_stream(field: Field, source: Callable[[], Array | None]) -> object:
    pa = loaded_pyarrow()
    if pa is None:
        return stream_capsule(field, source)
    batches = (_pyarrow_batch(pa, field, array) for array in iter(source, None))
    return pa.RecordBatchReader.from_batches(pa.schema(_pyarrow_type(pa, field)), batches).__arrow_c_stream__()


# -- import

_moving: dict[int, object] = {}  # structs that a thread is moving, by address; `setdefault` lets only one thread move a struct


def _moved(topic: str, capsule: object, kind: Any, name: bytes) -> Any:
    """Move the struct out of `capsule`, and mark it as released there. Raises ValueError if a reader has moved or released it."""
    address, token = _pointer_of(id(capsule), name), object()
    if _moving.setdefault(address, token) is not token:
        raise read_already(topic)
    try:
        source = kind.from_address(address)
        if not source.release:
            raise read_already(topic)
        copy = kind.from_buffer_copy(source)
        ctypes.memset(address + kind.release.offset, 0, sizeof(c_void_p))
        return copy
    finally:
        del _moving[address]


def _field(schema: Any) -> Field:
    children = tuple(_field(schema.children[i].contents) for i in range(schema.n_children))
    name, form = ((text or b"").decode(errors="replace") for text in (schema.name, schema.format))
    dictionary = _field(schema.dictionary.contents) if schema.dictionary else None
    return Field(name, form, children, bool(schema.flags & NULLABLE), dictionary)


class Imported:
    field: Field

    def __init__(self, topic: str, data: Any) -> None:
        self._topic = topic
        self._stream: Any = None
        self._first: Any = None
        self._batch: Any = None
        schema: Any = None
        try:
            schema = self._open(data)
            self.field = _field(schema)
        finally:
            if schema is not None and schema.release:
                schema.release(schema)

    def _open(self, data: Any) -> Any:
        export = getattr(data, "__arrow_c_stream__", None)
        if export is not None:
            self._stream = stream = _moved(self._topic, export(), StreamStruct, STREAM)
            schema = SchemaStruct()
            self._check(stream.get_schema(stream, schema))
            return schema
        export = getattr(data, "__arrow_c_array__", None)
        if export is None:
            raise no_arrow(self._topic, data)
        described, array = export()
        schema = _moved(self._topic, described, SchemaStruct, SCHEMA)
        self._first = _moved(self._topic, array, ArrayStruct, ARRAY)
        return schema

    def _check(self, failed: int) -> None:
        if failed:
            text = self._stream.get_last_error(self._stream) or b""
            raise stream_failed(self._topic, failed, text.decode(errors="replace"))

    def next(self) -> Any:
        """Release the previous batch, and return the next one; None at the end."""
        self._drop()
        if self._stream is None:
            self._batch, self._first = self._first, None
            return self._batch
        array = ArrayStruct()
        self._check(self._stream.get_next(self._stream, array))
        if array.release:
            self._batch = array
            return array
        self.close()
        return None

    def _drop(self) -> None:
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.release(batch)

    def close(self) -> None:
        self._drop()
        for struct in (self._first, self._stream):
            if struct is not None and struct.release:
                struct.release(struct)
        self._first = self._stream = None

    __del__ = close
