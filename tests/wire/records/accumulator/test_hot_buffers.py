"""Values of array libraries: their bytes where these are all there is to them, else refused; never addresses."""

from __future__ import annotations

import array
import ctypes
from types import ModuleType
from typing import Any

import pytest

from tests.wire.records.hot_world import World, each_core, plain_records, wire_bytes

np = pytest.importorskip("numpy")
pytestmark = each_core


class Pair(ctypes.Structure):
    _fields_ = [("Option", ctypes.c_uint16), ("X", ctypes.c_uint16)]  # names like the letters of pointers


class Pointing(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint16), ("target", ctypes.POINTER(ctypes.c_int))]


class Texts(ctypes.Structure):
    _fields_ = [("text", ctypes.c_wchar_p), ("number", ctypes.c_float)]


@pytest.mark.parametrize(
    "value",
    [
        array.array("i", [1, 2]),
        array.array("d", [1.5]),
        memoryview(bytes(12)).cast("B", (3, 4)),
        memoryview(b"abcdefgh").cast("i"),
        (ctypes.c_int * 3)(1, 2, 3),
        Pair(1, 2),
        (Pair * 2)(),
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.zeros(3, dtype=[("Option", "i2"), ("P", "f8")]),
        np.array([1.5, 2.5]),
        np.array([1.5j]),
        np.zeros(2, dtype=[("z", "c8"), ("Z", "c16"), ("long", "clongdouble")]),
        np.array(7),
        np.array([b"ab", b"c"]),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("argument", ["value", "key", "headers"])
def test_a_contiguous_buffer_is_its_bytes(core: ModuleType, argument: str, value: Any) -> None:
    world = World(core)
    world.send(**{argument: [("h", value)] if argument == "headers" else value})
    (batch,) = world.seal_all()
    (_, key, sent, headers) = plain_records(wire_bytes(batch))[0]
    assert {"value": sent, "key": key, "headers": headers[0][1] if headers else None}[argument] == memoryview(value).tobytes()


@pytest.mark.parametrize(
    "value",
    [
        np.array([object(), None], dtype=object),
        np.zeros(2, dtype=[("number", "i4"), ("thing", "O")]),
        np.array(["2026-01-01"], dtype="datetime64[D]"),
        np.array([1], dtype="timedelta64[s]"),
        np.arange(10)[::2],
        np.arange(12).reshape(3, 4).T,
        (ctypes.py_object * 2)(),
        Pointing(),
        (ctypes.POINTER(ctypes.c_int) * 2)(),
        (ctypes.c_void_p * 2)(),
        (ctypes.c_char_p * 2)(b"text"),
        (ctypes.c_wchar_p * 2)("text"),
        Texts(),
        (ctypes.CFUNCTYPE(None) * 2)(),
        memoryview(bytearray(12)).cast("B", (3, 4))[::-1],
        np.float64,
    ],
    ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}".strip(),
)
@pytest.mark.parametrize("argument", ["value", "key", "headers"])
def test_pointers_dates_and_pieces_with_gaps_are_a_type_error(core: ModuleType, argument: str, value: Any) -> None:
    world = World(core)
    what = "the value of header 'h'" if argument == "headers" else argument
    with pytest.raises(TypeError, match=f"^t: {what} must be bytes, str, a C-contiguous buffer without pointers"):
        world.send(**{argument: [("h", value)] if argument == "headers" else value})
    assert world.acc.accepted == 0
