"""Implements the common base of consumers and share consumers. Invariant: `close` ends the machine, even if Ctrl-C ends `_end_work`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Final, Protocol, TypeVar

from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment, RemovableMachine
from pykafka4.client.runtime import warn_unclosed
from pykafka4.client.status import unknown_status
from pykafka4.consumer.exception_in_hand import HandledError
from pykafka4.consumer.guard import Guard, call
from pykafka4.core import INFINITY
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Signal

__all__ = ["PollingSession"]

FORGOTTEN_S: Final = 5.0  # limit of the close of a garbage-collected consumer, because the close occupies the client's callback thread


class PolledMachine(RemovableMachine, Protocol):
    """The machine of a consumer or share consumer."""

    def status(self, now: float) -> dict[str, Any]:
        """The state of the machine, for `status`."""


M = TypeVar("M", bound=PolledMachine)


class PollingSession(Attachment[M]):
    """The calls that do not depend on how records are acknowledged."""

    handle: ClassVar[str]  # the name of the class that applications use
    kind = "consumer"
    config: Any
    guard: Guard

    def __init__(self) -> None:
        self.signal = Signal()
        self.handled = HandledError()
        self.closed = False
        self._reads: object = None  # the thread or task that polled last, which has the returned records
        self._woken = False  # set by `wakeup`: the running poll, or the next one, returns without waiting
        self._close_by: float = INFINITY

    @abstractmethod
    def _end_work(self, *, in_hand: bool) -> None:
        """End the work of the consumer within `close_time_left()` seconds, plus the time of its listener.

        `in_hand`: whether the list of the last poll may count as finished.
        """

    def check(self) -> None:
        if self.closed and not self.runtime.loop.forked:  # first: otherwise `runtime.check` would report the closed private client
            raise ClosedError(f"this {self.kind} is closed; create a new one")
        self.runtime.check()
        if self.guard.shut():
            raise ClosedError(f"this {self.kind} is closed; create a new one")
        if (failure := self.failure()) is not None and not self.guard.closing:
            raise failure.again()

    def wakeup(self) -> None:
        self._woken = True
        self.signal.notify()

    def status(self) -> dict[str, Any]:
        if crashed := self.crashed():
            return crashed
        try:
            return self.runtime.loop.ask(self.machine.status, LOOP_ANSWER_S, f"the {self.kind}'s status")
        except KafkaError as error:
            return unknown_status(error)

    # ---------------------------------------------------------------- the end

    def close_time_left(self) -> float:
        return max(0.0, self._close_by - system.monotonic())

    @call
    def close(self, timeout: float | None = None, *, failed: bool | None = None) -> None:
        """`failed`: whether an exception interrupted the processing of the last list; with None, `handled` decides."""
        if failed is None:
            failed = self.handled.interrupted()
        in_hand = not failed and self._reads is system.current_thread()
        if self.closed or self.runtime.loop.forked:  # in a child: threads of the parent may have held locks at the fork
            return
        self.guard.check_whole("close")
        if logs.current().on_loop():  # in a destructor: the callback thread, which may wait, closes the consumer
            self.runtime.callbacks.post(lambda: self.close(timeout, failed=True))
            return
        if not self.guard.begin_closing():
            return
        timeout = self.config.close_timeout_ms / 1000 if timeout is None else timeout
        self._close_by = system.monotonic() + timeout
        self._interrupt()
        try:
            with self.guard.use_last(timeout):
                if self.runtime.loop.alive:  # after a crash of the loop, nothing would execute the calls
                    self._end_work(in_hand=in_hand)
        finally:  # also after an exception in the listener, or Ctrl-C
            self.disconnect()
            self.closed = True
            self.guard.end_closing()

    def _interrupt(self) -> None:
        """Have a waiting poll end now."""
        self.signal.notify()

    def drain(self, timeout: float) -> None:
        """Close; the records of the last list do not count as finished."""
        self.close(timeout, failed=True)

    @staticmethod
    def forgotten(session: PollingSession[Any]) -> None:
        """Warn that an open handle was garbage-collected, and close on another thread, because the collector must not wait."""
        if not session.closed and session.runtime.loop.alive:
            warn_unclosed(session.handle)
            session.runtime.callbacks.post(lambda: session.close(FORGOTTEN_S, failed=True))
