"""Fetches, commits and deletes offsets of groups, without being a member. While a group has members, coordinators refuse such commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from pykafka4.core import Reply
from pykafka4.core.admin.offsets import PartitionQuestion, by_topic
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.core.admin.values import CommittedOffset
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_admin import OffsetDeleteRequest
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest, OffsetFetchRequest

__all__ = ["CommitOffsets", "DeleteOffsets", "FetchOffsets", "FetchOffsetsOfPartitions", "Unstable"]

STABLE_FROM: Final = 7  # the first version of OffsetFetch with `require_stable`
LAST_NAME_VERSION: Final = 9  # the last version of OffsetCommit and OffsetFetch with topic names; later ones have topic ids
NOT_FOUND: Final = BY_NAME["GROUP_ID_NOT_FOUND"].code
UNSTABLE: Final = BY_NAME["UNSTABLE_OFFSET_COMMIT"].code

Committed = dict[TopicPartition, OffsetAndMetadata]


class Unstable(Enum):
    """The treatment of an open transaction whose offsets would replace the committed offsets."""

    WAIT = "ask again until the transaction has ended"
    REPORT = "the outcome of the group is `Unstable.REPORT`"
    IGNORE = "return the offsets from before; a new coordinator may return even older offsets (see `core.group.committing.offsets`)"


class FetchOffsets(Question[str, "Committed | Unstable"]):
    """The question about all committed offsets of groups. Brokers before 3.0 accept one group per request (KIP-709)."""

    api = "OffsetFetch"
    about = "committed offsets of group {}"
    resource = "group"
    many_from = 8
    max_version = LAST_NAME_VERSION

    def __init__(self, unstable: Unstable) -> None:
        self._unstable = unstable

    def message(self, keys: Sequence[str]) -> OffsetFetchRequest:
        groups = [OffsetFetchRequest.Group(group_id=key, topics=None) for key in keys]
        return OffsetFetchRequest(topics=[], groups=groups, require_stable=self._unstable is not Unstable.IGNORE)

    def fit(self, message: OffsetFetchRequest, version: int) -> None:
        if version < self.many_from:
            message.group_id, message.topics, message.groups = message.groups[0].group_id, None, []
        if version < STABLE_FROM:
            message.require_stable = False

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, Committed | Unstable | Refusal]:
        if reply.version < self.many_from:
            return {keys[0]: self._found(reply.message)}
        return {group.group_id: self._found(group) for group in reply.message.groups}

    def _found(self, group: Any) -> Committed | Unstable | Refusal:
        found = _committed(group)
        reports = self._unstable is Unstable.REPORT and isinstance(found, Refusal) and found.code == UNSTABLE
        return Unstable.REPORT if reports else found


def _committed(group: Any) -> Committed | Refusal:
    if group.error_code:
        return Refusal(group.error_code)
    found: Committed = {}
    for topic in group.topics:
        for row in topic.partitions:
            if row.error_code:
                return Refusal(row.error_code, f"{topic.name}-{row.partition_index}")
            if (committed := _committed_at(row)) is not None:
                found[TopicPartition(topic.name, row.partition_index)] = committed
    return found


def _committed_at(row: Any) -> OffsetAndMetadata | None:
    if row.committed_offset < 0:
        return None
    return OffsetAndMetadata(row.committed_offset, row.committed_leader_epoch, row.metadata or "")


class FetchOffsetsOfPartitions(PartitionQuestion):
    """The question about committed offsets of some partitions of a group.

    With `stable`, from STABLE_FROM on, the question is repeated until an open transaction with offsets of these partitions has ended;
    otherwise the outcomes are the offsets from before the transaction.
    """

    api = "OffsetFetch"
    max_version = LAST_NAME_VERSION

    def __init__(self, group: str, stable: bool) -> None:
        super().__init__(group)
        self._stable = stable

    def message(self, keys: Sequence[TopicPartition]) -> OffsetFetchRequest:
        topics = [
            OffsetFetchRequest.Topic(name=name, partition_indexes=[tp.partition for tp in tps]) for name, tps in by_topic(keys).items()
        ]
        return OffsetFetchRequest(group_id=self._group, topics=topics, require_stable=self._stable)

    def fit(self, message: OffsetFetchRequest, version: int) -> None:
        """Use the layout for many groups from `FetchOffsets.many_from` on; require stable offsets only if `version` has the field."""
        message.require_stable = self._stable and version >= STABLE_FROM
        if version >= FetchOffsets.many_from:
            kind = OffsetFetchRequest.Group
            topics = [kind.Topic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in message.topics or ()]
            message.groups, message.group_id, message.topics = [kind(group_id=self._group, topics=topics)], "", []

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, CommittedOffset | Refusal]:
        groups = reply.message.groups if reply.version >= FetchOffsets.many_from else [reply.message]
        found: dict[TopicPartition, CommittedOffset | Refusal] = {}
        for group in groups:
            if group.error_code:
                return dict.fromkeys(keys, Refusal(group.error_code))
            for topic in group.topics:
                for row in topic.partitions:
                    tp = TopicPartition(topic.name, row.partition_index)
                    found[tp] = Refusal(row.error_code) if row.error_code else CommittedOffset(tp, _committed_at(row))
        return found


class CommitOffsets(PartitionQuestion):
    """Commits offsets without being a member. The commit creates the group if there is none."""

    api = "OffsetCommit"
    changes = True
    max_version = LAST_NAME_VERSION

    def __init__(self, group: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        super().__init__(group)
        self._offsets = offsets

    def message(self, keys: Sequence[TopicPartition]) -> OffsetCommitRequest:
        kind = OffsetCommitRequest.Topic
        topics = [kind(name=name, partitions=[self._part(tp) for tp in tps]) for name, tps in by_topic(keys).items()]
        return OffsetCommitRequest(group_id=self._group, topics=topics)

    def _part(self, tp: TopicPartition) -> OffsetCommitRequest.Topic.Partition:
        at = self._offsets[tp]
        return OffsetCommitRequest.Topic.Partition(
            partition_index=tp.partition,
            committed_offset=at.offset,
            committed_leader_epoch=at.leader_epoch,
            committed_metadata=at.metadata,
        )

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, bool | Refusal]:
        return _outcomes(reply.message.topics)


class DeleteOffsets(PartitionQuestion):
    api = "OffsetDelete"
    changes = True

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """True for a group that does not exist: the request whose response was lost may have deleted the group's last offsets."""
        return True if isinstance(found, Refusal) and found.code == NOT_FOUND else found

    def message(self, keys: Sequence[TopicPartition]) -> OffsetDeleteRequest:
        kind = OffsetDeleteRequest.Topic
        topics = [
            kind(name=n, partitions=[kind.Partition(partition_index=tp.partition) for tp in tps]) for n, tps in by_topic(keys).items()
        ]
        return OffsetDeleteRequest(group_id=self._group, topics=topics)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, bool | Refusal]:
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code))
        return _outcomes(reply.message.topics)


def _outcomes(topics: Iterable[Any]) -> dict[TopicPartition, bool | Refusal]:
    return {
        TopicPartition(topic.name, row.partition_index): Refusal(row.error_code) if row.error_code else True
        for topic in topics
        for row in topic.partitions
    }
