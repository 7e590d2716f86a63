# Chooses the partitions of records, by the rules of the producer's `Partitioner`.


cdef extern from *:
    """
    /* CRC-32 as in zlib, by which librdkafka hashes keys. Keys are short, so a step for each byte is fast enough. */
    static uint32_t zlib_table[256];

    static void zlib_table_init(void) {
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t c = n;
            for (int bit = 0; bit < 8; bit++) c = (c >> 1) ^ (c & 1 ? 0xedb88320u : 0);
            zlib_table[n] = c;
        }
    }

    static uint32_t zlib_crc32(const char *data, int64_t size) {
        uint32_t c = ~0u;
        for (int64_t i = 0; i < size; i++) c = (c >> 8) ^ zlib_table[(c ^ (unsigned char)data[i]) & 255];
        return ~c;
    }

    /* librdkafka reads the hash as a signed number, and takes its absolute value */
    static uint32_t fnv1a_hash(const char *data, int64_t size) {
        uint32_t h = 0x811c9dc5u;
        for (int64_t i = 0; i < size; i++) h = (h ^ (unsigned char)data[i]) * 0x01000193u;
        return (int32_t)h < 0 ? 0u - h : h;
    }
    """
    void zlib_table_init()
    uint32_t zlib_crc32(const char*, int64_t) nogil
    uint32_t fnv1a_hash(const char*, int64_t) nogil

zlib_table_init()


cdef enum:                         # the numbers of `partitioners.Hash`, `Spread` and `PartitionArgument`
    NO_HASH = 0
    MURMUR2 = 1
    CRC32 = 2
    FNV1A = 3
    STICKY = 0
    ROUND_ROBIN = 1
    LATE = 2
    ARGUMENT_NEXT = 2


cdef uint32_t hashed(int kind, const char* key, int64_t size) noexcept nogil:
    """The hash of a key, as an unsigned number. A null key has the hash of an empty key."""
    size = max(size, 0)
    if kind == CRC32:
        return zlib_crc32(key, size)
    if kind == FNV1A:
        return fnv1a_hash(key, size)
    return murmur2_hash(key, size) & 0x7fffffff


cdef bint choose_otherwise(Accumulator acc, Topic t, Item* r) except -1:
    """Choose the partition of `r` by a partitioner other than Java's default, or set `free` if any partition is allowed.

    Return False if `r` has an explicit partition that the caller has to check.
    """
    if r.partition >= 0:
        if acc.partition_argument:
            find_partition(acc, t, r)
        return acc.partition_argument != 0
    if acc.function is not None:
        ask_function(acc, t, r)
    elif acc.hash != NO_HASH and r.key_size >= acc.least_key:
        r.partition = hashed(acc.hash, r.key, r.key_size) % <uint32_t>t.count
    elif acc.spread == ROUND_ROBIN:
        r.partition = in_turn(acc, t, alone_size(r))
        r.turning = True
    else:
        r.free = True
    return True


cdef int find_partition(Accumulator acc, Topic t, Item* r) except -1:
    """Check the explicit partition of `r`, or map it to one that exists; may wait. Raises ValueError if the partition does not exist."""
    if acc.partition_argument:
        r.partition %= t.count
        if acc.partition_argument == ARGUMENT_NEXT:
            r.partition = next_online(t, <int>r.partition)
    elif r.partition >= t.count:
        if acc.find_partition is not None:
            r.deadline = acc.find_partition(t.name, r.partition, r.deadline)
        if r.partition >= t.count:
            raise ValueError(f"{t.name}: partition={r.partition}, but the highest partition of the topic is {t.count - 1}")
    return 0


cdef int next_online(Topic t, int partition) noexcept:
    cdef int i
    for i in range(t.count):
        if t.online[partition]:
            return partition
        partition = (partition + 1) % t.count
    return partition


cdef int in_turn(Accumulator acc, Topic t, int64_t need) noexcept:
    cdef int i
    for i in range(t.available_count):
        t.cursor = (t.cursor + 1) % t.available_count
        if acc.partition_fits(t, t.available[t.cursor], need):
            break
    return t.available[t.cursor]


cdef int ask_function(Accumulator acc, Topic t, Item* r) except -1:
    """Let the application's function choose. The function may do anything, so callers read mutable state after this call."""
    cdef object key = None if r.key_size < 0 else PyBytes_FromStringAndSize(r.key, r.key_size)
    try:
        chosen = acc.function(t.name, key, range(t.count), t.available_tuple)
    except Exception as error:
        raise partitioner_failed(t.name, acc.function, error) from error
    r.partition = chosen_partition(t.name, acc.function, chosen, t.count)
    return 0


cdef void next_sticky(Topic t) noexcept:
    t.cursor = (t.cursor + 1) % t.available_count
    t.sticky = t.available[t.cursor]
    t.sticky_bytes = 0


cdef void rotate(Topic t, int64_t unit) noexcept:
    """Choose the sticky partition again: see `_plain_topic.Topic.rotate`."""
    cdef int64_t most = 0, total = 0, at
    cdef int i
    if unit > 0:
        for i in range(t.available_count):
            most = max(most, t.held[t.available[i]])
            total += t.held[t.available[i]]
    if most == 0 or t.available_count == 1:
        next_sticky(t)
        return
    total = (most + unit) * t.available_count - total
    t.random_state ^= t.random_state << 13
    t.random_state ^= t.random_state >> 7
    t.random_state ^= t.random_state << 17
    at = <int64_t>(t.random_state % <uint64_t>total)
    for i in range(t.available_count):
        at -= most + unit - t.held[t.available[i]]
        if at < 0:
            break
    t.cursor = i
    t.sticky = t.available[i]
    t.sticky_bytes = 0


cdef int await_topic(Accumulator acc, Topic t, Item* r) except -1:
    while not t.direct and not t.dropped:
        if acc.refusal is not None:
            acc.refuse()
        if not t.announced:
            acc.new_topic(t.name)
            t.announced = True
        r.deadline = acc.find_topic(t.name, r.deadline)
    return 0


cdef Topic late_topic(Accumulator acc, Topic t):
    """Make a Topic whose only slot has the batches of `t` without a partition. The new Topic is not in `acc.topics`."""
    cdef Topic late = Topic.__new__(Topic)
    late.name = t.name
    late.open = []
    late.parked = deque()
    store_policy(acc, late, acc.policy(t.name))
    late.capacity, late.max_record, late.max_record_option = t.capacity, t.max_record, t.max_record_option
    late.max_message_bytes = t.max_message_bytes
    late.widen(1)
    late.available = <int*>calloc(1, sizeof(int))
    if late.available == NULL:
        raise MemoryError
    late.available_count = late.count = 1
    late.undesignated = True
    return late


cdef int assign(Accumulator acc, Batch b, int partition) except -1:
    cdef Topic t = acc.topics.get(b.topic)
    if b.acc is not acc or b.state != S_SEALED or not b._ready or b.partition >= 0:
        raise RuntimeError(f"{b!r} cannot be given a partition")
    if t is None or not 0 <= partition < t.slots:
        raise ValueError(f"{b!r}: there is no partition {partition}")
    b.home.held[b.slot] -= b.booked
    t.held[partition] += b.booked
    b.home = t
    b.slot = b.partition = partition
    acc.wake_owed = acc.waiters > 0
    acc.nudge()
    return 0
