"""Opens and closes the port of the agent's pages, and maps each path to its answer."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import Final

from aiohttp import web

from pykafka4.agent.http import dory
from pykafka4.agent.http.guarding import SENT_HEADERS, Connections, Guard, Handler
from pykafka4.agent.http.look import WatchedAgent
from pykafka4.agent.http.metrics import CONTENT_TYPE
from pykafka4.agent.http.observer import DORY, Observer, ThreadBusy
from pykafka4.agent.settings.values import HttpSettings
from pykafka4.errors import KafkaError
from pykafka4.pages.files import page_files

__all__ = ["PageServer"]

log = logging.getLogger("pykafka4.agent.http")
# Discards aiohttp's log lines about requests that are not HTTP: each line has a traceback with bytes from the client, and clients can
# repeat such requests at will. The Guard logs errors of the pages.
UNHEARD: Final = logging.Logger("pykafka4.agent.http.aiohttp", logging.CRITICAL)
ANSWER_S: Final = 15.0  # less than IDLE_S: a client gets a 503 before the sweep closes its connection
MOST_BODY: Final = 1024  # bytes; no request needs a body
FILES: Final = {"/": "index.html", "/page.js": "page.js"}  # besides the files that all pages share


class PageServer:
    """The agent's pages. The agent's loop calls all methods."""

    def __init__(self, settings: HttpSettings, watched: WatchedAgent, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` is the clock of connections, in seconds."""
        self._settings, self._watched, self._monotonic = settings, watched, monotonic
        self._observer = Observer(watched)
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._connections: Connections | None = None
        self._refresh: asyncio.Future[None] | None = None
        self._files = page_files("pykafka4.agent.http", FILES)

    async def start(self) -> None:
        """Open the port. Raises OSError, which names the port and the way out."""
        host, port = self._settings.host, self._settings.port
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            logger=UNHEARD,
            keepalive_timeout=20.0,
            max_line_size=4096,
            max_field_size=4096,
            max_headers=64,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        self._connections = Connections(server, self._monotonic)
        try:
            self._server = await asyncio.get_running_loop().create_server(self._connections, host, port, backlog=64)
        except OSError as error:
            await self._runner.cleanup()
            why = f"{os.strerror(error.errno or 0)}; set another [http] port or host (`ss -ltnp sport = :{port}` shows who has this port)"
            raise OSError(error.errno, f"[http] the pages cannot listen on {host}:{port}: {why}") from error
        self._connections.start()
        self._observer.start()
        log.info("pages: http://%s:%d/", host, self.port)

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        if self._connections is not None:
            self._connections.stop()
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        await self._observer.stop()

    def _application(self) -> web.Application:
        settings = self._settings
        guard = Guard(settings.host, settings.allowed_hosts).middleware()
        application = web.Application(middlewares=[guard, self._note], client_max_size=MOST_BODY)
        application.on_response_prepare.append(_add_headers)
        router = application.router
        for path in self._files:
            router.add_get(path, self._file)
        for path, answer in {
            "/page/json": self._page,
            "/account/json": self._account,
            "/metrics": self._metrics,
            "/health": self._health,
        }.items():
            router.add_get(path, answer)
        for page in DORY:
            router.add_get(f"/{page}/{{form:json|plain}}", self._dory)
        for path in ("/metadata_update", "/sys/metadata_update"):
            router.add_post(path, self._update_metadata)
        return application

    # ---------------------------------------------------------------- answers

    @web.middleware
    async def _note(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        assert self._connections is not None
        self._connections.active(request)
        return await handler(request)

    async def _file(self, request: web.Request) -> web.Response:
        body, kind = self._files[request.path]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers={"Cache-Control": "no-cache"})

    async def _page(self, request: web.Request) -> web.Response:
        return await self._answer(self._observer.page, "application/json")

    async def _account(self, request: web.Request) -> web.Response:
        return await self._answer(lambda: dory.dump(self._observer.account()).encode(), "application/json")

    async def _metrics(self, request: web.Request) -> web.Response:
        response = await self._answer(self._observer.metrics, "text/plain")
        if response.status == 200:
            response.headers["Content-Type"] = CONTENT_TYPE
        return response

    async def _dory(self, request: web.Request) -> web.Response:
        page, form = request.path.split("/")[1:]
        kind = "application/json" if form == "json" else "text/plain"
        return await self._answer(lambda: self._observer.dory_page(page, form).encode(), kind)

    async def _health(self, request: web.Request) -> web.Response:
        reason = self._watched.unready()
        return web.Response(text="ok\n") if reason is None else web.Response(status=503, text=f"503: {reason}\n")

    async def _update_metadata(self, request: web.Request) -> web.Response:
        """Begin a refresh unless one is running, and answer at once, as Dory does."""
        if self._refresh is None or self._refresh.done():
            self._refresh = asyncio.ensure_future(asyncio.to_thread(self._watched.refresh_metadata))
            self._refresh.add_done_callback(_log_refresh)
        return web.Response(text=dory.metadata_update(time.time()))

    async def _answer(self, make: Callable[[], bytes], kind: str) -> web.Response:
        try:
            body = await asyncio.wait_for(self._observer.answer(make), ANSWER_S)
        except ThreadBusy:
            return web.Response(status=503, text="503: too many requests wait; ask again\n")
        except KafkaError as error:
            return web.Response(status=503, text=f"503: {error}\n")
        except TimeoutError:  # from this wait, or from the shorter wait of `LoopCalls`
            return web.Response(status=503, text="503: no figures in time, because the agent is busy; ask again\n")
        return web.Response(body=body, content_type=kind, charset="utf-8")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    for name, value in SENT_HEADERS.items():
        response.headers.setdefault(name, value)


def _log_refresh(refresh: asyncio.Future[None]) -> None:
    error = None if refresh.cancelled() else refresh.exception()
    if error is not None:
        log.warning("pages: the metadata refresh of POST /metadata_update has failed: %s", error)
