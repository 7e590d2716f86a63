"""OAUTHBEARER (RFC 7628, KIP-255, KIP-342) and its tokens."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.sasl.mechanism import Step
from pykafka4.core.sasl.oauthbearer import LONGEST_TOKEN, OAuthBearer, Token, token_of
from pykafka4.errors import ConfigError
from tests.core.sasl.sasl_peer import assert_hidden, raised, reason, refusal, shown

NOW = 1_800_000_000.0
SECRET = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln"


def begun(token: str = SECRET) -> OAuthBearer:
    oauth = OAuthBearer(Token(token))
    oauth.first()
    return oauth


def test_the_first_message_is_as_java_writes_it() -> None:
    """OAuthBearerClientInitialResponse of kafka-clients 4.4.0."""
    assert OAuthBearer(Token("abc.def-_")).first() == b"n,,\x01auth=Bearer abc.def-_\x01\x01"
    extended = Token("abc.def-_", extensions={"logicalCluster": "lkc-1", "identityPoolId": "pool-2"})
    assert OAuthBearer(extended).first() == b"n,,\x01auth=Bearer abc.def-_\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"


def test_an_empty_answer_completes_it() -> None:
    oauth = begun()
    assert not oauth.slow(b"")
    assert oauth.next(b"") is None
    assert oauth.step is Step.DONE


@pytest.mark.parametrize(
    ("challenge", "why"),
    [
        (b'{"status":"invalid_token"}', "(status 'invalid_token')"),
        (
            b'{"status":"insufficient_scope","scope":"kafka","openid-configuration":"http://x"}',
            "(status 'insufficient_scope', scope 'kafka')",
        ),
        (b'{"status":"\\u001b[31m"}', "(status '\\x1b[31m')"),
        (b'{"status":7,"scope":["x"]}', "(without a status)"),
        (b'["status"]', "(without a status)"),
        (b"null", "(without a status)"),
        (b"{", "(without a status)"),
        (b"\xff\xfe\x00", "(without a status)"),
        (b"[" * 65_536, "(without a status)"),
        (b"1" * 65_536, "(without a status)"),
    ],
    ids=range(10),
)
def test_a_refused_token_is_acknowledged_and_the_reason_kept(challenge: bytes, why: str) -> None:
    oauth = begun()
    assert oauth.next(challenge) == b"\x01"
    assert oauth.step is Step.WAITING
    error = oauth.refused("no")
    assert reason(error).startswith(f"the broker refused the credentials: 'no'; the token was refused {why}: check ")


@pytest.mark.parametrize("then", [b"", b'{"status":"invalid_token"}'])
def test_nothing_but_a_failure_may_follow_a_refused_token(then: bytes) -> None:
    oauth = begun()
    assert oauth.next(b'{"status":"invalid_token"}') == b"\x01"
    assert reason(refusal(oauth, then)).startswith("the broker refused the token (status 'invalid_token'), and continued")


@pytest.mark.parametrize("part", [SECRET, SECRET[:20], SECRET[-20:]])
def test_a_broker_that_repeats_the_token_is_not_quoted(part: str) -> None:
    for field in ("status", "scope"):
        oauth = begun()
        oauth.next(json.dumps({field: f"bad: {part}"}).encode())
        for error in (oauth.refused(f"bad: {part}"), oauth.refused(None)):
            assert_hidden(shown(error), part)


def test_a_token_is_not_shown_and_not_pickled() -> None:
    token = Token(SECRET, NOW, "alice", {"pool": "p-1", "a": "b"})
    assert repr(token) == str(token) == f"Token(value=<hidden>, expires_at={NOW}, principal='alice', extensions=['a', 'pool'])"
    with pytest.raises(TypeError, match="this Token cannot be pickled"):
        pickle.dumps(token)
    assert copy.deepcopy(token) is token
    assert token == Token(SECRET, int(NOW), "alice", {"a": "b", "pool": "p-1"})
    assert hash(token) == hash(Token(SECRET, NOW, "alice"))


def test_extensions_cannot_change() -> None:
    given = {"a": "b"}
    token = Token(SECRET, extensions=given)
    given["auth"] = "Bearer x"
    assert dict(token.extensions) == {"a": "b"}
    with pytest.raises(TypeError):
        token.extensions["a"] = "c"  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"x", "the OAuth token must be a str, not bytes"),
        (None, "must be a str, not NoneType"),
        ("", "the OAuth token is empty"),
        (f"Bearer {SECRET}", "characters that RFC 6750 does not allow"),
        (f"{SECRET}\n", "characters that RFC 6750 does not allow"),
        (f"{SECRET}\x01auth=Bearer other", "characters that RFC 6750 does not allow"),
        (f"{SECRET}\xe9", "characters that RFC 6750 does not allow"),
        (f"{SECRET}=x", "characters that RFC 6750 does not allow"),
        ("x" * (LONGEST_TOKEN + 1), "has 262,145 characters, more than 262,144"),
    ],
    ids=range(9),
)
def test_a_token_that_is_refused(value: str, why: str) -> None:
    error = raised(ConfigError, lambda: Token(value))
    assert why in str(error)
    assert_hidden(shown(error), SECRET)


def test_a_token_may_have_what_rfc_6750_allows() -> None:
    assert Token("aZ09-._~+/==").value == "aZ09-._~+/=="
    assert len(Token("x" * LONGEST_TOKEN).value) == LONGEST_TOKEN


@pytest.mark.parametrize(
    ("expires_at", "why"),
    [
        ("soon", "must be a number of seconds since 1970, or None, not str"),
        (True, "not bool"),
        (float("nan"), "a positive number of seconds since 1970, not of milliseconds"),
        (float("inf"), "a positive number of seconds since 1970, not of milliseconds"),
        (NOW * 1000, "a positive number of seconds since 1970, not of milliseconds"),
        (10**400, "a positive number of seconds since 1970, not of milliseconds"),
        (0, "a positive number of seconds since 1970, not of milliseconds"),
        (-1.0, "a positive number of seconds since 1970, not of milliseconds"),
    ],
)
def test_an_expiry_that_is_refused(expires_at: float, why: str) -> None:
    assert why in str(raised(ConfigError, lambda: Token(SECRET, expires_at)))


# What Java refuses (OAuthBearerClientInitialResponse.validateExtensions), and what is no text.
@pytest.mark.parametrize(
    ("extensions", "why"),
    [
        ({"auth": "Bearer hunter2"}, "not 'auth'"),
        ({"a1": "hunter2"}, "must be ASCII letters"),
        ({"a_b": "hunter2"}, "must be ASCII letters"),
        ({"": "hunter2"}, "must be ASCII letters"),
        ({"a\n": "hunter2"}, "must be ASCII letters"),
        ({"\xe9": "hunter2"}, "must be ASCII letters"),
        ({7: "hunter2"}, "must be ASCII letters"),
        ({"a": ""}, "the SASL extension 'a' must be"),
        ({"a": "hunter2\x01auth=x"}, "the SASL extension 'a' must be"),
        ({"a": "hunter2\xe9"}, "the SASL extension 'a' must be"),
        ({"a": "hunter2\x7f"}, "the SASL extension 'a' must be"),
        ({"a": b"hunter2"}, "the SASL extension 'a' must be"),
        ([("a", "hunter2")], "must be a dict, not list"),
    ],
)
def test_extensions_that_are_refused(extensions: Mapping[str, str], why: str) -> None:
    error = raised(ConfigError, lambda: Token(SECRET, extensions=extensions))
    assert why in str(error)
    assert_hidden(shown(error), "hunter2", SECRET)


def test_extensions_that_java_allows() -> None:
    assert dict(Token("x", extensions={"Auth": "x", "a": "x=y z\t\r\n,"}).extensions) == {"Auth": "x", "a": "x=y z\t\r\n,"}


def test_what_a_callable_may_return() -> None:
    token = Token(SECRET, NOW + 1)
    assert token_of(token, NOW) is token
    assert token_of(SECRET, NOW) == Token(SECRET)
    assert token_of((SECRET, NOW + 1), NOW) == token
    assert token_of((SECRET, None), NOW) == Token(SECRET)
    assert token_of((SECRET, NOW + 1, "alice"), NOW) == Token(SECRET, NOW + 1, "alice")
    assert token_of((SECRET, NOW + 1, None, {"a": "b"}), NOW) == Token(SECRET, NOW + 1, extensions={"a": "b"})


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        (None, "must return a str, a Token, or a tuple (token, expires at[, principal[, extensions]]), not NoneType"),
        (SECRET.encode(), "not bytes"),
        ({"access_token": SECRET}, "not dict"),
        ([SECRET, NOW + 1], "not list"),
        ((SECRET,), "not a tuple of 1"),
        ((SECRET, NOW + 1, "alice", {}, SECRET), "not a tuple of 5"),
        ((NOW + 1, SECRET), "the OAuth token must be a str, not float"),
        ((SECRET, SECRET), "the expiry of the OAuth token must be a number of seconds since 1970, or None, not str"),
        ((SECRET, NOW + 1, 7), "the principal of the OAuth token must be a str, not int"),
        ((SECRET, NOW), "returned a token that expired 0 s ago"),
        (Token(SECRET, NOW - 3600), "returned a token that expired 3,600 s ago"),
        ((SECRET, 300), "return a new one, and its expiry in seconds since 1970"),
    ],
)
def test_what_a_callable_may_not_return(returned: object, why: str) -> None:
    error = raised(ConfigError, lambda: token_of(returned, NOW))
    assert why in str(error)
    assert_hidden(shown(error), SECRET)
    assert "sasl_token must" in str(raised(ConfigError, lambda: token_of(None, NOW, "sasl_token")))


def test_a_token_is_refreshed_after_80_to_85_percent_of_its_life() -> None:
    token = Token(SECRET, NOW + 1000)
    assert token.refresh_at(NOW, 0) == NOW + 800
    assert token.refresh_at(NOW, 1) == pytest.approx(NOW + 850)
    assert token.refresh_at(NOW + 500, 0) == NOW + 900
    assert Token(SECRET).refresh_at(NOW, 0.5) == INFINITY
