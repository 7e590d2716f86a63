"""Fetcher: what is asked for, and when, with brokers made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from consumer_talk import LOST, Talk, batch, fetching, looked_at, tp

from pykafka4.core import INFINITY
from pykafka4.core.subscription import Claim, Start
from pykafka4.errors import AuthorizationError
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest


@pytest.fixture
def talk() -> Talk:
    return fetching()


# ---------------------------------------------------------------- asking


def test_the_next_request_leaves_as_soon_as_the_answer_is_in(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10)})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 10}
    assert [r.offset for r in talk.poll()] == list(range(10))


def test_an_idle_consumer_has_one_request_under_way_and_no_timer(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    for _ in range(3):
        talk.fetched(talk.fetch_at(1), {tp(0): b""})
        assert len(talk.pending(FetchRequest)) == 1
        assert talk.wake_at == INFINITY


def test_every_partition_comes_first_in_its_turn(talk: Talk) -> None:
    """A broker sends a whole batch, however large, of the first partition that has data only."""
    talk.cluster.set("t", [1, 1, 1])
    talk.assign(tp(0), tp(1), tp(2), start=0)
    firsts = set()
    for _ in range(3):
        request = talk.fetch_at(1)
        firsts.add(next(iter(talk.asked(request))))
        talk.fetched(request, {})
    assert firsts == {tp(0), tp(1), tp(2)}


def test_positions_wait_for_a_leader(talk: Talk) -> None:
    talk.cluster.set("t", [-1, 2, 1])
    talk.assign(tp(0), start=0)
    assert talk.pending(FetchRequest) == []
    talk.cluster.set("t", [2, 2, 1])
    talk.run()
    assert talk.asked(talk.fetch_at(2)) == {tp(0): 0}


# ---------------------------------------------------------------- claims that end, seeks, pauses


def test_dropped_partitions_are_not_asked_for(talk: Talk) -> None:
    claims = talk.assign(tp(0), tp(1), start=0)
    talk.machine.fetcher.drop(claims[:1])
    for request in talk.pending(FetchRequest):
        talk.fetched(request, {})
    assert [set(talk.asked(r)) for r in talk.pending(FetchRequest)] == [{tp(1)}]


def test_the_end_of_an_assignment_leaves_a_later_assignment_of_the_same_partition(talk: Talk) -> None:
    old = talk.assign(tp(0), start=0)
    talk.assign(tp(0), start=5)
    talk.reader.seek(tp(0), 7)
    talk.machine.fetcher.drop(old)
    talk.reader.release(old)
    for request in talk.pending(FetchRequest):
        talk.fetched(request, {})
    assert [talk.asked(r) for r in talk.pending(FetchRequest)] == [{tp(0): 7}]
    assert set(talk.reader.claims) == {tp(0)}


def test_the_end_of_an_assignment_ends_what_a_seek_put_in_its_place(talk: Talk) -> None:
    claims = talk.assign(tp(0), start=0)
    talk.reader.seek(tp(0), 7)
    talk.machine.fetcher.drop(claims)
    talk.reader.release(claims)
    assert (talk.machine.fetcher.positions, talk.reader.claims) == ({}, {})


def test_a_seek_of_a_claim_that_ended_meanwhile_changes_nothing(talk: Talk) -> None:
    (claim,) = talk.assign(tp(0), start=5)
    talk.machine.fetcher.seek(Claim(tp(0)), Claim(tp(0)), 99)
    assert talk.machine.fetcher.positions[tp(0)].claim is claim


def test_paused_partitions_are_not_asked_for_until_resumed(talk: Talk) -> None:
    (claim,) = talk.assign(tp(0), start=0)
    talk.machine.fetcher.pause(claim)
    talk.fetched(talk.fetch_at(1), {})
    assert talk.pending(FetchRequest) == []
    talk.machine.fetcher.resume(claim)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 0}


# ---------------------------------------------------------------- a turn costs what something happened to


def many(**start: Any) -> Talk:
    """A consumer of 100 partitions of t and one of u, on node 1."""
    talk = Talk()
    talk.cluster.set("t", [1] * 100)
    talk.cluster.set("u", [1])
    talk.assign(*(tp(n) for n in range(100)), tp(0, "u"), **start)
    return talk


def test_a_change_of_a_topic_costs_that_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = many(start=0)
    looked = looked_at(monkeypatch)
    talk.cluster.set("u", [2])
    talk.run()
    assert set(looked) == {tp(0, "u")}
    assert talk.asked(talk.fetch_at(2)) == {tp(0, "u"): 0}


def test_a_partition_that_comes_back_and_one_that_is_paused_cost_one_partition_each(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = many(start=0)
    looked = looked_at(monkeypatch)
    talk.recovery.report(talk.now, tp(5), LOST.reason)
    talk.machine.fetcher.answers._report(talk.now, 1, talk.machine.fetcher.positions[tp(6)], LOST.reason)
    talk.run()
    assert set(looked) == {tp(6)}
    talk.recovery.bring_back()
    talk.machine.fetcher.pause(talk.reader.claims[tp(7)])
    talk.machine.fetcher.resume(talk.reader.claims[tp(7)])
    talk.run()
    assert set(looked) == {tp(5), tp(6), tp(7)}


def test_a_search_costs_its_partition_and_a_change_the_searches_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Talk()
    talk.assign(*(tp(n) for n in range(100)), tp(0, "u"))
    looked = looked_at(monkeypatch)
    talk.cluster.set("u", [1])
    talk.run()
    assert set(looked) == {tp(0, "u")}
    talk.reader.seek(tp(3), Start.LATEST)
    talk.run()
    assert set(looked) == {tp(0, "u"), tp(3)}


def test_searches_that_nobody_waits_for_any_more_are_forgotten() -> None:
    talk = Talk()
    claims = talk.assign(tp(0), start=Start.LATEST)
    searches = talk.machine.fetcher.searches
    for _ in range(10):
        talk.reader.seek(tp(0), Start.LATEST)
        talk.run()
    assert [len(pending) for pending in searches._pending.values()] == [1]
    talk.machine.fetcher.drop(claims)
    assert (searches._pending, searches._of_topic) == ({}, {})


def test_what_is_known_of_a_topic_counts_when_its_partition_is_placed() -> None:
    talk = Talk(auto_offset_reset="latest")
    talk.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    talk.cluster.set("t", [1])
    talk.run()
    talk.assign(tp(1))
    talk.assign(tp(0, "secret"))
    with pytest.raises(AuthorizationError, match="secret"):
        talk.poll()
    talk.cluster.set("t", [1, 1])
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -2  # it was not there when its reading began


def test_a_consumer_that_is_gone_hears_of_no_changes() -> None:
    talk = many(start=0)
    assert (len(talk.cluster.on_change), len(talk.recovery.on_online)) == (1, 1)
    talk.machine.gone()
    assert (talk.cluster.on_change, talk.recovery.on_online, talk.cluster.users) == ([], [], {})
