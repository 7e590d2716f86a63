"""Fetcher: never more is asked for than there is room, and no broker or partition starves for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from consumer_talk import Talk, batch, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY, Request
from pykafka4.core.network.network import LANE
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest


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
        waiting = talk.machine.fetcher.positions.delivered - talk.reader.consumed
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
    assert [talk.machine.fetcher.positions[tp(n)].buffered for n in (0, 1)] == [0, 0]
    talk.fetched(talk.fetch_at(1), {tp(0): data})
    talk.run()
    assert talk.machine.fetcher.positions[tp(0)].buffered == len(data)
    assert set(talk.asked(talk.fetch_at(1))) == {tp(1)}


ROOM, SIZE = 10, 10_000  # one answer holds a batch of so many partitions


def backlog(partitions: int) -> Talk:
    """More partitions with data on one broker than an answer has room for."""
    talk = Talk(prefetch_bytes=4 * ROOM * SIZE, max_partition_fetch_bytes=SIZE, fetch_max_bytes=ROOM * SIZE)
    talk.cluster.set("t", [1] * partitions)
    talk.assign(*(tp(p) for p in range(partitions)), start=0)
    return talk


def serve(talk: Talk, broken: frozenset[TopicPartition] = frozenset()) -> set[TopicPartition]:
    """Answer as brokers do: whole batches in the order of the request while there is room. The application reads them all."""
    request = talk.pending(FetchRequest)[0]
    room, answer = request.message.max_bytes, dict[TopicPartition, Any](dict.fromkeys(broken, "KAFKA_STORAGE_ERROR"))
    for place, offset in talk.asked(request).items():
        if place not in broken and room > 0:
            answer[place] = batch(offset, 1, size=SIZE - 150)
            room -= len(answer[place])
    talk.fetched(request, answer)
    talk.poll(10_000)
    return answer.keys() - broken


def nothing(talk: Talk) -> None:
    """A round without a disturbance."""


def pause_and_resume(talk: Talk) -> None:
    claim = talk.reader.claims[tp(0)]
    talk.machine.fetcher.pause(claim)
    talk.machine.fetcher.resume(claim)


def seek_under_way(talk: Talk) -> None:
    """What the Fetch under way brings of these partitions is dropped."""
    for p in range(50):
        talk.reader.seek(tp(p), 0)


def new_metadata(talk: Talk) -> None:
    talk.cluster.set("t")


def bring_back(talk: Talk) -> None:
    talk.recovery.bring_back()


@pytest.mark.parametrize("disturb", [nothing, pause_and_resume, seek_under_way, new_metadata])
def test_partitions_with_a_backlog_are_read_in_turn_whatever_the_application_does(disturb: Callable[[Talk], None]) -> None:
    talk = backlog(100)
    served: set[TopicPartition] = set()
    for _ in range(2 * 100 // ROOM):
        disturb(talk)
        talk.run()
        served |= serve(talk)
    assert len(served) == 100


def test_a_partition_that_fails_again_and_again_does_not_starve_the_others() -> None:
    talk = backlog(100)
    served: set[TopicPartition] = set()
    for _ in range(2 * 100 // ROOM):
        bring_back(talk)
        talk.run()
        served |= serve(talk, frozenset({tp(0)}))
    assert len(served) == 99


@pytest.mark.parametrize("disturb", [nothing, pause_and_resume])
def test_a_batch_too_large_for_its_share_comes_although_others_always_have_data(disturb: Callable[[Talk], None]) -> None:
    """It comes whole only if no partition before it in the request has data; else the broker sends nothing of it."""
    talk = Talk(max_partition_fetch_bytes=2_000)
    talk.cluster.set("t", [1] * 3)
    talk.assign(tp(0), tp(1), tp(2), start=0)
    firsts = set()
    for _ in range(3):
        disturb(talk)
        talk.run()
        asked = talk.asked(talk.fetch_at(1))
        first = next(iter(asked))
        firsts.add(first)
        talk.fetched(talk.fetch_at(1), {place: batch(asked[place], 1) for place in asked if place in (first, tp(0), tp(1))})
        talk.poll()
    assert tp(2) in firsts


def test_a_partition_without_data_does_not_stay_the_first() -> None:
    """Whatever a broker makes of the order: each partition is the first of a request in its turn, also if nothing of it is ever sent."""
    talk = Talk()
    talk.cluster.set("t", [1] * 3)
    talk.assign(tp(0), tp(1), tp(2), start=0)
    firsts = []
    for _ in range(6):
        pause_and_resume(talk)
        talk.run()
        firsts.append(next(iter(talk.asked(talk.fetch_at(1)))))
        talk.fetched(talk.fetch_at(1), {})
    assert firsts == [tp(0), tp(1), tp(2)] * 2
