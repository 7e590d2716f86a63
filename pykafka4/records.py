"""Public value types. Rule: plain immutable data without behaviour; imports nothing of this package but the error table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import attrs

from pykafka4.error_table import Written

__all__ = [
    "Headers",
    "HeadersLike",
    "OffsetAndMetadata",
    "ProducerRecord",
    "RecordMetadata",
    "TopicPartition",
]

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersLike: TypeAlias = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


class TopicPartition(NamedTuple):
    """A topic's name and a partition number; prints as Kafka's logs do: `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class RecordMetadata:
    """Where an acknowledged record was written.

    `offset` is -1 if the broker did not report it (acks=0, or a duplicate of a batch whose offset it no longer knows);
    `timestamp_ms` is the broker's append time for topics with `message.timestamp.type=LogAppendTime`, otherwise the record's own;
    sizes are bytes as serialized, -1 for null.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1


@attrs.frozen
class ProducerRecord:
    """A record passed to `send`, serialized; returned when it could not be delivered.

    `partition` is None if none was chosen yet; `written` says whether it may be in the log.
    """

    topic: str
    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    written: Written = Written.NO


@attrs.frozen
class OffsetAndMetadata:
    """A committed position: the offset of the next record to read, the leader epoch of the last one, and free text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
