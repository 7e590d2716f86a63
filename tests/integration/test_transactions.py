"""Transactions of ours on real brokers: what commits, what aborts, who is fenced, and what survives the death of brokers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java.client import java_consume
from integration.waiting import until
from pykafka4 import (
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProducerFencedError,
    TransactionAborted,
)
from tests.inspection import inspect
from tests.integration.reading import GROUP, LONG_S

pytestmark = pytest.mark.cluster


@contextlib.contextmanager
def transactional(cluster: Cluster, name: str, **options: Any) -> Iterator[Producer]:
    producer = Producer(**{**cluster.client, "transactional_id": name, "linger_ms": 0, **options})
    try:
        producer.init_transactions(LONG_S)
        yield producer
    finally:
        producer.close(5)


def committed(cluster: Cluster, topic: str) -> dict[int, list[bytes | None]]:
    """By partition, once no transaction is open: markers are written after the commit has returned."""

    def ended() -> dict[int, list[bytes | None]] | None:
        seen = cluster.committed(topic)
        return None if any(each.open for each in seen.values()) else {p: [r.value for r in each.records] for p, each in seen.items()}

    return until(ended, LONG_S, "the markers of the transactions")


@pytest.mark.main_job
def test_commits_are_read_and_aborts_are_not(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with transactional(cluster, topic) as producer:
        assert inspect(producer).machine.transactions.version_2
        for number in range(6):
            with contextlib.suppress(ZeroDivisionError), producer.transaction():
                sent = [producer.send(topic, b"%d.%d" % (number, n), partition=n % 3) for n in range(30)]
                if number % 2:
                    producer.flush()
                    raise ZeroDivisionError
        assert all(d.exception() is None for d in sent)
        with producer.transaction():
            """Without records."""
    expected = {p: [b"%d.%d" % (number, n) for number in (0, 2, 4) for n in range(p, 30, 3)] for p in range(3)}
    assert committed(cluster, topic) == expected
    java = java_consume(cluster.bootstrap, topic, properties={**cluster.java, "isolation.level": "read_committed"})
    assert {p: [r.value for r in java if r.partition == p] for p in range(3)} == expected


def test_a_second_producer_fences_the_first(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with transactional(cluster, topic) as first:
        first.begin_transaction()
        first.send(topic, b"zombie").result(LONG_S)
        with transactional(cluster, topic) as second:
            with pytest.raises(ProducerFencedError, match=f"^{topic}: another producer with this transactional_id has been started"):
                first.commit_transaction(LONG_S)
            with pytest.raises(ProducerFencedError):
                first.send(topic, b"more")
            with second.transaction():
                second.send(topic, b"second")
        with pytest.raises(ProducerFencedError):
            first.begin_transaction()
    assert committed(cluster, topic) == {0: [b"second"]}


@pytest.mark.main_job
def test_offsets_are_committed_with_the_records_and_rewound_with_an_abort(cluster: Cluster, topic: str) -> None:
    out = f"{topic}-out"
    cluster.create_topic(topic, 2)
    cluster.create_topic(out, 1)
    with Producer(**cluster.client) as producer:
        for n in range(100):
            producer.send(topic, b"%d" % n, partition=n % 2)
    reads = {**cluster.client, **GROUP, "group_id": topic, "enable_auto_commit": False, "max_poll_records": 20}
    failures = iter([False, True, False, True])
    with transactional(cluster, topic) as producer, Consumer(**reads) as consumer:
        consumer.subscribe([topic])
        done = 0
        for records in consumer.batches(1.0):
            if records:
                with contextlib.suppress(ZeroDivisionError):
                    with producer.transaction(consumer):
                        for record in records:
                            producer.send(out, record.value)
                        if next(failures, False):
                            raise ZeroDivisionError
                    done += len(records)
            if done >= 100:
                break
        assert {tp.partition: at.offset for tp, at in consumer.committed(consumer.assignment()).items() if at} == {0: 50, 1: 50}
    assert sorted(map(int, committed(cluster, out)[0])) == list(range(100))


def test_a_member_that_is_no_longer_one_cannot_commit(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with transactional(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"not read")
        with pytest.raises(TransactionAborted, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
            producer.send_offsets_to_transaction({(topic, 0): 1}, ConsumerGroupMetadata(topic, 7, "somebody"), LONG_S)
        with pytest.raises(TransactionAborted):
            producer.commit_transaction(LONG_S)
        producer.abort_transaction(LONG_S)
        with producer.transaction():
            producer.send(topic, b"read")
    assert committed(cluster, topic) == {0: [b"read"]}


def test_transactions_survive_the_death_of_coordinator_and_leader(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 3)
    with transactional(cluster, topic) as producer:
        machine = inspect(producer).machine.transactions
        expected: dict[int, list[bytes]] = {p: [] for p in range(3)}

        def write(number: int) -> None:
            for n in range(30):
                producer.send(topic, b"%d.%d" % (number, n), partition=n % 3)
                expected[n % 3].append(b"%d.%d" % (number, n))

        with producer.transaction(timeout=LONG_S):
            write(0)
        for number in (1, 2):
            with producer.transaction(timeout=LONG_S):
                write(number)
                producer.flush()
                victim = machine.coordinator.node if number == 1 else cluster.leader(topic, 0)
                cluster.kill(victim)
            cluster.start(victim)
            cluster.wait_full_isr()
        with producer.transaction(timeout=LONG_S):
            write(3)
    assert committed(cluster, topic) == expected


def test_a_commit_that_timed_out_is_finished_by_the_next_call(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    with transactional(cluster, topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"once").result(LONG_S)
        node = inspect(producer).machine.transactions.coordinator.node
        with frozen(cluster, node):
            with pytest.raises(KafkaTimeoutError, match="call commit_transaction again"):
                producer.commit_transaction(0.5)
            with pytest.raises(KafkaError, match="the outcome of commit_transaction is not known yet"):
                producer.abort_transaction()
        producer.commit_transaction(LONG_S)
        with producer.transaction(timeout=LONG_S):
            producer.send(topic, b"then")
    assert committed(cluster, topic) == {0: [b"once", b"then"]}


@contextlib.contextmanager
def frozen(cluster: Cluster, node: int) -> Iterator[None]:
    cluster.freeze(node)
    try:
        yield
    finally:
        cluster.thaw(node)
        cluster.wait_full_isr()
