"""Responds to requests for a status page, with the standard library. Invariant: a slow reader delays only itself.

Each request has its own connection and its own thread.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, Protocol

import attrs

from pykafka4.native import whole_socket_class
from pykafka4.net import system
from pykafka4.net.threads import greenlets
from pykafka4.pages.guarding import FULL, HEADERS, Names

__all__ = ["Response", "PageContent", "PageServer"]

HOST: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 32
DEADLINE_S: Final = 20.0


@attrs.frozen
class Response:
    body: bytes
    kind: str = "text/plain"
    status: int = 200


class PageContent(Protocol):
    def answer(self, path: str) -> Response:
        """The response to GET `path`, which may have a query."""


class PageServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, port: int, content: PageContent, monotonic: Callable[[], float]) -> None:
        """Listen on `port` (0: a free port). Raises OSError."""
        self.content, self.names = content, Names()
        self._monotonic = monotonic
        self._open: dict[socket.socket, float] = {}  # by connection: the time when it was accepted
        self._ended = False
        super().__init__((HOST, port), Handler, bind_and_activate=False)
        try:
            if greenlets():  # a patched socket belongs to one thread: a request's thread could not read from its connection
                self.socket.close()
                self.socket = whole_socket_class()(self.address_family, self.socket_type)
            self.server_bind()
            self.server_activate()
        except BaseException:
            self.server_close()
            raise

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def serve(self) -> None:
        while not self._ended:
            self.handle_request()

    def end(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1.0):
            pass  # the connection wakes `serve`, which checks `_ended` only between requests
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # Linux: otherwise the port stays open until `serve` has left its system call
        self.server_close()
        self._close_connections(self._open)

    def abandon(self) -> None:
        """Close a forked child's copies of the sockets. The parent's sockets stay open."""
        self._ended = True
        for each in (self.socket, *self._open):
            each.close()

    def sweep(self) -> None:
        """Close connections that have been open for longer than DEADLINE_S."""
        limit = self._monotonic() - DEADLINE_S
        self._close_connections([each for each, since in list(self._open.items()) if since <= limit])

    def _close_connections(self, connections: Any) -> None:
        for each in list(connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # ends the read or write of the connection's thread, which then closes the socket

    # ---------------------------------------------------------------- called by socketserver

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._ended or len(self._open) >= MOST_CONNECTIONS:
            with contextlib.suppress(OSError):
                request.setblocking(False)  # this thread accepts connections, and must not wait for a reader
                request.send(FULL)
            self.shutdown_request(request)
            return
        self._open[request] = self._monotonic()
        system.Thread(target=self.process_request_thread, args=(request, client_address), name="pykafka4-page-request").start()

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error: usually the reader has gone away. `StatusPage.answer` logs errors of the page itself."""


class Handler(BaseHTTPRequestHandler):
    """HTTP/1.0: the connection ends with the response."""

    server: PageServer
    server_version = "pykafka4"
    sys_version = ""
    timeout = DEADLINE_S
    error_message_format = "%(code)d: %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        self._respond(with_body=True)

    def do_HEAD(self) -> None:
        self._respond(with_body=False)

    def _respond(self, *, with_body: bool) -> None:
        refusal = self.server.names.refusal(lambda name: self.headers.get_all(name, []))
        answer = Response(f"{refusal}\n".encode(), status=403) if refusal is not None else self.server.content.answer(self.path)
        self.send_response(answer.status)
        self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def end_headers(self) -> None:
        """Add `HEADERS` to each response that has headers (a response to HTTP/0.9 has none)."""
        for name, value in HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a page that is read every second would fill the log."""
