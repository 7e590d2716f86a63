"""Adds to the cluster the faults and changes that a test can order. Invariant: no fault happens unless a test has ordered it.

    cluster = ModelCluster(brokers=3)
    cluster.create_topic("orders", partitions=6)
    cluster.push_error(ProduceRequest, "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=3)
    cluster.stop_broker(2, failover=1.5)

Time comes from the timeline: a simulation jumps to the next event, and `ModelServer` follows the real clock. Only one thread at a time may
call the methods of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

from pykafka4.testing.broker import Broker
from pykafka4.testing.cluster.cluster import Cluster
from pykafka4.testing.faults.checks import checked
from pykafka4.testing.faults.controls import Fault
from pykafka4.testing.faults.names import Api
from pykafka4.testing.requests.handlers import HANDLERS
from pykafka4.testing.requests.session import Call, Front, Handler, Session
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.partition import NO_LEADER, Partition, Topic
from pykafka4.wire.records.batch import WireRecord, build_batch

__all__ = ["ModelCluster"]


class ModelCluster(Cluster):
    """A cluster to which clients can connect, with methods that order faults. The module's docstring has an example."""

    # ---- connections

    def accept(self, node: int, front: Front) -> Session | None:
        """Open a session for a client that connects to `node`; None if the broker is down (connection refused)."""
        broker = self.brokers[node]
        if not broker.up:
            return None
        session = Session(self, broker, front, self._execute)
        broker.sessions[session] = None
        return session

    def _execute(self, call: Call) -> Any:
        answer = self.controls.use_function(call.key, call)
        return HANDLERS[call.key](call) if answer is None else answer

    # ---- state

    controller: Any = property(attrgetter("brokers.controller"), doc="The number of the broker that is the controller.")

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition's leader; without a leader, the last leader's log. Raises KeyError if there is no such topic."""
        return self.topics[topic].partitions[partition].log

    def records(self, topic: str, partition: int | None = None) -> list[WireRecord]:
        """The records of one partition, or of all partitions of the topic."""
        wanted = range(len(self.topics[topic].partitions)) if partition is None else (partition,)
        return [record for number in wanted for record in self.log(topic, number).records()]

    # ---- records and topics

    def append(self, topic: str, partition: int, records: Iterable[WireRecord], *, codec: int = 0, gap: int = 0) -> int:
        """Append records, as another producer would, after a gap of `gap` offsets; return their base offset.

        If no leader runs, all in-sync replicas get the records at once, as if a leader had appended them earlier.
        """
        target = self.topics[topic].partitions[partition]
        base = target.log.end_offset + gap
        target.log.store(build_batch(list(records), base_offset=base, codec=codec, leader_epoch=target.epoch))
        self.appended(target, base)
        if target.leader < 0 or not self.brokers[target.leader].up:
            self.replication.force(target)
        return base

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """Delete the topic and create it again under the same name, with a new id, empty logs and epochs that start at 0."""
        old = self.topics[name]
        self.delete_topic(name)
        return self.create_topic(name, partitions or len(old.partitions), **old.settings)

    @checked
    def forget_producers(self, topic: str | None = None) -> None:
        """Discard the producer state of `topic`, or of all topics."""
        for partition in self.partitions() if topic is None else self.topics[topic].partitions:
            for copy in partition.copies.values():
                copy.log.producers.clear()
                copy.log.transactions.epochs.clear()

    # ---- leaders and brokers

    @checked
    def move_leader(self, topic: str, partition: int, to: int | None = None) -> int:
        """Let `to` lead the partition in a new epoch; return the new leader.

        By default, another running in-sync replica leads, or else the last leader.
        """
        target = self.topics[topic].partitions[partition]
        others = [n for n in self.alive() if n != target.leader and n in target.in_sync] or [target.last_leader]
        self.replication.lead(target, to if to is not None else self.random.choice(others))
        return target.leader

    @checked
    def orphan(self, topic: str, partition: int, seconds: float) -> None:
        """Leave the partition without a leader; elect one after `seconds`, if there is still none."""
        target = self.topics[topic].partitions[partition]
        self.replication.no_leader(target)
        self.timeline.after(seconds, lambda: self.replication.elect(target) if target.leader == NO_LEADER else None)

    @checked
    def lose_leadership_after_append(self, topic: str, partition: int, to: int | None = None, *, kept: bool = True) -> None:
        """Let `to`, by default another in-sync replica, lead after the next append, before followers copy the records.

        If this changes the leader, a Produce request with acks=all gets an error. `kept`: whether the new leader then has the records.
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
        """Let a replica without the last `lost` batches lead, so that these batches are lost, committed or not. Return the new leader."""
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
        """Keep only `to` replicas in sync for `seconds`, the leader among them; the others copy nothing."""
        target = self.topics[topic].partitions[partition]
        for node in [n for n in target.replicas if n != target.last_leader][max(to - 1, 0) :]:
            self.replication.hold(target, node, seconds)
            self.replication.shrink(target, node)

    @checked
    def slow_follower(self, node: int, seconds: float) -> None:
        """Make the broker take `seconds` to copy from leaders; 0 restores the default, `replication.delay`."""
        self.replication.slow_follower(node, seconds)

    @checked
    def pause_replication(self, node: int, seconds: float) -> None:
        """Keep the broker from copying from leaders for `seconds`. It stays in sync until it has been behind for too long."""
        self.replication.pause(node, seconds)

    @checked
    def stop_broker(self, node: int, *, failover: float = 0.0) -> None:
        """Stop a broker: its connections are lost at once; if it is down `failover` seconds later, its partitions elect leaders."""
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
        """Start a broker, which knows only the last batch of each producer and partition. Elect leaders for partitions without one."""
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
        """Freeze a broker: its connections stay open, but it does not begin to execute requests.

        Afterwards the broker executes the requests that have arrived; the requests of a connection that was lost meanwhile are executed
        with probability `zombies`.
        """
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
        """Make each request at this broker take `seconds`; 0 ends this."""
        self.brokers[node].slowness = seconds

    @checked
    def drop_connections(self, node: int | None = None) -> None:
        """Close every connection, or every connection to `node`."""
        for broker in self.brokers.values():
            if node in (None, broker.node):
                broker.close_sessions()

    @checked
    def forget_fetch_sessions(self, node: int | None = None) -> None:
        """Evict every fetch session, or every session of `node`, as a broker does if other sessions need the room."""
        for number, sessions in self.fetch_sessions.items():
            if node in (None, number):
                sessions.clear()

    @checked
    def move_address(self, node: int, host: str, port: int) -> None:
        """Move the broker to another address, and close its connections."""
        self.brokers[node].host, self.brokers[node].port = host, port
        self.drop_connections(node)

    @checked
    def set_racks(self, racks: Mapping[int, str]) -> None:
        """Put brokers into racks, so that leaders let a consumer with `client_rack` read from an in-sync follower there (KIP-392)."""
        for node, rack in racks.items():
            self.brokers[node].rack = rack

    # ---- metadata and coordinators

    @checked
    def stale_metadata(self, seconds: float) -> None:
        """For `seconds`, make brokers return the list of brokers, topics and leaders as it is now."""
        self.metadata.make_stale(seconds)

    @checked
    def deafen(self, node: int, seconds: float) -> None:
        """Hide changes from `node` for `seconds`: it returns the brokers, leaders and group coordinators as they are now.

        If another broker replaces `node` as a leader, `node` still accepts Produce requests with acks=all, but no replica confirms them.
        """
        coordinators = {name: at for name in self.groups if (at := self.coordinator(name)) is not None}
        self.metadata.deafen(node, seconds, coordinators)

    @checked
    def hide_topic(self, name: str, seconds: float) -> None:
        """Leave the topic out of metadata for `seconds`; its leaders still work."""
        self.metadata.hide(name, seconds)

    @checked
    def move_coordinator(self, group: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Let `to`, by default another running broker if there is one, coordinate the group; return the new coordinator.

        The coordinator first loads the state of the group for `loading` seconds.
        """
        return self.coordinators.move(group, to, loading=loading)

    @checked
    def move_transaction_coordinator(self, transactional_id: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Let `to`, by default another running broker if there is one, coordinate the transactional id; return the new coordinator.

        The coordinator first loads the state of the transactional id for `loading` seconds.
        """
        return self.transactions.move(transactional_id, to, loading=loading)

    @checked
    def slow_markers(self, seconds: float) -> None:
        """Write the markers of a transaction `seconds` after its end: until then its producer cannot begin the next one; 0 ends this."""
        self.transactions.marker_delay = seconds

    # ---- requests

    @checked
    def inject(self, api: Api, fault: Fault, *, node: int | None = None, times: int = 1, seconds: float = 0.0) -> None:
        """Order `fault` for the next `times` requests of this API (at `node`, or at any broker)."""
        self.controls.inject(api, fault, node=node, times=times, seconds=seconds)

    push_error: Any = property(attrgetter("controls.push_error"), doc="See `Controls.push_error`.")

    def control(self, api: Api, function: Handler, *, keep: bool = False) -> None:
        """Call `function(call)` for the next request of this API, or with `keep` for all its requests.

        The function returns a response, None to execute the request, or `LATER` if it will call `call.answer` itself.
        """
        self.controls.control(api, function, keep)

    def deny(self, resource: str, name: str, *operations: str) -> None:
        """Deny operations (by default all) on a resource until `allow` or `heal`: `deny("topic", "orders", "WRITE")`.

        Resources are `topic`, `group`, `transactional_id` and `cluster`, whose name is `kafka-cluster`. Each operation is checked
        separately: unlike in Kafka's ACLs, READ and WRITE do not include DESCRIBE. The denial applies to all clients. Raises ValueError for
        an unknown resource, or an operation that the model does not check on it.
        """
        self.controls.deny(resource, name, operations)

    def allow(self, resource: str, name: str, *operations: str) -> None:
        """Allow denied operations again, by default all."""
        self.controls.allow(resource, name, operations)

    @checked
    def throttle(self, api: Api, seconds: float, times: int = 1) -> None:
        """Set a throttle time in the next `times` responses of this API; the connection's next requests wait for that time."""
        self.controls.throttle(api, seconds, times)

    def heal(self) -> None:
        """End all faults: brokers run, metadata is current, and all ordered faults are cancelled."""
        self.controls.heal()
        self.metadata.heal()
        self.coordinators.heal()
        self.transactions.heal()
        for broker in self.brokers.values():
            broker.slowness, broker.frozen_until = 0.0, min(broker.frozen_until, self.timeline.now)
            if not broker.up:
                self.start_broker(broker.node)
            self._thaw(broker)
        self.replication.heal()
        self.replication.elect_instead_of(NO_LEADER)
