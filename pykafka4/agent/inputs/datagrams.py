"""Reads the UNIX datagram socket, with one message in each datagram. Invariant: on Linux, after `start`, `close` reads all datagrams
that clients have sent, unless a read fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.reading import DatagramReader

__all__ = ["DatagramInput"]

log = logging.getLogger(__name__)
TURN = 1024  # the cost, in datagrams, after which a turn ends, and the loop serves other events
LEAST_COST = 16  # the least cost of a call of the reader, in datagrams
COUNTS_AS_ONE = 1024  # bytes that cost as much as a datagram: a turn ends after 1 MiB
RETRY_S = 1.0  # seconds of pause after a failed read


class DatagramInput:
    """Reads datagrams on the agent's loop, in turns."""

    def __init__(self, sock: socket.socket, entrance: Entrance, max_size: int, empty: bytes | None) -> None:
        self._socket, self._entrance = sock, entrance
        self._reader = DatagramReader(max_size, empty)
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watch()

    def _watch(self) -> None:
        if self._loop is not None:
            self._loop.add_reader(self._socket.fileno(), self.turn)

    def _pause(self, error: OSError) -> None:
        """Read nothing for RETRY_S: otherwise reads would fail again and again, because the socket stays readable."""
        self._entrance.counts.errors += 1
        log.warning("agent: reading datagrams failed (a running agent tries again in %g s): %s", RETRY_S, error)
        if self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._loop.call_later(RETRY_S, self._watch)

    def turn(self) -> bool:
        """Read the queued datagrams, up to the cost TURN; return whether this cost was reached.

        One read is not enough: a queue of 10 datagrams (the default without systemd) may be full again after the read, and another turn of
        the loop costs more than a read of an empty queue.
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
        """Refuse further datagrams, read the queue, and close the socket. Before `start`, only close the socket."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self._socket.fileno())
            # The shutdown comes first: otherwise clients could send as fast as the agent reads, and `close` would never end. After the
            # shutdown clients get EPIPE, so the queue only shrinks. Closing the socket at once would discard the queue.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RD)
            while self.turn():
                pass
        self._socket.close()
