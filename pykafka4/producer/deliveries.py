"""Deliveries. Rule: whoever waits for a delivery gets its outcome, from whatever thread or task; in a forked child an error.

Deliveries may outlive their producer, and keep nothing of it alive but this.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Final

from pykafka4.errors import ForkedClientError
from pykafka4.misuse import check_timeout
from pykafka4.net.handoff.waiting import Signal
from pykafka4.net.handoff.workers import Callbacks
from pykafka4.records import RecordMetadata
from pykafka4.wire.records.hot import Delivery

__all__ = ["FORKED", "Deliveries"]

AWAIT_SECONDS: Final = 0.005  # between two looks at a delivery where no callback may be waited for
AWAIT_CALLBACK_SECONDS: Final = 0.1  # the first such pause elsewhere: callbacks bring the outcome, but may be held up; doubles
AWAIT_LONGEST_SECONDS: Final = 1.0  # the longest that it grows to
FORKED: Final = "this producer was made in the parent process; make a Producer in this one"


class Deliveries(Signal):
    """What handles need: no more of a producer than that, for they may outlive it. In a forked child no outcome comes any more."""

    __slots__ = ("_callbacks", "_seen", "forked")

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks
        self._seen: deque[int] = deque()
        self.forked = False

    @property
    def looked_at(self) -> list[int]:
        """For each failed record that the application has looked at: how many had failed before its batch."""
        while True:
            with contextlib.suppress(RuntimeError):  # another thread looks at one just now
                return list(self._seen)

    def failure_seen(self, before: int) -> None:
        """The application looks at the failure of a record, for the first time; `before` others had failed before its batch."""
        self._seen.append(before)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """As `Signal.wait`; ForkedClientError where there is something to wait for and nobody who brings it."""
        if self.forked and not predicate():
            raise ForkedClientError(FORKED)
        limit = 0.0 if isinstance(timeout, (int, float)) and timeout < 0 else check_timeout(timeout)  # a deadline may have passed already
        return super().wait(predicate, limit)

    def submit(self, fn: Callable[[], object]) -> None:
        """Have `fn` called where callbacks are."""
        if self.forked:
            raise ForkedClientError(FORKED)
        self._callbacks.post(fn)

    def awaiting(self, delivery: Delivery) -> Generator[Any, None, RecordMetadata]:
        """What `await delivery` does: the outcome comes from the callback executor to the running asyncio loop.

        A callback may wait for this very task. So the task looks at the delivery by itself, too: seldom, or often where the calling thread
        is needed for callbacks.
        """
        import asyncio  # here, as only those who await need it, and its import takes longer than that of everything else

        if self.wait(delivery.done, 0):
            return delivery.result(0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            if not future.done():  # the awaiting task may be gone
                future.set_result(None)

        def done(_: Delivery) -> None:
            with contextlib.suppress(RuntimeError):  # the asyncio loop is closed: nobody awaits any more
                loop.call_soon_threadsafe(look)

        often = self._callbacks.on_executor() or self._callbacks.in_callback()
        pause = AWAIT_SECONDS if often else AWAIT_CALLBACK_SECONDS
        if not often:
            delivery.add_done_callback(done)
        while not self.wait(delivery.done, 0):
            timer = loop.call_later(pause, look)
            try:
                yield from future
            finally:
                timer.cancel()
            future = loop.create_future()
            pause = pause if often else min(2 * pause, AWAIT_LONGEST_SECONDS)
        return delivery.result(0)
