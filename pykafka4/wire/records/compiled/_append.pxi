# Accepts records into batches and accounts for their memory. Invariant: a record is counted at the moment when it is written or parked.

@cython.final
cdef class Accumulator:
    """The buffer between `send`, which adds records, and the loop, which takes batches. `reference.Accumulator` and its
    parts describe arguments and methods."""

    cdef dict topics
    cdef object last_name          # the topic of the last send, and its Topic: most sends repeat the topic
    cdef Topic last_topic
    cdef list sealed
    cdef set live                  # batches not settled yet
    cdef Block* pool[MOST_POOLED_BLOCKS]
    cdef int pooled, pool_limit
    cdef int32_t batch_size
    cdef int64_t buffer_memory, max_partition_bytes, max_request_size, asked_request_size
    cdef bint flushing, wake_owed    # wake_owed: memory has become free while a thread waits for it, and the loop has not been woken yet
    cdef list linger_lists         # LingerLists: the open batches whose linger runs
    cdef Hooks hooks
    cdef object policy, compressor, clock, waker, new_topic, make_room, wall, find_partition, find_topic
    cdef object function           # the application's function that chooses partitions, or None
    cdef bint unusual, adaptive    # unusual: partitions are not chosen by the default rules
    cdef int hash, spread, partition_argument
    cdef int64_t least_key
    cdef int64_t seed
    cdef public object refusal
    cdef public bint transactional  # batches get the transactional bit; this is set before the first batch is finished
    cdef public bint can_send
    cdef public double wake_at
    cdef public int waiters
    cdef public frozenset full_partitions  # the partitions that threads wait for; None if a thread waits for memory
    cdef readonly int64_t accepted, acked, failed, dropped, parked_records, reserved, batches
    cdef public bint defers        # the loop or a helper compresses batches that `designate` fills; until then they are sealed, not `ready`
    cdef public object watch       # None, or a function for each batch of parked records that is about to fail
    cdef dict drops                # topic: reason: partition or -1: Dropped
    cdef list fresh_drops          # list of Dropped with records that `take_dropped` has not returned yet
    cdef object limits             # for on_full=raise: the beginning of the error's message
    cdef bint impatient            # on_full=raise or drop
    cdef Dropped last_dropped
    cdef object drop_error         # for on_full=drop: the reason in the Delivery of a dropped record
    cdef object call_dropped
    cdef int64_t unparked          # number of records unparked so far
    cdef int64_t lost_first, lost_last  # see `_plain_parking.Parking.lost_times`
    cdef int64_t used_up           # number of ended announcements: the parked records were moved or failed, or the topic was dropped
    cdef int64_t owed              # bytes of `reserved` whose blocks are free already, while callbacks of their batches still have to run

    def __cinit__(
        self,
        *,
        int batch_size,
        double linger=0.0,
        int64_t buffer_memory,
        int64_t max_partition_bytes,
        int64_t max_request_size,
        int codec=0,
        compress=None,
        policy=None,
        clock,
        wake,
        new_topic,
        make_room,
        wait,
        submit,
        lock=None,
        awaiting=None,
        failure_seen=None,
        wall=None,
        seed=None,
        find_partition=None,
        find_topic=None,
        partitioner=None,
        client_id="pykafka4",
        limits=None,
        drop_error=None,
        call_dropped=None,
    ):
        if batch_size < HEADER + LEAST_RECORD:
            raise ValueError(f"batch_size={batch_size} is too small for a record")
        if compress is None and (codec or policy is not None):
            raise ValueError("codec and policy need a compress function")
        self.last_name = NO_TOPIC
        self.topics = {}
        self.sealed = []
        self.live = set()
        self.batch_size = <int32_t>min(batch_size, max_request_size)
        self.pool_limit = <int>max(1, min(MOST_POOLED_BLOCKS, buffer_memory // 4 // self.batch_size))
        self.buffer_memory = buffer_memory
        self.max_partition_bytes = max_partition_bytes
        # The overhead of a parked record must also fit into buffer_memory: otherwise `send` could wait for room that never becomes free.
        self.max_request_size = min(max_request_size, buffer_memory - PARKED_COST)
        self.asked_request_size = max_request_size
        alike = Policy(linger, codec)
        self.policy = policy if policy is not None else lambda topic: alike
        self.linger_lists = []
        self.compressor = compress
        self.clock = clock
        self.waker = wake
        self.new_topic = new_topic
        self.make_room = make_room
        self.wall = wall
        self.find_partition = find_partition
        self.find_topic = find_topic
        self.drops = {}
        self.fresh_drops = []
        self.limits = limits
        self.impatient = limits is not None or drop_error is not None
        self.drop_error = drop_error
        self.call_dropped = call_dropped
        self.hooks = Hooks.__new__(Hooks)
        self.hooks.wait = wait
        self.hooks.submit = submit
        self.hooks.awaiting = awaiting
        self.hooks.failure_seen = failure_seen
        self.hooks.client_id = client_id
        self.wake_at = INFINITY
        self.lost_first = self.lost_last = -1
        self.seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed & 0x7fffffff
        if partitioner is not None:
            self.hash, self.least_key, self.spread = partitioner.hash, partitioner.least_key, partitioner.spread
            self.partition_argument = partitioner.partition_argument
            self.adaptive, self.function = partitioner.adaptive, partitioner.function
            self.unusual = (self.hash, self.least_key, self.spread) != (MURMUR2, 0, STICKY)
            self.unusual |= self.partition_argument != 0 or self.function is not None

    def __dealloc__(self):
        while self.pooled:
            self.pooled -= 1
            free(self.pool[self.pooled])

    # ------------------------------------------------------------ memory and its account

    cdef Block* obtain(self, int32_t cap) except NULL:
        cdef Block* block
        if cap == self.batch_size and self.pooled:
            self.pooled -= 1
            block = self.pool[self.pooled]
        else:
            self.trim(cap)
            block = <Block*>malloc(BLOCK_HEAD + <size_t>cap)
            if block == NULL:
                raise MemoryError
        block.refs = 1
        block.cap = cap
        return block

    cdef void trim(self, int64_t size) noexcept:
        """Free pooled blocks while the memory in use and in the pool leaves less than `size` bytes of buffer_memory."""
        while self.pooled and self.allocated() + size > self.buffer_memory:
            self.pooled -= 1
            free(self.pool[self.pooled])

    cdef inline int64_t allocated(self) noexcept:
        """Memory in use or in the pool, without bytes that are only reserved until callbacks have returned."""
        return self.reserved - self.owed + <int64_t>self.pooled * self.batch_size

    @property
    def spare_bytes(self) -> int:
        """Memory of pooled blocks: not reserved, but also part of buffer_memory."""
        return <int64_t>self.pooled * self.batch_size

    cdef void recycle(self, Block* block) noexcept:
        """Keep `block`, which is still reserved, for a later batch, or free it."""
        if block.cap == self.batch_size and self.pooled < self.pool_limit and self.allocated() <= self.buffer_memory:
            self.pool[self.pooled] = block
            self.pooled += 1
        else:
            free(block)

    cdef inline void reserve(self, Topic t, int partition, int64_t size) noexcept:
        self.reserved += size
        t.held[partition] += size

    cdef void unreserve(self, Topic t, int partition, int64_t size) noexcept:
        self.reserved -= size
        t.held[partition] -= size
        if self.waiters > 0:
            self.wake_owed = True

    cdef void nudge(self) noexcept:
        """Wake the loop if memory has become free while threads wait for it; the loop wakes these threads.

        For callers that cannot raise: a pending exception is saved, then restored.
        """
        cdef PyObject* kind
        cdef PyObject* error
        cdef PyObject* trace
        if self.wake_owed:
            self.wake_owed = False
            PyErr_Fetch(&kind, &error, &trace)
            try:
                self.waker()
            except KeyboardInterrupt:
                PyErr_SetInterrupt()   # Ctrl-C is raised again, by the next code that can raise it
            except BaseException:
                _log.exception("%s: could not wake the loop", self.hooks.client_id)
            PyErr_Restore(kind, error, trace)

    cdef int wake(self) except -1:
        self.wake_owed = False
        try:
            self.waker()
        except BaseException:      # a signal handler has raised it, perhaps before the loop was woken: no other code would wake the loop
            self.waker()
            raise
        return 0

    cdef inline bint fits(self, Topic t, int partition, int64_t size):
        return self.reserved + size <= self.buffer_memory and (
            t.held[partition] == 0 or t.held[partition] + size <= self.max_partition_bytes
        )

    cdef inline bint partition_fits(self, Topic t, int partition, int64_t size) noexcept:
        return t.held[partition] == 0 or t.held[partition] + size <= self.max_partition_bytes

    def room(self, topic, int64_t partition, int64_t nbytes) -> bool:
        return self.reserved + nbytes <= self.buffer_memory and not self.crowded(topic, partition, nbytes)

    def crowded(self, topic, int64_t partition, int64_t nbytes) -> bool:
        cdef Topic t = self.topics.get(exact_name(topic))
        cdef int i
        if t is None:
            return False
        if not t.direct:
            # Records that have moved to their partitions are also counted until nothing is parked. Otherwise each of them would make room
            # for another parked record, and a full partition would take them all, because `designate` does not check for room.
            return t.parked_bytes + t.moved_bytes > 0 and t.parked_bytes + t.moved_bytes + nbytes > self.max_partition_bytes
        if partition >= 0:         # no wait for a partition that does not exist: `send` rejects the record
            return partition < t.slots and not self.partition_fits(t, <int>partition, nbytes)
        if t.late is not None:
            t = t.late
        for i in range(t.available_count):
            if self.partition_fits(t, t.available[i], nbytes):
                return False
        return True

    cdef int wait_for_room(self, Topic t, Item* r, int64_t size) except -1:
        """Wait for room, in Python code that releases the GIL: afterwards everything may have changed.

        With on_full=drop or on_full=raise, set `overflows` of `r` instead.
        """
        if self.impatient:
            r.overflows = True
            r.lacking = size
            self.speed_up(size)
            return 0
        r.deadline = self.make_room(t.name, decided(r), size, r.deadline)
        r.asked = True
        if r.turning:
            r.partition = UNDECIDED  # it is chosen again: another partition may have room
        return 0

    def hurry(self, int64_t size) -> None:
        self.speed_up(size)

    cdef int speed_up(self, int64_t size) except -1:
        """Do the work of `hurry`, without a Python call per refused or dropped record."""
        if self.reserved + size > self.buffer_memory and not self.flushing:
            self.flushing = True
            if self.can_send:      # otherwise the loop looks for batches soon anyway
                self.wake()
        return 0

    def take_dropped(self) -> list:
        return take_dropped(self)

    # ------------------------------------------------------------ open batches

    cdef void introduce(self, Batch b, Topic t, int partition, double created, Block* block):
        b.acc = self
        b.home = t
        b.hooks = self.hooks
        b.topic = t.name
        b.slot = partition
        b.partition = UNDECIDED if t.undesignated else partition
        b.created = created
        b.linger = t.linger_list.linger
        b.used = HEADER
        try:
            self.live.add(b)
        except MemoryError:
            free(block)
            raise
        b.adopt(block)
        self.batches += 1

    cdef void detach(self, Batch b) noexcept:
        cdef Topic t = b.home
        t.linger_list.unlink(b)
        t.open[b.slot] = None
        b.raw = b.used
        b._ready = t.stays_plain(b.raw)
        if b.slot == t.sticky:
            t.sticky_bytes += b.used

    cdef void discard(self, Batch b) noexcept:
        """Remove `b` if it was opened for a record that cannot be written: a flush would wait for an empty batch, which is never sent."""
        if b.count == 0:
            self.detach(b)
            b.unbook()

    cdef int close_batch(self, Batch b, bint taken) except -1:
        """Seal `b`; nothing here runs Python code."""
        if not taken:
            self.sealed.append(b)
        self.detach(b)
        b.state = S_SEALED
        return 0

    cdef int too_large(self, Topic t, int64_t size) except -1:
        raise RecordTooLarge(
            f"{t.name}: a record of {size} bytes (overhead included) exceeds {t.max_record_option}={t.max_record}; raise that or split the record"
        )

    cdef int32_t start_size(self, Topic t, int partition, int64_t need, int64_t more, bint asked):
        """The initial capacity of a batch, with which the limits still allow `more` bytes; 0 if there is no room.

        The batch of a busy partition starts large if there is plenty of memory, or, for a thread that has waited, if the limits allow it.
        Otherwise such a thread would reserve small pieces again and again, and its batches would stay small.
        """
        cdef int64_t cap = FIRST_BLOCK_BYTES
        if need > t.capacity:
            return <int32_t>need if self.fits(t, partition, need + more) else 0
        if t.last_was_full[partition] and self.fits(t, partition, t.capacity + more):
            if asked or self.reserved + t.capacity <= self.buffer_memory // 2:
                return t.capacity
        while cap < need:
            cap *= 2
        cap = min(cap, t.capacity)
        if self.fits(t, partition, cap + more):
            return <int32_t>cap
        return <int32_t>need if self.fits(t, partition, need + more) else 0

    cdef int start(self, Topic t, Item* r, int partition, object callback) except -1:
        """Open a batch for `r`, or wait for room. The caller must check everything again."""
        cdef Batch b
        cdef list callbacks
        cdef int32_t cap
        cdef int i
        cdef int64_t need = alone_size(r)
        cdef int64_t more = 0 if callback is None else CALLBACK_COST
        cdef double now
        cdef bint queues
        if need > t.max_record and not r.forced:
            self.too_large(t, need)
        # Before clock and allocations: in an overload most records end here, and the time is needed to send the accepted records.
        if self.impatient and not r.forced and not t.dropped and PyList_GET_ITEM(t.open, partition) == <PyObject*>None:
            if self.reserved + need + more > self.buffer_memory or not (r.free or self.partition_fits(t, partition, need + more)):
                return self.wait_for_room(t, r, need + more)
        now = self.clock()
        queues = must_queue(self, t, r)
        b = Batch.__new__(Batch)
        callbacks = [] if callback is not None else None
        # From here until `append` has written the record no Python code runs, so other threads wait, unless there is no room.
        if self.refusal is not None and not r.forced:
            self.refuse()
        if t.dropped:
            return 0
        if r.free:
            if t.sticky_bytes >= self.batch_size:
                rotate(t, self.adaptive * self.batch_size)
            for i in range(t.available_count):
                if self.partition_fits(t, t.sticky, need + more):
                    break
                next_sticky(t)
            partition = t.sticky
        if PyList_GET_ITEM(t.open, partition) != <PyObject*>None:
            return 0
        cap = 0 if queues else self.start_size(t, partition, need, more, r.asked)
        if cap == 0:
            if not r.forced:
                return self.wait_for_room(t, r, need + more)
            cap = <int32_t>need
        self.introduce(b, t, partition, now, self.obtain(cap))
        b.callbacks = callbacks
        b.sent_at = r.sent_at if r.forced else now
        t.open[partition] = b
        t.linger_list.link(b)
        if now + b.linger < self.wake_at:
            self.wake_at = now + b.linger
            r.news = True
        return 0

    cdef int enlarge(self, Topic t, Batch b, Item* r, int64_t total) except -1:
        """Enlarge or seal `b`, which has no room for `r`, or wait for room. The caller must check everything again."""
        cdef int64_t need = b.used + total
        cdef int64_t cap = b.cap
        if alone_size(r) > t.max_record and not r.forced:
            self.too_large(t, alone_size(r))
        if need <= t.capacity:
            while cap < need:
                cap *= 2
            cap = min(cap, t.capacity)
            if self.fits(t, b.slot, cap - b.cap):  # even ahead of waiting threads: once the batch is full, this thread also waits
                return self.grow(t, b, <int32_t>cap)
        if r.forced and (need <= t.capacity or b.count == 0):
            return self.grow(t, b, <int32_t>need)
        if b.count == 0:           # another thread opened it for a smaller record and has not written that record yet
            if self.fits(t, b.slot, need - b.cap):
                return self.grow(t, b, <int32_t>need)
            return self.wait_for_room(t, r, need - b.cap)
        return self.fill(t, b, r, need > t.capacity)

    cdef int grow(self, Topic t, Batch b, int32_t cap) except -1:
        cdef Block* block = self.obtain(cap)
        memcpy(bytes_of(block), b.buf, b.used)
        b.swap(block)
        return 0

    cdef int fill(self, Topic t, Batch b, Item* r, bint full) except -1:
        """Seal `b`, which has no room for `r`, or is complete with `r`."""
        self.close_batch(b, False)
        if full:
            t.last_was_full[b.slot] = 1
        elif t.limited and b.used * 2 < t.capacity:
            t.last_was_full[b.slot] = 0
        if r.free and b.slot == t.sticky:
            rotate(t, self.adaptive * self.batch_size)
        if not b._ready:
            if not (r.forced and self.defers):
                b.compress()
        elif self.can_send:
            self.wake()
        return 0

    # ------------------------------------------------------------ records

    cdef int choose(self, Topic t, Item* r) except -1:
        """Choose the partition of `r`, or set `free` if any partition is allowed."""
        if self.unusual and choose_otherwise(self, t, r):
            return 0
        if r.partition >= 0:
            if r.partition >= t.count:
                find_partition(self, t, r)
        elif r.key_size >= 0:
            r.partition = (murmur2_hash(r.key, r.key_size) & 0x7fffffff) % t.count
        else:
            r.free = True
        return 0

    cdef int append(self, Topic t, Item* r, object callback, Delivery d) except -1:
        """Write or drop `r`, and bind `d`; return 0 if `t` was dropped meanwhile, REFUSED if `send` must raise BufferFull."""
        cdef Batch b
        cdef object found
        cdef int partition
        cdef int64_t body, total
        self.choose(t, r)
        if r.free and t.late is not None:
            t = t.late
        while True:
            # The code that sets `refusal` settles all earlier records, but would not see later ones.
            if self.refusal is not None and not r.forced:
                self.refuse()
            if r.partition < 0 and r.turning:
                self.choose(t, r)
            partition = t.sticky if r.free else <int>r.partition
            found = <object>PyList_GET_ITEM(t.open, partition)
            if found is None:
                if t.dropped:
                    return 0
                self.start(t, r, partition, callback)
                if r.overflows:
                    return REFUSED if self.drop_error is None else drop(self, t, r, "BUFFER_FULL", self.drop_error, callback, d)
                continue
            b = <Batch>found
            if callback is not None and b.callbacks is None:
                callbacks = []     # may run the garbage collector, and through it anything
                if b.callbacks is None:
                    b.callbacks = callbacks
            else:
                body = body_size(r, r.timestamp - b.base_timestamp if b.count else 0, b.count)
                total = varint_size(body) + body
                if b.used + total > b.cap:
                    self.enlarge(t, b, r, total)
                elif callback is None or b.count < b.metas or book_callbacks(self, t, b, r):
                    break
                else:
                    self.fill(t, b, r, False)
                if r.overflows:
                    return REFUSED if self.drop_error is None else drop(self, t, r, "BUFFER_FULL", self.drop_error, callback, d)
                if self.wake_owed:
                    r.news = True
            b = found = None       # before the next pass, because the release may run a destructor or let other threads run
        if callback is not None:
            try:
                store_callback(b, r, callback)
            except MemoryError:
                self.discard(b)
                raise
        put(b, r, body)
        d.batch = b
        d.index = b.count - 1
        if not r.forced:
            self.accepted += 1
        if t.limited:
            return self.complete(t, b, r)
        if r.news:
            self.wake()
        return 1

    cdef object no_room(self, Topic t, Item* r):
        return BufferFull(self.limits, self.reserved, t.name, decided(r), r.lacking)

    cdef int append_or_raise(self, Topic t, Item* r, object callback, Delivery d) except -1:
        cdef int done = self.append(t, r, callback, d)
        if done == REFUSED:
            raise self.no_room(t, r)
        return done

    cdef int complete(self, Topic t, Batch b, Item* r) except -1:
        try:
            if is_reached(t, b, r):
                self.fill(t, b, r, False)
        finally:
            if r.news:
                self.wake()
        return 1

    cdef int refuse(self) except -1:
        raise self.refusal.again()

    cdef Topic find(self, object topic):
        cdef str name = exact_name(topic)
        cdef PyObject* found = PyDict_GetItemWithError(self.topics, name)
        cdef Topic t = <Topic>found if found != NULL else self.meet(name)
        # The old `last_name` is an exact str or NO_TOPIC: its release runs no code of the application, which could call `send`.
        self.last_name = name
        self.last_topic = t
        return t

    cdef Topic meet(self, str name):
        """Announce the topic `name` to the loop; return its Topic."""
        cdef Topic t
        cdef int64_t before = self.used_up
        self.new_topic(name)
        t = topic_named(self, name)
        if before == self.used_up:  # otherwise the announcement may have ended, and `park` announces again: see `reference`
            t.announced = True
        return t

    @cython.binding(False)         # a builtin method, which CPython calls faster
    def send(self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None):
        """send($self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None)\n--\n\nAccept a record; return its `Delivery`. See `Producer.send`. `_refuse.h` raises a BufferFull that this method returns.
        """
        cdef Item r
        cdef int done
        cdef Topic t
        cdef Delivery d
        cdef object keep_value, keep_key, keep_headers = None
        if wanted: give_way()
        if self.refusal is not None:
            self.refuse()
        if topic is self.last_name:
            t = self.last_topic
        else:
            t = self.find(topic)
        keep_value = _span(t.name, "value", value, &r.value, &r.value_size)
        keep_key = _span(t.name, "key", key, &r.key, &r.key_size)
        r.headers = ZERO_HEADERS
        r.headers_size = 1
        if headers is not None:
            keep_headers = _header_bytes(t.name, headers)
            r.headers = PyBytes_AS_STRING(keep_headers)
            r.headers_size = PyBytes_GET_SIZE(keep_headers)
        if partition is None:
            r.partition = UNDECIDED
        else:
            r.partition = _integer(t.name, "partition", partition, 0xffffffff if self.partition_argument else 0x7fffffff)
        if timestamp_ms is not None:
            r.timestamp = _integer(t.name, "timestamp_ms", timestamp_ms, 0x7fffffffffffffff)
        else:
            r.timestamp = wall_ms() if self.wall is None else self.wall()
        if on_delivery is not None:
            check_callback(t.name, "on_delivery", on_delivery)
        r.free = r.turning = r.forced = r.asked = r.news = r.overflows = False
        r.deadline = INFINITY
        d = Delivery.__new__(Delivery)
        d.timestamp = r.timestamp
        d.key_size = <int32_t>r.key_size
        d.value_size = <int32_t>r.value_size
        if t.admit is not None:
            admitted(self, t, &r, on_delivery, d)
            return d
        if not t.direct and park(self, t, &r, on_delivery, d):
            return d
        done = self.append(t, &r, on_delivery, d)
        if done == 1:
            return d
        if done == REFUSED:
            return self.no_room(t, &r)
        self.append_anew(t.name, &r, UNDECIDED if partition is None else <int64_t>partition, on_delivery, d)
        return d

    def send_many(self, topic, values, *, keys=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None) -> list:
        return send_many(self, topic, values, keys, headers, partition, timestamp_ms, on_delivery)

    def send_rows(self, ArrowRows rows not None, SentRows sent=None, int64_t most=INT64_MAX) -> SentRows:
        return send_rows(self, rows, sent, most)

    def send_batch(self, topic, partition, bytes data not None) -> Batch:
        return send_batch(self, topic, partition, data)

    def drop_batch(self, topic, int32_t partition, bytes data not None, str code, cause) -> Batch:
        return drop_batch(self, exact_name(topic), partition, PyBytes_AS_STRING(checked_batch(data)), code, cause)

    cdef int append_anew(self, str name, Item* r, int64_t partition, object callback, Delivery d) except -1:
        """Append `r`, whose topic was dropped meanwhile, to the current Topic `name`; repeat if this Topic is also dropped."""
        cdef Topic t
        while True:
            t = self.find(name)
            r.partition = partition
            r.free = r.turning = False
            if (not t.direct and park(self, t, r, callback, d)) or self.append_or_raise(t, r, callback, d):
                return 0

    # ------------------------------------------------------------ records whose topic is not known yet

    def set_partitions(self, topic, int count, available) -> None:
        set_partitions(self, exact_name(topic), count, available)

    def designate(self, topic, int limit=1000, bint patient=False) -> tuple:
        return designate(self, exact_name(topic), limit, patient)

    def fail_parked(self, topic, error, double before=INFINITY) -> tuple:
        return fail_parked(self, exact_name(topic), error, before)

    @property
    def lost_times(self) -> tuple:
        return self.lost_first, self.lost_last

    def direct(self, topic) -> bool:
        cdef Topic t = self.topics.get(exact_name(topic))
        return t is not None and t.direct

    def parked(self, topic) -> tuple:
        cdef Topic t = self.topics.get(exact_name(topic))
        if t is None or not t.parked:
            return 0, 0.0
        return len(t.parked), (<Parked>t.parked[0]).created

    # ------------------------------------------------------------ the loop

    def take(self, double now, bint no_linger=False) -> tuple:
        """Work like `reference.Accumulator.take`, with two differences for batches that are not combined.

        A call that finds a batch whose linger has ended, or expects one now, also takes the batches whose linger ends within an eighth of
        that linger, so one turn of the loop takes all of them. If the oldest of these batches was opened within an eighth of the linger
        after the last such call, records come steadily. Then the next call is due at most one linger later, and opening the next batch does
        not wake the loop.
        """
        cdef list fresh = []
        cdef list due = []
        cdef list taken
        cdef LingerList linger_list
        cdef double again = INFINITY
        for linger_list in self.linger_lists:
            again = min(again, linger_list.take(now + linger_list.linger if no_linger else now, self.flushing, due))
        self.flushing = False
        self.wake_at = again
        taken = self.sealed
        self.sealed = fresh
        return [batch for batch in taken if (<Batch>batch).state == S_SEALED], due, self.wake_at

    def seal(self, Batch batch not None, bint taken=False) -> bool:
        cdef Topic home
        if batch.state != S_OPEN or batch.count == 0:
            return False
        if batch.acc is not self:
            raise ValueError(f"{batch!r} belongs to another accumulator")
        if batch.used * 2 < batch.home.capacity:
            (<Topic>batch.home).last_was_full[batch.slot] = 0
        self.close_batch(batch, taken)
        home = batch.home
        if home.available_count > 1 and batch.slot == home.sticky:
            rotate(home, self.adaptive * self.batch_size)
        return True

    def limit_batches(self, topic, int64_t size) -> None:
        cdef Topic t = self.topics.get(exact_name(topic))
        if t is not None and size > 0:
            for limited in (t, t.late):
                if limited is not None:
                    (<Topic>limited).capacity = <int32_t>min((<Topic>limited).capacity, size)

    def limit_records(self, topic, int64_t size) -> None:
        cdef Topic t = self.topics.get(exact_name(topic))
        if t is None or size < 0:
            return
        for limited in (t, t.late):
            if limited is not None:
                reset_limits(self, <Topic>limited)
                if size == 0:
                    continue
                if t.codec:
                    (<Topic>limited).capacity = <int32_t>min((<Topic>limited).capacity, size)
                else:
                    lower_limit(<Topic>limited, size, "max.message.bytes of the topic")

    def assign(self, Batch batch not None, int partition) -> None:
        assign(self, batch, partition)

    def expedite(self) -> None:
        self.flushing = True
        self.waker()

    def forget(self, str topic) -> bool:
        return forget(self, topic)

    def unfinished(self) -> list:
        cdef list out
        cdef int64_t before
        while True:
            before = self.unparked
            out = list(self.live)
            for t in list(self.topics.values()):
                out.extend([(<Parked>p).delivery for p in list((<Topic>t).parked)])
            # Otherwise `out` may lack a record that was unparked between the reads: parked at the first read, in a batch at the second.
            if before == self.unparked:
                return out

    def census(self) -> tuple:
        return census(self)
