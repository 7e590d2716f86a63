"""Checks members, lag and rights of groups. Lag alone is not a fault, but lag in a group without members is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pykafka4.admin.values import GroupLag, PartitionLag
from pykafka4.client.targets import coordinator
from pykafka4.core.admin.topic_queries import operations
from pykafka4.core.admin.values import CLASSIC, CONSUMER, GroupDescription
from pykafka4.diagnosis.case import Case, failed
from pykafka4.diagnosis.partitions import compare_rights
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors import KafkaError, UnsupportedVersion, listed, short_name

__all__ = ["look_at_groups"]

READ: Final = {"READ": "members cannot join or commit"}
MISSING: Final = "GROUP_ID_NOT_FOUND"
LOST: Final = "the log has lost records (an unclean election), or the offset belongs to another topic: rewind the group"
CHECK: Final = "check group_id; a group exists only after its first member has joined, or after its first commit"
STATES: Final = {  # states of a group that rebalances
    "PreparingRebalance": "members are joining",
    "CompletingRebalance": "partitions are being assigned",
    "Assigning": "partitions are being assigned",
    "Reconciling": "members give partitions back, or take them",
}


def look_at_groups(case: Case, seconds: float) -> Iterator[Finding]:
    """Check that each group exists and is not rebalancing, and that each partition with lag has a member that reads it."""
    for name, found in case.admin.group_lag(case.groups, seconds / 2).items():
        if isinstance(found, KafkaError) and short_name(found) == MISSING:
            found = _without_offsets(case, name, found, seconds / 4 / len(case.groups))
        if isinstance(found, KafkaError):
            what, way_out = ("does not exist", CHECK) if short_name(found) == MISSING else ("cannot be checked", "")
            yield failed("groups", f"group {name}", what, found, way_out, Outcome.WRONG)
            continue
        yield from _rights(case, found.description, seconds / 4 / len(case.groups))
        yield from _group(found)


def _without_offsets(case: Case, name: str, error: KafkaError, seconds: float) -> GroupLag | KafkaError:
    """A share group commits no offsets. Return `error` if the group cannot be described."""
    found = case.admin.describe_groups([name], seconds)[name]
    return error if isinstance(found, KafkaError) else GroupLag(found, ())


def _rights(case: Case, group: GroupDescription, seconds: float) -> Iterator[Finding]:
    """Yield no finding for a group that is neither classic nor consumer, or if brokers are too old to report rights."""
    from pykafka4.messages import ConsumerGroupDescribeRequest, DescribeGroupsRequest  # declaring all messages takes time

    if group.type not in (CLASSIC, CONSUMER):
        return
    name, about = group.group_id, f"group {group.group_id}"
    message: Any = (  # both responses have the rights in fields of the same name
        ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=True)
        if group.type == CONSUMER
        else DescribeGroupsRequest(groups=[name], include_authorized_operations=True)
    )
    try:
        bits = case.client.request(coordinator(name), message, seconds).groups[0].authorized_operations
    except UnsupportedVersion:
        return
    except KafkaError as error:
        yield failed("groups", about, "this user's rights are not known", error)
        return
    yield from compare_rights("groups", "group", name, operations(bits), READ)


def _group(found: GroupLag) -> Iterator[Finding]:
    group, about = found.description, f"group {found.description.group_id}"
    for row in (row for row in found.partitions if row.lag is not None and row.lag < 0):
        what, evidence = f"has committed an offset of {row.partition} that does not exist", f"{-(row.lag or 0)} past the end of the log"
        yield Finding("groups", about, Outcome.WRONG, what, evidence, LOST)
    late = [row for row in found.partitions if row.lag]
    lag = f", lag {found.lag}{': ' if late else ''}{listed(late, _lag)}" if found.partitions else ""
    members = f"{len(group.members)} member{'s' if len(group.members) != 1 else ''}"
    evidence = f"state {group.state}, {members}{lag}"
    if not group.members:
        outcome = Outcome.WRONG if late else Outcome.NOTICE
        yield Finding(
            "groups", about, outcome, "has no members: no consumer reads", evidence, "start a consumer of the group, and see its log"
        )
        return
    if group.state in STATES:
        way = "run the diagnosis again: if the rebalance continues, a member joins and leaves, or takes longer than max_poll_interval_ms"
        yield Finding("groups", about, Outcome.NOTICE, f"is rebalancing: {STATES[group.state]}", evidence, way)
        return
    if orphans := [row for row in late if row.owner is None and all(member.is_readable for member in group.members)]:
        what = f"{len(orphans)} partition{'s have' if len(orphans) != 1 else ' has'} records and no owner"
        way = "no member subscribes to their topics any more: subscribe, or delete the committed offsets"
        yield Finding("groups", about, Outcome.NOTICE, what, listed(orphans, _lag), way)
    yield Finding("groups", about, Outcome.FINE, f"has {members}", evidence)


def _lag(row: PartitionLag) -> str:
    return f"{row.partition} {row.lag}"
