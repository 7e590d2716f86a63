/* Exports `Columns` as Arrow data. Invariant: each array, parent or child, has its own reference to the columns, because a reader may
   move any of the arrays out.

   A released struct is left without pointers, because some readers read it again. */
#pragma once
#include "_columns.h"

static const char *const column_names[ALL_COLUMNS] = {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"};
static const char *const column_formats[ALL_COLUMNS] = {"u", "i", "l", "tsu:UTC", "i", "z", "z", "+l"};
static const char no_bytes[64] = {0}; /* the buffer of empty columns */

/* ---- schemas: a node owns the structs of its children */

typedef struct {
    struct ArrowSchema *children[ALL_COLUMNS], child[ALL_COLUMNS];
} SchemaNode;

static void schema_release(struct ArrowSchema *schema) {
    for (int64_t i = 0; i < schema->n_children; i++)
        if (schema->children[i]->release) schema->children[i]->release(schema->children[i]);
    free(schema->private_data);
    memset(schema, 0, sizeof *schema);
}

static int schema_set(struct ArrowSchema *out, const char *format, const char *name, int64_t flags, int children) {
    SchemaNode *node = NULL;
    memset(out, 0, sizeof *out);
    if (children && !(node = (SchemaNode *)calloc(1, sizeof(SchemaNode)))) return ENOMEM;
    out->format = format;
    out->name = name;
    out->flags = flags;
    out->n_children = children;
    for (int i = 0; i < children; i++) node->children[i] = &node->child[i];
    if (node) out->children = node->children;
    out->private_data = node;
    out->release = schema_release;
    return 0;
}

static int schema_headers(struct ArrowSchema *out) { /* the type of the items of `headers`: struct<key: string, value: binary> */
    int failed = schema_set(out, "+s", "item", ARROW_FLAG_NULLABLE, 2);
    if (!failed) failed = schema_set(out->children[0], "u", "key", ARROW_FLAG_NULLABLE, 0);
    if (!failed) failed = schema_set(out->children[1], "z", "value", ARROW_FLAG_NULLABLE, 0);
    return failed;
}

/* All fields are nullable, as in schemas that are written by hand. */
static int schema_export(const int *order, int count, struct ArrowSchema *out) {
    int failed = schema_set(out, "+s", "", 0, count);
    for (int i = 0; !failed && i < count; i++) {
        int which = order[i], nested = which == C_HEADERS;
        failed = schema_set(out->children[i], column_formats[which], column_names[which], ARROW_FLAG_NULLABLE, nested);
        if (!failed && nested) failed = schema_headers(out->children[i]->children[0]);
    }
    if (failed && out->release) out->release(out);
    return failed;
}

/* ---- arrays */

typedef struct {
    Columns *columns;
    const void *buffers[3];
    struct ArrowArray *children[ALL_COLUMNS];
    struct ArrowArray child[]; /* one for each child */
} ArrayNode;

static void array_release(struct ArrowArray *array) {
    ArrayNode *node = (ArrayNode *)array->private_data;
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->release) array->children[i]->release(array->children[i]);
    columns_release(node->columns);
    free(node);
    memset(array, 0, sizeof *array);
}

static ArrayNode *array_set(struct ArrowArray *out, Columns *c, int64_t length, int64_t nulls, int buffers, int children) {
    ArrayNode *node = (ArrayNode *)calloc(1, sizeof(ArrayNode) + (size_t)children * sizeof(struct ArrowArray));
    memset(out, 0, sizeof *out);
    if (!node) return NULL;
    node->columns = columns_keep(c);
    for (int i = 0; i < children; i++) node->children[i] = &node->child[i];
    out->length = length;
    out->null_count = nulls;
    out->n_buffers = buffers;
    out->buffers = node->buffers;
    out->n_children = children;
    if (children) out->children = node->children;
    out->private_data = node;
    out->release = array_release;
    return node;
}

static const void *pointer(const Room *r) { return r->at ? r->at : no_bytes; }

static int array_spans(struct ArrowArray *out, Columns *c, const Spans *s, int64_t rows) {
    ArrayNode *node = array_set(out, c, rows, s->nulls, 3, 0);
    if (!node) return ENOMEM;
    node->buffers[0] = s->valid;
    node->buffers[1] = pointer(&s->ends);
    node->buffers[2] = pointer(&s->data);
    return 0;
}

static int array_fixed(struct ArrowArray *out, Columns *c, const Room *r, const char *valid, int64_t nulls) {
    ArrayNode *node = array_set(out, c, c->rows, nulls, 2, 0);
    if (!node) return ENOMEM;
    node->buffers[0] = valid;
    node->buffers[1] = pointer(r);
    return 0;
}

static int array_headers(struct ArrowArray *out, Columns *c) {
    ArrayNode *list = array_set(out, c, c->rows, 0, 2, 1), *pair;
    if (!list) return ENOMEM;
    list->buffers[1] = pointer(&c->starts);
    if (!(pair = array_set(list->children[0], c, c->headers, 0, 1, 2))) return ENOMEM;
    if (array_spans(pair->children[0], c, &c->name, c->headers)) return ENOMEM;
    return array_spans(pair->children[1], c, &c->content, c->headers);
}

static int array_column(struct ArrowArray *out, Columns *c, int which) {
    switch (which) {
        case C_TOPIC: return array_spans(out, c, &c->topic, c->rows);
        case C_KEY: return array_spans(out, c, &c->key, c->rows);
        case C_VALUE: return array_spans(out, c, &c->value, c->rows);
        case C_HEADERS: return array_headers(out, c);
        case C_PARTITION: return array_fixed(out, c, &c->partition, NULL, 0);
        case C_OFFSET: return array_fixed(out, c, &c->offset, NULL, 0);
        case C_TIMESTAMP: return array_fixed(out, c, &c->timestamp, c->stamped, c->unstamped);
        default: return array_fixed(out, c, &c->kind, NULL, 0);
    }
}

/* Export all columns as one struct array, the form of a record batch. Returns 0 or ENOMEM. */
static int array_export(Columns *c, struct ArrowArray *out) {
    int failed = array_set(out, c, c->rows, 0, 1, c->count) ? 0 : ENOMEM;
    for (int i = 0; !failed && i < c->count; i++) failed = array_column(out->children[i], c, c->order[i]);
    if (failed && out->release) out->release(out);
    return failed;
}

/* ---- streams of one batch */

typedef struct {
    Columns *columns;
    int given;
} StreamNode;

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    Columns *c = ((StreamNode *)stream->private_data)->columns;
    return schema_export(c->order, c->count, out);
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    StreamNode *node = (StreamNode *)stream->private_data;
    int failed;
    memset(out, 0, sizeof *out); /* the reader may not have initialized it; an array without `release` is the end of the stream */
    if (node->given) return 0;
    if (!(failed = array_export(node->columns, out))) node->given = 1;
    return failed;
}

static const char *stream_get_last_error(struct ArrowArrayStream *stream) {
    (void)stream;
    return "out of memory"; /* nothing else fails */
}

static void stream_release(struct ArrowArrayStream *stream) {
    StreamNode *node = (StreamNode *)stream->private_data;
    columns_release(node->columns);
    free(node);
    memset(stream, 0, sizeof *stream);
}

static int stream_export(Columns *c, struct ArrowArrayStream *out) {
    StreamNode *node = (StreamNode *)calloc(1, sizeof(StreamNode));
    if (!node) return ENOMEM;
    node->columns = columns_keep(c);
    out->get_schema = stream_get_schema;
    out->get_next = stream_get_next;
    out->get_last_error = stream_get_last_error;
    out->release = stream_release;
    out->private_data = node;
    return 0;
}
