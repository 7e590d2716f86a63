"""Passes the answers of a call to the thread, future or task that waits for them. Invariant: a call ends by its deadline, however many
questions it consists of, unless the loop is stuck.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.workers import Callbacks, Workers
from pykafka4.net.loop import CALLER_GONE

if TYPE_CHECKING:  # few clients need the messages of admin calls
    from pykafka4.core.admin.call import Begin
    from pykafka4.core.admin.machine import AdminMachine

__all__ = ["LOOP_ANSWER_S", "Answers", "Deadline", "Futures"]

T = TypeVar("T")
LOOP_ANSWER_S = 10.0  # longest wait for the loop, which responds at once unless it is stuck


class Deadline:
    """The time by which a call must end."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._at = seconds, system.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds until the deadline; 0 afterwards."""
        return max(0.0, self._at - system.monotonic())


class Asker(Protocol):
    """The owner of a machine that runs calls."""

    @property
    def machine(self) -> AdminMachine:
        """The machine, whose methods are only for the loop thread."""

    def promise(self) -> Promise[Any]:
        """A Promise that fails if the machine fails."""

    def post(self, fn: Callable[[float], object]) -> None:
        """Run `fn(now)` on the loop thread."""


class Answers(Generic[T]):
    """The answers of a call, or of one of its questions."""

    def __init__(self, asker: Asker, begin: Begin, seconds: float, finish: Callable[[dict[Any, Any]], T]) -> None:
        """`begin` runs on the loop and begins the call. `finish` makes the result from the outcomes, or raises an error."""
        self._asker, self._finish, self.seconds = asker, finish, seconds
        self.promise: Promise[dict[Any, Any]] = asker.promise()
        self._stops: list[Callable[[], None]] = []

        def started(now: float) -> None:
            self._stops.append(begin(asker.machine, now, seconds, self.promise.set_result))

        asker.post(started)

    def wait(self) -> T:
        """Wait for the end of the call, and return its result. The machine ends the call by the deadline."""
        try:
            # LOOP_ANSWER_S is for a loop that does not respond.
            self.promise.wait(self.seconds + LOOP_ANSWER_S)
            return self.result()
        finally:
            self.end()

    def result(self) -> T:
        """Return the result of a call that has ended, or raise its error."""
        return self._finish(self.promise.result(0))

    def end(self) -> None:
        """End the call, for which no caller waits any more."""
        self.promise.set_exception(CALLER_GONE)
        self._asker.post(lambda now: [stop() for stop in self._stops])  # posts keep their order, so `started` has filled the list


class CallFuture(Future[T]):
    """A future that passes the application's callbacks to `Callbacks`."""

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._of_client = callbacks

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        super().add_done_callback(lambda future: self._of_client.post(lambda: fn(future)))


class Futures:
    """Makes futures for answers. A separate thread resolves the futures.

    The loop must not resolve futures, because the loop could wait forever: an application thread holds a future's lock, a signal handler on
    this thread waits for the loop, and the loop waits for the lock.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._workers = Workers("pykafka4-futures", 1, callbacks.client_id)

    def of(self, answers: Answers[T]) -> Future[T]:
        """A future whose `cancel` ends the call, unless the call has already ended."""
        future: CallFuture[T] = CallFuture(self._callbacks)
        # `CallFuture.add_done_callback` would pass `end` to `Callbacks`, where a slow callback could delay it.
        Future.add_done_callback(future, lambda _: answers.end())

        def resolve() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = answers.result()
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        answers.promise.add_done_callback(lambda _: self._workers.submit(resolve))
        return future
