"""Implements the hand-off between application threads, client threads and the loop. Invariant: every lock that a turn of the loop may take
is in this folder, and no thread calls code of the application while it holds such a lock.

Modules; each line imports only from lines below it:
    waiting   waits of application threads for a change, a result or room: `Signal`, `Promise`, `Gate`
    newest    the result of the newest of several overlapping calls: `Newest`
    turns     locks around calls of a library that must not overlap: `turn_of`
    workers   client threads that run calls which may block: `Callbacks`, `Feed`, `Helper`
    wakeup    calls for the loop from other threads, and the end of its sleep: `Inbox`, `Wakeup`
    latch     the lock that one thread sleeps on
"""
