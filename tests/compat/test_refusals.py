"""What an old broker cannot take is refused before or by it, with the reason and the way out, and nothing of it is in the log."""

from __future__ import annotations

import pytest
from compat_talk import LONG, READ_FROM, marks, on

from integration.local import LocalCluster
from pykafka4 import BrokerError, DeliveryFailed, Producer, UnsupportedVersion

pytestmark = marks


@on(*READ_FROM)
@pytest.mark.parametrize("idempotent", [True, False])
def test_writing_to_a_broker_without_record_batches_is_refused(cluster: LocalCluster, topic: str, idempotent: bool) -> None:
    cluster.create_topic(topic, 1)
    producer = Producer(bootstrap_servers=cluster.bootstrap, enable_idempotence=idempotent)
    with pytest.raises(DeliveryFailed, match=r"not written .*older than Kafka 0\.11.*upgrade") as failed:
        producer.send(topic, b"x").result(LONG)
    assert isinstance(failed.value.cause, UnsupportedVersion)
    producer.close(LONG)
    assert cluster.log(topic) == {0: []}


@on("0.11.0.3", "2.8.2")
def test_a_topic_in_an_old_format_refuses_an_idempotent_producer_by_name(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1, configs={"message.format.version": "0.10.0"})
    producer = Producer(bootstrap_servers=cluster.bootstrap)
    with pytest.raises(DeliveryFailed, match=r"UNSUPPORTED_FOR_MESSAGE_FORMAT, not written .*enable_idempotence=False") as failed:
        producer.send(topic, b"x").result(LONG)
    producer.close(LONG)
    assert isinstance(failed.value.cause, BrokerError)
    assert cluster.log(topic) == {0: []}


@on("0.11.0.3", "1.1.1")
def test_zstd_is_refused_where_the_broker_does_not_know_it(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    producer = Producer(bootstrap_servers=cluster.bootstrap, compression_type="zstd")
    with pytest.raises(DeliveryFailed, match=r"not written .*older than Kafka 2\.1.*zstd"):
        producer.send(topic, b"zstd" * 1000).result(LONG)
    producer.close(LONG)
    assert cluster.log(topic) == {0: []}
