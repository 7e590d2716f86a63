"""Connection: negotiation, order, deadlines; the first protocol error closes it for all of its requests."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from pykafka4.core import INFINITY, Outcome
from pykafka4.core.network import unsupported
from pykafka4.core.network.answered import Answered
from pykafka4.core.network.connection import LONGEST_MUTE_S, SOFTWARE_VERSION, Connection, ConnectionState, usable
from pykafka4.errors import AuthenticationError, ConnectionLost, DecodeError, KafkaError, KafkaTimeoutError, UnsupportedVersion, caused_by
from pykafka4.records import Written
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_admin import DescribeClusterRequest, DescribeClusterResponse
from pykafka4.wire.protocol.messages_cluster import ApiVersionsResponse, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.protocol.messages_group import OffsetFetchRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest, ProduceResponse
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest
from pykafka4.wire.protocol.schema import REQUESTS
from tests.core.scripted_brokers import FAR, Answers, PlainRequest, config, frame, metadata, read, request, versions

S = ConnectionState
LOST = ConnectionLost("b1:9092: reset by peer")


def connecting(setup_deadline: float = 10.0, **options: Any) -> Connection:
    return Connection(1, 7, config(**options), setup_deadline, "b1:9092")


def ready(options: dict[str, Any] | None = None, **limits: tuple[int, int] | None) -> Connection:
    connection = connecting(**(options or {}))
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(versions(**limits), header.version, header.correlation_id))
    assert connection.state is S.READY
    return connection


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """It and what it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def settle(connection: Connection) -> None:
    """Give the answers, as Network does."""
    answers, connection.answers = connection.answers, []
    for asked, outcome in answers:
        asked.on_reply(0.0, outcome)


def submit(connection: Connection, **options: Any) -> Answers:
    asked, answers = request(**options)
    connection.submit(0.0, asked)
    return answers


# -- negotiation


def test_messages_declared_after_the_connection_was_ready_can_be_sent_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = ready()
    key = OffsetFetchRequest.api_key
    known = connection.version(key)
    assert known is not None
    monkeypatch.delitem(REQUESTS, key)  # a process without a consumer has not imported them
    assert connection.version(key) is None
    monkeypatch.setitem(REQUESTS, key, OffsetFetchRequest)
    assert connection.version(key) == known


def test_the_first_request_is_api_versions_and_names_the_client_software() -> None:
    connection = connecting()
    connection.connected(0.0)
    ((header, message),) = read(connection.outgoing(0.0))
    assert (header.version, header.client_id) == (4, "pykafka4")
    assert (message.client_software_name, message.client_software_version) == ("pykafka4", SOFTWARE_VERSION)


def test_api_keys_that_are_given_as_numbers_are_those_of_their_messages() -> None:
    keys = (ProduceRequest.api_key, FetchRequest.api_key, InitProducerIdRequest.api_key)
    assert keys == (unsupported.PRODUCE, unsupported.FETCH, unsupported.INIT_PRODUCER_ID)


def test_the_version_sent_to_brokers_is_the_packages() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert project["project"]["version"] == SOFTWARE_VERSION


@pytest.mark.parametrize(
    ("reply", "asked_next"),
    [
        (b"\0\x23" + b"\0\0\0\0", 0),  # error 35 and no versions
        (b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\2", 2),  # error 35 and what it speaks, in the form of v0
        (b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\3", 3),  # one less than was asked in
        (b"\0\x23\1\0\x12\0\0\0\2", 0),  # librdkafka's mock: neither v0 nor v4
        (b"\0\x23", 0),
        (b"", 0),
        (b"\0\0\0", 0),
    ],
)
def test_api_versions_is_repeated_in_a_version_that_the_broker_knows(reply: bytes, asked_next: int) -> None:
    connection = connecting()
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, header.correlation_id.to_bytes(4, "big") + reply)
    ((header, _),) = read(connection.outgoing(0.0))
    assert header.version == asked_next
    connection.receive(0.0, frame(versions(), header.version, header.correlation_id))
    assert connection.state is S.READY


def test_an_unreadable_api_versions_answer_is_requested_again_in_older_versions() -> None:
    connection = connecting()
    connection.connected(0.0)
    for reply, asked_next in ((b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\1", 1), (b"", 0)):
        ((header, _),) = read(connection.outgoing(0.0))
        connection.receive(0.0, header.correlation_id.to_bytes(4, "big") + reply)
        assert connection._asked_version == asked_next
    assert connection.state is S.NEGOTIATING


def test_retries_of_api_versions_end() -> None:
    """A broker that lists every version of ApiVersions and refuses all of them."""
    connection = connecting()
    connection.connected(0.0)
    for _ in range(10):
        if connection.state is S.CLOSED:
            break
        ((header, _),) = read(connection.outgoing(0.0))
        refusal = ApiVersionsResponse(error_code=35, api_keys=[ApiVersionsResponse.Api(api_key=18, min_version=0, max_version=9)])
        connection.receive(0.0, frame(refusal, 0, header.correlation_id))
    assert connection.state is S.CLOSED
    assert "UNSUPPORTED_VERSION" in str(connection.reason)


def test_requests_wait_for_the_api_versions_answer() -> None:
    connection = connecting()
    submit(connection)
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    assert not connection.outgoing(0.0)
    connection.receive(0.0, frame(versions(), header.version, header.correlation_id))
    ((_, message),) = read(connection.outgoing(0.0))
    assert isinstance(message, MetadataRequest)


def test_produce_is_never_spoken_below_our_minimum_though_brokers_list_it() -> None:
    assert usable((0, 2), ProduceRequest.api_key) is None
    assert usable((0, 5), ProduceRequest.api_key) == (3, 5)
    assert ready(Produce=(0, 2)).version(ProduceRequest.api_key) is None
    assert ready(Produce=(0, 13)).version(ProduceRequest.api_key) == 13
    assert ready(Produce=(0, 13)).version(ProduceRequest.api_key, 12) == 12


@pytest.mark.parametrize(
    ("limit", "cap", "text", "way_out"),
    [
        (None, None, "does not support it, this client supports 0-2", "; it needs Kafka 2.8 or newer: upgrade the broker"),
        ((8, 9), None, "supports versions 8 to 9, this client supports 0-2", "; upgrade pykafka4"),
        ((1, 2), 0, "supports versions 1 to 2, this client supports 0-2 (here at most 0)", ""),
    ],
)
def test_a_request_the_broker_does_not_speak_fails_alone_and_says_both_ranges_and_the_way_out(
    limit: Any, cap: int | None, text: str, way_out: str
) -> None:
    connection = ready(DescribeCluster=limit)
    answers = submit(connection, message=DescribeClusterRequest(), max_version=cap)
    other = submit(connection)
    assert len(read(connection.outgoing(0.0))) == 1
    settle(connection)
    assert isinstance(answers.failure.reason, UnsupportedVersion)
    assert answers.failure.written is Written.NO
    assert str(answers.failure.reason) == f"DescribeClusterRequest: broker 1 {text}{way_out}"
    assert not other.outcomes


@pytest.mark.parametrize(("theirs", "sent"), [((0, 8), True), ((0, 7), True), ((0, 6), False)])
def test_a_request_made_before_there_was_a_connection_is_fitted_to_the_version_found_then(theirs: tuple[int, int], sent: bool) -> None:
    def fit(message: OffsetFetchRequest, version: int) -> None:
        message.require_stable = version >= 7

    connection = connecting()
    submit(connection, message=OffsetFetchRequest(group_id="g", topics=[], require_stable=True), max_version=7, fit=fit)
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(versions(OffsetFetch=theirs), header.version, header.correlation_id))
    ((_, message),) = read(connection.outgoing(0.0))
    assert message.require_stable is sent


@pytest.mark.parametrize("message", [ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[]), InitProducerIdRequest()])
def test_writing_to_a_broker_older_than_0_11_is_refused_with_the_way_out(message: Any) -> None:
    ancient = ready(Produce=(0, 2), InitProducerId=None, Fetch=(0, 3))
    answers = submit(ancient, message=message)
    assert not ancient.outgoing(0.0)
    settle(ancient)
    assert isinstance(answers.failure.reason, UnsupportedVersion)
    assert answers.failure.written is Written.NO
    assert "older than Kafka 0.11" in str(answers.failure.reason)
    assert "upgrade the broker to produce" in str(answers.failure.reason)
    newer = ready(Produce=(20, 21), InitProducerId=None)
    answers = submit(newer, message=message)
    newer.outgoing(0.0)
    settle(newer)
    assert "older" not in str(answers.failure.reason)


def test_a_request_that_cannot_be_encoded_fails_alone() -> None:
    connection = ready()
    answers = submit(connection, message=MetadataRequest(topics="no list"))
    other = submit(connection)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(metadata({}), header.version, header.correlation_id))
    settle(connection)
    assert isinstance(answers.failure.reason, KafkaError)
    assert answers.failure.written is Written.NO
    assert other.reply.node == 1


# -- order


def test_replies_go_to_their_requests_in_order_and_carry_version_and_node() -> None:
    connection = ready(Metadata=(0, 9))
    first, second = submit(connection), submit(connection, message=DescribeClusterRequest())
    (one, _), (two, _) = read(connection.outgoing(0.0))
    assert one.correlation_id != two.correlation_id
    connection.receive(1.0, frame(metadata({}), one.version, one.correlation_id))
    settle(connection)
    assert (first.reply.version, first.reply.node) == (9, 1)
    assert not second.outcomes
    assert connection.in_flight == 1


@pytest.mark.parametrize(
    "bad",
    [
        lambda header: frame(metadata({}), header.version, header.correlation_id + 1),  # not the one that is next
        lambda header: frame(metadata({}), header.version, header.correlation_id)[:-1],
        lambda header: frame(metadata({}), header.version, header.correlation_id) + b"\0",
        lambda header: b"",
        lambda header: b"HTTP",
    ],
)
def test_an_answer_that_cannot_be_right_ends_the_connection_for_all(bad: Any) -> None:
    connection = ready()
    first, second = submit(connection), submit(connection)
    (header, _), _ = read(connection.outgoing(0.0))
    queued = submit(connection)
    connection.receive(0.0, bad(header))
    settle(connection)
    assert connection.state is S.CLOSED
    assert first.failure.reason is second.failure.reason is queued.failure.reason is connection.reason
    assert isinstance(first.failure.reason, ConnectionLost)
    assert isinstance(first.failure.reason.__cause__, DecodeError)
    assert not any(error.__traceback__ for error in chain(first.failure.reason)), "it would keep the connection and the bytes"
    assert first.failure.passing, "whoever asked may ask again"
    assert first.failure.written is second.failure.written is Written.MAYBE
    assert queued.failure.written is Written.NO
    assert str(connection.reason).startswith("b1:9092: cannot decode the response to MetadataRequest: ")


def test_an_unrequested_answer_closes_the_connection() -> None:
    connection = ready()
    connection.receive(0.0, frame(metadata({}), 9, 5))
    assert connection.state is S.CLOSED


def test_correlation_ids_wrap_instead_of_overflowing() -> None:
    connection = ready()
    connection._correlation = 2**31 - 1
    answers = [submit(connection), submit(connection)]
    for header, _ in read(connection.outgoing(0.0)):
        connection.receive(0.0, frame(metadata({}), header.version, header.correlation_id))
    settle(connection)
    assert all(a.reply for a in answers)


# -- requests without a reply


def test_a_request_without_reply_is_done_when_its_last_byte_reached_the_socket() -> None:
    connection = ready()
    silent = submit(connection, message=ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), expects_reply=False)
    read(connection.outgoing(0.0))
    settle(connection)
    assert not silent.outcomes
    assert connection.in_flight == 1
    connection.written_to(1.0)
    settle(connection)
    assert silent.reply.message is None
    assert connection.in_flight == 0


@pytest.mark.parametrize("looked_at", [5.0, 6.0])
def test_a_request_without_reply_that_the_socket_never_takes_ends_the_connection(looked_at: float) -> None:
    connection = ready()
    message = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    silent = submit(connection, message=message, expects_reply=False, deadline=5.0)
    read(connection.outgoing(0.0))
    connection.poll(looked_at)
    settle(connection)
    assert silent.failure.written is Written.MAYBE
    assert len(silent.outcomes) == 1
    assert connection.state is S.CLOSED


# -- deadlines


def test_no_answer_in_time_ends_the_connection_so_that_a_late_one_is_not_taken_for_anothers() -> None:
    connection = ready()
    late, other = submit(connection, deadline=5.0), submit(connection)
    (header, _), _ = read(connection.outgoing(0.0))
    queued = submit(connection)
    assert connection.wake_at <= 5.0
    connection.poll(4.9)
    assert connection.state is S.READY
    connection.poll(5.0)
    settle(connection)
    assert isinstance(late.failure.reason, KafkaTimeoutError)
    assert late.failure.written is other.failure.written is Written.MAYBE
    assert queued.failure.written is Written.NO
    connection.receive(6.0, frame(metadata({}), header.version, header.correlation_id))
    settle(connection)
    assert len(late.outcomes) == 1


def test_a_short_deadline_behind_a_long_one_counts() -> None:
    connection = ready()
    long, short = submit(connection, deadline=300.0), submit(connection, deadline=5.0)
    read(connection.outgoing(0.0))
    connection.poll(5.0)
    settle(connection)
    assert isinstance(short.failure.reason, KafkaTimeoutError)
    assert isinstance(long.failure.reason, ConnectionLost)


def test_a_broker_has_the_whole_time_for_each_of_several_requests_as_it_takes_them_one_at_a_time() -> None:
    connection = ready()
    asked = [submit(connection, deadline=30.0) for _ in range(5)]
    for number, (header, _) in enumerate(read(connection.outgoing(0.0))):
        at = 7.0 * (number + 1)
        connection.poll(at)
        connection.receive(at, frame(metadata({}), header.version, header.correlation_id))
    settle(connection)
    assert connection.state is S.READY
    assert all(answers.reply for answers in asked)


def test_an_answer_that_took_most_of_its_time_gives_those_behind_it_no_more() -> None:
    """A leader that is cut off from its replicas takes 80 % for each of them."""
    connection = ready()
    asked = [submit(connection, deadline=30.0) for _ in range(5)]
    (header, _), *_ = read(connection.outgoing(0.0))
    connection.receive(24.0, frame(metadata({}), header.version, header.correlation_id))
    assert connection.wake_at == 30.0
    connection.poll(30.0)
    settle(connection)
    assert connection.state is S.CLOSED
    assert asked[0].reply
    assert [answers.failure.written for answers in asked[1:]] == [Written.MAYBE] * 4


def test_a_broker_that_falls_silent_has_the_time_of_one_request_since_its_last_answer() -> None:
    connection = ready()
    asked = [submit(connection, deadline=30.0) for _ in range(5)]
    (header, _), *_ = read(connection.outgoing(0.0))
    connection.receive(7.0, frame(metadata({}), header.version, header.correlation_id))
    connection.poll(36.9)
    assert connection.state is S.READY
    assert connection.wake_at == 37.0
    connection.poll(37.0)
    settle(connection)
    assert connection.state is S.CLOSED
    assert [answers.failure.written for answers in asked[1:]] == [Written.MAYBE] * 4


def test_a_request_that_was_never_handed_out_fails_alone() -> None:
    connection = ready()
    connection.muted_until = 60.0
    late, patient = submit(connection, deadline=5.0), submit(connection)
    assert not connection.outgoing(1.0)
    connection.poll(5.0)
    settle(connection)
    assert isinstance(late.failure.reason, KafkaTimeoutError)
    assert late.failure.written is Written.NO
    assert connection.state is S.READY
    assert len(read(connection.outgoing(60.0))) == 1
    assert not patient.outcomes


@pytest.mark.parametrize("step", [S.CONNECTING, S.NEGOTIATING])
def test_a_peer_that_is_silent_before_it_is_ready_is_given_up_at_the_setup_deadline(step: ConnectionState) -> None:
    connection = connecting(setup_deadline=10.0)
    waiting = submit(connection)
    if step is S.NEGOTIATING:
        connection.connected(1.0)
        connection.outgoing(1.0)
    connection.poll(9.9)
    assert connection.state is step
    connection.poll(10.0)
    settle(connection)
    assert connection.state is S.CLOSED
    assert waiting.failure.written is Written.NO
    assert "within the setup timeout" in str(waiting.failure.reason)


def test_a_tls_handshake_that_takes_too_long_is_not_called_a_response() -> None:
    connection = Connection(1, 7, config(security_protocol="SSL"), 10.0, "b1:9093")
    connection.poll(10.0)
    assert str(connection.reason) == "b1:9093: no TLS connection within the setup timeout"


def test_polling_with_nothing_due_looks_at_nothing() -> None:
    connection = ready()
    for _ in range(100):
        submit(connection, deadline=5.0)
    connection._queued = None  # type: ignore[assignment]  # touching it would raise
    connection.poll(4.9)


# -- throttling and ends


def test_a_throttled_connection_stops_sending_and_goes_on_receiving() -> None:
    connection = ready()
    first, second = submit(connection), submit(connection)
    (one, _), (two, _) = read(connection.outgoing(0.0))
    told = metadata({})
    told.throttle_time_ms = 2_000
    connection.receive(1.0, frame(told, one.version, one.correlation_id))
    third = submit(connection)
    assert not connection.outgoing(2.9)
    assert connection.wake_at <= 3.0
    connection.receive(2.9, frame(metadata({}), two.version, two.correlation_id))
    settle(connection)
    assert first.reply
    assert second.reply
    assert not third.outcomes
    assert len(read(connection.outgoing(3.0))) == 1


@pytest.mark.parametrize(
    ("message", "answer", "versions", "quiet"),
    [
        (ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), ProduceResponse(responses=[]), (5, 5), False),
        (ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), ProduceResponse(responses=[]), (6, 6), True),
        (MetadataRequest(topics=[]), metadata({}), (5, 5), False),
        (MetadataRequest(topics=[]), metadata({}), (6, 6), True),
        (DescribeClusterRequest(), DescribeClusterResponse(), (0, 0), True),
    ],
)
def test_where_a_broker_that_throttles_held_the_answer_back_the_connection_goes_on(
    message: Any, answer: Any, versions: tuple[int, int], quiet: bool
) -> None:
    """Until Kafka 2.0 (KIP-219) it did: the client would wait a second time."""
    connection = ready(**{type(message).__name__.removesuffix("Request"): versions})
    submit(connection, message=message)
    ((one, _),) = read(connection.outgoing(0.0))
    answer.throttle_time_ms = 2_000
    connection.receive(1.0, frame(answer, one.version, one.correlation_id))
    submit(connection)
    assert bool(connection.outgoing(2.9)) is not quiet
    assert bool(connection.outgoing(3.0)) is quiet


def test_a_response_that_is_too_large_is_the_cause_of_its_own_request_only() -> None:
    connection = ready()
    first, second = submit(connection), submit(connection)
    connection.outgoing(0.0)
    connection.muted_until = 5.0
    queued = submit(connection)
    connection.lost(1.0, caused_by(ConnectionLost("b1:9092"), FrameTooLarge(5000, 2000)))
    settle(connection)
    causes = [answers.outcomes[0].reason.__cause__ for answers in (first, second, queued)]
    assert [isinstance(cause, FrameTooLarge) for cause in causes] == [True, False, False]


def test_a_damaged_throttle_does_not_mute_a_connection_for_days() -> None:
    connection = ready()
    submit(connection)
    ((one, _),) = read(connection.outgoing(0.0))
    told = metadata({})
    told.throttle_time_ms = 2**31 - 1
    connection.receive(1.0, frame(told, one.version, one.correlation_id))
    submit(connection)
    assert not connection.outgoing(LONGEST_MUTE_S)
    assert len(read(connection.outgoing(1.0 + LONGEST_MUTE_S))) == 1


def answered() -> Connection:
    """A connection on which the broker has answered a request."""
    connection = ready()
    submit(connection)
    ((one, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(metadata({}), one.version, one.correlation_id))
    settle(connection)
    return connection


def test_a_lost_connection_tells_written_from_unwritten() -> None:
    connection = answered()
    written = submit(connection)
    connection.outgoing(0.0)
    queued = submit(connection)
    connection.lost(1.0, LOST)
    settle(connection)
    assert (written.failure.written, queued.failure.written) == (Written.MAYBE, Written.NO)
    assert written.failure.reason is queued.failure.reason is LOST


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "demand SASL: set security_protocol to SASL_PLAINTEXT"),
        ({"security_protocol": "SSL"}, "demand SASL: set security_protocol to SASL_SSL"),
    ],
)
def test_a_broker_that_closes_instead_of_answering_the_first_request_may_demand_sasl(options: dict[str, Any], says: str) -> None:
    connection = ready(options)
    request = submit(connection)
    connection.outgoing(0.0)
    connection.lost(1.0, LOST)
    settle(connection)
    reason = connection.reason
    assert isinstance(reason, AuthenticationError)
    assert not reason.certain
    assert says in str(reason)
    assert request.failure.reason is LOST, "a guess is no reason to fail: `Refusals` believes it after several attempts"
    assert request.failure.written is Written.MAYBE


def test_a_closed_connection_answers_what_is_submitted_to_it() -> None:
    connection = ready()
    connection.lost(1.0, LOST)
    late = submit(connection)
    connection.receive(2.0, b"")
    connection.lost(2.0, LOST)
    settle(connection)
    assert late.failure.written is Written.NO


def test_on_reply_is_never_called_from_inside() -> None:
    def loud(now: float, outcome: Outcome) -> None:
        raise AssertionError("called from inside")

    connection = ready()
    connection.submit(0.0, PlainRequest(1, MetadataRequest(topics=[]), FAR, answers=loud))
    connection.outgoing(0.0)
    connection.lost(0.0, LOST)
    assert len(connection.answers) == 1


def test_an_illegal_step_raises() -> None:
    connection = ready()
    with pytest.raises(RuntimeError, match="NEGOTIATING cannot follow READY"):
        connection.connected(0.0)


def test_a_broker_is_silent_since_the_oldest_request_that_it_has_not_answered() -> None:
    connection = ready()
    assert connection.silent_since == INFINITY
    for now in (1.0, 2.0):
        submit(connection)
        read(connection.outgoing(now))
        connection.written_to(now)
    assert connection.silent_since == 1.0


def test_requests_count_as_in_flight_while_queued_while_unanswered_and_until_the_socket_took_them() -> None:
    connection = ready()
    submit(connection)
    submit(connection, message=ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), expects_reply=False)
    assert connection.in_flight == 2
    connection.outgoing(0.0)
    assert connection.in_flight == 2
    submit(connection)
    assert connection.in_flight == 3


def test_a_throttled_connection_with_nothing_to_send_sets_no_timer_for_the_end_of_the_throttle() -> None:
    connection = ready()
    submit(connection)
    ((header, _),) = read(connection.outgoing(0.0))
    told = metadata({})
    told.throttle_time_ms = 2_000
    connection.receive(1.0, frame(told, header.version, header.correlation_id))
    settle(connection)
    assert not connection.outgoing(1.0)
    assert connection.wake_at > 3.0


def test_what_is_written_of_a_batch_is_a_view_so_that_the_batch_may_be_given_back_before() -> None:
    connection = ready()
    partition = ProduceRequest.Topic.Partition(index=0, records=bytearray(b"records"))
    topic = ProduceRequest.Topic(name="t", topic_id=UUID(int=1), partition_data=[partition])
    submit(connection, message=ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]))
    written = connection.outgoing(0.0)
    assert b"records" in b"".join(written)
    assert {type(buffer) for buffer in written} == {bytes, memoryview}


# -- addresses that have answered before


def again(before: Connection, answered: Answered) -> Connection:
    """The next connection to the same address."""
    connection = Connection(1, 8, config(), 10.0, before.address, answered=answered)
    connection.connected(0.0)
    connection.outgoing(0.0)
    return connection


def known() -> tuple[Connection, Answered]:
    answered = Answered()
    connection = Connection(1, 7, config(), 10.0, "b1:9092", answered=answered)
    connection.connected(0.0)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(versions(), header.version, header.correlation_id))
    submit(connection)
    ((header, _),) = read(connection.outgoing(0.0))
    connection.receive(0.0, frame(metadata({}), header.version, header.correlation_id))
    return connection, answered


@pytest.mark.parametrize("cut", ["stopped", "frozen", "garbled"])
def test_an_outage_of_an_address_that_has_answered_gives_no_advice_about_its_listener(cut: str) -> None:
    connection = again(*known())
    if cut == "stopped":
        connection.lost(1.0, LOST)
    elif cut == "frozen":
        connection.poll(10.0)
    else:
        connection.receive(1.0, b"HTTP/1.1 502 Bad Gateway")
    assert isinstance(connection.reason, ConnectionLost)
    assert not isinstance(connection.reason, AuthenticationError)
    assert "may demand" not in str(connection.reason)
    assert "Kafka broker?" not in str(connection.reason)
