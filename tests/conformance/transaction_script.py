"""Transactions: producer ids and epochs, what a transaction includes, how it ends, and what its readers get."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest, OffsetFetchRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_txn import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykafka4.wire.records.batch import batches, control_type, records_of
from tests.conformance.produce_script import BY_ID, batch, sealed
from tests.conformance.produce_script import observed as produced
from tests.conformance.worlds import World, error, eventually

MINUTE = 60_000
RAISING = 5  # the version of EndTxn that begins the next epoch


class Txn:
    """One transactional producer. `raising`: it uses the versions of `transaction.version` 2."""

    def __init__(self, world: World, name: str, *, raising: bool) -> None:
        self.world, self.id, self.raising = world, world.name(name), raising
        self.node = world.coordinator(self.id, transactional=True)
        self.producer_id, self.epoch, self.first_epoch = -1, -1, 0
        self.sequences: dict[tuple[str, int], int] = {}

    def told(self, ask: Any) -> Any:
        """The answer, once no transaction is being completed and the coordinator has its state."""
        waits = ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR")
        found: list[Any] = []

        def settled() -> bool:
            found[:] = [ask()]
            return (found[0][0] if isinstance(found[0], list) else found[0]) not in waits

        eventually(settled, f"{self.id} to be settled")
        return found[0]

    def init(self, *, producer: tuple[int, int] = (-1, -1), timeout_ms: int = MINUTE, version: int = 5) -> Any:
        message = InitProducerIdRequest(
            transactional_id=self.id, transaction_timeout_ms=timeout_ms, producer_id=producer[0], producer_epoch=producer[1]
        )
        answer = self.world.ask(self.node, message, version)
        if answer.error_code:
            return [error(answer.error_code), answer.producer_id, answer.producer_epoch]
        changed = "the same id" if answer.producer_id == self.producer_id else "another id"
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return ["NONE", changed, answer.producer_epoch]

    def begin(self, **options: Any) -> Any:
        """Init, after a transaction before it was aborted."""
        return self.told(lambda: self.init(**options))

    def add(self, *parts: tuple[str, int], version: int = 3, producer: tuple[int, int] | None = None) -> Any:
        producer = producer or (self.producer_id, self.epoch)
        names = dict.fromkeys(name for name, _ in parts)
        topics = [AddPartitionsToTxnRequest.Topic(name=name, partitions=[n for t, n in parts if t == name]) for name in names]
        message = AddPartitionsToTxnRequest(
            transactions=[],
            v3_and_below_transactional_id=self.id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=topics,
        )
        answer = self.world.ask(self.node, message, version)
        topics_told = answer.results_by_topic_v3_and_below  # in any order
        rows = {(t.name, row.partition_index): row.partition_error_code for t in topics_told for row in t.results_by_partition}
        told = [error(rows[part]) for part in parts]
        return told if len(told) > 1 else told[0]

    def put(self, topic: str, count: int = 1, *, partition: int = 0, version: int | None = None, **changes: Any) -> Any:
        """Produce; `changes`: epoch, sequence, pid, plain (not transactional), name."""
        place = topic, partition
        sequence = changes.get("sequence", self.sequences.get(place, 0))
        data = batch(count, pid=changes.get("pid", self.producer_id), epoch=changes.get("epoch", self.epoch), sequence=sequence)
        if not changes.get("plain"):
            data = sealed(data, 21, ">h", 0x10)
        part = ProduceRequest.Topic.Partition(index=partition, records=data)
        entry = ProduceRequest.Topic(name=topic, topic_id=self.world.ids.get(topic) or UUID(int=7), partition_data=[part])
        message = ProduceRequest(transactional_id=changes.get("name", self.id), acks=-1, timeout_ms=5000, topic_data=[entry])
        version = (BY_ID if self.raising else 11) if version is None else version
        node = self.world.leader(topic, partition)

        def ask() -> Any:
            return produced(self.world.ask(node, message, version), self.world.version(node, ProduceRequest, version))[:2]

        told = self.told(ask)
        if told[0] == "NONE":
            self.sequences[place] = sequence + count
        return told

    def end(self, committed: bool = True, *, producer: tuple[int, int] | None = None, version: int | None = None) -> Any:
        producer = producer or (self.producer_id, self.epoch)
        version = (RAISING if self.raising else RAISING - 1) if version is None else version
        message = EndTxnRequest(transactional_id=self.id, producer_id=producer[0], producer_epoch=producer[1], committed=committed)
        answer = self.world.ask(self.node, message, version)
        if answer.error_code or answer.producer_id < 0:
            return [error(answer.error_code), answer.producer_id, answer.producer_epoch]
        told = ["NONE", answer.producer_id == self.producer_id, answer.producer_epoch - self.epoch]
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return told

    def finish(self, committed: bool = True, **options: Any) -> Any:
        """End, and wait until the markers are written."""
        before = self.producer_id, self.epoch
        told = self.end(committed, **options)
        if told[0] == "NONE":
            self.told(lambda: self.end(committed, **{"producer": before, **options}))
        return told

    def add_offsets(self, group: str, version: int = 4) -> Any:
        message = AddOffsetsToTxnRequest(transactional_id=self.id, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group)
        return self.told(lambda: error(self.world.ask(self.node, message, version).error_code))

    def commit_offset(
        self, group: str, topic: str, offset: int, *, epoch: int | None = None, version: int | None = None, **member: Any
    ) -> Any:
        part = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata="m")
        version = (5 if self.raising else 4) if version is None else version
        message = TxnOffsetCommitRequest(
            transactional_id=self.id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            topics=[TxnOffsetCommitRequest.Topic(name=topic, partitions=[part])],
            **member,
        )
        node = self.world.coordinator(group)
        return self.told(lambda: error(self.world.ask(node, message, version).topics[0].partitions[0].error_code))


class Reader:
    """What a partition's leader returns to readers."""

    def __init__(self, world: World, topic: str) -> None:
        self.world, self.topic, self.names = world, topic, {}  # type: ignore[var-annotated]

    def fetch(self, offset: int = 0, *, isolation: int = 1, max_bytes: int = 1 << 20) -> Any:
        """Offsets, what the records are, and the list of aborted transactions with producers in the order of their appearance."""
        part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics = [FetchRequest.Topic(topic=self.topic, topic_id=self.world.ids[self.topic], partitions=[part])]
        message = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=isolation, topics=topics, forgotten_topics_data=[])
        row = self.world.ask(self.world.leader(self.topic), message, 13).responses[0].partitions[0]
        kinds = [self.kind(found) for found in batches(row.records or b"")]
        listed = row.aborted_transactions
        told = None if listed is None else [[self.name(a.producer_id), a.first_offset] for a in listed]
        return [error(row.error_code), row.high_watermark, row.last_stable_offset, kinds, told]

    def name(self, producer_id: int) -> str:
        return self.names.setdefault(producer_id, f"producer {len(self.names)}")  # type: ignore[no-any-return]

    def kind(self, found: Any) -> str:
        if not found.control:
            return (
                f"{found.base_offset}+{found.count} of {self.name(found.producer_id)}{' in a transaction' if found.transactional else ''}"
            )
        record = records_of(found)[0]
        kind = control_type(record)
        return (
            f"{found.base_offset} {kind.name if kind is not None else kind} of {self.name(found.producer_id)}, {len(record.value or b'')}"
        )

    def list(self, timestamp: int, isolation: int = 1) -> Any:
        part = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp)
        message = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsRequest.Topic(name=self.topic, partitions=[part])]
        )
        row = self.world.ask(self.world.leader(self.topic), message, 8).topics[0].partitions[0]
        return [error(row.error_code), row.offset]


def transactional_ids(world: World) -> None:
    """Producer ids and epochs of a transactional id, fencing included."""
    topic = world.create("epochs")
    one = Txn(world, "epochs", raising=False)
    world.note("a negative timeout", one.told(lambda: one.init(timeout_ms=-1))[:1])
    world.note("a timeout of 0", one.init(timeout_ms=0)[:1])
    world.note("a timeout beyond the limit", one.init(timeout_ms=15 * MINUTE + 1)[:1])
    world.note("an id without an epoch", one.init(producer=(5, -1))[:1])
    world.note("the first", one.begin())
    world.note("again", one.begin())
    held = one.producer_id, one.epoch
    world.note("with the epoch it has", one.begin(producer=held))
    world.note("with the epoch before, whose answer was lost", one.begin(producer=held))
    world.note("with an older epoch", one.init(producer=(held[0], held[1] - 1))[:1])
    world.note("with an older epoch in version 3", one.init(producer=(held[0], held[1] - 1), version=3)[:1])
    world.note("with another id", one.init(producer=(held[0] + 1_000_000, held[1]))[:1])
    world.note("an epoch that is to come", one.init(producer=(held[0], held[1] + 9))[:1])
    world.note("add", one.told(lambda: one.add((topic, 0))))
    world.note("write", one.put(topic))
    two = Txn(world, "epochs", raising=False)
    two.producer_id, two.epoch = one.producer_id, one.epoch
    world.note("another producer while a transaction is open", two.init()[0])
    world.note("another producer", two.begin())
    world.note("the old one writes", one.put(topic))
    world.note("the old one adds", one.add((topic, 0)))
    world.note("the old one adds in version 1", one.add((topic, 0), version=1))
    world.note("the old one ends", one.end())
    world.note("the old one ends in version 1", one.end(version=1))
    world.note("the old one adds offsets", one.add_offsets(world.name("g")))
    world.note("the old one begins again", one.init(producer=(one.producer_id, one.epoch))[:1])
    world.note("add, another id", two.add((topic, 0), producer=(two.producer_id + 1_000_000, two.epoch)))
    world.note("end, another id", two.end(producer=(two.producer_id + 1_000_000, two.epoch)))
    world.note("add, a later epoch", two.add((topic, 0), producer=(two.producer_id, two.epoch + 1)))
    unknown = Txn(world, "unknown", raising=False)
    unknown.producer_id, unknown.epoch = 5, 0
    world.note("add to an unknown transactional id", unknown.told(lambda: unknown.add((topic, 0))))
    world.note("end an unknown transactional id", unknown.end())
    world.note("read", Reader(world, topic).fetch())


def contents(world: World, *, raising: bool) -> None:
    """What belongs to a transaction, and how it ends."""
    topic, other = world.create("contents"), world.create("contents-other")
    one = Txn(world, "contents", raising=raising)
    world.note("init", one.begin())
    world.note("commit nothing", one.end())
    world.note("abort nothing", one.finish(False))
    for version in (9, 11):
        world.note(f"write to a partition that was not added in version {version}", one.put(topic, version=version))
    if not raising:
        world.note("add nothing that exists", one.add((topic, 0), ("nothing-of-that-name", 0)))
        world.note("add", one.told(lambda: one.add((topic, 0))))
        world.note("add again", one.add((topic, 0)))
    world.note("write", one.put(topic, 2))
    world.note("write again", one.put(topic))
    world.note("write the same again", one.put(topic, sequence=2))
    world.note("write with a gap", one.put(topic, sequence=9))
    world.note("write outside of the transaction", one.put(topic, plain=True))
    world.note("write without a transactional id", one.put(topic, name=None))
    world.note("write with another id", one.put(other, pid=one.producer_id + 1_000_000))
    world.note("write to another partition", one.put(other, version=11))
    before = one.producer_id, one.epoch
    world.note("commit", one.finish())
    world.note("commit again", one.end(producer=before))
    world.note("abort after the commit", one.end(False, producer=before))
    world.note("write after the end with the epoch before", one.put(topic, epoch=before[1], sequence=3))
    world.note("the next epoch from 5", one.put(topic, sequence=5) if raising else None)
    if not raising:
        one.told(lambda: one.add((topic, 0)))
    world.note("write in the next", one.put(topic))
    world.note("abort", one.finish(False))
    world.note("abort again, the current epoch", one.finish(False))
    world.note("commit after the abort", one.end(version=RAISING - 1) if not raising else None)
    world.note("read", Reader(world, topic).fetch())


def transaction_1(world: World) -> None:
    contents(world, raising=False)


def transaction_2(world: World) -> None:
    contents(world, raising=True)


def isolation(world: World) -> None:
    """What readers get of transactions that overlap."""
    topic = world.create("reading")
    reader = Reader(world, topic)
    one, two, three = (Txn(world, f"reading-{n}", raising=True) for n in range(3))
    for producer in (one, two, three):
        producer.begin()
    world.note("nothing", reader.fetch())
    one.put(topic, 2)
    world.note("open", reader.fetch())
    world.note("open, uncommitted", reader.fetch(isolation=0))
    world.note("open, end", [reader.list(-1), reader.list(-1, 0), reader.list(-2), reader.list(0), reader.list(0, 0)])
    world.note("open, newest", [reader.list(-3), reader.list(-3, 0)])
    two.put(topic)
    three.put(topic)
    one.put(topic)
    two.finish(False)
    world.note("one aborted behind an open one", reader.fetch())
    one.finish(False)
    world.note("two aborted, one open", reader.fetch())
    three.finish()
    world.note("all ended", reader.fetch())
    world.note("all ended, uncommitted", reader.fetch(isolation=0))
    for offset in range(9):
        world.note(f"from {offset}", reader.fetch(offset)[3:])
    world.note("a little from 0", reader.fetch(0, max_bytes=10)[3:])
    world.note("a little from 2", reader.fetch(2, max_bytes=10)[3:])
    world.note("ends", [reader.list(-1), reader.list(-1, 0)])
    one.put(topic)
    one.finish(False)
    world.note("an aborted one at the end", [reader.fetch(), reader.list(-1)])
    one.put(topic, 3)
    world.note("an open one at the end", [reader.fetch(8), reader.list(-1), reader.list(-1, 0)])
    one.finish()
    world.note("a committed one at the end", [reader.fetch(8), reader.list(-1), reader.list(0), reader.list(-3)[0]])


def in_transactions(world: World, *, raising: bool) -> None:
    """Offsets in a transaction."""
    topic, group = world.create("offsets"), world.name("txn-offsets")
    one = Txn(world, "offsets", raising=raising)
    one.begin()
    node = world.coordinator(group)

    def stored(stable: bool = True) -> Any:
        wanted = OffsetFetchRequest.Group.Topic(name=topic, partition_indexes=[0])
        message = OffsetFetchRequest(groups=[OffsetFetchRequest.Group(group_id=group, topics=[wanted])], require_stable=stable)
        row = world.ask(node, message, 9).groups[0].topics[0].partitions[0]
        return [row.committed_offset, row.metadata, error(row.error_code)]

    def plain(offset: int) -> str:
        part = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset, committed_metadata="")
        topics = [OffsetCommitRequest.Topic(name=topic, partitions=[part])]
        message = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics)
        return error(world.ask(node, message, 9).topics[0].partitions[0].error_code)

    if not raising:
        world.note("offsets that were not added", one.commit_offset(group, topic, 5))
        world.note("offsets that were not added in version 3", one.commit_offset(group, topic, 5, version=3))
        world.note("add", one.add_offsets(group))
    world.note("commit", one.commit_offset(group, topic, 5))
    world.note("pending", [stored(), stored(False)])
    world.note("of an older epoch", one.commit_offset(group, topic, 6, epoch=one.epoch - 1))
    world.note("of a member that is none", one.commit_offset(group, topic, 6, member_id="nobody", generation_id_or_member_epoch=3))
    world.note("of a generation without a member", one.commit_offset(group, topic, 6, generation_id_or_member_epoch=3))
    world.note("of a partition that is none", one.commit_offset(group, "nothing-of-that-name", 6))
    before = one.producer_id, one.epoch
    world.note("end", one.finish())
    world.note("committed", eventually(lambda: stored()[0] == 5 and stored(), "the marker in the group's log"))
    world.note("after the end with the epoch before", one.commit_offset(group, topic, 6, epoch=before[1]))
    if not raising:
        one.add_offsets(group)
    world.note("commit another", one.commit_offset(group, topic, 7))
    world.note("pending again", stored())
    one.finish(False)
    world.note("aborted", eventually(lambda: stored()[0] == 5 and stored(), "the abort in the group's log"))
    if not raising:
        one.add_offsets(group)
    one.commit_offset(group, topic, 8)
    world.note("a commit without a transaction meanwhile", plain(9))
    one.finish()
    world.note("the later one stays", eventually(lambda: stored()[0] >= 0 and stored(), "the marker in the group's log"))


def transactional_offsets_1(world: World) -> None:
    in_transactions(world, raising=False)


def transactional_offsets_2(world: World) -> None:
    in_transactions(world, raising=True)


def transaction_timeouts(world: World) -> None:
    """A transaction that takes too long."""
    topic = world.create("timeouts")
    one = Txn(world, "timeouts", raising=True)
    one.begin(timeout_ms=500)
    world.note("write", one.put(topic))
    reader = Reader(world, topic)
    eventually(lambda: reader.fetch()[2] == 2, "the transaction to be aborted")
    world.note("read", reader.fetch())
    world.note("write after it", one.put(topic))
    world.note("end after it", one.told(one.end))
    world.note("abort after it", one.told(lambda: one.end(False)))
    world.note("begin again with the epoch", one.told(lambda: one.init(producer=(one.producer_id, one.epoch)))[:1])


def features(world: World) -> None:
    """The finalized feature that chooses the protocol of transactions."""
    for node in world.place.nodes[:1]:
        answer = world.ask(node, ApiVersionsRequest(client_software_name="c", client_software_version="1"), 4)
        told = [[f.min_version_level, f.max_version_level] for f in answer.finalized_features if f.name == "transaction.version"]
        world.note("transaction.version", told)


SCRIPTS = (
    transactional_ids,
    transaction_1,
    transaction_2,
    isolation,
    transactional_offsets_1,
    transactional_offsets_2,
    transaction_timeouts,
    features,
)
