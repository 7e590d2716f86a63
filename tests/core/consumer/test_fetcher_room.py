"""Fetcher: no fetch requests more bytes than there is room for, and no broker or partition starves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY, Request
from pykafka4.core.network.network import LANE
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk
from tests.core.consumer_harness import ConsumerHarness, batch, tp


def fetches(harness: ConsumerHarness) -> list[FetchRequest]:
    return [r.message for r in harness.pending(FetchRequest)]


def test_fetching_pauses_when_the_room_is_used_and_goes_on_when_some_was_read() -> None:
    harness = ConsumerHarness(prefetch_bytes=4_000, max_partition_fetch_bytes=2_000)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 100, size=20) + batch(100, 100, size=20)})
    assert harness.pending(FetchRequest) == []
    assert harness.wake_at == INFINITY
    assert len(harness.poll(150)) == 150
    assert harness.run() == []
    assert len(harness.poll(150)) == 50
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 200}


def test_a_partition_over_its_share_does_not_hold_up_the_others() -> None:
    harness = ConsumerHarness(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000, fetch_max_wait_ms=500)
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), tp(1), start=0)
    request = harness.fetch_at(1)
    assert request.message.max_wait_ms == 500
    harness.fetched(request, {tp(0): batch(0, 1000, size=60)})
    request = harness.fetch_at(1)
    assert harness.asked(request) == {tp(1): 0}
    assert request.message.max_wait_ms == 50  # the other may have room soon
    assert len(harness.poll(1001)) == 1000
    harness.fetched(request, {})
    assert set(harness.asked(harness.fetch_at(1))) == {tp(0), tp(1)}


def test_one_answer_is_asked_to_fit_into_the_room_that_is_left() -> None:
    harness = ConsumerHarness(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    harness.cluster.set("t", [1, 2])
    harness.assign(tp(0), tp(1), start=0)
    assert {m.max_bytes for m in fetches(harness)} == {50_000}


@pytest.mark.parametrize(("rows", "room"), [(0, 100_000), (1_000, 92_000), (20_000, 50_000)])
def test_columns_that_the_application_keeps_take_up_to_half_of_the_room(rows: int, room: int) -> None:
    harness = ConsumerHarness(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    harness.cluster.set("t", [1])
    form = harness.reader.columns.form(["offset"])
    form.begin(rows)
    form.add(Chunk("t", 0, batch(0, rows), 0, decompress=decompress, max_decompressed=1 << 20), 1 << 30)
    kept = form.finish({})
    harness.assign(tp(0), start=0)
    assert [m.max_bytes for m in fetches(harness)] == [room]
    assert len(kept[0]) == rows


def test_options_smaller_than_a_partition_still_fetch() -> None:
    harness = ConsumerHarness(fetch_max_bytes=1_000, prefetch_bytes=2_000)
    harness.cluster.set("t", [1, 1, 1])
    harness.assign(tp(0), tp(1), tp(2), start=0)
    assert [m.max_bytes for m in fetches(harness)] == [1_000]


def test_a_fetch_that_is_held_back_for_long_leaves_room_for_other_brokers() -> None:
    harness = ConsumerHarness(prefetch_bytes=100_000, max_partition_fetch_bytes=10_000)
    harness.cluster.set("t", [1, 1, 1, 1, 1, 1, 2])
    harness.assign(*map(tp, range(6)), start=0)
    asked = []
    for _ in range(3):
        request = harness.fetch_at(1)
        asked.append((request.message.max_wait_ms, request.message.max_bytes, harness.machine.fetcher._reserved))
        harness.fetched(request, {}, session=7)
    assert asked == [(500, 100_000, 60_000), (1_000, 10_000, 10_000), (2_000, 10_000, 10_000)]


def harness_of(nodes: int, **options: Any) -> ConsumerHarness:
    """Two partitions on each of so many brokers."""
    harness = ConsumerHarness(**options)
    leaders = [node for node in range(1, nodes + 1) for _ in range(2)]
    harness.cluster.set("t", leaders)
    harness.assign(*(tp(p) for p in range(len(leaders))), start=0)
    return harness


def full(harness: ConsumerHarness, request: Request, share: float) -> dict[TopicPartition, bytes]:
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
def test_buffered_and_requested_bytes_never_exceed_the_room(nodes: int, data: st.DataObject, small: bool) -> None:
    harness = harness_of(nodes, prefetch_bytes=100_000, max_partition_fetch_bytes=5_000 if small else 60_000)
    for _ in range(40):
        waiting = harness.machine.fetcher.positions.delivered - harness.reader.consumed
        asked = sum(min(m.max_bytes, sum(p.partition_max_bytes for t in m.topics for p in t.partitions)) for m in fetches(harness))
        assert waiting + asked <= 100_000
        pending = harness.pending(FetchRequest)
        if pending and data.draw(st.booleans()):
            request = data.draw(st.sampled_from(pending))
            harness.fetched(request, full(harness, request, data.draw(st.sampled_from((0.0, 0.3, 1.0)))))
        else:
            harness.poll(data.draw(st.integers(1, 3)))
            harness.run()


@given(st.integers(2, 5), st.data())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_once_all_is_read_every_broker_has_a_fetch_however_long_the_others_hold_theirs(nodes: int, data: st.DataObject) -> None:
    """What is kept for idle brokers leaves the busy ones their part, and the other way round."""
    harness = harness_of(nodes, prefetch_bytes=100_000, max_partition_fetch_bytes=60_000)
    busy = data.draw(st.sets(st.integers(1, nodes)))
    for _ in range(10):
        for request in harness.pending(FetchRequest):
            if request.node % LANE in busy:
                harness.fetched(request, full(harness, request, 1.0))
            elif data.draw(st.booleans()):
                harness.fetched(request, {})
        while harness.poll():
            pass
        harness.run()
        assert sorted(request.node % LANE for request in harness.pending(FetchRequest)) == list(range(1, nodes + 1))


def test_dropping_unread_records_frees_their_room() -> None:
    harness = ConsumerHarness(prefetch_bytes=4_000, max_partition_fetch_bytes=2_000)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 300, size=20)})
    harness.reader.drain()
    harness.reader.seek(tp(0), 0)
    harness.poll(1)
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 0}


def test_fetches_never_request_more_than_the_answer_limit() -> None:
    harness = ConsumerHarness(receive_message_max_bytes=50_000, fetch_max_bytes=50_000)
    harness.cluster.set("t", [1] * 10)
    harness.assign(*(tp(p) for p in range(10)), start=0)
    (message,) = fetches(harness)
    names_and_numbers = len("t") + 10 * 60
    assert message.max_bytes + names_and_numbers < 50_000


def test_a_partition_that_holds_nothing_has_nothing_buffered_and_one_that_holds_its_share_is_not_asked_for() -> None:
    data = batch(0, 100, size=20)
    harness = ConsumerHarness(prefetch_bytes=2 * len(data), max_partition_fetch_bytes=len(data))
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), tp(1), start=0)
    harness.run()
    assert [harness.machine.fetcher.positions[tp(n)].buffered for n in (0, 1)] == [0, 0]
    harness.fetched(harness.fetch_at(1), {tp(0): data})
    harness.run()
    assert harness.machine.fetcher.positions[tp(0)].buffered == len(data)
    assert set(harness.asked(harness.fetch_at(1))) == {tp(1)}


ROOM, SIZE = 10, 10_000  # one answer holds a batch of so many partitions


def backlog(partitions: int) -> ConsumerHarness:
    """More partitions with data on one broker than an answer has room for."""
    harness = ConsumerHarness(prefetch_bytes=4 * ROOM * SIZE, max_partition_fetch_bytes=SIZE, fetch_max_bytes=ROOM * SIZE)
    harness.cluster.set("t", [1] * partitions)
    harness.assign(*(tp(p) for p in range(partitions)), start=0)
    return harness


def serve(harness: ConsumerHarness, broken: frozenset[TopicPartition] = frozenset()) -> set[TopicPartition]:
    """Answer as brokers do: whole batches in the order of the request while there is room. The application reads them all."""
    request = harness.pending(FetchRequest)[0]
    room, answer = request.message.max_bytes, dict[TopicPartition, Any](dict.fromkeys(broken, "KAFKA_STORAGE_ERROR"))
    for place, offset in harness.asked(request).items():
        if place not in broken and room > 0:
            answer[place] = batch(offset, 1, size=SIZE - 150)
            room -= len(answer[place])
    harness.fetched(request, answer)
    harness.poll(10_000)
    return answer.keys() - broken


def nothing(harness: ConsumerHarness) -> None:
    """A round without a disturbance."""


def pause_and_resume(harness: ConsumerHarness) -> None:
    claim = harness.reader.claims[tp(0)]
    harness.machine.fetcher.pause(claim)
    harness.machine.fetcher.resume(claim)


def seek_under_way(harness: ConsumerHarness) -> None:
    """What the Fetch under way brings of these partitions is dropped."""
    for p in range(50):
        harness.reader.seek(tp(p), 0)


def new_metadata(harness: ConsumerHarness) -> None:
    harness.cluster.set("t")


def bring_back(harness: ConsumerHarness) -> None:
    harness.recovery.bring_back()


@pytest.mark.parametrize("disturb", [nothing, pause_and_resume, seek_under_way, new_metadata])
def test_partitions_with_a_backlog_are_read_in_turn_whatever_the_application_does(disturb: Callable[[ConsumerHarness], None]) -> None:
    harness = backlog(100)
    served: set[TopicPartition] = set()
    for _ in range(2 * 100 // ROOM):
        disturb(harness)
        harness.run()
        served |= serve(harness)
    assert len(served) == 100


def test_a_partition_that_fails_again_and_again_does_not_starve_the_others() -> None:
    harness = backlog(100)
    served: set[TopicPartition] = set()
    for _ in range(2 * 100 // ROOM):
        bring_back(harness)
        harness.run()
        served |= serve(harness, frozenset({tp(0)}))
    assert len(served) == 99


@pytest.mark.parametrize("disturb", [nothing, pause_and_resume])
def test_a_batch_too_large_for_its_share_comes_although_others_always_have_data(disturb: Callable[[ConsumerHarness], None]) -> None:
    """It comes whole only if no partition before it in the request has data; else the broker sends nothing of it."""
    harness = ConsumerHarness(max_partition_fetch_bytes=2_000)
    harness.cluster.set("t", [1] * 3)
    harness.assign(tp(0), tp(1), tp(2), start=0)
    firsts = set()
    for _ in range(3):
        disturb(harness)
        harness.run()
        asked = harness.asked(harness.fetch_at(1))
        first = next(iter(asked))
        firsts.add(first)
        harness.fetched(harness.fetch_at(1), {place: batch(asked[place], 1) for place in asked if place in (first, tp(0), tp(1))})
        harness.poll()
    assert tp(2) in firsts


def test_a_partition_without_data_does_not_stay_the_first() -> None:
    """Whatever a broker makes of the order: each partition is the first of a request in its turn, also if nothing of it is ever sent."""
    harness = ConsumerHarness()
    harness.cluster.set("t", [1] * 3)
    harness.assign(tp(0), tp(1), tp(2), start=0)
    firsts = []
    for _ in range(6):
        pause_and_resume(harness)
        harness.run()
        firsts.append(next(iter(harness.asked(harness.fetch_at(1)))))
        harness.fetched(harness.fetch_at(1), {})
    assert firsts == [tp(0), tp(1), tp(2)] * 2
