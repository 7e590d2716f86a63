"""Makes the fields of options, which check their values. Invariant: a ConfigError names the option, and shows no value of a `secret` or
`pem_text` field.

An option is an `attrs` field with its unit, range and meaning as metadata; `make options` renders the documentation from them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown

__all__ = [
    "KIB",
    "MIB",
    "Secret",
    "bad",
    "choice",
    "flag",
    "changed_options",
    "mapping",
    "millis",
    "millis_or_off",
    "number",
    "number_or_off",
    "one_of_kind",
    "parsed",
    "path",
    "as_str",
    "pem_text",
    "secret",
    "ratio",
    "text",
    "as_int",
]

Secret = str | Callable[[], str] | None

MAX_INT = 2**31 - 1  # the largest int32
KIB, MIB = 1024, 1024 * 1024


LONGEST_STRING = 32_767  # bytes: older versions of requests encode the length of a string as an int16


def bad(name: str, value: object, allowed: str) -> ConfigError:
    """Not for secrets: the error shows the value."""
    return ConfigError(f"{name}={shown(value)}: {allowed}")


def as_int(value: Any) -> Any:
    """A plain int for any integer type but bool (numpy's, an enum …); anything else unchanged."""
    return value if isinstance(value, bool) or not hasattr(type(value), "__index__") else int(operator.index(value))


def as_float(value: Any) -> Any:
    """A plain int or float for a `numbers.Real`, except a bool and a number too large for a float; anything else unchanged."""
    value = as_int(value)
    if isinstance(value, (bool, int)) or not isinstance(value, Real):
        return value
    try:
        return float(value)
    except OverflowError:  # too large for a float: the check of the range names the value
        return value


def as_str(value: Any) -> Any:
    """A plain str for an instance of any str subclass; anything else unchanged."""
    return str.__str__(value) if isinstance(value, str) else value


def _check_number(low: float, high: float, unit: str, kinds: tuple[type, ...]) -> Callable[[Any, attrs.Attribute[Any], Any], None]:
    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and attribute.default is None:
            return
        if type(value) not in kinds or not low <= value <= high:  # excludes bool; NaN is in no range
            number = "number" if float in kinds else "whole number"
            of = "" if unit == "level" else f" of {unit}"
            raise bad(attribute.name, value, f"must be a {number}{of} from {low:,} to {high:,}")

    return check


def number(default: int | None, unit: str, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    """Both ends of the range are allowed."""
    return attrs.field(
        default=default,
        converter=as_int,
        validator=_check_number(low, high, unit, (int,)),
        metadata={"unit": unit, "range": f"{low:,} to {high:,}", "doc": doc},
    )


def millis(default: int | None, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    """Fractions of milliseconds are allowed."""
    return attrs.field(
        default=default,
        converter=as_float,
        validator=_check_number(low, high, "milliseconds", (int, float)),
        metadata={"unit": "ms", "range": f"{low:,} to {high:,}", "doc": doc},
    )


def _off(kind: Any) -> Any:
    """None means off. Other numbers accept None only if None is their default."""
    kind._validator = attrs.validators.optional(kind._validator)
    kind.metadata["range"] += ", None"
    return kind


def number_or_off(default: int | None, unit: str, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    return _off(number(default, unit, doc, low=low, high=high))


def millis_or_off(default: int | None, doc: str, *, low: int = 0, high: int = MAX_INT) -> Any:
    return _off(millis(default, doc, low=low, high=high))


def ratio(default: float, doc: str) -> Any:

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if type(value) not in (int, float) or not 0 < value <= 1:
            raise bad(attribute.name, value, "must be a number above 0, and at most 1")

    return attrs.field(
        default=default, converter=as_float, validator=check, metadata={"unit": "ratio", "range": "above 0 to 1", "doc": doc}
    )


Check: TypeAlias = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def parsed(convert: Callable[[Any], Any], span: str, doc: str, default: Any = None, validator: Check | None = None) -> Any:
    """`convert` makes the value, or raises. `span` describes the allowed values in the documentation."""
    return attrs.field(default=default, converter=convert, validator=validator, metadata={"unit": "", "range": span, "doc": doc})


def mapping(convert: Callable[[object], Any], kind: str, doc: str) -> Any:
    """`convert` checks the mapping, and makes a tuple. `kind` describes keys and values for the documentation."""
    return parsed(lambda value: () if value is None or value == () else convert(value), kind, doc, default=())


def choice(default: str | None, allowed: Iterable[str], doc: str) -> Any:
    words = tuple(allowed)

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and attribute.default is None:
            return
        if not isinstance(value, str) or value not in words:
            raise bad(attribute.name, value, f"must be one of {', '.join(words)}")

    return parsed(as_str, ", ".join(words), doc, default, check)


def flag(default: bool | None, doc: str) -> Any:

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not isinstance(value, bool) and not (value is None and attribute.default is None):
            raise bad(attribute.name, value, "must be True or False")

    return attrs.field(default=default, validator=check, metadata={"unit": "", "range": "True, False", "doc": doc})


def text(default: str | None, doc: str, *more: Check) -> Any:
    """Checks in `more` come first."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None and attribute.default is None:
            return
        if not isinstance(value, str) or not value:
            raise bad(attribute.name, value, "must be a non-empty string" + (" or None" if attribute.default is None else ""))
        try:
            size = len(value.encode())
        except UnicodeEncodeError as error:
            raise bad(attribute.name, value, f"cannot be sent as UTF-8: {error.reason} at {error.start}") from None
        if size > LONGEST_STRING:
            raise bad(attribute.name, value, f"has {size:,} bytes as UTF-8; the protocol allows at most {LONGEST_STRING:,}")

    return parsed(as_str, "text", doc, default, attrs.validators.and_(*more, check))


def path(doc: str) -> Any:
    """No error shows a value that seems to be the content of a file, perhaps a key."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not isinstance(value, str):  # perhaps the bytes of a key
            raise ConfigError(f"{attribute.name} is of type {type(value).__name__}: must be the path of a file, as a str")
        if isinstance(value, str) and ("-----BEGIN" in value or "\n" in value):
            instead = "ssl_ca_pem, ssl_cert_pem and ssl_key_pem take contents"
            raise ConfigError(f"{attribute.name} is the content of a file: must be its path; {instead}")

    return text(None, doc, check)


def pem_text(doc: str) -> Any:
    """A text of any length, such as a certificate. No error shows the text, because it may contain a key."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and (not isinstance(value, str) or not value):
            what = "an empty string" if value == "" else f"of type {type(value).__name__}"
            raise ConfigError(f"{attribute.name} is {what}: must be a non-empty string or None")

    return _unshown(check, "text", doc)


def one_of_kind(kind: str, fits: Callable[[object], bool], doc: str, *, hidden: bool = False) -> Any:
    """`kind` is a noun with its article."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is not None and not fits(value):
            raise ConfigError(f"{attribute.name} is of type {type(value).__name__}: must be {kind}")

    return attrs.field(default=None, validator=check, repr=not hidden, metadata={"unit": "", "range": kind, "doc": doc})


def secret(doc: str, *, callables: bool = True) -> Any:
    """No error shows the value."""

    def check(_: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if value is None or (isinstance(value, str) and value) or (callables and callable(value)):
            return
        allowed = "a non-empty string" + (" or a callable that returns one" if callables else "")
        what = "an empty string" if value == "" else f"of type {type(value).__name__}"
        raise ConfigError(f"{attribute.name} is {what}: must be {allowed}")

    return _unshown(check, "text or callable" if callables else "text", doc)


def _unshown(check: Callable[[Any, attrs.Attribute[Any], Any], None], kinds: str, doc: str) -> Any:
    return attrs.field(default=None, converter=as_str, validator=check, repr=False, metadata={"unit": "", "range": kinds, "doc": doc})


def changed_options(options: object, names: Iterable[str]) -> list[str]:
    fields = attrs.fields_dict(type(options))  # type: ignore[arg-type]
    return [name for name in names if getattr(options, name) != fields[name].default]
