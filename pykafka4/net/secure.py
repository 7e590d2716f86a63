"""Moves bytes over TLS, with sockets of Python's `ssl` on the portable transport. Invariant: CONNECTED comes after the handshake.

OpenSSL may hold bytes that it has read from the socket and not returned yet; no selector sees them. So a read continues until OpenSSL has
no more bytes. If the budget of a turn ends the read, the next turn reads on before it waits. A read may first have to write, and
a write to read (a new key, a renegotiation). Such a read waits until the socket is writable; such a write is tried again after a read.

A long response arrives in many pieces, and a wake-up for each piece costs time. So with TLS 1.3 on Linux the loop
sleeps until a large part of the response is there. The sleep ends after LONGEST_WAIT_S at the latest, because not every system reports a
smaller part while buffers are full.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import sys
from collections import deque
from functools import partial
from typing import Any, Final

from pykafka4 import native
from pykafka4.errors import AuthenticationError, DecodeError, KafkaError
from pykafka4.errors.frames import place_of
from pykafka4.net import system, threads
from pykafka4.net.dialling import Dialled
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.portable import READ, TURN_BYTES, TURN_FRAMES, WRITE, PortableTransport, Socket, advance
from pykafka4.net.tls import Contexts, explain_handshake, explain_tls
from pykafka4.net.transport import Event, EventKind, Post, bad_frame, end_of_stream
from pykafka4.options.proxy import Proxy
from pykafka4.wire.buffers import Buffer

__all__ = ["SecureTransport"]

TLS_RECORD: Final = 16 << 10  # the largest piece that TLS encrypts at once
HELD_BYTES: Final = TLS_RECORD + 1024  # more than OpenSSL keeps of a TLS record that has not arrived completely
WAITS_FOR_MANY: Final = sys.platform == "linux"  # whether the loop waits for a large part of a response (SO_RCVLOWAT)
LONGEST_WAIT_S: Final = 0.1  # seconds of a wait for a large part of a response
HEARD_BYTES: Final = 16  # first bytes by which an error can name a protocol other than TLS
REST_BYTES: Final = 256  # bytes of such a protocol after the bytes that OpenSSL took
SESSIONS: Final = 256  # limit of the sessions that are kept, a few KiB each


class Sessions:
    """A TLS session with each of up to SESSIONS brokers, which shortens the next handshake. A new context clears the sessions."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        self.kept: dict[tuple[str, int], ssl.SSLSession] = {}  # the oldest first

    def of(self, context: ssl.SSLContext, target: tuple[str, int]) -> ssl.SSLSession | None:
        if context is not self._context:
            self._context = context
            self.kept.clear()
        return self.kept.get(target)

    def keep(self, context: ssl.SSLContext, target: tuple[str, int], session: ssl.SSLSession | None) -> None:
        """Keep `session`, unless it has neither a ticket nor an id, or belongs to an earlier context."""
        if session is None or context is not self._context or not (session.has_ticket or session.id):
            return
        self.kept.pop(target, None)
        self.kept[target] = session
        if len(self.kept) > SESSIONS:
            del self.kept[next(iter(self.kept))]

    def forget(self, target: tuple[str, int]) -> None:
        """Call this after a failed handshake, because the session may be the reason."""
        self.kept.pop(target, None)


class SecureTransport(PortableTransport):
    """See `net.transport.Transport`. `contexts` makes the SSLContexts, with the certificates."""

    def __init__(self, max_frame: int, helper: Helper, post: Post, contexts: Contexts, proxy: Proxy | None = None) -> None:
        super().__init__(max_frame, helper, post, proxy)
        self._helper, self._post, self._contexts = helper, post, contexts
        self._preparing: dict[int, tuple[str, int]] = {}  # links that wait for their context -> (host, port)
        self._is_asking = False  # whether a helper thread reads the certificates
        self._prepared: dict[int, tuple[ssl.SSLContext, str, int]] = {}  # links that are being dialled
        self._shaking: dict[Socket, bytes] = {}  # sockets in their handshake -> the first received bytes, for the error
        self._unread: dict[int, Socket] = {}  # sockets of which OpenSSL may hold more bytes
        self._overdue: dict[int, Socket] = {}  # such sockets of the last turn, until this turn reads them
        self._waits: dict[Socket, float] = {}  # sockets that wait for a large part -> the end of the wait
        self._sessions = Sessions()
        # Contexts of gevent and eventlet make sockets for greenlets, but the loop is a thread.
        self._native = native.tls_socket_class() if threads.greenlets() else None
        self._is_shut = False  # after `shut` no session is kept

    # -- the Transport interface

    def connect(self, link: int, host: str, port: int) -> None:
        self._preparing[link] = host, port
        if not self._is_asking:
            self._ask()

    def close(self, link: int) -> None:
        self._preparing.pop(link, None)
        self._prepared.pop(link, None)
        super().close(link)

    def select(self, timeout: float) -> list[Event]:
        """Also read the bytes that OpenSSL holds, and wait again while only parts of frames have arrived."""
        until = system.monotonic() + timeout
        while True:
            self._overdue, self._unread = self._unread, {}
            longest = min(self._waits.values()) - system.monotonic() if self._waits else timeout
            events = super().select(0.0 if self._overdue else max(0.0, min(timeout, longest)))
            now = system.monotonic()
            for s in [*self._overdue.values(), *(s for s, end in self._waits.items() if end <= now)]:
                if self._sockets.get(s.link) is s:
                    self._ready(s, READ)
            events += self._take_events()
            timeout = until - system.monotonic()
            if events or timeout <= 0.0 or not self.wakeup.asleep:
                return events

    def shut(self) -> None:
        self._is_shut = True
        self._preparing.clear()
        self._prepared.clear()
        super().shut()

    # -- the handshake

    def _ask(self) -> None:
        """Read the certificates once for all links that wait, so that a password callable that hangs blocks only one thread."""
        self._is_asking = True
        links = list(self._preparing)
        self._helper.submit(self._contexts.current, lambda context: self._post(lambda now: self._dial(links, context)))

    def _dial(self, links: list[int], context: Any) -> None:
        self._is_asking = False
        for link in links:
            where = self._preparing.pop(link, None)
            if where is None:
                continue
            if isinstance(context, ssl.SSLContext):
                self._prepared[link] = context, *where
                super().connect(link, *where)
            else:
                is_ours = isinstance(context, KafkaError)  # the text of another error may contain a secret
                why = str(context) if is_ours else f"{type(context).__name__}{place_of(context)}"
                reason = f"{where[0]}:{where[1]}: the certificates cannot be used: {why}"
                self._events.append(Event(EventKind.LOST, link, AuthenticationError(reason)))
        if self._preparing:
            self._ask()

    def _take_dialled(self) -> None:
        for dialled in self._dialler.finished:
            if dialled.sock is None:
                self._prepared.pop(dialled.link, None)
        super()._take_dialled()

    def _opened(self, dialled: Dialled) -> None:
        """Begin the handshake. LOST follows at once if the peer is gone, or if no certificate can have the host's name."""
        context, host, port = self._prepared.pop(dialled.link)
        assert dialled.sock is not None
        try:
            dialled.sock.getpeername()  # raises after a reset by the peer: `wrap_socket` would leave the close to the garbage collector
            name = _server_name(host)
            session = self._sessions.of(context, (host, port))
            wrap: Any = context.wrap_socket if self._native is None else partial(self._native._create, context=context)
            sock = wrap(dialled.sock, do_handshake_on_connect=False, server_hostname=name, session=session)
        except (OSError, ValueError) as error:
            dialled.sock.close()
            self._events.append(Event(EventKind.LOST, dialled.link, explain_handshake(dialled.address, error, b"")))
            return
        s = Socket(dialled.link, sock, dialled.address)
        s.target = host, port
        self._sockets[s.link] = s
        self._selector.register(sock, READ, s)
        self._shaking[s] = b""
        self._shake(s)

    def _shake(self, s: Socket) -> None:
        sock: Any = s.sock
        if not self._shaking[s]:
            self._shaking[s] = _peek(sock, HEARD_BYTES)  # the bytes stay in the socket, for OpenSSL
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(s, READ)
        except ssl.SSLWantWriteError:
            self._watch(s, WRITE)
        except (OSError, ValueError) as error:
            assert s.target is not None
            self._sessions.forget(s.target)
            heard = self._shaking[s]
            self._lose(s, explain_handshake(s.address, error, heard, b"" if heard else _peek(sock, REST_BYTES)))
        else:
            del self._shaking[s]
            self._watch(s, READ)
            s.least = int(WAITS_FOR_MANY and sock.version() == "TLSv1.3")
            self._events.append(Event(EventKind.CONNECTED, s.link))

    def _ready(self, s: Socket, mask: int) -> None:
        if s in self._shaking:
            self._shake(s)
            return
        super()._ready(s, mask | READ)  # also READ, because a read may have waited until the socket was writable
        if s.out and not s.events & WRITE:  # a write waited until there was something to read
            self._write_on(s)

    def _drop(self, s: Socket) -> None:
        sock: Any = s.sock
        self._waits.pop(s, None)
        if self._shaking.pop(s, None) is None and s.target is not None and not (sock.session_reused or self._is_shut):
            with contextlib.suppress(ValueError):  # the session is not complete
                self._sessions.keep(sock.context, s.target, sock.session)  # each read of `sock.session` leaks a few KB in CPython
        super()._drop(s)

    # -- bytes

    def _flush(self, s: Socket) -> None:
        budget = TURN_BYTES
        try:
            while s.out and budget > 0:
                sent = s.sock.send(_next_piece(s.out))
                budget -= sent
                advance(s.out, sent)
        except ssl.SSLWantReadError:
            self._watch(s, READ)
            return
        except ssl.SSLWantWriteError:
            pass
        except OSError as error:
            self._read(s)  # may find responses, or the broker's alert with the reason
            if self._sockets.get(s.link) is s:
                self._lose(s, explain_tls(s.address, error))
            return
        self._watch(s, READ | WRITE if s.out else READ)

    def _read(self, s: Socket) -> None:
        self._overdue.pop(s.link, None)
        budget, limit = TURN_BYTES, len(self._events) + TURN_FRAMES
        try:
            while budget > 0 and len(self._events) < limit:
                _, got = self._read_some(s)
                budget -= got
                if got == 0:
                    self._lose(s, end_of_stream(in_frame=s.view is not None or bool(s.head)))
                    return
        except ssl.SSLWantReadError:
            self._await_many(s)
            return
        except ssl.SSLWantWriteError:
            self._await_many(s)
            self._watch(s, READ | WRITE)
            return
        except DecodeError as error:
            self._lose(s, bad_frame(s.address, error))
            return
        except OSError as error:
            self._lose(s, explain_tls(s.address, error))
            return
        self._unread[s.link] = s

    def _await_many(self, s: Socket) -> None:
        """Have the selector report the socket when it has a large part of the frame's missing bytes, or at the end of the connection.

        That part must be certain to arrive. So it leaves out HELD_BYTES, which OpenSSL may have taken from the socket already, and is at
        most a quarter of the socket's buffer, because more may not fit. Does nothing outside Linux, or with TLS 1.2, where the broker may
        first wait for a message of the client (a renegotiation).
        """
        if not s.least:
            return
        least = 1
        if s.view is not None and (missing := s.size - s.filled - HELD_BYTES) > 1:
            least = min(missing, s.sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 4)
        self._waits.pop(s, None)
        if least > 1:
            self._waits[s] = system.monotonic() + LONGEST_WAIT_S
        if least != s.least:
            with contextlib.suppress(OSError):
                s.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, least)
                s.least = least


def _peek(sock: Any, most: int) -> bytes:
    """Return up to `most` bytes that have arrived, without taking them out of the socket."""
    with contextlib.suppress(OSError):
        return native.socket.recv(sock, most, socket.MSG_PEEK)
    return b""


def _server_name(host: str) -> str:
    """Return the name that the certificate must contain: `host` without a dot at its end, or without the zone of an IPv6 address.

    Raises ValueError if no certificate can contain the name.
    """
    name = host.partition("%")[0] if ":" in host else host.rstrip(".").encode("idna").decode()
    if not name or "\0" in name:
        raise ValueError(f"{host!r} is not a name that a certificate can contain")
    return name


def _next_piece(out: deque[Buffer]) -> Buffer:
    """Return the bytes for one `send`, with small buffers joined, because each call makes at least one TLS record.

    After a call that wrote nothing, OpenSSL expects the same bytes again, or more; meanwhile `out` only grows.
    """
    first = out[0]
    if len(first) > TURN_BYTES:
        return memoryview(first)[:TURN_BYTES]
    if len(out) == 1 or len(first) >= TLS_RECORD:
        return first
    pieces: list[Buffer] = []
    size = 0
    for buffer in out:
        piece = memoryview(buffer)[: TLS_RECORD - size]
        pieces.append(piece)
        size += len(piece)
        if size == TLS_RECORD:
            break
    return b"".join(pieces)
