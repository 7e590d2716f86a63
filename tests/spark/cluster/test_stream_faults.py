"""A stream from topic to topic with a checkpoint: whatever is killed, no row is lost, and none is there twice if exactly once."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark
from tests.spark.cluster.driver import Plan, wait_done, wait_written
from tests.spark.cluster.faults import FAULTS, Fault
from tests.spark.cluster.jobs import ROWS, fill, in_log, times

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(1800)]

DELIVERIES = ("at_least_once", "exactly_once")
KILLS = 2


@pytest.fixture
def topics(cluster: Cluster, topic: str) -> tuple[str, str]:
    """One with rows, and an empty one."""
    before, after = f"{topic}-in", f"{topic}-out"
    cluster.create_topic(before, 2)
    cluster.create_topic(after, 3)
    fill(cluster, before)
    return before, after


def check(cluster: Cluster, topic: str, delivery: str) -> None:
    found = times(cluster, topic, delivery)
    assert sorted(found) == list(range(ROWS))
    assert delivery == "at_least_once" or found.total() == ROWS


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_driver_that_is_killed_again_and_again(
    standalone: StandaloneSpark, cluster: Cluster, topics: tuple[str, str], tmp_path: Path, delivery: str
) -> None:
    plan = Plan.of(standalone, cluster, topics, delivery, tmp_path)
    for number in range(KILLS):
        plan.start(standalone, f"driver-{delivery}-{number}")
        wait_written(standalone, cluster, f"driver-{delivery}-{number}", topics[1], in_log(cluster, topics[1]) + 500)
        standalone.kill_driver(f"driver-{delivery}-{number}")
    plan.start(standalone, f"driver-{delivery}")
    wait_done(standalone, f"driver-{delivery}")
    check(cluster, topics[1], delivery)


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_driver_that_goes_on(
    standalone: StandaloneSpark, cluster: Cluster, topics: tuple[str, str], tmp_path: Path, fault: Fault, delivery: str
) -> None:
    name = f"driver-{fault.__name__}-{delivery}"
    Plan.of(standalone, cluster, topics, delivery, tmp_path).start(standalone, name)
    wait_written(standalone, cluster, name, topics[1], 500)
    fault(standalone, cluster, topics[1])
    wait_done(standalone, name)
    cluster.heal()
    check(cluster, topics[1], delivery)
