# Decodes fetched bytes into records. Invariant: every length is checked against the bytes left before it is used.
#
# Values are decoded at once: a lazy value would cost the same bytes object, plus a property call at each read. Headers are the exception:
# see `_record.h`.


cdef extern from "_raw.h":
    ctypedef struct Raw:
        int64_t timestamp, offset
        int64_t key_size, value_size, headers
        const char* key
        const char* value
        const char* rest
        const char* end


cdef const char* read_record(const char* p, const char* end, Raw* r) noexcept nogil:
    """Find the fields of the record at `p`; return NULL, or the reason why the record is invalid."""
    cdef int64_t size
    p = get_varint(p, end, &size)
    if p == NULL or size < 1 or size > end - p:
        return "a record's length exceeds its batch"
    r.end = end = p + size
    p = get_varlong(p + 1, end, &r.timestamp)
    if p != NULL:
        p = get_varint(p, end, &r.offset)
    if p != NULL:
        p = get_varint(p, end, &r.key_size)
    if p == NULL or r.key_size > end - p:
        return "a key's length exceeds its record"
    r.key = p
    if r.key_size > 0:
        p += r.key_size
    p = get_varint(p, end, &r.value_size)
    if p == NULL or r.value_size > end - p:
        return "a value's length exceeds its record"
    r.value = p
    if r.value_size > 0:
        p += r.value_size
    p = get_varint(p, end, &r.headers)
    if p == NULL or r.headers < 0 or r.headers > (end - p) // 2:
        return "more headers than fit into the record"
    r.rest = p
    if r.headers == 0 and p != end:
        return "a record is longer than its fields"
    return NULL


cdef object read_headers(const char* p, const char* end, int64_t count, const char** wrong):
    """`count` headers as a tuple; None, with `wrong` set, if they are invalid."""
    wrong[0] = headers_check(p, end, count)
    return None if wrong[0] != NULL else headers_build(p, end, count)


# Bytes that a record's objects take in addition to its data. With a limit on encoded bytes alone, a batch of tiny records, or a record of
# tiny headers, would take many times the limit as objects.
cdef enum:
    RECORD_WEIGHT = 200
    HEADER_WEIGHT = 160            # a tuple, a str and a bytes object
    MANY_HEADERS = 1000            # a record with at most this many headers is never refused for them


cdef str too_many_headers(int64_t count, int64_t limit):
    return f"a record's {count:,} headers would take more than max_decompressed_bytes={limit} as objects"


cdef int[3] LEAST_BATCH = [26, 34, HEADER]    # bytes, by format


cdef inline object piece(const char* data, int64_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(data, size)


cdef str CREATE_TIME = "CREATE_TIME"
cdef str LOG_APPEND_TIME = "LOG_APPEND_TIME"
cdef dict TIMESTAMP_TYPES = {0: CREATE_TIME, 1: LOG_APPEND_TIME, -1: "NO_TIMESTAMP_TYPE"}
cdef tuple NO_HEADERS = ()


cdef extern from *:
    """
    /* Make a record and append it to `out`. This is C code because Cython would count references to each temporary. */
    static inline int record_push(PyObject *out, PyObject *topic, PyObject *partition, long long offset, PyObject *timestamp,
                                  PyObject *kind, const char *key, long long key_size, const char *value, long long value_size,
                                  PyObject *no_headers, long long headers, const char *rest, const char *end, PyObject *epoch) {
        PyObject *o = PyLong_FromLongLong(offset), *k = Py_None, *v = Py_None, *h = no_headers, *r;
        if (!o) return -1;
        if (key_size < 0) Py_INCREF(k);
        else k = PyBytes_FromStringAndSize(key, (Py_ssize_t)key_size);
        if (value_size < 0) Py_INCREF(v);
        else v = PyBytes_FromStringAndSize(value, (Py_ssize_t)value_size);
        if (!headers) Py_INCREF(h);
        else h = headers_keep(headers, rest, (size_t)(end - rest));
        if (!k || !v || !h) {
            Py_DECREF(o), Py_XDECREF(k), Py_XDECREF(v), Py_XDECREF(h);
            return -1;
        }
        r = record_make(topic, partition, o, timestamp, kind, k, v, h, epoch);
        if (!r) return -1;
        int failed = PyList_Append(out, r);
        Py_DECREF(r);
        return failed;
    }
    """
    int record_push(PyObject*, PyObject*, PyObject*, long long, PyObject*, PyObject*, const char*, long long, const char*, long long,
                    PyObject*, long long, const char*, const char*, PyObject*) except -1


@cython.no_gc_clear                # tp_clear would drop the owner in `view` without releasing its buffer; PyBuffer_Release does both
@cython.final
cdef class Chunk:
    """One partition's bytes of one Fetch response, and the progress of their decoding. See `_plain_decode.Chunk`."""

    cdef Py_buffer view            # the buffer that contains `data`, mostly the complete response
    cdef const char* data          # the bytes of this partition
    cdef bint held
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly int64_t next_offset, position, size, incomplete, decoded
    cdef readonly int last_leader_epoch
    cdef readonly object serial
    cdef object decompress, py_partition, epoch, kind, unpacked, stamp
    cdef list to_abort             # (first offset, producer id) of aborted transactions that begin later, the first one last; or None
    cdef set aborting              # producer ids of the aborted transactions that have begun, but not ended
    cdef bint busy                 # in `decode`, `whole_batch` or `ColumnsBuilder.add`: Python code that these run may also use the chunk
    cdef int64_t legacy_size       # bytes of the message set entered
    cdef object legacy             # iterator over the records of the message set (formats v0, v1) that was entered, or None
    cdef int64_t max_decompressed, high_watermark
    cdef readonly int64_t until
    cdef bint reaches              # the bytes after `end` are left out, because of `until`
    cdef const char* p             # next batch
    cdef const char* entered       # the batch entered or passed over last
    cdef const char* end           # end of the complete batches
    cdef const char* broken        # NULL, or the reason why the bytes after `end` cannot be read
    cdef const char* at            # next record in the batch entered
    cdef const char* stop          # end of the batch entered
    cdef int64_t left              # number of records that the batch entered should still have; -1: in no batch
    cdef int64_t base, base_timestamp, last_delta, last_stamp, previous
    cdef int64_t end_delta         # highest offset delta to return: below `last_delta` in the batch that contains `until`
    cdef bint appended             # the timestamps of the batch entered are the broker's

    def __cinit__(self, topic, int partition, data, int64_t fetch_offset, *, serial=None, decompress, int64_t max_decompressed,
                  aborted=(), int64_t high_watermark=INT64_MAX, int64_t until=INT64_MAX):
        self.topic = exact_name(topic)
        self.hold(data)
        self.partition = partition
        self.py_partition = partition
        self.serial = serial
        self.decompress = decompress
        self.max_decompressed = max_decompressed
        self.high_watermark = high_watermark
        self.until = until
        self.position = self.next_offset = fetch_offset
        self.last_leader_epoch = -1
        self.left = -1             # in no batch
        if aborted:
            self.to_abort = sorted([(first, producer) for producer, first in aborted], reverse=True)
            self.aborting = set()
        self.scan()

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.view)

    cdef int hold(self, data) except -1:
        """Keep the bytes of `data` alive through their owner.

        If the garbage collector tracks the owner (an array.array, for example), the bytes are copied. Without the copy, if owner and chunk
        became garbage together, the collector could clear the owner first, and the later release of its buffer would crash the process.
        """
        cdef Py_buffer part
        owner = data.obj if isinstance(data, memoryview) else data
        if PyObject_IS_GC(owner):  # unlike bytes, bytearray and the frames of `net/pump`
            data = owner = bytes(data)
        PyObject_GetBuffer(owner, &self.view, PyBUF_SIMPLE)
        self.held = True
        PyObject_GetBuffer(data, &part, PyBUF_SIMPLE)
        self.data = <const char*>part.buf
        self.size = part.len
        PyBuffer_Release(&part)
        return 0

    def copy_bytes(self):
        cdef const char* was = self.data
        if self.busy or not self.held or self.size * 2 > self.view.len:
            return
        copy = PyBytes_FromStringAndSize(was, self.size)
        self.held = False
        PyBuffer_Release(&self.view)
        self.hold(copy)
        self.p = self.data + (self.p - was)
        self.end = self.data + (self.end - was)
        if self.left >= 0:
            self.entered = self.data + (self.entered - was)
        if self.left >= 0 and self.unpacked is None and self.legacy is None:
            self.at = self.data + (self.at - was)
            self.stop = self.data + (self.stop - was)

    cdef void scan(self):
        """Find the end of the complete batches, and the offset after them.

        A header is also invalid if the offset after its batch is not above the first offset of the batch, or could exceed an int64.
        `_plain_decode.Chunk` has the rule for batches after `high_watermark`.
        """
        cdef const char* p = self.data
        cdef const char* end = p + self.size
        cdef int64_t after, size = 0
        self.p = p
        while end - p >= 17:
            if self.next_offset >= self.until:
                self.reaches = True
                break
            size = 12 + <int64_t>get32(p + 8)
            if p[16] < 0 or p[16] > 2 or size < LEAST_BATCH[<int>p[16]] or get64(p) < 0:
                self.broken = "a batch header is invalid"
                break
            if p[16] == 2 and self.until <= get64(p) <= 0x7fffffff00000000:
                self.reaches = True
                self.next_offset = self.until
                break
            if size > end - p:
                break
            after = 0              # marks a header as invalid
            if get64(p) <= 0x7fffffff00000000:
                after = get64(p) + 1 + (get32(p + 23) if p[16] == 2 else 0)
            if after > self.high_watermark and p[16] == 2 and get32(p + 57) != <int64_t>get32(p + 23) + 1:
                after = 0
            if after <= get64(p):
                self.broken = "a batch header is invalid"
                break
            if after > self.next_offset:
                self.next_offset = after
            if p[16] == 2:
                self.last_leader_epoch = get32(p + 12)
            p += size
        if self.next_offset >= self.until:
            self.reaches = True
        if p == self.data and p < end and self.broken == NULL and not self.reaches:
            self.incomplete = size if end - p >= 17 else HEADER
        self.end = p
        if p == self.p and self.broken == NULL:
            self.drop()

    cdef void drop(self):
        if self.reaches:
            self.position = self.until
        if self.held:
            self.held = False
            PyBuffer_Release(&self.view)
        self.p = self.end = NULL
        self.unpacked = None
        self.legacy = None

    @property
    def exhausted(self) -> bool:
        return not self.held

    def skip(self) -> int:
        if self.busy:
            raise RuntimeError(f"{self.topic}-{self.partition}: skip was called on a chunk that is being decoded")
        if not self.held:
            return self.position
        if self.left < 0 and self.p < self.end:
            self.pass_over(self.p)
        elif self.left < 0:
            self.drop()            # after an invalid header no batch can be found
            return self.position
        self.leave()
        return self.position

    cdef void pass_over(self, const char* batch):
        self.entered = batch
        self.base = get64(batch)
        self.last_delta = get32(batch + 23) if batch[16] == 2 else 0
        self.end_delta = min(self.last_delta, self.until - self.base - 1)
        self.p = batch + 12 + get32(batch + 8)

    cdef void leave(self):
        """Continue after the last offset of the current batch, whether a record had it or not."""
        self.left = -1
        self.unpacked = None
        self.legacy = None
        if self.base + self.last_delta + 1 > self.position:
            self.position = self.base + self.last_delta + 1
        if self.p >= self.end and self.broken == NULL:
            self.drop()

    cdef corrupt(self, str reason, next_offset=None):
        return CorruptRecord(self.topic, self.partition, self.position, reason, next_offset)

    cdef object offset_after(self, const char* batch):
        """The offset after `batch`: a `seek` to it skips the batch."""
        cdef int64_t after = get64(batch) + (get32(batch + 23) if batch[16] == 2 else 0) + 1
        return after if after > self.position else self.position

    cdef object offset_after_entered(self):
        return max(self.base + self.last_delta + 1, self.position)

    cdef damaged(self, const char* wrong):
        reason = f"the batch of offsets {self.base} to {self.base + self.last_delta}: {(<bytes>wrong).decode()}"
        return self.corrupt(reason, self.offset_after_entered())

    cdef too_large(self, str reason, const char* batch):
        return RecordTooLarge.fetched(self.topic, self.partition, self.position, reason, self.offset_after(batch))

    cdef too_large_at(self, int64_t offset, str reason):
        return RecordTooLarge.fetched(self.topic, self.partition, offset, reason, self.offset_after_entered())

    cdef str extent(self, const char* batch):
        cdef int64_t first = get64(batch)
        return f"the batch of offsets {first} to {first + (get32(batch + 23) if batch[16] == 2 else 0)}"

    cdef int enter(self) except -1:
        """Check the next batch, then enter it or pass over it; return 0 if there is none."""
        cdef const char* batch = self.next_batch()
        cdef int16_t bits
        if batch == NULL:
            return 0
        if batch[16] != 2:
            return self.enter_legacy()
        if not self.inspect(batch):
            return 1
        bits = get16(batch + 21)
        self.open_payload(batch, bits & CODEC_BITS)
        self.base_timestamp = get64(batch + 35) if bits & LOG_APPEND_BIT else get64(batch + 27)
        self.appended = bits & LOG_APPEND_BIT != 0
        self.adopt(batch)
        self.previous = -1
        self.left = get32(batch + 57)
        self.pass_over(batch)
        return 1

    cdef const char* next_batch(self) except? NULL:
        if self.p < self.end:
            return self.p
        if self.broken != NULL:
            raise self.corrupt((<bytes>self.broken).decode())
        return NULL

    cdef int inspect(self, const char* batch) except -1:
        """Verify the checksum of `batch`, the next batch (format v2); return 0 after passing over a batch without records to hand out."""
        cdef int16_t bits
        cdef int64_t first = get64(batch)
        cdef uint32_t crc
        cdef size_t size = <size_t>(get32(batch + 8) - 9)
        if first > self.position:
            self.position = first
        if size > LONG_CRC:
            with nogil:
                crc = crc32c_extend(0, batch + 21, size)
                ask()
            got()
        else:
            crc = crc32c_extend(0, batch + 21, size)
        if crc != <uint32_t>get32(batch + 17):
            raise self.corrupt(f"{self.extent(batch)} is corrupt: its checksum does not match", self.offset_after(batch))
        bits = get16(batch + 21)
        if self.to_abort is not None:
            self.begin_aborted(batch)
            if bits & CONTROL_BIT:
                self.end_aborted(batch, bits & CODEC_BITS)
        # The last condition: compaction has removed all records.
        if (
            bits & CONTROL_BIT
            or (bits & TRANSACTIONAL_BIT and self.to_abort is not None and get64(batch + 43) in self.aborting)
            or get32(batch + 57) == 0
        ):
            self.pass_over(batch)
            self.leave()
            return 0
        return 1

    def whole_batch(self):
        cdef const char* batch
        if wanted:
            give_way()
        if self.busy:
            raise RuntimeError(f"{self.topic}-{self.partition}: whole_batch was called on a chunk that is being decoded")
        self.busy = True
        self.decoded = 0
        try:
            while True:
                if self.left == 0 and self.legacy is None:
                    self.leave()       # all records of the batch entered are handed out
                if self.left >= 0:
                    batch = self.entered
                    break
                batch = self.next_batch()
                if batch == NULL:
                    return None
                if batch[16] != 2 or self.inspect(batch):
                    break
        except ConfigError as error:  # the library of a compressed marker's codec is missing
            raise ConfigError(f"{self.topic}-{self.partition} at offset {self.position}: {error}") from None
        finally:
            self.busy = False
        self.decoded = 12 + <int64_t>get32(batch + 8)
        return PyBytes_FromStringAndSize(batch, self.decoded)

    cdef int adopt(self, const char* batch) except -1:
        self.kind = LOG_APPEND_TIME if self.appended else CREATE_TIME
        self.stamp = self.base_timestamp
        self.last_stamp = self.base_timestamp
        self.epoch = get32(batch + 12)
        return 0

    cdef int begin_aborted(self, const char* batch) except -1:
        cdef int64_t last = get64(batch) + get32(batch + 23)
        while self.to_abort and self.to_abort[len(self.to_abort) - 1][0] <= last:
            self.aborting.add(self.to_abort.pop()[1])
        return 0

    cdef int end_aborted(self, const char* batch, int codec) except -1:
        """Read the marker in `batch`. After an abort, later records of the producer belong to another transaction."""
        cdef Raw r
        cdef const char* wrong
        producer = get64(batch + 43)
        if producer not in self.aborting or get32(batch + 57) == 0:
            return 0
        self.open_payload(batch, codec)
        wrong = read_record(self.at, self.stop, &r)
        if wrong == NULL and r.headers:
            wrong = headers_check(r.rest, r.end, r.headers)
        if wrong == NULL and (r.key_size < 4 or get16(r.key) < 0):
            wrong = "a marker's key is invalid"
        aborts = wrong == NULL and get16(r.key + 2) == 0
        self.unpacked = None
        if wrong != NULL:
            raise self.corrupt(f"{self.extent(batch)}: {(<bytes>wrong).decode()}", self.offset_after(batch))
        if aborts:
            self.aborting.discard(producer)
        return 0

    cdef int open_payload(self, const char* batch, int codec) except -1:
        """Set `at` and `stop` to the decompressed records of `batch`."""
        cdef int64_t count = get32(batch + 57)
        self.at = batch + HEADER
        self.stop = batch + 12 + get32(batch + 8)
        if codec:
            if codec > LAST_CODEC:
                raise self.corrupt(f"{self.extent(batch)}: compression codec {codec} is unknown", self.offset_after(batch))
            payload = PyBytes_FromStringAndSize(self.at, self.stop - self.at)
            try:
                unpacked = self.decompress(codec, payload, self.max_decompressed)
            except RecordTooLarge as error:
                raise self.too_large(f"{self.extent(batch)}: {error}", batch) from None
            except DecodeError as error:
                raise self.corrupt(f"{self.extent(batch)}: {error}", self.offset_after(batch)) from None
            self.unpacked = unpacked
            self.at = PyBytes_AS_STRING(unpacked)
            self.stop = self.at + PyBytes_GET_SIZE(unpacked)
        if count < 0 or count > (self.stop - self.at) // LEAST_RECORD:
            raise self.corrupt(f"{self.extent(batch)}: it claims {count} records in {self.stop - self.at} bytes", self.offset_after(batch))
        return 0

    cdef int enter_legacy(self) except -1:
        """Enter a message set (formats v0, v1) with the plain reader, because these formats are rare."""
        from pykafka4.wire.records.decoder import read_header, read_messages

        cdef const char* entry = self.p
        cdef int64_t size = 12 + <int64_t>get32(entry + 8)
        if get64(entry) > self.position and not entry[17] & CODEC_BITS:
            self.position = get64(entry)
        data = PyBytes_FromStringAndSize(entry, size)
        try:
            self.legacy = read_messages(read_header(data), self.max_decompressed)
        except RecordTooLarge as error:
            raise self.too_large(f"{self.extent(entry)}: {error}", entry) from None
        except DecodeError as error:
            raise self.corrupt(f"{self.extent(entry)}: {error}", self.offset_after(entry)) from None
        self.legacy_size = size
        self.pass_over(entry)
        self.left = 0
        return 1

    cdef next_message(self):
        """Return the next message of the message set entered; after the last one, leave the set and return None."""
        try:
            r = next(self.legacy, None)
        except BaseException:      # Ctrl-C, or no memory: the generator has ended
            self.enter_again()
            raise
        if r is None:
            self.leave()
        return r

    cdef void enter_again(self):
        """Leave the message set before its end: the next call enters the set again, and continues at `position`."""
        self.legacy = None
        self.left = -1
        self.p -= self.legacy_size

    cdef int take_legacy(self, list out, int room, int64_t max_bytes) except -1:
        cdef int n = 0
        while n < room and self.decoded < max_bytes:
            r = self.next_message()
            if r is None:
                break
            if r.offset < self.position:
                continue
            if r.offset >= self.until:
                self.leave()
                break
            out.append(
                Record(self.topic, self.py_partition, r.offset, r.timestamp_ms, TIMESTAMP_TYPES[r.timestamp_type], r.key, r.value, (), -1)
            )
            self.position = r.offset + 1
            self.decoded += RECORD_WEIGHT + len(r.key or b"") + len(r.value or b"")
            n += 1
        return n

    def decode(self, list out not None, int limit, int64_t max_bytes=INT64_MAX) -> int:
        """See `_plain_decode.Chunk.decode`. Unlike there, records appended before an exception stay in `out`, and `position` is after them.

        Raises RuntimeError if the chunk is in use, for example in a signal handler that runs during decompression.
        """
        cdef int n = 0
        if wanted:
            give_way()
        if self.busy:
            raise RuntimeError(f"{self.topic}-{self.partition}: decode was called on a chunk that is being decoded")
        self.busy = True
        self.decoded = 0
        try:
            while n < limit and self.decoded < max_bytes:
                try:
                    if self.left < 0 and not self.enter():
                        break
                    if self.legacy is not None:
                        n += self.take_legacy(out, limit - n, max_bytes)
                    elif self.left >= 0:
                        n += self.take(out, limit - n, max_bytes)
                except (CorruptRecord, RecordTooLarge):
                    if n == 0:
                        raise
                    break
                except ConfigError as error:  # the library of the batch's codec is missing
                    if n == 0:
                        raise ConfigError(f"{self.topic}-{self.partition} at offset {self.position}: {error}") from None
                    break
        finally:
            self.busy = False
        return n

    cdef int take(self, list out, int room, int64_t max_bytes) except -1:
        cdef Raw r
        cdef const char* wrong = NULL
        cdef int64_t stamp, offset, weight, left = max_bytes - self.decoded
        cdef int n = 0
        cdef object kind = self.kind, epoch = self.epoch, topic = self.topic, partition = self.py_partition
        while n < room and left > 0:
            if self.left == 0:
                if self.at != self.stop:
                    wrong = "a batch is longer than its records"
                    break
                self.leave()
                break
            wrong = read_record(self.at, self.stop, &r)
            if wrong != NULL:
                break
            if r.offset <= self.previous or r.offset > self.end_delta:
                if self.end_delta < r.offset <= self.last_delta and r.offset > self.previous:
                    self.leave()       # the record is at `until` or after it
                else:
                    wrong = "the offsets of a batch are not increasing within its range"
                break
            weight = RECORD_WEIGHT + (r.end - self.at)
            offset = self.base + r.offset
            if r.headers:
                wrong = headers_check(r.rest, r.end, r.headers)
                if wrong != NULL:
                    break
                weight += r.headers * HEADER_WEIGHT
                if r.headers > MANY_HEADERS and weight > self.max_decompressed and offset >= self.position:
                    if n:
                        break
                    raise self.too_large_at(offset, too_many_headers(r.headers, self.max_decompressed))
            if offset >= self.position:
                stamp = self.base_timestamp if self.appended else <int64_t>(<unsigned long long>self.base_timestamp + <unsigned long long>r.timestamp)
                if stamp != self.last_stamp:           # neighbours often share the millisecond, and then the int object
                    self.stamp = stamp
                    self.last_stamp = stamp
                record_push(
                    <PyObject*>out, <PyObject*>topic, <PyObject*>partition, offset, <PyObject*>self.stamp, <PyObject*>kind,
                    r.key, r.key_size, r.value, r.value_size, <PyObject*>NO_HEADERS, r.headers, r.rest, r.end, <PyObject*>epoch,
                )
                n += 1
                self.position = offset + 1
                left -= weight
            self.previous = r.offset
            self.at = r.end
            self.left -= 1
        self.decoded = max_bytes - left
        if wrong != NULL and n == 0:
            raise self.damaged(wrong)
        return n
