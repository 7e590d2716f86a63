"""Keeps failed partitions offline, and brings each back online as soon as requests for it may succeed.

Invariant: an offline partition of a topic in use stays offline until its leader is connected, and its own backoff has ended or its leader
has changed; no partition waits for another.

A partition's backoff keeps doubling until a request for the partition succeeds (`healthy`), so that a partition whose requests always fail
is not retried too often. A partition that went offline although no request for it failed (`take_offline`) waits for no backoff.

A poll checks only partitions with an event: their topic changed, the broker that they wait for is connected, or their backoff has ended.
So thousands of partitions that have no leader for hours do not slow down the polls. The cluster requests topics without a leader again
(`Cluster._pace`, `MetadataQueue`). Recovery itself requests a topic after a failure (`report`), and later, with a backoff, if a leader
cannot be reached or the metadata lacks the partition, unless the cluster already requests the topic (`seeks`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

import attrs

from pykafka4.core import INFINITY, Effects
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster, MetadataChange
from pykafka4.core.metadata.events import EventSink
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.network.network import Network
from pykafka4.core.network.troubles import WARN_AFTER_S
from pykafka4.core.timers import Timers
from pykafka4.errors import KafkaError
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition

__all__ = ["Offline", "PartitionOffline", "PartitionOnline", "Recovery"]

# Seconds: partitions that are due within this time are handled together. Because backoffs have a jitter, thousands of partitions would
# otherwise take one turn of the loop each after the loss of a broker.
SLACK_S = 0.01
SLACK_PART = 0.1  # the maximum of the slack as a part of retry_backoff_ms, so that a short backoff is not skipped


@attrs.frozen
class PartitionOffline:
    """Event: a request for `tp` failed, or `tp` has no reachable leader.

    Until `tp` is online, no producer sends records to its leader, and no consumer fetches from it.
    """

    tp: TopicPartition
    reason: KafkaError


@attrs.frozen
class PartitionOnline:
    """Event: the client sends requests to the leader of `tp` again."""

    tp: TopicPartition


@attrs.define(eq=False)
class Offline:
    """Why and since when (monotonic seconds) a partition is offline."""

    since: float
    reason: KafkaError
    attempts: int  # failed attempts; 0 after `take_offline`
    failed: Leader | None  # the leader that failed; None: no leader failed, or the leader that failed no longer leads
    not_before: float
    awaits: int | None = None  # the broker for whose connection the partition waits


@attrs.define(eq=False)
class Outage:
    backoff: Backoff  # between requests for the topic's metadata
    partitions: dict[TopicPartition, None] = attrs.Factory(dict)
    asking: bool = False  # a timer for the next request is set


class Recovery:
    def __init__(self, config: ClientConfig, cluster: Cluster, network: Network, random: Random, events: EventSink) -> None:
        self.offline: dict[TopicPartition, Offline] = {}  # other machines and threads only read this dict
        self.changes = 0  # incremented when a partition comes online
        self.losses = 0  # incremented when a partition goes offline
        self.on_online: list[Callable[[TopicPartition], None]] = []
        self._config, self._cluster, self._network, self._random, self._events = config, cluster, network, random, events
        self._backoffs: dict[str, dict[TopicPartition, Backoff]] = {}  # by topic, after failed requests; `healthy` drops them
        self._outages: dict[str, Outage] = {}  # by topic
        self._awaited: dict[int, dict[TopicPartition, None]] = {}  # broker -> partitions that wait for its connection
        self._changed: set[str] = set()  # topics with partitions to check
        self._network_changes = -1
        self._up = False  # whether a broker was connected at the last check
        self._timers = Timers()
        self._tell_at = INFINITY  # when to note again that partitions are offline
        self._slack = min(SLACK_S, SLACK_PART * config.retry_backoff_ms / 1000)
        cluster.on_change.append(self._on_change)
        cluster.on_forgotten.append(self._forgotten)

    def leader(self, tp: TopicPartition) -> Leader | None:
        """The leader for requests to `tp`; None while the partition is offline, leaderless or unknown."""
        return None if self.offline and tp in self.offline else self._cluster.leader(tp)

    def report(self, now: float, tp: TopicPartition, reason: KafkaError, node: int | None = None) -> None:
        """Take `tp` offline after an error that another leader or a retry may resolve. `node` is the request's destination, if known."""
        if not self._cluster.wants(tp.topic):  # the response to a request of a machine that has ended
            return
        self.note_retry(now, tp, reason)
        known = self.offline.get(tp)
        if known is not None:  # several requests were in flight: count one failure
            known.reason = reason
            return
        backoff, leader = self._backoffs[tp.topic][tp], self._cluster.leader(tp)
        # If another broker leads `tp` now, that broker has not failed: with `failed` None the partition does not wait for the backoff,
        # because `_look` finds that the current leader differs from `failed`.
        failed = leader if node is None or leader is None or leader.node == node else None
        self._cluster.refresh(now, (tp.topic,))
        self._begin(now, tp, Offline(now, reason, backoff.attempts + 1, failed, now + backoff.next()))

    def note_retry(self, now: float, tp: TopicPartition, reason: KafkaError) -> None:
        """Record a failed request that its sender repeats, without taking `tp` offline."""
        if self._cluster.wants(tp.topic):
            self._network.troubles.note(now, tp, reason)
            backoffs = self._backoffs.setdefault(tp.topic, {})
            if tp not in backoffs:
                backoffs[tp] = self._new_backoff()

    def take_offline(self, now: float, tp: TopicPartition, reason: KafkaError, since: float | None = None) -> None:
        """Take `tp` offline although no request for it failed: `tp` has no leader, or there is no connection to its leader.

        The partition waits for no backoff. This call requests no metadata: `Cluster` or `_ask_later` does.
        """
        if (known := self.offline.get(tp)) is not None:
            known.reason = reason
        elif self._cluster.wants(tp.topic):
            self._network.troubles.note(now, tp, reason)
            self._begin(now, tp, Offline(now if since is None else since, reason, 0, None, now))

    def _begin(self, now: float, tp: TopicPartition, offline: Offline) -> None:
        if not self.offline:
            self._tell_at = now + WARN_AFTER_S
        self.offline[tp] = offline
        self.losses += 1
        outage = self._outages.get(tp.topic) or self._outages.setdefault(tp.topic, Outage(self._new_backoff()))
        outage.partitions[tp] = None
        self._changed.add(tp.topic)
        self._timers.at(offline.not_before, partial(self._look, tp))
        self._events.emit(PartitionOffline(tp, offline.reason))

    def healthy(self, tp: TopicPartition) -> None:
        """Drop the backoff of `tp` after a successful request, unless `tp` is offline."""
        if self._backoffs and tp not in self.offline and (backoffs := self._backoffs.get(tp.topic)) is not None:
            if backoffs.pop(tp, None) is not None:
                self._network.troubles.over(tp)
            if not backoffs:
                del self._backoffs[tp.topic]

    def poll(self, now: float) -> Effects:
        if not self.offline:
            self._changed.clear()
            if self._timers.wake_at != INFINITY:
                self._timers = Timers()
            return NOTHING
        if self._changed:
            changed, self._changed = self._changed, set()
            for topic in sorted(changed):  # the order of a set differs between processes; runs must be repeatable
                for tp in list(self._outages[topic].partitions) if topic in self._outages else ():
                    self._look(tp, now)
        if self._network_changes != self._network.changes:
            self._network_changes = self._network.changes
            self._look_at_awaited(now)
        self._timers.run(now + self._slack)
        if now >= self._tell_at and self.offline:
            self._tell_at = now + WARN_AFTER_S
            tp, offline = next(iter(self.offline.items()))  # the oldest
            self._network.troubles.note(now, tp, offline.reason)
        return Effects(wake_at=min(self._timers.wake_at, self._tell_at) if self.offline else INFINITY)

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Do nothing: no call waits for recovery."""
        return ()

    def _new_backoff(self) -> Backoff:
        return Backoff.retry(self._config, self._random)

    def _on_change(self, change: MetadataChange) -> None:
        self._changed.update(change.topics & self._outages.keys())

    def _forgotten(self, topic: str) -> None:
        for tp in self._backoffs.pop(topic, ()):
            self._network.troubles.over(tp)
        if (outage := self._outages.get(topic)) is not None:
            for tp in list(outage.partitions):
                self._end(tp)

    def _look(self, tp: TopicPartition, now: float) -> None:
        """Bring `tp` online if possible. If not, the next change of its topic, a connection or a timer calls this method again."""
        offline = self.offline.get(tp)
        if offline is None:
            return
        leader = self._cluster.leader(tp)
        self._await(tp, offline, None if leader is None or self._network.ready(leader.node) else leader.node)
        if leader is None or offline.awaits is not None:
            self._ask_later(tp.topic, now)
        # `_slack` also applies here: the timer of `tp` may have run early by `_slack`, and no other timer is set. With an exact comparison,
        # `tp` would stay offline.
        elif now + self._slack >= offline.not_before or leader != offline.failed:
            self._end(tp)
            self.changes += 1
            for listener in self.on_online:
                listener(tp)
            self._events.emit(PartitionOnline(tp))

    def _look_at_awaited(self, now: float) -> None:
        for node, partitions in list(self._awaited.items()):
            if not self._network.ready(node):
                self._network.want(node)  # again: the connection may have been made, and lost, since the last check
                continue
            for tp in list(partitions):
                self._look(tp, now)
        if self._network.up and not self._up:
            for topic in self._outages:
                self._ask_later(topic, now)
        self._up = self._network.up

    def _await(self, tp: TopicPartition, offline: Offline, node: int | None) -> None:
        """Check `tp` when `node` is connected; if `node` is None, stop waiting for a connection."""
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
        """Request the metadata of `topic` after a backoff, unless `Cluster` requests it anyway or no broker is connected."""
        outage = self._outages[topic]
        if not outage.asking and self._network.up and not self._cluster.seeks(topic):
            outage.asking = True
            self._timers.at(now + outage.backoff.next(), partial(self._ask, topic))

    def _ask(self, topic: str, now: float) -> None:
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
        if not self.offline.pop(tp).attempts:  # `take_offline`: the trouble of `tp` ends before a request succeeds
            self._network.troubles.over(tp)
        outage = self._outages[tp.topic]
        del outage.partitions[tp]
        if not outage.partitions:
            del self._outages[tp.topic]


NOTHING = Effects(wake_at=INFINITY)
