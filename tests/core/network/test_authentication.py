"""A connection that authenticates itself: every order of responses and jobs, and every way in which it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.network.connection import CREDENTIALS_SHARE, ConnectionState
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token
from pykafka4.errors import AuthenticationError, ConfigError, ConnectionLost, DecodeError, KafkaError, KafkaTimeoutError
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.core.network.sasl_harness import LOST, SECRET, SETUP_S, Broker, Puppet, SaslHandshakeRequest, accepted, failure, refusal, shaken
from tests.core.scripted_brokers import frame, metadata, versions

S = ConnectionState


# -- success


def test_a_connection_is_ready_after_handshake_and_exchange() -> None:
    broker = Broker().negotiated()
    assert (broker.state, broker.kinds()) == (S.AUTHENTICATING, [])
    broker.do()
    ((handshake),) = broker.written()
    assert handshake.mechanism == "PLAIN"
    broker.answer(shaken())
    ((first),) = broker.written()
    assert first.auth_bytes == SECRET.encode()
    assert broker.state is S.AUTHENTICATING
    broker.answer(accepted())
    assert broker.state is S.READY
    assert broker.connection.in_flight == 0


def test_a_challenge_is_answered_until_the_mechanism_is_done() -> None:
    broker = Broker().proving()
    for challenge in (b"one", b"two"):
        broker.answer(accepted(challenge=challenge))
        ((message),) = broker.written()
        assert message.auth_bytes == b"more"
        assert broker.state is S.AUTHENTICATING
    broker.answer(accepted())
    assert broker.state is S.READY


def test_a_slow_challenge_is_answered_by_a_job() -> None:
    broker = Broker().proving()
    broker.answer(accepted(challenge=b"slow"))
    assert broker.kinds() == []
    assert broker.do() == b"more"
    assert broker.kinds() == ["SaslAuthenticate"]
    broker.answer(accepted())
    assert broker.state is S.READY


def test_requests_are_written_only_once_it_is_ready_and_in_order() -> None:
    broker = Broker()
    broker.submit(message=ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]))
    broker.negotiated()
    broker.submit()
    assert broker.kinds() == []
    broker.do()
    assert broker.kinds() == ["SaslHandshake"]
    broker.answer(shaken())
    assert broker.kinds() == ["SaslAuthenticate"]
    assert not broker.connection.answers
    broker.answer(accepted())
    assert broker.kinds() == ["Produce", "Metadata"]


def test_a_client_without_sasl_is_ready_at_once_and_never_again_authenticates() -> None:
    broker = Broker()
    broker.connection._prepare = None
    broker.negotiated()
    assert broker.state is S.READY
    assert not broker.connection.jobs
    assert broker.connection.wake_at == INFINITY


def test_a_throttled_client_still_authenticates_and_then_waits() -> None:
    broker = Broker()
    broker.connection.connected(0.0)
    broker.written()
    told = versions()
    told.throttle_time_ms = 3000
    broker.answer(told)
    broker.do()
    assert broker.kinds() == ["SaslHandshake"]
    broker.answer(shaken())
    assert broker.kinds() == ["SaslAuthenticate"]
    broker.submit()
    broker.answer(accepted())
    assert broker.kinds(2.9) == []
    assert broker.kinds(3.0) == ["Metadata"]


# -- refusals


def test_an_unsupported_mechanism_lists_what_the_broker_offers() -> None:
    broker = Broker().talking()
    broker.answer(shaken(33, ["SCRAM-SHA-512", "GSSAPI", "odd\n\x1b[31m", "x" * 1000]))
    error = failure(broker)
    assert "does not support this mechanism on this listener; it offers GSSAPI, SCRAM-SHA-512, odd\\n\\x1b[31m, xxx" in str(error)
    assert len(str(error)) < 700
    assert error.certain


def test_a_broker_that_offers_nothing() -> None:
    broker = Broker().talking()
    broker.answer(shaken(33, []))
    assert "it offers none" in str(failure(broker))


@pytest.mark.parametrize(("code", "name", "certain"), [(34, "ILLEGAL_SASL_STATE", True), (7, "REQUEST_TIMED_OUT", False)])
def test_another_error_of_the_handshake_is_named(code: int, name: str, certain: bool) -> None:
    broker = Broker().talking()
    broker.answer(shaken(code))
    error = failure(broker)
    assert name in str(error)
    assert error.certain is certain


def test_refused_credentials_are_told_in_the_brokers_words() -> None:
    broker = Broker().proving()
    answers = broker.submit()
    broker.answer(refusal())
    error = failure(broker)
    assert str(error) == "b1:9092: SASL PLAIN: the broker refused the credentials: 'wrong password'"
    assert str(error.code) == "SASL_AUTHENTICATION_FAILED"
    assert error.certain
    broker.settle()
    assert answers.failure.written is Written.NO
    assert answers.failure.reason is error


@pytest.mark.parametrize(("code", "name", "certain"), [(34, "ILLEGAL_SASL_STATE", True), (7, "REQUEST_TIMED_OUT", False)])
def test_another_error_of_the_exchange_is_named_and_counts_only_if_it_lasts(code: int, name: str, certain: bool) -> None:
    broker = Broker().proving()
    broker.answer(refusal(code, None))
    error = failure(broker)
    assert name in str(error)
    assert error.certain is certain


@pytest.mark.parametrize("slow", [b"", b"slow "])
def test_a_challenge_that_the_mechanism_refuses_ends_it(slow: bytes) -> None:
    broker = Broker().proving()
    broker.answer(accepted(challenge=slow + b"bad"))
    if slow:
        broker.do()
    assert str(failure(broker)).endswith("SASL PLAIN: the broker is odd")


@pytest.mark.parametrize("slow", [b"", b"slow "])
def test_a_bug_in_a_mechanism_ends_the_connection_and_not_the_loop(slow: bytes) -> None:
    broker = Broker().proving()
    broker.answer(accepted(challenge=slow + b"bug"))
    if slow:
        broker.do()
    error = failure(broker)
    assert "the exchange raised ZeroDivisionError" in str(error)
    assert not error.certain


def test_a_first_message_that_cannot_be_made_ends_it() -> None:
    class Odd(Puppet):
        def first(self) -> bytes:
            raise KafkaError("the user name has a NUL character")

    broker = Broker(Odd).talking()
    broker.answer(shaken())
    assert "NUL" in str(failure(broker))


class Own(ValueError):
    """Its own cause."""

    def __init__(self) -> None:
        super().__init__(SECRET)
        self.__cause__ = self


@pytest.mark.parametrize("error", [KeyError(SECRET), Own(), SystemExit(SECRET), KeyboardInterrupt(), OSError(SECRET)])
def test_what_the_applications_callable_raises_is_named_by_type_and_place_and_is_no_refusal(error: BaseException) -> None:
    def prepare() -> Any:
        raise error

    broker = Broker(prepare).negotiated()
    broker.do()
    reason = broker.connection.reason
    assert isinstance(reason, AuthenticationError)
    raised = f"b1:9092: SASL PLAIN: the application's callable for the credentials raised {type(error).__name__}"
    assert str(reason) == f"{raised} ({__file__}, line {prepare.__code__.co_firstlineno + 1}, in prepare)"
    assert reason.__cause__ is reason.__context__ is None, "what it says may be a secret"
    assert not reason.certain, "the next attempt may succeed: what it asked may be back"


def guess(text: str) -> AuthenticationError:
    error = AuthenticationError(text)
    error.certain = False
    return error


@pytest.mark.parametrize(
    ("error", "certain"),
    [
        (ConfigError("the SASL password is empty"), True),
        (AuthenticationError("no token: HTTP status 401"), True),
        (guess("no token: HTTP status 503"), False),
        (KafkaTimeoutError("nothing came"), False),
        (ConnectionLost("nobody is there"), False),
    ],
)
def test_an_error_of_this_package_is_told_and_keeps_its_certainty(error: KafkaError, certain: bool) -> None:
    def prepare() -> Any:
        raise error

    broker = Broker(prepare).negotiated()
    broker.do()
    reason = failure(broker)
    assert str(reason) == f"b1:9092: SASL PLAIN: {error}"
    assert reason.certain is certain


@pytest.mark.parametrize(
    "limits",
    [{"SaslHandshake": (0, 0)}, {"SaslHandshake": None}, {"SaslAuthenticate": None}, {"SaslHandshake": (0, 0), "SaslAuthenticate": None}],
)
def test_a_broker_that_is_too_old_to_authenticate_gets_no_credentials(limits: dict[str, Any]) -> None:
    broker = Broker(limits=limits).negotiated()
    broker.do()
    for message in broker.written():
        assert SECRET.encode() not in repr(message).encode()
        broker.answer(shaken())
    assert broker.state is S.CLOSED
    assert "older than Kafka 1.0" in broker.reason
    assert isinstance(broker.connection.reason, AuthenticationError)
    assert broker.kinds() == []


def test_a_real_mechanism_that_is_refused_twice_over_tells_why() -> None:
    broker = Broker(lambda: OAuthBearer(Token("hidden-token")))
    broker.proving().answer(accepted(challenge=b'{"status":"invalid_token","scope":"hidden-token"}'))
    ((message),) = broker.written()
    assert message.auth_bytes == b"\x01"
    broker.answer(refusal(message="bad hidden-token"))
    reason = broker.reason
    assert "invalid_token" in reason
    assert "hidden-token" not in reason


# -- garbage, losses, time


def garbage(header: Any, asked: Any, kind: str) -> bytes:
    right = shaken() if isinstance(asked, SaslHandshakeRequest) else accepted()
    return {
        "other id": frame(right, header.version, header.correlation_id + 1),
        "empty": b"",
        "short": header.correlation_id.to_bytes(4, "big"),
        "text": b"HTTP/1.1 400 Bad Request",
        "other message": frame(metadata({}), 9, header.correlation_id),
        "long": frame(right, header.version, header.correlation_id) + b"more",
    }[kind]


@pytest.mark.parametrize("kind", ["other id", "empty", "short", "text", "other message", "long"])
@pytest.mark.parametrize("stage", [Broker.talking, Broker.proving])
def test_an_answer_that_makes_no_sense_ends_it(stage: Callable[[Broker], Broker], kind: str) -> None:
    broker = stage(Broker())
    answers = broker.submit()
    ((header, asked),) = broker.unanswered
    broker.connection.receive(0.0, garbage(header, asked, kind))
    assert broker.state is S.CLOSED
    assert isinstance(broker.connection.reason, ConnectionLost)
    assert isinstance(broker.connection.reason.__cause__, DecodeError)
    broker.settle()
    assert answers.failure.written is Written.NO


@pytest.mark.parametrize("stage", [Broker.negotiated, Broker.ready, lambda broker: broker.proving().answer(accepted(challenge=b"slow"))])
def test_an_answer_to_nothing_ends_it(stage: Callable[[Broker], Any]) -> None:
    """Before the credentials are there, while keys are derived, and after SaslAuthenticate was answered twice."""
    broker = Broker()
    stage(broker)
    jobs = list(broker.connection.jobs)
    broker.connection.receive(0.0, frame(accepted(), 2, 2))
    assert broker.state is S.CLOSED
    assert "an unexpected response" in broker.reason
    assert not broker.connection.jobs
    exchange = broker.connection.exchange
    for run in jobs:
        broker.connection.authenticated(0.0, exchange, run())
    assert broker.state is S.CLOSED


def test_two_answers_to_one_message_do_not_make_it_ready_twice() -> None:
    broker = Broker().proving()
    ((header, _),) = broker.unanswered
    twice = frame(accepted(challenge=b"one"), header.version, header.correlation_id)
    broker.connection.receive(0.0, twice)
    assert broker.state is S.AUTHENTICATING
    broker.connection.outgoing(0.0)
    broker.connection.receive(0.0, twice)
    assert broker.state is S.CLOSED


@pytest.mark.parametrize("stage", [Broker.negotiated, Broker.talking, Broker.proving, Broker.ready])
def test_the_result_of_a_former_job_changes_nothing(stage: Callable[[Broker], Broker]) -> None:
    broker = stage(Broker())
    before, jobs = broker.state, len(broker.connection.jobs)
    for exchange in (object(), None if broker.connection.exchange is not None else object()):
        broker.connection.authenticated(0.0, exchange, Puppet())
        broker.connection.authenticated(0.0, exchange, ZeroDivisionError())
    assert (broker.state, len(broker.connection.jobs), broker.kinds()) == (before, jobs, [])


@pytest.mark.parametrize("stage", [Broker.negotiated, Broker.talking, Broker.proving])
def test_a_job_that_ends_after_its_connection_changes_nothing(stage: Callable[[Broker], Broker]) -> None:
    broker = stage(Broker())
    exchange = broker.connection.exchange
    broker.connection.lost(1.0, LOST)
    reason = broker.connection.reason
    broker.connection.authenticated(2.0, exchange, Puppet())
    assert (broker.state, broker.connection.reason) == (S.CLOSED, reason)
    assert not broker.connection.jobs
    assert not broker.connection.outgoing(2.0)
    assert broker.connection.wake_at == INFINITY


def test_a_connection_that_is_lost_before_the_exchange_is_only_lost() -> None:
    broker = Broker().negotiated()
    broker.connection.lost(0.0, LOST)
    assert broker.connection.reason is LOST


@pytest.mark.parametrize("stage", [Broker.talking, Broker.proving])
def test_a_connection_that_is_lost_during_the_exchange_may_be_a_refusal(stage: Callable[[Broker], Broker]) -> None:
    broker = stage(Broker())
    broker.connection.lost(0.0, LOST)
    error = failure(broker)
    assert "the connection was lost (reset by peer); some brokers refuse credentials in this way" in str(error)
    assert not error.certain


def test_a_reason_that_says_more_is_kept_when_the_connection_is_lost() -> None:
    too_large = ConnectionLost("b1:9092: a frame of 5 GB")
    too_large.__cause__ = DecodeError("5 GB")
    refused = AuthenticationError("b1:9092: the certificate is refused")
    for reason in (too_large, refused):
        broker = Broker().proving()
        broker.connection.lost(0.0, reason)
        assert broker.connection.reason is reason


@pytest.mark.parametrize(
    ("stage", "limit", "words"),
    [
        (Broker.negotiated, SETUP_S * CREDENTIALS_SHARE, "the application's callable for the credentials has not returned"),
        (Broker.talking, SETUP_S, "no response to SaslHandshake"),
        (Broker.proving, SETUP_S, "no response to SaslAuthenticate"),
        (lambda broker: broker.proving().answer(accepted(challenge=b"slow")), SETUP_S, "the keys have not been derived"),
    ],
)
def test_the_setup_timeout_says_what_did_not_happen_and_is_a_guess(stage: Callable[[Broker], Any], limit: float, words: str) -> None:
    broker = Broker()
    stage(broker)
    answers = broker.submit()
    assert broker.connection.wake_at <= limit
    broker.connection.poll(limit - 0.01)
    assert broker.state is S.AUTHENTICATING
    broker.connection.poll(limit)
    error = failure(broker)
    assert f"{words} in time (socket_connection_setup_timeout_ms)" in str(error)
    assert not error.certain
    assert error.is_local == ("callable" in words)
    broker.settle()
    assert answers.failure.written is Written.NO


def test_a_request_that_waits_too_long_for_the_exchange_fails_alone() -> None:
    broker = Broker().talking()
    late, other = broker.submit(deadline=3.0), broker.submit()
    broker.connection.poll(3.0)
    broker.settle()
    assert late.failure.written is Written.NO
    assert not other.outcomes
    assert broker.state is S.AUTHENTICATING
