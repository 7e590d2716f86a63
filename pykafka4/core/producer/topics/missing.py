"""Fails the records of topics that no longer exist: topics that were missing for `unknown_topic_timeout_ms` or `delivery_timeout_ms`,
whichever is shorter. Errors name the topic.

Parked records wait for the same time. Brokers learn of a topic at different times, so it may be missing for a moment.
"""

from __future__ import annotations

from typing import Final, Protocol

from pykafka4.core import INFINITY
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.errors import KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME

__all__ = ["MissingTopics"]

CHECK_AGAIN_S: Final = 1.0  # seconds to the next check, if no broker has reported the topic as missing since the end of the wait


class TopicBatches(Protocol):
    """The part of the sender that `MissingTopics` uses."""

    def oldest_of(self, topic: str) -> float:
        """The time when the oldest record in a sealed or due batch was sent; INFINITY if there is none."""

    def fail_old(self, topic: str, now: float, age: float, error: KafkaError) -> None:
        """Fail the batches whose oldest record was sent `age` seconds ago or earlier."""


class MissingTopics:
    def __init__(self, cluster: Cluster, patience: float, batches: TopicBatches) -> None:
        """`patience` is in seconds."""
        self._cluster, self._patience = cluster, patience
        self._batches = batches
        self._due: dict[str, float] = {}  # topic -> the time of its next check
        self.wake_at = INFINITY

    def note(self, topic: str) -> None:
        """Begin or end the wait for `topic`: its metadata changed, or it has a new batch."""
        since = self._cluster.unknown_since(topic)
        if since is None:
            self._due.pop(topic, None)
        elif topic not in self._due:
            self._due[topic] = since + self._patience
            self.wake_at = min(self.wake_at, self._due[topic])

    def run(self, now: float) -> None:
        if now < self.wake_at:
            return
        for topic in [topic for topic, due in self._due.items() if due <= now]:
            del self._due[topic]
            self._look(topic, now)
        self.wake_at = min(self._due.values(), default=INFINITY)

    def _look(self, topic: str, now: float) -> None:
        since = self._cluster.unknown_since(topic)
        if since is None:
            return
        if since + self._patience <= now:
            if not self._cluster.was_missing(topic, self._patience):
                self._due[topic] = now + CHECK_AGAIN_S  # perhaps there was no broker to send a request to
                return
            code = self._cluster.topic_error(topic) or BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"]
            error = broker_error(code.code, f"topic {topic!r} did not exist for {self._patience:g} s", topic=topic)
            self._batches.fail_old(topic, now, self._patience, error)
        oldest = self._batches.oldest_of(topic)
        if oldest < INFINITY:
            self._due[topic] = max(since, oldest) + self._patience
