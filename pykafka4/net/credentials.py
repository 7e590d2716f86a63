"""Makes the SASL mechanism for each authentication of a client, and keeps a token while it is fresh.

Invariant: the callable for tokens runs only when a token is due; no log or error of this module shows a user name, a password or a token.
Call `mechanism` on a helper thread, because the application's callables may block.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.core.sasl.credentials import SaslCredentials
from pykafka4.core.sasl.gssapi import Gssapi
from pykafka4.core.sasl.mechanism import Mechanism
from pykafka4.core.sasl.oauthbearer import OAuthBearer, Token, token_of
from pykafka4.core.sasl.plain import Plain
from pykafka4.core.sasl.scram import Scram
from pykafka4.errors import AuthenticationError
from pykafka4.logs import get_log
from pykafka4.net.handoff.newest import Newest
from pykafka4.net.kerberos import Kerberos
from pykafka4.options.config import ClientConfig

__all__ = ["Credentials"]

log = get_log("pykafka4.credentials")

NONCE_BYTES: Final = 24  # length of the client's SCRAM nonce


@attrs.define(eq=False, repr=False)
class HeldToken:
    token: Token
    ask_at: float  # when to ask the application for the next token
    refused: bool = False  # a broker has refused the token
    is_warned: bool = False  # the log says that the callable for the next token failed


class Bearer(OAuthBearer):
    """An exchange that marks its token as refused if the broker refuses it: with JSON, with an error code, or with both."""

    def __init__(self, held: HeldToken) -> None:
        super().__init__(held.token)
        self._held = held

    def next(self, challenge: bytes) -> bytes | None:
        answer = super().next(challenge)
        if answer is not None:
            self._held.refused = True
        return answer

    def refused(self, message: str | None) -> AuthenticationError:
        self._held.refused = True
        return super().refused(message)


class Credentials:
    """The credentials of one client. For any thread."""

    def __init__(self, config: ClientConfig, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns seconds since 1970, as in tokens. Raises ConfigError if the package for the mechanism is missing."""
        self._config, self._clock = config, clock
        self._last: SaslCredentials | None = None
        self._held: Newest[HeldToken] = Newest()  # a slow callable must not replace a newer token
        self._kerberos = _kerberos(config)

    def mechanism(self, host: str) -> Mechanism:
        """Return a mechanism with the current credentials. Blocks until the application's callables, or a KDC, have answered.

        Raises the exception of the application's callable, or ConfigError for an invalid result, unless the last token can still be used.
        Raises AuthenticationError if there is no Kerberos ticket.
        """
        if self._kerberos is not None:
            return self._kerberos.mechanism(host)
        name = self._config.sasl_mechanism
        if name == OAuthBearer.name:
            return self._bearer()
        credentials = self._password()
        if name == Plain.name:
            return Plain(credentials)
        return Scram(str(name), credentials, secrets.token_bytes(NONCE_BYTES))

    def _password(self) -> SaslCredentials:
        config = self._config
        credentials = SaslCredentials(_ask(config.sasl_username), _ask(config.sasl_password), config.sasl_delegation_token)
        last = self._last
        if last == credentials:
            return last  # the same object, because it has the derived keys
        self._last = credentials
        return credentials

    def _bearer(self) -> Bearer:
        held = self._held.value
        if held is not None and not held.refused and self._clock() < held.ask_at:
            return Bearer(held)
        number = self._held.begin()
        try:
            assert self._config.sasl_oauth_token is not None
            token = token_of(self._config.sasl_oauth_token(), self._clock(), "sasl_oauth_token")
        except Exception as error:
            spare = self._spare(error)
            if spare is None:
                raise
            return Bearer(spare)
        return Bearer(self._keep(token, number))

    def _keep(self, token: Token, number: int) -> HeldToken:
        held = HeldToken(token, token.refresh_at(self._clock(), random.random()))
        self._held.keep(number, held if token.expires_at is not None else None)  # a token without an expiry is used once
        return held

    def _spare(self, error: Exception) -> HeldToken | None:
        """Return the last token unless it has expired or was refused."""
        held, now = self._held.value, self._clock()
        if held is None or held.refused or held.token.expires_at is None or now >= held.token.expires_at:
            return None
        if not held.is_warned:
            held.is_warned = True
            log.warning(
                "%s: sasl_oauth_token gave no valid token (%s); the last token is used until it expires, in %.0f s",
                self._config.client_id,
                type(error).__name__,
                held.token.expires_at - now,
            )
        return held


def _kerberos(config: ClientConfig) -> Kerberos | None:
    if config.sasl_mechanism != Gssapi.name:
        return None
    return Kerberos(config.sasl_kerberos_service_name, config.sasl_kerberos_principal, config.sasl_kerberos_keytab)


def _ask(value: Any) -> Any:
    return value() if callable(value) else value
