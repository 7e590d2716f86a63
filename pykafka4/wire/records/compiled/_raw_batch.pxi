# Accepts raw batches for sending, and copies records out of batches. Invariant: a raw batch is queued behind all earlier
# records of its partition; the bytes of its records change only if the raw batch is split.

cdef enum:
    MOST_DECOMPRESSED_BYTES = 67108864  # maximum decompressed bytes of a raw batch that is split or handed back


cdef bytes checked_batch(bytes data):
    """Raises ValueError unless `data` is one record batch of format v2 with records."""
    cdef const char* p = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    if size < HEADER or size > 0x7fffffff or p[16] != 2 or size != 12 + <int64_t>get32(p + 8) or get32(p + 57) < 1:
        raise ValueError(f"{size} bytes are not one record batch of format v2 with records")
    return data


cdef Batch send_batch(Accumulator acc, object topic, object partition, bytes data):
    cdef Item r
    cdef Topic t
    cdef Batch b, opened
    cdef const char* p = PyBytes_AS_STRING(checked_batch(data))
    cdef int32_t size = <int32_t>PyBytes_GET_SIZE(data)
    cdef double now
    cdef bint queues
    if wanted: give_way()
    if acc.refusal is not None:
        acc.refuse()
    t = acc.find(topic)
    asked = _integer(t.name, "partition", partition, 0x7fffffff)
    r.free = r.turning = r.forced = r.asked = r.news = r.overflows = False
    r.deadline = INFINITY
    while True:
        t = acc.find(topic)
        await_topic(acc, t, &r)
        if t.dropped:
            continue
        r.partition = asked
        find_partition(acc, t, &r)
        if size > acc.buffer_memory or 0 < t.max_message_bytes < size:
            raise batch_too_large(acc, t, size)
        now = acc.clock()
        queues = must_queue(acc, t, &r)
        b = Batch.__new__(Batch)
        # From here until the batch is among the sealed batches no Python code runs, so other threads wait.
        if acc.refusal is not None:
            acc.refuse()
        if t.dropped or not t.direct:
            continue
        if queues or not acc.fits(t, <int>r.partition, size):
            acc.wait_for_room(t, &r, size)
            if not r.overflows:
                continue
            if acc.drop_error is None:
                raise acc.no_room(t, &r)
            return drop_batch(acc, t.name, <int32_t>r.partition, p, "BUFFER_FULL", acc.drop_error)
        opened = t.open[<int>r.partition]
        acc.introduce(b, t, <int>r.partition, now, acc.obtain(size))
        take_bytes(b, p, size)
        b.sent_at = now
        if opened is not None and not acc.seal(opened):
            opened = None          # it is empty: another thread is about to write its first record, which comes after this batch
        acc.sealed.append(b)
        acc.accepted += b.count
        break
    if opened is not None and not opened._ready:
        opened.compress()
    elif acc.can_send:
        acc.wake()
    return b


cdef void take_bytes(Batch b, const char* p, int32_t size) noexcept:
    memcpy(b.buf, p, size)
    b.used = b.raw = size
    b.count = get32(p + 57)
    b.codec = b.own_codec = get16(p + 21) & CODEC_BITS
    b.base_timestamp, b.max_timestamp = get64(p + 27), get64(p + 35)
    b.min_timestamp = min(b.base_timestamp, b.max_timestamp)
    b.state = S_SEALED
    b._ready = True


cdef object batch_too_large(Accumulator acc, Topic t, int64_t size):
    if size > acc.buffer_memory:
        return RecordTooLarge(f"{t.name}: a raw batch of {size} bytes exceeds buffer_memory={acc.buffer_memory}; raise that")
    return RecordTooLarge(f"{t.name}: a raw batch of {size} bytes exceeds max_message_bytes={t.max_message_bytes}; raise that, or send its records")


cdef Batch drop_batch(Accumulator acc, str topic, int32_t partition, const char* p, str code, object cause):
    """Drop all records of the batch at `p`, for the reason `code`; return the batch that has their outcome."""
    cdef Dropped found = of_reason(acc, topic, partition, code, cause)
    cdef int64_t first = min(get64(p + 27), get64(p + 35))
    if acc.refusal is not None:    # the code that set `refusal` has settled only earlier records
        acc.refuse()
    if found.records == 0:
        acc.fresh_drops.append(found)
    if found.records == 0 or first < found.first_ms:
        found.first_ms = first
    if found.records == 0 or get64(p + 35) > found.last_ms:
        found.last_ms = get64(p + 35)
    acc.dropped += get32(p + 57)
    found.records += get32(p + 57)
    return found.batch


cdef list raw_records(Batch b):
    """The records of `b`, a raw batch that has failed; none, with a log line, if its bytes cannot be decoded."""
    try:
        return b.records()
    except (DecodeError, RecordTooLarge, ConfigError) as error:
        not_handed_back(b.hooks.client_id, b.topic, b.partition, b.count, error)
        return []


# ---------------------------------------------------------------- parts of batches

def cut_records(bytes data not None, int64_t count, int64_t first, int64_t last) -> tuple:
    return repacked(data, count, first, last, False, False)


def pack_records(bytes data not None, int64_t count, bint appended) -> bytes:
    return repacked(data, count, 0, 0x7fffffff, True, appended)[0]


cdef tuple repacked(bytes data, int64_t count, int64_t first, int64_t last, bint consecutive, bint timeless):
    cdef Raw r
    cdef const char* p = PyBytes_AS_STRING(data)
    cdef const char* end = p + PyBytes_GET_SIZE(data)
    cdef const char* content
    cdef const char* wrong = NULL
    cdef char* out
    cdef char* at
    cdef char attributes
    cdef int64_t kept = 0, start = 0, previous = -1, number, time, body, unused
    if count > (end - p) // LEAST_RECORD:
        raise DecodeError(f"it claims {count} records in {end - p} bytes")
    out = at = <char*>malloc(PyBytes_GET_SIZE(data) + 1)  # no number of a record gets larger, so neither does the record
    if out == NULL:
        raise MemoryError
    try:
        for _ in range(count):
            wrong = read_record(p, end, &r)
            if wrong == NULL and r.headers:
                wrong = headers_check(r.rest, r.end, r.headers)
            if wrong == NULL and r.offset <= previous:
                wrong = "the offsets of a batch are not increasing within its range"
            if wrong != NULL:
                raise DecodeError((<bytes>wrong).decode())
            previous = r.offset
            if first <= r.offset <= last:
                if kept == 0:
                    start = r.offset
                content = get_varint(p, end, &unused)
                attributes = content[0]
                content = get_varint(get_varlong(content + 1, end, &unused), end, &unused)
                number = kept if consecutive else r.offset - start
                time = 0 if timeless else r.timestamp
                body = 1 + varint_size(time) + varint_size(number) + (r.end - content)
                at = put_varint(at, body)
                at[0] = attributes
                at = put_varint(put_varint(at + 1, time), number)
                memcpy(at, content, r.end - content)
                at += r.end - content
                kept += 1
            p = r.end
        if p != end:
            raise DecodeError("a batch is longer than its records")
        return PyBytes_FromStringAndSize(out, at - out), kept, start
    finally:
        free(out)
