"""Moves bytes over non-blocking sockets with `selectors`. Invariant: the events of a connection are in order, and none follows LOST."""

from __future__ import annotations

import itertools
import os
import socket
from collections import deque
from collections.abc import Sequence

from pykafka4.errors import ConnectionLost, DecodeError, KafkaError
from pykafka4.gil.asking import Turn
from pykafka4.native import selectors
from pykafka4.net.dialling import Dialled, Dialler
from pykafka4.net.handoff.wakeup import Wakeup
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.transport import Event, EventKind, Post, bad_frame, end_of_stream, explain
from pykafka4.options.proxy import Proxy
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.frame import SIZE, frame_size

__all__ = ["READ", "TURN_BYTES", "TURN_FRAMES", "WRITE", "PortableTransport", "Socket", "advance"]

TURN_BYTES = 4 << 20  # a connection that has read, or written, this many bytes in a row stops: the other connections must not wait
# A connection that has read this many frames also stops. An empty frame has four bytes on the wire, but takes hundreds of bytes of memory:
# TURN_BYTES alone would allow a million of them.
TURN_FRAMES = 10_000
SCRATCH_BYTES = 256 << 10  # size of the read buffer; complete frames are cut out of it
# First buffer of a larger frame. It grows as bytes arrive: a wrong size alone allocates no more than this.
FIRST_PIECE_BYTES = 4 << 20
IOV_MAX = min(os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16, 64)  # more buffers per call are slower (measured)
GATHERS = hasattr(socket.socket, "sendmsg")  # Windows sends one buffer per call
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Socket:
    """An open connection: its socket, the buffers to write, and the frame that is partly read."""

    __slots__ = ("address", "body", "events", "filled", "head", "least", "link", "out", "report", "size", "sock", "target", "view")

    def __init__(self, link: int, sock: socket.socket, address: str) -> None:
        self.link, self.sock, self.address = link, sock, address
        self.target: tuple[str, int] | None = None  # (host, port) of the broker, by which TLS sessions are kept; None without TLS
        self.events = READ
        self.least = 0  # bytes that make the socket readable (SO_RCVLOWAT); 0: the option is not used
        self.out: deque[Buffer] = deque()
        self.report = False  # whether WRITTEN follows when `out` is empty
        self.head = bytearray()  # the first bytes of a frame, until its size is known
        self.body: bytearray | None = None
        self.view: memoryview | None = None
        self.size = self.filled = 0


class PortableTransport:
    """See `net.transport.Transport`. `post` runs a call on the loop thread; `max_frame` is receive_message_max_bytes."""

    def __init__(self, max_frame: int, helper: Helper, post: Post, proxy: Proxy | None = None) -> None:
        self.wakeup = Wakeup()
        self._max_frame = max_frame
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.wakeup, READ, None)
        self._sockets: dict[int, Socket] = {}
        self._dialler = Dialler(helper, post, self._watch_dial, self._unwatch_dial, proxy)
        self._turn = Turn()
        self._events: list[Event] = []  # returned by the next `select`
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)

    # -- the Transport interface

    def connect(self, link: int, host: str, port: int) -> None:
        self._dialler.dial(link, host, port)

    def write(self, link: int, buffers: Sequence[Buffer], report: bool) -> bool:
        s = self._sockets.get(link)
        if s is None:
            return False
        idle = not s.out
        s.out.extend(buffer for buffer in buffers if len(buffer))
        if idle:
            self._flush(s)
        s.report = (s.report or report) and bool(s.out)
        return not s.out and link in self._sockets

    def close(self, link: int) -> None:
        self._dialler.cancel(link)
        self._events = [event for event in self._events if event.link != link]  # also if `link` has no socket: its LOST may wait here
        s = self._sockets.pop(link, None)
        if s is not None:
            self._drop(s)

    def select(self, timeout: float) -> list[Event]:
        timeout = 0.0 if self._events else self._dialler.limit(timeout)
        for key, mask in self._selector.select(self._turn.wait(self._selector, timeout)):
            if key.data is None:
                self.wakeup.clear()
            elif isinstance(key.data, Socket):
                self._ready(key.data, mask)
            else:
                self._dialler.ready(key.data)
        self._dialler.skip_slow_addresses()
        if self._dialler.finished:
            self._take_dialled()
        return self._take_events()

    def shut(self) -> None:
        self._turn.end()
        self._dialler.shut()
        for link in list(self._sockets):
            self.close(link)
        self._selector.close()
        self.wakeup.close()

    def abandon(self) -> None:
        """Close descriptors, and unregister none: the child may share an epoll set with its parent."""
        for s in self._sockets.values():
            s.sock.close()
        self._dialler.abandon()
        self._selector.close()
        self.wakeup.close()

    # -- sockets

    def _watch_dial(self, link: int, sock: socket.socket, events: int) -> None:
        self._selector.register(sock, events, link)

    def _unwatch_dial(self, link: int, sock: socket.socket) -> None:
        if sock in self._selector.get_map():
            self._selector.unregister(sock)

    def _take_dialled(self) -> None:
        finished, self._dialler.finished = self._dialler.finished, []
        for dialled in finished:
            if dialled.sock is None:
                self._events.append(Event(EventKind.LOST, dialled.link, dialled.error))
            else:
                self._opened(dialled)

    def _opened(self, dialled: Dialled) -> None:
        assert dialled.sock is not None
        s = self._sockets[dialled.link] = Socket(dialled.link, dialled.sock, dialled.address)
        self._selector.register(s.sock, READ, s)
        self._events.append(Event(EventKind.CONNECTED, s.link))

    def _take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def _ready(self, s: Socket, mask: int) -> None:
        if self._sockets.get(s.link) is not s:
            return  # lost while an earlier event was handled
        if mask & WRITE:
            self._write_on(s)
        if mask & READ and s.link in self._sockets:
            self._read(s)

    def _write_on(self, s: Socket) -> None:
        self._flush(s)
        if s.report and not s.out and s.link in self._sockets:
            s.report = False
            self._events.append(Event(EventKind.WRITTEN, s.link))

    def _watch(self, s: Socket, events: int) -> None:
        if events != s.events:
            self._selector.modify(s.sock, events, s)
            s.events = events

    def _drop(self, s: Socket) -> None:
        self._selector.unregister(s.sock)
        s.sock.close()
        s.out.clear()
        s.view = s.body = None

    def _lose(self, s: Socket, why: str | KafkaError) -> None:
        self._sockets.pop(s.link, None)
        self._drop(s)
        reason = why if isinstance(why, KafkaError) else ConnectionLost(f"{s.address}: {why}")
        self._events.append(Event(EventKind.LOST, s.link, reason))

    # -- writing

    def _flush(self, s: Socket) -> None:
        budget = TURN_BYTES
        try:
            while s.out and budget > 0:
                sent = s.sock.sendmsg(list(itertools.islice(s.out, IOV_MAX))) if GATHERS else s.sock.send(s.out[0])
                budget -= sent
                advance(s.out, sent)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(s, explain(error))
            return
        self._watch(s, READ | WRITE if s.out else READ)

    # -- reading

    def _read(self, s: Socket) -> None:
        budget, limit = TURN_BYTES, len(self._events) + TURN_FRAMES
        try:
            while budget > 0 and len(self._events) < limit:
                room, got = self._read_some(s)
                budget -= got
                if got == 0:
                    self._lose(s, end_of_stream(in_frame=s.view is not None or bool(s.head)))
                    return
                if got < room:
                    return
        except BlockingIOError:
            return
        except DecodeError as error:
            self._lose(s, bad_frame(s.address, error))
        except OSError as error:
            self._lose(s, explain(error))

    def _read_some(self, s: Socket) -> tuple[int, int]:
        """Read once, into the partly read frame or else into the scratch buffer. Returns (room, bytes read)."""
        if s.view is not None:
            room = len(s.view) - s.filled
            got = s.sock.recv_into(s.view[s.filled :])
            s.filled += got
            if s.filled == len(s.view):
                self._grow_or_finish(s)
            return room, got
        got = s.sock.recv_into(self._scratch)
        self._cut(s, self._scratch_view[:got])
        return SCRATCH_BYTES, got

    def _cut(self, s: Socket, data: memoryview) -> None:
        if s.head:
            missing = SIZE.size - len(s.head)
            s.head += data[:missing]
            if len(s.head) < SIZE.size:
                return
            pos = missing
            size = self._size_of(s, s.head)
            s.head = bytearray()
        elif len(data) < SIZE.size:
            s.head += data
            return
        else:
            pos = SIZE.size
            size = self._size_of(s, data)
        self._cut_bodies(s, data, pos, size)

    def _cut_bodies(self, s: Socket, data: memoryview, pos: int, size: int) -> None:
        end = len(data)
        while size <= end - pos:
            self._events.append(Event(EventKind.FRAME, s.link, bytes(data[pos : pos + size])))
            pos += size
            if end - pos < SIZE.size:
                s.head += data[pos:]
                return
            size = self._size_of(s, data[pos:])
            pos += SIZE.size
        self._begin(s, size, data[pos:])

    def _size_of(self, s: Socket, data: Buffer) -> int:
        return frame_size(data, self._max_frame)

    def _begin(self, s: Socket, size: int, data: memoryview) -> None:
        """Start a frame of which only `data` has arrived."""
        s.body = bytearray(min(size, max(FIRST_PIECE_BYTES, len(data))))
        s.view = memoryview(s.body)
        s.view[: len(data)] = data
        s.size, s.filled = size, len(data)

    def _grow_or_finish(self, s: Socket) -> None:
        body, view = s.body, s.view
        assert body is not None
        assert view is not None
        if s.filled == s.size:
            s.view = s.body = None
            self._events.append(Event(EventKind.FRAME, s.link, body))
            return
        view.release()
        body.extend(bytes(min(s.size - s.filled, s.filled)))
        s.view = memoryview(body)


def advance(out: deque[Buffer], sent: int) -> None:
    """Remove `sent` bytes from the front of `out`."""
    while sent:
        first = out[0]
        if sent < len(first):
            out[0] = memoryview(first)[sent:]
            return
        sent -= len(first)
        out.popleft()
