"""Describes and moves replicas, and elects leaders. Invariant: an election is not retried if no allowed leader is available."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.offsets import MOST_PARTITIONS, by_topic
from pykafka4.core.admin.question_run import BrokerChoice, Question, Refusal
from pykafka4.core.admin.requests import OneBrokerChoice
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.errors import BrokerError, KafkaError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME, Refresh
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_admin import DescribeLogDirsRequest
from pykafka4.wire.protocol.messages_replicas import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)

__all__ = [
    "AlterReassignments",
    "AlterReplicaLogDirs",
    "DescribeLogDirs",
    "ElectAllLeaders",
    "ElectLeaders",
    "Election",
    "ListReassignments",
    "LogDir",
    "Reassignment",
    "Replica",
    "ReplicaBrokerChoice",
    "ReplicaSize",
]

SPACE_FROM: Final = 4  # the first version of DescribeLogDirs with the bytes of a volume
UNCLEAN_FROM: Final = 1  # the first version of ElectLeaders with a type of election
FACTOR_FROM: Final = 1  # the first version of AlterPartitionReassignments with `allow_replication_factor_change`
NOT_NEEDED: Final = BY_NAME["ELECTION_NOT_NEEDED"].code
NOT_AVAILABLE: Final = BY_NAME["REPLICA_NOT_AVAILABLE"].code
NONE_IN_PROGRESS: Final = BY_NAME["NO_REASSIGNMENT_IN_PROGRESS"].code
# No allowed leader is available, maybe for hours, so the caller decides whether to try again.
NO_LEADER: Final = {BY_NAME[name].code for name in ("PREFERRED_LEADER_NOT_AVAILABLE", "ELIGIBLE_LEADERS_NOT_AVAILABLE")}


class Replica(NamedTuple):
    """The replica of a partition at `broker`."""

    topic: str
    partition: int
    broker: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} at broker {self.broker}"


@attrs.frozen
class ReplicaSize:
    """A replica in a log directory: `size` in bytes, and `lag`, the number of offsets from its end to the partition's high watermark.

    With `is_future`, the replica is being copied into this directory, and will replace the current replica; `lag` then
    extends to the end of the current replica.
    """

    size: int
    lag: int
    is_future: bool = False


@attrs.frozen
class LogDir:
    """A log directory of a broker, with its replicas, or with the `error` that makes it unusable.

    `total_bytes` and `usable_bytes` describe its volume; None if the broker does not report them (before Kafka 3.3).
    """

    path: str
    replicas: Mapping[TopicPartition, ReplicaSize]
    total_bytes: int | None = None
    usable_bytes: int | None = None
    error: KafkaError | None = None

    @property
    def size(self) -> int:
        """The bytes of all `replicas`."""
        return sum(replica.size for replica in self.replicas.values())


@attrs.frozen
class Reassignment:
    """A move of replicas that is under way: all brokers with a replica, brokers that get one, and brokers that will lose their replica."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The brokers with a replica after the move."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class Election(IntEnum):
    """The replicas that may become leaders. Source: KIP-460."""

    PREFERRED = 0  # the first replica of the list
    UNCLEAN = 1  # any replica, if no in-sync replica is up; records may be lost


class DescribeLogDirs(Question[int, tuple[LogDir, ...]]):
    """The question about the log directories of brokers. `partitions` limits the replicas in the outcomes; None means all."""

    api = "DescribeLogDirs"
    about = "log directories of broker {}"
    most = 1

    def __init__(self, partitions: Collection[TopicPartition] | None = None) -> None:
        self._partitions = partitions

    def message(self, keys: Sequence[int]) -> DescribeLogDirsRequest:
        if self._partitions is None:
            return DescribeLogDirsRequest(topics=None)
        kind = DescribeLogDirsRequest.Topic
        rows = [kind(topic=name, partitions=[tp.partition for tp in tps]) for name, tps in by_topic(self._partitions).items()]
        return DescribeLogDirsRequest(topics=rows)

    def read(self, keys: Sequence[int], reply: Reply) -> Mapping[int, tuple[LogDir, ...] | Refusal]:
        """Before v3 a broker returns an empty list if the right is missing."""
        if reply.message.error_code:
            return {keys[0]: Refusal(reply.message.error_code)}
        return {keys[0]: tuple(_directory(row, reply.version) for row in reply.message.results)}


def _directory(row: Any, version: int) -> LogDir:
    replicas = {
        TopicPartition(topic.name, one.partition_index): ReplicaSize(one.partition_size, one.offset_lag, one.is_future_key)
        for topic in row.topics
        for one in topic.partitions
    }
    total, usable = (row.total_bytes, row.usable_bytes) if version >= SPACE_FROM else (-1, -1)
    error = broker_error(row.error_code, f"log directory {row.log_dir}") if row.error_code else None
    return LogDir(row.log_dir, replicas, None if total < 0 else total, None if usable < 0 else usable, error)


class ReplicaBrokerChoice(BrokerChoice[Replica]):
    cured_by = Refresh.METADATA

    def __init__(self, cluster: Cluster) -> None:
        self._brokers = OneBrokerChoice(cluster)

    def outcome(self, now: float, key: Replica) -> KafkaError | None:
        return self._brokers.outcome(now, key.broker)

    def node(self, key: Replica) -> int | None:
        return self._brokers.node(key.broker)

    def find(self, now: float, key: Replica) -> None:
        self._brokers.find(now, key.broker)

    def look_up_again(self, now: float, key: Replica, node: int, reason: KafkaError) -> None:
        self._brokers.look_up_again(now, key.broker, node, reason)


class AlterReplicaLogDirs(Question[Replica, bool]):
    """Moves replicas to other log directories of their brokers. A response does not wait for the end of the copying."""

    api = "AlterReplicaLogDirs"
    about = "moving {}"
    most = MOST_PARTITIONS
    changes = True

    def __init__(self, paths: Mapping[Replica, str]) -> None:
        self._paths = paths

    def message(self, keys: Sequence[Replica]) -> AlterReplicaLogDirsRequest:
        kind = AlterReplicaLogDirsRequest.Directory
        paths: dict[str, list[TopicPartition]] = {}
        for key in keys:
            paths.setdefault(self._paths[key], []).append(TopicPartition(key.topic, key.partition))
        return AlterReplicaLogDirsRequest(
            dirs=[
                kind(path=path, topics=[kind.Topic(name=n, partitions=[tp.partition for tp in tps]) for n, tps in by_topic(moved).items()])
                for path, moved in paths.items()
            ]
        )

    def read(self, keys: Sequence[Replica], reply: Reply) -> Mapping[Replica, Any]:
        codes = {
            TopicPartition(row.topic_name, one.partition_index): one.error_code for row in reply.message.results for one in row.partitions
        }
        found = {key: codes.get(TopicPartition(key.topic, key.partition)) for key in keys}
        return {key: self._accepted(key, code) for key, code in found.items() if code is not None}

    def _accepted(self, key: Replica, code: int) -> Any:
        if code == NOT_AVAILABLE:  # not retried, because the broker may never get the replica
            detail = "the broker has no such replica; if it gets the replica later, the replica will be in that directory"
            return self.error(key, Refusal(code, detail))
        return Refusal(code) if code else True

    def error(self, key: Replica, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, self.what(key), refusal.detail, self.api)


class _PartitionChange(Question[TopicPartition, Any]):
    """A change of partitions by the controller."""

    most = MOST_PARTITIONS
    changes = True

    def error(self, key: TopicPartition, refusal: Refusal) -> BrokerError:
        """Without the right to the cluster, the message names no partition."""
        what = f"{self.api}" if BY_NAME["CLUSTER_AUTHORIZATION_FAILED"].code == refusal.code else self.what(key)
        return broker_error(refusal.code, what, refusal.detail, self.api)


class AlterReassignments(_PartitionChange):
    """Begins or cancels moves of replicas. The outcome is True for a move that has begun or was cancelled."""

    api = "AlterPartitionReassignments"
    about = "reassignment of {}"

    def __init__(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int, *, allow_replication_factor_change: bool
    ) -> None:
        self._targets, self._timeout_ms, self._may_change = targets, timeout_ms, allow_replication_factor_change

    def message(self, keys: Sequence[TopicPartition]) -> AlterPartitionReassignmentsRequest:
        """A target of None cancels the move."""
        kind = AlterPartitionReassignmentsRequest.Topic
        rows = [kind(name=name, partitions=[self._row(tp) for tp in tps]) for name, tps in by_topic(keys).items()]
        return AlterPartitionReassignmentsRequest(
            timeout_ms=self._timeout_ms, allow_replication_factor_change=self._may_change, topics=rows
        )

    def fit(self, message: AlterPartitionReassignmentsRequest, version: int) -> None:
        """Raise UnsupportedVersion if the replication factor must not change, and the broker has no field for that."""
        if version < FACTOR_FROM and not message.allow_replication_factor_change:
            raise UnsupportedVersion(
                f"allow_replication_factor_change=False needs {self.api} v{FACTOR_FROM}, of Kafka 4.1; leave it out, and give lists of the "
                "present length"
            )

    def _row(self, tp: TopicPartition) -> AlterPartitionReassignmentsRequest.Topic.Partition:
        target = self._targets[tp]
        return AlterPartitionReassignmentsRequest.Topic.Partition(
            partition_index=tp.partition, replicas=None if target is None else list(target)
        )

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, bool | Refusal]:
        """All partitions have the same error if the request is refused as a whole."""
        message = reply.message
        if message.error_code:
            return dict.fromkeys(keys, Refusal(message.error_code, message.error_message))
        return {tp: _done(row) for tp, row in _rows(message.responses)}

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """True for a move that is not in progress, because the request whose response was lost may have cancelled the move."""
        return True if isinstance(found, Refusal) and found.code == NONE_IN_PROGRESS else found


def _rows(topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        for row in topic.partitions:
            yield TopicPartition(topic.name, row.partition_index), row


def _done(row: Any) -> bool | Refusal:
    return Refusal(row.error_code, row.error_message) if row.error_code else True


class ListReassignments(OneAnswer[str, "dict[TopicPartition, Reassignment]"]):
    """The question about moves under way, of some partitions or of all."""

    api = "ListPartitionReassignments"
    about = "reassignments of {}"

    def __init__(self, partitions: Collection[TopicPartition] | None, timeout_ms: int) -> None:
        self._partitions, self._timeout_ms = partitions, timeout_ms

    def message(self, keys: Sequence[str]) -> ListPartitionReassignmentsRequest:
        kind = ListPartitionReassignmentsRequest.Topic
        rows = None
        if self._partitions is not None:
            rows = [kind(name=name, partition_indexes=[tp.partition for tp in tps]) for name, tps in by_topic(self._partitions).items()]
        return ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=rows)

    def answer(self, message: Any, reply: Reply) -> dict[TopicPartition, Reassignment]:
        return {
            tp: Reassignment(tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas))
            for tp, row in _rows(message.topics)
        }


def _election(message: ElectLeadersRequest, version: int) -> None:
    """Raise UnsupportedVersion for an unclean election by old brokers, which elect only preferred leaders."""
    if version < UNCLEAN_FROM and message.election_type != Election.PREFERRED:
        raise UnsupportedVersion(f"an unclean election needs ElectLeaders v{UNCLEAN_FROM}, of Kafka 2.4: upgrade the broker")


def _elected(message: Any, tell: Any) -> dict[TopicPartition, Any]:
    """The outcomes of partitions, as in `ElectLeaders`. `tell` makes the error for a code in NO_LEADER."""
    found: dict[TopicPartition, Any] = {}
    for topic in message.replica_election_results:
        for row in topic.partition_result:
            tp = TopicPartition(topic.topic, row.partition_id)
            refusal = Refusal(row.error_code, row.error_message)
            if row.error_code in (0, NOT_NEEDED):
                found[tp] = not row.error_code
            else:
                found[tp] = tell(tp, refusal) if row.error_code in NO_LEADER else refusal
    return found


class ElectLeaders(_PartitionChange):
    """Elects leaders of partitions. The outcome is True for a new leader, False if no election was needed."""

    api = "ElectLeaders"
    about = "election of a leader of {}"

    def __init__(self, election: Election, timeout_ms: int) -> None:
        self._election, self._timeout_ms = election, timeout_ms

    def message(self, keys: Sequence[TopicPartition]) -> ElectLeadersRequest:
        kind = ElectLeadersRequest.Topic
        rows = [kind(topic=name, partitions=[tp.partition for tp in tps]) for name, tps in by_topic(keys).items()]
        return ElectLeadersRequest(election_type=self._election.value, topic_partitions=rows, timeout_ms=self._timeout_ms)

    def fit(self, message: ElectLeadersRequest, version: int) -> None:
        _election(message, version)

    def read(self, keys: Sequence[TopicPartition], reply: Reply) -> Mapping[TopicPartition, Any]:
        """All partitions have the same error if the request is refused as a whole."""
        if reply.message.error_code:
            return dict.fromkeys(keys, Refusal(reply.message.error_code))
        return _elected(reply.message, self.error)


class ElectAllLeaders(OneAnswer[str, "dict[TopicPartition, bool | KafkaError]"]):
    """Elects leaders of all partitions that need an election. The outcome is a dict of the outcomes of `ElectLeaders` by partition."""

    api = "ElectLeaders"
    about = "election of leaders of {}"
    changes = True

    def __init__(self, election: Election, timeout_ms: int) -> None:
        self._election, self._timeout_ms = election, timeout_ms

    def message(self, keys: Sequence[str]) -> ElectLeadersRequest:
        return ElectLeadersRequest(election_type=self._election.value, topic_partitions=None, timeout_ms=self._timeout_ms)

    def fit(self, message: ElectLeadersRequest, version: int) -> None:
        _election(message, version)

    def answer(self, message: Any, reply: Reply) -> dict[TopicPartition, bool | KafkaError]:
        """Elections of single partitions are not repeated, so each error is final."""

        def told(tp: TopicPartition, refusal: Refusal) -> KafkaError:
            return broker_error(refusal.code, f"election of a leader of {tp}", refusal.detail, self.api)

        found = _elected(message, told)
        return {tp: told(tp, one) if isinstance(one, Refusal) else one for tp, one in found.items()}
