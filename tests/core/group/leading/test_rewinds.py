"""The leader's part of a rewind: which wish counts, who gets which offsets, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.assignors import GroupMember
from pykafka4.core.group.encoding import assigned_partitions, assignment_bytes, subscription_bytes
from pykafka4.core.group.leading.rewinds import wish_of, with_rewind
from pykafka4.core.group.notes import NO_NOTE, Note, Rewind, note_bytes, read_note
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import JoinGroupResponse
from tests.core.consumer_harness import tp

WANTED = Rewind("1", {tp(0): 5, tp(1): 6, tp(2): 7})


def row(name: str, note: Note | None = NO_NOTE, instance: str | None = None) -> JoinGroupResponse.Member:
    metadata = subscription_bytes(["t"], user_data=None if note is None else note_bytes(note))
    return JoinGroupResponse.Member(member_id=name, group_instance_id=instance, metadata=metadata)


def carried_out(rows: list[Any], shares: dict[str, list[TopicPartition]], **owned: list[TopicPartition]) -> dict[str, Note | None]:
    """The note of each assignment; the partitions stay."""
    wish = wish_of(rows, 5, "c")
    assert wish is not None
    members = [GroupMember(name, frozenset("t"), owned=tuple(owned.get(name, ()))) for name in shares]
    found = with_rewind(wish, {name: assignment_bytes(tps) for name, tps in shares.items()}, members)
    assert {name: assigned_partitions(share) for name, share in found.items()} == shares
    return {name: read_note(share) for name, share in found.items()}


def test_each_owner_gets_its_offsets_and_everybody_the_id() -> None:
    notes = carried_out([row("a", Note(WANTED)), row("b"), row("c")], {"a": [tp(0)], "b": [tp(1), tp(2), tp(3)], "c": []})
    assert notes == {
        "a": Note(Rewind("1", {tp(0): 5})),
        "b": Note(Rewind("1", {tp(1): 6, tp(2): 7})),
        "c": Note(Rewind("1", {})),
    }


def test_who_still_holds_a_partition_gets_its_offset() -> None:
    """Cooperative: it is assigned to nobody until its holder has released it."""
    notes = carried_out([row("a", Note(WANTED)), row("b")], {"a": [tp(0)], "b": [tp(1)]}, a=[tp(0), tp(2)])
    assert notes["a"] == Note(Rewind("1", {tp(0): 5, tp(2): 7}))


def test_what_is_done_is_not_done_again() -> None:
    """A member, or the asker, has missed the assignment of the generation before; the asker is told what is done."""
    done = Note(done={"1": frozenset([tp(1)]), "0": frozenset([tp(0)])})
    notes = carried_out([row("a", Note(WANTED)), row("b", done)], {"a": [tp(1), tp(2)], "b": [tp(0)]})
    told = {"1": frozenset([tp(1)])}
    assert notes == {"a": Note(Rewind("1", {tp(2): 7}), done=told), "b": Note(Rewind("1", {tp(0): 5}))}


def test_when_all_is_done_the_asker_alone_is_told_whoever_has_joined_meanwhile() -> None:
    every = {"1": frozenset(WANTED.offsets)}
    notes = carried_out([row("a", Note(WANTED)), row("b", Note(done=every)), row("x", None)], {"a": [tp(0)], "b": [tp(1)], "x": [tp(2)]})
    assert notes == {"a": Note(Rewind("1", {}), done=every), "b": None, "x": None}


@pytest.mark.parametrize(("generation", "counts"), [(4, True), (3, False), (-1, False)])
def test_the_wish_of_a_static_member_counts_only_if_it_has_joined_for_this_generation(generation: int, *, counts: bool) -> None:
    assert (wish_of([row("a", Note(WANTED, generation), instance="i"), row("b")], 5, "c") is not None) is counts
    assert wish_of([row("a", Note(WANTED, generation)), row("b")], 5, "c") is not None


def test_of_two_wishes_the_first_id_is_taken() -> None:
    wish = wish_of([row("a", Note(Rewind("2", {tp(0): 1}))), row("b", Note(WANTED))], 5, "c")
    assert wish is not None
    assert (wish.asker, wish.rewind) == ("b", WANTED)
    assert wish_of([row("a"), row("b", None)], 5, "c") is None


def test_members_that_cannot_rewind_are_named_to_the_asker_alone() -> None:
    notes = carried_out([row("a", Note(WANTED)), row("x", None), row("y", None)], {"a": [tp(0)], "x": [tp(1)], "y": [tp(2)]})
    assert notes["x"] is notes["y"] is None
    assert notes["a"] is not None
    assert notes["a"].rewind == Rewind("1", {})
    assert notes["a"].refusal.startswith("x, y are not members that can rewind")


def test_a_partition_without_an_owner_is_named() -> None:
    notes = carried_out([row("a", Note(WANTED)), row("b")], {"a": [tp(0)], "b": [tp(1)]})
    assert notes == {"a": Note(Rewind("1", {}), refusal="no member is assigned t-2"), "b": None}


def test_a_note_that_cannot_be_read_asks_for_nothing() -> None:
    broken = JoinGroupResponse.Member(member_id="a", metadata=subscription_bytes(["t"], user_data=b"{\0\0\0\1\0pykafka4\1"))
    assert wish_of([broken], 5, "c") is None
