"""A model server that speaks TLS, for tests of whole clients."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from pykafka4.testing import ModelServer
from pykafka4.testing.server import model_server
from pykafka4.testing.server.sockets import Sockets
from tests.net import tls_peers

__all__ = ["secured_model"]


class Connection(ssl.SSLSocket):
    """Does the handshake by itself, and says what a plain socket says when it cannot go on."""

    def recv(self, *arguments: Any) -> bytes:
        try:
            return super().recv(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, *arguments: Any) -> int:
        try:
            return super().send(*arguments)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None


class Listener:
    def __init__(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        self.listener, self.context = listener, context

    def accept(self) -> tuple[socket.socket, Any]:
        sock, address = self.listener.accept()
        return self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address


@contextlib.contextmanager
def secured_model(brokers: int = 1) -> Iterator[tuple[ModelServer, dict[str, Any]]]:
    """The server, and the options of its clients."""
    context = tls_peers.context(tls_peers.AUTHORITY.server())
    context.sslsocket_class = Connection

    class SecuredSockets(Sockets):
        def _accept(self, node: int, listener: Any) -> None:
            super()._accept(node, Listener(listener, context))  # type: ignore[arg-type]

    plain, model_server.Sockets = model_server.Sockets, SecuredSockets  # type: ignore[misc]
    try:
        server = ModelServer(brokers)
    finally:
        model_server.Sockets = plain  # type: ignore[misc]
    with server:
        options = {"security_protocol": "SSL", "ssl_ca_pem": tls_peers.AUTHORITY.pem.decode()}
        yield server, {"bootstrap_servers": server.bootstrap_servers, **options}
