"""A message of the application to one broker. Rule: a message that changes something is written once; only readers are written again.

A response that refuses everything because another broker is the right one is not passed on for a reader whose broker was looked up: it is
looked up again. A broker that the application named by its number stays the right one, so its response is passed on. So is the response to
any other message, since a leader or coordinator may have carried the request out before it lost its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from pykafka4.core import CONTROLLER, Reply
from pykafka4.core.admin.work import Lane, Place, Question, Refusal
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.topic import MISSING_SECONDS
from pykafka4.errors import KafkaError, broker_error, listed
from pykafka4.errors.codes import BY_NAME, Refresh

__all__ = ["READERS", "Controller", "FollowingReader", "OneBroker", "OneMessage", "OneReader", "controller_of", "reads"]

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
)  # requests that change nothing, so they may be repeated
ELSEWHERE: Final = {
    BY_NAME[name].code
    for name in ("NOT_LEADER_OR_FOLLOWER", "LEADER_NOT_AVAILABLE", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "NOT_CONTROLLER")
}
LATER: Final = {BY_NAME["COORDINATOR_LOAD_IN_PROGRESS"].code}
NO_SESSION: Final = -1  # the epoch of a Fetch without a session


def reads(message: Any) -> bool:
    """Whether `message` changes nothing, not even a fetch session."""
    return _api(message) in READERS and getattr(message, "session_epoch", NO_SESSION) == NO_SESSION


def _api(message: Any) -> str:
    return type(message).__name__.removesuffix("Request")


class OneMessage(Question[Any, Any]):
    """A message that may change something. The key is its broker, or a partition whose leader is the broker."""

    lane = Lane.FOREIGN
    repeatable = False

    def __init__(self, message: Any, where: str, max_version: int | None, seconds: float) -> None:
        """A broker may hold the response back for `seconds`, as it does with JoinGroup. `where` names the broker in messages."""
        self._message, self._where, self.max_version, self.wait_s = message, where, max_version, seconds
        self.expects_reply = getattr(message, "acks", None) != 0  # Produce with acks=0 has no response
        self.api = _api(message)  # type: ignore[misc]

    def message(self, keys: Sequence[Any]) -> Any:
        """As the application made it."""
        return self._message

    def what(self, key: Any) -> str:
        """The message, and where it goes."""
        return f"{type(self._message).__name__} to {self._where}"

    def read(self, keys: Sequence[Any], reply: Reply) -> Mapping[Any, Any]:
        """The response as it is."""
        return dict.fromkeys(keys, reply.message)

    def misplaced(self, found: Any) -> KafkaError | None:
        """The error of a response that refuses everything."""
        code = refused(found, ELSEWHERE)
        return None if code is None else broker_error(code, self.api)


class OneReader(OneMessage):
    """A message that changes nothing."""

    repeatable = True


class FollowingReader(OneReader):
    """The same for a broker that is looked up: a leader, a coordinator, the controller or any."""

    def read(self, keys: Sequence[Any], reply: Reply) -> Mapping[Any, Any]:
        """The response, unless it refuses everything because of the broker that was asked."""
        code = refused(reply.message, ELSEWHERE | LATER)
        return dict.fromkeys(keys, reply.message if code is None else Refusal(code))


def refused(response: Any, codes: set[int]) -> int | None:
    """The code with which `response` refuses the whole request, if it is one of `codes`: its own, or that of all its items."""
    if response is None:
        return None
    found = {own} if (own := getattr(response, "error_code", 0)) else set(_codes(response))
    return min(found) if found and found <= codes else None


def _codes(part: Any) -> Iterator[int]:
    """The error codes of all items of a message, but not its own."""
    for field in attrs.fields(type(part)):
        value = getattr(part, field.name)
        for item in value if isinstance(value, list) else ():
            if attrs.has(type(item)):
                if hasattr(item, "error_code"):
                    yield item.error_code
                yield from _codes(item)


class OneBroker(Place[int]):
    """The broker whose number is the key. An error if the cluster has none of that number."""

    cured_by = Refresh.METADATA

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._absent_since: float | None = None

    def outcome(self, now: float, key: int) -> KafkaError | None:
        """An error if brokers name others for some time."""
        brokers = self._cluster.brokers
        if not brokers or key in brokers:
            self._absent_since = None
            return None
        if self._absent_since is None:
            self._absent_since = now
        if now - self._absent_since < MISSING_SECONDS:
            return None
        return KafkaError(f"the cluster has no broker {key}; its brokers are {listed(sorted(brokers))}")

    def node(self, key: int) -> int | None:
        """The broker, once it is in the metadata."""
        return key if key in self._cluster.brokers else None

    def want(self, now: float, key: int) -> None:
        """Request the metadata."""
        self._cluster.refresh(now)

    def lost(self, now: float, key: int, node: int, reason: KafkaError) -> None:
        """It may have left the cluster."""
        self._cluster.refresh(now)


def controller_of(cluster: Cluster) -> int:
    """The broker that stands for the controller; CONTROLLER, which has no connections of its own, while no broker has named one."""
    return CONTROLLER if cluster.controller is None or cluster.controller not in cluster.brokers else cluster.controller


class Controller(Place[Any]):
    """The controller, or the broker that stands for it: brokers since 3.3 pass requests on."""

    cured_by = Refresh.METADATA
    role = ", which stands for the controller"
    lane = Lane.FOREIGN  # a broker answers nothing else on a connection while the controller is silent

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def node(self, key: Any) -> int:
        """As the metadata says, otherwise any broker."""
        return controller_of(self._cluster)

    def lost(self, now: float, key: Any, node: int, reason: KafkaError) -> None:
        """Request the metadata."""
        self._cluster.refresh(now)
