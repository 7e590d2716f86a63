"""Keeps the time of a member's next heartbeat.

Invariant: after a heartbeat the next one is due within one interval, unless the member sets a later time (`start`).

While other threads compute in Python, the loop gets the GIL only some time after a heartbeat is due. So the next heartbeat is due earlier,
by as much as recent heartbeats were late, but at most by LARGEST_MARGIN of the interval.

One change of the group often follows another: members that start together do not all join in the same generation, and a partition goes to
its next owner only when the previous owner has released it. A member learns of the next change only from the response to a heartbeat. So
after each change some heartbeats come sooner, with pauses that double.
"""

from __future__ import annotations

from typing import Final

from pykafka4.core import INFINITY

__all__ = ["FIRST_INTERVAL_S", "HeartbeatTimer"]

FIRST_INTERVAL_S: Final = 5.0  # seconds between heartbeats before the first response, in protocols whose coordinator names the interval
# Intervals until a heartbeat without a response is given up: the coordinator's session timeout is several intervals long.
SILENT_INTERVALS: Final = 3
# Seconds, even if SILENT_INTERVALS are shorter: a coordinator stores reported changes and waits for the replicas before it responds.
LEAST_SILENCE_S: Final = 2.0
SOON_S: Final = 0.5  # seconds from a change to the next heartbeat
LARGEST_MARGIN: Final = 0.25  # largest part of the interval by which a heartbeat is due earlier: at most a third more heartbeats
FADES: Final = 0.9  # part of the margin that is left after each heartbeat that was on time


class HeartbeatTimer:
    def __init__(self, interval: float) -> None:
        """`interval` is in seconds."""
        self.interval = interval
        self._due = INFINITY
        self._pause = INFINITY  # seconds from the next heartbeat to the one after it, unless the interval is shorter
        self._margin = 0.0  # seconds by which a heartbeat is due earlier, because recent heartbeats were late
        self._announced = False  # the loop knew the time in advance: if the heartbeat is late, the loop is late

    @property
    def patience(self) -> float:
        """Seconds until a heartbeat without a response is given up, in a protocol whose coordinator names the interval."""
        return max(SILENT_INTERVALS * self.interval, LEAST_SILENCE_S)

    def start(self, due: float) -> None:
        self._due, self._announced = due, False

    def changed(self, now: float) -> None:
        """Send the next heartbeats sooner: the group has changed, and may change again soon."""
        self._pause = min(SOON_S, self.interval)
        self._advance(now)

    def wait(self, now: float) -> float | None:
        """The time of the next heartbeat; None if it is due."""
        if now >= self._due:
            return None
        self._announced = True
        return self._due

    def blocked(self) -> None:
        """Record that a due heartbeat waits for a coordinator: its delay is no delay of the loop."""
        self._announced = False

    def sent(self, now: float) -> None:
        late = now - self._due if self._announced else 0.0
        self._margin = min(max(late, self._margin * FADES), self.interval * LARGEST_MARGIN)
        if self._pause < self.interval:
            self._advance(now)
        else:
            self.start(now + self.interval - self._margin)

    def _advance(self, now: float) -> None:
        self.start(now + min(self._pause, self.interval))
        self._pause *= 2
