"""Fetch answers: what brokers refuse, answers that are damaged or too large: told once or waited out, and never repeated at once."""

from __future__ import annotations

import pytest
from consumer_talk import LOST, Answer, Talk, batch, fetching, tp

from pykafka4.core import Failed
from pykafka4.error_table import CODES, Refresh, Written
from pykafka4.errors import AuthorizationError, BrokerError, ConnectionLost, DecodeError, RecordTooLarge, UnsupportedVersion
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse


@pytest.fixture
def talk() -> Talk:
    return fetching()


PASSING = [row for row in CODES.values() if row.code > 0 and row.retriable]


@pytest.mark.parametrize("error", sorted(row.name for row in PASSING if row.refresh is Refresh.METADATA))
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


# What the leader refuses to this consumer only, or cannot do now: another user of the client may write there meanwhile.
REFUSALS = ["TOPIC_AUTHORIZATION_FAILED", "UNKNOWN_SERVER_ERROR", *sorted(r.name for r in PASSING if r.refresh is not Refresh.METADATA)]


@pytest.mark.parametrize("error", REFUSALS)
def test_an_error_that_is_not_about_the_leader_takes_no_partition_offline_and_repeats_the_same_offset(talk: Talk, error: str) -> None:
    talk.assign(tp(0), tp(2), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): error, tp(2): batch(7, 3)})
    assert talk.recovery.reports == []
    assert talk.asked(talk.fetch_at(1)) == {tp(2): 10}  # the other goes on
    assert error in talk.machine.fetcher.status(talk.machine.fetcher.positions[tp(0)])["waits_for"]
    talk.run(1.3)
    talk.fetched(talk.fetch_at(1), {tp(2): b""})
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 7, tp(2): 10}
    assert talk.machine.fetcher.status(talk.machine.fetcher.positions[tp(0)])["waits_for"] is None


def test_the_pauses_between_refusals_grow_until_one_fetch_succeeds(talk: Talk) -> None:
    talk.assign(tp(0), start=7)
    pauses = []
    for turn in range(8):
        talk.fetched(talk.fetch_at(1), {tp(0): b"" if turn == 6 else "UNKNOWN_SERVER_ERROR"})
        if turn != 6:
            pauses.append(talk.wake_at - talk.now)
            talk.run(pauses[-1])
    assert pauses[0] < 0.13
    assert pauses[5] > 0.79
    assert pauses[6] < 0.13


def test_a_seek_does_not_end_the_pause_after_a_refusal(talk: Talk) -> None:
    talk.assign(tp(0), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): "UNKNOWN_SERVER_ERROR"})
    talk.reader.seek(tp(0), 9)
    talk.run()
    assert talk.pending(FetchRequest) == []
    talk.run(0.13)
    assert talk.asked(talk.fetch_at(1)) == {tp(0): 9}


def test_refusals_of_two_fetches_that_were_under_way_together_are_one(talk: Talk) -> None:
    talk.assign(tp(0), tp(2), start=7)
    left = talk.fetch_at(1)
    talk.reader.seek(tp(2), 9)
    talk.run()
    (beside,) = [request for request in talk.pending(FetchRequest) if request is not left]
    for request in (left, beside):
        talk.fetched(request, {tp(0): "UNKNOWN_SERVER_ERROR"})
    rest = talk.machine.fetcher.positions[tp(0)].rest
    assert rest is not None
    assert rest.backoff.attempts == 1


@pytest.mark.parametrize("number", [*sorted(CODES.keys() - {0, 1}), 32_000])
def test_every_code_is_told_or_waited_out_and_never_repeated_at_once(talk: Talk, number: int) -> None:
    talk.assign(tp(0), start=7)
    talk.fetched(talk.fetch_at(1), {tp(0): Answer(partition_index=0, error_code=number, high_watermark=-1, records=None)})
    assert talk.pending(FetchRequest) == []
    row = CODES.get(number)
    assert len(talk.recovery.reports) == (row is not None and row.refresh is Refresh.METADATA)
    if row is not None and (row.retriable or number == -1) and row.name != "CORRUPT_MESSAGE":
        assert talk.poll() == []
    else:
        with pytest.raises(BrokerError):
            talk.poll()
        assert talk.poll() == []  # told once; it is tried again after a pause


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
    reason = ConnectionLost("127.0.0.1:9092: cannot decode the response to Fetch")
    reason.__cause__ = cause
    return Failed(reason, Written.MAYBE)


def test_a_damaged_answer_is_asked_for_again_and_told_when_the_next_is_damaged_too(talk: Talk) -> None:
    talk.assign(tp(0), tp(2), start=0)
    for attempt in range(3):
        talk.answer(talk.fetch_at(1), lost(DecodeError("FetchResponse.responses: unexpected end of the data")))
        assert sorted(talk.recovery.offline) == [tp(0), tp(2)]
        talk.recovery.bring_back()
        talk.run()
        if attempt:
            with pytest.raises(ConnectionLost, match="cannot decode the response"):
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
    with pytest.raises(
        RecordTooLarge, match=r"t-1 at offset 7: .* 61,000 bytes, which exceeds receive_message_max_bytes=50000; raise"
    ) as caught:
        while True:
            got += talk.poll()
    assert {r.partition for r in got} <= {0, 2}
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 1, 7, None)
    talk.reader.seek(culprit, 9)
    talk.run()
    _, beside = talk.pending(FetchRequest)
    assert talk.asked(beside)[culprit] == 9


def test_two_answers_too_large_that_came_together_blame_nobody_yet() -> None:
    talk = Talk(receive_message_max_bytes=50_000, fetch_max_bytes=40_000)
    talk.cluster.set("t", [1, 1])
    talk.assign(tp(0), tp(1), start=7)
    waiting = talk.fetch_at(1)
    talk.reader.seek(tp(0), 40)
    talk.run()
    (beside,) = [request for request in talk.pending(FetchRequest) if request is not waiting]
    for request in (waiting, beside):
        talk.answer(request, lost(FrameTooLarge(61_000, 50_000)))
    assert talk.poll() == []
    assert len(talk.asked(talk.fetch_at(1))) == 1


def test_a_size_damaged_on_the_way_stops_nothing(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    talk.answer(talk.fetch_at(1), lost(FrameTooLarge(2_000_000_000, 100_000_000)))
    for first in (0, 3):
        talk.fetched(talk.fetch_at(1), {tp(0): batch(first, 3)})
    assert len(talk.poll()) == 6


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
    talk.run(1.3)
    talk.fetched(talk.fetch_at(1), {tp(0): batch(0, 1)})
    assert len(talk.poll()) == 1


def test_an_error_nobody_has_read_yet_is_not_piled_up(talk: Talk) -> None:
    talk.assign(tp(0), start=0)
    for _ in range(5):
        talk.fetched(talk.fetch_at(1), {tp(0): "TOPIC_AUTHORIZATION_FAILED"})
        talk.run(1.3)
    with pytest.raises(AuthorizationError):
        talk.poll()
    assert talk.poll() == []


def corrupt(talk: Talk, times: int) -> None:
    """The leader says so often that its log is damaged."""
    for _ in range(times):
        talk.fetched(talk.fetch_at(1), {tp(0): "CORRUPT_MESSAGE"})
        assert talk.pending(FetchRequest) == []
        talk.run(1.3)


def test_a_log_that_its_leader_cannot_read_is_told_once_and_asked_for_again(talk: Talk) -> None:
    talk.assign(tp(0), start=7)
    for first in (7, 8):
        corrupt(talk, 2)
        with pytest.raises(BrokerError, match=rf"t-0 at offset {first}: the leader's log is corrupt: CORRUPT_MESSAGE"):
            talk.poll()
        corrupt(talk, 3)
        assert talk.poll() == []
        talk.fetched(talk.fetch_at(1), {tp(0): batch(first, 1)})
        assert len(talk.poll()) == 1


def test_where_a_seek_meets_damage_again_it_is_told_again(talk: Talk) -> None:
    talk.assign(tp(0), start=7)
    for offset in (7, 8):
        corrupt(talk, 1)
        talk.fetched(talk.fetch_at(1), {tp(0): "CORRUPT_MESSAGE"})
        with pytest.raises(BrokerError, match=f"t-0 at offset {offset}"):
            talk.poll()
        talk.reader.seek(tp(0), offset + 1)
        talk.run(1.3)


def test_a_topic_that_metadata_refuses_is_told(talk: Talk) -> None:
    talk.assign(tp(0, "secret"))
    talk.cluster.set("secret", error="TOPIC_AUTHORIZATION_FAILED")
    talk.run()
    with pytest.raises(AuthorizationError, match="secret"):
        talk.poll()
