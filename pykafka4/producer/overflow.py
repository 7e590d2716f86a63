"""Calls callbacks of dropped records on the callback executor. Invariant: each callback runs at most once, and at most about
`MOST_WAITING` callbacks wait.

The options `on_full` and `on_rate_limit` drop records. A dropped record has no batch that would run its callback.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.gil.flag import step_aside
from pykafka4.logs import get_log
from pykafka4.wire.records.hot import Delivery

__all__ = ["DroppedCalls", "FlushMark"]

log = get_log("pykafka4.producer")

MOST_WAITING: Final = 10_000  # waiting callbacks of dropped records, whose number buffer_memory does not bound


@attrs.define(eq=False)
class CallbackTurn:
    """A turn of a job: it takes a callback from the queue and calls it, or takes a mark."""

    over: bool = False
    awaited: bool = False  # a mark waits for the end of this turn


class FlushMark:
    """The mark that a flush or `close` appends to the queue. It is settled when all earlier callbacks have returned.

    Both calls wait for marks as for batches, so a mark has the batch attributes that these calls read.
    """

    count, done = 0, True

    def __init__(self) -> None:
        self._ahead: list[CallbackTurn] | None = None  # the turns on other threads when a job reached this mark; None before

    @property
    def settled(self) -> bool:
        return self._ahead is not None and all(call.over for call in self._ahead)

    def reached(self, ahead: list[CallbackTurn]) -> None:
        """Store the turns `ahead`, which may still run. All other callbacks ahead of this mark have returned."""
        for call in ahead:
            call.awaited = True
        self._ahead = ahead

    def lost(self) -> list[Any]:
        """The undelivered records: none, because dropped records are not kept."""
        return []


class DroppedCalls:
    """The queue of `on_delivery` calls for dropped records. A job of the executor makes many calls, because an overload drops many records.

    An executor of several threads may run several jobs at a time, which take the callbacks in order.
    """

    __slots__ = ("_client_id", "_overrun", "_progress", "_running", "_scheduled", "_submit", "_waiting")

    def __init__(self, submit: Callable[[Callable[[], object]], object], progress: Callable[[], object], client_id: str) -> None:
        """`progress` wakes the threads that wait in a flush, after callbacks have run."""
        self._submit, self._progress, self._client_id = submit, progress, client_id
        self._waiting: deque[tuple[Callable[[Delivery], object], Delivery] | FlushMark] = deque()
        self._scheduled = False
        self._overrun = False  # callbacks have been left out since the queue was last empty
        self._running: dict[CallbackTurn, None] = {}  # turns that have not ended

    def __call__(self, callback: Callable[[Delivery], object], delivery: Delivery) -> None:
        """Queue the call. While too many callbacks wait, leave it out: the Delivery has its outcome anyway."""
        if len(self._waiting) < MOST_WAITING:
            self._append((callback, delivery))
        elif not self._overrun:  # one line for each overload, however long it is
            self._overrun = True
            log.warning(
                "%s: %s: callbacks of dropped records are left out while %d wait: make `on_delivery` faster; stats() has all records",
                self._client_id,
                delivery.topic,
                MOST_WAITING,
            )

    def mark(self) -> list[FlushMark]:
        """A list with a mark after the callbacks that wait or run now; empty if there are none."""
        if not self._waiting and not self._running:
            return []
        mark = FlushMark()
        self._append(mark)
        return [mark]

    def _append(self, entry: tuple[Callable[[Delivery], object], Delivery] | FlushMark) -> None:
        self._waiting.append(entry)
        if not self._scheduled:  # read after the append; `_run` clears the flag, then reads the queue: one thread sees the other's change
            try:
                self._scheduled = True
                self._submit(self._run)
            except BaseException:
                self._scheduled = False  # Ctrl-C, perhaps before the submit: the next append submits again, and a second job does no harm
                raise

    def _run(self) -> None:
        self._scheduled = False
        while self._waiting:
            call = CallbackTurn()
            # Stored before the callback is taken: a thread that takes the mark behind the callback must find this turn, or the flush would
            # end too early.
            self._running[call] = None
            try:
                self._take(call)
            finally:
                call.over = True
                self._running.pop(call)
            if call.awaited:
                self._progress()
        self._overrun = False
        self._progress()

    def _take(self, call: CallbackTurn) -> None:
        try:
            entry = self._waiting.popleft()
        except IndexError:  # another thread was faster
            return
        if isinstance(entry, FlushMark):
            call.awaited = True  # so that `_run` has the waiters check the mark after this turn
            entry.reached([other for other in list(self._running) if other is not call])
            return
        callback, delivery = entry
        try:
            step_aside()
            callback(delivery)
        except BaseException:  # a failing callback must not keep later callbacks from being called
            log.exception("%s: the delivery callback %r for topic %s raised an exception", self._client_id, callback, delivery.topic)
