# Keeps topics, and parks records whose partitions are not known yet. Invariant: no record overtakes a parked record of its topic. `send`
# waits for metadata only if a function of the application chooses the partition, or an explicit partition does not exist in the metadata.


cdef enum:
    PARKING = -2                   # the partition of a topic's placeholder batch for parked records
    UNDECIDED = -1


@cython.final
@cython.no_gc
cdef class Parked:
    cdef Delivery delivery
    cdef bytes key, value, headers
    cdef int64_t partition, timestamp, size
    cdef double created
    cdef object callback
    cdef list extras


@cython.final
cdef class Topic:
    cdef str name
    cdef int count                 # partitions; 0 while unknown
    cdef int slots                 # the highest number of partitions so far: the size of `open`, `held` and `last_was_full`
    cdef bint direct               # partitions are known and nothing is parked: records go straight into batches
    cdef bint announced            # the loop knows the topic, and will move or fail the records parked here
    cdef bint dropped              # removed from the accumulator's topics: a `send` that found it earlier looks up its name again
    cdef list open                 # per partition: Batch or None
    cdef int64_t* held             # per partition: bytes reserved
    cdef char* last_was_full       # per partition: set by a full batch (the next batch may start large), cleared by one less than half full
    cdef int* available            # partitions with a leader; all, if none has one
    cdef int available_count, cursor
    cdef char* online              # per partition: whether it is available
    cdef object available_tuple    # `available`, for a function of the application
    cdef uint64_t random_state     # state of the random number generator
    cdef int sticky                # the current partition of records that may go to any partition
    cdef int64_t sticky_bytes      # bytes of batches closed for the sticky partition since it became the sticky one
    cdef object parked             # deque of Parked
    cdef int64_t parked_first      # running number of the oldest parked record
    cdef int64_t parked_bytes
    cdef int64_t moved_bytes       # bytes of records moved from `parked` to their partitions; 0 once `parked` is empty
    cdef Batch placeholder         # the batch to which handles of parked records refer
    cdef Topic late                # None, or the Topic of the batches without a partition, if the spread of the partitioner is LATE
    cdef bint undesignated         # this is the `late` of another Topic: it has one slot, and its batches have no partition
    cdef LingerList linger_list    # the open batches with the same linger
    cdef int codec
    cdef object level
    cdef int64_t compression_min   # bytes below which records are not compressed
    cdef double compression_ratio  # share of the bytes: if more are left after compression, the batch is sent uncompressed
    cdef bint limited              # whether one of the next two fields is set
    cdef int64_t batch_bytes       # bytes of keys and values at which a batch is sealed
    cdef int32_t batch_records     # number of records at which a batch is sealed
    cdef int32_t capacity          # bytes up to which a batch grows; a larger record has a batch of its own
    cdef int64_t max_message_bytes  # the limit of its policy; 0: no such limit
    cdef int64_t max_record
    cdef str max_record_option     # the option that sets `max_record`
    cdef object admit              # None, or the function that admits records

    def __dealloc__(self):
        free(self.held)
        free(self.last_was_full)
        free(self.available)
        free(self.online)

    cdef inline bint stays_plain(self, int32_t raw) noexcept:
        return self.codec == 0 or raw - HEADER < self.compression_min

    cdef int widen(self, int slots) except -1:
        cdef int64_t* held
        cdef char* last_was_full
        cdef int i
        if slots <= self.slots:
            return 0
        held = <int64_t*>realloc(self.held, slots * sizeof(int64_t))
        if held != NULL:
            self.held = held
        last_was_full = <char*>realloc(self.last_was_full, slots)
        if last_was_full != NULL:
            self.last_was_full = last_was_full
        if held == NULL or last_was_full == NULL:
            raise MemoryError
        for i in range(self.slots, slots):
            held[i] = 0
            last_was_full[i] = 0
            self.open.append(None)
        self.slots = slots
        return 0


cdef Topic topic_named(Accumulator acc, str name):
    """Create the Topic `name` unless it exists. If two threads create it, `setdefault` returns the same one to both."""
    cdef Topic t = Topic.__new__(Topic)
    cdef Batch placeholder = Batch.__new__(Batch)
    t.name = name
    t.open = []
    t.parked = deque()
    store_policy(acc, t, acc.policy(name))
    t.placeholder = placeholder
    placeholder.topic = name
    placeholder.partition = PARKING
    placeholder.acc = acc
    placeholder.home = t
    placeholder.hooks = acc.hooks
    return acc.topics.setdefault(name, t)


cdef int set_partitions(Accumulator acc, str topic, int count, object available) except -1:
    cdef Topic t = acc.topics.get(topic)
    cdef list chosen = [p for p in available if 0 <= p < count] or list(range(count))
    cdef tuple available_tuple = tuple(chosen)
    cdef int* copy
    cdef char* online
    cdef int i
    if t is None:
        t = topic_named(acc, topic)
    if count <= 0:
        return 0
    if acc.spread == LATE and t.late is None:
        t.late = late_topic(acc, t)
    t.widen(count)
    copy = <int*>malloc(len(chosen) * sizeof(int))
    online = <char*>calloc(count, 1)
    if copy == NULL or online == NULL:
        free(copy)
        free(online)
        raise MemoryError
    for i in range(<int>len(chosen)):
        copy[i] = chosen[i]
        online[copy[i]] = 1
    if t.count == 0:           # a seeded start: otherwise every producer would begin with partition 0
        t.cursor = <int>(acc.seed % len(chosen))
        t.random_state = <uint64_t>acc.seed + 1
        acc.seed = (acc.seed * 1103515245 + 12345) & 0x7fffffff
    free(t.available)
    free(t.online)
    t.available = copy
    t.online = online
    t.available_tuple = available_tuple
    t.available_count = <int>len(chosen)
    if t.count == 0 or t.sticky not in chosen:
        t.cursor %= t.available_count
        t.sticky = copy[t.cursor]
        t.sticky_bytes = 0
    t.count = count
    t.direct = not t.parked
    return 0


cdef bint forget(Accumulator acc, str topic) except -1:
    cdef Topic t = acc.topics.get(topic)
    cdef int i
    if t is None or t.parked:
        return False
    for i in range(t.slots):
        if t.held[i]:
            return False
    if t.late is not None:
        if t.late.held[0]:
            return False
        t.late.dropped = True
    del acc.topics[topic]
    t.dropped = True
    acc.used_up += 1
    acc.drops.pop(topic, None)     # `fresh_drops` still has the dropped records that `take_dropped` has not returned
    acc.last_dropped = None
    if acc.last_topic is t:
        acc.last_name = NO_TOPIC
        acc.last_topic = None
    if not acc.topics:
        acc.trim(acc.buffer_memory)
    return True


cdef object parked_record(str topic, Parked p):
    cdef const char* at
    cdef const char* end
    cdef const char* wrong = NULL
    cdef int64_t count = 0
    headers = NO_HEADERS
    if p.headers is not None:
        at = PyBytes_AS_STRING(p.headers)
        end = at + PyBytes_GET_SIZE(p.headers)
        at = get_varint(at, end, &count)
        headers = read_headers(at, end, count, &wrong)
    return ProducerRecord(topic, p.value, p.key, headers, p.partition if p.partition >= 0 else None, p.timestamp, Written.NO)


cdef bint must_queue(Accumulator acc, Topic t, Item* r) except -1:
    """Whether waiting threads come before `r`: not if `r` has waited or was parked, or if all of them wait for other partitions."""
    cdef frozenset full = acc.full_partitions  # read once: the tuple below may run the garbage collector, and thus any Python code
    if acc.waiters == 0 or r.asked or r.forced:
        return False
    return full is None or (t.name, decided(r)) in full


cdef int park(Accumulator acc, Topic t, Item* r, object callback, Delivery d) except -1:
    """Keep `r` until the partitions of its topic are known, or drop `r`; return 0 if they became known meanwhile.

    If `t` was dropped meanwhile, `r` goes to the current Topic of the same name.
    """
    cdef int64_t size = alone_size(r)
    cdef Parked p
    cdef bint queues
    if acc.function is not None and r.partition < 0:
        await_topic(acc, t, r)
        if t.dropped:
            acc.append_anew(t.name, r, r.partition, callback, d)
        return t.dropped
    if size > t.max_record:
        acc.too_large(t, size)
    size += PARKED_COST
    p = Parked.__new__(Parked)
    p.key = None if r.key_size < 0 else PyBytes_FromStringAndSize(r.key, r.key_size)
    p.value = None if r.value_size < 0 else PyBytes_FromStringAndSize(r.value, r.value_size)
    p.headers = None if r.headers_size == 1 else PyBytes_FromStringAndSize(r.headers, r.headers_size)
    p.partition = r.partition
    p.timestamp = r.timestamp
    p.size = size
    p.callback = callback
    p.delivery = d
    while True:
        if not t.announced:
            acc.new_topic(t.name)
            t.announced = True
        p.created = acc.clock()
        queues = must_queue(acc, t, r)
        # From here to the return no Python code runs, so other threads wait, unless there is no room.
        if acc.refusal is not None:
            acc.refuse()
        if t.direct:
            return 0
        if t.dropped:
            acc.append_anew(t.name, r, r.partition, callback, d)
            return 1
        if not t.announced:
            continue
        if not queues and acc.room(t.name, UNDECIDED, size):
            break
        if acc.drop_error is not None:
            acc.speed_up(size)
            return drop(acc, t, r, "BUFFER_FULL", acc.drop_error, callback, d)
        r.deadline = acc.make_room(t.name, UNDECIDED if r.partition < 0 else r.partition, size, r.deadline)
        r.asked = True
    t.parked.append(p)
    d.batch = t.placeholder
    d.index = <int32_t>((t.parked_first + len(t.parked) - 1) & 0x7fffffff)
    t.parked_bytes += size
    acc.trim(size)
    acc.reserved += size
    acc.parked_records += 1
    acc.accepted += 1
    return 1


cdef Parked unpark(Accumulator acc, Topic t):
    cdef Parked p = t.parked.popleft()
    t.parked_first += 1
    t.parked_bytes -= p.size
    acc.reserved -= p.size
    acc.parked_records -= 1
    acc.unparked += 1
    if not t.parked:
        t.moved_bytes = 0
        t.announced = False
        acc.used_up += 1
        t.direct = t.count > 0
        if acc.waiters > 0:        # a thread that waits since before may need the room of these records: it must not wait for their linger
            acc.flushing = True
    return p


cdef int follow_parked(Accumulator acc, Topic t, Delivery d, object pair, list pairs) except -1:
    cdef Parked p = t.parked[(d.index - t.parked_first) & 0x7fffffff]
    if p.extras is None:
        p.extras = pairs
    p.extras.append(pair)
    return 0


cdef tuple designate(Accumulator acc, str topic, int limit, bint patient):
    cdef Topic t = acc.topics.get(topic)
    cdef Parked p
    cdef Batch lost
    cdef Settlement settlement
    cdef list misplaced = []
    acc.lost_first = acc.lost_last = -1
    if t is None:
        return 0, misplaced
    while limit > 0 and t.parked and t.count > 0:
        limit -= 1
        p = <Parked>t.parked[0]
        if p.partition >= t.count and patient and not acc.partition_argument:
            break
        if p.partition >= t.count and not acc.partition_argument:
            error = ValueError(f"{topic}: partition={p.partition}, but the highest partition of the topic is {t.count - 1}")
            lost = failed_batch(acc, t, "UNKNOWN_TOPIC_OR_PARTITION", error)
            settlement = Settlement.__new__(Settlement)
            fail_oldest(acc, t, lost)
            misplaced.append((lost.code, error, lost.conclude(settlement)))
        else:
            place(acc, t, p)
    acc.wake_owed = acc.waiters > 0
    acc.nudge()
    return len(t.parked), misplaced


cdef int place(Accumulator acc, Topic t, Parked p) except -1:
    """Move `p`, the oldest parked record of `t`, into a batch. Its bytes are already reserved, so `p` needs no room.

    `p` leaves `t.parked` last: until then `t` is not `direct`, so no later record of the topic can overtake it.
    """
    cdef Item r
    _span(t.name, "value", p.value, &r.value, &r.value_size)
    _span(t.name, "key", p.key, &r.key, &r.key_size)
    r.headers = ZERO_HEADERS
    r.headers_size = 1
    if p.headers is not None:
        r.headers = PyBytes_AS_STRING(p.headers)
        r.headers_size = PyBytes_GET_SIZE(p.headers)
    r.partition = p.partition
    r.timestamp = p.timestamp
    r.sent_at = p.created
    r.free = r.turning = r.asked = r.news = r.overflows = False
    r.forced = True
    r.deadline = INFINITY
    acc.reserved -= p.size
    t.parked_bytes -= p.size
    t.moved_bytes += p.size
    p.size = 0
    acc.append(t, &r, p.callback, p.delivery)
    if p.extras is not None:
        if p.delivery.batch.extras is None:
            p.delivery.batch.extras = p.extras
        else:
            p.delivery.batch.extras.extend(p.extras)
    unpark(acc, t)
    return 0


cdef tuple fail_parked(Accumulator acc, str topic, object error, double before):
    cdef Topic t = acc.topics.get(topic)
    cdef Batch lost
    cdef Settlement settlement = Settlement.__new__(Settlement)
    acc.lost_first = acc.lost_last = -1
    if t is None or not t.parked or (<Parked>t.parked[0]).created > before:
        return 0, None
    lost = failed_batch(acc, t, short_name(error), error)
    while t.parked and (<Parked>t.parked[0]).created <= before:
        fail_oldest(acc, t, lost)
    acc.wake_owed = acc.waiters > 0
    callbacks = lost.conclude(settlement)
    return lost.count, callbacks


cdef Batch failed_batch(Accumulator acc, Topic t, str code, object error):
    """A failed batch without bytes, for parked records that will not get a partition."""
    cdef Batch b = Batch.__new__(Batch)
    b.acc = acc
    b.home = t
    b.hooks = acc.hooks
    b.topic = t.name
    b.partition = UNDECIDED
    b.state = S_SEALED
    b.kept = []
    b.extras = []
    b.code = code
    b.cause = fresh(error)
    b.outcome_written = Written.NO
    b.failed_before = acc.failed
    acc.batches += 1
    acc.live.add(b)
    if acc.watch is not None:
        acc.watch(b)               # before the outcome, so that callbacks which `watch` adds belong to this batch
    b.state = S_FAILED
    return b


cdef int fail_oldest(Accumulator acc, Topic t, Batch b) except -1:
    """Move the oldest parked record of `t` into the failed batch `b`."""
    cdef Parked p = <Parked>t.parked[0]
    cdef object pair = (p.delivery, p.callback)
    (<list>b.kept).append(parked_record(t.name, p))
    acc.lost_first = p.timestamp if acc.lost_first < 0 else min(acc.lost_first, p.timestamp)
    acc.lost_last = max(acc.lost_last, p.timestamp)
    # No other thread may see the handle between its two places: from here on nothing that the garbage collector tracks is allocated.
    unpark(acc, t)
    p.delivery.batch = b
    p.delivery.index = b.count
    b.count += 1
    acc.failed += 1
    if p.callback is not None:
        b.extras.append(pair)
    if p.extras is not None:
        b.extras.extend(p.extras)
    return 0


cdef tuple census(Accumulator acc):
    """Read the numbers for `Accumulator.census`. Between the last list and the last number no Python code runs."""
    cdef list topics, live
    cdef int32_t* counts
    cdef Py_ssize_t i, n, m
    cdef int64_t accepted
    cdef Batch b
    while True:
        topics = list(acc.topics.values())
        live = list(acc.live)
        if len(topics) == len(acc.topics):  # otherwise a destructor has sent to a new topic
            break
    n, m = len(live), len(topics)
    counts = <int32_t*>malloc((n + m + 1) * sizeof(int32_t))
    if counts == NULL:
        raise MemoryError
    try:
        accepted = acc.accepted
        for i in range(n):
            b = <Batch>PyList_GET_ITEM(live, i)
            counts[i] = b.count if b.state <= S_SEALED else 0
        for i in range(m):
            counts[n + i] = <int32_t>len((<Topic>PyList_GET_ITEM(topics, i)).parked)
        return (
            accepted,
            [(live[i], counts[i], bool((<Batch>live[i]).in_flight)) for i in range(n) if counts[i] > 0],
            [((<Topic>topics[i]).name, counts[n + i]) for i in range(m) if counts[n + i] > 0],
        )
    finally:
        free(counts)
