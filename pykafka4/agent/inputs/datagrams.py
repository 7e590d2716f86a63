"""The UNIX datagram socket: one message each. Invariant: a datagram that a client could send before the end is read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.reading import DatagramReader

__all__ = ["DatagramInput"]

log = logging.getLogger(__name__)
TURN = 1024  # datagrams that are read before other events have their turn
LEAST_COST = 16  # of a call, in datagrams
COUNTS_AS_ONE = 1024  # bytes that cost as much as a datagram
RETRY_S = 1.0  # after the kernel had no memory


class DatagramInput:
    """Reads datagrams whenever the socket is readable."""

    def __init__(self, sock: socket.socket, entrance: Entrance, max_size: int, empty: bytes | None) -> None:
        self._socket, self._entrance = sock, entrance
        self._reader = DatagramReader(max_size, empty)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read from now on, on this loop."""
        self._loop = loop
        self._watch()

    def _watch(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self.turn)

    def _pause(self, error: OSError) -> None:
        """The socket stays readable, and the loop would never sleep."""
        self._entrance.counts.errors += 1
        log.warning("agent: reading datagrams failed, and is tried again in %g s: %s", RETRY_S, error)
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(RETRY_S, self._watch)

    def turn(self) -> bool:
        """Read what is there, at most a turn's worth. Returns whether more may wait.

        A queue of 10 datagrams, as it is without systemd, is full again by the time that it has been read. So this reads until the queue is
        empty: the way through the loop to the next turn costs more than a call that finds nothing.
        """
        reader, left = self._reader, TURN
        while left > 0:
            try:
                count, size, messages, refused = reader.read(self._socket)
            except OSError as error:
                self._pause(error)
                return False
            if not count:
                return False
            self._entrance.counts.read_bytes += size
            self._entrance.take(size, messages, refused)
            left -= max(count, LEAST_COST, size // COUNTS_AS_ONE)
        return True

    def close(self) -> None:
        """Refuse what clients send from now on, read what is in the queue, and close."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket.fileno())
            with contextlib.suppress(OSError):  # so the queue grows no longer: clients get EPIPE
                self._socket.shutdown(socket.SHUT_RD)
            while self.turn():
                pass
        self._socket.close()
