"""Notices. Rule: `poll` raises each error of the whole consumer once, and that the same right is missing at most once a second.

All partitions of a topic lack the same right, and the others must be read meanwhile. Used by the thread that polls; `subjects` also by the
loop thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from pykafka4.core import INFINITY
from pykafka4.errors import AuthorizationError, KafkaError

__all__ = ["Notices", "subject_of"]

DENIED_AGAIN: Final = 1.0  # seconds until `poll` raises again that the same right is missing


class Notices:
    """The errors that `poll` has to raise, each once."""

    __slots__ = ("_clock", "_denied", "waiting")

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        self.waiting: deque[KafkaError] = deque()
        self._denied: dict[object, float] = {}  # missing rights, and when `poll` may raise each again

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, error: KafkaError) -> None:
        """Have it raised."""
        self.waiting.append(error)

    def subjects(self) -> set[object]:
        """What the errors that wait are about."""
        return set(map(subject_of, tuple(self.waiting)))

    def raise_next(self) -> None:
        """Raise the next error, if there is one."""
        while self.waiting:
            if not self.raised_lately(self.waiting[0]):
                raise self.waiting.popleft()
            self.waiting.popleft()

    def raised_lately(self, error: KafkaError) -> bool:
        """Whether `poll` has just raised that this right is missing. If not, it counts as raised now."""
        if not isinstance(error, AuthorizationError):
            return False
        now = self._clock()
        if now < self._denied.get(error.subject, -INFINITY):
            return True
        self._denied = {subject: until for subject, until in self._denied.items() if now < until}
        self._denied[error.subject] = now + DENIED_AGAIN
        return False


def subject_of(error: KafkaError) -> object:
    """Equal for errors that say the same right is missing; of any other error, itself."""
    return error.subject if isinstance(error, AuthorizationError) else error
