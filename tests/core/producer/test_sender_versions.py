"""Sender: what brokers and topics of older versions are sent, and what is refused for them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors import DeliveryFailed
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.core.producer.sender_harness import SenderHarness, records


def test_produce_stays_below_topic_ids_while_one_is_unknown() -> None:
    harness = SenderHarness().proven()
    harness.cluster.id = None  # type: ignore[assignment]
    harness.batch()
    assert harness.requests[-1].max_version == 12
    assert isinstance(harness.requests[-1].message, ProduceRequest)


def test_zstd_is_refused_for_a_broker_that_does_not_know_it_and_the_next_record_too() -> None:
    """Brokers before 2.1 answer UNKNOWN_SERVER_ERROR: the record would come back as maybe written, and nothing would say why."""
    harness = SenderHarness(compression_type="zstd")
    harness.network.produce = 6
    for _ in range(2):
        delivery = harness.batch()
        with pytest.raises(DeliveryFailed, match=r"t-0: UNSUPPORTED_VERSION, not written .*older than Kafka 2\.1.*zstd; use lz4"):
            delivery.result(0)
    assert not harness.requests
    harness.network.produce = 7
    harness.batch()
    assert len(harness.requests) == 1
    assert harness.sender.queues[TopicPartition("t", 0)].batches[0].base_sequence == 0


def test_zstd_of_a_topic_is_refused_by_name_and_other_topics_go_on() -> None:
    harness = SenderHarness(topic_policies={"o*": {"compression_type": "zstd"}, "*": {"linger_ms": 0}})
    harness.network.produce = 6
    refused = harness.acc.send("own", b"v", partition=0)
    harness.recovery.leaders[TopicPartition("own", 0)] = 1
    taken = harness.batch()
    with pytest.raises(DeliveryFailed, match=r"own-0: UNSUPPORTED_VERSION, not written .*compression with zstd; use lz4"):
        refused.result(0)
    harness.answer(harness.requests.pop())
    assert taken.result(0).offset == 0


@pytest.mark.parametrize(
    "options",
    [
        {"compression_type": "lz4"},
        {"compression_type": "zstd", "topic_policies": {"t": {"compression_type": "lz4"}}},
        {"compression_type": "lz4", "topic_policies": {"t": {"linger_ms": 0}, "*": {"compression_type": "zstd"}}},
    ],
)
def test_other_codecs_are_for_every_broker(options: dict[str, Any]) -> None:
    harness = SenderHarness(**options)
    harness.network.produce = 3
    harness.batch()
    assert len(harness.requests) == 1


def test_a_topic_of_an_old_format_says_what_it_takes() -> None:
    harness = SenderHarness()
    delivery = harness.batch()
    harness.answer(harness.requests.pop(), "UNSUPPORTED_FOR_MESSAGE_FORMAT")
    with pytest.raises(
        DeliveryFailed, match=r"UNSUPPORTED_FOR_MESSAGE_FORMAT, not written .*message\.format\.version.*enable_idempotence=False"
    ):
        delivery.result(0)


def test_one_batch_is_in_flight_to_a_broker_that_remembers_one_batch_of_a_producer() -> None:
    """Kafka 0.11: of several whose answers are lost it would know the last one again, and call the others out of order."""
    harness = SenderHarness()
    harness.network.produce = 3
    harness.proven()
    sent = [harness.batch(value) for value in (b"A", b"B", b"C")]
    for number, expected in enumerate(([b"A"], [b"B", b"C"])):
        (request,) = harness.requests
        harness.requests.clear()
        assert records(request) == expected
        harness.answer(request, offset=number)
        harness.settle()
    assert [delivery.result(0).offset for delivery in sent] == [0, 1, 2]


def test_five_batches_are_in_flight_again_once_the_broker_is_upgraded() -> None:
    harness = SenderHarness()
    harness.network.produce = 3
    harness.proven()
    harness.network.produce = 5
    harness.network.reconnect(1)
    harness.batch()
    harness.answer(harness.requests.pop())
    for _ in range(6):
        harness.batch()
    assert len(harness.requests) == 5
