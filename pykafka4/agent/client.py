"""Client: sends messages to the agent of this machine. Invariant: `send` never waits for the cluster."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Self

from pykafka4.agent.format import pack

__all__ = ["Client"]


class Client:
    """Sends messages to the agent through its datagram socket."""

    def __init__(self, path: str) -> None:
        """`path` is that of the agent's UNIX datagram socket. Raises OSError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.connect(path)

    def send(
        self, topic: str, value: bytes, *, key: bytes = b"", partition_key: int | None = None, timestamp_ms: int | None = None
    ) -> None:
        """Hand a message over. Raises OSError."""
        now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        self._socket.send(pack(topic.encode(), value, key, partition_key, now))

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
