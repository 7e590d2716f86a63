"""Parking. Rule: `send` never waits for metadata; records of a topic not known yet wait here, in order, and no longer than they may.

The records themselves lie in the accumulator. This machine learns the topic's partitions, has the records moved a slice per turn, and
fails them when the topic stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.config import ProducerConfig
from pykafka4.core import INFINITY
from pykafka4.core.cluster import Cluster
from pykafka4.core.network import Network
from pykafka4.errors import KafkaError, KafkaTimeoutError, broker_error, short_name
from pykafka4.wire.hot import Accumulator

__all__ = ["Parking"]

SLICE = 1000  # records moved per turn: the loop stays responsive

Lost = Callable[[str, str, Exception, int, Callable[[], None] | None], None]


class Parking:
    """The topics a producer writes to, and their records that have no partition yet."""

    __slots__ = ("_acc", "_cluster", "_config", "_lost", "_network", "_picture", "_told", "_waiting")

    def __init__(self, config: ProducerConfig, accumulator: Accumulator, cluster: Cluster, network: Network, lost: Lost) -> None:
        """`lost(topic, code, cause, records, callbacks)` hears of every parked record that failed."""
        self._config, self._acc, self._cluster, self._network, self._lost = config, accumulator, cluster, network, lost
        self._told: dict[str, tuple[int, tuple[int, ...]]] = {}  # what the accumulator knows of each topic
        self._waiting: dict[str, None] = {}  # in the order they came: a set's order differs from process to process
        self._picture = -1

    def __bool__(self) -> bool:
        return bool(self._waiting)

    @property
    def topics(self) -> list[str]:
        """Every topic that was ever sent to."""
        return list(self._told | self._waiting)

    def want(self, topic: str) -> None:
        """The first record for `topic` is parked."""
        self._waiting[topic] = None
        self._cluster.want(topic, create=True)
        self._picture = -1

    def fail(self, topic: str, reason: KafkaError, before: float = INFINITY) -> None:
        """Hand back the records of `topic` that were parked up to `before`."""
        failed, callbacks = self._acc.fail_parked(topic, reason, before)
        if failed:
            self._lost(topic, short_name(reason), reason, failed, callbacks)

    def poll(self, now: float) -> float:
        """Move or fail what can be; returns when to look again: `now` while a slice is left."""
        if self._cluster.version != self._picture:
            self._picture = self._cluster.version
            for topic in self.topics:
                self._tell(topic)
        return min((self._look(topic, now) for topic in list(self._waiting)), default=INFINITY)

    def _tell(self, topic: str) -> None:
        known = (self._cluster.partitions(topic), tuple(self._cluster.available(topic)))
        if known[0] and known != self._told.get(topic):
            self._told[topic] = known
            self._acc.set_partitions(topic, *known)

    def _look(self, topic: str, now: float) -> float:
        if topic not in self._told:
            return self._wait(topic, now)
        left, misplaced = self._acc.designate(topic, SLICE)
        for code, error, callbacks in misplaced:
            self._lost(topic, code, error, 1, callbacks)
        if not left:
            self._waiting.pop(topic, None)
        return now

    def _wait(self, topic: str, now: float) -> float:
        error = self._cluster.topic_error(topic)
        if error is not None and not error.retriable:
            self.fail(topic, broker_error(error.code, f"topic {topic}"))
            return INFINITY
        patience = min(self._config.unknown_topic_timeout_ms, self._config.delivery_timeout_ms) / 1000
        parked, oldest = self._acc.parked(topic)
        if parked and oldest + patience <= now:
            self._give_up(topic, patience, now)
            parked, oldest = self._acc.parked(topic)
        return oldest + patience if parked else INFINITY

    def _give_up(self, topic: str, patience: float, now: float) -> None:
        error = self._cluster.topic_error(topic)
        if error is not None:
            self.fail(topic, broker_error(error.code, f"no such topic {topic!r} for {patience:g} s"), now - patience)
        else:
            why = self._network.why_unreachable() or self._cluster.error or "the brokers give no answer"
            timeout = KafkaTimeoutError(f"topic {topic} could not be looked up for {patience:g} s: {why}")
            self.fail(topic, timeout, now - patience)
