"""Declares the flag for the other compiled modules."""

cdef int wanted                 # number of threads that have asked for the GIL and not lowered the flag yet; other modules only read it

cdef int give_way() except -1
cdef int step_aside() except -1
cdef bint pause() noexcept nogil
cdef void ask() noexcept nogil
cdef void taken() noexcept
cdef void got() noexcept
