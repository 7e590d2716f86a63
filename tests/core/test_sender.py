"""Sender: retention, order, sequences, time-outs, against hand-made answers and a fake clock."""

from __future__ import annotations

import contextlib
import random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka4.config import ProducerConfig
from pykafka4.core import INFINITY, Effects, Failed, Reply, Request
from pykafka4.core.cluster import Leader
from pykafka4.core.sender import Sender
from pykafka4.error_table import BY_NAME, ErrorCode, Written
from pykafka4.errors import ClosedError, ConnectionLost, DeliveryFailed, KafkaError, KafkaTimeoutError
from pykafka4.records import TopicPartition
from pykafka4.wire.hot import Accumulator
from pykafka4.wire.messages_data import ProduceRequest, ProduceResponse
from pykafka4.wire.messages_txn import InitProducerIdRequest, InitProducerIdResponse

ID = UUID(int=7)
LOST = ConnectionLost("127.0.0.1:9092: reset by peer")


class FakeNetwork:
    def __init__(self) -> None:
        self.up = {1, 2, 3}
        self.produce = 13
        self.wanted: list[int] = []

    def ready(self, node: int) -> bool:
        return node in self.up

    def version(self, node: int, api_key: int) -> int | None:
        return self.produce

    def want(self, node: int) -> None:
        self.wanted.append(node)

    def doubt(self, now: float, node: int) -> None: ...

    def why_unreachable(self) -> str:
        return "" if self.up else "no broker reachable: h1:9092 connection refused"

    def why_down(self, node: int) -> str:
        return "" if node in self.up else f"h{node}:9092 connection refused"


class FakeCluster:
    """Two partitions of topic t, led by nodes 1 and 2."""

    def __init__(self) -> None:
        self.version = 0
        self.known = True
        self.error: ErrorCode | None = None
        self.id = ID
        self.wanted: list[str] = []

    def partitions(self, topic: str) -> int:
        return 2 if self.known else 0

    def available(self, topic: str) -> list[int]:
        return [0, 1]

    def topic_id(self, topic: str) -> UUID | None:
        return self.id if self.known else None

    def topic_name(self, topic_id: UUID) -> str | None:
        return "t"

    def topic_error(self, topic: str) -> ErrorCode | None:
        return self.error

    def want(self, topic: str, user: object, create: bool = False) -> None:
        self.wanted.append(topic)

    def forget(self, topic: str, user: object) -> None:
        self.wanted.remove(topic)

    def unknown_since(self, topic: str) -> float | None:
        return None

    def hint(self, *args: Any) -> None: ...


class FakeRecovery:
    def __init__(self) -> None:
        self.leaders = {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}
        self.changes = 0
        self.offline: dict[TopicPartition, Any] = {}
        self.reports: list[tuple[TopicPartition, KafkaError]] = []

    def leader(self, tp: TopicPartition) -> Leader | None:
        node = self.leaders.get(tp)
        return None if node is None else Leader(node, 0)

    def report(self, now: float, tp: TopicPartition, reason: KafkaError, node: int | None = None) -> None:
        self.reports.append((tp, reason))

    def healthy(self, tp: TopicPartition) -> None: ...


class Bench:
    """A sender with everything around it faked, and answers given by hand."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.config = ProducerConfig.parse({"bootstrap_servers": "b", "linger_ms": 0, "retry_backoff_ms": 100, **options})
        self.network, self.cluster, self.recovery = FakeNetwork(), FakeCluster(), FakeRecovery()
        self.acc = Accumulator(
            batch_size=self.config.batch_size,
            linger=self.config.linger_ms / 1000,
            buffer_memory=self.config.buffer_memory,
            max_partition_bytes=self.config.partition_bytes,
            max_request_size=self.config.max_request_size,
            clock=lambda: self.now,
            wake=lambda: None,
            new_topic=lambda topic: self.sender.want(topic),
            make_room=lambda topic, partition, size: None,
            wait=lambda predicate, timeout: predicate(),
            submit=lambda fn: fn(),
            lock=contextlib.nullcontext(),
        )
        self.refusals: list[KafkaError] = []
        self.seen_settled = True
        self.looks = 0  # times that waiters looked
        self.sender = Sender(
            self.config,
            self.acc,
            self.network,  # type: ignore[arg-type]
            self.cluster,  # type: ignore[arg-type]
            self.recovery,  # type: ignore[arg-type]
            random.Random(1),
            self.progress,
            self.refusals.append,
        )
        self.requests: list[Request] = []
        self.epoch = 0

    def progress(self) -> None:
        """Waiters look again: note what they would see."""
        self.looks += 1
        self.seen_settled = all(item.settled for item in self.acc.unfinished())

    def poll(self, seconds: float = 0.0) -> Effects:
        self.now += seconds
        effects = self.sender.poll(self.now)
        for request in effects.requests:
            if isinstance(request.message, InitProducerIdRequest):
                reply = InitProducerIdResponse(producer_id=42, producer_epoch=self.epoch)
                self.epoch += 1
                request.on_reply(self.now, Reply(reply, 4, 1))
            else:
                self.requests.append(request)
        for callback in effects.deliver:
            callback()
        self.check()
        return effects

    def check(self) -> None:
        stats = self.sender.ledger.stats(self.acc.accepted, self.acc.reserved)
        assert stats.accepted == stats.acked + stats.queued + stats.in_flight + stats.lost
        assert stats.queued >= 0
        assert stats.in_flight >= 0

    def settle(self) -> None:
        for _ in range(5):
            self.poll(self.config.linger_ms / 1000)

    def batch(self, value: bytes = b"v", partition: int = 0) -> Any:
        """Send one record as a batch of its own."""
        delivery = self.acc.send("t", value, partition=partition)
        self.settle()
        return delivery

    def proven(self) -> Bench:
        """Past the first acknowledgement of both partitions: pipelining is on."""
        for partition in (0, 1):
            self.batch(b"first", partition)
            self.answer(self.requests.pop())
        return self

    def answer(self, request: Request, error: str = "NONE", offset: int = 0) -> None:
        row = BY_NAME[error]
        topics = [
            ProduceResponse.Topic(
                name="t",
                topic_id=ID,
                partition_responses=[
                    ProduceResponse.Topic.Partition(index=p.index, error_code=row.code, base_offset=offset) for p in topic.partition_data
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


def header(request: Request) -> tuple[int, int, int]:
    """(epoch, base sequence, partition) of the only batch of a request."""
    (partition,) = request.message.topic_data[0].partition_data
    data = bytes(partition.records)
    return int.from_bytes(data[51:53], "big", signed=True), int.from_bytes(data[53:57], "big", signed=True), partition.index


def values(request: Request) -> bytes:
    return bytes(request.message.topic_data[0].partition_data[0].records)


def test_a_record_is_acknowledged_with_its_offset() -> None:
    bench = Bench()
    delivery = bench.batch()
    bench.answer(bench.requests[0], offset=17)
    assert delivery.result(0).offset == 17
    assert bench.sender.ledger.stats(bench.acc.accepted, 0).acked == 1


def test_batch_survives_a_lost_connection_and_keeps_its_number() -> None:
    bench = Bench().proven()
    bench.batch()
    first = bench.requests.pop()
    bytes_before, numbers = values(first), header(first)
    bench.lose(first)
    assert bench.recovery.reports == [(TopicPartition("t", 0), LOST)]
    bench.recovery.changes += 1
    bench.settle()
    assert header(bench.requests[-1]) == numbers
    assert values(bench.requests[-1]) == bytes_before


def test_a_partition_without_a_leader_waits_and_the_other_goes_on() -> None:
    bench = Bench().proven()
    bench.recovery.leaders[TopicPartition("t", 0)] = None  # type: ignore[assignment]
    bench.batch(partition=0)
    bench.batch(partition=1)
    assert [header(r)[2] for r in bench.requests] == [1]
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.recovery.changes += 1
    bench.settle()
    assert bench.requests[-1].node == 3


def test_first_batch_of_an_epoch_goes_alone() -> None:
    bench = Bench()
    bench.batch(b"one")
    bench.batch(b"two")
    assert len(bench.requests) == 1
    bench.answer(bench.requests[0])
    bench.batch(b"three")
    assert len(bench.requests) == 3


def test_a_failed_batch_is_sent_again_before_those_behind_it() -> None:
    bench = Bench().proven()
    for n in range(5):
        bench.batch(b"%d" % n)
    flight = [bench.requests.pop(0) for _ in range(5)]
    sent = [header(r)[1] for r in flight]
    bench.answer(flight[0], "NOT_ENOUGH_REPLICAS")
    bench.poll(5)
    assert not bench.requests, "nothing may pass while later batches are in flight"
    for request in flight[1:]:
        bench.answer(request, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.poll(5)
    bench.settle()
    assert [header(r)[1] for r in bench.requests] == sent


def test_leader_change_waits_for_what_is_in_flight_to_the_old_leader() -> None:
    bench = Bench().proven()
    bench.batch(b"one")
    bench.recovery.leaders[TopicPartition("t", 0)] = 3
    bench.cluster.version += 1
    bench.batch(b"two")
    assert [r.node for r in bench.requests] == [1]
    bench.answer(bench.requests[0])
    bench.settle()
    assert [r.node for r in bench.requests] == [1, 3]


def test_out_of_order_at_the_head_takes_a_new_epoch() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)
    bench.answer(bench.requests.pop(), offset=3)
    assert delivery.result(0).offset == 3


def test_epoch_is_renewed_only_when_no_partition_is_in_doubt() -> None:
    bench = Bench().proven()
    bench.batch(b"doubtful", partition=1)
    doubtful = bench.requests.pop()
    bench.batch(b"unlucky", partition=0)
    unlucky = bench.requests.pop()
    bench.lose(doubtful)
    bench.answer(unlucky, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    bench.settle()
    bench.recovery.changes += 1
    bench.settle()
    assert [header(r) for r in bench.requests] == [header(doubtful)], "the doubtful batch goes first, under its old number"
    bench.answer(bench.requests.pop())
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)


def test_a_maybe_written_head_out_of_order_is_failed_as_maybe() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.lose(bench.requests.pop())
    bench.recovery.changes += 1
    bench.settle()
    bench.answer(bench.requests.pop(), "OUT_OF_ORDER_SEQUENCE_NUMBER")
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.written is Written.MAYBE


def test_duplicate_counts_as_acknowledged() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "DUPLICATE_SEQUENCE_NUMBER")
    assert delivery.result(0).offset == -1


def test_delivery_timeout_says_not_written_when_it_never_left() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    bench.network.up.clear()
    delivery = bench.batch()
    bench.poll(11)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert (error.code, error.written) == ("TIMED_OUT", Written.NO)
    assert error.record is not None
    assert error.record.value == b"v"


LATE = "not acknowledged within delivery_timeout_ms=10000"


@pytest.mark.parametrize(
    ("up", "leader", "why"),
    [
        (set(), 1, f"{LATE}: no broker reachable: h1:9092 connection refused"),
        ({2, 3}, 1, f"{LATE}: h1:9092 connection refused"),
        ({1, 2, 3}, None, f"{LATE}: the partition has no leader"),
        ({1, 2, 3}, 1, f"{LATE}: broker 1 has not answered"),
    ],
    ids=["no broker", "no connection to the leader", "no leader", "no answer"],
)
def test_what_is_never_acknowledged_says_what_was_missing(up: set[int], leader: int | None, why: str) -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    bench.network.up = up
    bench.recovery.leaders[TopicPartition("t", 0)] = leader  # type: ignore[assignment]
    delivery = bench.batch()
    bench.poll(11)
    assert str(delivery.exception(0).cause) == why


def test_what_expires_while_its_partition_is_offline_says_why_that_is() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    tp = TopicPartition("t", 0)
    bench.recovery.leaders[tp] = None  # type: ignore[assignment]
    bench.recovery.offline[tp] = SimpleNamespace(reason=LOST)
    delivery = bench.batch()
    bench.poll(11)
    assert str(delivery.exception(0)) == f"t-0: TIMED_OUT, not written ({LOST})"


def test_delivery_timeout_says_maybe_when_in_flight_and_the_late_answer_changes_nothing() -> None:
    bench = Bench(delivery_timeout_ms=10_000).proven()
    delivery = bench.batch()
    request = bench.requests.pop()
    bench.poll(11)
    assert delivery.exception(0).written is Written.MAYBE  # type: ignore[union-attr]
    acked = bench.sender.ledger.acked
    bench.answer(request)
    assert bench.sender.ledger.acked == acked
    bench.batch(b"next")
    assert header(bench.requests[-1])[:2] == (1, 0), "the hole needs a new epoch"


def test_too_large_a_batch_is_split_in_order() -> None:
    bench = Bench(linger_ms=10).proven()
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(4)]
    bench.poll()
    bench.poll(1)
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    assert len(bench.requests) == 2
    base = header(bench.requests[0])[1]
    assert [header(r)[1] for r in bench.requests] == [base, base + 2]
    bench.answer(bench.requests[0], offset=10)
    bench.answer(bench.requests[1], offset=12)
    assert [h.result(0).offset for h in handles] == [10, 11, 12, 13]


def test_halves_have_headers_of_their_own_without_idempotence_too() -> None:
    bench = Bench(linger_ms=10, enable_idempotence=False)
    for n in range(4):
        bench.acc.send("t", b"%d" % n, partition=0)
    bench.settle()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    (first,) = bench.requests
    assert int.from_bytes(values(first)[57:61], "big") == 2, "the number of records in the header"
    bench.answer(bench.requests.pop())
    bench.settle()
    assert int.from_bytes(values(bench.requests.pop())[57:61], "big") == 2


def test_a_batch_that_may_be_written_is_not_halved() -> None:
    bench = Bench(linger_ms=10).proven()
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(4)]
    bench.settle()
    bench.lose(bench.requests.pop())
    bench.recovery.changes += 1
    bench.settle()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    bench.settle()
    assert [handle.exception(0).written for handle in handles] == [Written.MAYBE] * 4  # type: ignore[union-attr]
    assert not bench.requests


def test_one_record_too_large_fails() -> None:
    bench = Bench().proven()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "MESSAGE_TOO_LARGE")
    assert delivery.exception(0).code == "MESSAGE_TOO_LARGE"  # type: ignore[union-attr]


def test_a_refused_batch_gives_its_number_back() -> None:
    bench = Bench().proven()
    bench.batch()
    number = header(bench.requests[-1])[1]
    bench.answer(bench.requests.pop(), "INVALID_RECORD")
    bench.batch(b"next")
    assert header(bench.requests[-1]) == (0, number, 0)


def test_sequences_wrap_at_two_to_the_31() -> None:
    bench = Bench().proven()
    bench.sender.queues[TopicPartition("t", 0)].next_sequence = 2**31 - 1
    bench.batch(b"one")
    bench.batch(b"two")
    assert [header(r)[1] for r in bench.requests] == [2**31 - 1, 0]


def test_a_topic_made_anew_starts_at_sequence_zero() -> None:
    bench = Bench().proven()
    bench.cluster.id = UUID(int=8)
    bench.cluster.version += 1
    bench.settle()
    bench.batch()
    assert header(bench.requests[-1])[1] == 0


@pytest.mark.parametrize("under_way", [True, False])
def test_a_number_that_the_log_of_a_topic_made_anew_may_hold_is_not_given_again(under_way: bool) -> None:
    """Brokers that know topics by name write what was under way into the new log; the number again would be a duplicate, and a loss."""
    bench = Bench().proven()
    bench.batch(b"first")
    request = bench.requests.pop()
    if not under_way:
        bench.lose(request)
    bench.cluster.id = UUID(int=8)
    bench.cluster.version += 1
    bench.settle()
    if under_way:
        bench.lose(request)
    bench.settle()
    again = bench.requests.pop()
    assert header(again) == header(request)
    bench.answer(again)
    bench.batch(b"next")
    bench.settle()
    assert header(bench.requests[-1]) == (1, 0, 0)


def test_without_idempotence_one_batch_per_partition_is_in_flight() -> None:
    bench = Bench(enable_idempotence=False)
    bench.batch(b"one")
    bench.batch(b"two")
    bench.batch(b"other", partition=1)
    assert [header(r) for r in bench.requests] == [(-1, -1, 0), (-1, -1, 1)]


def test_with_acks_0_written_is_finished() -> None:
    bench = Bench(acks=0)
    delivery = bench.batch()
    (request,) = bench.requests
    assert not request.expects_reply
    request.on_reply(bench.now, Reply(None, 7, 1))
    assert delivery.result(0).offset == -1


def test_records_for_an_unknown_topic_fail_when_it_stays_unknown() -> None:
    bench = Bench(unknown_topic_timeout_ms=20_000)
    bench.cluster.known = False
    bench.cluster.error = BY_NAME["UNKNOWN_TOPIC_OR_PARTITION"]
    delivery = bench.batch()
    assert not delivery.done()
    bench.poll(21)
    error = delivery.exception(0)
    assert isinstance(error, DeliveryFailed)
    assert error.code == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "no such topic 't'" in str(error)


def test_a_forbidden_topic_fails_at_once() -> None:
    bench = Bench()
    bench.cluster.known = False
    bench.cluster.error = BY_NAME["TOPIC_AUTHORIZATION_FAILED"]
    assert bench.batch().exception(0).code == "TOPIC_AUTHORIZATION_FAILED"


def test_records_wait_for_their_topic_in_order() -> None:
    bench = Bench()
    bench.cluster.known = False
    handles = [bench.acc.send("t", b"%d" % n, partition=0) for n in range(3)]
    bench.settle()
    assert not bench.requests
    bench.cluster.known = True
    bench.cluster.version += 1
    bench.settle()
    bench.answer(bench.requests.pop(), offset=5)
    assert [h.result(0).offset for h in handles] == [5, 6, 7]


def test_a_flush_covers_records_that_are_still_parked() -> None:
    bench = Bench(linger_ms=60_000)
    bench.cluster.known = False
    bench.acc.send("t", b"v", partition=0)
    bench.poll()
    bench.sender.expedite()
    bench.poll()
    bench.cluster.known = True
    bench.cluster.version += 1
    bench.poll()
    bench.poll()
    bench.poll()
    assert len(bench.requests) == 1


def test_fenced_is_fatal_and_refuses_further_records() -> None:
    bench = Bench().proven()
    bench.batch()
    waiting = bench.acc.send("t", b"v", partition=1)
    bench.answer(bench.requests.pop(), "PRODUCER_FENCED")
    bench.settle()
    assert waiting.exception(0).code == "PRODUCER_FENCED"
    assert [error.code.name for error in bench.refusals] == ["PRODUCER_FENCED"], "once is enough"


def test_an_end_is_made_of_everything_once() -> None:
    bench = Bench()
    bench.sender.identity.fail(ClosedError("the end"))
    ended: list[KafkaError] = []
    bench.sender.abandon = ended.append  # type: ignore[method-assign]
    for _ in range(3):
        bench.poll()
    assert len(ended) == 1


def test_a_parked_record_for_a_partition_that_is_not_there_is_counted_and_waiters_look_again() -> None:
    bench = Bench()
    bench.cluster.known = False
    called: list[Any] = []
    plain = bench.acc.send("t", b"v", partition=99)
    followed = bench.acc.send("t", b"v", partition=98, on_delivery=called.append)
    bench.poll()
    bench.cluster.known, bench.cluster.version, looks = True, 1, bench.looks
    bench.poll()
    stats = bench.sender.ledger.stats(bench.acc.accepted, bench.acc.reserved)
    assert (stats.failed, stats.queued) == ({("UNKNOWN_TOPIC_OR_PARTITION", Written.NO): 2}, 0)
    assert plain.settled
    assert followed.settled
    assert len(called) == 1
    assert bench.looks == looks + 2, "for those that failed, and when the callback had run"
    assert "partition=99 but the topic has 2 partitions" in str(bench.sender.ledger.failures_since(0)[1])


def test_waiters_look_again_when_the_callbacks_have_run() -> None:
    bench = Bench().proven()
    bench.acc.send("t", b"v", partition=0, on_delivery=lambda delivery: None)
    bench.settle()
    bench.answer(bench.requests.pop())
    assert bench.seen_settled, "close and flush would wait for a look that nobody asks for"


def test_abandon_tells_written_from_not_written() -> None:
    bench = Bench().proven()
    flying = bench.batch(b"flying", 0)
    bench.network.up.clear()
    waiting = bench.batch(b"waiting", 1)
    bench.sender.abandon(KafkaTimeoutError("closed"))
    assert flying.exception(0).written is Written.MAYBE
    assert waiting.exception(0).written is Written.NO


def test_an_idle_sender_asks_for_no_wake_up() -> None:
    bench = Bench().proven()
    bench.poll(200)
    assert bench.poll().wake_at == INFINITY
    assert isinstance(bench.requests, list)
    assert not bench.requests


def test_produce_stays_below_topic_ids_while_one_is_unknown() -> None:
    bench = Bench().proven()
    bench.cluster.id = None  # type: ignore[assignment]
    bench.batch()
    assert bench.requests[-1].max_version == 12
    assert isinstance(bench.requests[-1].message, ProduceRequest)


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE"])
def test_errors_that_ask_for_metadata_put_only_this_partition_offline(error: str) -> None:
    bench = Bench().proven()
    bench.batch(partition=0)
    bench.answer(bench.requests.pop(), error)
    assert [tp for tp, _ in bench.recovery.reports] == [TopicPartition("t", 0)]


def test_zstd_is_refused_for_a_broker_that_does_not_know_it_and_the_next_record_too() -> None:
    """Brokers before 2.1 answer UNKNOWN_SERVER_ERROR: the record would come back as maybe written, and nothing would say why."""
    bench = Bench(compression_type="zstd")
    bench.network.produce = 6
    for _ in range(2):
        delivery = bench.batch()
        with pytest.raises(DeliveryFailed, match=r"t-0: UNSUPPORTED_VERSION, not written .*older than Kafka 2\.1.*zstd; use lz4"):
            delivery.result(0)
    assert not bench.requests
    bench.network.produce = 7
    bench.batch()
    assert len(bench.requests) == 1
    assert bench.sender.queues[TopicPartition("t", 0)].batches[0].base_sequence == 0


def test_other_codecs_are_for_every_broker() -> None:
    bench = Bench(compression_type="lz4")
    bench.network.produce = 3
    bench.batch()
    assert len(bench.requests) == 1


def test_a_topic_of_an_old_format_says_what_it_takes() -> None:
    bench = Bench()
    delivery = bench.batch()
    bench.answer(bench.requests.pop(), "UNSUPPORTED_FOR_MESSAGE_FORMAT")
    with pytest.raises(
        DeliveryFailed, match=r"UNSUPPORTED_FOR_MESSAGE_FORMAT, not written .*message\.format\.version.*enable_idempotence=False"
    ):
        delivery.result(0)
