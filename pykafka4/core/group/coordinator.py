"""Coordinator. Rule: losing the coordinator only delays requests, and never ends the membership; only the coordinator's responses do.

Also the table of what each error code means for a member: membership, commits and lookups use it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from random import Random

from pykafka4.config import ConsumerConfig
from pykafka4.core import ANY, INFINITY, Failed, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.call import AnyBroker, Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network, via
from pykafka4.error_table import Refresh, error_code
from pykafka4.errors import KafkaError, broker_error
from pykafka4.logs import get_log
from pykafka4.wire.protocol.messages_group import FindCoordinatorRequest

__all__ = ["Coordinator", "Reaction", "reaction"]

GROUP = 0  # FindCoordinator's key type
CHECK = 10.0  # seconds between checks with other brokers, while the coordinator holds back a response, that it still is the coordinator
ONE_KEY = 3  # the last version with a single key; every broker from 0.11 to 4.x supports one of 0 to 3

log = get_log("pykafka4.group")


class Reaction(enum.Enum):
    """What the member has to do after a group error code."""

    NONE = "continue"
    RETRY = "retry after a back-off"
    REFIND = "find the coordinator, then retry"
    REJOIN = "the group is rebalancing: revoke the partitions and rejoin"
    STRANGER = "unknown member: the partitions are lost, join as a new member"
    OUTDATED = "stale generation: the partitions are lost, rejoin"
    NAMED = "rejoin with the member id in the response"
    DENIED = "a right is missing: tell the application, retry after a back-off"
    FATAL = "not retriable"


_BY_NAME = {
    "NONE": Reaction.NONE,
    "REBALANCE_IN_PROGRESS": Reaction.REJOIN,
    "UNKNOWN_MEMBER_ID": Reaction.STRANGER,
    "ILLEGAL_GENERATION": Reaction.OUTDATED,
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


class Coordinator:
    """The coordinator of the group. `node` is None while it is unknown; `want` starts a lookup."""

    __slots__ = (
        "_call",
        "_checked_at",
        "_cluster",
        "_config",
        "_network",
        "_on_fatal",
        "_send",
        "_told_by",
        "_wanted",
        "join_lane",
        "lane",
        "node",
    )

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
        self.lane, self.join_lane = lane, network.new_lane()
        self._config, self._network, self._cluster, self._send, self._on_fatal = config, network, cluster, send, on_fatal
        backoff, timeout = Backoff.retry(config, random), config.request_timeout_ms / 1000
        self._call = Call(AnyBroker(network), backoff, timeout, self._message, self._answered, self._gave_up, ONE_KEY)
        self._checked_at = -INFINITY
        self._wanted = False
        self.node: int | None = None
        self._told_by: int | None = None  # the broker that reported `node`, until `node` has responded

    @property
    def address(self) -> int | None:
        """The coordinator by the connection for everything but joins; None while it is unknown."""
        return None if self.node is None else via(self.lane, self.node)

    @property
    def last_error(self) -> KafkaError | None:
        """Why the coordinator was lost or not found, until it has responded."""
        return self._call.last_error

    def renew_join_lane(self) -> None:
        """Abandon a JoinGroup or SyncGroup that is still held back, so that the next one does not wait behind it."""
        self._network.drop_lane(self.join_lane)
        self.join_lane = self._network.new_lane()

    def gone(self) -> None:
        """Close the connections, when the consumer is closed."""
        self._network.drop_lane(self.lane)
        self._network.drop_lane(self.join_lane)

    def want(self) -> None:
        """Find the coordinator: there is a request for it."""
        self._wanted = True

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        """`node` is not, or no longer, the coordinator. Further reports of the same loss are ignored."""
        if self.node == node:
            log.info("%s: group %s: lost coordinator %d (%s)", self._config.client_id, self._config.group_id, node, reason)
            self._network.avoid(now, node)  # frozen, it would not respond; cut off from the cluster, it would report itself
            if self._told_by is not None:
                self._network.avoid(now, self._told_by)
            self.node = None
            self._call.rest(now, reason)

    def well(self) -> None:
        """The coordinator responded: after the next loss the back-off starts over."""
        self._call.reset()
        self._told_by = None

    def poll(self, now: float) -> float:
        """Send FindCoordinator if one is due; returns when to be polled again."""
        return self._call.poll(now, self._send) if self.node is None and self._wanted else INFINITY

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
        on_reply = lambda at, outcome: self._checked(at, node, outcome)  # noqa: E731
        self._send(Request(ANY, self._message(), now + self._config.request_timeout_ms / 1000, on_reply, ONE_KEY))
        return now + CHECK

    def _message(self) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key=self._config.group_id or "", key_type=GROUP)

    def _answered(self, now: float, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        response = outcome.message
        if response.error_code == 0:
            return self._found(now, response.node_id, outcome.node)
        group = self._config.group_id or ""
        error = broker_error(response.error_code, f"coordinator of group {group}", response.error_message, "FindCoordinator", group=group)
        return Next.GIVE_UP if reaction(response.error_code) in (Reaction.FATAL, Reaction.DENIED) else Next.ELSEWHERE, error

    def _gave_up(self, now: float, error: KafkaError) -> None:
        self._wanted = False
        self._on_fatal(error)

    def _found(self, now: float, node: int, told_by: int) -> Verdict:
        if node not in self._cluster.brokers:  # the metadata is older than this response
            self._cluster.refresh(now)
            error = KafkaError(f"the coordinator of group {self._config.group_id} is broker {node}, which is not in the metadata yet")
            return Next.RETRY, error
        log.info("%s: group %s: the coordinator is broker %d", self._config.client_id, self._config.group_id, node)
        self.node, self._told_by = node, told_by
        self._wanted = False
        self._network.want(via(self.lane, node))  # connect during the join, so that the first lookup need not wait
        return None

    def _checked(self, now: float, node: int, outcome: Outcome) -> None:
        if isinstance(outcome, Failed) or outcome.message.error_code or outcome.message.node_id == node or self.node != node:
            return
        found = outcome.message.node_id
        self.lost(now, node, KafkaError(f"group {self._config.group_id}: broker {outcome.node} reports broker {found} as the coordinator"))
        self._wanted = True  # unless it is found here
        self._found(now, found, outcome.node)
