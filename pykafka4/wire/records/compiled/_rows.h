/* Reads rows of Arrow arrays. Invariant: an array is checked before it is read, and each length and index before it is used.

   No struct has the sizes of buffers (except for views), so the end of a buffer cannot be checked: the exporter, code of this process, is
   trusted to that extent. Numbers may be unaligned, so they are read with memcpy; a buffer without bytes may have any pointer. */
#pragma once
#include "_arrow.h"
#include "_plat.h"

/* The numbers of rows.Kind. */
enum { K_NULL, K_ENDS32, K_ENDS64, K_VIEWS, K_FIXED, K_INTEGER, K_DICTIONARY, K_LIST32, K_LIST64, K_LIST_FIXED, K_PAIR };

typedef struct Column {
    int kind, is_signed;
    int64_t width, times, per;
    struct Column *child[2];
    /* fields of the current array */
    int64_t start, length;
    const char *valid, *first, *second;
    const void **parts; /* the buffers to which views refer */
    const char *part_sizes;
    int64_t part_count;
} Column;

static Column *column_new(int kind, int64_t width, int is_signed, int64_t times, int64_t per) {
    Column *c = (Column *)calloc(1, sizeof(Column));
    if (c) c->kind = kind, c->width = width, c->is_signed = is_signed, c->times = times, c->per = per;
    return c;
}

static void column_free(Column *c) {
    if (!c) return;
    column_free(c->child[0]), column_free(c->child[1]);
    free(c);
}

/* ---- arrays. `shift` is the offset of the parent struct, which applies to its children. Returns NULL, or the reason for a refusal. */

static const char *column_bind(Column *c, const struct ArrowArray *a, int64_t shift, int64_t rows) {
    static const int buffers[] = {0, 3, 3, 3, 2, 2, 2, 2, 2, 1, 1};
    const char *wrong = NULL;
    if (a->length < 0 || a->offset < 0 || a->length < shift + rows) return "an array is shorter than its batch";
    if (c->kind == K_VIEWS ? a->n_buffers < 3 : c->kind != K_NULL && a->n_buffers != buffers[c->kind])
        return "an array has an unexpected number of buffers";
    c->start = a->offset + shift;
    c->length = a->length - shift;
    c->valid = c->kind == K_NULL || a->null_count == 0 ? NULL : (const char *)a->buffers[0];
    if (a->null_count > 0 && !c->valid && c->kind != K_NULL) return "an array has nulls, but does not say which";
    c->first = a->n_buffers > 1 ? (const char *)a->buffers[1] : NULL;
    c->second = a->n_buffers > 2 ? (const char *)a->buffers[2] : NULL;
    if (c->length > 0 && c->kind != K_NULL && c->kind != K_PAIR && c->kind != K_LIST_FIXED && !c->first && (c->kind != K_FIXED || c->width))
        return "an array has no buffer";
    switch (c->kind) {
        case K_VIEWS:
            c->parts = a->buffers + 2;
            c->part_count = a->n_buffers - 3;
            c->part_sizes = (const char *)a->buffers[a->n_buffers - 1];
            return c->part_count && !c->part_sizes ? "an array of views has no sizes" : NULL;
        case K_DICTIONARY:
            if (!a->dictionary) return "an array has no dictionary";
            return column_bind(c->child[0], a->dictionary, 0, 0);
        case K_LIST32:
        case K_LIST64:
        case K_LIST_FIXED:
            if (a->n_children != 1) return "an array has an unexpected number of children";
            return column_bind(c->child[0], a->children[0], 0, 0);
        case K_PAIR: /* `width` is the index of the name */
            if (a->n_children != 2) return "an array has an unexpected number of children";
            for (int i = 0; i < 2 && !wrong; i++)
                wrong = column_bind(c->child[i], a->children[i ? 1 - c->width : c->width], c->start, c->length);
            return wrong;
        default: return NULL;
    }
}

static inline int bit_at(const char *bits, int64_t i) { return bits[i >> 3] >> (i & 7) & 1; }
static inline int is_null(const Column *c, int64_t row) { return c->kind == K_NULL || (c->valid && !bit_at(c->valid, c->start + row)); }

static inline int64_t integer_at(const char *at, int64_t width, int is_signed, int *too_large) {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    switch (width) {
        case 1: memcpy(&i8, at, 1); return is_signed ? i8 : (uint8_t)i8;
        case 2: memcpy(&i16, at, 2); return is_signed ? i16 : (uint16_t)i16;
        case 4: memcpy(&i32, at, 4); return is_signed ? i32 : (int64_t)(uint32_t)i32;
        default:
            memcpy(&i64, at, 8);
            if (!is_signed && i64 < 0) *too_large = 1;
            return i64;
    }
}

/* ---- values */

static inline const char *range_at(const char *ends, int64_t width, int64_t row, int64_t *from, int64_t *to) {
    int unused = 0;
    *from = integer_at(ends + row * width, width, 1, &unused);
    *to = integer_at(ends + (row + 1) * width, width, 1, &unused);
    return *from < 0 || *to < *from ? "its offsets do not increase" : NULL;
}

static const char *view_at(const Column *c, int64_t row, const char **data, int64_t *size) {
    const char *view = c->first + (c->start + row) * 16;
    int32_t length, part, from;
    int64_t whole;
    memcpy(&length, view, 4);
    if (length < 0) return "a view has a negative length";
    *size = length;
    *data = view + 4;
    if (length <= 12) return NULL;
    memcpy(&part, view + 8, 4);
    memcpy(&from, view + 12, 4);
    if (part < 0 || part >= c->part_count) return "a view is of a buffer that does not exist";
    memcpy(&whole, c->part_sizes + (int64_t)part * 8, 8);
    if (from < 0 || (int64_t)from + length > whole || !c->parts[part]) return "a view exceeds its buffer";
    *data = (const char *)c->parts[part] + from;
    return NULL;
}

/* The bytes of a row; null has the size -1. */
static inline const char *bytes_at(const Column *c, int64_t row, const char **data, int64_t *size) {
    const char *wrong;
    int64_t to;
    int too_large = 0;
    *size = -1;
    *data = NULL;
    if (is_null(c, row)) return NULL;
    switch (c->kind) {
        case K_ENDS32:
        case K_ENDS64:
            wrong = range_at(c->first, c->kind == K_ENDS32 ? 4 : 8, c->start + row, size, &to);
            if (wrong) return wrong;
            *data = c->second + *size;
            *size = to - *size;
            return *size && !c->second ? "an array has no buffer" : NULL;
        case K_VIEWS: return view_at(c, row, data, size);
        case K_FIXED:
            *data = c->first + (c->start + row) * c->width;
            *size = c->width;
            return NULL;
        default: /* K_DICTIONARY */
            to = integer_at(c->first + (c->start + row) * c->width, c->width, c->is_signed, &too_large);
            if (too_large || to < 0 || to >= c->child[0]->length) return "its index is not in the dictionary";
            return bytes_at(c->child[0], to, data, size);
    }
}

/* Read the integer of a row, scaled; `*none` says whether it is null. */
static const char *integer_of(const Column *c, int64_t row, int64_t *value, int *none) {
    int too_large = 0;
    if ((*none = is_null(c, row))) return NULL;
    *value = integer_at(c->first + (c->start + row) * c->width, c->width, c->is_signed, &too_large);
    if (too_large || *value > INT64_MAX / c->times || *value < INT64_MIN / c->times) return "it is out of range";
    *value *= c->times;
    if (c->per > 1) *value = *value / c->per - (*value % c->per < 0); /* towards the past */
    return NULL;
}

typedef struct {
    char *at;
    int64_t used, cap;
} Scratch;

static int scratch_fit(Scratch *s, int64_t more) {
    char *at;
    if (s->used + more <= s->cap) return 0;
    if (!(at = (char *)realloc(s->at, (size_t)((s->used + more) * 2)))) return -1;
    s->at = at;
    s->cap = (s->used + more) * 2;
    return 0;
}

static int scratch_bytes(Scratch *s, const char *data, int64_t size) {
    if (scratch_fit(s, 10 + (size > 0 ? size : 0)) < 0) return -1;
    s->used = put_varint(s->at + s->used, size) - s->at;
    if (size > 0) memcpy(s->at + s->used, data, (size_t)size), s->used += size;
    return 0;
}

/* Encode the headers of a row into `out`. */
static const char *headers_at(const Column *c, int64_t row, Scratch *out) {
    static const char no_memory[] = "there is no memory for its headers";
    const Column *pair = c->child[0];
    const char *data, *wrong = NULL;
    int64_t from = 0, to = 0, size;
    int bad;
    out->used = 0;
    if (!is_null(c, row)) {
        if (c->kind == K_LIST_FIXED) from = (c->start + row) * c->width, to = from + c->width;
        else wrong = range_at(c->first, c->kind == K_LIST32 ? 4 : 8, c->start + row, &from, &to);
        if (wrong || to > pair->length) return wrong ? wrong : "its list exceeds the array of headers";
    }
    if (scratch_fit(out, 10) < 0) return no_memory;
    out->used = put_varint(out->at, to - from) - out->at;
    for (; from < to; from++) {
        if (is_null(pair, from)) return "a header is null";
        if ((wrong = bytes_at(pair->child[0], from, &data, &size))) return wrong;
        if (size < 0) return "the name of a header is null";
        if (utf8_valid((const unsigned char *)data, size, &bad) != size) return "the name of a header is not valid UTF-8";
        if (scratch_bytes(out, data, size) < 0) return no_memory;
        if ((wrong = bytes_at(pair->child[1], from, &data, &size))) return wrong;
        if (scratch_bytes(out, data, size) < 0) return no_memory;
    }
    return NULL;
}

/* ---- import of structs: if two threads try to move a struct, the first to set `release` to NULL gets it */

#define MOVE_OF(Type, type)                                                                                       \
    static int move_##type(struct Type *from, struct Type *to) {                                                  \
        void (*release)(struct Type *) = __atomic_exchange_n(&from->release, NULL, __ATOMIC_ACQ_REL);             \
        if (!release) return 0;                                                                                   \
        *to = *from;                                                                                              \
        to->release = release;                                                                                    \
        return 1;                                                                                                 \
    }
MOVE_OF(ArrowSchema, schema)
MOVE_OF(ArrowArray, array)
MOVE_OF(ArrowArrayStream, stream)
#undef MOVE_OF
