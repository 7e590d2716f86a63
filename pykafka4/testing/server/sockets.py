"""Reads and writes the sockets of a model server: a listener for each broker and a connection for each session."""

from __future__ import annotations

import socket
from typing import Any, Final

from pykafka4.native import selectors, socketpair
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.requests.session import Session

__all__ = ["Sockets"]

HOST: Final = "127.0.0.1"
CHUNK: Final = 256 * 1024


def end(sock: socket.socket) -> None:
    """Close `sock`. If a forked child has a copy, the close does not reach the peer, but the shutdown does."""
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the peer has closed it already, or this system cannot shut down a socket without a peer
    sock.close()


class SocketFront:
    __slots__ = ("_closing", "_out", "_sockets", "session", "sock")

    def __init__(self, sockets: Sockets, sock: socket.socket) -> None:
        self._sockets, self.sock = sockets, sock
        self.session: Session
        self._out = bytearray()
        self._closing = False

    def send(self, data: bytes) -> None:
        self._out += data
        self.flush()

    def close(self) -> None:
        self._closing = True
        self.flush()

    def flush(self) -> None:
        """A closing connection is closed as soon as all bytes are written."""
        events = selectors.EVENT_READ
        try:
            while self._out:
                del self._out[: self.sock.send(self._out)]
        except BlockingIOError:
            events |= selectors.EVENT_WRITE
        except OSError:
            self._out.clear()
            self._closing = True
        if self._closing and not self._out:
            self._sockets.forget(self)
        else:
            self._sockets.watch(self, events)

    def ready(self, events: int) -> None:
        if events & selectors.EVENT_READ:
            self._read()
        if events & selectors.EVENT_WRITE and self.sock.fileno() >= 0:
            self.flush()

    def _read(self) -> None:
        try:
            data = self.sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.session.receive(data)
        else:
            self._sockets.forget(self)
            self.session.lost()


def bound(port: int) -> socket.socket:
    """Port 0: any free port."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((HOST, port))
    return sock


class Sockets:
    """`wake` and `select` may be called while other code uses the cluster; the other methods may not."""

    def __init__(self, cluster: ModelCluster) -> None:
        self._cluster = cluster
        self._selector = selectors.DefaultSelector()
        self._wake_out, self._wake_in = socketpair()
        self._wake_out.setblocking(False)
        self._wake_in.setblocking(False)
        self._selector.register(self._wake_out, selectors.EVENT_READ, self._drain)
        self._listeners: dict[int, socket.socket] = {}
        self._ports: dict[int, socket.socket] = {}  # bound, not listening, to reserve the ports of brokers that are down
        self._fronts: set[SocketFront] = set()
        self.follow_brokers()

    def wake(self) -> None:
        try:
            self._wake_in.send(b"\0")
        except (BlockingIOError, OSError):
            pass  # a wake-up is already waiting in the socket, or the sockets are closed

    def _drain(self, events: int) -> None:
        self._wake_out.recv(4096)

    def select(self, timeout: float) -> list[tuple[Any, int]]:
        ready: list[tuple[Any, int]] = self._selector.select(timeout)
        return ready

    def serve(self, ready: list[tuple[Any, int]]) -> None:
        for key, events in ready:
            if self._selector.get_map().get(key.fd) is key:  # an earlier event of this list may have closed the socket
                key.data(events)

    def _listen(self, node: int) -> None:
        """The port is the broker's former port, if there is one."""
        broker = self._cluster.brokers[node]
        if node not in self._ports:
            self._ports[node] = bound(broker.port if broker.host == HOST else 0)
        listener = bound(self._ports[node].getsockname()[1])
        listener.listen(128)
        listener.setblocking(False)
        broker.host, broker.port = listener.getsockname()
        self._listeners[node] = listener
        self._selector.register(listener, selectors.EVENT_READ, lambda events: self._accept(node, listener))

    def follow_brokers(self) -> None:
        """A broker that is down refuses connections."""
        for node, broker in self._cluster.brokers.items():
            if broker.up and node not in self._listeners:
                self._listen(node)
            elif not broker.up and node in self._listeners:
                listener = self._listeners.pop(node)
                self._selector.unregister(listener)
                end(listener)

    def _accept(self, node: int, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except (BlockingIOError, OSError):
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        front = SocketFront(self, sock)
        session = self._cluster.accept(node, front)
        if session is None:
            end(sock)
            return
        front.session = session
        self._fronts.add(front)
        self._selector.register(sock, selectors.EVENT_READ, front.ready)

    def watch(self, front: SocketFront, events: int) -> None:
        if front in self._fronts and self._selector.get_key(front.sock).events != events:
            self._selector.modify(front.sock, events, front.ready)

    def forget(self, front: SocketFront) -> None:
        if front in self._fronts:
            self._fronts.discard(front)
            self._selector.unregister(front.sock)
            end(front.sock)

    def close(self) -> None:
        for front in list(self._fronts):
            self.forget(front)
        for listener in [*self._listeners.values(), *self._ports.values()]:
            end(listener)
        self._selector.close()
        self._wake_out.close()
        self._wake_in.close()
