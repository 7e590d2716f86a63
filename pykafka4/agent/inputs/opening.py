"""Opens and closes all inputs of the settings. Invariant: `bind` opens either all of them or none.

inputs = Inputs.bind(settings.inputs)   # as root, if an owner or a folder requires root
inputs.start(router, loop)              # after the process has dropped its privileges
inputs.close()                          # first reads bytes that clients have sent
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pykafka4.agent.inputs.counters import InputCounters
from pykafka4.agent.inputs.datagrams import DatagramInput
from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.sockets import InputError, UnixSocket, bind_tcp, bind_unix, check_datagram_size
from pykafka4.agent.inputs.streams import StreamInput
from pykafka4.agent.inputs.unfinished import Unfinished
from pykafka4.agent.message import Intake, Source
from pykafka4.agent.settings.values import Empty, InputSettings

__all__ = ["InputError", "Inputs"]

log = logging.getLogger(__name__)
MAX_CONNECTIONS = 4096  # open connections of each stream input
QUEUE_LENGTH = Path("/proc/sys/net/unix/max_dgram_qlen")
SHORT_QUEUE = 100  # datagrams; a burst fills a shorter queue
SHARE_OF_FILES = 3 / 8  # each stream input's share of the descriptors; the remaining quarter is for brokers, pages and files


class Inputs:
    """All inputs of the agent, and their counters."""

    def __init__(self, settings: InputSettings) -> None:
        self.counters = InputCounters()
        self._settings = settings
        self._datagram: UnixSocket | None = None
        self._stream: UnixSocket | None = None
        self._tcp: socket.socket | None = None
        self._running: list[DatagramInput | StreamInput] = []

    @classmethod
    def bind(cls, settings: InputSettings) -> Self:
        """Bind the sockets, so that clients can connect and send. Raises InputError, which names the setting."""
        inputs = cls(settings)
        try:
            inputs._bind()
        except BaseException:
            inputs.close()
            raise
        return inputs

    def start(self, intake: Intake, loop: asyncio.AbstractEventLoop) -> None:
        settings, counters = self._settings, self.counters
        empty = None if settings.empty is Empty.NULL else b""
        unfinished = Unfinished(settings.max_stream_message_size + 4)
        if self._datagram is not None:
            entrance = Entrance(intake, Source.UNIX_DATAGRAM, counters)
            self._running.append(DatagramInput(self._datagram.sock, entrance, settings.max_datagram_size, empty))
        listeners = {Source.UNIX_STREAM: None if self._stream is None else self._stream.sock, Source.TCP: self._tcp}
        for source, sock in listeners.items():
            if sock is not None:
                entrance = Entrance(intake, source, counters)
                size = settings.max_stream_message_size
                self._running.append(StreamInput(sock, entrance, unfinished, size, empty, _max_connections()))
        for entry in self._running:
            entry.start(loop)

    @property
    def tcp_port(self) -> int | None:
        return None if self._tcp is None else int(self._tcp.getsockname()[1])

    def close(self) -> None:
        """Close the inputs. Running inputs first read bytes that clients have sent."""
        for unix in (self._datagram, self._stream):
            if unix is not None:
                _unlink(unix)
        for entry in self._running:
            entry.close()
        self._running.clear()
        for unix in (self._datagram, self._stream):
            if unix is not None:
                unix.sock.close()
        if self._tcp is not None:
            self._tcp.close()
        self._datagram = self._stream = self._tcp = None

    def _bind(self) -> None:
        settings = self._settings
        if settings.unix_datagram is not None:
            with _named("unix_datagram"):
                check_datagram_size(settings.max_datagram_size, allow_large=settings.allow_large_datagrams)
                self._datagram = bind_unix(settings.unix_datagram, socket.SOCK_DGRAM)
            _warn_of_short_queue()
        if settings.unix_stream is not None:
            with _named("unix_stream"):
                self._stream = bind_unix(settings.unix_stream, socket.SOCK_STREAM)
        if settings.tcp is not None:
            with _named("tcp"):
                self._tcp = bind_tcp(settings.tcp)


@contextlib.contextmanager
def _named(setting: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"[inputs] {setting}: {error}") from error.__cause__


def _unlink(unix: UnixSocket) -> None:
    try:
        unix.unlink()
    except OSError as error:  # perhaps privileges were dropped; the next start replaces the file
        log.warning("agent: cannot remove the socket %s: %s", unix.path, error.strerror)


def _warn_of_short_queue() -> None:
    try:
        length = int(QUEUE_LENGTH.read_text())
    except (OSError, ValueError):  # not Linux
        return
    if length < SHORT_QUEUE:
        log.warning(
            "agent: the datagram socket holds about %d unread messages, so in bursts clients wait, or lose messages if they do not wait; "
            "`sysctl -w net.unix.max_dgram_qlen=512` raises the limit for sockets that are bound afterwards",
            length,
        )


def _max_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, int(files * SHARE_OF_FILES)))
