/* Record. Rule: immutable, no GC header, a free list.

   It holds str, bytes, int and tuples of those, so it can be in no cycle and the collector need not see it: two million kept
   records then cost nothing per collection. T_OBJECT_EX members let CPython specialise `record.value` to a slot load. */
#pragma once
#include <Python.h>
#include <structmember.h>

#define RECORD_FIELDS 9
#define RECORD_SPARE 4096

typedef struct {
    PyObject_HEAD
    PyObject *field[RECORD_FIELDS]; /* in the order of record_names */
} Record;

static char *record_names[] = {"topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers", "leader_epoch", NULL};
static Record *record_spare[RECORD_SPARE];
static int record_spares;
static PyTypeObject RecordType;

static void record_dealloc(PyObject *self) {
    Record *r = (Record *)self;
    for (int i = 0; i < RECORD_FIELDS; i++) Py_XDECREF(r->field[i]);
    if (record_spares < RECORD_SPARE) record_spare[record_spares++] = r;
    else PyObject_Free(r);
}

static inline Record *record_alloc(void) {
    if (!record_spares) return PyObject_New(Record, &RecordType);
    Record *r = record_spare[--record_spares];
    (void)PyObject_Init((PyObject *)r, &RecordType);
    return r;
}

/* Steals `offset`, `key`, `value` and `headers`; borrows the rest, which neighbours share. */
static inline PyObject *record_make(PyObject *topic, PyObject *partition, PyObject *offset, PyObject *timestamp, PyObject *kind,
                                    PyObject *key, PyObject *value, PyObject *headers, PyObject *epoch) {
    Record *r = record_alloc();
    if (!r) {
        Py_DECREF(offset), Py_DECREF(key), Py_DECREF(value), Py_DECREF(headers);
        return NULL;
    }
    Py_INCREF(topic), Py_INCREF(partition), Py_INCREF(timestamp), Py_INCREF(kind), Py_INCREF(epoch);
    /* One by one: through an array and memcpy the wide loads would wait for the narrow stores before them. */
    r->field[0] = topic, r->field[1] = partition, r->field[2] = offset, r->field[3] = timestamp, r->field[4] = kind;
    r->field[5] = key, r->field[6] = value, r->field[7] = headers, r->field[8] = epoch;
    return (PyObject *)r;
}

static PyObject *record_tuple(PyObject *self) {
    PyObject *t = PyTuple_New(RECORD_FIELDS);
    if (!t) return NULL;
    for (int i = 0; i < RECORD_FIELDS; i++) {
        PyObject *o = ((Record *)self)->field[i];
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
    PyObject **f = ((Record *)self)->field;
    return PyUnicode_FromFormat("Record(topic=%R, partition=%R, offset=%R, timestamp_ms=%R, timestamp_type=%R, key=%R, value=%R, headers=%R, "
                                "leader_epoch=%R)",
                                f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]);
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

static PyObject *record_reduce(PyObject *self, PyObject *unused) {
    PyObject *t = record_tuple(self);
    return t ? Py_BuildValue("(ON)", (PyObject *)Py_TYPE(self), t) : NULL;
}

static PyMemberDef record_members[RECORD_FIELDS + 1];
static PyMethodDef record_methods[] = {
    {"__reduce__", record_reduce, METH_NOARGS, "Pickle as the constructor's arguments."},
    {NULL},
};
/* The name is that of the module that exports it, so that pickles go between the compiled and the plain core. */
static PyTypeObject RecordType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "pykafka4.wire.hot.Record",
    .tp_doc = "A record as read: topic, partition, offset, timestamp_ms, timestamp_type, key, value, headers, leader_epoch.",
    .tp_basicsize = sizeof(Record),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = record_dealloc,
    .tp_new = record_new,
    .tp_repr = record_repr,
    .tp_richcompare = record_compare,
    .tp_hash = record_hash,
    .tp_members = record_members,
    .tp_methods = record_methods,
};

static int record_type_ready(void) {
    for (int i = 0; i < RECORD_FIELDS; i++)
        record_members[i] = (PyMemberDef){record_names[i], T_OBJECT_EX, (Py_ssize_t)(offsetof(Record, field) + i * sizeof(PyObject *)), READONLY, NULL};
    return PyType_Ready(&RecordType);
}
