"""Fetch answers with errors, damaged or too large: raised once or retried after a pause, and never repeated at once."""

from __future__ import annotations

import pytest

from pykafka4.core import Failed
from pykafka4.errors import AuthorizationError, BrokerError, ConnectionLost, DecodeError, RecordTooLarge, UnsupportedVersion
from pykafka4.errors.codes import CODES, Refresh
from pykafka4.records import Written
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from tests.core.consumer_harness import LOST, Answer, ConsumerHarness, batch, fetching, tp


@pytest.fixture
def harness() -> ConsumerHarness:
    return fetching()


PASSING = [row for row in CODES.values() if row.code > 0 and row.retriable]


@pytest.mark.parametrize("error", sorted(row.name for row in PASSING if row.refresh is Refresh.METADATA))
def test_a_passing_error_waits_for_recovery_and_repeats_the_same_offset(harness: ConsumerHarness, error: str) -> None:
    harness.assign(tp(0), tp(2), start=7)
    harness.fetched(harness.fetch_at(1), {tp(0): error, tp(2): batch(7, 3)})
    assert [place for place, _ in harness.recovery.reports] == [tp(0)]
    assert harness.asked(harness.fetch_at(1)) == {tp(2): 10}  # the other goes on
    harness.recovery.bring_back()
    harness.fetched(harness.fetch_at(1), {tp(2): b""})
    request = harness.fetch_at(1)
    assert harness.asked(request) == {tp(0): 7, tp(2): 10}
    harness.fetched(request, {tp(0): batch(7, 1)})
    assert tp(0) in harness.recovery.healed
    assert len(harness.poll()) == 4


# What the leader refuses to this consumer only, or cannot do now: another user of the client may write there meanwhile.
REFUSALS = ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR", *sorted(r.name for r in PASSING if r.refresh is not Refresh.METADATA)]


@pytest.mark.parametrize("error", REFUSALS)
def test_an_error_that_is_not_about_the_leader_takes_no_partition_offline_and_repeats_the_same_offset(
    harness: ConsumerHarness, error: str
) -> None:
    harness.assign(tp(0), tp(2), start=7)
    harness.fetched(harness.fetch_at(1), {tp(0): error, tp(2): batch(7, 3)})
    assert harness.recovery.reports == []
    assert harness.asked(harness.fetch_at(1)) == {tp(2): 10}  # the other goes on
    assert error in harness.machine.fetcher.status(harness.machine.fetcher.positions[tp(0)])["waits_for"]
    harness.run(1.3)
    harness.fetched(harness.fetch_at(1), {tp(2): b""})
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 7, tp(2): 10}
    assert harness.machine.fetcher.status(harness.machine.fetcher.positions[tp(0)])["waits_for"] is None


def test_the_pauses_between_refusals_grow_until_one_fetch_succeeds(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=7)
    pauses = []
    for turn in range(8):
        harness.fetched(harness.fetch_at(1), {tp(0): b"" if turn == 6 else "UNKNOWN_SERVER_ERROR"})
        if turn != 6:
            pauses.append(harness.wake_at - harness.now)
            harness.run(pauses[-1])
    assert pauses[0] < 0.13
    assert pauses[5] > 0.79
    assert pauses[6] < 0.13


def test_a_seek_does_not_end_the_pause_after_a_refusal(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=7)
    harness.fetched(harness.fetch_at(1), {tp(0): "UNKNOWN_SERVER_ERROR"})
    harness.reader.seek(tp(0), 9)
    harness.run()
    assert harness.pending(FetchRequest) == []
    harness.run(0.13)
    assert harness.asked(harness.fetch_at(1)) == {tp(0): 9}


def test_refusals_of_two_fetches_that_were_under_way_together_are_one(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=7)
    before = harness.fetch_at(1)
    harness.cluster.set("t", [2, 2, 1])
    harness.run()
    for request in (before, harness.fetch_at(2)):
        harness.fetched(request, {tp(0): "UNKNOWN_SERVER_ERROR"})
    own_backoff = harness.machine.fetcher.positions[tp(0)].own_backoff
    assert own_backoff is not None
    assert own_backoff.backoff.attempts == 1
    assert set(harness.recovery.retried) == {tp(0)}


@pytest.mark.parametrize("number", [*sorted(CODES.keys() - {0, 1}), 32_000])
def test_every_error_code_is_raised_or_retried_after_a_pause(harness: ConsumerHarness, number: int) -> None:
    harness.assign(tp(0), start=7)
    harness.fetched(harness.fetch_at(1), {tp(0): Answer(partition_index=0, error_code=number, high_watermark=-1, records=None)})
    assert harness.pending(FetchRequest) == []
    row = CODES.get(number)
    assert len(harness.recovery.reports) == (row is not None and row.refresh is Refresh.METADATA)
    if row is not None and (row.retriable or number == -1) and row.name != "CORRUPT_MESSAGE":
        assert harness.poll() == []
    else:
        with pytest.raises(BrokerError):
            harness.poll()
        assert harness.poll() == []  # raised once; the fetch is repeated after a pause


def test_a_lost_connection_takes_the_partitions_of_the_request_offline_and_no_others(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(1), tp(2), start=0)
    harness.answer(harness.fetch_at(1), LOST)
    assert sorted(harness.recovery.offline) == [tp(0), tp(2)]
    assert [set(harness.asked(r)) for r in harness.pending(FetchRequest)] == [{tp(1)}]


def test_a_broker_too_old_is_reported_once_for_all_its_partitions(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    harness.answer(harness.fetch_at(1), Failed(UnsupportedVersion("Fetch: the broker is too old"), Written.NO))
    with pytest.raises(UnsupportedVersion):
        harness.poll()
    assert harness.poll() == []
    assert sorted(harness.recovery.offline) == [tp(0), tp(2)]


def lost(cause: Exception) -> Failed:
    reason = ConnectionLost("127.0.0.1:9092: cannot decode the response to Fetch")
    reason.__cause__ = cause
    return Failed(reason, Written.MAYBE)


def test_a_damaged_answer_is_requested_again_and_reported_when_the_next_is_damaged_too(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    for attempt in range(3):
        harness.answer(harness.fetch_at(1), lost(DecodeError("FetchResponse.responses: unexpected end of the data")))
        assert sorted(harness.recovery.offline) == [tp(0), tp(2)]
        harness.recovery.bring_back()
        harness.run()
        if attempt:
            with pytest.raises(ConnectionLost, match="cannot decode the response"):
                harness.poll()
        assert harness.poll() == []
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 1)})
    harness.answer(harness.fetch_at(1), lost(DecodeError("once more, long after")))
    assert len(harness.poll()) == 1
    assert harness.poll() == []


def test_an_answer_over_the_limit_is_traced_to_its_partition_and_the_others_go_on() -> None:
    harness = ConsumerHarness(receive_message_max_bytes=50_000, fetch_max_bytes=40_000)
    harness.cluster.set("t", [1, 1, 1])
    harness.assign(tp(0), tp(1), tp(2), start=7)
    culprit, refused, alone = tp(1), lost(FrameTooLarge(61_000, 50_000)), []
    for _ in range(12):
        request = harness.fetch_at(1)
        asked = harness.asked(request)
        if len(asked) == 1:
            alone += asked
            assert request.message.max_wait_ms == 0
        harness.answer(request, refused) if culprit in asked else harness.fetched(request, {p: batch(o, 1) for p, o in asked.items()})
    assert sorted(alone) == [tp(0), tp(1), tp(2)]
    assert harness.recovery.offline == {}
    assert sorted(harness.asked(harness.fetch_at(1))) == [tp(0), tp(2)]
    got = []
    with pytest.raises(
        RecordTooLarge, match=r"t-1 at offset 7: .* 61,000 bytes, which exceeds receive_message_max_bytes=50000; raise"
    ) as caught:
        while True:
            got += harness.poll()
    assert {r.partition for r in got} <= {0, 2}
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 1, 7, None)
    harness.reader.seek(culprit, 9)
    harness.run()
    _, beside = harness.pending(FetchRequest)
    assert harness.asked(beside)[culprit] == 9


def test_two_answers_too_large_that_came_together_blame_no_partition_yet() -> None:
    harness = ConsumerHarness(receive_message_max_bytes=50_000, fetch_max_bytes=40_000)
    harness.cluster.set("t", [1, 1])
    harness.assign(tp(0), tp(1), start=7)
    waiting = harness.fetch_at(1)
    harness.reader.seek(tp(0), 40)
    harness.run()
    (beside,) = [request for request in harness.pending(FetchRequest) if request is not waiting]
    for request in (waiting, beside):
        harness.answer(request, lost(FrameTooLarge(61_000, 50_000)))
    assert harness.poll() == []
    assert len(harness.asked(harness.fetch_at(1))) == 1


def test_a_size_damaged_on_the_way_stops_nothing(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.answer(harness.fetch_at(1), lost(FrameTooLarge(2_000_000_000, 100_000_000)))
    for first in (0, 3):
        harness.fetched(harness.fetch_at(1), {tp(0): batch(first, 3)})
    assert len(harness.poll()) == 6


def test_an_error_of_the_whole_answer_concerns_all_its_partitions(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), tp(2), start=0)
    harness.answer(harness.fetch_at(1), FetchResponse(error_code=56, session_id=0, responses=[]))
    assert sorted(harness.recovery.offline) == [tp(0), tp(2)]


def test_the_new_leader_that_an_answer_names_is_passed_on(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    answer = Answer(
        partition_index=0, error_code=6, high_watermark=-1, records=None, current_leader=Answer.Leader(leader_id=2, leader_epoch=9)
    )
    endpoint = FetchResponse.Endpoint(node_id=2, host="h2", port=92)
    harness.fetched(harness.fetch_at(1), {tp(0): answer}, node_endpoints=[endpoint])
    assert harness.cluster.hints == [(tp(0), 2, 9, ("h2", 92))]


def test_an_authorization_error_is_raised_and_the_fetch_repeated(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    harness.fetched(harness.fetch_at(1), {tp(0): "TOPIC_AUTHORIZATION_FAILED"})
    with pytest.raises(AuthorizationError, match="t-0"):
        harness.poll()
    harness.run(1.3)
    harness.fetched(harness.fetch_at(1), {tp(0): batch(0, 1)})
    assert len(harness.poll()) == 1


def test_an_unread_error_is_kept_only_once(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=0)
    for _ in range(5):
        harness.fetched(harness.fetch_at(1), {tp(0): "TOPIC_AUTHORIZATION_FAILED"})
        harness.run(1.3)
    with pytest.raises(AuthorizationError):
        harness.poll()
    assert harness.poll() == []


def corrupt(harness: ConsumerHarness, times: int) -> None:
    """The leader says so often that its log is damaged."""
    for _ in range(times):
        harness.fetched(harness.fetch_at(1), {tp(0): "CORRUPT_MESSAGE"})
        assert harness.pending(FetchRequest) == []
        harness.run(1.3)


def test_a_log_that_its_leader_cannot_read_is_reported_once_and_fetched_again(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=7)
    for first in (7, 8):
        corrupt(harness, 2)
        with pytest.raises(BrokerError, match=rf"t-0 at offset {first}: the leader's log is corrupt: CORRUPT_MESSAGE"):
            harness.poll()
        corrupt(harness, 3)
        assert harness.poll() == []
        harness.fetched(harness.fetch_at(1), {tp(0): batch(first, 1)})
        assert len(harness.poll()) == 1


def test_damage_found_again_after_a_seek_is_reported_again(harness: ConsumerHarness) -> None:
    harness.assign(tp(0), start=7)
    for offset in (7, 8):
        corrupt(harness, 1)
        harness.fetched(harness.fetch_at(1), {tp(0): "CORRUPT_MESSAGE"})
        with pytest.raises(BrokerError, match=f"t-0 at offset {offset}"):
            harness.poll()
        harness.reader.seek(tp(0), offset + 1)
        harness.run(1.3)


def test_a_topic_that_metadata_refuses_is_reported(harness: ConsumerHarness) -> None:
    harness.assign(tp(0, "secret"))
    harness.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    harness.run()
    with pytest.raises(AuthorizationError, match="secret"):
        harness.poll()
