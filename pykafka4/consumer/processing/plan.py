"""Checks and keeps the arguments of `Consumer.process` and `aio.Consumer.process`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from concurrent.futures import Executor
from functools import partial
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any, Final, Protocol

import attrs

from pykafka4.consumer.dead_letters import DeadLetters, LetterSender
from pykafka4.consumer.processing.limits import Limits, at_least_one, seconds
from pykafka4.errors import ConfigError, shown, with_article
from pykafka4.misuse import check_count
from pykafka4.options.config import ConsumerConfig
from pykafka4.wire.records.hot import Record

__all__ = ["Handler", "Order", "Plan", "Retries", "Stop", "check_commits", "check_sends", "plan"]

UNORDERED: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)
LONGEST_BACKOFF_S: Final = 30.0  # seconds between two attempts; a longer `retry_backoff` of the application stays as it is
MOST_WORKERS: Final = 1_000
ELSEWHERE: Final = ("ProcessPoolExecutor", "InterpreterPoolExecutor")  # executors that pickle their calls; a run cannot be pickled

Handler = Callable[[Record[Any, Any]], object]
Order = Callable[[Record[Any, Any]], Hashable]  # records with the same result are handled in order


class Stop(Protocol):
    """The flag that ends a run: a threading.Event, for example."""

    def is_set(self) -> bool:
        """Whether to stop."""


@attrs.frozen
class Retries:
    """The maximum number of retries, and the seconds before the first retry, which double with each retry (see LONGEST_BACKOFF_S)."""

    most: int
    backoff: float

    def wait(self, attempts: int) -> float:
        return float(min(self.backoff * 2 ** min(attempts - 1, 60), max(self.backoff, LONGEST_BACKOFF_S)))


@attrs.frozen
class Plan:
    handle: Handler
    order: Order
    retries: Retries
    dead_letters: DeadLetters | None
    limits: Limits
    workers: int = 8
    stop: Stop | None = None
    executor: Executor | None = None


def plan(
    config: ConsumerConfig,
    handle: Handler,
    by: object,
    workers: object,
    retries: object,
    retry_backoff: object,
    dead_letter: object,
    producer: LetterSender | None,
    max_in_hand: object,
    drain_timeout: object,
    stop: Stop | None,
    executor: Executor | None = None,
) -> Plan:
    if dead_letter is None and producer is not None:
        raise ConfigError("producer is for dead letters: pass dead_letter='a topic' as well, or leave out producer; handlers use their own")
    _check_handler(handle)
    _check_executor(executor)
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise TypeError(f"stop must have is_set(), as a threading.Event has, not {shown(stop)}")
    return Plan(
        handle,
        _order(by),
        Retries(check_count(retries, "retries", 2**31 - 1), seconds(retry_backoff, "retry_backoff")),
        None if dead_letter is None else DeadLetters(dead_letter, producer, config.group_id),
        Limits.of(config, max_in_hand, drain_timeout),
        at_least_one(workers, "workers", MOST_WORKERS),
        stop,
        executor,
    )


def check_commits(config: ConsumerConfig) -> None:
    """Refuse a consumer with auto-commit, which would commit records that handlers have not finished."""
    if config.group_id is not None and config.enable_auto_commit:
        raise ConfigError("process commits finished records itself: create the consumer with enable_auto_commit=False")


def check_sends(producer: object) -> None:
    """Refuse a producer of dead letters whose `send` must be awaited."""
    if _is(inspect.iscoroutinefunction, getattr(producer, "send", None)):
        raise TypeError(
            f"producer must be a pykafka4.Producer, not {type(producer).__module__}.{type(producer).__name__}, whose send must be awaited: "
            "such a producer is for pykafka4.aio.Consumer.process"
        )


def _check_handler(handle: object) -> None:
    if _is(inspect.isgeneratorfunction, handle) or _is(inspect.isasyncgenfunction, handle):
        raise TypeError(
            f"process: the handler {shown(handle)} is a generator function, whose body would never run: use a function without yield"
        )


def _check_executor(executor: object) -> None:
    if executor is None:
        return
    if not isinstance(executor, Executor):
        raise TypeError(f"executor must be a concurrent.futures.Executor, not {shown(executor)}")
    if any(kind.__name__ in ELSEWHERE for kind in type(executor).__mro__):
        raise TypeError(
            f"executor must use threads of this interpreter, as a ThreadPoolExecutor does, not {type(executor).__name__}: "
            "use such an executor inside the handler"
        )


def _is(kind: Callable[[Any], bool], function: object) -> bool:
    """Whether `function` is of this kind, or an object whose `__call__` is, or a `functools.partial` of either."""
    while isinstance(function, partial):
        function = function.func
    calls = (base.__dict__["__call__"] for base in type(function).__mro__ if "__call__" in base.__dict__)
    return kind(function) or kind(next(calls, None))


def _order(by: object) -> Order:
    if by == "partition":
        return _by_partition
    if by == "key":
        return _by_key
    if callable(by):
        if any(_is(kind, by) for kind in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
            raise TypeError(f"by must return a key that several records can share; {shown(by)} returns a coroutine or generator")
        return partial(_checked_key, by)
    raise ConfigError(f"by must be 'key', 'partition' or a callable that takes a record, not {shown(by)}")


def _by_partition(record: Record) -> Hashable:
    return record.topic, record.partition


def _by_key(record: Record) -> Hashable:
    """Give each record without a key its own value, because such records have no order."""
    key = record.raw.key  # bytes: a deserialized key may have no hash
    return record.topic, record.partition, key, None if key is not None else record.offset


def _checked_key(by: Order, record: Record) -> Hashable:
    key = by(record)
    if isinstance(key, UNORDERED):
        if isinstance(key, CoroutineType):
            key.close()
        kind = with_article(type(key).__name__)
        raise TypeError(f"by must return a key that several records can share, not {kind}")
    try:
        hash(key)
    except TypeError as error:
        raise TypeError(f"by must return a possible key of a dict, such as a str or tuple, not {shown(key)}: {error}") from None
    return key
