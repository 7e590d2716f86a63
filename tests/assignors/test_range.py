"""The range assignor, against the examples of Java's RangeAssignor, and what must hold for any group."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hypothesis import given
from hypothesis import strategies as st

from pykafka4.assignors import GroupMember, RangeAssignor
from pykafka4.assignors.interface import PartitionInfo
from pykafka4.records import TopicPartition


def assign(members: Collection[GroupMember], sizes: Mapping[str, int]) -> dict[str, list[TopicPartition]]:
    return RangeAssignor().assign(tuple(members), {topic: [PartitionInfo(topic, p) for p in range(n)] for topic, n in sizes.items()})


def member(name: str, *topics: str, instance: str | None = None) -> GroupMember:
    return GroupMember(name, frozenset(topics), instance)


def numbers(tps: list[TopicPartition]) -> list[str]:
    return [str(tp) for tp in tps]


def test_two_topics_of_three_partitions_give_the_first_member_one_more_of_each() -> None:
    """The example in RangeAssignor's own documentation."""
    result = assign([member("C0", "t0", "t1"), member("C1", "t0", "t1")], {"t0": 3, "t1": 3})
    assert numbers(result["C0"]) == ["t0-0", "t0-1", "t1-0", "t1-1"]
    assert numbers(result["C1"]) == ["t0-2", "t1-2"]


def test_members_get_partitions_of_their_own_topics_only() -> None:
    """`testMultipleConsumersMixedTopics`."""
    members = [member("c1", "t1"), member("c2", "t1", "t2"), member("c3", "t1")]
    result = assign(members, {"t1": 3, "t2": 2})
    assert numbers(result["c1"]) == ["t1-0"]
    assert numbers(result["c2"]) == ["t1-1", "t2-0", "t2-1"]
    assert numbers(result["c3"]) == ["t1-2"]


def test_more_members_than_partitions_leaves_the_last_without() -> None:
    result = assign([member("c2", "t"), member("c1", "t")], {"t": 1})
    assert numbers(result["c1"]) == ["t-0"]
    assert result["c2"] == []


def test_topics_without_partitions_are_assigned_to_no_member() -> None:
    assert assign([member("c", "gone", "unknown")], {"gone": 0}) == {"c": []}


def test_static_members_come_first_by_instance_id_and_keep_their_share_under_a_new_member_id() -> None:
    """`testStaticMemberRangeAssignmentPersistent`."""
    before = assign([member("m1", "t", instance="b"), member("m2", "t", instance="a"), member("a0", "t")], {"t": 5})
    after = assign([member("z9", "t", instance="b"), member("m2", "t", instance="a"), member("a0", "t")], {"t": 5})
    assert numbers(before["m2"]) == ["t-0", "t-1"]
    assert numbers(before["m1"]) == ["t-2", "t-3"] == numbers(after["z9"])
    assert numbers(before["a0"]) == ["t-4"]


def test_member_ids_are_ordered_as_java_orders_strings() -> None:
    """UTF-16 units: a character beyond the basic plane comes before U+FFFF."""
    result = assign([member("\uffff", "t"), member("\U0001f600", "t")], {"t": 1})
    assert numbers(result["\U0001f600"]) == ["t-0"]


GROUPS = st.dictionaries(
    st.text("abcdef", min_size=1, max_size=3),
    st.tuples(st.frozensets(st.sampled_from(["t1", "t2", "t3"])), st.none() | st.text("xyz", min_size=1, max_size=3)),
    min_size=1,
    max_size=8,
)


@given(GROUPS, st.dictionaries(st.sampled_from(["t1", "t2", "t3"]), st.integers(0, 20)))
def test_every_partition_goes_to_exactly_one_subscriber_and_shares_differ_by_one_at_most(
    group: dict[str, tuple[frozenset[str], str | None]], sizes: dict[str, int]
) -> None:
    members = [GroupMember(name, topics, instance) for name, (topics, instance) in group.items()]
    result = assign(members, sizes)
    dealt = [tp for tps in result.values() for tp in tps]
    takers = {topic: [m for m in members if topic in m.topics] for topic in sizes}
    assert sorted(dealt) == sorted(TopicPartition(t, p) for t, size in sizes.items() if takers[t] for p in range(size))
    for topic, subscribers in takers.items():
        shares = [[tp.partition for tp in result[m.member_id] if tp.topic == topic] for m in subscribers]
        assert all(share == list(range(share[0], share[0] + len(share))) for share in shares if share)
        assert max(map(len, shares), default=0) - min(map(len, shares), default=0) <= 1
    for m in members:
        assert {tp.topic for tp in result[m.member_id]} <= m.topics


@given(GROUPS, st.randoms())
def test_the_order_in_which_members_are_listed_does_not_matter(group: dict[str, tuple[frozenset[str], str | None]], random: object) -> None:
    members = [GroupMember(name, topics, None) for name, (topics, _) in group.items()]
    sizes = {"t1": 5, "t2": 7, "t3": 1}
    assert assign(members, sizes) == assign(members[::-1], sizes)
