"""Consumer harness. The machines of a consumer with a clock that only tests move, a scripted network and scripted metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from pykafka4.consumer.reading.forms import Form, ListForm, LoopForm
from pykafka4.consumer.reading.reader import Reader
from pykafka4.core import Failed, Job, Outcome, Reply, Request
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.group.encoding import assigned_partitions, assignment_bytes
from pykafka4.core.metadata.cluster import MetadataChange
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.network.network import LANE
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.subscription import Claim, Move, Start
from pykafka4.errors import ConnectionLost, KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME, ErrorCode
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.frame import encode_request
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest, FindCoordinatorResponse
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse
from pykafka4.wire.protocol.messages_group import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pykafka4.wire.records.batch import WireRecord, build_batch

LOST = Failed(ConnectionLost("127.0.0.1:9092: connection refused"), Written.MAYBE)
Answer = FetchResponse.Topic.Partition


def tp(partition: int, topic: str = "t") -> TopicPartition:
    return TopicPartition(topic, partition)


def code(name: str) -> int:
    return BY_NAME[name].code if name else 0


def config(**options: Any) -> ConsumerConfig:
    return ConsumerConfig.parse({"bootstrap_servers": "b:1", "auto_offset_reset": "earliest", "retry_backoff_ms": 100, **options})


@attrs.define(eq=False)
class Cluster:
    """A answer that tests paint."""

    topics: dict[str, list[int]] = attrs.Factory(dict)  # leaders, -1 for none
    ids: dict[str, Any] = attrs.Factory(dict)
    names: dict[Any, str] = attrs.Factory(dict)  # of all ids there ever were
    errors: dict[str, ErrorCode] = attrs.Factory(dict)
    missing: dict[str, float] = attrs.Factory(dict)  # for how long brokers have returned that it does not exist
    epochs: dict[TopicPartition, int] = attrs.Factory(dict)
    in_racks: dict[str, list[frozenset[str]]] = attrs.Factory(dict)  # of the replicas of each partition
    brokers: dict[int, Any] = attrs.Factory(lambda: {1: None, 2: None})
    version: int = 0
    on_change: list[Callable[[MetadataChange], None]] = attrs.Factory(list)
    wanted: list[str] = attrs.Factory(list)
    users: dict[str, set[object]] = attrs.Factory(dict)  # who wants each topic now
    hints: list[Any] = attrs.Factory(list)
    refreshes: int = 0
    asked: int = 0  # Metadata requests so far
    answered_request: int = 1  # the one whose response has the errors

    def set(self, topic: str, leaders: list[int] | None = None, error: str | None = None, topic_id: Any = None) -> None:
        self.version += 1
        self.errors.pop(topic, None)
        if error is not None:
            self.errors[topic] = BY_NAME[error]
        if leaders is not None:
            self.topics[topic] = leaders
        if topic_id is not None:
            self.ids[topic] = topic_id
            self.names[topic_id] = topic
        self.change(topic)

    def change(self, topic: str) -> None:
        """Something about `topic` is another than before."""
        for listener in self.on_change:
            listener(MetadataChange(self.version, frozenset({topic}), False))

    def want(self, topic: str, user: object) -> None:
        self.wanted.append(topic)
        self.users.setdefault(topic, set()).add(user)

    def forget(self, topic: str, user: object) -> None:
        users = self.users.get(topic, set())
        users.discard(user)
        if not users:
            self.users.pop(topic, None)

    def partitions(self, topic: str) -> int:
        return len(self.topics.get(topic, ()))

    def leader(self, tp: TopicPartition) -> Leader | None:
        leaders = self.topics.get(tp.topic, [])
        node = leaders[tp.partition] if tp.partition < len(leaders) else -1
        return None if node < 0 else Leader(node, self.epochs.get(tp, 0))

    def leaders(self, topic: str) -> list[Leader | None]:
        return [self.leader(TopicPartition(topic, p)) for p in range(self.partitions(topic))]

    def racks(self, topic: str) -> list[frozenset[str]]:
        return self.in_racks.get(topic, [])

    def topic_id(self, topic: str) -> Any:
        return self.ids.get(topic)

    def topic_name(self, topic_id: Any) -> str | None:
        return self.names.get(topic_id)

    def was_missing(self, topic: str, seconds: float) -> bool:
        return seconds <= self.missing.get(topic, -1.0)

    def topic_error(self, topic: str) -> ErrorCode | None:
        return self.errors.get(topic)

    def refusal(self, topic: str, after_request: int = 0) -> KafkaError | None:
        error = self.errors.get(topic)
        if error is None or error.retriable or self.answered_request <= after_request:
            return None
        return broker_error(error.code, f"topic {topic}", None, "Metadata", topic=topic)

    def refresh(self, now: float, topics: object = None) -> None:
        self.refreshes += 1

    def hint(self, *what: object) -> None:
        self.hints.append(what)


@attrs.define(eq=False)
class Recovery:
    """Partitions go offline when reported, and come back when a test says so."""

    cluster: Cluster
    offline: dict[TopicPartition, Any] = attrs.Factory(dict)
    reports: list[tuple[TopicPartition, KafkaError]] = attrs.Factory(list)
    healed: list[TopicPartition] = attrs.Factory(list)
    retried: list[TopicPartition] = attrs.Factory(list)
    on_online: list[Callable[[TopicPartition], None]] = attrs.Factory(list)

    def leader(self, tp: TopicPartition) -> Leader | None:
        return None if tp in self.offline else self.cluster.leader(tp)

    def note_retry(self, now: float, tp: TopicPartition, reason: KafkaError) -> None:
        self.retried.append(tp)

    def report(self, now: float, tp: TopicPartition, reason: KafkaError, node: int | None = None) -> None:
        self.offline[tp] = attrs.make_class("Offline", ["reason"])(reason)
        self.reports.append((tp, reason))

    def healthy(self, tp: TopicPartition) -> None:
        self.healed.append(tp)

    def bring_back(self) -> None:
        online, self.offline = list(self.offline), {}
        for tp in online:
            for listener in self.on_online:
                listener(tp)


class Network:
    """Lanes."""

    def __init__(self) -> None:
        self.refusals = SimpleNamespace(listeners={})
        self.troubles = Troubles("c")
        self.lanes = 0
        self.dropped: list[int] = []
        self.avoided: list[int] = []
        self.wanted: list[int] = []

    def new_lane(self) -> int:
        self.lanes += 1
        return self.lanes

    def avoid(self, now: float, node: int) -> None:
        self.avoided.append(node)

    def want(self, node: int) -> None:
        self.wanted.append(node)

    def drop_lane(self, lane: int) -> None:
        self.dropped.append(lane)


class Polling:
    """Polls a reader as `Guard` and `Session` do."""

    reader: Reader

    def enter(self) -> None:
        """A poll begins, and takes what has arrived."""
        if self.reader.changing:
            self.reader.recover()
        self.reader.enter()
        self.reader.drain()

    def hand_out(self, records: Any) -> Any:
        """The end of a poll, which returns `records`."""
        self.reader.handed, self.reader.changing = self.reader.taken, False
        return records

    def poll(self, limit: int = 500, form: Form[Any] | None = None) -> Any:
        """`Consumer.poll(0)`, but for listeners and waiting."""
        self.enter()
        try:
            records = self.take(limit, form)
        finally:
            self.reader.leave()
        return self.hand_out(records)

    def take(self, limit: int, form: Form[Any] | None = None) -> Any:
        """What `Reader.take` returns, or the result of a poll without records."""
        form = ListForm(500) if form is None else form
        records = self.reader.take(form, limit)
        return form.nothing() if records is None else records

    def loop(self, limit: int = 500) -> Any:
        """An iterator as a `for` loop gets it from one poll."""
        self.enter()
        iterator = self.take(limit, LoopForm(500))
        self.reader.leave()
        return self.hand_out(iterator)


class ConsumerHarness(Polling):
    """A member, its reader, and all the requests it made that have no answer yet."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.cluster = Cluster()
        self.recovery = Recovery(self.cluster)
        self.network: Any = Network()
        self.notified = 0
        self.reader = Reader(lambda: self.now, self._notify, self._reseek)
        self.config = config(**options)
        cluster: Any = self.cluster
        recovery: Any = self.recovery
        self.machine = ConsumerMachine(self.config, self.network, cluster, recovery, Random(1), self.reader)
        self.sent: list[Request] = []
        self.jobs: list[Job] = []  # not run yet
        self.wake_at = 0.0

    def _notify(self) -> None:
        self.notified += 1

    def _reseek(self, moves: Iterable[Move]) -> None:
        self.machine.fetcher.seek(moves)

    # ---- turning

    def run(self, seconds: float = 0.0) -> list[Request]:
        """Move the clock, poll until nothing new is asked; the requests of this step."""
        self.now += seconds
        fresh: list[Request] = []
        for _ in range(10):
            effects = self.machine.poll(self.now)
            self.wake_at = effects.wake_at
            fresh += effects.requests
            self.jobs += effects.jobs
            if not effects.requests and effects.wake_at > self.now:
                break
        self.sent += fresh
        return fresh

    def work(self) -> None:
        """Run the jobs of the helper executor."""
        while self.jobs:
            job = self.jobs.pop(0)
            try:
                result = job.run()
            except BaseException as error:
                result = error
            job.then(self.now, result)
            self.run()

    def pending(self, kind: type) -> list[Request]:
        return [request for request in self.sent if isinstance(request.message, kind)]

    def one(self, kind: type) -> Request:
        """The only request of its kind that waits for an answer."""
        (request,) = self.pending(kind)
        return request

    def as_sent(self, kind: type, version: int) -> Any:
        """The message of the only such request, as a connection of that version encodes it."""
        request = self.one(kind)
        if request.fit is not None:
            request.fit(request.message, version)
        encode_request(request.message, version, 1, "harness")
        return request.message

    def answer(self, request: Request, answer: Any, version: int = 12) -> None:
        """Answer it, and let the member react."""
        self.sent.remove(request)
        outcome: Outcome = answer if isinstance(answer, Failed) else Reply(answer, version, request.node % LANE)
        request.on_reply(self.now, outcome)
        self.run()

    # ---- usual answers

    def find_coordinator(self, node: int = 1) -> None:
        self.run()
        answer = FindCoordinatorResponse(error_code=0, error_message=None, node_id=node, host="h", port=1)
        self.answer(self.one(FindCoordinatorRequest), answer)

    def subscribe(self) -> None:
        """The application subscribes to `t` and polls; the coordinator is found."""
        self.machine.membership.subscribe(("t",))
        self.poll()
        self.find_coordinator()

    def join(
        self,
        *,
        member: str = "m",
        leader: str = "other",
        error: str = "",
        members: Iterable[Any] = (),
        generation: int = 1,
        protocol: str = "range",
        **more: Any,
    ) -> None:
        response = JoinGroupResponse(
            error_code=code(error),
            generation_id=generation,
            protocol_name=protocol,
            leader=leader,
            member_id=member,
            members=list(members),
            **more,
        )
        self.answer(self.one(JoinGroupRequest), response)

    def sync(self, tps: Iterable[TopicPartition] = (), error: str = "") -> None:
        self.answer(self.one(SyncGroupRequest), SyncGroupResponse(error_code=code(error), assignment=assignment_bytes(tps)))

    def shares(self) -> dict[str, list[TopicPartition]]:
        """What the leader's SyncGroup deals out."""
        return {a.member_id: assigned_partitions(a.assignment) for a in self.one(SyncGroupRequest).message.assignments}

    def beat(self, request: Request, error: str = "") -> None:
        self.answer(request, HeartbeatResponse(error_code=code(error)))

    def left(self, request: Request) -> None:
        self.answer(request, LeaveGroupResponse(error_code=0, members=[]))

    def committed(
        self, offsets: dict[TopicPartition, int] | None = None, error: str = "", errors: dict[TopicPartition, str] | None = None
    ) -> None:
        """Answer the lookup under way; `errors` are of single partitions."""
        request = self.one(OffsetFetchRequest)
        rows: dict[str, list[OffsetFetchResponse.Topic.Partition]] = {}
        for topic in request.message.topics:
            for index in topic.partition_indexes:
                place = (offsets or {}).get(TopicPartition(topic.name, index), -1)
                rows.setdefault(topic.name, []).append(
                    OffsetFetchResponse.Topic.Partition(
                        partition_index=index,
                        committed_offset=place,
                        committed_leader_epoch=-1,
                        metadata="",
                        error_code=code((errors or {}).get(TopicPartition(topic.name, index), "")),
                    )
                )
        topics = [OffsetFetchResponse.Topic(name=name, partitions=parts) for name, parts in rows.items()]
        self.answer(request, OffsetFetchResponse(topics=topics, error_code=code(error), groups=[]))

    def commits(self, errors: dict[TopicPartition, str] | None = None) -> dict[TopicPartition, int]:
        """Answer the commit under way; what it held."""
        request = self.one(OffsetCommitRequest)
        held = {TopicPartition(t.name, p.partition_index): p.committed_offset for t in request.message.topics for p in t.partitions}
        rows: dict[str, list[OffsetCommitResponse.Topic.Partition]] = {}
        for place in held:
            error = code((errors or {}).get(place, ""))
            rows.setdefault(place.topic, []).append(OffsetCommitResponse.Topic.Partition(partition_index=place.partition, error_code=error))
        self.answer(request, OffsetCommitResponse(topics=[OffsetCommitResponse.Topic(name=n, partitions=p) for n, p in rows.items()]))
        return held

    def ends(self, offset: int = 0, error: str = "") -> None:
        """Answer every ListOffsets with `offset`."""
        for request in self.pending(ListOffsetsRequest):
            topics = [
                ListOffsetsResponse.Topic(
                    name=t.name,
                    partitions=[
                        ListOffsetsResponse.Topic.Partition(partition_index=p.partition_index, error_code=code(error), offset=offset)
                        for p in t.partitions
                    ],
                )
                for t in request.message.topics
            ]
            self.answer(request, ListOffsetsResponse(topics=topics))

    def fetched(self, request: Request, data: dict[TopicPartition, Any], *, session: int = 0, version: int = 12, **more: Any) -> None:
        """Answer a Fetch, in a session or without: per partition bytes, the name of an error, or a ready answer."""
        topics: dict[str, list[FetchResponse.Topic.Partition]] = {}
        for place, what in data.items():
            topics.setdefault(place.topic, []).append(partition(place.partition, what))
        by_id = version >= 13
        responses = [
            FetchResponse.Topic(topic="" if by_id else name, topic_id=self.cluster.ids[name] if by_id else NO_UUID, partitions=parts)
            for name, parts in topics.items()
        ]
        self.answer(request, FetchResponse(error_code=0, session_id=session, responses=responses, **more), version)

    def asked(self, request: Request) -> dict[TopicPartition, int]:
        """What a Fetch asks for: partition to offset."""
        message: FetchRequest = request.message
        return {TopicPartition(t.topic, p.partition): p.fetch_offset for t in message.topics for p in t.partitions}

    def fetch_at(self, node: int) -> Request:
        (request,) = [r for r in self.pending(FetchRequest) if r.node % LANE == node]
        return request

    # ---- the application

    def assign(self, *tps: TopicPartition, start: Start | int = Start.COMMITTED) -> list[Claim]:
        claims = [Claim(place) for place in tps]
        self.reader.adopt(claims)
        self.machine.fetcher.adopt(claims, start)
        self.run()
        return claims

    def poll(self, limit: int = 500, form: Form[Any] | None = None) -> Any:
        """As before, and asks the loop for more."""
        try:
            return super().poll(limit)
        finally:
            if self.reader.consumed >= self.reader.resume_at:
                self.machine.fetcher.space(self.now)

    def stable(self, *tps: TopicPartition, topics: tuple[str, ...] = ("t",)) -> None:
        """Subscribe, join, and take up the partitions."""
        self.machine.membership.subscribe(topics)
        self.poll()
        self.find_coordinator()
        self.join()
        self.sync(tps)
        self.reader.drain()
        self.reader.adopt(self.reader.events.popleft().claims)


def fetched_epoch(harness: ConsumerHarness, offset: int) -> int:
    """The epoch that the Fetch at `offset` names."""
    parts = [topic.partitions[0] for request in harness.pending(FetchRequest) for topic in request.message.topics]
    return next(part.last_fetched_epoch for part in parts if part.fetch_offset == offset)


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[TopicPartition]:
    """The partitions whose leader is asked for from now on."""
    looked: list[TopicPartition] = []
    leader = Recovery.leader

    def look(self: Recovery, tp: TopicPartition) -> Leader | None:
        looked.append(tp)
        return leader(self, tp)

    monkeypatch.setattr(Recovery, "leader", look)
    return looked


def fetching(**options: Any) -> ConsumerHarness:
    """A consumer of topic t, whose three partitions nodes 1, 2 and 1 lead; nothing is assigned yet."""
    harness = ConsumerHarness(fetch_max_wait_ms=500, **options)
    harness.cluster.set("t", [1, 2, 1])
    return harness


def partition(index: int, what: Any, end: int = 1000) -> Answer:
    if isinstance(what, Answer):
        return what
    error = code(what) if isinstance(what, str) else 0
    records = None if isinstance(what, str) else what
    return Answer(partition_index=index, error_code=error, high_watermark=end, aborted_transactions=None, records=records)


def batch(first: int, count: int, *, size: int = 10, epoch: int = 0) -> bytes:
    """A batch of `count` records from offset `first` on."""
    records = [WireRecord(timestamp_ms=1, value=b"x" * size) for _ in range(count)]
    return bytes(build_batch(records, base_offset=first, leader_epoch=epoch))
