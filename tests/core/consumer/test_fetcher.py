"""Fetcher: what is fetched, and when. The test writes the answers."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.subscription import Claim, Start
from pykafka4.errors import AuthorizationError
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, fetching, looked_at, tp


@pytest.fixture
def harness() -> ConsumerHarness:
    return fetching()


# ---------------------------------------------------------------- asking


def test_the_next_request_leaves_as_soon_as_the_answer_is_in(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 10)})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 10}
    assert [r.offset for r in harness.poll()] == list(range(10))


def test_an_idle_consumer_has_one_request_under_way_and_no_timer(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    for _ in range(3):
        harness.fetched(harness.fetch_at(1), {tp(0): b""})
        assert len(harness.pending(FetchRequest)) == 1
        assert harness.wake_at == INFINITY


def test_every_partition_comes_first_in_its_turn(harness: ConsumerHarness) -> None:
    """A broker sends a whole batch, however large, of the first partition that has data only."""
    harness.cluster.set("t", [1, 1, 1])
    harness.assign(tp(0), tp(1), tp(2), start=0)
    firsts = set()
    for _ in range(3):
        request = harness.fetch_at(1)
        firsts.add(next(iter(harness.asked(request))))
        harness.fetched(request, {})
    assert firsts == {tp(0), tp(1), tp(2)}


def test_positions_wait_for_a_leader(harness: ConsumerHarness) -> None:
    harness.cluster.set("t", [-1, 2, 1])
    harness.assign(tp(0), start=0)
    assert harness.pending(FetchRequest) == []
    harness.cluster.set("t", [2, 2, 1])
    harness.run()
    assert harness.asked(harness.fetch_at(2)) == {tp(0): 0}


# ---------------------------------------------------------------- claims that end, seeks, pauses


def test_dropped_partitions_are_not_fetched(harness: ConsumerHarness) -> None:
    claims = harness.assign(tp(0), tp(1), start=0)
    harness.machine.fetcher.drop(claims[:1])
    for request in harness.pending(FetchRequest):
        harness.fetched(request, {})
    assert [set(harness.asked(r)) for r in harness.pending(FetchRequest)] == [{tp(1)}]


def test_the_end_of_an_assignment_leaves_a_later_assignment_of_the_same_partition(harness: ConsumerHarness) -> None:
    old = harness.assign(tp(0), start=0)
    harness.assign(tp(0), start=5)
    harness.reader.seek(tp(0), 7)
    harness.machine.fetcher.drop(old)
    harness.reader.release(old)
    for request in harness.pending(FetchRequest):
        harness.fetched(request, {})
    assert [harness.asked(r) for r in harness.pending(FetchRequest)] == [{tp(0): 7}]
    assert set(harness.reader.claims) == {tp(0)}


def test_the_end_of_an_assignment_ends_what_a_seek_put_in_its_place(harness: ConsumerHarness) -> None:
    claims = harness.assign(tp(0), start=0)
    harness.reader.seek(tp(0), 7)
    harness.machine.fetcher.drop(claims)
    harness.reader.release(claims)
    assert (harness.machine.fetcher.positions, harness.reader.claims) == ({}, {})


def test_a_seek_of_a_claim_that_ended_meanwhile_changes_nothing(harness: ConsumerHarness) -> None:
    (claim,) = harness.assign(tp(0), start=5)
    harness.machine.fetcher.seek([(Claim(tp(0)), Claim(tp(0)), 99)])
    assert harness.machine.fetcher.positions[tp(0)].claim is claim


def test_a_seek_of_a_claim_follows_one_that_only_the_loop_has_made(harness: ConsumerHarness) -> None:
    """Ctrl-C has ended the application's part of it."""
    (claim,) = harness.assign(tp(0), start=5)
    lost, again = claim.successor(7), claim.successor(5)
    harness.machine.fetcher.seek([(claim, lost, 7)])
    lost.recreated += 1
    harness.machine.fetcher.seek([(claim, again, 5)])
    assert harness.machine.fetcher.positions[tp(0)].claim is again
    assert again.recreated == 1


def test_a_seek_asks_for_each_topic_once(harness: ConsumerHarness) -> None:
    """`Cluster.want` decides whether a request is needed."""
    harness.assign(tp(0), tp(1), start=5)
    harness.cluster.wanted.clear()
    harness.reader.seek_each({tp(0): 7, tp(1): 7})
    assert harness.cluster.wanted == ["t"]


def test_paused_partitions_are_not_fetched_until_resumed(harness: ConsumerHarness) -> None:
    (claim,) = harness.assign(tp(0), start=0)
    harness.machine.fetcher.pause(claim)
    harness.fetched(harness.fetch_at(1), {})
    assert harness.pending(FetchRequest) == []
    harness.machine.fetcher.resume(claim)
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 0}


# ---------------------------------------------------------------- a turn costs what something happened to


def many(**start: Any) -> ConsumerHarness:
    """A consumer of 100 partitions of t and one of u, on node 1."""
    harness = ConsumerHarness()
    harness.cluster.set("t", [1] * 100)
    harness.cluster.set("u", [1])
    harness.assign(*(tp(n) for n in range(100)), tp(0, "u"), **start)
    return harness


def test_a_change_of_a_topic_costs_that_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = many(start=0)
    looked = looked_at(monkeypatch)
    harness.cluster.set("u", [2])
    harness.run()
    assert set(looked) == {tp(0, "u")}
    assert harness.asked(harness.fetch_at(2)) == {tp(0, "u"): 0}


def test_a_partition_that_comes_back_and_one_that_is_paused_cost_one_partition_each(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = many(start=0)
    looked = looked_at(monkeypatch)
    harness.recovery.report(harness.now, tp(5), LOST.reason)
    harness.machine.fetcher.answers._report(harness.now, 1, harness.machine.fetcher.positions[tp(6)], LOST.reason)
    harness.run()
    assert set(looked) == {tp(6)}
    harness.recovery.bring_back()
    harness.machine.fetcher.pause(harness.reader.claims[tp(7)])
    harness.machine.fetcher.resume(harness.reader.claims[tp(7)])
    harness.run()
    assert set(looked) == {tp(5), tp(6), tp(7)}


def test_a_search_costs_its_partition_and_a_change_the_searches_of_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = ConsumerHarness()
    harness.assign(*(tp(n) for n in range(100)), tp(0, "u"))
    looked = looked_at(monkeypatch)
    harness.cluster.set("u", [1])
    harness.run()
    assert set(looked) == {tp(0, "u")}
    harness.reader.seek(tp(3), Start.LATEST)
    harness.run()
    assert set(looked) == {tp(0, "u"), tp(3)}


def test_abandoned_offset_searches_are_removed() -> None:
    harness = ConsumerHarness()
    claims = harness.assign(tp(0), start=Start.LATEST)
    searches = harness.machine.fetcher.searches
    for _ in range(10):
        harness.reader.seek(tp(0), Start.LATEST)
        harness.run()
    assert [len(pending) for pending in searches._pending.values()] == [1]
    harness.machine.fetcher.drop(claims)
    assert (searches._pending, searches._of_topic) == ({}, {})


def test_a_partition_is_placed_by_the_topics_current_metadata() -> None:
    harness = ConsumerHarness(auto_offset_reset="latest")
    harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    harness.cluster.set("t", [1])
    harness.run()
    harness.assign(tp(1))
    harness.assign(tp(0, "secret"))
    with pytest.raises(AuthorizationError, match="secret"):
        harness.poll()
    harness.cluster.set("t", [1, 1])
    harness.run()
    (request,) = harness.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -2  # it was not there when its reading began


def test_a_removed_consumer_gets_no_changes() -> None:
    harness = many(start=0)
    assert (len(harness.cluster.on_change), len(harness.recovery.on_online)) == (1, 1)
    harness.machine.dispose()
    assert (harness.cluster.on_change, harness.recovery.on_online, harness.cluster.users) == ([], [], {})


def test_partitions_that_are_adopted_twice_are_read_once() -> None:
    """As after an interrupted `assign`. A seek in between replaces the claim, and still counts."""
    harness = ConsumerHarness()
    harness.cluster.set("t", [1, 1])
    claims = harness.assign(tp(0), tp(1), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 2)})
    harness.reader.seek(tp(1), 7)
    harness.machine.fetcher.adopt(claims, 0)
    harness.run()
    assert {place: position.offset for place, position in harness.machine.fetcher.positions.items()} == {tp(0): 2, tp(1): 7}
