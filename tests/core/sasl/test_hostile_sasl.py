"""Hostile brokers. Whatever a broker sends: AuthenticationError or an answer, in bounded time, and no success that it did not prove."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Exchange, Step
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token, token_of
from pykafka4.core.sasl.plain import Plain
from pykafka4.core.sasl.scram import FEWEST_ITERATIONS, LONGEST_SALT, MOST_ITERATIONS
from pykafka4.errors import AuthenticationError, ConfigError
from tests.core.sasl.gss_peer import OFFER, PROOF, SIGNED, gssapi
from tests.core.sasl.sasl_peer import NONCE, PASSWORD, SALT, ScramBroker, assert_hidden, hostile, scram, shown
from tests.wire.hostile_bytes import edited

OURS = b64encode(NONCE).decode()
TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2ln"
real = hashlib.pbkdf2_hmac

pieces = st.sampled_from([b"", b",", b"=", b"\0", b"m=x,", b"e=", b"v=", b"r=", b"i=", b"9" * 9, b"\xff", b"\xc3\xa9", OURS.encode()])
edit = st.tuples(st.integers(0, 200), st.sampled_from([0, 1, 4, 300]), st.one_of(pieces, st.binary(max_size=4)))
edits = st.lists(edit, min_size=1, max_size=4)


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is derived outside of the bounds; inside of them, only with the right parameters is it done in earnest."""

    def derive(algorithm: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        assert FEWEST_ITERATIONS <= iterations <= MOST_ITERATIONS
        assert 0 < len(salt) <= LONGEST_SALT
        return real(algorithm, password, salt, iterations if (salt, iterations) == (SALT, 4096) else 1)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", derive)


def step(mechanism: Exchange, challenge: bytes, *secrets: str) -> bytes | None:
    """The answer; None after a refusal, which must be one, and hide what has to be hidden."""
    try:
        mechanism.slow(challenge)
        return mechanism.next(challenge)
    except AuthenticationError as error:
        refused = error
    assert mechanism.step is Step.FAILED
    assert len(str(refused)) < 1000
    assert_hidden(shown(refused), *secrets)
    return None


@hostile
@given(st.one_of(st.builds(edited, st.just(f"r={OURS}X,s={b64encode(SALT).decode()},i=4096".encode()), edits), st.binary(max_size=80)))
def test_a_first_message_of_scram(challenge: bytes) -> None:
    client = scram()
    client.first()
    step(client, challenge, PASSWORD, OURS)
    assert client.step is not Step.DONE


errors = st.text(max_size=60).map(lambda words: f"e={words}".encode())
right = ScramBroker()
example = scram()
LAST = right.final(example.next(right.first(example.first())) or b"")


@hostile
@given(st.one_of(st.builds(edited, st.just(LAST), edits), st.binary(max_size=80), errors))
def test_a_last_message_of_scram(challenge: bytes) -> None:
    client, broker = scram(), ScramBroker()
    proof = (client.next(broker.first(client.first())) or b"").decode().rpartition(",p=")[2]
    step(client, challenge, PASSWORD, OURS, proof)
    assert (client.step is Step.DONE) <= challenge.startswith(LAST[:-2])  # the last digit has unused bits


plain_values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=40), st.just(TOKEN))
json_values = st.recursive(plain_values, lambda inner: st.lists(inner, max_size=3))
fields = st.dictionaries(st.sampled_from(["status", "scope", "openid-configuration", "x"]), json_values, max_size=4)


@hostile
@given(st.one_of(fields.map(lambda value: json.dumps(value).encode()), st.binary(max_size=80)), st.one_of(st.none(), st.text(max_size=300)))
def test_messages_of_oauthbearer(challenge: bytes, words: str | None) -> None:
    client = OAuthBearer(Token(TOKEN))
    client.first()
    answer = step(client, challenge, TOKEN)
    assert (answer, client.step) == ((b"\x01", Step.WAITING) if challenge else (None, Step.DONE))
    assert_hidden(shown(client.refused(words)), TOKEN)
    step(client, challenge, TOKEN)
    assert client.step is Step.FAILED


@hostile
@given(st.binary(max_size=80))
def test_a_message_of_plain(challenge: bytes) -> None:
    client = Plain(SaslCredentials("alice", PASSWORD))
    client.first()
    step(client, challenge, PASSWORD)
    assert (client.step is Step.DONE) == (not challenge)


def nested(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    tuples = st.lists(inner, max_size=5).map(tuple)
    return st.one_of(st.lists(inner, max_size=3), tuples, st.dictionaries(st.text(max_size=3), inner, max_size=2))


anything = st.recursive(st.one_of(plain_values, st.binary(max_size=8)), nested)


@hostile
@given(anything)
def test_what_callables_return(returned: object) -> None:
    for check in (lambda: SaslCredentials("alice", returned), lambda: token_of(returned, 1.0)):  # type: ignore[arg-type]
        try:
            check()
        except ConfigError as error:
            assert_hidden(shown(error), TOKEN)


@hostile
@given(st.text(max_size=250), st.text(min_size=1, max_size=30), st.booleans())
def test_a_refusal_in_the_words_of_the_broker(words: str, password: str, repeats: bool) -> None:
    password = password.encode(errors="ignore").decode() or "x"
    said = f"{words[:100]}{password}{words[100:]}" if repeats else words
    error = Plain(SaslCredentials("alice", password)).refused(said)
    assert str(error).isprintable()
    if len(password) > 3 and password not in "the broker refused the credentials: its words are not shown, because they repeat a secret":
        assert_hidden([str(error)], password)


@hostile
@given(st.lists(st.one_of(st.sampled_from([b"", PROOF, SIGNED + OFFER, SIGNED]), st.binary(max_size=80)), max_size=6))
def test_messages_of_gssapi(challenges: list[bytes]) -> None:
    client = gssapi()
    client.first()
    for challenge in challenges:
        step(client, challenge)
    assert (client.step is Step.DONE) <= (challenges[:1] == [PROOF] and challenges[2:] == [b""])
