/* Exports a stream whose batches are made by a Python object, its source. Invariant: `release` needs no GIL.

   A thread that has the GIL drops the source later. `get_next` takes the GIL, on any thread. Once the interpreter has begun to end, no
   thread can take the GIL, so the stream fails. */
#pragma once
#include <Python.h>
#include "_export.h"

#if PY_VERSION_HEX >= 0x030D0000
#define interpreter_ends Py_IsFinalizing
#else
#define interpreter_ends _Py_IsFinalizing
#endif

typedef int Make(PyObject *source, struct ArrowArray *out, char **error); /* takes the GIL; returns 0 or an errno, perhaps with a text */

typedef struct Live {
    PyObject *source;
    Make *make; /* called for each batch */
    struct Live *next; /* in the list `live_dropped` */
    char *error;
    int count, order[ALL_COLUMNS];
} Live;

static Live *live_dropped; /* released streams, whose sources must be dropped */

static int live_drop_all(void *unused) { /* needs the GIL */
    Live *live = __atomic_exchange_n(&live_dropped, NULL, __ATOMIC_ACQ_REL), *next;
    (void)unused;
    for (; live; live = next) {
        next = live->next;
        Py_DECREF(live->source);
        free(live->error);
        free(live);
    }
    return 0;
}

static void live_release(struct ArrowArrayStream *stream) {
    Live *live = (Live *)stream->private_data;
    memset(stream, 0, sizeof *stream);
    live->next = __atomic_load_n(&live_dropped, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&live_dropped, &live->next, live, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    /* If Python's queue of pending calls is full, a later `live_drop_all` drops the source. */
    if (Py_IsInitialized() && !interpreter_ends()) Py_AddPendingCall(live_drop_all, NULL);
}

static int live_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    Live *live = (Live *)stream->private_data;
    return schema_export(live->order, live->count, out);
}

static int live_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    Live *live = (Live *)stream->private_data;
    memset(out, 0, sizeof *out);
    free(live->error);
    live->error = NULL;
    if (!Py_IsInitialized() || interpreter_ends()) return ECANCELED;
    return live->make(live->source, out, &live->error);
}

static const char *live_get_last_error(struct ArrowArrayStream *stream) {
    Live *live = (Live *)stream->private_data;
    return live->error ? live->error : "out of memory, or the Python interpreter has ended";
}

static int live_export(PyObject *source, Make *make, const int *order, int count, struct ArrowArrayStream *out) {
    Live *live = (Live *)calloc(1, sizeof(Live));
    if (!live) return ENOMEM;
    Py_INCREF(source);
    live->source = source;
    live->make = make;
    live->count = count;
    memcpy(live->order, order, (size_t)count * sizeof(int));
    out->get_schema = live_get_schema;
    out->get_next = live_get_next;
    out->get_last_error = live_get_last_error;
    out->release = live_release;
    out->private_data = live;
    return 0;
}
