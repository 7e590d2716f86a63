"""Which requests are answered. Invariant: a page of another site reads nothing and changes nothing, and a slow client holds up only itself.

A browser sends whatever page it shows to any address that the page names. Two checks stop it: the Host header must be a name of this
machine (a foreign name that resolves to 127.0.0.1 is refused: DNS rebinding), and the Origin header, if there is one, must be the same
host (a form of another site is refused).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware
from aiohttp.web_protocol import RequestHandler

__all__ = ["HEADERS", "Connections", "Guard", "Handler"]

log = logging.getLogger("pykafka4.agent.http")

MOST_CONNECTIONS: Final = 64
IDLE_S: Final = 30.0  # so long a connection may take for a request, and for the answer to it
SWEEP_S: Final = 5.0
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 26\r\n\r\n"
    b"503: too many connections\n"
)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "pykafka4-agent",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard:
    """Checks the headers of each request."""

    def __init__(self, host: str, allowed_hosts: Iterable[str]) -> None:
        """`host` is the address of the pages; `allowed_hosts` are further names that a Host header may have."""
        self._names = LOOPBACK | {_name(f"[{host}]" if ":" in host else host), *map(_name, allowed_hosts)}

    def refusal(self, request: web.BaseRequest) -> str | None:
        """Why the request is refused; None: it is not."""
        hosts, origins = request.headers.getall("Host", []), request.headers.getall("Origin", [])
        if len(hosts) != 1:
            return "403: the request has no Host header, or several; send one, for example Host: localhost"
        host = hosts[0].strip().lower()
        if _name(host) not in self._names:
            return f"403: Host {host[:100]!r} is not a name of this machine; use localhost, or add the name to allowed_hosts in [http]"
        for origin in origins:
            if origin.strip().lower() not in (f"http://{host}", f"https://{host}"):
                return f"403: Origin {origin[:100]!r} is not this host: pages of other sites may not use the agent"
        return None

    def middleware(self) -> Middleware:
        """For aiohttp: refuses requests; errors are plain text."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            refusal = self.refusal(request)
            if refusal is not None:
                return web.Response(status=403, text=refusal + "\n")
            try:
                return await handler(request)
            except web.HTTPException as error:
                allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
                return web.Response(status=error.status, text=f"{error.status}: {_words(error, request)}\n", headers=allow)
            except Exception as error:  # a bug in a page is no reason to end the agent
                log.exception("pages: %s %s", request.method, request.raw_path)
                return web.Response(status=500, text=f"500: {type(error).__name__}; the agent's log has the rest\n")

        return check


def _name(host: str) -> str:
    """A Host header without the port."""
    host = host.lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].removesuffix(".")


def _words(error: web.HTTPException, request: web.Request) -> str:
    if error.status == 404:
        return "no such page; / links to what there is" if request.method in ("GET", "HEAD") else "try POST /metadata_update"
    if error.status == 405:
        return f"{request.method} is not possible here; use {error.headers.get('Allow', 'GET')}"
    return error.reason


class Connections:
    """Makes the protocols of connections: a bounded number, and each with a bounded time for its next request."""

    def __init__(self, server: web.Server, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server, self._monotonic = server, monotonic
        self._open: dict[RequestHandler, Connection] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Close connections that take too long, from now on."""
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    def stop(self) -> None:
        """Leave connections alone."""
        if self._sweeper is not None:
            self._sweeper.cancel()

    def __call__(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        if len(self._open) >= MOST_CONNECTIONS:
            return _Full()
        handler = self._server()
        connection = self._open[handler] = Connection(handler, self._open, self._monotonic())
        return connection

    def active(self, request: web.BaseRequest) -> None:
        """A request has arrived."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.active_at = self._monotonic()

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        """Close the connections that have taken longer than IDLE_S."""
        now = self._monotonic()
        for connection in list(self._open.values()):
            if connection.active_at + IDLE_S <= now:
                connection.abort()


class Connection(asyncio.Protocol):
    """A connection: all its events are for aiohttp's handler. Invariant: it is in `open_` until it is lost."""

    def __init__(self, handler: RequestHandler, open_: dict[RequestHandler, Connection], now: float) -> None:
        self._handler, self._open = handler, open_
        self._transport: asyncio.Transport | None = None
        self.active_at = now

    def abort(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._open.pop(self._handler, None)
        self._handler.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._handler.data_received(data)

    def eof_received(self) -> None:
        """See asyncio.Protocol."""
        self._handler.eof_received()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._handler.resume_writing()


class _Full(asyncio.Protocol):
    """A connection too many: it is told so, and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write an answer that every client understands."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(FULL)
        transport.close()
