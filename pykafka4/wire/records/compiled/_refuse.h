/* Raises exceptions that a method returns. Invariant: the traceback of such an exception contains no function of the compiled core.

   Under overload, on_full=raise refuses most records. For each function that an exception passes through, Cython makes a
   frame and a traceback entry, which costs more than a `send`. So the method returns the exception, and `call_refusing`,
   called in place of the method, raises it. */
#pragma once
#include <Python.h>

typedef PyObject *(*Method)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

static Method refusing_method; /* the method as Cython compiled it */
static PyMethodDef refusing_definition;
static PyObject *explain_type_error; /* a function that adds a hint to a TypeError */

static void explain_wrong_call(void) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *done = PyObject_CallOneArg(explain_type_error, error);
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    PyErr_Restore(type, error, trace);
}

static PyObject *call_refusing(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
    PyObject *result = refusing_method(self, args, count, names);
    if (result && PyExceptionInstance_Check(result)) {
        PyErr_SetObject((PyObject *)Py_TYPE(result), result);
        Py_CLEAR(result);
    }
    if (!result && PyErr_ExceptionMatches(PyExc_TypeError)) explain_wrong_call();
    return result;
}

/* Let the method `name` of `type` raise each exception that it returns, and pass its TypeErrors to `explain`. There can be only one such
   method. Returns 0, or -1 with an exception set. */
static int raise_what_it_returns(PyObject *type, const char *name, PyObject *explain) {
    explain_type_error = explain, Py_INCREF(explain);
    PyObject *members = ((PyTypeObject *)type)->tp_dict, *method = PyDict_GetItemString(members, name);
    if (!method || !Py_IS_TYPE(method, &PyMethodDescr_Type) || ((PyMethodDescrObject *)method)->d_method->ml_flags != (METH_FASTCALL | METH_KEYWORDS)) {
        PyErr_Format(PyExc_ImportError, "%s was not compiled as it should be: it does not take its arguments as an array", name);
        return -1;
    }
    refusing_definition = *((PyMethodDescrObject *)method)->d_method;
    refusing_method = (Method)(void (*)(void))refusing_definition.ml_meth;
    refusing_definition.ml_meth = (PyCFunction)(void (*)(void))call_refusing;
    PyObject *raising = PyDescr_NewMethod((PyTypeObject *)type, &refusing_definition);
    int wrong = raising ? PyDict_SetItemString(members, name, raising) : -1;
    Py_XDECREF(raising);
    PyType_Modified((PyTypeObject *)type);
    return wrong;
}
