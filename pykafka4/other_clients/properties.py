"""Translates properties of Java's and librdkafka's clients. Invariant: a property without a counterpart is refused with the reason, or
ignored with a log line, unless its value is empty or means the behaviour of this client."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any, Final

from pykafka4.errors import ConfigError, shown
from pykafka4.other_clients import security
from pykafka4.other_clients.source import Properties, Property, read
from pykafka4.other_clients.tables import AS_HERE, JAVA_CLASSES, OPTIONS, PROPERTIES, UNITS, Ignorable, NoCounterpart
from pykafka4.other_clients.translation import Kinds, Translation

__all__ = ["translate"]

BOOLEANS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}  # Java has only true and false
NUMBER: Final = re.compile(r"([+-]?[0-9]{1,20})(\.[0-9]{0,20})?")
RESETS: Final = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest", "error": "none"}


def translate(kinds: Kinds, kind: str, source: Properties, more: Mapping[str, Any]) -> Translation:
    """Translate `source`, except for options in `more`, and log ignored properties. Raises ConfigError, TypeError, OSError."""
    found = Translation(kinds, kind, {item.name: item for item in read(source)}, more)
    for item in found.items.values():
        _take(found, item)
    found.log_ignored()
    return found


def _take(found: Translation, item: Property) -> None:
    option = found.target(item)
    if isinstance(option, NoCounterpart):
        _without(found, item, option)
        return
    owner = option and found.owner(option)
    if option is None or owner is None or ("_" in item.name and not option.startswith(UNCHECKED)):
        raise _unknown(found, item)
    if option not in found.fields():
        raise item.error(f"it is a {owner} option; {found.kind}s do not have it")
    if option in found.given or (item.empty and (item.value is None or item.option_name != "ssl_endpoint_identification_algorithm")):
        return
    rule = RULES.get(item.option_name) or RULES.get(option) or _typed
    value = rule(found, item, option)
    if value is not None:
        found.set(option, item, value, None if option.startswith(UNCHECKED) else _converted(found, item, option, value))


# Options of TLS and SASL are checked when the client is made, so that no error shows a secret. Their properties
# may have names with underscores.
UNCHECKED: Final = ("ssl_", "sasl_", "security_")


def _converted(found: Translation, item: Property, option: str, value: Any) -> Any:
    """Return the checked value. Raises ConfigError with the property's name and place."""
    field = found.fields()[option]
    try:
        converted = value if field.converter is None else field.converter(value)  # type: ignore[operator]
        if field.validator is not None:
            field.validator(None, field, converted)
        return converted
    except ConfigError as error:
        why = "the value is not allowed" if item.secret else str(error).removeprefix(f"{option}={shown(value)}: ")
    raise item.error(why)  # outside `except`: the handled error has the value, and would be the context


def _without(found: Translation, item: Property, why: NoCounterpart) -> None:
    if item.empty or re.fullmatch(AS_HERE.get(item.option_name, "(?!)"), str(item.value), re.IGNORECASE):
        return
    if not isinstance(why, Ignorable):
        raise item.error(f"{why}; remove the property")
    found.ignore(item, why)


def _unknown(found: Translation, item: Property) -> ConfigError:
    """The error does not show the value, because the name may be a misspelt `sasl.jaas.config`."""
    ours, tables = found.fields(), {**OPTIONS, **PROPERTIES}
    names = filter(str.isidentifier, tables)  # leaves out keys with `*` or `/`
    known = [*ours, *(name for name in names if tables[name] in ours or isinstance(tables[name], NoCounterpart))]
    near = difflib.get_close_matches(re.sub("[.-]", "_", item.name).lower(), known, n=1, cutoff=0.75)
    hint = f"did you mean {near[0].replace('_', '.')!r}?" if near else "docs/guide/properties.md says which properties are known"
    return ConfigError(f"{item.where}: unknown {found.kind} property {shown(item.name)}; {hint}")


# -- rules for values


def _typed(found: Translation, item: Property, option: str) -> Any:
    """Convert texts to the option's type, and numbers to the option's unit. The option's check judges other values."""
    value, data = item.value, found.fields()[option].metadata
    if data["range"] == "True, False":
        if (text := str(value).strip().lower()) not in BOOLEANS:
            raise item.error("must be true or false")
        return BOOLEANS[text]
    if not data["unit"]:
        return value if isinstance(value, (bool, Mapping)) or callable(value) else item.text()
    if isinstance(value, str):
        match = NUMBER.fullmatch(value.strip())
        if match is None or (match[2] and data["unit"] not in ("ms", "ratio")):
            of = {"ms": " of milliseconds", "level": "", "ratio": ""}.get(data["unit"], f" of {data['unit']}")
            raise item.error(f"must be a number{of}, in digits only")
        value = float(match[0]) if match[2] else int(match[0])
    return value if isinstance(value, bool) or not isinstance(value, (int, float)) else value * UNITS.get(item.option_name, 1)


def _level(found: Translation, item: Property, option: str) -> Any:
    """The level of one codec (Java) or of the codec in use (librdkafka). None for an unused codec, and for -1 where
    this is the default: in librdkafka, and for Java's gzip."""
    codec, used = item.option_name.split("_")[1], found.said("compression_type") or "none"
    if str(item.value).strip() == "-1" and codec in ("level", "gzip"):
        return None
    if used not in (("gzip", "lz4", "zstd") if codec == "level" else (codec,)):
        found.ignore(item, f"compression_type is {used!r}")
        return None
    return _typed(found, item, option)


def _reset(found: Translation, item: Property, option: str) -> str:
    value = item.text().lower()
    return RESETS.get(value, value)


def _assignors(found: Translation, item: Property, option: str) -> str:
    """Drop unknown names: a group uses an assignor that all members have, so one known name is enough."""
    names = [_of_class(part) for part in item.text().split(",") if part.strip()]
    known = _choices(found, option)
    supported, other = [name for name in names if name in known], [name for name in names if name not in known]
    if not supported:
        raise item.error(f"this version has only {', '.join(known)}; one of them must be in the list, in all members of the group")
    if other:
        found.ignore(item, f"only {', '.join(other)}, which this version lacks")
    return ",".join(supported)


def _partitioner(found: Translation, item: Property, option: str) -> Any:
    """librdkafka's `murmur2`, unlike Java's partitioner, also hashes null keys."""
    value = _of_class(item.text()) if item.name == "partitioner.class" else _typed(found, item, option)
    if item.name == "partitioner" and value == "murmur2":
        return "murmur2_consistent"
    if item.name == "partitioner.class" and value not in _choices(found, option):
        raise item.error(
            f"the Java class {value} cannot be loaded; choose one of the names of the option partitioner, or pass a callable as partitioner"
        )
    return value


def _serializer(found: Translation, item: Property, option: str) -> Any:
    """Without a serializer, `send` accepts bytes and str."""
    return _named_class(found, item, option, "pass a callable as key_serializer or value_serializer, or pass bytes to `send`")


def _deserializer(found: Translation, item: Property, option: str) -> Any:
    """Without a deserializer, keys and values of records are bytes."""
    if not item.text():
        return None
    return _named_class(found, item, option, "pass a callable as key_deserializer or value_deserializer; without one, records have bytes")


def _named_class(found: Translation, item: Property, option: str, instead: str) -> Any:
    value = _of_class(item.text())
    if value in _choices(found, option):
        return value
    found.ignore(item, f"classes of Java cannot be loaded: {instead}")
    return None


def _of_class(name: str) -> str:
    """This client's name for a Java class, or the last part of the class's name."""
    last = name.strip().rpartition(".")[2]
    return JAVA_CLASSES.get(last, last)


def _choices(found: Translation, option: str) -> list[str]:
    return str(found.fields()[option].metadata["range"]).split(", ")


RULES: Final[dict[str, security.Rule]] = {  # keys are names of properties, which are looked up first, or of options
    **security.RULES,
    "auto_offset_reset": _reset,
    "compression_level": _level,
    "group_protocol": lambda found, item, option: item.text().lower(),
    "key_deserializer": _deserializer,
    "key_serializer": _serializer,
    "partition_assignment_strategy": _assignors,
    "partitioner": _partitioner,
    "value_deserializer": _deserializer,
    "value_serializer": _serializer,
}
