"""Other clients produce to the model server, join a group there, consume and commit: it is a broker for them as for ours."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest

from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer

LIMIT_S = 30.0  # seconds; every wait in here ends
COUNT = 20
VALUES = [b"%d" % number for number in range(COUNT)]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # the other clients' own


def confluent(servers: str) -> list[bytes]:
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; pip install -e '.[test]'")
    failures: list[object] = []
    producer = kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in VALUES:
        producer.produce("t", value, partition=0, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(LIMIT_S) == 0
    assert failures == []
    settings = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = kafka.Consumer(settings)
    consumer.subscribe(["t"])
    seen: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(seen) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            seen.append(message.value())
    consumer.commit(asynchronous=False)
    consumer.close()
    return seen


def kafka_python(servers: str) -> list[bytes]:
    kafka = pytest.importorskip("kafka", reason="kafka-python is not installed; pip install -e '.[test]'")
    producer = kafka.KafkaProducer(bootstrap_servers=servers.split(","))
    sent = [producer.send("t", value, partition=0) for value in VALUES]
    assert [future.get(LIMIT_S).offset for future in sent] == list(range(COUNT))
    producer.close(LIMIT_S)
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=servers.split(","), group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
    )
    seen: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(seen) < COUNT and time.monotonic() < deadline:
        seen += [record.value for records in consumer.poll(timeout_ms=1000).values() for record in records]
    consumer.commit()
    consumer.close()
    return seen


def aiokafka(servers: str) -> list[bytes]:
    kafka = pytest.importorskip("aiokafka", reason="aiokafka is not installed; pip install -e '.[test]'")

    async def work() -> list[bytes]:
        producer = kafka.AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await producer.start()
        for value in VALUES:
            await producer.send_and_wait("t", value, partition=0)
        await producer.stop()
        consumer = kafka.AIOKafkaConsumer(
            "t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False
        )
        await consumer.start()
        seen = [(await consumer.getone()).value for _ in VALUES]
        await consumer.commit()
        await consumer.stop()
        return seen

    return asyncio.run(asyncio.wait_for(work(), LIMIT_S))


def test_confluent_lists_topics_and_subscribes_by_pattern(kafka_server: ModelServer) -> None:
    """librdkafka writes the null array of "all topics" in 4 bytes instead of 1 (its issue 5049): three bytes are left over."""
    kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed; pip install -e '.[test]'")
    kafka_server.produce("data", b"1", b"2")
    kafka_server.produce("other", b"3")
    servers = {"bootstrap.servers": kafka_server.bootstrap_servers}
    assert sorted(kafka.Producer(servers).list_topics(timeout=LIMIT_S).topics) == ["data", "other"]
    consumer = kafka.Consumer({**servers, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["^d.*"])
    seen: list[bytes] = []
    deadline = time.monotonic() + LIMIT_S
    while len(seen) < 2 and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None
            seen.append(message.value())
    consumer.close()
    assert seen == [b"1", b"2"]


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_another_client_produces_joins_consumes_and_commits(kafka_server: ModelServer, client: Callable[[str], list[bytes]]) -> None:
    kafka_server.create_topic("t", 1)
    assert client(kafka_server.bootstrap_servers) == VALUES
    assert [record.value for record in kafka_server.records("t")] == VALUES
    assert kafka_server.committed("g") == {TopicPartition("t", 0): COUNT}


@pytest.mark.parametrize("client", [confluent, kafka_python, aiokafka], ids=lambda client: client.__name__)
def test_another_client_retries_what_it_was_ordered_to_fail_at(kafka_server: ModelServer, client: Callable[[str], list[bytes]]) -> None:
    kafka_server.create_topic("t", 1)
    kafka_server.fail("Produce", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0)
    kafka_server.fail("FindCoordinator", "COORDINATOR_NOT_AVAILABLE")
    kafka_server.delay("Fetch", seconds=0.1)
    assert client(kafka_server.bootstrap_servers) == VALUES
