"""A leader that is frozen (SIGSTOP) while another one replaces it: an idempotent producer does not wait for its responses."""

from __future__ import annotations

import time

import pytest

from integration.cluster import Cluster
from integration.waiting import until
from integration.workload.load import PARTITIONS, RECOVERY_S, Load, freeze_cycle, judge
from pykafka4 import Producer

pytestmark = [pytest.mark.cluster, pytest.mark.chaos, pytest.mark.timeout(300)]

FROZEN_S = 30.0
RATE = 2_000
FIRST_ACK_S = 3.0  # seconds after another client's metadata has the new leader


def test_the_new_leader_of_a_frozen_one_acknowledges_within_three_seconds_and_nothing_is_lost_or_repeated(
    cluster: Cluster, topic: str
) -> None:
    cluster.create_topic(topic, PARTITIONS, 3)
    until_then = time.monotonic() + 600
    with Producer(**cluster.client) as producer:
        load = Load(producer, topic, RATE, lambda sent: time.monotonic() > until_then)
        load.start()
        until(lambda: all(load.last_ack), RECOVERY_S, "an acknowledgement from every partition")
        cycle = freeze_cycle(cluster, topic, load, 0, FROZEN_S)
        until_then = 0.0
        load.join(timeout=60)
        producer.flush(timeout=120)
        stats = producer.stats()
    verdict = judge(cluster, topic, load)
    print(
        f"\nelection {cycle.election:.1f} s after the freeze, first acknowledgement {cycle.first_ack:.2f} s later; {stats.retries} resent"
    )
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent
    assert stats.retries > 0
    assert cycle.first_ack <= FIRST_ACK_S
