"""Finds the broker for each key of a question: a coordinator, a leader, the broker that the key names, or any broker.

Coordinators are kept between questions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

from pykafka4.core import ANY, Reply
from pykafka4.core.admin.question_run import BrokerChoice, Question, QuestionRun, Refusal, RunContext
from pykafka4.core.admin.values import GroupCoordinator
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import GROUP, TRANSACTIONAL_ID
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.core.network.network import Network
from pykafka4.errors import ConfigError, KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME, Refresh
from pykafka4.errors.peer_text import LONGEST_HOST, visible
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest

__all__ = [
    "AnyBrokerChoice",
    "CoordinatorChoice",
    "FindCoordinators",
    "FindTransactionCoordinators",
    "GroupCoordinatorChoice",
    "LeaderChoice",
    "NumberedBrokerChoice",
]

K = TypeVar("K", bound=Hashable)
UNPLACED_S: Final = 1.0  # seconds after which a coordinator that the metadata lacks is looked up again
NO_TOPIC: Final = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"].code


class AnyBrokerChoice(BrokerChoice[K]):
    def __init__(self, network: Network) -> None:
        self._network = network

    def node(self, key: K) -> int:
        return ANY

    def look_up_again(self, now: float, key: K, node: int, reason: KafkaError) -> None:
        if node != ANY:
            self._network.avoid(now, node)


class NumberedBrokerChoice(BrokerChoice[int]):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def outcome(self, now: float, key: int) -> KafkaError | None:
        """An error for a broker that has left the cluster."""
        return None if key in self._cluster.brokers else KafkaError(f"broker {key} has left the cluster; ask again")

    def node(self, key: int) -> int:
        return key

    def look_up_again(self, now: float, key: int, node: int, reason: KafkaError) -> None:
        self._cluster.refresh(now)


class FindCoordinators(Question[str, GroupCoordinator]):
    """The question about the coordinators of groups. Brokers before 3.0 accept one group in a request (KIP-699)."""

    api = "FindCoordinator"
    about = "coordinator of group {}"
    resource = "group"
    many_from = 4
    key_type: ClassVar[int] = GROUP

    def message(self, keys: Sequence[str]) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key_type=self.key_type, coordinator_keys=list(keys))

    def fit(self, message: FindCoordinatorRequest, version: int) -> None:
        if version < self.many_from:
            message.key, message.coordinator_keys = message.coordinator_keys[0], []

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, GroupCoordinator | Refusal]:
        rows = reply.message.coordinators if reply.version >= self.many_from else [reply.message]
        names = [row.key for row in rows] if reply.version >= self.many_from else keys[:1]
        return {name: _coordinator(name, row) for name, row in zip(names, rows)}


class FindTransactionCoordinators(FindCoordinators):
    about = "coordinator of transactional id {}"
    resource = "transactional_id"
    key_type = TRANSACTIONAL_ID


def _coordinator(group: str, row: Any) -> GroupCoordinator | Refusal:
    if row.error_code:
        return Refusal(row.error_code, row.error_message)
    return GroupCoordinator(group, row.node_id, visible(row.host, LONGEST_HOST), row.port)


class CoordinatorChoice(BrokerChoice[str]):
    """The choice of the coordinators of groups, or of transactional ids."""

    cured_by: ClassVar[Refresh] = Refresh.COORDINATOR

    def __init__(
        self, context: RunContext, network: Network, cluster: Cluster, find: FindCoordinators, found: Callable[[str], None]
    ) -> None:
        """`found(key)` is called when the lookup of `key` has succeeded or failed."""
        self._network, self._cluster, self._found = network, cluster, found
        self._nodes: dict[str, int] = {}
        self._errors: dict[str, KafkaError] = {}
        self._unplaced: dict[str, float] = {}  # when the metadata first lacked a coordinator after its lookup
        self._lookup = QuestionRun(context, find, AnyBrokerChoice[str](network), self._settled)

    def begin(self, keys: Iterable[str]) -> None:
        """Forget errors of earlier lookups: a missing right may have been granted since."""
        for key in keys:
            self._errors.pop(key, None)

    def outcome(self, now: float, key: str) -> KafkaError | None:
        return self._errors.get(key)

    def node(self, key: str) -> int | None:
        node = self._nodes.get(key)
        return node if node in self._cluster.brokers else None

    def find(self, now: float, key: str) -> None:
        """Look up an unknown coordinator. If the metadata lacks a known one, refresh the metadata; after UNPLACED_S, repeat the lookup."""
        if key in self._nodes:  # the metadata is older than the lookup, or the broker has left the cluster
            if now - self._unplaced.setdefault(key, now) < UNPLACED_S:
                self._cluster.refresh(now)
                return
            del self._nodes[key]
        self._lookup.add([key])

    def look_up_again(self, now: float, key: str, node: int, reason: KafkaError) -> None:
        if self._nodes.get(key) == node:
            del self._nodes[key]
            self._network.avoid(now, node)  # a broker that is cut off from the cluster would report itself as the coordinator

    def why(self, key: str) -> str:
        return self._lookup.why(key)

    def poll(self, now: float) -> float:
        return self._lookup.poll(now)

    def end_lookups(self) -> None:
        if self._lookup.open:
            self._lookup.drop()

    def check_all(self) -> None:
        self._lookup.check_all()

    def _settled(self, key: str, outcome: GroupCoordinator | KafkaError) -> None:
        self._unplaced.pop(key, None)
        if isinstance(outcome, KafkaError):
            self._errors[key] = outcome
        else:
            self._nodes[key] = outcome.node
        self._found(key)


class GroupCoordinatorChoice(BrokerChoice[Any]):
    """The choice for keys of any kind that belong to one group: the group's coordinator."""

    cured_by: ClassVar[Refresh] = Refresh.COORDINATOR

    def __init__(self, coordinators: CoordinatorChoice, group: str) -> None:
        self._coordinators, self._group = coordinators, group

    def begin(self, keys: Iterable[Any]) -> None:
        self._coordinators.begin([self._group])

    def outcome(self, now: float, key: Any) -> KafkaError | None:
        return self._coordinators.outcome(now, self._group)

    def node(self, key: Any) -> int | None:
        return self._coordinators.node(self._group)

    def find(self, now: float, key: Any) -> None:
        self._coordinators.find(now, self._group)

    def look_up_again(self, now: float, key: Any, node: int, reason: KafkaError) -> None:
        self._coordinators.look_up_again(now, self._group, node, reason)

    def why(self, key: Any) -> str:
        return self._coordinators.why(self._group)

    def is_of(self, group: str) -> bool:
        return group == self._group


class LeaderChoice(BrokerChoice[TopicPartition]):
    """The choice for partitions: their leaders. The metadata of their topics is kept from `begin` to `end`."""

    cured_by: ClassVar[Refresh] = Refresh.METADATA

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._topics: dict[str, None] = {}
        self._invalid: dict[str, KafkaError] = {}  # invalid topic names, which groups of other clients may have
        self._asked = cluster.asked  # refusals of earlier requests are ignored: the right may have been granted since
        self._absent_since: dict[TopicPartition, float] = {}

    def begin(self, keys: Iterable[TopicPartition]) -> None:
        for topic in dict.fromkeys(key.topic for key in keys):
            try:
                self._cluster.want(topic, self)
                self._topics[topic] = None
            except ConfigError as error:
                self._invalid[topic] = error

    def end(self) -> None:
        for topic in self._topics:
            self._cluster.forget(topic, self)
        self._topics.clear()

    def node(self, key: TopicPartition) -> int | None:
        leader = self._cluster.leader(key)
        return None if leader is None else leader.node

    def why(self, key: TopicPartition) -> str:
        if self.node(key) is not None:
            return ""
        if key.partition < self._cluster.partitions(key.topic):
            return f"{key} has no leader"
        silent = self._cluster.silent
        return f"the leader of {key} is not known yet" + ("" if silent is None else f", because {silent} has not answered Metadata")

    def find(self, now: float, key: TopicPartition) -> None:
        """Request the metadata of a known topic. `Cluster` does so automatically for leaderless partitions, not for missing partitions."""
        if self._cluster.partitions(key.topic):
            self._cluster.refresh(now, [key.topic])

    def look_up_again(self, now: float, key: TopicPartition, node: int, reason: KafkaError) -> None:
        self._cluster.refresh(now, [key.topic])

    def outcome(self, now: float, key: TopicPartition) -> KafkaError | None:
        """The error if the topic's name is invalid, brokers refuse the topic, or the topic or partition has been unknown for MISSING_S."""
        refusal = self._invalid.get(key.topic) or self._cluster.refusal(key.topic, self._asked)
        if refusal is not None:
            return refusal
        size, since = self._cluster.partitions(key.topic), self._cluster.unknown_since(key.topic)
        if 0 < size <= key.partition:
            since = self._absent_since.setdefault(key, now)
            detail = f"the topic has {size} partition{'' if size == 1 else 's'}"
        else:
            self._absent_since.pop(key, None)
            detail = "there is no such topic"
        return None if since is None or now - since < MISSING_S else broker_error(NO_TOPIC, str(key), detail)
