# Applies the policies of topics to their batches. `send` reads fields of the topic, so its cost does not depend on the number of different
# lingers.


@cython.final
cdef class LingerList:
    """The open batches whose linger runs, of topics with the same linger, oldest first; with `combined`, the topics share their limits too.

    Combined batches become due together: when the linger of the oldest has ended, or their records reach a limit. The limits apply only to
    batches in the list: a batch that is sealed, or waits for its connection, has left the list.
    """

    cdef bint combined, reached
    cdef int64_t batch_bytes, payload
    cdef int64_t batch_records, records
    cdef double linger
    cdef double taken_at           # time of the last `take` that took batches, flushes aside
    cdef double expected           # when `take` expects the next due batch, if records come steadily
    cdef void* oldest              # borrowed from Topic.open
    cdef void* newest

    cdef void link(self, Batch b) noexcept:
        b.older = self.newest
        b.newer = NULL
        if self.newest != NULL:
            (<Batch>self.newest).newer = <void*>b
        else:
            self.oldest = <void*>b
        self.newest = <void*>b
        b.linked = True

    cdef void unlink(self, Batch b) noexcept:
        if not b.linked:
            return
        b.linked = False
        self.payload -= b.payload
        self.records -= b.count
        if b.older != NULL:
            (<Batch>b.older).newer = b.newer
        else:
            self.oldest = b.newer
        if b.newer != NULL:
            (<Batch>b.newer).older = b.older
        else:
            self.newest = b.older
        b.older = b.newer = NULL

    cdef double take(self, double now, bint flushing, list due) except? -1:
        """Append due batches to `due`; return the time of the next call. See `Accumulator.take`."""
        if self.combined:
            return self.take_together(now, flushing, due)
        return self.take_each(now, flushing, due)

    cdef double take_together(self, double now, bint flushing, list due) except? -1:
        cdef Batch b
        if self.oldest == NULL:
            return INFINITY
        b = <Batch>self.oldest
        if b.created + self.linger > now and not flushing and not self.reached:
            return b.created + self.linger
        while self.oldest != NULL:
            b = <Batch>self.oldest
            if b.count == 0:       # just opened: another thread is about to write its record
                return now + 0.001
            due.append(b)
            self.unlink(b)
        self.reached = False
        return INFINITY

    cdef bint counted(self, Batch b, int64_t size) noexcept:
        """Count a record of `b` with `size` bytes of key and value; return whether it is the first to reach a limit."""
        if not b.linked:
            return False
        self.payload += size
        self.records += 1
        if self.reached or (self.payload < self.batch_bytes and self.records < self.batch_records):
            return False
        self.reached = True
        return True

    cdef double take_each(self, double now, bint flushing, list due) except? -1:
        cdef Batch b
        cdef Py_ssize_t before = PyList_GET_SIZE(due)
        cdef double soon = self.linger / 8
        cdef double limit = now if now < self.expected else now + soon
        cdef double deadline = INFINITY
        while self.oldest != NULL:
            b = <Batch>self.oldest
            deadline = b.created + self.linger
            if b.count == 0:       # just opened: another thread is about to write its record
                deadline = max(deadline, now + 0.001)
                break
            if deadline > limit and not flushing:
                break
            due.append(b)
            self.unlink(b)
            deadline = INFINITY
            limit = now + soon
        if PyList_GET_SIZE(due) > before and not flushing:
            steady = self.linger > 0 and self.taken_at <= (<Batch>due[before]).created <= self.taken_at + soon
            self.taken_at = now
            self.expected = now + self.linger if steady else INFINITY
        elif now >= self.expected:
            self.expected = INFINITY
        return min(deadline, self.expected)


cdef LingerList linger_list_of(Accumulator acc, object policy):
    """The list for batches of `policy`: one for each linger, and for combined batches one for each linger with each pair of limits."""
    cdef LingerList linger_list
    cdef double linger = policy.linger
    cdef bint combined = policy.combined
    cdef int64_t batch_bytes = policy.batch_bytes or 0x7fffffffffffffff
    cdef int64_t batch_records = policy.batch_records or 0x7fffffffffffffff
    for linger_list in acc.linger_lists:
        if linger_list.linger != linger or linger_list.combined != combined:
            continue
        if not combined or (linger_list.batch_bytes == batch_bytes and linger_list.batch_records == batch_records):
            return linger_list
    linger_list = LingerList.__new__(LingerList)
    linger_list.linger = linger
    linger_list.combined = combined
    linger_list.batch_bytes, linger_list.batch_records = batch_bytes, batch_records
    linger_list.taken_at = -INFINITY
    linger_list.expected = INFINITY
    acc.linger_lists.append(linger_list)
    return linger_list


cdef int store_policy(Accumulator acc, Topic t, object policy) except -1:
    t.linger_list = linger_list_of(acc, policy)
    t.codec = policy.codec
    t.level = policy.level
    t.compression_min = policy.compression_min_bytes
    t.compression_ratio = policy.compression_max_ratio
    t.batch_bytes = policy.batch_bytes or 0x7fffffffffffffff
    t.batch_records = policy.batch_records or 0x7fffffff
    t.limited = policy.limited
    t.admit = policy.admit
    t.max_message_bytes = policy.max_message_bytes
    return reset_limits(acc, t)


cdef int reset_limits(Accumulator acc, Topic t) except -1:
    t.capacity = acc.batch_size
    t.max_record, t.max_record_option = acc.max_request_size, "max_request_size"
    if acc.max_request_size < acc.asked_request_size:
        t.max_record_option = "the usable buffer_memory"
    if t.max_message_bytes:
        lower_limit(t, t.max_message_bytes, "max_message_bytes")
    return 0


cdef int lower_limit(Topic t, int64_t size, str option) except -1:
    """Let no batch of `t` grow beyond `size` bytes, and refuse records that alone exceed `size`; the error names the lowest limit."""
    if size < t.max_record:
        t.max_record, t.max_record_option = size, option
    t.capacity = <int32_t>min(t.capacity, size)
    return 0


cdef bint is_reached(Topic t, Batch b, Item* r) noexcept:
    """Count `r`, which was just written into `b`; return whether `b` has reached a limit of its topic.

    A record with which combined batches reach a limit wakes the loop instead: all of them become due together.
    """
    cdef int64_t size = max(max(r.key_size, 0) + max(r.value_size, 0), 1)
    b.payload += size
    if t.linger_list.combined:
        if t.linger_list.counted(b, size):
            r.news = True
        return False
    return b.payload >= t.batch_bytes or b.count >= t.batch_records


cdef int admitted(Accumulator acc, Topic t, Item* r, object callback, Delivery d) except -1:
    """Accept or drop `r` once `admit` of its topic has decided, which may take a while.

    The size, and a given partition if the topic is `direct`, are checked first: their refusals come before that wait. A record that
    is refused or dropped afterwards does not count towards the rate.
    """
    cdef int64_t asked = r.partition
    cdef object admission
    if alone_size(r) > t.max_record:
        acc.too_large(t, alone_size(r))
    if asked >= 0 and t.direct:
        find_partition(acc, t, r)
    admission = t.admit(r.deadline)
    if admission is None:
        return append_as_asked(acc, t, r, asked, callback, d)
    if type(admission) is not Admission:
        return drop(acc, t, r, "RATE_LIMITED", admission, callback, d)
    r.deadline = admission.deadline
    try:
        return append_as_asked(acc, t, r, asked, callback, d)
    finally:
        if d.batch is None or d.batch.dropped:
            admission.give_back()


cdef int append_as_asked(Accumulator acc, Topic t, Item* r, int64_t asked, object callback, Delivery d) except -1:
    """`asked`: the partition given to `send`."""
    if (not t.direct and park(acc, t, r, callback, d)) or acc.append_or_raise(t, r, callback, d):
        return 1
    acc.append_anew(t.name, r, asked, callback, d)
    return 1
