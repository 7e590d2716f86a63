"""Authenticates a client by SCRAM (RFC 5802, RFC 7677).

Invariant: the exchange completes only after the broker has proved, for the client's nonce, that it knows the password's keys.

A broker's message is checked before it costs work: length, salt, and iterations, which decide how long the client computes. User name and
password are used as UTF-8, without SASLprep (the reason is in `saslprep`). The client uses no channel binding ("n"): Kafka has none.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import re
from typing import Final

import attrs

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Exchange, Step, failed
from pykafka4.core.sasl.salted import Keys
from pykafka4.core.sasl.saslprep import difference
from pykafka4.errors import AuthenticationError

__all__ = ["ALGORITHMS", "FEWEST_ITERATIONS", "LONGEST_SALT", "MOST_ITERATIONS", "SHORTEST_NONCE", "Scram"]

ALGORITHMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
FEWEST_ITERATIONS: Final = 4_096  # RFC 7677, section 4, and Kafka's own minimum: with fewer, a password is cheap to guess
MOST_ITERATIONS: Final = 1_000_000  # about half a second of CPU; Kafka stores at most 16,384
LONGEST_SALT: Final = 1_024  # bytes; Kafka's salt has 26, Redpanda's 130
SHORTEST_NONCE: Final = 15  # bytes, as in the example of RFC 7677; the client uses more

TOKEN: Final = ",tokenauth=true"  # Kafka's extension (KIP-48): the user name is the id of a delegation token
HEADER: Final = "n,,"  # no channel binding, no other identity
FIELD: Final = re.compile(r"([A-Za-z]+)=([^\0]+)", re.DOTALL)
NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
NUMBER: Final = re.compile(r"[1-9][0-9]*")
ODD: Final = "the broker does not speak SCRAM as in RFC 5802: check the program that listens there"


@attrs.frozen(repr=False)
class Challenge:
    """The broker's first message."""

    text: str
    nonce: str
    salt: bytes
    iterations: int


class Scram(Exchange):
    def __init__(self, name: str, credentials: SaslCredentials, nonce: bytes) -> None:
        """`nonce` has at least SHORTEST_NONCE bytes from the module `secrets`, new for each exchange."""
        super().__init__()
        if len(nonce) < SHORTEST_NONCE:
            raise ValueError(f"a nonce of {len(nonce)} bytes can be guessed: pass at least {SHORTEST_NONCE}")
        self.name, self._algorithm, self._credentials = name, ALGORITHMS[name], credentials
        self._nonce = binascii.b2a_base64(nonce, newline=False).decode().rstrip("=")
        self._bare = ""  # the first message without its header, in the form that is signed
        self._sent: tuple[str, ...] = ()  # the full nonce and the client's proof, once they exist
        self._expected: bytes | None = None  # the signature that the broker has to send; None before the client's proof

    def slow(self, challenge: bytes) -> bool:
        if self.step is not Step.WAITING or self._expected is not None or len(challenge) > self.longest:
            return False
        try:
            found = self._read_first(challenge)
        except AuthenticationError:
            return False  # `next` raises it again
        return self._credentials.salted.find(self._algorithm, found.salt, found.iterations) is None

    def _opening(self) -> bytes:
        name = self._credentials.username
        if "\0" in name:
            raise failed("the user name has a NUL character, which SCRAM does not allow; choose one without it")
        name = name.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={self._nonce}{TOKEN if self._credentials.is_token else ''}"
        return (HEADER + self._bare).encode()

    def _answer(self, challenge: bytes) -> bytes | None:
        if self._expected is None:
            return self._prove(self._read_first(challenge))
        self._verify(challenge, self._expected)
        return None

    def _read_first(self, challenge: bytes) -> Challenge:
        text, fields = self._fields(challenge)
        if [name for name, _ in fields[:3]] != ["r", "s", "i"]:
            raise failed(f"the broker's first message lacks a nonce, a salt or the iterations; {ODD}")
        nonce, salt, iterations = (value for _, value in fields[:3])
        if not NONCE.fullmatch(nonce):
            raise failed(f"the broker's nonce has characters that are not allowed; {ODD}")
        if not nonce.startswith(self._nonce):
            raise failed(
                "the broker's nonce does not begin with the client's: the message is of another exchange, so do not trust it; use TLS"
            )
        if len(nonce) == len(self._nonce):
            raise failed(f"the broker added nothing to the client's nonce; {ODD}")
        return Challenge(text, nonce, _checked_salt(salt), _checked_iterations(iterations))

    def _fields(self, message: bytes) -> tuple[str, list[tuple[str, str]]]:
        """The message as text, and its fields in order. Raises AuthenticationError for an invalid message or a reported error."""
        text = _decoded(message)
        found = [FIELD.fullmatch(part) for part in text.split(",")] if text else []
        fields = [(match[1], match[2]) for match in found if match is not None]
        if text is None or len(fields) < len(found):
            raise failed(f"the broker's message is not a list of fields; {ODD}")
        names = [name for name, _ in fields]
        if names[:1] == ["e"]:
            raise failed(f"the broker reports an error: {self._quoted(fields[0][1])}; {self._advice()}")
        if "m" in names:
            raise failed("the broker requires an extension of SCRAM (m=) that this client does not know; disable it in the broker")
        if len(set(names)) < len(names):
            raise failed(f"the broker's message has a field twice; {ODD}")
        return text, fields

    def _prove(self, found: Challenge) -> bytes:
        keys = self._keys(found)
        final = f"c={binascii.b2a_base64(HEADER.encode(), newline=False).decode()},r={found.nonce}"
        signed = f"{self._bare},{found.text},{final}".encode()
        stored = hashlib.new(self._algorithm, keys.client).digest()
        mask = hmac.digest(stored, signed, self._algorithm)
        proof = binascii.b2a_base64(bytes(a ^ b for a, b in zip(keys.client, mask, strict=True)), newline=False).decode()
        self._sent = (found.nonce, proof)
        self._expected = hmac.digest(keys.server, signed, self._algorithm)
        return f"{final},p={proof}".encode()

    def _keys(self, found: Challenge) -> Keys:
        try:
            return self._credentials.salted.derive(self._algorithm, self._credentials.password.encode(), found.salt, found.iterations)
        except ValueError:
            pass  # the error is raised below, so that this exception, whose frames have the password, is not its context
        raise failed("OpenSSL rejects the salt or the iterations (FIPS mode); store the credential with a longer salt and more iterations")

    def _verify(self, message: bytes, expected: bytes) -> None:
        if not message:
            raise failed("the broker reports success without its signature: it might not know the password; do not trust it")
        _, fields = self._fields(message)
        signature = _unbase64(fields[0][1]) if fields[0][0] == "v" else None
        if signature is None:
            raise failed(f"the broker's last message has no signature; {ODD}")
        if not hmac.compare_digest(signature, expected):
            raise failed("the broker's signature is wrong: it does not know the password, so do not trust it; check the address, use TLS")

    def secrets(self) -> tuple[str, ...]:
        return (self._credentials.password, self._nonce, *self._sent)

    @property
    def username(self) -> str:
        return self._credentials.username

    def _advice(self) -> str:
        advice = f"check user name and password, and the user's {self.name} credential (kafka-configs.sh --describe --entity-type users)"
        if not self._credentials.username.isascii():
            advice += "; Kafka accepts only ASCII user names with SCRAM"
        changed = difference(self._credentials.password)
        return f"{advice}; the password {changed}" if changed else advice


def _checked_salt(value: str) -> bytes:
    salt = _unbase64(value)
    if not salt:
        raise failed(f"the broker's salt is not base64; {ODD}")
    if len(salt) > LONGEST_SALT:
        raise failed(f"the broker's salt has {len(salt):,} bytes, more than {LONGEST_SALT:,}; store the credential with a shorter one")
    return salt


def _checked_iterations(value: str) -> int:
    if not NUMBER.fullmatch(value):
        raise failed(f"the broker's number of iterations is not a positive number; {ODD}")
    if len(value) > len(str(MOST_ITERATIONS)) or int(value) > MOST_ITERATIONS:  # `int` of thousands of digits raises
        raise failed(
            f"the broker asks for more than {MOST_ITERATIONS:,} iterations, which would take a long time; store the credential with fewer"
        )
    if int(value) < FEWEST_ITERATIONS:
        raise failed(
            f"the broker asks for {int(value):,} iterations, fewer than {FEWEST_ITERATIONS:,}: anyone who records the exchange could guess "
            "the password; store the credential with more"
        )
    return int(value)


def _decoded(message: bytes) -> str | None:
    try:
        return message.decode()
    except UnicodeDecodeError:
        return None


def _unbase64(text: str) -> bytes | None:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
