"""Keeps the assignors of a member, and calls them for user data. Invariant: an application's `user_data` never runs on the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pykafka4.assignors.builtin import ASSIGNORS
from pykafka4.assignors.interface import Assignor, SendsUserData
from pykafka4.core import INFINITY, Job, Threads
from pykafka4.core.outbox import Outbox
from pykafka4.errors import KafkaError, caused_by, shown
from pykafka4.logs import get_log
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["AssignorCalls", "Strategies", "UserData", "is_builtin"]

log = get_log("pykafka4.group")

USER_DATA_SHARE: Final = 0.5  # part of the session timeout within which the assignors have to return user data

UserData: TypeAlias = Mapping[str, bytes | None]  # user data by the assignor's name, in order of preference
_BUILTIN_TYPES: Final = frozenset(map(type, ASSIGNORS.values()))


def is_builtin(assignor: Assignor) -> bool:
    """Whether `assignor` belongs to this package."""
    return type(assignor) in _BUILTIN_TYPES


class AssignorCalls:
    """Calls one method of an application's assignors, one call at a time: a method that hangs holds one thread, even if the group
    rebalances often."""

    __slots__ = ("_outbox", "_running", "_waits")

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._running = False
        self._waits: Job | None = None  # the call that follows the running call

    def start(self, run: Callable[[], Any], then: Callable[[float, Any], None]) -> None:
        """Call `run` as soon as the previous call has returned, unless `abandon` or another `start` comes first; `then` gets the result."""
        self._waits = Job(run, partial(self._returned, then), Threads.ASSIGNORS)
        if not self._running:
            self._begin()

    def abandon(self) -> None:
        self._waits = None

    def _begin(self) -> None:
        job, self._waits = self._waits, None
        self._running = job is not None
        if job is not None:
            self._outbox.start(job)

    def _returned(self, then: Callable[[float, Any], None], now: float, result: Any) -> None:
        self._begin()
        then(now, result)


class Strategies:
    """The assignors of `partition_assignment_strategy`, in order of preference."""

    __slots__ = (
        "_calls",
        "_generation",
        "_last",
        "_listens",
        "_makes_data",
        "_patience",
        "_previous",
        "_where",
        "by_name",
        "due",
        "rack",
    )

    def __init__(self, config: ConsumerConfig, where: str, outbox: Outbox) -> None:
        self._where, self._calls = where, AssignorCalls(outbox)
        self._patience = config.session_timeout_ms / 1000 * USER_DATA_SHARE
        listed = [ASSIGNORS[each] if isinstance(each, str) else each for each in config.partition_assignment_strategy]
        self.rack = config.client_rack
        self.by_name: dict[str, Assignor] = {assignor.name: assignor for assignor in listed}
        self._makes_data = {name: each for name, each in self.by_name.items() if isinstance(each, SendsUserData)}
        self._last: str | None = None  # the assignor of the last assignment
        self._previous: tuple[TopicPartition, ...] = ()  # the partitions of the last assignment
        self._generation = -1
        self.due = INFINITY  # the deadline for the user data
        self._listens: Callable[[float, UserData | KafkaError], None] | None = None

    def assigned(self, assignor: str | None, partitions: Iterable[TopicPartition], generation: int) -> None:
        """Keep the last assignment, for the user data of the assignor that made it."""
        self._last, self._previous, self._generation = assignor, tuple(partitions), generation

    def ask(self, now: float, topics: Iterable[str], then: Callable[[float, UserData | KafkaError], None]) -> None:
        """Call `then` with the user data of all assignors, or an error: at once, unless an application's assignor makes user data."""
        questions = {
            name: partial(each.user_data, frozenset(topics), *((self._previous, self._generation) if name == self._last else ((), -1)))
            for name, each in self._makes_data.items()
        }
        data: dict[str, bytes | None] = dict.fromkeys(self.by_name)
        if all(map(is_builtin, map(self.by_name.__getitem__, questions))):
            then(now, data | {name: question() for name, question in questions.items()})
            return
        self._listens, self.due = then, now + self._patience
        self._calls.start(partial(self._attempt, data, questions), partial(self._answered, then))

    def check(self, now: float) -> float:
        """Pass an error to the caller of `ask` if the user data is overdue; return when to check again."""
        if now >= self.due and (then := self._listens) is not None:
            self.abandon()
            then(now, self._refusal("an assignor did not return user data in time (session_timeout_ms limits it)"))
        return self.due

    def abandon(self) -> None:
        self._listens, self.due = None, INFINITY
        self._calls.abandon()

    def _answered(self, then: Callable[[float, UserData | KafkaError], None], now: float, data: UserData | KafkaError) -> None:
        if then is self._listens:
            self.abandon()
            then(now, data)

    def _attempt(self, data: dict[str, bytes | None], questions: Mapping[str, Callable[[], bytes | None]]) -> UserData | KafkaError:
        """The user data, or an error if an assignor has failed. Runs on a helper's thread."""
        for name, question in questions.items():
            try:
                found: object = question()
                if found is None or isinstance(found, (bytes, bytearray, memoryview)):
                    data[name] = None if found is None else bytes(found)  # `bytes` raises for a memoryview that was released
                    continue
            except BaseException as error:  # `SystemExit` in an application's code ends this join, not the helper's thread
                log.exception("%s: user_data of assignor %r raised an exception", self._where, name)
                return caused_by(self._refusal(f"user_data of assignor {name!r} raised {shown(error)}"), error)
            return self._refusal(f"user_data of assignor {name!r} returned {shown(found)}, which is neither bytes nor None")
        return data

    def _refusal(self, why: str) -> KafkaError:
        return KafkaError(f"{self._where}: {why}. This member cannot join: correct the assignor, then call subscribe again")
