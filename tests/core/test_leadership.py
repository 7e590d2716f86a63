"""What a group's leader does on top of being a member."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import Cluster, tp

from pykafka4.core import INFINITY
from pykafka4.core.assignors import assigned_partitions, subscription_bytes
from pykafka4.core.leadership import Leadership
from pykafka4.wire.messages_group import JoinGroupResponse


def answer(leader: str = "m", protocol: str | None = "range", **members: list[str]) -> JoinGroupResponse:
    rows = [JoinGroupResponse.Member(member_id=name, metadata=subscription_bytes(topics)) for name, topics in members.items()]
    return JoinGroupResponse(error_code=0, protocol_name=protocol, leader=leader, member_id="m", members=rows)


@pytest.fixture
def cluster() -> Any:
    cluster = Cluster()
    cluster.set("t", [1, 1, 1])
    return cluster


def test_a_follower_has_nothing_to_deal(cluster: Any) -> None:
    leadership = Leadership(cluster)
    assert leadership.decide(answer(leader="x"), 5.0) is None
    assert (leadership.holds, leadership.due, leadership.outgrown()) == (False, INFINITY, False)


def test_everybody_gets_a_share(cluster: Any) -> None:
    leadership = Leadership(cluster)
    assert leadership.decide(answer(m=["t"], n=["t"]), 5.0) is None
    shares = leadership.deal(0.0)
    assert shares is not None
    assert {name: assigned_partitions(share) for name, share in shares.items()} == {"m": [tp(0), tp(1)], "n": [tp(2)]}
    assert leadership.due == INFINITY


@pytest.mark.parametrize("protocol", ["roundrobin", None])
def test_an_assignor_that_is_not_known_is_named(cluster: Any, protocol: str | None) -> None:
    assert Leadership(cluster).decide(answer(protocol=protocol, m=["t"]), 5.0) == (protocol or "(none)")


def test_unknown_topics_are_waited_for_until_due(cluster: Any) -> None:
    leadership = Leadership(cluster)
    leadership.decide(answer(m=["t", "u"]), 5.0)
    assert leadership.deal(4.9) is None
    assert leadership.deal(5.0) is not None


def test_a_new_deal_is_called_for_when_topics_grow_appear_or_go(cluster: Any) -> None:
    for change in ({"t": [1] * 4}, {"u": [1]}, {"t": []}):
        cluster = Cluster()
        cluster.set("t", [1, 1, 1])
        cluster.set("u", error="UNKNOWN_TOPIC_OR_PARTITION")
        leadership = Leadership(cluster)
        leadership.decide(answer(m=["t", "u"]), 5.0)
        leadership.deal(0.0)
        assert not leadership.outgrown()
        cluster.set("other", [1])
        assert not leadership.outgrown()
        for topic, leaders in change.items():
            cluster.set(topic, leaders)
        assert leadership.outgrown()


def test_what_changed_between_looking_and_dealing_is_noticed(cluster: Any) -> None:
    leadership = Leadership(cluster)
    leadership.decide(answer(m=["t"]), 5.0)
    leadership.deal(0.0)
    assert not leadership.outgrown()
    leadership.deal(0.0)
    cluster.topics["t"] = [1]
    assert leadership.outgrown()


def test_only_a_leader_wants_the_topics_of_the_others_and_only_todays(cluster: Any) -> None:
    leadership = Leadership(cluster)
    leadership.decide(answer(m=["t"], n=["u"]), 5.0)
    assert set(cluster.users) == {"t", "u"}
    leadership.decide(answer(m=["t"], n=["v"]), 5.0)
    assert set(cluster.users) == {"t", "v"}
    leadership.decide(answer(leader="n"), 5.0)
    assert not cluster.users
    leadership.decide(answer(m=["t"]), 5.0)
    leadership.resign()
    assert not cluster.users
