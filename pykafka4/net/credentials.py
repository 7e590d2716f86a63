"""Credentials. Rule: the application's callables are asked for each connection, on helper threads; a token is used again while it is fresh.

`Credentials.mechanism` blocks as long as the application's callables do. Nothing here logs or shows what they return.
"""

from __future__ import annotations

import random
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Final

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.mechanism import Exchange, Mechanism, Step
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token, token_of
from pykafka4.core.sasl.plain import Plain
from pykafka4.core.sasl.scram import Scram
from pykafka4.security import SecurityConfig

__all__ = ["Credentials"]

NONCE: Final = 24  # bytes


class Credentials:
    """Makes the mechanism for each authentication of one client. For several threads."""

    def __init__(self, config: SecurityConfig, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970, as in tokens."""
        self._config, self._clock = config, clock
        self._lock = threading.Lock()
        self._last: SaslCredentials | None = None
        self._token: tuple[Token, float] | None = None  # and when to ask for the next one
        self._users: weakref.WeakSet[Exchange] = weakref.WeakSet()  # exchanges with this token

    def mechanism(self) -> Mechanism:
        """A mechanism with the current credentials. Raises what a callable raises, and ConfigError for what it must not return."""
        name = self._config.sasl_mechanism
        if name == OAuthBearer.name:
            return self._bearer()
        credentials = self._password()
        if name == Plain.name:
            return Plain(credentials)
        return Scram(str(name), credentials, secrets.token_bytes(NONCE))

    def _password(self) -> SaslCredentials:
        credentials = SaslCredentials(_ask(self._config.sasl_username), _ask(self._config.sasl_password))
        with self._lock:
            if self._last != credentials:
                self._last = credentials
            return self._last  # the same object, as it has the derived keys

    def _bearer(self) -> OAuthBearer:
        with self._lock:
            if self._token is not None and self._clock() < self._token[1] and not any(user.step is Step.FAILED for user in self._users):
                return self._use(self._token[0])
        assert self._config.sasl_oauth_token is not None
        now = self._clock()
        token = token_of(self._config.sasl_oauth_token(), now, "sasl_oauth_token")
        with self._lock:
            self._users.clear()
            # Without an expiry it is never used again.
            self._token = (token, token.refresh_at(now, random.random())) if token.expires_at is not None else None
            return self._use(token)

    def _use(self, token: Token) -> OAuthBearer:
        mechanism = OAuthBearer(token)
        self._users.add(mechanism)
        return mechanism


def _ask(value: Any) -> Any:
    return value() if callable(value) else value
