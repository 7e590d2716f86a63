"""SCRAM (RFC 5802, RFC 7677): Kafka's own vectors, each refusal, the work off the loop."""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode

import pytest

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.scram import ALGORITHMS, LONGEST_SALT, MOST_ITERATIONS, Scram
from pykafka4.errors import AuthenticationError
from tests.core.sasl.sasl_peer import NONCE, PASSWORD, SALT, ScramBroker, assert_hidden, raised, reason, refusal, scram, shown

OURS = b64encode(NONCE).decode()
SALTED = b64encode(SALT).decode()
EXAMPLE = b64decode("rOprNGfwEbeRWgbNEkqO")  # the nonces and the salt of RFC 7677
THEIRS = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
# Name, user, password, the broker's first message, proof, signature. The first is the example of RFC 7677; the others are from
# ScramFormatter of kafka-clients 4.4.0, and the second also from scramp 1.5.0.
VECTORS = {
    "RFC 7677": (
        *("SCRAM-SHA-256", "user", "pencil", f"r={THEIRS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
    "SHA-512": (
        *("SCRAM-SHA-512", "user", "pencil", f"r={THEIRS},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"),
        "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
        "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==",
    ),
    "Kafka does not prepare a password": (
        *("SCRAM-SHA-512", "a=b,c", "p\u00aa\u2168 \u00a0\tx\u00ad", "r=rOprNGfwEbeRWgbNEkqOS1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=8192"),
        "ARHFb/IFB5uGLgAiHm0xtDEgmPPGmWB5NYgbGKfmczNuPgjqlKqVOy5urRt9ozUGzh1dj2AUw3PCbimCxQHCgA==",
        "onG/+5fxcydyaWXpqOkzArFJCMJp+woe7BcO4r7N4Gfz+1BKhdTo1zEKhfrLem8oBzTPZnhhFUyO+t3HM9OYIw==",
    ),
}


@pytest.mark.parametrize("vector", VECTORS)
def test_known_exchanges(vector: str) -> None:
    name, user, password, first, proof, signature = VECTORS[vector]
    client = Scram(name, SaslCredentials(user, password), EXAMPLE)
    assert client.first() == f"n,,n={user.replace('=', '=3D').replace(',', '=2C')},r=rOprNGfwEbeRWgbNEkqO".encode()
    nonce = first.partition(",")[0]
    assert client.next(first.encode()) == f"c=biws,{nonce},p={proof}".encode()
    assert client.next(f"v={signature}".encode()) is None


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("user", ["alice", "a=2C,=3D,=b", "Käthe"])
def test_a_broker_that_knows_the_password_is_believed(name: str, user: str) -> None:
    client, broker = scram(name, user), ScramBroker(ALGORITHMS[name])
    proof = client.next(broker.first(client.first()))
    assert broker.user == user
    assert proof is not None
    assert client.next(broker.final(proof)) is None


def test_a_delegation_token_is_named_as_one() -> None:
    client, broker = Scram("SCRAM-SHA-256", SaslCredentials("id", PASSWORD, is_token=True), NONCE), ScramBroker()
    opening = client.first()
    assert opening.endswith(b",tokenauth=true")
    assert client.next(broker.final(client.next(broker.first(opening)) or b"")) is None


@pytest.mark.parametrize("password", [" spaces ", "e\u0301\t", "\ufb01,=\0", "x" * 5000])
def test_a_password_is_used_as_it_is(password: str) -> None:
    client, broker = scram(password=password), ScramBroker(password=password)
    assert client.next(broker.final(client.next(broker.first(client.first())) or b"")) is None


def test_a_nonce_is_encoded_without_what_a_field_must_not_have() -> None:
    for nonce in (b"\xff" * 24, bytes(range(25)), b"\xfb\xef" * 13):
        client, broker = Scram("SCRAM-SHA-256", SaslCredentials("alice", PASSWORD), nonce), ScramBroker()
        opening = client.first().decode()
        assert b64decode(opening.partition(",r=")[2] + "==") == nonce
        assert client.next(broker.final(client.next(broker.first(opening.encode())) or b"")) is None


def test_a_nonce_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="a nonce of 14 bytes can be guessed"):
        Scram("SCRAM-SHA-256", SaslCredentials("alice", PASSWORD), b"x" * 14)


def test_a_user_name_with_a_nul_is_refused() -> None:
    assert "the user name has a NUL character" in reason(raised(AuthenticationError, scram(user="ali\0ce").first))


FIRSTS = {
    b"": "lacks a nonce, a salt or the iterations",
    b"\xff\xfe": "is not a list of fields",
    f"r={OURS}X,s={SALTED},i=4096,".encode(): "is not a list of fields",
    f"r={OURS}X,s={SALTED},i=4096,x".encode(): "is not a list of fields",
    f"r={OURS}X,s={SALTED},i=4096,x=\0".encode(): "is not a list of fields",
    b"v=" + b64encode(bytes(32)): "lacks a nonce, a salt or the iterations",
    f"r={OURS}X,s={SALTED}".encode(): "lacks a nonce, a salt or the iterations",
    f"r={OURS}X,i=4096,s={SALTED}".encode(): "lacks a nonce, a salt or the iterations",
    f"s={SALTED},r={OURS}X,i=4096".encode(): "lacks a nonce, a salt or the iterations",
    f"m=x,r={OURS}X,s={SALTED},i=4096".encode(): "requires an extension of SCRAM",
    f"r={OURS}X,s={SALTED},i=4096,m=x".encode(): "requires an extension of SCRAM",
    f"r={OURS}X,s={SALTED},i=4096,i=9999".encode(): "has a field twice",
    f"r={OURS}X Y,s={SALTED},i=4096".encode(): "nonce has characters that are not allowed",
    f"r={OURS}\xe9,s={SALTED},i=4096".encode(): "nonce has characters that are not allowed",
    f"r={OURS},s={SALTED},i=4096".encode(): "added nothing to the client's nonce",
    f"r={OURS[:-1]},s={SALTED},i=4096".encode(): "does not begin with the client's",
    f"r=X{OURS},s={SALTED},i=4096".encode(): "does not begin with the client's",
    f"r={OURS.swapcase()}X,s={SALTED},i=4096".encode(): "does not begin with the client's",
    f"r={OURS}X,s=,i=4096".encode(): "is not a list of fields",
    f"r={OURS}X,s=AAA,i=4096".encode(): "salt is not base64",
    f"r={OURS}X,s=====,i=4096".encode(): "salt is not base64",
    f"r={OURS}X,s=AA==AA==,i=4096".encode(): "salt is not base64",
    f"r={OURS}X,s=A\xe9AA,i=4096".encode(): "salt is not base64",
    f"r={OURS}X,s={SALTED} ,i=4096".encode(): "salt is not base64",
    f"r={OURS}X,s={b64encode(bytes(LONGEST_SALT + 1)).decode()},i=4096".encode(): "salt has 1,025 bytes, more than 1,024",
    f"r={OURS}X,s={SALTED},i=4095".encode(): "asks for 4,095 iterations, fewer than 4,096",
    f"r={OURS}X,s={SALTED},i=1".encode(): "asks for 1 iterations, fewer than 4,096",
    f"r={OURS}X,s={SALTED},i=1000001".encode(): "asks for more than 1,000,000 iterations",
    f"r={OURS}X,s={SALTED},i=2000000000".encode(): "asks for more than 1,000,000 iterations",
    f"r={OURS}X,s={SALTED},i=1{'0' * 5000}".encode(): "asks for more than 1,000,000 iterations",
    f"r={OURS}X,s={SALTED},i=0".encode(): "number of iterations is not a positive number",
    f"r={OURS}X,s={SALTED},i=-5000".encode(): "number of iterations is not a positive number",
    f"r={OURS}X,s={SALTED},i=04096".encode(): "number of iterations is not a positive number",
    f"r={OURS}X,s={SALTED},i=4_096".encode(): "number of iterations is not a positive number",
    f"r={OURS}X,s={SALTED},i=\u0664\u0660\u0669\u0666".encode(): "number of iterations is not a positive number",
    f"r={OURS}X,s={SALTED},i=4096\n".encode(): "number of iterations is not a positive number",
}


@pytest.mark.parametrize(("message", "why"), FIRSTS.items(), ids=range(len(FIRSTS)))
def test_a_first_message_of_the_broker_that_is_refused(message: bytes, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", None)  # nothing is computed for it
    client = scram()
    client.first()
    assert not client.slow(message)
    error = refusal(client, message)
    assert why in reason(error)
    assert_hidden(shown(error), PASSWORD, OURS)


def test_bounds_are_allowed_themselves_and_extensions_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *arguments: asked.append(arguments[2:]) or bytes(32))
    salt = b64encode(bytes(LONGEST_SALT)).decode()
    for iterations in (4096, MOST_ITERATIONS):
        client = scram()
        client.first()
        assert client.next(f"r={OURS}X,s={salt},i={iterations},tokenauth=true,x=\xe9".encode())
    assert asked == [(bytes(1024), 4096), (bytes(1024), 1_000_000)]


def proved() -> tuple[Scram, bytes]:
    """A client that has sent its proof, and the right answer."""
    client, broker = scram(), ScramBroker()
    proof = client.next(broker.first(client.first()))
    assert proof is not None
    return client, broker.final(proof)


LASTS = {
    b"": "reports success without its signature",
    b"v=": "is not a list of fields",
    b"\xff": "is not a list of fields",
    b"v=" + b64encode(bytes(32)): "signature is wrong",
    b"v=" + b64encode(bytes(31)): "signature is wrong",
    b"v=AAA": "has no signature",
    b"v=\xc3\xa9": "has no signature",
    f"r={OURS}X,s={SALTED},i=4096".encode(): "has no signature",
    b"x=y": "has no signature",
    b"m=x": "requires an extension of SCRAM",
}


@pytest.mark.parametrize(("message", "why"), LASTS.items(), ids=range(len(LASTS)))
def test_a_last_message_of_the_broker_that_is_refused(message: bytes, why: str) -> None:
    client, _ = proved()
    assert why in reason(refusal(client, message))


def test_a_signature_counts_only_where_it_belongs_and_once() -> None:
    _, right = proved()
    for message in (b"x=y," + right, right + b"," + right, b"V" + right[1:], right[:-1]):
        client, _ = proved()
        refusal(client, message)
    client, _ = proved()
    assert client.next(right + b",x=y") is None


def test_the_signature_of_another_exchange_is_refused() -> None:
    _, right = proved()
    client = Scram("SCRAM-SHA-256", SaslCredentials("alice", PASSWORD), NONCE[::-1])
    client.next(ScramBroker().first(client.first()))
    assert "signature is wrong" in reason(refusal(client, right))


def test_a_broker_that_does_not_know_the_password_is_refused() -> None:
    client, broker = scram(), ScramBroker(password="guessed")
    client.next(broker.first(client.first()))
    signature = b64encode(broker.mac(b"guessed", b"anything"))
    error = refusal(client, b"v=" + signature)
    assert "does not know the password" in reason(error)
    assert_hidden(shown(error), PASSWORD, OURS)


def test_signatures_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr("pykafka4.core.sasl.scram.hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    client, right = proved()
    assert client.next(right) is None
    assert len(compared) == 1


@pytest.mark.parametrize("is_last", [False, True])
def test_an_error_that_the_broker_reports_is_quoted(is_last: bool) -> None:
    client = proved()[0] if is_last else scram()
    if not is_last:
        client.first()
    said = reason(refusal(client, b"e=unknown-user\x1b,x=y"))
    assert said.startswith("the broker reports an error: 'unknown-user\\x1b'; check user name and password, and ")
    assert "SCRAM-SHA-256 credential" in said


def test_an_error_that_repeats_what_was_sent_is_not_quoted() -> None:
    client, broker = scram(), ScramBroker()
    proof = (client.next(broker.first(client.first())) or b"").rpartition(b",p=")[2]
    for words in (proof, proof[5:20], OURS.encode(), PASSWORD.encode(), b"BROKER" + proof, OURS[-8:].encode() + b"BROKER"):
        error = client.refused(words.decode())
        assert "not shown" in reason(error)
    assert_hidden(shown(refusal(proved()[0], b"e=" + proof)), proof.decode())


def test_an_error_is_short() -> None:
    client = scram()
    client.first()
    assert len(reason(refusal(client, b"e=" + b"x" * 5000))) < 500


def test_a_user_name_that_kafka_cannot_take_is_named_as_a_possible_cause() -> None:
    assert "only ASCII user names" in reason(scram(user="Käthe").refused("no"))
    assert "ASCII" not in reason(scram().refused("no"))


def test_keys_are_derived_once_for_all_connections_of_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    derived = []
    real = hashlib.pbkdf2_hmac
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *arguments: derived.append(arguments) or real(*arguments))
    credentials = SaslCredentials("alice", PASSWORD)
    for nonce in (NONCE, NONCE[::-1]):
        client, broker = Scram("SCRAM-SHA-256", credentials, nonce), ScramBroker()
        challenge = broker.first(client.first())
        assert client.slow(challenge) is (nonce is NONCE)
        proof = client.next(challenge)
        assert not client.slow(broker.final(proof or b""))
        assert client.next(broker.final(proof or b"")) is None
    assert len(derived) == 1
    other = Scram("SCRAM-SHA-256", credentials, NONCE)
    assert other.slow(ScramBroker(iterations=4097).first(other.first()))


def test_before_the_exchange_nothing_is_slow() -> None:
    assert not scram().slow(f"r={OURS}X,s={SALTED},i=4096".encode())


def test_parameters_that_openssl_rejects_are_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*arguments: object) -> bytes:
        raise ValueError("invalid salt length", *arguments)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", reject)
    client = scram()
    client.first()
    error = refusal(client, f"r={OURS}X,s={SALTED},i=4096".encode())
    assert "OpenSSL rejects the salt" in reason(error)
    assert_hidden(shown(error), PASSWORD)


@pytest.mark.parametrize(
    ("password", "text"),
    [
        ("\u2168", "; the password has characters that SASLprep changes: a server that applies it needs the prepared form"),
        (
            "hidden\ue000",
            "; the password has a private-use character, which SASLprep prohibits: choose another",
        ),
    ],
)
def test_a_refusal_says_what_saslprep_would_change(password: str, text: str) -> None:
    """Whether the broker answers with an error code or with a message of SCRAM; and the password is not shown."""
    client = scram(password=password)
    client.first()
    for error in (scram(password=password).refused("no"), refusal(client, b"e=invalid-proof")):
        assert text in reason(error)
        assert_hidden(shown(error), password)
    assert "SASLprep" not in reason(scram().refused("no"))
