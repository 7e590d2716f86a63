"""Deliveries. Rule: any thread or task that waits for a delivery gets its outcome; in a forked child it gets an error.

Deliveries may outlive their producer; this object is all that they keep alive of it.
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

AWAIT_SECONDS: Final = 0.005  # how often a delivery is polled where callbacks must not be waited for
AWAIT_CALLBACK_SECONDS: Final = 0.1  # the first such interval elsewhere, where a callback brings the outcome but may be delayed; doubles
AWAIT_LONGEST_SECONDS: Final = 1.0  # maximum of that interval
FORKED: Final = "this producer was created in the parent process; create a Producer in this one"


class Deliveries(Signal):
    """All that a `Delivery` needs of its producer, which it may outlive. In a forked child no outcome arrives."""

    __slots__ = ("_callbacks", "_engine", "_seen", "_tasks", "forked")

    def __init__(self, callbacks: Callbacks, engine: Engine) -> None:
        super().__init__()
        self._callbacks, self._engine = callbacks, weakref.ref(engine)
        self._seen: deque[int] = deque()
        self._tasks: dict[weakref.ref[AbstractEventLoop], Tasks] = {}
        self.forked = False

    @property
    def looked_at(self) -> list[int]:
        """For each failed record whose failure the application has seen: how many had failed before its batch."""
        while True:
            with contextlib.suppress(RuntimeError):  # another thread appends just now
                return list(self._seen)

    def failure_seen(self, before: int) -> None:
        """The application sees the failure of a record for the first time; `before` others had failed before its batch."""
        self._seen.append(before)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """As `Signal.wait`; ForkedClientError if this would wait forever in a forked child."""
        if self.forked and not predicate():
            raise ForkedClientError(FORKED)
        limit = 0.0 if isinstance(timeout, (int, float)) and timeout < 0 else check_timeout(timeout)  # a deadline that has already passed
        return super().wait(predicate, limit)

    def why_open(self, topic: str, partition: int | None) -> str:
        """`: broker1:9092 connection refused`, if a reason is known why records have no outcome yet. Waits for nothing."""
        engine = self._engine()
        if engine is None:
            return ""
        offline = None if partition is None else engine.recovery.offline.get(TopicPartition(topic, partition))
        error = engine.cluster.topic_error(topic)
        why = str(offline.reason) if offline is not None else engine.network.why_unreachable() or (error.name if error is not None else "")
        return why and f": {why}"

    def submit(self, fn: Callable[[], object]) -> None:
        """Run `fn` where callbacks run."""
        if self.forked:
            raise ForkedClientError(FORKED)
        self._callbacks.post(fn)

    def awaiting(self, handle: Delivery | SentRows) -> Generator[Any, Any, Any]:
        """What `await` of a Delivery or of a SentRows does."""
        if isinstance(handle, SentRows):
            while (delivery := handle.open_delivery()) is not None:
                yield from self.until_done(delivery)
        else:
            yield from self.until_done(handle)
        return handle.result(0)

    def until_done(self, delivery: Delivery) -> Generator[Any, Any, None]:
        """Sleep until `delivery` has its outcome: the thread that sets the outcome wakes the task in the running asyncio loop.

        An asyncio loop of somebody else's making is called on the callback executor instead, as it may block. Callbacks may themselves wait
        for this task. So it also polls the delivery: rarely, or often if the calling thread is needed to run callbacks.
        """
        if self.wait(delivery.done, 0):
            return
        loop = running_loop()
        sleeper = Sleeper(loop.create_future())
        look = sleeper.look()
        often = False
        if _never_blocks(loop):
            tasks = self._tasks.get(weakref.ref(loop)) or self._tasks.setdefault(weakref.ref(loop, self._tasks.__delitem__), Tasks(loop))
            delivery.add_done_callback(Waker(lambda: tasks.wake(look)))
        elif not (often := self._callbacks.on_executor() or self._callbacks.in_callback()):
            tasks = Tasks(loop)
            delivery.add_done_callback(lambda _: tasks.wake(look))
        from asyncio import CancelledError  # imported here: a producer for threads needs no asyncio

        pause = AWAIT_SECONDS if often else AWAIT_CALLBACK_SECONDS
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
            pause = pause if often else min(2 * pause, AWAIT_LONGEST_SECONDS)


class Sleeper:
    """What one `await delivery` waits with. Only that task keeps it alive."""

    __slots__ = ("__weakref__", "future")

    def __init__(self, future: Future[None]) -> None:
        self.future = future

    def wake(self) -> None:
        """Let the task look at the delivery."""
        if not self.future.done():  # the task may have been cancelled
            self.future.set_result(None)

    def look(self) -> Callable[[], None]:
        """`wake`, for others to call. It keeps nothing alive."""
        weak = weakref.ref(self)

        def look() -> None:
            sleeper = weak()
            if sleeper is not None:
                sleeper.wake()

        return look


class Tasks:
    """Wakes tasks of one asyncio loop, from any thread: those of one batch with one call.

    A loop may be closed between a call and its turn. What is queued then stays, so it must not keep the loop alive.
    """

    __slots__ = ("_asleep", "_loop", "_woken")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._woken: deque[Callable[[], None]] = deque()
        self._asleep = True  # whether the loop has nothing to do for `_woken`

    @property
    def over(self) -> bool:
        """Whether the loop is closed, so that none of its tasks goes on."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def wake(self, look: Callable[[], None]) -> None:
        """Call `look()` on the asyncio loop soon."""
        self._woken.append(look)
        self._call()

    def _call(self) -> None:
        loop = self._loop()
        if self._asleep and loop is not None:
            self._asleep = False
            try:
                loop.call_soon_threadsafe(self._look)
            except BaseException as error:
                self._asleep = True  # the next one calls again
                if not isinstance(error, RuntimeError):
                    raise
                self._woken.clear()  # the asyncio loop is closed: no task waits any more

    def _look(self) -> None:
        self._asleep = True  # before the queue is emptied: a later `wake` calls again
        try:
            while self._woken:
                self._woken.popleft()()
        finally:
            if self._woken:  # that call raised: the others have another turn
                self._call()


def running_loop() -> AbstractEventLoop:
    """The asyncio event loop that runs on this thread. RuntimeError that says how to do without one."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no asyncio event loop runs on this thread; pykafka4.aio and `await delivery` need one. "
            "Under trio, call pykafka4.Producer and pykafka4.Consumer in trio.to_thread.run_sync"
        ) from None


def _never_blocks(loop: AbstractEventLoop) -> bool:
    """Whether `call_soon_threadsafe` of this loop only queues the call, as that of asyncio and of uvloop does."""
    call = getattr(type(loop), "call_soon_threadsafe", None)
    return getattr(call, "__module__", None) == "asyncio.base_events" or type(loop).__module__.partition(".")[0] == "uvloop"
