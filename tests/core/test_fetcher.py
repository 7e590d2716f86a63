"""Fetching, with brokers made by hand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from consumer_talk import LOST, Talk, batch, partition, tp
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core import INFINITY, Failed, Request
from pykafka4.core.network import LANE
from pykafka4.core.subscription import Claim, Stage, Start
from pykafka4.error_table import CODES, Written
from pykafka4.errors import (
    AuthorizationError,
    BrokerError,
    ConnectionLost,
    CorruptRecord,
    DecodeError,
    KafkaError,
    RecordTooLarge,
    UnsupportedVersion,
)
from pykafka4.records import TopicPartition
from pykafka4.wire.frame import FrameTooLarge
from pykafka4.wire.messages_data import FetchRequest, FetchResponse, ListOffsetsRequest

Answer = FetchResponse.Topic.Partition


@pytest.fixture
def talk() -> Talk:
    talk = Talk(fetch_max_wait_ms=500)
    talk.cluster.set("t", [1, 2, 1])
    return talk


def fetches(talk: Talk) -> list[FetchRequest]:
    return [r.message for r in talk.pending(FetchRequest)]


# ---------------------------------------------------------------- asking


def test_each_leader_gets_one_request_with_all_its_partitions_over_a_lane_for_fetches(talk: Talk) -> None:
    talk.assign(tp(0), tp(1), tp(2), start=5)
    requests = talk.pending(FetchRequest)
    assert sorted((r.node % LANE, sorted(talk.asked(r))) for r in requests) == [(1, [tp(0), tp(2)]), (2, [tp(1)])]
    assert {r.node // LANE for r in requests} == {2}
    message = requests[0].message
    assert (message.max_wait_ms, message.min_bytes, message.session_id, message.session_epoch, message.isolation_level) == (
        500,
        1,
        0,
        -1,
        0,
    )
    part = message.topics[0].partitions[0]
    assert (part.fetch_offset, part.current_leader_epoch, part.partition_max_bytes) == (5, 0, 1024 * 1024)


def test_the_next_request_leaves_as_soon_as_the_answer_is_in(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10)})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 10}
    assert [r.offset for r in talk.poll()] == list(range(10))


def test_an_idle_consumer_has_one_request_under_way_and_no_timer(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    for _ in range(3):
        talk.fetched(talk.fetch_at(1), {tp(0): b""})
        assert len(talk.pending(FetchRequest)) == 1
        assert talk.wake_at == INFINITY


def test_topics_go_by_id_where_all_ids_are_known(talk: Talk) -> None:
    talk.cluster.set("t", topic_id=UUID(int=7))
    talk.cluster.set("u", [1])
    talk.assign(tp(0), start=0)
    request = talk.fetch_at(1)
    assert (request.max_version, request.message.topics[0].topic_id) == (None, UUID(int=7))
    talk.assign(tp(0, "u"), start=0)
    topics = [FetchResponse.Topic(topic_id=UUID(int=7), partitions=[partition(0, batch(0, 3))])]
    talk.answer(request, FetchResponse(session_id=0, responses=topics), version=13)
    assert [r.offset for r in talk.poll()] == [0, 1, 2]
    assert talk.fetch_at(1).max_version == 12


@pytest.mark.parametrize(("version", "epoch"), [(12, 4), (11, -1)])
def test_the_last_epoch_read_is_named_where_the_broker_takes_it(talk: Talk, version: int, epoch: int) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 3, epoch=4)})
    assert talk.as_sent(FetchRequest, version).topics[0].partitions[0].last_fetched_epoch == epoch


def test_every_partition_comes_first_in_its_turn(talk: Talk) -> None:
    """A broker sends a whole batch, however large, of the first partition that has data only."""
    talk.cluster.set("t", [1, 1, 1])
    talk.assign(tp(0), tp(1), tp(2), start=0)
    firsts = set()
    for _ in range(3):
        request = talk.fetch_at(1)
        firsts.add(next(iter(talk.asked(request))))
        talk.fetched(request, {})
    assert firsts == {tp(0), tp(1), tp(2)}


# ---------------------------------------------------------------- room


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


# ---------------------------------------------------------------- answers that come too late


def test_what_was_fetched_for_a_position_before_a_seek_is_dropped(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    request = talk.fetch_at(1)
    talk.reader.seek(tp(0), 50)
    talk.fetched(request, {tp(0): batch(0, 10)})
    assert talk.poll() == []
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 50}


def test_an_answer_asked_at_another_offset_is_dropped(talk: Talk) -> None:
    """The leader moved: two brokers were asked at the same offset, the second answer must not come twice."""
    talk.assign(tp(0), start=0)
    old = talk.fetch_at(1)
    talk.cluster.set("t", [2, 2, 2])
    talk.run()
    new = talk.fetch_at(2)
    talk.fetched(new, {tp(0): batch(0, 10)})
    talk.fetched(old, {tp(0): batch(0, 10)})
    assert [r.offset for r in talk.poll()] == list(range(10))


def test_partitions_nobody_asked_for_and_those_named_twice_are_ignored(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    parts = [partition(0, batch(0, 5)), partition(0, batch(0, 5)), partition(7, batch(0, 5))]
    talk.answer(talk.fetch_at(1), FetchResponse(session_id=0, responses=[FetchResponse.Topic(topic="t", partitions=parts)]))
    assert len(talk.poll()) == 5


def test_dropped_partitions_are_not_asked_for(talk: Talk) -> None:
    claims = talk.assign(tp(0), tp(1), start=0)
    talk.member.fetcher.drop(claims[:1])
    for request in talk.pending(FetchRequest):
        talk.fetched(request, {})
    assert [set(talk.asked(r)) for r in talk.pending(FetchRequest)] == [{tp(1)}]


def test_a_seek_of_a_claim_that_ended_meanwhile_changes_nothing(talk: Talk) -> None:
    (claim,) = talk.assign(tp(0), start=5)
    talk.member.fetcher.seek(Claim(tp(0)), Claim(tp(0)), 99)
    assert talk.member.fetcher.positions[tp(0)].claim is claim


def test_paused_partitions_are_not_asked_for_until_resumed(talk: Talk) -> None:
    (claim,) = talk.assign(tp(0), start=0)
    talk.member.fetcher.pause(claim)
    talk.fetched(talk.fetch_at(1), {})
    assert talk.pending(FetchRequest) == []
    talk.member.fetcher.resume(claim)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 0}


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("error", sorted(row.name for row in CODES.values() if row.code > 0 and row.retriable))
def test_a_passing_error_waits_for_recovery_and_repeats_the_same_offset(talk: Talk, error: str) -> None:
    talk.assign(tp(0), tp(2), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): error, tp(2): batch(7, 3)})
    assert [place for place, _ in talk.recovery.reports] == [tp(0)]
    assert talk.asked(talk.fetch_at(1)) == {tp(2): 10}  # the other goes on
    talk.recovery.bring_back()
    talk.fetched(talk.fetch_at(1), {tp(2): b""})
    request = talk.fetch_at(1)
    assert talk.asked(request) == {tp(0): 7, tp(2): 10}
    talk.fetched(request, {tp(0): batch(7, 1)})
    assert tp(0) in talk.recovery.healed
    assert len(talk.poll()) == 4


@pytest.mark.parametrize("number", [*sorted(CODES.keys() - {0, 1}), 32_000])
def test_every_code_is_told_or_waited_out_and_never_repeated_at_once(talk: Talk, number: int) -> None:
    talk.assign(tp(0), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): Answer(partition_index=0, error_code=number, high_watermark=-1, records=None)})
    assert talk.pending(FetchRequest) == []
    assert len(talk.recovery.reports) == 1
    row = CODES.get(number)
    if row is not None and (row.retriable or number == -1):
        assert talk.poll() == []
    else:
        with pytest.raises(BrokerError):
            talk.poll()
        assert talk.poll() == []  # told once; it is tried again when recovery says so


def test_a_lost_connection_takes_the_partitions_of_the_request_offline_and_no_others(talk: Talk) -> None:
    talk.assign(tp(0), tp(1), tp(2), start=0)
    talk.answer(talk.fetch_at(1), LOST)
    assert sorted(talk.recovery.offline) == [tp(0), tp(2)]
    assert [set(talk.asked(r)) for r in talk.pending(FetchRequest)] == [{tp(1)}]


def test_a_broker_too_old_is_told_once_for_all_its_partitions(talk: Talk) -> None:
    talk.assign(tp(0), tp(2), start=0)
    talk.answer(talk.fetch_at(1), Failed(UnsupportedVersion("Fetch: the broker is too old"), Written.NO))
    with pytest.raises(UnsupportedVersion):
        talk.poll()
    assert talk.poll() == []
    assert sorted(talk.recovery.offline) == [tp(0), tp(2)]


def lost(cause: Exception) -> Failed:
    reason = ConnectionLost("127.0.0.1:9092: the answer to Fetch cannot be understood")
    reason.__cause__ = cause
    return Failed(reason, Written.MAYBE)


def test_a_damaged_answer_is_asked_for_again_and_told_when_the_next_is_damaged_too(talk: Talk) -> None:
    talk.assign(tp(0), tp(2), start=0)
    for attempt in range(3):
        talk.answer(talk.fetch_at(1), lost(DecodeError("FetchResponse.responses: the bytes end here")))
        assert sorted(talk.recovery.offline) == [tp(0), tp(2)]
        talk.recovery.bring_back()
        talk.run()
        if attempt:
            with pytest.raises(ConnectionLost, match="cannot be understood"):
                talk.poll()
        assert talk.poll() == []
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 1)})
    talk.answer(talk.fetch_at(1), lost(DecodeError("once more, long after")))
    assert len(talk.poll()) == 1
    assert talk.poll() == []


def test_an_answer_too_large_to_be_let_in_is_traced_to_its_partition_and_the_others_go_on() -> None:
    talk = Talk(receive_message_max_bytes=50_000, fetch_max_bytes=40_000)
    talk.cluster.set("t", [1, 1, 1])
    talk.assign(tp(0), tp(1), tp(2), start=7)
    culprit, refused, alone = tp(1), lost(FrameTooLarge(61_000, 50_000)), []
    for _ in range(12):
        request = talk.fetch_at(1)
        asked = talk.asked(request)
        if len(asked) == 1:
            alone += asked
            assert request.message.max_wait_ms == 0
        talk.answer(request, refused) if culprit in asked else talk.fetched(request, {p: batch(o, 1) for p, o in asked.items()})
    assert sorted(alone) == [tp(0), tp(1), tp(2)]
    assert talk.recovery.offline == {}
    assert sorted(talk.asked(talk.fetch_at(1))) == [tp(0), tp(2)]
    got = []
    with pytest.raises(RecordTooLarge, match=r"t-1 at offset 7: .* 61000 bytes, over receive_message_max_bytes=50000; raise") as caught:
        while True:
            got += talk.poll()
    assert {r.partition for r in got} <= {0, 2}
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 1, 7, None)
    talk.reader.seek(culprit, 9)
    talk.run()
    talk.fetched(talk.fetch_at(1), {})
    assert talk.asked(talk.fetch_at(1))[culprit] == 9


def test_a_size_damaged_on_the_way_stops_nothing(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.answer(talk.fetch_at(1), lost(FrameTooLarge(2_000_000_000, 100_000_000)))
    for first in (0, 3):
        talk.fetched(talk.fetch_at(1), {tp(0): batch(first, 3)})
    assert len(talk.poll()) == 6


def test_no_answer_is_asked_for_that_would_not_be_let_in() -> None:
    talk = Talk(receive_message_max_bytes=50_000, fetch_max_bytes=50_000)
    talk.cluster.set("t", [1] * 10)
    talk.assign(*(tp(p) for p in range(10)), start=0)
    (message,) = fetches(talk)
    names_and_numbers = len("t") + 10 * 60
    assert message.max_bytes + names_and_numbers < 50_000


def test_an_error_of_the_whole_answer_concerns_all_its_partitions(talk: Talk) -> None:
    talk.assign(tp(0), tp(2), start=0)
    talk.answer(talk.fetch_at(1), FetchResponse(error_code=56, session_id=0, responses=[]))
    assert sorted(talk.recovery.offline) == [tp(0), tp(2)]


def test_the_new_leader_that_an_answer_names_is_passed_on(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    answer = Answer(
        partition_index=0, error_code=6, high_watermark=-1, records=None, current_leader=Answer.Leader(leader_id=2, leader_epoch=9)
    )
    endpoint = FetchResponse.Endpoint(node_id=2, host="h2", port=92)
    talk.fetched(talk.fetch_at(1), {tp(0): answer}, node_endpoints=[endpoint])
    assert talk.cluster.hints == [(tp(0), 2, 9, ("h2", 92))]


def test_authorization_is_raised_and_asked_again(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): "TOPIC_AUTHORIZATION_FAILED"})
    with pytest.raises(AuthorizationError, match="t-0"):
        talk.poll()
    talk.recovery.bring_back()
    talk.run()
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 1)})
    assert len(talk.poll()) == 1


def test_an_error_nobody_has_read_yet_is_not_piled_up(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    for _ in range(5):
        talk.fetched(talk.fetch_at(1), {tp(0): "TOPIC_AUTHORIZATION_FAILED"})
        talk.recovery.bring_back()
        talk.run()
    with pytest.raises(AuthorizationError):
        talk.poll()
    assert talk.poll() == []


def test_a_topic_that_metadata_refuses_is_told(talk: Talk) -> None:
    talk.assign(tp(0, "secret"))
    talk.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    talk.run()
    with pytest.raises(AuthorizationError, match="secret"):
        talk.poll()


# ---------------------------------------------------------------- positions


def test_without_a_committed_offset_the_policy_decides(talk: Talk) -> None:
    for policy, timestamp in (("earliest", -2), ("latest", -1)):
        talk = Talk(auto_offset_reset=policy)
        talk.cluster.set("t", [1])
        talk.assign(tp(0))
        (request,) = talk.pending(ListOffsetsRequest)
        assert request.message.topics[0].partitions[0].timestamp == timestamp
        talk.ends(42)
        assert talk.asked(talk.fetch_at(1)) == {tp(0): 42}
        assert talk.poll() == []
        assert talk.reader.positions() == {tp(0): 42}


def test_with_a_committed_offset_reading_goes_on_there() -> None:
    talk = Talk(group_id="g", enable_auto_commit=False)
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1))
    talk.find_coordinator()
    talk.committed({tp(0): 30})
    talk.ends(0)
    assert talk.asked(talk.fetch_at(1)) in ({tp(0): 30}, {tp(0): 30, tp(1): 0})
    talk.fetched(talk.fetch_at(1), {})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 30, tp(1): 0}


def test_a_partition_that_appeared_after_assign_is_read_from_its_beginning() -> None:
    talk = Talk(auto_offset_reset="latest")
    talk.assign(tp(0, "later"))
    talk.cluster.set("later", error="UNKNOWN_TOPIC_OR_PARTITION")
    talk.run()
    talk.cluster.set("later", [1])
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -2


def test_seek_to_end_means_the_end_even_of_a_topic_that_appears_later() -> None:
    talk = Talk(auto_offset_reset="latest")
    talk.assign(tp(0, "later"), start=Start.LATEST)
    talk.cluster.set("later", error="UNKNOWN_TOPIC_OR_PARTITION")
    talk.run()
    talk.cluster.set("later", [1])
    talk.run()
    (request,) = talk.pending(ListOffsetsRequest)
    assert request.message.topics[0].partitions[0].timestamp == -1


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
        with pytest.raises(BrokerError, match="offset 50 is not among 3 to 9"):
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


def test_a_log_that_was_cut_steps_back_and_no_further(talk: Talk, caplog: pytest.LogCaptureFixture) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 10, epoch=3)})
    diverged = Answer(
        partition_index=0, error_code=0, high_watermark=6, records=None, diverging_epoch=Answer.EpochEndOffset(epoch=2, end_offset=6)
    )
    talk.fetched(talk.fetch_at(1), {tp(0): diverged})
    assert len(talk.poll()) == 10
    assert talk.pending(FetchRequest) == []
    talk.poll()
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 6}
    assert "cut at offset 6" in caplog.text
    assert talk.pending(ListOffsetsRequest) == []


def test_a_topic_made_anew_is_read_from_its_beginning(talk: Talk) -> None:
    talk.cluster.set("t", topic_id=UUID(int=1))
    talk.assign(tp(0), start=40)
    talk.cluster.set("t", topic_id=UUID(int=2))
    talk.run()
    talk.ends(0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(40, 3)})  # asked for in the old topic
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 0}
    assert talk.poll() == []


def test_positions_wait_for_a_leader(talk: Talk) -> None:
    talk.cluster.set("t", [-1, 2, 1])
    talk.assign(tp(0), start=0)
    assert talk.pending(FetchRequest) == []
    talk.cluster.set("t", [2, 2, 1])
    talk.run()
    assert talk.asked(talk.fetch_at(2)) == {tp(0): 0}


# ---------------------------------------------------------------- data


def test_a_batch_cut_short_is_asked_for_whole(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    whole = batch(0, 1, size=3_000_000)
    talk.fetched(talk.fetch_at(1), {tp(0): whole[:1_000_000]})
    assert talk.fetch_at(1).message.topics[0].partitions[0].partition_max_bytes == len(whole)


def test_a_cut_last_batch_is_fetched_again(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 3) + batch(3, 3)[:-1]})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}


def test_data_that_makes_no_sense_stops_the_partition_with_an_error_and_no_hot_loop(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 2)})
    talk.fetched(talk.fetch_at(1), {tp(0): b"\xff" * 100})
    assert talk.pending(FetchRequest) == []
    assert len(talk.poll()) == 2
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="t-0 at offset 2"):
            talk.poll()
    assert talk.member.fetcher.positions[tp(0)].stage is Stage.STOPPED
    talk.reader.seek(tp(0), 3)
    talk.run()
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 3}
