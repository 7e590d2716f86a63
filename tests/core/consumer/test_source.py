"""Source: the request that each broker gets, and the Fetch that is left behind while another goes out beside it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.core.consumer.source import Source
from pykafka4.core.network.network import LANE
from pykafka4.core.subscription import Claim, Position, Start
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse, ListOffsetsRequest
from tests.core.consumer_harness import LOST, ConsumerHarness, batch, fetching, partition, tp


@pytest.fixture
def harness() -> ConsumerHarness:
    return fetching()


def test_each_leader_gets_one_request_with_all_its_partitions_over_a_lane_for_fetches(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(1), tp(2), start=5)
    requests = harness.pending(FetchRequest)
    assert sorted((r.node % LANE, sorted(harness.asked(r))) for r in requests) == [(1, [tp(0), tp(2)]), (2, [tp(1)])]
    assert {r.node // LANE for r in requests} == {2}
    message = requests[0].message
    assert (message.max_wait_ms, message.min_bytes, message.session_id, message.session_epoch, message.isolation_level) == (
        500,
        1,
        0,
        0,
        0,
    )
    part = message.topics[0].partitions[0]
    assert (part.fetch_offset, part.current_leader_epoch, part.partition_max_bytes) == (5, 0, 1024 * 1024)


def test_topics_go_by_id_where_all_ids_are_known(harness: ConsumerHarness) -> None:
    harness.cluster.set("t", topic_id=UUID(int=7))
    harness.cluster.set("u", [1])
    harness.assign(tp(0), start=0)
    request = harness.fetch_at(1)
    assert (request.max_version, request.message.topics[0].topic_id) == (None, UUID(int=7))
    harness.assign(tp(0, "u"), start=0)
    topics = [FetchResponse.Topic(topic_id=UUID(int=7), partitions=[partition(0, batch(0, 3))])]
    harness.answer(request, FetchResponse(session_id=0, responses=topics), version=13)
    assert [r.offset for r in harness.poll()] == [0, 1, 2]
    assert [request.max_version for request in harness.pending(FetchRequest)] == [12, 12]


@pytest.mark.parametrize(("version", "epoch"), [(12, 4), (11, -1)])
def test_the_last_epoch_read_is_named_where_the_broker_takes_it(harness: ConsumerHarness, version: int, epoch: int) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3, epoch=4)})
    assert harness.as_sent(FetchRequest, version).topics[0].partitions[0].last_fetched_epoch == epoch


def test_a_leader_that_another_user_of_the_client_lost_meanwhile_is_asked_without_its_epoch(harness: ConsumerHarness) -> None:
    harness.cluster.epochs[tp(0)] = 7
    harness.assign(tp(0), start=0)
    assert epoch_asked(harness) == 7
    harness.recovery.offline[tp(0)] = LOST
    harness.fetched(harness.fetch_at(1), {tp(0): b""})
    assert epoch_asked(harness) == -1


def epoch_asked(harness: ConsumerHarness) -> int:
    """The epoch of its leader in the Fetch of the only partition."""
    epoch: int = harness.fetch_at(1).message.topics[0].partitions[0].current_leader_epoch
    return epoch


# ---------------------------------------------------------------- a Fetch that waits for data is left behind


def test_a_seek_does_not_wait_for_the_fetch_under_way(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    waiting = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    _, beside = harness.pending(FetchRequest)
    assert beside.node % LANE == 1
    assert beside.node != waiting.node  # a connection of its own: the broker answers one request after the other
    assert harness.asked(beside) == {tp(0): 40}  # the other one is in the Fetch under way
    harness.fetched(beside, {tp(0): batch(40, 2)})
    assert [(r.partition, r.offset) for r in harness.poll()] == [(0, 40), (0, 41)]
    third = harness.pending(FetchRequest)[-1]
    assert (third.node, harness.asked(third)) == (beside.node, {tp(0): 42})
    harness.fetched(waiting, {tp(0): batch(0, 5), tp(2): batch(0, 2)})  # partition 0 was sought
    assert [(r.partition, r.offset) for r in harness.poll()] == [(2, 0), (2, 1)]
    (fourth,) = (request for request in harness.pending(FetchRequest) if request is not third)
    assert (fourth.node, harness.asked(fourth)) == (waiting.node, {tp(0): 42, tp(2): 2})


def test_records_of_the_fetch_left_behind_are_read_if_they_come_first(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    waiting = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    beside = harness.pending(FetchRequest)[-1]
    harness.fetched(waiting, {tp(2): batch(0, 2)})
    harness.fetched(beside, {tp(0): batch(40, 1)})
    assert sorted((r.partition, r.offset) for r in harness.poll()) == [(0, 40), (2, 0), (2, 1)]


def test_one_fetch_at_most_is_left_behind_at_each_broker(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    for offset in range(10, 20):
        harness.reader.seek(tp(0), offset)
        harness.run()
    assert len(harness.pending(FetchRequest)) == 2
    first, second = harness.pending(FetchRequest)
    harness.fetched(first, {})
    harness.fetched(second, {})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 19}


def test_a_position_that_waited_for_a_connection_is_taken_up_once() -> None:
    harness: Any = fetching()
    source = Source(1, (2, 3), harness.config, harness.cluster, harness.recovery)
    for number in (0, 2):
        position = Position(Claim(tp(number)), 0, Start.EARLIEST, 1000)
        position.offset = number
        source.put(position)
        assert source.leave_behind(position)
        source.fetch(0.0, 1000, 0.5, 0, harness.machine.fetcher)
    sought = Position(Claim(tp(0)), 40, Start.EARLIEST, 1000)
    assert not source.leave_behind(sought)
    assert source.take_left_out() == [sought]
    assert source.take_left_out() == []


def test_a_position_found_later_does_not_wait_either() -> None:
    harness = ConsumerHarness(fetch_max_wait_ms=500)
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), start=0)
    harness.assign(tp(1))
    harness.ends(5)
    assert harness.asked(harness.pending(FetchRequest)[-1]) == {tp(1): 5}
    assert len(harness.pending(FetchRequest)) == 2


def test_a_search_does_not_wait_behind_the_fetch_under_way(harness: ConsumerHarness) -> None:
    """The broker holds that back until there is data, and answers the Fetch beside it at once."""
    harness.assign(tp(0), start=0)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), Start.LATEST)
    harness.run()
    search = harness.one(ListOffsetsRequest)
    assert (search.node % LANE, search.node // LANE) == (1, 4)
    assert held.node // LANE == 2
    harness.ends(7)
    beside = [request for request in harness.pending(FetchRequest) if request is not held]
    assert [request.node // LANE for request in beside] == [4]
    harness.reader.seek(tp(0), Start.EARLIEST)
    harness.run()
    assert harness.one(ListOffsetsRequest).node // LANE == 4
    harness.fetched(held, {})
    harness.ends(0)
    assert {request.node // LANE for request in harness.pending(FetchRequest)} == {2, 4}


# ---------------------------------------------------------------- a broker without records holds Fetches back for longer


def held_back(harness: ConsumerHarness, rounds: int, node: int = 1) -> list[int]:
    """The longest waits in ms of as many Fetches, each answered without records."""
    waits = []
    for _ in range(rounds):
        request = harness.fetch_at(node)
        waits.append(request.message.max_wait_ms)
        harness.fetched(request, {}, session=7)
    return waits


def test_a_broker_without_records_may_hold_each_fetch_back_for_longer(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(1), start=0)
    assert held_back(harness, 7) == [500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]
    held = harness.fetch_at(1)
    assert held.deadline == pytest.approx(harness.now + 30 + 5)
    assert harness.fetch_at(2).message.max_wait_ms == 500  # each broker by itself
    harness.fetched(held, {tp(0): batch(0, 1)}, session=7)
    assert held_back(harness, 3) == [500, 1_000, 2_000]


def test_a_full_response_without_records_counts_as_none(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): b""}, session=7)
    assert harness.fetch_at(1).message.max_wait_ms == 1_000


def test_after_a_failed_fetch_the_next_is_held_back_as_usual(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    assert held_back(harness, 2) == [500, 1_000]
    harness.answer(harness.fetch_at(1), LOST)
    harness.recovery.bring_back()
    harness.run()
    assert harness.fetch_at(1).message.max_wait_ms == 500


def test_a_fetch_that_waits_for_many_bytes_is_never_held_back_for_longer() -> None:
    harness = ConsumerHarness(fetch_max_wait_ms=500, fetch_min_bytes=2)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    assert held_back(harness, 3) == [500, 500, 500]


@pytest.mark.parametrize(("option", "longest"), [(20_000, 30_000), (60_000, 60_000)])
def test_no_wait_is_extended_beyond_half_a_minute(option: int, longest: int) -> None:
    harness = ConsumerHarness(fetch_max_wait_ms=option)
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    assert held_back(harness, 3) == [option, longest, longest]


def test_a_resumed_partition_does_not_wait_for_a_fetch_that_is_held_back_for_long(harness: ConsumerHarness) -> None:
    claim, _ = harness.assign(tp(0), tp(2), start=0)
    harness.machine.fetcher.pause(claim)
    assert held_back(harness, 2) == [500, 1_000]
    harness.machine.fetcher.resume(claim)
    harness.run()
    held, beside = harness.pending(FetchRequest)
    assert (held.message.max_wait_ms, beside.message.max_wait_ms) == (2_000, 0)
    assert harness.asked(beside) == {tp(0): 0}
    assert beside.node != held.node


def test_a_resumed_partition_waits_for_a_fetch_that_is_held_back_as_usual(harness: ConsumerHarness) -> None:
    claim, _ = harness.assign(tp(0), tp(2), start=0)
    harness.machine.fetcher.pause(claim)
    harness.fetched(harness.fetch_at(1), {tp(2): batch(0, 1)}, session=7)
    assert harness.asked(harness.fetch_at(1)) == {tp(2): 1}
    harness.machine.fetcher.resume(claim)
    harness.run()
    assert len(harness.pending(FetchRequest)) == 1


def test_a_partition_whose_leader_moved_does_not_wait_for_a_fetch_that_is_held_back_for_long(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(1), start=0)
    assert held_back(harness, 2, node=2) == [500, 1_000]
    harness.cluster.set("t", [2, 2, 1])
    harness.run()
    held, beside = (request for request in harness.pending(FetchRequest) if request.node % LANE == 2)
    assert (held.message.max_wait_ms, beside.message.max_wait_ms) == (2_000, 0)
    assert harness.asked(beside) == {tp(0): 0}


def test_a_fetch_beside_one_that_was_left_behind_is_not_held_back_but_repeated(harness: ConsumerHarness) -> None:
    """A second seek would have to wait for it."""
    harness.assign(tp(0), start=0)
    held_back(harness, 1)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    for _ in range(3):
        beside = harness.pending(FetchRequest)[-1]
        assert beside.message.max_wait_ms == 0
        harness.fetched(beside, {})
        assert harness.pending(FetchRequest) == [held], "the next one follows after a pause"
        harness.run(0.06)
    beside = harness.pending(FetchRequest)[-1]
    harness.fetched(held, {}, session=7)
    beside, request = harness.pending(FetchRequest)
    assert request.message.max_wait_ms == 500
    harness.fetched(beside, {})
    harness.fetched(request, {}, session=7)
    assert held_back(harness, 1) == [2_000]  # twice as long as the last one that was alone


def test_a_second_seek_does_not_wait_for_the_fetch_that_was_left_behind(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    held = harness.fetch_at(1)
    for offset in (40, 50, 60):
        harness.reader.seek(tp(0), offset)
        harness.run()
        beside = harness.pending(FetchRequest)[-1]
        assert harness.asked(beside) == {tp(0): offset}
        harness.fetched(beside, {})
    assert harness.pending(FetchRequest) == [held]


def test_a_seek_while_both_connections_have_a_fetch_is_sent_when_one_has_ended(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    beside = harness.pending(FetchRequest)[-1]
    harness.fetched(held, {}, session=7)
    harness.reader.seek(tp(0), 50)
    harness.run()
    assert len(harness.pending(FetchRequest)) == 2
    harness.fetched(beside, {})
    held, beside = harness.pending(FetchRequest)
    assert (harness.asked(held), harness.asked(beside)) == ({tp(0): 40}, {tp(0): 50})


def test_a_search_does_not_wait_behind_a_fetch_that_is_held_back_for_long(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    held_back(harness, 4)
    harness.reader.seek(tp(0), 40)
    harness.run()
    held, beside = harness.pending(FetchRequest)
    harness.reader.seek(tp(0), Start.LATEST)
    harness.run()
    assert harness.one(ListOffsetsRequest).node == beside.node
    assert held.node != beside.node


def test_a_seek_does_not_wait_for_a_fetch_that_was_left_behind_and_includes_all_there_was(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    (beside,) = (request for request in harness.pending(FetchRequest) if request is not held)
    harness.machine.fetcher.pause(harness.reader.claims[tp(0)])
    harness.fetched(beside, {})
    assert harness.pending(FetchRequest) == [held]
    harness.reader.seek(tp(2), 50)
    harness.run()
    _, beside = harness.pending(FetchRequest)
    assert harness.asked(beside) == {tp(2): 50}


def test_a_full_partition_with_room_again_does_not_wait_for_a_fetch_that_is_held_back_for_long() -> None:
    """That one was sent before the partition was sought."""
    harness = ConsumerHarness(fetch_max_wait_ms=500, prefetch_bytes=8_000, max_partition_fetch_bytes=1_000)
    harness.cluster.set("t", [1] * 4)
    harness.assign(*map(tp, range(4)), start=0)
    held_back(harness, 4)
    held = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    harness.fetched(harness.pending(FetchRequest)[-1], {tp(0): batch(40, 1, size=2_500)})
    assert harness.pending(FetchRequest) == [held]
    assert [r.offset for r in harness.poll()] == [40]
    harness.run()
    assert [harness.asked(request) for request in harness.pending(FetchRequest)] == [{}, {tp(0): 41}]


def test_a_seek_of_a_full_partition_does_not_wait_for_a_fetch_that_is_held_back_for_long() -> None:
    harness = ConsumerHarness(fetch_max_wait_ms=500, prefetch_bytes=8_000, max_partition_fetch_bytes=1_000)
    harness.cluster.set("t", [1] * 4)
    harness.assign(*map(tp, range(4)), start=0)
    harness.reader.seek(tp(0), 40)
    harness.run()
    held, beside = harness.pending(FetchRequest)
    harness.fetched(beside, {tp(0): batch(40, 1, size=2_500)})
    assert harness.pending(FetchRequest) == [held]
    harness.reader.seek(tp(0), 50)
    harness.run()
    assert harness.asked(harness.pending(FetchRequest)[-1]) == {tp(0): 50}


def test_a_partition_that_another_broker_led_meanwhile_does_not_wait_for_the_fetch_at_its_old_offset(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    held_back(harness, 4)
    held = harness.fetch_at(1)
    harness.cluster.set("t", [2, 2, 1])
    harness.run()
    harness.fetched(harness.fetch_at(2), {tp(0): batch(0, 3)})
    harness.cluster.set("t", [1, 2, 1])
    harness.run()
    (beside,) = (request for request in harness.pending(FetchRequest) if request.node % LANE == 1 and request is not held)
    assert harness.asked(beside) == {tp(0): 3}
