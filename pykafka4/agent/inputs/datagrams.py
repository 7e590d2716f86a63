"""The UNIX datagram socket: one message each."""

from __future__ import annotations

import socket

from pykafka4.agent.format import parse
from pykafka4.agent.message import Intake, Message, Refused, Source

__all__ = ["DatagramInput"]

TURN = 256  # datagrams that are read before other events have their turn


class DatagramInput:
    """Reads datagrams whenever the socket is readable."""

    def __init__(self, sock: socket.socket, intake: Intake, max_size: int, empty: bytes | None) -> None:
        self._socket, self._intake, self._max_size, self._empty = sock, intake, max_size, empty

    def fileno(self) -> int:
        """Of the socket."""
        return self._socket.fileno()

    def read(self) -> None:
        """Read what is there, up to a turn."""
        messages: list[Message] = []
        for _ in range(TURN):
            try:
                data = self._socket.recv(self._max_size + 1, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            try:
                messages.append(parse(data, self._empty))
            except Refused as refused:
                self._intake.refuse(data, refused, Source.UNIX_DATAGRAM)
        if messages:
            self._intake.accept(messages, Source.UNIX_DATAGRAM)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
