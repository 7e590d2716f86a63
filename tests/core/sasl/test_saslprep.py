"""SASLprep: the examples of RFC 4013, and what else it prohibits."""

from __future__ import annotations

import pytest
from sasl_peer import assert_hidden, raised, shown

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.saslprep import prepared, saslprep
from pykafka4.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("I\u00adX", "IX"),  # the examples of RFC 4013, section 3
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b\u1680c", "a b c"),  # other spaces, the second with no other form
        ("e\u0301", "\u00e9"),
        ("\u0627\u0031\u0628", "\u0627\u0031\u0628"),  # RFC 3454, section 6
        ("pass word~", "pass word~"),
        ("", ""),
    ],
)
def test_what_is_prepared(text: str, result: str) -> None:
    assert saslprep(text) == result


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hunter2\u0007", "a control character"),  # the examples of RFC 4013, section 3
        ("\u0627\u0031", "begins or ends in another direction"),
        ("\u0031\u0627", "begins or ends in another direction"),
        ("\u0627a\u0628", "mixes directions"),
        ("hunter2\u0085", "a control character"),
        ("hunter2\ue000", "a private-use character"),
        ("hunter2\ufdd0", "a non-character"),
        ("hunter2\ud800", "a surrogate"),
        ("hunter2\ufffd", "plain text does not have"),
        ("hunter2\u2ff0", "canonical text does not have"),
        ("hunter2\u202e", "changes the display"),
        ("hunter2\U000e0041", "a tagging character"),
        ("hunter2\U0001f600", "Unicode 3.2 does not have"),
        ("\u00ad", "only characters that SASLprep removes"),
    ],
)
def test_what_is_prohibited(text: str, why: str) -> None:
    error = raised(ConfigError, lambda: saslprep(text, "the SASL password"))
    assert str(error).startswith("the SASL password ")
    assert why in str(error)
    assert_hidden(shown(error), "hunter2")


def test_credentials_are_prepared_as_rfc_5802_says() -> None:
    assert prepared(SaslCredentials("\u2168\U0001f600", "\u00aa")) == SaslCredentials("IX\U0001f600", "a")
    with pytest.raises(ConfigError, match=r"the SASL password has a character that Unicode 3\.2 does not have"):
        prepared(SaslCredentials("alice", "\U0001f600"))
    with pytest.raises(ConfigError, match="the SASL user name has a control character"):
        prepared(SaslCredentials("ali\tce", "hunter2"))
