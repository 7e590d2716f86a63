"""Planted secrets. Rule: a secret is found in whatever form it comes out; each has a core of letters and digits, by which it is known."""

from __future__ import annotations

import base64
import secrets
import string
from collections.abc import Iterator

__all__ = ["Planted"]

ALPHABET = string.ascii_letters + string.digits
CORE = 18  # characters: three groups of six, so that base64 of each third byte is known whatever precedes


class Planted:
    """The secrets of one test."""

    def __init__(self) -> None:
        self._forms: dict[str, str] = {}  # what must not come out: whose it is

    def plant(self, name: str, around: str = "{}:/@ %{}") -> str:
        """A new secret. Its two cores are found in every encoding; `around` is what stands between them."""
        cores = ["".join(secrets.choice(ALPHABET) for _ in range(CORE)) for _ in range(2)]
        for core in cores:
            for form in forms(core.encode()):
                self._forms[form] = name
        return around.format(*cores)

    def know(self, name: str, secret: str) -> str:
        """One that exists already; it has letters and digits only, or hardly anything else."""
        for form in forms(secret.encode()):
            self._forms[form] = name
        return secret

    def derive(self, name: str, data: bytes) -> None:
        """A key or proof that is computed from a secret."""
        for form in (*forms(data), repr(data)[2:-1], repr(bytearray(data))[12:-2]):
            self._forms[form] = name

    def document(self, name: str, pem: bytes) -> str:
        """The lines of a private key; each is known by its first half."""
        text = pem.decode()
        for line in text.splitlines():
            if len(line) >= 40 and "-----" not in line:
                for form in forms(line[:32].encode()):
                    self._forms[form] = name
        return text

    def found(self, text: str) -> set[str]:
        """Whose secrets are in the text."""
        return {name for form, name in self._forms.items() if form in text}


def forms(data: bytes) -> Iterator[str]:
    """As text, hexadecimal, and in base64 at each of the three places where it may begin."""
    yield data.hex()
    yield data.hex().upper()
    if data.isascii() and data.decode().isprintable():
        yield data.decode()
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode().rstrip("=")
        part = encoded[-(-8 * offset // 6) : 8 * (offset + len(data)) // 6]  # the characters that no neighbour has a part in
        yield part
        yield part.replace("+", "-").replace("/", "_")
