"""The validator of group members: what keeps the rules passes, and each planted breach is reported with its author."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from integration.judge.group_log import Committed, Event, Generation, Owned, Removed, java_hash, parsed
from integration.judge.log_format import LogRecord
from integration.workload.journal import MOST
from integration.workload.validator import Breach, Journal, breaches, pauses, rebalances, starved

ENDS = {0: 6, 1: 3}
Line = dict[str, Any]


def assigned(at: float, *partitions: int, generation: int = 1) -> Line:
    return {"what": "assigned", "at": at, "partitions": list(partitions), "generation": generation}


def ended(at: float, *partitions: int, what: str = "revoked") -> Line:
    return {"what": what, "at": at, "partitions": list(partitions)}


def read(at: float, partition: int, *offsets: int, generation: int | None = 1) -> Line:
    return {"what": "read", "at": at, "rows": [(partition, offset, 0) for offset in offsets], "generation": generation}


def commit(at: float, partition: int, offset: int) -> Committed:
    return Committed(partition, offset, round(at * 1000))


def generation(number: int, **owned: set[int]) -> Generation:
    return Generation(number, {name: frozenset(partitions) for name, partitions in owned.items()}, 0)


class Story:
    """Two members: a has both partitions, then b gets partition 0; both end as they should."""

    def __init__(self) -> None:
        self.a: list[Line] = [
            assigned(1, 0, 1),
            read(2, 0, 0, 1, 2),
            read(3, 1, 0, 1, 2),
            ended(4, 0, 1),
            assigned(5, 1, generation=2),
            {"what": "closing", "at": 9},
            ended(9.5, 1),
            {"what": "ended", "at": 10},
        ]
        self.b: list[Line] = [
            assigned(5, 0, generation=2),
            read(6, 0, 3, 4, 5, generation=2),
            {"what": "closing", "at": 9},
            ended(9.5, 0),
            {"what": "ended", "at": 10},
        ]
        self.log: list[Event] = [
            generation(1, a={0, 1}),
            commit(3.5, 0, 3),
            commit(3.5, 1, 3),
            generation(2, a={1}, b={0}),
            commit(7, 0, 6),
        ]
        self.kind, self.instances, self.disturbed = "ours", (None, None), False

    def journals(self) -> list[Journal]:
        a, b = self.instances
        return [Journal("a", "ours", self.a, a, self.disturbed), Journal("b", self.kind, self.b, b, self.disturbed)]

    def judged(self) -> list[Breach]:
        return breaches(self.journals(), self.log, ENDS, wall=0.0)


def test_members_that_keep_the_rules_pass() -> None:
    assert Story().judged() == []


def unassigned(story: Story) -> None:
    story.a.insert(1, read(1.5, 7, 0))


def after_revocation(story: Story) -> None:
    story.a.insert(4, read(4.5, 0, 3))


def gap(story: Story) -> None:
    story.b[1] = read(6, 0, 3, 5, generation=2)


def jump_back(story: Story) -> None:
    story.a.insert(2, read(2.5, 0, 2))


def strange_start(story: Story) -> None:
    story.b[1] = read(6, 0, 2, 3, 4, 5, generation=2)


def old_generation(story: Story) -> None:
    story.a.insert(4, assigned(4.2, 0, generation=2))
    story.a.insert(5, read(4.5, 0, 3, generation=2))


def two_readers(story: Story) -> None:
    story.log[3] = generation(2)
    story.a.insert(5, assigned(5.2, 0, generation=2))
    story.a.insert(6, read(5.5, 0, 3, generation=2))


def two_assigned(story: Story) -> None:
    story.log[3] = generation(2, a={0, 1}, b={0})


def regress(story: Story) -> None:
    story.log.append(commit(8, 0, 4))


def too_far(story: Story) -> None:
    story.log[1] = commit(3.5, 0, 4)
    story.b[1] = read(6, 0, 4, 5, generation=2)


def too_early(story: Story) -> None:
    story.log[4] = commit(5.5, 0, 6)


def not_committed(story: Story) -> None:
    del story.log[4]


def never_read(story: Story) -> None:
    story.b[1] = read(6, 0, 3, 4, generation=2)
    story.log[4] = commit(7, 0, 5)


BREACHES: list[tuple[Callable[[Story], None], str]] = [
    (unassigned, "a read 7@0, which is not assigned to it"),
    (after_revocation, "a read 0@3, which is not assigned to it"),
    (gap, "b read 0@5 where 4 came next"),
    (jump_back, "a read 0@2 where 3 came next"),
    (strange_start, "b began to read 0 at 2, which nobody has committed"),
    (old_generation, "a read 0 in generation 2, which belonged to b"),
    (two_readers, "b and a both read 0 in generation 2"),
    (two_assigned, "b and a were both assigned 0 in generation 2"),
    (regress, "b committed 0@4 after 6"),
    (too_far, "a committed 0@4 before all of it was read: 3 never was"),
    (too_early, "b committed 0@6 before all of it was read: 3 was 0.50 s later"),
    (not_committed, "b ended without having committed 0@6, which comes after what it read last"),
    (never_read, "nobody read 0@5, and perhaps other offsets"),
]


@pytest.mark.parametrize(("plant", "text"), BREACHES, ids=[plant.__name__ for plant, _ in BREACHES])
def test_a_breach_is_reported(plant: Callable[[Story], None], text: str) -> None:
    story = Story()
    plant(story)
    found = story.judged()
    assert text in map(str, found)
    assert all(breach.ours for breach in found)


@pytest.mark.parametrize("plant", [regress, too_early])
def test_a_breach_of_another_client_is_told_from_ours(plant: Callable[[Story], None]) -> None:
    story = Story()
    plant(story)
    story.kind = "confluent"
    (breach,) = story.judged()
    assert breach.member == "b"
    assert not breach.ours


def test_a_jump_by_another_client_is_its_commits_fault_not_that_of_the_member_which_goes_on_there() -> None:
    story = Story()
    story.kind = "confluent"
    story.log[4:] = [commit(7, 0, 5), commit(8, 0, 6)]
    story.b[1] = read(6, 0, 4, 5, generation=None)
    (breach,) = {found.member: found for found in story.judged()}.values()
    assert (breach.member, breach.ours) == ("b", False)


def test_static_members_follow_one_another_in_a_generation() -> None:
    story = Story()
    two_readers(story)
    story.instances = ("s", "s")
    assert not [breach for breach in story.judged() if "both read" in breach.text]


def test_a_static_member_has_the_name_of_the_process_that_it_took_over_from() -> None:
    story = Story()
    story.log[3] = generation(2, a={0, 1})
    assert "b read 0 in generation 2, which belonged to a" in map(str, story.judged())
    story.instances = ("s", "s")
    assert not [breach for breach in story.judged() if "belonged to" in breach.text]


def test_generations_that_begin_anew_are_others() -> None:
    """An empty group of the consumer protocol becomes a classic one, whose first generation is 1."""
    story = Story()
    story.a[0]["generation"] = story.a[1]["generation"] = story.a[2]["generation"] = 9
    story.a[4]["generation"], story.b[0]["generation"], story.b[1]["generation"] = 9, 9, 9
    story.log[0], story.log[3] = generation(9, a={0, 1}), Generation(1, {"a": frozenset({1}), "b": frozenset({0})}, 4_500)
    assert "b and a both read 0 in generation 9" not in map(str, story.judged())
    assert breaches(story.journals(), None, {}, wall=0.0) == [], "without the log, generations say nothing about two journals"
    story.log[3] = generation(10)
    assert "b and a both read 0 in generation 9" in map(str, story.judged())


def test_a_member_that_was_killed_need_not_have_committed() -> None:
    story = Story()
    not_committed(story)
    story.disturbed = True
    assert story.judged() == []


def test_an_owner_of_the_consumer_protocol_is_followed_through_epochs() -> None:
    story = Story()
    story.log = [
        Owned("a", 1, 0, frozenset({0, 1}), 0),
        commit(3.5, 0, 3),
        commit(3.5, 1, 3),
        Owned("b", 2, 0, frozenset(), 0),
        Owned("a", 1, 1, frozenset({0, 1}), 0),
        Owned("a", 2, 1, frozenset({1}), 0),
        Owned("b", 2, 2, frozenset({0}), 0),
        commit(7, 0, 6),
        Removed("a", 0),
        Owned("b", 3, 2, frozenset({0, 1}), 0),
    ]
    assert story.judged() == []
    story.log[8] = commit(7, 0, 6)
    (breach,) = story.judged()
    assert str(breach) == "b was assigned 1 in epoch 3, which a still had"


def test_pauses_and_rebalances_are_counted() -> None:
    lines = [assigned(0, 0), read(1, 0, 0), read(1.5, 0, 1), read(4, 0, 2), ended(5, 0), assigned(9, 0), read(9.5, 0, 3)]
    journal = Journal("a", "ours", lines)
    steady = Journal("control", "ours", [assigned(0, 0), *(read(n / 10, 0, n) for n in range(100))])
    assert list(pauses(journal, 1.0, steady)) == [(0, 1.5, 2.5)]
    assert list(pauses(journal, 1.0, steady, end=3.0)) == []
    slow = Journal("control", "ours", [assigned(0, 0), read(0.1, 0, 0), read(3.5, 0, 1), read(3.6, 0, 2)])
    assert list(pauses(journal, 1.0, slow)) == [], "the brokers had nothing for anybody"
    missed = {"what": "starved", "since": 2.0, "at": 3.6}
    committing = [{"what": "committing", "at": 1.6}, {"what": "committed", "at": 3.2}]
    backlog = [read(1.6, 1, *range(MOST)), read(3.2, 1, MOST)]
    for excuse in ([missed], committing, backlog):
        assert list(pauses(Journal("a", "ours", [*lines[:3], *excuse, *lines[3:]]), 1.0, steady)) == []
    assert starved(Journal("a", "ours", [*lines[:3], missed, *lines[3:]])) == pytest.approx(1.6 / 9.5)
    assert rebalances(journal) == 2
    assert rebalances(Journal("a", "ours", lines[:4])) == 0


# ---- the coordinator's log


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value)) + value.encode()


def record(key: bytes, value: bytes | None) -> LogRecord:
    return LogRecord(0, key, value, (), 7, -1, -1, -1)


def classic_member(client: str, *partitions: int) -> bytes:
    assignment = struct.pack(">hi", 0, 1) + text("t") + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    fixed = text("id-" + client) + text(None) + text(client) + text("/host") + struct.pack(">ii", 1, 2) + struct.pack(">i", 0)
    return fixed + struct.pack(">i", len(assignment)) + assignment


def test_what_a_coordinator_writes_is_read() -> None:
    offset_key = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 3)
    group = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 5) + text("range") + text("id-a") + struct.pack(">q", 1)
    members = struct.pack(">i", 2) + classic_member("a", 0, 2) + classic_member("b")
    member_key, current_key = (struct.pack(">h", kind) + text("g") + text("m") for kind in (5, 8))
    topic = b"\x02" + bytes(16) + b"\x03" + struct.pack(">ii", 1, 2) + b"\x00"
    rows = [
        record(offset_key, struct.pack(">hqi", 3, 42, -1)),
        record(struct.pack(">h", 1) + text("other") + text("t") + struct.pack(">i", 3), struct.pack(">hq", 3, 1)),
        record(struct.pack(">h", 2) + text("g"), group + members),
        record(member_key, struct.pack(">h", 0) + b"\x00\x00\x02c\x01"),
        record(current_key, struct.pack(">hiib", 0, 6, 5, 0) + topic + b"\x01\x00"),
        record(current_key, None),
    ]
    assert list(parsed("g", rows)) == [
        Committed(3, 42, 7),
        Generation(5, {"a": frozenset({0, 2}), "b": frozenset()}, 7),
        Owned("c", 6, 5, frozenset({1, 2}), 7),
        Removed("c", 7),
    ]


@pytest.mark.parametrize(("name", "hashed"), [("", 0), ("hello", 99_162_322), ("polygenelubricants", 0)])
def test_the_partition_of_a_group_is_that_of_java(name: str, hashed: int) -> None:
    assert java_hash(name) == hashed
