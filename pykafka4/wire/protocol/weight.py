"""Computes the weight of decoded values, which is their memory in bytes.

A few bytes of a frame can take over a hundred bytes in memory, so a limit on the size of the frame is not enough. Decode functions
subtract the weight of all elements of an array from a budget before they create the first element. Weights come from the sizes of objects
in CPython.
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

# Bytes of memory for the arrays, strings, bytes and tagged fields of one decoded message.
MAX_DECODED: Final = 60 << 20
LIST: Final = 64  # bytes of an empty list
SLOT: Final = 16  # bytes per item of a list: two pointers, because a list that grows may be copied
NUMBER: Final = 48  # bytes per item of an array of numbers: the number, its slot, and its slot in the unpacked tuple
REMEMBERED: Final = 320  # bytes of a shared array, without its numbers: the list, its encoded bytes as the key, and the dict entry
WIDEST: Final = 4  # bytes of memory per encoded byte of a string: with one emoji in it, CPython stores every character in four bytes
_GC, _INT = 16, 32
_KINDS: Final = {boolean: 0, int64: 48, float64: 24, uuid: 128, string: 64, bytestring: 48, records: 192}


def weight(type: WireType, version: int) -> int:
    """Bytes of memory for a value of this type, without the contents of arrays, strings, bytes and tagged fields.

    0 for an array of numbers, because decoders count its list together with the numbers.
    """
    if isinstance(type, array):
        return 0 if is_number(type.of) else LIST
    return _KINDS.get(type, _INT) if isinstance(type, Kind) else _of_struct(type, version)


def is_number(type: WireType) -> bool:
    """Whether one `struct` call unpacks all elements of an array, if they have this type."""
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
    """The fewest bytes that a value of this type takes in a frame. Decoders reject a count of more elements than fit into the frame."""
    if isinstance(type, Kind) and type.fixed:
        return type.size
    if isinstance(type, (array, Kind)):
        return 1 if flexible else 2 if type is string else 4
    specs = [spec_of(field) for field in fields_at(type, version)[0]]
    return flexible + sum(
        1 if version in spec.nullable and not isinstance(spec.type, Kind | array) else least_size(spec.type, version, flexible=flexible)
        for spec in specs
    )
