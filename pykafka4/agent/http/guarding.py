"""Decides which requests are allowed, and limits connections. Invariant: pages of other sites read nothing; the connection of
a slow client ends.

`pykafka4.pages.guarding` checks headers, and describes the attacks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware
from aiohttp.web_protocol import RequestHandler

from pykafka4.pages.guarding import FULL, HEADERS, Names

__all__ = ["SENT_HEADERS", "Connections", "Guard", "Handler"]

log = logging.getLogger("pykafka4.agent.http")

MOST_CONNECTIONS: Final = 64  # each uses a file descriptor of the process; the inputs also need descriptors
# Seconds from one allowed request of a connection to the next. Longer than ANSWER_S, so that an answer can be made before the sweep. Also
# longer than aiohttp's keepalive_timeout, which closes idle connections properly: the sweep is for clients that send or read slowly.
IDLE_S: Final = 30.0
SWEEP_S: Final = 5.0
SENT_HEADERS: Final = {**HEADERS, "Server": "pykafka4-agent"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Guard:
    """Checks the Host, Origin and Sec-Fetch headers of each request, and turns errors into responses."""

    def __init__(self, host: str, allowed_hosts: Iterable[str]) -> None:
        own = f"[{host}]" if ":" in host else host
        self._names = Names((own, *allowed_hosts), hint="use localhost, or add the name to allowed_hosts in [http]")

    def refusal(self, request: web.BaseRequest) -> str | None:
        return self._names.refusal(lambda name: request.headers.getall(name, []))

    def middleware(self) -> Middleware:
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
            except Exception as error:  # a bug in a page: aiohttp would also respond 500, but its log lines are discarded
                log.exception("pages: %s %s", request.method, request.raw_path)
                return web.Response(status=500, text=f"500: {type(error).__name__}; the agent's log has the traceback\n")

        return check


def _words(error: web.HTTPException, request: web.Request) -> str:
    if error.status == 404:
        return "no such page; / lists the pages" if request.method in ("GET", "HEAD") else "try POST /metadata_update"
    if error.status == 405:
        return f"{request.method} is not possible here; use {error.headers.get('Allow', 'GET')}"
    return error.reason


class Connections:
    """Makes the protocol of each connection. The number of connections is bounded, and so is the time until the next allowed request."""

    def __init__(self, server: web.Server, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._server, self._monotonic = server, monotonic
        self._open: dict[RequestHandler, Connection] = {}
        self._sweeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep_forever())

    def stop(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()

    def __call__(self) -> asyncio.Protocol:
        """Return a new connection's protocol; above the limit, a protocol that only sends FULL."""
        if len(self._open) >= MOST_CONNECTIONS:
            return _Full()
        handler = self._server()
        connection = self._open[handler] = Connection(handler, self._open, self._monotonic())
        return connection

    def active(self, request: web.BaseRequest) -> None:
        """Restart the connection's time limit, because an allowed request has arrived."""
        connection = self._open.get(request.protocol)
        if connection is not None:
            connection.active_at = self._monotonic()

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        now = self._monotonic()
        for connection in list(self._open.values()):
            if connection.active_at + IDLE_S <= now:
                connection.abort()


class Connection(asyncio.Protocol):
    """A connection, which passes all events to aiohttp's handler. Invariant: a connection is in `open_` until it is lost."""

    def __init__(self, handler: RequestHandler, open_: dict[RequestHandler, Connection], now: float) -> None:
        self._handler, self._open = handler, open_
        self._transport: asyncio.Transport | None = None
        self.active_at = now

    def abort(self) -> None:
        """Close the connection at once: `close` would first send the buffered data, which the client may never read."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._handler.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._open.pop(self._handler, None)
        self._handler.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._handler.data_received(data)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()


class _Full(asyncio.Protocol):
    """A connection above the limit."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(FULL)
        transport.close()
