"""What happens to a job on a standalone cluster midway. Each fault gets the topic that the job writes to."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark

Fault: TypeAlias = Callable[[StandaloneSpark, Cluster, str], None]

MINUTE = 60.0


def python_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    assert standalone.kill_python(standalone.executors()[0]) >= 2, "the writer is not among them"


def executor_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    standalone.kill(standalone.executors()[0])


def broker_killed(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    cluster.kill(cluster.leader(topic))


def brokers_gone_for_a_minute(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    for node in cluster.nodes:
        cluster.kill(node)
    time.sleep(MINUTE)
    cluster.start_all()


def brokers_frozen_for_a_minute(standalone: StandaloneSpark, cluster: Cluster, topic: str) -> None:
    for node in cluster.nodes:
        cluster.freeze(node)
    time.sleep(MINUTE)
    for node in cluster.nodes:
        cluster.thaw(node)


FAULTS = [python_killed, executor_killed, broker_killed, brokers_gone_for_a_minute, brokers_frozen_for_a_minute]
