"""Provides the common parts of an admin client's calls. Invariant: a change that fails wholly or in part raises an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pykafka4.admin.session import AdminSession
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.broker_choices import AnyBrokerChoice
from pykafka4.core.admin.question_run import BrokerChoice, Question
from pykafka4.core.admin.requests import ControllerChoice
from pykafka4.errors import AuthorizationError, KafkaError, PartialFailure, UnsupportedVersion
from pykafka4.misuse import api_timeout

__all__ = ["AdminCalls", "require_all_done", "are_too_old", "cause_of", "value_or_raise"]

K = TypeVar("K")
V = TypeVar("V")


class AdminCalls:
    """The base class of AclCalls, TopicCalls and the other classes of calls."""

    _session: AdminSession

    def _begin(self, timeout: float | None) -> Deadline:
        """Raises ConfigError for a wrong `timeout`, or the error of `AdminSession.check`."""
        limit = api_timeout(timeout)
        self._session.check()
        return Deadline(limit)

    def _ask_controller(self, question: Question[Any, V], keys: Any, deadline: Deadline) -> dict[Any, V | KafkaError]:
        """Ask the controller, or with KRaft a broker, which passes the request on."""

        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            choice: BrokerChoice[Any] = ControllerChoice(machine.cluster)
            return machine.begin(now, question, choice, list(keys), seconds, done)

        return self._session.ask(begin, deadline).wait()

    def _ask_any_broker(self, question: Question[Any, V], keys: Any, deadline: Deadline) -> dict[Any, V | KafkaError]:
        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            choice: AnyBrokerChoice[Any] = machine.any_broker()
            return machine.begin(now, question, choice, list(keys), seconds, done)

        return self._session.ask(begin, deadline).wait()


def require_all_done(what: str, found: Mapping[K, V | KafkaError]) -> dict[K, V]:
    """Return `found` if it has no errors. Otherwise raise the error that all outcomes have in common, or PartialFailure."""
    errors = {key: one for key, one in found.items() if isinstance(one, KafkaError)}
    done = {key: one for key, one in found.items() if not isinstance(one, KafkaError)}
    if not done and len(set(map(cause_of, errors.values()))) == 1:
        raise next(iter(errors.values())).again()
    if errors:
        raise PartialFailure.of(f"{what} for {len(errors)} of {len(found)}", errors, done)
    return done


def are_too_old(errors: Mapping[Any, KafkaError]) -> bool:
    """Whether there are errors, and each is an UnsupportedVersion. Their texts may differ."""
    return bool(errors) and all(isinstance(one, UnsupportedVersion) for one in errors.values())


def cause_of(error: KafkaError) -> object:
    """The same value for errors that need only one message: each is an UnsupportedVersion, the same right is missing, or
    the texts are equal."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion
    return error.subject if isinstance(error, AuthorizationError) else str(error)


def value_or_raise(found: V | KafkaError) -> V:
    if isinstance(found, KafkaError):
        raise found.again()
    return found
