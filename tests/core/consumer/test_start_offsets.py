"""Start offsets: where reading begins, and where it goes on when the offset or the topic is gone."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from consumer_talk import Talk, batch, fetched_epoch, fetching, tp

from pykafka4.core.consumer.start_offsets import RETRY_LOOKUP
from pykafka4.core.subscription import Start
from pykafka4.errors import AuthorizationError, BrokerError, KafkaError
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import OffsetFetchRequest


@pytest.fixture
def talk() -> Talk:
    return fetching()


def test_without_a_committed_offset_the_policy_decides() -> None:
    for policy, timestamp in (("earliest", -2), ("latest", -1)):
        talk = Talk(auto_offset_reset=policy)
        talk.cluster.set("t", [1])
        talk.assign(tp(0))
        (request,) = talk.pending(ListOffsetsRequest)
        assert request.message.topics[0].partitions[0].timestamp == timestamp
        talk.ends(42)
        assert talk.asked(talk.fetch_at(1)) == {tp(0): 42}
        assert fetched_epoch(talk, 42) == -1
        assert talk.poll() == []
        assert talk.reader.positions() == {tp(0): 42}


def test_with_a_committed_offset_reading_goes_on_there() -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1))
    talk.find_coordinator()
    talk.committed({tp(0): 30})
    talk.ends(0)
    assert talk.asked(talk.pending(FetchRequest)[-1]) == {tp(0): 30, tp(1): 0}


def test_when_the_committed_offsets_are_refused_all_partitions_are_asked_for_again() -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1))
    talk.find_coordinator()
    talk.committed(error="TOPIC_AUTHORIZATION_FAILED")
    talk.run(RETRY_LOOKUP)
    assert talk.one(OffsetFetchRequest).message.topics[0].partition_indexes == [0, 1]


def asked_when_it_appears(**where: Any) -> int:
    """The time that offsets are asked for, of a partition assigned before its topic was there."""
    talk = Talk(auto_offset_reset="latest")
    talk.assign(tp(0, "later"), **where)
    talk.cluster.set("later", error="UNKNOWN_TOPIC_OR_PARTITION")
    talk.run()
    talk.cluster.set("later", [1])
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    timestamp: int = request.message.topics[0].partitions[0].timestamp
    return timestamp


def test_a_partition_that_appeared_after_assign_is_read_from_its_beginning() -> None:
    assert asked_when_it_appears() == -2


def test_a_partition_that_is_added_after_assign_is_read_from_its_beginning() -> None:
    talk = Talk(auto_offset_reset="latest")
    talk.cluster.set("t", [1])
    talk.assign(tp(1))
    talk.run()
    talk.cluster.set("t", [1, 1])
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -2


def test_seek_to_end_means_the_end_even_of_a_topic_that_appears_later() -> None:
    assert asked_when_it_appears(start=Start.LATEST) == -1


def test_an_offset_out_of_range_goes_by_policy_behind_what_was_fetched_before(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 3)})
    talk.fetched(talk.fetch_at(1), {tp(0): "OFFSET_OUT_OF_RANGE"})
    talk.ends(100)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(100, 2)})
    assert [r.offset for r in talk.poll()] == [0, 1, 2, 100, 101]


def test_without_a_policy_an_offset_out_of_range_names_the_range_on_every_poll() -> None:
    talk = Talk(auto_offset_reset="none")
    talk.cluster.set("t", [1])
    talk.assign(tp(0), start=50)
    talk.fetched(talk.fetch_at(1), {tp(0): "OFFSET_OUT_OF_RANGE"})
    talk.ends(3)
    talk.ends(9)
    for _ in range(2):
        with pytest.raises(BrokerError, match="offset 50 is not in the log's range, 3 to 9"):
            talk.poll()
    talk.reader.seek(tp(0), 4)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 4}


def test_without_a_policy_no_committed_offset_is_an_error_on_every_poll() -> None:
    talk = Talk(auto_offset_reset="none")
    talk.cluster.set("t", [1])
    talk.assign(tp(0))
    for _ in range(2):
        with pytest.raises(KafkaError, match="t-0: no committed offset"):
            talk.poll()


def test_a_lookup_that_is_refused_is_told_and_repeated() -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1])
    talk.assign(tp(0))
    talk.find_coordinator()
    talk.committed(error="TOPIC_AUTHORIZATION_FAILED")
    with pytest.raises(AuthorizationError):
        talk.poll()
    talk.run(1)
    talk.committed({tp(0): 5})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 5}


@pytest.mark.parametrize("error", ["UNSTABLE_OFFSET_COMMIT", "TOPIC_AUTHORIZATION_FAILED"])
def test_a_partition_whose_committed_offset_is_refused_does_not_keep_the_others_from_being_read(error: str) -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1, 2, 2])
    talk.cluster.set("u", [1])
    talk.assign(tp(0), tp(1), tp(2), tp(0, "u"))
    talk.find_coordinator()
    talk.committed({tp(0): 5, tp(1): 6}, errors={tp(0, "u"): error})
    talk.ends(0)
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 5}
    asked = [talk.asked(request) for request in talk.pending(FetchRequest)]
    assert {tp(1): 6, tp(2): 0} in asked
    talk.run(2)
    (topic,) = talk.one(OffsetFetchRequest).message.topics
    assert (topic.name, topic.partition_indexes) == ("u", [0])
    talk.committed({tp(0, "u"): 9})
    assert any(talk.asked(request).get(tp(0, "u")) == 9 for request in talk.pending(FetchRequest))


def test_a_topic_made_anew_is_read_from_its_beginning(talk: Talk) -> None:
    talk.cluster.set("t", topic_id=UUID(int=1))
    talk.assign(tp(0), start=40)
    talk.cluster.set("t", topic_id=UUID(int=2))
    talk.run()
    talk.ends(0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(40, 3)})  # asked for in the old topic
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 0}
    assert talk.poll() == []


@pytest.mark.parametrize(("start", "time"), [(Start.COMMITTED, -2), (Start.LATEST, -1)], ids=["by policy", "seek_to_end"])
def test_an_offset_of_a_topic_found_before_it_was_made_anew_does_not_count(start: Start, time: int) -> None:
    talk = Talk(auto_offset_reset="latest")
    talk.cluster.set("t", [1], topic_id=UUID(int=1))
    talk.assign(tp(0), start=start)
    old = talk.one(ListOffsetsRequest)
    talk.cluster.set("t", topic_id=UUID(int=2))
    talk.run()
    _, new = talk.pending(ListOffsetsRequest)
    assert new.message.topics[0].partitions[0].timestamp == time
    talk.sent.remove(new)
    talk.ends(100)
    assert talk.pending(FetchRequest) == []
    talk.sent.append(new)
    assert old not in talk.sent
    talk.ends(3)
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}


@pytest.mark.parametrize("error", ["COORDINATOR_LOAD_IN_PROGRESS", "UNSTABLE_OFFSET_COMMIT"])
def test_the_committed_offset_of_dropped_partitions_is_not_asked_for_again(error: str) -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1, 1])
    claims = talk.assign(tp(0), tp(1))
    talk.find_coordinator()
    talk.committed(error=error)
    talk.machine.fetcher.drop(claims[:1])
    talk.run(10)
    talk.committed(error=error)  # the other is still waited for
    talk.machine.fetcher.drop(claims)
    for _ in range(10):
        talk.run(10)
    assert talk.pending(OffsetFetchRequest) == []
