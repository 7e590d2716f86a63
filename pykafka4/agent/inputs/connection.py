"""Reads the frames of a client's connection, and never writes to it. Invariant: a connection without room keeps at most a size field."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Protocol

from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.reading import cut_frames
from pykafka4.agent.inputs.unfinished import SMALL_BYTES, Unfinished
from pykafka4.agent.message import Reason, Refused

__all__ = ["READ_BYTES", "Connection", "Owner", "Sharing"]

READ_BYTES = 64 * 1024  # the most bytes of one read
READ_COST = 16  # the cost of a read, in messages
SIZE = Struct(">i")


class Sharing:
    """The objects and limits that all connections of an input share."""

    def __init__(self, entrance: Entrance, unfinished: Unfinished, max_size: int, empty: bytes | None) -> None:
        """`max_size` is the largest message in bytes, without its size field."""
        self.entrance, self.unfinished, self.max_size, self.empty = entrance, unfinished, max_size, empty
        self.scratch = bytearray(SMALL_BYTES + READ_BYTES)
        self.view = memoryview(self.scratch)


class Owner(Protocol):
    """The input that a connection belongs to."""

    def now(self) -> float:
        """Return the time of a monotonic clock, in seconds."""

    def pause(self, connection: Connection) -> None:
        """Stop reading from a connection that waits for room."""

    def go_on(self, connection: Connection) -> None:
        """Read again from a connection that has its room now."""

    def forget(self, connection: Connection) -> None:
        """Forget a connection that has ended. The socket is still open, so that the selector can unregister the socket."""


class Connection:
    """A client's connection, a RoomHolder. An unfinished message is in `_kept`, or in `_large` if it is large and its room is reserved."""

    __slots__ = ("_kept", "_large", "_needed", "_owner", "_sharing", "is_open", "is_waiting", "sock")

    def __init__(self, sock: socket.socket, owner: Owner, sharing: Sharing) -> None:
        self.sock, self._owner, self._sharing = sock, owner, sharing
        self.is_open, self.is_waiting = True, False
        self._kept = b""
        self._large: bytearray | None = None
        self._needed = SIZE.size  # bytes of the unfinished message, or of its size field

    def read(self) -> int:
        """Read once; return the cost in messages, 0 if there are no bytes to read."""
        try:
            size = self._receive()
        except BlockingIOError:
            return 0
        except OSError:  # reset: bytes of the client may be lost
            self._sharing.entrance.counts.errors += 1
            self._end(clean=False)
            return READ_COST
        if size == 0:
            self._end(clean=not self._partial())
            return READ_COST
        self._sharing.entrance.counts.read_bytes += size
        return READ_COST + (self._take(size) if self._large is None else self._take_large(size))

    def end(self) -> None:
        self._end(clean=not self._partial())

    def resume(self) -> None:
        self.is_waiting = False
        self._begin_large()
        self._owner.go_on(self)

    def lose_room(self) -> None:
        self._sharing.entrance.counts.closed_for_room += 1
        self._end(clean=False)

    def _partial(self) -> bytes:
        return self._kept if self._large is None else bytes(self._large)

    def _receive(self) -> int:
        sharing, small = self._sharing, self._sharing.unfinished.small
        if self._large is not None:
            return self.sock.recv_into(sharing.view, min(READ_BYTES, self._needed - len(self._large)), socket.MSG_DONTWAIT)
        have = len(self._kept)
        ample = small.free >= READ_BYTES and not small.crowded  # room for any small message that a full read may leave unfinished
        room = READ_BYTES if ample else self._needed - have
        size = self.sock.recv_into(sharing.view[have:], room, socket.MSG_DONTWAIT)
        if have:
            sharing.view[:have] = self._kept
        return size

    def _take(self, size: int) -> int:
        """Pass on the complete frames in the kept bytes and the `size` new bytes after them; keep the rest."""
        sharing = self._sharing
        end = len(self._kept) + size
        used, wrong, messages, refused = cut_frames(sharing.scratch, end, sharing.max_size, sharing.empty)
        had_size = len(self._kept) >= SIZE.size
        self._kept = bytes(sharing.view[used:end])
        sharing.entrance.take(used, messages, refused)
        if wrong:
            self._end_for_size()
        elif used or not had_size:
            sharing.unfinished.release(self)
            self._reserve()
        return len(messages) + len(refused)

    def _take_large(self, size: int) -> int:
        large, sharing = self._large, self._sharing
        assert large is not None
        large += sharing.view[:size]
        if len(large) < self._needed:
            return 0
        _, _, messages, refused = cut_frames(large, len(large), sharing.max_size, sharing.empty)
        self._large, self._kept, self._needed = None, b"", SIZE.size
        sharing.unfinished.release(self)
        sharing.entrance.take(len(large), messages, refused)
        return 1

    def _reserve(self) -> None:
        """Reserve room for the complete message that begins in `_kept`, once its size is known, or wait for the room.

        If connections reserved the room in parts, many could each hold a part, and none could finish.
        """
        self._needed = SIZE.size
        if len(self._kept) < SIZE.size:
            return
        (self._needed,) = SIZE.unpack_from(self._kept)
        unfinished, now = self._sharing.unfinished, self._owner.now()
        if self._needed > SMALL_BYTES:
            unfinished.small.hold(self, len(self._kept), now)
        room = unfinished.large if self._needed > SMALL_BYTES else unfinished.small
        if room.reserve(self, self._needed, now):
            self._begin_large()
        else:
            self.is_waiting = True
            self._owner.pause(self)

    def _begin_large(self) -> None:
        if self._needed > SMALL_BYTES:
            self._large, self._kept = bytearray(self._kept), b""
            self._sharing.unfinished.small.release(self)

    def _end_for_size(self) -> None:
        # After an invalid size, the start of the next message is unknown.
        self._sharing.entrance.counts.closed_for_size += 1
        self._sharing.entrance.refuse(self._kept, Refused(Reason.MALFORMED))
        self._close()

    def _end(self, *, clean: bool) -> None:
        entrance = self._sharing.entrance
        if clean:
            entrance.counts.clean_ends += 1
        else:
            entrance.end_unclean(self._partial())
        self._close()

    def _close(self) -> None:
        self.is_open = False
        self._sharing.unfinished.release(self)
        self._owner.forget(self)
        self._kept, self._large = b"", None
        self.sock.close()
