"""Looks up the names of brokers, and connects to their addresses in turn. Invariant: an attempt ends at most once, in an open
socket or in an error.

Lookups run on helper threads, because a lookup may take a long time. The transport watches the sockets, and calls `ready` for each
socket with news. With a proxy, the dialler tries the proxy's addresses instead of the broker's, and the attempt ends with the proxy's
handshake.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import socket
from collections import deque
from collections.abc import Callable
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.errors import ConnectionLost
from pykafka4.native import getaddrinfo, monotonic
from pykafka4.native import socket as native_socket
from pykafka4.net import threads
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.proxies import MAX_HANDSHAKE_BYTES, Handshake, begin_handshake
from pykafka4.net.transport import Post, explain
from pykafka4.options.proxy import Proxy

__all__ = ["Dialled", "Dialler"]

ADDRESS_S = 2.0  # how long one of several addresses of a name is tried before the next one
IN_PROGRESS: Final = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN, 0}
SKIPPED: Final = object()  # result of a lookup for which no connection waited any more

Address: TypeAlias = tuple[int, Any]  # (family, sockaddr)
Watch: TypeAlias = Callable[[int, socket.socket, int], None]
Unwatch: TypeAlias = Callable[[int, socket.socket], None]


@attrs.frozen(eq=False)
class Dialled:
    """The end of an attempt: an open socket, which the caller closes, or an error."""

    link: int
    address: str  # from the configuration or the metadata; for messages
    sock: socket.socket | None
    error: ConnectionLost | None


class Attempt:
    """A connection that is not open yet."""

    __slots__ = ("address", "addresses", "errors", "handshake", "host", "link", "next_address_at", "prefix", "sock", "trying")

    def __init__(self, link: int, host: str, port: int, proxy: Proxy | None) -> None:
        self.link = link
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.prefix = self.address if proxy is None else f"{self.address}: proxy {proxy.address}"  # the beginning of errors
        self.host = host if proxy is None else proxy.host  # the host to connect to
        self.handshake: Handshake | None = None  # with the proxy; None without a proxy
        self.sock: socket.socket | None = None
        self.addresses: deque[Address] = deque()  # not tried yet
        self.trying = self.host
        self.errors: list[str] = []
        self.next_address_at: float | None = None


class Dialler:
    """The attempts of one loop, on the loop thread."""

    def __init__(self, helper: Helper, post: Post, watch: Watch, unwatch: Unwatch, proxy: Proxy | None = None) -> None:
        """`post` runs a call on the loop thread.

        `watch(link, sock, events)` has the transport call `ready` when `sock` becomes readable (EVENT_READ) or writable (EVENT_WRITE), or
        fails. The dialler calls `unwatch` before the next `watch`, and before it closes the socket or hands it over, even if the socket is
        not watched. Only `abandon` closes watched sockets without `unwatch`: a forked child shares the epoll set with its parent.
        """
        self.finished: list[Dialled] = []  # the transport takes the items from here
        self._helper, self._post, self._watch, self._unwatch, self._proxy = helper, post, watch, unwatch, proxy
        self._attempts: dict[int, Attempt] = {}
        self._connecting: set[Attempt] = set()
        self._lookups: dict[tuple[str, int], list[Attempt]] = {}  # lookups in progress, and the attempts that wait for each
        self._rotation = itertools.count()

    def dial(self, link: int, host: str, port: int) -> None:
        """Look up the name of the host, or of the proxy's host, then try the addresses in turn. An IP address needs no lookup."""
        proxy = self._proxy
        attempt = self._attempts[link] = Attempt(link, host, port, proxy)
        if proxy is not None:
            try:
                attempt.handshake = begin_handshake(proxy, host, port, attempt.prefix)
            except ConnectionLost as error:
                self._fail(attempt, error)
                return
            host, port = proxy.host, proxy.port
        if (address := _ip_address(host, port)) is not None:
            self._resolved(attempt, [address])
        elif (waiting := self._lookups.get((host, port))) is not None:
            waiting.append(attempt)
        else:
            self._lookups[host, port] = [attempt]
            self._look_up(host, port)

    def cancel(self, link: int) -> None:
        for dialled in self.finished:
            if dialled.link == link and dialled.sock is not None:
                dialled.sock.close()
        self.finished = [dialled for dialled in self.finished if dialled.link != link]
        attempt = self._attempts.pop(link, None)
        if attempt is not None:
            for waiting in self._lookups.values():
                if attempt in waiting:
                    waiting.remove(attempt)
            self._connecting.discard(attempt)
            self._forget_socket(attempt)

    def ready(self, link: int) -> None:
        """Continue the attempt of `link`, whose watched socket has news."""
        attempt = self._attempts.get(link)
        if attempt is None or attempt.sock is None:
            return
        if attempt not in self._connecting:
            self._shake_hands(attempt, attempt.sock)
            return
        code = attempt.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._failed(attempt, os.strerror(code).lower())
            self._next_address(attempt)
            return
        self._unwatch(link, attempt.sock)
        self._connecting.discard(attempt)
        if attempt.handshake is None:
            self._hand_over(attempt)
        else:
            self._shake_hands(attempt, attempt.sock)

    def limit(self, timeout: float) -> float:
        """Return `timeout`, or less if an address must be given up earlier, or attempts have finished."""
        if self.finished:
            return 0.0
        times = [attempt.next_address_at for attempt in self._connecting if attempt.next_address_at is not None]
        return min(timeout, max(0.0, min(times) - monotonic())) if times else timeout

    def skip_slow_addresses(self) -> None:
        if self._connecting:
            now = monotonic()
            for attempt in [a for a in self._connecting if a.next_address_at is not None and a.next_address_at <= now]:
                self._failed(attempt, f"no response within {ADDRESS_S:g} s")
                self._next_address(attempt)

    def abandon(self) -> None:
        for attempt in self._attempts.values():
            if attempt.sock is not None:
                attempt.sock.close()
        for dialled in self.finished:
            if dialled.sock is not None:
                dialled.sock.close()

    def shut(self) -> None:
        for link in [*self._attempts, *(dialled.link for dialled in self.finished)]:
            self.cancel(link)

    # -- names

    def _look_up(self, host: str, port: int) -> None:
        """Start the only lookup of `host` and `port`; the helper skips it if no attempt waits any more."""
        waiting = self._lookups[host, port]
        self._helper.submit(
            lambda: _look_up(host, port) if waiting else SKIPPED, lambda found: self._post(lambda now: self._looked_up(host, port, found))
        )

    def _looked_up(self, host: str, port: int, found: Any) -> None:
        waiting = self._lookups.get((host, port), [])
        if waiting and found is SKIPPED:  # these attempts joined after the helper had skipped the lookup, before its result came here
            self._look_up(host, port)
            return
        self._lookups.pop((host, port), None)
        for attempt in waiting:
            self._resolved(attempt, found)

    def _resolved(self, attempt: Attempt, result: Any) -> None:
        if isinstance(result, BaseException):
            self._end(attempt, explain(result))
            return
        attempt.addresses = deque(result)
        attempt.addresses.rotate(-next(self._rotation) if len(result) > 1 else 0)  # otherwise a dead address could always be the first
        self._connecting.add(attempt)
        self._next_address(attempt)

    # -- proxies

    def _shake_hands(self, attempt: Attempt, sock: socket.socket) -> None:
        """Continue the proxy's handshake until it has ended, or the socket would block."""
        handshake = attempt.handshake
        assert handshake is not None
        try:
            while not handshake.done:
                if handshake.out:
                    handshake.out = handshake.out[sock.send(handshake.out) :]
                else:
                    handshake.receive(sock.recv(MAX_HANDSHAKE_BYTES))
        except BlockingIOError:
            self._unwatch(attempt.link, sock)
            self._watch(attempt.link, sock, EVENT_WRITE if handshake.out else EVENT_READ)
        except ConnectionLost as error:
            self._fail(attempt, _with_earlier(error, attempt.errors))
        except OSError as error:
            self._fail(attempt, _with_earlier(ConnectionLost(f"{attempt.prefix}: {explain(error)}"), attempt.errors))
        else:
            self._unwatch(attempt.link, sock)
            self._hand_over(attempt)

    # -- addresses

    def _next_address(self, attempt: Attempt) -> None:
        """Try addresses up to the first that does not fail at once."""
        self._forget_socket(attempt)
        while attempt.addresses:
            family, sockaddr = attempt.addresses.popleft()
            attempt.trying = sockaddr[0]
            try:
                attempt.sock = _socket(family)
                code = attempt.sock.connect_ex(sockaddr)
            except OSError as error:
                code = error.errno or errno.EIO
            except (ValueError, OverflowError) as error:  # a broker's port is below 0 or above 65,535
                self._failed(attempt, explain(error))
                self._forget_socket(attempt)
                continue
            if code in IN_PROGRESS and attempt.sock is not None:
                attempt.next_address_at = monotonic() + ADDRESS_S if attempt.addresses else None
                self._watch(attempt.link, attempt.sock, EVENT_WRITE)
                return
            self._failed(attempt, os.strerror(code).lower())
            self._forget_socket(attempt)
        self._end(attempt, "; ".join(dict.fromkeys(attempt.errors)) or "no address")

    def _failed(self, attempt: Attempt, why: str) -> None:
        """Store why this address failed, with the address if it differs from `host`."""
        attempt.errors.append(why if attempt.trying == attempt.host else f"{why} ({attempt.trying})")

    def _end(self, attempt: Attempt, why: str) -> None:
        self._fail(attempt, ConnectionLost(f"{attempt.prefix}: {why}"))

    def _fail(self, attempt: Attempt, error: ConnectionLost) -> None:
        self._connecting.discard(attempt)
        self._forget_socket(attempt)
        del self._attempts[attempt.link]
        self.finished.append(Dialled(attempt.link, attempt.address, None, error))

    def _hand_over(self, attempt: Attempt) -> None:
        del self._attempts[attempt.link]
        self.finished.append(Dialled(attempt.link, attempt.address, attempt.sock, None))

    def _forget_socket(self, attempt: Attempt) -> None:
        if attempt.sock is not None:
            self._unwatch(attempt.link, attempt.sock)
            attempt.sock.close()
            attempt.sock = None


def _with_earlier(error: ConnectionLost, reasons: list[str]) -> ConnectionLost:
    if reasons:
        error.args = ("; ".join(dict.fromkeys([str(error), *reasons])),)
    return error


def _ip_address(host: str, port: int) -> Address | None:
    """None for a name. Never queries a resolver."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: characters that no name may have
        socket.inet_pton(socket.AF_INET, host)
        return socket.AF_INET, (host, port)
    with contextlib.suppress(OSError, ValueError, OverflowError):
        if ":" in host:  # parsed by the C library, because the address may have a zone: fe80::1%eth0
            family, _, _, _, sockaddr = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)[0]
            return family, sockaddr
    return None


def _look_up(host: str, port: int) -> list[Address]:
    look_up = getaddrinfo if threads.greenlets() else socket.getaddrinfo
    found = look_up(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys((family, sockaddr) for family, _, _, _, sockaddr in found))


def _socket(family: int) -> Any:
    sock = native_socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
