"""What options of the consumer change on the wire: fetch sizes and waits, leader epochs, timeouts, static membership."""

from __future__ import annotations

import pytest

from pykafka4.core.consumer.searches import Search
from pykafka4.core.subscription import Start
from pykafka4.errors import KafkaError
from pykafka4.records import OffsetAndMetadata
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from tests.core.consumer_harness import ConsumerHarness, batch, tp
from tests.core.member_harness import steady


class AnySearch(Search):
    """A search whose result does not matter."""

    def wanted(self) -> bool:
        return True

    def found(self, now: float, offset: int, epoch: int) -> None:
        pass

    def refused(self, now: float, error: KafkaError) -> None:
        raise error


def fetch(**options: object) -> FetchRequest:
    """The first Fetch of a consumer with these options."""
    harness = ConsumerHarness(**options)
    harness.cluster.set("t", [1])
    harness.cluster.epochs[tp(0)] = 6
    harness.assign(tp(0), start=0)
    message = harness.fetch_at(1).message
    assert isinstance(message, FetchRequest)
    return message


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("fetch_min_bytes", 77, "min_bytes"),
        ("fetch_max_wait_ms", 123, "max_wait_ms"),
        ("fetch_max_bytes", 54_321, "max_bytes"),
    ],
)
def test_fetch_carries_the_option(option: str, value: int, field: str) -> None:
    assert getattr(fetch(**{option: value}), field) == value


def test_fetch_carries_the_bytes_for_a_partition_and_the_leaders_epoch() -> None:
    (part,) = fetch(max_partition_fetch_bytes=4_321).topics[0].partitions
    assert (part.partition_max_bytes, part.current_leader_epoch) == (4_321, 6)


def test_fetch_tells_the_epoch_of_the_last_batch_that_was_read() -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3, epoch=4)})
    (part,) = harness.fetch_at(1).message.topics[0].partitions
    assert (part.fetch_offset, part.last_fetched_epoch) == (3, 4)


@pytest.mark.parametrize(("target", "timestamp"), [(Start.EARLIEST, -2), (Start.LATEST, -1)])
def test_a_search_for_an_offset_names_what_is_wanted_and_the_leaders_epoch(target: Start, timestamp: int) -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    harness.cluster.epochs[tp(0)] = 6
    harness.machine.fetcher.searches.begin(AnySearch(tp(0), target))
    harness.run()
    (part,) = harness.one(ListOffsetsRequest).message.topics[0].partitions
    assert (part.timestamp, part.current_leader_epoch) == (timestamp, 6)


def test_every_request_of_a_static_member_names_its_instance() -> None:
    harness = ConsumerHarness(
        group_id="g", group_instance_id="i-1", session_timeout_ms=12_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=70_000
    )
    harness.cluster.set("t", [1])
    harness.subscribe()
    join = harness.one(JoinGroupRequest).message
    assert (join.group_instance_id, join.session_timeout_ms, join.rebalance_timeout_ms) == ("i-1", 12_000, 70_000)
    harness.join()
    assert harness.one(SyncGroupRequest).message.group_instance_id == "i-1"
    harness.sync([tp(0)])
    harness.reader.enter()
    harness.machine.commit({tp(0): OffsetAndMetadata(5)}, harness.now + 10, lambda error: None)
    harness.run()
    assert harness.one(OffsetCommitRequest).message.group_instance_id == "i-1"
    harness.run(3.0)
    assert harness.one(HeartbeatRequest).message.group_instance_id == "i-1"
    assert harness.pending(LeaveGroupRequest) == []


@pytest.mark.parametrize("interval", [1.0, 3.0, 7.0])
def test_heartbeats_follow_each_other_at_their_interval(interval: float) -> None:
    harness = ConsumerHarness(group_id="g", session_timeout_ms=60_000, heartbeat_interval_ms=interval * 1000)
    harness.cluster.set("t", [1])
    harness.stable(tp(0))
    harness.reader.enter()
    steady(harness, seconds=20.0)
    for _ in range(3):
        harness.run(interval - 0.1)
        assert harness.pending(HeartbeatRequest) == []
        harness.run(0.1 + 1e-6)
        harness.beat(harness.one(HeartbeatRequest))


def test_committed_offsets_are_requested_as_stable_ones() -> None:
    harness = ConsumerHarness(group_id="g")
    harness.machine.offsets.lookup([tp(0)], harness.now + 10, lambda now, found: None)
    harness.find_coordinator()
    assert harness.as_sent(OffsetFetchRequest, 7).require_stable


def test_an_answer_for_a_partition_that_is_no_longer_read_is_dropped() -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    claims = harness.assign(tp(0), start=0)
    request = harness.fetch_at(1)
    harness.machine.fetcher.drop(claims)
    harness.fetched(request, {tp(0): batch(0, 3)})
    assert harness.machine.fetcher.positions.delivered == 0
    assert harness.poll() == []


def test_a_seek_does_not_end_a_pause() -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    (claim,) = harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {})
    harness.sent.clear()
    harness.machine.fetcher.pause(claim)
    harness.reader.pause(tp(0))
    harness.reader.seek(tp(0), 50)
    before = len(harness.pending(FetchRequest))
    harness.run(1)
    assert len(harness.pending(FetchRequest)) == before
    assert harness.machine.fetcher.positions[tp(0)].paused


def test_a_partition_whose_offset_was_found_is_healthy() -> None:
    harness = ConsumerHarness()
    harness.cluster.set("t", [1])
    harness.machine.fetcher.searches.begin(AnySearch(tp(0), Start.LATEST))
    harness.run()
    harness.ends(3)
    assert harness.recovery.healed == [tp(0)]
