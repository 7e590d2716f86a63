"""Exchanges acquired records and errors between the loop and the thread that polls. Rule: each attribute has one writer, loop or thread.

Deques are appended to by the loop and emptied by the thread that polls. Nothing here waits or takes a lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pykafka4.core import INFINITY
from pykafka4.core.share.values import Acquired
from pykafka4.errors import KafkaError

__all__ = ["Mailbox"]

MOST_NOTICES = 100  # errors that wait for `poll`; more of them say nothing new


class Mailbox:
    """What waits for `poll`: acquired records and errors."""

    def __init__(self, notify: Callable[[], None]) -> None:
        """`notify` wakes the thread that polls."""
        self._notify = notify
        # written by the loop
        self.arrivals: deque[Acquired] = deque()
        self.notices: deque[KafkaError] = deque()  # each is raised by one poll
        self.fatal: KafkaError | None = None  # every poll raises it
        self.lock_seconds: float | None = None  # how long brokers lock records, when one has said so
        # written by the application
        self.waiting = False  # a poll waits for records
        self.taken = 0  # how often a poll has begun to take records from `arrivals`
        self.limit = 1  # records that the last poll may return
        self.idle_since: float = INFINITY  # when the last poll returned; INFINITY during a poll, and before the first

    def wants(self, taken: int) -> bool:
        """Whether a broker may acquire records: a poll waits and there is nothing for it, or one found nothing and none got any since.

        `taken` is what it was for the poll that found nothing. The thread that polls changes `waiting` and `taken` before `arrivals`.
        """
        return not self.arrivals and (self.waiting or taken == self.taken)

    def put(self, acquired: Acquired) -> None:
        """Pass acquired records on."""
        self.arrivals.append(acquired)
        self._notify()

    def tell(self, error: KafkaError) -> None:
        """Have one poll raise `error`, unless the same waits to be raised."""
        if len(self.notices) < MOST_NOTICES and str(error) not in map(str, tuple(self.notices)):
            self.notices.append(error)
        self._notify()

    def end(self, error: KafkaError | None) -> None:
        """Have every poll raise `error`; None: no longer."""
        self.fatal = error
        self._notify()
