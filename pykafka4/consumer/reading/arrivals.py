"""Receives chunks, markers and errors for the thread that polls. Invariant: they are taken in the order in which they were put.

`put`, `tell_denied`, `tell_refused` and `news` are called on the loop thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pykafka4.consumer.reading.cursors import Cursors
from pykafka4.consumer.reading.notices import Notices, subject_of
from pykafka4.core import INFINITY
from pykafka4.core.subscription import Lasting, Located, Trouble
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import Chunk

__all__ = ["Arrivals"]


class Arrivals(Cursors):
    """The loop's side of a reader."""

    def __init__(self, clock: Callable[[], float], notify: Callable[[], None]) -> None:
        """`clock` is monotonic; `notify` wakes the polling thread."""
        super().__init__(clock)
        self._notify = notify
        # written by the loop
        self.arrivals: deque[Any] = deque()
        self.resume_at: float = INFINITY
        self.loop_wanted = False  # the next poll has to wake the loop
        self._urgent = False  # an event waits: a `for` loop has to handle it before its next record
        # used by the application's thread
        self.notices = Notices(clock)

    def put(self, item: object) -> None:
        """Pass a chunk or event on, in order; `news` wakes the poll, and an event ends the list of a `for` loop early."""
        self.arrivals.append(item)
        if item.__class__ is not Chunk and item.__class__ is not Located:
            self.interrupt()

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise that a right is missing, unless the same waits to be raised."""
        waiting = {subject_of(item.error) for item in tuple(self.arrivals) if item.__class__ is Trouble and item.claim is None}
        if subject_of(error) not in waiting | self.notices.subjects():
            self.put(Trouble(None, error, Lasting.ONCE))

    def tell_refused(self, error: KafkaError) -> None:
        """Have `poll` raise that a broker refuses this client, unless another error of the whole consumer waits to be raised."""
        if not self.notices and not any(item.__class__ is Trouble and item.claim is None for item in tuple(self.arrivals)):
            self.put(Trouble(None, error, Lasting.ONCE))
            self.news()

    def interrupt(self) -> None:
        """Have a `for` loop request its next list before its next record. May be called on any thread."""
        self._urgent = True  # before reading the iterator: `_taken` sets that first and reads this afterwards
        if (iterator := self.taken.iterator) is not None:
            iterator.stopped = True

    def news(self) -> None:
        """Wake the thread that polls, if it waits and something has arrived."""
        if self.arrivals:
            self._notify()
