"""Rows sent from Arrow data, and arrays made by hand that no library would export."""

from __future__ import annotations

import ctypes
import struct
from types import ModuleType
from typing import Any

from pykafka4.wire.records._plain_arrow import ArrayStruct, array_capsule, schema_capsule
from pykafka4.wire.records.columns import Array, Field
from tests.wire.records.hot_world import World, plain_records, wire_bytes

NOW = 1_700_000_000_000  # of `World`
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def sent(core: ModuleType, data: Any, *, world: World | None = None, **names: Any) -> list[tuple[Any, ...]]:
    """(timestamp, key, value, headers) of each record that the rows of `data` become, all in one partition."""
    world = world or World(core)
    handle = world.acc.send_rows(core.ArrowRows("t", data, **names))
    found = [record for batch in world.seal_all() for record in plain_records(wire_bytes(batch))]
    assert len(handle) == len(found)
    return found


def values(core: ModuleType, data: Any, **names: Any) -> list[Any]:
    return [record[2] for record in sent(core, data, **names)]


def int32s(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}i", *numbers)


def int64s(*numbers: int) -> bytes:
    return struct.pack(f"={len(numbers)}q", *numbers)


def spans(length: int, ends: bytes | None, data: bytes | None, valid: bytes | None = None, nulls: int = 0) -> Array:
    return Array(length, nulls, (valid, ends, data))


def batch(*columns: Array, length: int | None = None, nulls: int = 0, valid: bytes | None = None) -> Array:
    return Array(columns[0].length if length is None else length, nulls, (valid,), columns)


class Handmade:
    """Exports `array` with the format of each column, after the fields of the struct at `path` (places of children) were set."""

    def __init__(self, array: Array, formats: dict[str, Any], path: tuple[int, ...] = (), **fields: Any) -> None:
        self.array, self.path, self.fields = array, path, fields
        self.field = Field("", "+s", tuple(form if isinstance(form, Field) else Field(name, form) for name, form in formats.items()))

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        capsule = array_capsule(self.array)
        target = ArrayStruct.from_address(_pointer(capsule, b"arrow_array"))
        for place in self.path:
            target = target.children[place].contents
        for name, value in self.fields.items():
            setattr(target, name, value)
        return schema_capsule(self.field), capsule


def values_only(rows: int, ends: bytes | None, data: bytes | None, form: str = "z", valid: bytes | None = None, **fields: Any) -> Handmade:
    """One column of values; `fields` are of its struct."""
    return Handmade(batch(spans(rows, ends, data, valid)), {"value": form}, (0,), **fields)
