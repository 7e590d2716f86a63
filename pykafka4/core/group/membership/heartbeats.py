"""Heartbeats. Rule: they reach the coordinator at most `heartbeat_interval_ms` apart, even where the loop's turns come late.

Beside threads that compute in Python, the loop gets the GIL some time after a heartbeat is due. So the next one is due earlier, by as much
as recent ones were late.

A change of a group is often followed by the next one: members that start together do not all join in the first generation, and partitions
are given to their next owner when the one before has released them. A member learns of that only from the response to a heartbeat. So
after each change some heartbeats come sooner, with pauses that double.
"""

from __future__ import annotations

from typing import Final

from pykafka4.core import INFINITY

__all__ = ["FIRST_INTERVAL", "HeartbeatTimer"]

FIRST_INTERVAL: Final = 5.0  # seconds between heartbeats, where the coordinator names the interval, until it has
SILENT_INTERVALS: Final = (
    3  # intervals until a heartbeat without a response is given up: the coordinator's session time-out is several times that
)
LEAST_SILENCE_S: Final = 2.0  # seconds: the coordinator stores what a heartbeat changes, and waits for the replicas
SOON: Final = 0.5  # seconds from a change to the next heartbeat
LARGEST_MARGIN: Final = 0.25  # of the interval: at most a third more heartbeats
FADES: Final = 0.9  # of the margin is left after each heartbeat that was on time


class HeartbeatTimer:
    """When the next heartbeat is due."""

    def __init__(self, interval: float) -> None:
        """`interval` in seconds."""
        self.interval = interval
        self._due = INFINITY
        self._pause = INFINITY  # after the next heartbeat; the interval, if that is shorter
        self._margin = 0.0
        self._announced = False  # the loop knows since before it was due: if it is late, that is the loop's doing

    @property
    def patience(self) -> float:
        """Seconds until a heartbeat without a response is given up, where the coordinator names the interval."""
        return max(SILENT_INTERVALS * self.interval, LEAST_SILENCE_S)

    def start(self, due: float) -> None:
        """The next heartbeat is due at `due`."""
        self._due, self._announced = due, False

    def changed(self, now: float) -> None:
        """The group has changed, and may change again soon."""
        self._pause = min(SOON, self.interval)
        self._advance(now)

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
        if self._pause < self.interval:
            self._advance(now)
        else:
            self.start(now + self.interval - self._margin)

    def _advance(self, now: float) -> None:
        """The next heartbeat is due after the pause, and the next pause is twice as long."""
        self.start(now + min(self._pause, self.interval))
        self._pause *= 2
