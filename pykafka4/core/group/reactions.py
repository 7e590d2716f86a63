"""Maps the error codes of a group's coordinator to reactions of the member. Membership, commits and lookups share this table."""

from __future__ import annotations

import enum
from collections.abc import Callable

from pykafka4.errors.codes import Refresh, error_code
from pykafka4.options.config import ConsumerConfig

__all__ = ["Reaction", "reaction", "way_out"]


class Reaction(enum.Enum):
    NONE = "continue"
    RETRY = "retry after a backoff"
    STALE = "the member has another epoch by now: retry with that epoch"
    REFIND = "find the coordinator, then retry"
    REJOIN = "the group is rebalancing: rejoin"
    STRANGER = "unknown member: the partitions are lost, join as a new member"
    OUTDATED = "stale generation or fenced epoch: the partitions are lost, rejoin"
    NAMED = "rejoin with the member id in the response"
    DENIED = "a right is missing: tell the application, retry after a backoff"
    FATAL = "not retriable"


_BY_NAME = {
    "NONE": Reaction.NONE,
    "REBALANCE_IN_PROGRESS": Reaction.REJOIN,
    "UNKNOWN_MEMBER_ID": Reaction.STRANGER,
    "ILLEGAL_GENERATION": Reaction.OUTDATED,
    "FENCED_MEMBER_EPOCH": Reaction.OUTDATED,
    "STALE_MEMBER_EPOCH": Reaction.STALE,
    "MEMBER_ID_REQUIRED": Reaction.NAMED,
    "REQUEST_TIMED_OUT": Reaction.REFIND,  # the coordinator cannot reach its replicas, and another broker may be the coordinator now
    "UNKNOWN_SERVER_ERROR": Reaction.RETRY,  # a transient failure in the broker must not stop a consumer
}


def reaction(code: int) -> Reaction:
    """Return the reaction to `code`: its entry in `_BY_NAME`, otherwise a reaction chosen by the properties of `code`."""
    row = error_code(code)
    known = _BY_NAME.get(row.name)
    if known is not None:
        return known
    if row.denied:
        return Reaction.DENIED
    if not row.retriable:
        return Reaction.FATAL
    return Reaction.REFIND if row.refresh is Refresh.COORDINATOR else Reaction.RETRY


def way_out(config: ConsumerConfig, code: int) -> str | None:
    """The explanation of `code` for the application, or None."""
    says = _WAYS_OUT.get(error_code(code).name)
    return None if says is None else says(config)


def _assignors(config: ConsumerConfig) -> str:
    return ", ".join(each if isinstance(each, str) else each.name for each in config.partition_assignment_strategy)


_WAYS_OUT: dict[str, Callable[[ConsumerConfig], str]] = {
    "FENCED_INSTANCE_ID": lambda config: (
        f"another consumer has joined with group_instance_id={config.group_instance_id!r}, so this one is out of the group: close it, "
        "and give each running consumer of the group an id of its own"
    ),
    "INCONSISTENT_GROUP_PROTOCOL": lambda config: (
        f"no assignor of this consumer (partition_assignment_strategy: {_assignors(config)}) is supported by all members of the group: to "
        "change the assignor of a running group, add the new one to all members before you remove the old one from any"
    ),
    "INVALID_SESSION_TIMEOUT": lambda config: (
        f"session_timeout_ms={config.session_timeout_ms:g} is not between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    "GROUP_MAX_SIZE_REACHED": lambda config: "the group has as many members as the brokers' group.max.size allows",
}
