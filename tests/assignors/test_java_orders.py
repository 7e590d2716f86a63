"""The order of Java's HashMap, with values that Java gave."""

from __future__ import annotations

from pykafka4.assignors import GroupMember
from pykafka4.assignors.java import PartitionSet, _hash, hash_order
from pykafka4.records import TopicPartition


def order(*names: str) -> list[str]:
    return [member.member_id for member in hash_order([GroupMember(name, frozenset()) for name in names])]


def test_hash_codes_are_those_of_java_strings() -> None:
    assert [_hash(text) for text in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99_162_322, 2_147_483_648]
    assert _hash("\U0001f600") == 1_772_899, "two UTF-16 units"


def test_members_come_by_place_and_in_one_place_by_insertion() -> None:
    assert order("b", "a", "c") == ["a", "b", "c"]
    assert order("a", "q", "A") == ["a", "q", "A"]
    assert order("q", "A", "a") == ["q", "A", "a"]
    assert order("r", "q") == ["q", "r"]


def test_the_thirteenth_member_doubles_the_places() -> None:
    letters = [chr(ord("a") + n) for n in range(12)]
    assert order("p", *letters[:11]) == ["p", *letters[:11]]
    assert order("p", *letters) == [*letters, "p"]


def test_the_first_partition_of_a_set_depends_on_the_most_that_it_had() -> None:
    def first(*others: int) -> int:
        found = PartitionSet()
        for number in (*others, 0, 14):
            found.add(TopicPartition("t", number))
        for number in (*others, 14):
            found.remove(TopicPartition("t", number))
        found.add(TopicPartition("t", 14))
        assert len(found) == 2
        return found.first().partition

    assert (first(), first(*range(1, 14))) == (0, 14)
