"""Takes looks at a client or agent, and shares each look among all readers of a page. Invariant: a page completes at most two looks a
second for any number of readers, and fewer while looks are slow. A look that raises an exception does not count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

__all__ = ["SharedLook"]

KEPT_S: Final = 0.5  # seconds; a look is used for this time or longer
# A look of 200 ms, as with many thousands of partitions, is used for 2 s: looks of up to 1 s cost at most a tenth of a core.
KEPT_COST_FACTOR: Final = 10
PAUSE_S: Final = 1.0  # the shortest pause between two samples
LONGEST_PAUSE_S: Final = 10.0

L = TypeVar("L")


class SharedLook(Generic[L]):
    """The last look, with its time and its cost. Only one thread at a time may call `get`."""

    def __init__(self, take: Callable[[float], L], monotonic: Callable[[], float]) -> None:
        """`take(now)` takes a look; `monotonic` is the clock, in seconds."""
        self._take, self._monotonic = take, monotonic
        self._last: L | None = None
        self.taken_at = -1.0
        self._cost = 0.0

    def get(self) -> L:
        now = self._monotonic()
        if self._last is not None and now < self.taken_at + min(max(KEPT_S, KEPT_COST_FACTOR * self._cost), LONGEST_PAUSE_S):
            return self._last
        look = self._take(now)
        self._cost = self._monotonic() - now
        self._last, self.taken_at = look, now
        return look

    def pause_s(self, share: int) -> float:
        """Seconds until the next sample: samples cost at most 1/`share` of a core, unless a look takes very long."""
        return min(max(PAUSE_S, share * self._cost), LONGEST_PAUSE_S)
