"""Coordinator. Rule: losing the coordinator only delays requests, and never ends the membership; only the coordinator's responses do.

Also the table of what each error code means for a member: membership, commits and lookups use it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random

import attrs

from pykafka4.core import ANY, INFINITY, Failed, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import GROUP, ONE_KEY, Coordinator
from pykafka4.core.network.network import Network, via
from pykafka4.errors import KafkaError
from pykafka4.errors.codes import Refresh, error_code
from pykafka4.options.config import ConsumerConfig

__all__ = ["GroupCoordinator", "Reaction", "reaction", "way_out"]

CHECK = 10.0  # seconds between checks with other brokers, while the coordinator holds back a response, that it still is the coordinator


class Reaction(enum.Enum):
    """What the member has to do after a group error code."""

    NONE = "continue"
    RETRY = "retry after a back-off"
    STALE = "the member has another epoch by now: retry with that one"
    REFIND = "find the coordinator, then retry"
    REJOIN = "the group is rebalancing: revoke the partitions and rejoin"
    STRANGER = "unknown member: the partitions are lost, join as a new member"
    OUTDATED = "stale generation or fenced epoch: the partitions are lost, rejoin"
    NAMED = "rejoin with the member id in the response"
    DENIED = "a right is missing: tell the application, retry after a back-off"
    FATAL = "not retriable"


_BY_NAME = {
    "NONE": Reaction.NONE,
    "REBALANCE_IN_PROGRESS": Reaction.REJOIN,
    "UNKNOWN_MEMBER_ID": Reaction.STRANGER,
    "ILLEGAL_GENERATION": Reaction.OUTDATED,
    "FENCED_MEMBER_EPOCH": Reaction.OUTDATED,
    "STALE_MEMBER_EPOCH": Reaction.STALE,
    "MEMBER_ID_REQUIRED": Reaction.NAMED,
    "REQUEST_TIMED_OUT": Reaction.REFIND,  # the coordinator cannot reach its replicas: another may have taken over
    "UNKNOWN_SERVER_ERROR": Reaction.RETRY,  # a transient failure in the broker must not stop a consumer
}


def reaction(code: int) -> Reaction:
    """How to react to `code`: its own entry, or else what the error table says about retries."""
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
    """For messages: what the application can do about an error that ends the membership."""
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
        f"no assignor of this consumer (partition_assignment_strategy: {_assignors(config)}) is one that all members of the group have: to "
        "change the assignor of a running group, add the new one to all members before the old one is removed from any"
    ),
    "INVALID_SESSION_TIMEOUT": lambda config: (
        f"session_timeout_ms={config.session_timeout_ms:g} is not between the brokers' group.min.session.timeout.ms and "
        "group.max.session.timeout.ms"
    ),
    "GROUP_MAX_SIZE_REACHED": lambda config: "the group has as many members as the brokers' group.max.size allows",
}


@attrs.define(eq=False)
class CheckInFlight(Request):
    """A FindCoordinator request that asks another broker whether `checked` is still the coordinator."""

    coordinator: GroupCoordinator = attrs.field(kw_only=True)
    checked: int = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.coordinator.checked(now, self.checked, outcome)


class GroupCoordinator(Coordinator):
    """The coordinator of the group, with connections of its own."""

    __slots__ = ("_checked_at", "join_lane", "lane")

    def __init__(
        self,
        config: ConsumerConfig,
        network: Network,
        cluster: Cluster,
        lane: int,
        random: Random,
        send: Callable[[Request], None],
        on_fatal: Callable[[KafkaError], None],
    ) -> None:
        """`send` takes requests; `on_fatal` is called with an error that is not retriable. After a denial, `want` starts another lookup.

        `lane` is the connection for heartbeats, commits, lookups and LeaveGroup. JoinGroup and SyncGroup use `join_lane`: a coordinator
        holds back their responses until the whole group has joined, and meanwhile reads nothing else from their connection.
        """
        super().__init__(config, network, cluster, GROUP, config.group_id or "", random, send, on_fatal)
        self.lane, self.join_lane = lane, network.new_lane()
        self._checked_at = -INFINITY

    @property
    def address(self) -> int | None:
        """The coordinator by the connection for everything but joins; None while it is unknown."""
        return None if self.node is None else via(self.lane, self.node)

    def _is_final(self, code: int) -> bool:
        return reaction(code) in (Reaction.FATAL, Reaction.DENIED)

    def renew_join_lane(self) -> None:
        """Abandon a JoinGroup or SyncGroup that is still held back, so that the next one does not wait behind it."""
        self._network.drop_lane(self.join_lane)
        self.join_lane = self._network.new_lane()

    def gone(self) -> None:
        """Close the connections, when the consumer is closed."""
        self._network.drop_lane(self.lane)
        self._network.drop_lane(self.join_lane)

    def check(self, now: float, since: float) -> float:
        """`node` has held back a response since `since`. A frozen or isolated broker might do so forever while the group has moved on."""
        node = self.node
        if node is None:
            return INFINITY
        due = max(since, self._checked_at) + CHECK
        if now < due:
            return due
        self._checked_at = now
        self._network.avoid(now, node)
        self._send(
            CheckInFlight(ANY, self._message(), now + self._config.request_timeout_ms / 1000, ONE_KEY, coordinator=self, checked=node)
        )
        return now + CHECK

    def checked(self, now: float, node: int, outcome: Outcome) -> None:
        """A broker was asked whether `node` is still the coordinator."""
        if isinstance(outcome, Failed) or outcome.message.error_code or outcome.message.node_id == node or self.node != node:
            return
        found = outcome.message.node_id
        self.lost(now, node, KafkaError(f"{self.subject}: broker {outcome.node} reports broker {found} as the coordinator"))
        self._wanted = True  # unless it is found here
        self._found(now, found, outcome.node)
