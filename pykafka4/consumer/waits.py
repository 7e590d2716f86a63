"""Defines how steps of a consumer wait, on threads and in tasks, and implements the waits of threads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from pykafka4.client.steps import Steps, at_once
from pykafka4.core.subscription import Assigned, Ended
from pykafka4.errors import KafkaError
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import TopicPartition

__all__ = ["Listen", "Steps", "ThreadWaits", "Waits", "at_once", "settled"]

T = TypeVar("T")
Listen: TypeAlias = Callable[[list[TopicPartition]], Any]


class Waits(Protocol):
    """The waits of a consumer's steps."""

    @property
    def listening(self) -> bool:
        """Whether a method of the listener still runs after the call that started it was cancelled."""

    def result(self, promise: Promise[T], timeout: float) -> Steps[T]:
        """Raises the error of `promise`, or KafkaTimeoutError."""

    def until(self, predicate: Callable[[], bool], timeout: float | None) -> Steps[bool]:
        """Wait until `predicate()` is true, up to `timeout` seconds (None: no limit). Returns the last value of `predicate()`."""

    def listen(self, method: Listen, tps: list[TopicPartition], event: Assigned | Ended) -> Steps[None]:
        """Mark `event` as reported, call `method`, and wait for the end of the method."""

    def finish_listener(self) -> Steps[None]:
        """Wait for the end of a method of the listener that still runs. Raises the method's exceptions."""

    def call_back(self, fn: Callable[[], None]) -> None:
        """Run a callback of the application on the callback executor, or on the event loop."""

    def awaited(self, result: Any) -> Steps[Any]:
        """The outcome of a call that returned `result`: threads return `result` itself, tasks await it if it is awaitable."""

    def drive(self, steps: Steps[Any]) -> Any:
        """Run steps. Returns their result, or in tasks an awaitable of the result."""


class ThreadWaits:
    """Implements `Waits` by blocking the calling thread."""

    def __init__(self, signal: Signal, call_back: Callable[[Callable[[], None]], None]) -> None:
        """`call_back` implements `Waits.call_back`."""
        self._signal, self._call_back = signal, call_back

    @property
    def listening(self) -> bool:
        return False

    def result(self, promise: Promise[T], timeout: float) -> Steps[T]:
        yield from ()
        return promise.result(timeout)

    def until(self, predicate: Callable[[], bool], timeout: float | None) -> Steps[bool]:
        yield from ()
        return self._signal.wait(predicate, timeout)

    def listen(self, method: Listen, tps: list[TopicPartition], event: Assigned | Ended) -> Steps[None]:
        yield from ()
        event.reported = True  # directly before the call, so that no signal handler (Ctrl-C) can skip `method`
        method(tps)

    def finish_listener(self) -> Steps[None]:
        yield from ()

    def call_back(self, fn: Callable[[], None]) -> None:
        self._call_back(fn)

    def awaited(self, result: Any) -> Steps[Any]:
        yield from ()
        return result

    def drive(self, steps: Steps[Any]) -> Any:
        return at_once(steps)


def settled(waits: Waits, promise: Promise[Any], timeout: float) -> Steps[None]:
    """Wait up to `timeout` seconds until `promise` has a result or an error."""
    if not promise.done():
        with contextlib.suppress(KafkaError):
            yield from waits.result(promise, timeout)
