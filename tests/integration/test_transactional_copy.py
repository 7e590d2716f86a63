"""Records are copied in transactions, a third of them aborted, while the copier and brokers are killed: the copy is the original, in order.

Read three times: from the brokers' logs by the markers in them, by a consumer of ours with read_committed that reads all the time, and by
Java's. `make chaos LONG=1` copies 100,000 records under 24 faults; `make test-ci` a few thousand under three.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from integration.cluster import Cluster
from integration.faults.chaos_plan import seed_of
from integration.java.client import java_consume
from integration.workload.copiers import Copying, Row, differences
from integration.workload.load import content
from pykafka4 import Consumer, Producer
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorRequest

pytestmark = pytest.mark.cluster

LONG = bool(os.environ.get("CHAOS_LONG"))
SEED = seed_of(os.environ.get("CHAOS_SEED"))
TRANSACTIONS = 1  # the kind of key in FindCoordinator
COPY, READ = 300.0, 60.0  # seconds for what lies between two faults, and for the readers to reach the end
FIND = 3  # version of FindCoordinator that asks for one key


class Reader(threading.Thread):
    """Reads what is committed from the beginning on, while it is being written."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        super().__init__(name="reader", daemon=True)
        self.consumer = Consumer(**cluster.client, isolation_level="read_committed", auto_offset_reset="earliest")
        self.consumer.assign([(topic, partition) for partition in range(partitions)])
        self.rows: dict[int, list[Row]] = defaultdict(list)
        self.count, self.wanted = 0, -1
        self.deadline = float("inf")
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self.consumer as consumer:
                while self.count != self.wanted and time.monotonic() < self.deadline:
                    for record in consumer.poll(0.2):
                        self.rows[record.partition].append((record.key, record.value))
                        self.count += 1
        except BaseException as error:  # the test raises it
            self.error = error

    def finish(self, wanted: int) -> dict[int, list[Row]]:
        """Everything it read; it ends when it has so many records, and it waits a while for more than that."""
        self.wanted, self.deadline = wanted, time.monotonic() + READ
        self.join(READ + 10)
        if self.error is not None:
            raise self.error
        return self.rows


def fill(cluster: Cluster, topic: str, partitions: int, records: int) -> None:
    with Producer(**cluster.client) as producer:
        for n in range(records):
            key, value, headers, timestamp = content(n)
            producer.send(topic, value, key=key, headers=headers, timestamp_ms=timestamp, partition=n % partitions)


def coordinator(cluster: Cluster, name: str) -> int:
    """The broker that coordinates the transactions of a transactional id."""
    message = FindCoordinatorRequest(key=name, key_type=TRANSACTIONS)

    def found() -> int:
        answer = cluster.admin.of_any(lambda node: cluster.admin.ask(node, message, highest=FIND), "who coordinates")
        return int(answer.node_id) if not answer.error_code else 0

    return cluster.wait(found, 30, f"a coordinator of {name}")


def kill_leader(cluster: Cluster, copying: Copying, topic: str) -> None:
    node = cluster.wait_leader(topic, 0)
    cluster.kill(node)
    cluster.start(node)
    cluster.wait_full_isr()


def kill_coordinator(cluster: Cluster, copying: Copying, topic: str) -> None:
    node = coordinator(cluster, copying.settings["id"])
    cluster.kill(node)
    cluster.start(node)
    cluster.wait_full_isr()


def restart_leader(cluster: Cluster, copying: Copying, topic: str) -> None:
    cluster.restart(cluster.wait_leader(topic, 0))
    cluster.wait_full_isr()


def kill_client(cluster: Cluster, copying: Copying, topic: str) -> None:
    copying.kill()


Fault = Callable[[Cluster, Copying, str], None]


def copy(
    cluster: Cluster, topic: str, folder: Path, *, records: int, partitions: int, faults: list[Fault], grouped: bool, size: int
) -> None:
    """Copy, with the faults spread over it, and compare."""
    source, target = f"{topic}-in", f"{topic}-out"
    for name in (source, target):
        cluster.create_topic(name, partitions)
    fill(cluster, source, partitions, records)
    ends = {str(partition): end for partition, (_, end) in cluster.offsets(source).items()}
    settings = {
        "client": cluster.client, "id": topic, "input": source, "output": target, "ends": ends, "grouped": grouped,
        "size": size, "seed": SEED,
    }  # fmt: skip
    reader, began = Reader(cluster, target, partitions), time.monotonic()
    reader.start()
    with Copying(settings, folder) as copying:
        for n, fault in enumerate(faults, 1):
            copying.wait_copied(records * n // (len(faults) + 2), COPY)
            fault(cluster, copying, target)
        copying.wait_finished(COPY)
    logs = cluster.committed(target)
    java = java_consume(cluster.bootstrap, target, properties={"isolation.level": "read_committed", **cluster.java})
    copies: dict[str, dict[int, list[Row]]] = {
        "the logs": {partition: [(r.key, r.value) for r in found.records] for partition, found in logs.items()},
        "ours": reader.finish(records),
        "Java's": {partition: [(r.key, r.value) for r in java if r.partition == partition] for partition in logs},
    }
    counts = copying.counts()
    print(
        f"\ncopy: SEED={SEED}: {records:,} records, {counts['committed']} transactions committed, {counts['aborted']} aborted, "
        f"{counts['error']} with errors; {len(faults)} faults, {copying.killed} copiers killed, {copying.failures()} failed; "
        f"{sum(found.aborted for found in logs.values()):,} aborted records in the logs; {time.monotonic() - began:.0f} s; "
        f"{dict(copying.errors())}"
    )
    assert differences(cluster, source, copies) == []
    assert [found.open for found in logs.values()] == [0] * partitions
    ended = counts["aborted"] + counts["committed"]
    assert ended / 4 - 2 * ended**0.5 < counts["aborted"] < ended * 2 / 5 + 2 * ended**0.5, "not about a third was aborted"
    assert sum(found.aborted for found in logs.values()) > 0, "no aborted record reached a log: that showed nothing"
    assert "Traceback" not in "".join(path.read_text() for path in folder.glob("copier-*.err"))


def test_a_copy_in_transactions_is_the_original_whoever_is_killed(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    faults: list[Fault] = [kill_client, kill_leader]
    copy(cluster, topic, tmp_path, records=3_000, partitions=2, faults=faults, grouped=False, size=60)


@pytest.mark.chaos
@pytest.mark.timeout(3600 if LONG else 900)
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("grouped", [False, True], ids=["assigned", "grouped"])
def test_100_000_records_are_copied_under_many_faults(cluster: Cluster, topic: str, tmp_path: Path, grouped: bool, partitions: int) -> None:
    rounds, records = (6, 100_000) if LONG else (1, 20_000)
    faults: list[Fault] = [kill_client, kill_leader, kill_coordinator, restart_leader] * rounds
    Random(SEED).shuffle(faults)
    copy(cluster, topic, tmp_path, records=records, partitions=partitions, faults=faults, grouped=grouped, size=400)
