"""The share session with one broker: what is sent, in which order, and what becomes of it."""

from __future__ import annotations

import itertools
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import Failed, Reply
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.source import ShareSource, SourceContext
from pykafka4.core.share.values import AcknowledgementReport, Acknowledgements, AcknowledgeType, Acquired, SessionLease
from pykafka4.errors import ConnectionLost, KafkaError, RecordLockLost, UnsupportedVersion
from pykafka4.errors.codes import BY_NAME
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.messages_share import (
    LeaderIdAndEpoch,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

T0, T1, ID = TopicPartition("t", 0), TopicPartition("t", 1), UUID(int=7)
NOBODY = LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW
LOCK = 30.0


class Harness:
    """A source that may fetch t-0, and the broker, whose responses a test gives."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.mailbox = Mailbox(lambda: None)
        outbox = Outbox()
        self.sent = outbox.requests
        self.errors: list[Exception] = []
        config = ShareConsumerConfig(bootstrap_servers="h:1", group_id="g", **options)
        cluster: Any = SimpleNamespace(topic_name=lambda topic_id: None, hint=lambda *hint: None)  # has forgotten every topic
        recovery: Any = SimpleNamespace(report=lambda *report: None, healthy=lambda tp: None, note_retry=lambda *retry: None)
        context = SourceContext(config, "m", 1, cluster, recovery, self.mailbox, Random(1), outbox, self)
        self.source = ShareSource(1, context)
        self.source.targets = {T0: ID}
        self.reports: list[AcknowledgementReport] = []

    def unsupported(self, error: Exception) -> None:
        self.errors.append(error)

    def poll(self) -> Any:
        """The request that is sent now, if any."""
        self.source.poll(self.now)
        return self.sent[-1].message if self.sent else None

    def reply(self, message: Any) -> None:
        request = self.sent.pop()
        request.on_reply(self.now, message if isinstance(message, Failed) else Reply(message, 2, 1))

    def fetched(self, *spans: tuple[int, int, int], error: str = "NONE", beside: str | None = None) -> None:
        """The response to a ShareFetch; `beside`: the error of t-1."""
        kind = ShareFetchResponse.Topic.Partition
        rows = [kind.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in spans]
        part = kind(acknowledge_error_code=BY_NAME[error].code, current_leader=NOBODY, records=b"", acquired_records=rows)
        other = kind(partition_index=1, error_code=BY_NAME[beside or "NONE"].code, current_leader=NOBODY, records=None, acquired_records=[])
        topic = ShareFetchResponse.Topic(topic_id=ID, partitions=[part] if beside is None else [part, other])
        self.reply(ShareFetchResponse(acquisition_lock_timeout_ms=int(LOCK * 1000), responses=[topic], node_endpoints=[]))

    def acknowledged(self, error: str = "NONE") -> None:
        """The response to a ShareAcknowledge."""
        part = ShareAcknowledgeResponse.Topic.Partition(partition_index=0, error_code=BY_NAME[error].code, current_leader=NOBODY)
        topic = ShareAcknowledgeResponse.Topic(topic_id=ID, partitions=[part])
        self.reply(ShareAcknowledgeResponse(acquisition_lock_timeout_ms=int(LOCK * 1000), responses=[topic], node_endpoints=[]))

    def refused(self, error: str) -> None:
        """The response to a ShareFetch that fails as a whole; then the pause after it."""
        self.reply(ShareFetchResponse(error_code=BY_NAME[error].code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]))
        self.now += 1.3

    def acquire(self, *spans: tuple[int, int, int]) -> Acquired:
        """Records arrive for a poll, which takes them."""
        self.mailbox.waiting = True
        assert isinstance(self.poll(), ShareFetchRequest)
        self.fetched(*spans)
        self.mailbox.waiting = False
        return self.taken()

    def taken(self) -> Acquired:
        self.mailbox.taken += 1
        return self.mailbox.arrivals.popleft()

    def say(self, acquired: Acquired, **types: AcknowledgeType) -> AcknowledgementReport:
        """Acknowledge records: `o3=ACCEPT`. The report has the outcome when it is not open any more."""
        report = AcknowledgementReport(self.reports.append)
        report.begin()
        self.source.acknowledge(Acknowledgements(acquired, {int(name[1:]): kind for name, kind in types.items()}, report))
        report.close()
        return report


def batches(message: Any) -> list[tuple[int, int, int]]:
    """(first offset, last offset, type) of what a request acknowledges."""
    found = [b for topic in message.topics for part in topic.partitions for b in part.acknowledgement_batches]
    return [(b.first_offset, b.last_offset, b.acknowledge_types[0]) for b in found]


def test_what_is_sent_again_does_not_replace_what_was_said_later() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 0, 1))
    renewal = harness.say(acquired, o0=RENEW)
    assert batches(harness.poll()) == [(0, 0, RENEW.value)]
    acceptance = harness.say(acquired, o0=ACCEPT)
    harness.acknowledged("COORDINATOR_NOT_AVAILABLE")
    harness.now += 10
    message = harness.poll()
    assert (batches(message), message.is_renew_ack) == ([(0, 0, ACCEPT.value)], False)
    harness.acknowledged()
    assert [renewal.results, acceptance.results] == [{T0: None}, {T0: None}]


def test_brokers_that_cannot_renew_get_the_other_acknowledgements() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 2, 1))
    report = harness.say(acquired, o0=ACCEPT, o1=RENEW, o2=RELEASE)
    harness.poll()
    harness.reply(Failed(UnsupportedVersion("no renewals"), Written.NO))
    assert batches(harness.poll()) == [(0, 0, ACCEPT.value), (2, 2, RELEASE.value)]
    harness.acknowledged()
    assert isinstance(report.results[T0], UnsupportedVersion)
    assert (report.stored, report.failed, report.is_open) == (2, 0, False)  # no counter has the renewal, which ends no record


def test_a_broker_that_has_no_share_groups_any_more_is_told_and_not_asked_for_ever() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 0, 1))
    report = harness.say(acquired, o0=ACCEPT)
    assert batches(harness.poll()) == [(0, 0, ACCEPT.value)]
    harness.reply(Failed(UnsupportedVersion("no ShareAcknowledge"), Written.NO))
    assert harness.poll() is None
    assert isinstance(report.results[T0], UnsupportedVersion)
    assert [str(error) for error in harness.errors] == ["no ShareAcknowledge"]


def test_what_is_lost_is_told_while_the_broker_does_not_respond() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 0, 1))
    harness.mailbox.waiting = True
    harness.poll()
    report = harness.say(acquired, o0=ACCEPT)
    harness.source.drop_lease(T0, "broker 2 leads the partition now")
    harness.poll()
    assert isinstance(report.results[T0], RecordLockLost)


def test_the_request_that_ends_the_session_renews_nothing() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 1, 1))
    report = harness.say(acquired, o0=ACCEPT, o1=RENEW)
    harness.source.close(lambda: None)
    message = harness.poll()
    assert (message.share_session_epoch, batches(message), message.is_renew_ack) == (-1, [(0, 0, ACCEPT.value)], False)
    harness.acknowledged()
    assert isinstance(report.results[T0], RecordLockLost)


def test_an_acknowledgement_of_an_earlier_delivery_is_not_sent() -> None:
    harness = Harness()
    first = harness.acquire((0, 1, 1))
    harness.mailbox.waiting = True
    harness.poll()
    before = harness.say(first, o0=ACCEPT, o1=ACCEPT)  # while the broker acquires record 0 again: its lock has ended there
    harness.fetched((0, 0, 2))
    again = harness.taken()
    assert batches(harness.poll()) == [(1, 1, ACCEPT.value)]
    assert isinstance(before.results[T0], RecordLockLost)
    harness.fetched()
    after = harness.say(first, o0=ACCEPT)
    harness.poll()
    assert isinstance(after.results[T0], RecordLockLost)
    last = harness.say(again, o0=ACCEPT)
    harness.fetched()
    assert batches(harness.poll()) == [(0, 0, ACCEPT.value)]
    harness.fetched()
    assert last.results == {T0: None}


def test_a_lease_does_not_remember_what_has_an_outcome_or_is_long_over() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 1999, 1))
    lease = acquired.lease
    harness.say(acquired, o0=ACCEPT)
    harness.poll()
    harness.acknowledged()
    assert len(lease._current) == 1999
    harness.now += LOCK + 100
    harness.acquire((2000, 2000, 1))
    assert set(lease._current) == {2000}


def test_a_poll_that_has_records_lets_no_broker_lock_more() -> None:
    harness = Harness()
    harness.source.wanted_by_poll = harness.mailbox.taken  # a poll has found nothing
    assert isinstance(harness.poll(), ShareFetchRequest)
    harness.source.wanted_by_poll = harness.mailbox.taken  # and so has another one
    harness.fetched((0, 0, 1))
    assert harness.poll() is None
    harness.taken()
    assert harness.poll() is None
    harness.source.wanted_by_poll = harness.mailbox.taken - 1  # of a poll before that
    assert harness.poll() is None
    harness.source.wanted_by_poll = harness.mailbox.taken
    assert isinstance(harness.poll(), ShareFetchRequest)


def test_a_response_answers_all_polls_so_far() -> None:
    harness = Harness()
    harness.source.wanted_by_poll = harness.mailbox.taken
    harness.poll()
    harness.source.wanted_by_poll = harness.mailbox.taken
    harness.fetched()
    assert harness.poll() is None


def test_a_broker_is_asked_for_what_the_poll_may_return() -> None:
    harness = Harness(max_poll_records=10)
    harness.mailbox.waiting = True
    for limit, asked in ((1, 1), (10, 10), (50, 10)):
        harness.mailbox.limit = limit
        message = harness.poll()
        assert (message.max_records, message.batch_size) == (asked, asked)
        harness.fetched()


def test_records_of_a_topic_that_is_no_longer_subscribed_are_released() -> None:
    harness = Harness()
    harness.mailbox.waiting = True
    harness.poll()
    harness.source.targets = {}  # and the cluster does not know the topic's name any more
    harness.fetched((3, 4, 1))
    message = harness.poll()
    assert isinstance(message, ShareAcknowledgeRequest)
    assert batches(message) == [(3, 4, RELEASE.value)]


def fetched_partitions(message: Any) -> tuple[list[int], list[int]]:
    """Partitions that a ShareFetch adds to the session, and that it removes."""
    assert isinstance(message, ShareFetchRequest)
    added = [part.partition_index for topic in message.topics for part in topic.partitions]
    return added, [partition for topic in message.forgotten_topics_data for partition in topic.partitions]


def test_a_partition_that_cannot_be_fetched_does_not_slow_down_the_others() -> None:
    harness = Harness(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    harness.source.targets = {T0: ID, T1: ID}
    harness.mailbox.waiting = True
    assert fetched_partitions(harness.poll()) == ([0, 1], [])
    tries = []
    for _ in range(1_000):
        harness.fetched(beside="COORDINATOR_NOT_AVAILABLE" if T1 in harness.source._in_session else None)
        harness.now += 0.01
        message = harness.poll()  # at once: t-0 is fine
        if fetched_partitions(message)[0]:
            tries.append(harness.now)
    pauses = [second - first for first, second in itertools.pairwise(tries)]
    assert 8 <= len(tries) <= 15
    assert max(pauses) < 1.3
    assert pauses[0] < 0.3
    assert min(pauses[4:]) > 0.7  # they have grown
    harness.now += 2
    harness.fetched()
    assert fetched_partitions(harness.poll()) == ([1], [])
    harness.fetched(beside="NONE")
    harness.poll()
    harness.fetched(beside="COORDINATOR_NOT_AVAILABLE")
    assert fetched_partitions(harness.poll()) == ([], [1])
    harness.fetched()
    harness.now += 0.13
    assert fetched_partitions(harness.poll()) == ([1], [])  # the first pause again


def test_partitions_that_all_fail_are_asked_again_after_a_pause() -> None:
    harness = Harness(retry_backoff_ms=100)
    harness.source.targets = {T1: ID}
    harness.mailbox.waiting = True
    harness.poll()
    harness.fetched(beside="COORDINATOR_NOT_AVAILABLE")
    again = harness.source.poll(harness.now)
    assert 0.08 <= again - harness.now <= 0.12
    assert not harness.sent
    harness.now = again
    assert fetched_partitions(harness.poll()) == ([], [])


def test_acknowledgements_that_one_partition_cannot_store_do_not_hold_up_the_others() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 1, 1))
    report = harness.say(acquired, o0=ACCEPT)
    harness.poll()
    harness.acknowledged("COORDINATOR_NOT_AVAILABLE")
    harness.say(acquired, o1=ACCEPT)
    harness.source.targets = {T0: ID, T1: ID}
    harness.mailbox.waiting = True
    assert fetched_partitions(harness.poll()) == ([1], [0])
    harness.fetched(beside="NONE")
    harness.mailbox.waiting = False
    assert harness.poll() is None
    harness.now += 0.2
    assert batches(harness.poll()) == [(0, 1, ACCEPT.value)]
    harness.acknowledged()
    assert report.results == {T0: None}


def test_the_end_of_a_session_does_not_wait_for_a_pause() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 0, 1))
    report = harness.say(acquired, o0=ACCEPT)
    harness.poll()
    harness.acknowledged("COORDINATOR_NOT_AVAILABLE")
    harness.source.close(lambda: None)
    assert batches(harness.poll()) == [(0, 0, ACCEPT.value)]
    harness.acknowledged()
    assert report.results == {T0: None}


def test_a_partition_that_another_broker_leads_leaves_the_session() -> None:
    harness = Harness(retry_backoff_ms=100)
    harness.source.targets = {T0: ID, T1: ID}
    harness.mailbox.waiting = True
    harness.poll()
    harness.fetched(beside="NOT_LEADER_OR_FOLLOWER")
    assert fetched_partitions(harness.poll()) == ([], [1])  # otherwise the broker would answer at once, each time
    harness.fetched()
    assert fetched_partitions(harness.poll()) == ([], [])
    harness.fetched()
    harness.now += 0.2
    assert fetched_partitions(harness.poll()) == ([1], [])  # it leads again


def go_on_without_t0(harness: Harness) -> None:
    """The next ShareFetch takes t-0 out of the session."""
    harness.mailbox.waiting = True
    assert fetched_partitions(harness.poll()) == ([1], [0])
    harness.fetched(beside="NONE")
    harness.mailbox.waiting = False


def test_the_end_of_a_session_releases_what_a_partition_on_hold_has_locked() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 3, 1))
    accepted = harness.say(acquired, o0=ACCEPT)
    harness.poll()
    harness.acknowledged("COORDINATOR_NOT_AVAILABLE")
    harness.source.targets = {T0: ID, T1: ID}
    go_on_without_t0(harness)
    renewed = harness.say(acquired, o2=RENEW)
    harness.source.close(lambda: None)
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (3, [(1, 3, RELEASE.value)])
    harness.acknowledged("INVALID_RECORD_STATE")  # which changes nothing for the others
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (-1, [(0, 0, ACCEPT.value)])
    harness.acknowledged()
    assert accepted.results == {T0: None}
    assert isinstance(renewed.results[T0], RecordLockLost)


def test_the_end_of_a_session_releases_what_is_locked_of_former_partitions() -> None:
    harness = Harness()
    harness.acquire((0, 0, 1))
    harness.now += LOCK - 1
    harness.acquire((1, 1, 1))
    harness.source.targets = {T1: ID}
    go_on_without_t0(harness)
    harness.now += 2
    harness.source.close(lambda: None)
    assert batches(harness.poll()) == [(1, 1, RELEASE.value)]  # the other lock is over
    harness.acknowledged("COORDINATOR_NOT_AVAILABLE")
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (-1, [(1, 1, RELEASE.value)])


def test_the_end_of_a_session_names_no_records_of_its_partitions() -> None:
    harness = Harness()
    harness.acquire((0, 0, 1))
    harness.source.close(lambda: None)
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (-1, [])


@pytest.mark.parametrize("error", ["NONE", "INVALID_RECORD_STATE", "NOT_LEADER_OR_FOLLOWER", "COORDINATOR_NOT_AVAILABLE"])
def test_what_a_session_has_left_locked_is_released_in_the_next_one(error: str) -> None:
    harness = Harness()
    acquired = harness.acquire((0, 5, 1))
    harness.say(acquired, o5=ACCEPT)
    harness.poll()
    harness.acknowledged()
    harness.now += LOCK / 2
    late = harness.acquire((6, 6, 1))
    harness.mailbox.waiting = True
    harness.poll()
    unsent = harness.say(late, o6=ACCEPT)
    harness.refused("INVALID_SHARE_SESSION_EPOCH")
    assert harness.poll().share_session_epoch == 0
    assert isinstance(unsent.results[T0], RecordLockLost)
    harness.fetched((1, 2, 2))  # the broker has released these by itself
    message = harness.poll()
    assert (message.share_session_epoch, batches(message)) == (1, [(0, 0, RELEASE.value), (3, 4, RELEASE.value), (6, 6, RELEASE.value)])
    harness.acknowledged(error)
    assert harness.source.errors == {}
    again = harness.taken()
    last = harness.say(again, o1=ACCEPT, o2=ACCEPT)
    assert batches(harness.poll()) == [(1, 2, ACCEPT.value)]
    harness.fetched()
    assert last.results == {T0: None}


def test_what_may_be_stored_and_what_is_over_is_not_released() -> None:
    harness = Harness()
    acquired = harness.acquire((0, 0, 1))
    harness.now += LOCK - 2
    last = harness.acquire((1, 3, 1))
    report = harness.say(last, o1=ACCEPT, o2=RENEW)
    harness.poll()
    harness.reply(Failed(ConnectionLost("gone"), Written.MAYBE))
    assert isinstance(report.results[T0], ConnectionLost)
    harness.now += 2.5
    harness.mailbox.waiting = True
    assert harness.poll().share_session_epoch == 0
    harness.fetched()
    assert acquired.lease.ended
    assert batches(harness.poll()) == [(2, 3, RELEASE.value)]


def test_what_is_locked_of_former_partitions_is_released_after_a_lost_connection() -> None:
    harness = Harness()
    harness.acquire((0, 1, 1))
    harness.source.targets = {T1: ID}
    go_on_without_t0(harness)
    harness.mailbox.waiting = True
    harness.poll()
    harness.reply(Failed(ConnectionLost("gone"), Written.MAYBE))
    harness.now += 1.3
    assert fetched_partitions(harness.poll()) == ([1], [])
    harness.fetched(beside="COORDINATOR_NOT_AVAILABLE")
    message = harness.poll()
    assert isinstance(message, ShareAcknowledgeRequest)
    assert batches(message) == [(0, 1, RELEASE.value)]


def test_what_a_partition_on_hold_has_left_locked_is_released_after_the_pause_and_that_of_a_former_topic_never() -> None:
    harness = Harness()
    harness.acquire((0, 1, 1))
    harness.mailbox.waiting = True
    harness.poll()
    harness.refused("UNKNOWN_SERVER_ERROR")
    harness.source.targets = {T0: ID, T1: ID}
    harness.poll()
    harness.source._pause(harness.now, T0, KafkaError("refused"))
    harness.fetched(beside="NONE")
    assert fetched_partitions(harness.poll()) == ([], [0])
    harness.fetched(beside="NONE")
    harness.now += 0.2
    assert batches(harness.poll()) == [(0, 1, RELEASE.value)]
    harness.acknowledged()

    harness.source.targets = {T0: UUID(int=8)}
    harness.source._left = [(Acquired(SessionLease(T0, ID, 1), (), b"", harness.now + LOCK), [0])]
    assert isinstance(harness.poll(), ShareFetchRequest)
    assert harness.source._left == []


@pytest.mark.parametrize("refused", [True, False])
def test_a_release_whose_session_ends_is_sent_again_in_the_next_session(refused: bool) -> None:
    harness = Harness()
    harness.acquire((0, 2, 1))
    harness.mailbox.waiting = True
    harness.poll()
    harness.refused("INVALID_SHARE_SESSION_EPOCH")
    harness.poll()
    harness.fetched()
    assert batches(harness.poll()) == [(0, 2, RELEASE.value)]
    if refused:
        code = BY_NAME["SHARE_SESSION_NOT_FOUND"].code
        harness.reply(ShareAcknowledgeResponse(error_code=code, acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[]))
    else:
        harness.reply(Failed(ConnectionLost("gone"), Written.MAYBE))
    harness.now += 1.3
    harness.poll()
    harness.fetched((1, 1, 2))  # the broker has released this one, so it is not released again
    assert batches(harness.poll()) == [(0, 0, RELEASE.value), (2, 2, RELEASE.value)]


def test_a_release_that_is_sent_again_shares_no_request_with_other_releases() -> None:
    """The broker may have carried out the first one: it would refuse both."""
    harness = Harness()
    harness.acquire((0, 2, 1))
    harness.mailbox.waiting = True
    harness.poll()
    harness.refused("INVALID_SHARE_SESSION_EPOCH")
    harness.poll()
    harness.fetched((3, 5, 1))
    harness.taken()
    assert batches(harness.poll()) == [(0, 2, RELEASE.value)]
    harness.reply(Failed(ConnectionLost("gone"), Written.MAYBE))
    harness.now += 1.3
    harness.poll()
    harness.fetched()
    assert batches(harness.poll()) == [(3, 5, RELEASE.value)]
    harness.acknowledged()
    assert batches(harness.poll()) == [(0, 2, RELEASE.value)]
    harness.acknowledged("INVALID_RECORD_STATE")
    assert isinstance(harness.poll(), ShareFetchRequest)


def test_close_releases_what_earlier_sessions_have_left_locked() -> None:
    harness = Harness()
    harness.acquire((0, 1, 1))
    harness.mailbox.waiting = True
    harness.poll()
    harness.refused("INVALID_SHARE_SESSION_EPOCH")
    harness.poll()
    ended: list[bool] = []
    harness.source.close(lambda: ended.append(True))
    harness.fetched()
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (1, [(0, 1, RELEASE.value)])
    harness.acknowledged()
    assert (harness.poll().share_session_epoch, batches(harness.poll())) == (-1, [])
    harness.acknowledged()
    assert ended


def test_the_status_says_what_keeps_records_from_coming() -> None:
    harness = Harness()
    harness.source.targets = {T0: ID, T1: ID}
    harness.mailbox.waiting = True
    harness.poll()
    harness.fetched(beside="COORDINATOR_NOT_AVAILABLE")
    assert [(what, "COORDINATOR_NOT_AVAILABLE" in error) for what, error in harness.source.errors.items()] == [("t-1", True)]
    harness.poll()
    harness.refused("SHARE_SESSION_LIMIT_REACHED")
    assert list(harness.source.errors) == ["broker 1", "t-1"]
    assert "SHARE_SESSION_LIMIT_REACHED" in harness.source.errors["broker 1"]
    harness.poll()
    harness.fetched(beside="NONE")
    assert harness.source.errors == {}
