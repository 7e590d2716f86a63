# The method `send` of producers: an instance gives its accumulator's own method, because a call in between takes as long as a send.

from cpython.object cimport PyObject_GenericGetAttr


cdef class send_method:
    """Decorator. On an instance its attribute `_send`; on the class the decorated function, for documentation and tracing.

    `unittest.mock` leaves `self` out of a signature only where a class has a function: therefore the decorator claims to be one.
    """

    cdef readonly object __wrapped__

    def __init__(self, function):
        self.__wrapped__ = function

    def __get__(self, owner, kind):
        # Not `owner._send`: a producer has `__getattr__`, which makes each look-up by name slower.
        return self.__wrapped__ if owner is None else PyObject_GenericGetAttr(owner, "_send")

    def __call__(self, *args, **how):
        return self.__wrapped__(*args, **how)

    def __getattr__(self, str name):
        return getattr(self.__wrapped__, name)

    @property
    def __class__(self):
        return type(self.__wrapped__)
