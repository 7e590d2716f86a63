"""Weight. Rule: what a frame may cost in memory is bounded before it is spent, however little of the wire its elements take.

An empty topic is three bytes of a frame and a hundred of memory. Emitted decoders therefore take the weight of an array's elements off a
budget before they make the first. Weights are sizes in CPython, rounded up as its allocator does; they err on the side of too much.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.wire.protocol.fields import (
    Kind,
    WireType,
    array,
    boolean,
    bytestring,
    default_of,
    fields_at,
    float64,
    int64,
    records,
    spec_of,
    string,
    uuid,
)

__all__ = ["LIST", "MAX_DECODED", "NUMBER", "REMEMBERED", "SLOT", "WIDEST", "is_number", "least_size", "weight"]

MAX_DECODED: Final = 60 << 20  # bytes of memory for one frame; promised are 64 MiB, what is in no array and no text is little
LIST: Final = 64  # empty
SLOT: Final = 16  # of a list; it may be copied while it grows
NUMBER: Final = 48  # of an array of numbers: the number, its slot, and that of the tuple it came in
REMEMBERED: Final = 320  # an array of numbers that is kept for the next of its kind: a list, its bytes, and their place in a dict
WIDEST: Final = 4  # bytes of memory for a byte of text: one emoji makes every character of its text as wide
_GC, _INT = 16, 32
_KINDS: Final = {boolean: 0, int64: 48, float64: 32, uuid: 128, string: 64, bytestring: 48, records: 192}


def weight(type: WireType, version: int) -> int:
    """Bytes of memory for a value of this type, without what is in its arrays, texts and tagged fields; arrays of numbers weigh nothing."""
    if isinstance(type, array):
        return 0 if is_number(type.of) else LIST
    return _KINDS.get(type, _INT) if isinstance(type, Kind) else _of_struct(type, version)


def is_number(type: WireType) -> bool:
    """Whether arrays of this type are read in one piece."""
    return isinstance(type, Kind) and type.fixed and type is not uuid


def _of_struct(cls: Any, version: int) -> int:
    inline, tagged, absent = fields_at(cls, version)
    lists = sum(isinstance(default_of(field), list) for field in tagged + absent)
    return _rounded(cls.__basicsize__ + _GC) + lists * LIST + sum(weight(_type(field), version) for field in inline)


def _type(field: attrs.Attribute[Any]) -> WireType:
    return spec_of(field).type


def _rounded(size: int) -> int:
    return -(-size // 16) * 16


def least_size(type: WireType, version: int, *, flexible: bool) -> int:
    """The fewest bytes a value of this type takes; what caps an element count before anything is allocated."""
    if isinstance(type, Kind) and type.fixed:
        return type.size
    if isinstance(type, (array, Kind)):
        return 1 if flexible else 2 if type is string else 4
    specs = [spec_of(field) for field in fields_at(type, version)[0]]
    return flexible + sum(
        1 if version in spec.nullable and not isinstance(spec.type, Kind | array) else least_size(spec.type, version, flexible=flexible)
        for spec in specs
    )
