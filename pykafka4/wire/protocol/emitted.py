"""Defines the functions that the code emitted by `compiler` calls, in rare cases and for work that all messages share.

Invariant: no length is used before it is checked against the bytes left.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn
from uuid import UUID

from pykafka4.errors import DecodeError, UnsupportedVersion
from pykafka4.wire.protocol.weight import LIST, MAX_DECODED, NUMBER, REMEMBERED

__all__ = ["MAX_ELEMENTS", "MAX_TAGS", "NAMES", "NUMBERS", "PACKERS", "TABLE", "read_uvarint", "uvarint"]

MAX_ELEMENTS: Final = 1_000_000  # maximum length of an array; Kafka 4.4 has the same limit
MAX_TAGS: Final = 10_000
TABLE: Final = 32  # arrays of numbers shorter than this have a prepared struct
_MAX_STRING: Final = 0x7FFF


def uvarint(n: int) -> bytes:
    """`n` (at least 0) as an unsigned varint, as in Kafka and protocol buffers."""
    if n < 0x80:
        return _ONE_BYTE[n]
    if n < 0x4000:
        return bytes((n & 0x7F | 0x80, n >> 7))
    if n < 0x20_0000:  # the sizes of most batches
        return bytes((n & 0x7F | 0x80, n >> 7 & 0x7F | 0x80, n >> 14))
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def _string_prefix(n: int) -> bytes:
    if n > _MAX_STRING + 1:
        raise ValueError(f"a string of {n - 1} bytes; at most {_MAX_STRING} are allowed")
    return uvarint(n)


def _more(buf: Any, pos: int, first: int) -> tuple[int, int]:
    n = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFF_FFFF:
                break
            return n, pos
    raise DecodeError("a varint of more than 32 bits")


def read_uvarint(buf: Any, pos: int) -> tuple[int, int]:
    """(the uvarint at `pos`, the position after it). Raises IndexError at the end of the bytes, DecodeError for more than 32 bits."""
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else _more(buf, pos + 1, first)


def _too_heavy() -> NoReturn:
    raise DecodeError(f"the decoded message would take more than {MAX_DECODED >> 20} MiB of memory, which is the limit")


def _bad_length(n: int, left: int) -> NoReturn:
    if n == -1:
        raise DecodeError("null in a field that is not nullable")
    if 0 <= n <= left:
        _too_heavy()
    raise DecodeError(f"a negative length, {n}" if n < 0 else f"a length of {n}, but the remaining size is {left}")


def _bad_count(n: int, left: int, room: int) -> NoReturn:
    if n > MAX_ELEMENTS:
        raise DecodeError(f"an array of length {n}; the limit is {MAX_ELEMENTS}")
    if n < 0:
        _bad_length(n, left)
    if room < 0:
        _too_heavy()
    raise DecodeError(f"an array of length {n}, but the remaining size is {left}")


def _bad_tags(count: int, left: int) -> NoReturn:
    raise DecodeError(f"the count of tagged fields is {count}, but the remaining size is {left}, and the limit of the count is {MAX_TAGS}")


def _bad_order(tag: int, last: int) -> NoReturn:
    raise DecodeError(f"duplicate tag {tag}" if tag == last else f"tag {tag} after tag {last}")


def _bad_tag_size(tag: int, difference: int) -> NoReturn:
    longer = "longer" if difference > 0 else "shorter"
    raise DecodeError(f"tag {tag} is {longer} than its declared size (difference in bytes: {abs(difference)})")


def _absent(owner: str, name: str, version: int) -> NoReturn:
    raise UnsupportedVersion(
        f"{owner}.{name} is set, but version {version} cannot carry it; "
        "leave the field at its default, or use a broker that supports a version with the field"
    )


def _skip_tags(buf: Any, pos: int, end: int, count: int) -> int:
    """Skip unknown tagged fields. `count` is the first byte of their count, which is not 0."""
    if count > 127:
        count, pos = _more(buf, pos, count)
    if count > MAX_TAGS or count * 2 > end - pos:
        _bad_tags(count, end - pos)
    last = -1
    for _ in range(count):
        tag, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        if size > end - pos:
            _bad_length(size, end - pos)
        if tag <= last:
            _bad_order(tag, last)
        last = tag
        pos += size
    return pos


def _numbers_reader(fmt: str, *, flexible: bool) -> Callable[..., tuple[list[Any] | None, int, int]]:
    """Make a function that reads a length and an array of numbers, and returns (list or None, position after the array, room left).

    Thousands of partitions share a few replica lists, so short arrays stay in `known`: equal bytes give the same list object.
    """
    size, table, length = struct.calcsize(fmt), _UNPACKERS[fmt], struct.Struct(">i")

    def read(buf: Any, pos: int, end: int, room: int, known: dict[bytes, list[Any]], nullable: bool) -> tuple[list[Any] | None, int, int]:
        start = pos
        if flexible:
            count, pos = read_uvarint(buf, pos)
            count -= 1
        else:
            (count,) = length.unpack_from(buf, pos)
            pos += length.size
        if count == -1 and nullable:
            return None, pos, room
        if not 0 <= count <= MAX_ELEMENTS or count * size > end - pos:
            _bad_count(count, end - pos, room)
        stop = pos + count * size
        raw = bytes(buf[start:stop]) if count < TABLE else b""
        found = known.get(raw)
        if found is None:
            room -= (REMEMBERED if raw else LIST) + count * NUMBER
            if room < 0:
                _too_heavy()
            found = list((table[count] if raw else struct.Struct(f">{count}{fmt}").unpack_from)(buf, pos))
            if raw:
                known[raw] = found
        return found, stop, room

    return read


def _flat(value: Any) -> Any:
    """`value` as a buffer whose `len` is in bytes. Raises TypeError for a str or a number."""
    return value if isinstance(value, bytearray) else memoryview(value).cast("B")


@functools.lru_cache(maxsize=4096)
def _uuid(data: bytes) -> UUID:
    """Cached, because topic ids repeat in every Fetch, and a new UUID costs ten times as much as a lookup."""
    return UUID(bytes=data)


def _packers(fmt: str) -> tuple[Callable[..., bytes], ...]:
    return tuple(struct.Struct(f">{n}{fmt}").pack for n in range(TABLE))


def _unpackers(fmt: str) -> tuple[Callable[..., tuple[Any, ...]], ...]:
    return tuple(struct.Struct(f">{n}{fmt}").unpack_from for n in range(TABLE))


_ONE_BYTE = tuple(bytes((n,)) for n in range(128))
PACKERS = {fmt: _packers(fmt) for fmt in "bhiq"}
_UNPACKERS = {fmt: _unpackers(fmt) for fmt in "bhiq"}
NUMBERS = {(fmt, flexible): _numbers_reader(fmt, flexible=flexible) for fmt in "bhiq" for flexible in (False, True)}
NAMES: dict[str, Any] = {
    "uvarint": uvarint,
    "string_prefix": _string_prefix,
    "one": _ONE_BYTE,
    "more": _more,
    "read_uvarint": read_uvarint,
    "bad_length": _bad_length,
    "bad_count": _bad_count,
    "too_heavy": _too_heavy,
    "bad_tags": _bad_tags,
    "skip_tags": _skip_tags,
    "bad_order": _bad_order,
    "bad_tag_size": _bad_tag_size,
    "absent": _absent,
    "flat": _flat,
    "to_uuid": _uuid,
    "new": object.__new__,
    "join": b"".join,
    "pack": struct.pack,
    "UnicodeText": str,
}
