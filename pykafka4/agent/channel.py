"""Sends complete messages through a client's socket to the agent, and connects again after a restart of the agent.

Invariants: each wait is bounded; after a stream has taken a part of a message, the rest goes out before the next message, or the
connection ends.

A forked child opens its own socket: two processes that wrote to one stream would mix their messages.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
import weakref
from enum import StrEnum
from typing import NamedTuple

__all__ = ["Address", "Channel", "Failure", "Loss", "tcp", "unix_datagram", "unix_stream"]

_LONGEST_PATH = 107  # bytes of sun_path in Linux, without the final zero
_RETRY_S = 0.01  # seconds between attempts if no socket can be polled
_REST_S = 0.1  # seconds for the rest of a message; a message larger than a stream's buffer usually has a rest
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)  # SIGPIPE's default, which an application may have restored, ends the process
_BUSY = {errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS, errno.ENOMEM}
_HINTS = {
    errno.EACCES: "the agent's settings say who may write to the socket: mode, owner, group",
    errno.EPROTOTYPE: "the path is a stream socket and the client sends datagrams, or the reverse; use the path of the same kind of socket",
    errno.ENOTSOCK: "the file there is not a socket",
}
_USUAL_SEND_BUFFER = 200_000  # bytes; a little less than the default of Linux, net.core.wmem_default

_channels: weakref.WeakSet[Channel] = weakref.WeakSet()


class Loss(StrEnum):
    """The reason why a message was not handed over."""

    ABSENT = "absent"
    """The socket cannot be used, for example because no process listens at the address, or this process may not write to the socket."""

    FULL = "full"
    """The socket has no room, usually because the agent is behind."""

    TOO_LARGE = "too_large"
    """The message is larger than the client's `max_message_bytes`, or than the socket allows."""

    CUT = "cut"
    """The connection ended after a stream had taken only a part of the message. For such a message, `send` does not return False."""

    NESTED = "nested"
    """A signal handler sent the message while its own thread was inside `send` or `close`; the handler cannot wait for that call."""

    CLOSED = "closed"
    """The client was closed."""


class Failure(NamedTuple):
    """The reason why a message was not handed over. `text` is for people."""

    loss: Loss
    text: str


class Address(NamedTuple):
    """The address of an agent's socket. `place` is the argument of `connect`, `text` is for people."""

    family: int
    kind: int
    place: str | bytes | tuple[str, int]
    text: str


def unix_datagram(path: str | os.PathLike[str]) -> Address:
    """The address of a UNIX datagram socket. Raises ValueError for a path that no socket can have."""
    return _unix(path, socket.SOCK_DGRAM, "unix datagram socket")


def unix_stream(path: str | os.PathLike[str]) -> Address:
    """The address of a UNIX stream socket. Raises ValueError for a path that no socket can have."""
    return _unix(path, socket.SOCK_STREAM, "unix stream socket")


def _unix(path: str | os.PathLike[str], kind: int, name: str) -> Address:
    place = os.fsencode(path)
    if not 0 < len(place) <= _LONGEST_PATH:
        raise ValueError(f"path {os.fspath(path)!r} has {len(place)} bytes; the path of a UNIX socket has 1 to {_LONGEST_PATH}")
    return Address(socket.AF_UNIX, kind, place, f"{name} {os.fsdecode(place)}")


def tcp(port: int, host: str = "127.0.0.1") -> Address:
    """The address of a TCP socket; `host` is an IP address, because a DNS lookup blocks. Raises ValueError for an invalid host or port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.inet_pton(family, host)
    except OSError:
        raise ValueError(f"host must be an IP address, such as 127.0.0.1 or ::1, not {host!r}") from None
    if not 0 < port < 65536:
        raise ValueError(f"port must be from 1 to 65,535, not {port:,}")
    return Address(family, socket.SOCK_STREAM, (host, port), f"TCP port {port} of {host}")


class Channel:
    """One non-blocking socket, which `offer` connects if necessary. Any thread and any signal handler may call `offer` and `close`."""

    __slots__ = ("__weakref__", "_closed", "_largest", "_lock", "_rest", "_socket", "_waits", "address", "lost")

    def __init__(self, address: Address, largest: int) -> None:
        self.address, self._largest = address, largest
        self._closed = False
        self._begin()
        _channels.add(self)

    def _begin(self) -> None:
        self._lock = threading.RLock()  # a signal handler may send while its own thread holds the lock
        self._socket: socket.socket | None = None
        self._rest = memoryview(b"")  # the rest of a message that a stream has taken in part
        self._waits = True
        self.lost = dict.fromkeys(Loss, 0)

    def offer(self, data: bytes, wait_s: float = 0.0) -> Failure | None:
        """Hand a message to the agent. Returns None if the agent's socket took the message (a stream: at least its beginning),
        otherwise the failure, which is counted in `lost`.

        Waits up to `wait_s` while the agent is behind or away. After an unsuccessful wait, later messages fail at once, until a message is
        taken again. So a stuck agent does not delay every message. For the rest of a message on a stream, the call waits up to `wait_s`
        again, or a tenth of a second if that is longer.
        """
        failure = self._offer_once(data)
        if failure is not None and wait_s > 0 and self._waits and failure.loss in (Loss.FULL, Loss.ABSENT):
            failure = self._offer_until(time.monotonic() + wait_s, data)
        if failure is not None:
            self.count(failure.loss)
            return failure
        self._waits = True
        if self._rest:
            self._finish(max(wait_s, _REST_S))
        return None

    def count(self, loss: Loss) -> None:
        with self._lock:
            self.lost[loss] += 1

    def close(self) -> None:
        """Wait up to a tenth of a second for the rest of a message, and close the socket. A lost rest is counted in `lost`."""
        self._finish(_REST_S)
        with self._lock:
            self._closed = True
            self._drop()

    def _finish(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while self._rest and self._offer_once(b"") is not None and (left := deadline - time.monotonic()) > 0:
            self._wait(left)

    def _offer_until(self, deadline: float, data: bytes) -> Failure | None:
        while (left := deadline - time.monotonic()) > 0:
            self._wait(left)
            failure = self._offer_once(data)
            if failure is None or failure.loss not in (Loss.FULL, Loss.ABSENT):
                return failure
        self._waits = False
        return failure

    def _wait(self, left: float) -> None:
        """Wait until the socket may have room, or it is time to connect again. Meanwhile, the lock is free for other threads."""
        sock = self._socket
        if sock is None or not hasattr(select, "poll"):  # eventlet removes `poll`
            time.sleep(min(left, _RETRY_S))
            return
        poll = select.poll()
        try:
            poll.register(sock, select.POLLOUT)
        except ValueError:  # another thread has closed the socket
            return
        poll.poll(max(1, int(left * 1000)))

    def _offer_once(self, data: bytes) -> Failure | None:
        if len(data) > self._largest:
            text = f"it has {len(data):,} bytes, and max_message_bytes={self._largest:,}; raise the limit here and in the agent's [inputs]"
            return Failure(Loss.TOO_LARGE, text)
        # A separate flag would stay set after a Ctrl-C just before its reset; threading.Condition also relies on `_is_owned`.
        if self._lock._is_owned():  # type: ignore[attr-defined]
            return Failure(Loss.NESTED, "a signal handler sent it while its thread was sending another message")
        with self._lock:
            try:
                failure = Failure(Loss.CLOSED, "the client is closed") if self._closed else self._send(data)
            except BaseException:  # Ctrl-C: it is unknown how much of the message was taken
                self._drop()
                raise
        return failure  # not inside `with`: Ctrl-C between a call there and the release would leave the lock held

    def _send(self, data: bytes) -> Failure | None:
        """Send, and try again on a new connection if the agent has ended the current one."""
        reused = self._socket is not None
        failure = self._try(data)
        if reused and failure is not None and failure.loss is Loss.ABSENT:
            failure = self._try(data)
        return failure

    def _try(self, data: bytes) -> Failure | None:
        try:
            sock = self._socket or self._connect()
            if sock.family != socket.AF_UNIX and _ended(sock):
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            if self._rest:
                self._rest = self._rest[sock.send(self._rest, _NO_SIGNAL) :]
                if self._rest:
                    raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            if data and (taken := sock.send(data, _NO_SIGNAL)) < len(data):
                self._rest = memoryview(data)[taken:]
        except OSError as error:
            return self._failure(error, len(data))
        return None

    def _failure(self, error: OSError, size: int) -> Failure:
        if error.errno in _BUSY:
            return Failure(Loss.FULL, "the agent is behind, and its socket has no room")
        if error.errno == errno.EMSGSIZE:
            return Failure(
                Loss.TOO_LARGE, f"a datagram of {size:,} bytes is too large for the socket; use the agent's stream, or split the message"
            )
        self._drop()
        hint = _HINTS.get(error.errno or 0, "is `pykafka4 agent` running, with this socket in its [inputs]?")
        return Failure(Loss.ABSENT, f"no agent takes messages there: {error.strerror or error}; {hint}")

    def _connect(self) -> socket.socket:
        family, kind, place, _ = self.address
        sock = socket.socket(family, kind)
        try:
            sock.setblocking(False)
            if kind == socket.SOCK_DGRAM and self._largest > _USUAL_SEND_BUFFER:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._largest)
            if family != socket.AF_UNIX:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            problem = sock.connect_ex(place)
            if problem not in (0, errno.EINPROGRESS):  # in progress: a send finds no room until the connection is established
                raise OSError(problem, os.strerror(problem))
        except BaseException:
            sock.close()
            raise
        self._socket = sock
        return sock

    def _drop(self) -> None:
        """End the connection. A message with an unsent rest is counted in `lost`."""
        sock, self._socket = self._socket, None
        if self._rest:
            self._rest = memoryview(b"")
            self.lost[Loss.CUT] += 1
        if sock is not None:
            sock.close()

    def start_in_child(self) -> None:
        """Forget the parent's connection, and the lock, which another thread of the parent may have held."""
        sock = self._socket
        self._begin()
        if sock is not None:
            sock.close()


def _ended(sock: socket.socket) -> bool:
    """Whether the agent has ended a TCP connection. If so, the kernel would still take the next message, and lose it."""
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def _start_all_in_child() -> None:
    for channel in list(_channels):
        channel.start_in_child()


os.register_at_fork(after_in_child=_start_all_in_child)
