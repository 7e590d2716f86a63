"""Our own clients against the model server: an application's whole path, in a second and without a broker."""

from __future__ import annotations

from collections import Counter

import pytest

from pykafka4.consumer import Consumer
from pykafka4.errors import DeliveryFailed
from pykafka4.producer import Producer
from pykafka4.testing import Fault, ModelServer
from pykafka4.testing.cluster.releases import RELEASES
from pykafka4.wire.protocol.messages_produce import ProduceRequest

LIMIT_S = 20.0  # seconds; every wait in here ends


def read(server: ModelServer, count: int, **options: object) -> list[bytes | None]:
    values: list[bytes | None] = []
    options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
    with Consumer(bootstrap_servers=server.bootstrap_servers, **options) as consumer:
        consumer.subscribe(["t"])
        while len(values) < count:
            records = consumer.poll(timeout=LIMIT_S)
            assert records, f"{len(values)} of {count} came"
            values += [record.value for record in records]
    return values


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_what_is_sent_is_read_on_every_release(release: str) -> None:
    with ModelServer(brokers=3, release=release) as server:
        server.create_topic("t", 3)
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            sent = [producer.send("t", b"%d" % n, key=b"%d" % n) for n in range(200)]
            producer.flush(LIMIT_S)
        assert len({(d.result(0).partition, d.result(0).offset) for d in sent}) == 200
        assert Counter(read(server, 200)) == Counter(b"%d" % n for n in range(200))


def test_a_topic_is_created_by_the_first_send() -> None:
    with ModelServer(brokers=1) as server:
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            meta = producer.send("t", b"x").result(LIMIT_S)
        assert (meta.topic, meta.offset) == ("t", 0)
        assert [r.value for r in server.records("t")] == [b"x"]


def test_lost_answers_and_moving_leaders_leave_no_duplicates() -> None:
    with ModelServer(brokers=3) as server:
        server.create_topic("t", 2)
        with Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=0, retry_backoff_ms=10) as producer:
            for n in range(300):
                if n % 60 == 30:
                    server.do(lambda cluster: cluster.inject(ProduceRequest, Fault.DROP_AFTER))
                    server.do(lambda cluster: cluster.move_leader("t", 0))
                producer.send("t", b"%d" % n, key=b"k")
            producer.flush(LIMIT_S)
        assert [r.value for r in server.records("t")] == [b"%d" % n for n in range(300)]


def test_a_refused_record_comes_back() -> None:
    with ModelServer(brokers=1) as server:
        server.create_topic("t", 1)
        server.do(lambda cluster: cluster.push_error(ProduceRequest, "TOPIC_AUTHORIZATION_FAILED"))
        producer = Producer(bootstrap_servers=server.bootstrap_servers)
        error = producer.send("t", b"x").exception(LIMIT_S)
        assert producer.close() == []
        assert isinstance(error, DeliveryFailed)
        assert str(error.code) == "TOPIC_AUTHORIZATION_FAILED"
        assert error.record is not None
        assert error.record.value == b"x"
        assert server.records("t") == []


def test_the_next_member_begins_where_the_last_one_committed() -> None:
    with ModelServer(brokers=3) as server:
        server.create_topic("t", 1)
        with Producer(bootstrap_servers=server.bootstrap_servers) as producer:
            for n in range(10):
                producer.send("t", b"%d" % n)
        with Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            first = consumer.poll(timeout=LIMIT_S, max_records=4)
            consumer.commit(timeout=LIMIT_S)
        assert [r.value for r in first] + read(server, 6) == [b"%d" % n for n in range(10)]
