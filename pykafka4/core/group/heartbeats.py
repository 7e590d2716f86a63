"""Heartbeats. Rule: they reach the coordinator at most `heartbeat_interval_ms` apart, even where the loop's turns come late.

Beside threads that compute in Python, the loop gets the GIL some time after a heartbeat is due. So the next one is due earlier, by as much
as recent ones were late.
"""

from __future__ import annotations

from typing import Final

from pykafka4.core import INFINITY

__all__ = ["HeartbeatTimer"]

LARGEST_MARGIN: Final = 0.25  # of the interval: at most a third more heartbeats
FADES: Final = 0.9  # of the margin is left after each heartbeat that was on time


class HeartbeatTimer:
    """When the next heartbeat is due."""

    def __init__(self, interval: float) -> None:
        """`interval` in seconds."""
        self.interval = interval
        self._due = INFINITY
        self._margin = 0.0
        self._announced = False  # the loop knows since before it was due: if it is late, that is the loop's doing

    def start(self, due: float) -> None:
        """The next heartbeat is due at `due`."""
        self._due, self._announced = due, False

    def wait(self, now: float) -> float | None:
        """When to look again; None: a heartbeat is due."""
        if now >= self._due:
            return None
        self._announced = True
        return self._due

    def blocked(self) -> None:
        """A heartbeat that is due cannot be sent now. How late it will be says nothing about the loop."""
        self._announced = False

    def sent(self, now: float) -> None:
        """A heartbeat was sent."""
        late = now - self._due if self._announced else 0.0
        self._margin = min(max(late, self._margin * FADES), self.interval * LARGEST_MARGIN)
        self.start(now + self.interval - self._margin)
