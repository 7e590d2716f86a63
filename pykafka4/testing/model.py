"""A Kafka cluster in memory: brokers, topics, groups, and the switches that make them fail. Invariant: nothing fails that was not ordered.

    cluster = ModelCluster(brokers=3)
    cluster.create_topic("orders", partitions=6)
    cluster.push_error(ProduceRequest, "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=3)
    cluster.stop_broker(2, failover=1.5)

Time is the timeline's: the simulation jumps it, `ModelServer` moves it with the clock. All calls happen on whichever thread owns it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, Final
from uuid import UUID

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing import admin_api, checks, cluster_api, data_api, group_api
from pykafka4.testing.checks import order
from pykafka4.testing.faults import Controls, Injected
from pykafka4.testing.groups import Group
from pykafka4.testing.log import REMEMBERED, Appended, Memory, PartitionLog
from pykafka4.testing.names import api_key
from pykafka4.testing.replication import Acknowledgements, Partition, Replica, Replication
from pykafka4.testing.session import Call, Front, Handler, Session
from pykafka4.testing.timeline import Timeline
from pykafka4.testing.versions import versions_of
from pykafka4.wire.batch import WireRecord, build_batch

__all__ = ["Broker", "ModelCluster", "Partition", "Picture", "Topic"]

HANDLERS: Final[Mapping[int, Handler]] = {
    **data_api.HANDLERS,
    **cluster_api.HANDLERS,
    **group_api.HANDLERS,
    **admin_api.HANDLERS,
}


HOUR_MS: Final = 3_600_000  # message.timestamp.after.max.ms from 4.0 on
REPLICATION_LAG: Final = 0.5  # replica.fetch.wait.max.ms: how long a new leader may not know yet what its followers have


def _number(session: Session) -> int:
    """Sessions are gone through in the order they came: a set's own order is not the same twice."""
    return session.number


@attrs.define(eq=False)
class Broker:
    """One broker. Its log survives it: partitions belong to the cluster."""

    node: int
    host: str
    port: int
    rack: str | None = None
    up: bool = True
    frozen_until: float = 0.0
    slowness: float = 0.0  # seconds each request takes
    sessions: set[Session] = attrs.Factory(set)

    def running(self, now: float) -> bool:
        """Whether it executes requests now."""
        return self.up and now >= self.frozen_until


@attrs.define(eq=False)
class Topic:
    """A topic. Recreated under the same name it is another one, with another id."""

    name: str
    id: UUID
    partitions: list[Partition] = attrs.Factory(list)
    settings: dict[str, Any] = attrs.Factory(dict)


@attrs.frozen
class Picture:
    """What metadata tells: per topic its id and (leader, epoch, replicas, in-sync replicas) of each partition, and which brokers live."""

    brokers: tuple[int, ...]
    controller: int
    topics: Mapping[str, tuple[UUID, tuple[tuple[int, int, tuple[int, ...], tuple[int, ...]], ...]]]
    coordinators: Mapping[str, int] = attrs.Factory(dict)  # of groups, where a broker tells them as they were


class ModelCluster:
    """Brokers, topics, groups, and the switches that make them fail. See the module's text for an example."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        random: Random | None = None,
        timeline: Timeline | None = None,
        release: str = "4.4",
        auto_create_topics: bool = True,
        default_partitions: int = 3,
    ) -> None:
        brokers = checks.whole("brokers", brokers, 1)
        self.random = Random(0) if random is None else checks.instance("random", random, Random)
        self.timeline = timeline or Timeline()
        self.versions: dict[int, tuple[int, int]] = {}
        self.brokers = {node: Broker(node, f"broker-{node}", 9092) for node in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.groups: dict[str, Group] = {}
        self.cluster_id = "model-cluster"
        self.controller = 1
        self.auto_create_topics = checks.flag("auto_create_topics", auto_create_topics)
        self.default_partitions = checks.whole("default_partitions", default_partitions, 1, admin_api.MOST_PARTITIONS)
        self.creation_delay = 0.0  # how long an auto-created topic stays unknown
        self.initial_rebalance_delay = 0.0
        self.zombies = 0.0  # how likely requests of lost connections are executed all the same
        self.controls = Controls()
        self.requests: Counter[str] = Counter()
        self.history: deque[tuple[float, int, str, int, str]] = deque(maxlen=10_000)
        self.on_request: Callable[[str], None] | None = None  # told of each request that is executed
        self.on_batch: Callable[[str, Any, Appended], None] = lambda where, data, result: None  # told of each batch that was judged
        self.on_append: list[Callable[[TopicPartition, int, int], None]] = []  # (partition, first new offset, count)
        # told of accepted commits: (group, partition, offset, whether the client still waits for the answer)
        self.on_commit: list[Callable[[str, TopicPartition, int, bool], None]] = []
        self.wall_ms: Callable[[], int] = lambda: 1_700_000_000_000 + int(self.timeline.now * 1000)
        self.waiting = data_api.Waiting(self.timeline)
        self.acknowledgements = Acknowledgements(self, data_api.tell, data_api.name_leaders)
        self.replication = Replication(self, self.acknowledgements)
        self._throttles: dict[int, list[float]] = {}
        self._hidden: dict[str, float] = {}
        self._stale: tuple[Picture, float] | None = None
        self._deaf: dict[int, tuple[Picture, float]] = {}  # broker: what it heard last, and until when
        self._moved: dict[str, int] = {}  # group: coordinator
        self._loading: dict[str, float] = {}
        self._next_producer = 1000
        self._sessions = 0
        self.as_version(release)

    # ---- connections

    def accept(self, node: int, front: Front) -> Session | None:
        """A client connects to `node`; None when it is down (connection refused)."""
        broker = self.brokers[node]
        if not broker.up:
            return None
        self._sessions += 1
        session = Session(self, broker, front, self._sessions)
        broker.sessions.add(session)
        return session

    def handle(self, call: Call) -> Any:
        """Execute a request; its answer, LATER or NO_ANSWER."""
        return HANDLERS[call.key](call)

    def seen(self, call: Call, fault: Injected | None) -> None:
        """Note a request that is about to be executed."""
        name, node = call.name, call.broker.node
        self.requests[name] += 1
        wrong = fault.fault.name if fault else ""
        self.history.append((self.timeline.now, node, name, call.version, wrong))
        if self.on_request is not None:
            self.on_request(f"broker {node}: {name} v{call.version} {wrong}")

    def chance(self, likelihood: float) -> bool:
        """True that often."""
        return likelihood > 0 and self.random.random() < likelihood

    # ---- versions

    def as_version(self, release: str) -> None:
        """Accept what this release of Kafka accepts ("0.11" … "4.4"), and behave as it did."""
        self.release = release
        self.versions = {key: span for key, span in versions_of(release).items() if key in HANDLERS}
        number = tuple(int(part) for part in release.split("."))
        self.memory = Memory.ACCEPT if number >= (2, 5) else Memory.REFUSE if number >= (1, 0) else Memory.OUT_OF_ORDER
        self.remembered = REMEMBERED if number >= (1, 0) else 1
        self.replication.waits_below_min = number >= (3, 7)
        self.after_max_ms = HOUR_MS if number >= (4, 0) else None
        self.names_invalid_records = number >= (2, 4)  # INVALID_RECORD; CORRUPT_MESSAGE before
        self.knows_zstd = number >= (2, 1)
        self.interrupts_sync = number < (2, 4)  # members hear of a rebalance until they have their assignment
        self.replication_lag = REPLICATION_LAG if number >= (4, 0) else 0.0  # older coordinators tell all that is in their log

    # ---- topics

    def create_topic(self, name: str, partitions: int | None = None, *, leaders: Iterable[int] = (), **settings: Any) -> Topic:
        """A topic with leaders dealt round, or as given.

        `settings`: replicas (how many; all brokers), min_in_sync, unclean, and those of `PartitionLog`: max_message_bytes, append_time,
        compacted, before_max_ms, after_max_ms, refuse, memory, repeats, remembered.
        """
        if name in self.topics:
            raise ValueError(f"topic {name!r} exists")
        count = self.default_partitions if partitions is None else checks.whole("partitions", partitions, 1, admin_api.MOST_PARTITIONS)
        wanted, settings = checks.leaders(leaders, self.brokers), checks.topic_settings(settings, self.brokers)
        topic = Topic(name, UUID(int=self.random.getrandbits(128) | 1), settings=settings)
        self.topics[name] = topic
        self.add_partitions(name, count, leaders=wanted)
        return topic

    def ensure_topic(self, name: str) -> Topic:
        """The topic, made when there is none."""
        return self.topics[name] if name in self.topics else self.create_topic(name)

    def add_partitions(self, name: str, total: int, *, leaders: Iterable[int] = ()) -> None:
        """Grow a topic to `total` partitions."""
        topic, wanted, nodes = self.topics[name], list(leaders), sorted(self.brokers)
        shift = self.random.randrange(len(nodes))
        for number in range(len(topic.partitions), total):
            leader = wanted[number] if number < len(wanted) else nodes[(number + shift) % len(nodes)]
            topic.partitions.append(self._new_partition(topic, number, leader, nodes))
            if not self.brokers[leader].up:
                self.replication.elect(topic.partitions[-1])

    def _new_partition(self, topic: Topic, number: int, leader: int, nodes: list[int]) -> Partition:
        settings = {
            "after_max_ms": self.after_max_ms,
            "memory": self.memory,
            "remembered": self.remembered,
            **topic.settings,
        }
        count = settings.pop("replicas", len(nodes))
        own = {name: settings.pop(name) for name in ("min_in_sync", "unclean") if name in settings}
        at = nodes.index(leader)
        holders = sorted((nodes[at:] + nodes[:at])[:count])
        tp = TopicPartition(topic.name, number)
        copies = {node: Replica(node, PartitionLog(tp, lambda: self.wall_ms(), **settings)) for node in holders}
        copies[leader].log.begin_epoch(0)
        in_sync = [node for node in holders if self.brokers[node].up or node == leader]
        return Partition(tp, leader, 0, copies, in_sync, last_leader=leader, **own)

    def delete_topic(self, name: str) -> None:
        """Gone, with its records and committed positions."""
        topic = self.topics.pop(name)
        for group in self.groups.values():
            for partition in topic.partitions:
                group.offsets.pop(partition.tp, None)
        self.waiting.wake_all()
        for partition in topic.partitions:
            self.acknowledgements.check(partition)

    def recreate_topic(self, name: str, partitions: int | None = None) -> Topic:
        """Deleted and created again under the same name: a new id, an empty log, epoch 0."""
        old = self.topics[name]
        self.delete_topic(name)
        return self.create_topic(name, partitions or len(old.partitions), **old.settings)

    def partition(self, topic: str, partition: int) -> Partition | None:
        """The partition, None when there is none of that name."""
        found = self.topics.get(topic)
        return found.partitions[partition] if found and 0 <= partition < len(found.partitions) else None

    def partitions(self) -> list[Partition]:
        """Those of all topics."""
        return [partition for topic in self.topics.values() for partition in topic.partitions]

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic with this id."""
        return next((t for t in self.topics.values() if t.id == topic_id), None)

    def log(self, topic: str, partition: int) -> PartitionLog:
        """The log of a partition's leader; KeyError when there is none."""
        return self.topics[topic].partitions[partition].log

    def records(self, topic: str, partition: int | None = None) -> list[WireRecord]:
        """What is in a partition, or in all of a topic."""
        wanted = range(len(self.topics[topic].partitions)) if partition is None else (partition,)
        return [record for number in wanted for record in self.log(topic, number).records()]

    def append(self, topic: str, partition: int, records: Iterable[WireRecord], *, codec: int = 0, gap: int = 0) -> int:
        """Put records into a log, as another producer would; `gap` offsets before them are missing. Their base offset.

        Also while the leader is down: the in-sync replicas have them then, as if they had been written before.
        """
        target = self.topics[topic].partitions[partition]
        base = target.log.end_offset + gap
        target.log.store(build_batch(list(records), base_offset=base, codec=codec, leader_epoch=target.epoch))
        self.appended(target.tp, base)
        if target.leader < 0 or not self.brokers[target.leader].up:
            self.replication.force(target)
        return base

    def appended(self, tp: TopicPartition, base: int) -> None:
        """The leader has new records from `base` on: tell who watches, do what was ordered, have the followers copy them."""
        target = self.topics[tp.topic].partitions[tp.partition]
        for watch in self.on_append:
            watch(tp, base, target.log.end_offset - base)
        order = self.controls.order_after_append(tp)
        if order is not None:
            order(target)
        self.replication.spread(target)

    @order
    def delete_records(self, topic: str, partition: int, to: int) -> None:
        """The partition starts at offset `to` now, as by DeleteRecords or retention."""
        target = self.topics[topic].partitions[partition]
        target.log.delete_before(to)
        self.replication.spread(target)

    # ---- leaders and brokers

    @order
    def move_leader(self, topic: str, partition: int, to: int | None = None) -> int:
        """Another broker (the one given, or any in-sync replica) leads the partition, in a new epoch. The new leader."""
        target = self.topics[topic].partitions[partition]
        others = [n for n in self.alive() if n != target.leader and n in target.in_sync] or [target.last_leader]
        self.replication.lead(target, to if to is not None else self.random.choice(others))
        return target.leader

    @order
    def orphan(self, topic: str, partition: int, seconds: float) -> None:
        """Nobody leads the partition for a while."""
        target = self.topics[topic].partitions[partition]
        self.replication.no_leader(target)
        self.timeline.after(seconds, lambda: self.replication.elect(target) if target.leader == -1 else None)

    @order
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

    @order
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

    @order
    def shrink_isr(self, topic: str, partition: int, seconds: float, *, to: int = 1) -> None:
        """Only `to` replicas, the leader among them, are in sync for a while; the others copy nothing."""
        target = self.topics[topic].partitions[partition]
        for node in [n for n in target.replicas if n != target.last_leader][max(to - 1, 0) :]:
            self.replication.hold(target, node, seconds)
            self.replication.shrink(target, node)

    @order
    def slow_follower(self, node: int, seconds: float) -> None:
        """The broker takes `seconds` to copy from leaders; 0 heals it."""
        self.replication.slow_follower(node, seconds)

    @order
    def pause_replication(self, node: int, seconds: float) -> None:
        """The broker copies nothing from leaders for a while, and stays in sync until it has been behind for too long."""
        self.replication.pause(node, seconds)

    def alive(self) -> list[int]:
        """Brokers that are up."""
        return [node for node, broker in self.brokers.items() if broker.up]

    @order
    def stop_broker(self, node: int, *, failover: float = 0.0) -> None:
        """Connections are lost at once; after `failover` seconds its partitions have other leaders."""
        broker = self.brokers[node]
        if not broker.up:
            return
        broker.up = False
        for session in sorted(broker.sessions, key=_number):
            session.close()
        self.replication.stopped(node)
        self.timeline.after(failover, lambda: self._fail_over(node))

    def _fail_over(self, node: int) -> None:
        if self.brokers[node].up:
            return
        if self.controller == node and self.alive():
            self.controller = self.alive()[0]
        self.replication.gone(node)
        for partition in [p for p in self.partitions() if p.leader == node]:
            self.replication.elect(partition)

    @order
    def start_broker(self, node: int) -> None:
        """Back again; partitions nobody leads get a leader. Of each producer the broker knows only the last batch in each partition."""
        broker = self.brokers[node]
        if not broker.up:
            for partition in self.partitions():
                if node in partition.copies:
                    partition.copies[node].log.reload_producers()
        broker.up, broker.frozen_until = True, 0.0
        for partition in [p for p in self.partitions() if p.leader == -1]:
            self.replication.elect(partition)
        self.replication.resume(node)

    @order
    def freeze(self, node: int, seconds: float) -> None:
        """SIGSTOP: connections stay, nothing is executed; then everything that piled up is, dead connections' requests too."""
        broker = self.brokers[node]
        broker.frozen_until = max(broker.frozen_until, self.timeline.now + seconds)
        self.timeline.at(broker.frozen_until, lambda: self._thaw(broker))

    def _thaw(self, broker: Broker) -> None:
        if broker.running(self.timeline.now):
            for session in sorted(broker.sessions, key=_number):
                session.proceed()
            self.replication.resume(broker.node)

    @order
    def slow(self, node: int, seconds: float) -> None:
        """Each request takes `seconds` at this broker; 0 heals it."""
        self.brokers[node].slowness = seconds

    @order
    def drop_connections(self, node: int | None = None) -> None:
        """Every connection (to `node`) is lost."""
        for broker in self.brokers.values():
            if node in (None, broker.node):
                for session in sorted(broker.sessions, key=_number):
                    session.close()

    # ---- metadata

    def picture(self, node: int | None = None) -> Picture:
        """What metadata answers (of `node`) are made of now: the truth, or an old picture while `deafen` or `stale_metadata` lasts."""
        heard, until = self._deaf.get(node or 0, (None, 0.0))
        if heard is not None and self.timeline.now < until:
            return heard
        if self._stale is not None and self.timeline.now < self._stale[1]:
            return self._stale[0]
        self._stale = None
        now = self.timeline.now
        return Picture(
            tuple(self.alive()),
            self.controller,
            {
                name: (topic.id, tuple((p.leader, p.epoch, p.replicas, tuple(p.in_sync)) for p in topic.partitions))
                for name, topic in self.topics.items()
                if self._hidden.get(name, 0.0) <= now
            },
        )

    @order
    def stale_metadata(self, seconds: float) -> None:
        """For a while, metadata tells how things are at this moment."""
        self._stale = (self.picture(), self.timeline.now + seconds)

    @order
    def deafen(self, node: int, seconds: float) -> None:
        """For a while `node` hears no news: it answers, and tells leaders, brokers and coordinators as they are at this moment.

        Where another leads meanwhile it takes Produce requests with acks=all as before, and waits in vain for its replicas.
        """
        coordinators = {name: at for name in self.groups if (at := self.coordinator(name)) is not None}
        self._deaf[node] = (attrs.evolve(self.picture(), coordinators=coordinators), self.timeline.now + seconds)

    def was_replaced(self, node: int, partition: Partition) -> bool:
        """Whether another broker leads the partition and `node`, which led it when it heard its last news, does not know."""
        heard, until = self._deaf.get(node, (None, 0.0))
        if heard is None or self.timeline.now >= until or partition.leader == node:
            return False
        _, partitions = heard.topics.get(partition.tp.topic, (None, ()))
        return any(leader == node for leader, *_ in partitions[partition.tp.partition :][:1])

    @order
    def hide_topic(self, name: str, seconds: float) -> None:
        """Metadata does not know the topic for a while; its leaders go on."""
        self._hidden[name] = self.timeline.now + seconds

    def hidden(self, name: str) -> bool:
        """Whether metadata keeps the topic to itself."""
        return self._hidden.get(name, 0.0) > self.timeline.now

    @order
    def move_address(self, node: int, host: str, port: int) -> None:
        """The broker listens elsewhere from now on."""
        self.brokers[node].host, self.brokers[node].port = host, port
        self.drop_connections(node)

    # ---- groups

    def coordinator(self, group: str) -> int | None:
        """Who coordinates `group`; None while nobody who lives does."""
        node = self._moved.get(group, sorted(self.brokers)[sum(group.encode()) % len(self.brokers)])
        if self.brokers[node].up:
            return node
        alive = self.alive()
        if not alive:
            return None
        self.move_coordinator(group, alive[sum(group.encode()) % len(alive)])
        return self._moved[group]

    @order
    def move_coordinator(self, group: str, to: int | None = None, *, loading: float = 0.0) -> int:
        """Another broker coordinates the group; it loads for a while first. The new coordinator."""
        before = self._moved.get(group, sorted(self.brokers)[sum(group.encode()) % len(self.brokers)])
        others = [n for n in self.alive() if n != before] or [before]
        self._moved[group] = to if to is not None else self.random.choice(others)
        self._loading[group] = self.timeline.now + loading
        if group in self.groups:
            self.groups[group].kill(self.replication_lag)
        return self._moved[group]

    def loading(self, group: str) -> bool:
        """Whether the coordinator still reads the group's state."""
        return self._loading.get(group, 0.0) > self.timeline.now

    def group(self, name: str) -> Group:
        """The group, made when there is none."""
        if name not in self.groups:
            self.groups[name] = Group(name, self.timeline, self._member_id, self.initial_rebalance_delay, self.interrupts_sync)
        return self.groups[name]

    def _member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self.random.getrandbits(128))}"

    # ---- producers

    def new_producer_id(self) -> int:
        """An id nobody has."""
        self._next_producer += 1
        return self._next_producer

    @order
    def forget_producers(self, topic: str | None = None) -> None:
        """Producer state is lost, of one topic or everywhere."""
        for name, found in self.topics.items():
            if topic in (None, name):
                for copy in [copy for partition in found.partitions for copy in partition.copies.values()]:
                    copy.log.forget_producers()

    # ---- what is ordered

    @property
    def inject(self) -> Callable[..., None]:
        """See `Controls.inject`."""
        return self.controls.inject

    @property
    def push_error(self) -> Callable[..., None]:
        """See `Controls.push_error`."""
        return self.controls.push_error

    @property
    def control(self) -> Callable[..., None]:
        """See `Controls.control`."""
        return self.controls.control

    @order
    def throttle(self, api: Any, seconds: float, times: int = 1) -> None:
        """The next `times` answers of this API carry a throttle time, and the broker reads nothing meanwhile."""
        self._throttles.setdefault(api_key(api), []).extend([seconds] * times)

    def throttling(self, call: Call) -> float:
        """Take the throttle time of this answer."""
        waiting = self._throttles.get(call.key)
        return waiting.pop(0) if waiting else 0.0

    def heal(self) -> None:
        """Everything works from now on: brokers up and awake, metadata fresh, nothing more ordered."""
        self.controls.heal()
        self._throttles.clear()
        self._hidden.clear()
        self._loading.clear()
        self._stale = None
        self._deaf.clear()
        for broker in self.brokers.values():
            broker.slowness, broker.frozen_until = 0.0, min(broker.frozen_until, self.timeline.now)
            if not broker.up:
                self.start_broker(broker.node)
            self._thaw(broker)
        self.replication.heal()
        for partition in [p for p in self.partitions() if p.leader == -1]:
            self.replication.elect(partition)
