"""Fetch sessions: what a Fetch names, and when a session begins anew."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from consumer_talk import LOST, Talk, batch, code, looked_at, partition, tp

from pykafka4.core import Failed, Request
from pykafka4.core.consumer.session import OtherVersion
from pykafka4.core.consumer.source import REFUSALS, WITHOUT_SESSIONS
from pykafka4.core.network.network import LANE
from pykafka4.error_table import Written
from pykafka4.errors import ConnectionLost, DecodeError
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from pykafka4.wire.protocol.schema import MAX_INT32

SESSION = 77
IDS = {"t": UUID(int=1), "u": UUID(int=2)}


def reading(partitions: int = 3, *others: TopicPartition, open_it: bool = True, version: int = 17, **options: Any) -> Talk:
    """A consumer of topic t, all led by node 1, with an open session there."""
    talk = Talk(fetch_max_wait_ms=500, **options)
    talk.cluster.set("t", [1] * partitions, topic_id=IDS["t"])
    for other in others:
        talk.cluster.set(other.topic, [1], topic_id=IDS[other.topic])
    talk.assign(*(tp(n) for n in range(partitions)), *others, start=0)
    if open_it:
        request = talk.fetch_at(1)
        assert place(request) == (0, 0)
        talk.fetched(request, dict.fromkeys(talk.asked(request), b""), session=SESSION, version=version)
        assert place(talk.fetch_at(1)) == (SESSION, 1)
    return talk


def place(request: Request) -> tuple[int, int]:
    return request.message.session_id, request.message.session_epoch


def forgotten(request: Request) -> set[tuple[UUID, int]]:
    return {(t.topic_id, p) for t in request.message.forgotten_topics_data for p in t.partitions}


def idle(talk: Talk, **data: Any) -> Request:
    """A round without news; the Fetch that follows."""
    talk.fetched(talk.fetch_at(1), {}, session=SESSION, version=17, **data)
    return talk.fetch_at(1)


def wrong(talk: Talk, error: str, request: Request | None = None) -> None:
    """A broker refuses a session."""
    talk.answer(request or talk.fetch_at(1), FetchResponse(error_code=code(error), session_id=0, responses=[]), 17)


# ---------------------------------------------------------------- what is named


def test_a_round_without_news_names_nothing_and_looks_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = reading(300)
    looked = looked_at(monkeypatch)
    for epoch in (2, 3, 4):
        request = idle(talk)
        assert (place(request), talk.asked(request), forgotten(request)) == ((SESSION, epoch), {}, set())
    assert looked == []
    assert request.message.max_bytes > 0


def test_a_partition_that_brought_records_is_named_with_its_new_offset_and_those_unnamed_count_as_asked_for() -> None:
    talk = reading()
    for first in (0, 2, 4):
        talk.fetched(talk.fetch_at(1), {tp(1): batch(first, 2)}, session=SESSION, version=17)
        assert talk.asked(talk.fetch_at(1)) == {tp(1): first + 2}
    assert [r.offset for r in talk.poll()] == list(range(6))
    assert talk.asked(idle(talk)) == {}


def test_what_is_not_to_be_read_now_is_forgotten_and_named_again_later() -> None:
    talk = reading()
    claim = talk.reader.claims[tp(0)]
    talk.machine.fetcher.pause(claim)
    request = idle(talk)
    assert (talk.asked(request), forgotten(request)) == ({}, {(IDS["t"], 0)})
    assert forgotten(idle(talk)) == set()
    talk.machine.fetcher.resume(claim)
    request = idle(talk)
    assert (talk.asked(request), forgotten(request)) == ({tp(0): 0}, set())
    talk.machine.fetcher.drop([talk.reader.claims[tp(1)]])
    assert forgotten(idle(talk)) == {(IDS["t"], 1)}
    talk.cluster.set("t", [1, 1, 2])
    assert forgotten(idle(talk)) == {(IDS["t"], 2)}
    assert talk.asked(talk.fetch_at(2)) == {tp(2): 0}


def test_the_bytes_kept_free_are_those_of_the_partitions_that_are_asked_for() -> None:
    talk = reading(max_partition_fetch_bytes=10_000)
    assert talk.machine.fetcher._reserved == 30_000
    talk.fetched(talk.fetch_at(1), {tp(1): batch(0, 2)}, session=SESSION, version=17)
    assert talk.machine.fetcher._reserved == 30_000
    talk.machine.fetcher.pause(talk.reader.claims[tp(0)])
    idle(talk)
    assert talk.machine.fetcher._reserved == 20_000
    talk.machine.fetcher.resume(talk.reader.claims[tp(0)])
    idle(talk)
    assert talk.machine.fetcher._reserved == 30_000


def test_a_pause_and_a_resume_between_two_fetches_are_no_news() -> None:
    talk = reading()
    talk.machine.fetcher.pause(talk.reader.claims[tp(0)])
    talk.machine.fetcher.resume(talk.reader.claims[tp(0)])
    request = idle(talk)
    assert (place(request), talk.asked(request), forgotten(request)) == ((SESSION, 2), {}, set())


def test_what_has_no_room_is_forgotten_until_it_was_read() -> None:
    talk = reading(2, prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 1000, size=60)}, session=SESSION, version=17)
    request = talk.fetch_at(1)
    assert (talk.asked(request), forgotten(request), request.message.max_wait_ms) == ({}, {(IDS["t"], 0)}, 50)
    request = idle(talk)
    assert (talk.asked(request), forgotten(request)) == ({}, set())
    assert len(talk.poll(1001)) == 1000
    assert talk.asked(idle(talk)) == {tp(0): 1000}


@pytest.mark.parametrize("what", ["leader epoch", "limit", "fetched epoch"])
def test_all_that_a_broker_was_told_of_a_partition_is_told_again_when_it_changes(what: str) -> None:
    talk = reading(2)
    if what == "leader epoch":
        talk.cluster.epochs[tp(1)] = 5
        talk.cluster.set("t")
        request = idle(talk)
    else:
        data = batch(0, 1, size=3_000_000)[:1_000_000] if what == "limit" else batch(0, 1, epoch=3)
        talk.fetched(talk.fetch_at(1), {tp(1): data}, session=SESSION, version=17)
        request = talk.fetch_at(1)
    (part,) = request.message.topics[0].partitions
    told = {"leader epoch": part.current_leader_epoch, "limit": part.partition_max_bytes, "fetched epoch": part.last_fetched_epoch}
    assert part.partition == 1
    assert told[what] == {"leader epoch": 5, "limit": len(batch(0, 1, size=3_000_000)), "fetched epoch": 3}[what]


def test_a_seek_to_the_same_offset_names_nothing_and_what_comes_counts() -> None:
    talk = reading(1)
    held = talk.fetch_at(1)
    talk.reader.seek(tp(0), 0)
    talk.run()
    (beside,) = [r for r in talk.pending(FetchRequest) if r is not held]
    talk.fetched(held, {}, session=SESSION, version=17)
    talk.fetched(beside, {tp(0): b""}, version=17)
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request)) == ((SESSION, 2), {})
    talk.fetched(request, {tp(0): batch(0, 2)}, session=SESSION, version=17)
    assert len(talk.poll()) == 2


def test_a_topic_created_again_is_another_partition_by_id() -> None:
    talk = reading(1, tp(0, "u"))
    talk.cluster.set("t", topic_id=UUID(int=9))
    talk.run()
    talk.ends(0)
    held = next(r for r in talk.pending(FetchRequest) if place(r) == (SESSION, 1))
    for request in [r for r in talk.pending(FetchRequest) if r is not held]:
        talk.fetched(request, {}, version=17)
    topic = FetchResponse.Topic(topic_id=IDS["t"], partitions=[partition(0, batch(0, 3))])  # records of the topic that is gone
    talk.answer(held, FetchResponse(session_id=SESSION, responses=[topic]), 17)
    assert talk.poll() == []
    (request,) = [r for r in talk.pending(FetchRequest) if place(r)[0] == SESSION] or [answer_beside(talk)]
    assert (talk.asked(request), forgotten(request)) == ({tp(0): 0}, {(IDS["t"], 0)})
    assert request.message.topics[0].topic_id == UUID(int=9)


def answer_beside(talk: Talk) -> Request:
    talk.fetched(talk.fetch_at(1), {}, version=17)
    return talk.fetch_at(1)


def test_by_name_a_topic_created_again_is_not_forgotten() -> None:
    """A broker forgets after it took what is named."""
    talk = reading(1, tp(0, "u"), version=12)
    talk.cluster.set("t", topic_id=UUID(int=9))
    talk.run()
    talk.ends(0)
    for request in talk.pending(FetchRequest):
        talk.fetched(request, {}, session=SESSION if place(request)[1] > 0 else 0)
    request = next(r for r in talk.pending(FetchRequest) if place(r)[0] == SESSION)
    assert (place(request), talk.asked(request), forgotten(request)) == ((SESSION, 2), {tp(0): 0}, set())


# ---------------------------------------------------------------- a session ends


@pytest.mark.parametrize(
    "error", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR", "INCONSISTENT_TOPIC_ID"]
)
def test_a_session_that_the_broker_refuses_is_begun_anew_at_once_and_nothing_goes_offline(error: str) -> None:
    talk = reading()
    talk.machine.fetcher.pause(talk.reader.claims[tp(2)])
    wrong(talk, error)
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request), forgotten(request)) == ((SESSION, 0), {tp(0): 0, tp(1): 0}, set())
    assert (talk.recovery.reports, talk.poll()) == ([], [])
    talk.fetched(request, {tp(0): batch(0, 1)}, session=78, version=17)
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request)) == ((78, 1), {tp(0): 1})


def test_a_broker_that_refuses_each_session_is_asked_without_for_a_while() -> None:
    talk = reading()
    for _ in range(REFUSALS):
        assert place(talk.fetch_at(1)) == (SESSION, 1)
        wrong(talk, "FETCH_SESSION_ID_NOT_FOUND")
        if place(talk.fetch_at(1))[1] == 0:
            talk.fetched(talk.fetch_at(1), {}, session=SESSION, version=17)
    for _ in range(3):
        assert place(talk.fetch_at(1)) == (0, -1)
        assert len(talk.asked(talk.fetch_at(1))) == 3
        talk.fetched(talk.fetch_at(1), {}, version=17)
    talk.now += WITHOUT_SESSIONS
    talk.fetched(talk.fetch_at(1), {}, version=17)
    assert place(talk.fetch_at(1))[1] == 0


def test_refusals_with_good_rounds_between_them_do_not_count_together() -> None:
    talk = reading()
    for _ in range(2 * REFUSALS):
        idle(talk)
        wrong(talk, "FETCH_SESSION_ID_NOT_FOUND")
        assert place(talk.fetch_at(1)) == (SESSION, 0)
        talk.fetched(talk.fetch_at(1), {}, session=SESSION, version=17)


def test_a_full_fetch_that_is_refused_takes_its_partitions_offline() -> None:
    talk = reading(open_it=False)
    wrong(talk, "FETCH_SESSION_ID_NOT_FOUND")
    assert {where for where, _ in talk.recovery.reports} == {tp(0), tp(1), tp(2)}
    assert talk.pending(FetchRequest) == []


def broken(reason: BaseException) -> Failed:
    lost = ConnectionLost("the connection failed")
    lost.__cause__ = reason
    return Failed(lost, Written.MAYBE)


@pytest.mark.parametrize("failure", [LOST, broken(DecodeError("damaged"))], ids=["lost", "undecodable"])
def test_after_a_fetch_without_an_answer_everything_is_named_again(failure: Failed) -> None:
    talk = reading()
    talk.fetched(talk.fetch_at(1), {tp(1): batch(0, 2)}, session=SESSION, version=17)
    talk.answer(talk.fetch_at(1), failure)
    assert len(talk.recovery.reports) == 3
    talk.recovery.bring_back()
    talk.run()
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request)) == ((SESSION, 0), {tp(0): 0, tp(1): 2, tp(2): 0})


def test_an_error_of_the_whole_answer_ends_the_session_too() -> None:
    talk = reading()
    wrong(talk, "UNKNOWN_SERVER_ERROR")
    assert len(talk.recovery.reports) == 3
    talk.recovery.bring_back()
    talk.run()
    assert place(talk.fetch_at(1)) == (SESSION, 0)


def test_without_room_for_a_session_each_fetch_names_everything() -> None:
    talk = reading(open_it=False)
    for _ in range(3):
        assert place(talk.fetch_at(1)) == (0, 0)
        assert len(talk.asked(talk.fetch_at(1))) == 3
        talk.fetched(talk.fetch_at(1), {tp(0): b""}, version=17)


def test_a_session_that_the_broker_has_ended_is_begun_anew() -> None:
    talk = reading()
    talk.fetched(talk.fetch_at(1), {}, session=0, version=17)
    assert (place(talk.fetch_at(1)), len(talk.asked(talk.fetch_at(1)))) == ((0, 0), 3)


def test_epochs_go_on_at_1_after_the_largest() -> None:
    talk = reading()
    (source,) = talk.machine.fetcher._sources.leading
    source.session.epoch = MAX_INT32
    assert place(idle(talk)) == (SESSION, 1)


# ---------------------------------------------------------------- beside another, alone


def test_beside_a_fetch_that_is_held_back_everything_is_asked_for_without_a_session() -> None:
    talk = reading()
    held = talk.fetch_at(1)
    talk.reader.seek(tp(1), 40)
    talk.run()
    (beside,) = [r for r in talk.pending(FetchRequest) if r is not held]
    assert (place(beside), talk.asked(beside)) == ((0, -1), {tp(0): 0, tp(1): 40, tp(2): 0})
    talk.fetched(beside, {tp(1): batch(40, 1), tp(2): batch(0, 2)}, version=17)
    (beside,) = [r for r in talk.pending(FetchRequest) if r is not held]
    assert place(beside) == (0, -1)
    talk.fetched(held, {tp(1): batch(0, 1), tp(2): batch(0, 2)}, session=SESSION, version=17)  # was sought, was read
    assert sorted((r.partition, r.offset) for r in talk.poll()) == [(1, 40), (2, 0), (2, 1)]
    talk.fetched(beside, {}, version=17)
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request)) == ((SESSION, 2), {tp(1): 41, tp(2): 2})


def test_a_full_fetch_that_is_left_behind_opens_its_session_all_the_same() -> None:
    talk = reading(open_it=False)
    held = talk.fetch_at(1)
    talk.reader.seek(tp(1), 40)
    talk.run()
    (beside,) = [r for r in talk.pending(FetchRequest) if r is not held]
    assert place(beside) == (0, -1)
    talk.fetched(held, {}, session=SESSION, version=17)
    talk.fetched(beside, {}, version=17)
    request = talk.fetch_at(1)
    assert (place(request), talk.asked(request)) == ((SESSION, 1), {tp(1): 40})


@pytest.mark.parametrize("error", ["FETCH_SESSION_ID_NOT_FOUND", ""])
def test_a_session_lost_with_the_fetch_left_behind_disturbs_nobody(error: str) -> None:
    talk = reading()
    held = talk.fetch_at(1)
    talk.reader.seek(tp(1), 40)
    talk.run()
    (beside,) = [r for r in talk.pending(FetchRequest) if r is not held]
    if error:
        wrong(talk, error, held)
        assert talk.recovery.reports == []
    else:
        talk.answer(held, LOST)
        talk.recovery.bring_back()
        talk.run()
    talk.fetched(beside, {tp(1): batch(40, 1)}, version=17)
    assert [r.offset for r in talk.poll()] == [40]
    assert (place(talk.fetch_at(1)), talk.asked(talk.fetch_at(1))) == ((SESSION, 0), {tp(0): 0, tp(2): 0, tp(1): 41})


def test_partitions_whose_answer_was_too_large_are_asked_for_one_by_one_without_a_session() -> None:
    talk = reading(2)
    talk.answer(talk.fetch_at(1), broken(FrameTooLarge(61_000, 50_000)))
    for number in (0, 1):
        request = talk.fetch_at(1)
        assert (place(request), talk.asked(request), request.message.max_wait_ms) == ((0, -1), {tp(number): 0}, 0)
        talk.fetched(request, {tp(number): batch(0, 1)}, version=17)
    assert (place(talk.fetch_at(1)), talk.asked(talk.fetch_at(1))) == ((SESSION, 0), {tp(0): 1, tp(1): 1})


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(("opened", "now"), [(17, 12), (12, 13), (12, 6)])
def test_a_session_does_not_survive_another_kind_of_version(opened: int, now: int) -> None:
    """Nothing is sent then, nothing goes offline; the next Fetch opens another."""
    talk = reading(version=opened)
    request = talk.fetch_at(1)
    assert request.fit is not None
    with pytest.raises(OtherVersion) as refusal:
        request.fit(request.message, now)
    talk.answer(request, Failed(refusal.value, Written.NO))
    assert talk.recovery.reports == []
    assert (place(talk.fetch_at(1)), len(talk.asked(talk.fetch_at(1)))) == ((SESSION, 0), 3)
    talk.as_sent(FetchRequest, now)


@pytest.mark.parametrize(("opened", "now"), [(17, 13), (12, 7)])
def test_a_session_survives_other_versions(opened: int, now: int) -> None:
    talk = reading(version=opened)
    talk.as_sent(FetchRequest, now)


def test_a_topic_without_an_id_makes_the_session_go_by_name() -> None:
    talk = reading()
    talk.cluster.set("u", [1])
    talk.assign(tp(0, "u"), start=0)
    (request,) = [r for r in talk.pending(FetchRequest) if place(r) != (SESSION, 1)]
    assert request.max_version == 12
    talk.cluster.set("u", topic_id=IDS["u"])
    for pending in talk.pending(FetchRequest):
        talk.fetched(pending, {}, session=SESSION if place(pending)[1] > 0 else 0)
    assert next(r for r in talk.pending(FetchRequest) if place(r)[0] == SESSION).max_version is None


def test_a_session_goes_by_name_only_while_a_topic_of_it_has_no_id() -> None:
    talk = Talk()
    talk.cluster.set("t", [1], topic_id=IDS["t"])
    talk.cluster.set("u", [1])
    talk.assign(tp(0), tp(0, "u"), start=0)
    talk.fetched(talk.fetch_at(1), {}, session=SESSION)
    assert talk.fetch_at(1).max_version == 12
    talk.cluster.set("u", topic_id=IDS["u"])
    talk.fetched(talk.fetch_at(1), {}, session=SESSION)
    assert talk.fetch_at(1).max_version is None


# ---------------------------------------------------------------- the order


def answer_in_order(talk: Talk, order: list[TopicPartition], positions: dict[TopicPartition, int]) -> TopicPartition:
    """Answer as a broker in a session does that has more of each partition than one answer holds; who got it."""
    request = talk.fetch_at(1)
    named, out = talk.asked(request), {TopicPartition("t", p) for _, p in forgotten(request)}
    if place(request)[1] == 0:
        order.clear()
        positions.clear()
    order += [where for where in named if where not in order]
    positions.update(named)
    order[:] = [where for where in order if where not in out]
    first = order[0]
    if place(request)[1] > 0:  # after a full Fetch nothing moves
        order.remove(first)
        order.append(first)
    talk.fetched(request, {first: batch(positions[first], 1)}, session=SESSION, version=17)
    talk.poll()
    return first


def test_a_partition_that_is_paused_again_and_again_is_read_although_it_always_comes_last_in_the_session() -> None:
    talk = reading(10, open_it=False)
    order: list[TopicPartition] = []
    served, positions, full = [], dict[TopicPartition, int](), 0
    for turn in range(60):
        claim = talk.reader.claims[tp(9)]
        (talk.machine.fetcher.resume if turn % 2 else talk.machine.fetcher.pause)(claim)
        talk.run()
        full += place(talk.fetch_at(1))[1] == 0
        served.append(answer_in_order(talk, order, positions))
    assert served.count(tp(9)) >= 2
    assert min(served.count(tp(n)) for n in range(9)) >= 4
    assert full <= 6


def test_a_fetch_that_names_all_does_so_in_the_order_in_which_partitions_were_served() -> None:
    talk = reading(4)
    for number in (2, 0):
        talk.fetched(talk.fetch_at(1), {tp(number): batch(0, 1)}, session=SESSION, version=17)
    wrong(talk, "FETCH_SESSION_ID_NOT_FOUND")
    # 0 was also the first of the Fetch that opened the session
    assert list(talk.asked(talk.fetch_at(1))) == [tp(1), tp(3), tp(2), tp(0)]


@pytest.mark.parametrize("open_it", [True, False])
def test_nothing_is_kept_of_partitions_that_are_not_read_any_more(open_it: bool) -> None:
    """The session that the broker keeps ends with the next Fetch that it gets."""
    talk = reading(open_it=open_it)
    (source,) = talk.machine.fetcher._sources.leading
    held = talk.fetch_at(1)
    talk.machine.fetcher.drop(list(talk.reader.claims.values()))
    talk.run()
    talk.fetched(held, {}, session=SESSION, version=17)
    assert (source.session.asked, source._news, source.line) == ({}, {}, {})
    assert talk.pending(FetchRequest) == []
    talk.assign(tp(1), start=5)
    assert (place(talk.fetch_at(1)), talk.asked(talk.fetch_at(1))) == ((SESSION, 0), {tp(1): 5})


def test_a_broker_that_is_gone_is_forgotten() -> None:
    talk = reading()
    sources = talk.machine.fetcher._sources
    held = talk.fetch_at(1)
    talk.cluster.brokers.pop(1)
    talk.cluster.set("t", [2, 2, 2])
    talk.run()
    assert list(sources._by_node) == [1, 2]
    talk.answer(held, LOST)
    assert list(sources._by_node) == [2]
    assert held.node % LANE == 1
