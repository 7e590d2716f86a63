"""The transport for TLS: the portable one with sockets of Python's `ssl`. Rule: CONNECTED is reported after the handshake.

OpenSSL keeps a part of what it has read from a socket to itself, where no selector sees it. So reading goes on until OpenSSL has nothing
more, and what the budget of a turn leaves there is read in the next turn, without waiting.
"""

from __future__ import annotations

import contextlib
import ssl
from collections import deque
from typing import Any, Final

from pykafka4.errors import AuthenticationError, ConfigError, ConnectionLost, DecodeError, caused_by
from pykafka4.net.dialling import Dialled
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.portable import READ, TURN_BYTES, WRITE, PortableTransport, Socket, advance
from pykafka4.net.tls import Contexts, explain_tls
from pykafka4.net.transport import Event, EventKind, Post, end_of_stream
from pykafka4.wire.buffers import Buffer

__all__ = ["SecureTransport"]

TLS_RECORD: Final = 16 << 10  # the most that one call encrypts
WAITS: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SecureTransport(PortableTransport):
    """See `net.transport.Transport`. `contexts` has the certificates."""

    def __init__(self, max_frame: int, helper: Helper, post: Post, contexts: Contexts) -> None:
        super().__init__(max_frame, helper, post)
        self._helper, self._post, self._contexts = helper, post, contexts
        self._preparing: dict[int, tuple[str, int]] = {}  # links that wait for their context, and where they go
        self._prepared: dict[int, tuple[ssl.SSLContext, str, int]] = {}  # links that are dialled
        self._shaking: set[Socket] = set()
        self._unread: dict[int, Socket] = {}  # OpenSSL may have more of these
        self._sessions: dict[tuple[str, int], tuple[ssl.SSLContext, ssl.SSLSession]] = {}

    # -- the Transport interface

    def connect(self, link: int, host: str, port: int) -> None:
        """Read the certificates on a helper thread, then dial."""
        self._preparing[link] = host, port
        contexts = self._contexts
        self._helper.submit(
            lambda: contexts.current() if link in self._preparing else None,
            lambda context: self._post(lambda now: self._dial(link, context)),
        )

    def close(self, link: int) -> None:
        """Close `link`, in whatever state it is."""
        self._preparing.pop(link, None)
        self._prepared.pop(link, None)
        super().close(link)

    def select(self, timeout: float) -> list[Event]:
        """As the portable transport, which does not know what OpenSSL has read already."""
        unread, self._unread = self._unread, {}
        events = super().select(0.0 if unread else timeout)
        for s in unread.values():
            if self._sockets.get(s.link) is s and s.link not in self._unread:
                self._read(s)
        return events + self._take_events()

    # -- the handshake

    def _dial(self, link: int, context: Any) -> None:
        where = self._preparing.pop(link, None)
        if where is None:
            return
        if isinstance(context, ssl.SSLContext):
            self._prepared[link] = context, *where
            super().connect(link, *where)
            return
        reason = context if isinstance(context, ConfigError) else f"{type(context).__name__}: {context}"
        error = caused_by(AuthenticationError(f"{where[0]}:{where[1]}: the certificates cannot be used: {reason}"), context)
        self._events.append(Event(EventKind.LOST, link, error))

    def _opened(self, dialled: Dialled) -> None:
        """The socket is open: begin the handshake."""
        context, host, port = self._prepared.pop(dialled.link)
        assert dialled.sock is not None
        kept = self._sessions.get((host, port))
        session = kept[1] if kept is not None and kept[0] is context else None
        sock = context.wrap_socket(dialled.sock, do_handshake_on_connect=False, server_hostname=host.rstrip("."), session=session)
        s = Socket(dialled.link, sock, dialled.address)
        s.target = host, port
        self._sockets[s.link] = s
        self._selector.register(sock, READ, s)
        self._shaking.add(s)
        self._shake(s)

    def _shake(self, s: Socket) -> None:
        sock: Any = s.sock
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(s, READ)
        except ssl.SSLWantWriteError:
            self._watch(s, WRITE)
        except (OSError, ValueError) as error:
            self._lose(s, explain_tls(s.address, error, shaking=True))
        else:
            self._shaking.discard(s)
            self._watch(s, READ)
            self._events.append(Event(EventKind.CONNECTED, s.link))

    def _ready(self, s: Socket, mask: int) -> None:
        if s in self._shaking:
            self._shake(s)
            return
        super()._ready(s, mask)
        if s.out and self._sockets.get(s.link) is s:  # OpenSSL may have had to read before it could write
            self._flush(s)

    def _drop(self, s: Socket) -> None:
        if s not in self._shaking:
            self._keep_session(s)
        self._shaking.discard(s)
        super()._drop(s)

    def _keep_session(self, s: Socket) -> None:
        """For the next connection to this broker. With TLS 1.3 a session is only complete after the first bytes from the broker."""
        sock: Any = s.sock
        with contextlib.suppress(ValueError):  # it is not complete
            if s.target is not None and (session := sock.session) is not None:
                self._sessions[s.target] = sock.context, session

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
            self._lose(s, explain_tls(s.address, error, shaking=False))
            return
        self._watch(s, READ | WRITE if s.out else READ)

    def _read(self, s: Socket) -> None:
        budget = TURN_BYTES
        try:
            while budget > 0:
                _, got = self._read_some(s)
                budget -= got
                if got == 0:
                    self._lose(s, end_of_stream(in_frame=s.view is not None or bool(s.head)))
                    return
        except WAITS:
            return
        except DecodeError as error:
            self._lose(s, caused_by(ConnectionLost(f"{s.address}: {error}"), error))  # the cause tells a consumer to request less
            return
        except OSError as error:
            self._lose(s, explain_tls(s.address, error, shaking=False))
            return
        self._unread[s.link] = s


def _next_piece(out: deque[Buffer]) -> Buffer:
    """The bytes for one call: small buffers joined, so that each does not become a TLS record of its own.

    After a call that could not be carried out, OpenSSL expects the same bytes again, or more of them. It gets these, as `out` only grows.
    """
    if len(out) == 1 or len(out[0]) >= TLS_RECORD:
        return out[0]
    pieces: list[Buffer] = []
    size = 0
    for buffer in out:
        piece = memoryview(buffer)[: TLS_RECORD - size]
        pieces.append(piece)
        size += len(piece)
        if size == TLS_RECORD:
            break
    return b"".join(pieces)
