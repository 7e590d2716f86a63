"""Transport. Rule: bytes in, whole frames out; `Transport` is the seam, all that a later compiled pump has to offer in this one's place.

`SocketTransport` is the portable one: non-blocking TCP on `selectors`. It belongs to the loop thread. Errors are `ConnectionLost` with the
address in front, and reach the loop as events, never as exceptions.
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

TURN_BYTES = 4 << 20  # most that one connection may read or write in a turn: the others want theirs
SCRATCH = 256 << 10  # read at once; frames that fit are cut out of it
FIRST_PIECE = 4 << 20  # a larger frame gets its memory as its bytes come, so that a size alone costs nothing
IOV_MAX = min(os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16, 64)  # more buffers per call are slower, measured
GATHERS = hasattr(socket.socket, "sendmsg")  # Windows sends one buffer a call
PATIENCE = 2.0  # for one of several addresses of a name, before the next is tried
IN_PROGRESS = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, 0}
NOBODY = object()  # what a look-up found that was no longer worth beginning
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Address: TypeAlias = tuple[int, Any]  # (family, sockaddr)
Post: TypeAlias = Callable[[Callable[[float], object]], None]


class EventKind(Enum):
    """What a connection has to report."""

    CONNECTED = "connected"  # payload None
    FRAME = "frame"  # payload: the frame without its size, a buffer of its own
    LOST = "lost"  # payload: KafkaError
    WRITTEN = "written"  # payload None: all that was given to `write` reached the socket


class Event(NamedTuple):
    """Something that happened to connection `link`."""

    kind: EventKind
    link: int
    payload: Any = None


class Transport(Protocol):
    """The sockets of one loop. Every method belongs to the loop thread, except `wakeup.wake`."""

    wakeup: Wakeup

    def connect(self, link: int, host: str, port: int) -> None:
        """Begin to connect; ends in CONNECTED or LOST."""

    def write(self, link: int, buffers: Sequence[Buffer]) -> bool:
        """Write, keep what does not fit yet; whether all of it reached the socket (else WRITTEN follows)."""

    def close(self, link: int) -> None:
        """Close without a further event."""

    def select(self, timeout: float | None) -> list[Event]:
        """Wait up to `timeout` seconds for events; `wakeup.wake` ends it early."""

    def shut(self) -> None:
        """Close everything."""

    def abandon(self) -> None:
        """In a forked child: close descriptors, touch nothing that is shared with the parent."""


class Socket:
    """One connection: the socket, what is to be written, what was read of the frame under way."""

    __slots__ = (
        "address",
        "addresses",
        "body",
        "errors",
        "events",
        "filled",
        "giving_up_at",
        "head",
        "host",
        "link",
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
        self.giving_up_at: float | None = None
        self.events = 0
        self.out: deque[memoryview] = deque()  # a view keeps its buffer alive
        self.head = bytearray()  # of the frame under way, while its size is not known
        self.body: bytearray | None = None
        self.view: memoryview | None = None
        self.size = self.filled = 0


class SocketTransport:
    """Connections on `selectors`. `post` brings a call to the loop thread; `max_frame` is receive_message_max_bytes."""

    def __init__(self, max_frame: int, helper: Helper, post: Post) -> None:
        self.wakeup = Wakeup()
        self._max_frame, self._helper, self._post = max_frame, helper, post
        self._selector = selectors.DefaultSelector()
        self._selector.register(self.wakeup, READ, None)
        self._sockets: dict[int, Socket] = {}
        self._events: list[Event] = []  # to be reported by the next `select`
        self._connecting: set[Socket] = set()
        self._lookups: dict[tuple[str, int], list[Socket]] = {}  # under way, and who waits for each
        self._rotation = itertools.count()
        self._scratch = bytearray(SCRATCH)
        self._scratch_view = memoryview(self._scratch)

    # -- the seam

    def connect(self, link: int, host: str, port: int) -> None:
        """Look the name up on a helper thread, then try its addresses in turn. What is an address already needs no thread."""
        s = self._sockets[link] = Socket(link, host, port)
        if (address := _literal(host, port)) is not None:
            self._resolved(s, [address])
        elif (waiting := self._lookups.get((host, port))) is not None:
            waiting.append(s)
        else:
            self._lookups[host, port] = [s]
            self._look_up(host, port)

    def write(self, link: int, buffers: Sequence[Buffer]) -> bool:
        """Write what the socket takes now; the rest goes when it is writable."""
        s = self._sockets.get(link)
        if s is None or s.sock is None:
            return False
        idle = not s.out
        s.out.extend(view for buffer in buffers if (view := memoryview(buffer).cast("B")).nbytes)
        if idle:
            self._flush(s)
        return not s.out and link in self._sockets

    def close(self, link: int) -> None:
        """Close `link`; what was read and not reported dies with it."""
        s = self._sockets.pop(link, None)
        if s is not None:
            self._events = [event for event in self._events if event.link != link]
            self._wait_no_more(s)
            self._drop(s)

    def select(self, timeout: float | None) -> list[Event]:
        """Wait for the sockets, move bytes, and return what came of it."""
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
            self._give_up_slow_ones(monotonic())
        events, self._events = self._events, []
        return events

    def shut(self) -> None:
        """Close every socket, the selector and the wake-up."""
        for link in list(self._sockets):
            self.close(link)
        self._selector.close()
        self.wakeup.close()

    def abandon(self) -> None:
        """Close the child's copies of the descriptors. Nothing is unregistered: the epoll set is the parent's, too."""
        for s in self._sockets.values():
            if s.sock is not None:
                s.sock.close()
        self._selector.close()
        self.wakeup.close()

    # -- connecting

    def _look_up(self, host: str, port: int) -> None:
        """One at a time for each address, however many connections want it; none when nobody waits any more."""
        waiting = self._lookups[host, port]
        self._helper.submit(
            lambda: _look_up(host, port) if waiting else NOBODY, lambda found: self._post(lambda now: self._looked_up(host, port, found))
        )

    def _looked_up(self, host: str, port: int, found: Any) -> None:
        waiting = self._lookups.get((host, port), [])
        if waiting and found is NOBODY:  # they came after the helper had seen that nobody waits
            self._look_up(host, port)
            return
        self._lookups.pop((host, port), None)
        for s in waiting:
            self._resolved(s, found)

    def _wait_no_more(self, s: Socket) -> None:
        for waiting in self._lookups.values():
            if s in waiting:
                waiting.remove(s)

    def _resolved(self, s: Socket, result: Any) -> None:
        if isinstance(result, BaseException):
            self._lose(s, _explain(result))
            return
        s.addresses = deque(result)
        s.addresses.rotate(-next(self._rotation) if len(result) > 1 else 0)  # a dead first address is not always the first
        self._connecting.add(s)
        self._next_address(s)

    def _next_address(self, s: Socket) -> None:
        """Try the next address, until one does not fail at once."""
        self._forget_socket(s)
        while s.addresses:
            family, sockaddr = s.addresses.popleft()
            s.trying = sockaddr[0]
            try:
                s.sock = _socket(family)
                code = s.sock.connect_ex(sockaddr)
            except OSError as error:
                code = error.errno or errno.EIO
            except (ValueError, OverflowError) as error:  # a port beyond 65,535, which a broker may name as well as a configuration
                self._failed(s, _explain(error))
                self._forget_socket(s)
                continue
            if code in IN_PROGRESS and s.sock is not None:
                s.giving_up_at = monotonic() + PATIENCE if s.addresses else None
                self._watch(s, WRITE)
                return
            self._failed(s, os.strerror(code).lower())
            self._forget_socket(s)
        self._lose(s, _joined(s.errors))

    def _failed(self, s: Socket, why: str) -> None:
        """Note why this address will not do; which one it was is of interest where a name was given."""
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
        s.giving_up_at = None
        self._watch(s, READ)
        self._events.append(Event(EventKind.CONNECTED, s.link))

    def _until_next_address(self, timeout: float | None) -> float | None:
        times = [s.giving_up_at for s in self._connecting if s.giving_up_at is not None]
        if not times:
            return timeout
        left = max(0.0, min(times) - monotonic())
        return left if timeout is None else min(timeout, left)

    def _give_up_slow_ones(self, now: float) -> None:
        for s in [s for s in self._connecting if s.giving_up_at is not None and s.giving_up_at <= now]:
            self._failed(s, f"no answer within {PATIENCE:g} s")
            self._next_address(s)

    # -- sockets

    def _ready(self, s: Socket, mask: int) -> None:
        if s.sock is None or self._sockets.get(s.link) is not s:
            return  # closed by what happened to another one
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
            self._lose(s, caused_by(ConnectionLost(f"{s.address}: {error}"), error))  # whoever asked may have to ask for less
        except OSError as error:
            self._lose(s, _explain(error))

    def _read_some(self, s: Socket) -> tuple[int, int]:
        """One system call: into the frame under way if it is a large one, else into the scratch buffer. (room, bytes read)."""
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
        """Cut whole frames out of `data`; what is left over begins a frame."""
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
        """A frame that has not come whole."""
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


def _literal(host: str, port: int) -> Address | None:
    """The address that `host` is, if it is one and no name. Never asks anybody."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: characters that no name can have
        socket.inet_pton(socket.AF_INET, host)
        return socket.AF_INET, (host, port)
    with contextlib.suppress(OSError, ValueError, OverflowError):
        if ":" in host:  # by the library's own parser, since it may have a zone: fe80::1%eth0
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


def _advance(out: deque[memoryview], sent: int) -> None:
    """Take `sent` bytes off the front."""
    while sent:
        first = out[0]
        if sent < first.nbytes:
            out[0] = first[sent:]
            return
        sent -= first.nbytes
        out.popleft()


def _end_of(s: Socket) -> str:
    where = " in the middle of an answer" if s.view is not None or s.head else ""
    return f"the broker closed the connection{where}"


def _joined(errors: list[str]) -> str:
    return "; ".join(dict.fromkeys(errors)) or "no address"


def _explain(error: BaseException) -> str:
    if isinstance(error, socket.gaierror):
        return "name not known" if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", -5)) else str(error.strerror).lower()
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return f"{type(error).__name__}: {error}"
