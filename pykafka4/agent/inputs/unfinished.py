"""Shares out the memory for unfinished messages among all connections. Invariant: this memory is bounded, whatever clients do.

A connection that has read its message's size reserves room for the complete message, and is not read while it waits for room. A
connection that has held room for `HOLD_S` is closed while others wait for the same room: otherwise a few clients that never finish their
messages would stop all others. Large messages have a separate room, so that they do not stop small ones.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["HOLD_S", "SMALL_BYTES", "RoomHolder", "Room", "Unfinished"]

SMALL_BYTES = 64 * 1024  # messages of more bytes are large
ROOM_BYTES = 8 * 1024 * 1024
HOLD_S = 2.0  # seconds


class RoomHolder(Protocol):
    """A connection that holds room, or waits for it."""

    def resume(self) -> None:
        """Continue, with the room that the holder has waited for."""

    def lose_room(self) -> None:
        """End, and release the room, because others wait for it."""


class Room:
    """A number of bytes, which holders get in the order of their requests."""

    def __init__(self, capacity: int) -> None:
        self.free = capacity
        self._held: dict[RoomHolder, tuple[int, float]] = {}  # bytes and time of the reservation, oldest first
        self._waiting: dict[RoomHolder, int] = {}  # bytes, oldest first

    @property
    def crowded(self) -> bool:
        return bool(self._waiting)

    def reserve(self, holder: RoomHolder, size: int, now: float) -> bool:
        """Reserve `size` bytes; return False if `holder` must wait for `resume`."""
        # A new holder waits behind waiting holders, even if there is room: otherwise small messages could overtake a larger one forever.
        if self._waiting or size > self.free:
            self._waiting[holder] = size
            return False
        self.hold(holder, size, now)
        return True

    def hold(self, holder: RoomHolder, size: int, now: float) -> None:
        """Count bytes for a holder that has none. Bytes that have been read already may exceed the capacity."""
        self.free -= size
        self._held[holder] = (size, now)

    def release(self, holder: RoomHolder) -> None:
        size, _ = self._held.pop(holder, (0, 0.0))
        self.free += size
        self._waiting.pop(holder, None)

    def serve(self, now: float) -> None:
        """Resume waiting holders, in order, while there is room."""
        while self._waiting:
            holder, size = next(iter(self._waiting.items()))
            if size > self.free:
                return
            del self._waiting[holder]
            self.hold(holder, size, now)
            holder.resume()

    def end_overdue(self, now: float) -> None:
        """While others wait, end holders that have held room for HOLD_S."""
        while self._waiting and self._held:
            holder, (_, since) = next(iter(self._held.items()))
            if now - since < HOLD_S:
                return
            holder.lose_room()
            self.serve(now)


class Unfinished:
    """The rooms for small and for large messages."""

    def __init__(self, max_message_size: int) -> None:
        self.small = Room(ROOM_BYTES)
        self.large = Room(max(ROOM_BYTES, max_message_size))

    @property
    def crowded(self) -> bool:
        return self.small.crowded or self.large.crowded

    def release(self, holder: RoomHolder) -> None:
        self.small.release(holder)
        self.large.release(holder)

    def serve(self, now: float) -> None:
        self.small.serve(now)
        self.large.serve(now)

    def end_overdue(self, now: float) -> None:
        self.small.end_overdue(now)
        self.large.end_overdue(now)
