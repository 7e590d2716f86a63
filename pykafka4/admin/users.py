"""Lists and deletes users that log in with SCRAM, and sets their passwords. Invariant: a password leaves this process only as a salted
hash, and no error, log line or `repr` contains it."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.users import (
    ABSENT,
    ALL_USERS,
    MECHANISMS,
    AlterUsers,
    DeleteUsers,
    DescribeUsers,
    ListUsers,
    SaltedPassword,
    ScramCredential,
    UpsertUsers,
)
from pykafka4.core.sasl.credentials import text_of
from pykafka4.core.sasl.scram import ALGORITHMS, FEWEST_ITERATIONS
from pykafka4.errors import BrokerError, ConfigError, KafkaError, shown, with_article
from pykafka4.errors.frames import guarded

__all__ = ["UserCalls"]

SALT: Final = 32  # bytes of each random salt
MOST_ITERATIONS: Final = 16_384  # brokers store no credential with more (ScramControlManager)
CHANGED: Final = "credentials cannot be changed"


class UserCalls(AdminCalls):
    """The calls of an `AdminClient` about users that log in with SCRAM. Source: KIP-554."""

    def list_users(self, *, timeout: float | None = None) -> dict[str, tuple[ScramCredential, ...]]:
        """Return all users that have a SCRAM credential, with mechanism and iterations. Needs DESCRIBE on the cluster.

        The result comes from one broker, which may not know the latest changes yet. Needs Kafka 2.7, or 3.5 with KRaft.
        """
        return value_or_raise(self._ask_any_broker(ListUsers(), [ALL_USERS], self._begin(timeout))[ALL_USERS])

    def describe_users(self, users: Iterable[str], *, timeout: float | None = None) -> dict[str, tuple[ScramCredential, ...] | KafkaError]:
        """Return the SCRAM credentials of each user. A user without a credential has the BrokerError RESOURCE_NOT_FOUND."""
        return self._ask_any_broker(DescribeUsers(), _users(users), self._begin(timeout))

    def describe_user(self, user: str, *, timeout: float | None = None) -> tuple[ScramCredential, ...]:
        """Return the SCRAM credentials of one user. Raises the user's error."""
        (name,) = _users([user])
        return value_or_raise(self._ask_any_broker(DescribeUsers(), [name], self._begin(timeout))[name])

    @guarded
    def upsert_users(
        self,
        passwords: Mapping[str, str],
        *,
        mechanisms: Collection[str] = tuple(MECHANISMS),
        iterations: int = FEWEST_ITERATIONS,
        timeout: float | None = None,
    ) -> None:
        """Set the password of each user, new or existing, for all `mechanisms`. Needs ALTER on the cluster.

        This process salts and hashes each password, with `iterations` rounds (4,096 to 16,384, as brokers require). Open connections
        stay logged in, and brokers learn of the change within moments. Raises ConfigError, BrokerError UNACCEPTABLE_CREDENTIAL,
        AuthorizationError; PartialFailure, whose keys are pairs of a user and a mechanism.
        """
        if not isinstance(passwords, Mapping):  # the value may be a password, so the message names its type only
            raise ConfigError(f"passwords: takes a mapping of users to their passwords, not {with_article(type(passwords).__name__)}")
        words = {name: text_of(passwords[name], f"the password of user {shown(name)}") for name in _users(passwords)}
        rounds = _iterations(iterations)
        questions = {
            name: UpsertUsers(name, {user: _salted(ALGORITHMS[name], word, rounds) for user, word in words.items()})
            for name in _mechanisms(mechanisms)
        }
        users = list(words)
        del words  # while brokers work, only the caller's mapping holds the unsalted passwords
        require_all_done(CHANGED, self._altered(questions, users, self._begin(timeout)))

    def delete_users(
        self, users: Iterable[str], *, mechanisms: Collection[str] | None = None, timeout: float | None = None
    ) -> list[tuple[str, str]]:
        """Delete the credentials of users for some `mechanisms`, or all (None); return pairs of a user and a mechanism.

        Open connections stay logged in. A user without a credential has the error RESOURCE_NOT_FOUND. Needs ALTER on the cluster. Raises
        ConfigError, BrokerError, AuthorizationError; PartialFailure with the same keys as for `upsert_users`.
        """
        names, wanted = _users(users), _mechanisms(tuple(MECHANISMS) if mechanisms is None else mechanisms)
        found = self._altered({one: DeleteUsers(one) for one in wanted}, names, self._begin(timeout))
        # With None, each mechanism is tried, and a missing credential is an error only if no credential of the user was deleted. A query
        # for the credentials beforehand could reach a broker that does not know of the latest changes yet.
        if mechanisms is None:
            had = {user for (user, _), one in found.items() if one is True}
            found = {pair: one for pair, one in found.items() if pair[0] not in had or not _is_absent(one)}
        return list(require_all_done(CHANGED, found))

    def _altered(
        self, questions: Mapping[str, AlterUsers], users: Iterable[str], deadline: Deadline
    ) -> dict[tuple[str, str], bool | KafkaError]:
        """Each mechanism has its own request, because brokers accept only one change per user in a request."""
        found: dict[tuple[str, str], bool | KafkaError] = {}
        for mechanism, question in questions.items():
            found |= {(user, mechanism): one for user, one in self._ask_controller(question, users, deadline).items()}
        return found


def _is_absent(outcome: bool | KafkaError) -> bool:
    return isinstance(outcome, BrokerError) and outcome.code.code == ABSENT


def _salted(algorithm: str, word: str, iterations: int) -> SaltedPassword:
    salt = secrets.token_bytes(SALT)
    return SaltedPassword(salt, hashlib.pbkdf2_hmac(algorithm, word.encode(), salt, iterations), iterations)


def _users(values: object) -> list[str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise ConfigError(f"users={shown(values)}: takes a list of names")
    return list(dict.fromkeys(text_of(one, "the name of a user") for one in values))


def _mechanisms(values: object) -> list[str]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Collection) or not values or not set(values) <= set(MECHANISMS):
        raise ConfigError(f"mechanisms={shown(values)}: takes a list of {', '.join(MECHANISMS)}")
    return list(dict.fromkeys(values))


def _iterations(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not FEWEST_ITERATIONS <= value <= MOST_ITERATIONS:
        raise ConfigError(f"iterations={shown(value)}: must be from {FEWEST_ITERATIONS:,} to {MOST_ITERATIONS:,}")
    return int(value)
