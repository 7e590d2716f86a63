"""Transport. Rule: bytes in, whole frames out; the loop uses only the interface `Transport`, so a compiled implementation can be added.

`SocketTransport` is the portable implementation: non-blocking TCP on `selectors`. It belongs to the loop thread. Errors are
`ConnectionLost`, prefixed with the address, and reach the loop as events, never as exceptions.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeAlias

from pykafka4.errors import ConnectionLost, DecodeError, KafkaError, caused_by
from pykafka4.net.handoff.wakeup import Wakeup
from pykafka4.net.handoff.workers import Helper
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.frame import SIZE, frame_size

__all__ = ["Event", "EventKind", "SocketTransport", "Transport"]

TURN_BYTES = 4 << 20  # most that one connection may read or write per turn, to be fair to the others
SCRATCH = 256 << 10  # size of one read; frames that fit are cut out of it
FIRST_PIECE = 4 << 20  # first buffer of a larger frame; it grows as bytes arrive, so that a wrong size alone allocates no more than this
IOV_MAX = min(os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16, 64)  # more buffers per call are slower (measured)
GATHERS = hasattr(socket.socket, "sendmsg")  # Windows sends one buffer per call
ADDRESS_SECONDS = 2.0  # for one of several addresses of a name, before the next one is tried
IN_PROGRESS = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, 0}
SKIPPED = object()  # result of a lookup that was not started because no connection waited for it any more
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Address: TypeAlias = tuple[int, Any]  # (family, sockaddr)
Post: TypeAlias = Callable[[Callable[[float], object]], None]


class EventKind(Enum):
    """What can happen to a connection."""

    CONNECTED = "connected"  # payload None
    FRAME = "frame"  # payload: the frame without its size, in a buffer of its own
    LOST = "lost"  # payload: KafkaError
    WRITTEN = "written"  # payload None: everything passed to `write` reached the socket


class Event(NamedTuple):
    """An event of connection `link`."""

    kind: EventKind
    link: int
    payload: Any = None


class Transport(Protocol):
    """The sockets of one loop. Every method belongs to the loop thread, except `wakeup.wake`."""

    wakeup: Wakeup

    def connect(self, link: int, host: str, port: int) -> None:
        """Start to connect; ends in CONNECTED or LOST."""

    def write(self, link: int, buffers: Sequence[Buffer]) -> bool:
        """Write, and keep what the socket does not take yet. Returns whether all of it reached the socket (otherwise WRITTEN follows)."""

    def close(self, link: int) -> None:
        """Close; no further event follows."""

    def select(self, timeout: float | None) -> list[Event]:
        """Wait up to `timeout` seconds for events; `wakeup.wake` ends it early."""

    def shut(self) -> None:
        """Close everything."""

    def abandon(self) -> None:
        """In a forked child: close descriptors, change nothing that is shared with the parent."""


class Socket:
    """One connection: the socket, what is still to be written, and the frame that is partly read."""

    __slots__ = (
        "address",
        "addresses",
        "body",
        "errors",
        "events",
        "filled",
        "head",
        "host",
        "link",
        "next_address_at",
        "out",
        "size",
        "sock",
        "trying",
        "view",
    )

    def __init__(self, link: int, host: str, port: int) -> None:
        self.link, self.host = link, host
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.sock: socket.socket | None = None
        self.addresses: deque[Address] = deque()  # not tried yet
        self.trying = host
        self.errors: list[str] = []
        self.next_address_at: float | None = None
        self.events = 0
        self.out: deque[Buffer] = deque()
        self.head = bytearray()  # the first bytes of a frame, until its size is known
        self.body: bytearray | None = None
        self.view: memoryview | None = None
        self.size = self.filled = 0


class SocketTransport:
    """Connections on `selectors`. `post` runs a call on the loop thread; `max_frame` is receive_message_max_bytes."""

    def __init__(self, max_frame: int, helper: Helper, post: Post) -> None:
        self.wakeup = Wakeup()
        self._max_frame, self._helper, self._post = max_frame, helper, post
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.wakeup, READ, None)
        self._sockets: dict[int, Socket] = {}
        self._events: list[Event] = []  # returned by the next `select`
        self._connecting: set[Socket] = set()
        self._lookups: dict[tuple[str, int], list[Socket]] = {}  # in progress, and the connections that wait for each
        self._rotation = itertools.count()
        self._scratch = bytearray(SCRATCH)
        self._scratch_view = memoryview(self._scratch)

    # -- the Transport interface

    def connect(self, link: int, host: str, port: int) -> None:
        """Look the name up on a helper thread, then try its addresses in turn. An IP address needs no lookup."""
        s = self._sockets[link] = Socket(link, host, port)
        if (address := _ip_address(host, port)) is not None:
            self._resolved(s, [address])
        elif (waiting := self._lookups.get((host, port))) is not None:
            waiting.append(s)
        else:
            self._lookups[host, port] = [s]
            self._look_up(host, port)

    def write(self, link: int, buffers: Sequence[Buffer]) -> bool:
        """Write what the socket takes now, the rest when it is writable."""
        s = self._sockets.get(link)
        if s is None or s.sock is None:
            return False
        idle = not s.out
        s.out.extend(buffer for buffer in buffers if len(buffer))
        if idle:
            self._flush(s)
        return not s.out and link in self._sockets

    def close(self, link: int) -> None:
        """Close `link`; frames that were read but not reported are discarded."""
        s = self._sockets.pop(link, None)
        if s is not None:
            self._events = [event for event in self._events if event.link != link]
            self._leave_lookup(s)
            self._drop(s)

    def select(self, timeout: float | None) -> list[Event]:
        """Wait for the sockets, move bytes, and return the resulting events."""
        if self._events:
            timeout = 0.0
        elif self._connecting:
            timeout = self._until_next_address(timeout)
        for key, mask in self._selector.select(timeout):
            if key.data is None:
                self.wakeup.clear()
            else:
                self._ready(key.data, mask)
        if self._connecting:
            self._skip_slow_addresses(monotonic())
        events, self._events = self._events, []
        return events

    def shut(self) -> None:
        """Close every socket, the selector and the wake-up."""
        for link in list(self._sockets):
            self.close(link)
        self._selector.close()
        self.wakeup.close()

    def abandon(self) -> None:
        """Close the child's copies of the descriptors. Nothing is unregistered, as the epoll set is shared with the parent."""
        for s in self._sockets.values():
            if s.sock is not None:
                s.sock.close()
        self._selector.close()
        self.wakeup.close()

    # -- connecting

    def _look_up(self, host: str, port: int) -> None:
        """One lookup at a time per host and port, for all connections that wait for it; skipped if none waits when the helper starts it."""
        waiting = self._lookups[host, port]
        self._helper.submit(
            lambda: _look_up(host, port) if waiting else SKIPPED, lambda found: self._post(lambda now: self._looked_up(host, port, found))
        )

    def _looked_up(self, host: str, port: int, found: Any) -> None:
        waiting = self._lookups.get((host, port), [])
        if waiting and found is SKIPPED:  # connections that came after the helper had skipped the lookup
            self._look_up(host, port)
            return
        self._lookups.pop((host, port), None)
        for s in waiting:
            self._resolved(s, found)

    def _leave_lookup(self, s: Socket) -> None:
        for waiting in self._lookups.values():
            if s in waiting:
                waiting.remove(s)

    def _resolved(self, s: Socket, result: Any) -> None:
        if isinstance(result, BaseException):
            self._lose(s, _explain(result))
            return
        s.addresses = deque(result)
        s.addresses.rotate(-next(self._rotation) if len(result) > 1 else 0)  # so that a dead address is not always tried first
        self._connecting.add(s)
        self._next_address(s)

    def _next_address(self, s: Socket) -> None:
        """Try the next addresses until one does not fail at once."""
        self._forget_socket(s)
        while s.addresses:
            family, sockaddr = s.addresses.popleft()
            s.trying = sockaddr[0]
            try:
                s.sock = _socket(family)
                code = s.sock.connect_ex(sockaddr)
            except OSError as error:
                code = error.errno or errno.EIO
            except (ValueError, OverflowError) as error:  # a port above 65,535, from a broker or from the configuration
                self._failed(s, _explain(error))
                self._forget_socket(s)
                continue
            if code in IN_PROGRESS and s.sock is not None:
                s.next_address_at = monotonic() + ADDRESS_SECONDS if s.addresses else None
                self._watch(s, WRITE)
                return
            self._failed(s, os.strerror(code).lower())
            self._forget_socket(s)
        self._lose(s, _joined(s.errors))

    def _failed(self, s: Socket, why: str) -> None:
        """Note why this address failed, with the address itself if a host name was configured."""
        s.errors.append(why if s.trying == s.host else f"{why} ({s.trying})")

    def _finish_connecting(self, s: Socket) -> None:
        assert s.sock is not None
        code = s.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(s, os.strerror(code).lower())
            self._next_address(s)
            return
        self._connecting.discard(s)
        s.addresses.clear()
        s.next_address_at = None
        self._watch(s, READ)
        self._events.append(Event(EventKind.CONNECTED, s.link))

    def _until_next_address(self, timeout: float | None) -> float | None:
        times = [s.next_address_at for s in self._connecting if s.next_address_at is not None]
        if not times:
            return timeout
        left = max(0.0, min(times) - monotonic())
        return left if timeout is None else min(timeout, left)

    def _skip_slow_addresses(self, now: float) -> None:
        for s in [s for s in self._connecting if s.next_address_at is not None and s.next_address_at <= now]:
            self._failed(s, f"no response within {ADDRESS_SECONDS:g} s")
            self._next_address(s)

    # -- sockets

    def _ready(self, s: Socket, mask: int) -> None:
        if s.sock is None or self._sockets.get(s.link) is not s:
            return  # closed while an earlier event was handled
        if s in self._connecting:
            self._finish_connecting(s)
            return
        if mask & WRITE:
            self._flush(s)
            if not s.out and s.link in self._sockets:
                self._events.append(Event(EventKind.WRITTEN, s.link))
        if mask & READ and s.link in self._sockets:
            self._read(s)

    def _watch(self, s: Socket, events: int) -> None:
        if events == s.events or s.sock is None:
            return
        if s.events:
            self._selector.modify(s.sock, events, s)
        else:
            self._selector.register(s.sock, events, s)
        s.events = events

    def _forget_socket(self, s: Socket) -> None:
        if s.sock is not None:
            if s.events:
                self._selector.unregister(s.sock)
                s.events = 0
            s.sock.close()
            s.sock = None

    def _drop(self, s: Socket) -> None:
        self._connecting.discard(s)
        self._forget_socket(s)
        s.out.clear()
        s.view = s.body = None

    def _lose(self, s: Socket, why: str | KafkaError) -> None:
        self._sockets.pop(s.link, None)
        self._drop(s)
        reason = why if isinstance(why, KafkaError) else ConnectionLost(f"{s.address}: {why}")
        self._events.append(Event(EventKind.LOST, s.link, reason))

    # -- writing

    def _flush(self, s: Socket) -> None:
        assert s.sock is not None
        budget = TURN_BYTES
        try:
            while s.out and budget > 0:
                sent = s.sock.sendmsg(list(itertools.islice(s.out, IOV_MAX))) if GATHERS else s.sock.send(s.out[0])
                budget -= sent
                _advance(s.out, sent)
        except BlockingIOError:
            pass
        except OSError as error:
            self._lose(s, _explain(error))
            return
        self._watch(s, READ | WRITE if s.out else READ)

    # -- reading

    def _read(self, s: Socket) -> None:
        budget = TURN_BYTES
        try:
            while budget > 0:
                room, got = self._read_some(s)
                budget -= got
                if got == 0:
                    self._lose(s, _end_of(s))
                    return
                if got < room:
                    return
        except BlockingIOError:
            return
        except DecodeError as error:
            self._lose(s, caused_by(ConnectionLost(f"{s.address}: {error}"), error))  # the cause tells a consumer to request less
        except OSError as error:
            self._lose(s, _explain(error))

    def _read_some(self, s: Socket) -> tuple[int, int]:
        """One system call: into the frame that is partly read, if there is one, otherwise into the scratch buffer.

        Returns (room, bytes read).
        """
        assert s.sock is not None
        if s.view is not None:
            room = len(s.view) - s.filled
            got = s.sock.recv_into(s.view[s.filled :])
            s.filled += got
            if s.filled == len(s.view):
                self._grow_or_finish(s)
            return room, got
        got = s.sock.recv_into(self._scratch)
        self._cut(s, self._scratch_view[:got])
        return SCRATCH, got

    def _cut(self, s: Socket, data: memoryview) -> None:
        """Cut whole frames out of `data`; the rest is the start of the next frame."""
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
        """Start a frame that has not arrived completely."""
        s.body = bytearray(min(size, max(FIRST_PIECE, len(data))))
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


def _ip_address(host: str, port: int) -> Address | None:
    """The address, if `host` is an IP address and not a name. Never queries a resolver."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: characters that are not allowed in a name
        socket.inet_pton(socket.AF_INET, host)
        return socket.AF_INET, (host, port)
    with contextlib.suppress(OSError, ValueError, OverflowError):
        if ":" in host:  # by the C library's parser, since it may have a zone: fe80::1%eth0
            family, _, _, _, sockaddr = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
            return family, sockaddr
    return None


def _look_up(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found))


def _socket(family: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock


def _advance(out: deque[Buffer], sent: int) -> None:
    """Remove `sent` bytes from the front."""
    while sent:
        first = out[0]
        if sent < len(first):
            out[0] = memoryview(first)[sent:]
            return
        sent -= len(first)
        out.popleft()


def _end_of(s: Socket) -> str:
    where = " in the middle of a response" if s.view is not None or s.head else ""
    return f"the broker closed the connection{where}"


def _joined(errors: list[str]) -> str:
    return "; ".join(dict.fromkeys(errors)) or "no address"


def _explain(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return (
            "host name not found" if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else str(error.strerror).lower()
        )
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return f"{type(error).__name__}: {error}"
