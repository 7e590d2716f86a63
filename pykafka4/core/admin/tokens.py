"""Creates, describes, renews and expires delegation tokens. Invariant: no `repr` and no error message contains the secret of a token."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.question_run import Refusal
from pykafka4.errors import AuthorizationError, BrokerError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import BY_NAME, error_code
from pykafka4.errors.rights import Right
from pykafka4.options.secret import Secret, hidden
from pykafka4.wire.protocol.messages_users import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

__all__ = ["TOKEN", "CreateToken", "DelegationToken", "DescribeTokens", "ExpireToken", "RenewToken"]

V = TypeVar("V")
TOKEN: Final = "token"  # the only key of questions about tokens
OWNER_FROM: Final = 3  # the first version of CreateDelegationToken with an owner, and of responses with a requester
HINTS: Final = {
    "DELEGATION_TOKEN_AUTH_DISABLED": "set delegation.token.secret.key, the same on all brokers and controllers",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "log in over SASL, or with a client's certificate, and not with a delegation token itself",
    "DELEGATION_TOKEN_OWNER_MISMATCH": "log in as the owner or a renewer of the token",
    "INVALID_PRINCIPAL_TYPE": "a token's owner and renewers are users: 'User:alice'",
}
NOT_FOUND: Final = BY_NAME["DELEGATION_TOKEN_NOT_FOUND"].code


@attrs.frozen
class DelegationToken(Secret):
    """A delegation token. Times are milliseconds since 1970; renewals can extend its life to `max_ms`.

    A client logs in with the token by SCRAM: `token_id` is the user name, `password` the password. `requester` is None before Kafka 3.3.
    `hmac` is the secret. Source: KIP-48, KIP-373.
    """

    token_id: str
    owner: str
    requester: str | None
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    hmac: bytes = attrs.field(repr=hidden)

    @property
    def password(self) -> str:
        """The secret in the form of a SCRAM password."""
        return binascii.b2a_base64(self.hmac, newline=False).decode()


class TokenQuestion(OneAnswer[str, V], Generic[V]):
    """A question about tokens; the only key is TOKEN."""

    task: ClassVar[str]

    def what(self, key: str) -> str:
        return self.task

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        return broker_error(refusal.code, self.task, HINTS.get(error_code(refusal.code).name, refusal.detail), self.api)


class CreateToken(TokenQuestion[DelegationToken]):
    """Creates a token. A request that may have created a token is not repeated, because a second request could create a second token."""

    api = "CreateDelegationToken"
    task = "a delegation token cannot be created"
    changes = True
    repeatable = False

    def __init__(self, owner: str | None, renewers: Sequence[str], lifetime_ms: int) -> None:
        self._owner, self._renewers, self._lifetime_ms = owner, renewers, lifetime_ms

    def message(self, keys: Sequence[str]) -> CreateDelegationTokenRequest:
        kind, name = (None, None) if self._owner is None else self._owner.split(":", 1)
        rows = [CreateDelegationTokenRequest.Renewer(**_principal_fields(one)) for one in self._renewers]
        return CreateDelegationTokenRequest(
            owner_principal_type=kind, owner_principal_name=name, renewers=rows, max_lifetime_ms=self._lifetime_ms
        )

    def fit(self, message: CreateDelegationTokenRequest, version: int) -> None:
        if version < OWNER_FROM and self._owner is not None:
            raise UnsupportedVersion(
                f"a token for another owner needs CreateDelegationToken v{OWNER_FROM}, of Kafka 3.3; omit owner and log in as the owner"
            )

    def answer(self, message: Any, reply: Reply) -> DelegationToken:
        owner = f"{message.principal_type}:{message.principal_name}"
        requester = _requester(message, reply.version)
        times = message.issue_timestamp_ms, message.expiry_timestamp_ms, message.max_timestamp_ms
        return DelegationToken(message.token_id, owner, requester, tuple(self._renewers), *times, message.hmac)

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        row = error_code(refusal.code)
        if not row.denied or self._owner is None:
            return super().error(key, refusal)
        return AuthorizationError.lacking(row, self.task, refusal.detail, Right("CREATE_TOKENS", "user", self._owner))


def _principal_fields(principal: str) -> dict[str, str]:
    kind, name = principal.split(":", 1)
    return {"principal_type": kind, "principal_name": name}


def _requester(row: Any, version: int) -> str | None:
    if version < OWNER_FROM:
        return None
    return f"{row.token_requester_principal_type}:{row.token_requester_principal_name}"


class DescribeTokens(TokenQuestion["tuple[DelegationToken, ...]"]):
    """The question about the tokens that the caller may see, of some owners or of all."""

    api = "DescribeDelegationToken"
    task = "delegation tokens cannot be described"

    def __init__(self, owners: Sequence[str] | None) -> None:
        self._owners = owners

    def message(self, keys: Sequence[str]) -> DescribeDelegationTokenRequest:
        owner = DescribeDelegationTokenRequest.Owner
        rows = None if self._owners is None else [owner(**_principal_fields(one)) for one in self._owners]
        return DescribeDelegationTokenRequest(owners=rows)

    def answer(self, message: Any, reply: Reply) -> tuple[DelegationToken, ...]:
        """The tokens by owner, oldest first."""
        return tuple(
            sorted((_token(row, reply.version) for row in message.tokens), key=lambda one: (one.owner, one.issued_ms, one.token_id))
        )


def _token(row: Any, version: int) -> DelegationToken:
    renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in row.renewers)
    owner, requester = f"{row.principal_type}:{row.principal_name}", _requester(row, version)
    times = row.issue_timestamp, row.expiry_timestamp, row.max_timestamp
    return DelegationToken(row.token_id, owner, requester, renewers, *times, row.hmac)


class RenewToken(TokenQuestion["int | None"]):
    api = "RenewDelegationToken"
    task = "the delegation token cannot be renewed"
    changes = True

    def __init__(self, hmac: bytes, period_ms: int) -> None:
        self._hmac, self._period_ms = hmac, period_ms

    def message(self, keys: Sequence[str]) -> Any:
        return RenewDelegationTokenRequest(hmac=self._hmac, renew_period_ms=self._period_ms)

    def answer(self, message: Any, reply: Reply) -> int:
        """The new expiry, in milliseconds since 1970."""
        return int(message.expiry_timestamp_ms)


class ExpireToken(RenewToken):
    """Sets the expiry of a token. The outcome is the expiry; None if it is not known."""

    api = "ExpireDelegationToken"
    task = "the delegation token cannot be expired"

    def message(self, keys: Sequence[str]) -> Any:
        return ExpireDelegationTokenRequest(hmac=self._hmac, expiry_time_period_ms=self._period_ms)

    def repeated(self, found: int | Refusal | None) -> int | Refusal | None:
        """None for an unknown token, because the request whose response was lost may have expired the token at an unknown time."""
        return None if isinstance(found, Refusal) and found.code == NOT_FOUND else found
