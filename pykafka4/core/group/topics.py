"""Subscribed topics. Rule: partitions added after the subscription are read from their beginning, even with auto_offset_reset=latest."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from pykafka4.config import ConsumerConfig
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import MISSING, Cluster
from pykafka4.core.subscription import Lasting, Start, Trouble
from pykafka4.errors import AuthorizationError, KafkaError
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition

__all__ = ["SubscribedTopics"]

log = get_log("pykafka4.group")


class Listener(Protocol):
    """What hears of a topic with an error that is not retriable."""

    def put(self, item: object) -> None:
        """Have `poll` raise it."""

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise that a right is missing."""


class SubscribedTopics:
    """The topics that a member is subscribed to; their metadata is kept up to date."""

    __slots__ = ("_asked", "_changes", "_cluster", "_config", "_ids", "_listener", "_policy", "_sizes", "names")

    def __init__(self, config: ConsumerConfig, cluster: Cluster, listener: Listener) -> None:
        self._config, self._cluster, self._listener = config, cluster, listener
        self._policy = Start(config.auto_offset_reset)
        self.names: tuple[str, ...] = ()
        self._sizes: dict[str, int] = {}  # partitions per topic when it was first looked at
        self._ids: dict[str, UUID | None] = {}  # of these topics
        self._asked: dict[str, int] = {}  # the last Metadata request before the subscription to each topic
        self._changes: TopicChanges | None = None  # while there is a subscription

    def replace(self, names: tuple[str, ...]) -> None:
        """Subscribe to `names` from now on."""
        for topic in sorted(set(self.names) - set(names)):
            self._cluster.forget(topic, self)
            self._sizes.pop(topic, None)
            self._ids.pop(topic, None)
            self._asked.pop(topic, None)
        self.names = names
        if self._changes is None:
            self._changes = TopicChanges(self._cluster)
        for topic in names:
            self._asked.setdefault(topic, self._cluster.asked)
            self._cluster.want(topic, self)
            self._changes.note(topic)

    def clear(self) -> None:
        """Subscribe to nothing, and forget the numbers of partitions."""
        for topic in self.names:
            self._cluster.forget(topic, self)
        self.names = ()
        self._sizes.clear()
        self._ids.clear()
        self._asked.clear()
        if self._changes is not None:
            self._changes.end()
            self._changes = None

    def look(self) -> None:
        """Look at changed topics: store the number of partitions at the first look, and report errors that are not retriable."""
        if self._changes is not None and (changed := self._changes.take_topics()):
            for topic in sorted(set(self.names).intersection(changed)):
                self._look_at(topic)

    def _look_at(self, topic: str) -> None:
        """All partitions of a topic that is created or recreated later are new."""
        error, before = self._cluster.topic_error(topic), self._ids.get(topic)
        refusal = self._cluster.refusal(topic, self._asked[topic])
        topic_id = self._ids[topic] = self._cluster.topic_id(topic) or before
        if isinstance(refusal, AuthorizationError):  # it is not new: when the right is granted, reading starts as if it was there before
            self._listener.tell_denied(refusal)
        elif topic in self._sizes:
            missing = error is not None and error.code in MISSING and not self._cluster.partitions(topic)
            if missing or (before is not None and topic_id != before):
                self._sizes[topic] = 0
        elif self._cluster.partitions(topic):
            self._sizes[topic] = self._cluster.partitions(topic)
        elif error is not None and error.name == "UNKNOWN_TOPIC_OR_PARTITION":
            self._sizes[topic] = 0
            log.warning(
                "%s: group %s: subscribed topic %r does not exist; it will be consumed once it is created",
                self._config.client_id,
                self._config.group_id,
                topic,
            )
        elif refusal is not None:
            self._sizes[topic] = 0
            self._listener.put(Trouble(None, refusal, Lasting.ONCE))

    def fallback(self, tp: TopicPartition) -> Start:
        """Where to start without a committed offset: new partitions are read from their beginning."""
        is_new = tp.partition >= self._sizes.get(tp.topic, tp.partition + 1)
        return Start.EARLIEST if is_new and self._policy is Start.LATEST else self._policy
