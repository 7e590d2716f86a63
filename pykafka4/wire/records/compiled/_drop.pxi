# Drops records by a policy of the application. Invariant: a dropped record is counted and reported, and none of its data is kept.


@cython.final
cdef class Dropped:
    """The records of one partition that were dropped for one reason; their handles share a batch without records."""

    cdef Batch batch
    cdef int64_t records, first_ms, last_ms


cdef int drop(Accumulator acc, Topic t, Item* r, str code, object cause, object callback, Delivery d) except -1:
    """Drop `r`, for the reason `code`. `r` counts as dropped even if `call_dropped` raises, because the callback may still run."""
    cdef int64_t there = decided(r)
    cdef int32_t partition = <int32_t>there if t.direct and 0 <= there < t.count else UNDECIDED
    cdef Dropped found = acc.last_dropped
    if found is None or found.batch.partition != partition or found.batch.topic is not t.name or found.batch.code is not code:
        found = of_reason(acc, t.name, partition, code, cause)
        acc.last_dropped = found
    if acc.refusal is not None:    # the code that set `refusal` has settled only earlier records
        acc.refuse()
    if found.records == 0:
        acc.fresh_drops.append(found)
    d.batch = found.batch
    d.index = 0
    if found.records == 0 or r.timestamp < found.first_ms:
        found.first_ms = r.timestamp
    if found.records == 0 or r.timestamp > found.last_ms:
        found.last_ms = r.timestamp
    acc.dropped += 1
    found.records += 1
    try:
        if callback is not None:   # last, as it may read the counters
            acc.call_dropped(callback, d)
    finally:
        if r.news:
            acc.wake()
    return 1


cdef Dropped of_reason(Accumulator acc, str topic, int32_t partition, str code, object cause):
    cdef dict known = drops_of(acc.drops, topic, code, acc.hooks.client_id, cause)
    cdef Dropped found = known.get(partition)
    cdef Batch b
    if found is None:
        found = Dropped.__new__(Dropped)
        found.batch = b = Batch.__new__(Batch)
        b.hooks = acc.hooks
        b.topic, b.partition, b.code = topic, partition, code
        b.state = S_FAILED
        b._settled = b.dropped = True
        b.cause = fresh(cause)
        b.outcome_written = Written.NO
        found = known.setdefault(partition, found)
    return found


cdef list take_dropped(Accumulator acc):
    cdef list out = []
    cdef list later = []           # before the exchange: the allocation may run the garbage collector, and thus a `send` that drops
    cdef list taken
    cdef Dropped found
    taken, acc.fresh_drops = acc.fresh_drops, later
    for entry in taken:
        found = <Dropped>entry     # for the same reason this `for` allocates nothing that the garbage collector tracks
        out.append(found.batch.topic)
        out.append(found.batch.partition)
        out.append(found.batch.code)
        out.append(found.records)
        out.append(found.first_ms)
        out.append(found.last_ms)
        found.records = 0
    return out
