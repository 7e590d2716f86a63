"""A protocol that adds and revokes single partitions, through the membership, the reader and the commits."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core.subscription import Assigned, Ended, Ending
from pykafka4.errors import GroupError
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_group import OffsetCommitRequest
from tests.core.consumer_harness import ConsumerHarness, batch, tp
from tests.core.incremental_harness import RELEASE_SECONDS, IncrementalProtocol, incremental
from tests.core.member_harness import ending, events, release


class Member(ConsumerHarness):
    """A member of an incremental protocol that holds partitions 0 and 1 of `t`, both read from offset 0."""

    protocol: IncrementalProtocol

    def __init__(self) -> None:
        super().__init__(group_id="g", enable_auto_commit=False)
        self.cluster.set("t", [1, 2, 1])
        protocol = self.machine.membership.protocol
        assert isinstance(protocol, IncrementalProtocol)
        self.protocol, protocol.target = protocol, (tp(0), tp(1))
        self.machine.membership.subscribe(("t",))
        self.poll()
        self.run()
        self.adopt()
        self.find_coordinator()
        self.committed({tp(0): 0, tp(1): 0})

    def become(self, *partitions: int) -> None:
        """The next epoch, with these partitions."""
        self.protocol.become(self.now, *(tp(partition) for partition in partitions))
        self.run()

    def adopt(self) -> None:
        """The application reads what it was assigned."""
        for event in events(self):
            if isinstance(event, Assigned):
                self.reader.adopt(event.claims)

    def commit(self, *partitions: int) -> list[Any]:
        """Commit offset 1 of each; where the outcome comes."""
        outcomes: list[Any] = []
        self.machine.commit({tp(partition): OffsetAndMetadata(1) for partition in partitions}, self.now + 60, outcomes.append)
        self.run()
        return outcomes

    def epoch_sent(self) -> int:
        """With which the commit in flight was sent."""
        epoch: int = self.one(OffsetCommitRequest).message.generation_id_or_member_epoch
        return epoch

    @property
    def held(self) -> list[TopicPartition]:
        return list(self.machine.membership.held)


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Member:
    monkeypatch.setattr("pykafka4.core.group.membership.classic.ClassicProtocol", incremental)
    return Member()


def test_kept_partitions_are_read_on_while_others_are_revoked(member: Member) -> None:
    kept = member.machine.fetcher.positions[tp(1)]
    member.fetched(member.fetch_at(2), {tp(1): batch(0, 2)})
    member.become(1, 2)
    assert member.machine.fetcher.positions[tp(1)] is kept
    assert tp(0) not in member.machine.fetcher.positions
    ended, assigned = events(member)
    assert ([claim.tp for claim in ended.claims], ended.ending) == ([tp(0)], Ending.REVOKED)
    assert [claim.tp for claim in assigned.claims] == [tp(2)]
    member.fetched(member.fetch_at(2), {tp(1): batch(2, 2)})
    assert [(r.partition, r.offset) for r in member.poll()] == [(1, offset) for offset in range(4)]
    assert member.held == [tp(0), tp(1), tp(2)]
    assert member.protocol.revoking == {tp(0)}
    release(member)
    assert member.held == [tp(1), tp(2)]
    assert member.protocol.revoking == set()


def test_commits_of_revoked_and_of_kept_partitions_are_sent_with_the_present_epoch(member: Member) -> None:
    kept, revoked = member.commit(1), member.commit(0)
    assert member.epoch_sent() == 1
    member.become(1)
    member.commits()
    assert member.epoch_sent() == 2
    member.commits()
    assert (kept, revoked) == ([None], [None])
    release(member)
    after = member.commit(1)
    assert member.epoch_sent() == 2
    member.commits()
    assert after == [None]


def test_a_loss_of_some_partitions_fails_their_commits_and_no_others(member: Member) -> None:
    member.protocol.become(member.now, tp(1))
    member.protocol.become(member.now, tp(1), tp(2))
    first = member.commit(1)
    kept, lost = member.commit(1), member.commit(0, 1)
    member.machine.membership.lost([tp(0)], "the topic was deleted")
    member.run()
    assert isinstance(lost[0], GroupError)
    assert "the topic was deleted" in str(lost[0])
    assert isinstance(member.commit(0)[0], GroupError), "made after the loss"
    member.commits()
    member.commits()
    assert (first, kept) == ([None], [None])
    assert [(ended.claims[0].tp, ended.ending) for ended in ending(member)] == [(tp(0), Ending.LOST)]
    assert member.held == [tp(0), tp(1), tp(2)]


def test_partitions_are_lost_beside_others_that_are_kept_and_others_that_are_revoked(member: Member) -> None:
    member.become(1)
    events(member)
    member.machine.membership.lost([tp(1)], "for this test")
    (ended,) = events(member)
    assert ([claim.tp for claim in ended.claims], ended.ending) == ([tp(1)], Ending.LOST)
    assert [ended.ending for ended in ending(member)] == [Ending.REVOKED, Ending.LOST]


def test_a_member_that_does_not_release_in_time_is_out_and_has_lost_everything(member: Member) -> None:
    member.become(1)
    member.reader.enter()
    member.run(RELEASE_SECONDS - 0.1)
    assert not member.protocol.is_out
    assert member.wake_at <= member.now + 0.1
    member.run(0.2)
    assert member.protocol.is_out
    assert [ended.ending for ended in ending(member)] == [Ending.LOST, Ending.LOST]


def test_a_member_that_is_out_joins_when_everything_is_released(member: Member) -> None:
    member.reader.enter()
    member.machine.membership.lost([tp(0)], "for this test")
    member.protocol.drop_out()
    release(member)
    assert member.protocol.is_out, "it holds partition 1"
    member.machine.membership.lost(member.held, "for this test")
    release(member)
    assert not member.protocol.is_out
    assert member.held == [tp(0), tp(1)]


def test_partitions_that_end_before_the_application_saw_them_are_marked(member: Member) -> None:
    member.become(0, 1, 2)
    member.become(0, 1)
    assigned, ended = events(member)
    assert isinstance(ended, Ended)
    assert [claim.ended for claim in assigned.claims] == [True]
    assert assigned.claims == ended.claims
    assert not any(claim.ended for claim in member.reader.claims.values())
