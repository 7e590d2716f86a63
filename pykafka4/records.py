"""Declares value types that applications use: plain immutable data. Invariant: this module imports nothing from the package."""

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
    """A topic's name and a partition number; prints as in Kafka's logs: `orders-3`."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class SubscriptionPattern:
    """A pattern of topic names that the group's coordinator matches; `subscribe` accepts it with group_protocol="consumer".

    `pattern` is a regular expression for the complete name. It must mean the same in RE2, which the coordinator uses, and in Python's `re`,
    with which the client finds the topics whose metadata it needs. The coordinator assigns only topics that the member is allowed to
    describe. Raises TypeError if `pattern` is not a str.
    """

    pattern: str = attrs.field()

    @pattern.validator
    def _check(self, _: object, pattern: object) -> None:
        if not isinstance(pattern, str):
            raise TypeError(f"SubscriptionPattern takes a regular expression as text, not {pattern!r}")


@attrs.frozen
class RecordMetadata:
    """The position of an acknowledged record in the log, its timestamp and its sizes.

    `offset` is -1 if the broker did not report it (acks=0, or a duplicate of a batch whose offset the broker no longer has).
    `timestamp_ms` is the append time that the broker reported (`message.timestamp.type=LogAppendTime`), otherwise the record's own. Sizes
    are in bytes after serialization, -1 for null. `maybe_repeated` is True if the record may be in the log twice, because an earlier
    attempt may also have written it; with idempotence `maybe_repeated` is always False.
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
    """A serialized record whose delivery failed.

    `partition` is None if no partition had been chosen yet; `written` says whether the record may be in the log.
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
    """The offset of a group's next record in a partition, with the leader epoch of the previous record, and free text."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@attrs.frozen
class ConsumerGroupMetadata:
    """The identity of a group's member. `Consumer.group_metadata()` returns it, for `send_offsets_to_transaction` (KIP-447).

    `generation_id` is -1 and `member_id` empty for a consumer without a subscription: then the coordinator checks only the group.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@attrs.frozen
class MemberDescription:
    """A coordinator's description of a group's member.

    `host` is the address from which the member is connected. `partitions` has the member's current partitions. `target` has the partitions
    that the coordinator wants the member to have, in a group of type `consumer`; otherwise it is None. `epoch` is the member epoch in a
    group of type `consumer` or `share`, otherwise -1. `is_readable` is False if the member's assignment is in a format that this client
    cannot read; then the member's partitions are unknown. `can_rewind` says whether the member is a classic consumer that carries out
    `Consumer.rewind_group`; it is None while the group rebalances.
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
