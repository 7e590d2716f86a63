"""Sends messages to the agent of this machine. Invariant: `send` never waits for Kafka, and a missing agent raises no error."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Self, TypeAlias

from pykafka4.agent.channel import Address, Channel, Failure, Loss, tcp, unix_datagram, unix_stream
from pykafka4.agent.format import pack
from pykafka4.logs import get_log

__all__ = ["Client", "Loss"]

Text: TypeAlias = bytes | bytearray | memoryview | str
DATAGRAM_BYTES = 64 * 1024  # the default of the agent's max_datagram_size
STREAM_BYTES = 2 * 1024 * 1024 + 4  # the agent's default max_stream_message_size, plus the size field, which the setting does not count
# A datagram socket may have room for only ten messages: without a wait, a burst would lose most of its messages.
PATIENCE_MS = 100.0
_LOG_EVERY_S = 60.0

log = get_log(__name__)


class Client:
    """Sends messages to the agent through its UNIX datagram socket; `Client.stream` and `Client.tcp` use the other sockets.

    `send` waits only while the agent is behind or away, by default at most 0.1 s for room, and 0.1 s for the rest of a message on a stream.
    Any thread, asyncio code and signal handlers may call `send`; a forked child uses its own socket. The first message opens the
    connection, and so does the first message after a restart of the agent.
    """

    def __init__(self, path: str | os.PathLike[str], *, max_block_ms: float = PATIENCE_MS, max_message_bytes: int = DATAGRAM_BYTES) -> None:
        """Use the UNIX datagram socket at `path`.

        Args:
            path: The path of `unix_datagram` in the agent's settings.
            max_block_ms: How long `send` may wait while the agent is behind or away. After one unsuccessful wait, later messages fail at
                once, until the agent takes a message again. 0: `send` never waits for room, so a burst may lose messages.
            max_message_bytes: The agent's `max_datagram_size`. Larger messages are not sent, because the agent would discard them.

        Raises:
            ValueError: For a path that no socket can have, or a negative limit.
        """
        self._begin(unix_datagram(path), max_block_ms, max_message_bytes)

    @classmethod
    def stream(cls, path: str | os.PathLike[str], *, max_block_ms: float = PATIENCE_MS, max_message_bytes: int = STREAM_BYTES) -> Self:
        """Use the UNIX stream socket at `path`, which also takes messages of more than 64 KiB.

        Arguments as for `Client`, but the agent's limit is `max_stream_message_size`. A message larger than the socket's buffer (200 KB) is
        written in parts, for up to `max_block_ms`, or a tenth of a second if that is longer. Any rest goes out before the next message,
        unless the connection ends.
        """
        client = cls.__new__(cls)
        client._begin(unix_stream(path), max_block_ms, max_message_bytes)
        return client

    @classmethod
    def tcp(cls, port: int, host: str = "127.0.0.1", *, max_block_ms: float = PATIENCE_MS, max_message_bytes: int = STREAM_BYTES) -> Self:
        """Use the TCP socket at `port`, for example from a container. Arguments as for `stream`; `host` is an IP address."""
        client = cls.__new__(cls)
        client._begin(tcp(port, host), max_block_ms, max_message_bytes)
        return client

    def _begin(self, address: Address, max_block_ms: float, max_message_bytes: int) -> None:
        for name, given in (("max_block_ms", max_block_ms), ("max_message_bytes", max_message_bytes)):
            if not given >= 0:
                raise ValueError(f"{name} must be 0 or more, not {given}")
        self._channel = Channel(address, max_message_bytes)
        self._wait_s = max_block_ms / 1000
        self._logged: dict[Loss, float] = {}
        self._last_error: str | None = None

    @property
    def lost(self) -> Mapping[Loss, int]:
        """The number of messages that this process did not hand over completely, by reason; a forked child begins with zeros."""
        return MappingProxyType(self._channel.lost)

    @property
    def last_error(self) -> str | None:
        """Why `send` last returned False, as text; None before the first failure."""
        return self._last_error

    def send(
        self, topic: str | bytes, value: Text, *, key: Text = b"", partition_key: int | None = None, timestamp_ms: int | None = None
    ) -> bool:
        """Hand a message to the agent. Returns True if the agent's socket took the message (a stream: at least its beginning), False if the
        message is lost; `lost` counts lost messages.

        The agent's reports count messages that the agent took but could not deliver. Messages in the socket or memory of a killed agent
        are in no report.

        Args:
            topic: Kafka's topic.
            value: Text is encoded as UTF-8. An empty value is written to Kafka as null (a tombstone), unless the agent has the setting
                `empty = "empty"`.
            key: Kafka's key, which does not choose the partition.
            partition_key: From 0 to 4,294,967,295. The partition is this number modulo the number of partitions, unless the
                agent has the setting `offline = "next"` and this partition has no leader. None: the agent chooses.
            timestamp_ms: Milliseconds since the epoch; None: now.

        Raises:
            TypeError, ValueError: For arguments that no message can have.
        """
        now = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        data = pack(_as_bytes("topic", topic), _as_bytes("value", value), _as_bytes("key", key), partition_key, now)
        failure = self._channel.offer(data, self._wait_s)
        if failure is None:
            return True
        self._report(failure)
        return False

    def _report(self, failure: Failure) -> None:
        """For each reason, log the first failure, then at most one a minute."""
        self._last_error = failure.text
        now, before = time.monotonic(), self._logged.get(failure.loss)
        if before is None or now - before >= _LOG_EVERY_S:
            self._logged[failure.loss] = now  # before the log line, because a logging handler may send through this client
            where, count = self._channel.address.text, self._channel.lost[failure.loss]
            log.warning("%s: message lost (%s, %d so far): %s", where, failure.loss.value, count, failure.text, client_id=None)

    def close(self) -> None:
        """Close the socket, after a wait of up to a tenth of a second for the rest of a message on a stream."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _as_bytes(name: str, given: object) -> bytes:
    if type(given) is bytes:
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if given is None and name != "topic":
        raise TypeError(f"{name} must be bytes or str, not None; by default, an empty text becomes null in Kafka")
    raise TypeError(f"{name} must be bytes or str, not {type(given).__name__}")
