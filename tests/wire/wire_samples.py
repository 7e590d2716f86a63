"""What the wire tests share. Rule: every sample comes from the schema itself, so that a new message is tested by being declared."""

from __future__ import annotations

import random
import string as letters
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import attrs
from hypothesis import strategies as st

from pykafka4.wire.protocol import declared  # noqa: F401
from pykafka4.wire.protocol.fields import Kind, array, fields_at, spec_of
from pykafka4.wire.protocol.schema import DATA, REQUESTS, Message

CORPUS = Path(__file__).parent / "corpus"
BUFFERS: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "view of a bytearray": lambda data: memoryview(bytearray(b"?" + data + b"?"))[1:-1],
}
RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}


def messages() -> list[type[Message]]:
    """Every message of the package and of `integration`: test modules that are collected before declare others."""
    ours = [request for request in REQUESTS.values() if not request.__module__.startswith("tests.")]
    return [cls for request in ours for cls in (request, request.response)] + list(DATA.values())


def every_version() -> list[tuple[type[Message], int]]:
    return [(cls, version) for cls in messages() for version in range(cls.versions.lo, cls.versions.hi + 1)]


def name_of(value: Any) -> str:
    return value.__name__ if isinstance(value, type) else f"v{value}"


# -- hypothesis -------------------------------------------------------------------


def _kind(kind: Kind) -> st.SearchStrategy[Any]:
    bits = RANGES.get(kind.name)
    if bits:
        return st.integers(-(2**bits), 2**bits - 1)
    return {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uint16": st.integers(0, 2**16 - 1),
        "string": st.one_of(st.text(max_size=5), st.sampled_from(["", "ä" * 100, "x" * 32767])),
        "bytes": st.one_of(st.binary(max_size=5), st.just(b"x" * 200)),
        "records": st.one_of(st.binary(max_size=5), st.just(b"x" * 20000)),
        "uuid": st.uuids(),
    }[kind.name]


def _type(type: Any, version: int) -> st.SearchStrategy[Any]:
    if not isinstance(type, array):
        return _kind(type) if isinstance(type, Kind) else instances(type, version)
    few = st.lists(_type(type.of, version), max_size=3)
    if not isinstance(type.of, Kind) or type.of.name not in RANGES:
        return few
    return st.one_of(few, st.integers(30, 34).map(lambda n: list(range(n))))  # either side of the compiler's table


def instances(cls: type, version: int) -> st.SearchStrategy[Any]:
    """Any object of `cls` that `version` can carry: fields it has no room for stay at their defaults."""
    inline, tagged, _ = fields_at(cls, version)
    given = {}
    for field in inline + tagged:
        spec = spec_of(field)
        values = _type(spec.type, version)
        given[field.name] = st.one_of(st.none(), values) if version in spec.nullable else values
    return st.builds(cls, **given)


# -- plain samples, for what needs many and quickly -----------------------------------


def _plain(type: Any, version: int, rng: random.Random) -> Any:
    if isinstance(type, array):
        return [_plain(type.of, version, rng) for _ in range(rng.choice((0, 1, 2, 3)))]
    if not isinstance(type, Kind):
        return sample(type, version, rng)
    bits = RANGES.get(type.name)
    if bits:
        return rng.randrange(-(2**bits), 2**bits)
    return {
        "bool": lambda: rng.random() < 0.5,
        "float64": lambda: rng.uniform(-1e9, 1e9),
        "uint16": lambda: rng.randrange(2**16),
        "string": lambda: "".join(rng.choices(letters.ascii_letters, k=rng.randrange(6))),
        "bytes": lambda: rng.randbytes(rng.randrange(6)),
        "records": lambda: rng.randbytes(rng.randrange(30)),
        "uuid": lambda: UUID(bytes=rng.randbytes(16)),
    }[type.name]()


def sample(cls: Any, version: int, rng: random.Random) -> Any:
    """An object with most fields set."""
    inline, tagged, _ = fields_at(cls, version)
    given = {}
    for field in inline + tagged:
        spec = spec_of(field)
        null = version in spec.nullable and rng.random() < 0.2
        given[field.name] = None if null else _plain(spec.type, version, rng)
    return cls(**given)


_NUMBERS = count(2**20)


def _widest(type: Any, version: int, many: int) -> Any:
    if isinstance(type, array):
        return [_widest(type.of, version, many) for _ in range(many)]
    if not isinstance(type, Kind):
        return heaviest(type, version, many)
    number = next(_NUMBERS)
    bits = RANGES.get(type.name)
    if bits:
        return 2**bits - 1 - number % 2 ** (bits - 2) if bits < 31 else 2 ** (bits - 1) + number
    return {
        "bool": lambda: True,
        "float64": lambda: float(number),
        "uint16": lambda: 2**15 + number % 2**15,
        "string": lambda: "🌊" + "x" * 50,
        "bytes": lambda: bytes(50),
        "records": lambda: bytes(50),
        "uuid": lambda: UUID(int=number << 96),
    }[type.name]()


def heaviest(cls: Any, version: int, many: int) -> Any:
    """An object with everything set, nothing that CPython keeps ready, and `many` of whatever comes in arrays."""
    inline, tagged, _ = fields_at(cls, version)
    return cls(**{field.name: _widest(spec_of(field).type, version, many) for field in inline + tagged})


def parts_of(cls: type) -> Iterator[type]:
    """A message class and the classes of all its parts."""
    yield cls
    for field in attrs.fields(cls):
        kind = spec_of(field).type
        inner = kind.of if isinstance(kind, array) else kind
        if not isinstance(inner, Kind):
            yield from parts_of(inner)
