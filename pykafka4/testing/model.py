"""A Kafka cluster in memory, with everything a test can do to it. Invariant: nothing fails that was not ordered.

    cluster = ModelCluster(brokers=3)
    cluster.create_topic("orders", partitions=6)
    cluster.push_error(ProduceRequest, "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=3)
    cluster.stop_broker(2, failover=1.5)

Time is the timeline's: the simulation jumps it, `ModelServer` moves it with the clock. All calls happen on whichever thread owns it.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from pykafka4.testing.broker import Broker
from pykafka4.testing.cluster.cluster import Cluster
from pykafka4.testing.faults.checks import checked
from pykafka4.testing.faults.names import Api
from pykafka4.testing.requests.handlers import HANDLERS
from pykafka4.testing.requests.session import Call, Front, Handler, Session
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.partition import NO_LEADER, Partition, Topic
from pykafka4.wire.records.batch import WireRecord, build_batch

__all__ = ["ModelCluster"]


class ModelCluster(Cluster):
    """A cluster that clients can connect to, and the faults that it can have. See the module's text for an example."""

    # ---- connections

    def accept(self, node: int, front: Front) -> Session | None:
        """A client connects to `node`; None when it is down (connection refused)."""
        broker = self.brokers[node]
        if not broker.up:
            return None
        session = Session(self, broker, front, self._execute)
        broker.sessions[session] = None
        return session

    def _execute(self, call: Call) -> Any:
        """The answer of a control function, or else of the API's handler."""
        answer = self.controls.answer_for(call.key, call)
        return HANDLERS[call.key](call) if answer is None else answer

    # ---- what there is

    controller: Any = property(attrgetter("brokers.controller"), doc="The broker that is the controller.")

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition's leader; KeyError or IndexError if it does not exist."""
        return self.topics[topic].partitions[partition].log

    def records(self, topic: str, partition: int | None = None) -> list[WireRecord]:
        """What is in a partition, or in all of a topic."""
        wanted = range(len(self.topics[topic].partitions)) if partition is None else (partition,)
        return [record for number in wanted for record in self.log(topic, number).records()]

    # ---- records and topics

    def append(self, topic: str, partition: int, records: Iterable[WireRecord], *, codec: int = 0, gap: int = 0) -> int:
        """Put records into a log, as another producer would; `gap` offsets before them are missing. Their base offset.

        Also while the leader is down: the in-sync replicas have them then, as if they had been written before.
        """
        target = self.topics[topic].partitions[partition]
        base = target.log.end_offset + gap
        target.log.store(build_batch(list(records), base_offset=base, codec=codec, leader_epoch=target.epoch))
        self.appended(target, base)
        if target.leader < 0 or not self.brokers[target.leader].up:
            self.replication.force(target)
        return base

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """Deleted and created again under the same name: a new id, an empty log, epoch 0."""
        old = self.topics[name]
        self.delete_topic(name)
        return self.create_topic(name, partitions or len(old.partitions), **old.settings)

    @checked
    def forget_producers(self, topic: str | None = None) -> None:
        """Producer state is lost, of one topic or everywhere."""
        for partition in self.partitions() if topic is None else self.topics[topic].partitions:
            for copy in partition.copies.values():
                copy.log.producers.clear()

    # ---- leaders and brokers

    @checked
    def move_leader(self, topic: str, partition: int, to: int | None = None) -> int:
        """Another broker (the one given, or any in-sync replica) leads the partition, in a new epoch. The new leader."""
        target = self.topics[topic].partitions[partition]
        others = [n for n in self.alive() if n != target.leader and n in target.in_sync] or [target.last_leader]
        self.replication.lead(target, to if to is not None else self.random.choice(others))
        return target.leader

    @checked
    def orphan(self, topic: str, partition: int, seconds: float) -> None:
        """Nobody leads the partition for a while."""
        target = self.topics[topic].partitions[partition]
        self.replication.no_leader(target)
        self.timeline.after(seconds, lambda: self.replication.elect(target) if target.leader == NO_LEADER else None)

    @checked
    def lose_leadership_after_append(self, topic: str, partition: int, to: int | None = None, *, kept: bool = True) -> None:
        """The next records are appended, then another broker leads before the in-sync replicas confirm them: acks=all is refused.

        `kept` says whether the new leader has the records.
        """
        target = self.topics[topic].partitions[partition]

        def move(written: Partition) -> None:
            new = to if to is not None else self.random.choice([n for n in written.in_sync if n != written.leader] or [written.leader])
            if kept:
                written.copies[new].log.follow(written.log)
            self.replication.lead(written, new)

        self.controls.after_append(target.tp, move)

    @checked
    def unclean_election(self, topic: str, partition: int, *, lost: int = 1, to: int | None = None) -> int:
        """A replica that lacks the last `lost` batches leads from now on; they are gone, committed or not. The new leader."""
        target = self.topics[topic].partitions[partition]
        others = [n for n in target.replicas if n != target.last_leader and self.brokers[n].up]
        others = others or [n for n in target.replicas if n != target.last_leader] or [target.last_leader]
        new = to if to is not None else self.random.choice(others)
        before, behind = target.log, target.copies[new].log
        behind.follow(before)
        keep = len(before.batches) - lost
        behind.truncate(before.batches[keep - 1].next_offset if keep > 0 else before.start_offset)
        self.replication.lead(target, new)
        return new

    @checked
    def shrink_isr(self, topic: str, partition: int, seconds: float, *, to: int = 1) -> None:
        """Only `to` replicas, the leader among them, are in sync for a while; the others copy nothing."""
        target = self.topics[topic].partitions[partition]
        for node in [n for n in target.replicas if n != target.last_leader][max(to - 1, 0) :]:
            self.replication.hold(target, node, seconds)
            self.replication.shrink(target, node)

    @checked
    def slow_follower(self, node: int, seconds: float) -> None:
        """The broker takes `seconds` to copy from leaders; 0 heals it."""
        self.replication.slow_follower(node, seconds)

    @checked
    def pause_replication(self, node: int, seconds: float) -> None:
        """The broker copies nothing from leaders for a while, and stays in sync until it has been behind for too long."""
        self.replication.pause(node, seconds)

    @checked
    def stop_broker(self, node: int, *, failover: float = 0.0) -> None:
        """Connections are lost at once; after `failover` seconds its partitions have other leaders."""
        broker = self.brokers[node]
        if not broker.up:
            return
        broker.up = False
        broker.close_sessions()
        self.fetch_sessions[node].clear()
        self.replication.stopped(node)
        self.timeline.after(failover, lambda: self._fail_over(node))

    def _fail_over(self, node: int) -> None:
        if self.brokers[node].up:
            return
        if self.controller == node and self.alive():
            self.brokers.controller = self.alive()[0]
        self.replication.gone(node)
        self.replication.elect_instead_of(node)

    @checked
    def start_broker(self, node: int) -> None:
        """Back again; partitions nobody leads get a leader. Of each producer the broker knows only the last batch in each partition."""
        broker = self.brokers[node]
        if not broker.up:
            for partition in self.partitions():
                if node in partition.copies:
                    partition.copies[node].log.reload_producers()
        broker.up, broker.frozen_until = True, 0.0
        self.replication.elect_instead_of(NO_LEADER)
        self.replication.resume(node)

    @checked
    def freeze(self, node: int, seconds: float) -> None:
        """SIGSTOP: connections stay, nothing is executed; then everything that piled up is, dead connections' requests too."""
        broker = self.brokers[node]
        broker.frozen_until = max(broker.frozen_until, self.timeline.now + seconds)
        self.timeline.at(broker.frozen_until, lambda: self._thaw(broker))

    def _thaw(self, broker: Broker) -> None:
        if broker.running(self.timeline.now):
            for session in list(broker.sessions):
                session.proceed()
            self.replication.resume(broker.node)

    @checked
    def slow(self, node: int, seconds: float) -> None:
        """Each request takes `seconds` at this broker; 0 heals it."""
        self.brokers[node].slowness = seconds

    @checked
    def drop_connections(self, node: int | None = None) -> None:
        """Every connection (to `node`) is lost."""
        for broker in self.brokers.values():
            if node in (None, broker.node):
                broker.close_sessions()

    @checked
    def forget_fetch_sessions(self, node: int | None = None) -> None:
        """Every fetch session (of `node`) is evicted, as when others need its place."""
        for number, sessions in self.fetch_sessions.items():
            if node in (None, number):
                sessions.clear()

    @checked
    def move_address(self, node: int, host: str, port: int) -> None:
        """The broker listens elsewhere from now on."""
        self.brokers[node].host, self.brokers[node].port = host, port
        self.drop_connections(node)

    # ---- metadata and coordinators

    @checked
    def stale_metadata(self, seconds: float) -> None:
        """For a while, all brokers answer with metadata of this moment."""
        self.metadata.make_stale(seconds)

    @checked
    def deafen(self, node: int, seconds: float) -> None:
        """For a while `node` hears of no changes: it answers with the leaders, brokers and coordinators of this moment.

        Where another broker leads by then, it takes Produce requests with acks=all as before, and waits in vain for its replicas.
        """
        coordinators = {name: at for name in self.groups if (at := self.coordinator(name)) is not None}
        self.metadata.deafen(node, seconds, coordinators)

    @checked
    def hide_topic(self, name: str, seconds: float) -> None:
        """Metadata does not know the topic for a while; its leaders go on."""
        self.metadata.hide(name, seconds)

    @checked
    def move_coordinator(self, group: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Another broker coordinates the group; it loads for a while first. The new coordinator."""
        return self.coordinators.move(group, to, loading=loading)

    # ---- requests

    inject: Any = property(attrgetter("controls.inject"), doc="See `Controls.inject`.")
    push_error: Any = property(attrgetter("controls.push_error"), doc="See `Controls.push_error`.")

    def control(self, api: Api, function: Handler, *, keep: bool = False) -> None:
        """`function(call)` sees the next request of this API (all, with `keep`). It returns an answer, or None to let it go on.

        `LATER` means that the function will call `call.answer` itself.
        """
        self.controls.control(api, function, keep)

    @checked
    def throttle(self, api: Api, seconds: float, times: int = 1) -> None:
        """The next `times` answers of this API carry a throttle time, and the broker reads nothing meanwhile."""
        self.controls.throttle(api, seconds, times)

    def heal(self) -> None:
        """Everything works from now on: brokers up and awake, metadata fresh, nothing more ordered."""
        self.controls.heal()
        self.metadata.heal()
        self.coordinators.heal()
        for broker in self.brokers.values():
            broker.slowness, broker.frozen_until = 0.0, min(broker.frozen_until, self.timeline.now)
            if not broker.up:
                self.start_broker(broker.node)
            self._thaw(broker)
        self.replication.heal()
        self.replication.elect_instead_of(NO_LEADER)
