/* Collects records as columns. Invariant: no function needs Python objects or the GIL, because the last reader may be on any thread.

   A reader may release Arrow data on a thread that Python does not know, even while the interpreter shuts down or after its end. So an
   exported array refers only to `Columns`, which is reference-counted and refers only to memory from malloc. */
#pragma once
#include <errno.h>
#include "_arrow.h"
#include "_raw.h"

#define MOST_COLUMN_BYTES 2147483647 /* maximum bytes of the data of one column: its offsets have 32 bits */

enum { C_TOPIC, C_PARTITION, C_OFFSET, C_TIMESTAMP, C_TIMESTAMP_TYPE, C_KEY, C_VALUE, C_HEADERS, ALL_COLUMNS };

typedef struct { /* memory that grows */
    char *at;
    int64_t used, cap;
} Room;

typedef struct { /* a column of bytes: row i has the bytes between ends[i] and ends[i + 1] */
    Room ends, data;
    char *valid; /* a bit per row; NULL: no row is null */
    int64_t valid_cap, nulls;
} Spans;

#define SPARES 2            /* maximum number of released `Columns` that an account keeps */
#define MOST_SPARE 33554432 /* maximum bytes of the blocks of a spare */

struct Columns;

typedef struct { /* the account of a builder and of all columns that the builder has made */
    int refs;
    int64_t bytes;                  /* bytes of finished columns that are not released yet */
    struct Columns *spare[SPARES];  /* released columns, whose blocks the next columns use */
    int locked;                     /* a thread uses `spare`, for a few instructions */
} Account;

typedef struct Columns {
    int refs;
    Account *account;
    int64_t booked;
    int count, order[ALL_COLUMNS]; /* the columns, as requested */
    int wants[ALL_COLUMNS];
    int64_t rows, headers;
    int64_t encoded;    /* bytes of the headers as fetched */
    int64_t most_bytes; /* MOST_COLUMN_BYTES, or less in tests */
    Room partition, offset, timestamp, kind, starts; /* starts: index of the first header of each row */
    char *stamped;                                   /* a bit for each timestamp; NULL: none is null */
    int64_t stamped_cap, unstamped;
    Spans topic, key, value, name, content; /* name, content: name and value of each header */
} Columns;

/* ---- counts */

static int64_t spans_reset(Spans *s) { /* return the size of the blocks that stay */
    free(s->valid);
    s->valid = NULL;
    s->valid_cap = s->nulls = s->ends.used = s->data.used = 0;
    return s->ends.cap + s->data.cap;
}

/* Empty `c` and free its bitmaps, but keep its other blocks; return the size of these. */
static int64_t columns_reset(Columns *c) {
    free(c->stamped);
    c->stamped = NULL;
    c->stamped_cap = c->unstamped = c->booked = c->rows = c->headers = c->encoded = 0;
    c->partition.used = c->offset.used = c->timestamp.used = c->kind.used = c->starts.used = 0;
    return spans_reset(&c->topic) + spans_reset(&c->key) + spans_reset(&c->value) + spans_reset(&c->name) + spans_reset(&c->content) +
           c->partition.cap + c->offset.cap + c->timestamp.cap + c->kind.cap + c->starts.cap;
}

static void spans_free(Spans *s) { free(s->ends.at), free(s->data.at); }

static void columns_free(Columns *c) {
    columns_reset(c);
    free(c->partition.at), free(c->offset.at), free(c->timestamp.at), free(c->kind.at), free(c->starts.at);
    spans_free(&c->topic), spans_free(&c->key), spans_free(&c->value), spans_free(&c->name), spans_free(&c->content);
    free(c);
}

static void account_release(Account *a) {
    if (__atomic_sub_fetch(&a->refs, 1, __ATOMIC_ACQ_REL)) return;
    for (int i = 0; i < SPARES; i++)
        if (a->spare[i]) columns_free(a->spare[i]);
    free(a);
}
static Account *account_new(void) {
    Account *a = (Account *)calloc(1, sizeof(Account));
    if (a) a->refs = 1;
    return a;
}
static int64_t account_bytes(Account *a) { return __atomic_load_n(&a->bytes, __ATOMIC_ACQUIRE); }

/* Keep the blocks of `c`, or free them. The kernel clears each page of a new block, which costs as much as fifty records.
   A thread that finds the lock taken frees the blocks instead of waiting. */
static void columns_recycle(Account *a, Columns *c) {
    if (columns_reset(c) <= MOST_SPARE && !__atomic_exchange_n(&a->locked, 1, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < SPARES && c; i++)
            if (!a->spare[i]) a->spare[i] = c, c = NULL;
        __atomic_store_n(&a->locked, 0, __ATOMIC_RELEASE);
    }
    if (c) columns_free(c);
}

static Columns *columns_keep(Columns *c) {
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

static void columns_release(Columns *c) {
    Account *a = c->account;
    if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL)) return;
    __atomic_sub_fetch(&a->bytes, c->booked, __ATOMIC_ACQ_REL);
    columns_recycle(a, c);
    account_release(a);
}

static Columns *columns_new(Account *a, const int *order, int count, int64_t most_bytes) {
    Columns *c = NULL;
    if (!__atomic_exchange_n(&a->locked, 1, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < SPARES && !c; i++) c = a->spare[i], a->spare[i] = NULL;
        __atomic_store_n(&a->locked, 0, __ATOMIC_RELEASE);
    }
    if (!c && !(c = (Columns *)calloc(1, sizeof(Columns)))) return NULL;
    c->refs = 1;
    c->count = count;
    c->most_bytes = most_bytes;
    for (int i = 0; i < count; i++) c->wants[c->order[i] = order[i]] = 1;
    __atomic_add_fetch(&a->refs, 1, __ATOMIC_RELAXED);
    c->account = a;
    return c;
}

/* ---- growing; each function returns 0, or -1 if there is no memory */

static int room_grow(Room *r, int64_t need) {
    int64_t cap = r->cap * 2 > need ? r->cap * 2 : need;
    char *at = (char *)realloc(r->at, (size_t)(cap < 1024 ? cap = 1024 : cap));
    if (!at) return -1;
    r->at = at;
    r->cap = cap;
    return 0;
}
static inline int room_fit(Room *r, int64_t more) { return r->used + more <= r->cap ? 0 : room_grow(r, r->used + more); }

/* Make room for `rows` more ends; the first end is 0. */
static int ends_fit(Room *r, int64_t rows) {
    int64_t first = r->used ? 0 : 4;
    if (room_fit(r, rows * 4 + first) < 0) return -1;
    if (first) memset(r->at, 0, 4), r->used = 4;
    return 0;
}

/* Make room for the bits of `rows` rows. New bits are set. */
static int bits_fit(char **bits, int64_t *cap, int64_t rows) {
    int64_t need = (rows + 7) / 8;
    if (need <= *cap) return 0;
    if (need < *cap * 2) need = *cap * 2;
    if (need < 64) need = 64;
    char *at = (char *)realloc(*bits, (size_t)need);
    if (!at) return -1;
    memset(at + *cap, 0xff, (size_t)(need - *cap));
    *bits = at;
    *cap = need;
    return 0;
}

static int bit_clear(char **bits, int64_t *cap, int64_t row) {
    if (bits_fit(bits, cap, row + 1) < 0) return -1;
    (*bits)[row >> 3] &= (char)~(1 << (row & 7));
    return 0;
}

/* Make room for `rows` more rows of a topic, with values of `bytes` bytes in total, but not for the data of their keys and headers. */
static int columns_fit(Columns *c, int64_t rows, int64_t topic_size, int64_t bytes) {
    if (c->wants[C_TOPIC] && (ends_fit(&c->topic.ends, rows) < 0 || room_fit(&c->topic.data, rows * topic_size) < 0)) return -1;
    if (c->wants[C_PARTITION] && room_fit(&c->partition, rows * 4) < 0) return -1;
    if (c->wants[C_OFFSET] && room_fit(&c->offset, rows * 8) < 0) return -1;
    if (c->wants[C_TIMESTAMP] && room_fit(&c->timestamp, rows * 8) < 0) return -1;
    if (c->wants[C_TIMESTAMP_TYPE] && room_fit(&c->kind, rows * 4) < 0) return -1;
    if (c->wants[C_KEY] && ends_fit(&c->key.ends, rows) < 0) return -1;
    if (c->wants[C_VALUE] && (ends_fit(&c->value.ends, rows) < 0 || room_fit(&c->value.data, bytes) < 0)) return -1;
    return c->wants[C_HEADERS] ? ends_fit(&c->starts, rows) : 0;
}

/* ---- rows */

/* Prefetch the memory `ahead` bytes after `p`, so that the next batch comes into the cache while this one is decoded: another processor may
   have written the fetched bytes. */
ALWAYS_INLINE void prefetch_record(const char *p, int64_t ahead) {
    if (!ahead) return;
    PREFETCH((const char *)((uintptr_t)p + (uintptr_t)ahead));
    PREFETCH((const char *)((uintptr_t)p + (uintptr_t)ahead + 64));
}

static inline int spans_add(Spans *s, const char *data, int64_t size) { /* there is room for the end offset */
    int64_t used = s->data.used;
    int32_t end;
    if (size > 0) {
        if (used + size > s->data.cap && room_grow(&s->data, used + size) < 0) return -1;
        memcpy(s->data.at + used, data, (size_t)size);
        s->data.used = used += size;
    } else if (size < 0) {
        if (bit_clear(&s->valid, &s->valid_cap, s->ends.used / 4 - 1) < 0) return -1;
        s->nulls++;
    }
    end = (int32_t)used;
    memcpy(s->ends.at + s->ends.used, &end, 4);
    s->ends.used += 4;
    return 0;
}

static inline void put_int64(Room *r, int64_t value) { /* there is room */
    memcpy(r->at + r->used, &value, 8);
    r->used += 8;
}

/* Add `ms`, converted to microseconds. No timestamp (-1), or one more than 292,277 years from 1970, becomes null. */
static inline int stamp_add(Columns *c, int64_t ms) {
    if (ms == -1 || ms > INT64_MAX / 1000 || ms < INT64_MIN / 1000) {
        if (bit_clear(&c->stamped, &c->stamped_cap, c->timestamp.used / 8) < 0) return -1;
        c->unstamped++;
        ms = 0;
    }
    put_int64(&c->timestamp, ms * 1000);
    return 0;
}

static int name_add(Spans *s, const char *data, int64_t size) { /* add the bytes as valid UTF-8; there is room for the end offset */
    int bad;
    int64_t good = utf8_valid((const unsigned char *)data, size, &bad);
    if (good == size) return spans_add(s, data, size);
    for (;; good = utf8_valid((const unsigned char *)data, size, &bad)) {
        if (room_fit(&s->data, good + 3) < 0) return -1;
        memcpy(s->data.at + s->data.used, data, (size_t)good);
        s->data.used += good;
        if (good == size) break;
        memcpy(s->data.at + s->data.used, "\xef\xbf\xbd", 3);
        s->data.used += 3;
        data += good + bad;
        size -= good + bad;
    }
    return spans_add(s, NULL, 0);
}

/* Add `count` headers of the next row, which are already checked. */
static int headers_add(Columns *c, const char *p, const char *end, int64_t count) {
    int64_t size = 0;
    int32_t stop;
    if (count && (ends_fit(&c->name.ends, count) < 0 || ends_fit(&c->content.ends, count) < 0)) return -1;
    c->headers += count;
    c->encoded += end - p;
    while (count-- > 0) {
        p = get_varint(p, end, &size);
        if (name_add(&c->name, p, size) < 0) return -1;
        p = get_varint(p + size, end, &size);
        if (spans_add(&c->content, p, size) < 0) return -1;
        if (size > 0) p += size;
    }
    stop = (int32_t)c->headers;
    memcpy(c->starts.at + c->starts.used, &stop, 4);
    c->starts.used += 4;
    return 0;
}

/* Add one record; `rest` to `end` are its headers, already checked. After a failure some columns may have the record: see `columns_cut`. */
static inline int row_add(Columns *c, int64_t offset, int64_t ms, const char *key, int64_t key_size, const char *value, int64_t value_size,
                          const char *rest, const char *end, int64_t headers) {
    if (c->wants[C_OFFSET]) put_int64(&c->offset, offset);
    if (c->wants[C_TIMESTAMP] && stamp_add(c, ms) < 0) return -1;
    if (c->wants[C_KEY] && spans_add(&c->key, key, key_size) < 0) return -1;
    if (c->wants[C_VALUE] && spans_add(&c->value, value, value_size) < 0) return -1;
    return c->wants[C_HEADERS] ? headers_add(c, rest, end, headers) : 0;
}

/* Whether offsets of 32 bits are enough with the key, value and headers of one more record. Each byte of the headers counts three times:
   an invalid byte of a name becomes three bytes. */
static inline int row_fits(const Columns *c, int64_t key_size, int64_t value_size, int64_t headers_size) {
    if (c->wants[C_KEY] && c->key.data.used + key_size > c->most_bytes) return 0;
    if (c->wants[C_VALUE] && c->value.data.used + value_size > c->most_bytes) return 0;
    if (!c->wants[C_HEADERS]) return 1;
    return 3 * (c->encoded + headers_size) <= c->most_bytes;
}

static void repeat_int32(Room *r, int64_t rows, int32_t value) {
    int32_t *at = (int32_t *)(r->at + r->used);
    for (int64_t i = 0; i < rows; i++) at[i] = value;
    r->used += rows * 4;
}

static void repeat_spans(Spans *s, int64_t rows, const char *data, int64_t size) {
    int32_t *ends = (int32_t *)(s->ends.at + s->ends.used);
    int32_t end = (int32_t)s->data.used, step = (int32_t)size;
    char *at = s->data.at + s->data.used;
    int64_t done = size, total = rows * size;
    for (int64_t i = 0; i < rows; i++) ends[i] = end += step;
    if (total) memcpy(at, data, (size_t)size);
    for (; done < total; done *= 2) memcpy(at + done, at, (size_t)(done * 2 <= total ? done : total - done)); /* twice as much each time */
    s->ends.used += rows * 4;
    s->data.used += total;
}

/* Fill the columns in which the `rows` rows that were added last have the same values. There is room. */
static void columns_repeat(Columns *c, int64_t rows, const char *topic, int64_t topic_size, int32_t partition, int32_t kind) {
    if (c->wants[C_TOPIC] && rows) repeat_spans(&c->topic, rows, topic, topic_size);
    if (c->wants[C_PARTITION] && rows) repeat_int32(&c->partition, rows, partition);
    if (c->wants[C_TIMESTAMP_TYPE] && rows) repeat_int32(&c->kind, rows, kind);
    c->rows += rows;
}

static int64_t bits_set(char *bits, int64_t from, int64_t to) { /* return the number of bits that were clear */
    int64_t n = 0;
    for (; from < to; from++) {
        n += !(bits[from >> 3] >> (from & 7) & 1);
        bits[from >> 3] |= (char)(1 << (from & 7));
    }
    return n;
}
static void spans_cut(Spans *s, int64_t rows) {
    int32_t end = 0;
    if (s->ends.used == 0) return;
    if (s->valid) s->nulls -= bits_set(s->valid, rows, s->valid_cap * 8);
    s->ends.used = (rows + 1) * 4;
    memcpy(&end, s->ends.at + rows * 4, 4);
    s->data.used = end;
}
/* Keep only the first `rows` rows of the columns that `row_add` fills. */
static void columns_cut(Columns *c, int64_t rows) {
    int32_t headers = 0;
    if (c->wants[C_OFFSET]) c->offset.used = rows * 8;
    if (c->wants[C_TIMESTAMP]) c->timestamp.used = rows * 8;
    if (c->stamped) c->unstamped -= bits_set(c->stamped, rows, c->stamped_cap * 8);
    spans_cut(&c->key, rows);
    spans_cut(&c->value, rows);
    if (!c->starts.used) return;
    memcpy(&headers, c->starts.at + rows * 4, 4);
    c->starts.used = (rows + 1) * 4;
    c->headers = headers;
    if (!rows) c->encoded = 0;
    spans_cut(&c->name, headers);
    spans_cut(&c->content, headers);
}

static int64_t bits_bytes(const char *bits, int64_t rows) { return bits ? (rows + 7) / 8 : 0; }
static int64_t spans_bytes(const Spans *s, int64_t rows) { return s->ends.used + s->data.used + bits_bytes(s->valid, rows); }
static int64_t columns_bytes(const Columns *c) {
    return c->partition.used + c->offset.used + c->timestamp.used + c->kind.used + c->starts.used + bits_bytes(c->stamped, c->rows) +
           spans_bytes(&c->topic, c->rows) + spans_bytes(&c->key, c->rows) + spans_bytes(&c->value, c->rows) +
           spans_bytes(&c->name, c->headers) + spans_bytes(&c->content, c->headers);
}

/* ---- finished */

static void room_trim(Room *r) { /* free the unused part of a block if that part is more than 64 KiB larger than the used part */
    char *at;
    if (r->cap - r->used <= 65536 + r->used) return;
    if ((at = (char *)realloc(r->at, (size_t)(r->used ? r->used : 1)))) r->at = at, r->cap = r->used;
}
static int spans_finish(Spans *s, int64_t rows) { /* every array of bytes has a first end, and every bitmap a bit per row */
    if (ends_fit(&s->ends, 0) < 0) return -1;
    room_trim(&s->ends), room_trim(&s->data);
    return s->valid ? bits_fit(&s->valid, &s->valid_cap, rows) : 0;
}

/* Finish `c`: no more rows are added, and the account includes the memory of `c` until `c` is released. */
static int columns_finish(Columns *c) {
    Room *rooms[] = {&c->partition, &c->offset, &c->timestamp, &c->kind, &c->starts};
    if (c->wants[C_TOPIC] && spans_finish(&c->topic, c->rows) < 0) return -1;
    if (c->wants[C_KEY] && spans_finish(&c->key, c->rows) < 0) return -1;
    if (c->wants[C_VALUE] && spans_finish(&c->value, c->rows) < 0) return -1;
    if (c->wants[C_HEADERS] && (spans_finish(&c->name, c->headers) < 0 || spans_finish(&c->content, c->headers) < 0)) return -1;
    if (c->wants[C_HEADERS] && ends_fit(&c->starts, 0) < 0) return -1;
    if (c->stamped && bits_fit(&c->stamped, &c->stamped_cap, c->rows) < 0) return -1;
    for (int i = 0; i < 5; i++) room_trim(rooms[i]);
    c->booked = columns_bytes(c);
    __atomic_add_fetch(&c->account->bytes, c->booked, __ATOMIC_ACQ_REL);
    return 0;
}
