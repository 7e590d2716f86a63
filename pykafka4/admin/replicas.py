"""Describes log directories, moves replicas and elects leaders. A call that moves replicas does not wait for the end of the move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.cluster import THE_CLUSTER
from pykafka4.core.admin.replicas import (
    AlterReassignments,
    AlterReplicaLogDirs,
    DescribeLogDirs,
    ElectAllLeaders,
    Election,
    ElectLeaders,
    ListReassignments,
    LogDir,
    Reassignment,
    Replica,
    ReplicaBrokerChoice,
)
from pykafka4.core.admin.requests import OneBrokerChoice
from pykafka4.errors import ConfigError, KafkaError, shown
from pykafka4.misuse import check_count, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["ReassignmentProgress", "ReplicaCalls", "as_partitions"]

MOST_BROKER: Final = 2**31 - 1  # an int32, like all broker ids


@attrs.frozen
class ReassignmentProgress:
    """The progress of a move: the bytes in the new replicas, now and at the end; None if the size of a full replica is unknown."""

    reassignment: Reassignment
    copied_bytes: int | None
    total_bytes: int | None


class ReplicaCalls(AdminCalls):
    def describe_log_dirs(
        self, brokers: Iterable[int] | None = None, timeout: float | None = None
    ) -> dict[int, tuple[LogDir, ...] | KafkaError]:
        """Return the log directories of each broker (None: all that are up): path, error, bytes of the volume, replicas with size and lag.

        Source: KIP-113, KIP-827.
        """
        chosen = None if brokers is None else _brokers(brokers)
        return self._log_dirs(chosen, None, self._begin(timeout))

    def alter_replica_log_dirs(self, paths: Mapping[Any, str], timeout: float | None = None) -> dict[Replica, bool]:
        """Move replicas to other log directories of their brokers: `{Replica("orders", 0, broker=1): "/disk2/kafka"}`.

        Does not wait for the end of the copying; `describe_log_dirs` shows the copies as future replicas. Raises the common error, or
        PartialFailure with the errors of replicas: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE. Source: KIP-113.
        """
        wanted = {_replica(key): _path(path) for key, path in paths.items()}
        deadline = self._begin(timeout)

        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            return machine.begin(now, AlterReplicaLogDirs(wanted), ReplicaBrokerChoice(machine.cluster), list(wanted), seconds, done)

        return require_all_done("replicas cannot be moved to other log directories", self._session.ask(begin, deadline).wait())

    def alter_reassignments(
        self, targets: Mapping[Any, Sequence[int] | None], *, allow_replication_factor_change: bool = True, timeout: float | None = None
    ) -> dict[TopicPartition, bool]:
        """Move partitions to other brokers: `{("orders", 0): [1, 2, 3]}`, the preferred leader first; None cancels a move.

        Returns when the moves have begun; `list_reassignments` and `reassignment_progress` show their progress. Raises the common error, or
        PartialFailure with the errors of partitions: INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS (nothing to cancel), ….
        With `allow_replication_factor_change=False` (Kafka 4.1) the controller refuses lists that would change the number of replicas.
        Source: KIP-455, KIP-860.
        """
        wanted = {topic_partition(key): None if target is None else _brokers(target) for key, target in targets.items()}
        deadline = self._begin(timeout)
        question = AlterReassignments(wanted, int(deadline.left * 1000), allow_replication_factor_change=allow_replication_factor_change)
        return require_all_done("partitions cannot be reassigned", self._ask_controller(question, wanted, deadline))

    def list_reassignments(
        self, partitions: Iterable[Any] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """Return the moves under way, for some partitions or all (None): replicas, added and removed replicas. Source: KIP-455."""
        return self._reassignments(None if partitions is None else as_partitions(partitions), self._begin(timeout))

    def reassignment_progress(
        self, partitions: Iterable[Any] | None = None, timeout: float | None = None
    ) -> dict[TopicPartition, ReassignmentProgress]:
        """Return the moves under way with their progress in bytes.

        The call asks the brokers of the moving partitions for the sizes of replicas. The largest old replica counts as a full replica.
        """
        deadline = self._begin(timeout)
        moves = self._reassignments(None if partitions is None else as_partitions(partitions), deadline)
        if not moves:
            return {}
        brokers = sorted({broker for move in moves.values() for broker in move.replicas})  # during a move: old and new brokers
        sizes = _sizes(self._log_dirs(brokers, list(moves), deadline))
        return {tp: _progress(tp, move, sizes) for tp, move in moves.items()}

    def elect_leaders(
        self, partitions: Iterable[Any] | None = None, *, unclean: bool = False, timeout: float | None = None
    ) -> dict[TopicPartition, bool]:
        """Have the preferred replicas lead some partitions, or all that need an election (None). Returns True for each new leader.

        False means that the partition needed no election, perhaps because an earlier request, whose response was lost, changed the leader.
        With `unclean`, only leaderless partitions get a leader, which can be any replica that is up; records may be lost. Raises the common
        error, or PartialFailure with the errors of partitions: PREFERRED_LEADER_NOT_AVAILABLE, …. Source: KIP-183, KIP-460.
        """
        election = Election.UNCLEAN if unclean else Election.PREFERRED
        what, chosen = "leaders cannot be elected", None if partitions is None else as_partitions(partitions)
        deadline = self._begin(timeout)
        wait_ms = int(deadline.left * 1000)
        if chosen is not None:
            return require_all_done(what, self._ask_controller(ElectLeaders(election, wait_ms), chosen, deadline))
        found = self._ask_controller(ElectAllLeaders(election, wait_ms), [THE_CLUSTER], deadline)[THE_CLUSTER]
        return require_all_done(what, value_or_raise(found))

    def _reassignments(self, partitions: list[TopicPartition] | None, deadline: Deadline) -> dict[TopicPartition, Reassignment]:
        question = ListReassignments(partitions, int(deadline.left * 1000))
        found = value_or_raise(self._ask_controller(question, [THE_CLUSTER], deadline)[THE_CLUSTER])
        return dict(sorted(found.items()))

    def _log_dirs(
        self, brokers: list[int] | None, partitions: Collection[TopicPartition] | None, deadline: Deadline
    ) -> dict[int, tuple[LogDir, ...] | KafkaError]:
        if brokers is None:  # a new broker might not be in the metadata yet
            self._session.refresh_brokers(deadline)

        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            asked = sorted(machine.cluster.brokers) if brokers is None else brokers
            return machine.begin(now, DescribeLogDirs(partitions), OneBrokerChoice(machine.cluster), asked, seconds, done)

        return self._session.ask(begin, deadline).wait()


def as_partitions(partitions: object) -> list[TopicPartition]:
    if isinstance(partitions, (str, bytes, TopicPartition)) or not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions={shown(partitions)}: takes a list of (topic, partition) pairs")
    return list(dict.fromkeys(map(topic_partition, partitions)))


def _brokers(brokers: object) -> list[int]:
    if isinstance(brokers, (str, bytes)) or not isinstance(brokers, Iterable):
        raise ConfigError(f"{shown(brokers)}: takes a list of the numbers of brokers")
    return [check_count(broker, "a broker", MOST_BROKER) for broker in brokers]


def _replica(key: object) -> Replica:
    if not isinstance(key, tuple) or len(key) != 3:
        raise TypeError(f"expected a Replica or (topic, partition, broker), not {shown(key)}")
    topic, partition, broker = key
    tp = topic_partition((topic, partition))
    return Replica(tp.topic, tp.partition, check_count(broker, "broker", MOST_BROKER))


def _path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/"):
        raise ConfigError(f"log directory {shown(path)}: must be an absolute path, as in the broker's log.dirs")
    return path


Sizes = Mapping[TopicPartition, Mapping[int, int]]


def _sizes(found: Mapping[int, tuple[LogDir, ...] | KafkaError]) -> Sizes:
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker, directories in found.items():
        for directory in () if isinstance(directories, KafkaError) else directories:
            for tp, replica in directory.replicas.items():
                if not replica.is_future:  # a future replica is a second copy on the same broker, in another directory
                    sizes.setdefault(tp, {})[broker] = replica.size
    return sizes


def _progress(tp: TopicPartition, move: Reassignment, sizes: Sizes) -> ReassignmentProgress:
    """Replicas delete segments at different times, so a new replica can be larger than the old ones."""
    known = sizes.get(tp, {})
    whole = max((size for broker, size in known.items() if broker not in move.adding), default=None)
    if whole is None:
        return ReassignmentProgress(move, None, None)
    return ReassignmentProgress(move, sum(min(known.get(broker, 0), whole) for broker in move.adding), whole * len(move.adding))
