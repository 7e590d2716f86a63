"""Computes the forms in which passwords, users and tokens are sent or stored, by the rules of Kafka and the RFCs, with pure functions."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["ITERATIONS", "SCRAM", "Scram", "quoted", "salted", "unsecured_token"]

ITERATIONS = 4096  # the lowest number that brokers accept


class Scram:
    """One of Kafka's SCRAM mechanisms: its number in requests, its hash."""

    def __init__(self, number: int, hash_name: str) -> None:
        self.number, self.hash_name = number, hash_name


SCRAM = MappingProxyType({"SCRAM-SHA-256": Scram(1, "sha256"), "SCRAM-SHA-512": Scram(2, "sha512")})


def salted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
    """Return `SaltedPassword` of RFC 5802; Kafka does not normalize the password."""
    return hashlib.pbkdf2_hmac(SCRAM[mechanism].hash_name, password.encode(), salt, iterations)


def quoted(text: str) -> str:
    """Quote a word of a JAAS configuration, which may have any characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def unsecured_token(subject: str, lifetime_s: float = 3600.0, issued: float | None = None) -> str:
    """An unsigned JSON Web Token; the brokers of a test accept it until it expires.

    `issued`: seconds since 1970, by default now. With a time in the past, the token may have expired already.
    """
    begin = time.time() if issued is None else issued
    return f"{part({'alg': 'none'})}.{part({'sub': subject, 'iat': begin, 'exp': begin + lifetime_s})}."


def part(fields: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
