"""Loop. Rule: one thread runs every machine; whatever goes wrong on it is heard by everyone who waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pykafka4.core.engine import Engine
from pykafka4.errors import KafkaError
from pykafka4.net.handoff import Promise

__all__ = ["Loop"]
T = TypeVar("T")


class Loop:
    engine: Engine
    crashed: KafkaError | None
    forked: bool

    def now(self) -> float: ...  # the loop's clock (monotonic), any thread
    def call(self, fn: Callable[[float], object]) -> None: ...  # run fn(now) on the loop thread, soon; any thread
    def ask(self, fn: Callable[[float], T | Promise[T]], timeout: float | None, what: str = "the operation") -> T: ...  # and wait
    def wake(self) -> None: ...  # news for a machine: turn soon; any thread, costs two attribute accesses while the loop is awake
    def promise(self) -> Promise[T]: ...  # one that fails when the loop crashes or closes
    def check(self) -> None: ...  # raises ForkedClientError, ClosedError or the crash
    def on_loop(self) -> bool: ...
    def close(self, timeout: float | None = None) -> None: ...
