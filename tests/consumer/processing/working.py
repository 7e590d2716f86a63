"""Working. What the tests of handlers' work share. Rule: nothing runs before a test says so."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from pykafka4.consumer.dead_letters import DeadLetters
from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.plan import Plan, Retries, _order
from pykafka4.consumer.processing.work import HandlerWork
from pykafka4.wire.records.hot import Record


class ByHand(Executor):
    """Runs one thing at a time, when it is told to."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._futures: deque[Future[Any]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append((fn, args))
        self._futures.append(Future())
        return self._futures[-1]

    def run(self, at: int = 0) -> None:
        """What was submitted, the one at this place."""
        fn, args = self.waiting[at]
        del self.waiting[at], self._futures[at]
        fn(*args)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while cancel_futures and self._futures:
            self._futures.popleft().cancel()

    def run_all(self) -> None:
        while self.waiting:
            self.run()


Handler = Callable[[Record], object]


def work(handle: Handler, by: Any = "key", retries: int = 0, dead: DeadLetters | None = None) -> tuple[HandlerWork, ByHand]:
    executor = ByHand()
    limits = Limits("test: group g", most_in_hand=10_000, most_polled=500, drain=30.0, max_poll=300.0, commits=True)
    return HandlerWork(Plan(handle, _order(by), Retries(retries, 1.0), dead, limits, executor=executor), lambda: None), executor


def first(todo: HandlerWork) -> dict[int, int]:
    """The first record of each partition that is not finished."""
    return {tp.partition: offset for tp, (offset, _) in todo.unfinished().items()}


def record(offset: int, key: bytes | None = None, partition: int = 0) -> Record:
    return Record("t", partition, offset, key=key, value=b"%d" % offset)
