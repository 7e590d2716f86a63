"""What options of the consumer change on the wire: fetch sizes and waits, leader epochs, time-outs, static membership."""

from __future__ import annotations

import pytest
from consumer_talk import Talk, batch, tp

from pykafka4.core.consumer.searches import Search
from pykafka4.core.subscription import Start
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


def fetch(**options: object) -> FetchRequest:
    """The first Fetch of a consumer with these options."""
    talk = Talk(**options)
    talk.cluster.set("t", [1])
    talk.cluster.epochs[tp(0)] = 6
    talk.assign(tp(0), start=0)
    message = talk.fetch_at(1).message
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
    talk = Talk()
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 3, epoch=4)})
    (part,) = talk.fetch_at(1).message.topics[0].partitions
    assert (part.fetch_offset, part.last_fetched_epoch) == (3, 4)


@pytest.mark.parametrize(("target", "timestamp"), [(Start.EARLIEST, -2), (Start.LATEST, -1)])
def test_a_search_for_an_offset_names_what_is_wanted_and_the_leaders_epoch(target: Start, timestamp: int) -> None:
    talk = Talk()
    talk.cluster.set("t", [1])
    talk.cluster.epochs[tp(0)] = 6
    nobody = lambda *_: None  # noqa: E731
    talk.machine.fetcher.searches.begin(Search(tp(0), target, nobody, nobody, lambda: True))
    talk.run()
    (part,) = talk.one(ListOffsetsRequest).message.topics[0].partitions
    assert (part.timestamp, part.current_leader_epoch) == (timestamp, 6)


def test_every_request_of_a_static_member_names_its_instance() -> None:
    talk = Talk(group_id="g", group_instance_id="i-1", session_timeout_ms=12_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=70_000)
    talk.cluster.set("t", [1])
    talk.machine.membership.subscribe(("t",))
    talk.poll()
    talk.find_coordinator()
    join = talk.one(JoinGroupRequest).message
    assert (join.group_instance_id, join.session_timeout_ms, join.rebalance_timeout_ms) == ("i-1", 12_000, 70_000)
    talk.join()
    assert talk.one(SyncGroupRequest).message.group_instance_id == "i-1"
    talk.sync([tp(0)])
    talk.reader.enter()
    talk.machine.commit({tp(0): OffsetAndMetadata(5)}, talk.now + 10, lambda error: None)
    talk.run()
    assert talk.one(OffsetCommitRequest).message.group_instance_id == "i-1"
    assert [type(r.message) for r in talk.run(2.9)] == []
    talk.run(0.2)
    assert talk.one(HeartbeatRequest).message.group_instance_id == "i-1"
    assert talk.pending(LeaveGroupRequest) == []


@pytest.mark.parametrize("interval", [1.0, 3.0, 7.0])
def test_heartbeats_follow_each_other_at_their_interval(interval: float) -> None:
    talk = Talk(group_id="g", session_timeout_ms=60_000, heartbeat_interval_ms=interval * 1000)
    talk.cluster.set("t", [1])
    talk.stable(tp(0))
    talk.reader.enter()
    for _ in range(3):
        talk.run(interval - 0.1)
        assert talk.pending(HeartbeatRequest) == []
        talk.run(0.2)
        talk.beat(talk.one(HeartbeatRequest))


def test_committed_offsets_are_asked_for_as_stable_ones() -> None:
    talk = Talk(group_id="g")
    talk.machine.offsets.lookup([tp(0)], talk.now + 10, lambda now, found: None)
    talk.find_coordinator()
    assert talk.as_sent(OffsetFetchRequest, 7).require_stable


def test_an_answer_for_a_partition_that_is_no_longer_read_is_dropped() -> None:
    talk = Talk()
    talk.cluster.set("t", [1])
    claims = talk.assign(tp(0), start=0)
    request = talk.fetch_at(1)
    talk.machine.fetcher.drop(claims)
    talk.fetched(request, {tp(0): batch(0, 3)})
    assert talk.machine.fetcher.positions.delivered == 0
    assert talk.poll() == []


def test_a_seek_does_not_end_a_pause() -> None:
    talk = Talk()
    talk.cluster.set("t", [1])
    (claim,) = talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {})
    talk.sent.clear()
    talk.machine.fetcher.pause(claim)
    talk.reader.pause(tp(0))
    talk.reader.seek(tp(0), 50)
    before = len(talk.pending(FetchRequest))
    talk.run(1)
    assert len(talk.pending(FetchRequest)) == before
    assert talk.machine.fetcher.positions[tp(0)].paused


def test_a_partition_whose_offset_was_found_is_healthy() -> None:
    talk = Talk()
    talk.cluster.set("t", [1])
    nobody = lambda *_: None  # noqa: E731
    talk.machine.fetcher.searches.begin(Search(tp(0), Start.LATEST, nobody, nobody, lambda: True))
    talk.run()
    talk.ends(3)
    assert talk.recovery.healed == [tp(0)]
