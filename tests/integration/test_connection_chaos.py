"""Connections to real brokers die every second, half of them with acknowledgements: nothing is lost, repeated or reordered.

Every broker stands behind a proxy, which its advertised listener names. What the storm did is counted at the proxies, what became of the
records is read from the logs. `make chaos SEED=…` repeats the faults of a run.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from integration.faults.chaos_plan import seed_of
from integration.faults.proxied import Proxied
from integration.faults.storm import FAULTS, Storm
from integration.waiting import until
from integration.workload.load import PARTITIONS, RECOVERY_S, Load, judge
from pykafka4 import Producer

pytestmark = pytest.mark.cluster

SEED = seed_of(os.environ.get("CHAOS_SEED"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LONGEST_S = 180.0  # seconds of one run: its records are sent in less, and what else it waits for comes meanwhile


def run(cluster: Proxied, topic: str, *, records: int, rate: float, cuts: int, losses: int, rounds: int, **options: Any) -> None:
    """A load until `records` are sent, so many connections were cut, `losses` of them with acknowledgements, and each kind of fault came
    `rounds` times; then the judge."""
    cluster.create_topic(topic, PARTITIONS)
    storm = Storm(cluster.proxies, SEED)
    secured, began = cluster.security is not None, time.monotonic()

    def lost() -> int:
        return storm.lossy_cuts if secured else min(storm.lossy_cuts, storm.lost_acks)

    def enough(sent: int) -> bool:
        if time.monotonic() > began + LONGEST_S:
            return True
        return sent >= records and storm.cuts >= cuts and lost() >= losses and storm.rounds >= rounds

    with Producer(**cluster.client, linger_ms=1, **options) as producer:
        load = Load(producer, topic, rate, enough)
        load.start()
        until(lambda: all(load.last_ack), RECOVERY_S, "an acknowledgement from every partition")
        with storm:
            load.join(LONGEST_S + 30)
            assert not load.is_alive()
        producer.flush(120)
        stats = producer.stats()
    verdict = judge(cluster, topic, load)
    print(
        f"\nstorm: SEED={SEED}, {options}: {verdict.acked:,} of {verdict.sent:,} acknowledged, {len(verdict.lost)} lost, "
        f"{len(verdict.duplicated)} duplicated, {len(verdict.reordered)} reordered; {stats.retries} batches resent; {storm}; "
        f"{time.monotonic() - began:.0f} s"
    )
    assert verdict.complaints() == []
    assert verdict.acked == verdict.sent >= records
    assert storm.cuts >= cuts
    assert lost() >= losses
    assert storm.rounds >= rounds, f"faults that never came to anything: {FAULTS.keys() - storm.done.keys()}"
    assert stats.retries > 0


def test_lost_acknowledgements_make_no_duplicates(proxied_cluster: Proxied, topic: str) -> None:
    run(proxied_cluster, topic, records=20_000, rate=4_000, cuts=12, losses=5, rounds=0, compression_type="lz4")


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("in_flight", [5, 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_storm_over_100_000_records_loses_repeats_and_reorders_nothing(
    proxied_cluster: Proxied, topic: str, codec: str, in_flight: int
) -> None:
    run(
        proxied_cluster, topic, records=100_000, rate=4_000, cuts=50, losses=20, rounds=1,
        compression_type=codec, max_in_flight_requests_per_connection=in_flight,
    )  # fmt: skip
