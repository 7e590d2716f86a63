"""Reads the options `key_serializer` and `value_serializer`: a name, a callable, or a mapping from topic names and patterns to either.

Which entry of a mapping applies to a topic is the rule of `policies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.options.policies import Matcher
from pykafka4.serializers import NAMED, Serializer

__all__ = ["TopicSerializers", "parse_key_serializers", "parse_value_serializers", "serializer_finder"]


@attrs.frozen
class TopicSerializers:
    """An option that is a mapping. It can be hashed, as a configuration is a key of the pool of `pykafka4.spark`."""

    rows: tuple[tuple[str, str | Serializer], ...]


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
        if (needed := _needed(given)) > 2:
            raise ConfigError(f"{option}={shown(given)}: needs {needed} arguments; a serializer gets topic and value, or only the value")
        return given
    raise ConfigError(
        f"{option}={shown(given)}: must be one of {', '.join(NAMED)}, a callable with the arguments topic and value (or only the value), "
        "or a mapping of topic patterns to these"
    )


def serializer_finder(given: Any) -> Callable[[str], Serializer | None]:
    """What finds the serializer of a topic in an option's value. It finds None if there is none: then bytes and str are sent."""
    if isinstance(given, TopicSerializers):
        return Matcher({pattern: _called(one) for pattern, one in given.rows})
    serializer = None if given is None else _called(given)
    return lambda topic: serializer


def _called(one: str | Serializer) -> Serializer:
    if isinstance(one, str):
        return NAMED[one]
    if _needed(one) != 1:
        return one
    alone: Any = one  # as a serializer of kafka-python
    return lambda topic, value: alone(value)


def _needed(serializer: Callable[..., Any]) -> int:
    """The number of positional arguments without a default; 2 if the interpreter does not know, or takes any number."""
    try:
        parameters = inspect.signature(serializer).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    return sum(
        parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) and parameter.default is parameter.empty
        for parameter in parameters
    )
