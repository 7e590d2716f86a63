"""Defines the kinds of settings, which convert and check values, and describe themselves for docs/agent-settings.md.

Invariant: an error begins with the name of the setting, then names the value or its type, and the allowed values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import attrs

from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.options.fields import KIB, MAX_INT, MIB, as_float, as_str, bad

__all__ = [
    "KIB",
    "LIVE",
    "MIB",
    "SECTION",
    "folder_or_file",
    "number",
    "mode",
    "name",
    "names",
    "of_producer",
    "section",
    "short",
    "size",
    "size_or_all",
    "socket_path",
    "switch",
    "to_bytes",
    "word",
]

LIVE: Final = "live"  # key of the metadata: whether a reload changes the setting
SECTION: Final = "section"  # key of the metadata: the class of a setting that is a table
SIZE: Final = re.compile(r"(\d[\d_]*)\s*(?:([kmg])(?:i?b)?|b)?", re.IGNORECASE)
UNITS: Final = {"": 1, "k": KIB, "m": MIB, "g": 1024 * MIB}
LONGEST_PATH: Final = 107  # bytes of a socket's path: `sun_path` of Linux has 108, with the final zero
LONGEST_NAME: Final = 255
LARGEST: Final = 2**50
ALL: Final = "all"


def _field(
    default: Any, convert: Callable[[Any], Any], fits: Callable[[Any], bool], allowed: str, unit: str, span: str, doc: str, live: bool
) -> Any:
    """`fits` judges converted values; None is valid if it is the default."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not (value is None and attribute.default is None) and not fits(value):
            raise bad(attribute.name, str(value) if isinstance(value, Path) else value, f"must be {allowed}")

    metadata = {"unit": unit, "range": span, "doc": doc, LIVE: live}
    return attrs.field(default=default, converter=convert, validator=check, metadata=metadata)


def to_bytes(value: Any) -> Any:
    """The number of bytes in `"128MiB"` or `"64k"` (a k is 1,024). Any other value is unchanged: the validator judges it."""
    found = SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    return value if found is None else int(found[1]) * UNITS[(found[2] or "").lower()]


def _size(default: int | None, convert: Callable[[Any], Any], doc: str, low: int, high: int, live: bool, more: str = "") -> Any:
    span = f"{low:,} to {high:,}{more}"
    allowed = f'a number of bytes, {span}: an integer, or text such as "64k" or "128MiB"'
    return _field(default, convert, lambda v: type(v) is int and low <= v <= high, allowed, "bytes", span, doc, live)


def size(default: int | None, doc: str, *, low: int = 1, high: int = LARGEST, live: bool = False) -> Any:
    return _size(default, to_bytes, doc, low, high, live)


def size_or_all(default: int | None, doc: str, *, low: int = 0, high: int = LARGEST, live: bool = False) -> Any:
    """A number of bytes, or `"all"`, which becomes None: no limit."""

    kind = _size(default, lambda value: None if value == ALL else to_bytes(value), doc, low, high, live, f', or "{ALL}"')
    kind._validator = attrs.validators.optional(kind._validator)
    return kind


def number(default: Any, unit: str, doc: str, *, low: float = 0, high: float = MAX_INT, whole: bool = True, live: bool = False) -> Any:
    """A number from `low` to `high`. `default` is a number, None or NOTHING."""
    kinds = (int,) if whole else (int, float)
    span = f"{low:,} to {high:,}"
    allowed = f"{'an integer' if whole else 'a number'}{f' of {unit}' if unit else ''}, {span}"
    return _field(default, as_float, lambda v: type(v) in kinds and low <= v <= high, allowed, unit, span, doc, live)


def switch(default: bool, doc: str, *, live: bool = False) -> Any:
    return _field(default, lambda v: v, lambda v: isinstance(v, bool), "true or false", "", "true, false", doc, live)


def word(default: StrEnum | None, kind: type[StrEnum], doc: str, *, live: bool = False) -> Any:
    words = [member.value for member in kind]

    def convert(value: Any) -> Any:
        return kind(value) if value in words else value

    span = ", ".join(f'"{each}"' for each in words)
    return _field(default, convert, lambda v: isinstance(v, kind), f"one of {span}", "", span, doc, live)


def name(doc: str, default: str | None = None, *, live: bool = False) -> Any:
    return _field(
        default,
        as_str,
        lambda v: isinstance(v, str) and 0 < len(v) <= LONGEST_NAME,
        "a non-empty text of at most 255 characters",
        "",
        "text",
        doc,
        live,
    )


def names(doc: str, *, live: bool = False) -> Any:
    def fits(value: Any) -> bool:
        return isinstance(value, tuple) and all(isinstance(each, str) and each for each in value)

    def convert(value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    return _field((), convert, fits, "a list of non-empty texts", "", "list of texts", doc, live)


def _to_path(value: Any) -> Any:
    return Path(value) if isinstance(value, str) and value and "\0" not in value else value


def folder_or_file(doc: str, *, live: bool = False) -> Any:
    """An absolute path, because a relative path would depend on the program that starts the agent."""
    allowed = 'an absolute path, such as "/var/lib/pykafka4"'
    return _field(attrs.NOTHING, _to_path, lambda v: isinstance(v, Path) and v.is_absolute(), allowed, "", "absolute path", doc, live)


def socket_path(doc: str) -> Any:
    def fits(value: Any) -> bool:
        return isinstance(value, Path) and value.is_absolute() and len(bytes(value)) <= LONGEST_PATH

    allowed = f'an absolute path of at most {LONGEST_PATH} bytes, such as "/run/pykafka4/agent.sock"'
    return _field(attrs.NOTHING, _to_path, fits, allowed, "", "absolute path", doc, False)


def mode(doc: str) -> Any:
    """The permissions of a socket: `0o222`, or octal digits as text."""

    def convert(value: Any) -> Any:
        digits = value.removeprefix("0o") if isinstance(value, str) else ""
        return int(digits, 8) if re.fullmatch("[0-7]{1,5}", digits) else value

    # Execute bits mean nothing for a socket. They are refused, so that `mode = 222`, which is 0o336, is an error.
    def fits(value: Any) -> bool:
        return type(value) is int and 0 <= value <= 0o777 and not value & 0o111

    allowed = 'permissions to read and write, in octal: 0o222 or "0222"'
    return _field(None, convert, fits, allowed, "", "0o000 to 0o666", doc, False)


def of_producer(option: str, *, live: bool = False) -> Any:
    """A setting with the name and the checks of a producer's option; None if not set. A size may be text."""
    field = attrs.fields_dict(ProducerConfig)[option]
    inner: Any = field.converter or (lambda value: value)
    sized = field.metadata["unit"] == "bytes"

    def convert(value: Any) -> Any:
        return None if value is None else inner(to_bytes(value) if sized else value)

    def check(owner: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and field.validator is not None:
            field.validator(owner, attribute, value)

    metadata = {**field.metadata, "range": field.metadata["range"].removesuffix(", None"), LIVE: live}
    return attrs.field(default=None, converter=convert, validator=check, metadata=metadata)


def section(kind: type, doc: str, *, default: Any = None, live: bool = False) -> Any:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, kind) and not (value is None and attribute.default is None):
            raise ConfigError(f"{attribute.name} is of type {type(value).__name__}: must be a table")

    return attrs.field(default=default, validator=check, metadata={"doc": doc, SECTION: kind, LIVE: live})


def short(kind: type, value: object) -> object:
    """`spool = "/var/spool/pykafka4"` is short for a table with `path`. Any other value is unchanged."""
    return {"path": value} if isinstance(value, str) and "path" in attrs.fields_dict(kind) else value
