"""Subscriptions by pattern: topics that are found, that come later, and that are gone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pytest

from pykafka4.core import Failed, Reply
from pykafka4.core.group.membership.classic import MemberState
from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.core.subscription import Start
from pykafka4.errors import KafkaError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, Written
from pykafka4.wire.protocol.frame import encode_response
from pykafka4.wire.protocol.messages_cluster import MetadataRequest, MetadataResponse
from pykafka4.wire.protocol.messages_group import JoinGroupRequest, OffsetCommitRequest
from tests.core.consumer_harness import LOST, ConsumerHarness, tp
from tests.core.member_harness import events, keep_alive, release, state

VERSION = 13


def pattern(text: str) -> TopicFilter:
    return TopicFilter((re.compile(text),))


def subscribe(harness: ConsumerHarness, text: str = "t.*", *names: str) -> None:
    harness.machine.membership.subscribe(names, pattern(text))
    harness.run()


def listed(harness: ConsumerHarness, *topics: str, brokers: int = 1, error_code: int = 0, work: bool = True) -> None:
    """Answer the request for all topics, and let the helper read it."""
    message = MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=n, host="h", port=1) for n in range(brokers)],
        topics=[MetadataResponse.Topic(error_code=0, name=topic, partitions=[]) for topic in topics],
        error_code=error_code,
    )
    frame = b"".join(map(bytes, encode_response(message, VERSION, 1)))[4:]
    request = harness.one(MetadataRequest)
    assert request.decode is not None
    harness.sent.remove(request)
    request.on_reply(harness.now, Reply(request.decode(VERSION, frame), VERSION, 1))
    harness.run()
    if work:
        harness.work()


def topics(harness: ConsumerHarness) -> tuple[str, ...]:
    return harness.machine.membership.subscription.names


def stable(harness: ConsumerHarness, *found: str, assigned: Iterable[Any] = ()) -> None:
    """A member whose pattern has found these topics."""
    for topic in found:
        harness.cluster.set(topic, [1])
    subscribe(harness)
    listed(harness, *found)
    harness.poll()
    keep_alive(harness)
    harness.find_coordinator()
    harness.join()
    harness.sync(assigned)
    harness.reader.drain()
    harness.reader.adopt(harness.reader.events.popleft().claims)


def rejoins(harness: ConsumerHarness) -> None:
    """The member releases its partitions and joins with the topics that it has now."""
    harness.reader.drain()
    harness.reader.events.clear()
    release(harness)


def test_a_member_joins_when_it_knows_which_topics_match(harness: ConsumerHarness) -> None:
    subscribe(harness)
    harness.poll()
    assert not harness.pending(JoinGroupRequest)
    listed(harness, "u", "t2", "t1")
    assert topics(harness) == ("t1", "t2")
    harness.find_coordinator()
    assert harness.pending(JoinGroupRequest)


def test_a_member_whose_pattern_matches_nothing_joins_without_topics(harness: ConsumerHarness) -> None:
    subscribe(harness)
    harness.poll()
    listed(harness, "u")
    harness.find_coordinator()
    harness.join()
    harness.sync()
    assert state(harness) is MemberState.STABLE
    assert [event.claims for event in events(harness)] == [()]


def test_topics_by_name_need_not_exist(harness: ConsumerHarness) -> None:
    subscribe(harness, "t.*", "z", "t9")
    listed(harness, "t1", "t9")
    assert topics(harness) == ("t1", "t9", "z")


def test_neither_names_nor_patterns_are_looked_at_on_the_loop(harness: ConsumerHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TopicFilter, "select", lambda *_: pytest.fail("on the loop"))
    subscribe(harness)
    listed(harness, "t1", work=False)
    assert len(harness.jobs) == 1


def test_all_topics_are_requested_again_when_the_metadata_expires(harness: ConsumerHarness) -> None:
    subscribe(harness)
    listed(harness, "t1")
    age = harness.config.metadata_max_age_ms / 1000
    assert not [r for r in harness.run(0.79 * age) if isinstance(r.message, MetadataRequest)]
    assert [r.message.topics for r in harness.run(0.21 * age + 1) if isinstance(r.message, MetadataRequest)] == [None]


def test_a_list_without_news_changes_nothing_that_a_turn_would_have_to_compare(harness: ConsumerHarness) -> None:
    """Each turn of the loop compares the topics with those that the group knows. Of ten thousand that takes a millisecond, unless they are
    the same object."""
    stable(harness, "t1", "t2")
    before = topics(harness)
    harness.run(harness.config.metadata_max_age_ms / 1000)
    listed(harness, "t2", "t1")
    assert topics(harness) is before


def test_the_oldest_version_requests_all_topics_with_an_empty_list(harness: ConsumerHarness) -> None:
    subscribe(harness)
    assert harness.as_sent(MetadataRequest, 0).topics == []


@pytest.mark.parametrize(
    "unusable", [{"brokers": 0}, {"error_code": 129}], ids=["from a broker that has just started", "with an error of the whole response"]
)
def test_a_response_that_says_nothing_is_requested_again_soon(harness: ConsumerHarness, unusable: dict[str, int]) -> None:
    subscribe(harness)
    listed(harness, **unusable)
    assert not harness.machine.membership.subscription.matching
    assert not harness.pending(MetadataRequest)
    harness.run(1.1)
    listed(harness, "t1")
    assert topics(harness) == ("t1",)


@pytest.mark.parametrize("failed", [LOST, Failed(UnsupportedVersion("too old"), Written.NO)], ids=["lost", "not supported"])
def test_a_request_without_a_response_is_sent_again(harness: ConsumerHarness, failed: Failed) -> None:
    subscribe(harness)
    harness.answer(harness.one(MetadataRequest), failed)
    harness.run(1.1)
    listed(harness, "t1")
    assert topics(harness) == ("t1",)


# ---- changes


def test_a_new_topic_changes_the_subscription_and_is_read_from_its_beginning() -> None:
    harness = ConsumerHarness(group_id="g", auto_offset_reset="latest", metadata_max_age_ms=1000)
    stable(harness, "t1", assigned=[tp(0, "t1")])
    harness.cluster.set("t2", [1])
    harness.run(1)
    listed(harness, "t1", "t2")
    assert state(harness) is MemberState.REVOKING
    fallback = harness.machine.membership.subscription.fallback
    assert [fallback(tp(0, "t1")), fallback(tp(1, "t1")), fallback(tp(0, "t2"))] == [Start.LATEST, Start.EARLIEST, Start.EARLIEST]


def test_a_topic_that_two_responses_do_not_know_leaves_the_subscription(harness: ConsumerHarness) -> None:
    stable(harness, "t1", "t2", assigned=[tp(0, "t1")])
    harness.cluster.set("t2", [], error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    assert topics(harness) == ("t1", "t2"), "the broker may lag behind"
    listed(harness, "t1")
    assert topics(harness) == ("t1",)
    assert state(harness) is MemberState.REVOKING
    assert "t2" not in harness.cluster.users


def test_a_topic_that_the_list_lacks_stays_until_its_own_metadata_agrees(harness: ConsumerHarness) -> None:
    stable(harness, "t1", "t2", assigned=[tp(0, "t1")])
    refreshes = harness.cluster.refreshes
    harness.run(300)
    listed(harness, "t1")
    assert topics(harness) == ("t1", "t2")
    assert harness.cluster.refreshes == refreshes + 1
    harness.cluster.set("t2", [], error="TOPIC_AUTHORIZATION_FAILED")
    harness.run()
    assert topics(harness) == ("t1",)
    assert not harness.reader.notices, "the application has not named this topic"


def test_a_list_that_has_a_missing_topic_is_requested_again(harness: ConsumerHarness) -> None:
    stable(harness, "t1", "t2", assigned=[tp(0, "t1")])
    harness.cluster.set("t2", [], error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    listed(harness, "t1", "t2")
    assert topics(harness) == ("t1", "t2")
    assert not harness.pending(MetadataRequest), "not at once: the broker needs some time"
    harness.run(1.1)
    listed(harness, "t1")
    assert topics(harness) == ("t1",)


def test_the_last_commit_of_a_deleted_topic_fails_at_once(harness: ConsumerHarness) -> None:
    """Its coordinator does not know it, and the metadata no longer either: the commit would be repeated, and the member would join late."""
    stable(harness, "t1", "t2", assigned=[tp(0, "t2")])
    harness.cluster.set("t2", [], error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    listed(harness, "t1")
    done: list[KafkaError | None] = []
    harness.machine.commit({tp(0, "t2"): OffsetAndMetadata(1)}, harness.now + 60, done.append)
    harness.run()
    assert harness.pending(OffsetCommitRequest)
    harness.commits({tp(0, "t2"): "UNKNOWN_TOPIC_OR_PARTITION"})
    assert len(done) == 1
    rejoins(harness)
    assert harness.pending(JoinGroupRequest)


def test_a_deleted_topic_that_comes_back_is_new() -> None:
    harness = ConsumerHarness(group_id="g", auto_offset_reset="latest")
    stable(harness, "t1", "t2", assigned=[tp(0, "t1")])
    harness.cluster.set("t2", [], error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    listed(harness, "t1")
    harness.cluster.set("t2", [1])
    harness.run(300)
    listed(harness, "t1", "t2")
    assert harness.machine.membership.subscription.fallback(tp(0, "t2")) is Start.EARLIEST
    assert "t2" not in harness.machine.membership.subscription.deleted


def test_another_subscription_replaces_the_topics_of_the_pattern(harness: ConsumerHarness) -> None:
    stable(harness, "t1", "t2", assigned=[tp(0, "t1")])
    subscribe(harness, "u.*")
    assert topics(harness) == ("t1", "t2"), "until the new ones are known"
    assert not harness.machine.membership.subscription.matching
    listed(harness, "t1", "u1")
    assert topics(harness) == ("u1",)
    assert [topic for topic in ("t1", "t2", "u1") if topic in harness.cluster.users] == ["u1"]
    assert not harness.machine.membership.subscription.deleted
    harness.machine.membership.subscribe(("z",))
    harness.run(1000)
    assert topics(harness) == ("z",)
    assert not harness.pending(MetadataRequest)


def test_a_result_for_an_earlier_pattern_is_ignored(harness: ConsumerHarness) -> None:
    subscribe(harness, "t.*")
    listed(harness, "t1", "u1", work=False)
    subscribe(harness, "u.*")
    harness.work()
    assert topics(harness) == ()
    listed(harness, "t1", "u1")
    assert topics(harness) == ("u1",)


def test_unsubscribing_ends_the_search(harness: ConsumerHarness) -> None:
    stable(harness, "t1", assigned=[tp(0, "t1")])
    harness.machine.membership.dispose()
    harness.run(1000)
    assert not harness.pending(MetadataRequest)
    assert not harness.machine.membership.subscription.active


def test_status_has_the_pattern(harness: ConsumerHarness) -> None:
    assert harness.machine.status(harness.now)["pattern"] is None
    subscribe(harness)
    assert harness.machine.status(harness.now)["pattern"] == "t.*"
