"""Passes acquired records and errors from the loop to the application.

Invariant: the loop and the application never assign the same attribute. Both append to `notices`, and only the loop appends to
`arrivals`; the application empties both deques. Nothing here waits or takes a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pykafka4.core import INFINITY
from pykafka4.core.share.values import Acquired
from pykafka4.errors import KafkaError

__all__ = ["Mailbox"]

MOST_NOTICES = 100  # errors that wait for `poll`. A poll raises one of them, so more would only delay records


class Mailbox:
    def __init__(self, notify: Callable[[], None]) -> None:
        """`notify` wakes the thread that polls."""
        self._notify = notify
        # written by the loop
        self.arrivals: deque[Acquired] = deque()
        self.notices: deque[KafkaError] = deque()  # each is raised by one poll; the application appends, too
        self.fatal: KafkaError | None = None  # every poll raises it
        self.lock_seconds: float | None = None  # duration of a lock, from the last successful ShareFetch; None before the first
        # written by the application
        self.waiting = False  # a poll waits for records
        self.taken = 0  # number of times that a poll has begun to take records from `arrivals`
        self.limit = 1  # number of records that the last poll may return
        self.idle_since: float = INFINITY  # when the last poll ended; INFINITY during a poll, and before the first

    def wants(self, taken: int) -> bool:
        """Whether a broker may acquire records: `arrivals` is empty, and either a poll waits, or `taken` equals `Mailbox.taken`.

        `taken` is the value that `Mailbox.taken` had when a poll found no records, or -1 if no such poll waits for a ShareFetch. While
        `Mailbox.taken` still has this value, no later poll has begun to take records.
        """
        # A poll changes `waiting` and `taken` before it empties `arrivals`. In the other order: the poll empties `arrivals`; the loop sees
        # an empty deque and an old `waiting`, and acquires records again; the poll returns with its records, and maybe no poll takes the
        # new records before their locks end.
        return not self.arrivals and (self.waiting or taken == self.taken)

    def put(self, acquired: Acquired) -> None:
        self.arrivals.append(acquired)
        self._notify()

    def put_error(self, error: KafkaError) -> None:
        """Have one poll raise `error`, unless the same text, or MOST_NOTICES errors, already wait."""
        if len(self.notices) < MOST_NOTICES and str(error) not in map(str, tuple(self.notices)):
            self.notices.append(error)
        self._notify()

    def end(self, error: KafkaError | None) -> None:
        """Have every poll raise `error`; None ends this."""
        self.fatal = error
        self._notify()
