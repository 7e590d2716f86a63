"""The sticky assignors: balance, stickiness, and what is left out while partitions move. Equality with Java is in `test_vectors`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.assignors import CooperativeStickyAssignor, GroupMember, PartitionInfo, StickyAssignor
from pykafka4.assignors.sticky import _sent_as_user_data
from pykafka4.records import TopicPartition
from tests.core.counting import bytecodes

Shares = dict[str, list[TopicPartition]]


def tps(topic: str, *numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, number) for number in numbers)


def topics(**sizes: int) -> dict[str, list[PartitionInfo]]:
    return {topic: [PartitionInfo(topic, p) for p in range(size)] for topic, size in sizes.items()}


def member(name: str, *wanted: str, owned: tuple[TopicPartition, ...] = (), generation: int = 5, **more: Any) -> GroupMember:
    """As a member of either assignor sends it."""
    data = StickyAssignor().user_data(frozenset(wanted), owned, generation) if owned else None
    return GroupMember(name, frozenset(wanted), None, owned, generation if owned else -1, user_data=data, **more)


def cooperative(members: list[GroupMember], **sizes: int) -> Shares:
    plain = [attrs.evolve(each, user_data=None) for each in members]
    return {name: sorted(mine) for name, mine in CooperativeStickyAssignor().assign(plain, topics(**sizes)).items()}


def sticky(members: list[GroupMember], **sizes: int) -> Shares:
    eager = [attrs.evolve(each, owned=()) for each in members]
    return {name: sorted(mine) for name, mine in StickyAssignor().assign(eager, topics(**sizes)).items()}


def test_what_members_had_stays_and_the_rest_goes_to_those_with_less() -> None:
    members = [member("a", "t", owned=tps("t", 0, 1, 2)), member("b", "t", owned=tps("t", 3)), member("c", "t")]
    assert sticky(members, t=6) == {"a": [*tps("t", 0, 1)], "b": [*tps("t", 2, 3)], "c": [*tps("t", 4, 5)]}


def test_a_partition_that_moves_is_left_out_until_its_owner_has_released_it() -> None:
    members = [member("a", "t", owned=tps("t", 0, 1, 2, 3)), member("b", "t")]
    first = cooperative(members, t=4)
    assert first == {"a": [*tps("t", 0, 1)], "b": []}
    members = [member("a", "t", owned=tps("t", 0, 1), generation=6), member("b", "t")]
    assert cooperative(members, t=4) == {"a": [*tps("t", 0, 1)], "b": [*tps("t", 2, 3)]}


def test_the_same_with_different_subscriptions() -> None:
    members = [member("a", "t", owned=tps("t", 0, 1, 2, 3)), member("b", "t", "u")]
    assert cooperative(members, t=4, u=1) == {"a": [*tps("t", 1, 2, 3)], "b": [*tps("u", 0)]}


def test_a_member_that_missed_a_generation_loses_what_another_one_has_now() -> None:
    members = [member("old", "t", owned=tps("t", 0, 1), generation=4), member("new", "t", owned=tps("t", 0, 1))]
    assert cooperative(members, t=2)["old"] == []
    assert cooperative(members[::-1], t=2)["old"] == []
    assert TopicPartition("t", 0) in cooperative(members, t=2)["new"]


def test_a_partition_that_two_members_claim_is_released_by_both() -> None:
    members = [member("a", "t", owned=tps("t", 0)), member("b", "t", owned=tps("t", 0, 1))]
    assert cooperative(members, t=2) == {"a": [], "b": [*tps("t", 1)]}


def test_a_member_without_topics_gets_nothing_whatever_its_place() -> None:
    """Java takes it for subscribed if it comes first in its HashMap."""
    for name in ("a", "z"):
        assert sticky([member(name), member("m", "t")], t=2) == {name: [], "m": [*tps("t", 0, 1)]}
    assert sticky([member("a")]) == {"a": []}
    two = [member("m", "t", owned=tps("t", 0, 1, 2, 3)), member("n", "t")]
    assert sticky([member("a"), *two], t=4) == {"a": [], **sticky(two, t=4)}, "the subscriptions of the others are equal"


def test_partitions_that_do_not_exist_are_not_assigned() -> None:
    """Java assigns them, and others twice."""
    for wanted in ({"t"}, {"t", "u"}):
        sizes = {topic: size for topic, size in {"t": 2, "u": 1}.items() if topic in wanted}
        result = sticky([member("a", "t", owned=tps("t", 0, 7, -1)), member("b", *wanted, owned=tps("gone", 0))], **sizes)
        assert sorted(tp for mine in result.values() for tp in mine) == all_of({"b": frozenset(wanted)}, sizes)


def test_a_former_owner_that_is_no_longer_subscribed_gets_nothing_back() -> None:
    """Java gives the partition to it, and nobody reads it."""
    members = [member("now", "t", owned=tps("t", 0, 1, 2)), member("former", "u", owned=tps("t", 0), generation=4), member("c", "t", "u")]
    result = sticky(members, t=3, u=1)
    assert {tp.topic for tp in result["former"]} <= {"u"}
    assert len(result["now"] + result["c"]) >= 3


@pytest.mark.parametrize("generation", [0, 7])
def test_user_data_of_sticky_members_survives_its_bytes(generation: int) -> None:
    owned = (*tps("t", 2, 0), *tps("a", 1))
    data = StickyAssignor().user_data(frozenset(), owned, generation)
    assert data is not None
    read = _sent_as_user_data(GroupMember("m", frozenset(), user_data=data))
    assert (sorted(read.partitions), read.generation) == (sorted(owned), generation)
    older = _sent_as_user_data(GroupMember("m", frozenset(), user_data=data[:-4]))
    assert (sorted(older.partitions), older.generation) == (sorted(owned), None)


def test_a_member_that_had_nothing_sends_no_user_data_and_one_that_had_no_partition_an_empty_list() -> None:
    assert StickyAssignor().user_data(frozenset("t"), (), -1) is None
    assert StickyAssignor().user_data(frozenset("t"), (), 3) == bytes(4) + b"\0\0\0\3"
    assert CooperativeStickyAssignor().user_data(frozenset("t"), (), -1) == b"\xff\xff\xff\xff"


@given(st.binary(max_size=40))
def test_broken_user_data_counts_as_nothing(data: bytes) -> None:
    read = _sent_as_user_data(GroupMember("m", frozenset(), user_data=data))
    assert read.generation is None or isinstance(read.generation, int)
    StickyAssignor().assign([GroupMember("m", frozenset("t"), user_data=data), member("n", "t")], topics(t=3))
    CooperativeStickyAssignor().assign([GroupMember("m", frozenset("t"), user_data=data)], topics(t=3))


NAMES = st.sampled_from(["t1", "t2", "t3", "t4"])
SIZES = st.dictionaries(NAMES, st.integers(1, 12), min_size=1)
MEMBERS = st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.frozensets(NAMES, min_size=1), min_size=1, max_size=8)


def settled(wanted: dict[str, frozenset[str]], sizes: dict[str, int], before: Shares | None = None) -> Shares:
    """The assignment after as many cooperative rebalances as it takes; `before`: what members own."""
    kept = before or {}
    owned: Shares = {name: [tp for tp in kept.get(name, []) if tp.topic in topics_] for name, topics_ in wanted.items()}
    for generation in range(1, 4):
        group = [member(name, *topics_, owned=tuple(owned[name]), generation=generation) for name, topics_ in wanted.items()]
        result = cooperative(group, **sizes)
        check(group, result)
        if result == owned:
            return result
        owned = result
    raise AssertionError("more than two rebalances")


def check(group: list[GroupMember], result: Shares) -> None:
    """Nothing twice, nothing that is not wanted, and nothing from a member that has not released it."""
    every = [tp for mine in result.values() for tp in mine]
    assert len(every) == len(set(every))
    for each in group:
        assert {tp.topic for tp in result[each.member_id]} <= each.topics
        for other in group:
            assert other is each or not set(each.owned) & set(result[other.member_id]) - set(other.owned)


def all_of(wanted: dict[str, frozenset[str]], sizes: dict[str, int]) -> list[TopicPartition]:
    taken = {topic for topics_ in wanted.values() for topic in topics_}
    return sorted(tp for topic, size in sizes.items() if topic in taken for tp in tps(topic, *range(size)))


@settings(deadline=None)
@given(MEMBERS, SIZES)
def test_all_partitions_are_assigned_and_no_move_of_a_single_one_would_improve_the_balance(
    wanted: dict[str, frozenset[str]], sizes: dict[str, int]
) -> None:
    result = settled(wanted, sizes)
    assert sorted(tp for mine in result.values() for tp in mine) == all_of(wanted, sizes)
    for name, mine in result.items():
        for tp in mine:
            assert all(len(mine) <= len(result[other]) + 1 for other, topics_ in wanted.items() if tp.topic in topics_ and other != name)


@settings(deadline=None)
@given(MEMBERS, SIZES)
def test_nothing_moves_while_nothing_changes(wanted: dict[str, frozenset[str]], sizes: dict[str, int]) -> None:
    result = settled(wanted, sizes)
    assert settled(wanted, sizes, result) == result


@settings(deadline=None)
@given(MEMBERS, SIZES, st.data())
def test_when_a_member_leaves_the_others_keep_what_they_have(wanted: dict[str, frozenset[str]], sizes: dict[str, int], data: Any) -> None:
    """With equal subscriptions; with different ones, what is left may be needed for the balance."""
    every = frozenset(sizes)
    wanted = dict.fromkeys(wanted, every)
    before = settled(wanted, sizes)
    gone = data.draw(st.sampled_from(sorted(wanted)))
    wanted.pop(gone)
    if wanted:
        after = settled(wanted, sizes, before)
        assert all(set(before[name]) <= set(after[name]) for name in wanted)


@settings(deadline=None)
@given(MEMBERS, SIZES)
def test_a_new_member_takes_no_more_than_its_share(wanted: dict[str, frozenset[str]], sizes: dict[str, int]) -> None:
    wanted = dict.fromkeys(wanted, frozenset(sizes))
    before = settled(wanted, sizes)
    after = settled({**wanted, "new": frozenset(sizes)}, sizes, before)
    assert all(set(after[name]) <= set(before[name]) for name in wanted)
    assert len(after["new"]) <= -(-len(all_of(wanted, sizes)) // (len(wanted) + 1))


def chain(length: int) -> tuple[list[GroupMember], dict[str, int]]:
    """Members with a topic in common with the next one, each with the partitions of its first topic; topics differ in size."""
    names = [f"t{number:03d}" for number in range(length + 1)]
    sizes = {name: number % 10 + 1 for number, name in enumerate(names)}
    members = [member(f"m{mine}", mine, after, owned=tps(mine, *range(sizes[mine]))) for mine, after in pairwise(names)]
    return members, sizes


def test_the_work_for_chained_subscriptions_grows_with_the_group_and_not_with_its_square() -> None:
    few, many = chain(20), chain(160)
    assert bytecodes(lambda: cooperative(many[0], **many[1])) < 16 * bytecodes(lambda: cooperative(few[0], **few[1]))
