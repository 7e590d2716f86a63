"""Start offsets: where reading begins, and where it continues when the offset or the topic was deleted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from pykafka4.core.consumer.start_offsets import RETRY_LOOKUP_S
from pykafka4.core.subscription import Since, Start
from pykafka4.errors import AuthorizationError, BrokerError, KafkaError
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import OffsetFetchRequest
from tests.core.consumer_harness import ConsumerHarness, batch, fetched_epoch, fetching, tp

EARLIEST, LATEST = -2, -1


@pytest.fixture
def harness() -> ConsumerHarness:
    return fetching()


def test_without_a_committed_offset_the_policy_decides() -> None:
    for policy, timestamp in (("earliest", -2), ("latest", -1)):
        harness = ConsumerHarness(auto_offset_reset=policy)
        harness.cluster.set("t", [1])
        harness.assign(tp(0))
        (request,) = harness.pending(ListOffsetsRequest)
        assert request.message.topics[0].partitions[0].timestamp == timestamp
        harness.ends(42)
        assert harness.asked(harness.fetch_at(1)) == {tp(0): 42}
        assert fetched_epoch(harness, 42) == -1
        assert harness.poll() == []
        assert harness.reader.positions() == {tp(0): 42}


def test_with_a_committed_offset_reading_goes_on_there() -> None:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), tp(1))
    harness.find_coordinator()
    harness.committed({tp(0): 30})
    harness.ends(0)
    assert [harness.asked(request) for request in harness.pending(FetchRequest)] == [{tp(0): 30}, {tp(1): 0}]


def test_when_the_committed_offsets_are_refused_all_partitions_are_asked_for_again() -> None:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), tp(1))
    harness.find_coordinator()
    harness.committed(error="TOPIC_AUTHORIZATION_FAILED")
    harness.run(RETRY_LOOKUP_S)
    assert harness.one(OffsetFetchRequest).message.topics[0].partition_indexes == [0, 1]


def asked_when_it_appears(**where: Any) -> int:
    """The time that offsets are asked for, of a partition assigned before its topic was there."""
    harness = ConsumerHarness(auto_offset_reset="latest")
    harness.assign(tp(0, "later"), **where)
    harness.cluster.set("later", error="UNKNOWN_TOPIC_OR_PARTITION")
    harness.run()
    harness.cluster.set("later", [1])
    harness.run()
    (request,) = harness.pending(ListOffsetsRequest)
    timestamp: int = request.message.topics[0].partitions[0].timestamp
    return timestamp


def test_a_partition_that_appeared_after_assign_is_read_from_its_beginning() -> None:
    assert asked_when_it_appears() == -2


def test_a_partition_that_is_added_after_assign_is_read_from_its_beginning() -> None:
    harness = ConsumerHarness(auto_offset_reset="latest")
    harness.cluster.set("t", [1])
    harness.assign(tp(1))
    harness.run()
    harness.cluster.set("t", [1, 1])
    harness.run()
    (request,) = harness.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -2


def test_seek_to_end_means_the_end_even_of_a_topic_that_appears_later() -> None:
    assert asked_when_it_appears(start=Start.LATEST) == -1


def test_an_offset_out_of_range_goes_by_policy_behind_what_was_fetched_before(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 3)})
    harness.fetched(harness.fetch_at(1), {tp(0): "OFFSET_OUT_OF_RANGE"})
    harness.ends(100)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(100, 2)})
    assert [r.offset for r in harness.poll() + harness.poll()] == [0, 1, 2, 100, 101]


def rewound(offset: int) -> ConsumerHarness:
    """Records 200 to 219 were handed over, and the consumer goes back to `offset`."""
    harness = ConsumerHarness(auto_offset_reset="latest")
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=200)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(200, 20)})
    assert len(harness.poll()) == 20
    harness.reader.rewind_each({tp(0): (offset, 7)})
    harness.fetched(harness.fetch_at(1), {})  # of the old claim
    assert fetched_epoch(harness, offset) == 7
    return harness


def out_of_range(harness: ConsumerHarness) -> int:
    """Which offset the consumer looks up then."""
    harness.fetched(harness.fetch_at(1), {tp(0): "OFFSET_OUT_OF_RANGE"})
    (request,) = harness.pending(ListOffsetsRequest)
    return request.message.topics[0].partitions[0].timestamp  # type: ignore[no-any-return]


@pytest.mark.parametrize(("begins", "reads"), [(0, 200), (200, 200), (210, 210)], ids=["lost its end", "lost its beginning", "lost more"])
@pytest.mark.parametrize("committed", [100, 200])
def test_a_rewind_out_of_range_reads_again_what_was_handed_over(committed: int, begins: int, reads: int) -> None:
    """Not by policy: with `latest` that would be skipped."""
    harness = rewound(committed)
    assert out_of_range(harness) == EARLIEST
    harness.ends(begins)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): reads}


def test_behind_a_rewind_an_offset_out_of_range_goes_by_policy() -> None:
    harness = rewound(200)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(200, 20)})
    assert out_of_range(harness) == LATEST


def test_a_rewind_to_records_that_are_lost_goes_by_policy() -> None:
    harness = rewound(300)
    assert out_of_range(harness) == EARLIEST
    harness.ends(0)
    assert out_of_range(harness) == LATEST


def test_without_a_policy_an_offset_out_of_range_names_the_range_on_every_poll() -> None:
    harness = ConsumerHarness(auto_offset_reset="none")
    harness.cluster.set("t", [1])
    harness.assign(tp(0), start=50)
    harness.fetched(harness.fetch_at(1), {tp(0): "OFFSET_OUT_OF_RANGE"})
    harness.ends(3)
    harness.ends(9)
    for _ in range(2):
        with pytest.raises(BrokerError, match="offset 50 is not in the log's range, 3 to 9"):
            harness.poll()
    harness.reader.seek(tp(0), 4)
    harness.run()
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 4}


def test_without_a_policy_no_committed_offset_is_an_error_on_every_poll() -> None:
    harness = ConsumerHarness(auto_offset_reset="none")
    harness.cluster.set("t", [1])
    harness.assign(tp(0))
    for _ in range(2):
        with pytest.raises(KafkaError, match="t-0: no committed offset"):
            harness.poll()


def test_a_lookup_that_is_refused_is_reported_and_repeated() -> None:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1])
    harness.assign(tp(0))
    harness.find_coordinator()
    harness.committed(error="TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(AuthorizationError):
        harness.poll()
    harness.run(1)
    harness.committed({tp(0): 5})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 5}


@pytest.mark.parametrize("error", ["UNSTABLE_OFFSET_COMMIT", "TOPIC_AUTHORIZATION_FAILED"])
def test_a_partition_whose_committed_offset_is_refused_does_not_keep_the_others_from_being_read(error: str) -> None:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1, 2, 2])
    harness.cluster.set("u", [1])
    harness.assign(tp(0), tp(1), tp(2), tp(0, "u"))
    harness.find_coordinator()
    harness.committed({tp(0): 5, tp(1): 6}, errors={tp(0, "u"): error})
    harness.ends(0)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 5}
    asked = [harness.asked(request) for request in harness.pending(FetchRequest)]
    assert {tp(1): 6} in asked
    assert {tp(2): 0} in asked
    harness.run(2)
    (topic,) = harness.one(OffsetFetchRequest).message.topics
    assert (topic.name, topic.partition_indexes) == ("u", [0])
    harness.committed({tp(0, "u"): 9})
    assert any(harness.asked(request).get(tp(0, "u")) == 9 for request in harness.pending(FetchRequest))


def test_a_recreated_topic_is_read_from_its_beginning(harness: ConsumerHarness) -> None:
    harness.cluster.set("t", topic_id=UUID(int=1))
    harness.assign(tp(0), start=40)
    harness.cluster.set("t", topic_id=UUID(int=2))
    harness.run()
    harness.ends(0)
    old, beside = harness.pending(FetchRequest)
    assert harness.asked(beside) == {tp(0): 0}
    harness.fetched(old, {tp(0): batch(40, 3)})  # asked for in the old topic
    assert [harness.asked(request) for request in harness.pending(FetchRequest)] == [{tp(0): 0}] * 2
    assert harness.poll() == []


@pytest.mark.parametrize(("start", "time"), [(Start.COMMITTED, -2), (Start.LATEST, -1)], ids=["by policy", "seek_to_end"])
def test_an_offset_found_before_the_topic_was_recreated_is_discarded(start: Start, time: int) -> None:
    harness = ConsumerHarness(auto_offset_reset="latest")
    harness.cluster.set("t", [1], topic_id=UUID(int=1))
    harness.assign(tp(0), start=start)
    old = harness.one(ListOffsetsRequest)
    harness.cluster.set("t", topic_id=UUID(int=2))
    harness.run()
    _, new = harness.pending(ListOffsetsRequest)
    assert new.message.topics[0].partitions[0].timestamp == time
    harness.sent.remove(new)
    harness.ends(100)
    assert harness.pending(FetchRequest) == []
    harness.sent.append(new)
    assert old not in harness.sent
    harness.ends(3)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 3}


def test_a_committed_offset_that_was_looked_up_before_the_topic_was_recreated_does_not_count() -> None:
    """The response may be on its way while the metadata has the new topic already: in that one the offset is another record's."""
    harness = ConsumerHarness(group_id="g", auto_offset_reset="latest", enable_auto_commit=False)
    harness.cluster.set("t", [1, 1], topic_id=UUID(int=1))
    harness.cluster.set("u", [1], topic_id=UUID(int=3))
    harness.assign(tp(0), tp(1), tp(0, "u"))
    harness.find_coordinator()
    harness.cluster.set("t", topic_id=UUID(int=2))
    harness.run()
    harness.committed({tp(0): 40, tp(1): 40, tp(0, "u"): 9}, errors={tp(1): "UNSTABLE_OFFSET_COMMIT"})
    assert harness.asked(harness.fetch_at(1)) == {tp(0, "u"): 9}
    harness.committed()
    harness.run(1)
    harness.committed({tp(1): 40})  # repeated, but begun before
    harness.committed()
    assert [part.timestamp for request in harness.pending(ListOffsetsRequest) for part in request.message.topics[0].partitions] == [-2] * 2


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT"])
def test_the_committed_offset_of_dropped_partitions_is_not_asked_for_again(error: str) -> None:
    harness = ConsumerHarness(group_id="g", enable_auto_commit=False)
    harness.cluster.set("t", [1, 1])
    claims = harness.assign(tp(0), tp(1))
    harness.find_coordinator()
    harness.committed(error=error)
    harness.machine.fetcher.drop(claims[:1])
    harness.run(10)
    harness.committed(error=error)  # the other is still waited for
    harness.machine.fetcher.drop(claims)
    for _ in range(10):
        harness.run(10)
    assert harness.pending(OffsetFetchRequest) == []


def test_what_was_refused_before_a_position_is_not_told_to_it() -> None:
    """Another user of the client was refused; the right may have been granted since."""
    harness = ConsumerHarness()
    harness.cluster.asked = harness.cluster.answered_request = 5
    harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    harness.assign(tp(0, "secret"))
    assert harness.poll() == []
    harness.cluster.asked = harness.cluster.answered_request = 6
    harness.cluster.change("secret")
    harness.run()
    with pytest.raises(AuthorizationError, match="topic 'secret'"):
        harness.poll()


# -- the first record since a time


def timestamps(harness: ConsumerHarness) -> list[int]:
    return [r.message.topics[0].partitions[0].timestamp for r in harness.pending(ListOffsetsRequest)]


def test_a_record_that_is_written_while_the_end_is_looked_up_is_not_skipped(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=5)
    harness.reader.seek(tp(0), Since(1_000))
    harness.run()
    assert timestamps(harness) == [1_000]
    harness.ends(-1)
    assert timestamps(harness) == [-1], "no record since: the end"
    harness.ends(42)
    assert timestamps(harness) == [1_000], "a record may have been written before the end was looked up"
    harness.ends(41)
    harness.poll()
    assert harness.reader.positions() == {tp(0): 41}


def test_a_leader_that_returns_no_end_is_asked_again_after_a_back_off(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=5)
    harness.reader.seek(tp(0), Since(1_000))
    harness.run()
    for _ in range(2):
        harness.ends(-1)
    assert not harness.pending(ListOffsetsRequest)


def test_without_a_record_since_the_time_reading_continues_at_the_end(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=5)
    harness.reader.seek(tp(0), Since(1_000))
    harness.run()
    for offset in (-1, 42, -1):
        harness.ends(offset)
    assert not harness.pending(ListOffsetsRequest)
    harness.poll()
    assert harness.reader.positions() == {tp(0): 42}
