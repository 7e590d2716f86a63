# Iterates over a list of records, for `for record in consumer`. Another thread can stop the iteration between any two records.


@cython.final
cdef class RecordIterator:
    """Iterates over `records`; `given` counts the records handed out.

    While `stopped` is set, the iteration ends early; it continues once `stopped` has been reset. Other threads read `given` and set
    `stopped` while the application iterates. Both are C fields, so the iteration runs no Python code.
    """

    cdef readonly list records
    cdef Py_ssize_t _given
    cdef public bint stopped

    def __cinit__(self, list records not None):
        self.records = records
        self._given = 0
        self.stopped = False

    @property
    def given(self):
        return self._given

    @given.setter
    def given(self, Py_ssize_t value):
        if value < 0:
            raise ValueError(f"given={value}: must not be negative")
        self._given = value

    def __iter__(self):
        return self

    def __next__(self):
        cdef object record
        if wanted:
            give_way()
        if self.stopped or self._given >= PyList_GET_SIZE(self.records):
            raise StopIteration
        record = <object>PyList_GET_ITEM(self.records, self._given)
        self._given += 1
        return record

    def __length_hint__(self):
        return max(0, PyList_GET_SIZE(self.records) - self._given)
