"""Moves bytes with the compiled pump. Invariant: Python opens and closes the sockets; the pump only waits for them, reads and writes."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from selectors import EVENT_WRITE

from pykafka4.errors import ConnectionLost, DecodeError
from pykafka4.net.dialling import Dialler
from pykafka4.net.handoff.workers import Helper
from pykafka4.net.pump._pump import AWAITING, DIALLED, DIALLING, FRAME, OPEN, WRITTEN, Pump
from pykafka4.net.transport import Event, EventKind, Post, bad_frame, end_of_stream
from pykafka4.options.proxy import Proxy
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.protocol.frame import frame_size

__all__ = ["PumpTransport"]


class PumpTransport:
    """See `net.transport.Transport`. `post` runs a call on the loop thread; `max_frame` is receive_message_max_bytes."""

    def __init__(self, max_frame: int, helper: Helper, post: Post, proxy: Proxy | None = None) -> None:
        self._pump = Pump(max_frame)
        self.wakeup = self._pump.waker
        self._max_frame = max_frame
        self._sockets: dict[int, tuple[socket.socket, str]] = {}  # link -> (open socket, address)
        self._dialler = Dialler(helper, post, self._watch, self._unwatch, proxy)

    def connect(self, link: int, host: str, port: int) -> None:
        self._dialler.dial(link, host, port)

    def write(self, link: int, buffers: Sequence[Buffer], report: bool) -> bool:
        """Queue the buffers; the next `select` begins to write them."""
        self._pump.write(link, buffers, report)
        return False

    def close(self, link: int) -> None:
        self._dialler.cancel(link)
        self._pump.remove(link)
        if (opened := self._sockets.pop(link, None)) is not None:
            opened[0].close()

    def select(self, timeout: float) -> list[Event]:
        events: list[Event] = []
        for kind, link, payload in self._pump.run(self._dialler.limit(timeout)):
            if kind == FRAME:
                events.append(Event(EventKind.FRAME, link, payload))
            elif kind == WRITTEN:
                events.append(Event(EventKind.WRITTEN, link))
            elif kind == DIALLED:
                self._dialler.ready(link)
            else:
                events.append(Event(EventKind.LOST, link, self._lost(link, *payload)))
        self._dialler.skip_slow_addresses()
        if self._dialler.finished:
            self._take_dialled(events)
        return events

    def shut(self) -> None:
        self._dialler.shut()
        for link in list(self._sockets):
            self.close(link)
        self._pump.shut()
        self.wakeup.close()

    def abandon(self) -> None:
        """Close descriptors, and unregister none: the child shares the epoll set with its parent."""
        for sock, _ in self._sockets.values():
            sock.close()
        self._dialler.abandon()
        self._pump.abandon()
        self.wakeup.close()

    def _watch(self, link: int, sock: socket.socket, events: int) -> None:
        self._pump.add(link, sock.fileno(), DIALLING if events == EVENT_WRITE else AWAITING)

    def _unwatch(self, link: int, sock: socket.socket) -> None:
        self._pump.remove(link)

    def _take_dialled(self, events: list[Event]) -> None:
        finished, self._dialler.finished = self._dialler.finished, []
        for dialled in finished:
            if dialled.sock is None:
                events.append(Event(EventKind.LOST, dialled.link, dialled.error))
            else:
                self._pump.add(dialled.link, dialled.sock.fileno(), OPEN)
                self._sockets[dialled.link] = dialled.sock, dialled.address
                events.append(Event(EventKind.CONNECTED, dialled.link))

    def _lost(self, link: int, reason: int | bytes, in_frame: bool) -> ConnectionLost:
        """`reason` is an errno, 0 at the end of the stream, or the start of a bad frame."""
        self._pump.remove(link)
        sock, address = self._sockets.pop(link)
        sock.close()
        if isinstance(reason, bytes):
            return self._wrong_size(address, reason)
        why = os.strerror(reason).lower() if reason else end_of_stream(in_frame=in_frame)
        return ConnectionLost(f"{address}: {why}")

    def _wrong_size(self, address: str, head: bytes) -> ConnectionLost:
        try:
            frame_size(head, self._max_frame)
        except DecodeError as error:
            return bad_frame(address, error)
        raise AssertionError(f"{head!r} was refused by the pump alone")
