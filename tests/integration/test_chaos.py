"""Leaders killed under load, and schedules drawn from the simulation's faults: nothing acknowledged is lost, repeated or reordered.

The judge reads the brokers' logs. A drawn schedule follows from its seed, which is printed: `make chaos SEED=… CHAOS_RUNS=1` repeats it.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from random import Random
from typing import TypeGuard

import attrs
import pytest

from integration.cluster import Cluster
from integration.faults.actions import FRAGILE, FRAGILE_CONFIGS, Run
from integration.faults.chaos_plan import ChaosPlan, draw, seed_of
from integration.faults.proxied import Proxied
from integration.waiting import until
from integration.workload.load import PARTITIONS, RECOVERY_S, Cycle, Load, Verdict, judge, kill_cycle
from integration.workload.members import Members, committed
from pykafka4 import DeliveryFailed, Producer
from pykafka4.records import Written

RATE = 5_000
FIRST_ACK_S = 3.0  # seconds after the new leader is in the metadata
AGAIN = 1  # so many kills are repeated if the acknowledgement was late: the machine may have been busy
RUNS = int(os.environ.get("CHAOS_RUNS", "10"))
DRAWN = (RUNS * 6 + 9) // 10  # runs that are drawn; the others kill leaders
SEED = seed_of(os.environ.get("CHAOS_SEED"))
SLOW_RATE = 500  # records per second of each load of a drawn run
LATEST_END_S = 30.0  # seconds from when a member is asked to end until it has ended
SHORT_RATE = 500  # records per second of the short form
SHORTEST, LONGEST = 1.0, 5.0  # seconds that a connection lives in the short form


def run(cluster: Cluster, topic: str, records: int, cycles: int) -> None:
    """Keep the load up until both `records` are sent and `cycles` kills are over, then judge."""
    cluster.create_topic(topic, PARTITIONS, 3)
    done: list[Cycle] = []

    def in_time() -> int:
        return sum(cycle.first_ack <= FIRST_ACK_S for cycle in done)

    def over() -> bool:
        return in_time() >= cycles or len(done) >= cycles + AGAIN

    with Producer(**cluster.client) as producer:
        load = Load(producer, topic, RATE, lambda sent: sent >= records and over())
        load.start()
        # Brokers without a block of producer ids wait for the controller: were it killed before the first record, we would measure that.
        until(lambda: all(load.last_ack), RECOVERY_S, "an acknowledgement from every partition")
        while not over():
            done.append(kill_cycle(cluster, topic, load, len(done) % PARTITIONS))
            assert load.error is None, load.error
        load.join(timeout=records / RATE + 60)
        producer.flush(timeout=120)
        stats = producer.stats()
    verdict = judge(cluster, topic, load)
    acks, elections = [c.first_ack for c in done], [c.election for c in done]
    print(
        f"\nchaos: {verdict.sent:,} sent, {verdict.acked:,} acked, {stats.retries} batches resent, {len(done)} kills; "
        f"election {statistics.median(elections):.1f} s (worst {max(elections):.1f}), "
        f"first ack after it {statistics.median(acks):.2f} s (worst {max(acks):.2f})"
    )
    assert not verdict.complaints()
    assert verdict.acked == verdict.sent >= records
    assert stats.acked == verdict.sent
    assert stats.retries > 0, "the kills met no batch in flight: they showed nothing"
    assert in_time() >= cycles, acks


@pytest.mark.secured
@pytest.mark.cluster
def test_nothing_is_lost_duplicated_or_reordered_while_leaders_are_killed(cluster: Cluster, topic: str) -> None:
    run(cluster, topic, records=30_000, cycles=2)


@pytest.mark.secured
@pytest.mark.cluster
@pytest.mark.chaos
def test_the_short_form_loses_repeats_and_reorders_nothing(proxied_cluster: Proxied, topic: str, tmp_path: Path) -> None:
    """While every connection lives a few seconds: a leader is killed, another one frozen, a member killed, and each broker restarted."""
    cluster, order = proxied_cluster, Random(SEED)
    print(f"\nshort chaos: SEED={SEED}, journals in {tmp_path}")
    cluster.create_topic(topic, PARTITIONS)
    ending, began = False, time.monotonic()
    with Members(cluster.client, topic, topic, tmp_path) as members, Producer(**cluster.client, request_timeout_ms=5_000) as producer:
        load = Load(producer, topic, SHORT_RATE, lambda _: ending)
        load.start()
        for _ in range(2):
            members.join()
        until(lambda: all(load.last_ack) and len(members.read()) == PARTITIONS, RECOVERY_S, "records of every partition to be read")
        for proxy in cluster.proxies.values():
            proxy.chaos(SHORTEST, LONGEST)
        kill_cycle(cluster, topic, load, order.randrange(PARTITIONS))
        members.all[0].kill()
        members.join()
        frozen_leader(cluster, topic, load, order.randrange(PARTITIONS))
        for node in order.sample(cluster.nodes, len(cluster.nodes)):
            cluster.restart(node)
            cluster.wait_full_isr([topic])
        cluster.heal_proxies()
        ending = True
        load.join(30)
        producer.flush(120)
        retries = producer.stats().retries
        ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
        members.wait_finished(ends, RECOVERY_S, lambda: committed(cluster, topic, topic, PARTITIONS))
        members.end_all()
    verdict = judge(cluster, topic, load)
    print(
        f"short chaos: SEED={SEED}: {verdict.acked:,} of {verdict.sent:,} acknowledged, {len(verdict.lost)} lost, "
        f"{len(verdict.duplicated)} duplicated, {len(verdict.reordered)} reordered; {retries} batches resent, "
        f"{sum(proxy.counters.resets for proxy in cluster.proxies.values())} connections cut; {sum(map(len, members.read().values())):,} "
        f"records read, {members.repeated():,} of them more than once; {time.monotonic() - began:.0f} s"
    )
    assert verdict.complaints() == []
    assert verdict.acked == verdict.sent
    assert retries > 0, "the faults met no batch in flight: they showed nothing"
    assert members.complaints(cluster.log(topic)) == []
    assert committed(cluster, topic, topic, PARTITIONS) == ends


def frozen_leader(cluster: Cluster, topic: str, load: Load, partition: int) -> None:
    """The leader of `partition` is frozen until a record is acknowledged by its successor."""
    node = cluster.wait_leader(topic, partition)
    cluster.freeze(node)
    try:
        cluster.wait(lambda: cluster.leader(topic, partition) not in (node, -1), RECOVERY_S, f"a new leader of {topic}-{partition}")
        elected = time.monotonic()
        until(lambda: load.last_ack[partition] > elected, RECOVERY_S, f"an acknowledgement from the new leader of {topic}-{partition}")
    finally:
        cluster.thaw(node)
    cluster.wait_full_isr([topic])


@pytest.mark.cluster
@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("attempt", range(RUNS - DRAWN))
def test_nothing_is_lost_in_200_000_records_and_8_kills(cluster: Cluster, topic: str, attempt: int) -> None:
    run(cluster, topic, records=200_000, cycles=8)


@pytest.mark.cluster
@pytest.mark.chaos
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(SEED, SEED + DRAWN))
def test_a_schedule_drawn_from_the_faults_of_the_simulation_breaks_no_promise(
    proxied_cluster: Proxied, topic: str, tmp_path: Path, seed: int
) -> None:
    plan = draw(seed, float(os.environ.get("CHAOS_SECONDS", "110")))
    print(f"\nchaos: SEED={seed}, journals in {tmp_path}\n{attrs.evolve(plan, steps={})}")
    main, plain, fragile = topic, f"{topic}-plain", f"{topic}-fragile"
    proxied_cluster.create_topic(main, PARTITIONS)
    proxied_cluster.create_topic(plain, PARTITIONS)
    proxied_cluster.create_topic(fragile, FRAGILE, plan.fragile_replicas, FRAGILE_CONFIGS)
    ending = False
    options = proxied_cluster.client
    with (
        Members(options, main, main, tmp_path) as members,
        Producer(**options, client_id="strict", **plan.idempotent) as strict,
        Producer(**options, client_id="plain", **plan.plain) as loose,
    ):
        loads = [
            Load(strict, main, SLOW_RATE, lambda _: ending),
            Load(loose, plain, SLOW_RATE, lambda _: ending),
            Load(strict, fragile, SLOW_RATE, lambda _: ending, FRAGILE),
        ]
        for load in loads:
            load.start()
        for n in range(plan.members):
            members.join("ours", f"s{n}" if plan.static else None)
        until(lambda: all(all(load.last_ack) for load in loads), RECOVERY_S, "an acknowledgement from every partition")
        run = Run(proxied_cluster, plan, loads[0], loads[2], members)
        try:
            run.play()
        finally:
            ending = True
            print(f"chaos: SEED={seed}", *run.story, sep="\n  ")
            proxied_cluster.heal_proxies()
        proxied_cluster.heal()
        for load in loads:
            load.join(120)
            assert not load.is_alive()
        for producer in (strict, loose):
            producer.flush(150)
        stats = {producer: producer.stats() for producer in (strict, loose)}
        if not members.living():
            members.join("ours")
        ends = {partition: end for partition, (_, end) in proxied_cluster.offsets(main).items()}
        try:
            members.wait_finished(ends, RECOVERY_S, lambda: committed(proxied_cluster, main, main, len(ends)))
        finally:
            members.end_all()
    told = judged(proxied_cluster, plan, loads)
    took = {member.name: member.took() for member in members.all if member.asked is not None}
    print(
        f"chaos: SEED={seed}: {sum(load.sent for load in loads):,} sent, {sum(run.done.values())} faults of {len(run.done)} kinds, "
        f"{stats[strict].retries} + {stats[loose].retries} batches resent; {sum(map(len, members.read().values())):,} records read, "
        f"{members.repeated():,} of them more than once; members ended within {max((s for s in took.values() if s), default=0):.1f} s"
    )
    assert told == []
    assert members.complaints(proxied_cluster.log(main)) == []
    assert all(seconds is not None and seconds <= LATEST_END_S for seconds in took.values()), took
    assert committed(proxied_cluster, main, main, len(ends)) == ends


def judged(cluster: Cluster, plan: ChaosPlan, loads: list[Load]) -> list[str]:
    """What is wrong with the three loads of a drawn run."""
    told = []
    for load, name in zip(loads, ("main", "plain", "fragile"), strict=True):
        verdict = judge(cluster, load.topic, load)
        print(
            f"chaos: {name}: {verdict.acked:,} of {verdict.sent:,} acknowledged, {len(load.failures)} failed, {len(verdict.lost)} lost, "
            f"{len(verdict.duplicated)} duplicated, {len(load.excused()):,} excused"
        )
        told += [f"{name}: {line}" for line in promised(verdict, load, plan, name).complaints()]
    return told


def is_invalid(error: BaseException) -> TypeGuard[DeliveryFailed]:
    """Whether the broker refused the record's timestamp."""
    return isinstance(error, DeliveryFailed) and error.code == "INVALID_TIMESTAMP"


def promised(verdict: Verdict, load: Load, plan: ChaosPlan, name: str) -> Verdict:
    """The verdict without what was announced: refused records, duplicates without idempotence, losses with acks=1.

    A broker that leads again after its restart knows only the last batch of each producer: its snapshot holds no more. If it is the only
    replica, batches in doubt before that one are refused although they are in the log, and fail as maybe written. So does a batch in doubt
    with a record to be refused, whole: sent again without that record, the others might be in the log twice. Those in doubt behind it are
    out of order then.
    """
    touched = {load.partition(n) for n in load.refused}
    whole = {load.partition(n) for n, error in verdict.failed.items() if is_invalid(error) and error.written is Written.MAYBE}

    def announced(n: int, error: BaseException) -> bool:
        if not isinstance(error, DeliveryFailed):
            return False
        if is_invalid(error):
            return n in load.refused or (error.written is Written.MAYBE and load.partition(n) in touched)
        forgotten = (name == "fragile" and plan.fragile_replicas == 1) or load.partition(n) in whole
        return forgotten and error.code == "OUT_OF_ORDER_SEQUENCE_NUMBER" and error.written is Written.MAYBE

    verdict = attrs.evolve(verdict, failed={n: error for n, error in verdict.failed.items() if not announced(n, error)})
    if name != "plain":
        return verdict
    verdict = attrs.evolve(verdict, duplicated=[])
    return verdict if plan.plain["acks"] == "all" else attrs.evolve(verdict, lost=[], wrong_offset=[])
