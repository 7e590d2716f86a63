# Holds the records of one batch and their outcome. Invariant: a batch has at most one outcome, and its bytes live as long as a socket may
# still read them (`_block.pxi`).


cdef struct Meta:                  # the values for the handle of a record with a callback; the handle is made when the callback runs
    int64_t timestamp
    int32_t key_size, value_size


cdef str state_name(int state):
    return ("OPEN", "SEALED", "ACKED", "FAILED", "SPLIT")[state]


# The states that may follow each state, as bits: none follows ACKED, FAILED or SPLIT.
cdef int[5] FOLLOWS = [1 << S_SEALED | 1 << S_FAILED, 1 << S_ACKED | 1 << S_FAILED | 1 << S_SPLIT, 0, 0, 0]


@cython.final
cdef class Hooks:
    """The producer's functions and client_id, for batches and handles. A batch keeps them when it no longer refers to the accumulator."""

    cdef object wait, submit, awaiting, failure_seen, client_id


@cython.final
@cython.freelist(64)
cdef class Batch:
    """A record batch (format v2). `_plain_batch.Batch` describes the methods.

    The garbage collector tracks batches, unlike handles and records: a batch refers to its accumulator, so it can be in a cycle.
    """

    cdef Block* block
    cdef char* buf                 # 61 bytes of header, then the records
    cdef void* older               # neighbours among the open batches whose linger runs; borrowed
    cdef void* newer
    cdef Accumulator acc           # None once the batch is settled and its blocks are free
    cdef Topic home
    cdef Hooks hooks
    cdef readonly str topic
    cdef readonly int32_t partition, count
    cdef int32_t used, cap, raw    # bytes in use, bytes of `block`, bytes before compression
    cdef int32_t blocks            # number of its blocks that are not freed, exported ones included
    cdef int64_t booked            # bytes of these blocks, and `noted`
    cdef int64_t noted             # bytes reserved for callbacks
    cdef int32_t slot              # the index under which its home counts these bytes: its partition, if it has one
    cdef int64_t failed_before     # records of the producer that had failed before this batch
    cdef int64_t owed              # bytes freed while callbacks still have to run
    cdef int64_t base_timestamp, min_timestamp, max_timestamp  # the first record's, the lowest, the highest
    cdef readonly int state
    cdef readonly double created
    cdef readonly double linger    # seconds; the linger of its topic
    cdef int64_t payload           # bytes of keys and values, counted if the topic limits its batches
    cdef bint _ready, _settled, linked, compressing, stamped
    cdef bint dropped              # its records were dropped by a policy, and are not kept
    cdef readonly int codec        # the codec of its bytes: 0 until it is compressed
    cdef int own_codec             # the codec of a raw batch and of its parts; -1: the topic's codec
    cdef list callbacks            # None, or one entry per record up to the last record with a callback
    cdef list extras               # None, or (handle, function) pairs: the callbacks whose handles exist already
    cdef Meta* meta
    cdef int32_t metas             # number of records for whose callbacks memory is reserved
    cdef int64_t base_offset, append_time
    cdef object code, outcome_written, cause, kept
    cdef set seen_failures         # failed records whose failure the application has seen
    cdef list parts                # after a split: runs of records, (first index here, first index in the part, part)
    cdef public int64_t producer_id
    cdef public int producer_epoch, base_sequence, attempts
    cdef public bint written, in_flight
    cdef public int failed_attempts  # error responses to requests with this batch, except errors that an earlier batch caused
    cdef public double sent_at    # the time of `send` for its first record: before `created` if the record was parked
    cdef public object last_error

    def __cinit__(self):
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = -1
        self.own_codec = -1

    def __dealloc__(self):
        if self.block != NULL:
            release(self.block)
        free(self.meta)

    def __repr__(self):
        return f"<Batch {self.topic}-{self.partition} {state_name(self.state)} {self.count} records, {self.used} bytes>"

    def __len__(self):
        return self.used

    @property
    def size(self) -> int:
        return self.used

    @property
    def raw_size(self) -> int:
        return self.raw

    @property
    def wanted_codec(self) -> int:
        return self.home.codec if self.own_codec < 0 else self.own_codec

    @property
    def times(self) -> tuple:
        return self.min_timestamp, self.max_timestamp

    @property
    def ready(self) -> bool:
        """Whether the bytes after the header are final: the batch is sealed and waits for no compression."""
        return self._ready

    @property
    def done(self) -> bool:
        cdef Batch b
        cdef list left             # no recursion: splits can nest as deep as the batch has records
        if self.state != S_SPLIT:
            return self.state >= S_ACKED
        left = [self]
        while left:
            b = left.pop()
            if b.state == S_SPLIT:
                left.extend([run[2] for run in b.parts if run[1] == 0])
            elif b.state < S_ACKED:
                return False
        return True

    @property
    def maybe_repeated(self) -> bool:
        return self.written and self.producer_id < 0

    @property
    def settled(self) -> bool:
        cdef Batch b
        cdef list left
        if self.state != S_SPLIT:
            return self._settled
        left = [self]
        while left:
            b = left.pop()
            if b.state == S_SPLIT:
                left.extend([run[2] for run in b.parts if run[1] == 0])
            elif not b._settled:
                return False
        return True

    # ------------------------------------------------------------ memory

    cdef void adopt(self, Block* block) noexcept:
        self.block = block
        self.buf = bytes_of(block)
        self.cap = block.cap
        self.blocks += 1
        self.booked += block.cap
        self.acc.reserve(self.home, self.slot, block.cap)

    cdef void book(self, int32_t metas) noexcept:
        """Reserve memory for the callbacks of `metas` records, until they have returned."""
        cdef int64_t size = <int64_t>(metas - self.metas) * CALLBACK_COST
        self.metas = metas
        self.noted += size
        self.booked += size
        self.acc.reserve(self.home, self.slot, size)

    cdef void swap(self, Block* block) noexcept:
        """Move to `block`, which already has the bytes."""
        cdef Block* old = self.block
        self.adopt(block)
        self.drop(old)

    cdef void drop(self, Block* block) noexcept:
        """Release one reference to `block`; the last release frees `block` or returns it to the pool."""
        cdef int32_t cap = block.cap
        block.refs -= 1
        if block.refs > 0:
            return
        self.blocks -= 1
        self.booked -= cap
        if self.acc is None:
            free(block)
            return
        self.acc.recycle(block)
        if self.state >= S_ACKED and not self._settled:
            self.owed += cap
            self.acc.owed += cap
        else:
            self.acc.unreserve(self.home, self.slot, cap)
            self.forget()

    cdef void let_go(self) noexcept:
        cdef Block* block = self.block
        if block != NULL:
            self.block = NULL
            self.buf = NULL
            self.drop(block)

    cdef void forget(self) noexcept:
        if self._settled and self.blocks == 0:
            self.acc = None
            self.home = None

    cdef void settle(self) noexcept:
        """Leave the account: no callback of this batch is left to run."""
        cdef Accumulator acc = self.acc
        cdef int64_t owed = self.owed
        if self._settled or acc is None:
            return
        self._settled = True
        acc.live.discard(self)
        acc.batches -= 1
        if owed:
            self.owed = 0
            acc.owed -= owed
            acc.unreserve(self.home, self.slot, owed)
        if self.noted:
            acc.unreserve(self.home, self.slot, self.noted)
            self.booked -= self.noted
            self.noted = 0
        self.forget()

    def __getbuffer__(self, Py_buffer* view, int flags):
        if self.block == NULL or not self.stamped:
            raise BufferError(f"{self!r} has no bytes to send; it has them from finish() to its outcome")
        PyBuffer_FillInfo(view, self, self.buf, self.used, 1, flags)
        view.internal = self.block
        self.block.refs += 1

    def __releasebuffer__(self, Py_buffer* view):
        cdef Accumulator acc = self.acc
        self.drop(<Block*>view.internal)
        if acc is not None:
            acc.nudge()

    def handle(self) -> Delivery:
        cdef Delivery d = Delivery.__new__(Delivery)
        d.batch = self
        d.timestamp = self.base_timestamp
        d.key_size = d.value_size = -1
        return d

    @property
    def outcome(self) -> tuple:
        if self.state == S_FAILED:
            return -1, -1, self.code, self.outcome_written, self.cause
        return self.base_offset, self.append_time, None, None, None

    # ------------------------------------------------------------ to the broker

    def compress(self) -> None:
        cdef Accumulator acc = self.acc
        if self.state == S_OPEN:
            raise RuntimeError(f"{self!r} must be sealed before it is compressed")
        if self._ready or self.compressing or self.block == NULL:
            return
        self.compressing = True
        interruption = None
        try:
            self.squeeze(acc)
        except BaseException as error:  # the batch is sent uncompressed: whatever happened, its partition continues
            if is_interruption(error):
                interruption = error
            else:
                _log.exception(
                    "%s: %s-%s: compressing a batch failed; it is sent uncompressed", self.hooks.client_id, self.topic, self.partition
                )
        finally:                   # runs even without memory for the log line, or on a second Ctrl-C: an unready batch blocks its queue
            self.compressing = False
            self._ready = True
            if acc.can_send or acc.wake_owed:
                acc.wake()
        if interruption is not None:
            raise interruption

    cdef int squeeze(self, Accumulator acc) except -1:
        cdef Block* fresh_block
        cdef int codec = self.wanted_codec
        cdef double most = self.home.compression_ratio * (self.raw - HEADER)
        cdef object level = self.home.level if codec == self.home.codec else None
        cdef RecordsBuffer buffer = RecordsBuffer.__new__(RecordsBuffer)
        buffer.batch = self
        buffer.block = self.block
        buffer.size = self.raw - HEADER
        self.block.refs += 1
        view = memoryview(buffer)
        try:
            data = acc.compressor(codec, view) if level is None else acc.compressor(codec, view, level)
        except BaseException:
            with suppress(BufferError):  # another view of this view exists
                view.release()     # otherwise the traceback would keep the memory
            raise
        buffer = view = None
        if self.state == S_SEALED and len(data) < self.raw - HEADER and len(data) <= most:
            fresh_block = acc.obtain(HEADER + <int32_t>len(data))
            memcpy(bytes_of(fresh_block) + HEADER, PyBytes_AS_STRING(data), len(data))
            self.used = fresh_block.cap
            self.codec = codec
            self.swap(fresh_block)
        return 0

    def finish(self, int64_t producer_id, int producer_epoch, int base_sequence) -> None:
        """Write header and checksum. A second call may change the values while a socket still reads the old ones."""
        cdef Block* block
        if self.state != S_SEALED or not self._ready:
            raise RuntimeError(f"{self!r} is not ready to be sent")
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        if self.stamped and producer_id == get64(self.buf + 43) and producer_epoch == get16(self.buf + 51) and base_sequence == get32(self.buf + 53):
            return
        if self.block.refs > 1:    # a socket may still read the old bytes: it keeps them, and the batch continues with a copy
            block = self.acc.obtain(self.cap)
            memcpy(bytes_of(block), self.buf, self.used)
            self.swap(block)
            self.acc.nudge()
        self.stamp()

    cdef void stamp(self) noexcept:
        cdef char* p = self.buf
        cdef uint32_t crc
        cdef size_t size = self.used - 21
        put64(p, 0)
        put32(p + 8, self.used - 12)
        put32(p + 12, -1)
        p[16] = 2
        put16(p + 21, self.codec | TRANSACTIONAL_BIT if self.acc.transactional else self.codec)
        put32(p + 23, self.count - 1)
        put64(p + 27, self.base_timestamp)
        put64(p + 35, self.max_timestamp)
        put64(p + 43, self.producer_id)
        put16(p + 51, self.producer_epoch)
        put32(p + 53, self.base_sequence)
        put32(p + 57, self.count)
        if size > LONG_CRC:
            with nogil:            # only the loop finishes batches and gives them their outcome, so the bytes stay as they are
                crc = crc32c_extend(0, p + 21, size)
                ask()
            got()
        else:
            crc = crc32c_extend(0, p + 21, size)
        put32(p + 17, <int32_t>crc)
        self.stamped = True

    # ------------------------------------------------------------ the outcome

    cdef int move(self, int state) except -1:
        if not FOLLOWS[self.state] & 1 << state:
            raise RuntimeError(f"{self!r} cannot become {state_name(state)}")
        if self.state == S_OPEN:
            self.acc.detach(self)
        self.state = state
        return 0

    cdef object conclude(self, Settlement settlement):
        """Release the bytes after the outcome; return a callable that runs the callbacks, if there are any.

        The caller makes `settlement` before any record has the outcome, because that allocation can fail.
        """
        cdef Accumulator acc = self.acc
        if self.extras:
            try:
                self.extras = wake_tasks(self.extras, self.hooks.client_id)
            except Exception:      # then the executor calls the wakers, like other callbacks
                pass
        if self.callbacks or self.extras:
            settlement.take(self)
            self.let_go()
        else:
            settlement = None
            self.let_go()
            self.settle()
        acc.nudge()
        return settlement

    def complete(self, int64_t base_offset, int64_t log_append_time_ms):
        cdef Settlement settlement = Settlement.__new__(Settlement)
        self.move(S_ACKED)
        self.base_offset = base_offset
        self.append_time = -1 if self.attempts > 1 and log_append_time_ms == self.max_timestamp else log_append_time_ms
        self.acc.acked += self.count
        return self.conclude(settlement)

    def fail(self, str code, written, cause=None):
        cdef Settlement settlement = Settlement.__new__(Settlement)
        cause = fresh(cause)       # without a traceback: its frames refer to handles, which the garbage collector cannot see
        kept = self.snapshot() if FOLLOWS[self.state] & 1 << S_FAILED else None
        self.move(S_FAILED)
        self.kept = kept
        self.code = code
        self.outcome_written = written
        self.cause = cause
        self.failed_before = self.acc.failed
        self.acc.failed += self.count
        return self.conclude(settlement)

    cdef object snapshot(self):
        if self.buf == NULL:
            return None
        return PyBytes_FromStringAndSize(self.buf + HEADER, self.used - HEADER)

    cdef bytes plain(self):
        """The uncompressed bytes of the records."""
        data = self.kept if self.state == S_FAILED else self.snapshot()
        if data is None:
            raise RuntimeError(f"{self!r} no longer has records")
        if self.codec:
            from pykafka4.wire.records.compression import decompress

            data = decompress(self.codec, data, self.raw if self.own_codec < 0 else MOST_DECOMPRESSED_BYTES)
        return data

    cdef object record_at(self, const char** p, const char* end):
        """The record at `p`, as a ProducerRecord; move `p` past it."""
        cdef Raw r
        cdef const char* wrong = read_record(p[0], end, &r)
        headers = NO_HEADERS
        if wrong == NULL and r.headers:
            headers = read_headers(r.rest, r.end, r.headers, &wrong)
        if wrong != NULL:
            raise DecodeError(f"{self!r}: {(<bytes>wrong).decode()}")
        p[0] = r.end
        written = self.outcome_written if self.state == S_FAILED else Written.MAYBE if self.written else Written.NO
        return ProducerRecord(
            self.topic,
            piece(r.value, r.value_size),
            piece(r.key, r.key_size),
            headers,
            self.partition if self.partition >= 0 else None,
            self.base_timestamp + r.timestamp,
            written,
        )

    def records(self) -> list:
        if type(self.kept) is list:
            return list(self.kept)
        cdef bytes data = self.plain()
        cdef const char* p = PyBytes_AS_STRING(data)
        cdef const char* end = p + PyBytes_GET_SIZE(data)
        cdef list out = []
        while len(out) < self.count:
            out.append(self.record_at(&p, end))
        return out

    def lost(self) -> list:
        cdef Batch b
        cdef list left = [self]
        cdef list out = []
        while left:
            b = left.pop()
            if b.state == S_SPLIT:
                left.extend([run[2] for run in reversed(b.parts) if run[1] == 0])
            elif b.state == S_FAILED:
                out.extend(raw_records(b) if b.own_codec >= 0 else b.records())
        return out

    def leaves(self) -> list:
        cdef Batch b
        cdef list left = [self]
        cdef list out = []
        while left:
            b = left.pop()
            if b.state == S_SPLIT:
                left.extend([run[2] for run in reversed(b.parts) if run[1] == 0])
            else:
                out.append(b)
        return out

    cdef object record(self, int index):
        if type(self.kept) is not list:  # decode all at once: one by one would take quadratic time
            self.kept = raw_records(self) if self.own_codec >= 0 else self.records()
        return self.kept[index] if index < len(self.kept) else None

    def split(self) -> list:
        cdef int32_t half = (self.count + 1) // 2
        cdef Batch first, second
        if self.count < 2:
            raise ValueError(f"{self!r} has one record and cannot be split")
        parts = self.divide([[(0, half)], [(half, self.count - half)]])
        first, second = parts
        if self.base_sequence >= 0:
            first.base_sequence = self.base_sequence
            second.base_sequence = <int>((<uint32_t>self.base_sequence + <uint32_t>half) & 0x7fffffff)
        return parts

    def set_apart(self, indexes) -> tuple:
        cdef list apart = sorted(indexes)
        cdef list rest = []
        cdef list groups
        cdef list parts
        cdef int32_t at = 0
        if not apart or apart[0] < 0 or apart[len(apart) - 1] >= self.count or len(set(apart)) < len(apart):
            raise ValueError(f"{self!r}: {apart!r} are not distinct indexes of its records")
        for index in apart:
            if index > at:
                rest.append((at, index - at))
            at = index + 1
        if at < self.count:
            rest.append((at, self.count - at))
        groups = [[(index, 1)] for index in apart]
        if not rest:
            return None, self.divide(groups)
        parts = self.divide([rest, *groups])
        return parts[0], parts[1:]

    cdef list divide(self, list groups):
        if self.state != S_SEALED:
            raise RuntimeError(f"{self!r} cannot become SPLIT")
        cdef bytes data = self.plain()
        cdef const char** at = <const char**>malloc((self.count + 1) * sizeof(char*))
        cdef Accumulator acc = self.acc
        cdef list batches = []
        cdef list parts = []
        cdef Batch part = None
        cdef int32_t there
        if at == NULL:
            raise MemoryError
        try:
            self.find_records(data, at)
            for runs in groups:
                part = None
                part = self.part(runs, at)
                batches.append(part)
                there = 0
                for start, count in runs:
                    parts.append((start, there, part))
                    there += count
            parts.sort(key=itemgetter(0))
        except BaseException:      # no memory, or damaged records of a raw batch: the batch is unchanged
            if part is not None:
                part.unbook()
            for made in batches:
                (<Batch>made).unbook()
            raise
        finally:
            free(at)
        # From here to `let_go` nothing that the garbage collector tracks is allocated. Otherwise the collector could run a destructor,
        # which may use a handle of this batch while only some of the batch's callbacks have moved.
        self.parts = parts
        self.move(S_SPLIT)
        for pair in self.extras or ():
            (<Delivery>(<tuple>pair)[0]).home().extras.append(pair)
        self.extras = None
        self.callbacks = None
        self.let_go()
        self.settle()
        acc.nudge()
        return batches

    cdef int find_records(self, bytes data, const char** at) except -1:
        cdef Raw r
        cdef int32_t i
        cdef const char* end = PyBytes_AS_STRING(data) + PyBytes_GET_SIZE(data)
        at[0] = PyBytes_AS_STRING(data)
        for i in range(self.count):
            if read_record(at[i], end, &r) != NULL:
                raise DecodeError(f"{self!r} is damaged")
            at[i + 1] = r.end
        return 0

    cdef Batch part(self, list runs, const char** at):
        cdef Batch b = Batch.__new__(Batch)
        cdef Raw r
        cdef Item item
        cdef Block* block
        cdef int32_t start, count, i
        cdef int32_t total = 0
        cdef int64_t size = HEADER + 16
        cdef Accumulator acc = self.acc
        for start, count in runs:
            total += count
            size += at[start + count] - at[start]
        if self.callbacks:            # an empty list means that the record for which it was made is not in this batch
            b.meta = <Meta*>malloc(total * sizeof(Meta))
            if b.meta == NULL:
                raise MemoryError
            self.share(b, runs)
        b.extras = []              # even if this batch has no extras: a destructor may still add one, and `divide` then passes it on
        acc.introduce(b, self.home, self.slot, self.created, acc.obtain(<int32_t>size))
        if b.meta != NULL:
            b.book(total)
        try:
            for start, count in runs:
                for i in range(start, start + count):
                    read_record(at[i], at[i + 1], &r)
                    item.key, item.key_size, item.value, item.value_size = r.key, r.key_size, r.value, r.value_size
                    item.timestamp = self.base_timestamp + r.timestamp
                    put_raw(acc, b, &item, r.headers, r.rest, r.end)
            if b.used < b.cap:
                block = acc.obtain(b.used)
                memcpy(bytes_of(block), b.buf, b.used)
                b.swap(block)
        except MemoryError:
            b.unbook()
            raise
        b.state = S_SEALED
        b.raw = b.used
        b.own_codec = self.own_codec
        b._ready = self.home.stays_plain(b.raw) if self.own_codec < 0 else self.own_codec == 0
        b.attempts, b.last_error = self.attempts, self.last_error
        b.sent_at = self.sent_at
        return b

    cdef void unbook(self) noexcept:
        """Leave the account without an outcome: the records are in other batches, or there are none."""
        self.callbacks = None
        self.extras = None
        self.let_go()
        self.settle()

    cdef int share(self, Batch part, list runs) except -1:
        cdef list callbacks = []
        cdef list some
        cdef int32_t start, count
        cdef int32_t there = 0
        for start, count in runs:
            some = self.callbacks[start:start + count]
            if any([callback is not None for callback in some]):
                callbacks.extend([None] * (there - len(callbacks)))
                memcpy(part.meta + there, self.meta + start, len(some) * sizeof(Meta))
                callbacks.extend(some)
            there += count
        part.callbacks = callbacks or None
        return 0
