"""Checks the arguments of `send`, in plain Python. Invariant: an argument of a wrong type is rejected before the
record is accepted.

The compiled counterparts are the first part of `_hot.pyx`, and, for `Item`, parts of `_write.pxi` and `_park.pxi`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka4.records import Headers, HeadersLike
from pykafka4.wire.records.common import holds_pointers
from pykafka4.wire.records.encoder import encode_content, encode_record
from pykafka4.wire.records.layout import HEADER_SIZE

__all__ = ["UNDECIDED", "Item", "bytes_of", "exact_name", "header_pairs", "integer", "now_ms"]

UNDECIDED: Final = -1  # the partition of a record that has none yet


def exact_name(topic: object) -> str:
    """`topic` as a plain str, even if a subclass of str overrides `__str__` or `__eq__`. Raises TypeError."""
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, not {type(topic).__name__}")
    return str.__str__(topic)


def bytes_of(topic: str, what: str, value: object) -> bytes | None:
    """Raises TypeError, naming topic and argument, for anything but bytes, str, None and C-contiguous buffers without pointers."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        return str.encode(value)
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        view = None
    if view is None or not view.c_contiguous or holds_pointers(view.format):
        kind = type(value).__name__
        wanted = "bytes, str, a C-contiguous buffer without pointers, or None"
        raise TypeError(f"{topic}: {what} must be {wanted}, not {kind}; serialize it first")
    return bytes(view)


def header_pairs(topic: str, headers: HeadersLike | None) -> Headers:
    """Raises TypeError, naming the invalid part."""
    if headers is None:
        return ()
    pairs: Any = headers.items() if hasattr(headers, "items") else headers
    if isinstance(pairs, (str, bytes)) or not hasattr(pairs, "__iter__"):
        raise TypeError(f"{topic}: headers must be (name, value) pairs or a mapping, not {type(headers).__name__}")
    return tuple(_pair(topic, pair) for pair in pairs)


def _pair(topic: str, pair: Any) -> tuple[str, bytes | None]:
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError(f"{topic}: a header must be a (name, value) pair, not {pair!r}")
    name, value = pair
    if not isinstance(name, str):
        raise TypeError(f"{topic}: the name of a header must be str, not {name!r}")
    return exact_name(name), bytes_of(topic, f"the value of header {name!r}", value)


def integer(topic: str, what: str, value: object, most: int) -> int:
    """Raises TypeError or ValueError, naming topic and argument, unless `value` is an int from 0 to `most`."""
    if not isinstance(value, int):
        raise TypeError(f"{topic}: {what} must be an int or None, not {type(value).__name__}")
    if not 0 <= value <= most:
        raise ValueError(f"{topic}: {what}={value} must be from 0 to {most}")
    return int(value)


def now_ms() -> int:
    return int(datetime.datetime.now(datetime.UTC).timestamp() * 1000)


@attrs.define(eq=False)
class Item:
    """A record on its way into a batch."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    partition: int
    forced: bool = False  # it was parked, so it needs no room
    asked: bool = False  # it has waited for room, so it goes ahead of records that still wait
    free: bool = False  # any partition is allowed
    turning: bool = False  # its partition is the next one in turn; if that has no room, another one is chosen
    overflows: bool = False  # there is no room for it, and on_full=drop
    deadline: float = float("inf")  # end of its wait for room or for partitions; infinity until that is known
    content: bytes = b""  # key, value and headers, encoded
    alone: int = 0  # bytes of a batch with only this record
    # Set while the record is parked:
    delivery: Any = None
    callback: Callable[[Any], object] | None = None
    created: float = 0.0
    size: int = 0  # bytes reserved
    extras: list[tuple[Any, Callable[[Any], object]]] = attrs.Factory(list)  # (delivery, callback) from `add_done_callback`

    def __attrs_post_init__(self) -> None:
        self.content = encode_content(self.key, self.value, self.headers)
        self.alone = HEADER_SIZE + len(encode_record(0, 0, self.content))

    @property
    def decided(self) -> int:
        """The partition in which the record needs room; UNDECIDED if any partition will do."""
        return UNDECIDED if self.free or self.turning else self.partition
