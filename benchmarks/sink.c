/* Plays a Kafka cluster that costs less than any client it serves: otherwise a benchmark would measure the sink, not the client.
 *
 * One epoll thread plays all brokers, with one listening port for each. Brokers take turns as leaders of a topic's partitions; the topic's
 * name chooses the first one.
 *   Produce      counts the records in the batch headers and acknowledges at once; nothing is stored.
 *   Fetch        serves one prebuilt batch again and again with its offset patched, up to the log end, and then holds the request a moment.
 *   ListOffsets  returns the number of acknowledged records or, if a log is served, its end.
 * The sink advertises versions before the flexible ones: every client speaks them, and the code stays small. Any topic name exists; records
 * are counted by partition number, whatever the topic. Topics whose name begins with LEADERLESS have no leaders.
 * One broker can be late: bytes that arrive at it are read that many milliseconds later, as over a long line, so that its answers are late
 * and nothing else waits. One partition of every topic can be offline: it has no leader.
 * The sink trusts its peers (a benchmark on 127.0.0.1) and dies with the process that started it.
 *
 * usage: sink BROKERS PARTITIONS LOG_END [RECORDS_PER_BATCH=150] [VALUE_SIZE=100] [HEADERS=0] [verify|] [LATE_BROKER LATE_MS] [OFFLINE_PARTITION]
 * prints the ports on one line; `verify` checks the CRC of every produced batch and ends with status 3 at a wrong one.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum {
    IN = 16 << 20,       /* bytes of requests that a connection may have waiting; a larger request closes it */
    OUT = 1 << 20,       /* bytes of answers without record data; the largest, to Metadata, names 30,000 partitions */
    FULL = 48 << 10,     /* bytes of OUT beyond which the next request waits */
    CHUNK = 1 << 20,     /* most bytes of record data for one partition in an answer */
    PARTITIONS = 64,     /* of a topic */
    BROKERS = 128,
    HOLD = 10,           /* most milliseconds that a Fetch at the log end waits: with the client's own limit a run would end in a long wait */
    IOVECS = 4 * PARTITIONS + 8,
    MARKS = 4096,        /* arrivals at a late broker that have their own due time; further ones share the latest */
    HEADER = 61,         /* bytes of a record batch's header */
    HEADER_KEY = 8,      /* bytes of a record header's key and value */
    HEADER_VALUE = 16,
    HEADERS = 16,        /* most headers of a record */
    HEADERS_MAX = 8 + HEADERS * (HEADER_KEY + HEADER_VALUE + 4),
};

typedef struct { int64_t came, due; } Mark;

typedef struct Conn {
    int fd, broken, wants_out;
    char *in;
    size_t used, done;              /* in[done:used] is not answered yet */
    char out[OUT];
    size_t out_used;
    struct iovec parts[IOVECS];     /* pieces of `out` and of `chunk` to write, in order */
    int count, next;
    char *chunk[PARTITIONS];        /* record data of the answer being written */
    int64_t held;                   /* the moment until which a Fetch at the log end waits; 0: none waits */
    int late;                       /* milliseconds between arrival and reading of a byte */
    int64_t came, readable;         /* bytes since the connection was made: all that came, and all that may be read */
    Mark marks[MARKS];              /* a ring of the arrivals that may not be read yet */
    int first, marked;
    struct Conn *link;
} Conn;

static int brokers, partitions, batch_records = 150, value_size = 100, headers, verify, poller;
static int ports[BROKERS], listeners[BROKERS], late_broker, late_ms, offline = -1;
static int64_t log_end, produced[PARTITIONS];
static char *batch;
static size_t batch_size, chunk_batches;
static Conn *all;

/* ---- bytes ------------------------------------------------------------------------------------------------------------- */

static int16_t get16(const char *p) { uint16_t v; memcpy(&v, p, 2); return be16toh(v); }
static int32_t get32(const char *p) { uint32_t v; memcpy(&v, p, 4); return be32toh(v); }
static int64_t get64(const char *p) { uint64_t v; memcpy(&v, p, 8); return be64toh(v); }
static char *put8(char *p, int v) { *p = v; return p + 1; }
static char *put16(char *p, int v) { uint16_t x = htobe16(v); memcpy(p, &x, 2); return p + 2; }
static char *put32(char *p, int32_t v) { uint32_t x = htobe32(v); memcpy(p, &x, 4); return p + 4; }
static char *put64(char *p, int64_t v) { uint64_t x = htobe64(v); memcpy(p, &x, 8); return p + 8; }
static char *put_text(char *p, const char *s, int n) { p = put16(p, n); memcpy(p, s, n); return p + n; }

static char *put_varint(char *p, int64_t v) {
    uint64_t z = ((uint64_t)v << 1) ^ (v >> 63);
    while (z > 127) { *p++ = (z & 127) | 128; z >>= 7; }
    *p++ = z;
    return p;
}

/* the nullable text at *b; moves *b past it */
static const char *take_text(const char **b, int *n) {
    const char *s = *b + 2;
    *n = get16(*b);
    *b = s + (*n > 0 ? *n : 0);
    return s;
}

static int32_t take32(const char **b) { int32_t v = get32(*b); *b += 4; return v; }

static uint32_t crc32c(const char *b, size_t n) {
    static uint32_t table[256];
    if (!table[1])
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t c = i;
            for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x82f63b78u : c >> 1;
            table[i] = c;
        }
    uint32_t c = ~0u;
    while (n--) c = table[(c ^ (uint8_t)*b++) & 255] ^ (c >> 8);
    return ~c;
}

static int64_t milliseconds(int clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* ---- the one batch that is served -------------------------------------------------------------------------------------- */

static char *put_headers(char *p) {
    p = put_varint(p, headers);
    for (int k = 0; k < headers; k++) {
        p = put_varint(p, HEADER_KEY);
        memcpy(p, "trace-id", HEADER_KEY);
        p = put_varint(p + HEADER_KEY, HEADER_VALUE);
        memset(p, 'a' + k % 26, HEADER_VALUE);
        p += HEADER_VALUE;
    }
    return p;
}

static char *build_record(char *p, int i) {
    char head[64], tail[HEADERS_MAX], *q = head, *end = put_headers(tail);
    q = put8(q, 0);
    q = put_varint(q, i / 16);          /* timestamp delta: 16 records share a millisecond */
    q = put_varint(q, i);
    q = put_varint(q, -1);              /* no key */
    q = put_varint(q, value_size);
    p = put_varint(p, (q - head) + value_size + (end - tail));
    memcpy(p, head, q - head);
    p += q - head;
    for (int k = 0; k < value_size; k++) *p++ = rand();
    memcpy(p, tail, end - tail);
    return p + (end - tail);
}

static void build_batch(void) {
    batch = malloc(HEADER + (size_t)batch_records * (value_size + 40 + HEADERS_MAX));
    char *end = batch + HEADER;
    for (int i = 0; i < batch_records; i++) end = build_record(end, i);
    batch_size = end - batch;
    int64_t now = milliseconds(CLOCK_REALTIME);
    char *p = put64(batch, 0);
    p = put32(p, batch_size - 12);
    p = put32(p, 0);                    /* leader epoch */
    p = put8(p, 2);                     /* magic */
    char *crc = p;
    p = put16(p + 4, 0);                /* attributes */
    p = put32(p, batch_records - 1);
    p = put64(p, now);
    p = put64(p, now + (batch_records - 1) / 16);
    p = put64(p, -1);                   /* producer id, epoch, sequence: none */
    p = put16(p, -1);
    p = put32(p, -1);
    put32(p, batch_records);
    put32(crc, crc32c(batch + 21, batch_size - 21));
    chunk_batches = CHUNK / batch_size ? CHUNK / batch_size : 1;
}

/* ---- answers: each reads its request at b and appends its body at o ---------------------------------------------------- */

typedef struct { int key, low, high; } Range;
static const Range RANGES[] = {{0, 3, 7}, {1, 4, 11}, {2, 1, 2}, {3, 0, 4}, {10, 0, 0}, {18, 0, 3}, {22, 0, 1}};
enum { APIS = sizeof RANGES / sizeof RANGES[0], UNSUPPORTED_VERSION = 35, COORDINATOR_NOT_AVAILABLE = 15, LEADER_NOT_AVAILABLE = 5 };

static char *api_versions(Conn *c, int version, const char *b, char *o) {
    (void)c, (void)b;
    int known = version <= 3, compact = version == 3;
    o = put16(o, known ? 0 : UNSUPPORTED_VERSION);  /* with error 35 the body is that of version 0 */
    o = compact ? put8(o, APIS + 1) : put32(o, APIS);
    for (int i = 0; i < APIS; i++) {
        o = put16(put16(put16(o, RANGES[i].key), RANGES[i].low), RANGES[i].high);
        if (compact) o = put8(o, 0);
    }
    if (known && version >= 1) o = put32(o, 0);
    return compact ? put8(o, 0) : o;
}

static const char LEADERLESS[] = "leaderless";

static int is_leaderless(const char *name, int n) {
    return n >= (int)sizeof LEADERLESS - 1 && !memcmp(name, LEADERLESS, sizeof LEADERLESS - 1);
}

static char *one_topic(int version, const char *name, int n, char *o) {
    uint32_t first = 0;
    int leaderless = is_leaderless(name, n);
    for (int i = 0; i < n; i++) first = first * 31 + (uint8_t)name[i];
    o = put_text(put16(o, 0), name, n);
    if (version >= 1) o = put8(o, 0);
    o = put32(o, partitions);
    for (int p = 0; p < partitions; p++) {
        int leader = (first + p) % brokers + 1, none = leaderless || p == offline;
        o = put32(put32(put16(o, none ? LEADER_NOT_AVAILABLE : 0), p), none ? -1 : leader);
        o = put32(put32(o, 1), leader);             /* replicas */
        o = put32(put32(o, 1), leader);             /* in sync */
    }
    return o;
}

static char *metadata(Conn *c, int version, const char *b, char *o) {
    (void)c;
    if (version >= 3) o = put32(o, 0);
    o = put32(o, brokers);
    for (int i = 0; i < brokers; i++) {
        o = put32(put_text(put32(o, i + 1), "127.0.0.1", 9), ports[i]);
        if (version >= 1) o = put16(o, -1);
    }
    if (version >= 2) o = put_text(o, "sink", 4);
    if (version >= 1) o = put32(o, 1);
    int topics = take32(&b), n;
    o = put32(o, topics > 0 ? topics : 0);
    for (int i = 0; i < topics; i++) {
        const char *name = take_text(&b, &n);
        o = one_topic(version, name, n, o);
    }
    return o;
}

static char *init_producer_id(Conn *c, int version, const char *b, char *o) {
    static int64_t last = 4241;
    (void)c, (void)version, (void)b;
    return put16(put64(put16(put32(o, 0), 0), ++last), 0);
}

static char *find_coordinator(Conn *c, int version, const char *b, char *o) {
    (void)c, (void)version, (void)b;
    return put32(put16(put32(put16(o, COORDINATOR_NOT_AVAILABLE), -1), 0), -1);
}

static char *list_offsets(Conn *c, int version, const char *b, char *o) {
    (void)c;
    b += 4 + (version >= 2);
    if (version >= 2) o = put32(o, 0);
    int topics = take32(&b), n;
    o = put32(o, topics);
    while (topics--) {
        const char *name = take_text(&b, &n);
        o = put_text(o, name, n);
        int count = take32(&b);
        o = put32(o, count);
        while (count--) {
            int p = take32(&b);
            int64_t end = log_end ? log_end : produced[p % PARTITIONS];
            o = put64(put64(put16(put32(o, p), 0), -1), get64(b) == -2 ? 0 : end);
            b += 8;
        }
    }
    return o;
}

static int64_t records_of(const char *b, const char *end) {
    int64_t count = 0;
    for (; b + HEADER <= end; b += 12 + get32(b + 8)) {
        count += get32(b + 57);
        if (verify && crc32c(b + 21, 12 + get32(b + 8) - 21) != (uint32_t)get32(b + 17)) {
            fprintf(stderr, "sink: a produced batch has a wrong CRC\n");
            exit(3);
        }
    }
    return count;
}

static char *produce(Conn *c, int version, const char *b, char *o) {
    int n;
    (void)c;
    take_text(&b, &n);
    int acks = get16(b);
    b += 2 + 4;
    int topics = take32(&b);
    o = put32(o, topics);
    while (topics--) {
        const char *name = take_text(&b, &n);
        o = put_text(o, name, n);
        int count = take32(&b);
        o = put32(o, count);
        while (count--) {
            int p = take32(&b), size = take32(&b);
            int64_t *end = &produced[p % PARTITIONS], first = *end;
            *end += records_of(b, b + size);
            b += size;
            o = put64(put64(put16(put32(o, p), 0), first), -1);
            if (version >= 5) o = put64(o, 0);
        }
    }
    return acks ? put32(o, 0) : NULL;
}

/* batches from `offset` on, at most `size` bytes of them; the first one even when it is larger */
static size_t fill_chunk(Conn *c, int slot, int64_t offset, int64_t size) {
    int64_t base = offset - offset % batch_records, left = (log_end - base) / batch_records, k = size / (int64_t)batch_size;
    if (offset >= log_end) return 0;
    if (k > (int64_t)chunk_batches) k = chunk_batches;
    if (k > left) k = left;
    if (k < 1) k = slot == 0;
    if (!c->chunk[slot]) {
        c->chunk[slot] = malloc(chunk_batches * batch_size);
        for (size_t i = 0; i < chunk_batches; i++) memcpy(c->chunk[slot] + i * batch_size, batch, batch_size);
    }
    for (int64_t i = 0; i < k; i++) put64(c->chunk[slot] + i * batch_size, base + i * batch_records);
    return k * batch_size;
}

static void part(Conn *c, char *from, size_t size) { c->parts[c->count++] = (struct iovec){from, size}; }

/* adds its own parts, because record data is in `chunk`; NULL: the answer has no records, hold the request */
static char *fetch(Conn *c, int version, const char *b, char *o, char *start) {
    int slot = 0, n;
    int64_t budget = get32(b + 12);
    size_t data = 0;
    char *piece = start;
    b += 4 + 4 + 4 + 4 + 1 + (version >= 7 ? 8 : 0);
    o = put32(o, 0);
    if (version >= 7) o = put32(put16(o, 0), 0);
    int topics = take32(&b);
    o = put32(o, topics);
    while (topics--) {
        const char *name = take_text(&b, &n);
        o = put_text(o, name, n);
        int count = take32(&b);
        o = put32(o, count);
        while (count--) {
            int p = take32(&b);
            b += version >= 9 ? 4 : 0;
            int64_t offset = get64(b), most = get32(b + 8 + (version >= 5 ? 8 : 0));
            b += 8 + (version >= 5 ? 8 : 0) + 4;
            size_t size = slot < PARTITIONS ? fill_chunk(c, slot, offset, most < budget ? most : budget) : 0;
            o = put64(put64(put16(put32(o, p), 0), log_end), log_end);
            if (version >= 5) o = put64(o, 0);
            o = put32(o, 0);                            /* aborted transactions */
            if (version >= 11) o = put32(o, -1);
            o = put32(o, size);
            if (!size) continue;
            part(c, piece, o - piece);
            part(c, c->chunk[slot++], size);
            piece = o;
            data += size;
            budget -= size;
        }
    }
    part(c, piece, o - piece);
    put32(start, (o - start) - 4 + data);
    c->out_used += o - start;
    return data ? o : NULL;
}

typedef char *(*Answer)(Conn *, int, const char *, char *);
static const Answer ANSWERS[32] = {
    [0] = produce, [2] = list_offsets, [3] = metadata, [10] = find_coordinator, [18] = api_versions, [22] = init_producer_id,
};

/* ---- connections ------------------------------------------------------------------------------------------------------- */

static void watch(Conn *c, int wants_out) {
    if (c->wants_out == wants_out) return;
    struct epoll_event e = {EPOLLIN | (wants_out ? EPOLLOUT : 0), {.ptr = c}};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
    c->wants_out = wants_out;
}

static void flush(Conn *c) {
    while (c->next < c->count) {
        ssize_t n = writev(c->fd, c->parts + c->next, c->count - c->next);
        if (n < 0) {
            if (errno == EAGAIN) watch(c, 1);
            else c->broken = 1;
            return;
        }
        for (; c->next < c->count && (size_t)n >= c->parts[c->next].iov_len; c->next++) n -= c->parts[c->next].iov_len;
        if (c->next < c->count) {
            c->parts[c->next].iov_base = (char *)c->parts[c->next].iov_base + n;
            c->parts[c->next].iov_len -= n;
        }
    }
    c->next = c->count = 0;
    c->out_used = 0;
    watch(c, 0);
}

/* Answers the request at r; 0 if it is to be held. The answer to a held Fetch is dropped and built once more when its time has ended: that
 * is less code than to keep the answer. */
static int answer(Conn *c, const char *r) {
    int api = get16(r), version = get16(r + 2), n, count = c->count;
    size_t used = c->out_used;
    const char *b = r + 8;
    char *start = c->out + c->out_used, *o = put32(start + 4, get32(r + 4));
    take_text(&b, &n);                                  /* client id */
    if (api == 1) {
        int64_t now = milliseconds(CLOCK_MONOTONIC), wait = get32(b + 4);
        if (fetch(c, version, b, o, start) || (c->held && now >= c->held)) {
            c->held = 0;
            return 1;
        }
        if (!c->held) c->held = now + (wait < HOLD ? wait : HOLD);
        c->count = count;
        c->out_used = used;
        return 0;
    }
    if (api < 0 || api >= 32 || !ANSWERS[api]) {
        fprintf(stderr, "sink: no answer to api %d version %d\n", api, version);
        c->broken = 1;
        return 1;
    }
    o = ANSWERS[api](c, version, b, o);
    if (!o) return 1;
    put32(start, o - start - 4);
    part(c, start, o - start);
    c->out_used += o - start;
    return 1;
}

/* Answers the requests that have come, in order. One Fetch at a time: its data is in the connection's chunks until it is written, and the
 * next Fetch would patch other offsets into them. */
static void serve(Conn *c) {
    while (!c->broken && c->used - c->done >= 4) {
        size_t n = (uint32_t)get32(c->in + c->done);
        if (n > IN - 4) c->broken = 1;
        if (c->broken || c->used - c->done < n + 4) break;
        if (c->late && c->came - (int64_t)(c->used - c->done) + (int64_t)n + 4 > c->readable) break;
        const char *request = c->in + c->done + 4;
        int is_fetch = get16(request) == 1;
        if (c->count && (is_fetch || c->count > IOVECS / 2 || c->out_used > FULL)) {
            flush(c);
            if (c->count) return;
        }
        if (!answer(c, request)) break;
        c->done += n + 4;
        if (is_fetch) flush(c);
    }
    if (c->count) flush(c);
    if (c->done == c->used) c->done = c->used = 0;
    if (c->done > IN / 2) {
        memmove(c->in, c->in + c->done, c->used - c->done);
        c->used -= c->done;
        c->done = 0;
    }
}

/* notes when the bytes that have just come to a late broker may be read */
static void mark(Conn *c) {
    int64_t due = milliseconds(CLOCK_MONOTONIC) + c->late;
    if (c->marked < MARKS) c->marked++;
    c->marks[(c->first + c->marked - 1) % MARKS] = (Mark){c->came, due};
}

/* serves requests whose time has come; milliseconds until more bytes may be read, -1: none wait */
static int64_t ripen(Conn *c, int64_t now) {
    int before = c->marked;
    for (; c->marked && c->marks[c->first].due <= now; c->first = (c->first + 1) % MARKS, c->marked--)
        c->readable = c->marks[c->first].came;
    if (c->marked != before && !c->held) serve(c);
    return c->marked ? c->marks[c->first].due - now : -1;
}

static void receive(Conn *c) {
    if (c->used == IN) return;
    ssize_t n = read(c->fd, c->in + c->used, IN - c->used);
    if (n > 0) {
        c->used += n;
        c->came += n;
        if (c->late) mark(c);
        else if (!c->held) serve(c);
    } else if (n == 0 || errno != EAGAIN) {
        c->broken = 1;
    }
}

static void drop(Conn *c) {
    Conn **at = &all;
    while (*at != c) at = &(*at)->link;
    *at = c->link;
    close(c->fd);
    for (int i = 0; i < PARTITIONS; i++) free(c->chunk[i]);
    free(c->in);
    free(c);
}

static void welcome(int broker) {
    int fd = accept4(listeners[broker], NULL, NULL, SOCK_NONBLOCK), yes = 1;
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    Conn *c = calloc(1, sizeof *c);
    c->fd = fd;
    c->late = broker + 1 == late_broker ? late_ms : 0;
    c->in = malloc(IN);
    c->link = all;
    all = c;
    struct epoll_event e = {EPOLLIN, {.ptr = c}};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

static void listen_on(int i) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    listeners[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listeners[i], (void *)&a, size) || listen(listeners[i], 64) || getsockname(listeners[i], (void *)&a, &size)) {
        perror("sink");
        exit(1);
    }
    ports[i] = ntohs(a.sin_port);
    struct epoll_event e = {EPOLLIN, {.u64 = i + 1}};   /* no pointer is that small */
    epoll_ctl(poller, EPOLL_CTL_ADD, listeners[i], &e);
}

/* serve the held fetches whose time has ended; milliseconds until the next one, -1: none is held */
static int release_held(void) {
    int64_t now = milliseconds(CLOCK_MONOTONIC), next = -1;
    for (Conn *c = all, *link; c; c = link) {
        link = c->link;
        if (c->held && c->held <= now) serve(c);
        int64_t wait = c->late ? ripen(c, now) : -1;
        if (c->broken) drop(c);
        else if (c->held && (next < 0 || c->held - now < next)) next = c->held - now;
        if (wait >= 0 && (next < 0 || wait < next)) next = wait;
    }
    return next;
}

static void turn(void) {
    struct epoll_event events[64];
    int n = epoll_wait(poller, events, 64, release_held());
    for (int i = 0; i < n; i++) {
        if (events[i].data.u64 <= BROKERS) {
            welcome(events[i].data.u64 - 1);
            continue;
        }
        Conn *c = events[i].data.ptr;
        if (events[i].events & EPOLLOUT) {
            flush(c);
            if (!c->held) serve(c);
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
        if (c->broken) drop(c);
    }
}

int main(int count, char **words) {
    if (count < 4) {
        fprintf(stderr, "usage: sink BROKERS PARTITIONS LOG_END [RECORDS_PER_BATCH] [VALUE_SIZE] [HEADERS] [verify|] [LATE_BROKER LATE_MS] [OFFLINE_PARTITION]\n");
        return 2;
    }
    brokers = atoi(words[1]);
    partitions = atoi(words[2]);
    log_end = atoll(words[3]);
    if (count > 4) batch_records = atoi(words[4]);
    if (count > 5) value_size = atoi(words[5]);
    if (count > 6) headers = atoi(words[6]);
    verify = count > 7 && !strcmp(words[7], "verify");
    if (count > 9) {
        late_broker = atoi(words[8]);
        late_ms = atoi(words[9]);
    }
    if (count > 10) offline = atoi(words[10]);
    if (headers < 0 || headers > HEADERS) {
        fprintf(stderr, "sink: 0 to %d headers a record\n", HEADERS);
        return 2;
    }
    if (brokers < 1 || brokers > BROKERS || partitions < 1 || partitions > PARTITIONS || batch_records < 1 || log_end % batch_records) {
        fprintf(stderr, "sink: 1 to %d brokers, 1 to %d partitions, a log end that is whole batches\n", BROKERS, PARTITIONS);
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    build_batch();
    poller = epoll_create1(0);
    for (int i = 0; i < brokers; i++) listen_on(i);
    for (int i = 0; i < brokers; i++) printf("%d%c", ports[i], i + 1 < brokers ? ' ' : '\n');
    fflush(stdout);
    for (;;) turn();
}
