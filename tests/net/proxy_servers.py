"""Proxies, and TLS, in front of brokers. Rule: a server that is stopped leaves no thread and no socket, and can be back on its port."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import ssl
import threading
from collections.abc import Callable

from tests.net.net_helpers import SECONDS, exactly, in_thread

__all__ = ["SERVERS", "Address", "ProxyServer", "Server", "TlsFront"]

Address = tuple[str, int]


class Server:
    """A listener on loopback with a thread for each connection."""

    def __init__(self) -> None:
        self.port = 0
        self.threads: list[threading.Thread] = []
        self.sockets: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.start()

    def start(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        self.stopped = False
        self.threads.append(in_thread(self._accept))

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            for sock in (self.listener, *self.sockets):
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)  # not that of ssl, which is for one thread
        while self.threads:
            self.threads.pop().join(SECONDS)
        self.listener.close()

    def keep(self, sock: socket.socket) -> socket.socket:
        """Make `stop` end this socket, too."""
        with self.lock:
            self.sockets.add(sock)
            if self.stopped:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        return sock

    def drop(self, sock: socket.socket) -> None:
        with self.lock:
            self.sockets.discard(sock)
            sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                connection.settimeout(SECONDS)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.threads.append(in_thread(lambda connection=connection: self._run(connection)))

    def _run(self, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError, EOFError):
                self.serve(self.keep(connection))
        finally:
            self.drop(connection)

    def serve(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def join(self, connection: socket.socket, address: Address, opened: Callable[[], object]) -> None:
        """Connect to `address`, and carry bytes in both directions until one side ends."""
        onward = socket.create_connection(address, SECONDS)
        try:
            self.keep(onward)
            onward.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened()
            while True:
                decrypted = isinstance(connection, ssl.SSLSocket) and connection.pending()
                ready = [connection] if decrypted else select.select([connection, onward], [], [])[0]
                for source in ready:
                    data = source.recv(65_536)
                    if not data:
                        return
                    (onward if source is connection else connection).sendall(data)
        finally:
            self.drop(onward)


class TlsFront(Server):
    """TLS in front of a broker that has none."""

    def __init__(self, tls: ssl.SSLContext, address: Address) -> None:
        self.tls, self.address = tls, address
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        encrypted = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        try:
            self.keep(encrypted)
            encrypted.do_handshake()
            self.join(encrypted, self.address, lambda: None)
        finally:
            self.drop(encrypted)


class ProxyServer(Server):
    """A proxy that knows names that nobody else knows."""

    success = b""

    def __init__(self, hosts: dict[str, Address], login: tuple[str, str] | None = None) -> None:
        self.hosts, self.login = hosts, login
        self.asked: list[Address] = []
        self.hangs = False
        super().__init__()

    def serve(self, connection: socket.socket) -> None:
        if self.hangs:
            while connection.recv(1_000):
                pass
        elif (target := self.negotiate(connection)) is not None:
            self.asked.append(target)
            self.join(connection, self.hosts.get(target[0], target), lambda: connection.sendall(self.success))

    def negotiate(self, connection: socket.socket) -> Address | None:
        """Where the client wants to go; None after a refusal."""
        raise NotImplementedError


class SocksServer(ProxyServer):
    success = b"\x05\x00\x00\x01" + bytes(6)

    def negotiate(self, connection: socket.socket) -> Address | None:
        method = 0 if self.login is None else 2
        if method not in exactly(connection, exactly(connection, 2)[1]):
            connection.sendall(b"\x05\xff")
            return None
        connection.sendall(bytes((5, method)))
        if self.login is not None:
            exactly(connection, 1)
            given = [exactly(connection, exactly(connection, 1)[0]).decode() for _ in range(2)]
            connection.sendall(b"\x01\x00" if given == list(self.login) else b"\x01\x01")
            if given != list(self.login):
                return None
        if (kind := exactly(connection, 4)[3]) == 3:
            host = exactly(connection, exactly(connection, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, exactly(connection, size))
        return host, int.from_bytes(exactly(connection, 2), "big")


class HttpServer(ProxyServer):
    success = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"

    def negotiate(self, connection: socket.socket) -> Address | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += exactly(connection, 1)
        login = None if self.login is None else "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        if login is not None and f"Proxy-Authorization: {login}\r\n".encode() not in head:
            connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 4\r\n\r\n<a/>")
            return None
        method, target, _ = head.decode().split("\r\n")[0].split(" ")
        assert method == "CONNECT"
        host, _, port = target.rpartition(":")
        return host.strip("[]"), int(port)


SERVERS = {"socks5": SocksServer, "http": HttpServer}
