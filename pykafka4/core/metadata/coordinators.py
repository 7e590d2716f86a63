"""Finds the coordinator of a group or a transactional id, and forgets the coordinator after its loss.

Rule: the loss of the coordinator by itself ends neither a membership nor a transaction before a timeout. The coordinator is the leader of a
partition of an internal topic, so it moves as leaders do.
"""

from __future__ import annotations

from random import Random
from typing import Final, Protocol

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.network.call import AnyBroker, Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.outbox import Outbox
from pykafka4.errors import BrokerError, KafkaError, broker_error
from pykafka4.errors.codes import error_code
from pykafka4.logs import Subject, get_log
from pykafka4.options.config import ClientConfig
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest

log = get_log("pykafka4.group")

__all__ = ["GROUP", "ONE_KEY", "TRANSACTIONAL_ID", "Coordinator", "CoordinatorUser"]

ONE_KEY: Final = 3  # FindCoordinator's last version with a single key
GROUP: Final = 0  # FindCoordinator's key types
TRANSACTIONAL_ID: Final = 1
NAMES: Final = {GROUP: "group", TRANSACTIONAL_ID: "transactional id"}
PASSING: Final = {"UNKNOWN_SERVER_ERROR"}  # not retriable by Kafka's table, but a failure inside one broker


class CoordinatorUser(Protocol):
    """The machine that needs a coordinator."""

    def coordinator_refused(self, coordinator: Coordinator, error: KafkaError) -> None:
        """Handle `error`, which ended the lookup of the coordinator. `want` starts another lookup."""


class Coordinator:
    """The coordinator of a group or transactional id. `node` is None while the coordinator is unknown; `want` starts a lookup."""

    __slots__ = (
        "_backoff",
        "_before",
        "_call",
        "_cluster",
        "_config",
        "_key",
        "_kind",
        "_network",
        "_outbox",
        "_reported_by",
        "_user",
        "_wanted",
        "node",
    )

    def __init__(
        self,
        config: ClientConfig,
        network: Network,
        cluster: Cluster,
        kind: int,
        key: str,
        random: Random,
        outbox: Outbox,
        user: CoordinatorUser,
    ) -> None:
        """`key` is the group id or the transactional id."""
        self._config, self._network, self._cluster, self._outbox, self._user = config, network, cluster, outbox, user
        self._kind, self._key = kind, key
        backoff, timeout = Backoff.retry(config, random), config.request_timeout_ms / 1000
        self._backoff, self._before = backoff, -1  # `_before`: the last coordinator that was lost
        self._call = Call(AnyBroker(network), backoff, timeout, self._message, self._answered, self._gave_up, ONE_KEY)
        self._wanted = False
        self.node: int | None = None
        self._reported_by: int | None = None  # the broker that reported `node`, until `node` has responded

    @property
    def subject(self) -> str:
        """`group g`, for messages."""
        return f"{NAMES[self._kind]} {self._key}"

    @property
    def log_name(self) -> Subject:
        group, transactional_id = (self._key, None) if self._kind == GROUP else (None, self._key)
        return Subject.of(self._config.client_id, self.subject, group=group, transactional_id=transactional_id)

    @property
    def address(self) -> int | None:
        return self.node

    @property
    def last_error(self) -> KafkaError | None:
        """The reason why the coordinator was lost or not found, until the coordinator has responded."""
        return self._call.last_error

    @property
    def troubles(self) -> Troubles:
        return self._network.troubles

    def want(self) -> None:
        self._wanted = True

    def lost(self, now: float, node: int, reason: KafkaError) -> None:
        """Stop using `node`, which may no longer be the coordinator; do nothing if another broker, or none, is in use."""
        if self.node == node:
            log.info("%s: lost coordinator %d (%s)", self.log_name, node, reason, broker=node)
            # The next lookup prefers other brokers. The lost coordinator may be frozen, or cut off from the cluster and name itself. The
            # broker that named this coordinator may have outdated metadata, and name the same coordinator again.
            self._network.avoid(now, node)
            if self._reported_by is not None:
                self._network.avoid(now, self._reported_by)
            self.node, self._before = None, node
            self._call.back_off(now, reason)
            self.retried(now, reason)

    def retried(self, now: float, reason: KafkaError) -> None:
        """Report the cause of a repeated request, if it is an error from a broker. The trouble does not end when the coordinator is
        found again."""
        if isinstance(reason, BrokerError):
            self.troubles.note(now, self, reason)

    def well(self) -> None:
        """Record a response of the coordinator: the backoff after the next loss is the shortest again."""
        self.troubles.over(self)
        self._call.reset()
        self._reported_by = None

    def poll(self, now: float) -> float:
        return self._call.poll(now, self._outbox) if self.node is None and self._wanted else INFINITY

    def _message(self) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key=self._key, key_type=self._kind)

    def _answered(self, now: float, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        response = outcome.message
        if response.error_code == 0:
            return self._found(now, response.node_id, outcome.node)
        group, name = (self._key, "") if self._kind == GROUP else ("", self._key)
        what = f"coordinator of {self.subject}"
        error = broker_error(response.error_code, what, response.error_message, "FindCoordinator", group=group, transactional_id=name)
        return Next.GIVE_UP if self._is_final(response.error_code) else Next.ELSEWHERE, error

    def _is_final(self, code: int) -> bool:
        row = error_code(code)
        return not row.retriable and row.name not in PASSING

    def _gave_up(self, now: float, error: KafkaError) -> None:
        self._wanted = False
        self._user.coordinator_refused(self, error)

    def _found(self, now: float, node: int, reported_by: int) -> Verdict:
        if node not in self._cluster.brokers:  # the metadata is older than this response
            self._cluster.refresh(now)
            return Next.RETRY, KafkaError(f"the coordinator of {self.subject} is broker {node}, which is not in the metadata yet")
        log.info("%s: the coordinator is broker %d", self.log_name, node, broker=node)
        # A new coordinator may refuse requests for a short time, while it loads its state, so the backoff is reset. If the lost broker is
        # found again, the backoff keeps growing, because nothing has changed.
        if node != self._before:
            self._backoff.reset()
        self.node, self._reported_by = node, reported_by
        self._wanted = False
        assert self.address is not None
        self._network.want(self.address)  # connect now, so that the first request does not wait for the connection
        return None
