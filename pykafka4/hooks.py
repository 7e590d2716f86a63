"""Hooks of producers and consumers. Rule: a hook learns of records, and may change one before it is sent; it loses and delays no other.

An object in the option `hooks` has any of the methods of `ProducerHooks` or `ConsumerHooks`; deriving from these is not required. An
exception in a hook is logged once per hook and method, and otherwise ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, iscoroutinefunction
from typing import Any, Final

import attrs

from pykafka4.errors import ConfigError, DeliveryFailed, shown
from pykafka4.records import HeadersLike, ProducerRecord

__all__ = [
    "BatchOutcome",
    "ConsumerHooks",
    "OutgoingRecord",
    "Polled",
    "ProducerHooks",
    "RequestSent",
    "SealedBatch",
    "parse_consumer_hooks",
    "parse_hooks",
]


@attrs.frozen
class OutgoingRecord:
    """The arguments of a `send`, before serialization. `attrs.evolve(record, value=…)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


@attrs.frozen
class SealedBatch:
    """A batch that takes no more records. `size` is in bytes, header included; compressed if it was compressed already.

    `partition` is None if it gets one when it is sent (`partitioner="late"`).
    """

    topic: str
    partition: int | None
    records: int
    size: int


@attrs.frozen
class RequestSent:
    """A Produce request on its way to the broker `node`. A batch that is resent is in several requests."""

    node: int
    batches: int
    records: int
    size: int


@attrs.frozen
class BatchOutcome:
    """What became of the records of a batch: of all of them the same.

    `partition` is None for records that failed before they had one. `base_offset` is the offset of the first record (-1: it failed, or the
    broker did not report it), those of the others follow. `error` is None if the batch was acknowledged; its `written` says whether the
    records may be in the log. `first_ms` and `last_ms` are the lowest and the highest timestamp of the records, `maybe_repeated` is as in
    `RecordMetadata`.
    """

    topic: str
    partition: int | None
    records: int
    base_offset: int
    error: DeliveryFailed | None
    first_ms: int = -1
    last_ms: int = -1
    maybe_repeated: bool = False
    _batch: Any = attrs.field(default=None, repr=False, eq=False)

    @property
    def offsets(self) -> range:
        """The offsets of the records, in the order of their `send`; empty if they failed or are unknown."""
        return range(self.base_offset, self.base_offset + self.records) if self.base_offset >= 0 else range(0)

    def lost(self) -> list[ProducerRecord]:
        """The records, if they failed; decoded when this is called."""
        return self._batch.lost() if self._batch is not None else []


@attrs.frozen
class Polled:
    """The records of a poll that is about to return them.

    `seconds` is how long the poll has taken, `group` is None for a consumer without one.
    """

    records: Sequence[Any]  # Record or ShareRecord; the list belongs to the application
    seconds: float
    client_id: str
    group: str | None


class ProducerHooks:
    """All methods that a hook of producers may have; these do nothing.

    `on_send`, `on_enqueue` and `on_refuse` run on the thread that sends, `on_close` on the one that closes. The others run on the callback
    executor, in order.
    """

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """`send` was called. Returns the record to send instead, None for this one. With several hooks, each gets what the one before
        returned.
        """

    def on_enqueue(self, delivery: Any) -> None:
        """A record was accepted; `delivery` is what `send` returns."""

    def on_refuse(self, error: BaseException) -> None:
        """`send` raises `error`, after `on_send`: each `on_send` is followed by `on_enqueue` or by this, in the same thread or task."""

    def on_batch_sealed(self, batch: SealedBatch) -> None:
        """A batch takes no more records. While 10,000 events wait for slow hooks, later ones are left out, and their number is logged."""

    def on_request(self, request: RequestSent) -> None:
        """A request was sent. Events may be left out, as in `on_batch_sealed`."""

    def on_ack(self, outcome: BatchOutcome) -> None:
        """A batch has its outcome: exactly once for each, after the callbacks of its records; perhaps before them if `partition` is None.

        Its memory is not free before this returns, so that slow hooks slow down `send` instead of using more memory; `flush` and `close`
        wait for it.
        """

    def on_close(self) -> None:
        """The producer was closed; every record has its outcome."""


class ConsumerHooks:
    """The method that a hook of consumers and share consumers may have; this one does nothing."""

    def on_poll(self, polled: Polled) -> None:
        """A poll, or the next list of a loop, has records; not called without any. Runs on the thread that polls, before it gets them."""


ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR
METHODS, POLL_METHODS = (tuple(name for name in vars(kind) if name.startswith("on_")) for kind in (ProducerHooks, ConsumerHooks))
IDLE: Final = {getattr(kind, name) for kind, names in ((ProducerHooks, METHODS), (ConsumerHooks, POLL_METHODS)) for name in names}


def methods(hook: object, name: str) -> list[Any]:
    """The method `name` of `hook`, unless it has none, or only the one that does nothing."""
    method = getattr(hook, name, None)
    return [] if method is None or getattr(method, "__func__", None) in IDLE else [method]


def _parse(names: tuple[str, ...], given: Any) -> tuple[Any, ...]:
    """The option `hooks` as a tuple. Raises ConfigError for an object without any method of a hook, TypeError for a coroutine function."""
    if given is None:
        return ()
    several = isinstance(given, Iterable) and not isinstance(given, (str, bytes)) and not _is_hook(given, names)  # a hook may be iterable
    hooks = tuple(given) if several else (given,)
    for hook in hooks:
        if not _is_hook(hook, names):
            raise ConfigError(f"hooks: {shown(hook)} is not an object with one of the methods {', '.join(names)}")
        for name in names:
            for method in methods(hook, name):
                _check(hook, name, method)
    return hooks


parse_hooks: Final = partial(_parse, METHODS)
parse_consumer_hooks: Final = partial(_parse, POLL_METHODS)


def _is_hook(hook: object, names: tuple[str, ...]) -> bool:
    return not isinstance(hook, type) and any(callable(getattr(hook, name, None)) for name in names)


def _check(hook: object, name: str, method: object) -> None:
    """Raises ConfigError or TypeError if calling `method` would not run it."""
    if not callable(method):
        raise ConfigError(f"hooks: {name} of {shown(hook)} is no method but of type {type(method).__name__}")
    flags = getattr(getattr(method, "__code__", None), "co_flags", 0)  # of a bound method, too, and of AsyncMock
    if iscoroutinefunction(method) or iscoroutinefunction(type(method).__call__) or (isinstance(flags, int) and flags & ASYNC):
        raise TypeError(f"hooks: {name} of {shown(hook)} is a coroutine function: hooks are called, nobody awaits them")
