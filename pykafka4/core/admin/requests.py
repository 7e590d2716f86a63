"""Sends a message of the application to one broker. Invariant: a message that may change something is written at most once.

A message that only reads (a reader) may be repeated. If the broker of a reader was looked up, the reader is repeated after a response that
refuses everything because the broker is not, or not yet, the right one. All other responses are passed on. A message that may change
something is not repeated after a response, because the broker may have carried the message out before losing its role.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.core import CONTROLLER, Reply
from pykafka4.core.admin.question_run import BrokerChoice, Lane, Question, Refusal
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.errors import KafkaError, broker_error, listed
from pykafka4.errors.codes import BY_NAME, Refresh

__all__ = ["READERS", "ControllerChoice", "FollowingReader", "OneBrokerChoice", "OneMessage", "OneReader", "controller_of", "reads"]

READERS: Final = frozenset(
    {
        "ApiVersions",
        "ConsumerGroupDescribe",
        "DescribeAcls",
        "DescribeClientQuotas",
        "DescribeCluster",
        "DescribeConfigs",
        "DescribeDelegationToken",
        "DescribeGroups",
        "DescribeLogDirs",
        "DescribeProducers",
        "DescribeQuorum",
        "DescribeShareGroupOffsets",
        "DescribeTopicPartitions",
        "DescribeTransactions",
        "DescribeUserScramCredentials",
        "Fetch",
        "FindCoordinator",
        "GetTelemetrySubscriptions",
        "ListConfigResources",
        "ListGroups",
        "ListOffsets",
        "ListPartitionReassignments",
        "ListTransactions",
        "Metadata",
        "OffsetFetch",
        "OffsetForLeaderEpoch",
        "ShareGroupDescribe",
    }
)  # requests that can be repeated without harm
ELSEWHERE: Final = {
    BY_NAME[name].code
    for name in ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "NOT_CONTROLLER")
}
LATER: Final = {BY_NAME["COORDINATOR_LOAD_IN_PROGRESS"].code}
NO_SESSION: Final = -1  # the epoch of a Fetch without a session


def reads(message: Any) -> bool:
    return _api(message) in READERS and getattr(message, "session_epoch", NO_SESSION) == NO_SESSION


def _api(message: Any) -> str:
    return type(message).__name__.removesuffix("Request")


class OneMessage(Question[Any, Any]):
    """A message of the application, which is written at most once, because it might change something.

    The only key is the target: a node (also ANY or CONTROLLER), a group or a partition. Subclasses are for messages that may be repeated.
    """

    lane = Lane.FOREIGN
    repeatable = False

    def __init__(self, message: Any, where: str, max_version: int | None, seconds: float) -> None:
        """`seconds`: the time for which a broker may hold the response back, as for JoinGroup. `where`: the broker's name in errors."""
        self._message, self._where, self.max_version, self.wait_s = message, where, max_version, seconds
        self.expects_reply = getattr(message, "acks", None) != 0  # Produce with acks=0 has no response
        self.api = _api(message)  # type: ignore[misc]

    def message(self, keys: Sequence[Any]) -> Any:
        return self._message

    def what(self, key: Any) -> str:
        return f"{type(self._message).__name__} to {self._where}"

    def read(self, keys: Sequence[Any], reply: Reply) -> Mapping[Any, Any]:
        return dict.fromkeys(keys, reply.message)

    def wrong_broker_error(self, found: Any) -> KafkaError | None:
        """The error of a response that refuses everything with codes in ELSEWHERE; None for any other response."""
        code = refused(found, ELSEWHERE)
        return None if code is None else broker_error(code, self.api)


class OneReader(OneMessage):
    """A message that may be repeated, for a broker that the application named by its number."""

    repeatable = True


class FollowingReader(OneReader):
    """A message that may be repeated, for a broker that is looked up: a leader, a coordinator, the controller or any broker."""

    def read(self, keys: Sequence[Any], reply: Reply) -> Mapping[Any, Any]:
        code = refused(reply.message, ELSEWHERE | LATER)
        return dict.fromkeys(keys, reply.message if code is None else Refusal(code))


def refused(response: Any, codes: set[int]) -> int | None:
    """The code with which `response` refuses the whole request, or None.

    The response has its own code or, without one, the codes of its items. If `codes` has them all, the result is the lowest.
    """
    if response is None:
        return None
    found = {own} if (own := getattr(response, "error_code", 0)) else set(_codes(response))
    return min(found) if found and found <= codes else None


def _codes(part: Any) -> Iterator[int]:
    """The codes of all items of a message, but not its own."""
    for field in attrs.fields(type(part)):
        value = getattr(part, field.name)
        for item in value if isinstance(value, list) else ():
            if attrs.has(type(item)):
                if hasattr(item, "error_code"):
                    yield item.error_code
                yield from _codes(item)


class OneBrokerChoice(BrokerChoice[int]):
    """The choice of a broker by its number. A broker that the cluster does not have leads to an error."""

    cured_by = Refresh.METADATA

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._absent_since: dict[int, float] = {}  # the time since which the metadata has lacked a broker

    def outcome(self, now: float, key: int) -> KafkaError | None:
        """An error if the metadata has lacked the broker for MISSING_S."""
        brokers = self._cluster.brokers
        if not brokers or key in brokers:
            self._absent_since.pop(key, None)
            return None
        if now - self._absent_since.setdefault(key, now) < MISSING_S:
            return None
        return KafkaError(f"the cluster has no broker {key}; its brokers are {listed(sorted(brokers))}")

    def node(self, key: int) -> int | None:
        return key if key in self._cluster.brokers else None

    def find(self, now: float, key: int) -> None:
        self._cluster.refresh(now)

    def look_up_again(self, now: float, key: int, node: int, reason: KafkaError) -> None:
        self._cluster.refresh(now)


def controller_of(cluster: Cluster) -> int:
    """The broker that stands in for the controller; CONTROLLER, which has no lanes, while the metadata has no such broker."""
    return CONTROLLER if cluster.controller is None or cluster.controller not in cluster.brokers else cluster.controller


class ControllerChoice(BrokerChoice[Any]):
    """The choice of the controller, or with KRaft of a broker that passes requests on to it."""

    cured_by = Refresh.METADATA
    role = ", which stands in for the controller"
    lane = Lane.FOREIGN  # while the controller is silent, a broker answers no other request on the connection

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def node(self, key: Any) -> int:
        return controller_of(self._cluster)

    def look_up_again(self, now: float, key: Any, node: int, reason: KafkaError) -> None:
        self._cluster.refresh(now)
