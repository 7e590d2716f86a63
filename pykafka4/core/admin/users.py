"""Questions about users and their SCRAM credentials. Rule: a password is salted before a question is made of it, and never kept.

What is sent is as good as the password for whoever wants to guess it, so nothing here shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs

from pykafka4.core import Reply
from pykafka4.core.admin.cluster import OneAnswer
from pykafka4.core.admin.work import Question, Refusal
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
    """What brokers tell of a password: the mechanism, and how often it was hashed."""

    mechanism: str
    iterations: int


@attrs.frozen(repr=False)
class SaltedPassword(Secret):
    """What brokers keep of a password."""

    salt: bytes
    salted: bytes
    iterations: int


def _credentials(row: Any) -> tuple[ScramCredential, ...]:
    found = (ScramCredential(NAMES.get(one.mechanism, f"UNKNOWN({one.mechanism})"), one.iterations) for one in row.credential_infos)
    return tuple(sorted(found, key=lambda one: one.mechanism))


class ListUsers(OneAnswer[str, "dict[str, tuple[ScramCredential, ...]]"]):
    """All users with credentials; the only key is ALL_USERS."""

    api = "DescribeUserScramCredentials"
    about = "{} cannot be described"

    def message(self, keys: Sequence[str]) -> DescribeUserScramCredentialsRequest:
        """About all."""
        # Not None, which means the same: without the right, brokers up to 4.4 fail over it (NullPointerException) and do not answer.
        return DescribeUserScramCredentialsRequest(users=[])

    def answer(self, message: Any, reply: Reply) -> dict[str, tuple[ScramCredential, ...]]:
        """In order."""
        return {row.user: _credentials(row) for row in sorted(message.results, key=lambda row: row.user)}


class OfUsers(Question[str, Any]):
    """The keys are users."""

    task: ClassVar[str]

    def error(self, key: str, refusal: Refusal) -> BrokerError:
        """With the right that is missing; that is the same for all users."""
        what = self.task if error_code(refusal.code).denied else self.what(key)
        return broker_error(refusal.code, what, refusal.detail, self.api)


class DescribeUsers(OfUsers):
    """The credentials of some users."""

    api = "DescribeUserScramCredentials"
    about = "user {}"
    task = "users cannot be described"

    def message(self, keys: Sequence[str]) -> DescribeUserScramCredentialsRequest:
        """About these."""
        return DescribeUserScramCredentialsRequest(users=[DescribeUserScramCredentialsRequest.User(name=key) for key in keys])

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, tuple[ScramCredential, ...] | Refusal]:
        """Mechanisms and iterations of each."""
        message = reply.message
        if message.error_code:
            return dict.fromkeys(keys, Refusal(message.error_code, message.error_message))
        return {row.user: Refusal(row.error_code, row.error_message) if row.error_code else _credentials(row) for row in message.results}


class AlterUsers(OfUsers):
    """Changes credentials of one mechanism: brokers take one change of a user in a request. True for each that is done."""

    api = "AlterUserScramCredentials"
    changes = True
    task = "credentials cannot be changed"

    def __init__(self, mechanism: str) -> None:
        self._mechanism = mechanism

    def what(self, key: str) -> str:
        """The credential, not what is in it."""
        return f"the {self._mechanism} credential of user {key}"

    def read(self, keys: Sequence[str], reply: Reply) -> Mapping[str, bool | Refusal]:
        """One row for each."""
        return {row.user: Refusal(row.error_code, row.error_message) if row.error_code else True for row in reply.message.results}


class UpsertUsers(AlterUsers):
    """Sets passwords, of new users and of known ones."""

    def __init__(self, mechanism: str, passwords: Mapping[str, SaltedPassword]) -> None:
        super().__init__(mechanism)
        self._passwords = passwords

    def message(self, keys: Sequence[str]) -> AlterUserScramCredentialsRequest:
        """All of them."""
        number = MECHANISMS[self._mechanism]
        rows = [
            AlterUserScramCredentialsRequest.Upsertion(
                name=key, mechanism=number, iterations=word.iterations, salt=word.salt, salted_password=word.salted
            )
            for key, word in ((key, self._passwords[key]) for key in keys)
        ]
        return AlterUserScramCredentialsRequest(deletions=[], upsertions=rows)


class DeleteUsers(AlterUsers):
    """Deletes credentials."""

    def message(self, keys: Sequence[str]) -> AlterUserScramCredentialsRequest:
        """All of them."""
        number = MECHANISMS[self._mechanism]
        rows = [AlterUserScramCredentialsRequest.Deletion(name=key, mechanism=number) for key in keys]
        return AlterUserScramCredentialsRequest(deletions=rows, upsertions=[])

    def repeated(self, found: bool | Refusal) -> bool | Refusal:
        """A credential that is not there was deleted by the request whose response was lost."""
        return True if isinstance(found, Refusal) and found.code == ABSENT else found
