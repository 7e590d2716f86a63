"""Many records in one call, in plain Python. Rule: each is accepted or refused as by `send`; an error says which were accepted before it.

The counterpart of `_many.pxi`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from pykafka4.gil.flag import give_way
from pykafka4.records import HeadersLike
from pykafka4.wire.buffers import Buffer
from pykafka4.wire.records._plain_arguments import Item, bytes_of, exact_name, header_pairs, integer
from pykafka4.wire.records._plain_delivery import Delivery
from pykafka4.wire.records.common import checked_callback, many_ended, many_values, shares_time

__all__ = ["new_handle", "send_many"]

MAX_LONG: Final = 2**63 - 1
SAME_TIME: Final = 16  # records of a list that share a timestamp
INFINITY: Final = float("inf")
MISSING: Final = object()


def new_handle(self: Any, batch: Any) -> Delivery:
    """A handle of the first record of `batch`. A method of `reference.Accumulator`."""
    delivery = Delivery(Item(None, None, (), batch._base_timestamp, batch.partition))
    delivery._place = batch, 0
    return delivery


def send_many(
    self: Any,
    topic: str,
    values: Iterable[Buffer | str | None],
    *,
    keys: Iterable[Buffer | str | None] | None = None,
    headers: HeadersLike | None = None,
    partition: int | None = None,
    timestamp_ms: int | None = None,
    on_delivery: Callable[[Delivery], object] | None = None,
) -> list[Delivery]:
    """Accept a record for each of `values`; returns their handles. A method of `reference.Accumulator`."""
    self._check_open()
    name = exact_name(topic)
    t = self._topics.get(name) or self._meet(name)
    pairs = header_pairs(name, headers)
    asked = self._partition_of(name, partition)
    now = 0 if timestamp_ms is None else integer(name, "timestamp_ms", timestamp_ms, MAX_LONG)
    if on_delivery is not None:
        checked_callback(name, "on_delivery", on_delivery)
    shared = shares_time(values, keys)
    items, others = many_values(name, values, keys)
    out: list[Delivery] = []
    waited = False
    try:
        for n, value in enumerate(items):
            give_way()
            if timestamp_ms is None and (not shared or n % SAME_TIME == 0 or waited):
                now = self._wall()
            data = bytes_of(name, "value", value)
            item = Item(None if others is None else _key(name, others, n), data, pairs, partition=asked, timestamp=now)
            t = self._topics.get(name) or self._meet(name)
            out.append(Delivery(item))  # first: an interrupt may come right after the record was accepted
            self._accept(t, item, on_delivery, out[-1])
            waited = item.deadline < INFINITY
        if others is not None and next(others, MISSING) is not MISSING:
            raise ValueError(f"{name}: keys has more items than values, which ended after {len(out)}")
    except BaseException as error:
        if out and not hasattr(out[-1], "_place"):
            out.pop()
        many_ended(error, name, out)
        raise
    return out


def _key(topic: str, keys: Iterator[Any], n: int) -> bytes | None:
    key = next(keys, MISSING)
    if key is MISSING:
        raise ValueError(f"{topic}: keys ended after {n} items, before the values did")
    return bytes_of(topic, "key", key)
