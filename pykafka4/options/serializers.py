"""Parses the options that name serializers and deserializers: a name, a callable, or a mapping from topic names and patterns to either.

`policies.Matcher` chooses the entry of a mapping for a topic.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.options.policies import Matcher
from pykafka4.serializers import NAMED, NAMED_DESERIALIZERS, Serializer

__all__ = [
    "Deserialize",
    "TopicSerializers",
    "deserializer_finder",
    "parse_key_deserializers",
    "parse_key_serializers",
    "parse_value_deserializers",
    "parse_value_serializers",
    "serializer_finder",
]

Deserialize: TypeAlias = Callable[[str, bytes, Any], Any]  # with topic, data and record


@attrs.frozen
class TopicSerializers:
    """The value of an option that was given as a mapping. Hashable, if its callables are, for the pool of `pykafka4.spark`."""

    rows: tuple[tuple[str, str | Callable[..., Any]], ...]


@attrs.frozen
class Kind:
    noun: str
    named: Mapping[str, Callable[..., Any]]
    arguments: str  # the arguments of a callable, for messages
    most: int  # the largest number of these arguments


SERIALIZER: Final = Kind("serializer", NAMED, "topic and value, or only the value", 2)
DESERIALIZER: Final = Kind("deserializer", NAMED_DESERIALIZERS, "topic and data, or topic, data and headers, or only the data", 3)


def parse_key_serializers(given: Any) -> Any:
    return _parse("key_serializer", SERIALIZER, given)


def parse_value_serializers(given: Any) -> Any:
    return _parse("value_serializer", SERIALIZER, given)


def parse_key_deserializers(given: Any) -> Any:
    return _parse("key_deserializer", DESERIALIZER, given)


def parse_value_deserializers(given: Any) -> Any:
    return _parse("value_deserializer", DESERIALIZER, given)


def _parse(option: str, kind: Kind, given: object) -> str | Callable[..., Any] | TopicSerializers | None:
    """Check `given`, and turn a mapping into TopicSerializers. Raises ConfigError."""
    if given is None or isinstance(given, TopicSerializers):
        return given
    if not isinstance(given, Mapping):
        return _parse_one(option, kind, given)
    for pattern in given:
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"{option}: {shown(pattern)} must be the name of a topic, or a pattern such as 'orders-*'")
    return TopicSerializers(
        tuple((str.__str__(pattern), _parse_one(f"{option}[{pattern!r}]", kind, one)) for pattern, one in given.items())
    )


def _parse_one(option: str, kind: Kind, given: object) -> str | Callable[..., Any]:
    if isinstance(given, str) and given in kind.named:
        return str.__str__(given)
    if given is str:  # str(b"x") is "b'x'", and str(topic, data) raises TypeError
        raise ConfigError(f'{option}=str: the class neither encodes nor decodes; pass the name: {option}="str"')
    if callable(given):
        if (needed := _needed(given)) > kind.most:
            raise ConfigError(f"{option}={shown(given)}: needs {needed} arguments; a {kind.noun} gets {kind.arguments}")
        return given
    raise ConfigError(f"{option}={shown(given)}: must be one of {', '.join(kind.named)}, or a callable with {kind.arguments}")


def serializer_finder(given: Any) -> Callable[[str], Serializer | None]:
    """Return a function of a topic, which returns a serializer, or None if the topic's bytes and str are sent as they are."""
    return _finder(given, _serializer)


def deserializer_finder(given: Any) -> Callable[[str], Deserialize | None]:
    """Return a function of a topic, which returns a callable with topic, data and record, or None."""
    return _finder(given, _deserializer)


def _finder(given: Any, called: Callable[[Any], Any]) -> Callable[[str], Any]:
    if isinstance(given, TopicSerializers):
        return Matcher({pattern: called(one) for pattern, one in given.rows})
    found = None if given is None else called(given)
    return lambda topic: found


def _serializer(one: str | Callable[..., Any]) -> Serializer:
    if isinstance(one, str):
        return NAMED[one]
    if _needed(one) != 1:
        return one
    alone: Any = one  # takes the value only, as serializers of kafka-python do
    return lambda topic, value: alone(value)


def _deserializer(one: str | Callable[..., Any]) -> Deserialize:
    given: Any = NAMED_DESERIALIZERS[one] if isinstance(one, str) else one
    needed = _needed(given, unknown=1)  # builtin classes such as int have no signature, and take the data only
    if needed <= 1:
        return lambda topic, data, record: given(data)
    if needed == 2:
        return lambda topic, data, record: given(topic, data)
    return lambda topic, data, record: given(topic, data, record.headers)


def _needed(serializer: Callable[..., Any], unknown: int = 2) -> int:
    """The number of positional arguments without a default; 2 if a callable takes any number, `unknown` if it has no signature."""
    try:
        parameters = inspect.signature(serializer).parameters.values()
    except (TypeError, ValueError):
        return unknown
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    return sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.default is parameter.empty
        for parameter in parameters
    )
