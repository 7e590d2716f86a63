"""The other side of SASL. Rule: the broker's half of SCRAM is written from RFC 5802 and uses no code of the client."""

from __future__ import annotations

import hashlib
import hmac
import os
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from functools import cache
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Exchange, Mechanism
from pykafka4.core.sasl.scram import Scram
from pykafka4.errors import AuthenticationError

PLENTY = int(os.environ.get("PYKAFKA4_FUZZ") or 0)  # how many times as many examples (`make fuzz`)
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
hostile = settings(derandomize=not PLENTY, database=None, deadline=None, max_examples=100 * max(1, PLENTY), suppress_health_check=SLOW)

PASSWORD = "correct horse battery staple"
NONCE = b"0123456789abcdefghijklmn"
SALT = b"the salt of a user"
E = TypeVar("E", bound=Exception)


def scram(name: str = "SCRAM-SHA-256", user: str = "alice", password: str = PASSWORD) -> Scram:
    return Scram(name, SaslCredentials(user, password), NONCE)


@cache
def salted(algorithm: str, password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)


class ScramBroker:
    """Knows one user's password, and proves it."""

    def __init__(self, algorithm: str = "sha256", password: str = PASSWORD, salt: bytes = SALT, iterations: int = 4096) -> None:
        self.algorithm, self.password, self.salt, self.iterations = algorithm, password, salt, iterations
        self.user = self.bare = self.sent = ""

    def first(self, message: bytes) -> bytes:
        header, _, self.bare = message.decode().partition(",,")
        name, nonce, *_extensions = self.bare.split(",")
        assert (header, name[:2], nonce[:2]) == ("n", "n=", "r=")
        self.user = name[2:].replace("=2C", ",").replace("=3D", "=")
        self.sent = f"{nonce}BROKER,s={b64encode(self.salt).decode()},i={self.iterations}"
        return self.sent.encode()

    def final(self, message: bytes) -> bytes:
        unproved, _, proof = message.decode().rpartition(",p=")
        assert unproved == f"c={b64encode(b'n,,').decode()},{self.sent.partition(',')[0]}"
        signed = f"{self.bare},{self.sent},{unproved}".encode()
        password = salted(self.algorithm, self.password, self.salt, self.iterations)
        client_key, server_key = self.mac(password, b"Client Key"), self.mac(password, b"Server Key")
        signature = self.mac(hashlib.new(self.algorithm, client_key).digest(), signed)
        assert b64decode(proof) == bytes(a ^ b for a, b in zip(client_key, signature, strict=True)), "the client does not know the password"
        return b"v=" + b64encode(self.mac(server_key, signed))

    def mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.new(key, message, self.algorithm).digest()


def refusal(mechanism: Mechanism, challenge: bytes) -> AuthenticationError:
    """The error with which the mechanism refuses this message; nothing goes on after it."""
    with pytest.raises(AuthenticationError) as caught:
        mechanism.next(challenge)
    assert isinstance(mechanism, Exchange)
    assert mechanism.step.name == "FAILED"
    return caught.value


def reason(error: AuthenticationError) -> str:
    return str(error)


def shown(error: BaseException) -> Iterator[str]:
    """Whatever a log, a debugger or a report of errors could show of an error, and of every error that it hangs on to."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield from (str(found), repr(found), repr(found.args), repr(vars(found)), *traceback.format_exception_only(found))
        waiting += [found.__cause__, found.__context__]


def assert_hidden(texts: Iterator[str] | list[str], *secrets: str) -> None:
    for text in texts:
        for secret in secrets:
            raw = secret.encode(errors="surrogatepass")
            for form in (secret, repr(secret)[1:-1], repr(raw)[2:-1], b64encode(raw).decode().rstrip("="), raw.hex()):
                assert form not in text


def raised(kind: type[E], call: Callable[[], object]) -> E:
    with pytest.raises(kind) as caught:
        call()
    return caught.value
