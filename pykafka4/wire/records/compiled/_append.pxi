# The accumulator. Rule: a record is counted the moment it is written into a batch or parked.

@cython.final
cdef class Accumulator:
    """Where `send` adds records and the loop takes batches. See `reference.Accumulator` for the plain version."""

    cdef dict topics
    cdef object last_name          # the topic of the last send, and its Topic: most sends repeat it
    cdef Topic last_topic
    cdef list sealed
    cdef set live                  # batches not settled yet
    cdef Block* pool[POOL]
    cdef int pooled, pool_limit
    cdef int32_t batch_size
    cdef int64_t buffer_memory, max_partition_bytes, max_request_size, asked_request_size
    cdef double linger
    cdef int codec
    cdef bint flushing, wake_owed    # wake_owed: memory became free while a thread waits for it
    cdef void* oldest              # open batches whose linger runs, by age; borrowed from Topic.open
    cdef void* newest
    cdef Hooks hooks
    cdef object compressor, clock, waker, new_topic, make_room, wall, find_partition
    cdef int64_t seed
    cdef public object refusal
    cdef public bint can_send
    cdef public double wake_at
    cdef double taken_at           # when `take` last took batches whose linger had ended
    cdef double expected           # when it is to look for the next of them, if records come steadily
    cdef public int waiters
    cdef public frozenset full_partitions  # all that threads wait for; None if one waits for memory
    cdef readonly int64_t accepted, acked, failed, parked_records, reserved, batches
    cdef int64_t unparked          # how many records were ever unparked
    cdef int64_t used_up           # announcements that are void: their parked records were moved, or the topic was dropped
    cdef int64_t owed              # the part of `reserved` whose blocks are already free, as callbacks of their batches still have to run

    def __cinit__(
        self,
        *,
        int batch_size,
        double linger,
        int64_t buffer_memory,
        int64_t max_partition_bytes,
        int64_t max_request_size,
        int codec=0,
        compress=None,
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
        client_id="pykafka4",
    ):
        if batch_size < HEADER + LEAST_RECORD:
            raise ValueError(f"batch_size={batch_size} is too small for a record")
        if codec and compress is None:
            raise ValueError(f"codec={codec} needs a compress function")
        self.last_name = NO_TOPIC
        self.topics = {}
        self.sealed = []
        self.live = set()
        self.batch_size = <int32_t>min(batch_size, max_request_size)
        self.pool_limit = <int>max(1, min(POOL, buffer_memory // 4 // self.batch_size))
        self.linger = linger
        self.buffer_memory = buffer_memory
        self.max_partition_bytes = max_partition_bytes
        self.max_request_size = min(max_request_size, buffer_memory)
        self.asked_request_size = max_request_size
        self.codec = codec
        self.compressor = compress
        self.clock = clock
        self.waker = wake
        self.new_topic = new_topic
        self.make_room = make_room
        self.wall = wall
        self.find_partition = find_partition
        self.hooks = Hooks.__new__(Hooks)
        self.hooks.wait = wait
        self.hooks.submit = submit
        self.hooks.awaiting = awaiting
        self.hooks.failure_seen = failure_seen
        self.hooks.client_id = client_id
        self.wake_at = INFINITY
        self.taken_at = -INFINITY
        self.expected = INFINITY
        self.seed = int.from_bytes(os.urandom(4), "big") if seed is None else seed & 0x7fffffff

    def __dealloc__(self):
        while self.pooled:
            self.pooled -= 1
            free(self.pool[self.pooled])

    # ------------------------------------------------------------ memory and its account

    cdef Block* obtain(self, int32_t cap) except NULL:
        """A block of `cap` bytes, from the pool if possible."""
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
        """Free pooled blocks until they and the blocks in use leave `size` bytes of buffer_memory."""
        while self.pooled and self.allocated() + size > self.buffer_memory:
            self.pooled -= 1
            free(self.pool[self.pooled])

    cdef inline int64_t allocated(self) noexcept:
        """Memory in use or in the pool, without what is only reserved until callbacks have returned."""
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
        """Memory may have become free: wake the loop, which wakes waiting threads. For callers that cannot raise an exception.

        May run while an exception is on its way.
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
                PyErr_SetInterrupt()   # interrupted here: interrupt again where the exception can be raised
            except BaseException:
                _log.exception("%s: could not wake the loop", self.hooks.client_id)
            PyErr_Restore(kind, error, trace)

    cdef int wake(self) except -1:
        self.wake_owed = False
        try:
            self.waker()
        except BaseException:      # from a signal handler, perhaps before the loop was woken
            self.waker()
            raise
        return 0

    cdef inline bint fits(self, Topic t, int partition, int64_t size):
        """Whether the limits allow `size` more bytes; an empty partition may always have one batch."""
        return self.reserved + size <= self.buffer_memory and (
            t.held[partition] == 0 or t.held[partition] + size <= self.max_partition_bytes
        )

    cdef bint partition_fits(self, Topic t, int partition, int64_t size):
        return t.held[partition] == 0 or t.held[partition] + size <= self.max_partition_bytes

    def room(self, topic, int partition, int64_t nbytes) -> bool:
        """Whether there is room now for a record that called `make_room` with these arguments."""
        return self.reserved + nbytes <= self.buffer_memory and not self.crowded(topic, partition, nbytes)

    def crowded(self, topic, int partition, int64_t nbytes) -> bool:
        """Whether only `max_partition_bytes` blocks a record that called `make_room` with these arguments, however much memory is free."""
        cdef Topic t = self.topics.get(exact_name(topic))
        cdef int i
        if t is None:
            return False
        if not t.direct:
            # What has moved counts too, until nothing is parked: else a full partition would take as much as passes through here.
            return t.parked_bytes + t.moved_bytes > 0 and t.parked_bytes + t.moved_bytes + nbytes > self.max_partition_bytes
        if partition >= 0:         # one that does not exist has room: `send` rejects it
            return partition < t.slots and not self.partition_fits(t, partition, nbytes)
        for i in range(t.available_count):
            if self.partition_fits(t, t.available[i], nbytes):
                return False
        return True

    cdef int wait_for_room(self, Topic t, Item* r, int64_t size) except -1:
        """Wait for room, in Python and without the GIL: everything may have changed afterwards."""
        r.deadline = self.make_room(t.name, UNDECIDED if r.free else r.partition, size, r.deadline)
        r.asked = True
        return 0

    # ------------------------------------------------------------ open batches

    cdef void introduce(self, Batch b, Topic t, int partition, double created, Block* block):
        """Account for `b`, a new batch in `block`."""
        b.acc = self
        b.home = t
        b.hooks = self.hooks
        b.topic = t.name
        b.partition = partition
        b.created = created
        b.used = HEADER
        try:
            self.live.add(b)
        except MemoryError:
            free(block)
            raise
        b.adopt(block)
        self.batches += 1

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
        if b.older != NULL:
            (<Batch>b.older).newer = b.newer
        else:
            self.oldest = b.newer
        if b.newer != NULL:
            (<Batch>b.newer).older = b.older
        else:
            self.newest = b.older
        b.older = b.newer = NULL

    cdef void detach(self, Batch b) noexcept:
        """`b` takes no more records."""
        cdef Topic t = b.home
        self.unlink(b)
        t.open[b.partition] = None
        b.raw = b.used
        b._ready = self.codec == 0
        if b.partition == t.sticky:
            t.sticky_bytes += b.used

    cdef void discard(self, Batch b) noexcept:
        """Remove `b` if it was opened for a record that cannot be written: an empty one is never sent, and a flush would wait for it."""
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
        option, limit = "max_request_size", self.asked_request_size
        if self.max_request_size < limit:
            option, limit = "buffer_memory", self.max_request_size
        raise RecordTooLarge(f"{t.name}: a record of {size} bytes (overhead included) exceeds {option}={limit}; raise that option or split the record")

    cdef int32_t start_size(self, Topic t, int partition, int64_t need, bint asked):
        """The initial capacity of a batch within the limits; 0 if there is no room.

        A busy partition starts large while there is plenty of memory, and for a thread that has waited for memory: in small
        pieces it would have to be reserved again and again, and the batches would stay small.
        """
        cdef int64_t cap = SMALL
        if need > self.batch_size:
            return <int32_t>need if self.fits(t, partition, need) else 0
        if t.last_was_full[partition] and self.fits(t, partition, self.batch_size):
            if asked or self.reserved + self.batch_size <= self.buffer_memory // 2:
                return self.batch_size
        while cap < need:
            cap *= 2
        cap = min(cap, self.batch_size)
        if self.fits(t, partition, cap):
            return <int32_t>cap
        return <int32_t>need if self.fits(t, partition, need) else 0

    cdef int start(self, Topic t, Item* r, int partition, object callback) except -1:
        """Open a batch for `r`, or wait for room. The caller must check everything again."""
        cdef Batch b
        cdef list callbacks
        cdef int32_t cap
        cdef int i
        cdef int64_t need = alone_size(r)
        cdef double now
        cdef bint queues
        if need > self.max_request_size:
            self.too_large(t, need)
        now = self.clock()
        queues = must_queue(self, t, r)
        b = Batch.__new__(Batch)
        callbacks = [] if callback is not None else None
        # From here until `append` has written the record, other threads wait.
        if self.refusal is not None and not r.forced:
            self.refuse()
        if t.dropped:
            return 0
        if r.free:
            if t.sticky_bytes >= self.batch_size:
                t.rotate()
            for i in range(t.available_count):
                if self.partition_fits(t, t.sticky, need):
                    break
                t.rotate()
            partition = t.sticky
        if PyList_GET_ITEM(t.open, partition) != <PyObject*>None:
            return 0
        cap = 0 if queues else self.start_size(t, partition, need, r.asked)
        if cap == 0:
            if not r.forced:
                return self.wait_for_room(t, r, need)
            cap = <int32_t>need
        self.introduce(b, t, partition, now, self.obtain(cap))
        b.callbacks = callbacks
        b.sent_at = r.sent_at if r.forced else now
        t.open[partition] = b
        self.link(b)
        if now + self.linger < self.wake_at:
            self.wake_at = now + self.linger
            r.news = True
        return 0

    cdef int enlarge(self, Topic t, Batch b, Item* r, int64_t total) except -1:
        """`r` does not fit into `b`: enlarge it, or seal it. The caller must check everything again."""
        cdef int64_t need = b.used + total
        cdef int64_t cap = b.cap
        if alone_size(r) > self.max_request_size:
            self.too_large(t, alone_size(r))
        if need <= self.batch_size:
            while cap < need:
                cap *= 2
            cap = min(cap, self.batch_size)
            if self.fits(t, b.partition, cap - b.cap):  # also ahead of waiting threads: once the batch is full, this thread waits as well
                return self.grow(t, b, <int32_t>cap)
        if r.forced and (need <= self.batch_size or b.count == 0):
            return self.grow(t, b, <int32_t>need)
        if b.count == 0:           # another thread opened it for a smaller record and has not written that yet
            if self.fits(t, b.partition, need - b.cap):
                return self.grow(t, b, <int32_t>need)
            return self.wait_for_room(t, r, need - b.cap)
        return self.fill(t, b, r, need > self.batch_size)

    cdef int grow(self, Topic t, Batch b, int32_t cap) except -1:
        cdef Block* block = self.obtain(cap)
        memcpy(bytes_of(block), b.buf, b.used)
        b.swap(block)
        return 0

    cdef int fill(self, Topic t, Batch b, Item* r, bint full) except -1:
        """Seal `b`, which has no room for `r`."""
        self.close_batch(b, False)
        if full:
            t.last_was_full[b.partition] = 1
        if r.free and b.partition == t.sticky:
            t.rotate()
        if not b._ready:
            b.compress()
        elif self.can_send:
            self.wake()
        return 0

    # ------------------------------------------------------------ records

    cdef int choose(self, Topic t, Item* r) except -1:
        """Choose the partition of `r`, or note that any is allowed."""
        if r.partition >= 0:
            if r.partition >= t.count and self.find_partition is not None:
                r.deadline = self.find_partition(t.name, r.partition, r.deadline)
            if r.partition >= t.count:
                raise ValueError(f"{t.name}: partition={r.partition} but the topic has {t.count} partitions, 0 to {t.count - 1}")
        elif r.key_size >= 0:
            r.partition = <int32_t>((murmur2_hash(r.key, r.key_size) & 0x7fffffff) % t.count)
        else:
            r.free = True
        return 0

    cdef int append(self, Topic t, Item* r, object callback, Delivery d) except -1:
        """Write `r` into the open batch of its partition and bind `d` to it; 0 if `t` was dropped meanwhile."""
        cdef Batch b
        cdef object found
        cdef int partition
        cdef int64_t body, total
        self.choose(t, r)
        while True:
            # The code that refuses settles the earlier records, but would not see later ones.
            if self.refusal is not None and not r.forced:
                self.refuse()
            partition = t.sticky if r.free else r.partition
            found = <object>PyList_GET_ITEM(t.open, partition)
            if found is None:
                if t.dropped:
                    return 0
                self.start(t, r, partition, callback)
                continue
            b = <Batch>found
            if callback is not None and b.callbacks is None:
                callbacks = []     # may run the garbage collector, and through it anything
                if b.callbacks is None:
                    b.callbacks = callbacks
            else:
                body = body_size(r, r.timestamp - b.base_timestamp if b.count else 0, b.count)
                total = varint_size(body) + body
                if b.used + total <= b.cap:
                    break
                self.enlarge(t, b, r, total)
                if self.wake_owed:
                    r.news = True
            b = found = None       # here: releasing them may run a destructor, and other threads during it
        if callback is not None:
            try:
                follow(b, r, callback)
            except MemoryError:
                self.discard(b)
                raise
        put(b, r, body)
        d.batch = b
        d.index = b.count - 1
        if not r.forced:
            self.accepted += 1
        if r.news:
            self.wake()
        return 1

    cdef int refuse(self) except -1:
        """Take no more records."""
        raise self.refusal.again()

    cdef Topic find(self, object topic):
        """The Topic of that name, cached for the next send."""
        cdef str name = exact_name(topic)
        cdef PyObject* found = PyDict_GetItemWithError(self.topics, name)
        cdef Topic t = <Topic>found if found != NULL else self.meet(name)
        # An exact str: releasing it later runs no code of the application, which could send between these two writes.
        self.last_name = name
        self.last_topic = t
        return t

    cdef Topic meet(self, str name):
        """The first send to a topic."""
        cdef Topic t
        cdef int64_t before = self.used_up
        self.new_topic(name)
        t = topic_named(self, name)
        if before == self.used_up:  # otherwise the announcement may be void already: `park` announces it again
            t.announced = True
        return t

    def send(self, topic, value=None, *, key=None, headers=None, partition=None, timestamp_ms=None, on_delivery=None):
        """Accept a record; returns its `Delivery`. See `Producer.send`."""
        cdef Item r
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
        r.partition = UNDECIDED if partition is None else <int32_t>_integer(t.name, "partition", partition, 0x7fffffff)
        if timestamp_ms is not None:
            r.timestamp = _integer(t.name, "timestamp_ms", timestamp_ms, 0x7fffffffffffffff)
        else:
            r.timestamp = wall_ms() if self.wall is None else self.wall()
        if on_delivery is not None and not PyCallable_Check(on_delivery):
            raise TypeError(f"{t.name}: on_delivery must be callable, not {type(on_delivery).__name__}")
        r.free = r.forced = r.asked = r.news = False
        r.deadline = INFINITY
        d = Delivery.__new__(Delivery)
        d.timestamp = r.timestamp
        d.key_size = <int32_t>r.key_size
        d.value_size = <int32_t>r.value_size
        if (not t.direct and park(self, t, &r, on_delivery, d)) or self.append(t, &r, on_delivery, d):
            return d
        self.append_anew(t.name, &r, UNDECIDED if partition is None else <int32_t>partition, on_delivery, d)
        return d

    cdef int append_anew(self, str name, Item* r, int32_t partition, object callback, Delivery d) except -1:
        """Append `r` although its topic was dropped meanwhile: to the current Topic of that name, or the next one if that is dropped, too."""
        cdef Topic t
        while True:
            t = self.find(name)
            r.partition = partition
            r.free = False
            if (not t.direct and park(self, t, r, callback, d)) or self.append(t, r, callback, d):
                return 0

    # ------------------------------------------------------------ records whose topic is not known yet

    def set_partitions(self, topic, int count, available) -> None:
        """The topic has `count` partitions; those in `available` have a leader (empty: not known which)."""
        set_partitions(self, exact_name(topic), count, available)

    def designate(self, topic, int limit=1000, bint patient=False) -> tuple:
        """Move up to `limit` parked records, in order, into batches.

        Returns how many still wait, and for each record whose partition does not exist: (code, error, None or what runs its callbacks).
        With `patient` such a record does not fail but stays parked, and so do those behind it.
        """
        return designate(self, exact_name(topic), limit, patient)

    def fail_parked(self, topic, error, double before=INFINITY) -> tuple:
        """Fail the parked records appended up to `before`; returns (how many, None or what runs their callbacks)."""
        return fail_parked(self, exact_name(topic), error, before)

    def parked(self, topic) -> tuple:
        """(How many records of `topic` wait for its partitions, when the oldest was sent or 0.0.)"""
        cdef Topic t = self.topics.get(exact_name(topic))
        if t is None or not t.parked:
            return 0, 0.0
        return len(t.parked), (<Parked>t.parked[0]).created

    # ------------------------------------------------------------ the loop

    def take(self, double now) -> tuple:
        """(batches sealed since the last call, in order; open ones whose linger has ended since, or ends soon; when to call again).

        A call that finds such a batch also takes those whose linger ends within an eighth of `linger`: one turn of the loop instead of
        several. If the oldest was opened that soon after the last such call, records come steadily, and the next batch is expected: the
        loop is not woken when it is opened, and calls again by itself.
        """
        cdef list fresh = []
        cdef list due = []
        cdef list taken
        cdef Batch b
        cdef double soon = self.linger / 8
        cdef double limit = now if now < self.expected else now + soon
        cdef double deadline = INFINITY
        while self.oldest != NULL:
            b = <Batch>self.oldest
            deadline = b.created + self.linger
            if b.count == 0:       # just opened, its record is about to be written
                deadline = max(deadline, now + 0.001)
                break
            if deadline > limit and not self.flushing:
                break
            due.append(b)
            self.unlink(b)
            deadline = INFINITY
            limit = now + soon
        if due and not self.flushing:
            steady = self.linger > 0 and self.taken_at <= (<Batch>due[0]).created <= self.taken_at + soon
            self.taken_at = now
            self.expected = now + self.linger if steady else INFINITY
        elif now >= self.expected:
            self.expected = INFINITY
        self.flushing = False
        self.wake_at = min(deadline, self.expected)
        taken = self.sealed
        self.sealed = fresh
        return [batch for batch in taken if (<Batch>batch).state == S_SEALED], due, self.wake_at

    def seal(self, Batch batch not None, bint taken=False) -> bool:
        """Seal an open batch now; False if it is already sealed, or empty. If `taken`, the caller has it: `take` does not return it."""
        if batch.state != S_OPEN or batch.count == 0:
            return False
        if batch.acc is not self:
            raise ValueError(f"{batch!r} belongs to another accumulator")
        if batch.used * 2 < self.batch_size:
            (<Topic>batch.home).last_was_full[batch.partition] = 0
        self.close_batch(batch, taken)
        return True

    def expedite(self) -> None:
        """Flush: every open batch is due at once."""
        self.flushing = True
        self.waker()

    def forget(self, str topic) -> bool:
        """Drop `topic` if it has no parked record and no open or unsettled batch. The next `send` announces it again."""
        return forget(self, topic)

    def unfinished(self) -> list:
        """Everything that is not settled: batches, and the handles of parked records."""
        cdef list out
        cdef int64_t before
        while True:
            before = self.unparked
            out = list(self.live)
            for t in list(self.topics.values()):
                out.extend([(<Parked>p).delivery for p in list((<Topic>t).parked)])
            if before == self.unparked:  # otherwise a record may have moved from one to the other between the two reads
                return out
