"""Fetch, ListOffsets, OffsetForLeaderEpoch, Metadata: offsets, epochs, ids, waiting."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from pykafka4.wire.protocol.messages_admin import DeleteRecordsRequest
from pykafka4.wire.protocol.messages_cluster import MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from pykafka4.wire.records.batch import WireRecord, batches, build_batch
from tests.conformance.produce_script import batch, now_ms, put
from tests.conformance.worlds import World, error

NEW, BY_NAME, LEADER_ONLY, FIRST = 17, 12, 10, 4
BY_ID = 12  # the first Metadata that can ask for topics by id
EARLIEST, LATEST, NEWEST = -2, -1, -3


def request(world: World, topic: str, offset: int, **options: Any) -> FetchRequest:
    part = FetchRequest.Topic.Partition(
        partition=options.pop("partition", 0),
        fetch_offset=offset,
        partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
        current_leader_epoch=options.pop("epoch", -1),
        last_fetched_epoch=options.pop("last", -1),
    )
    entry = FetchRequest.Topic(
        topic=topic, topic_id=options.pop("topic_id", None) or world.ids.get(topic) or UUID(int=7), partitions=[part]
    )
    return FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "topics": [entry], "forgotten_topics_data": [], **options}
    )


def observed(answer: Any, version: int) -> Any:
    if answer == "closed" or answer.error_code or not answer.responses:
        return answer if answer == "closed" else [error(answer.error_code), len(answer.responses)]
    row = answer.responses[0].partitions[0]
    spans = [[b.base_offset, b.next_offset] for b in batches(row.records)] if row.records is not None and len(row.records) else []
    told: list[Any] = [error(row.error_code), row.high_watermark, spans]
    if version >= 5:
        told.append(row.log_start_offset)
    if version >= 12:
        told.append(["diverging", row.diverging_epoch.epoch, row.diverging_epoch.end_offset])
    if version >= 16:
        told += ["leader told" if row.current_leader.leader_id >= 0 else "no leader", len(answer.node_endpoints)]
    return told


def get(world: World, topic: str, offset: int, *, node: int | None = None, version: int = NEW, **options: Any) -> Any:
    """What a Fetch of one partition is answered."""
    leader = world.leader(topic, options.get("partition", 0)) if node is None else node
    return observed(world.ask(leader, request(world, topic, offset, **options), version), world.version(leader, FetchRequest, version))


def listed(
    world: World, topic: str, timestamp: int, *, node: int | None = None, version: int = 8, partition: int = 0, epoch: int = -1
) -> Any:
    row = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
    message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=[row])])
    at = world.leader(topic) if node is None else node
    told = world.ask(at, message, version).topics[0].partitions[0]
    return [
        error(told.error_code),
        told.offset,
        told.timestamp,
        told.leader_epoch if world.version(at, ListOffsetsRequest, version) >= 4 else None,
    ]


def epoch_end(world: World, topic: str, epoch: int, *, current: int = -1, node: int | None = None, partition: int = 0) -> Any:
    row = OffsetForLeaderEpochRequest.Topic.Partition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    message = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderEpochRequest.Topic(topic=topic, partitions=[row])])
    told = world.ask(world.leader(topic) if node is None else node, message, 4).topics[0].partitions[0]
    return [error(told.error_code), told.leader_epoch, told.end_offset]


def offsets(world: World) -> None:
    topic = world.create("read", 2)
    at = now_ms() - 10_000
    for n in range(3):
        rows = [WireRecord(timestamp_ms=at + 1000 * n + i, value=b"v") for i in range(2)]
        put(world, topic, build_batch(rows))
    for step, offset in (("the start", 0), ("inside a batch", 3), ("the end", 6), ("beyond the end", 7), ("below 0", -1)):
        for version in (NEW, BY_NAME, FIRST):
            world.note(f"fetch v{version} from {step}", get(world, topic, offset, version=version))
    world.note("fetch little", get(world, topic, 0, partition_max_bytes=1))
    world.note("fetch nothing but the first batch", get(world, topic, 0, max_bytes=1))
    if not world.alone:
        world.note("fetch from a follower", "NONE" if get(world, topic, 0, node=world.follower(topic))[0] == "NONE" else "refused")
        world.note("fetch from a follower in version 10", get(world, topic, 0, node=world.follower(topic), version=LEADER_ONLY))
    world.note("fetch no partition", get(world, topic, 0, node=1, partition=9))
    world.note("fetch no topic", get(world, "nothing-of-that-name", 0, node=1, version=BY_NAME))
    world.note("fetch no topic id", get(world, "nothing-of-that-name", 0, node=1))
    world.note("fetch in an unknown session", get(world, topic, 0, session_id=77, session_epoch=3))
    for step, stamp in (
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("newest", NEWEST),
        ("long ago", 0),
        ("in between", at + 1000),
        ("later", at + 9000),
    ):
        told = listed(world, topic, stamp)
        world.note(f"list {step}", [told[0], told[1], told[2] - at if told[2] > 0 else told[2], told[3]])
    world.note("list latest in version 1", listed(world, topic, LATEST, version=1))
    if not world.alone:
        world.note("list of a follower", listed(world, topic, LATEST, node=world.follower(topic)))
    world.note("list no partition", listed(world, topic, LATEST, node=1, partition=9))
    world.note("list no topic", listed(world, "nothing-of-that-name", LATEST, node=1))
    empty = world.create("empty")
    for step, stamp in (("earliest", EARLIEST), ("latest", LATEST), ("newest", NEWEST), ("by time", 5)):
        world.note(f"list {step} of an empty log", listed(world, empty, stamp))
    world.note("fetch an empty log", get(world, empty, 0))
    row = DeleteRecordsRequest.Topic(name=topic, partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=3)])
    cut = world.ask(world.leader(topic), DeleteRecordsRequest(topics=[row], timeout_ms=10_000), 2).topics[0].partitions[0]
    world.note("delete records", [error(cut.error_code), cut.low_watermark])
    world.note("list earliest of a log that was cut", listed(world, topic, EARLIEST))
    world.note("fetch below the start", get(world, topic, 2))
    world.note("fetch at the start", get(world, topic, 3))
    world.note("produce to a log that was cut", put(world, topic, batch()))


def epochs(world: World) -> None:
    topic = world.create("epochs")
    put(world, topic, batch(2))
    world.move(topic)
    put(world, topic, batch(3))
    world.move(topic)
    now = world.epoch(topic)
    world.note("epoch after two moves", now)
    for step, epoch in (("of the past", now - 1), ("of now", now), ("of the future", now + 1)):
        world.note(f"fetch with an epoch {step}", get(world, topic, 0, epoch=epoch))
        world.note(f"fetch of a follower with an epoch {step}", get(world, topic, 0, epoch=epoch, node=world.follower(topic))[0])
        world.note(
            f"fetch of a follower in version 10 with an epoch {step}",
            get(world, topic, 0, epoch=epoch, node=world.follower(topic), version=10)[0],
        )
        world.note(f"list with an epoch {step}", listed(world, topic, LATEST, epoch=epoch))
        world.note(f"epoch end with an epoch {step}", epoch_end(world, topic, 0, current=epoch))
    for epoch in range(now + 2):
        world.note(f"end of epoch {epoch}", epoch_end(world, topic, epoch))
        for offset in (1, 2, 3, 5):
            world.note(f"fetch {offset} after epoch {epoch}", get(world, topic, offset, last=epoch))
    world.note("fetch beyond the end after an epoch", get(world, topic, 9, last=now))
    world.note("fetch beyond the end after an old epoch", get(world, topic, 9, last=0))
    world.note("end of epoch of a follower", epoch_end(world, topic, 0, node=world.follower(topic)))
    world.note("end of epoch of no partition", epoch_end(world, topic, 0, node=1, partition=9))
    put(world, topic, batch())
    world.note("latest with its epoch", listed(world, topic, LATEST))
    world.note("fetch what the new leader wrote", get(world, topic, 5, epoch=now, last=now))


def waiting(world: World) -> None:
    topic = world.create("waiting")
    leader = world.leader(topic)

    def held(step: str, act: Any, **options: Any) -> None:
        line = world.line(leader)
        version = world.version(leader, FetchRequest, NEW)
        number = line.send(request(world, topic, options.pop("offset", 0), **{"max_wait_ms": 8000, **options}), version)
        quiet = line.quiet(0.4)
        act()
        began = time.monotonic()
        world.note(step, [quiet, observed(line.receive(number), version), time.monotonic() - began < 4])
        line.close()

    began = time.monotonic()
    told = get(world, topic, 0, max_wait_ms=600)
    world.note("fetch waits as long as asked", [told, 0.5 < time.monotonic() - began < 5])
    held("fetch ends when a record comes", lambda: put(world, topic, batch()))
    held("fetch of much ends with its time", lambda: put(world, topic, batch()), offset=1, min_bytes=10_000, max_wait_ms=1500)
    if not world.alone:
        held("fetch with an epoch ends when the leader moves", lambda: world.move(topic), offset=2, epoch=world.epoch(topic))
    leader = world.leader(topic)
    world.note("fetch beyond the end does not wait", get(world, topic, 99, max_wait_ms=8000))
    held("fetch ends when the topic is deleted", lambda: world.delete(topic), offset=2)


class Session:
    """A fetch session with the partitions of a topic that one broker leads; observations call them 0, 1, 2."""

    def __init__(self, world: World, topic: str, version: int = NEW) -> None:
        self.world, self.topic, self.version = world, topic, version
        self.node = world.leader(topic)
        everywhere = range(3 * len(world.place.nodes))
        self.partitions = [p for p in everywhere if world.leader(topic, p) == self.node][:3]
        self.id = self.epoch = 0

    def ask(self, offsets: dict[int, int], forget: tuple[int, ...] = (), **options: Any) -> Any:
        """What the next Fetch of the session is answered: an error, or the partitions with theirs."""
        parts = [
            FetchRequest.Topic.Partition(
                partition=self.partitions[n] if n < 3 else n,
                fetch_offset=offset,
                partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
            )
            for n, offset in offsets.items()
        ]
        ids = {"topic": self.topic, "topic_id": self.world.ids[self.topic]}
        forgotten = [FetchRequest.ForgottenTopic(**ids, partitions=[self.partitions[n] if n < 3 else n for n in forget])] if forget else []
        version = options.pop("version", self.version)
        settings = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_id": self.id, "session_epoch": self.epoch, **options}
        message = FetchRequest(
            topics=[FetchRequest.Topic(**ids, partitions=parts)] if parts else [], forgotten_topics_data=forgotten, **settings
        )
        answer = self.world.ask(self.node, message, version)
        if answer.error_code:
            return [error(answer.error_code), answer.session_id, len(answer.responses)]
        if not options:
            self.id, self.epoch = answer.session_id, self.epoch + 1
        return [[self.number(p.partition_index), error(p.error_code)] for t in answer.responses for p in t.partitions]

    def little(self) -> Any:
        """Who is first in line: one batch fits into the answer."""
        told = self.ask({}, max_bytes=1)
        self.epoch += 1
        return [number for number, _ in told]

    def number(self, partition: int) -> int:
        return self.partitions.index(partition) if partition in self.partitions else partition

    def put(self, *numbers: int) -> None:
        for number in numbers:
            put(self.world, self.topic, batch(), partition=self.partitions[number])


def sessions(world: World) -> None:
    """Fetch sessions (KIP-227)."""
    for version in (NEW, BY_NAME):
        note = lambda step, seen, version=version: world.note(f"v{version}: {step}", seen)  # noqa: E731
        topic = world.create(f"sessions-{version}", 3 * len(world.place.nodes))
        session = Session(world, topic, version)
        note("a full fetch", session.ask({0: 0, 1: 0, 2: 0}))
        note("it opened a session", session.id > 0)
        note("no news", session.ask({}))
        session.put(1)
        note("one has records", session.ask({}))
        note("it is asked for behind them", session.ask({1: 1}))
        session.put(0, 1, 2)
        note("who had records comes last", session.ask({}))
        note("one after the other", [session.little() for _ in range(4)])
        note("one is named again", session.ask({0: 0}))
        note("it keeps its place", [session.little() for _ in range(3)])
        note("one is forgotten", session.ask({}, forget=(0,)))
        note("it is named again", session.ask({0: 0}))
        note("it comes last", [session.little() for _ in range(3)])
        note("named and forgotten at once", session.ask({0: 0}, forget=(0,)))
        note("all are read", session.ask({1: 2, 2: 1}))
        note("a partition that is not there", session.ask({99: 0}))
        note("it is told again", session.ask({}))
        note("and forgotten", session.ask({}, forget=(99,)))
        row = DeleteRecordsRequest.Topic.Partition(partition_index=session.partitions[1], offset=1)
        world.ask(
            session.node, DeleteRecordsRequest(topics=[DeleteRecordsRequest.Topic(name=topic, partitions=[row])], timeout_ms=10_000), 2
        )
        note("a log begins later", session.ask({}))
        note("no news again", session.ask({}))
        note("an offset that is not there", session.ask({2: 50}))
        note("another session", session.ask({}, session_id=session.id + 1))
        note("another epoch", session.ask({}, session_epoch=session.epoch + 1))
        note("another kind of version", session.ask({}, version=BY_NAME if version == NEW else NEW))
        note("it goes on", session.ask({2: 1}))
        old = session.id
        note("a full fetch in its place", [session.ask({0: 0}, session_epoch=0), session.ask({}, session_id=old)])
        session.id = session.epoch = 0
        session.ask({0: 0})
        note("its end", [session.ask({0: 0}, session_epoch=-1), session.ask({})])
        session.id = session.epoch = 0
        session.ask({0: 0})
        note("without partitions", [session.ask({}, forget=(0,)), session.id])
    session = Session(world, world.create("sessions-gone", 3 * len(world.place.nodes)))
    session.ask({0: 0})
    world.delete(session.topic)
    world.note("the topic is deleted", session.ask({}))
    world.create("sessions-gone", 3 * len(world.place.nodes))
    world.note("and created again", session.ask({}))


def metadata(world: World) -> None:
    for step, name in (("unknown", "nothing-of-that-name"), ("illegal", "not/legal"), ("empty", ""), ("too long", "x" * 250)):
        told = world.metadata(1, name)
        world.note(
            f"metadata of a topic: {step}", [error(told.error_code), told.name == name, told.topic_id.int == 0, len(told.partitions)]
        )
    if world.version(1, MetadataRequest, BY_ID) == BY_ID:
        wanted = [MetadataRequest.Topic(topic_id=UUID(int=7), name=None)]
        told = world.ask(1, MetadataRequest(topics=wanted, allow_auto_topic_creation=False), BY_ID).topics[0]
        world.note("metadata of an unknown id", [error(told.error_code), told.name, told.topic_id.int])
    topic = world.create("known", 3)
    told = world.metadata(1, topic)
    rows = sorted(told.partitions, key=lambda p: p.partition_index)
    world.note(
        "metadata of a topic",
        [error(told.error_code), [[error(p.error_code), p.leader_epoch, len(p.replica_nodes), len(p.isr_nodes)] for p in rows]],
    )
    nobody = world.ask(1, MetadataRequest(topics=[], allow_auto_topic_creation=False), 12)
    world.note("metadata of no topic", [len(nobody.brokers), len(nobody.topics)])


SCRIPTS = (offsets, epochs, waiting, metadata, sessions)
