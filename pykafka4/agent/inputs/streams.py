"""Accepts connections of a UNIX stream or TCP socket, and reads them in turns. Invariant: a turn is short for any number of connections.

Each input has its own selector, which is one reader of the agent's loop. If the connections were readers themselves, the loop would read
all ready connections before any other event.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import selectors
import socket
from collections import deque

from pykafka4.agent.inputs.connection import Connection, Sharing
from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.unfinished import Unfinished
from pykafka4.agent.message import Source

__all__ = ["StreamInput"]

log = logging.getLogger(__name__)
TURN = 2048  # the cost, in messages, after which a turn ends, and the loop serves other events
ACCEPT_COST = 16
RETRY_S = 1.0  # seconds without accepting, if no file descriptor or memory is left, or too many connections are open
OVERDUE_S = 0.5  # seconds between two checks for connections that have held room too long
# `close` stops reading after this many bytes, because a TCP client may never stop sending.
END_BYTES = 64 * 1024 * 1024
OUT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class StreamInput:
    """A listening socket, and the Owner of its connections."""

    def __init__(
        self,
        listener: socket.socket,
        entrance: Entrance,
        unfinished: Unfinished,
        max_size: int,
        empty: bytes | None,
        max_connections: int,
    ) -> None:
        """`max_size` is in bytes, without the size field. Above `max_connections`, clients wait to be accepted."""
        self._listener, self._entrance, self._unfinished = listener, entrance, unfinished
        self._sharing = Sharing(entrance, unfinished, max_size, empty)
        self._max_connections = max_connections
        self._selector = selectors.DefaultSelector()  # epoll or kqueue: the selector must have a file descriptor
        self._connections: set[Connection] = set()
        self._ready: deque[Connection | None] = deque()  # None: the listener
        self._accepting = self._warned = self._looking = self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._accept_again()
        loop.add_reader(self._selector.fileno(), self.turn)

    def turn(self) -> None:
        left, ready = TURN, self._ready
        if not ready:  # otherwise connections that the last turn did not reach come first, so busy connections cannot starve them
            ready.extend(key.data for key, _ in self._selector.select(0))
        while ready and left > 0:
            connection = ready.popleft()
            if connection is None:
                left -= self._accept()
            elif connection.is_open and not connection.is_waiting:
                left -= connection.read()
        if self._unfinished.crowded:
            self._unfinished.serve(self.now())

    def close(self) -> None:
        """Close all sockets. After `start`, first accept queued connections and read bytes that clients have sent, both up to a limit."""
        if self._closed:
            return
        if self._loop is not None:
            self._loop.remove_reader(self._selector.fileno())
            while self._accepting and self._accept():
                pass
            self._read_rest()
        self._closed = True
        for connection in list(self._connections):
            connection.end()
        self._selector.close()
        self._listener.close()

    def _read_rest(self) -> None:
        left = END_BYTES
        for connection in list(self._connections):
            if self._entrance.source is Source.UNIX_STREAM:
                self._shut(connection.sock)
            while connection.is_open and not connection.is_waiting and left > 0:
                before = self._entrance.counts.read_bytes
                if not connection.read():
                    break
                left -= self._entrance.counts.read_bytes - before

    @staticmethod
    def _shut(sock: socket.socket) -> None:
        """Shut a UNIX stream for reading: the client's next write gets EPIPE. On Linux, bytes that were sent before can still be read."""
        try:
            sock.shutdown(socket.SHUT_RD)
        except OSError:
            pass  # the client has gone

    # ------------------------------------------------------------ for connections

    def now(self) -> float:
        assert self._loop is not None
        return self._loop.time()

    def pause(self, connection: Connection) -> None:
        self._selector.unregister(connection.sock)
        self._look_later()

    def go_on(self, connection: Connection) -> None:
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)

    def forget(self, connection: Connection) -> None:
        if not connection.is_waiting:
            self._selector.unregister(connection.sock)
        self._connections.discard(connection)
        self._entrance.counts.open -= 1
        if not self._accepting and not self._closed and len(self._connections) < self._max_connections:
            self._accept_again()

    def _look_later(self) -> None:
        if not self._looking and self._loop is not None:
            self._looking = True
            self._loop.call_later(OVERDUE_S, self._look)

    def _look(self) -> None:
        self._looking = False
        if self._closed:
            return
        self._unfinished.serve(self.now())
        self._unfinished.end_overdue(self.now())
        if self._unfinished.crowded:
            self._look_later()

    # ------------------------------------------------------------ accepting

    def _accept(self) -> int:
        """Accept a connection; return the cost in messages, 0 if no connection can be accepted now."""
        if not self._accepting:
            return 0
        if len(self._connections) >= self._max_connections:
            self._pause_accepting(f"{self._max_connections} connections are open, the maximum")
            return 0
        try:
            sock, _ = self._listener.accept()
        except BlockingIOError:
            self._warned = False
            return 0
        except OSError as error:
            self._entrance.counts.errors += 1
            if error.errno in OUT_OF:
                self._pause_accepting(f"{error.strerror} (for more files, raise LimitNOFILE= of the service, or `ulimit -n`)")
                return 0
            return ACCEPT_COST  # probably only this connection failed: its client had already gone
        self._entrance.counts.connections += 1
        self._entrance.counts.open += 1
        connection = Connection(sock, self, self._sharing)
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        return ACCEPT_COST

    def _pause_accepting(self, why: str) -> None:
        """Stop accepting for RETRY_S, or until a connection ends: otherwise the ready listener would keep the loop from sleeping."""
        self._accepting = False
        self._selector.unregister(self._listener)
        self._entrance.counts.accept_pauses += 1
        if not self._warned:
            self._warned = True
            log.warning("agent: %s takes no further connections for now: %s", self._entrance.source.value, why)
        if self._loop is not None:
            self._loop.call_later(RETRY_S, self._accept_again)

    def _accept_again(self) -> None:
        if not self._accepting and not self._closed:
            self._accepting = True
            self._selector.register(self._listener, selectors.EVENT_READ, None)
