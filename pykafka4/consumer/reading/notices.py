"""Keeps errors without a partition for `poll`. Invariant: `raise_next` raises errors about one missing right at most once a
second.

The thread that polls uses this module; the loop thread calls only `subject_of`, `Notices.subjects` and `Notices.__len__`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from pykafka4.core import INFINITY
from pykafka4.errors import AuthorizationError, KafkaError

__all__ = ["Notices", "subject_of"]

# Seconds until `poll` may raise another error about the same missing right. All partitions of a topic lack the same right, and each
# reports it: without this pause, polls would raise one error after another and return no records of other topics.
DENIED_AGAIN_S: Final = 1.0


class Notices:
    """The errors that `poll` has to raise, in order of arrival."""

    __slots__ = ("_clock", "_denied", "waiting")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.waiting: deque[KafkaError] = deque()
        self._denied: dict[object, float] = {}  # for each missing right: when `poll` may raise its error again

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, error: KafkaError) -> None:
        """Have `poll` raise `error`, unless it has just raised an error about the same missing right."""
        self.waiting.append(error)

    def subjects(self) -> set[object]:
        return set(map(subject_of, tuple(self.waiting)))

    def raise_next(self) -> None:
        """Raise the next error, if any. Drops errors about rights that `poll` has just reported."""
        while self.waiting:
            if not self.raised_lately(self.waiting[0]):
                raise self.waiting.popleft()
            self.waiting.popleft()

    def raised_lately(self, error: KafkaError) -> bool:
        """Whether `poll` has just raised an error about the same missing right. If not, `error` counts as raised now."""
        if not isinstance(error, AuthorizationError):
            return False
        now = self._clock()
        if now < self._denied.get(error.subject, -INFINITY):
            return True
        self._denied = {subject: until for subject, until in self._denied.items() if now < until}
        self._denied[error.subject] = now + DENIED_AGAIN_S
        return False


def subject_of(error: KafkaError) -> object:
    """The missing right, equal for all errors about it; any other error is its own subject."""
    return error.subject if isinstance(error, AuthorizationError) else error
