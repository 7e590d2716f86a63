# Makes `send` of a producer its accumulator's own method: a Python method in between would take as long as the accumulator's `send`.

from cpython.object cimport PyObject_GenericGetAttr


cdef class send_method:
    """A decorator. On an instance, the method's name gives the attribute `_send`; on the class, the decorated function, for documentation.

    `unittest.mock` leaves `self` out of a signature only if the class attribute is a function, so the decorator claims to be one.
    """

    cdef readonly object __wrapped__

    def __init__(self, function):
        self.__wrapped__ = function

    def __get__(self, owner, kind):
        # Not `owner._send`: a producer has `__getattr__`, which makes each lookup by name slower.
        return self.__wrapped__ if owner is None else PyObject_GenericGetAttr(owner, "_send")

    def __call__(self, *args, **how):
        return self.__wrapped__(*args, **how)

    def __getattr__(self, str name):
        return getattr(self.__wrapped__, name)

    @property
    def __class__(self):
        return type(self.__wrapped__)
