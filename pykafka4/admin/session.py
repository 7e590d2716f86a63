"""Begins the questions of an admin client on its loop. Invariant: no question outlives the admin client."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from pykafka4.client.answers import LOOP_ANSWER_S, Answers, Deadline
from pykafka4.client.attachment import Attachment, read_config
from pykafka4.client.client import Client
from pykafka4.client.runtime import warn_unclosed
from pykafka4.core.admin.broker_choices import GroupCoordinatorChoice, LeaderChoice
from pykafka4.core.admin.call import Begin
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.question_run import BrokerChoice, Question
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.loop import CALLER_GONE
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition

__all__ = ["AdminSession", "CallScope"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
CLOSED: Final = "this admin client is closed; create a new one"


class CallScope:
    """The questions of one call of `aio.AdminClient`. A task can end the call while the call's thread still waits."""

    current: Final[ContextVar[CallScope | None]] = ContextVar("pykafka4_admin_call", default=None)

    def __init__(self) -> None:
        self._promises: list[Promise[Any]] = []
        self._over = False

    def add(self, promise: Promise[Any]) -> None:
        """Add a question to this call. After `end` the question fails at once."""
        self._promises.append(promise)
        # `_over` is read after the append. In the other order, this thread could read False, `end` could set True and walk the list, and
        # then the question would join a list that is not walked again.
        if self._over:
            promise.set_exception(CALLER_GONE)

    def end(self) -> None:
        """Fail the questions of this call, and each question that is added later."""
        self._over = True
        for promise in list(self._promises):
            promise.set_exception(CALLER_GONE)


class AdminSession(Attachment[AdminMachine]):
    """The state of an admin client. The handle is a separate object, so that an unused handle can be garbage-collected."""

    kind = "admin client"

    def __init__(self, client: Client | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ClientConfig, client, None, options)
        self.connect(client, self.config, None)
        self.closed = False
        self.open: dict[Promise[Any], None] = {}
        self.machine = self.runtime.loop.ask(self._start, LOOP_ANSWER_S, "starting the admin client")
        self.runtime.attach(self)

    def _start(self, now: float) -> AdminMachine:
        engine = self.runtime.engine
        machine = AdminMachine(self.config, engine.network, engine.cluster, engine.random)
        engine.add(machine, "admin client")
        return machine

    def check(self) -> None:
        """Raise the error that every call would raise, if any."""
        if self.closed and not self.runtime.loop.forked:
            raise ClosedError(CLOSED)
        self.runtime.check()
        if (failure := self.failure()) is not None:
            raise failure.again()

    # -- asking

    def ask(self, begin: Begin, deadline: Deadline) -> Answers[dict[Any, Any]]:
        """Begin a call on the loop; the caller waits on the returned `Answers`."""
        answers = Answers(self, begin, deadline.left, dict)
        self._end_with_client(answers.promise)
        return answers

    def ask_coordinator(
        self, question: Question[K, V], group: str, keys: Iterable[K], deadline: Deadline
    ) -> Answers[dict[K, V | KafkaError]]:
        return self._asked(question, lambda: GroupCoordinatorChoice(self.machine.coordinators, group), keys, deadline)

    def ask_leaders(
        self, question: Question[TopicPartition, V], partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Answers[dict[TopicPartition, V | KafkaError]]:
        return self._asked(question, lambda: LeaderChoice(self.machine.cluster), partitions, deadline)

    def ask_any_broker(self, question: Question[K, V], keys: Iterable[K], deadline: Deadline) -> Answers[dict[K, V | KafkaError]]:
        return self._asked(question, lambda: self.machine.any_broker(), keys, deadline)

    def _asked(
        self, question: Question[K, V], choice: Callable[[], BrokerChoice[K]], keys: Iterable[K], deadline: Deadline
    ) -> Answers[dict[K, V | KafkaError]]:
        """Only the loop calls `choice`, because the machine belongs to the loop."""
        kept = list(keys)
        return self.ask(lambda machine, now, seconds, done: machine.begin(now, question, choice(), kept, seconds, done), deadline)

    def refresh_brokers(self, deadline: Deadline) -> None:
        promise = self.promise()
        self._end_with_client(promise)
        self.runtime.refresh_metadata([], deadline.left, promise)

    def _end_with_client(self, promise: Promise[Any]) -> None:
        """Have `close`, and the end of the current call of `aio.AdminClient`, fail the promise."""
        self.open[promise] = None
        promise.add_done_callback(lambda promise: self.open.pop(promise, None))
        if (scope := CallScope.current.get()) is not None:
            scope.add(promise)
        # `closed` is read after the entry in `open` is made. In the other order, `close` could set `closed` and fail all of `open` between
        # the two steps, and this call would wait for a machine that is gone.
        if self.closed:
            promise.set_exception(ClosedError(CLOSED))

    # -- the end

    def close(self, timeout: float | None = None) -> None:
        if self.closed or self.runtime.loop.forked:
            return
        self.closed = True  # before `open` is walked: see `_end_with_client`
        for promise in list(self.open):
            promise.set_exception(ClosedError(CLOSED))
        self.disconnect(timeout)

    def drain(self, timeout: float) -> None:
        self.close(timeout)

    @staticmethod
    def forgotten(session: AdminSession) -> None:
        """Warn about a garbage-collected open handle; close its session on another thread, because the collector must not wait."""
        if not session.closed and session.runtime.loop.alive:
            warn_unclosed("AdminClient")
            session.runtime.callbacks.post(session.close)
