"""What all mechanisms have in common: the order of messages, their size, what errors repeat."""

from __future__ import annotations

import pytest

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Mechanism, Step
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token
from pykafka4.core.sasl.plain import Plain
from pykafka4.errors import AuthenticationError
from tests.core.sasl.gss_peer import gssapi
from tests.core.sasl.sasl_peer import ScramBroker, reason, refusal, scram

ALL = {
    "PLAIN": lambda: Plain(SaslCredentials("alice", "hunter2")),
    "SCRAM-SHA-256": lambda: scram(),
    "SCRAM-SHA-512": lambda: scram("SCRAM-SHA-512"),
    "OAUTHBEARER": lambda: OAuthBearer(Token("abc.def")),
    "GSSAPI": lambda: gssapi(),
}


@pytest.fixture(params=ALL)
def mechanism(request: pytest.FixtureRequest) -> Mechanism:
    made: Mechanism = ALL[request.param]()
    assert made.name == request.param
    return made


def test_a_message_before_the_first_of_the_client_is_refused(mechanism: Mechanism) -> None:
    error = refusal(mechanism, b"")
    assert (error.code.name, reason(error)[:61]) == (
        "ILLEGAL_SASL_STATE",
        "the broker sent a message to an exchange that is new; close t",
    )


def test_an_exchange_is_begun_once(mechanism: Mechanism) -> None:
    mechanism.first()
    with pytest.raises(AuthenticationError, match="begun twice"):
        mechanism.first()


def test_a_message_after_a_refusal_is_refused(mechanism: Mechanism) -> None:
    mechanism.first()
    refusal(mechanism, b"\0" * 70_000)
    assert "an exchange that is failed" in reason(refusal(mechanism, b""))


def test_a_message_after_the_end_is_refused() -> None:
    plain, oauth, scrammed, broker = ALL["PLAIN"](), ALL["OAUTHBEARER"](), scram(), ScramBroker()
    for mechanism in (plain, oauth):
        mechanism.first()
        assert mechanism.next(b"") is None
    assert scrammed.next(broker.final(scrammed.next(broker.first(scrammed.first())) or b"")) is None
    for mechanism in (plain, oauth, scrammed):
        assert mechanism.step is Step.DONE
        error = refusal(mechanism, b"")
        assert error.code.name == "ILLEGAL_SASL_STATE"
        assert "an exchange that is done" in reason(error)


@pytest.mark.parametrize(("name", "longest"), [("SCRAM-SHA-256", 8_192), ("OAUTHBEARER", 65_536)])
def test_a_message_has_a_longest_size(name: str, longest: int) -> None:
    just, over = ALL[name](), ALL[name]()
    just.first(), over.first()
    assert not over.slow(b"r" * (longest + 1))
    assert f"has {longest + 1:,} bytes, more than {longest:,}" in reason(refusal(over, b"{" * (longest + 1)))
    if name == "OAUTHBEARER":
        assert just.next(b"{" * longest) == b"\x01"
    else:
        assert "more than" not in reason(refusal(just, b"{" * longest))


def test_a_failure_that_is_no_refusal_ends_the_exchange_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stop(BaseException):
        pass

    def stop(*_: object) -> bytes:
        raise Stop

    plain = Plain(SaslCredentials("alice", "hunter2"))
    monkeypatch.setattr(plain, "_opening", stop)
    with pytest.raises(Stop):
        plain.first()
    assert plain.step is Step.FAILED
    plain = Plain(SaslCredentials("alice", "hunter2"))
    monkeypatch.setattr(plain, "_answer", stop)
    plain.first()
    with pytest.raises(Stop):
        plain.next(b"")
    assert plain.step is Step.FAILED


def test_a_broker_that_refuses_is_quoted(mechanism: Mechanism) -> None:
    mechanism.first()
    error = mechanism.refused("Authentication failed: Invalid username or password")
    assert error.code.name == "SASL_AUTHENTICATION_FAILED"
    assert reason(error).startswith("the broker refused the credentials: 'Authentication failed: Invalid username or password'; check ")
    assert "without a reason" in reason(mechanism.refused(None))
    refusal(mechanism, b"")
