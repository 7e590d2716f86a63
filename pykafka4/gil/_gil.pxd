"""For the other compiled modules."""

cdef int wanted                 # threads that wait for the GIL, or will in a moment; read only

cdef int give_way() except -1
cdef int step_aside() except -1
cdef bint pause() noexcept nogil
cdef void ask() noexcept nogil
cdef void taken() noexcept
cdef void got() noexcept
