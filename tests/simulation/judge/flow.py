"""Flow: what the judge knows of one partition's records that have no outcome yet."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tests.simulation.judge.invariants import Sent

__all__ = ["Flow"]


@attrs.define
class Flow:
    """Records for one partition without an outcome."""

    waiting: deque[Sent] = attrs.Factory(deque)
    since: float = 0.0  # when it last went on, or began
    look_at: float = 0.0  # when it has to be looked at again
    proven: bool = False  # whether a record was acknowledged since the topic is known: before that it needs metadata and a producer id

    def go_on(self, now: float) -> None:
        """Drop the records that have their outcome."""
        while self.waiting and self.waiting[0].done:
            self.proven = self.waiting.popleft().stored is not None or self.proven
            self.since = self.look_at = now
