"""Defines the values that the modules of the agent exchange: messages, kinds of inputs, reasons for discards."""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Protocol, TypeAlias

__all__ = ["Intake", "Message", "Reason", "Refused", "Source"]

# (topic, value, key, partition key, timestamp). A plain tuple, because one is made for each message. A topic that is not UTF-8 has escapes,
# which make it an illegal name. An empty value or key is b"", or None with `empty = "null"`. The partition key is from 0 to
# 4,294,967,295, or None for AnyPartition. The timestamp is in milliseconds since the epoch, as the client wrote it, unless the router has
# replaced it.
Message: TypeAlias = tuple[str, bytes | None, bytes | None, int | None, int]


class Source(Enum):
    """The kind of input that a message came from."""

    UNIX_DATAGRAM = "unix_datagram"
    UNIX_STREAM = "unix_stream"
    TCP = "tcp"


class Reason(StrEnum):
    """The reason for a discard. The values are Dory's; the last five are the agent's own."""

    # Refused by an input, so not a message of any topic:
    MALFORMED = "MALFORMED"
    API_KEY = "API_KEY"  # not 256 or 257
    VERSION = "VERSION"  # not 0
    UNCLEAN_UNIX = "UNCLEAN_U"  # a UNIX stream was reset, or ended inside a message
    UNCLEAN_TCP = "UNCLEAN_T"  # a TCP connection was reset, or ended inside a message
    # Accepted by an input, then discarded:
    BAD_TOPIC = "BAD_TOPIC"  # the name is illegal, or the brokers do not know the topic
    LONG_MSG = "LONG_MSG"  # larger than a limit of the agent or of the topic
    NO_MEM = "NO_MEM"  # the pool (`max_buffer`), or a partition's share of it, is full, and there is no spool
    RATE_LIMIT = "RATE_LIMIT"
    NO_AVAILABLE_PARTITIONS = "NO_AVAILABLE_PARTITIONS"
    TOPIC_AUTOCREATE_FAIL = "TOPIC_AUTOCREATE_FAIL"
    DELIVERY_ATTEMPT_LIMIT = "DELIVERY_ATTEMPT_LIMIT"
    KAFKA_ERROR_ACK = "KAFKA_ERROR_ACK"  # refused by a broker, or the connection was lost
    SERVER_SHUTDOWN = "SERVER_SHUTDOWN"  # not delivered before the agent ended
    BUG = "BUG"
    TIMED_OUT = "TIMED_OUT"  # not acknowledged within delivery_timeout_ms
    NOT_AUTHORIZED = "NOT_AUTHORIZED"
    SPOOL_FULL = "SPOOL_FULL"
    SPOOL_FAILED = "SPOOL_FAILED"  # the disk refused the message
    SPOOL_DAMAGED = "SPOOL_DAMAGED"  # the message was on disk and cannot be read any more


class Refused(Exception):
    """Describes bytes that are not a message. `detail` is the unsupported API key or version, None for other reasons."""

    def __init__(self, reason: Reason, detail: int | None = None) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class Intake(Protocol):
    """Takes the messages of the inputs. Implemented by the router. Neither method waits for the cluster or raises."""

    def accept(self, messages: list[Message], source: Source) -> None:
        """Take messages in the order in which they were read."""

    def refuse(self, data: bytes, refused: Refused, source: Source) -> None:
        """Count bytes that are not a message."""
