/* Defines the type `Record`: immutable, without a header for the garbage collector, with a free list.

   A fetched record has only str, bytes, int, None, tuples of these and encoded headers, so it can be in no cycle, and the collector need
   not see it, however many records the application keeps. T_OBJECT_EX members let CPython specialise `record.value` to a slot load.

   Headers stay encoded until the application reads them, which it mostly does for few records. As objects they can take 40 times their
   bytes, beyond every limit on decompressed data. Their lengths are checked when the record is made.

   A deserialized record has objects of the application as key and value. In place of headers it refers to its raw record, which has the
   bytes and the headers, so a record needs no further field. An object that refers to its own deserialized record is never freed. */
#pragma once
#include <Python.h>
#include <structmember.h>
#include "_plat.h"

#define RECORD_FIELDS 9
#define RECORD_SPARE 4096

typedef struct {
    PyObject_HEAD
    PyObject *field[RECORD_FIELDS]; /* in the order of record_names */
    PyObject *weakrefs;
} Record;

typedef struct { /* takes the place of a record's headers until they are read; Python code never sees it */
    PyObject_VAR_HEAD
    int64_t count;
    char data[1];
} EncodedHeaders;

#define RECORD_HEADERS 7

static char *record_names[] = {"topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers", "leader_epoch", NULL};
static Record *record_spare[RECORD_SPARE];
static int record_spares;
static PyTypeObject RecordType;
static PyTypeObject EncodedHeadersType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pykafka4.wire.records.compiled._hot.EncodedHeaders",
    .tp_basicsize = offsetof(EncodedHeaders, data),
    .tp_itemsize = 1,
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static inline PyObject *headers_keep(int64_t count, const char *data, size_t size) {
    EncodedHeaders *h = PyObject_NewVar(EncodedHeaders, &EncodedHeadersType, (Py_ssize_t)size);
    if (!h) return NULL;
    h->count = count;
    memcpy(h->data, data, size);
    return (PyObject *)h;
}

/* NULL, or the reason why the `count` headers between `p` and `end` are invalid. */
static inline const char *headers_check(const char *p, const char *end, int64_t count) {
    int64_t size;
    while (count-- > 0) {
        p = get_varint(p, end, &size);
        if (!p || size < 0 || size > end - p) return "the length of a header's name exceeds its record";
        p = get_varint(p + size, end, &size);
        if (!p || size > end - p) return "the length of a header's value exceeds its record";
        if (size > 0) p += size;
    }
    return p == end ? NULL : "a record is longer than its fields";
}

/* `count` headers as a tuple of (str, bytes or None); they must have been checked. */
static PyObject *headers_build(const char *p, const char *end, int64_t count) {
    PyObject *all = PyTuple_New((Py_ssize_t)count);
    int64_t size = 0;
    for (Py_ssize_t i = 0; all && i < count; i++) {
        p = get_varint(p, end, &size);
        PyObject *name = PyUnicode_DecodeUTF8(p, (Py_ssize_t)size, "replace"); /* as in Java: one invalid name must not block a partition */
        p = get_varint(p + size, end, &size);
        PyObject *value = size < 0 ? (Py_INCREF(Py_None), Py_None) : PyBytes_FromStringAndSize(p, (Py_ssize_t)size);
        if (size > 0) p += size;
        PyObject *pair = name && value ? PyTuple_Pack(2, name, value) : NULL;
        Py_XDECREF(name), Py_XDECREF(value);
        if (pair) PyTuple_SET_ITEM(all, i, pair);
        else Py_CLEAR(all);
    }
    return all;
}

/* The record as fetched: `r` itself, or the record from which `r` was deserialized. Borrowed. */
static inline Record *record_raw(Record *r) {
    PyObject *headers = r->field[RECORD_HEADERS];
    return Py_TYPE(headers) == &RecordType ? (Record *)headers : r;
}

/* The headers of `r` as objects, borrowed; the first call makes them. */
static PyObject *record_headers(Record *r) {
    r = record_raw(r);
    PyObject *kept = r->field[RECORD_HEADERS];
    if (Py_TYPE(kept) != &EncodedHeadersType) return kept;
    EncodedHeaders *h = (EncodedHeaders *)kept;
    Py_INCREF(kept); /* the collector may meanwhile run code that makes the same headers: then those objects stay, and ours are freed */
    PyObject *built = headers_build(h->data, h->data + Py_SIZE(h), h->count);
    if (built && r->field[RECORD_HEADERS] == kept) {
        r->field[RECORD_HEADERS] = built;
        Py_DECREF(kept);
    } else {
        Py_XDECREF(built);
    }
    Py_DECREF(kept);
    return built ? r->field[RECORD_HEADERS] : NULL;
}

static PyObject *record_get_headers(PyObject *self, void *unused) {
    PyObject *headers = record_headers((Record *)self);
    Py_XINCREF(headers);
    return headers;
}

static PyObject *record_get_raw(PyObject *self, void *unused) {
    return Py_NewRef((PyObject *)record_raw((Record *)self));
}

static void record_dealloc(PyObject *self) {
    Record *r = (Record *)self;
    if (r->weakrefs) PyObject_ClearWeakRefs(self);
    for (int i = 0; i < RECORD_FIELDS; i++) Py_XDECREF(r->field[i]);
    if (record_spares < RECORD_SPARE) record_spare[record_spares++] = r;
    else PyObject_Free(r);
}

static inline Record *record_alloc(void) {
    Record *r;
    if (record_spares) {
        r = record_spare[--record_spares];
        (void)PyObject_Init((PyObject *)r, &RecordType);
    } else if (!(r = PyObject_New(Record, &RecordType))) {
        return NULL;
    }
    r->weakrefs = NULL;
    return r;
}

/* Make a record. Steals `offset`, `key`, `value` and `headers`; borrows the other arguments, which neighbouring records share. */
static inline PyObject *record_make(PyObject *topic, PyObject *partition, PyObject *offset, PyObject *timestamp, PyObject *kind,
                                    PyObject *key, PyObject *value, PyObject *headers, PyObject *epoch) {
    Record *r = record_alloc();
    if (!r) {
        Py_DECREF(offset), Py_DECREF(key), Py_DECREF(value), Py_DECREF(headers);
        return NULL;
    }
    Py_INCREF(topic), Py_INCREF(partition), Py_INCREF(timestamp), Py_INCREF(kind), Py_INCREF(epoch);
    /* The fields are set one by one: with an array and memcpy, the wide loads would wait for the narrow stores before them. */
    r->field[0] = topic, r->field[1] = partition, r->field[2] = offset, r->field[3] = timestamp, r->field[4] = kind;
    r->field[5] = key, r->field[6] = value, r->field[7] = headers, r->field[8] = epoch;
    return (PyObject *)r;
}

static PyObject *record_tuple(PyObject *self) {
    PyObject *headers = record_headers((Record *)self);
    PyObject *t = headers ? PyTuple_New(RECORD_FIELDS) : NULL;
    if (!t) return NULL;
    for (int i = 0; i < RECORD_FIELDS; i++) {
        PyObject *o = i == RECORD_HEADERS ? headers : ((Record *)self)->field[i];
        Py_INCREF(o);
        PyTuple_SET_ITEM(t, i, o);
    }
    return t;
}

static PyObject *record_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *in[RECORD_FIELDS] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOOOOO:Record", record_names, &in[0], &in[1], &in[2], &in[3], &in[4], &in[5],
                                     &in[6], &in[7], &in[8]))
        return NULL;
    for (int i = 0; i < RECORD_FIELDS; i++) Py_XINCREF(in[i]);
    if (!in[3]) in[3] = PyLong_FromLong(-1);
    if (!in[4]) in[4] = PyUnicode_InternFromString("CREATE_TIME");
    if (!in[5]) in[5] = Py_None, Py_INCREF(Py_None);
    if (!in[6]) in[6] = Py_None, Py_INCREF(Py_None);
    if (!in[7]) in[7] = PyTuple_New(0);
    if (!in[8]) in[8] = PyLong_FromLong(-1);
    Record *r = PyErr_Occurred() ? NULL : record_alloc();
    if (!r) {
        for (int i = 0; i < RECORD_FIELDS; i++) Py_XDECREF(in[i]);
        return NULL;
    }
    memcpy(r->field, in, sizeof in);
    return (PyObject *)r;
}

static PyObject *record_repr(PyObject *self) {
    PyObject **f = ((Record *)self)->field, *headers = record_headers((Record *)self);
    if (!headers) return NULL;
    return PyUnicode_FromFormat("Record(topic=%R, partition=%R, offset=%R, timestamp_ms=%R, timestamp_type=%R, key=%R, value=%R, headers=%R, "
                                "leader_epoch=%R)",
                                f[0], f[1], f[2], f[3], f[4], f[5], f[6], headers, f[8]);
}

static PyObject *record_compare(PyObject *a, PyObject *b, int op) {
    if (Py_TYPE(b) != &RecordType || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    PyObject *x = record_tuple(a), *y = x ? record_tuple(b) : NULL;
    PyObject *result = y ? PyObject_RichCompare(x, y, op) : NULL;
    Py_XDECREF(x), Py_XDECREF(y);
    return result;
}

static Py_hash_t record_hash(PyObject *self) {
    PyObject *t = record_tuple(self);
    Py_hash_t hash = t ? PyObject_Hash(t) : -1;
    Py_XDECREF(t);
    return hash;
}

static PyObject *record_deserialized(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    if (count != 2) return PyErr_Format(PyExc_TypeError, "deserialized takes a key and a value");
    Record *raw = record_raw((Record *)self);
    PyObject **f = raw->field;
    PyObject *offset = Py_NewRef(f[2]), *key = Py_NewRef(args[0]), *value = Py_NewRef(args[1]);
    return record_make(f[0], f[1], offset, f[3], f[4], key, value, Py_NewRef((PyObject *)raw), f[8]);
}

static PyObject *record_reduce(PyObject *self, PyObject *unused) {
    Record *r = (Record *)self, *raw = record_raw(r);
    if (raw != r) return Py_BuildValue("(N(OO))", PyObject_GetAttrString((PyObject *)raw, "deserialized"), r->field[5], r->field[6]);
    PyObject *t = record_tuple(self);
    return t ? Py_BuildValue("(ON)", (PyObject *)Py_TYPE(self), t) : NULL;
}

static PyMemberDef record_members[RECORD_FIELDS]; /* all but the headers */
static PyGetSetDef record_getset[] = {
    {"headers", record_get_headers, NULL, "The headers, in their order: (name, value) pairs.", NULL},
    {"raw", record_get_raw, NULL, "The record with key and value as bytes: itself, or the record from which it was deserialized.", NULL},
    {NULL},
};
static PyMethodDef record_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "Record[K, V], for annotations."},
    {"__reduce__", record_reduce, METH_NOARGS, "Pickle a deserialized record by its raw record, any other by the constructor's arguments."},
    {"deserialized", (PyCFunction)(void (*)(void))record_deserialized, METH_FASTCALL,
     "deserialized(key, value): a copy of this record with the objects `key` and `value`; its `raw` is the record with the bytes."},
    {NULL},
};
/* The name contains the module that exports the type, so that a pickle of one core can be read with the other. */
static PyTypeObject RecordType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pykafka4.wire.records.hot.Record",
    .tp_doc = "A record as consumed: topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers, leader_epoch.",
    .tp_basicsize = sizeof(Record),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = record_dealloc,
    .tp_new = record_new,
    .tp_repr = record_repr,
    .tp_richcompare = record_compare,
    .tp_hash = record_hash,
    .tp_members = record_members,
    .tp_getset = record_getset,
    .tp_weaklistoffset = offsetof(Record, weakrefs),
    .tp_methods = record_methods,
};

/* Set an attribute of a compiled type, which is immutable from Python. */
static int type_set(PyObject *type, const char *name, PyObject *value) {
    if (PyDict_SetItemString(((PyTypeObject *)type)->tp_dict, name, value) < 0) return -1;
    PyType_Modified((PyTypeObject *)type);
    return 0;
}

static int record_type_ready(void) {
    int n = 0;
    for (int i = 0; i < RECORD_FIELDS; i++)
        if (i != RECORD_HEADERS)
            record_members[n++] =
                (PyMemberDef){record_names[i], T_OBJECT_EX, (Py_ssize_t)(offsetof(Record, field) + i * sizeof(PyObject *)), READONLY, NULL};
    return PyType_Ready(&EncodedHeadersType) < 0 ? -1 : PyType_Ready(&RecordType);
}
