"""Overflow. Rule: the callback of a dropped record runs at most once, on the callback executor; a bounded number of them wait for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.gil.flag import step_aside
from pykafka4.logs import get_log
from pykafka4.wire.records.hot import Delivery

__all__ = ["DroppedCalls", "Mark"]

log = get_log("pykafka4.producer")

MOST_WAITING: Final = 10_000  # callbacks of dropped records


@attrs.define(eq=False)
class Call:
    """A callback that is taken from the waiting ones and called."""

    over: bool = False
    awaited: bool = False  # a mark waits for it


class Mark:
    """Stands for the callbacks of dropped records that waited or ran when it was made, among the batches that a flush waits for."""

    count, done = 0, True

    def __init__(self) -> None:
        self._ahead: list[Call] | None = None  # those that ran on other threads when this mark was reached

    @property
    def settled(self) -> bool:
        """Whether all of them have returned."""
        return self._ahead is not None and all(call.over for call in self._ahead)

    def reached(self, ahead: list[Call]) -> None:
        """Every callback before this mark was taken; `ahead` may not have returned yet."""
        for call in ahead:
            call.awaited = True
        self._ahead = ahead

    def lost(self) -> list[Any]:
        """Nothing: dropped records are not kept."""
        return []


class DroppedCalls:
    """Calls `on_delivery` of dropped records, in order: many per job of the executor, as an overload drops many records.

    An executor of several threads may run several jobs at a time. They begin the callbacks in order.
    """

    __slots__ = ("_client_id", "_overrun", "_progress", "_running", "_scheduled", "_submit", "_waiting")

    def __init__(self, submit: Callable[[Callable[[], object]], object], progress: Callable[[], object], client_id: str) -> None:
        """`progress` is called after callbacks have run."""
        self._submit, self._progress, self._client_id = submit, progress, client_id
        self._waiting: deque[tuple[Callable[[Delivery], object], Delivery] | Mark] = deque()
        self._scheduled = False
        self._overrun = False  # callbacks were left out since none waited
        self._running: dict[Call, None] = {}  # those that have not returned

    def __call__(self, callback: Callable[[Delivery], object], delivery: Delivery) -> None:
        """Call `callback(delivery)` soon. While too many wait, it is left out: the Delivery has its outcome all the same."""
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

    def mark(self) -> list[Mark]:
        """A mark behind the callbacks that wait or run now; nothing if there is none."""
        if not self._waiting and not self._running:
            return []
        mark = Mark()
        self._append(mark)
        return [mark]

    def _append(self, entry: tuple[Callable[[Delivery], object], Delivery] | Mark) -> None:
        self._waiting.append(entry)
        if not self._scheduled:  # read after the append: `_run` clears it before it looks
            try:
                self._scheduled = True
                self._submit(self._run)
            except BaseException:
                self._scheduled = False  # Ctrl-C, perhaps before it was submitted: the next one does it again, and twice does no harm
                raise

    def _run(self) -> None:
        self._scheduled = False
        while self._waiting:
            call = Call()
            self._running[call] = None  # before it is taken: a thread that takes the mark behind it has to find it here
            try:
                self._take(call)
            finally:
                call.over = True
                self._running.pop(call)
            if call.awaited:
                self._progress()
        self._overrun = False
        self._progress()

    def _take(self, call: Call) -> None:
        """Call the next callback, or note that the next mark is reached."""
        try:
            entry = self._waiting.popleft()
        except IndexError:  # another thread was faster
            return
        if isinstance(entry, Mark):
            call.awaited = True  # by itself: waiters look again
            entry.reached([other for other in list(self._running) if other is not call])
            return
        callback, delivery = entry
        try:
            step_aside()
            callback(delivery)
        except BaseException:  # one failing callback must not keep the others from being called
            log.exception("%s: the delivery callback %r for topic %s raised an exception", self._client_id, callback, delivery.topic)
