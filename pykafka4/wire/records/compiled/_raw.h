/* Reads short records, as encoded in a batch. Invariant: every length is checked against the bytes left before it is used. */
#pragma once
#include "_plat.h"

typedef struct {
    int64_t timestamp, offset; /* deltas */
    int64_t key_size, value_size, headers;
    const char *key, *value, *rest, *end; /* rest: the headers, without their count */
} Raw;

/* Find the fields of the record at `p` if it has no headers, at least seven bytes after its length, and only numbers of one or two bytes,
   as most records do. Returns 0 for any other record: the caller then calls `read_record`, which also finds out whether the record is
   invalid. */
ALWAYS_INLINE int short_record(const char *p, const char *end, Raw *f) {
    int64_t size;
    if (!(p = get_short_varint(p, end, &size)) || size < 7 || size > end - p) return 0;
    f->end = end = p + size;
    if (!(p = get_short_varint(p + 1, end, &f->timestamp)) || !(p = get_short_varint(p, end, &f->offset))) return 0;
    if (!(p = get_short_varint(p, end, &f->key_size)) || f->key_size > end - p) return 0;
    f->key = p;
    if (f->key_size > 0) p += f->key_size;
    if (!(p = get_short_varint(p, end, &f->value_size)) || f->value_size > end - p) return 0;
    f->value = p;
    if (f->value_size > 0) p += f->value_size;
    f->headers = 0;
    f->rest = end;
    return p + 1 == end && *p == 0;
}
