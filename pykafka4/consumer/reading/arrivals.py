"""Passes chunks, start offsets, errors and events to the thread that polls. Invariant: that thread takes the items in the order of `put`.

The loop thread calls `put`, `tell_denied`, `tell_refused` and `news`. Any thread may call `interrupt`, and `put` for `AwaitedLetters`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pykafka4.consumer.reading.cursors import Cursors
from pykafka4.consumer.reading.notices import Notices, subject_of
from pykafka4.core import INFINITY
from pykafka4.core.subscription import Lasting, Located, PollError
from pykafka4.errors import KafkaError
from pykafka4.wire.records.hot import Chunk

__all__ = ["Arrivals"]


class Arrivals(Cursors):
    """The loop's side of a reader."""

    def __init__(self, clock: Callable[[], float], notify: Callable[[], None]) -> None:
        """`notify` wakes the thread that polls."""
        super().__init__(clock)
        self._notify = notify
        # written by the loop; `reader` names the exceptions
        self.arrivals: deque[Any] = deque()
        self.resume_at: float = INFINITY
        self.loop_wanted = False  # the next poll has to wake the loop
        self._urgent = False  # a `for` loop has to poll before its next record
        # written by the application's thread
        self.notices = Notices(clock)

    def put(self, item: object) -> None:
        """Pass an item on; `news` wakes the poll."""
        self.arrivals.append(item)
        # For records and start offsets a `for` loop need not leave its list; for revocations, assignments and errors the loop must.
        if item.__class__ is not Chunk and item.__class__ is not Located:
            self.interrupt()

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise the error of a missing right, unless an error without a partition about the same right waits."""
        # `tuple` copies the deque in one C call: the thread that polls deletes items meanwhile, so a loop over the deque could fail.
        waiting = {subject_of(item.error) for item in tuple(self.arrivals) if item.__class__ is PollError and item.claim is None}
        if subject_of(error) not in waiting | self.notices.subjects():
            self.put(PollError(None, error, Lasting.ONCE))

    def tell_refused(self, error: KafkaError) -> None:
        """Have `poll` raise the error of a broker that refuses this client, unless another error without a partition waits."""
        if not self.notices and not any(item.__class__ is PollError and item.claim is None for item in tuple(self.arrivals)):
            self.put(PollError(None, error, Lasting.ONCE))
            self.news()

    def interrupt(self) -> None:
        """Have a `for` loop request its next list before its next record. May be called on any thread."""
        # This thread sets `_urgent`, then reads `taken`; `Reader._taken` stores the new list in `taken`, then reads `_urgent`. If this
        # thread read first, an event could be missed: this thread finds the old iterator, the poll stores the new one and finds `_urgent`
        # not set, then this thread sets `_urgent`. The `for` loop would process its complete new list before it handles a revocation.
        self._urgent = True
        if (iterator := self.taken.iterator) is not None:
            iterator.stopped = True

    def news(self) -> None:
        if self.arrivals:
            self._notify()
