"""The memory of messages that have arrived in part, of all stream connections together. Invariant: it has a limit, whoever connects.

A connection reserves room for the whole message when it knows the message's size; without room it waits, and nothing is read from it. While
connections wait, one that has held its room for `HOLD_S` loses it: otherwise a few clients that never finish their messages would stop all
others. Large messages have a room of their own, so that they do not stop small ones.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["HOLD_S", "SMALL_BYTES", "Holder", "Room", "Unfinished"]

SMALL_BYTES = 64 * 1024  # larger messages are large
ROOM_BYTES = 8 * 1024 * 1024
HOLD_S = 2.0


class Holder(Protocol):
    """A connection."""

    def resume(self) -> None:
        """It has the room that it waited for."""

    def lose_room(self) -> None:
        """It ends, because others wait; it releases its room."""


class Room:
    """A number of bytes, shared out to holders in the order in which they ask."""

    def __init__(self, capacity: int) -> None:
        self.free = capacity
        self._held: dict[Holder, tuple[int, float]] = {}  # bytes and since when, oldest first
        self._waiting: dict[Holder, int] = {}  # bytes, oldest first

    @property
    def crowded(self) -> bool:
        """Whether a holder waits."""
        return bool(self._waiting)

    def reserve(self, holder: Holder, size: int, now: float) -> bool:
        """Whether `holder` has the room; otherwise it waits until it is resumed."""
        if self._waiting or size > self.free:
            self._waiting[holder] = size
            return False
        self.hold(holder, size, now)
        return True

    def hold(self, holder: Holder, size: int, now: float) -> None:
        """Count bytes of a holder that has none, whether there is room or not."""
        self.free -= size
        self._held[holder] = (size, now)

    def release(self, holder: Holder) -> None:
        """The holder needs its room no longer, or waits for it no longer."""
        size, _ = self._held.pop(holder, (0, 0.0))
        self.free += size
        self._waiting.pop(holder, None)

    def serve(self, now: float) -> None:
        """Resume those for whom there is room now, in order."""
        while self._waiting:
            holder, size = next(iter(self._waiting.items()))
            if size > self.free:
                return
            del self._waiting[holder]
            self.hold(holder, size, now)
            holder.resume()

    def end_overdue(self, now: float) -> None:
        """While others wait, take the room from those who have held it too long."""
        while self._waiting and self._held:
            holder, (_, since) = next(iter(self._held.items()))
            if now - since < HOLD_S:
                return
            holder.lose_room()
            self.serve(now)


class Unfinished:
    """The rooms of small and of large messages."""

    def __init__(self, max_message_size: int) -> None:
        """One message of `max_message_size` bytes fits in any case."""
        self.small = Room(ROOM_BYTES)
        self.large = Room(max(ROOM_BYTES, max_message_size))

    @property
    def crowded(self) -> bool:
        """Whether a connection waits."""
        return self.small.crowded or self.large.crowded

    def release(self, holder: Holder) -> None:
        """The holder has no unfinished message."""
        self.small.release(holder)
        self.large.release(holder)

    def serve(self, now: float) -> None:
        """Resume those for whom there is room now."""
        self.small.serve(now)
        self.large.serve(now)

    def end_overdue(self, now: float) -> None:
        """While others wait, take the room from those who have held it too long."""
        self.small.end_overdue(now)
        self.large.end_overdue(now)
