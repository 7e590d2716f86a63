"""Finds out whether the application is handling an exception that was raised after the last poll began. Invariant: no reference to
the exception is kept, because its frames may refer to the consumer.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["HandledError"]

POLLS: Final = "_pykafka4_polls"  # attribute of exceptions


class HandledError:
    """The mark that one consumer puts on an exception that is being handled during a poll.

    The `id` of the exception would not suffice: Python reuses ids of freed objects.
    """

    __slots__ = ("_mark",)

    def __init__(self) -> None:
        self._mark: object | None = None  # marks the exception that was being handled during the last poll

    def note(self) -> None:
        """Mark the exception that is being handled when a poll begins: it has nothing to do with the records of this poll."""
        error = sys.exc_info()[1]
        self._mark = None if error is None else object()
        if error is not None:
            error.__dict__.setdefault(POLLS, {})[id(self)] = self._mark

    def interrupted(self) -> bool:
        """Whether the application is handling an exception that was raised after the last poll began."""
        error = sys.exc_info()[1]
        return error is not None and (self._mark is None or error.__dict__.get(POLLS, {}).get(id(self)) is not self._mark)
