"""Public value types. Rule: plain immutable data without behaviour; imports nothing of this package."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

import attrs

__all__ = [
    "ConsumerGroupMetadata",
    "Headers",
    "HeadersLike",
    "KeyT",
    "MemberDescription",
    "OffsetAndMetadata",
    "ProducerRecord",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "ValueT",
    "Written",
]

if TYPE_CHECKING:  # without deserializers, keys and values of consumed records are bytes
    from typing_extensions import TypeVar as TypeVarWithDefault

    KeyT = TypeVarWithDefault("KeyT", default=bytes)
    ValueT = TypeVarWithDefault("ValueT", default=bytes)
else:
    KeyT = TypeVar("KeyT")
    ValueT = TypeVar("ValueT")

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]
HeadersLike: TypeAlias = Sequence[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


class Written(enum.Enum):
    """Whether a failed record may be in the log nevertheless."""

    NO = "not written"
    MAYBE = "maybe written"


class TopicPartition(NamedTuple):
    """A topic's name and a partition number; prints as Kafka's logs do: `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class SubscriptionPattern:
    """A pattern of topic names that the group's coordinator matches; `subscribe` takes it with group_protocol="consumer".

    `pattern` is a regular expression that has the same meaning in RE2, which the coordinator uses, and in Python's `re`: the client needs
    the metadata of the topics that match. The whole name has to match. The coordinator assigns only topics that the member may describe.
    Raises TypeError for anything but text.
    """

    pattern: str = attrs.field()

    @pattern.validator
    def _check(self, _: object, pattern: object) -> None:
        if not isinstance(pattern, str):
            raise TypeError(f"SubscriptionPattern takes a regular expression as text, not {pattern!r}")


@attrs.frozen
class RecordMetadata:
    """Where an acknowledged record was written.

    `offset` is -1 if the broker did not report it (acks=0, or a duplicate of a batch whose offset it no longer knows);
    `timestamp_ms` is the broker's append time for topics with `message.timestamp.type=LogAppendTime`, otherwise the record's own;
    sizes are bytes as serialized, -1 for null. `maybe_repeated`: an earlier attempt may have written the record, too, so it may be in the
    log twice; always False with idempotence.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    serialized_key_size: int = -1
    serialized_value_size: int = -1
    maybe_repeated: bool = False


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


@attrs.frozen
class ConsumerGroupMetadata:
    """A member of a group, as a coordinator identifies it: `Consumer.group_metadata()`, for `send_offsets_to_transaction` (KIP-447).

    `generation_id` is -1 and `member_id` empty for a consumer that has not subscribed: then the coordinator checks only the group.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@attrs.frozen
class MemberDescription:
    """A member of a group, as its coordinator describes it.

    `host` is the address from which it is connected. `partitions` are those that it has; `target`, in a group of type `consumer`, those
    that the coordinator wants it to have, otherwise None. `epoch` is the member epoch in such a group and in one of type `share`, otherwise
    -1. `is_readable` is False if its assignment is in a format of its own, so that its partitions are not known.
    `can_rewind`: whether it is a classic consumer that carries out `Consumer.rewind_group`; None while the group rebalances.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None
    partitions: tuple[TopicPartition, ...] = ()
    target: tuple[TopicPartition, ...] | None = None
    epoch: int = -1
    is_readable: bool = True
    can_rewind: bool | None = False
