# Reads rows of Arrow data as records. Invariant: a row that goes straight into an open batch needs no Python object, and bytes are copied
# before their array is released.


cdef extern from "_rows.h" nogil:
    ctypedef struct Column:
        Column* child[2]
    ctypedef struct Scratch:
        char* at
        int64_t used
    Column* column_new(int, int64_t, int, int64_t, int64_t)
    void column_free(Column*)
    const char* column_bind(Column*, const ArrowArray*, int64_t, int64_t)
    bint bit_at(const char*, int64_t)
    const char* bytes_at(const Column*, int64_t, const char**, int64_t*)
    const char* integer_of(const Column*, int64_t, int64_t*, int*)
    const char* headers_at(const Column*, int64_t, Scratch*)
    int move_schema(ArrowSchema*, ArrowSchema*)
    int move_array(ArrowArray*, ArrowArray*)
    int move_stream(ArrowArrayStream*, ArrowArrayStream*)


cdef str NO_UTF8 = "it is not valid UTF-8"
cdef const char* NEGATIVE = "it is negative"

cdef enum:
    RUN = 1024                     # maximum rows of one `send_run`, which has no pause; small rows take about 50 us

cdef enum:                         # indexes of rows.ARGUMENTS
    A_KEY = 0
    A_VALUE = 1
    A_HEADERS = 2
    A_TIMESTAMP = 3
    A_PARTITION = 4


cdef object field_of(const ArrowSchema* schema):
    cdef int64_t i
    children = tuple([field_of(schema.children[i]) for i in range(schema.n_children)])
    name = "" if schema.name == NULL else (<bytes>schema.name).decode("utf-8", "replace")
    dictionary = None if schema.dictionary == NULL else field_of(schema.dictionary)
    return Field(name, (<bytes>schema.format).decode("utf-8", "replace"), children, schema.flags & 2 != 0, dictionary)


cdef Column* column_of(object shape) except NULL:
    cdef Column* column = column_new(shape.kind, shape.width, shape.signed, shape.times, shape.per)
    cdef int i
    if column == NULL:
        raise MemoryError
    try:
        for i, child in enumerate(shape.children):
            column.child[i] = column_of(child)
    except BaseException:
        column_free(column)
        raise
    return column


@cython.final
cdef class ArrowRows:
    """Rows of Arrow data for `Accumulator.send_rows`. `_plain_rows.ArrowRows` describes the arguments and methods."""

    cdef ArrowArrayStream stream
    cdef ArrowArray batch
    cdef Column* columns[5]
    cdef int places[5]
    cdef Scratch headers
    cdef readonly str topic
    cdef readonly int64_t position  # rows taken so far
    cdef int64_t row, length       # in the batch
    cdef bint whole                # the data have no columns: they are the values
    cdef bint texts[2]             # whether key and value are str
    cdef bint busy
    cdef const char* valid         # validity bits of the rows themselves

    def __cinit__(self, topic, data, **names):
        cdef ArrowSchema schema
        cdef int i
        self.topic = exact_name(topic)
        memset(&schema, 0, sizeof(schema))
        try:
            self.open(data, &schema)
            root = field_of(&schema)
            self.whole = root.format != "+s"
            for i, found in enumerate(shapes_of(self.topic, root, named_columns(names))):
                if found is not None:
                    self.places[i] = found[0]
                    self.columns[i] = column_of(found[1])
                    if i <= A_VALUE:
                        self.texts[i] = found[1].text
        finally:
            if schema.release != NULL:
                schema.release(&schema)
        if self.batch.release != NULL:
            self.bind()

    def __dealloc__(self):
        cdef int i
        self.close()
        for i in range(5):
            column_free(self.columns[i])
        free(self.headers.at)

    cdef int open(self, data, ArrowSchema* schema) except -1:
        cdef int failed
        export = getattr(data, "__arrow_c_stream__", None)
        if export is not None:
            capsule = export()
            if not move_stream(<ArrowArrayStream*>PyCapsule_GetPointer(capsule, b"arrow_array_stream"), &self.stream):
                raise read_already(self.topic)
            with nogil:
                failed = self.stream.get_schema(&self.stream, schema)
            if failed:
                memset(schema, 0, sizeof(ArrowSchema))
                raise self.failure(failed)
            return 0
        export = getattr(data, "__arrow_c_array__", None)
        if export is None:
            raise no_arrow(self.topic, data)
        described, capsule = export()
        if not (
            move_schema(<ArrowSchema*>PyCapsule_GetPointer(described, b"arrow_schema"), schema)
            and move_array(<ArrowArray*>PyCapsule_GetPointer(capsule, b"arrow_array"), &self.batch)
        ):
            raise read_already(self.topic)
        return 0

    cdef object failure(self, int number):
        cdef const char* text = self.stream.get_last_error(&self.stream)
        return stream_failed(self.topic, number, "" if text == NULL else (<bytes>text).decode("utf-8", "replace"))

    cdef void close(self) noexcept:
        self.drop_batch()
        if self.stream.release != NULL:
            self.stream.release(&self.stream)

    cdef void drop_batch(self) noexcept:
        self.row = self.length = 0
        if self.batch.release != NULL:
            self.batch.release(&self.batch)
        memset(&self.batch, 0, sizeof(self.batch))

    cdef int bind(self) except -1:
        cdef int i
        cdef const ArrowArray* a = &self.batch
        cdef const char* wrong = NULL
        if a.length < 0 or a.offset < 0:
            raise wrong_row(self.topic, "", self.position, "its batch has a negative length or offset")
        self.valid = NULL
        if not self.whole and a.null_count != 0 and a.n_buffers > 0:
            self.valid = <const char*>a.buffers[0]
        for i in range(5):
            if self.columns[i] == NULL or a.length == 0:
                continue
            if self.whole:
                wrong = column_bind(self.columns[i], a, 0, a.length)
            elif self.places[i] >= a.n_children:
                wrong = "its batch has fewer columns than the schema"
            else:
                wrong = column_bind(self.columns[i], a.children[self.places[i]], a.offset, a.length)
            if wrong != NULL:
                raise wrong_row(self.topic, ARGUMENTS[i], self.position, (<bytes>wrong).decode())
        self.row = 0
        self.length = a.length
        return 0

    cdef bint next_batch(self) except -1:
        cdef int failed
        while True:
            self.drop_batch()
            if self.stream.release == NULL:
                return False
            PyErr_CheckSignals()
            with nogil:            # the exporter may need the GIL, on another thread, to make the batch
                failed = self.stream.get_next(&self.stream, &self.batch)
            if failed:
                memset(&self.batch, 0, sizeof(self.batch))
                raise self.failure(failed)
            if self.batch.release == NULL:
                self.close()
                return False
            self.bind()
            if self.length:
                return True

    @property
    def left(self) -> int:
        return self.length - self.row

    def has_row(self) -> bool:
        return self.row < self.length or self.next_batch()

    def arguments(self) -> tuple:
        cdef Item r
        cdef const char* at
        cdef const char* end
        cdef int64_t count = 0
        self.fill(&r, 0xffffffff)
        headers = None
        if r.headers != ZERO_HEADERS:
            end = r.headers + r.headers_size
            at = get_varint(r.headers, end, &count)
            if count:
                headers = headers_build(at, end, count)
        return (
            self.cell(A_VALUE, r.value, r.value_size),
            self.cell(A_KEY, r.key, r.key_size),
            headers,
            None if r.partition == UNDECIDED else r.partition,
            None if r.timestamp < 0 else r.timestamp,
        )

    cdef object cell(self, int argument, const char* data, int64_t size):
        if size < 0:
            return None
        found = PyBytes_FromStringAndSize(data, size)
        if not self.texts[argument]:
            return found
        try:
            return found.decode()
        except UnicodeDecodeError:
            raise self.refuse(argument, NO_UTF8) from None

    cdef object refuse(self, int argument, str reason):
        return wrong_row(self.topic, ARGUMENTS[argument] if argument >= 0 else "", self.position, reason)

    cdef const char* read(self, Item* r, int* argument) noexcept:
        """Fill `r` from the row, with -1 for a missing timestamp or partition; return NULL, or why `argument` (-1: the row) is invalid."""
        cdef const char* wrong = NULL
        cdef int none
        argument[0] = -1
        if self.valid != NULL and not bit_at(self.valid, self.batch.offset + self.row):
            return "the row itself is null"
        r.key, r.key_size, r.value, r.value_size = NULL, -1, NULL, -1
        r.headers, r.headers_size = ZERO_HEADERS, 1
        r.partition, r.timestamp = UNDECIDED, -1
        argument[0] = A_VALUE
        if self.columns[<int>A_VALUE] != NULL:
            wrong = bytes_at(self.columns[<int>A_VALUE], self.row, &r.value, &r.value_size)
        if wrong == NULL and self.columns[<int>A_KEY] != NULL:
            argument[0] = A_KEY
            wrong = bytes_at(self.columns[<int>A_KEY], self.row, &r.key, &r.key_size)
        if wrong == NULL and self.columns[<int>A_HEADERS] != NULL:
            argument[0] = A_HEADERS
            wrong = headers_at(self.columns[<int>A_HEADERS], self.row, &self.headers)
            r.headers, r.headers_size = self.headers.at, self.headers.used
        if wrong == NULL and self.columns[<int>A_TIMESTAMP] != NULL:
            argument[0] = A_TIMESTAMP
            wrong = integer_of(self.columns[<int>A_TIMESTAMP], self.row, &r.timestamp, &none)
            if wrong == NULL and not none and r.timestamp < 0:
                wrong = "it is before 1970"
        if wrong == NULL and self.columns[<int>A_PARTITION] != NULL:
            argument[0] = A_PARTITION
            wrong = integer_of(self.columns[<int>A_PARTITION], self.row, &r.partition, &none)
            if wrong == NULL and not none and r.partition < 0:
                wrong = NEGATIVE
        return wrong

    cdef int fill(self, Item* r, int64_t most_partition) except -1:
        """Call `read`; raise ValueError for an invalid row, or for a partition above `most_partition`."""
        cdef int argument
        cdef const char* wrong = self.read(r, &argument)
        if argument == A_PARTITION and (wrong == NEGATIVE or r.partition > most_partition):
            raise self.refuse(argument, f"{r.partition} must be from 0 to {most_partition}")
        if wrong != NULL:
            raise self.refuse(argument, (<bytes>wrong).decode())
        return 0


# ---------------------------------------------------------------- the handle of many rows

cdef struct Run:                   # consecutive rows whose records are consecutive in their batch
    int64_t row
    int32_t index, count


@cython.final
@cython.no_gc                      # a cycle through a callback of its batch ends with the outcome of that batch
cdef class BatchRows:
    """The numbers of the rows that are records of `batch`."""

    cdef Batch batch
    cdef Run* runs
    cdef int64_t used, cap, rows

    def __dealloc__(self):
        free(self.runs)

    cdef inline bint has_room(self) noexcept:
        cdef int64_t cap
        cdef Run* larger
        if self.used < self.cap:
            return True
        cap = max(16, self.cap * 2)
        larger = <Run*>realloc(self.runs, cap * sizeof(Run))
        if larger == NULL:
            return False
        self.runs, self.cap = larger, cap
        return True

    cdef inline void add(self, int32_t index, int64_t row) noexcept:
        """Add the record at `index`, made from `row`. The caller has made room for a run."""
        cdef Run* next = self.runs + self.used
        self.rows += 1
        if self.used and (next - 1).index + (next - 1).count == index and (next - 1).row + (next - 1).count == row:
            (next - 1).count += 1
            return
        next.row, next.index, next.count = row, index, 1
        self.used += 1


cdef int outcome_of(Batch b):
    """S_OPEN while some records of `b`, after splits, have no outcome; S_FAILED if some have failed; otherwise S_ACKED."""
    cdef int found, worst = S_ACKED
    if b.state != S_SPLIT:
        return b.state if b.state >= S_ACKED else S_OPEN
    for run in b.parts:
        found = outcome_of(<Batch>(<tuple>run)[2])
        if found == S_OPEN:
            return S_OPEN
        if found == S_FAILED:
            worst = S_FAILED
    return worst


@cython.final
cdef class SentRows:
    """The handle that `send_arrow` returns: a promise of the outcomes of all accepted rows. `len()` is their number.

    Rows are numbered from 0, in the order of the data.
    """

    cdef list pending              # entries open at the last check or added since: BatchRows, or (row, Delivery) if parked or from `took`
    cdef list failing              # entries with failures
    cdef list current              # by slot: the slot's latest BatchRows
    cdef BatchRows last
    cdef Delivery newest           # the last Delivery passed to `took`: a second call with it does nothing
    cdef Hooks hooks
    cdef readonly str topic
    cdef int64_t gone              # acknowledged rows of entries that have left `pending`
    cdef int64_t early             # acknowledged rows of split batches in `pending`
    cdef int64_t rows
    cdef Py_ssize_t enough         # number of entries of `pending` beyond which entries with outcomes are removed

    def __cinit__(self):
        self.pending = []
        self.failing = []
        self.current = []
        self.enough = 64

    cdef int note(self, Delivery d, int64_t row) except -1:
        """Add `row`, whose handle is `d`. Unless the record was parked, the caller may use `d` again for another record."""
        cdef BatchRows home = self.last
        cdef int32_t slot
        self.rows += 1
        if home is None or home.batch is not d.batch:
            if d.batch.partition == PARKING:
                self.pending.append((row, d))
                return 0
            slot = max(d.batch.slot, 0)
            while slot >= PyList_GET_SIZE(self.current):
                self.current.append(None)
            home = self.current[slot]
            if home is None or home.batch is not d.batch:
                home = BatchRows.__new__(BatchRows)
                home.batch = d.batch
                self.current[slot] = home
                self.pending.append(home)
                if PyList_GET_SIZE(self.pending) > self.enough:
                    self.remove_acknowledged()
                    self.enough = max(64, 2 * PyList_GET_SIZE(self.pending))
            self.last = home
        if not home.has_room():
            raise MemoryError
        home.add(d.index, row)
        return 0

    cdef inline PyObject* known(self, PyObject* b) noexcept:
        """The BatchRows of `b` in `current`, borrowed; NULL if there is none. No Python code runs."""
        cdef int32_t slot = (<Batch>b).slot
        cdef PyObject* home
        if slot < 0 or slot >= PyList_GET_SIZE(self.current):
            return NULL
        home = PyList_GET_ITEM(self.current, slot)
        return home if home != <PyObject*>None and <PyObject*>(<BatchRows>home).batch == b else NULL

    def took(self, ArrowRows rows not None, Delivery d not None):
        if d is self.newest:
            return
        self.pending.append((rows.position, d))
        self.newest = d
        rows.row += 1
        rows.position += 1
        self.rows += 1
        if PyList_GET_SIZE(self.pending) > self.enough:
            self.remove_acknowledged()
            self.enough = max(64, 2 * PyList_GET_SIZE(self.pending))

    cdef int remove_acknowledged(self) except -1:
        """Move failed entries to `failing`, and remove acknowledged ones. Of several threads here, one succeeds and the others repeat."""
        cdef list seen, pending, failing
        cdef int64_t acked, early
        cdef int outcome
        while True:
            seen, pending, failing, acked, early = self.pending, [], [], 0, 0
            for entry in seen:
                outcome = outcome_of(batch_of(entry))
                if outcome == S_OPEN:
                    pending.append(entry)
                    early += rows_between(entry, S_ACKED, S_ACKED)
                    continue
                acked += rows_of(entry)
                if outcome == S_FAILED:
                    acked -= visit_failed(entry, count_failed, NULL)
                    failing.append(entry)
            failing = self.failing + failing
            if self.pending is seen:  # from here on no Python code runs
                self.pending, self.failing = pending, failing
                self.gone += acked
                self.early = early
                return 0

    @property
    def acked(self) -> int:
        """The number of rows that were acknowledged at the last check; `done` checks."""
        return self.gone + self.early

    def __len__(self):
        return self.rows

    def done(self) -> bool:
        """Whether every row has an outcome."""
        self.remove_acknowledged()
        return not self.pending

    def open_delivery(self):
        """A Delivery without an outcome: `done` is False at least until it has one. None if `done` would return True."""
        cdef Batch b
        cdef Delivery d
        for entry in reversed(self.pending):
            b = open_part(batch_of(entry))
            if b is not None and b.partition == PARKING:
                return entry[1]
            if b is not None:
                d = Delivery.__new__(Delivery)
                d.batch = b
                return d
        return None

    cdef int await_outcomes(self, timeout) except -1:
        if not self.done() and not self.hooks.wait(self.done, timeout):
            raise rows_unfinished(self.topic, sum([rows_between(entry, 0, S_ACKED - 1) for entry in self.pending]), self.rows, timeout or 0)
        return 0

    def failures(self, timeout=None) -> dict:
        """The DeliveryFailed of each failed row, by the row's number; waits as `result` does."""
        cdef dict out = {}
        self.await_outcomes(timeout)
        for entry in self.failing:
            visit_failed(entry, keep_failure, <void*>out)
        return dict(sorted(out.items()))

    def exception(self, timeout=None):
        """The DeliveryFailed of the first failed row, None if no row has failed; waits as `result` does.

        A note on that exception has the number of the row, and the number of failed rows. All these failures count as seen,
        except the failures of dropped rows.
        """
        cdef First first
        cdef int64_t failed = 0
        self.await_outcomes(timeout)
        first.row = -1
        for entry in self.failing:
            failed += visit_failed(entry, find_first, &first)
        if not failed:
            return None
        error = delivery_of(<Batch>first.batch, first.index).failure()
        rows_failed(error, first.row, failed, self.rows)
        return error

    def result(self, timeout=None) -> int:
        """Wait until every row has its outcome; return the number of rows.

        `timeout` is in seconds, None for no limit. Raises KafkaTimeoutError when that time has passed, the DeliveryFailed of the first
        failed row, or ForkedClientError in a forked child if a row had no outcome before the fork.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self.rows

    def add_done_callback(self, fn) -> None:
        """Call `fn(rows)` once, on the callback executor, when every row has its outcome (at once if every row has one)."""
        check_callback(self.topic, "a callback", fn)
        callback = RowsCallback(self, fn, self.hooks.client_id)
        if not callback.follow():
            self.hooks.submit(callback.run)

    def __await__(self):
        return self.hooks.awaiting(self)

    def __repr__(self):
        return f"<SentRows of {self.rows} rows to {self.topic}>"


cdef struct First:                 # the failed row with the lowest number
    int64_t row
    int32_t index
    void* batch                    # borrowed


ctypedef int (*Visit)(Delivery, int64_t, void*) except -1


cdef Batch batch_of(object entry):
    return (<BatchRows>entry).batch if type(entry) is BatchRows else (<Delivery>(<tuple>entry)[1]).home()


cdef int64_t rows_of(object entry) except -1:
    return (<BatchRows>entry).rows if type(entry) is BatchRows else 1


cdef int64_t rows_between(object entry, int least, int most) except -1:
    """The number of rows whose batches, after splits, have a state from `least` to `most`."""
    cdef Batch b = batch_of(entry)
    cdef BatchRows home
    cdef int64_t i, found = 0
    cdef int32_t k
    if b.state != S_SPLIT:
        return rows_of(entry) if least <= b.state <= most else 0
    home = <BatchRows>entry  # a Delivery follows the splits
    for i in range(home.used):
        for k in range(home.runs[i].count):
            found += least <= delivery_of(home.batch, home.runs[i].index + k).home().state <= most
    return found


cdef Batch open_part(Batch b):
    """The first batch without an outcome that has records of `b`; None if there is none."""
    if b.state != S_SPLIT:
        return b if b.state < S_ACKED else None
    for run in b.parts:
        found = open_part(<Batch>(<tuple>run)[2])
        if found is not None:
            return found
    return None


cdef Delivery delivery_of(Batch b, int32_t index):
    cdef Delivery d = Delivery.__new__(Delivery)
    d.batch, d.index = b, index
    return d


cdef int64_t visit_failed(object entry, Visit visit, void* out) except -1:
    """Call `visit` for each failed row of `entry`; return their number."""
    cdef BatchRows home
    cdef Delivery d
    cdef int64_t i, failed = 0
    cdef int32_t k
    if type(entry) is not BatchRows:
        d = (<tuple>entry)[1]
        if d.home().state != S_FAILED:
            return 0
        visit(d, (<tuple>entry)[0], out)
        return 1
    home = <BatchRows>entry
    for i in range(home.used):
        for k in range(home.runs[i].count):
            d = delivery_of(home.batch, home.runs[i].index + k)
            if d.home().state == S_FAILED:
                visit(d, home.runs[i].row + k, out)
                failed += 1
    return failed


cdef int count_failed(Delivery d, int64_t row, void* out) except -1:
    return 0


cdef int keep_failure(Delivery d, int64_t row, void* out) except -1:
    (<dict>out)[row] = d.failure()
    return 0


cdef int find_first(Delivery d, int64_t row, void* out) except -1:
    """Find the failed row with the lowest number. Call `see` for each failure, because the note of `exception` counts them all."""
    cdef First* first = <First*>out
    d.see()
    if first.row < 0 or row < first.row:
        first.row, first.index, first.batch = row, d.index, <void*>d.batch
    return 0


cdef int64_t send_run(Accumulator acc, Topic t, ArrowRows rows, SentRows sent, int64_t now, int64_t most):
    """Write up to `most` rows into open batches, until a row that `send_rows` must handle; return their number. Runs no Python code."""
    cdef Item r
    cdef PyObject* b               # borrowed from Topic.open, so no references are counted for each row
    cdef PyObject* last = NULL
    cdef PyObject* home = NULL     # borrowed from SentRows.current
    cdef int64_t body, partition, n = 0
    cdef int argument
    if acc.refusal is not None or acc.unusual or not t.direct or t.dropped or t.limited or t.admit is not None:
        return 0
    most = min(most, rows.length - rows.row, <int64_t>RUN)
    while n < most:
        if rows.read(&r, &argument) != NULL:
            break
        partition = r.partition
        if partition < 0 and r.key_size >= 0:
            partition = (murmur2_hash(r.key, r.key_size) & 0x7fffffff) % t.count
        elif partition < 0:
            partition = t.sticky
        if partition >= t.count:
            break
        b = PyList_GET_ITEM(t.open, partition)
        if b == <PyObject*>None:
            break
        if r.timestamp < 0:
            r.timestamp = now
        body = body_size(&r, r.timestamp - (<Batch>b).base_timestamp if (<Batch>b).count else 0, (<Batch>b).count)
        if (<Batch>b).used + varint_size(body) + body > (<Batch>b).cap:
            break
        if b != last:
            home = sent.known(b)
            last = b
        if home == NULL or not (<BatchRows>home).has_room():
            break
        put(<Batch>b, &r, body)
        (<BatchRows>home).add((<Batch>b).count - 1, rows.position)
        acc.accepted += 1
        sent.rows += 1
        rows.row += 1
        rows.position += 1
        n += 1
    return n


cdef SentRows send_rows(Accumulator acc, ArrowRows rows, SentRows sent, int64_t most):
    cdef Item r
    cdef Topic t
    cdef Delivery d = Delivery.__new__(Delivery)
    cdef int64_t asked, now = 0, n = 0, run, signals_checked_row = 0, next_clock_row = 0
    cdef int64_t most_partition = 0xffffffff if acc.partition_argument else 0x7fffffff
    if sent is None:
        sent = SentRows.__new__(SentRows)
        sent.hooks, sent.topic = acc.hooks, rows.topic
    if rows.busy:
        raise RuntimeError(f"{rows.topic}: these rows are being sent already")
    if acc.refusal is not None:
        acc.refuse()
    t = acc.find(rows.topic)
    r.deadline = INFINITY
    rows.busy = True
    try:
        while n < most and (rows.row < rows.length or rows.next_batch()):
            if wanted: give_way()
            if n - signals_checked_row >= PAUSE:
                signals_checked_row = n
                PyErr_CheckSignals()
                with nogil:
                    pass
            rows.fill(&r, most_partition)
            asked = r.partition
            if n >= next_clock_row or r.deadline < INFINITY:
                now = wall_ms() if acc.wall is None else acc.wall()
                next_clock_row = n + SAME_TIME
            n += 1
            if r.timestamp < 0:
                r.timestamp = now
            r.free = r.turning = r.forced = r.asked = r.news = r.overflows = False
            r.deadline = INFINITY
            d.timestamp = r.timestamp
            d.key_size = <int32_t>r.key_size
            d.value_size = <int32_t>r.value_size
            if t.admit is not None:
                admitted(acc, t, &r, None, d)
                if t.dropped:
                    t = acc.find(t.name)
            elif not ((not t.direct and park(acc, t, &r, None, d)) or acc.append_or_raise(t, &r, None, d)):
                acc.append_anew(t.name, &r, asked, None, d)
                t = acc.find(t.name)
            d = taken_row(rows, sent, d)
            run = send_run(acc, t, rows, sent, now, most - n)
            if run:
                n += run
                next_clock_row = n
    except BaseException as error:
        if d.batch is not None:    # the row was accepted, and then a signal handler raised
            taken_row(rows, sent, d)
        rows_ended(error, rows.topic, rows.position, sent)
        raise
    finally:
        rows.busy = False
    return sent


cdef Delivery taken_row(ArrowRows rows, SentRows sent, Delivery d):
    """Count the row of `d` as accepted; return a handle for the next row."""
    cdef int64_t row = rows.position
    cdef bint kept = d.batch.partition == PARKING
    rows.row += 1
    rows.position += 1
    sent.note(d, row)
    if kept:                       # the parked record refers to `d`
        return Delivery.__new__(Delivery)
    d.batch = None
    return d
