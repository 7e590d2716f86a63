"""Keeps partitions offline after a failure, and brings them back one by one; none waits for another.

A partition is offline from `report` until the metadata names a leader whose connection is READY, and its own back-off is over. The back-off
goes on doubling until a request for the partition succeeded (`healthy`), so that one that fails every time is not hammered. When the
metadata names another leader, or a newer epoch, than the one that failed, there is nothing to wait for.

A poll looks only at partitions that something happened to: their topic changed, the broker they wait for got connected, their back-off is
over. Thousands that have no leader for hours cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Effects
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Change, Cluster
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.network.network import Network
from pykafka4.core.timers import Timers
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition

__all__ = ["Offline", "PartitionOffline", "PartitionOnline", "Recovery"]

SLACK = 0.01  # seconds: partitions that are due within so little are looked at together, thousands of them in one turn
SLACK_PART = 0.1  # of retry_backoff_ms, at most: a short back-off is not skipped


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
    awaits: int | None = None  # the broker whose connection it waits for


@attrs.define(eq=False)
class Outage:
    """The partitions of a topic that are offline."""

    backoff: Backoff  # between questions for the topic
    partitions: dict[TopicPartition, None] = attrs.Factory(dict)
    asking: bool = False  # a timer for the next question is set


class Recovery:
    """The machine that brings partitions back."""

    def __init__(self, config: ClientConfig, cluster: Cluster, network: Network, random: Random, emit: Callable[[object], None]) -> None:
        self.offline: dict[TopicPartition, Offline] = {}  # read only, for others
        self.changes = 0  # grows when a partition came online
        self.on_online: list[Callable[[TopicPartition], None]] = []
        self._config, self._cluster, self._network, self._random, self._emit = config, cluster, network, random, emit
        self._backoffs: dict[str, dict[TopicPartition, Backoff]] = {}  # by topic, of those not healthy since their last failure
        self._outages: dict[str, Outage] = {}  # by topic
        self._awaited: dict[int, dict[TopicPartition, None]] = {}  # broker -> partitions that wait for its connection
        self._changed: set[str] = set()  # topics with partitions to look at
        self._network_changes = -1
        self._up = False  # a broker was connected when that was looked at last
        self._timers = Timers()
        self._slack = min(SLACK, SLACK_PART * config.retry_backoff_ms / 1000)
        cluster.on_change.append(self._on_change)
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
        backoffs = self._backoffs.setdefault(tp.topic, {})
        backoff = backoffs.get(tp) or backoffs.setdefault(tp, self._new_backoff())
        leader = self._cluster.leader(tp)
        failed = leader if node is None or leader is None or leader.node == node else None
        self.offline[tp] = offline = Offline(now, reason, backoff.attempts + 1, failed, now + backoff.next())
        outage = self._outages.get(tp.topic) or self._outages.setdefault(tp.topic, Outage(self._new_backoff()))
        outage.partitions[tp] = None
        self._cluster.refresh(now, (tp.topic,))
        self._changed.add(tp.topic)
        self._timers.at(offline.not_before, partial(self._look, tp))
        self._emit(PartitionOffline(tp, reason))

    def healthy(self, tp: TopicPartition) -> None:
        """A request for `tp` succeeded: its next failure is a first one again."""
        if self._backoffs and tp not in self.offline and (backoffs := self._backoffs.get(tp.topic)) is not None:
            backoffs.pop(tp, None)
            if not backoffs:
                del self._backoffs[tp.topic]

    def poll(self, now: float) -> Effects:
        """Look at the partitions that something happened to."""
        if not self.offline:
            self._changed.clear()
            if self._timers.wake_at != INFINITY:
                self._timers = Timers()
            return NOTHING
        if self._changed:
            changed, self._changed = self._changed, set()
            for topic in sorted(changed):  # a set has another order in every process, and no run could be repeated
                for tp in list(self._outages[topic].partitions) if topic in self._outages else ():
                    self._look(tp, now)
        if self._network_changes != self._network.changes:
            self._network_changes = self._network.changes
            self._look_at_awaited(now)
        self._timers.run(now + self._slack)
        return Effects(wake_at=self._timers.wake_at)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Nobody waits here."""
        return ()

    def _new_backoff(self) -> Backoff:
        return Backoff.retry(self._config, self._random)

    def _on_change(self, change: Change) -> None:
        self._changed.update(change.topics & self._outages.keys())

    def _forgotten(self, topic: str) -> None:
        """Nobody needs the partitions of `topic` any more."""
        self._backoffs.pop(topic, None)
        if (outage := self._outages.get(topic)) is not None:
            for tp in list(outage.partitions):
                self._end(tp)

    def _look(self, tp: TopicPartition, now: float) -> None:
        """Bring `tp` back, or see to it that something will: its topic changes, a connection, the end of its back-off."""
        offline = self.offline.get(tp)
        if offline is None:
            return
        leader = self._cluster.leader(tp)
        self._await(tp, offline, None if leader is None or self._network.ready(leader.node) else leader.node)
        if leader is None or offline.awaits is not None:
            self._ask_later(tp.topic, now)
        # Its timer may have run early, while the leader was not connected: there will be no other.
        elif now + self._slack >= offline.not_before or leader != offline.failed:
            self._end(tp)
            self.changes += 1
            for listener in self.on_online:
                listener(tp)
            self._emit(PartitionOnline(tp))

    def _look_at_awaited(self, now: float) -> None:
        for node in [node for node in self._awaited if self._network.ready(node)]:
            for tp in list(self._awaited[node]):
                self._look(tp, now)
        if self._network.up and not self._up:
            for topic in self._outages:
                self._ask_later(topic, now)
        self._up = self._network.up

    def _await(self, tp: TopicPartition, offline: Offline, node: int | None) -> None:
        """Have `tp` looked at when `node` is connected; None: no longer."""
        if node is not None:
            self._network.want(node)
        if node == offline.awaits:
            return
        if offline.awaits is not None:
            waiting = self._awaited[offline.awaits]
            del waiting[tp]
            if not waiting:
                del self._awaited[offline.awaits]
        offline.awaits = node
        if node is not None:
            self._awaited.setdefault(node, {})[tp] = None

    def _ask_later(self, topic: str, now: float) -> None:
        """Ask for `topic` after a back-off, unless the cluster does that by itself. With no broker connected there is nobody to ask."""
        outage = self._outages[topic]
        if not outage.asking and self._network.up and not self._cluster.seeks(topic):
            outage.asking = True
            self._timers.at(now + outage.backoff.next(), partial(self._ask, topic))

    def _ask(self, topic: str, now: float) -> None:
        """The leader cannot be reached, or the metadata does not know the partition: perhaps there is news."""
        outage = self._outages.get(topic)
        if outage is None:
            return
        outage.asking = False
        self._cluster.refresh(now, (topic,))
        for tp in outage.partitions:
            if (node := self.offline[tp].awaits) is not None:
                self._network.want(node)
        self._ask_later(topic, now)

    def _end(self, tp: TopicPartition) -> None:
        self._await(tp, self.offline[tp], None)
        del self.offline[tp]
        outage = self._outages[tp.topic]
        del outage.partitions[tp]
        if not outage.partitions:
            del self._outages[tp.topic]


NOTHING = Effects(wake_at=INFINITY)
