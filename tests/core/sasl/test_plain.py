"""PLAIN (RFC 4616)."""

from __future__ import annotations

import pytest

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.plain import Plain
from pykafka4.errors import AuthenticationError
from tests.core.sasl.sasl_peer import assert_hidden, raised, reason, refusal, shown


def test_the_example_of_the_rfc() -> None:
    plain = Plain(SaslCredentials("tim", "tanstaaftanstaaf"))
    assert plain.first() == b"\0tim\0tanstaaftanstaaf"
    assert plain.next(b"") is None
    assert not plain.slow(b"")


def test_user_name_and_password_are_sent_as_utf_8_without_being_prepared() -> None:
    assert Plain(SaslCredentials("Käthe \u2168", "\u00aa, =\t")).first() == "\0Käthe \u2168\0\u00aa, =\t".encode()


@pytest.mark.parametrize(("user", "password", "what"), [("ali\0ce", "hunter2", "user name"), ("alice", "hunt\0er2", "password")])
def test_a_nul_is_refused_as_it_would_end_a_field(user: str, password: str, what: str) -> None:
    error = raised(AuthenticationError, Plain(SaslCredentials(user, password)).first)
    assert reason(error) == f"the {what} has a NUL character, which ends a field in PLAIN; choose one without it"
    assert_hidden(shown(error), password)


def test_a_challenge_that_is_not_empty_is_refused() -> None:
    plain = Plain(SaslCredentials("alice", "hunter2"))
    plain.first()
    error = refusal(plain, b"hunter2")
    assert reason(error) == "the broker sent 7 bytes where PLAIN has none; check the program that listens there"
    assert_hidden(shown(error), "hunter2")


def test_a_broker_that_repeats_the_password_is_not_quoted() -> None:
    plain = Plain(SaslCredentials("alice", "hunter2"))
    plain.first()
    assert_hidden(shown(plain.refused("alice has another password than hunter2")), "hunter2")
