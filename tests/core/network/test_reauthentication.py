"""Connections authenticate themselves again before their session ends (KIP-368)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.network.connection import SOONEST_S, ConnectionState
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from tests.core.network.sasl_harness import LOST, SETUP_S, Broker, Puppet, accepted, failure, refusal, shaken

S = ConnectionState


def test_it_authenticates_itself_again_at_85_percent_of_the_lifetime() -> None:
    broker = Broker().ready(100.0, lifetime=1000.0)
    assert broker.connection.wake_at == pytest.approx(950.0)
    broker.connection.poll(949.9)
    assert not broker.connection.jobs
    broker.connection.poll(950.0)
    assert len(broker.connection.jobs) == 1
    broker.do(950.0)
    assert broker.kinds(950.0) == ["SaslHandshake"]
    broker.answer(shaken(), 950.0)
    assert broker.kinds(950.0) == ["SaslAuthenticate"]
    broker.answer(accepted(2000.0), 951.0)
    assert broker.state is S.READY
    assert broker.connection.wake_at == pytest.approx(951.0 + 1700.0)


def test_without_a_lifetime_it_never_does() -> None:
    assert {Broker().ready(lifetime=lifetime).connection.wake_at for lifetime in (0.0, -5.0)} == {INFINITY}


def test_a_tiny_lifetime_does_not_keep_the_client_busy() -> None:
    assert Broker().ready(5.0, lifetime=0.001).connection.wake_at == 5.0 + SOONEST_S


def test_the_lifetime_is_that_of_the_last_message() -> None:
    broker = Broker().proving()
    broker.answer(accepted(10.0, b"challenge"))
    broker.written()
    broker.answer(accepted(1000.0))
    assert broker.connection.wake_at == pytest.approx(850.0)


def test_requests_are_written_until_the_exchange_begins_and_after_it_in_order() -> None:
    broker = Broker().ready(lifetime=100.0)
    broker.connection.poll(85.0)
    broker.submit(85.0)
    assert broker.kinds(85.0) == ["Metadata"], "the credentials are not there yet"
    broker.do(85.0)
    first = broker.submit(85.0)
    second = broker.submit(85.0, message=ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]))
    assert broker.connection.is_engaged
    assert broker.kinds(85.0) == ["SaslHandshake"], "nothing else"
    broker.tell(85.5)
    assert broker.kinds(85.5) == []
    broker.answer(shaken(), 86.0)
    assert broker.kinds(86.0) == ["SaslAuthenticate"]
    broker.answer(accepted(challenge=b"slow"), 86.0)
    assert broker.kinds(86.0) == []
    broker.do(86.0)
    assert broker.kinds(86.0) == ["SaslAuthenticate"]
    broker.answer(accepted(), 86.0)
    assert broker.kinds(86.0) == ["Metadata", "Produce"]
    assert not first.outcomes
    assert not second.outcomes


def test_responses_to_what_was_in_flight_come_before_those_of_the_exchange() -> None:
    broker = Broker().ready(lifetime=100.0)
    before = [broker.submit(84.0) for _ in range(3)]
    broker.written(84.0)
    broker.again(85.0)
    assert broker.kinds(85.0) == ["SaslHandshake"]
    for answers in before:
        broker.tell(85.0)
        broker.settle()
        assert answers.reply.node == 1
    broker.answer(shaken(), 85.0)
    assert broker.kinds(85.0) == ["SaslAuthenticate"]


def test_an_exchange_behind_a_request_that_the_broker_holds_back_has_time() -> None:
    """A JoinGroup may take minutes, and the broker reads nothing else of this connection before it has answered it."""
    broker = Broker().ready(lifetime=100.0)
    held = broker.submit(84.0, deadline=400.0)
    broker.written(84.0)
    broker.again(85.0)
    broker.written(85.0)
    for now in (95.0, 200.0, 390.0):
        broker.connection.poll(now)
        assert broker.state is S.READY
        assert broker.connection.wake_at > now, "no busy loop"
    broker.tell(395.0)
    broker.settle()
    assert held.reply.node == 1
    assert broker.connection.wake_at <= 395.0 + SETUP_S
    broker.connection.poll(395.0 + SETUP_S - 0.1)
    assert broker.state is S.READY
    assert broker.connection.wake_at == pytest.approx(395.0 + SETUP_S)
    broker.connection.poll(395.0 + SETUP_S)
    assert "no response to SaslHandshake in time" in str(failure(broker))


def test_a_request_before_the_exchange_that_is_late_ends_the_connection() -> None:
    broker = Broker().ready(lifetime=100.0)
    late = broker.submit(80.0, deadline=90.0)
    broker.written(80.0)
    broker.again(85.0)
    broker.written(85.0)
    broker.connection.poll(90.0)
    assert broker.state is S.CLOSED
    broker.settle()
    assert late.failure.written is Written.MAYBE


Act = Callable[[Broker], Any]
ENDS: list[tuple[str, Act, str]] = [
    ("refused", lambda broker: broker.answer(refusal(), 86.0), "wrong password"),
    ("lost", lambda broker: broker.connection.lost(86.0, LOST), "the connection was lost"),
    ("late", lambda broker: broker.connection.poll(85.0 + SETUP_S), "no response to SaslAuthenticate"),
]


@pytest.mark.parametrize(("act", "words"), [pytest.param(act, words, id=name) for name, act, words in ENDS])
def test_an_exchange_that_fails_again_ends_the_connection(act: Act, words: str) -> None:
    broker = Broker().ready(lifetime=100.0)
    broker.again(85.0)
    broker.written(85.0)
    broker.answer(shaken(), 85.0)
    broker.written(85.0)
    queued = broker.submit(85.0)
    act(broker)
    assert words in str(failure(broker))
    broker.settle()
    assert queued.failure.written is Written.NO


def test_an_exchange_that_fails_again_leaves_what_is_in_flight_in_doubt() -> None:
    def prepare() -> Any:
        if prepared:
            raise OSError
        prepared.append(1)
        return Puppet()

    prepared: list[int] = []
    broker = Broker(prepare).ready(lifetime=100.0)
    flying, silent = broker.submit(84.0), broker.submit(84.0, message=ProduceRequest(acks=0, timeout_ms=1), expects_reply=False)
    broker.written(84.0)
    broker.connection.poll(85.0)
    queued = broker.submit(85.0)
    broker.do(85.0)
    assert "raised OSError" in str(failure(broker))
    broker.settle()
    assert [answers.failure.written for answers in (flying, silent, queued)] == [Written.MAYBE, Written.MAYBE, Written.NO]


def test_a_callable_that_hangs_the_second_time_ends_the_connection_in_time() -> None:
    broker = Broker().ready(lifetime=100.0)
    broker.connection.poll(85.0)
    flying = broker.submit(85.0)
    assert broker.kinds(85.0) == ["Metadata"]
    broker.tell(94.0)
    broker.settle()
    assert flying.reply.node == 1
    broker.connection.poll(85.0 + SETUP_S)
    assert "callable for the credentials has not returned" in str(failure(broker))


def test_authenticating_again_is_no_use_of_the_connection() -> None:
    """Otherwise a connection that nobody needs would stay open for ever."""
    broker = Broker().ready(lifetime=100.0)
    since = broker.connection.idle_since
    broker.again(85.0)
    broker.written(85.0)
    broker.connection.written_to(85.0)
    broker.answer(shaken(), 85.0)
    broker.written(85.0)
    broker.connection.written_to(85.0)
    broker.answer(accepted(100.0), 86.0)
    assert broker.connection.idle_since == since


def test_what_a_connection_keeps_does_not_grow_with_its_exchanges() -> None:
    broker, now = Broker().ready(lifetime=100.0), 0.0
    for _ in range(1000):
        now = broker.connection.wake_at
        broker.again(now)
        broker.written(now)
        broker.answer(shaken(), now)
        broker.written(now)
        broker.answer(accepted(100.0), now)
    assert broker.connection.in_flight == 0
    assert not broker.connection.jobs
    assert broker.connection.exchange is None
    assert now == pytest.approx(85_000.0)
