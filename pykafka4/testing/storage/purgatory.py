"""Keeps requests that wait for a change of a partition. Invariant: `answer` is called once, when a request is ready or has timed out."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import attrs

from pykafka4.testing.timeline import NEVER, Moment, Timeline

__all__ = ["Delayed", "Purgatory"]

K = TypeVar("K", bound=Hashable)


@attrs.define(eq=False)
class Delayed(Generic[K]):
    """A request that waits until one of `keys` changes and `ready(key)` holds, or until it times out.

    `frozen_until()` delays the timeout of a request whose broker is frozen.
    """

    keys: list[K]
    ready: Callable[[K], bool]
    answer: Callable[[], None]
    frozen_until: Callable[[], float] = lambda: 0.0
    timer: Moment = NEVER


class Purgatory(Generic[K]):
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._delayed: dict[K, list[Delayed[K]]] = {}

    def add(self, delayed: Delayed[K], seconds: float) -> None:
        delayed.timer = self._timeline.after(seconds, lambda: self._expire(delayed))
        for key in dict.fromkeys(delayed.keys):
            self._delayed.setdefault(key, []).append(delayed)

    def wake(self, key: K) -> None:
        for delayed in list(self._delayed.get(key, ())):
            # Check that the request still waits: a client may react to an earlier `answer` with a request that has ended this one.
            if delayed.timer.pending and delayed.ready(key):
                self._end(delayed)

    def wake_all(self) -> None:
        for key in list(self._delayed):
            self.wake(key)

    def _expire(self, delayed: Delayed[K]) -> None:
        until = delayed.frozen_until()
        if until > self._timeline.now:
            delayed.timer = self._timeline.at(until, lambda: self._expire(delayed))
        else:
            self._end(delayed)

    def _end(self, delayed: Delayed[K]) -> None:
        delayed.timer.cancel()
        for key in dict.fromkeys(delayed.keys):
            self._delayed[key].remove(delayed)
            if not self._delayed[key]:
                del self._delayed[key]
        delayed.answer()
