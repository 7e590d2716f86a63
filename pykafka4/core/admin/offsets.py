"""Lists offsets of logs, and counts partitions. Invariant: an `OffsetSpec` goes only to brokers that know its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pykafka4.core import Reply
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.core.admin.values import ListedOffset, OffsetSpec
from pykafka4.errors import BrokerError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest

__all__ = [
    "EARLIEST",
    "LATEST",
    "CountPartitions",
    "ListOffsets",
    "ListOffsetsAt",
    "by_topic",
    "listed_together",
]

LATEST, EARLIEST = OffsetSpec.LATEST.value, OffsetSpec.EARLIEST.value
ENDS: Final = (LATEST, EARLIEST)  # every log has these offsets
# The first version of ListOffsets that knows a spec, and the first release of Kafka that has this version.
SPECS_FROM: Final = {
    OffsetSpec.MAX_TIMESTAMP.value: (7, "3.0"),
    OffsetSpec.EARLIEST_LOCAL.value: (8, "3.5"),
    OffsetSpec.LATEST_TIERED.value: (9, "3.9"),
}
UNCOMMITTED: Final = 0  # the isolation level that includes records of open transactions
ISOLATION_FROM: Final = 2  # the first version of ListOffsets with an isolation level; older brokers have no transactions
CLIENT: Final = -1  # the replica id of clients
MOST_PARTITIONS: Final = 1_000  # most partitions, or topics, in a request
COORDINATION: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
GROUP_ERRORS: Final = {
    BY_NAME[name].code for name in ("GROUP_AUTHORIZATION_FAILED", "INVALID_GROUP_ID", "GROUP_ID_NOT_FOUND", *COORDINATION)
}
NONE_YET: Final = BY_NAME["OFFSET_NOT_AVAILABLE"].code


def by_topic(keys: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for key in keys:
        topics.setdefault(key.topic, []).append(key)
    return topics


class PartitionQuestion(Question[TopicPartition, Any]):
    """A question about partitions; with `group`, about offsets of that group."""

    most = MOST_PARTITIONS

    def __init__(self, group: str = "") -> None:
        self._group = group

    def what(self, key: TopicPartition) -> str:
        return f"group {self._group}, {key}" if self._group else str(key)

    def late(self, key: TopicPartition) -> str:
        """The group, if there is one; otherwise the partition."""
        return f"group {self._group}" if self._group else str(key)

    def error(self, key: TopicPartition, refusal: Refusal) -> BrokerError:
        """For a code in GROUP_ERRORS, the message names only the group, not the partition."""
        what = f"group {self._group}" if self._group and refusal.code in GROUP_ERRORS else self.what(key)
        return broker_error(refusal.code, what, refusal.detail, self.api, topic=key.topic, group=self._group)


class ListOffsets(PartitionQuestion):
    """The question about the offset of each partition at a timestamp, or at an `OffsetSpec`."""

    api = "ListOffsets"

    def __init__(self, timestamps: Mapping[TopicPartition, int], isolation: int = UNCOMMITTED, timeout_ms: int = 0) -> None:
        """`timeout_ms` is the time that a broker may spend on reads from remote storage."""
        super().__init__()
        self._timestamps, self._isolation, self._timeout_ms = timestamps, isolation, timeout_ms

    def timestamp(self, tp: TopicPartition) -> int:
        return self._timestamps[tp]

    def message(self, keys: Sequence[TopicPartition]) -> ListOffsetsRequest:
        kind = ListOffsetsRequest.Topic
        topics = [
            kind(name=name, partitions=[kind.Partition(partition_index=tp.partition, timestamp=self.timestamp(tp)) for tp in tps])
            for name, tps in by_topic(keys).items()
        ]
        return ListOffsetsRequest(replica_id=CLIENT, isolation_level=self._isolation, topics=topics, timeout_ms=self._timeout_ms)

    def fit(self, message: ListOffsetsRequest, version: int) -> None:
        """Remove the isolation level for brokers without transactions. Raises UnsupportedVersion if the broker does not know a spec."""
        if version < ISOLATION_FROM:
            message.isolation_level = UNCOMMITTED
        for topic in message.topics:
            for row in topic.partitions:
                least, release = SPECS_FROM.get(row.timestamp, (0, ""))
                if version < least:
                    name = OffsetSpec(row.timestamp).name
                    raise UnsupportedVersion(
                        f"{name} needs ListOffsets v{least}, of Kafka {release}; the leader of {topic.name}-{row.partition_index} "
                        f"has v{version}: upgrade the broker"
                    )

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, ListedOffset | Refusal]:
        rows = {TopicPartition(topic.name, row.partition_index): row for topic in reply.message.topics for row in topic.partitions}
        asked = {tp: rows[tp] for tp in keys if tp in rows}
        return {tp: Refusal(row.error_code) if row.error_code else self._found(tp, row) for tp, row in asked.items()}

    def _found(self, tp: TopicPartition, row: Any) -> ListedOffset | Refusal:
        if row.offset < 0:
            return Refusal(NONE_YET) if self.timestamp(tp) in ENDS else ListedOffset(tp)
        timestamp, epoch = (None if value < 0 else value for value in (row.timestamp, row.leader_epoch))
        return ListedOffset(tp, row.offset, timestamp, epoch)


class ListOffsetsAt(ListOffsets):
    """The question about offsets at one timestamp. Partitions can be added while the question is under way."""

    def __init__(self, timestamp: int, isolation: int = UNCOMMITTED) -> None:
        super().__init__({}, isolation)
        self._timestamp = timestamp

    def timestamp(self, tp: TopicPartition) -> int:
        return self._timestamp


def listed_together(timestamps: Mapping[TopicPartition, int]) -> list[dict[TopicPartition, int]]:
    """Split `timestamps` by the version that they need, because `fit` refuses a whole request for one unknown spec."""
    parts: dict[int, dict[TopicPartition, int]] = {}
    for tp, timestamp in timestamps.items():
        parts.setdefault(SPECS_FROM.get(timestamp, (0, ""))[0], {})[tp] = timestamp
    return list(parts.values())


class CountPartitions(Question[str, int]):
    """The question about the number of partitions of each topic. From Kafka 0.11 on, the request creates no topic."""

    api = "Metadata"
    about = "topic {}"
    resource = "topic"
    most = MOST_PARTITIONS

    def message(self, keys: Sequence[str]) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequest.Topic(name=key) for key in keys], allow_auto_topic_creation=False)

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, int | Refusal]:
        return {row.name: Refusal(row.error_code) if row.error_code else len(row.partitions) for row in reply.message.topics}
