"""Serializers. Rule: a value that a serializer does not take is refused with topic, serializer and type; nothing is converted silently.

A serializer is called with the topic and a key or value that is not None (None stays a null), on the thread that sends, and returns bytes,
str (sent as UTF-8) or None. The options `key_serializer` and `value_serializer` name one of `NAMED`, or are a callable, or map
names and patterns of topics to either; which of them counts is the rule of `policies`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.policies import Matcher

__all__ = [
    "NAMED",
    "Serializer",
    "Serializers",
    "TopicSerializers",
    "bytes_serializer",
    "json_serializer",
    "parse_key_serializers",
    "parse_value_serializers",
    "serializer_finder",
    "str_serializer",
]

Serializer: TypeAlias = Callable[[str, Any], bytes | str | None]
Serializers: TypeAlias = str | Serializer | Mapping[str, str | Serializer]


@attrs.frozen
class TopicSerializers:
    """An option that is a mapping. It can be hashed, as a configuration is a key of the pool of `pykafka4.spark`."""

    rows: tuple[tuple[str, str | Serializer], ...]


def bytes_serializer(topic: str, value: Any) -> bytes:
    """Bytes as they are (bytes, bytearray, memoryview). Raises TypeError for anything else, also for str."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{topic}: the serializer 'bytes' takes bytes, not {type(value).__name__}; encode it first, or use 'str' or 'json'")


def str_serializer(topic: str, value: Any) -> bytes:
    """A str as UTF-8, as Java's StringSerializer does. Raises TypeError for anything else, UnicodeEncodeError for lone surrogates."""
    if isinstance(value, str):
        return str.encode(value)
    raise TypeError(f"{topic}: the serializer 'str' takes str, not {type(value).__name__}; pass str(…) of it, or use 'bytes' or 'json'")


def json_serializer(topic: str, value: Any) -> bytes:
    """Compact JSON in UTF-8. Raises TypeError for objects that JSON does not have, ValueError for NaN, infinity and circular references."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        error.add_note(f"{topic}: the serializer 'json' takes what json.dumps takes, but not {type(value).__name__} with this content")
        raise


NAMED: Final[dict[str, Serializer]] = {"bytes": bytes_serializer, "json": json_serializer, "str": str_serializer}


def parse_key_serializers(given: Any) -> Any:
    """The option `key_serializer`."""
    return _parse("key_serializer", given)


def parse_value_serializers(given: Any) -> Any:
    """The option `value_serializer`."""
    return _parse("value_serializer", given)


def _parse(option: str, given: object) -> str | Serializer | TopicSerializers | None:
    """`given`, if it is a value of `option`, with a mapping as TopicSerializers. Raises ConfigError naming both."""
    if given is None or isinstance(given, TopicSerializers):
        return given
    if not isinstance(given, Mapping):
        return _parse_one(option, given)
    for pattern in given:
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"{option}: {shown(pattern)} is no pattern of topic names, such as 'orders' or 'orders-*'")
    return TopicSerializers(tuple((str.__str__(pattern), _parse_one(f"{option}[{pattern!r}]", one)) for pattern, one in given.items()))


def _parse_one(option: str, given: object) -> str | Serializer:
    if isinstance(given, str) and given in NAMED:
        return str.__str__(given)
    if callable(given):
        return given
    raise ConfigError(
        f"{option}={shown(given)}: must be one of {', '.join(NAMED)}, a callable with the arguments topic and value, "
        "or a mapping of topic patterns to these"
    )


def serializer_finder(given: Any) -> Callable[[str], Serializer | None]:
    """What finds the serializer of a topic in an option's value. It finds None if there is none: then bytes and str are sent."""
    if isinstance(given, TopicSerializers):
        return Matcher({pattern: _called(one) for pattern, one in given.rows})
    serializer = None if given is None else _called(given)
    return lambda topic: serializer


def _called(one: str | Serializer) -> Serializer:
    return NAMED[one] if isinstance(one, str) else one
