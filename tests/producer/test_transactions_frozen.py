"""A transaction whose partition's leader freezes: it commits once the next leader has the records, and does not wait for the frozen one."""

from __future__ import annotations

import time

import pytest

from pykafka4 import Consumer, Producer
from pykafka4.testing import ModelServer
from tests.net.net_helpers import SECONDS

FROZEN = 30.0
PATIENCE_S = 12.0  # request_timeout_ms


@pytest.mark.parametrize("release", ["4.4", "3.9"])
def test_the_end_of_a_transaction_does_not_wait_for_a_leader_that_was_replaced(release: str) -> None:
    with ModelServer(brokers=3, release=release) as server:
        server.create_topic("t", 1)
        server.create_topic("other", 3)
        options = {"transactional_id": "x", "linger_ms": 0, "request_timeout_ms": PATIENCE_S * 1000}
        with Producer(bootstrap_servers=server.bootstrap_servers, **options) as producer:
            producer.init_transactions(SECONDS)
            old = server.do(lambda cluster: cluster.topics["t"].partitions[0].leader)
            new, other = (node for node in (1, 2, 3) if node != old)
            server.do(lambda cluster: cluster.move_transaction_coordinator("x", other))
            leaders = server.do(lambda cluster: [partition.leader for partition in cluster.topics["other"].partitions])
            healthy = next(number for number, leader in enumerate(leaders) if leader != old)
            with producer.transaction():
                producer.send("t", b"before")
            producer.begin_transaction()
            server.do(lambda cluster: cluster.freeze(old, FROZEN))
            began = time.monotonic()
            producer.send("t", b"meanwhile")
            server.do(lambda cluster: cluster.move_leader("t", 0, new))
            producer.commit_transaction(SECONDS)
            assert time.monotonic() - began < PATIENCE_S / 2
            producer.begin_transaction()
            producer.send("other", b"given up", partition=healthy).result(SECONDS)
            began = time.monotonic()
            producer.abort_transaction(SECONDS)
            assert time.monotonic() - began < PATIENCE_S / 2
            with producer.transaction():
                producer.send("t", b"after")
        with Consumer(
            bootstrap_servers=server.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([("t", 0)])
            found: list[bytes | None] = []
            deadline = time.monotonic() + SECONDS
            while len(found) < 3 and time.monotonic() < deadline:
                found += [record.value for record in consumer.poll(0.2)]
            assert found == [b"before", b"meanwhile", b"after"]
