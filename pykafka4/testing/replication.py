"""Copies each partition's log to its followers, and keeps the in-sync replicas and the high watermark of the partition.

Invariant: every in-sync replica that runs has what is below the high watermark, except after an unclean election.

With a delay of 0, the default, followers have everything at once, and a broker leaves the in-sync replicas when it stops. With a
delay a follower copies that long after something was written, only while its broker and the leader's run, and it learns of a
higher high watermark one copy later, as in Kafka; a broker then stays in sync until the controller notices that it is gone, or until
it has been behind for `lag_max` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.log import PartitionLog
from pykafka4.testing.timeline import Moment

if TYPE_CHECKING:
    from pykafka4.testing.model import ModelCluster
    from pykafka4.testing.session import Call

__all__ = ["Acknowledgements", "Partition", "Replica", "Replication"]

NOBODY: Final = -1
LAG_MAX: Final = 30.0  # replica.lag.time.max.ms


@attrs.define(eq=False)
class Replica:
    """A partition's log on one broker."""

    node: int
    log: PartitionLog
    confirmed: int = 0  # end offset that the leader has seen
    behind_since: float | None = None
    copying: Moment | None = None


@attrs.define(eq=False)
class Partition:
    """A partition: its replicas, and who leads it (-1 is nobody)."""

    tp: TopicPartition
    leader: int
    epoch: int
    copies: dict[int, Replica]
    in_sync: list[int]
    min_in_sync: int = 1
    unclean: bool = False  # unclean.leader.election.enable
    last_leader: int = NOBODY
    waiting: list[Waiter] = attrs.Factory(list)
    held: dict[int, float] = attrs.Factory(dict)  # broker: it copies nothing of this partition before

    @property
    def replicas(self) -> tuple[int, ...]:
        """The brokers that hold it."""
        return tuple(self.copies)

    @property
    def log(self) -> PartitionLog:
        """The leader's log; without a leader, the last leader's."""
        return self.copies[self.last_leader if self.leader < 0 else self.leader].log

    @property
    def followers(self) -> Iterator[Replica]:
        """The replicas that do not lead."""
        return (copy for node, copy in self.copies.items() if node != self.leader)


@attrs.define(eq=False)
class Waiter:
    """A Produce request that waits for the in-sync replicas."""

    call: Call
    response: Any
    rows: list[Row]
    timer: Moment | None = None


@attrs.define(eq=False)
class Row:
    """One partition of a waiting request: `answer` is its part of the response, `offset` what the high watermark has to reach.

    None: it never does. The broker was replaced as the leader and does not know, and no replica copies what it has written.
    """

    partition: Partition
    answer: Any
    offset: int | None


class Acknowledgements:
    """Produce requests with acks=all that wait for the high watermark, at most for their timeout."""

    def __init__(self, cluster: ModelCluster, tell: Callable[[Call, Row, str], None], complete: Callable[[Call, Any], None]) -> None:
        self._cluster = cluster
        self._tell = tell  # puts an outcome into a row's answer
        self._complete = complete  # the response has all its outcomes

    def add(self, call: Call, response: Any, rows: list[Row], seconds: float) -> bool:
        """True when `response` is complete now; otherwise the call is answered later."""
        waiter = Waiter(call, response, rows)
        for row in rows:
            row.partition.waiting.append(waiter)
        self._settle(waiter)
        if not waiter.rows:
            self._complete(call, response)
            return True
        waiter.timer = self._cluster.timeline.after(seconds, lambda: self._expired(waiter))
        return False

    def check(self, partition: Partition) -> None:
        """Something changed about `partition`: answer what is complete."""
        for waiter in list(partition.waiting):
            self._settle(waiter)
            if not waiter.rows and waiter.timer is not None:
                self._answer(waiter)

    def _settle(self, waiter: Waiter) -> None:
        for row in list(waiter.rows):
            outcome = self._outcome(row, waiter.call.broker.node)
            if outcome is not None:
                self._done(waiter, row, outcome)

    def _outcome(self, row: Row, node: int) -> str | None:
        """Its error or NONE; None while it has to wait."""
        partition = row.partition
        if self._cluster.partition(*partition.tp) is not partition:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if row.offset is None and self._cluster.was_replaced(node, partition):
            return None
        if row.offset is None or partition.leader != node:
            return "NOT_LEADER_OR_FOLLOWER"
        if partition.log.high_watermark < row.offset:
            return None
        return "NONE" if len(partition.in_sync) >= partition.min_in_sync else "NOT_ENOUGH_REPLICAS_AFTER_APPEND"

    def _done(self, waiter: Waiter, row: Row, outcome: str) -> None:
        waiter.rows.remove(row)
        row.partition.waiting.remove(waiter)
        self._tell(waiter.call, row, outcome)

    def _expired(self, waiter: Waiter) -> None:
        broker, timeline = waiter.call.broker, self._cluster.timeline
        if broker.up and not broker.running(timeline.now):
            waiter.timer = timeline.at(broker.frozen_until, lambda: self._expired(waiter))
            return
        for row in list(waiter.rows):
            self._done(waiter, row, "REQUEST_TIMED_OUT")
        self._answer(waiter)

    def _answer(self, waiter: Waiter) -> None:
        timer, waiter.timer = waiter.timer, None
        if timer is not None:
            timer.cancel()
        self._complete(waiter.call, waiter.response)
        if not waiter.call.session.dead:
            waiter.call.answer(waiter.response)


class Replication:
    """Followers, elections and high watermarks of all partitions."""

    def __init__(self, cluster: ModelCluster, acknowledgements: Acknowledgements) -> None:
        self._cluster, self._timeline = cluster, cluster.timeline
        self.acknowledgements = acknowledgements
        self.delay = 0.0  # seconds that a follower takes to copy
        self.lag_max = LAG_MAX  # seconds that a follower may be behind and stay in sync
        self.waits_below_min = True  # the high watermark does not move with fewer than min.insync.replicas (from 3.7 on)
        self._delays: dict[int, float] = {}  # of single brokers
        self._paused: dict[int, float] = {}  # broker: it copies nothing before
        self.on_truncate: list[Callable[[TopicPartition, int], None]] = []  # told (partition, its new end) when clients' records are gone

    # ---- orders

    def slow_follower(self, node: int, seconds: float) -> None:
        """The broker takes `seconds` to copy; 0 heals it."""
        self._delays[node] = seconds
        self.resume(node)

    def pause(self, node: int, seconds: float) -> None:
        """The broker copies nothing for a while."""
        self._paused[node] = max(self._paused.get(node, 0.0), self._timeline.now + seconds)
        self._timeline.at(self._paused[node], lambda: self.resume(node))

    def hold(self, partition: Partition, node: int, seconds: float) -> None:
        """The broker copies nothing of this partition for a while."""
        partition.held[node] = max(partition.held.get(node, 0.0), self._timeline.now + seconds)
        self._timeline.at(partition.held[node], lambda: self.spread(partition))

    def heal(self) -> None:
        """No broker is slow or paused any more."""
        self._delays.clear()
        self._paused.clear()
        for partition in self._cluster.partitions():
            partition.held.clear()
        for node in self._cluster.brokers:
            self.resume(node)

    def resume(self, node: int) -> None:
        """The broker may copy again, or is back: it catches up, and so do others with it."""
        for partition in self._cluster.partitions():
            if node in partition.copies:
                self._stop_copying(partition.copies[node])
                self.spread(partition)

    def _stop_copying(self, copy: Replica) -> None:
        if copy.copying is not None:
            copy.copying.cancel()
            copy.copying = None

    # ---- what is written

    def spread(self, partition: Partition) -> None:
        """Have the followers copy what they lack."""
        if partition.leader == NOBODY:
            return
        end = partition.log.end_offset
        partition.copies[partition.leader].confirmed = end
        for follower in partition.followers:
            self._attend(partition, follower)
        self._advance(partition)

    def force(self, partition: Partition) -> None:
        """Every in-sync replica has all of the log, and the high watermark is its end, whatever is down."""
        log = partition.log
        for node in partition.in_sync:
            copy = partition.copies[node]
            if copy.log is not log:
                copy.log.follow(log)
            copy.log.high_watermark = copy.confirmed = log.end_offset
        self._cluster.waiting.wake(partition.tp)

    def _attend(self, partition: Partition, follower: Replica) -> None:
        log = partition.log
        if follower.confirmed < log.end_offset and follower.behind_since is None:
            self._fell_behind(partition, follower)
        if follower.copying is not None or not self._copies(partition, follower.node):
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
        """Whether this broker copies from the leader now. A delay of 0 overlooks that brokers are frozen."""
        brokers, now = self._cluster.brokers, self._timeline.now
        held = max(self._paused.get(node, 0.0), partition.held.get(node, 0.0))
        if not brokers[node].up or not brokers[partition.leader].up or held > now:
            return False
        return self._delay(node) <= 0 or (brokers[node].running(now) and brokers[partition.leader].running(now))

    def _copied(self, partition: Partition, follower: Replica) -> None:
        follower.copying = None
        alive = self._cluster.partition(*partition.tp) is partition
        if alive and partition.leader not in (NOBODY, follower.node) and self._copies(partition, follower.node):
            self._copy(partition, follower)
            self._advance(partition)
            self._attend(partition, follower)

    def _copy(self, partition: Partition, follower: Replica) -> None:
        """The answer to a follower's fetch: records and the leader's high watermark, which does not count this fetch yet."""
        log = partition.log
        follower.log.follow(log)
        follower.log.high_watermark = min(log.high_watermark, follower.log.end_offset)
        follower.confirmed = follower.log.end_offset
        follower.behind_since = None
        if follower.node not in partition.in_sync and follower.confirmed >= log.high_watermark:
            partition.in_sync = [n for n in partition.replicas if n in partition.in_sync or n == follower.node]

    def _advance(self, partition: Partition) -> None:
        """Raise the high watermark to what all in-sync replicas have."""
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
            self._cluster.waiting.wake(partition.tp)
        self.acknowledgements.check(partition)

    # ---- in-sync replicas

    def _fell_behind(self, partition: Partition, follower: Replica) -> None:
        follower.behind_since = self._timeline.now
        if follower.node in partition.in_sync and (self._delay(follower.node) > 0 or not self._copies(partition, follower.node)):
            self._timeline.after(self.lag_max, lambda: self._check_lag(partition, follower))

    def _check_lag(self, partition: Partition, follower: Replica) -> None:
        since = follower.behind_since
        if since is not None and self._timeline.now - since >= self.lag_max and partition.leader not in (NOBODY, follower.node):
            self.shrink(partition, follower.node)

    def shrink(self, partition: Partition, node: int) -> None:
        """`node` is not in sync any more; the last in-sync replica stays one."""
        if node in partition.in_sync and len(partition.in_sync) > 1:
            partition.in_sync = [n for n in partition.in_sync if n != node]
            if partition.leader != NOBODY:
                self._advance(partition)

    def stopped(self, node: int) -> None:
        """A broker stopped. Without a delay it leaves the in-sync replicas at once, where it does not lead."""
        if self._delay(node) <= 0:
            self.gone(node)

    def gone(self, node: int) -> None:
        """The controller knows that the broker is gone."""
        for partition in self._cluster.partitions():
            if partition.leader != node:
                self.shrink(partition, node)

    # ---- leaders

    def lead(self, partition: Partition, node: int) -> None:
        """`node` leads in a new epoch. Records that it lacks are gone; the others copy from it."""
        before = partition.log
        unclean = node not in partition.in_sync
        partition.leader = partition.last_leader = node
        partition.epoch += 1
        brokers = self._cluster.brokers
        partition.in_sync = [node] if unclean else [n for n in partition.in_sync if n == node or brokers[n].up]
        log = partition.log
        log.begin_epoch(partition.epoch)
        for copy in partition.copies.values():
            copy.confirmed, copy.behind_since = 0, None
            self._stop_copying(copy)
        lost = None if log is before else before.parts_from(log)
        if lost is not None:
            for watch in self.on_truncate:
                watch(partition.tp, lost)
        self.spread(partition)
        self._cluster.waiting.wake(partition.tp)

    def no_leader(self, partition: Partition) -> None:
        """Nobody leads for now; requests that wait are told."""
        if partition.leader != NOBODY:
            partition.last_leader, partition.leader = partition.leader, NOBODY
        partition.epoch += 1
        self._cluster.waiting.wake(partition.tp)
        self.acknowledgements.check(partition)

    def elect(self, partition: Partition) -> None:
        """An in-sync replica that is up leads, any replica where the topic allows it, else nobody."""
        brokers = self._cluster.brokers
        candidates = [n for n in partition.replicas if n in partition.in_sync and brokers[n].up]
        if not candidates and partition.unclean:
            candidates = [n for n in partition.replicas if brokers[n].up]
        if candidates:
            self.lead(partition, self._cluster.random.choice(candidates))
        else:
            self.no_leader(partition)
