"""Subscribed topics: those that do not exist, that are not wanted any more, that are created again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from consumer_talk import Cluster, Talk, tp
from membership_talk import events, keep_alive, release

from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
)


def test_a_subscribed_topic_that_does_not_exist_is_named_in_the_log_once(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    talk.machine.membership.subscribe(("t", "tpyo"))
    talk.cluster.set("tpyo", error="UNKNOWN_TOPIC_OR_PARTITION")
    for _ in range(3):
        talk.cluster.change("tpyo")
        talk.run(1)
    assert [r.getMessage() for r in caplog.records if "tpyo" in r.getMessage()] == [
        "pykafka4: group g: subscribed topic 'tpyo' does not exist; it will be consumed once it is created"
    ]
    assert talk.machine.status(talk.now)["unknown_topics"] == ["tpyo"]


def test_only_topics_that_changed_are_looked_at_and_only_while_there_is_a_subscription(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.machine.membership.subscribe(tuple(f"u{n}" for n in range(20)))
    talk.run()
    looked: list[str] = []
    topic_id = talk.cluster.topic_id
    monkeypatch.setattr(Cluster, "topic_id", lambda _, topic: looked.append(topic) or topic_id(topic))
    talk.run(1)
    assert looked == []
    for topic in ("u7", "somebody else's", "u3"):
        talk.cluster.set(topic, [1])
    talk.run()
    assert set(looked) == {"u3", "u7"}
    listening = len(talk.cluster.on_change)
    talk.machine.membership.gone()
    assert len(talk.cluster.on_change) < listening


def test_assigned_partitions_of_topics_that_are_not_subscribed_to_are_not_taken_up(talk: Talk) -> None:
    """The subscription changed while the join was under way; what the application reads of the old topics by hand stays as it is."""
    talk.machine.membership.subscribe(("t", "u"))
    talk.poll()
    talk.find_coordinator()
    talk.join()
    talk.machine.membership.subscribe(("u",))
    talk.sync([tp(0), tp(0, "u")])
    (assigned, *_) = events(talk)
    assert [claim.tp for claim in assigned.claims] == [tp(0, "u")]
    assert set(talk.machine.fetcher.positions) <= {tp(0, "u")}


@pytest.mark.parametrize(
    ("ids", "noticed"),
    [((UUID(int=1), UUID(int=2)), True), ((UUID(int=1), UUID(int=2)), False), ((None, None), True)],
    ids=["by id and absence", "by id alone", "by absence alone"],
)
def test_a_topic_made_anew_is_read_from_its_beginning_by_whoever_is_assigned_it(ids: tuple[Any, Any], noticed: bool) -> None:
    talk = Talk(group_id="g", auto_offset_reset="latest", max_poll_interval_ms=60_000, enable_auto_commit=False)
    talk.cluster.set("t", [1, 2], topic_id=ids[0])
    talk.stable(tp(0))
    keep_alive(talk)
    talk.committed()
    assert start_of_search(talk) == -1
    talk.ends(100)
    if noticed:
        talk.cluster.set("t", [], error="UNKNOWN_TOPIC_OR_PARTITION")
        talk.run()
    talk.cluster.set("t", [1, 2], topic_id=ids[1])
    talk.run()
    talk.ends()
    talk.beat(talk.run(3) and talk.one(HeartbeatRequest), "REBALANCE_IN_PROGRESS")
    talk.reader.drain()
    talk.reader.events.clear()
    talk.sent.clear()
    release(talk)
    talk.join(generation=2)
    talk.sync([tp(1)])
    talk.committed()
    assert start_of_search(talk) == -2


def start_of_search(talk: Talk) -> int:
    """The time that the only ListOffsets asks for."""
    timestamp: int = talk.one(ListOffsetsRequest).message.topics[0].partitions[0].timestamp
    return timestamp
