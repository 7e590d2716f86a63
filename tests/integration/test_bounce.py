"""Brokers are restarted one after the other while groups of all protocols read: the rules of Kafka's own validator, and no rebalance.

Three groups read one topic at the same time, so a bounce is paid for once. `make test-long` bounces every broker again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.judge.group_log import group_log
from integration.waiting import until
from integration.workload.load import Load, judge
from integration.workload.members import Member, Members, committed
from integration.workload.validator import Journal
from pykafka4 import Producer

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

PARTITIONS = 6
RATE = 240
LONG_S = 120.0
STARTED_S = 300.0  # for members to start on a busy machine
SESSION_MS = 20_000  # of classic members; those of the consumer protocol have that of the brokers, 6 s
GROUPS = {"eager": ("classic", "range"), "cooperative": ("classic", "cooperative-sticky"), "consumer": ("consumer", "range")}
FAULTS: dict[str, Callable[[Cluster, int], None]] = {
    "clean": lambda cluster, node: cluster.stop(node),
    "kill -9": lambda cluster, node: cluster.kill(node),
}


def owned(member: Member) -> set[int]:
    """What it has now, as its listener was told."""
    found = set[int]()
    for line in member.lines():
        if line["what"] == "assigned":
            found |= set(line["partitions"])
        elif line["what"] in ("revoked", "lost"):
            found -= set(line["partitions"])
    return found


def settled(members: Members) -> bool:
    """Whether the members share the partitions, and every one of them was read."""
    shares = [owned(member) for member in members.living()]
    return sorted(p for share in shares for p in share) == list(range(PARTITIONS)) and all(shares) and len(members.read()) == PARTITIONS


def told_alike(members: Members) -> bool:
    """Whether the listeners have been called for the same generation: those of classic members are for each, even without a partition."""
    return len({[line["generation"] for line in m.lines() if line["what"] == "assigned"][-1] for m in members.living()}) == 1


def changes(journal: Journal) -> list[tuple[str, list[int]]]:
    """What its listener was told before it was asked to end."""
    kinds = [line["what"] for line in journal.lines]
    until_end = journal.lines[: kinds.index("closing")] if "closing" in kinds else journal.lines
    return [(line["what"], line["partitions"]) for line in until_end if line["what"] in ("assigned", "revoked", "lost")]


@pytest.fixture
def groups(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[dict[str, Members]]:
    cluster.create_topic(topic, PARTITIONS)
    with ExitStack() as stack:
        found = {}
        for name, (protocol, strategy) in GROUPS.items():
            folder = tmp_path / name
            folder.mkdir()
            members = Members(cluster.client, f"{topic}-{name}", topic, folder, SESSION_MS, protocol, strategy)
            found[name] = stack.enter_context(members)
        yield found


def bounce(cluster: Cluster, topic: str, groups: dict[str, Members], load: Load, fault: str, rounds: int) -> None:
    """Each broker goes and comes back, and every group reads on without it."""
    for _ in range(rounds):
        for node in cluster.nodes:
            FAULTS[fault](cluster, node)
            for partition in range(PARTITIONS):
                cluster.wait_leader(topic, partition, other_than=node, timeout=LONG_S)
            sent = {partition: offset for partition, (_, offset) in cluster.offsets(topic).items()}
            for members in groups.values():
                members.wait_read({p: end + 1 for p, end in sent.items()}, LONG_S)
            cluster.start(node)
            cluster.wait_full_isr()
    assert load.error is None


def judged(cluster: Cluster, topic: str, groups: dict[str, Members], before: dict[str, list[list[tuple[str, list[int]]]]]) -> None:
    """All members have ended as they should."""
    ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
    log = cluster.log(topic)
    for name, members in groups.items():
        found = members.breaches(group_log(cluster, members.group), ends)
        assert not found, f"{name}: {'; '.join(map(str, found[:10]))}"
        assert members.complaints(log) == [], name
        assert [changes(member.journal) for member in members.all] == before[name], f"{name}: no rebalance while brokers bounce"
        assert members.repeated() == 0, name
        stored = committed(cluster, members.group, topic, PARTITIONS)
        assert stored == ends, f"{name}: position, consumed and committed are the same"


def run(cluster: Cluster, topic: str, groups: dict[str, Members], fault: str, rounds: int) -> None:
    ending = False
    with Producer(**cluster.client) as producer:
        load = Load(producer, topic, RATE, lambda _: ending, PARTITIONS)
        load.start()
        try:
            for members in groups.values():
                members.join()
                members.join()
            for name, members in groups.items():
                until(partial(settled, members), STARTED_S, f"two members to share {name}")
                if name != "consumer":
                    until(partial(told_alike, members), STARTED_S, f"the members of {name} to be told of the last generation")
            before = {name: [changes(member.journal) for member in members.all] for name, members in groups.items()}
            bounce(cluster, topic, groups, load, fault, rounds)
        finally:
            ending = True
            load.join(LONG_S)
    ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
    for members in groups.values():
        members.wait_read(ends, LONG_S)
        members.end_all()
    assert not judge(cluster, topic, load).complaints()
    judged(cluster, topic, groups, before)


@pytest.mark.parametrize("fault", ["clean", pytest.param("kill -9", marks=pytest.mark.lengthy)])
def test_brokers_that_bounce_cost_no_rebalance_and_no_record(cluster: Cluster, topic: str, groups: dict[str, Members], fault: str) -> None:
    run(cluster, topic, groups, fault, 1)


@pytest.mark.lengthy
def test_members_that_are_replaced_one_by_one_by_those_of_another_protocol(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    """A rolling migration and the way back: the group is converted by the first and by the last of the new members."""
    cluster.create_topic(topic, PARTITIONS)
    ending = False
    with Producer(**cluster.client) as producer, Members(cluster.client, topic, topic, tmp_path, SESSION_MS) as members:
        load = Load(producer, topic, RATE, lambda _: ending, PARTITIONS)
        load.start()
        try:
            old = [members.join() for _ in range(3)]
            until(lambda: settled(members), STARTED_S, "three members to share the partitions")
            for protocol in ("consumer", "classic"):
                for place in range(3):
                    members.end_all(lambda member, gone=old[place]: member is gone)  # type: ignore[misc]
                    old[place] = members.join(protocol=protocol)
                    until(lambda: settled(members), STARTED_S, lambda: f"three members to share the partitions; {members.state()}")
        finally:
            ending = True
            load.join(LONG_S)
        ends = {partition: end for partition, (_, end) in cluster.offsets(topic).items()}
        members.wait_finished(ends, LONG_S, lambda: committed(cluster, topic, topic, PARTITIONS))
        members.end_all()
        found = members.breaches(group_log(cluster, topic), ends)
        lost = [(member.name, line) for member in members.all for line in member.lines() if line["what"] == "lost"]
        print(f"\nmigration: {members.repeated()} of {sum(ends.values())} records were read again; lost: {lost}")
        assert not found, "; ".join(map(str, found[:10]))
        assert members.complaints(cluster.log(topic)) == []
        assert committed(cluster, topic, topic, PARTITIONS) == ends


@pytest.mark.lengthy
@pytest.mark.parametrize("fault", FAULTS)
def test_brokers_that_bounce_five_times(cluster: Cluster, topic: str, groups: dict[str, Members], fault: str) -> None:
    run(cluster, topic, groups, fault, 5)
