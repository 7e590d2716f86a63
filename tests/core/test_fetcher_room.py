"""Fetcher: never more is asked for than there is room, and no broker or partition starves for it."""

from __future__ import annotations

from typing import Any

from consumer_talk import Talk, batch, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY, Request
from pykafka4.core.network import LANE
from pykafka4.records import TopicPartition
from pykafka4.wire.messages_data import FetchRequest


def fetches(talk: Talk) -> list[FetchRequest]:
    return [r.message for r in talk.pending(FetchRequest)]


def test_fetching_pauses_when_the_room_is_used_and_goes_on_when_some_was_read() -> None:
    talk = Talk(prefetch_bytes=4_000, max_partition_fetch_bytes=2_000)
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 100, size=20) + batch(100, 100, size=20)})
    assert talk.pending(FetchRequest) == []
    assert talk.wake_at == INFINITY
    assert len(talk.poll(150)) == 150
    assert talk.run() == []
    assert len(talk.poll(150)) == 50
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 200}


def test_a_partition_over_its_share_does_not_hold_up_the_others() -> None:
    talk = Talk(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000, fetch_max_wait_ms=500)
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1), start=0)
    request = talk.fetch_at(1)
    assert request.message.max_wait_ms == 500
    talk.fetched(request, {tp(0): batch(0, 1000, size=60)})
    request = talk.fetch_at(1)
    assert talk.asked(request) == {tp(1): 0}
    assert request.message.max_wait_ms == 50  # the other may have room soon
    assert len(talk.poll(1001)) == 1000
    talk.fetched(request, {})
    assert set(talk.asked(talk.fetch_at(1))) == {tp(0), tp(1)}


def test_one_answer_is_asked_to_fit_into_the_room_that_is_left() -> None:
    talk = Talk(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    talk.cluster.set("t", [1, 2])
    talk.assign(tp(0), tp(1), start=0)
    assert {m.max_bytes for m in fetches(talk)} == {50_000}


def test_options_smaller_than_a_partition_still_fetch() -> None:
    talk = Talk(fetch_max_bytes=1_000, prefetch_bytes=2_000)
    talk.cluster.set("t", [1, 1, 1])
    talk.assign(tp(0), tp(1), tp(2), start=0)
    assert [m.max_bytes for m in fetches(talk)] == [1_000]


def talk_of(nodes: int, **options: Any) -> Talk:
    """Two partitions on each of so many brokers."""
    talk = Talk(**options)
    leaders = [node for node in range(1, nodes + 1) for _ in range(2)]
    talk.cluster.set("t", leaders)
    talk.assign(*(tp(p) for p in range(len(leaders))), start=0)
    return talk


def full(talk: Talk, request: Request, share: float) -> dict[TopicPartition, bytes]:
    """As much as a broker may answer to `request`, or a part of it."""
    message = request.message
    left, data = int(message.max_bytes * share), {}
    for topic in message.topics:
        for part in topic.partitions:
            size = min(left, part.partition_max_bytes)
            if size > 200:
                filled = batch(part.fetch_offset, 1, size=size - 100)
                data[tp(part.partition)] = filled
                left -= len(filled)
    return data


@given(st.integers(1, 5), st.data(), st.booleans())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_what_waits_and_what_was_asked_for_never_exceed_the_room(nodes: int, data: st.DataObject, small: bool) -> None:
    talk = talk_of(nodes, prefetch_bytes=100_000, max_partition_fetch_bytes=5_000 if small else 60_000)
    for _ in range(40):
        waiting = talk.member.fetcher.delivered - talk.reader.consumed
        asked = sum(min(m.max_bytes, sum(p.partition_max_bytes for t in m.topics for p in t.partitions)) for m in fetches(talk))
        assert waiting + asked <= 100_000
        pending = talk.pending(FetchRequest)
        if pending and data.draw(st.booleans()):
            request = data.draw(st.sampled_from(pending))
            talk.fetched(request, full(talk, request, data.draw(st.sampled_from((0.0, 0.3, 1.0)))))
        else:
            talk.poll(data.draw(st.integers(1, 3)))
            talk.run()


@given(st.integers(2, 5), st.data())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_once_all_is_read_every_broker_is_being_asked_however_long_the_others_hold_their_fetch(nodes: int, data: st.DataObject) -> None:
    """What is kept for idle brokers leaves the busy ones their part, and the other way round."""
    talk = talk_of(nodes, prefetch_bytes=100_000, max_partition_fetch_bytes=60_000)
    busy = data.draw(st.sets(st.integers(1, nodes)))
    for _ in range(10):
        for request in talk.pending(FetchRequest):
            if request.node % LANE in busy:
                talk.fetched(request, full(talk, request, 1.0))
            elif data.draw(st.booleans()):
                talk.fetched(request, {})
        while talk.poll():
            pass
        talk.run()
        assert sorted(request.node % LANE for request in talk.pending(FetchRequest)) == list(range(1, nodes + 1))


def test_what_is_dropped_unread_makes_room_too() -> None:
    talk = Talk(prefetch_bytes=4_000, max_partition_fetch_bytes=2_000)
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 300, size=20)})
    talk.reader.drain()
    talk.reader.seek(tp(0), 0)
    talk.poll(1)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 0}


def test_no_answer_is_asked_for_that_would_not_be_let_in() -> None:
    talk = Talk(receive_message_max_bytes=50_000, fetch_max_bytes=50_000)
    talk.cluster.set("t", [1] * 10)
    talk.assign(*(tp(p) for p in range(10)), start=0)
    (message,) = fetches(talk)
    names_and_numbers = len("t") + 10 * 60
    assert message.max_bytes + names_and_numbers < 50_000


def test_a_partition_that_holds_nothing_has_nothing_buffered_and_one_that_holds_its_share_is_not_asked_for() -> None:
    data = batch(0, 100, size=20)
    talk = Talk(prefetch_bytes=2 * len(data), max_partition_fetch_bytes=len(data))
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1), start=0)
    talk.run()
    assert [talk.member.fetcher.positions[tp(n)].buffered for n in (0, 1)] == [0, 0]
    talk.fetched(talk.fetch_at(1), {tp(0): data})
    talk.run()
    assert talk.member.fetcher.positions[tp(0)].buffered == len(data)
    assert set(talk.asked(talk.fetch_at(1))) == {tp(1)}
