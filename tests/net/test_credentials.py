"""Credentials: the application's callables, from several threads, and the life of a token."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pykafka4.core.sasl.mechanism import Mechanism
from pykafka4.core.sasl.oauthbearer import Token
from pykafka4.core.sasl.scram import FEWEST_ITERATIONS
from pykafka4.errors import ConfigError
from pykafka4.net.credentials import Credentials
from pykafka4.options.config import ClientConfig
from tests.net.net_helpers import SECONDS, in_thread, until

LIFE = 1000.0


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Issuer:
    """A token callable. `life` is that of its tokens; `error` is raised in their place."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.asked, self.life = clock, 0, LIFE
        self.error: BaseException | None = None

    def __call__(self) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return f"token-{self.asked}", self.clock.now + self.life


def passwords(mechanism: str = "PLAIN", username: Any = "me", password: Any = "pass-word", **more: Any) -> Credentials:
    options = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "sasl_username": username, "sasl_password": password}
    return Credentials(ClientConfig.parse({"bootstrap_servers": "b:1", **options, **more}))


def tokens(callable: Callable[[], Any], clock: Clock | None = None) -> Credentials:
    options = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": callable}
    return Credentials(ClientConfig.parse({"bootstrap_servers": "b:1", **options}), clock or Clock())


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def issuer(clock: Clock) -> Issuer:
    return Issuer(clock)


def sent(mechanism: Mechanism) -> str:
    """The token in its first message."""
    return mechanism.first().decode().partition("Bearer ")[2].partition("\x01")[0]


# -- user name and password


def test_both_callables_are_asked_for_each_connection_and_their_answers_are_used_together() -> None:
    asked: list[str] = []

    def name() -> str:
        asked.append("name")
        return f"user-{asked.count('name')}"

    def password() -> str:
        asked.append("password")
        return f"secret-{asked.count('password')}"

    credentials = passwords(username=name, password=password)
    assert [credentials.mechanism("b").first() for _ in range(3)] == [f"\0user-{n}\0secret-{n}".encode() for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("option", "answer", "message"),
    [
        ("username", None, "the SASL user name must be a str, not NoneType"),
        ("username", b"me", "the SASL user name must be a str, not bytes"),
        ("username", "", "the SASL user name is empty"),
        ("password", 123456789, "the SASL password must be a str, not int"),
        ("password", "p\ud800w", "the SASL password has a lone surrogate"),
        ("password", ("me", "hidden-word"), "the SASL password must be a str, not tuple"),
    ],
)
def test_an_answer_of_the_wrong_type_is_refused_without_being_shown(option: str, answer: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        passwords(**{option: lambda: answer}).mechanism("b")
    assert not any(secret in str(caught.value) for secret in ("123456789", "hidden-word"))


def test_what_a_callable_raises_passes() -> None:
    with pytest.raises(ZeroDivisionError):
        passwords(password=lambda: str(1 // 0)).mechanism("b")


def test_a_callable_that_hangs_stops_only_its_own_caller() -> None:
    release, hanging = threading.Event(), threading.Event()
    calls: list[int] = []

    def password() -> str:
        calls.append(1)
        if len(calls) == 1:
            hanging.set()
            assert release.wait(SECONDS)
        return "secret-word"

    credentials = passwords(password=password)
    results: list[bytes] = []
    thread = in_thread(lambda: results.append(credentials.mechanism("b").first()))
    assert hanging.wait(SECONDS)
    assert credentials.mechanism("b").first() == b"\0me\0secret-word"
    assert not results
    release.set()
    thread.join(SECONDS)
    assert results == [b"\0me\0secret-word"]


def salted(mechanism: Any) -> Any:
    return mechanism._credentials.salted


def test_derived_keys_are_shared_while_the_password_is_the_same() -> None:
    word = ["first-password"]
    credentials = passwords("SCRAM-SHA-256", password=lambda: word[0])
    keys = salted(credentials.mechanism("b"))
    keys.derive("sha256", b"first-password", b"salt", FEWEST_ITERATIONS)
    assert salted(credentials.mechanism("b")) is keys
    word[0] = "second-password"
    changed = salted(credentials.mechanism("b"))
    assert changed is not keys
    assert changed.find("sha256", b"salt", FEWEST_ITERATIONS) is None, "they are those of another password"


def test_the_nonces_of_two_connections_differ() -> None:
    credentials = passwords("SCRAM-SHA-512")
    assert len({credentials.mechanism("b").first() for _ in range(100)}) == 100


def test_the_credentials_of_a_delegation_token_are_named_as_such() -> None:
    assert b",tokenauth=true" in (passwords("SCRAM-SHA-512", sasl_delegation_token=True).mechanism("b").first() or b"")
    assert b"tokenauth" not in (passwords("SCRAM-SHA-512").mechanism("b").first() or b"")


# -- tokens


def test_a_token_is_used_again_until_four_fifths_of_its_life_are_over(clock: Clock, issuer: Issuer) -> None:
    credentials, began = tokens(issuer, clock), clock.now
    for part in (0.0, 0.5, 0.799):
        clock.now = began + part * LIFE
        assert sent(credentials.mechanism("b")) == "token-1"
    clock.now = began + 0.851 * LIFE
    assert sent(credentials.mechanism("b")) == "token-2"
    assert issuer.asked == 2


def test_a_token_without_an_expiry_is_never_used_again() -> None:
    asked: list[int] = []

    def token() -> str:
        asked.append(1)
        return f"token-{len(asked)}"

    credentials = tokens(token)
    assert [sent(credentials.mechanism("b")) for _ in range(2)] == ["token-1", "token-2"]


def test_a_token_that_a_broker_refused_is_not_used_again(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    first, other = credentials.mechanism("b"), credentials.mechanism("b")
    first.first()
    first.refused("no")
    del first
    gc.collect()
    assert sent(credentials.mechanism("b")) == "token-2", "whoever was refused may be gone"
    other.first()
    other.refused("no")
    assert sent(credentials.mechanism("b")) == "token-2", "it was the former one that was refused"


def test_a_token_that_was_refused_as_json_only_is_not_used_again(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    mechanism = credentials.mechanism("b")
    mechanism.first()
    assert mechanism.next(b'{"status":"invalid_token"}') == b"\x01"
    assert sent(credentials.mechanism("b")) == "token-2"


def test_an_accepted_token_stays_in_use(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    mechanism = credentials.mechanism("b")
    mechanism.first()
    assert mechanism.next(b"") is None
    assert sent(credentials.mechanism("b")) == "token-1"


def test_while_no_token_can_be_had_the_last_one_is_used_until_it_expires(
    clock: Clock, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    credentials, began = tokens(issuer, clock), clock.now
    assert sent(credentials.mechanism("b")) == "token-1"
    issuer.error = OSError("https://idp?secret=abc is down")
    clock.now = began + 0.9 * LIFE
    with caplog.at_level(logging.WARNING, "pykafka4.credentials"):
        assert [sent(credentials.mechanism("b")) for _ in range(2)] == ["token-1"] * 2
    (line,) = caplog.records
    assert (
        line.getMessage() == "pykafka4: sasl_oauth_token gave no valid token (OSError); the last token is used until it expires, in 100 s"
    )
    clock.now = began + LIFE
    with pytest.raises(OSError, match="is down"):
        credentials.mechanism("b")
    issuer.error = None
    assert sent(credentials.mechanism("b")) == f"token-{issuer.asked}"


def test_a_refused_token_is_not_used_even_if_there_is_no_other(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    mechanism = credentials.mechanism("b")
    mechanism.first()
    mechanism.refused(None)
    issuer.error = OSError()
    with pytest.raises(OSError):
        credentials.mechanism("b")


def test_a_token_that_expired_while_it_was_asked_for_is_refused(clock: Clock) -> None:
    def slow() -> Token:
        token = Token("abc", clock.now + 5)
        clock.now += 10
        return token

    with pytest.raises(ConfigError, match="expired 5 s ago"):
        tokens(slow, clock).mechanism("b")


@pytest.mark.parametrize("answer", [None, 5, b"abc", {"access_token": "abc"}, ("abc",), Token])
def test_an_answer_that_is_no_token_is_refused(answer: Any) -> None:
    with pytest.raises(ConfigError, match="sasl_oauth_token must return a str, a Token, or a tuple"):
        tokens(lambda: answer).mechanism("b")


def test_four_threads_get_a_token_each_and_then_share_one(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    barrier = threading.Barrier(4)

    def many() -> set[str]:
        barrier.wait(SECONDS)
        return {sent(credentials.mechanism("b")) for _ in range(500)}

    with ThreadPoolExecutor(4) as pool:
        results = [future.result(SECONDS) for future in [pool.submit(many) for _ in range(4)]]
    assert issuer.asked <= 4
    assert len(set().union(*results)) <= 4
    assert len({sent(credentials.mechanism("b")) for _ in range(5)}) == 1


def test_four_threads_never_mix_user_names_and_passwords_of_different_times() -> None:
    answers = threading.local()

    def name() -> str:
        answers.number = getattr(answers, "number", 0) + 1
        return f"user-{threading.get_ident()}-{answers.number}"

    credentials = passwords(username=name, password=lambda: f"secret-{threading.get_ident()}-{answers.number}")

    def many() -> None:
        for _ in range(300):
            _, user, secret = credentials.mechanism("b").first().decode().split("\0")
            assert user.removeprefix("user-") == secret.removeprefix("secret-")

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(many) for _ in range(4)]:
            future.result(SECONDS)


def test_a_call_that_took_long_does_not_replace_a_newer_token(clock: Clock) -> None:
    release, hanging = threading.Event(), threading.Event()
    calls: list[int] = []

    def token() -> tuple[str, float]:
        calls.append(1)
        number = len(calls)
        if number == 1:
            hanging.set()
            assert release.wait(SECONDS)
        return f"token-{number}", clock.now + LIFE

    credentials = tokens(token, clock)
    results: list[str] = []
    thread = in_thread(lambda: results.append(sent(credentials.mechanism("b"))))
    assert hanging.wait(SECONDS)
    assert sent(credentials.mechanism("b")) == "token-2"
    release.set()
    thread.join(SECONDS)
    until(lambda: results == ["token-1"], "the first call")
    assert sent(credentials.mechanism("b")) == "token-2"


def test_nothing_is_kept_of_exchanges_that_are_over(clock: Clock, issuer: Issuer) -> None:
    credentials = tokens(issuer, clock)
    exchanges = [weakref.ref(credentials.mechanism("b")) for _ in range(100)]
    gc.collect()
    assert not [exchange for exchange in exchanges if exchange() is not None]


def test_repr_and_log_show_neither_passwords_nor_tokens(clock: Clock, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        secret = passwords(password="hidden-word")
        bearer = tokens(issuer, clock)
        shown = f"{secret!r} {secret.mechanism('b')!r} {bearer!r} {bearer.mechanism('b')!r} {bearer._held.value!r} {caplog.text}"
    assert "hidden-word" not in shown
    assert "token-1" not in shown
