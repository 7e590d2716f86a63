"""Declares fields of messages. Invariant: a field's wire format is declared once, next to its Python type, for all versions."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import attrs

__all__ = [
    "MAX_INT32",
    "MAX_INT64",
    "MIN_INT32",
    "NO_UUID",
    "Kind",
    "Spec",
    "Versions",
    "array",
    "boolean",
    "bytestring",
    "default_of",
    "fields_at",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "records",
    "spec_of",
    "string",
    "uint16",
    "uuid",
    "wire",
]

MAX_INT32, MIN_INT32, MAX_INT64 = 0x7FFF_FFFF, -0x8000_0000, 0x7FFF_FFFF_FFFF_FFFF
NO_UUID = UUID(int=0)
_ENDLESS = 0x7FFF


class Versions(NamedTuple):
    """A range of versions, both ends included, in Kafka's notation: `3+`, `0-2`, `4`, `none`."""

    lo: int
    hi: int

    @classmethod
    def parse(cls, text: str | None) -> Versions:
        if text is None or text == "none":
            return cls(1, 0)
        lo, dash, hi = text.removesuffix("+").partition("-")
        return cls(int(lo), _ENDLESS if text.endswith("+") else int(hi if dash else lo))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lo <= version <= self.hi

    def __str__(self) -> str:
        if self.lo > self.hi:
            return "none"
        if self.lo == self.hi:
            return str(self.lo)
        return f"{self.lo}+" if self.hi == _ENDLESS else f"{self.lo}-{self.hi}"


@attrs.frozen
class Kind:
    """A primitive type. `fmt` is its struct format; if `size` is 0, the format of its length prefix in versions that are not flexible."""

    name: str
    fmt: str
    size: int
    default: Any

    @property
    def fixed(self) -> bool:
        return self.size > 0


boolean = Kind("bool", "?", 1, False)
int8, int16, int32, int64 = Kind("int8", "b", 1, 0), Kind("int16", "h", 2, 0), Kind("int32", "i", 4, 0), Kind("int64", "q", 8, 0)
uint16, float64 = Kind("uint16", "H", 2, 0), Kind("float64", "d", 8, 0.0)
uuid = Kind("uuid", "16s", 16, NO_UUID)
string, bytestring, records = Kind("string", "h", 0, ""), Kind("bytes", "i", 0, b""), Kind("records", "i", 0, None)


class array(NamedTuple):  # noqa: N801 - reads as a type in declarations
    of: Any


WireType: TypeAlias = "Kind | array | type"
Fields: TypeAlias = "list[attrs.Attribute[Any]]"


@attrs.frozen
class Spec:
    """The encoding of one field. An `ignorable` field is left out silently if the version does not have it."""

    type: WireType
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    ignorable: bool
    words: bool = False


def _default(type: WireType) -> Any:
    if isinstance(type, array):
        return attrs.Factory(list)
    return type.default if isinstance(type, Kind) else type()


def _short(value: Any) -> str:
    return "None" if value is None else f"<{len(value)} bytes>"


def wire(
    type: WireType,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    default: Any = attrs.NOTHING,
    tag: int | None = None,
    tagged: str | None = None,
    ignorable: bool = False,
    secret: bool = False,
    words: bool = False,
) -> Any:
    """Declare a field: its wire type, the versions in which it exists, can be null and is tagged, and its tag.

    `repr` does not show a `secret` field. A field with `words` is text for people, which `decode` passes through `say`.

    Without `default` the field has Kafka's default: 0, false, "", b"", no elements, the zero uuid, null for records, the struct's own
    defaults.
    The type of a field that is a single struct must be a `@value` class, because all messages without the field share one default.
    """
    has = Versions.parse(versions)
    tags = Versions.parse(tagged) if tagged is not None else has if tag is not None else Versions.parse(None)
    spec = Spec(type, has, Versions.parse(nullable), tag, tags, ignorable, words)
    given = _default(type) if default is attrs.NOTHING else default
    return attrs.field(default=given, metadata={"wire": spec}, repr=_short if type is records else not secret)


def spec_of(attribute: attrs.Attribute[Any]) -> Spec:
    spec: Spec = attribute.metadata["wire"]
    return spec


def default_of(attribute: attrs.Attribute[Any]) -> Any:
    """The default of a field; a new list for each call if the default is a list."""
    default: Any = attribute.default
    return default.factory() if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]


def fields_at(cls: type, version: int) -> tuple[Fields, Fields, Fields]:
    """(fields without a tag, tagged fields in the order of tags, absent fields) of `cls` at `version`."""
    inline: Fields = []
    tagged: Fields = []
    absent: Fields = []
    for field in attrs.fields(cls):
        spec = spec_of(field)
        row = absent if version not in spec.versions else tagged if version in spec.tagged else inline
        row.append(field)
    return inline, sorted(tagged, key=lambda field: spec_of(field).tag or 0), absent
