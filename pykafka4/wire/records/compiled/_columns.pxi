# Collects fetched records as columns. Invariant: `add` finds the same records and errors as `Chunk.decode`, in the same order.
#
# `walk` runs no Python code, so one call can decode a complete chunk, and a long chunk without the GIL. Old formats,
# compressed batches, control batches, and chunks with aborted transactions need `Chunk.enter`.


cdef extern from "_export.h" nogil:
    struct ArrowSchema:
        const char* format
        const char* name
        int64_t flags, n_children
        ArrowSchema** children
        ArrowSchema* dictionary
        void (*release)(ArrowSchema*) noexcept nogil
    struct ArrowArray:
        int64_t length, null_count, offset, n_buffers, n_children
        const void** buffers
        ArrowArray** children
        void (*release)(ArrowArray*) noexcept nogil
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
    ctypedef struct Account:
        pass
    bint short_record(const char*, const char*, Raw*)
    void prefetch_record(const char*, int64_t)
    ctypedef struct Room:
        int64_t used
    ctypedef struct Spans:
        Room data
    ctypedef struct Columns:
        Spans name, content
        int count
        int order[8]
        int wants[8]
        int64_t rows, most_bytes
    enum:
        ALL_COLUMNS, C_TOPIC, C_PARTITION, C_OFFSET, C_TIMESTAMP, C_TIMESTAMP_TYPE, C_KEY, C_VALUE, C_HEADERS, MOST_COLUMN_BYTES
    Account* account_new()
    void account_release(Account*)
    int64_t account_bytes(Account*)
    Columns* columns_new(Account*, const int*, int, int64_t)
    void columns_release(Columns*)
    int columns_fit(Columns*, int64_t, int64_t, int64_t)
    int columns_finish(Columns*)
    int64_t columns_bytes(const Columns*)
    void columns_repeat(Columns*, int64_t, const char*, int64_t, int32_t, int32_t)
    void columns_cut(Columns*, int64_t)
    bint row_fits(const Columns*, int64_t, int64_t, int64_t)
    int row_add(Columns*, int64_t, int64_t, const char*, int64_t, const char*, int64_t, const char*, const char*, int64_t)
    int schema_export(const int*, int, ArrowSchema*)
    int array_export(Columns*, ArrowArray*)
    int stream_export(Columns*, ArrowArrayStream*)

cdef extern from "_export.h":
    object capsule_schema(ArrowSchema**)
    object capsule_array(ArrowArray**)
    object capsule_stream(ArrowArrayStream**)
    void* PyCapsule_GetPointer(object, const char*) except NULL


cdef enum:
    LONG_WALK = 262144             # bytes (40 µs) beyond which records are decoded without the GIL, if more than MANY_ROWS are requested
    MANY_ROWS = 2000
    HEADER_COST = 8                # bytes of a header without its data: the end offsets of its name and value


cdef struct Taking:                # the state of a call of `add`
    const char* topic
    int64_t topic_size
    int32_t partition
    int64_t row_cost               # bytes of a row without the data of keys, values and headers
    int64_t rows, bytes            # rows and bytes that may still be added
    int64_t taken, first, last     # number of added rows, and the offsets of the first and last of them
    int32_t epoch, last_epoch      # leader epochs of the batch entered, and of the last row
    bint entered                   # `enter_plain` has entered a batch in this step
    bint done                      # the batch entered has no more records to add
    bint full                      # the next record does not fit
    bint no_memory
    int64_t headers                # number of headers of the next record, if they are too many: see `too_many_headers`
    int64_t refused                # the offset of the record that set `full` or `headers`


cdef bint enter_plain(Chunk c, Taking* t) noexcept nogil:
    """Enter the next batch if that needs no Python code. `Chunk.enter` handles all other batches, such as corrupt ones."""
    cdef const char* batch = c.p
    cdef int64_t count, first
    cdef int16_t bits
    if batch >= c.end or batch[16] != 2 or c.to_abort is not None:
        return False
    bits = get16(batch + 21)
    count = get32(batch + 57)
    c.at = batch + HEADER
    c.stop = batch + 12 + get32(batch + 8)
    if bits & (CONTROL_BIT | CODEC_BITS) or count <= 0 or count > (c.stop - c.at) // LEAST_RECORD:
        return False
    if crc32c_extend(0, batch + 21, <size_t>(c.stop - batch - 21)) != <uint32_t>get32(batch + 17):
        return False
    first = get64(batch)
    if first > c.position:
        c.position = first
    c.base = first
    c.last_delta = get32(batch + 23)
    c.end_delta = min(c.last_delta, c.until - first - 1)
    c.appended = bits & LOG_APPEND_BIT != 0
    c.base_timestamp = get64(batch + 35) if c.appended else get64(batch + 27)
    c.previous = -1
    c.left = count
    c.p = c.stop
    c.entered = batch
    t.entered = True
    t.epoch = get32(batch + 12)
    return True


cdef const char* take_rows(Chunk c, Columns* out, Taking* t) noexcept nogil:
    """Add records of the batch entered, within the limits of `t`; return the reason why the next record is invalid, or NULL."""
    cdef Raw r
    cdef const char* wrong = NULL
    cdef const char* at = c.at
    cdef const char* stop = c.stop
    cdef int64_t offset, stamp, before, left = c.left, previous = c.previous, position = c.position, base = c.base, n = 0
    cdef int64_t first = -1, most = t.rows, bytes = t.bytes, row_cost = t.row_cost  # locals stay in registers, as no pointer reaches them
    cdef bint keys = out.wants[<int>C_KEY], values = out.wants[<int>C_VALUE]
    cdef int64_t ahead = 0 if c.unpacked is not None else c.stop - c.at + HEADER
    cdef int64_t rows = min(t.rows, left, t.bytes // t.row_cost + 1)
    if t.topic_size > 0 and out.wants[<int>C_TOPIC]:
        rows = min(rows, (out.most_bytes - out.rows * t.topic_size) // t.topic_size)
    if columns_fit(out, rows, t.topic_size, min((stop - at) + (c.end - c.p), t.bytes, out.most_bytes)) < 0:
        t.no_memory = True
        return NULL
    while n < most and bytes > 0:
        if left == 0:
            if at != stop:
                wrong = "a batch is longer than its records"
            else:
                t.done = True
            break
        prefetch_record(at, ahead)
        if not short_record(at, stop, &r):
            wrong = read_record(at, stop, &r)
            if wrong != NULL:
                break
        if r.offset <= previous or r.offset > c.end_delta:
            if c.end_delta < r.offset <= c.last_delta and r.offset > previous:
                t.done = True      # the record is at `until` or after it
            else:
                wrong = "the offsets of a batch are not increasing within its range"
            break
        if r.headers:
            wrong = headers_check(r.rest, r.end, r.headers)
            if wrong != NULL:
                break
        offset = base + r.offset
        if offset >= position:
            if r.headers > MANY_HEADERS and RECORD_WEIGHT + (r.end - at) + r.headers * HEADER_WEIGHT > c.max_decompressed:
                t.headers, t.refused = r.headers, offset
                break
            if n == rows or not row_fits(out, r.key_size, r.value_size, r.end - r.rest):
                t.full, t.refused = True, offset
                break
            stamp = c.base_timestamp if c.appended else <int64_t>(<uint64_t>c.base_timestamp + <uint64_t>r.timestamp)
            before = out.name.data.used + out.content.data.used
            if row_add(out, offset, stamp, r.key, r.key_size, r.value, r.value_size, r.rest, r.end, r.headers) < 0:
                columns_cut(out, out.rows + n)
                t.no_memory = True
                break
            bytes -= row_cost
            if keys and r.key_size > 0:
                bytes -= r.key_size
            if values and r.value_size > 0:
                bytes -= r.value_size
            if r.headers and out.wants[<int>C_HEADERS]:
                bytes -= r.headers * HEADER_COST + out.name.data.used + out.content.data.used - before
            if n == 0:
                first = offset
            position = offset + 1
            n += 1
        previous = r.offset
        at = r.end
        left -= 1
    c.at, c.left, c.previous, c.position = at, left, previous, position
    t.bytes = bytes
    columns_repeat(out, n, t.topic, t.topic_size, t.partition, 1 if c.appended else 0)
    if n and t.taken == 0:
        t.first = first
    t.rows -= n
    t.taken += n
    if n:
        t.last, t.last_epoch = position - 1, t.epoch
    return wrong


cdef const char* walk(Chunk c, Columns* out, Taking* t) noexcept nogil:
    """Add records of the batch entered, and of later batches up to one that needs Python code.

    Returns the reason why a record is invalid, or NULL.
    """
    cdef const char* wrong
    while c.left >= 0 or enter_plain(c, t):
        t.done = False
        wrong = take_rows(c, out, t)
        if not t.done or c.unpacked is not None or c.p >= c.end:
            return wrong
        t.done = False
        c.left = -1
        if c.base + c.last_delta + 1 > c.position:
            c.position = c.base + c.last_delta + 1
    return NULL


@cython.final
cdef class ColumnsBuilder:
    """Collects records of chunks as columns. `_plain_columns.ColumnsBuilder` describes the arguments and methods."""

    cdef Columns* columns
    cdef Account* account
    cdef readonly tuple names
    cdef readonly bint full
    cdef readonly object added
    cdef dict _positions
    cdef int order[8]
    cdef int64_t row_cost, most_bytes
    cdef bint busy

    def __cinit__(self, columns=COLUMN_NAMES, *, int64_t most_bytes=MOST_COLUMN_BYTES):
        cdef int i
        self.names = checked_columns(columns)
        for i, name in enumerate(self.names):
            self.order[i] = COLUMN_NAMES.index(name)
            self.row_cost += ROW_COSTS[name]
        self.most_bytes = most_bytes
        self._positions = {}
        self.account = account_new()
        if self.account == NULL:
            raise MemoryError
        self.columns = self.begin()

    cdef Columns* begin(self) except NULL:
        cdef Columns* columns = columns_new(self.account, self.order, <int>len(self.names), self.most_bytes)
        if columns == NULL:
            raise MemoryError
        return columns

    def __dealloc__(self):
        if self.columns != NULL:
            columns_release(self.columns)
        if self.account != NULL:
            account_release(self.account)

    def __len__(self):
        return self.columns.rows

    @property
    def nbytes(self) -> int:
        return columns_bytes(self.columns)

    @property
    def held_bytes(self) -> int:
        return account_bytes(self.account)

    def add(self, Chunk chunk not None, int64_t limit, int64_t max_bytes=INT64_MAX) -> int:
        cdef Taking t
        cdef Py_ssize_t size
        if wanted:
            give_way()
        if chunk.busy or self.busy:
            raise RuntimeError(f"{chunk.topic}-{chunk.partition}: add was called on a chunk that is being decoded, or a builder in use")
        t.topic = PyUnicode_AsUTF8AndSize(chunk.topic, &size)
        t.topic_size = size
        t.partition = chunk.partition
        t.row_cost = self.row_cost + (size if self.columns.wants[<int>C_TOPIC] else 0)
        t.rows, t.bytes = limit, max_bytes
        t.taken = 0
        t.first = t.last = t.epoch = t.last_epoch = -1
        if chunk.left >= 0 and chunk.epoch is not None:
            t.epoch = chunk.epoch
        t.full = t.no_memory = t.done = False
        self.added = None
        chunk.busy = self.busy = True
        try:
            while t.rows > 0 and t.bytes > 0 and not t.full:
                try:
                    if not self.step(chunk, &t):
                        break
                except (CorruptRecord, RecordTooLarge):
                    if t.taken == 0:
                        raise
                    break
                except ConfigError as error:  # the library of the batch's codec is missing
                    if t.taken == 0:
                        raise ConfigError(f"{chunk.topic}-{chunk.partition} at offset {chunk.position}: {error}") from None
                    break
        finally:
            chunk.busy = self.busy = False
            chunk.decoded = max_bytes - t.bytes
            self.full = t.full
            self.note(chunk, &t)
        return t.taken

    cdef int step(self, Chunk chunk, Taking* t) except -1:
        """Add records of the next batches; return 0 if there is no batch left."""
        cdef const char* wrong
        cdef Columns* columns = self.columns
        t.entered = False
        t.done = False
        t.headers = 0
        if chunk.legacy is None:
            if t.rows > MANY_ROWS and (chunk.end - chunk.p) + (chunk.stop - chunk.at if chunk.left >= 0 else 0) > LONG_WALK:
                with nogil:
                    wrong = walk(chunk, columns, t)
                    ask()
                got()
            else:
                wrong = walk(chunk, columns, t)
            if t.entered and chunk.left >= 0:
                chunk.adopt(chunk.entered)
            if t.no_memory:
                t.no_memory = False
                raise MemoryError
            if wrong != NULL:
                raise chunk.damaged(wrong)
            if t.done:
                chunk.leave()
            elif t.headers:
                raise chunk.too_large_at(t.refused, too_many_headers(t.headers, chunk.max_decompressed))
            elif t.full and columns.rows == 0:
                raise chunk.too_large_at(t.refused, f"a record does not fit into a column of {columns.most_bytes} bytes")
            if chunk.left >= 0 or t.rows <= 0 or t.bytes <= 0:
                return 1
            if not chunk.enter():
                return 0
            if chunk.left >= 0 and chunk.legacy is None:
                t.epoch = chunk.epoch
        if chunk.legacy is not None:
            self.add_legacy(chunk, t)
        return 1

    cdef int add_legacy(self, Chunk chunk, Taking* t) except -1:
        cdef Columns* columns = self.columns
        cdef const char* key
        cdef const char* value
        cdef int64_t key_size, value_size
        while t.rows > 0 and t.bytes > 0:
            r = chunk.next_message()
            if r is None:
                return 0
            if r.offset < chunk.position:
                continue
            if r.offset >= chunk.until:
                chunk.leave()
                return 0
            _span(chunk.topic, "key", r.key, &key, &key_size)
            _span(chunk.topic, "value", r.value, &value, &value_size)
            if not row_fits(columns, key_size, value_size, 0) or columns.rows * t.topic_size > columns.most_bytes - t.topic_size:
                chunk.enter_again()
                t.full = True
                return 0
            if columns_fit(columns, 1, t.topic_size, max(value_size, 0)) < 0 or row_add(
                columns, r.offset, r.timestamp_ms, key, key_size, value, value_size, NULL, NULL, 0
            ) < 0:
                columns_cut(columns, columns.rows)
                chunk.enter_again()
                raise MemoryError
            columns_repeat(columns, 1, t.topic, t.topic_size, t.partition, r.timestamp_type)
            t.bytes -= t.row_cost
            if columns.wants[<int>C_KEY]:
                t.bytes -= max(key_size, 0)
            if columns.wants[<int>C_VALUE]:
                t.bytes -= max(value_size, 0)
            if t.taken == 0:
                t.first = r.offset
            t.last = r.offset
            t.last_epoch = -1
            t.taken += 1
            t.rows -= 1
            chunk.position = r.offset + 1
        return 0

    cdef int note(self, Chunk chunk, Taking* t) except -1:
        cdef int epoch = t.last_epoch
        tp = TopicPartition(chunk.topic, chunk.partition)
        if t.taken:
            self.added = (t.first, t.last, epoch)
        elif tp in self._positions:
            epoch = self._positions[tp].leader_epoch
        if chunk.exhausted and chunk.last_leader_epoch >= 0:
            epoch = chunk.last_leader_epoch   # for example, the epoch of a marker after the last record
        if t.taken or tp in self._positions or chunk.exhausted:
            self._positions[tp] = OffsetAndMetadata(chunk.position, leader_epoch=epoch)
        return 0

    def finish(self) -> RecordColumns:
        cdef RecordColumns out = RecordColumns.__new__(RecordColumns)
        cdef Columns* columns
        if self.busy:
            raise RuntimeError("finish was called on a builder in use")
        positions = {}
        columns = self.begin()
        if columns_finish(self.columns) < 0:
            columns_release(columns)
            raise MemoryError
        out.columns, self.columns = self.columns, columns
        out.positions, self._positions = self._positions, positions
        out.names = self.names
        self.full = False
        self.added = None
        return out


@cython.final
cdef class RecordColumns:
    """Records as columns. See `_plain_columns.RecordColumns`."""

    cdef Columns* columns
    cdef readonly tuple names
    cdef readonly dict positions

    def __dealloc__(self):
        if self.columns != NULL:
            columns_release(self.columns)

    def __len__(self):
        return self.columns.rows

    @property
    def nbytes(self) -> int:
        """The size of all columns, in bytes."""
        return columns_bytes(self.columns)

    def __arrow_c_schema__(self):
        """The schema, in a capsule."""
        cdef ArrowSchema* schema = NULL
        capsule = capsule_schema(&schema)
        if schema_export(self.columns.order, self.columns.count, schema):
            raise MemoryError
        return capsule

    def __arrow_c_array__(self, requested_schema=None):
        """Export the columns as an Arrow record batch: capsules of its schema and array. Repeated calls are allowed; nothing is copied."""
        cdef ArrowArray* array = NULL
        self.check_request(requested_schema)
        capsule = capsule_array(&array)
        if array_export(self.columns, array):
            raise MemoryError
        return self.__arrow_c_schema__(), capsule

    def __arrow_c_stream__(self, requested_schema=None):
        """Export the columns as a stream of one Arrow record batch, in a capsule."""
        cdef ArrowArrayStream* stream = NULL
        self.check_request(requested_schema)
        capsule = capsule_stream(&stream)
        if stream_export(self.columns, stream):
            raise MemoryError
        return capsule

    cdef int check_request(self, requested_schema) except -1:
        """Refuse a requested schema with a different number of columns. Different types are accepted: the reader converts the data."""
        cdef int64_t n
        if requested_schema is not None:
            n = (<ArrowSchema*>PyCapsule_GetPointer(requested_schema, b"arrow_schema")).n_children
            if n != self.columns.count:
                raise other_columns(n, self.names)
        return 0

    def __repr__(self):
        return f"<RecordColumns of {len(self)} records: {', '.join(self.names)}>"


