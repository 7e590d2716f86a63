"""`send_raw`: a batch of another log is queued, sent, repeated, split and failed as the batches of `send` are."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any

import pytest

from pykafka4 import (
    BatchOutcome,
    BufferFull,
    ClosedError,
    DeliveryFailed,
    KafkaTimeoutError,
    ProducerHooks,
    RawBatch,
    RawMetadata,
    RecordTooLarge,
    TransactionAborted,
    TransactionError,
    Written,
)
from pykafka4.testing import ModelServer
from pykafka4.testing.faults.controls import When
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.net.net_helpers import SECONDS, until
from tests.producer.producing import Maker, balanced, committed, start_all, stop_all
from tests.wire.records.chunk_bytes import batch_of, record_of

HEADERS = (("h", b"1"), ("größe", None))


def raw(*values: bytes, codec: int = 0, partition: int = 0, **more: Any) -> RawBatch:
    records = [WireRecord(value=value, key=b"k", timestamp_ms=1_000 + n, headers=HEADERS) for n, value in enumerate(values)]
    return RawBatch.from_bytes(build_batch(records, base_offset=70, codec=codec, leader_epoch=3, **more), "source", partition)


def log(server: ModelServer, partition: int = 0) -> list[bytes]:
    return [record.value or b"" for record in server.records("t", partition)]


@pytest.mark.parametrize("codec", range(5))
def test_records_arrive_as_they_are_with_new_offsets(server: ModelServer, make: Maker, codec: int) -> None:
    batch = raw(b"a", b"b" * 99, codec=codec, transactional=True, producer_id=77, producer_epoch=5, base_sequence=9)
    producer = make()
    delivery = producer.send_raw("t", batch)
    assert delivery.result(SECONDS) == RawMetadata("t", 0, 0, 2, -1, False)
    assert (delivery.topic, delivery.partition, delivery.count, delivery.done()) == ("t", 0, 2, True)
    found = server.records("t", 0)
    assert [(r.offset, r.value, r.key, r.timestamp_ms, r.headers) for r in found] == [
        (0, b"a", b"k", 1_000, HEADERS),
        (1, b"b" * 99, b"k", 1_001, HEADERS),
    ]
    stored = server.do(lambda cluster: cluster.log("t", 0).batches[0].header)
    assert (stored.attributes, stored.producer_epoch, stored.base_sequence) == (codec, 0, 0)
    assert stored.producer_id != 77


def test_a_batch_comes_behind_all_that_was_sent_before(server: ModelServer, make: Maker) -> None:
    producer = make(linger_ms=60_000)
    first = producer.send("t", b"parked", partition=0)  # the partitions of the topic are not known yet
    for n in range(3):
        producer.send_raw("t", raw(b"raw %d" % n, b"-"))
        producer.send("t", b"record %d" % n, partition=0)
    producer.flush()
    assert log(server) == [b"parked", b"raw 0", b"-", b"record 0", b"raw 1", b"-", b"record 1", b"raw 2", b"-", b"record 2"]
    assert first.result(0).offset == 0


def test_the_partition_of_the_batch_is_used_unless_another_one_is_given(server: ModelServer, make: Maker) -> None:
    producer = make()
    producer.send_raw("t", raw(b"own", partition=2))
    producer.send_raw("t", raw(b"given", partition=2), partition=1)
    producer.flush()
    assert [log(server, p) for p in range(3)] == [[], [b"given"], [b"own"]]


def test_wrong_arguments_are_refused_by_name(make: Maker) -> None:
    producer = make()
    nowhere = RawBatch.from_bytes(raw(b"a").data)
    with pytest.raises(ValueError, match="t: the batch does not name a partition; pass partition="):
        producer.send_raw("t", nowhere)
    with pytest.raises(TypeError, match=r"t: batch must be a RawBatch, not bytes; RawBatch\.from_bytes makes one from bytes"):
        producer.send_raw("t", nowhere.data)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="partition must be an int"):
        producer.send_raw("t", nowhere, partition="1")  # type: ignore[arg-type]
    assert producer.stats().accepted == 0


def test_a_partition_that_does_not_exist_is_refused(make: Maker, denied_soon: None) -> None:
    producer = make()
    producer.send_raw("t", raw(b"a")).result(SECONDS)
    with pytest.raises(ValueError, match="t: partition=9, but the highest partition of the topic is 2"):
        producer.send_raw("t", raw(b"a", partition=9))


def test_gaps_and_broker_timestamps_are_rebuilt(server: ModelServer, make: Maker) -> None:
    gaps = build_batch([WireRecord(offset=5, value=b"5", timestamp_ms=50), WireRecord(offset=9, value=b"9", timestamp_ms=90)], codec=1)
    producer = make()
    producer.send_raw("t", RawBatch.from_bytes(gaps, "source", 0))
    producer.send_raw("t", raw(b"appended", timestamp_type=1, max_timestamp_ms=7_000))
    producer.flush()
    assert [(r.offset, r.value, r.timestamp_ms, r.timestamp_type) for r in server.records("t", 0)] == [
        (0, b"5", 50, 0),
        (1, b"9", 90, 0),
        (2, b"appended", 7_000, 0),
    ]


def test_a_batch_that_is_repeated_is_written_once(server: ModelServer, make: Maker) -> None:
    producer = make(retry_backoff_ms=1)
    producer.send_raw("t", raw(b"known")).result(SECONDS)
    order = {"topic": "t", "partition": 0, "when": When.AFTER}
    server.do(lambda cluster: cluster.push_error(ProduceRequest, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", **order))
    producer.send_raw("t", raw(b"again")).result(SECONDS)
    assert log(server) == [b"known", b"again"]
    assert producer.stats().retries == 1
    assert balanced(producer)


def test_transactions_hold_for_raw_batches(server: ModelServer, make: Maker) -> None:
    producer = make(transactional_id="x")
    producer.init_transactions(SECONDS)
    with pytest.raises(TransactionError):
        producer.send_raw("t", raw(b"outside"))
    with producer.transaction():
        producer.send_raw("t", raw(b"kept", codec=2))
    with pytest.raises(RuntimeError, match="stop"), producer.transaction():
        producer.send_raw("t", raw(b"aborted"))
        producer.flush()
        raise RuntimeError("stop")
    assert committed(server) == [b"kept"]


def test_a_raw_batch_that_was_dropped_prevents_the_commit(server: ModelServer, make: Maker) -> None:
    producer = make(transactional_id="x", on_full="drop", buffer_memory=65_536, max_partition_bytes=65_536)
    producer.init_transactions(SECONDS)
    with producer.transaction():
        producer.send_raw("t", raw(b"known"))
    server.delay("Produce", 0.3)
    with pytest.raises(TransactionAborted, match="2 of its records were dropped"), producer.transaction():
        for _ in range(2):
            producer.send_raw("t", raw(b"x" * 40_000, b"y"))
    assert committed(server) == [b"known"]


@pytest.mark.parametrize("codec", [0, 4])
def test_a_batch_that_is_too_large_is_split_and_keeps_its_codec(server: ModelServer, make: Maker, codec: int) -> None:
    server.create_topic("small", 1, max_message_bytes=600)
    values = [Random(n).randbytes(70) + bytes(30) for n in range(10)]
    producer = make()
    done: list[Any] = []
    delivery = producer.send_raw("small", raw(*values, codec=codec))
    delivery.add_done_callback(done.append)
    assert delivery.result(SECONDS).base_offset == 0
    until(lambda: done == [delivery])
    assert [r.value for r in server.records("small", 0)] == values
    codecs = server.do(lambda cluster: [batch.header.attributes for batch in cluster.log("small", 0).batches])
    assert len(codecs) > 1
    assert set(codecs) == {codec}
    assert balanced(producer)


def test_a_too_large_batch_that_cannot_be_decoded_fails_with_both_reasons(server: ModelServer, make: Maker) -> None:
    server.create_topic("small", 1, max_message_bytes=100)
    broken = RawBatch.from_bytes(batch_of(record_of(b"\0" * 99) + b"\x7f" * 50, count=2, last=1), "source", 0)
    producer = make()
    delivery = producer.send_raw("small", broken)
    with pytest.raises(DeliveryFailed, match="MESSAGE_TOO_LARGE") as caught:
        delivery.result(SECONDS)
    assert caught.value.written is Written.NO
    assert "failed records of the raw batch: 2 of 2" in "".join(caught.value.__notes__)
    assert producer.close(SECONDS) == []
    assert producer.stats().lost == 2


def test_only_the_refused_records_of_a_batch_fail(server: ModelServer, make: Maker) -> None:
    server.create_topic("strict", 1, after_max_ms=3_600_000)
    records = [WireRecord(value=b"%d" % n, timestamp_ms=1_000 if n != 1 else 2**60) for n in range(3)]
    producer = make()
    delivery = producer.send_raw("strict", RawBatch.from_bytes(build_batch(records, codec=1), "source", 0))
    with pytest.raises(DeliveryFailed, match="INVALID_TIMESTAMP") as caught:
        delivery.result(SECONDS)
    assert caught.value.record is not None
    assert caught.value.record.value == b"1"
    assert [r.value for r in server.records("strict", 0)] == [b"0", b"2"]


def test_records_of_an_undelivered_batch_come_back(server: ModelServer, make: Maker) -> None:
    producer = make(delivery_timeout_ms=60_000)
    producer.send_raw("t", raw(b"known")).result(SECONDS)
    stop_all(server)
    delivery = producer.send_raw("t", raw(b"a", b"b", codec=3))
    with pytest.raises(KafkaTimeoutError, match="t-0: not acknowledged within 0 s"):
        delivery.result(0)
    back = producer.close(0)
    assert [(r.topic, r.partition, r.value, r.key, r.headers, r.timestamp_ms) for r in back] == [
        ("t", 0, b"a", b"k", HEADERS, 1_000),
        ("t", 0, b"b", b"k", HEADERS, 1_001),
    ]
    assert isinstance(delivery.exception(0), DeliveryFailed)
    with pytest.raises(ClosedError):
        producer.send_raw("t", raw(b"late"))
    start_all(server)


def test_the_handle_cannot_be_pickled_and_shows_its_state(server: ModelServer, make: Maker) -> None:
    delivery = make().send_raw("t", raw(b"a"))
    delivery.result(SECONDS)
    assert repr(delivery) == "<RawDelivery t-0 1 records, done>"
    with pytest.raises(TypeError, match="cannot pickle 'RawDelivery' object"):
        pickle.dumps(delivery)


def full(server: ModelServer, make: Maker, **options: Any) -> Any:
    """A producer whose buffer has room for no further batch of 20,000 bytes."""
    producer = make(buffer_memory=65_536, max_partition_bytes=65_536, **options)
    producer.send_raw("t", raw(b"known")).result(SECONDS)
    stop_all(server)
    for _ in range(3):
        producer.send_raw("t", raw(b"x" * 20_000))
    return producer


def test_a_full_buffer_refuses_drops_or_waits(server: ModelServer, make: Maker) -> None:
    refusing = full(server, make, on_full="raise")
    with pytest.raises(BufferFull, match="buffer_memory=65536"):
        refusing.send_raw("t", raw(b"y" * 20_000))
    start_all(server)
    dropping = full(server, make, on_full="drop")
    dropped = dropping.send_raw("t", raw(b"y" * 20_000, b"z"))
    assert dropped.done()
    assert isinstance(failure := dropped.exception(0), DeliveryFailed)
    assert failure.code == "BUFFER_FULL"
    assert dropping.stats().dropped == {"BUFFER_FULL": 2}
    start_all(server)
    waiting = full(server, make, max_block_ms=1_000)
    with pytest.raises(BufferFull, match="no room within max_block_ms=1000"):
        waiting.send_raw("t", raw(b"y" * 20_000))
    start_all(server)
    waiting.flush(SECONDS)
    waiting.send_raw("t", raw(b"y" * 20_000)).result(SECONDS)
    assert balanced(waiting)


def test_a_batch_beyond_the_buffer_is_refused_with_the_way_out(make: Maker) -> None:
    with pytest.raises(RecordTooLarge, match=r"t: a raw batch of 70\d\d\d bytes exceeds buffer_memory=65536; raise that"):
        make(buffer_memory=65_536).send_raw("t", raw(b"x" * 70_000))


def test_a_rate_limit_counts_the_records_of_a_batch(make: Maker) -> None:
    producer = make(rate_limits={"t": (3, 60_000)}, on_rate_limit="drop")
    first, second = producer.send_raw("t", raw(b"a", b"b")), producer.send_raw("t", raw(b"c", b"d"))
    third = producer.send_raw("t", raw(b"e"))
    assert first.result(SECONDS).count == third.result(SECONDS).count + 1
    assert isinstance(failure := second.exception(0), DeliveryFailed)
    assert failure.code == "RATE_LIMITED"
    assert producer.stats().dropped == {"RATE_LIMITED": 2}


class Hooks(ProducerHooks):
    def __init__(self) -> None:
        self.sealed: list[int] = []
        self.outcomes: list[tuple[int, int]] = []

    def on_batch_sealed(self, batch: Any) -> None:
        self.sealed.append(batch.records)

    def on_ack(self, outcome: BatchOutcome) -> None:
        self.outcomes.append((outcome.records, outcome.offsets[0]))


def test_hooks_of_batches_see_raw_ones(server: ModelServer, make: Maker) -> None:
    hooks = Hooks()
    producer = make(hooks=hooks)
    producer.send_raw("t", raw(b"a", b"b"))
    producer.flush(SECONDS)
    assert (hooks.sealed, hooks.outcomes) == ([2], [(2, 0)])
