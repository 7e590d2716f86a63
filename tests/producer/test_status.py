"""status() and stats() of a whole producer: why nothing flows, that they are ready for JSON, and what they cost with many partitions."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from benchmarks.scale.shape import Shape
from benchmarks.scale.states import CALL_MS, CASES, HOLD_MS, figures
from pykafka4 import Client, Consumer, KafkaTimeoutError, Producer, ProducerFencedError, TopicPartition
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline
from pykafka4.core.producer.outcomes.ledger import Ledger
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import IMPLEMENTATION
from tests.inspection import inspect
from tests.net.net_helpers import SECONDS, closed_port, until
from tests.producer.producing import FEW, Maker, knowing, stop_all

LENIENT = 1.5  # other processes disturb; `make bench-scale` judges the bars themselves


def row(producer: Producer, name: str = "t-0") -> dict[str, Any]:
    found: dict[str, Any] = producer.status()["partitions"][name]
    return found


def reason(producer: Producer, name: str = "t-0") -> str:
    """Why nothing flows to the partition; empty while it has no row yet."""
    return str(producer.status()["partitions"].get(name, {}).get("reason", ""))


def test_status_is_ready_for_json_after_failures_and_drops(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(**FEW, on_full="drop"))
    server.fail("Produce", "INVALID_RECORD", times=1)
    assert producer.send("t", b"v", partition=0).exception(SECONDS) is not None
    stop_all(server)
    while not producer.send("t", b"v" * 5000, partition=0).done():
        pass
    found = json.loads(json.dumps(producer.status()))
    assert found["producer"]["failed"] == {"INVALID_RECORD, not written": 1}
    assert found["producer"]["dropped"] == {"BUFFER_FULL": 1}
    assert "INVALID_RECORD" in found["partitions"]["t-0"]["last_error"]


@pytest.mark.parametrize("release", ["3.9"])
def test_a_partition_that_the_coordinator_does_not_add_is_offline_and_says_why(release: str) -> None:
    with ModelServer(brokers=1, release=release) as server:
        server.create_topic("t", 1)
        producer = Producer(bootstrap_servers=server.bootstrap_servers, linger_ms=0, transactional_id="x")
        try:
            producer.init_transactions(SECONDS)
            producer.begin_transaction()
            server.fail("AddPartitionsToTxn", "CONCURRENT_TRANSACTIONS", times=10_000)
            producer.send("t", b"v")
            until(lambda: "CONCURRENT_TRANSACTIONS" in reason(producer), "the reason in the row")
            assert (row(producer)["state"], row(producer)["queued"]) == ("offline", 1)
            assert row(producer)["since"] is not None
        finally:
            producer.close(0)


def test_a_partition_without_a_leader_is_offline_in_status_and_events_alike(server: ModelServer) -> None:
    events: list[Any] = []
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        client.events(events.append)
        with Producer(client, linger_ms=0) as producer:
            producer.send("t", b"v", partition=0).result(SECONDS)
            server.do(lambda cluster: cluster.orphan("t", 0, 1.0))
            client.refresh_metadata(timeout=SECONDS)
            until(lambda: any(isinstance(event, PartitionOffline) for event in events), "the event, although no request has failed")
            waiting = producer.send("t", b"v", partition=0)
            found = producer.status()
            assert found["offline"]["t-0"]["reason"] == found["partitions"]["t-0"]["reason"]
            assert "t-0 is offline" in found["reason"]
            waiting.result(SECONDS)
            until(lambda: PartitionOnline(TopicPartition("t", 0)) in events, "the event of its return")
            assert producer.status()["offline"] == {}


def test_an_unreachable_leader_is_in_offline_as_in_partitions(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(linger_ms=0))
    stop_all(server)
    producer.send("t", b"v", partition=0)
    until(lambda: "t-0" in producer.status()["offline"], "the partition to be offline")
    found = producer.status()
    assert found["reason"]
    assert found["offline"]["t-0"]["reason"] == found["partitions"]["t-0"]["reason"]


@pytest.mark.parametrize("wrong", [("127.0.0.1", closed_port()), ("nowhere.invalid", 9092)], ids=["refused", "not resolved"])
def test_a_leader_whose_advertised_address_is_wrong_is_offline_in_status_and_events_until_it_is_mended(wrong: tuple[str, int]) -> None:
    events: list[Any] = []
    with ModelServer(brokers=2) as server:
        server.do(lambda cluster: cluster.create_topic("t", 1, leaders=[2]))
        right = server.do(lambda cluster: (cluster.brokers[2].host, cluster.brokers[2].port))
        server.do(lambda cluster: cluster.move_address(2, *wrong))
        with Client(bootstrap_servers=server.bootstrap_servers.split(",")[0], metadata_max_age_ms=500) as client:
            client.events(events.append)
            with Producer(client, linger_ms=0) as producer, Consumer(client) as consumer:
                waiting = producer.send("t", b"v")
                until(lambda: any(isinstance(event, PartitionOffline) for event in events), "the event")
                found = producer.status()
                assert "broker 2 advertises this address: see its advertised.listeners" in found["offline"]["t-0"]["reason"]
                assert f"{wrong[0]}:{wrong[1]}" in found["reason"]
                assert found["offline"]["t-0"]["reason"] == found["partitions"]["t-0"]["reason"]
                consumer.assign([TopicPartition("t", 0)])
                until(lambda: consumer.poll(0.1) == [] and "t-0" in consumer.status()["offline"], "the consumer's partition to be offline")
                server.do(lambda cluster: cluster.move_address(2, *right))
                waiting.result(SECONDS)
                until(lambda: PartitionOnline(TopicPartition("t", 0)) in events, "the event of its return")
                assert producer.status()["offline"] == {}


def test_the_partitions_of_a_fenced_producer_are_offline_since_then(server: ModelServer, make: Maker) -> None:
    first, second = (make(transactional_id="x", linger_ms=0) for _ in range(2))
    first.init_transactions(SECONDS)
    first.begin_transaction()
    first.send("t", b"v", partition=0).result(SECONDS)
    second.init_transactions(SECONDS)
    with pytest.raises(ProducerFencedError):
        first.commit_transaction(SECONDS)
    found = row(first)
    assert (found["state"], found["since"] < SECONDS) == ("offline", True)
    assert "x" in found["reason"]


def test_a_frozen_leader_is_named(server: ModelServer, make: Maker) -> None:
    producer = knowing(make(linger_ms=0))
    server.delay("Produce", 4.0)
    delivery = producer.send("t", b"v", partition=0)
    until(lambda: "has not responded for" in reason(producer), "the reason in the row")
    assert row(producer)["state"] == "offline"
    delivery.result(SECONDS)
    until(lambda: row(producer)["state"] == "online", "the partition to be online again")


def test_records_of_a_topic_without_partitions_have_a_row(server: ModelServer, make: Maker) -> None:
    producer = make(linger_ms=0)
    stop_all(server)
    producer.send("new", b"v")
    until(lambda: "refused" in reason(producer, "new (no partition yet)"), "the row")
    assert row(producer, "new (no partition yet)")["queued"] == 1


def test_stats_are_not_read_while_a_stuck_loop_may_change_them(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    producer, looked = knowing(make()), []
    monkeypatch.setattr("pykafka4.producer.session.LOOP_ANSWER_S", 0.2)
    inspect(producer).loop.call(lambda now: time.sleep(1.5))
    snapshot = Ledger.snapshot
    monkeypatch.setattr(Ledger, "snapshot", lambda self, *how: looked.append(self) or snapshot(self, *how))
    with pytest.raises(KafkaTimeoutError, match="the producer's stats"):
        producer.stats()
    assert not looked
    monkeypatch.undo()
    assert producer.stats().acked == 1
    producer.close(SECONDS)
    assert producer.stats().acked == 1, "after the end of the loop nothing changes"


@pytest.mark.skipif(IMPLEMENTATION != "compiled", reason="the bars are those of the compiled core")
@pytest.mark.parametrize("case", CASES)
def test_stats_and_status_of_ten_thousand_partitions_cost_little_and_hold_the_loop_for_a_moment(case: str) -> None:
    """The brokers and the producer are processes of their own. The cheapest of several calls, in relation to how much longer
    such work takes than on a free machine: other processes disturb.

    `make bench-scale` judges the most expensive one. Ten thousand partitions take seconds to make; fewer would hide a cost for each.
    """
    for what, costs in figures(case, Shape(brokers=3, topics=10, partitions=1000), "4.0").items():
        assert min(cost["call"] / cost["slow"] for cost in costs) < LENIENT * CALL_MS, (what, costs)
        assert min(cost["hold"] / cost["slow"] for cost in costs) < LENIENT * HOLD_MS, (what, costs)
