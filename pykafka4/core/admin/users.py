"""Describes and changes the SCRAM credentials of users. Invariant: passwords are salted before a question is made, and are not kept.

A salted password is secret as well, because it is enough to log in with SCRAM: no `repr` and no error message shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.question_run import Question, Refusal
from pykafka4.errors import BrokerError, broker_error
from pykafka4.errors.codes import BY_NAME, error_code
from pykafka4.options.secret import Secret
from pykafka4.wire.protocol.messages_users import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest

__all__ = [
    "ABSENT",
    "ALL_USERS",
    "MECHANISMS",
    "DeleteUsers",
    "DescribeUsers",
    "ListUsers",
    "SaltedPassword",
    "ScramCredential",
    "UpsertUsers",
]

MECHANISMS: Final[Mapping[str, int]] = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}  # Kafka's numbers
NAMES: Final = {number: name for name, number in MECHANISMS.items()}
ALL_USERS: Final = "users"  # the only key of ListUsers
ABSENT: Final = BY_NAME["RESOURCE_NOT_FOUND"].code


@attrs.frozen
class ScramCredential:
    """The part of a credential that brokers report: the mechanism, and the number of hash iterations."""

    mechanism: str
    iterations: int


@attrs.frozen(repr=False)
class SaltedPassword(Secret):
    salt: bytes
    salted: bytes
    iterations: int


def _credentials(row: Any) -> tuple[ScramCredential, ...]:
    found = (ScramCredential(NAMES.get(one.mechanism, f"UNKNOWN({one.mechanism})"), one.iterations) for one in row.credential_infos)
    return tuple(sorted(found, key=lambda one: one.mechanism))


class ListUsers(OneAnswer[str, "dict[str, tuple[ScramCredential, ...]]"]):
    """The question about all users with credentials; the only key is ALL_USERS."""

    api = "DescribeUserScramCredentials"
    about = "{} cannot be described"

    def message(self, keys: Sequence[str]) -> DescribeUserScramCredentialsRequest:
        # None would mean all users as well. But then, if the client lacks the right, brokers up to 4.4 fail (NullPointerException), and do
        # not respond.
        return DescribeUserScramCredentialsRequest(users=[])

    def answer(self, message: Any, reply: Reply) -> dict[str, tuple[ScramCredential, ...]]:
        return {row.user: _credentials(row) for row in sorted(message.results, key=lambda row: row.user)}


class UserQuestion(Question[str, Any]):
    task: ClassVar[str]

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        """The error for a denial names no user, because a denial is the same for all users."""
        what = self.task if error_code(refusal.code).denied else self.what(key)
        return broker_error(refusal.code, what, refusal.detail, self.api)


class DescribeUsers(UserQuestion):
    api = "DescribeUserScramCredentials"
    about = "user {}"
    task = "users cannot be described"

    def message(self, keys: Sequence[str]) -> DescribeUserScramCredentialsRequest:
        return DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsRequest.User(name=key) for key in keys])

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, tuple[ScramCredential, ...] | Refusal]:
        message = reply.message
        if message.error_code:
            return dict.fromkeys(keys, Refusal(message.error_code, message.error_message))
        return {row.user: Refusal(row.error_code, row.error_message) if row.error_code else _credentials(row) for row in message.results}


class AlterUsers(UserQuestion):
    """Changes credentials of one mechanism, because a request can have one change per user. The outcome is True for a changed user."""

    api = "AlterUserScramCredentials"
    changes = True
    task = "credentials cannot be changed"

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism

    def what(self, key: str) -> str:
        return f"the {self._mechanism} credential of user {key}"

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, bool | Refusal]:
        return {row.user: Refusal(row.error_code, row.error_message) if row.error_code else True for row in reply.message.results}


class UpsertUsers(AlterUsers):
    def __init__(self, mechanism: str, passwords: Mapping[str, SaltedPassword]) -> None:
        super().__init__(mechanism)
        self._passwords = passwords

    def message(self, keys: Sequence[str]) -> AlterUserScramCredentialsRequest:
        number = MECHANISMS[self._mechanism]
        rows = [
            AlterUserScramCredentialsRequest.Upsertion(
                name=key, mechanism=number, iterations=word.iterations, salt=word.salt, salted_password=word.salted
            )
            for key, word in ((key, self._passwords[key]) for key in keys)
        ]
        return AlterUserScramCredentialsRequest(deletions=[], upsertions=rows)


class DeleteUsers(AlterUsers):
    def message(self, keys: Sequence[str]) -> AlterUserScramCredentialsRequest:
        number = MECHANISMS[self._mechanism]
        rows = [AlterUserScramCredentialsRequest.Deletion(name=key, mechanism=number) for key in keys]
        return AlterUserScramCredentialsRequest(deletions=rows, upsertions=[])

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """True for a credential that does not exist: the request whose response was lost may have deleted it."""
        return True if isinstance(found, Refusal) and found.code == ABSENT else found
