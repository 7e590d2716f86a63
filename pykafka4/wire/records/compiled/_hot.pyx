# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False, embedsignature=False, auto_pickle=False
"""Compiles the core as one unit: this file includes the `.pxi` files, which the docstring of the package lists.

Invariant: the same bytes and exception types as in `reference.py`; a record in a batch has no Python object except its handle and its
callback.

**The GIL is the lock**: between choosing a batch and writing the record, no Python code may run. Besides calls, Python code may run when
an object that the garbage collector tracks is allocated (`__del__` methods), and when the last reference to an object of other code is
dropped. Without this rule: a thread finds room in batch B. An allocation runs the collector. A `__del__` method calls `send`, which fills
and seals B. The thread writes its record into the sealed B, perhaps beyond its end. So functions allocate before they choose the batch,
and drop references after the write.
"""

cimport cython
from cpython.buffer cimport PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.long cimport PyLong_Check
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

from pykafka4.gil._gil cimport ask, give_way, got, step_aside, wanted

import os
import sys
from collections import deque
from contextlib import suppress
from functools import partial
from operator import itemgetter

from pykafka4.misuse import ForeignField, explain_send
from pykafka4.other_clients.tables import METHODS, method_hint
from pykafka4.records import OffsetAndMetadata, TopicPartition, Written
from pykafka4.errors import (
    BufferFull,
    ConfigError,
    CorruptRecord,
    DecodeError,
    DeliveryFailed,
    ForkedClientError,
    KafkaTimeoutError,
    RecordTooLarge,
    short_name,
)
from pykafka4.logs import get_log
from pykafka4.records import ProducerRecord, RecordMetadata
from pykafka4.wire.records._plain_decode import Record as PlainRecord
from pykafka4.wire.records.columns import COLUMN_NAMES, Field, ROW_COSTS, checked_columns, other_columns, stream_given
from pykafka4.wire.records.common import (
    checked_callback,
    chosen_partition,
    drops_of,
    fresh,
    holds_pointers,
    many_ended,
    many_values,
    not_handed_back,
    partitioner_failed,
    shares_time,
    wake_tasks,
)
from pykafka4.wire.records.compression import is_interruption
from pykafka4.wire.records.policy import Admission, Policy
from pykafka4.wire.records.rows import (
    ARGUMENTS,
    RowsCallback,
    named_columns,
    no_arrow,
    read_already,
    rows_ended,
    rows_failed,
    rows_unfinished,
    shapes_of,
    stream_failed,
    wrong_row,
)

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PyList_GET_SIZE(object)
    PyObject* PyDict_GetItemWithError(object, object) except? NULL
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    bint PyCallable_Check(object)
    bint PyObject_IS_GC(object)
    void PyErr_SetInterrupt()
    int PyErr_CheckSignals() except -1
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef extern from "_plat.h" nogil:
    void plat_init()
    uint32_t crc32c_extend(uint32_t, const char*, size_t)
    uint32_t crc32c_portable(uint32_t, const char*, size_t)
    int32_t murmur2_hash(const char*, size_t)
    void put16(char*, int16_t)
    void put32(char*, int32_t)
    void put64(char*, int64_t)
    int16_t get16(const char*)
    int32_t get32(const char*)
    int64_t get64(const char*)
    int varint_size(int64_t)
    char* put_varint(char*, int64_t)
    const char* get_varint(const char*, const char*, int64_t*)
    const char* get_varlong(const char*, const char*, int64_t*)
    int64_t wall_ms()

cdef extern from "_record.h":
    ctypedef struct PyTypeObject:
        pass
    PyTypeObject RecordType
    int record_type_ready() except -1
    const char* headers_check(const char*, const char*, int64_t) nogil
    object headers_build(const char*, const char*, int64_t)
    int type_set(object, const char*, object) except -1
    object record_make(PyObject*, PyObject*, PyObject*, PyObject*, PyObject*, PyObject*, PyObject*, PyObject*, PyObject*)

cdef extern from "_refuse.h":
    int raise_what_it_returns(object, const char*, object) except -1

if not getattr(sys, "_is_gil_enabled", lambda: True)():  # with PYTHON_GIL=0; otherwise this import has turned the GIL on
    raise ImportError("it relies on the GIL, which is off in this interpreter")

plat_init()
record_type_ready()
Record = <object>&RecordType
type_set(Record, b"__match_args__", PlainRecord.__match_args__)
type_set(Record, b"__attrs_attrs__", PlainRecord.__attrs_attrs__)  # so that asdict, evolve and fields of attrs work as with the plain core
for _name in METHODS["Record"]:
    type_set(Record, _name.encode(), ForeignField(method_hint("Record", _name, ())))

cdef double INFINITY = float("inf")
cdef object NO_TOPIC = object()  # identical to no topic name of an application
cdef const char* ZERO_HEADERS = b"\0"
cdef object _log = get_log("pykafka4")

OPEN, SEALED, ACKED, FAILED, SPLIT = 0, 1, 2, 3, 4

cdef enum:
    S_OPEN = 0
    S_SEALED = 1
    S_ACKED = 2
    S_FAILED = 3
    S_SPLIT = 4
    HEADER = 61                # bytes of a batch before its records
    LEAST_RECORD = 7           # bytes: one each for length, attributes, timestamp, offset, key, value, headers
    BLOCK_HEAD = 16            # bytes before the bytes of a batch: `Block`, then padding
    FIRST_BLOCK_BYTES = 2048   # usual bytes of a new batch's block; larger blocks replace it as the batch grows
    MOST_POOLED_BLOCKS = 64    # maximum number of full-size blocks kept for reuse
    PARKED_COST = 128          # bytes reserved for a parked record in addition to its data
    CALLBACK_COST = 24         # bytes reserved for the callback of a record: the reference to it, and Meta
    FIRST_CALLBACKS = 16       # `book_callbacks` reserves for at least as many, if there is room and the batch may have as many records
    LONG_CRC = 1048576         # bytes beyond which a checksum (40 us) is computed without the GIL
    CODEC_BITS = 7
    LOG_APPEND_BIT = 8
    CONTROL_BIT = 32
    TRANSACTIONAL_BIT = 16
    LAST_CODEC = 4
    REFUSED = 2                    # the result of `append` if `send` must raise BufferFull


# ---------------------------------------------------------------- bytes of the application's arguments

cdef str exact_name(object topic):
    """`topic` as a plain str, because a subclass may override `__str__` or `__eq__`. Raises TypeError for other types."""
    if type(topic) is str:
        return topic
    if not PyUnicode_Check(topic):
        raise TypeError(f"topic must be str, not {type(topic).__name__}")
    return str.__str__(topic)


cdef object _copied(str topic, str what, object value):
    cdef Py_buffer view
    try:
        PyObject_GetBuffer(value, &view, PyBUF_ND | PyBUF_FORMAT)
    except (TypeError, ValueError, BufferError):
        raise _no_bytes(topic, what, value) from None
    try:
        # The format is nearly always one letter, most often `B`, as for bytearray.
        if view.format != NULL and (view.format[0] != c'B' or view.format[1] != 0) and holds_pointers((<bytes>view.format).decode("utf-8", "replace")):
            raise _no_bytes(topic, what, value)
        return PyBytes_FromStringAndSize(<const char*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef object _no_bytes(str topic, str what, object value):
    return TypeError(
        f"{topic}: {what} must be bytes, str, a C-contiguous buffer without pointers, or None, not {type(value).__name__}; serialize it first"
    )


cdef object _slow_span(str topic, str what, object value, const char** data, int64_t* size):
    cdef Py_ssize_t n
    if PyUnicode_Check(value):
        data[0] = PyUnicode_AsUTF8AndSize(value, &n)
        size[0] = n
        return value
    if not PyBytes_Check(value):
        value = _copied(topic, what, value)
    data[0] = PyBytes_AS_STRING(value)
    size[0] = PyBytes_GET_SIZE(value)
    return value


cdef inline object _span(str topic, str what, object value, const char** data, int64_t* size):
    """Find the bytes of `value`; return the object that keeps them alive. The size of None is -1."""
    if PyBytes_CheckExact(value):
        data[0] = PyBytes_AS_STRING(value)
        size[0] = PyBytes_GET_SIZE(value)
        return value
    if value is None:
        data[0] = NULL
        size[0] = -1
        return value
    return _slow_span(topic, what, value, data, size)


cdef list _checked_headers(str topic, object headers):
    """`headers` as (str, bytes or None) tuples. Raises TypeError, naming the invalid part."""
    cdef list out = []
    pairs = headers.items() if hasattr(headers, "items") else headers
    if isinstance(pairs, (str, bytes)) or not hasattr(pairs, "__iter__"):
        raise TypeError(f"{topic}: headers must be (name, value) pairs or a mapping, not {type(headers).__name__}")
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{topic}: a header must be a (name, value) pair, not {pair!r}")
        name, value = pair
        if not PyUnicode_Check(name):
            raise TypeError(f"{topic}: the name of a header must be str, not {name!r}")
        name = exact_name(name)
        if PyUnicode_Check(value):
            value = str.encode(value)
        elif value is not None and not PyBytes_CheckExact(value):
            value = _copied(topic, f"the value of header {name!r}", value)
        out.append((name, value))
    return out


cdef int64_t _headers_size(list pairs) except -2:
    """Encoded size of `pairs`; -1 if they are not all exactly (str, bytes or None) tuples."""
    cdef int64_t total = varint_size(PyList_GET_SIZE(pairs))
    cdef Py_ssize_t i, size
    cdef tuple pair
    for i in range(PyList_GET_SIZE(pairs)):
        found = <object>PyList_GET_ITEM(pairs, i)
        if type(found) is not tuple:
            return -1
        pair = <tuple>found
        if len(pair) != 2 or type(pair[0]) is not str or (pair[1] is not None and not PyBytes_CheckExact(pair[1])):
            return -1
        PyUnicode_AsUTF8AndSize(pair[0], &size)
        total += varint_size(size) + size
        size = -1 if pair[1] is None else PyBytes_GET_SIZE(pair[1])
        total += varint_size(size) + max(size, 0)
    return total


cdef bytes _header_bytes(str topic, object headers):
    cdef list pairs = <list>headers if type(headers) is list else list(headers) if type(headers) is tuple else _checked_headers(topic, headers)
    cdef int64_t total = _headers_size(pairs)
    cdef const char* data
    cdef Py_ssize_t i, size
    cdef char* p
    if total < 0:
        pairs = _checked_headers(topic, pairs)
        total = _headers_size(pairs)
    cdef bytes out = PyBytes_FromStringAndSize(NULL, total)
    p = put_varint(PyBytes_AS_STRING(out), PyList_GET_SIZE(pairs))
    for i in range(PyList_GET_SIZE(pairs)):
        pair = <tuple>PyList_GET_ITEM(pairs, i)
        data = PyUnicode_AsUTF8AndSize((<tuple>pair)[0], &size)
        p = put_varint(p, size)
        memcpy(p, data, size)
        p += size
        value = (<tuple>pair)[1]
        size = -1 if value is None else PyBytes_GET_SIZE(value)
        p = put_varint(p, size)
        if size > 0:
            memcpy(p, PyBytes_AS_STRING(value), size)
            p += size
    return out


cdef int64_t _integer(str topic, str what, object value, int64_t most) except -1:
    """`value` as an integer from 0 to `most`. Raises TypeError or ValueError, naming topic and argument."""
    if not PyLong_Check(value):
        raise TypeError(f"{topic}: {what} must be an int or None, not {type(value).__name__}")
    cdef int overflow
    cdef int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or not 0 <= number <= most:
        raise ValueError(f"{topic}: {what}={value} must be from 0 to {most}")
    return number


# ---------------------------------------------------------------- functions for other modules

def now_ms() -> int:
    """The wall clock in milliseconds, for records without a timestamp."""
    return wall_ms()


def murmur2(data) -> int:
    """Kafka's hash of a key, as in the Java client (a signed 32-bit int)."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef int32_t result = murmur2_hash(<const char*>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


def crc32c(data, uint32_t value=0) -> int:
    """CRC-32C of `data`, continuing from `value`, the checksum of the bytes before it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t result = crc32c_extend(value, <const char*>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


def _crc32c_portable(data, uint32_t value=0) -> int:
    """The table-driven implementation, for tests on machines that have an instruction for CRC-32C."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef uint32_t result = crc32c_portable(value, <const char*>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


include "_decode.pxi"
include "_iterate.pxi"
include "_columns.pxi"
include "_live.pxi"
include "_block.pxi"
include "_batch.pxi"
include "_delivery.pxi"
include "_write.pxi"
include "_policy.pxi"
include "_append.pxi"
include "_choose.pxi"
include "_park.pxi"
include "_drop.pxi"
include "_many.pxi"
include "_rows.pxi"
include "_raw_batch.pxi"
include "_method.pxi"


cdef extern from *:
    """
    static PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
        return PyErr_Format(PyExc_TypeError, "cannot create '%.100s' instances; the client makes them", type->tp_name);
    }
    /* Refuse calls of `type` by Python code. This module makes instances with functions that Cython generates, which do not use tp_new. */
    static void refuse_construction(PyObject *type) {
        ((PyTypeObject *)type)->tp_new = refuse_new;
        ((PyTypeObject *)type)->tp_vectorcall = NULL; /* CPython would use it instead of tp_new */
        PyType_Modified((PyTypeObject *)type);
    }
    """
    void refuse_construction(object)


for _name in METHODS["Delivery"]:  # instead of a `__getattr__`, which would make `delivery.exception()` of each callback slower
    type_set(Delivery, _name.encode(), ForeignField(method_hint("Delivery", _name, ())))
for _type in (Hooks, LingerList, RecordsBuffer, Batch, Settlement, Delivery, Parked, Topic, Dropped, RecordColumns, SentRows, BatchRows):
    refuse_construction(_type)
del _type
raise_what_it_returns(Accumulator, b"send", explain_send)
