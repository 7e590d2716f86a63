"""Lists and describes topics, and checks that brokers know of changes. Invariant: no request asks brokers to create a topic (before Kafka
0.11 they do so unasked, with auto.create.topics.enable)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.broker_choices import NumberedBrokerChoice
from pykafka4.core.admin.question_run import NEXT_REQUEST, Question, Refusal
from pykafka4.core.admin.topics import UNKNOWN_TOPIC, known_id
from pykafka4.errors import KafkaError, UnsupportedVersion, listed
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.fields import MIN_INT32
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.messages_replicas import DescribeTopicPartitionsRequest

__all__ = [
    "ALL_TOPICS",
    "Change",
    "DescribePages",
    "DescribeTopics",
    "AwaitChanges",
    "ListTopics",
    "LiveBrokerChoice",
    "PartitionDescription",
    "TopicDescription",
    "TopicListing",
    "operations",
]

ALL_TOPICS: Final = "topics"
PAGE_PARTITIONS: Final = 2_000  # most partitions in a response; by default the brokers' own limit is the same
IDS_FROM: Final = 12  # the first version of Metadata that looks topics up by id
RIGHTS_FROM: Final = 8  # the first version of Metadata with authorized operations
NOT_YET: Final = BY_NAME["LEADER_NOT_AVAILABLE"].code
# Kafka's names of operations, each at the index of its bit (org.apache.kafka.common.acl.AclOperation).
OPERATIONS: Final = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS"),
    *("ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT"),
)


def operations(bits: int) -> frozenset[str] | None:
    """None if the broker does not report authorized operations."""
    return None if bits == MIN_INT32 else frozenset(name for number, name in enumerate(OPERATIONS) if bits & 1 << number)


@attrs.frozen
class TopicListing:
    """A topic in a list. `topic_id` is None before Kafka 2.8. `replication_factor` is the largest number of replicas of a partition."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: int
    replication_factor: int


@attrs.frozen
class PartitionDescription:
    """A partition and its replicas, given as numbers of brokers.

    `leader` is None while there is none. `leader_epoch` is None before Kafka 2.1. `eligible_leader_replicas` and `last_known_elr`
    (KIP-966, Kafka 4.0) are None if the topic was described by its id, or the brokers do not report such replicas.
    """

    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@attrs.frozen
class TopicDescription:
    """A topic and its partitions, in order.

    `authorized_operations` are the operations that this user may carry out (`READ`, `WRITE`, …); None if the broker does not report them.
    """

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[str] | None = None

    @property
    def replication_factor(self) -> int:
        """The largest number of replicas of a partition."""
        return max((len(row.replicas) for row in self.partitions), default=0)


class ListTopics(Question[str, "dict[str, TopicListing]"]):
    """The question about all topics that this user may describe; the only key is ALL_TOPICS."""

    api = "Metadata"
    about = "listing {}"

    def message(self, keys: Sequence[str]) -> MetadataRequest:
        return MetadataRequest(topics=None, allow_auto_topic_creation=False)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, dict[str, TopicListing] | Refusal]:
        if getattr(reply.message, "error_code", 0):
            return {keys[0]: Refusal(reply.message.error_code)}
        rows = sorted((row for row in reply.message.topics if row.name), key=lambda row: row.name)
        return {keys[0]: {row.name: _listing(row) for row in rows}}


def _listing(row: Any) -> TopicListing:
    most = max((len(part.replica_nodes) for part in row.partitions), default=0)
    return TopicListing(row.name, known_id(row.topic_id), row.is_internal, len(row.partitions), most)


class DescribePages(Question[str, TopicDescription]):
    """The question about partitions of topics with their eligible leaders, in pages (KIP-966)."""

    api = "DescribeTopicPartitions"
    about = "topic {}"
    resource = "topic"
    most = 1  # a page of several topics could end within one of them

    def __init__(self) -> None:
        self._pages: dict[str, list[PartitionDescription]] = {}  # the partitions so far, of topics with further pages

    def message(self, keys: Sequence[str]) -> DescribeTopicPartitionsRequest:
        kind, name = DescribeTopicPartitionsRequest, keys[0]
        before = self._pages.get(name)
        cursor = kind.Cursor(topic_name=name, partition_index=len(before)) if before else None
        return kind(topics=[kind.Topic(name=name)], response_partition_limit=PAGE_PARTITIONS, cursor=cursor)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, TopicDescription | Refusal]:
        """The topic after its last page; NEXT_REQUEST after another page with new partitions."""
        (row,) = [row for row in reply.message.topics if row.name in keys] or [None]
        if row is None:
            return {}
        if row.error_code:
            return {keys[0]: Refusal(row.error_code)}
        pages = self._pages.setdefault(keys[0], [])
        known = {part.partition for part in pages}
        new = [part for part in map(_partition, row.partitions) if part.partition not in known]
        pages += new
        if reply.message.next_cursor is None:
            return {keys[0]: _description(row, self._pages.pop(keys[0]))}
        return {keys[0]: NEXT_REQUEST} if new else {}  # a page without new partitions is a second response to a request that was sent twice


class DescribeTopics(Question["str | UUID", TopicDescription]):
    """The question about partitions of topics, without eligible leaders; the keys are names or ids."""

    api = "Metadata"
    about = "topic {}"
    resource = "topic"

    def message(self, keys: Sequence[str | UUID]) -> MetadataRequest:
        kind = MetadataRequest.Topic
        rows = [kind(name=key) if isinstance(key, str) else kind(topic_id=key, name=None) for key in keys]
        return MetadataRequest(topics=rows, allow_auto_topic_creation=False, include_topic_authorized_operations=True)

    def fit(self, message: MetadataRequest, version: int) -> None:
        """Request authorized operations only if brokers report them. Raises UnsupportedVersion for an id that a broker cannot look up."""
        if version < IDS_FROM and any(row.name is None for row in message.topics or ()):
            raise UnsupportedVersion(f"describing a topic by its id needs Metadata v{IDS_FROM}, of Kafka 3.1; give its name")
        message.include_topic_authorized_operations = version >= RIGHTS_FROM

    def read(self, keys: Sequence[str | UUID], reply: Reply) -> Mapping[str | UUID, TopicDescription | Refusal]:
        return {
            row.topic_id if row.topic_id in keys else row.name or "": Refusal(row.error_code)
            if row.error_code
            else _description(row, list(map(_partition, row.partitions)))
            for row in reply.message.topics
        }


def _description(row: Any, parts: list[PartitionDescription]) -> TopicDescription:
    ordered = tuple(sorted(parts, key=lambda part: part.partition))
    return TopicDescription(row.name, known_id(row.topic_id), row.is_internal, ordered, operations(row.topic_authorized_operations))


def _partition(row: Any) -> PartitionDescription:
    elr, last = getattr(row, "eligible_leader_replicas", None), getattr(row, "last_known_elr", None)
    return PartitionDescription(
        row.partition_index,
        None if row.leader_id < 0 else row.leader_id,
        None if row.leader_epoch < 0 else row.leader_epoch,
        tuple(row.replica_nodes),
        tuple(row.isr_nodes),
        tuple(row.offline_replicas),
        None if elr is None else tuple(elr),
        None if last is None else tuple(last),
    )


@attrs.frozen
class Change:
    """A change of a topic: its new number of partitions, or 0 if the topic (with this id, if given) is deleted."""

    partitions: int
    topic_id: UUID | None = None

    def is_in(self, row: Any) -> bool:
        """Whether a broker's metadata of the topic shows the change: enough partitions with leaders, or no such topic."""
        if not self.partitions:
            return row.error_code in UNKNOWN_TOPIC or (self.topic_id is not None and row.topic_id != self.topic_id)
        led = sum(part.leader_id >= 0 for part in row.partitions)
        return not row.error_code and led >= self.partitions


class AwaitChanges(Question[int, bool]):
    """The question whether brokers know of changes of topics. Each broker is asked until it knows of all changes."""

    api = "Metadata"
    about = "broker {}"
    most = 1

    def __init__(self, changes: Mapping[str, Change]) -> None:
        self._changes = changes

    def message(self, keys: Sequence[int]) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequest.Topic(name=name) for name in self._changes], allow_auto_topic_creation=False)

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, bool | Refusal]:
        rows = {row.name: row for row in reply.message.topics}
        late = [name for name, change in self._changes.items() if name not in rows or not change.is_in(rows[name])]
        return {keys[0]: Refusal(NOT_YET, listed(late)) if late else True}

    def error(self, key: int, refusal: Refusal) -> KafkaError:
        return KafkaError(f"broker {key} does not know of the change yet: {refusal.detail}")


class LiveBrokerChoice(NumberedBrokerChoice):
    def outcome(self, now: float, key: int) -> Any:
        """A broker that has left the cluster need not know of changes."""
        return None if key in self._cluster.brokers else True
