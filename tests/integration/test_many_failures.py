"""Leaders killed and frozen again and again at 5,000 records a second, with idempotence and without; the judge reads the brokers' logs.

With idempotence nothing is lost, repeated or reordered. Without it nothing is lost, first occurrences are in order, and only such records
are in a log twice whose batch was written to a socket more than once: the producer says so of each record and counts them per partition.

One producer lives through all failures. Every ten of them write to a topic of their own, which is judged and deleted: so the judge needs
memory for ten. `make chaos LONG=1` kills 50 leaders and freezes 20, with each producer; without LONG it is two and one.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import attrs
import pytest

from integration.cluster import Cluster
from integration.faults.chaos_plan import seed_of
from integration.waiting import until
from integration.workload.load import PARTITIONS, RECOVERY_S, Cycle, Load, Verdict, freeze_cycle, judge, kill_cycle
from pykafka4 import Producer, TopicPartition

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]

LONG = bool(os.environ.get("CHAOS_LONG"))
SEED = seed_of(os.environ.get("CHAOS_SEED"))
KILLS, FREEZES = (50, 20) if LONG else (2, 1)
FROZEN_S = 15.0
AT_ONCE = 10  # failures that are judged together
RATE, LEAST = 5_000, 4_500  # records per second: wanted, and what has to come of it while leaders fail
FIRST_ACK_S = 3.0  # seconds after the new leader of a killed one is in the metadata

Failure = Callable[[Cluster, str, Load, int], Cycle]


def frozen(cluster: Cluster, topic: str, load: Load, partition: int) -> Cycle:
    return freeze_cycle(cluster, topic, load, partition, FROZEN_S)


def schedule() -> list[Failure]:
    """All failures, in an order that follows from the seed."""
    failures: list[Failure] = [kill_cycle] * KILLS + [frozen] * FREEZES
    Random(SEED).shuffle(failures)
    return failures


@attrs.define
class Sums:
    """What all topics together say."""

    idempotent: bool
    counts: Counter[str] = attrs.Factory(Counter)
    cycles: dict[Failure, list[Cycle]] = attrs.Factory(lambda: {kill_cycle: [], frozen: []})
    retries: Counter[Failure] = attrs.Factory(Counter)
    seconds: float = 0.0  # in which records were sent
    complaints: list[str] = attrs.Factory(list)

    def add(self, verdict: Verdict, load: Load) -> None:
        lists = {"lost": verdict.lost, "duplicated": verdict.duplicated, "reordered": verdict.reordered}
        self.counts += Counter({name: len(found) for name, found in lists.items()})
        self.counts += Counter(sent=verdict.sent, acknowledged=verdict.acked, **{"maybe repeated": len(load.repeated)})

    @property
    def rate(self) -> float:
        """Records sent per second."""
        return self.counts["sent"] / self.seconds

    def show(self) -> None:
        told = ", ".join(
            f"{self.counts[name]:,} {name}" for name in ("sent", "acknowledged", "lost", "duplicated", "reordered", "maybe repeated")
        )
        title = "idempotent" if self.idempotent else "without idempotence"
        print(f"\n{title}: SEED={SEED}: {told}; {self.rate:,.0f} records per second for {self.seconds:.0f} s")
        for name, failure in (("killed", kill_cycle), ("frozen", frozen)):
            if cycles := self.cycles[failure]:
                acks, elections = [c.first_ack for c in cycles], [c.election for c in cycles]
                print(
                    f"  {len(cycles)} leaders {name}: {self.retries[failure]:,} batches resent, "
                    f"election {statistics.median(elections):.1f} s (worst {max(elections):.1f}), "
                    f"first acknowledgement after it {statistics.median(acks):.2f} s (worst {max(acks):.2f})"
                )


def fail_and_judge(cluster: Cluster, producer: Producer, topic: str, failures: Sequence[Failure], partition: int, sums: Sums) -> Load:
    """These failures, one after the other, under a load on a topic of their own."""
    cluster.create_topic(topic, PARTITIONS)
    ending = False
    load, began = Load(producer, topic, RATE, lambda _: ending), time.monotonic()
    load.start()
    until(lambda: all(load.last_ack), RECOVERY_S, "an acknowledgement from every partition")
    for failure in failures:
        partition, before = (partition + 1) % PARTITIONS, producer.stats().retries
        sums.cycles[failure].append(failure(cluster, topic, load, partition))
        sums.retries[failure] += producer.stats().retries - before
        assert load.error is None, load.error
    ending = True
    load.join(60)
    sums.seconds += time.monotonic() - began
    producer.flush(120)
    verdict = judge(cluster, topic, load)
    sums.add(verdict, load)
    if not sums.idempotent:
        sums.complaints += [f"{topic}: {line}" for line in unannounced(producer, topic, load, verdict)]
        verdict = attrs.evolve(verdict, duplicated=[])
    sums.complaints += [f"{topic}: {line}" for line in verdict.complaints()]
    sums.complaints += [] if verdict.acked == verdict.sent else [f"{topic}: {verdict.sent - verdict.acked} records have no acknowledgement"]
    return load


def unannounced(producer: Producer, topic: str, load: Load, verdict: Verdict) -> list[str]:
    """What is wrong with what the producer says of duplicates: of each record, and in its counts per partition, against the log."""
    repeated = set(verdict.duplicated)
    told = [f"record {n} is there twice, and was not announced" for n in sorted(repeated - load.repeated)[:5]]
    partitions = producer.stats().partitions
    for partition in range(PARTITIONS):
        in_log, said = (sum(load.partition(n) == partition for n in numbers) for numbers in (repeated, load.repeated))
        counted = partitions[TopicPartition(topic, partition)].repeated
        if counted != said or in_log > counted:
            told.append(f"partition {partition}: {in_log} records twice in the log, {said} announced, {counted} counted")
    return told


@pytest.mark.timeout(3 * 3600 if LONG else 600)
@pytest.mark.parametrize("idempotence", [True, False], ids=["idempotent", "plain"])
def test_leaders_killed_and_frozen_again_and_again_break_no_promise(cluster: Cluster, topic: str, idempotence: bool) -> None:
    failures, sums = schedule(), Sums(idempotence)
    with Producer(**cluster.client, enable_idempotence=idempotence) as producer:
        for at in range(0, len(failures), AT_ONCE):
            name = f"{topic}-{at}"
            fail_and_judge(cluster, producer, name, failures[at : at + AT_ONCE], at, sums)
            cluster.delete_topic(name)
    sums.show()
    assert sums.complaints == []
    assert all(sums.retries[failure] for failure in set(failures)), "failures of one kind met no batch in flight: they showed nothing"
    assert sums.rate >= LEAST
    assert max(cycle.first_ack for cycle in sums.cycles[kill_cycle]) <= FIRST_ACK_S
