"""A member of a share group: when it joins and leaves."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

from pykafka4.core import INFINITY, Failed, Reply
from pykafka4.core.group.membership.states import MemberState
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.member import ShareMember
from pykafka4.errors import ConnectionLost, KafkaError, UnsupportedVersion
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_share import ShareGroupHeartbeatResponse

JOINS, LEAVES = 0, -1  # epochs


class Harness:
    """A member, its coordinator, which is broker 1, and the heartbeats that have no response yet."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.mailbox = Mailbox(lambda: None)
        outbox = Outbox()
        self.sent = outbox.requests
        self.left = 0
        self.wanted = 0
        config = ShareConsumerConfig(bootstrap_servers="h:1", group_id="g", **options)
        coordinator: Any = SimpleNamespace(node=1, want=self._want, well=lambda: None, lost=lambda *lost: None, retried=lambda *why: None)
        self.coordinator = coordinator
        self.member = ShareMember(config, coordinator, 1, self.mailbox, Random(1), outbox, self)

    def assign(self, parts: Any) -> None:
        pass

    def explain(self, reason: str | None) -> UnsupportedVersion:
        raise AssertionError(reason)

    def poll(self) -> list[int]:
        """The epochs of the heartbeats without a response."""
        self.member.poll(self.now)
        return [request.message.member_epoch for request in self.sent]

    def reply(self, epoch: int) -> None:
        answer = ShareGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=1000)
        self.sent.pop(0).on_reply(self.now, Reply(answer, 1, 1))

    def lose(self, epoch: int) -> None:
        """The heartbeat has no response."""
        self.sent.pop(0).on_reply(self.now, Failed(ConnectionLost("h:1: connection reset"), Written.MAYBE))

    def join(self) -> None:
        self.member.subscribe(("t",))
        self.member.polled()
        assert self.poll() == [JOINS]
        self.reply(1)
        assert self.member.state is MemberState.STABLE

    def leave(self, seconds: float) -> None:
        self.member.leave(self.now, self.now + seconds, self._left)

    def _left(self) -> None:
        self.left += 1

    def _want(self) -> None:
        self.wanted += 1


def test_topics_are_reported_again_only_after_a_heartbeat_without_an_answer() -> None:
    harness = Harness()
    harness.join()
    reported = []
    for outcome in (harness.reply, harness.lose, harness.reply, harness.reply):
        harness.now += 1.0
        assert harness.poll() == [1]
        reported.append(harness.sent[0].message.subscribed_topic_names)
        outcome(1)
    assert reported == [None, None, ["t"], None]


def test_topics_of_a_subscription_during_a_heartbeat_are_reported_in_the_next_one() -> None:
    harness = Harness()
    harness.join()
    harness.now += 1.0
    assert harness.poll() == [1]
    harness.member.subscribe(("u",))
    harness.reply(1)
    assert harness.poll() == [1]
    assert harness.sent[0].message.subscribed_topic_names == ["u"]


def test_a_late_answer_to_a_leave_changes_nothing() -> None:
    harness = Harness()
    harness.join()
    harness.member.unsubscribe()
    harness.leave(0.3)
    assert harness.poll() == [LEAVES]
    harness.now += 0.3
    harness.poll()
    assert (harness.left, harness.member.state) == (1, MemberState.UNJOINED)
    harness.reply(LEAVES)
    assert (harness.left, harness.member.state) == (1, MemberState.UNJOINED)
    harness.join()


def test_a_late_answer_to_a_leave_does_not_end_a_later_membership() -> None:
    harness = Harness()
    harness.join()
    harness.member.unsubscribe()
    harness.leave(0.3)
    harness.now += 0.3
    harness.poll()
    harness.member.subscribe(("t",))
    harness.member.polled()
    assert harness.poll() == [LEAVES, JOINS]
    harness.reply(LEAVES)
    assert harness.member.state is MemberState.JOINING
    harness.reply(2)
    assert harness.member.state is MemberState.STABLE


def test_a_member_that_subscribes_and_polls_while_it_leaves_joins_again() -> None:
    harness = Harness()
    harness.join()
    harness.member.unsubscribe()
    harness.member.subscribe(("u",))  # Ctrl-C has ended the wait of unsubscribe
    harness.member.polled()
    harness.leave(1.0)  # now the share sessions have ended
    harness.reply(LEAVES)
    assert harness.poll() == [JOINS]
    assert harness.sent[0].message.subscribed_topic_names == ["u"]


def test_after_an_error_and_unsubscribe_a_new_subscription_works() -> None:
    harness = Harness()
    harness.join()
    harness.member.fail(KafkaError("rejected"))
    harness.member.unsubscribe()
    harness.leave(1.0)
    harness.reply(LEAVES)
    harness.member.subscribe(("t",))
    assert harness.mailbox.fatal is None
    harness.member.polled()
    assert harness.poll() == [JOINS]


def test_a_member_without_a_poll_leaves_and_keeps_its_topics() -> None:
    harness = Harness(max_poll_interval_ms=500)
    harness.join()
    harness.mailbox.idle_since = harness.now
    harness.now += 0.5
    harness.poll()
    harness.reply(LEAVES)
    harness.now += 100
    assert (harness.poll(), harness.member.topics) == ([], ("t",))
    assert harness.member.poll(harness.now) == INFINITY, "the loop does not spin until the next poll"
    harness.mailbox.idle_since = harness.now
    harness.member.polled()
    assert harness.poll() == [JOINS]


def test_a_member_whose_coordinator_is_not_known_looks_it_up_to_leave() -> None:
    harness = Harness()
    harness.join()
    harness.coordinator.node, harness.wanted = None, 0
    harness.leave(1.0)
    assert (harness.poll(), harness.left, harness.wanted > 0) == ([], 0, True)
    harness.coordinator.node = 2
    assert harness.poll() == [LEAVES]
    assert harness.poll() == [LEAVES]
    harness.reply(LEAVES)
    assert (harness.left, harness.member.state) == (1, MemberState.UNJOINED)


def test_a_member_that_finds_no_coordinator_to_leave_has_left_in_time() -> None:
    harness = Harness()
    harness.join()
    harness.coordinator.node = None
    harness.leave(1.0)
    assert harness.member.poll(harness.now) == harness.now + 1.0
    harness.now += 1.0
    assert (harness.poll(), harness.left, harness.member.state) == ([], 1, MemberState.UNJOINED)


def test_a_member_that_is_refused_while_it_leaves_has_left() -> None:
    harness = Harness()
    harness.join()
    harness.coordinator.node = None
    harness.leave(1.0)
    harness.member.fail(KafkaError("no coordinator for this group"))
    assert (harness.left, harness.member.state, harness.mailbox.fatal) == (1, MemberState.UNJOINED, None)


def test_a_member_that_has_never_joined_leaves_at_once() -> None:
    harness = Harness()
    harness.coordinator.node = None
    harness.leave(1.0)
    assert (harness.left, harness.wanted) == (1, 0)


def test_a_second_leave_with_an_earlier_deadline_counts() -> None:
    harness = Harness()
    harness.join()
    harness.leave(5.0)
    harness.leave(1.0)
    harness.now += 1.0
    harness.poll()
    assert harness.left == 1


def test_the_heartbeat_that_leaves_has_the_whole_request_timeout() -> None:
    harness = Harness(request_timeout_ms=20_000)
    harness.join()
    harness.leave(60.0)
    assert harness.sent[0].deadline == harness.now + 20.0


def test_only_the_first_fatal_error_is_raised() -> None:
    harness = Harness()
    harness.join()
    harness.member.fail(KafkaError("first"))
    harness.member.fail(KafkaError("second"))
    assert str(harness.mailbox.fatal) == "first"


def test_a_member_that_left_joins_again_without_the_pause_after_a_failed_join() -> None:
    harness = Harness()
    harness.member.subscribe(("t",))
    harness.member.polled()
    assert harness.poll() == [JOINS]
    harness.lose(JOINS)
    assert harness.poll() == []
    harness.leave(1.0)
    harness.reply(LEAVES)
    assert harness.poll() == [JOINS]


def test_a_member_that_leaves_already_has_left_by_the_earlier_deadline() -> None:
    harness = Harness()
    harness.join()
    harness.leave(1.0)
    harness.leave(5.0)
    assert harness.poll() == [LEAVES]
    harness.now += 1.0
    harness.poll()
    assert (harness.left, harness.member.state) == (1, MemberState.UNJOINED)
