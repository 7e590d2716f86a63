"""Looks up brokers, topics and leaders in the client's metadata. Lookups are for the loop thread, except `topic_error`; most cost one
or two dict accesses."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from pykafka4.core import INFINITY
from pykafka4.core.metadata.brokers import Broker
from pykafka4.core.metadata.topic import Leader, Topic
from pykafka4.errors import BrokerError
from pykafka4.errors.codes import ErrorCode
from pykafka4.records import TopicPartition

__all__ = ["KnownMetadata"]


class KnownMetadata:
    def __init__(self) -> None:
        self.brokers: Mapping[int, Broker] = {}
        self._topics: dict[str, Topic] = {}
        self._names: dict[UUID, str] = {}

    def partitions(self, topic: str) -> int:
        """0 while the topic is unknown."""
        known = self._topics.get(topic)
        return 0 if known is None else len(known.leaders)

    def available(self, topic: str) -> list[int]:
        known = self._topics.get(topic)
        return [] if known is None else known.available

    def leader(self, tp: TopicPartition) -> Leader | None:
        """None if `tp` is leaderless or unknown."""
        known = self._topics.get(tp.topic)
        if known is None or not 0 <= tp.partition < len(known.leaders):
            return None
        return known.leaders[tp.partition]

    def leaders(self, topic: str) -> list[Leader | None]:
        """The leaders by partition; None for a leaderless partition."""
        known = self._topics.get(topic)
        return [] if known is None else list(known.leaders)

    def racks(self, topic: str) -> list[frozenset[str]]:
        """The racks of each partition's replicas; empty if no broker has had a rack, or the topic is unknown."""
        known, brokers = self._topics.get(topic), self.brokers
        racks = {node: broker.rack for node, broker in brokers.items() if broker.rack is not None}
        return [] if known is None else [frozenset(racks[node] for node in nodes if node in racks) for nodes in known.replicas]

    def topic_id(self, topic: str) -> UUID | None:
        """None if the topic is unknown, or the brokers are too old for topic ids."""
        known = self._topics.get(topic)
        return None if known is None else known.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """None if no topic in use has or had the id."""
        return self._names.get(topic_id)

    def topic_error(self, topic: str) -> ErrorCode | None:
        """The error of `topic` in the last response, or None. For any thread."""
        known = self._topics.get(topic)
        return None if known is None else known.error

    def refusal(self, topic: str, after_request: int = 0) -> BrokerError | None:
        """The lasting error of `topic` in the last response; None without one, or if the response answers no request after `after_request`.

        A user of `topic` passes the number of the last request before its first use: the right may have been granted since.
        """
        known = self._topics.get(topic)
        return None if known is None else known.refusal(topic, after_request)

    def unknown_since(self, topic: str) -> float | None:
        """The time at which brokers began to report `topic` as missing, or None."""
        known = self._topics.get(topic)
        return None if known is None else known.missing_since

    def was_missing(self, topic: str, seconds: float) -> bool:
        known = self._topics.get(topic)
        return known is not None and known.was_missing(seconds)

    def age(self, topic: str, now: float) -> float:
        """The seconds since the last request for `topic`; INFINITY if there was none."""
        known = self._topics.get(topic)
        return INFINITY if known is None else now - known.asked_at
