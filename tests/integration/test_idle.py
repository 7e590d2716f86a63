"""A client with nothing to do costs next to nothing: the short form of `make bench-idle`."""

from __future__ import annotations

import pytest

from benchmarks.idle import BARS, measure
from integration.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy]
SECONDS = 8.0


def test_idle_clients_cost_next_to_nothing_with_brokers_and_without(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 6, 3)
    try:
        shares = measure(cluster, topic, SECONDS, rounds=3)
    finally:
        cluster.heal()
    over = {name: f"{share:.2f} times the reference" for name, share in shares.items() if share > BARS[name]}
    assert not over
