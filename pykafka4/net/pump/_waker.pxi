# Ends the sleep of the loop. Invariant: any thread may call `wake`, even in a signal handler.

@cython.final
cdef class Waker:
    """Wakes the loop out of `run`, from any thread; see `net.handoff.wakeup.Wakeup`. Ctrl-C cannot interrupt `wake`."""

    cdef int fd, sleeping
    cdef public bint news

    def __cinit__(self):
        self.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.fd < 0:
            raise OSError(errno, os.strerror(errno))

    @property
    def asleep(self) -> bool:
        return load_flag(&self.sleeping) != 0

    @asleep.setter
    def asleep(self, bint value):
        swap_flag(&self.sleeping, value)

    def fileno(self) -> int:
        return self.fd

    def wake(self) -> None:
        cdef uint64_t one = 1
        self.news = True
        if load_flag(&self.sleeping) and swap_flag(&self.sleeping, 0) and self.fd >= 0:
            write(self.fd, &one, 8)

    def clear(self) -> None:
        cdef uint64_t count
        if self.fd >= 0:
            read(self.fd, &count, 8)

    def close(self) -> None:
        """Close the descriptor, without waking the loop."""
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1

    def __dealloc__(self):
        if self.fd >= 0:
            close(self.fd)
