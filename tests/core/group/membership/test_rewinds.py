"""Rewinds from a member's side, with scripted answers: when it asks, when it asks again, and what it does with an assignment."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from pykafka4.core.group.encoding import assignment_bytes, subscription_bytes
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.membership.rewinds import CHECK_AGAIN_S
from pykafka4.core.group.notes import NO_NOTE, Note, Rewind, note_bytes, read_note
from pykafka4.core.subscription import Assigned, Ended, Ending
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.protocol.messages_group import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, code, tp
from tests.core.member_harness import events, keep_alive, release, state

WANTED = Rewind("1", {tp(0): 5, tp(2): 7})
OTHER = Rewind("0", {tp(0): 3})


class Member(ConsumerHarness):
    """A member in generation 1, with partitions 0 and 1 of `t`."""

    def __init__(self, strategy: str) -> None:
        super().__init__(group_id="g", enable_auto_commit=False, partition_assignment_strategy=strategy)
        self.outcomes: list[KafkaError | None] = []
        self.cluster.set("t", [1, 2, 1])
        self.stable(tp(0), tp(1))
        self.committed({tp(0): 0, tp(1): 0})
        keep_alive(self)

    def ask(self, seconds: float = 60.0) -> None:
        self.machine.rewind(WANTED, self.now + seconds, self.outcomes.append)
        self.run()

    def describe(self, *members: DescribeGroupsResponse.Group.Member, group_state: str = "Stable", error: str = "") -> None:
        group = DescribeGroupsResponse.Group(group_id="g", group_state=group_state, error_code=code(error), members=list(members))
        self.answer(self.one(DescribeGroupsRequest), DescribeGroupsResponse(groups=[group]))

    def join_with(self) -> Note:
        """The note of the JoinGroup in flight, which every subscription has."""
        note, *others = [read_note(protocol.metadata) for protocol in self.one(JoinGroupRequest).message.protocols]
        assert note is not None
        assert all(other == note for other in others)
        return note

    def assign_with(
        self,
        tps: list[TopicPartition],
        rewind: Rewind | None,
        generation: int = 2,
        refusal: str = "",
        done: Collection[TopicPartition] = (),
    ) -> None:
        """The join and the sync are answered, with this rewind in the assignment, and the partitions that members have noted as done."""
        self.join(generation=generation)
        carried_out = {rewind.rewind_id: frozenset(done)} if rewind is not None and done else {}
        assignment = assignment_bytes(tps) + note_bytes(Note(rewind, done=carried_out, refusal=refusal))
        self.answer(self.one(SyncGroupRequest), SyncGroupResponse(error_code=0, assignment=assignment))


def described(name: str, note: Note | None = NO_NOTE) -> DescribeGroupsResponse.Group.Member:
    metadata = subscription_bytes(["t"], user_data=None if note is None else note_bytes(note))
    return DescribeGroupsResponse.Group.Member(
        member_id=name, client_id=f"client-{name}", client_host="/1.2.3.4", member_metadata=metadata, member_assignment=b""
    )


@pytest.fixture
def eager() -> Member:
    return Member("range")


@pytest.fixture
def cooperative() -> Member:
    return Member("cooperative-sticky")


def asked(member: Member) -> Member:
    """Its JoinGroup with the wish is sent."""
    member.ask()
    member.describe(described("m"), described("n"))
    release(member)
    assert member.join_with().rewind == WANTED
    return member


def test_it_looks_at_the_members_before_it_joins_with_the_wish(eager: Member) -> None:
    eager.ask()
    assert eager.pending(JoinGroupRequest) == []
    assert state(eager) is MemberState.STABLE
    eager.describe(described("m"), described("n"))
    assert state(eager) is MemberState.REVOKING
    release(eager)
    assert eager.join_with() == Note(WANTED, generation=1)


def test_a_member_without_notes_is_named_and_nothing_is_sent(eager: Member) -> None:
    eager.ask()
    eager.describe(described("m"), described("x", None))
    (error,) = eager.outcomes
    assert "nothing has changed: member x (client client-x, host /1.2.3.4) is not a member that can rewind" in str(error)
    assert (state(eager), eager.pending(JoinGroupRequest)) == (MemberState.STABLE, [])


@pytest.mark.parametrize(("group_state", "error"), [("Dead", ""), ("Dead", "GROUP_ID_NOT_FOUND")])
def test_a_group_that_classic_requests_do_not_know_has_members_of_the_other_protocol(eager: Member, group_state: str, error: str) -> None:
    eager.ask()
    eager.describe(group_state=group_state, error=error)
    assert "members of the consumer protocol" in str(eager.outcomes[0])


def test_a_missing_right_ends_the_wish(eager: Member) -> None:
    eager.ask()
    eager.describe(group_state="", error="GROUP_AUTHORIZATION_FAILED")
    assert "GROUP_AUTHORIZATION_FAILED" in str(eager.outcomes[0])


@pytest.mark.parametrize("answer", ["PreparingRebalance", "Empty", "lost", "COORDINATOR_LOAD_IN_PROGRESS"])
def test_it_looks_again_when_a_look_says_nothing(eager: Member, answer: str) -> None:
    eager.ask()
    if answer == "lost":
        eager.answer(eager.one(DescribeGroupsRequest), LOST)
    elif answer.isupper():
        eager.describe(group_state="", error=answer)
    else:
        eager.describe(group_state=answer)
    assert (eager.pending(DescribeGroupsRequest), eager.outcomes) == ([], [])
    eager.run(CHECK_AGAIN_S)
    eager.describe(described("m"))
    assert state(eager) is MemberState.REVOKING


def test_a_new_member_joins_with_its_wish_at_once() -> None:
    harness = ConsumerHarness(group_id="g", partition_assignment_strategy="range")
    harness.cluster.set("t", [1])
    outcomes: list[Any] = []
    harness.machine.rewind(WANTED, harness.now + 60, outcomes.append)
    harness.subscribe()
    assert harness.pending(JoinGroupRequest) == []
    group = DescribeGroupsResponse.Group(group_id="g", group_state="Stable", members=[described("n")])
    harness.answer(harness.one(DescribeGroupsRequest), DescribeGroupsResponse(groups=[group]))
    note = read_note(harness.one(JoinGroupRequest).message.protocols[0].metadata)
    assert note == Note(WANTED, generation=-1)


def test_the_user_data_of_sticky_is_read_strictly_and_has_no_note() -> None:
    harness = ConsumerHarness(group_id="g", partition_assignment_strategy=("sticky", "cooperative-sticky"))
    harness.cluster.set("t", [1])
    harness.subscribe()
    sticky, cooperative = harness.one(JoinGroupRequest).message.protocols
    assert read_note(sticky.metadata) is None
    assert read_note(cooperative.metadata) == NO_NOTE


def test_it_asks_again_until_an_assignment_has_the_id(eager: Member) -> None:
    """The leader died, or another wish came first."""
    asked(eager).assign_with([tp(0)], None)
    assert eager.outcomes == []
    eager.describe(described("m"))
    release(eager)
    assert eager.join_with() == Note(WANTED, generation=2)
    eager.assign_with([tp(0)], OTHER, generation=3)
    assert (eager.outcomes, eager.commits()) == ([], {tp(0): 3})
    eager.describe(described("m"))
    release(eager)
    assert eager.join_with() == Note(WANTED, 3, {"0": frozenset([tp(0)])})
    eager.assign_with([tp(1)], Rewind("1", {}), generation=4, done=[tp(0), tp(2)])
    assert eager.outcomes == [None]
    assert eager.pending(DescribeGroupsRequest) == []


def test_it_asks_again_until_each_partition_is_known_to_be_rewound(eager: Member) -> None:
    """The owner of the other one may have missed its assignment; it gets more time with each turn."""
    asked(eager).assign_with([tp(0)], Rewind("1", {tp(0): 5}))
    assert eager.commits() == {tp(0): 5}
    for turn in range(2):
        eager.run(CHECK_AGAIN_S * 2**turn * 0.9)
        assert (eager.outcomes, eager.pending(DescribeGroupsRequest)) == ([], [])
        eager.run(CHECK_AGAIN_S * 2**turn * 0.1)
        eager.describe(described("m"), described("n"))
        release(eager)
        assert eager.join_with() == Note(WANTED, 2 + turn, {"1": frozenset([tp(0)])})
        eager.assign_with([tp(0)], Rewind("1", {}), generation=3 + turn, done=[tp(0), tp(2)] if turn else [tp(0)])
    assert eager.outcomes == [None]


def test_the_commit_of_the_last_partition_ends_the_wish(eager: Member) -> None:
    asked(eager).assign_with([tp(0)], Rewind("1", {tp(0): 5}), done=[tp(2)])
    assert eager.outcomes == []
    assert eager.commits() == {tp(0): 5}
    assert eager.outcomes == [None]


def test_a_rewind_that_was_not_committed_is_not_noted_as_done(eager: Member) -> None:
    asked(eager).assign_with([tp(0)], Rewind("1", {tp(0): 5}))
    eager.commits({tp(0): "OFFSET_METADATA_TOO_LARGE"})
    eager.run(CHECK_AGAIN_S)
    eager.describe(described("m"))
    release(eager)
    assert eager.join_with() == Note(WANTED, generation=2)


@pytest.mark.parametrize("end", ["deadline", "stranger", "leaving"])
def test_a_wish_that_ends_when_partitions_are_open_does_not_claim_that_nothing_changed(eager: Member, end: str) -> None:
    eager.ask(2)
    eager.describe(described("m"))
    release(eager)
    eager.assign_with([tp(0)], Rewind("1", {tp(0): 5}))
    eager.commits()
    if end == "deadline":
        eager.run(2)
    elif end == "stranger":
        eager.run(CHECK_AGAIN_S)
        eager.describe(described("m"), described("x", None))
    else:
        eager.machine.leave(eager.now, 1, lambda: None)
    text = str(eager.outcomes[0])
    assert "nothing has changed" not in text
    assert ("t-2" in text, "t-0" in text) == (end != "leaving", False)


def test_a_join_that_fails_is_repeated_with_the_wish(cooperative: Member) -> None:
    asked(cooperative).join(error="REBALANCE_IN_PROGRESS", generation=2)
    cooperative.run(1)
    assert cooperative.join_with() == Note(WANTED, generation=1)
    cooperative.join(generation=2)
    cooperative.sync(error="REBALANCE_IN_PROGRESS")
    cooperative.run(1)
    assert cooperative.join_with().rewind == WANTED


def test_the_leaders_refusal_ends_the_wish_and_moves_nothing(eager: Member) -> None:
    asked(eager).assign_with([tp(0)], Rewind("1", {}), refusal="no member is assigned t-2")
    assert "nothing has changed: no member is assigned t-2" in str(eager.outcomes[0])
    assert eager.pending(OffsetCommitRequest) == []


def missed(member: Member) -> Member:
    """The wish is in an assignment that the member does not get; the group is in generation 2 by then."""
    asked(member).join(generation=2)
    member.sync(error="REBALANCE_IN_PROGRESS")
    member.run(1)
    return member


def test_a_wish_whose_assignment_was_missed_does_not_claim_that_nothing_changed(eager: Member) -> None:
    """Other members may have rewound their partitions in that generation. The next leader refuses, because one of them has left."""
    missed(eager).assign_with([tp(0)], Rewind("1", {}), generation=3, refusal="no member is assigned t-2")
    text = str(eager.outcomes[0])
    assert "nothing has changed" not in text
    assert "might not be rewound for t-0, t-2: no member is assigned t-2" in text


def test_a_refusal_that_lists_rewound_partitions_names_the_others(eager: Member) -> None:
    missed(eager).assign_with([tp(0)], Rewind("1", {}), generation=3, refusal="no member is assigned t-2", done=[tp(0)])
    assert "might not be rewound for t-2: no member" in str(eager.outcomes[0])


def test_a_join_that_was_answered_with_an_error_changed_nothing(eager: Member) -> None:
    """As the first join of each new member, which gets its id with an error."""
    asked(eager).join(error="REBALANCE_IN_PROGRESS", generation=2)
    eager.run(1)
    eager.assign_with([tp(0)], Rewind("1", {}), refusal="no member is assigned t-2")
    assert "nothing has changed: no member is assigned t-2" in str(eager.outcomes[0])


@pytest.mark.parametrize(("step", "known"), [("checking", "nothing has changed"), ("joining", "it may still be carried out")])
def test_a_wish_ends_at_its_deadline(eager: Member, step: str, known: str) -> None:
    eager.ask(2)
    if step == "joining":
        eager.describe(described("m"))
        release(eager)
    eager.run(2)
    assert isinstance(eager.outcomes[0], KafkaTimeoutError)
    assert known in str(eager.outcomes[0])


def test_an_owner_commits_the_new_offset_in_the_new_generation_and_reads_from_there(eager: Member) -> None:
    asked(eager).assign_with([tp(0), tp(1)], Rewind("1", {tp(0): 5}))
    commit = eager.one(OffsetCommitRequest).message
    assert commit.generation_id_or_member_epoch == 2
    assert eager.commits() == {tp(0): 5}
    (lookup,) = eager.pending(OffsetFetchRequest)
    assert [topic.partition_indexes for topic in lookup.message.topics] == [[1]]
    assigned = events(eager)[-1]
    assert isinstance(assigned, Assigned)
    eager.reader.adopt(assigned.claims)
    (fetch,) = [request for request in eager.pending(FetchRequest) if eager.asked(request) == {tp(0): 5}]
    eager.fetched(fetch, {tp(0): batch(5, 2)})
    assert [record.offset for record in eager.poll()] == [5, 6]


def test_a_cooperative_owner_gives_up_what_is_rewound_and_keeps_the_rest(cooperative: Member) -> None:
    commits: list[Any] = []
    asked(cooperative).assign_with([tp(0), tp(1)], Rewind("1", {tp(0): 5}))
    (ended,) = [event for event in events(cooperative) if isinstance(event, Ended)]
    assert ([claim.tp for claim in ended.claims], ended.ending) == ([tp(0)], Ending.LOST)
    cooperative.machine.commit({tp(0): OffsetAndMetadata(9)}, cooperative.now + 60, commits.append)
    assert cooperative.commits() == {tp(0): 5}
    assert "rewound" in str(commits[0])
    release(cooperative)
    assert cooperative.join_with() == Note(WANTED, 2, {"1": frozenset([tp(0)])})
    assert list(cooperative.machine.membership.held) == [tp(1)]


def test_a_commit_that_waited_for_the_assignment_is_not_sent_behind_the_rewind(cooperative: Member) -> None:
    asked(cooperative).join(generation=2)
    commits: list[Any] = []
    cooperative.machine.commit({tp(0): OffsetAndMetadata(9)}, cooperative.now + 60, commits.append)
    assignment = assignment_bytes([tp(0), tp(1)]) + note_bytes(Note(Rewind("1", {tp(0): 5})))
    cooperative.answer(cooperative.one(SyncGroupRequest), SyncGroupResponse(error_code=0, assignment=assignment))
    assert cooperative.commits() == {tp(0): 5}
    assert (len(commits), cooperative.pending(OffsetCommitRequest)) == (1, [])
    assert "rewound" in str(commits[0])


def test_a_rewind_that_comes_twice_is_carried_out_once(eager: Member) -> None:
    asked(eager).assign_with([tp(0)], Rewind("1", {tp(0): 5}))
    eager.commits()
    eager.machine.membership.subscribe(("t", "u"))
    eager.run()
    release(eager)
    eager.assign_with([tp(0), tp(2)], Rewind("1", {tp(0): 5, tp(2): 7}), generation=3)
    assert eager.commits() == {tp(2): 7}


def test_a_member_remembers_the_latest_rewinds(eager: Member) -> None:
    """One of them may come again; a leader that was told of older ones would be told more and more."""
    for number in range(1, 6):
        eager.machine.membership.subscribe(("t", f"u{number}"))
        eager.run()
        release(eager)
        eager.assign_with([tp(0)], Rewind(str(number), {tp(0): number}), generation=number + 1)
        assert eager.commits() == {tp(0): number}
    eager.machine.membership.subscribe(("t",))
    eager.run()
    release(eager)
    assert set(eager.join_with().done) == {"2", "3", "4", "5"}


def test_a_member_that_leaves_ends_its_wish_and_one_wish_at_a_time(eager: Member) -> None:
    eager.ask()
    eager.ask()
    assert "waits for another rewind" in str(eager.outcomes[0])
    eager.machine.leave(eager.now, 1, lambda: None)
    assert "left group g" in str(eager.outcomes[1])


def test_a_crash_of_the_machine_ends_the_wish(eager: Member) -> None:
    eager.ask()
    reason = KafkaError("the loop crashed")
    eager.machine.crash(reason)
    assert eager.outcomes == [reason]


def test_a_withdrawn_wish_is_not_sent(eager: Member) -> None:
    withdraw = eager.machine.rewind(WANTED, eager.now + 60, eager.outcomes.append)
    eager.run()
    withdraw()
    eager.describe(described("m"))
    assert (state(eager), eager.outcomes) == (MemberState.STABLE, [])
