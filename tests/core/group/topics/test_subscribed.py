"""Subscribed topics: topics that do not exist, are no longer subscribed to, or are recreated."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.core.group.topics.subscribed import STEP_TOPICS
from pykafka4.core.subscription import Start
from pykafka4.errors import AuthorizationError
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import HeartbeatRequest, JoinGroupRequest
from tests.core.consumer_harness import Cluster, ConsumerHarness, tp
from tests.core.member_harness import events, keep_alive, release


def test_a_subscribed_topic_that_does_not_exist_is_named_in_the_log_once(
    harness: ConsumerHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.machine.membership.subscribe(("t", "tpyo"))
    harness.cluster.set("tpyo", error="UNKNOWN_TOPIC_OR_PARTITION")
    for _ in range(3):
        harness.cluster.change("tpyo")
        harness.run(1)
    assert [r.getMessage() for r in caplog.records if "tpyo" in r.getMessage()] == [
        "pykafka4: group g: subscribed topic 'tpyo' does not exist; it will be consumed once it is created"
    ]
    assert harness.machine.status(harness.now)["unknown_topics"] == ["tpyo"]


def test_only_topics_that_changed_are_looked_at_and_only_while_there_is_a_subscription(
    harness: ConsumerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.machine.membership.subscribe(tuple(f"u{n}" for n in range(20)))
    harness.run()
    looked: list[str] = []
    topic_id = harness.cluster.topic_id
    monkeypatch.setattr(Cluster, "topic_id", lambda _, topic: looked.append(topic) or topic_id(topic))
    harness.run(1)
    assert looked == []
    for topic in ("u7", "somebody else's", "u3"):
        harness.cluster.set(topic, [1])
    harness.run()
    assert set(looked) == {"u3", "u7"}
    listening = len(harness.cluster.on_change)
    harness.machine.membership.dispose()
    assert len(harness.cluster.on_change) < listening


def test_thousands_of_topics_are_requested_in_steps_and_then_the_member_joins(harness: ConsumerHarness) -> None:
    names = tuple(f"u{n}" for n in range(3 * STEP_TOPICS))
    harness.machine.membership.subscribe(names)
    keep_alive(harness)
    assert len(harness.cluster.wanted) == STEP_TOPICS
    harness.cluster.change(names[-1])  # for another user: it is not looked at yet
    assert harness.machine.membership.poll(harness.now) == harness.now, "it goes on at once"
    assert len(harness.cluster.wanted) == 2 * STEP_TOPICS
    assert not harness.machine.coordinator._wanted, "it does not join yet"
    harness.run()
    assert len(harness.cluster.wanted) == 3 * STEP_TOPICS
    harness.find_coordinator()
    assert harness.one(JoinGroupRequest)
    harness.machine.membership.subscribe(names[:2])
    assert len(harness.cluster.wanted) == 3 * STEP_TOPICS + 2


def test_assigned_partitions_of_topics_that_are_not_subscribed_to_are_not_taken_up(harness: ConsumerHarness) -> None:
    """The subscription changed while the join was under way; what the application reads of the old topics by hand stays as it is."""
    harness.machine.membership.subscribe(("t", "u"))
    harness.poll()
    harness.find_coordinator()
    harness.join()
    harness.machine.membership.subscribe(("u",))
    harness.sync([tp(0), tp(0, "u")])
    (assigned, *_) = events(harness)
    assert [claim.tp for claim in assigned.claims] == [tp(0, "u")]
    assert set(harness.machine.fetcher.positions) <= {tp(0, "u")}


@pytest.mark.parametrize(
    ("ids", "noticed"),
    [((UUID(int=1), UUID(int=2)), True), ((UUID(int=1), UUID(int=2)), False), ((None, None), True)],
    ids=["by id and absence", "by id alone", "by absence alone"],
)
def test_a_recreated_topic_is_read_from_its_beginning_by_the_member_it_is_assigned_to(ids: tuple[Any, Any], noticed: bool) -> None:
    harness = ConsumerHarness(group_id="g", auto_offset_reset="latest", max_poll_interval_ms=60_000, enable_auto_commit=False)
    harness.cluster.set("t", [1, 2], topic_id=ids[0])
    harness.stable(tp(0))
    keep_alive(harness)
    harness.committed()
    assert start_of_search(harness) == -1
    harness.ends(100)
    if noticed:
        harness.cluster.set("t", [], error="UNKNOWN_TOPIC_OR_PARTITION")
        harness.run()
    harness.cluster.set("t", [1, 2], topic_id=ids[1])
    harness.run()
    harness.ends()
    harness.beat(harness.run(3) and harness.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    harness.reader.drain()
    harness.reader.events.clear()
    harness.sent.clear()
    release(harness)
    harness.join(generation=2)
    harness.sync([tp(1)])
    harness.committed()
    assert start_of_search(harness) == -2


def start_of_search(harness: ConsumerHarness) -> int:
    """The time that the only ListOffsets asks for."""
    timestamp: int = harness.one(ListOffsetsRequest).message.topics[0].partitions[0].timestamp
    return timestamp


# -- denied topics


def denied(harness: ConsumerHarness) -> list[str]:
    """The topics that wait to be raised as denied."""
    harness.reader.drain()
    found = [str(error.resource_name) for error in harness.reader.notices.waiting if isinstance(error, AuthorizationError)]
    harness.reader.notices.waiting.clear()
    return found


def test_a_denied_topic_is_told_each_time_that_brokers_deny_it(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t", "secret"))
    for _ in range(3):
        harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
        harness.run(1)
        assert denied(harness) == ["secret"]


def test_what_was_refused_before_the_subscription_is_not_told(harness: ConsumerHarness) -> None:
    """Another user of the client was refused; the right may have been granted since."""
    harness.cluster.asked = harness.cluster.answered_request = 5
    harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    harness.machine.membership.subscribe(("t", "secret"))
    harness.run()
    assert denied(harness) == []
    harness.cluster.asked = harness.cluster.answered_request = 6
    harness.machine.membership.subscribe(("t", "secret"))
    harness.run()
    assert denied(harness) == ["secret"], "the subscription to it has not changed"
    harness.machine.membership.subscribe(("t",))
    harness.machine.membership.subscribe(("t", "secret"))
    harness.run()
    assert denied(harness) == [], "this is another one"


def test_a_topic_that_was_denied_at_first_is_not_new() -> None:
    harness = ConsumerHarness(group_id="g", auto_offset_reset="latest")
    harness.cluster.set("t", [1])
    membership = harness.machine.membership
    membership.subscribe(("t", "secret", "late"))
    harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    harness.cluster.set("late", error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    for topic in ("secret", "late"):
        harness.cluster.set(topic, [1])
    harness.run()
    fallback = membership.subscription.fallback
    assert [fallback(tp(0, topic)) for topic in ("t", "secret", "late")] == [Start.LATEST, Start.LATEST, Start.EARLIEST]


def test_another_refusal_is_told_once_and_the_topic_is_new_when_it_comes(harness: ConsumerHarness) -> None:
    harness.machine.membership.subscribe(("t", "bad"))
    harness.cluster.set("bad", error="INVALID_TOPIC_EXCEPTION")
    harness.run()
    harness.cluster.change("bad")
    harness.run()
    harness.reader.drain()
    assert [str(error) for error in harness.reader.notices.waiting] == ["topic bad: INVALID_TOPIC_EXCEPTION"]
