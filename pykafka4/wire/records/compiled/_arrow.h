/* Declares the Arrow C data interface, as in its specification, and makes the capsules of its structs. Only the functions for
   capsules need the GIL.

   Readers move the structs by memcpy, so neither a struct nor its private data has a pointer to that struct. */
#pragma once
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* A reader that has moved a struct out of its capsule has set `release` to NULL. */
#define CAPSULE_OF(Type, type, name)                                                          \
    static void type##_drop(PyObject *capsule) {                                              \
        struct Type *held = (struct Type *)PyCapsule_GetPointer(capsule, name);               \
        if (held && held->release) held->release(held);                                       \
        free(held);                                                                           \
    }                                                                                         \
    /* An empty struct in a capsule, or NULL with an exception set. */                        \
    static PyObject *capsule_##type(struct Type **held) {                                     \
        PyObject *capsule;                                                                    \
        if (!(*held = (struct Type *)calloc(1, sizeof(struct Type)))) return PyErr_NoMemory(); \
        if (!(capsule = PyCapsule_New(*held, name, type##_drop))) free(*held);                \
        return capsule;                                                                       \
    }
CAPSULE_OF(ArrowSchema, schema, "arrow_schema")
CAPSULE_OF(ArrowArray, array, "arrow_array")
CAPSULE_OF(ArrowArrayStream, stream, "arrow_array_stream")
#undef CAPSULE_OF
