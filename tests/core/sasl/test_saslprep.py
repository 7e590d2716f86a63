"""SASLprep: the examples of RFC 4013, and what else it prohibits."""

from __future__ import annotations

import pytest

from pykafka4.core.sasl.saslprep import Prohibited, difference, saslprep
from tests.core.sasl.sasl_peer import assert_hidden, raised, shown


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
        ("\u0627\u0031", "a first or last character"),
        ("\u0031\u0627", "a first or last character"),
        ("\u0627a\u0628", "two directions"),
        ("hunter2\u0085", "a control character"),
        ("hunter2\ue000", "a private-use character"),
        ("hunter2\ufdd0", "a non-character"),
        ("hunter2\ud800", "a surrogate"),
        ("hunter2\ufffd", "inappropriate for plain text"),
        ("hunter2\u2ff0", "inappropriate for canonical representation"),
        ("hunter2\u202e", "changes the display"),
        ("hunter2\U000e0041", "a tagging character"),
        ("hunter2\U0001f600", "Unicode 3.2 does not have"),
        ("\u00ad", "only characters that are removed"),
    ],
)
def test_what_is_prohibited(text: str, why: str) -> None:
    error = raised(Prohibited, lambda: saslprep(text))
    assert why in str(error)
    assert difference(text) == f"has {error}, which SASLprep prohibits: choose another password for a server that applies it"
    assert_hidden(shown(error), "hunter2")


@pytest.mark.parametrize("text", ["\u2168", "a\u00a0b", "e\u0301", "\u00aa", "I\u00adX"])
def test_what_is_changed(text: str) -> None:
    assert difference(text) == "has characters that SASLprep changes: a server that applies it needs the prepared form"


@pytest.mark.parametrize("text", ["hunter2", "pass word~", "p\u00e4ssword", "\u043f\u0430\u0440\u043e\u043b\u044c"])
def test_what_is_left_as_it_is(text: str) -> None:
    assert difference(text) == ""
