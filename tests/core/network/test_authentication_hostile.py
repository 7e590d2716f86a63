"""Whatever a broker answers while the client authenticates itself, the connection ends with one error or becomes READY."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka4.core.network.connection import ConnectionState
from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token
from pykafka4.core.sasl.plain import Plain
from pykafka4.core.sasl.scram import Scram
from pykafka4.errors import AuthenticationError, ConnectionLost
from tests.core.network.sasl_harness import SECRET, Broker, Puppet, accepted, refusal, shaken
from tests.core.sasl.sasl_peer import PLENTY
from tests.core.scripted_brokers import frame

S = ConnectionState
LONGEST = 2_000  # characters of a message
MECHANISMS: dict[str, Callable[[], Any]] = {
    "puppet": Puppet,
    "PLAIN": lambda: Plain(SaslCredentials("me", SECRET)),
    "SCRAM": lambda: Scram("SCRAM-SHA-256", SaslCredentials("me", SECRET), b"n" * 24),
    "OAUTHBEARER": lambda: OAuthBearer(Token(SECRET)),
}
CHALLENGES = [
    b"", b"slow", b"bad", b"bug", b"slow bug", b"r=", b"r=bm5u,s=c2FsdA==,i=4096", b"e=other-error", b"v=abcd", b'{"status":"x"}',
    b"[" * 9000,
]  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, valid: bytes) -> bytes:
    """`valid`, with bytes changed, cut off or added; its correlation id often stays."""
    data = bytearray(valid)
    for _ in range(draw(st.integers(0, 4))):
        kept = draw(st.sampled_from([0, 4, 4, 4, 6]))
        at = draw(st.integers(min(kept, len(data)), len(data)))
        match draw(st.sampled_from(["change", "cut", "add", "length"])):
            case "change" if at < len(data):
                data[at] = draw(st.integers(0, 255))
            case "cut":
                del data[at : at + draw(st.integers(1, 40))]
            case "add":
                data[at:at] = draw(st.binary(max_size=40))
            case _:
                data[at : at + 4] = draw(st.sampled_from([b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\x10\0\0"]))
    return bytes(data)


@st.composite
def responses(draw: st.DrawFn, is_handshake: bool) -> Any:
    text = st.one_of(st.none(), st.text(max_size=50), st.just(SECRET), st.just("x" * 30_000))
    if is_handshake:
        names = st.lists(st.text(max_size=30), max_size=5)
        return shaken(draw(st.sampled_from([0, 0, 0, 33, 34, -1, 9999])), draw(names))
    if draw(st.booleans()):
        return refusal(draw(st.sampled_from([58, 34, 7, -1, 9999])), draw(text))
    response = accepted(challenge=draw(st.one_of(st.sampled_from(CHALLENGES), st.binary(max_size=200))))
    response.session_lifetime_ms = draw(st.one_of(st.just(0), st.integers(-(2**63), 2**63 - 1)))
    return response


def check(broker: Broker) -> None:
    """What holds at every moment."""
    connection = broker.connection
    assert connection.in_flight <= 1
    assert len(connection.jobs) <= 1
    if broker.state is S.CLOSED:
        assert isinstance(connection.reason, (AuthenticationError, ConnectionLost))
        assert len(str(connection.reason)) <= LONGEST
        assert SECRET not in str(connection.reason)
        assert not connection.jobs
        assert not connection.has_output
    else:
        assert connection.wake_at > 0.0


@pytest.mark.parametrize("name", MECHANISMS)
@given(data=st.data())
@settings(deadline=None, max_examples=150 * max(1, PLENTY))
def test_a_damaged_response_ends_the_connection_or_is_taken(name: str, data: st.DataObject) -> None:
    broker = Broker(MECHANISMS[name]).talking()
    for _ in range(8):
        ((header, asked),) = broker.unanswered
        broker.unanswered.clear()
        is_handshake = type(asked).__name__ == "SaslHandshakeRequest"
        valid = frame(data.draw(responses(is_handshake)), header.version, header.correlation_id)
        broker.connection.receive(0.0, data.draw(damaged(valid)))
        check(broker)
        if broker.connection.jobs:
            broker.do()
            check(broker)
        broker.written()
        if broker.state is not S.AUTHENTICATING:
            break
        assert len(broker.unanswered) == 1, "there is always something that is waited for"
    if broker.state is S.READY:
        assert broker.connection.exchange is None
        assert name != "SCRAM", "nobody has proved that he knows the password"


@given(data=st.binary(max_size=300))
@settings(deadline=None, max_examples=200 * max(1, PLENTY))
def test_any_bytes_end_the_connection_or_are_taken(data: bytes) -> None:
    for stage in (Broker.negotiated, Broker.talking, Broker.proving):
        broker = stage(Broker())
        broker.connection.receive(0.0, data)
        check(broker)
