"""Declares the hooks of producers and consumers, and checks the option `hooks`. Invariant: a hook can change an outgoing record only
before `send` accepts it, and an `Exception` in a hook loses no record.

An object in the option `hooks` has one or more of the methods of `ProducerHooks` or `ConsumerHooks`; it need not derive from these classes.
An `Exception` in a hook is logged once per hook and method, and otherwise ignored; KeyboardInterrupt and SystemExit propagate from hooks
that run on the application's threads.
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
    """The arguments of a `send`, before serialization. `attrs.evolve(record, value=…)` makes a changed record."""

    topic: str
    value: Any = None
    key: Any = None
    headers: HeadersLike | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


@attrs.frozen
class SealedBatch:
    """A batch that accepts no more records. `size` is in bytes, with the header; it is the compressed size if the batch is already
    compressed.

    `partition` is None if the batch gets its partition when it is sent (`partitioner="late"`).
    """

    topic: str
    partition: int | None
    records: int
    size: int


@attrs.frozen
class RequestSent:
    """A Produce request on its way to the broker `node`; `size` is the size of its batches in bytes. A batch that is sent again is part of
    several requests.
    """

    node: int
    batches: int
    records: int
    size: int


@attrs.frozen
class BatchOutcome:
    """The outcome of a batch, which all its records share.

    `partition` is None for records that failed before they had one. `base_offset` is the offset of the first record (-1: the batch failed,
    or the broker did not report the offset); the other records have the offsets after it. `error` is None if the batch was acknowledged;
    `error.written` says whether the records may be in the log. `first_ms` and `last_ms` are the lowest and the highest timestamp of the
    records; `maybe_repeated` is as in `RecordMetadata`.
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
        """The offsets of the records, in the order of their `send`; empty if the records failed or the offsets are unknown."""
        return range(self.base_offset, self.base_offset + self.records) if self.base_offset >= 0 else range(0)

    def lost(self) -> list[ProducerRecord]:
        """Return the records if they failed, else an empty list. Each call decodes them."""
        return self._batch.lost() if self._batch is not None else []


@attrs.frozen
class Polled:
    """The records of a poll that is about to return them.

    `seconds` is the duration of the poll; `group` is None for a consumer without a group.
    """

    records: Sequence[Any]  # Record or ShareRecord; the list belongs to the application
    seconds: float
    client_id: str
    group: str | None


class ProducerHooks:
    """The methods that a hook of producers can have; in this class they do nothing.

    `on_send`, `on_enqueue` and `on_refuse` run on the thread that sends, so a slow method slows `send` down. `on_close` runs on the thread
    that closes the producer, or on the callback executor if records get their outcome only after `close`. The other methods run on the
    callback executor, in order unless it has several threads.
    """

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """Called by `send`. Returns the record to send in place of `record`, or None to send `record`. Each of several hooks gets the
        result of the previous hook.
        """

    def on_enqueue(self, delivery: Any) -> None:
        """Called when `send` has accepted a record; `send` returns this `delivery`."""

    def on_refuse(self, error: BaseException) -> None:
        """Called when `send` raises `error` after `on_send`; not called if no hook has `on_send`.

        Each `on_send` is followed by `on_enqueue` or `on_refuse`, in the same thread or task, unless Ctrl-C or SystemExit ends `send`.
        """

    def on_batch_sealed(self, batch: SealedBatch) -> None:
        """Called when a batch accepts no more records. While 10,000 events wait for slow hooks, later events are left out; the log has
        their number.
        """

    def on_request(self, request: RequestSent) -> None:
        """Called when a request has been handed to its connection. Events may be left out, as in `on_batch_sealed`."""

    def on_ack(self, outcome: BatchOutcome) -> None:
        """Called exactly once for each batch, with its outcome, after the callbacks of its records; perhaps before them if `partition` is
        None.

        The batch's memory is not free before this method returns, so that slow hooks slow `send` down instead of using more memory; `flush`
        and `close` wait until the method returns.
        """

    def on_close(self) -> None:
        """Called after the producer has been closed, when every record has its outcome."""


class ConsumerHooks:
    """The method that a hook of consumers and share consumers can have; in this class it does nothing."""

    def on_poll(self, polled: Polled) -> None:
        """Called on the thread that polls, when a poll or the next list of a `for` loop has records, before the application gets them."""


ASYNC: Final = CO_COROUTINE | CO_ASYNC_GENERATOR
METHODS, POLL_METHODS = (tuple(name for name in vars(kind) if name.startswith("on_")) for kind in (ProducerHooks, ConsumerHooks))
# The methods that the two classes define, all of which do nothing. `methods` leaves them out, so they are never called.
IDLE: Final = {getattr(kind, name) for kind, names in ((ProducerHooks, METHODS), (ConsumerHooks, POLL_METHODS)) for name in names}


def methods(hook: object, name: str) -> list[Any]:
    """Return an empty list if `hook` has no method `name`, or only the inherited one that does nothing."""
    method = getattr(hook, name, None)
    return [] if method is None or getattr(method, "__func__", None) in IDLE else [method]


def _parse(names: tuple[str, ...], given: Any) -> tuple[Any, ...]:
    """Raises ConfigError for a class, for an object without a method of hooks, and for a method that cannot be called; TypeError for a
    coroutine function.
    """
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
    """Raise ConfigError or TypeError if a call of `method` would not run it."""
    if not callable(method):
        raise ConfigError(f"hooks: {name} of {shown(hook)} is not a method, but of type {type(method).__name__}")
    flags = getattr(getattr(method, "__code__", None), "co_flags", 0)  # a bound method and an AsyncMock also have `__code__`
    if iscoroutinefunction(method) or iscoroutinefunction(type(method).__call__) or (isinstance(flags, int) and flags & ASYNC):
        raise TypeError(f"hooks: {name} of {shown(hook)} is a coroutine function: hooks are called, but not awaited")
