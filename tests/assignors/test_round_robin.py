"""The round-robin assignor, against the examples of Java's RoundRobinAssignor, and what must hold for any group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from pykafka4.assignors import GroupMember, RoundRobinAssignor
from pykafka4.assignors.interface import PartitionInfo


def assign(members: Collection[GroupMember], sizes: Mapping[str, int]) -> dict[str, list[str]]:
    topics = {topic: [PartitionInfo(topic, p) for p in range(n)] for topic, n in sizes.items()}
    return {name: [str(tp) for tp in tps] for name, tps in RoundRobinAssignor().assign(tuple(members), topics).items()}


def member(name: str, *topics: str, instance: str | None = None) -> GroupMember:
    return GroupMember(name, frozenset(topics), instance)


def test_two_topics_of_three_partitions_are_assigned_in_turns() -> None:
    """The first example in RoundRobinAssignor's own documentation."""
    result = assign([member("C0", "t0", "t1"), member("C1", "t0", "t1")], {"t0": 3, "t1": 3})
    assert result == {"C0": ["t0-0", "t0-2", "t1-1"], "C1": ["t0-1", "t1-0", "t1-2"]}


def test_members_that_are_not_subscribed_are_passed_over() -> None:
    """The second one."""
    members = [member("C0", "t0"), member("C1", "t0", "t1"), member("C2", "t0", "t1", "t2")]
    result = assign(members, {"t0": 1, "t1": 2, "t2": 3})
    assert result == {"C0": ["t0-0"], "C1": ["t1-0"], "C2": ["t1-1", "t2-0", "t2-1", "t2-2"]}


def test_static_members_come_first() -> None:
    result = assign([member("a", "t"), member("z", "t", instance="i")], {"t": 3})
    assert result == {"a": ["t-1"], "z": ["t-0", "t-2"]}


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.frozensets(st.sampled_from(["t1", "t2", "t3"])), min_size=1, max_size=8),
    st.dictionaries(st.sampled_from(["t1", "t2", "t3"]), st.integers(1, 20)),
)
def test_every_partition_goes_to_exactly_one_subscriber(group: dict[str, frozenset[str]], sizes: dict[str, int]) -> None:
    result = assign([GroupMember(name, topics) for name, topics in group.items()], sizes)
    taken = {topic for topics in group.values() for topic in topics}
    every = [f"{topic}-{p}" for topic, size in sizes.items() if topic in taken for p in range(size)]
    assert sorted(tp for tps in result.values() for tp in tps) == sorted(every)
    for name, tps in result.items():
        assert {tp.rpartition("-")[0] for tp in tps} <= group[name]
    if len(set(group.values())) == 1:
        assert max(map(len, result.values())) - min(map(len, result.values())) <= 1
