# Writes records into batches: `put` encodes a record directly in the memory of its batch.


cdef struct Item:                  # a record on its way into a batch
    const char* key
    const char* value
    const char* headers
    int64_t key_size, value_size, headers_size
    int64_t timestamp
    double sent_at                 # time of `send`; set only for forced records
    double deadline                # end of its waits for room or partitions; INFINITY while it is not set
    int64_t partition
    bint free                      # any partition is allowed
    bint turning                   # its partition is the next one in turn; if that has no room, another one is chosen
    bint forced                    # it was parked, so it neither waits for room nor is refused
    bint asked                     # it has waited for room, so it does not queue behind records that still wait
    bint news                      # wake the loop once the record is written
    bint overflows                 # there is no room for it, and on_full=raise or drop
    int64_t lacking                # if it overflows: the bytes that it needs


cdef inline int64_t decided(Item* r) noexcept nogil:
    """The partition in which `r` needs room; UNDECIDED if any partition will do."""
    return UNDECIDED if r.free or r.turning else r.partition


cdef inline int64_t body_size(Item* r, int64_t delta, int64_t index) noexcept nogil:
    """Bytes of a record after its length."""
    cdef int64_t size = 1 + varint_size(delta) + varint_size(index) + varint_size(r.key_size) + varint_size(r.value_size) + r.headers_size
    if r.key_size > 0:
        size += r.key_size
    if r.value_size > 0:
        size += r.value_size
    return size


cdef inline int64_t alone_size(Item* r) noexcept nogil:
    """Bytes of a batch with only this record."""
    cdef int64_t body = body_size(r, 0, 0)
    return HEADER + varint_size(body) + body


cdef void put(Batch b, Item* r, int64_t body) noexcept:
    cdef char* p = put_varint(b.buf + b.used, body)
    if b.count == 0:
        b.base_timestamp = b.min_timestamp = b.max_timestamp = r.timestamp
    elif r.timestamp > b.max_timestamp:
        b.max_timestamp = r.timestamp
    elif r.timestamp < b.min_timestamp:
        b.min_timestamp = r.timestamp
    p[0] = 0
    p = put_varint(p + 1, r.timestamp - b.base_timestamp)
    p = put_varint(p, b.count)
    p = put_varint(p, r.key_size)
    if r.key_size > 0:
        memcpy(p, r.key, r.key_size)
        p += r.key_size
    p = put_varint(p, r.value_size)
    if r.value_size > 0:
        memcpy(p, r.value, r.value_size)
        p += r.value_size
    memcpy(p, r.headers, r.headers_size)
    b.used = <int32_t>(p + r.headers_size - b.buf)
    b.count += 1


cdef int put_raw(Accumulator acc, Batch b, Item* r, int64_t headers, const char* rest, const char* end) except -1:
    """Write a record that is copied from another batch; `rest` to `end` are its headers without their count."""
    cdef int64_t body
    cdef char count[10]
    cdef int32_t grown
    r.headers = count
    r.headers_size = put_varint(count, headers) - count
    body = body_size(r, r.timestamp - b.base_timestamp if b.count else 0, b.count) + (end - rest)
    if b.used + 10 + body > b.cap:
        grown = <int32_t>(b.used + 10 + body + b.cap // 2)
        acc.grow(b.home, b, grown)
    put(b, r, body)
    memcpy(b.buf + b.used, rest, end - rest)
    b.used += <int32_t>(end - rest)
    return 0


cdef bint book_callbacks(Accumulator acc, Topic t, Batch b, Item* r) except -1:
    """Reserve memory for callbacks of more records of `b`; return False if there is no room.

    Unreserved callbacks could exceed the memory limits: compressed records can take less memory than their callbacks. The callback of a
    batch's first record (see `start`) and of a parked record (`PARKED_COST`) always has room.
    """
    cdef Meta* meta
    cdef int32_t metas = min(max(FIRST_CALLBACKS, b.count * 2), max(t.batch_records, b.count + 1))
    cdef int64_t size = <int64_t>(metas - b.metas) * CALLBACK_COST
    if not acc.fits(t, b.slot, size):
        if b.count and not r.forced:
            return False
        metas = b.count + 1
        size = <int64_t>(metas - b.metas) * CALLBACK_COST
    acc.trim(size)
    meta = <Meta*>realloc(b.meta, metas * sizeof(Meta))
    if meta == NULL:
        acc.discard(b)
        raise MemoryError
    b.meta = meta
    b.book(metas)
    return True


cdef int store_callback(Batch b, Item* r, object callback) except -1:
    while PyList_GET_SIZE(b.callbacks) < b.count:
        b.callbacks.append(None)
    b.callbacks.append(callback)
    b.meta[b.count].timestamp = r.timestamp
    b.meta[b.count].key_size = <int32_t>r.key_size
    b.meta[b.count].value_size = <int32_t>r.value_size
    return 0
