"""Leaders killed under load: nothing acknowledged is lost, nothing duplicated, nothing reordered. The judge reads the brokers' logs."""

from __future__ import annotations

import os
import statistics

import pytest

from integration.chaos import PARTITIONS, RECOVERY, Cycle, Load, judge, kill_cycle
from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Producer

RATE = 5_000
FIRST_ACK = 3.0  # seconds after the new leader is in the metadata


def run(cluster: Cluster, topic: str, records: int, cycles: int) -> None:
    """Keep the load up until both `records` are sent and `cycles` kills are over, then judge."""
    cluster.create_topic(topic, PARTITIONS, 3)
    done: list[Cycle] = []
    with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        load = Load(producer, topic, RATE, lambda sent: sent >= records and len(done) >= cycles)
        load.start()
        # Brokers without a block of producer ids wait for the controller: were it killed before the first record, we would measure that.
        until(lambda: all(load.last_ack), RECOVERY, "an acknowledgement from every partition")
        for n in range(cycles):
            done.append(kill_cycle(cluster, topic, load, n % PARTITIONS))
            assert load.error is None, load.error
        load.join(timeout=records / RATE + 60)
        producer.flush(timeout=120)
        stats = producer.stats()
    verdict = judge(cluster, topic, load)
    acks, elections = [c.first_ack for c in done], [c.election for c in done]
    print(
        f"\nchaos: {verdict.sent:,} sent, {verdict.acked:,} acked, {stats.retries} batches resent, {cycles} kills; "
        f"election {statistics.median(elections):.1f} s (worst {max(elections):.1f}), "
        f"first ack after it {statistics.median(acks):.2f} s (worst {max(acks):.2f})"
    )
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent >= records
    assert stats.acked == verdict.sent
    assert stats.retries > 0, "the kills met no batch in flight: they showed nothing"
    assert max(acks) <= FIRST_ACK


@pytest.mark.cluster
def test_nothing_is_lost_duplicated_or_reordered_while_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    run(cluster, topic, records=30_000, cycles=2)


@pytest.mark.cluster
@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("attempt", range(int(os.environ.get("CHAOS_RUNS", "10"))))
def test_nothing_is_lost_in_200_000_records_and_8_kills(cluster: Cluster, topic: str, attempt: int) -> None:
    run(cluster, topic, records=200_000, cycles=8)
