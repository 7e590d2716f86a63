"""Authenticates a client by OAUTHBEARER (RFC 7628, KIP-255, KIP-342), and checks its token.

Invariant: only the first message has the token, and no character that is allowed in a token or an extension ends its field.

A broker that refuses the token sends the reason as JSON, gets one byte, and then reports the failure. The reason is kept for that error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.sasl.credentials import text_of
from pykafka4.core.sasl.mechanism import Exchange, failed
from pykafka4.errors import ConfigError
from pykafka4.options.secret import Secret, hidden

__all__ = ["LONGEST_TOKEN", "OAuthBearer", "Token", "token_of"]

LONGEST_TOKEN: Final = 256 * 1024  # characters; a broker reads at most 512 KiB by default (sasl.server.max.receive.size)
REFRESH_FACTOR, REFRESH_JITTER = 0.8, 0.05  # parts of a token's remaining lifetime; Java's numbers (sasl.login.refresh.window.*)
LATEST_S: Final = 1e11  # a larger time is in milliseconds: 1e11 s after 1970 is after the year 5000, 1e11 ms is in 1973
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750, section 2.1
NAME: Final = re.compile(r"[A-Za-z]+")  # NAME and VALUE of an extension are as in Java (OAuthBearerClientInitialResponse)
VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
RESERVED: Final = "auth"  # the name of the token's field
END: Final = "\x01"
SHAPES: Final = "a str, a Token, or a tuple (token, expires at[, principal[, extensions]])"


def _value(value: str) -> str:
    text = text_of(value, "the OAuth token")
    if len(text) > LONGEST_TOKEN:
        raise ConfigError(f"the OAuth token has {len(text):,} characters, more than {LONGEST_TOKEN:,}; ask for one with fewer claims")
    if not TOKEN.fullmatch(text):
        raise ConfigError(
            "the OAuth token has characters that RFC 6750 does not allow: pass the token alone, without 'Bearer' or line ends"
        )
    return text


def _expiry(value: float | None) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigError(f"the expiry of the OAuth token must be a number of seconds since 1970, or None, not {type(value).__name__}")
    if not 0 < value < LATEST_S:
        raise ConfigError("the expiry of the OAuth token must be a positive number of seconds since 1970, not of milliseconds")
    return float(value)


def _principal(value: str | None) -> str | None:
    return None if value is None else text_of(value, "the principal of the OAuth token")


def _extensions(value: Mapping[str, str] | None) -> Mapping[str, str]:
    if value is None:
        return MappingProxyType({})
    if not isinstance(value, Mapping):
        raise ConfigError(f"the SASL extensions must be a dict, not {type(value).__name__}")
    extensions = {}
    for name, content in value.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or name == RESERVED:
            raise ConfigError(f"the name of a SASL extension must be ASCII letters, and not {RESERVED!r}, which names the token")
        if not isinstance(content, str) or not VALUE.fullmatch(content):
            raise ConfigError(f"the SASL extension {name!r} must be a str of one or more printable ASCII characters, tabs or line ends")
        extensions[name] = str.__str__(content)
    return MappingProxyType(extensions)


def _names(extensions: Mapping[str, str]) -> str:
    return str(sorted(extensions))


@attrs.frozen
class Token(Secret):
    """A bearer token. `expires_at` is in seconds since 1970 (None: unknown, so no refresh is planned). Invalid values raise ConfigError."""

    value: str = attrs.field(converter=_value, repr=hidden)
    expires_at: float | None = attrs.field(converter=_expiry, default=None)
    principal: str | None = attrs.field(converter=_principal, default=None)  # only shown in `repr`
    extensions: Mapping[str, str] = attrs.field(converter=_extensions, default=None, hash=False, repr=_names)

    def refresh_at(self, now: float, jitter: float) -> float:
        """The time to get the next token: after 80 to 85 % of the lifetime left at `now`; INFINITY if `expires_at` is None.

        `jitter` is random, from 0 to 1.
        """
        if self.expires_at is None:
            return INFINITY
        return now + (self.expires_at - now) * (REFRESH_FACTOR + REFRESH_JITTER * jitter)


def token_of(returned: object, now: float, source: str = "the OAuth token callable") -> Token:
    """The token that `source` returned in one of the SHAPES. Raises ConfigError for another object, an invalid token, or one that has
    expired by `now`."""
    if isinstance(returned, Token):
        token = returned
    elif isinstance(returned, str):
        token = Token(returned)
    elif isinstance(returned, tuple) and 2 <= len(returned) <= 4:
        token = Token(*returned)
    else:
        found = f"a tuple of {len(returned)}" if isinstance(returned, tuple) else type(returned).__name__
        raise ConfigError(f"{source} must return {SHAPES}, not {found}")
    if token.expires_at is not None and token.expires_at <= now:
        late = now - token.expires_at
        raise ConfigError(
            f"{source} returned a token that expired {late:,.0f} s ago; return a new one, and its expiry in seconds since 1970"
        )
    return token


class OAuthBearer(Exchange):
    """One exchange of OAUTHBEARER: one message, which the broker accepts with an empty message or refuses with JSON."""

    name = "OAUTHBEARER"
    longest = 64 * 1024

    def __init__(self, token: Token) -> None:
        super().__init__()
        self._token = token
        self._reason: str | None = None  # the broker's reason for a refusal

    def _opening(self) -> bytes:
        fields = [f"auth=Bearer {self._token.value}", *(f"{name}={value}" for name, value in self._token.extensions.items())]
        return f"n,,{END}{END.join(fields)}{END}{END}".encode()

    def _answer(self, challenge: bytes) -> bytes | None:
        if self._reason is not None:
            raise failed(f"the broker refused the token ({self._reason}), and continued; {self._advice()}")
        if not challenge:
            return None
        self._reason = self._read(challenge)
        return END.encode()

    def _read(self, challenge: bytes) -> str:
        """The reason in the broker's JSON; `without a status` if it has none."""
        try:
            found: Any = json.loads(challenge)
        except (ValueError, RecursionError):
            found = None
        said = {key: found.get(key) for key in ("status", "scope")} if isinstance(found, dict) else {}
        reasons = [f"{key} {self._quoted(value)}" for key, value in said.items() if isinstance(value, str)]
        return ", ".join(reasons) or "without a status"

    def secrets(self) -> tuple[str, ...]:
        return (self._token.value,)

    def _advice(self) -> str:
        refused = f"the token was refused ({self._reason}): " if self._reason is not None else ""
        return f"{refused}check the token's issuer, audience, scope and expiry, and this machine's clock"
