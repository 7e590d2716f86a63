"""Recovery. Rule: partitions go offline and come back one by one; none waits for another.

A partition is offline from `report` until the picture names a leader whose connection is READY, and its own back-off is over. The back-off
goes on doubling until a request for the partition succeeded (`healthy`), so that one that fails every time is not hammered. When the
picture names another leader, or a newer epoch, than the one that failed, there is nothing to wait for.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Effects
from pykafka4.core.backoff import Backoff
from pykafka4.core.cluster import Cluster
from pykafka4.core.network import Network
from pykafka4.core.topic import Leader
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Offline", "PartitionOffline", "PartitionOnline", "Recovery"]

SLACK = 0.01  # seconds: partitions that are due within so little are looked at together, thousands of them in one turn


@attrs.frozen
class PartitionOffline:
    """Event: requests for `tp` fail; what is sent to it waits."""

    tp: TopicPartition
    reason: KafkaError


@attrs.frozen
class PartitionOnline:
    """Event: `tp` has a leader again that can be reached."""

    tp: TopicPartition


@attrs.define(eq=False)
class Offline:
    """Why a partition is offline, and since when (monotonic seconds)."""

    since: float
    reason: KafkaError
    attempts: int
    failed: Leader | None  # who led it when it failed
    not_before: float
    armed: bool = False  # a timer is in the heap


class Recovery:
    """The machine that brings partitions back."""

    def __init__(self, config: ClientConfig, cluster: Cluster, network: Network, random: Random, emit: Callable[[object], None]) -> None:
        self.offline: dict[TopicPartition, Offline] = {}  # read only, for others
        self.changes = 0  # grows when a partition came online
        self._config, self._cluster, self._network, self._random, self._emit = config, cluster, network, random, emit
        self._backoffs: dict[TopicPartition, Backoff] = {}  # of those not healthy since their last failure
        self._timers: list[tuple[float, TopicPartition]] = []
        self._seen = (-1, -1)
        cluster.on_forgotten.append(self._forgotten)

    def leader(self, tp: TopicPartition) -> Leader | None:
        """Who takes requests for `tp`; None while it is offline, has no leader, or is not known."""
        return None if tp in self.offline else self._cluster.leader(tp)

    def report(self, now: float, tp: TopicPartition, reason: KafkaError, node: int | None = None) -> None:
        """A request for `tp` failed in a way that another leader or some patience can cure. `node` is who failed it, if known."""
        if not self._cluster.wants(tp.topic):  # the answer to a request of somebody who is gone
            return
        known = self.offline.get(tp)
        if known is not None:  # several requests were under way: one failure, not many
            known.reason = reason
            return
        backoff = self._backoffs.get(tp) or self._backoffs.setdefault(tp, Backoff.retry(self._config, self._random))
        leader = self._cluster.leader(tp)
        failed = leader if node is None or leader is None or leader.node == node else None
        self.offline[tp] = offline = Offline(now, reason, backoff.attempts + 1, failed, now + backoff.next())
        self._cluster.refresh(now, (tp.topic,))
        self._arm(tp, offline)
        self._seen = (-1, -1)
        self._emit(PartitionOffline(tp, reason))

    def healthy(self, tp: TopicPartition) -> None:
        """A request for `tp` succeeded: its next failure is a first one again."""
        if self._backoffs and tp not in self.offline:
            self._backoffs.pop(tp, None)

    def poll(self, now: float) -> Effects:
        """Look at those whose time has come; at all of them when brokers or leaders changed."""
        if not self.offline and not self._timers:
            return NOTHING
        seen = (self._cluster.version, self._network.changes)
        if seen != self._seen:
            self._seen = seen
            for tp in list(self.offline):
                self._look(now, tp)
        while self._timers and self._timers[0][0] <= now + SLACK:
            _, tp = heapq.heappop(self._timers)
            if (offline := self.offline.get(tp)) is not None:
                offline.armed = False
                self._look(now, tp)
        return Effects(wake_at=self._timers[0][0]) if self._timers else NOTHING

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Nobody waits here."""
        return ()

    def _forgotten(self, topic: str) -> None:
        """Nobody needs the partitions of `topic` any more."""
        for known in (self._backoffs, self.offline):
            for tp in [tp for tp in known if tp.topic == topic]:
                del known[tp]

    def _look(self, now: float, tp: TopicPartition) -> None:
        """Bring `tp` back, or see to it that it can come back."""
        offline = self.offline[tp]
        leader = self._cluster.leader(tp)
        rested = now + SLACK >= offline.not_before
        if leader is not None:
            if self._network.ready(leader.node) and (rested or leader != offline.failed):
                self._bring_back(tp)
                return
            self._network.want(leader.node)
        if rested and self._network.up:
            self._again(now, tp, offline)
        self._arm(tp, offline)

    def _again(self, now: float, tp: TopicPartition, offline: Offline) -> None:
        """No leader in reach: ask once more."""
        offline.attempts += 1
        offline.not_before = now + self._backoffs[tp].next()
        self._cluster.refresh(now, (tp.topic,))

    def _arm(self, tp: TopicPartition, offline: Offline) -> None:
        """Look again when its rest is over. With no broker connected there is nothing to look at: the network's news wake us."""
        if not offline.armed and self._network.up:
            offline.armed = True
            heapq.heappush(self._timers, (offline.not_before, tp))

    def _bring_back(self, tp: TopicPartition) -> None:
        del self.offline[tp]
        self.changes += 1
        self._emit(PartitionOnline(tp))


NOTHING = Effects(wake_at=INFINITY)
