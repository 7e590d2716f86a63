"""Transactions on brokers of old releases (transaction.version 0 and 1): partitions are added first, and the epoch stays."""

from __future__ import annotations

import contextlib

import pytest

from integration.local.cluster import LocalCluster
from integration.waiting import until
from pykafka4 import ConsumerGroupMetadata, Producer, ProducerFencedError
from tests.compat.old_releases import LONG_S, WRITTEN_TO, marks, on
from tests.inspection import inspect

pytestmark = [*marks, on(*WRITTEN_TO)]


def transactional(cluster: LocalCluster, name: str) -> Producer:
    producer = Producer(bootstrap_servers=cluster.bootstrap, transactional_id=name, linger_ms=0)
    producer.init_transactions(LONG_S)
    return producer


def committed(cluster: LocalCluster, topic: str) -> dict[int, list[bytes | None]]:
    """By partition, once no transaction is open: markers are written after the commit has returned."""

    def ended() -> dict[int, list[bytes | None]] | None:
        seen = cluster.committed(topic)
        return None if any(each.open for each in seen.values()) else {p: [r.value for r in each.records] for p, each in seen.items()}

    return until(ended, LONG_S, "the markers of the transactions")


def test_commits_are_read_aborts_are_not_and_a_second_producer_fences_the_first(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with transactional(cluster, topic) as first:
        transactions = inspect(first).machine.transactions
        assert transactions is not None
        assert not transactions.version_2
        for number in range(6):
            with contextlib.suppress(ZeroDivisionError), first.transaction(timeout=LONG_S):
                for n in range(20):
                    first.send(topic, b"%d.%d" % (number, n), partition=n % 2)
                if number % 2:
                    first.flush()
                    raise ZeroDivisionError
        epoch = transactions.epoch
        with first.transaction(timeout=LONG_S):
            first.send_offsets_to_transaction({(topic, 0): 5}, ConsumerGroupMetadata(topic), LONG_S)
        assert transactions.epoch == epoch
        first.begin_transaction()
        first.send(topic, b"zombie", partition=0).result(LONG_S)
        with transactional(cluster, topic) as second:
            with pytest.raises(ProducerFencedError, match="another producer with this transactional_id has been started"):
                first.commit_transaction(LONG_S)
            with second.transaction(timeout=LONG_S):
                second.send(topic, b"second", partition=0)
    expected = {p: [b"%d.%d" % (number, n) for number in (0, 2, 4) for n in range(p, 20, 2)] for p in range(2)}
    expected[0].append(b"second")
    assert committed(cluster, topic) == expected
