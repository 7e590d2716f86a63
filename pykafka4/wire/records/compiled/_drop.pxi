# Dropped records. Rule: a record that is dropped by a policy of the application is counted and reported, and nothing of it is kept.


@cython.final
cdef class Dropped:
    """The records of one partition that were dropped for one reason; they share a batch without records."""

    cdef Batch batch
    cdef int64_t records, first_ms, last_ms


cdef int drop(Accumulator acc, Topic t, Item* r, str code, object cause, object callback, Delivery d) except -1:
    """Drop `r`, for the reason `code`. Raises what `call_dropped` raises; then it does not count."""
    cdef int32_t partition = UNDECIDED if r.free or not t.direct else <int32_t>r.partition
    cdef Dropped found = acc.last_dropped
    if found is None or found.batch.partition != partition or found.batch.topic is not t.name or found.batch.code is not code:
        found = of_reason(acc, (t.name, partition, code), cause)
        acc.last_dropped = found
    if acc.refusal is not None:    # the code that refuses has settled the earlier records
        acc.refuse()
    d.batch = found.batch
    d.index = 0
    if found.records == 0 or r.timestamp < found.first_ms:
        found.first_ms = r.timestamp
    if found.records == 0 or r.timestamp > found.last_ms:
        found.last_ms = r.timestamp
    acc.dropped += 1
    found.records += 1
    if callback is not None:       # last, as it may read the counters
        try:
            acc.call_dropped(callback, d)
        except BaseException:
            acc.dropped -= 1
            found.records -= 1
            d.batch = None         # it has no outcome: it was refused
            raise
    if r.news:
        acc.wake()
    return 1


cdef Dropped of_reason(Accumulator acc, tuple key, object cause):
    cdef Dropped found = acc.drops.get(key)
    return first_dropped(acc, key, cause) if found is None else found


cdef Dropped first_dropped(Accumulator acc, tuple key, object cause):
    cdef Dropped made = Dropped.__new__(Dropped)
    cdef Batch b = Batch.__new__(Batch)
    b.hooks = acc.hooks
    b.topic, b.partition, b.code = key
    b.state = S_FAILED
    b._settled = b.dropped = True
    b.cause = fresh(cause)
    b.outcome_written = Written.NO
    made.batch = b
    warn_dropped(acc.hooks.client_id, acc.drops, key, cause)
    return acc.drops.setdefault(key, made)


cdef list take_dropped(Accumulator acc):
    cdef list out = []
    cdef Dropped found
    cdef int64_t records, first_ms, last_ms
    for key, entry in list(acc.drops.items()):
        found = <Dropped>entry
        records, first_ms, last_ms = found.records, found.first_ms, found.last_ms
        found.records = 0          # before the tuple is made: that may run the garbage collector, and through it a `send`
        if records:
            out.append((*key, records, first_ms, last_ms))
    return out
