"""Weight. Rule: the memory that a frame may take is bounded before it is allocated, however few bytes its elements have.

An empty topic takes three bytes in a frame and a hundred in memory. Emitted decoders therefore subtract the weight of an array's elements
from a budget before they create the first. Weights are sizes in CPython, rounded up as its allocator does; they are never too low.
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

MAX_DECODED: Final = 60 << 20  # bytes of memory for one frame; 64 MiB are promised, the rest is for what is in no array and no string
LIST: Final = 64  # empty
SLOT: Final = 16  # per item of a list, which may be copied while it grows
NUMBER: Final = 48  # per item of an array of numbers: the number, its slot, and its slot in the unpacked tuple
REMEMBERED: Final = 320  # an array of numbers that is cached for equal ones: a list, its bytes, and their dict entry
WIDEST: Final = 4  # bytes of memory per byte of a string: one emoji makes every character that wide
_GC, _INT = 16, 32
_KINDS: Final = {boolean: 0, int64: 48, float64: 32, uuid: 128, string: 64, bytestring: 48, records: 192}


def weight(type: WireType, version: int) -> int:
    """Bytes of memory for a value of this type, without the contents of arrays, strings and tagged fields; 0 for arrays of numbers."""
    if isinstance(type, array):
        return 0 if is_number(type.of) else LIST
    return _KINDS.get(type, _INT) if isinstance(type, Kind) else _of_struct(type, version)


def is_number(type: WireType) -> bool:
    """Whether arrays of this type are unpacked in one call."""
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
    """The fewest bytes that a value of this type takes; limits an element count before anything is allocated."""
    if isinstance(type, Kind) and type.fixed:
        return type.size
    if isinstance(type, (array, Kind)):
        return 1 if flexible else 2 if type is string else 4
    specs = [spec_of(field) for field in fields_at(type, version)[0]]
    return flexible + sum(
        1 if version in spec.nullable and not isinstance(spec.type, Kind | array) else least_size(spec.type, version, flexible=flexible)
        for spec in specs
    )
