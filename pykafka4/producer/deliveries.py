"""Waits for the outcomes of deliveries, on threads and in asyncio tasks.

A Delivery may outlive its producer, and holds its `Deliveries`. Invariant: `Deliveries` has only a weak reference to the engine.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Final

from pykafka4.errors import ForkedClientError
from pykafka4.misuse import check_timeout
from pykafka4.net.handoff.waiting import Signal
from pykafka4.net.handoff.workers import Callbacks
from pykafka4.records import TopicPartition
from pykafka4.wire.records.common import Waker
from pykafka4.wire.records.hot import Delivery, SentRows

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from pykafka4.core.engine import Engine

__all__ = ["FORKED", "Deliveries"]

AWAIT_S: Final = 0.005  # seconds between checks of a delivery to which no callback is added, because callbacks may need the awaiting thread
AWAIT_CALLBACK_S: Final = 0.1  # seconds between checks of any other delivery, whose callback may be delayed; doubles with each check
AWAIT_LONGEST_S: Final = 1.0  # the maximum of the doubled interval
FORKED: Final = "this producer was created in the parent process; create a Producer in this one"


class Deliveries(Signal):
    """Waits, callbacks and seen failures of a producer's deliveries. In a forked child no outcome arrives."""

    __slots__ = ("_callbacks", "_engine", "_seen", "_tasks", "forked")

    def __init__(self, callbacks: Callbacks, engine: Engine) -> None:
        super().__init__()
        self._callbacks, self._engine = callbacks, weakref.ref(engine)
        self._seen: deque[int] = deque()
        self._tasks: dict[weakref.ref[AbstractEventLoop], TaskWaker] = {}
        self.forked = False

    @property
    def seen_failures(self) -> list[int]:
        """For each failure that the application has seen in a Delivery: the number of records that had failed before the record's batch."""
        while True:
            with contextlib.suppress(RuntimeError):  # another thread appended while `list` iterated: read again
                return list(self._seen)

    def failure_seen(self, before: int) -> None:
        self._seen.append(before)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait as `Signal.wait` does. Raises ForkedClientError in a forked child, unless `predicate` holds."""
        if self.forked and not predicate():
            raise ForkedClientError(FORKED)
        limit = 0.0 if isinstance(timeout, (int, float)) and timeout < 0 else check_timeout(timeout)  # negative: the deadline has passed
        return super().wait(predicate, limit)

    def why_open(self, topic: str, partition: int | None) -> str:
        """The known reason why records have no outcome yet, such as `: broker1:9092 connection refused`, or "". Does not wait."""
        engine = self._engine()
        if engine is None:
            return ""
        offline = None if partition is None else engine.recovery.offline.get(TopicPartition(topic, partition))
        error = engine.cluster.topic_error(topic)
        why = str(offline.reason) if offline is not None else engine.network.why_unreachable() or (error.name if error is not None else "")
        return why and f": {why}"

    def submit(self, fn: Callable[[], object]) -> None:
        if self.forked:
            raise ForkedClientError(FORKED)
        self._callbacks.post(fn)

    def awaiting(self, handle: Delivery | SentRows) -> Generator[Any, Any, Any]:
        """The generator behind `await` of a Delivery or a SentRows."""
        if isinstance(handle, SentRows):
            while (delivery := handle.open_delivery()) is not None:
                yield from self.until_done(delivery)
        else:
            yield from self.until_done(handle)
        return handle.result(0)

    def until_done(self, delivery: Delivery) -> Generator[Any, Any, None]:
        """Sleep in the running asyncio loop until `delivery` has its outcome.

        As a rule, the thread that sets the outcome wakes a task of asyncio or uvloop itself. The call that wakes another library's loop may
        block, so a callback on the executor makes this call. Callbacks of the application may wait for this very task, and hold that
        callback up. So the task also checks the delivery itself, rarely. If another library's loop runs on a thread that callbacks may
        need, the task adds no callback, and checks often.
        """
        if self.wait(delivery.done, 0):
            return
        loop = running_loop()
        sleeper = Sleeper(loop.create_future())
        wake = sleeper.weak_wake()
        often = False
        if _never_blocks(loop):
            tasks = self._tasks.get(weakref.ref(loop)) or self._tasks.setdefault(
                weakref.ref(loop, self._tasks.__delitem__), TaskWaker(loop)
            )
            delivery.add_done_callback(Waker(lambda: tasks.run_soon(wake)))
        elif not (often := self._callbacks.on_executor() or self._callbacks.in_callback()):
            tasks = TaskWaker(loop)
            delivery.add_done_callback(lambda _: tasks.run_soon(wake))
        from asyncio import CancelledError  # imported here: a producer for threads needs no asyncio

        pause = AWAIT_S if often else AWAIT_CALLBACK_S
        while not self.wait(delivery.done, 0):
            timer = loop.call_later(pause, sleeper.wake)
            try:
                yield from sleeper.future
            except CancelledError as cancelled:
                where = delivery.topic if delivery.partition is None else f"{delivery.topic}-{delivery.partition}"
                why = self.why_open(delivery.topic, delivery.partition)
                cancelled.add_note(f"pykafka4: {where}: not acknowledged yet{why}; the record is still being sent")
                raise
            finally:
                timer.cancel()
            sleeper.future = loop.create_future()
            pause = pause if often else min(2 * pause, AWAIT_LONGEST_S)


class Sleeper:
    """The future of one `await delivery`. A delivery does not keep this object alive, because the delivery may outlive the task."""

    __slots__ = ("__weakref__", "future")

    def __init__(self, future: Future[None]) -> None:
        self.future = future

    def wake(self) -> None:
        if not self.future.done():  # the task may have been cancelled
            self.future.set_result(None)

    def weak_wake(self) -> Callable[[], None]:
        """A form of `wake`, for the delivery's callback, that does not keep the sleeper alive."""
        weak = weakref.ref(self)

        def wake() -> None:
            sleeper = weak()
            if sleeper is not None:
                sleeper.wake()

        return wake


class TaskWaker:
    """Wakes tasks of one asyncio loop, from any thread. One call to the loop wakes all tasks that are queued when the loop runs the call.

    A loop may be closed before it runs a scheduled `_run_calls`. Then the queued calls stay until the loop is garbage-collected, so this
    object must not keep the loop alive.
    """

    __slots__ = ("_asleep", "_calls", "_loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._calls: deque[Callable[[], None]] = deque()
        self._asleep = True  # no call of `_run_calls` is scheduled in the loop

    @property
    def over(self) -> bool:
        loop = self._loop()
        return loop is None or loop.is_closed()

    def run_soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)
        self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        if self._asleep and loop is not None:
            self._asleep = False
            try:
                loop.call_soon_threadsafe(self._run_calls)
            except BaseException as error:
                self._asleep = True  # otherwise no later `run_soon` would call the loop
                if not isinstance(error, RuntimeError):
                    raise
                self._calls.clear()  # RuntimeError: the asyncio loop is closed, so no task waits any more

    def _run_calls(self) -> None:
        # Set before the queue is read. Otherwise: this thread finds the queue empty, another thread appends a call and does not schedule
        # `_run_calls`, `_asleep` becomes True, and the call stays in the queue.
        self._asleep = True
        try:
            while self._calls:
                self._calls.popleft()()
        finally:
            if self._calls:  # a call raised: schedule the remaining calls again
                self._schedule()


def running_loop() -> AbstractEventLoop:
    """The asyncio event loop of this thread. Raises RuntimeError with the way out if none runs."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no asyncio event loop runs on this thread; pykafka4.aio and `await delivery` need one. "
            "Under trio, call pykafka4.Producer and pykafka4.Consumer in trio.to_thread.run_sync"
        ) from None


def _never_blocks(loop: AbstractEventLoop) -> bool:
    """Whether `call_soon_threadsafe` of this loop is known not to block: it is the method of asyncio or uvloop."""
    call = getattr(type(loop), "call_soon_threadsafe", None)
    return getattr(call, "__module__", None) == "asyncio.base_events" or type(loop).__module__.partition(".")[0] == "uvloop"
