"""Calls of an admin client. Rule: every call ends at its deadline, however many questions it consists of."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from pykafka4.client.attachment import SHORT, Attachment, read_config
from pykafka4.client.client import Client
from pykafka4.client.runtime import warn_unclosed
from pykafka4.core.admin.calls import Begin
from pykafka4.core.admin.machine import AdminMachine
from pykafka4.core.admin.places import Leaders, OfGroup
from pykafka4.core.admin.work import Place, Question
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ClientConfig
from pykafka4.records import TopicPartition

__all__ = ["Answers", "Deadline", "AdminSession"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
CLOSED: Final = "this admin client is closed; create a new one"


class Deadline:
    """The end of a call."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._at = seconds, system.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then."""
        return max(0.0, self._at - system.monotonic())


class Answers(Generic[K, V]):
    """The answers of a call, or to one question of it."""

    def __init__(self, session: AdminSession, begin: Begin, seconds: float) -> None:
        """`begin` is called on the loop."""
        self._session, self._seconds = session, seconds
        self._promise: Promise[dict[K, V | KafkaError]] = session.promise()
        self._stops: list[Callable[[], None]] = []

        def started(now: float) -> None:
            self._stops.append(begin(session.machine, now, seconds, self._promise.set_result))

        self._promise.add_done_callback(lambda promise: session.open.pop(promise, None))
        session.open[self._promise] = None
        session.post(started)
        if session.closed:  # after it is in `open`: otherwise a close at this moment would overlook it
            self._promise.set_exception(ClosedError(CLOSED))

    def wait(self) -> dict[K, V | KafkaError]:
        """The outcome of each key."""
        try:
            return self._promise.result(self._seconds + SHORT)
        finally:
            self.end()

    def end(self) -> None:
        """Nobody waits any more."""
        self._session.open.pop(self._promise, None)
        self._session.post(lambda now: [stop() for stop in self._stops])


class AdminSession(Attachment[AdminMachine]):
    """Everything of an admin client but its handle."""

    def __init__(self, client: Client | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ClientConfig, client, None, options)
        self.connect(client, self.config, None)
        self.closed = False
        self.open: dict[Promise[Any], None] = {}
        self.machine = self.runtime.loop.ask(self._start, SHORT, "starting the admin client")
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

    def ask(self, begin: Begin, deadline: Deadline) -> Answers[Any, Any]:
        """Begin one of `core.admin.calls`."""
        return Answers(self, begin, deadline.left)

    def of_group(self, question: Question[K, V], group: str, keys: Iterable[K], deadline: Deadline) -> Answers[K, V]:
        """Ask the coordinator of one group."""
        return self._asked(question, lambda: OfGroup(self.machine.coordinators, group), keys, deadline)

    def of_leaders(
        self, question: Question[TopicPartition, V], partitions: Iterable[TopicPartition], deadline: Deadline
    ) -> Answers[TopicPartition, V]:
        """Ask the leaders of `partitions`."""
        return self._asked(question, lambda: Leaders(self.machine.cluster), partitions, deadline)

    def of_anyone(self, question: Question[K, V], keys: Iterable[K], deadline: Deadline) -> Answers[K, V]:
        """Ask any broker."""
        return self._asked(question, lambda: self.machine.anyone(), keys, deadline)

    def _asked(self, question: Question[K, V], place: Callable[[], Place[K]], keys: Iterable[K], deadline: Deadline) -> Answers[K, V]:
        """`place` is called on the loop."""
        kept = list(keys)
        return self.ask(lambda machine, now, seconds, done: machine.begin(now, question, place(), kept, seconds, done), deadline)

    def refresh_brokers(self, deadline: Deadline) -> None:
        """Learn of new brokers."""
        self.runtime.refresh_metadata([], deadline.left)

    # -- the end

    def close(self, timeout: float | None = None) -> None:
        """End all calls and release the connections."""
        if self.closed or self.runtime.loop.forked:
            return
        self.closed = True
        for promise in list(self.open):
            promise.set_exception(ClosedError(CLOSED))
        self.disconnect()

    def drain(self, timeout: float) -> None:
        """The interpreter exits."""
        self.close(timeout)

    @staticmethod
    def forgotten(session: AdminSession) -> None:
        """The handle was garbage-collected while open: warn, and close on another thread, because the collector must not wait."""
        if not session.closed and session.runtime.loop.alive:
            warn_unclosed("AdminClient")
            session.runtime.callbacks.post(session.close)
