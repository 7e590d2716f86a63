# Accepts many records in one call. Invariant: each record is accepted or refused as by `send`, in order; an error has the handles of the
# accepted records.

cdef object MISSING = object()
cdef enum:
    SAME_TIME = 16                 # records of a list with the same timestamp: for a small record, the clock costs as much as the rest
    PAUSE = 16384                  # records after which other threads and signal handlers may run


cdef list send_many(Accumulator acc, object topic, object values, object keys, object headers, object partition, object timestamp_ms, object on_delivery):
    cdef Item r
    cdef Topic t
    cdef Delivery d
    cdef list out = []
    cdef object keep_value, key, keep_key, keep_headers = None
    cdef const char* header_data = ZERO_HEADERS
    cdef int64_t header_size = 1
    cdef int64_t asked = UNDECIDED
    cdef int64_t now = 0
    cdef int64_t n = 0
    cdef bint shared
    if acc.refusal is not None:
        acc.refuse()
    t = acc.find(topic)
    if headers is not None:
        keep_headers = _header_bytes(t.name, headers)
        header_data = PyBytes_AS_STRING(keep_headers)
        header_size = PyBytes_GET_SIZE(keep_headers)
    if partition is not None:
        asked = _integer(t.name, "partition", partition, 0xffffffff if acc.partition_argument else 0x7fffffff)
    if timestamp_ms is not None:
        now = _integer(t.name, "timestamp_ms", timestamp_ms, 0x7fffffffffffffff)
    if on_delivery is not None:
        check_callback(t.name, "on_delivery", on_delivery)
    shared = shares_time(values, keys)
    values, keys = many_values(t.name, values, keys)
    r.deadline = INFINITY
    try:
        for value in values:
            if wanted: give_way()
            if n % PAUSE == PAUSE - 1:
                PyErr_CheckSignals()
                with nogil:
                    pass
            # The last condition: the previous record has waited.
            if timestamp_ms is None and (not shared or n % SAME_TIME == 0 or r.deadline < INFINITY):
                now = wall_ms() if acc.wall is None else acc.wall()
            n += 1
            keep_value = _span(t.name, "value", value, &r.value, &r.value_size)
            keep_key = key = None
            r.key, r.key_size = NULL, -1
            if keys is not None:
                key = next(keys, MISSING)
                if key is MISSING:
                    raise ValueError(f"{t.name}: keys has fewer items than values; keys ended after {n - 1}")
                keep_key = _span(t.name, "key", key, &r.key, &r.key_size)
            r.headers, r.headers_size = header_data, header_size
            r.partition = asked
            r.timestamp = now
            r.free = r.turning = r.forced = r.asked = r.news = r.overflows = False
            r.deadline = INFINITY
            d = Delivery.__new__(Delivery)
            d.timestamp = now
            d.key_size = <int32_t>r.key_size
            d.value_size = <int32_t>r.value_size
            out.append(d)          # before the record is accepted: if the list could not grow afterwards, the record would have no handle
            if t.admit is not None:
                admitted(acc, t, &r, on_delivery, d)
                if t.dropped:
                    t = acc.find(t.name)
            elif not ((not t.direct and park(acc, t, &r, on_delivery, d)) or acc.append_or_raise(t, &r, on_delivery, d)):
                acc.append_anew(t.name, &r, asked, on_delivery, d)
                t = acc.find(t.name)
        if keys is not None and next(keys, MISSING) is not MISSING:
            raise ValueError(f"{t.name}: keys has more items than values, which ended after {n}")
    except BaseException as error:
        if out and (<Delivery>out[len(out) - 1]).batch is None:
            out.pop()
        many_ended(error, t.name, out)
        raise
    return out
