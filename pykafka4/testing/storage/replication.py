"""Copies each partition's log to its followers, elects leaders, and keeps the in-sync replicas and the high watermark of each partition.

Invariant: every running in-sync replica has all records below the high watermark, except after an unclean election.

With a delay of 0, the default, followers copy at once, and a follower leaves the in-sync replicas when its broker stops. With a delay, a
follower copies that many seconds after a write, and only while its broker and the leader run. As in Kafka, the follower learns of a higher
high watermark one copy later. It leaves the in-sync replicas when the controller notices that its broker has stopped, or when it has been
behind for `lag_max` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from pykafka4.records import TopicPartition
from pykafka4.testing.broker import Broker
from pykafka4.testing.storage.partition import NO_LEADER, Partition, Replica, Topic, Topics
from pykafka4.testing.storage.purgatory import Purgatory
from pykafka4.testing.timeline import Timeline

__all__ = ["Replication"]

LAG_MAX_S: Final = 30.0  # seconds: the default of replica.lag.time.max.ms


class Replication:
    def __init__(self, brokers: Mapping[int, Broker], topics: Topics, timeline: Timeline, random: Random) -> None:
        self._brokers, self._topics, self._timeline, self._random = brokers, topics, timeline, random
        self.fetches: Purgatory[TopicPartition] = Purgatory(timeline)  # Fetch and ShareFetch requests that wait for records
        self.produces: Purgatory[Partition] = Purgatory(timeline)  # Produce requests that wait for the high watermark
        self.delay = 0.0  # seconds that a follower takes to copy
        self.lag_max = LAG_MAX_S  # seconds that a follower may be behind and stay in sync
        self.waits_below_min = True
        self._delays: dict[int, float] = {}  # broker: its own delay, instead of `delay`
        self._paused: dict[int, float] = {}  # broker: the time until which it copies nothing
        self.on_truncate: list[Callable[[TopicPartition, int], None]] = []  # called with (partition, first lost offset)

    # ---- faults

    def slow_follower(self, node: int, seconds: float) -> None:
        if seconds > 0:
            self._delays[node] = seconds
        else:
            self._delays.pop(node, None)
        self.resume(node)

    def pause(self, node: int, seconds: float) -> None:
        self._paused[node] = max(self._paused.get(node, 0.0), self._timeline.now + seconds)
        self._timeline.at(self._paused[node], lambda: self.resume(node))

    def hold(self, partition: Partition, node: int, seconds: float) -> None:
        partition.held[node] = max(partition.held.get(node, 0.0), self._timeline.now + seconds)
        self._timeline.at(partition.held[node], lambda: self.spread(partition))

    def heal(self) -> None:
        self._delays.clear()
        self._paused.clear()
        for partition in self._topics.partitions():
            partition.held.clear()
        for node in self._brokers:
            self.resume(node)

    def resume(self, node: int) -> None:
        """Let a broker that can copy again or has restarted catch up, and let other brokers copy from it."""
        for partition in self._topics.partitions():
            if node in partition.copies:
                partition.copies[node].copying.cancel()
                self.spread(partition)

    # ---- writes

    def spread(self, partition: Partition) -> None:
        if partition.leader == NO_LEADER:
            return
        end = partition.log.end_offset
        partition.copies[partition.leader].confirmed = end
        for follower in partition.followers:
            self._attend(partition, follower)
        self._advance(partition)

    def force(self, partition: Partition) -> None:
        """Copy the log to all in-sync replicas and raise the high watermark to its end, even if brokers are down."""
        log = partition.log
        for node in partition.in_sync:
            copy = partition.copies[node]
            if copy.log is not log:
                copy.log.follow(log)
            copy.log.high_watermark = copy.confirmed = log.end_offset
        self.fetches.wake(partition.tp)

    def _attend(self, partition: Partition, follower: Replica) -> None:
        log = partition.log
        if follower.confirmed < log.end_offset and follower.behind_since is None:
            self._fell_behind(partition, follower)
        if follower.copying.pending or not self._copies(partition, follower.node):
            return
        delay = self._delay(follower.node)
        if delay <= 0:
            self._copy(partition, follower)
        elif self._lacks(partition, follower):
            follower.copying = self._timeline.after(delay, lambda: self._copied(partition, follower))

    def _delay(self, node: int) -> float:
        return self._delays.get(node, self.delay)

    def _lacks(self, partition: Partition, follower: Replica) -> bool:
        log = partition.log
        behind = follower.confirmed < log.end_offset or follower.log.high_watermark < log.high_watermark
        return behind or follower.log.start_offset < log.start_offset or follower.node not in partition.in_sync

    def _copies(self, partition: Partition, node: int) -> bool:
        """Whether this broker copies from the leader now. With a delay of 0, even frozen brokers copy."""
        brokers, now = self._brokers, self._timeline.now
        held = max(self._paused.get(node, 0.0), partition.held.get(node, 0.0))
        if not brokers[node].up or not brokers[partition.leader].up or held > now:
            return False
        return self._delay(node) <= 0 or (brokers[node].running(now) and brokers[partition.leader].running(now))

    def _copied(self, partition: Partition, follower: Replica) -> None:
        alive = self._topics.partition(*partition.tp) is partition
        if alive and partition.leader not in (NO_LEADER, follower.node) and self._copies(partition, follower.node):
            self._copy(partition, follower)
            self._advance(partition)
            self._attend(partition, follower)

    def _copy(self, partition: Partition, follower: Replica) -> None:
        """The follower gets the high watermark that the leader had before this copy."""
        log = partition.log
        follower.log.follow(log)
        follower.log.high_watermark = min(log.high_watermark, follower.log.end_offset)
        follower.confirmed = follower.log.end_offset
        follower.behind_since = None
        if follower.node not in partition.in_sync and follower.confirmed >= log.high_watermark:
            partition.in_sync = [n for n in partition.replicas if n in partition.in_sync or n == follower.node]

    def _advance(self, partition: Partition) -> None:
        log = partition.log
        below_min = len(partition.in_sync) < partition.min_in_sync and self.waits_below_min
        reached = min(partition.copies[node].confirmed for node in partition.in_sync)
        if reached > log.high_watermark and not below_min:
            log.high_watermark = reached
            for follower in partition.followers:
                if self._delay(follower.node) <= 0 and self._copies(partition, follower.node):
                    follower.log.high_watermark = min(reached, follower.log.end_offset)
                else:
                    self._attend(partition, follower)
            self.fetches.wake(partition.tp)
        self.produces.wake(partition)

    # ---- in-sync replicas

    def _fell_behind(self, partition: Partition, follower: Replica) -> None:
        follower.behind_since = self._timeline.now
        if follower.node in partition.in_sync and (self._delay(follower.node) > 0 or not self._copies(partition, follower.node)):
            self._timeline.after(self.lag_max, lambda: self._check_lag(partition, follower))

    def _check_lag(self, partition: Partition, follower: Replica) -> None:
        since = follower.behind_since
        if since is not None and self._timeline.now - since >= self.lag_max and partition.leader not in (NO_LEADER, follower.node):
            self.shrink(partition, follower.node)

    def shrink(self, partition: Partition, node: int) -> None:
        """Remove `node` from the in-sync replicas, unless it is the last of them."""
        if node in partition.in_sync and len(partition.in_sync) > 1:
            partition.in_sync = [n for n in partition.in_sync if n != node]
            if partition.leader != NO_LEADER:
                self._advance(partition)

    def stopped(self, node: int) -> None:
        """Without a delay, remove the broker from the in-sync replicas at once, as `gone` does."""
        if self._delay(node) <= 0:
            self.gone(node)

    def gone(self, node: int) -> None:
        """Remove a stopped broker from the in-sync replicas, except where it is the leader or the last of them."""
        for partition in self._topics.partitions():
            if partition.leader != node:
                self.shrink(partition, node)

    # ---- leaders

    def lead(self, partition: Partition, node: int) -> None:
        """Records that `node` lacks are lost; the other replicas copy from it."""
        before = partition.log
        unclean = node not in partition.in_sync
        partition.leader = partition.last_leader = node
        partition.epoch += 1
        partition.in_sync = [node] if unclean else [n for n in partition.in_sync if n == node or self._brokers[n].up]
        log = partition.log
        log.begin_epoch(partition.epoch)
        for copy in partition.copies.values():
            copy.confirmed, copy.behind_since = 0, None
            copy.copying.cancel()
        lost = None if log is before else before.divergence_from(log)
        if lost is not None:
            for watch in self.on_truncate:
                watch(partition.tp, lost)
        self.spread(partition)
        self.fetches.wake(partition.tp)

    def no_leader(self, partition: Partition) -> None:
        if partition.leader != NO_LEADER:
            partition.last_leader, partition.leader = partition.leader, NO_LEADER
        partition.epoch += 1
        self.fetches.wake(partition.tp)
        self.produces.wake(partition)

    def elect(self, partition: Partition) -> None:
        """Make an in-sync replica that is up the leader; if there is none but the topic allows unclean elections, any other that is up."""
        running = [n for n in partition.replicas if self._brokers[n].up]
        candidates = [n for n in running if n in partition.in_sync] or (running if partition.unclean else [])
        if candidates:
            self.lead(partition, self._random.choice(candidates))
        else:
            self.no_leader(partition)

    def elect_instead_of(self, node: int) -> None:
        """Elect leaders for the partitions that `node` leads; with NO_LEADER, for partitions without a leader."""
        for partition in [partition for partition in self._topics.partitions() if partition.leader == node]:
            self.elect(partition)

    def deleted(self, topic: Topic) -> None:
        self.fetches.wake_all()
        for partition in topic.partitions:
            self.produces.wake(partition)
