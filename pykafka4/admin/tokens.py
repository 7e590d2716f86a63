"""Creates, describes, renews and expires delegation tokens. Invariant: no error, log line or `repr` contains the secret of a token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from pykafka4.admin.calls import AdminCalls, value_or_raise
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.acls import as_principal
from pykafka4.core.admin.question_run import Question
from pykafka4.core.admin.tokens import TOKEN, CreateToken, DelegationToken, DescribeTokens, ExpireToken, RenewToken
from pykafka4.errors import ConfigError, shown, with_article
from pykafka4.errors.frames import guarded

__all__ = ["TokenCalls"]

V = TypeVar("V")
USUAL: Final = -1  # the value of a lifetime or period that stands for the brokers' setting
NOW: Final = -1  # the value of an expiry period that stands for "at once"


class TokenCalls(AdminCalls):
    """The calls of an `AdminClient` about delegation tokens. Source: KIP-48.

    Brokers with `delegation.token.secret.key` serve these calls for clients that logged in over SASL or with a certificate, but not with a
    token. Otherwise the calls raise BrokerError DELEGATION_TOKEN_AUTH_DISABLED or DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, with the way out.
    """

    def create_token(
        self,
        *,
        owner: str | None = None,
        renewers: Iterable[str] = (),
        max_lifetime: float | None = None,
        timeout: float | None = None,
    ) -> DelegationToken:
        """Create a token for the caller, or for `owner` (`User:alice`), on whom the caller needs CREATE_TOKENS (KIP-373, Kafka 3.3).

        `renewers` may also renew and expire the token. No renewal extends the token's life beyond `max_lifetime` seconds (None: the
        brokers' maximum, 7 days). A request that may have created a token is not repeated, because a repetition would create a second
        token. After an error with a note that the request may have been carried out, there might be a token that no client has, until the
        token expires.
        """
        names = [as_principal(one) for one in _principals("renewers", renewers)]
        question = CreateToken(None if owner is None else as_principal(owner), names, _ms("max_lifetime", max_lifetime, USUAL))
        return self._of_token(question, self._begin(timeout))

    def describe_tokens(self, owners: Iterable[str] | None = None, *, timeout: float | None = None) -> tuple[DelegationToken, ...]:
        """Return the tokens that some users (`owners`) own, requested or may renew, or all tokens (None), secrets included.

        The result lacks a token of another user if the caller neither requested the token nor is its renewer, and has neither DESCRIBE on
        the token nor DESCRIBE_TOKENS on the owner. The result comes from one broker, which may not know the latest changes yet.
        """
        names = None if owners is None else [as_principal(one) for one in _principals("owners", owners)]
        found = self._ask_any_broker(DescribeTokens(names), [TOKEN], self._begin(timeout))
        return value_or_raise(found[TOKEN])

    @guarded
    def renew_token(self, token: DelegationToken | bytes, *, period: float | None = None, timeout: float | None = None) -> int:
        """Renew `token`, a DelegationToken or its `hmac`, for `period` seconds from now (None: the brokers' period, a day).

        Returns the time of expiry in milliseconds since 1970, at most the token's `max_ms`. Raises BrokerError DELEGATION_TOKEN_NOT_FOUND
        (also for a moment after the token was created), DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        found = self._of_token(RenewToken(_hmac(token), _ms("period", period, USUAL)), self._begin(timeout))
        assert found is not None
        return found

    @guarded
    def expire_token(self, token: DelegationToken | bytes, *, after: float | None = None, timeout: float | None = None) -> int | None:
        """Let `token`, a DelegationToken or its `hmac`, expire `after` seconds from now, or delete the token at once if `after` is None.

        Returns the time of expiry in milliseconds since 1970; None if a repeated request found the token deleted. Raises the same errors as
        `renew_token`.
        """
        return self._of_token(ExpireToken(_hmac(token), _ms("after", after, NOW)), self._begin(timeout))

    def _of_token(self, question: Question[Any, V], deadline: Deadline) -> V:
        return value_or_raise(self._ask_controller(question, [TOKEN], deadline)[TOKEN])


def _principals(name: str, values: object) -> list[object]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigError(f"{name}={shown(values)}: takes a list of principals, such as ['User:alice']")
    return list(values)


def _hmac(token: object) -> bytes:
    found = token.hmac if isinstance(token, DelegationToken) else token
    if not isinstance(found, bytes) or not found:
        raise ConfigError(f"token must be a DelegationToken or its hmac, not {with_article(type(token).__name__)}")
    return found


def _ms(name: str, seconds: object, usual: int) -> int:
    if seconds is None:
        return usual
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < 2**53:
        raise ConfigError(f"{name}={shown(seconds)}: must be a number of seconds above 0, or None")
    return int(seconds * 1000)
