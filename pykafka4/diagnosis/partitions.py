"""Checks the user's rights on topics, and the leaders and replicas of partitions.

Invariant: a partition whose leader is -1 is not also reported as out of sync.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs

from pykafka4.client.targets import ANY
from pykafka4.core.admin.topic_queries import operations
from pykafka4.diagnosis.case import Case, failed
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import KafkaError, UnsupportedVersion, broker_error, listed
from pykafka4.errors.rights import Right
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_cluster import MetadataRequest, MetadataResponse

__all__ = ["PartitionState", "look_at_partitions", "lost_disks", "compare_rights"]

MOST_TOPICS: Final = 200  # one diagnosis requests the settings of at most this many topics
USES: Final = {"WRITE": "producers are refused", "READ": "consumers are refused"}
MISSING: Final = "check the name; brokers create topics at the first record only with auto.create.topics.enable"


@attrs.frozen
class PartitionState:
    """`leader` is -1 if the partition has no leader."""

    tp: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.tp} (replicas {_numbers(self.replicas)}; in sync {_numbers(self.isr) or 'none'})"


def look_at_partitions(case: Case, seconds: float) -> Iterator[Finding]:
    """Check this user's rights on the named topics, and that each partition has a leader and all of its replicas in sync."""
    try:
        answer = _metadata(case, seconds / 2)
    except KafkaError as error:
        yield failed("topics", "", "the topics cannot be described", error)
        return
    for row in answer.topics:
        yield from _topic(row, is_named=bool(case.topics))
    parts = [_part(row.name, part) for row in answer.topics if row.name and not row.error_code for part in row.partitions]
    up = {broker.node_id for broker in answer.brokers}
    led = [part for part in parts if part.leader >= 0]
    if not parts:
        return
    yield from _leaders([part for part in parts if part.leader < 0], len(parts), up)
    yield from lost_disks(parts, up)
    yield from _replicas(case, led, up, seconds / 2)


def _metadata(case: Case, seconds: float) -> MetadataResponse:
    """Rows of named topics have this user's rights, if brokers report rights."""
    topics = [MetadataRequest.Topic(name=name) for name in case.topics] or None
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=topics is not None)
    try:
        return case.client.request(ANY, message, seconds)
    except UnsupportedVersion:
        return case.client.request(ANY, MetadataRequest(topics=topics, allow_auto_topic_creation=False), seconds)


def _part(topic: str, row: Any) -> PartitionState:
    replicas, isr, offline = (tuple(numbers) for numbers in (row.replica_nodes, row.isr_nodes, row.offline_replicas))
    return PartitionState(TopicPartition(topic, row.partition_index), row.leader_id, replicas, isr, offline)


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))


# -- rights


def _topic(row: Any, *, is_named: bool) -> Iterator[Finding]:
    about = f"topic {row.name}"
    if row.error_code and is_named:
        error = broker_error(row.error_code, about, None, "Metadata", topic=row.name or "")
        yield failed("topics", about, "does not exist, or cannot be used", error, MISSING, Outcome.WRONG)
    elif is_named:
        yield from compare_rights("topics", "topic", row.name, operations(row.topic_authorized_operations), USES)


def compare_rights(step: str, kind: str, name: str, allowed: frozenset[str] | None, uses: dict[str, str]) -> Iterator[Finding]:
    """`uses` maps each operation to the harm if it is denied. If all operations are denied, the outcome is WRONG."""
    about = f"{kind} {name}"
    if allowed is None:
        yield Finding(step, about, Outcome.UNSEEN, "rights are not reported", "the broker does not report them, or is too old")
        return
    lacking = [operation for operation in uses if operation not in allowed]
    for operation in lacking:
        outcome = Outcome.WRONG if len(lacking) == len(uses) else Outcome.NOTICE
        evidence = f"allowed: {', '.join(sorted(allowed)) or 'nothing'}"
        yield Finding(
            step, about, outcome, f"this user may not {operation}: {uses[operation]}", evidence, Right(operation, kind, name).way_out
        )
    if not lacking:
        yield Finding(step, about, Outcome.FINE, f"this user may {' and '.join(uses)}", f"allowed: {', '.join(sorted(allowed))}")


# -- leaders and replicas


def _leaders(without: list[PartitionState], total: int, up: set[int]) -> Iterator[Finding]:
    if not without:
        yield Finding("leaders", "", Outcome.FINE, f"{total} of {total} partitions have a leader")
        return
    down = sorted({node for part in without for node in part.isr or part.replicas} - up)
    way = (
        f"start broker {_numbers(down)}: a broker that was in sync has to come back. If all are lost for good, "
        "`kafka-leader-election.sh --election-type unclean` makes a lagging replica the leader, and loses records"
        if down
        else "the controllers elect leaders within seconds; if partitions stay without a leader, see the controllers' logs"
    )
    what = f"{len(without)} of {total} partitions have no leader: they can be neither written nor read"
    yield Finding("leaders", "", Outcome.WRONG, what, listed(without), way)


def lost_disks(parts: list[PartitionState], up: set[int]) -> Iterator[Finding]:
    """Replicas on failed disks are offline while their broker is up."""
    for node in sorted({node for part in parts for node in part.offline} & up):
        lost = [part.tp for part in parts if node in part.offline]
        what = f"has lost {len(lost)} replica{'s' if len(lost) != 1 else ''}: a log directory is offline"
        way = "see its log for the directory, repair the disk, and restart the broker"
        yield Finding("replicas", f"broker {node}", Outcome.WRONG, what, listed(lost), way)


def _replicas(case: Case, parts: list[PartitionState], up: set[int], seconds: float) -> Iterator[Finding]:
    """Report the partitions that refuse producers before the other under-replicated partitions."""
    behind = [part for part in parts if len(part.isr) < len(part.replicas)]
    if not behind:
        yield Finding("replicas", "", Outcome.FINE, f"{len(parts)} of {len(parts)} partitions have all replicas in sync")
        return
    down = sorted({node for part in behind for node in part.replicas if node not in part.isr} - up)
    way = f"start broker {_numbers(down)}" if down else "see the logs of the followers: disks, network, and replica.lag.time.max.ms"
    least, error = _minimum(case, sorted({part.tp.topic for part in behind}), seconds)
    refused = [part for part in behind if len(part.isr) < least.get(part.tp.topic, 0)]
    if error is not None:
        yield failed("replicas", "", "min.insync.replicas of some topics is not known", error)
    if refused:
        what = f"{len(refused)} of {len(parts)} partitions are under min.insync.replicas: producers with acks=all are refused"
        yield Finding("replicas", "", Outcome.WRONG, what, listed(refused), way)
    rest = [part for part in behind if part not in refused]
    for known, effect in ((True, "they can be written and read"), (False, "their min.insync.replicas was not checked")):
        if some := [part for part in rest if (part.tp.topic in least) is known]:
            what = f"{len(some)} of {len(parts)} partitions are under-replicated; {effect}"
            yield Finding("replicas", "", Outcome.WRONG, what, listed(some), way)


def _minimum(case: Case, topics: list[str], seconds: float) -> tuple[dict[str, int], KafkaError | None]:
    """Return min.insync.replicas by topic, and the error of the request or of one topic; None if there is no error."""
    try:
        found = case.admin.describe_configs([("topic", name) for name in topics[:MOST_TOPICS]], timeout=seconds)
    except KafkaError as error:
        return {}, error
    errors = [one for one in found.values() if isinstance(one, KafkaError)]
    values = {str(key[1]): one["min.insync.replicas"].value for key, one in found.items() if not isinstance(one, KafkaError)}
    return {name: int(value) for name, value in values.items() if value}, errors[0] if errors else None
