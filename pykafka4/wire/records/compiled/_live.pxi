# Exports a stream of columns that are made while it is read. Invariant: an exception of the source ends the stream.


cdef extern from "errno.h" nogil:
    enum:
        EINTR, EIO, ENOMEM

cdef extern from "_live.h":
    ctypedef int Make(PyObject*, ArrowArray*, char**) noexcept with gil
    int live_export(object, Make*, const int*, int, ArrowArrayStream*)
    int live_drop_all(void*)

cdef extern from "string.h" nogil:
    char* strdup(const char*)


@cython.final
cdef class ColumnsStream:
    """A stream of the `RecordColumns` that `source()` returns until it returns None. `_plain_columns.ColumnsStream` has the rules."""

    cdef readonly tuple names
    cdef object source
    cdef bint given

    def __cinit__(self, names, source):
        self.names = checked_columns(names)
        self.source = source

    def __arrow_c_schema__(self):
        """The schema, in a capsule."""
        cdef ArrowSchema* schema = NULL
        cdef int order[8]
        capsule = capsule_schema(&schema)
        if schema_export(order, order_of(self.names, order), schema):
            raise MemoryError
        return capsule

    def __arrow_c_stream__(self, requested_schema=None):
        """Export the stream in a capsule. Raises RuntimeError at the second call, ValueError if the number of requested columns differs."""
        cdef ArrowArrayStream* stream = NULL
        cdef int order[8]
        cdef int64_t n
        if requested_schema is not None:
            n = (<ArrowSchema*>PyCapsule_GetPointer(requested_schema, b"arrow_schema")).n_children
            if n != len(self.names):
                raise other_columns(n, self.names)
        if self.given:
            raise stream_given()
        live_drop_all(NULL)
        capsule = capsule_stream(&stream)
        if live_export(self, live_next, order, order_of(self.names, order), stream):
            raise MemoryError
        self.given = True
        return capsule

    cdef RecordColumns make(self):
        if self.source is None:
            return None
        try:
            made = self.source()
            if made is not None and (type(made) is not RecordColumns or (<RecordColumns>made).names != self.names):
                raise TypeError(f"the source of a stream of {', '.join(self.names)} returned {made!r}")
        except BaseException:  # the exception is not kept: its traceback refers to frames of the stream's readers, which own the stream
            self.source = None
            raise
        if made is None:
            self.source = None
        return made


cdef int order_of(tuple names, int* order) except -1:
    cdef int i
    for i, name in enumerate(names):
        order[i] = COLUMN_NAMES.index(name)
    return <int>len(names)


cdef int live_next(PyObject* source, ArrowArray* out, char** text) noexcept with gil:
    """Export the next batch of a `ColumnsStream` into `out`; return 0 or an errno. After an exception, `text` has its text."""
    cdef RecordColumns made
    try:
        made = (<ColumnsStream><object>source).make()
        return 0 if made is None else array_export(made.columns, out)
    except BaseException as error:
        text[0] = strdup(f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
        return EINTR if isinstance(error, KeyboardInterrupt) else ENOMEM if isinstance(error, MemoryError) else EIO
