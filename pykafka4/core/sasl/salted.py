"""Derives the keys of SCRAM from a password and a salt. Invariant: keys are kept but never shown, and the password is not kept.

A derivation takes milliseconds of CPU or longer. A user has the same salt and iterations at every broker, so connections share the keys.
Keys are secret, because they suffice to authenticate as the user.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, TypeAlias

import attrs

from pykafka4.options.secret import Secret

__all__ = ["MOST_KEYS", "Keys", "Salted"]

MOST_KEYS: Final = 16  # a user has one salt for each mechanism; a peer that makes up new salts must not fill the memory
_Source: TypeAlias = tuple[str, bytes, int]


@attrs.frozen(repr=False)
class Keys(Secret):
    """ClientKey and ServerKey of RFC 5802, section 3."""

    client: bytes
    server: bytes


class Salted:
    """The keys of one password, by algorithm, salt and iterations. Several threads may derive keys: `derive` replaces the dict."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[_Source, Keys] = {}

    def __repr__(self) -> str:
        return f"<Salted: {len(self._keys)} keys>"

    def find(self, algorithm: str, salt: bytes, iterations: int) -> Keys | None:
        return self._keys.get((algorithm, salt, iterations))

    def derive(self, algorithm: str, password: bytes, salt: bytes, iterations: int) -> Keys:
        """Slow unless the keys are known. Raises ValueError if OpenSSL rejects the parameters (FIPS mode has minima)."""
        if (known := self.find(algorithm, salt, iterations)) is not None:
            return known
        salted = hashlib.pbkdf2_hmac(algorithm, password, salt, iterations)
        keys = Keys(hmac.digest(salted, b"Client Key", algorithm), hmac.digest(salted, b"Server Key", algorithm))
        kept = list(self._keys.items())[-(MOST_KEYS - 1) :]
        self._keys = {**dict(kept), (algorithm, salt, iterations): keys}
        return keys
