"""Sender harness. A sender with a fake network, cluster and recovery: a clock that only tests move, and scripted answers."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from pykafka4.core import Effects, Failed, Reply, Request
from pykafka4.core.metadata.cluster import MetadataChange
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.network.troubles import Troubles
from pykafka4.core.producer.outcomes.ledger import ProducerStats
from pykafka4.core.producer.sender import Sender
from pykafka4.errors import ConnectionLost, KafkaError, broker_error
from pykafka4.errors.codes import BY_NAME, ErrorCode
from pykafka4.options.config import ProducerConfig
from pykafka4.partitioners import partitioner
from pykafka4.producer.rates import RateLimits
from pykafka4.producer.topics import TopicPolicies
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.messages_configs import DescribeConfigsRequest
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest, InitProducerIdResponse
from pykafka4.wire.records.batch import records_of
from pykafka4.wire.records.compression import CODECS, compress
from pykafka4.wire.records.decoder import read_header
from pykafka4.wire.records.hot import SPLIT, Accumulator, Batch

ID = UUID(int=7)
LOST = ConnectionLost("127.0.0.1:9092: reset by peer")


class FakeNetwork:
    def __init__(self) -> None:
        self.refusals = SimpleNamespace(listeners={})
        self.troubles = Troubles("c")
        self.up = {1, 2, 3}
        self.produce = 13
        self.links = {1: 1, 2: 2, 3: 3}
        self.wanted: list[int] = []
        self.avoided: list[int] = []
        self.throttled: dict[int, float] = {}
        self.down_at: float | None = 990.0

    def ready(self, node: int) -> bool:
        return node in self.up and node not in self.throttled

    def link(self, node: int) -> int | None:
        return self.links[node] if node in self.up else None

    def reconnect(self, node: int) -> None:
        """Another connection to the same broker."""
        self.links[node] = max(self.links.values()) + 1

    def version(self, node: int, api_key: int) -> int | None:
        return self.produce

    def want(self, node: int) -> None:
        self.wanted.append(node)

    def avoid(self, now: float, node: int) -> None:
        self.avoided.append(node)

    def why_unreachable(self) -> str:
        return "" if self.up else "no broker reachable: h1:9092 connection refused"

    def throttled_until(self, node: int) -> float:
        return self.throttled.get(node, 0.0)

    def down_since(self, node: int) -> float | None:
        return None if node in self.up else self.down_at

    def why_down(self, node: int) -> str:
        return "" if node in self.up else f"h{node}:9092 connection refused"


class FakeCluster:
    """Two partitions of topic t, led by nodes 1 and 2."""

    def refresh(self, now: float, topics: object = None) -> None:
        """Nothing else becomes known."""

    def __init__(self) -> None:
        self.on_change: list[Callable[[MetadataChange], None]] = []
        self.known = True
        self.hidden: set[str] = set()  # topics that do not exist
        self.unheard: set[str] = set()  # topics that no response has named yet
        self.leaderless: set[TopicPartition] = set()
        self.error: ErrorCode | None = None
        self.asked = 0
        self.id = ID
        self.wanted: list[str] = []

    def change(self, topic: str = "t") -> None:
        """Something about `topic` is another than before."""
        for listener in self.on_change:
            listener(MetadataChange(0, frozenset({topic}), False))

    def partitions(self, topic: str) -> int:
        return 2 if self.known and topic not in self.hidden | self.unheard else 0

    def available(self, topic: str) -> list[int]:
        return [0, 1]

    def leader(self, tp: TopicPartition) -> Leader | None:
        return None if tp in self.leaderless else Leader(tp.partition + 1, 5)

    def topic_id(self, topic: str) -> UUID | None:
        return self.id if self.known else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return "t"

    def topic_error(self, topic: str) -> ErrorCode | None:
        return BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"] if self.error is None and topic in self.hidden else self.error

    def refusal(self, topic: str, after: int) -> KafkaError | None:
        if self.error is None or self.error.retriable:
            return None
        return broker_error(self.error.code, f"topic {topic}", None, "Metadata", topic=topic)

    def want(self, topic: str, user: object, create: bool = False) -> None:
        self.wanted.append(topic)

    def forget(self, topic: str, user: object) -> None:
        self.wanted.remove(topic)

    def unknown_since(self, topic: str) -> float | None:
        return None

    def was_missing(self, topic: str, seconds: float) -> bool:
        return True

    def hint(self, *args: Any) -> None: ...


class FakeRecovery:
    def __init__(self) -> None:
        self.leaders = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}
        self.epoch = 0  # of every leader
        self.changes = self.losses = 0
        self.on_online: list[Callable[[TopicPartition], None]] = []
        self.offline: dict[TopicPartition, Any] = {}
        self.reports: list[tuple[TopicPartition, KafkaError]] = []
        self.retried: list[TopicPartition] = []

    def leader(self, tp: TopicPartition) -> Leader | None:
        node = self.leaders.get(tp)
        return None if node is None else Leader(node, self.epoch)

    def bring_back(self) -> None:
        """All partitions can be sent to again."""
        for tp in self.leaders:
            for listener in self.on_online:
                listener(tp)

    def note_retry(self, now: float, tp: TopicPartition, reason: KafkaError) -> None:
        self.retried.append(tp)

    def report(self, now: float, tp: TopicPartition, reason: KafkaError, node: int | None = None) -> None:
        self.reports.append((tp, reason))

    def take_offline(self, now: float, tp: TopicPartition, reason: KafkaError, since: float | None = None) -> None:
        self.offline[tp] = SimpleNamespace(since=now if since is None else since, reason=reason, attempts=0)

    def healthy(self, tp: TopicPartition) -> None: ...


class SenderHarness:
    """A sender with everything around it faked; the test gives the answers."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.config = ProducerConfig.parse({"bootstrap_servers": "b", "linger_ms": 0, "retry_backoff_ms": 100, **options})
        self.network, self.cluster, self.recovery = FakeNetwork(), FakeCluster(), FakeRecovery()
        limits = RateLimits((), lambda: 0.0, lambda: self.now, contextlib.nullcontext(), lambda seconds: None)
        self.acc = Accumulator(
            policy=TopicPolicies(self.config, limits) if self.config.topic_policies else None,
            batch_size=self.config.batch_size,
            linger=self.config.linger_ms / 1000,
            buffer_memory=self.config.buffer_memory,
            max_partition_bytes=self.config.partition_bytes,
            max_request_size=self.config.max_request_size,
            codec=CODECS[self.config.compression_type],
            compress=compress,
            clock=lambda: self.now,
            wake=self.note_wake,
            new_topic=lambda topic: self.sender.want(topic),
            make_room=lambda topic, partition, size, deadline: deadline,
            wait=lambda predicate, timeout: predicate(),
            submit=lambda fn: fn(),
            lock=contextlib.nullcontext(),
            seed=0,
            partitioner=partitioner(self.config.partitioner, False, adaptive=False),
        )
        self.refusals: list[KafkaError] = []
        self.seen_settled = True
        self.starved = False  # a thread waits for buffer_memory
        self.looks = 0  # times that waiters looked
        self.wakes = 0  # times that the loop was woken for another turn
        self.sender = Sender(
            self.config,
            self.acc,
            self.network,  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            self.recovery,  # type: ignore[arg-type]
            random.Random(1),
            self,
        )
        self.requests: list[Request] = []
        self.questions: list[Request] = []  # about size limits of topics
        self.next_id = 42

    def note_wake(self) -> None:
        self.wakes += 1

    def refuse(self, error: KafkaError) -> None:
        self.refusals.append(error)

    def set_refusal(self, refusal: KafkaError | None) -> None:
        raise AssertionError("there are no transactions")

    def progress(self) -> None:
        """Waiters look again: note what they would see."""
        self.looks += 1
        self.seen_settled = all(item.settled for item in self.acc.unfinished())

    def poll(self, seconds: float = 0.0) -> Effects:
        self.now += seconds
        effects = self.sender.poll(self.now)
        for request in effects.requests:
            if isinstance(request.message, InitProducerIdRequest):
                reply = InitProducerIdResponse(producer_id=self.next_id, producer_epoch=0)
                self.next_id += 1  # without a transactional id brokers always give a fresh one
                request.on_reply(self.now, Reply(reply, 4, 1))
            elif isinstance(request.message, DescribeConfigsRequest):
                self.questions.append(request)
            else:
                self.requests.append(request)
        for callback in effects.deliver:
            callback()
        self.check()
        return effects

    def stats(self) -> ProducerStats:
        return self.sender.ledger.snapshot(self.acc.census(), self.acc.reserved).stats()

    def check(self) -> None:
        """The ledger balances, in total and for each topic and partition, and agrees with the accumulator's own counts."""
        stats = self.stats()
        assert stats.accepted == stats.acked + stats.queued + stats.in_flight + stats.lost + sum(stats.dropped.values())
        assert (stats.acked, stats.lost, stats.in_flight) == (self.acc.acked, self.acc.failed, self.sender.ledger.in_flight)
        for name in ("accepted", "acked", "queued", "in_flight", "lost", "uncompressed_bytes", "compressed_bytes"):
            assert getattr(stats, name) == sum(getattr(topic, name) for topic in stats.topics.values()), name
        for tp, counts in stats.partitions.items():
            assert counts.queued + counts.in_flight == self.in_queue(tp), tp

    def in_queue(self, tp: TopicPartition) -> int:
        """Records of the partition's batches without an outcome, counted in the batches."""
        unfinished = [batch for batch in self.acc.unfinished() if isinstance(batch, Batch)]
        return sum(batch.count for batch in unfinished if (batch.topic, batch.partition) == tp and not batch.done and batch.state < SPLIT)

    def settle(self) -> None:
        for _ in range(5):
            self.poll(self.config.linger_ms / 1000)

    def together(self, values: Iterable[bytes], partition: int = 0) -> list[Any]:
        """Send several records as one batch."""
        handles = [self.acc.send("t", value, partition=partition) for value in values]
        self.settle()
        return handles

    def batch(self, value: bytes = b"v", partition: int = 0) -> Any:
        """Send one record as a batch of its own."""
        delivery = self.acc.send("t", value, partition=partition)
        self.settle()
        return delivery

    def two_partitions_in_one_request(self) -> tuple[list[Any], Request]:
        """The handles of a record in partition 0 and one in partition 1 of one leader, and the request that has both."""
        self.recovery.leaders[TopicPartition("t", 1)] = self.recovery.leaders[TopicPartition("t", 0)]
        self.network.up.clear()
        deliveries = [self.batch(b"v", partition) for partition in (0, 1)]
        self.network.up.add(1)
        self.cluster.change()
        self.settle()
        (request,) = self.requests
        return deliveries, request

    def proven(self) -> SenderHarness:
        """Past the first acknowledgement of both partitions: pipelining is on."""
        for partition in (0, 1):
            self.batch(b"first", partition)
            self.answer(self.requests.pop())
        return self

    def answer(
        self, request: Request, error: str = "NONE", offset: int = 0, *, refused: dict[int, str | None] | None = None, stamp: int = -1
    ) -> None:
        """Answer every partition of `request` so. `refused`: index of a record and what the broker says about it."""
        code, error_type = BY_NAME[error].code, ProduceResponse.Topic.Partition.RecordError
        named = [error_type(batch_index=i, batch_index_error_message=text) for i, text in (refused or {}).items()]
        topics = [
            ProduceResponse.Topic(
                name="t",
                topic_id=ID,
                partition_responses=[
                    ProduceResponse.Topic.Partition(
                        index=p.index, error_code=code, base_offset=offset, log_append_time_ms=stamp, record_errors=named
                    )
                    for p in topic.partition_data
                ],
            )
            for topic in request.message.topic_data
        ]
        request.on_reply(self.now, Reply(ProduceResponse(responses=topics), 12, request.node))
        self.check()
        self.poll()

    def lose(self, request: Request, written: Written = Written.MAYBE) -> None:
        request.on_reply(self.now, Failed(LOST, written))
        self.check()
        self.poll()


def records(request: Request) -> list[bytes | None]:
    """The values in the only batch of a request."""
    return [record.value for record in records_of(read_header(values(request)))]


def header(request: Request) -> tuple[int, int, int]:
    """(epoch, base sequence, partition) of the only batch of a request."""
    (partition,) = request.message.topic_data[0].partition_data
    data = bytes(partition.records)
    return int.from_bytes(data[51:53], "big", signed=True), int.from_bytes(data[53:57], "big", signed=True), partition.index


def producer_id(request: Request) -> int:
    return int.from_bytes(values(request)[43:51], "big", signed=True)


def values(request: Request) -> bytes:
    return bytes(request.message.topic_data[0].partition_data[0].records)
