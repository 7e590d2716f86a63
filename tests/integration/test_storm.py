"""Rebalance storms: members of ours and of other clients are killed, frozen, added and asked to leave, one every few seconds.

`make storm` runs each for 15 minutes (STORM_SECONDS), `make test-ci` two of them for a few seconds. Journals and the coordinator's log are
judged afterwards: nothing skipped, no two owners, Kafka's own validator rules, and every member of ours ends soon when it is asked to.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.faults.chaos_plan import seed_of
from integration.judge.group_log import group_log
from integration.workload.load import Load, judge
from integration.workload.members import Member, Members, committed
from integration.workload.rebalance_storm import SCENARIOS, Scenario, Storm
from integration.workload.validator import pauses, starved
from pykafka4 import Producer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

SECONDS = float(os.environ.get("STORM_SECONDS", "900"))
SHORT = 20.0
SEED = seed_of(os.environ.get("STORM_SEED"))
PARTITIONS = 12
RATE = 600
ENDS_S = 5.0  # seconds from being asked until a member of ours has ended
BUSY = 0.1  # of the time without the processor: on such a machine pauses say nothing about the client
STILL_S = 1.0  # seconds for which a partition that a cooperative member keeps may stand still
ALL_READ = 120.0


@pytest.mark.storm
@pytest.mark.parametrize("name", SCENARIOS)
def test_storm(cluster: Cluster, topic: str, tmp_path: Path, name: str) -> None:
    run(cluster, topic, tmp_path, SCENARIOS[name], SECONDS)


@pytest.mark.parametrize("name", ["range", "consumer"])
def test_short_storm(cluster: Cluster, topic: str, tmp_path: Path, name: str) -> None:
    run(cluster, topic, tmp_path, SCENARIOS[name], SHORT)


def run(cluster: Cluster, topic: str, folder: Path, scenario: Scenario, seconds: float) -> None:
    for package in scenario.packages:
        pytest.importorskip(package, reason=f"{package} is not installed; pip install -e '.[test]'")
    cluster.create_topic(topic, PARTITIONS)
    (folder / "control").mkdir()
    print(f"\nstorm {scenario.name}: STORM_SEED={SEED}, journals in {folder}")
    ending = False
    with (
        Producer(**cluster.client, linger_ms=0) as producer,
        Members(cluster.client, topic, topic, folder, strategy=scenario.strategy) as members,
        Members(cluster.client, f"{topic}-control", topic, folder / "control") as control,
    ):
        load = Load(producer, topic, RATE, lambda _: ending, PARTITIONS)
        load.start()
        alone = control.join()
        storm = Storm(scenario, members, f"{SEED} {scenario.name}")
        storm.run(seconds)
        over = time.monotonic()
        ending = True
        load.join(30)
        producer.flush(60)
        members.end_all(lambda member: member.kind != "ours")
        last = members.join("ours", protocol=storm.protocol)  # one that was not in the storm
        ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
        try:
            members.wait_finished(ends, ALL_READ, lambda: committed(cluster, topic, topic, PARTITIONS))
        finally:
            members.end_all()
            control.end_all()
        assert last.asked is not None
        stored = committed(cluster, topic, topic, PARTITIONS)
        events = group_log(cluster, topic)
        (folder / "coordinator.txt").write_text("\n".join(map(str, events)))
        found = members.breaches(events, ends)
        ours = [breach for breach in found if breach.ours]
        late = late_ones(members)
        still = standing_still(members, alone, over) if scenario.strategy == "cooperative-sticky" else []
        busy = starved(alone.journal)
        tell(scenario, storm, members, still, busy)
        for breach in found:
            print(f"{'BREACH' if breach.ours else 'other client:'} {breach}")
        assert not late, f"{late}; {storm.story}"
        assert not judge(cluster, topic, load).complaints()
        assert not ours, "; ".join(map(str, ours[:10]))
        assert members.complaints(cluster.log(topic)) == []
        assert stored == ends, "the last members ended as they should: position, consumed and committed are the same"
        assert not still or busy > BUSY, still


def late_ones(members: Members) -> dict[str, float | None]:
    """Members of ours that took too long to end, or never did."""
    took = {member.name: member.took() for member in members.all if member.asked is not None and member.kind == "ours"}
    return {name: seconds for name, seconds in took.items() if seconds is None or seconds > ENDS_S}


def standing_still(members: Members, alone: Member, end: float) -> list[str]:
    """Pauses of partitions that our members kept, while the load went on: those of members that were frozen do not count.

    Nor do those that a lone member has as well, `alone`, as the machine or the brokers were busy then.
    """
    return [
        f"{member.name} did not read {partition} for {length:.2f} s at {since:.1f}"
        for member in members.all
        if member.kind == "ours" and not member.disturbed
        for partition, since, length in pauses(member.journal, STILL_S, alone.journal, end)
    ]


def tell(scenario: Scenario, storm: Storm, members: Members, still: list[str], busy: float) -> None:
    """What happened, in one line."""
    took = [(m.kind == "ours", m.took()) for m in members.all if m.asked is not None]
    quick, others = ([seconds for mine, seconds in took if mine is which and seconds is not None] for which in (True, False))
    read = sum(map(len, members.read().values()))
    print(
        f"storm {scenario.name}: {len(storm.story)} strikes, {len(members.all)} members; {len(quick)} of ours were asked to end: "
        f"{sorted(quick)[len(quick) // 2]:.2f} s in the middle, {max(quick):.2f} s at worst; others: {len(others)}, "
        f"{max(others, default=0):.2f} s at worst; {read:,} records, {members.repeated():,} read again; {len(still)} pauses of partitions "
        f"that stayed, with a machine that gave a process no processor for {100 * busy:.0f} % of the time"
    )
