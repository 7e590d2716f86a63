"""Calls serializers and hooks for the records that a producer sends.

Invariant: the exception of a serializer ends only the call that ran the serializer, with a note that names the topic and the option. Only a
producer with serializers, or with a hook `on_send` or `on_enqueue`, has a `Serializing`: other producers use the accumulator's `send`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from operator import call
from typing import Any, Final, TypeAlias

from pykafka4.options.serializers import serializer_finder
from pykafka4.producer.hooks import HookCalls
from pykafka4.records import HeadersLike, ProducerRecord
from pykafka4.serializers import Serializer
from pykafka4.wire.records.common import add_note_once, many_ended, many_values
from pykafka4.wire.records.hot import Accumulator, Delivery

__all__ = ["More", "Serializing", "each_pair", "each_record", "lasting", "send_records"]

More: TypeAlias = tuple[HeadersLike | None, int | None, int | None]  # headers, partition, timestamp_ms

MISSING: Final = object()
MOST_TOPICS: Final = 10_000  # topics whose serializers are kept


class Serializing:
    __slots__ = ("_acc", "_hooks", "_keys", "_topics", "_values")

    def __init__(self, acc: Accumulator, keys: Any, values: Any, hooks: HookCalls | None) -> None:
        self._acc, self._hooks = acc, hooks
        self._keys, self._values = serializer_finder(keys), serializer_finder(values)
        self._topics: dict[str, tuple[Serializer | None, Serializer | None]] = {}

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        out: list[Delivery] = []
        self.send_into(out, topic, value, key, (headers, partition, timestamp_ms), on_delivery)
        return out[0]

    def prepare(self, topic: str, value: Any, key: Any, more: More) -> tuple[str, Any, Any, More]:
        """The record after hooks and serializers. Called once for each record, even if the accumulator gets the record several times.

        Raises the producer's refusal, if any, before calling hooks and serializers.
        """
        if (refusal := self._acc.refusal) is not None:
            raise refusal.again()
        if self._hooks is not None and self._hooks.sends:
            topic, value, key, more = self._hooks.on_send(topic, value, key, more)
        try:
            of_key, of_value = self._of(topic)
            if value is not None and of_value is not None:
                value = serialized(topic, "value_serializer", of_value, value)
            if key is not None and of_key is not None:
                key = serialized(topic, "key_serializer", of_key, key)
        except BaseException as error:
            self.refused(error)
            raise
        return topic, value, key, more

    def refused(self, error: BaseException) -> None:
        if self._hooks is not None and self._hooks.sends:
            self._hooks.on_refuse(error)

    def send_into(self, out: list[Delivery], topic: str, value: Any, key: Any, more: More, on_delivery: Any) -> None:
        """Append the record's Delivery to `out` as soon as the record is accepted."""
        prepared = self.prepare(topic, value, key, more)
        count = len(out)
        try:
            accept(self._acc, out, *prepared, on_delivery)
        except BaseException as error:
            if len(out) == count:  # otherwise the record was accepted, and Ctrl-C came after that
                self.refused(error)
            raise
        if self._hooks is not None and self._hooks.enqueues:
            self._hooks.on_enqueue(out[-1])

    def send_many(self, topic: str, values: Iterable[Any], *, keys: Iterable[Any] | None = None, **more: Any) -> list[Delivery]:
        """See `Producer.send_many`. Without hooks, the accumulator pulls the values and keys through the serializers, one by one."""
        if self._hooks is not None and self._hooks.on_caller:
            return self._send_each(topic, values, keys, more)
        of_key, of_value = self._of(topic)
        items, others = many_values(topic, values, keys)
        if of_value is not None:
            items = _column(topic, "value_serializer", of_value, items)
        if others is not None and of_key is not None:
            others = _column(topic, "key_serializer", of_key, others)
        return self._acc.send_many(topic, items, keys=others, **more)

    def _send_each(self, topic: str, values: Iterable[Any], keys: Iterable[Any] | None, more: dict[str, Any]) -> list[Delivery]:
        """Send the records one by one, because the hooks run for each record."""
        out: list[Delivery] = []
        rest, on_delivery = _others(**more)
        pairs = each_pair(topic, values, keys)
        try:
            for value, key in pairs:
                self.send_into(out, topic, value, key, rest, on_delivery)
        except BaseException as error:
            many_ended(error, topic, out)
            raise
        return out

    def _of(self, topic: Any) -> tuple[Serializer | None, Serializer | None]:
        try:
            return self._topics[topic]
        except (KeyError, TypeError):
            if not isinstance(topic, str):
                return None, None  # the accumulator refuses it
        if len(self._topics) >= MOST_TOPICS:
            self._topics.clear()
        found = self._topics[topic] = self._keys(topic), self._values(topic)
        return found


def accept(acc: Accumulator, out: list[Delivery], topic: str, value: Any, key: Any, more: More, on_delivery: Any = None) -> None:
    headers, partition, timestamp_ms = more
    before = len(out)
    send = partial(
        acc.send, topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery
    )
    out.extend(map(call, (send,)))  # one call into C: Ctrl-C cannot come between the return of `send` and the append, and lose the Delivery
    if len(out) == before:  # `extend` treats StopIteration as the end of the map
        raise RuntimeError(f"{topic}: an argument of send raised StopIteration")


def lasting(headers: Any) -> Any:
    """`headers` in a form that can be read more than once: an iterator becomes a tuple."""
    return headers if headers is None or not isinstance(headers, Iterator) else tuple(headers)


def _others(
    headers: HeadersLike | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    on_delivery: Callable[[Delivery], None] | None = None,
) -> tuple[More, Callable[[Delivery], None] | None]:
    return (lasting(headers), partition, timestamp_ms), on_delivery


def each_pair(topic: str, values: Iterable[Any], keys: Iterable[Any] | None) -> Iterator[tuple[Any, Any]]:
    """Check the arguments now. The iterator raises ValueError if the numbers of keys and values differ."""
    items, others = many_values(topic, values, keys)

    def pairs() -> Iterator[tuple[Any, Any]]:
        count = 0
        for value in items:
            key = None if others is None else next(others, MISSING)
            if key is MISSING:
                raise ValueError(f"{topic}: keys has fewer items than values; keys ended after {count}")
            yield value, key
            count += 1
        if others is not None and next(others, MISSING) is not MISSING:
            raise ValueError(f"{topic}: keys has more items than values, which ended after {count}")

    return pairs()


def _column(topic: str, option: str, serializer: Serializer, items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        yield None if item is None else serialized(topic, option, serializer, item)


def serialized(topic: str, option: str, serializer: Serializer, value: Any) -> bytes | str | None:
    try:
        data = serializer(topic, value)
    except BaseException as error:
        add_note_once(
            error, "pykafka4: raised by ", f"{option} for topic {topic!r}, which was given the topic and a {type(value).__name__}"
        )
        raise
    if data is not None and not isinstance(data, (bytes, str, bytearray, memoryview)):
        raise TypeError(f"{topic}: {option} {serializer!r} returned {type(data).__name__}; it must return bytes, str or None")
    return data


def each_record(records: Iterable[ProducerRecord]) -> Iterator[ProducerRecord]:
    """Raises TypeError now if `records` is not iterable, and later at the first item that is not a ProducerRecord."""
    if not hasattr(records, "__iter__"):
        raise TypeError(f"send_many takes a topic and values, or an iterable of ProducerRecord, not {type(records).__name__}")

    def checked() -> Iterator[ProducerRecord]:
        for number, record in enumerate(records):
            if not isinstance(record, ProducerRecord):
                raise TypeError(f"send_many: record {number} must be a ProducerRecord, not {type(record).__name__}")
            yield record

    return checked()


def send_records(acc: Accumulator, hooks: HookCalls | None, records: Iterable[ProducerRecord]) -> list[Delivery]:
    """Send `records` without serializers and `on_send`, because undelivered records have already passed both. See `Producer.send_many`."""
    out: list[Delivery] = []
    items = each_record(records)
    try:
        for record in items:
            accept(acc, out, record.topic, record.value, record.key, (record.headers, record.partition, record.timestamp_ms))
            if hooks is not None:
                hooks.on_enqueue(out[-1])
    except BaseException as error:
        many_ended(error, None, out)
        raise
    return out
