"""Serves the status page of one client on loopback, until the page is closed or the client has ended.

Invariant: a page only reads, and keeps no handle of the application alive, because the client must notice when a handle is
garbage-collected.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs

from pykafka4.errors import KafkaError
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.living import Living
from pykafka4.pages import processes
from pykafka4.pages.files import page_files
from pykafka4.pages.partition_rows import Query
from pykafka4.pages.server import HOST, PageServer, Response
from pykafka4.pages.watched import ENDED, Watched
from pykafka4.pages.watcher import Busy, Watcher

__all__ = ["StatusPage"]

log = get_log("pykafka4.pages")

FILES: Final = {"/": "client.html", "/client.js": "client.js"}
UNHEALTHY: Final = ENDED | {"crashed", "unresponsive"}  # /health responds 503; a client recovers from "unreachable" automatically
MOST_DIGITS: Final = 9  # `int` refuses thousands of digits
TURN_S: Final = 1.0  # seconds between two sweeps


class StatusPage:
    """A page on loopback with the live status of a producer, consumer, share consumer or client, for browsers and `pykafka4 watch`.

    `producer.serve_status()` opens a page, whose address is `url`. `close()`, the end of a `with` block and the end of the client close the
    page.
    """

    def __init__(self, watched: Watched, port: int) -> None:
        """Open the port (0: a free port), and start the threads. Raises OSError."""
        self._watched = watched
        self._files = page_files("pykafka4.pages", FILES)
        self._watcher = Watcher(watched)
        self._bug = ""  # the error that was logged last
        self._stop = system.Lock()
        self._stop.acquire()  # held until the page is closed: `_sample` waits for the release
        self._closed = False
        try:
            self._server = PageServer(port, self, system.monotonic)
        except OSError as error:
            why = f"{error.strerror}; port=0 takes a free port"
            raise OSError(error.errno, f"the status page cannot listen on {HOST}:{port}: {why}") from error
        self.port = self._server.port
        self.url = f"http://{HOST}:{self.port}/"
        for target, name in ((self._server.serve, "pykafka4-page"), (self._sample, "pykafka4-page-looks")):
            system.Thread(target=target, name=name).start()
        _PAGES.add(self)
        processes.add(self.url, watched.kind.value, watched.client_id)
        log.info("%s: status page of the %s: %s", watched.client_id, watched.kind.value, self.url)

    def close(self) -> None:
        """Close the port and all connections. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        _PAGES.discard(self)
        self._stop.release()
        self._server.end()
        processes.remove(self.url)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<StatusPage of {self._watched.kind.value} {self._watched.client_id!r}: {'closed' if self._closed else self.url}>"

    # ---------------------------------------------------------------- threads of the page

    def _sample(self) -> None:
        """Take looks, so that rates and outages exist before somebody opens the page; close the page after the client has ended."""
        next_look = 0.0
        while not self._stop.acquire(timeout=TURN_S):
            self._server.sweep()
            if system.monotonic() < next_look:
                continue
            if self._look() in ENDED:  # the application has not closed the page
                self.close()
                return
            next_look = system.monotonic() + self._watcher.pause_s() - TURN_S

    def _look(self) -> str:
        try:
            return self._watcher.sample()
        except (Busy, KafkaError):
            return "unresponsive"
        except Exception as error:
            self._note_bug(error)
            return "unknown"

    def _note_bug(self, error: Exception) -> None:
        if repr(error) != self._bug:  # each look raises the error again
            self._bug = repr(error)
            log.exception("%s: the status page has no figures", self._watched.client_id)

    # ---------------------------------------------------------------- answers

    def answer(self, path: str) -> Response:
        """See PageContent."""
        path, _, words = path.partition("?")
        if path in self._files:
            return Response(*self._files[path])
        make = ANSWERS.get(path)
        if make is None:
            return Response(b"404: no such page; / is the page, /status.json has its figures\n", status=404)
        try:
            return make(self, words)
        except (Busy, KafkaError) as error:
            return Response(f"503: {error}\n".encode(), status=503)
        except Exception as error:
            self._note_bug(error)
            return Response(f"500: {type(error).__name__}; the log pykafka4.pages has the traceback\n".encode(), status=500)

    def _json(self, words: str) -> Response:
        given = {name: values[-1] for name, values in parse_qs(words).items()}
        most = given.get("most", "")
        limit = int(most) if most.isdecimal() and len(most) <= MOST_DIGITS else Query().most
        found = Query(given.get("filter", ""), given.get("sort", ""), given.get("order") != "asc", limit)
        return Response(self._watcher.page(found), "application/json")

    def _health(self, words: str) -> Response:
        state, reason = self._watcher.state()
        return Response(f"503: {state}: {reason}\n".encode(), status=503) if state in UNHEALTHY else Response(b"ok\n")


ANSWERS: Final = {"/status.json": StatusPage._json, "/health": StatusPage._health}
_PAGES: Living[StatusPage] = Living()


def _after_fork() -> None:
    """Abandon the pages in a forked child: its copies of the sockets would keep the ports open after the parent has closed its pages."""
    for page in list(_PAGES):
        page._closed = True
        page._server.abandon()
    processes.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
