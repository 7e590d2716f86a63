"""Fetch sessions: what a Fetch names, and when a new session is opened."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import Failed, Request
from pykafka4.core.consumer.fetch_session import OtherVersion
from pykafka4.core.consumer.source import REFUSALS, WITHOUT_SESSIONS_S
from pykafka4.core.network.network import LANE
from pykafka4.errors import ConnectionLost, DecodeError
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.protocol.fields import MAX_INT32
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, code, looked_at, partition, tp

SESSION = 77
IDS = {"t": UUID(int=1), "u": UUID(int=2)}


def reading(partitions: int = 3, *others: TopicPartition, open_it: bool = True, version: int = 17, **options: Any) -> ConsumerHarness:
    """A consumer of topic t, all led by node 1, with an open session there."""
    harness = ConsumerHarness(fetch_max_wait_ms=500, **options)
    harness.cluster.set("t", [1] * partitions, topic_id=IDS["t"])
    for other in others:
        harness.cluster.set(other.topic, [1], topic_id=IDS[other.topic])
    harness.assign(*(tp(n) for n in range(partitions)), *others, start=0)
    if open_it:
        request = harness.fetch_at(1)
        assert place(request) == (0, 0)
        harness.fetched(request, dict.fromkeys(harness.asked(request), b""), session=SESSION, version=version)
        assert place(harness.fetch_at(1)) == (SESSION, 1)
    return harness


def place(request: Request) -> tuple[int, int]:
    return request.message.session_id, request.message.session_epoch


def forgotten(request: Request) -> set[tuple[UUID, int]]:
    return {(t.topic_id, p) for t in request.message.forgotten_topics_data for p in t.partitions}


def idle(harness: ConsumerHarness, **data: Any) -> Request:
    """A round without changes; the Fetch that follows."""
    harness.fetched(harness.fetch_at(1), {}, session=SESSION, version=17, **data)
    return harness.fetch_at(1)


def wrong(harness: ConsumerHarness, error: str, request: Request | None = None) -> None:
    """A broker refuses a session."""
    harness.answer(request or harness.fetch_at(1), FetchResponse(error_code=code(error), session_id=0, responses=[]), 17)


# ---------------------------------------------------------------- what is named


def test_a_fetch_without_changes_names_no_partition_and_looks_at_none(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = reading(300)
    looked = looked_at(monkeypatch)
    for epoch in (2, 3, 4):
        request = idle(harness)
        assert (place(request), harness.asked(request), forgotten(request)) == ((SESSION, epoch), {}, set())
    assert looked == []
    assert request.message.max_bytes > 0


def test_a_partition_that_brought_records_is_named_with_its_new_offset_and_those_unnamed_count_as_asked_for() -> None:
    harness = reading()
    for first in (0, 2, 4):
        harness.fetched(harness.fetch_at(1), {tp(1): batch(first, 2)}, session=SESSION, version=17)
        assert harness.asked(harness.fetch_at(1)) == {tp(1): first + 2}
    assert [r.offset for r in harness.poll()] == list(range(6))
    assert harness.asked(idle(harness)) == {}


def test_a_partition_not_read_now_leaves_the_session_and_is_named_again_later() -> None:
    harness = reading()
    claim = harness.reader.claims[tp(0)]
    harness.machine.fetcher.pause(claim)
    request = idle(harness)
    assert (harness.asked(request), forgotten(request)) == ({}, {(IDS["t"], 0)})
    assert forgotten(idle(harness)) == set()
    harness.machine.fetcher.resume(claim)
    request = idle(harness)
    assert (harness.asked(request), forgotten(request)) == ({tp(0): 0}, set())
    harness.machine.fetcher.drop([harness.reader.claims[tp(1)]])
    assert forgotten(idle(harness)) == {(IDS["t"], 1)}
    harness.cluster.set("t", [1, 1, 2])
    assert forgotten(idle(harness)) == {(IDS["t"], 2)}
    assert harness.asked(harness.fetch_at(2)) == {tp(2): 0}


def test_the_bytes_kept_free_are_those_of_the_partitions_that_are_asked_for() -> None:
    harness = reading(max_partition_fetch_bytes=10_000, fetch_min_bytes=2)  # a Fetch that is held back for longer reserves less
    assert harness.machine.fetcher._reserved == 30_000
    harness.fetched(harness.fetch_at(1), {tp(1): batch(0, 2)}, session=SESSION, version=17)
    assert harness.machine.fetcher._reserved == 30_000
    harness.machine.fetcher.pause(harness.reader.claims[tp(0)])
    idle(harness)
    assert harness.machine.fetcher._reserved == 20_000
    harness.machine.fetcher.resume(harness.reader.claims[tp(0)])
    idle(harness)
    assert harness.machine.fetcher._reserved == 30_000


def test_a_pause_and_a_resume_between_two_fetches_change_nothing_in_the_session() -> None:
    harness = reading()
    harness.machine.fetcher.pause(harness.reader.claims[tp(0)])
    harness.machine.fetcher.resume(harness.reader.claims[tp(0)])
    request = idle(harness)
    assert (place(request), harness.asked(request), forgotten(request)) == ((SESSION, 2), {}, set())


def test_partitions_without_room_leave_the_session_until_they_were_read() -> None:
    harness = reading(2, prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 1000, size=60)}, session=SESSION, version=17)
    request = harness.fetch_at(1)
    assert (harness.asked(request), forgotten(request), request.message.max_wait_ms) == ({}, {(IDS["t"], 0)}, 50)
    request = idle(harness)
    assert (harness.asked(request), forgotten(request)) == ({}, set())
    assert len(harness.poll(1001)) == 1000
    assert harness.asked(idle(harness)) == {tp(0): 1000}


@pytest.mark.parametrize("what", ["leader epoch", "limit", "fetched epoch"])
def test_everything_sent_about_a_partition_is_sent_again_when_it_changes(what: str) -> None:
    harness = reading(2)
    if what == "leader epoch":
        harness.cluster.epochs[tp(1)] = 5
        harness.cluster.set("t")
        request = idle(harness)
    else:
        data = batch(0, 1, size=3_000_000)[:1_000_000] if what == "limit" else batch(0, 1, epoch=3)
        harness.fetched(harness.fetch_at(1), {tp(1): data}, session=SESSION, version=17)
        request = harness.fetch_at(1)
    (part,) = request.message.topics[0].partitions
    told = {"leader epoch": part.current_leader_epoch, "limit": part.partition_max_bytes, "fetched epoch": part.last_fetched_epoch}
    assert part.partition == 1
    assert told[what] == {"leader epoch": 5, "limit": len(batch(0, 1, size=3_000_000)), "fetched epoch": 3}[what]


def test_a_seek_to_the_same_offset_names_nothing_and_what_comes_counts() -> None:
    harness = reading(1)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 0)
    harness.run()
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    harness.fetched(held, {}, session=SESSION, version=17)
    harness.fetched(beside, {tp(0): b""}, version=17)
    request = harness.fetch_at(1)
    assert (place(request), harness.asked(request)) == ((SESSION, 2), {})
    harness.fetched(request, {tp(0): batch(0, 2)}, session=SESSION, version=17)
    assert len(harness.poll()) == 2


@pytest.mark.parametrize("end", [1000, 1003])
def test_the_end_of_a_log_is_known_after_a_seek_although_the_broker_does_not_repeat_it(end: int) -> None:
    """A session returns a high watermark once. It may have come in the response to a Fetch from before the seek."""
    harness = reading(2)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 5)
    harness.run()
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    harness.reader.seek(tp(1), end)
    harness.run()
    harness.fetched(held, {} if end == 1000 else {tp(1): partition(1, batch(0, 3), end)}, session=SESSION, version=17)
    harness.fetched(beside, {tp(0): b""}, version=17)
    request = harness.fetch_at(1)
    assert (place(request), harness.asked(request)) == ((SESSION, 2), {tp(0): 5, tp(1): end})
    harness.fetched(request, {}, session=SESSION, version=17)
    assert harness.reader.claims[tp(1)].end == end


def test_a_topic_created_again_is_another_partition_by_id() -> None:
    harness = reading(1, tp(0, "u"))
    harness.cluster.set("t", topic_id=UUID(int=9))
    harness.run()
    harness.ends(0)
    held = next(r for r in harness.pending(FetchRequest) if place(r) == (SESSION, 1))
    for request in [r for r in harness.pending(FetchRequest) if r is not held]:
        harness.fetched(request, {}, version=17)
    topic = FetchResponse.Topic(topic_id=IDS["t"], partitions=[partition(0, batch(0, 3))])  # records of the deleted topic
    harness.answer(held, FetchResponse(session_id=SESSION, responses=[topic]), 17)
    assert harness.poll() == []
    (request,) = [r for r in harness.pending(FetchRequest) if place(r)[0] == SESSION] or [answer_beside(harness)]
    assert (harness.asked(request), forgotten(request)) == ({tp(0): 0}, {(IDS["t"], 0)})
    assert request.message.topics[0].topic_id == UUID(int=9)


def answer_beside(harness: ConsumerHarness) -> Request:
    harness.fetched(harness.fetch_at(1), {}, version=17)
    return harness.fetch_at(1)


def test_by_name_a_topic_created_again_is_not_forgotten() -> None:
    """A broker forgets after it took what is named."""
    harness = reading(1, tp(0, "u"), version=12)
    harness.cluster.set("t", topic_id=UUID(int=9))
    harness.run()
    harness.ends(0)
    for request in harness.pending(FetchRequest):
        harness.fetched(request, {}, session=SESSION if place(request)[1] > 0 else 0)
    request = next(r for r in harness.pending(FetchRequest) if place(r)[0] == SESSION)
    assert (place(request), harness.asked(request), forgotten(request)) == ((SESSION, 2), {tp(0): 0}, set())


# ---------------------------------------------------------------- a session ends


@pytest.mark.parametrize(
    "error", ["FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH", "FETCH_SESSION_TOPIC_ID_ERROR", "INCONSISTENT_TOPIC_ID"]
)
def test_a_session_that_the_broker_refuses_is_opened_again_at_once_and_nothing_goes_offline(error: str) -> None:
    harness = reading()
    harness.machine.fetcher.pause(harness.reader.claims[tp(2)])
    wrong(harness, error)
    request = harness.fetch_at(1)
    assert (place(request), harness.asked(request), forgotten(request)) == ((SESSION, 0), {tp(0): 0, tp(1): 0}, set())
    assert (harness.recovery.reports, harness.poll()) == ([], [])
    harness.fetched(request, {tp(0): batch(0, 1)}, session=78, version=17)
    request = harness.fetch_at(1)
    assert (place(request), harness.asked(request)) == ((78, 1), {tp(0): 1})


def test_a_broker_that_refuses_each_session_is_asked_without_for_a_while() -> None:
    harness = reading()
    for _ in range(REFUSALS):
        assert place(harness.fetch_at(1)) == (SESSION, 1)
        wrong(harness, "FETCH_SESSION_ID_NOT_FOUND")
        if place(harness.fetch_at(1))[1] == 0:
            harness.fetched(harness.fetch_at(1), {}, session=SESSION, version=17)
    for _ in range(3):
        assert place(harness.fetch_at(1)) == (0, -1)
        assert len(harness.asked(harness.fetch_at(1))) == 3
        harness.fetched(harness.fetch_at(1), {}, version=17)
    harness.now += WITHOUT_SESSIONS_S
    harness.fetched(harness.fetch_at(1), {}, version=17)
    assert place(harness.fetch_at(1))[1] == 0


def test_refusals_with_good_rounds_between_them_do_not_count_together() -> None:
    harness = reading()
    for _ in range(2 * REFUSALS):
        idle(harness)
        wrong(harness, "FETCH_SESSION_ID_NOT_FOUND")
        assert place(harness.fetch_at(1)) == (SESSION, 0)
        harness.fetched(harness.fetch_at(1), {}, session=SESSION, version=17)


def test_a_full_fetch_that_is_refused_takes_its_partitions_offline() -> None:
    harness = reading(open_it=False)
    wrong(harness, "FETCH_SESSION_ID_NOT_FOUND")
    assert {where for where, _ in harness.recovery.reports} == {tp(0), tp(1), tp(2)}
    assert harness.pending(FetchRequest) == []


def broken(reason: BaseException) -> Failed:
    lost = ConnectionLost("the connection failed")
    lost.__cause__ = reason
    return Failed(lost, Written.MAYBE)


@pytest.mark.parametrize("failure", [LOST, broken(DecodeError("damaged"))], ids=["lost", "undecodable"])
def test_after_a_fetch_without_an_answer_everything_is_named_again(failure: Failed) -> None:
    harness = reading()
    harness.fetched(harness.fetch_at(1), {tp(1): batch(0, 2)}, session=SESSION, version=17)
    harness.answer(harness.fetch_at(1), failure)
    assert len(harness.recovery.reports) == 3
    harness.recovery.bring_back()
    harness.run()
    request = harness.fetch_at(1)
    assert (place(request), harness.asked(request)) == ((SESSION, 0), {tp(0): 0, tp(1): 2, tp(2): 0})


def test_an_error_of_the_whole_answer_ends_the_session_too() -> None:
    harness = reading()
    wrong(harness, "UNKNOWN_SERVER_ERROR")
    assert len(harness.recovery.reports) == 3
    harness.recovery.bring_back()
    harness.run()
    assert place(harness.fetch_at(1)) == (SESSION, 0)


def test_without_room_for_a_session_each_fetch_names_everything() -> None:
    harness = reading(open_it=False)
    for _ in range(3):
        assert place(harness.fetch_at(1)) == (0, 0)
        assert len(harness.asked(harness.fetch_at(1))) == 3
        harness.fetched(harness.fetch_at(1), {tp(0): b""}, version=17)


@pytest.mark.parametrize("number", [0, SESSION + 1], ids=["closed", "replaced"])
def test_a_session_that_the_broker_closed_or_replaced_is_opened_again(number: int) -> None:
    harness = reading()
    harness.fetched(harness.fetch_at(1), {}, session=number, version=17)
    assert (place(harness.fetch_at(1)), len(harness.asked(harness.fetch_at(1)))) == ((number, 0), 3)


def test_epochs_go_on_at_1_after_the_largest() -> None:
    harness = reading()
    (source,) = harness.machine.fetcher._sources.with_positions
    source.session.epoch = MAX_INT32
    assert place(idle(harness)) == (SESSION, 1)


# ---------------------------------------------------------------- beside another, alone


def test_beside_a_fetch_that_is_held_back_the_others_are_asked_for_without_a_session() -> None:
    harness = reading()
    held = harness.fetch_at(1)
    harness.reader.seek(tp(1), 40)
    harness.run()
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    assert (place(beside), harness.asked(beside)) == ((0, -1), {tp(1): 40})
    harness.fetched(beside, {tp(1): batch(40, 1)}, version=17)
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    assert (place(beside), harness.asked(beside)) == ((0, -1), {tp(1): 41})
    harness.fetched(held, {tp(1): batch(0, 1), tp(2): batch(0, 2)}, session=SESSION, version=17)  # tp(1) was sought
    assert sorted((r.partition, r.offset) for r in harness.poll()) == [(1, 40), (2, 0), (2, 1)]
    (request,) = [r for r in harness.pending(FetchRequest) if r is not beside]  # the others do not wait for the Fetch beside
    assert (place(request), harness.asked(request)) == ((SESSION, 2), {tp(1): 41, tp(2): 2})
    assert request.node == held.node
    harness.fetched(beside, {tp(1): batch(41, 1)}, version=17)
    assert [r.offset for r in harness.poll()] == [41]
    assert harness.pending(FetchRequest) == [request]


def test_a_full_fetch_that_is_left_behind_opens_its_session_all_the_same() -> None:
    harness = reading(open_it=False)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(1), 40)
    harness.run()
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    assert place(beside) == (0, -1)
    harness.fetched(held, {}, session=SESSION, version=17)
    (request,) = [r for r in harness.pending(FetchRequest) if r is not beside]
    assert (place(request), harness.asked(request)) == ((SESSION, 1), {tp(1): 40})


@pytest.mark.parametrize("error", ["FETCH_SESSION_ID_NOT_FOUND", ""])
def test_a_session_lost_with_the_fetch_left_behind_delays_no_partition(error: str) -> None:
    harness = reading()
    held = harness.fetch_at(1)
    harness.reader.seek(tp(1), 40)
    harness.run()
    (beside,) = [r for r in harness.pending(FetchRequest) if r is not held]
    if error:
        wrong(harness, error, held)
        assert harness.recovery.reports == []
    else:
        harness.answer(held, LOST)
        harness.recovery.bring_back()
        harness.run()
    harness.fetched(beside, {tp(1): batch(40, 1)}, version=17)
    assert [r.offset for r in harness.poll()] == [40]
    request = harness.fetch_at(1)
    assert place(request) == (SESSION, 0)
    if not error:  # sent before the others were back
        harness.fetched(request, {tp(1): batch(40, 1)}, session=SESSION + 1, version=17)
        request = harness.fetch_at(1)
    assert {tp(0): 0, tp(2): 0}.items() <= harness.asked(request).items()


def test_partitions_whose_answer_was_too_large_are_asked_for_one_by_one_without_a_session() -> None:
    harness = reading(2)
    harness.answer(harness.fetch_at(1), broken(FrameTooLarge(61_000, 50_000)))
    for number in (0, 1):
        request = harness.fetch_at(1)
        assert (place(request), harness.asked(request), request.message.max_wait_ms) == ((0, -1), {tp(number): 0}, 0)
        harness.fetched(request, {tp(number): batch(0, 1)}, version=17)
    assert (place(harness.fetch_at(1)), harness.asked(harness.fetch_at(1))) == ((SESSION, 0), {tp(0): 1, tp(1): 1})


# ---------------------------------------------------------------- versions


@pytest.mark.parametrize(("opened", "now"), [(17, 12), (12, 13), (12, 6)])
def test_a_session_does_not_survive_another_kind_of_version(opened: int, now: int) -> None:
    """Nothing is sent then, nothing goes offline; the next Fetch opens another."""
    harness = reading(version=opened)
    request = harness.fetch_at(1)
    assert request.fit is not None
    with pytest.raises(OtherVersion) as refusal:
        request.fit(request.message, now)
    harness.answer(request, Failed(refusal.value, Written.NO))
    assert harness.recovery.reports == []
    assert (place(harness.fetch_at(1)), len(harness.asked(harness.fetch_at(1)))) == ((SESSION, 0), 3)
    harness.as_sent(FetchRequest, now)


@pytest.mark.parametrize(("opened", "now"), [(17, 13), (12, 7)])
def test_a_session_survives_other_versions(opened: int, now: int) -> None:
    harness = reading(version=opened)
    harness.as_sent(FetchRequest, now)


def test_a_topic_without_an_id_makes_the_session_go_by_name() -> None:
    harness = reading()
    harness.cluster.set("u", [1])
    harness.assign(tp(0, "u"), start=0)
    (request,) = [r for r in harness.pending(FetchRequest) if place(r) != (SESSION, 1)]
    assert request.max_version == 12
    harness.cluster.set("u", topic_id=IDS["u"])
    for pending in harness.pending(FetchRequest):
        harness.fetched(pending, {}, session=SESSION if place(pending)[1] > 0 else 0)
    assert next(r for r in harness.pending(FetchRequest) if place(r)[0] == SESSION).max_version is None


def test_a_session_goes_by_name_only_while_a_topic_of_it_has_no_id() -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1], topic_id=IDS["t"])
    harness.cluster.set("u", [1])
    harness.assign(tp(0), tp(0, "u"), start=0)
    harness.fetched(harness.fetch_at(1), {}, session=SESSION)
    assert harness.fetch_at(1).max_version == 12
    harness.cluster.set("u", topic_id=IDS["u"])
    harness.fetched(harness.fetch_at(1), {}, session=SESSION)
    assert harness.fetch_at(1).max_version is None


def test_a_session_that_is_opened_again_counts_only_the_partitions_that_it_names() -> None:
    harness = ConsumerHarness(max_partition_fetch_bytes=10_000, fetch_min_bytes=2)
    harness.cluster.set("t", [1], topic_id=IDS["t"])
    harness.cluster.set("u", [1])
    harness.assign(tp(0), tp(0, "u"), start=0)
    harness.fetched(harness.fetch_at(1), {}, session=SESSION)
    wrong(harness, "FETCH_SESSION_ID_NOT_FOUND")
    assert (place(harness.fetch_at(1))[1], harness.machine.fetcher._reserved) == (0, 20_000)
    harness.cluster.set("u", topic_id=IDS["u"])
    harness.fetched(harness.fetch_at(1), {}, session=SESSION)
    assert harness.fetch_at(1).max_version is None


# ---------------------------------------------------------------- the order


def answer_in_order(harness: ConsumerHarness, order: list[TopicPartition], positions: dict[TopicPartition, int]) -> TopicPartition:
    """Answer as a broker in a session does that has more of each partition than one answer holds; who got it."""
    request = harness.fetch_at(1)
    named, out = harness.asked(request), {TopicPartition("t", p) for _, p in forgotten(request)}
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
    harness.fetched(request, {first: batch(positions[first], 1)}, session=SESSION, version=17)
    harness.poll()
    return first


def test_a_partition_that_is_paused_again_and_again_is_read_although_it_always_comes_last_in_the_session() -> None:
    harness = reading(10, open_it=False)
    order: list[TopicPartition] = []
    served, positions, full = [], dict[TopicPartition, int](), 0
    for turn in range(60):
        claim = harness.reader.claims[tp(9)]
        (harness.machine.fetcher.resume if turn % 2 else harness.machine.fetcher.pause)(claim)
        harness.run()
        full += place(harness.fetch_at(1))[1] == 0
        served.append(answer_in_order(harness, order, positions))
    assert served.count(tp(9)) >= 2
    assert min(served.count(tp(n)) for n in range(9)) >= 4
    assert full <= 6


def test_a_fetch_that_names_all_does_so_in_the_order_in_which_partitions_were_served() -> None:
    harness = reading(4)
    for number in (2, 3):
        harness.fetched(harness.fetch_at(1), {tp(number): batch(0, 1)}, session=SESSION, version=17)
    wrong(harness, "FETCH_SESSION_ID_NOT_FOUND")
    # 0 was the first of the Fetch that opened the session
    assert list(harness.asked(harness.fetch_at(1))) == [tp(1), tp(0), tp(2), tp(3)]


@pytest.mark.parametrize("open_it", [True, False])
def test_nothing_is_kept_of_partitions_that_are_not_read_any_more(open_it: bool) -> None:
    """The session that the broker keeps ends with the next Fetch that it gets."""
    harness = reading(open_it=open_it)
    (source,) = harness.machine.fetcher._sources.with_positions
    held = harness.fetch_at(1)
    harness.machine.fetcher.drop(list(harness.reader.claims.values()))
    harness.run()
    harness.fetched(held, {}, session=SESSION, version=17)
    assert (source.session.asked, source._news, source.positions) == ({}, {}, {})
    assert harness.pending(FetchRequest) == []
    harness.assign(tp(1), start=5)
    assert (place(harness.fetch_at(1)), harness.asked(harness.fetch_at(1))) == ((SESSION, 0), {tp(1): 5})


def test_a_removed_broker_is_forgotten() -> None:
    harness = reading()
    sources = harness.machine.fetcher._sources
    held = harness.fetch_at(1)
    harness.cluster.brokers.pop(1)
    harness.cluster.set("t", [2, 2, 2])
    harness.run()
    assert list(sources._by_node) == [1, 2]
    harness.answer(held, LOST)
    assert list(sources._by_node) == [2]
    assert held.node % LANE == 1
