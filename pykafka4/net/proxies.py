"""Makes and reads the messages of handshakes with proxies, without I/O: SOCKS 5 (RFC 1928, RFC 1929) and HTTP CONNECT (RFC 9110, 9.3.6,
with Basic authentication). Invariant: whatever a proxy sends, an error is an AuthenticationError or a ConnectionLost, and
names the proxy.

The proxy, not the client, looks up the broker's name. A proxy sends bytes only as an answer, and a broker never sends first, so bytes after
an answer are an error. An error repeats only received numbers (method, reply, status), because a proxy may send back a password.

No library fits. socksio and the private classes of python-socks accept only complete messages, so the code that reads from the socket
would have to know where each message ends. h11 would be a dependency of every installation for one request and one status line.
"""

from __future__ import annotations

import binascii
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, TypeAlias

from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.options.proxy import Proxy, ProxyKind

__all__ = ["MAX_HANDSHAKE_BYTES", "Handshake", "begin_handshake"]

MAX_HANDSHAKE_BYTES: Final = 16 << 10  # bytes that a proxy may send during the handshake
VERSION, CONNECT, NO_AUTHENTICATION, PASSWORD, NOTHING = 5, 1, 0, 2, 0xFF  # numbers of SOCKS 5
IPV4, NAME, IPV6 = 1, 3, 4  # types of addresses
SIZES: Final = {IPV4: 4, IPV6: 16}
HOST_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,255}")
HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
STATUS_LINE: Final = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9]{2})[ \r\n]")
SPEAKS: Final = {
    b"HTTP/": "it speaks HTTP: write http:// in proxy_url",
    b"\x05": "it speaks SOCKS 5: write socks5:// in proxy_url",
    b"\x15\x03": "it speaks TLS, which is not supported between the client and a proxy",
}
REPLIES: Final = {  # by the number of the SOCKS reply
    1: "general failure",
    2: "connection not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable, or its name is unknown there",
    5: "connection refused by the broker",
    6: "the broker did not respond (TTL expired)",
    7: "it does not support CONNECT",
    8: "it does not support this kind of address",
}
STATUSES: Final = {  # by the HTTP status
    400: "it does not understand the request",
    401: "it demands the authentication of a web server, not of a proxy",
    403: "connection not allowed by its rules",
    404: "it does not find the broker; is it a proxy?",
    405: "it does not support CONNECT; is it a proxy?",
    429: "too many requests",
    500: "internal error",
    501: "it does not support CONNECT; is it a proxy?",
    502: "it could not connect to the broker",
    503: "it could not connect to the broker, or is overloaded",
    504: "the broker did not respond",
}

Host: TypeAlias = str | IPv4Address | IPv6Address


def begin_handshake(proxy: Proxy, host: str, port: int, prefix: str) -> Handshake:
    """Return the handshake for a connection to the broker at `host`. `prefix` names broker and proxy in errors.

    Raises ConnectionLost if a proxy cannot be asked for `host` and `port`.
    """
    target = _parse(host)
    if target is None or not 0 < port < 65536:
        raise ConnectionLost(f"{prefix}: it cannot be asked for this host and port")
    return KINDS[proxy.kind](proxy, target, port, prefix)


def _parse(host: str) -> Host | None:
    """Return the IP address, or the name in IDNA; None for any other text, because a broker may advertise any text."""
    if "%" not in host:  # the proxy does not know the client's IPv6 zones
        try:
            return ip_address(host)
        except ValueError:
            pass
    try:
        name = host if host.isascii() or len(host) > 255 else host.encode("idna").decode()
    except UnicodeError:
        return None
    return name if HOST_NAME.fullmatch(name) else None


class Handshake(ABC):
    """One handshake. Until `done`, the caller sends `out`, then passes received bytes to `receive`; a complete answer sets `out`."""

    __slots__ = ("_end_note", "_host", "_port", "_prefix", "_proxy", "_received", "_room", "done", "out")

    def __init__(self, proxy: Proxy, host: Host, port: int, prefix: str) -> None:
        self.out = b""  # the bytes to send
        self.done = False
        self._proxy, self._host, self._port, self._prefix = proxy, host, port, prefix
        self._received = bytearray()
        self._room = MAX_HANDSHAKE_BYTES
        # For the error if the proxy closes the connection now.
        self._end_note = f"before it answered; is it a proxy for {proxy.kind.value}://?"

    def receive(self, data: bytes) -> None:
        """Accept received bytes; an empty `data` means that the proxy closed the connection.

        Raises ConnectionLost, or AuthenticationError if the authentication fails.
        """
        if not data:
            raise self._lost(f"it closed the connection {self._end_note}")
        self._received += data
        self._room -= len(data)
        answer = self._take_answer()
        if answer is not None:
            if self._received:
                raise self._lost("it sent more than its answer")
            self.out, self.done = answer, not answer
        elif self._room <= 0:
            raise self._lost(f"its answer is longer than {MAX_HANDSHAKE_BYTES:,} bytes")

    @abstractmethod
    def _take_answer(self) -> bytes | None:
        """Remove a complete answer from the received bytes. Returns the bytes to send next, empty after the last answer; None if the
        answer is not complete.
        """

    def _lost(self, why: str) -> ConnectionLost:
        return ConnectionLost(f"{self._prefix}: {why}")

    def _unauthorized(self) -> AuthenticationError:
        demand = f"it demands a user name and a password: write {self._proxy.kind.value}://user:password@host:port in proxy_url"
        why = demand if self._proxy.username is None else "it refuses the user name or the password"
        return AuthenticationError(f"{self._prefix}: {why}")

    def _no_method(self) -> AuthenticationError:
        return AuthenticationError(f"{self._prefix}: it accepts no user name with a password, the only login that this client supports")

    def _stranger(self) -> ConnectionLost:
        """Return the error for a peer that is not a proxy of the configured kind."""
        start = bytes(self._received[:5])
        for sign, what in SPEAKS.items():
            if start.startswith(sign) or sign.startswith(start):
                return self._lost(what)
        return self._lost(f"the program that listens there is not a proxy for {self._proxy.kind.value}://")


class Socks5(Handshake):
    """SOCKS 5: the client offers methods, sends user name and password on demand, then the request; the proxy answers each message."""

    __slots__ = ("_answer_reader",)

    def __init__(self, proxy: Proxy, host: Host, port: int, prefix: str) -> None:
        super().__init__(proxy, host, port, prefix)
        methods = [NO_AUTHENTICATION] if proxy.username is None else [NO_AUTHENTICATION, PASSWORD]
        self.out = bytes((VERSION, len(methods), *methods))
        self._answer_reader: Callable[[Socks5], bytes | None] = Socks5._take_method  # reads the next answer

    def _take_answer(self) -> bytes | None:
        return self._answer_reader(self)

    def _take_method(self) -> bytes | None:
        if self._received[0] != VERSION:
            raise self._stranger()
        if len(self._received) < 2:
            return None
        method = self._received[1]
        del self._received[:2]
        username, password = self._proxy.username, self._proxy.password
        if method == NO_AUTHENTICATION:
            return self._request()
        if method == PASSWORD and username is not None:
            self._answer_reader, self._end_note = Socks5._take_verdict, "after it received the user name and the password; are they right?"
            return bytes((1, len(username))) + username + bytes((len(password),)) + password
        if method == NOTHING and username is not None:
            raise self._no_method()
        if method in (NOTHING, PASSWORD):
            raise self._unauthorized()
        raise self._lost(f"it chose the authentication method {method}, which was not offered")

    def _take_verdict(self) -> bytes | None:
        if len(self._received) < 2:
            return None
        if self._received[1] != 0:
            raise self._unauthorized()
        del self._received[:2]
        return self._request()

    def _request(self) -> bytes:
        self._answer_reader, self._end_note = Socks5._take_reply, "instead of connecting to the broker"
        if isinstance(self._host, str):
            name = self._host.encode()
            address = bytes((NAME, len(name))) + name
        else:
            address = bytes((IPV4 if self._host.version == 4 else IPV6,)) + self._host.packed
        return bytes((VERSION, CONNECT, 0)) + address + self._port.to_bytes(2, "big")

    def _take_reply(self) -> bytes | None:
        received = self._received
        if received[0] != VERSION:
            raise self._lost("its answer is not valid SOCKS 5")
        if len(received) > 1 and (reply := received[1]) != 0:
            raise self._lost(f"{REPLIES.get(reply, 'a failure that SOCKS 5 does not define')} (SOCKS reply {reply})")
        if len(received) < 5:
            return None
        if (kind := received[3]) not in (*SIZES, NAME):
            raise self._lost("its answer is not valid SOCKS 5")
        size = 4 + (1 + received[4] if kind == NAME else SIZES[kind]) + 2  # version to kind, address, port
        if len(received) < size:
            return None
        del received[:size]
        return b""


class HttpConnect(Handshake):
    """HTTP CONNECT: one request and one final answer. Only the head of the answer is read, because a proxy that refuses may add a page."""

    __slots__ = ("_searched",)

    def __init__(self, proxy: Proxy, host: Host, port: int, prefix: str) -> None:
        super().__init__(proxy, host, port, prefix)
        target = f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.username is not None:
            credentials = binascii.b2a_base64(proxy.username + b":" + proxy.password, newline=False).decode()
            lines.append(f"Proxy-Authorization: Basic {credentials}")
        self.out = "\r\n".join([*lines, "", ""]).encode()
        self._searched = 0  # number of bytes that contain no end of the head

    def _take_answer(self) -> bytes | None:
        received = self._received
        while True:
            if not received.startswith(b"HTTP/"[: len(received)]):
                raise self._stranger()
            end = HEAD_END.search(received, self._searched)
            if end is None:
                self._searched = max(0, len(received) - 3)
                return None
            head = bytes(received[: end.end()])
            status = STATUS_LINE.match(head)
            if status is None:
                raise self._lost("its answer is not valid HTTP/1.1")
            if (code := int(status[1])) >= 200:
                break
            del received[: end.end()]  # an informational answer (1xx), which announces another one
            self._searched = 0
        if code >= 300:
            raise self._refusal(code, head)
        del received[: end.end()]
        return b""

    def _refusal(self, code: int, head: bytes) -> ConnectionLost:
        if code != 407:
            return self._lost(f"{STATUSES.get(code, 'it refused to connect to the broker')} (HTTP status {code})")
        offered = [line for line in head.lower().splitlines() if line.startswith(b"proxy-authenticate:")]
        if offered and not any(b"basic" in line for line in offered):
            return self._no_method()
        return self._unauthorized()


KINDS: Final[dict[ProxyKind, type[Socks5] | type[HttpConnect]]] = {ProxyKind.SOCKS5: Socks5, ProxyKind.HTTP: HttpConnect}
