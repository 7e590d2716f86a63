# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, embedsignature=False, auto_pickle=False
"""Implements the flag behind `pykafka4.gil`. Invariant: each wait for another thread to take the GIL has a limit of one millisecond.

A thread without the GIL raises the flag (`ask`), takes the GIL, and lowers the flag (`got`); a loop lowers it at the end of its turn.
Meanwhile, threads of the application that see the flag raised release the GIL (`give_way`) until the flag is lowered.

Every hand-over costs the computing thread two thread switches. So while hand-overs come more often than once in 400 µs, the
compiled pump and threads that wake up in a `Lock` sleep before they raise the flag (`pause`); after the sleep, a loop has more work to do
at once. Up to four hand-overs may come in a row without a sleep, because a batch needs several: to send it, to read the response, and to
run its callbacks. No thread pauses for a thread that has begun to wait in a `Lock`: the waiting thread does not compute, and a pause would
only delay the end of its wait.

If other threads also compute, one of them may take the GIL before the thread that asked, for 5 ms, and then another one may. So a thread
that gave way may get the GIL back late. After two late returns in a row, no thread of the application gives way for 100 ms: it would hand
its share of the processor to threads that never give way. A single late return may have another reason: the system took the processor from
the thread that asked.
"""

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t

import os

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from "_gil.h" nogil:
    int load(int*)
    void add(int*, int)
    int exchange(int*, int)
    void taken_init()
    void taken_wait(int*)
    void taken_tell()
    void wait_readable(int, double)
    void wait_while(int*, int, double)
    void wake_one(int*)
    int64_t monotonic_us()
    void sleep_us(int64_t)

cdef enum:
    PACE_US = 400                  # time for a thread that computes, after each time that it gave way
    BURST = 4                      # hand-overs that may come in a row
    IN_VAIN_US = 3000              # a thread that gets the GIL back later than this counts as one that gave way in vain
    SLICE_S = 1                    # longest part of a wait in a lock
    UNHEARD_US = 100000            # time for which `give_way` does nothing after it was in vain twice in a row

cdef int wanted = 0
cdef int64_t paced_until = 0    # the end of the time for a thread that gave way; PACE_US more for each hand-over
cdef unsigned long given_by = 0 # the last thread that gave way
cdef int64_t got_us = 0         # the last time at which a thread that asked took the GIL, or stopped asking
cdef int64_t unheard_until = 0
cdef bint in_vain = False       # whether the last thread that gave way did so in vain

taken_init()


cdef int give_way() except -1:
    """Release the GIL, and wait up to a millisecond for the flag to be lowered. For threads of the application."""
    global paced_until, given_by, unheard_until, in_vain
    cdef int64_t began = monotonic_us()
    if began < unheard_until:
        return 0
    paced_until = max(paced_until, began) + PACE_US
    given_by = PyThread_get_thread_ident()
    with nogil:
        taken_wait(&wanted)
    if monotonic_us() - max(began, got_us) <= IN_VAIN_US:
        in_vain = 0
    elif in_vain:
        unheard_until = monotonic_us() + UNHEARD_US
    else:
        in_vain = 1
    return 0


cdef int step_aside() except -1:
    """Give way, then ask for the GIL again. For threads that run callbacks."""
    with nogil:
        taken_wait(&wanted)
        ask()
    got()
    return 0


cdef bint pause() noexcept nogil:
    """Sleep until the flag may be raised. Return whether the thread slept."""
    cdef int64_t left = paced_until - (BURST - 1) * PACE_US - monotonic_us()
    if left <= 0:
        return False
    sleep_us(left)
    return True


cdef void ask() noexcept nogil:
    """Raise the flag: the calling thread is about to take the GIL."""
    add(&wanted, 1)


cdef void taken() noexcept:
    """Keep the time at which the calling thread took the GIL. The flag stays raised, because a loop that releases the GIL wants it back."""
    global got_us
    got_us = monotonic_us()


cdef void got() noexcept:
    """Lower the flag: the calling thread has the GIL."""
    global got_us
    got_us = monotonic_us()
    add(&wanted, -1)
    taken_tell()


def give_way_to_others() -> None:
    """Give way if a thread wants the GIL."""
    if load(&wanted):
        give_way()


def step_aside_for_others() -> None:
    if load(&wanted):
        step_aside()


def is_raised() -> bool:
    return load(&wanted) > 0


def wait(int fd, double timeout) -> None:
    """Wait without the GIL until `fd` is readable, up to `timeout` seconds, then raise the flag."""
    with nogil:
        wait_readable(fd, timeout)
        ask()


def done() -> None:
    """Lower the flag. The loop that called `wait` calls this before it sleeps again, or ends."""
    got()                          # not right after `wait`: the loop's other system calls release the GIL too, and the loop wants it back


@cython.final
cdef class Lock:
    """A lock like `threading.Lock`, but not for `with`. A thread that gets the lock after a sleep asks for the GIL. Linux only."""

    cdef int held, sleepers

    def acquire(self, bint blocking=True, double timeout=-1.0) -> bool:
        """Return whether the lock was acquired. `timeout` in seconds, negative for no limit.

        Raises exceptions of signal handlers. Each sleep takes a second at most, because Python handles a signal that comes between the
        check and the sleep only after the sleep.
        """
        global paced_until
        cdef int64_t end = 0
        cdef double left = SLICE_S
        cdef bint acquired
        if not exchange(&self.held, 1):
            return True
        if not blocking or timeout == 0:
            return False
        if given_by == PyThread_get_thread_ident():
            paced_until = 0        # this thread does not compute any more: no thread has to pause for it
        if timeout > 0:
            end = monotonic_us() + <int64_t>(min(timeout, 1e12) * 1e6)
        while True:
            if timeout > 0:
                left = min(SLICE_S, (end - monotonic_us()) / 1e6)
                if left <= 0:
                    return False
            # Counted under the GIL, before the sleep: a `release` after this line finds and wakes the sleeper, and after an earlier
            # `release` the system call finds `held` changed and does not sleep.
            self.sleepers += 1
            with nogil:
                wait_while(&self.held, 1, left)
                acquired = not exchange(&self.held, 1)
                if acquired:
                    pause()
                    ask()
            self.sleepers -= 1
            if acquired:
                got()
                return True
            PyErr_CheckSignals()

    def release(self) -> None:
        if not exchange(&self.held, 0):
            raise RuntimeError("release unlocked lock")
        if self.sleepers:
            wake_one(&self.held)

    def locked(self) -> bool:
        return load(&self.held) != 0


def _after_fork() -> None:
    """Threads that asked or gave way exist in the parent only."""
    global wanted
    wanted = 0
    taken_init()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
