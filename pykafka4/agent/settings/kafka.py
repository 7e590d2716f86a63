"""Checks the options of the producer in [kafka], under the producer's names or the dotted names of other clients.

Invariant: no error shows a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pykafka4.agent.settings.fields import to_bytes
from pykafka4.errors import ConfigError
from pykafka4.options.config import ProducerConfig
from pykafka4.options.from_properties import translate
from pykafka4.options.policies import SETTINGS

__all__ = ["options_of"]

# Options that [kafka] must not have: option -> reason or way out.
ELSEWHERE: Final = {
    **{name: f"set it in [topics.default]: {name}" for name in SETTINGS},
    "topic_policies": 'set them in [topics."name"]',
    "rate_limits": 'set them in [topics."name"]: rate_limit',
    "on_rate_limit": "the agent discards messages over a rate_limit, and reports them",
    "buffer_memory": "set it in [inputs]: max_buffer",
    "on_full": "the agent never waits",
    "max_block_ms": "the agent never waits",
    "allow_auto_create_topics": "set it in [topics]: autocreate",
    "close_timeout_ms": "set it in [service]: shutdown_ms",
    "partitioner": "each message chooses: AnyPartition or PartitionKey",
    "partitioner_ignore_keys": "each message chooses: AnyPartition or PartitionKey",
    "transactional_id": "messages of the agent belong to no transaction",
    "hooks": "the agent has its own",
    "key_serializer": "keys of messages are bytes",
    "value_serializer": "values of messages are bytes",
}
# Tables that can be written as keys. TOML reads such keys as options of [kafka] if they follow the line `[kafka]`.
OF_THE_FILE: Final = ("spool", "discard_log")
MAPPING: Final = "the mapping: "

Problem = tuple[tuple[str, ...], str]


def options_of(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The producer's options, and the problems. Each problem has its keys below [kafka]."""
    flat = dict(_flat(table))
    fields = attrs.fields_dict(ProducerConfig)
    own = {keys[0]: _sized(keys[0], value) for keys, value in flat.items() if len(keys) == 1 and "." not in keys[0]}
    foreign = {".".join(keys): value for keys, value in flat.items() if ".".join(keys) not in own}
    problems: list[Problem] = [((name,), f"kafka.{name}: {ELSEWHERE[name]}") for name in own if name in ELSEWHERE]
    options: dict[str, Any] = {}
    try:
        translated = translate(ProducerConfig, foreign, own) if foreign else None
        options = dict(translated.options) if translated else {}
    except ConfigError as error:
        text = str(error).removeprefix(MAPPING)
        keys = next((keys for keys in flat if text.startswith(name := ".".join(keys)) or f"'{name}'" in text), ())
        problems.append((keys, f"kafka.{text}" if keys and text.startswith(".".join(keys)) else f"kafka.{'.'.join(keys)}: {text}"))
    problems += [((), f"kafka.{name}: {ELSEWHERE[name]}") for name in options if name in ELSEWHERE]
    for name, value in own.items():
        if name not in ELSEWHERE:
            problems += _problems_of(name, value, fields)
    options = {**options, **own}
    if not problems:  # options that are valid one by one might not fit together
        try:
            ProducerConfig.parse(options)
        except ConfigError as error:
            found = re.match(r"\w+", str(error))
            problems.append(((found[0],) if found else (), f"kafka.{error}"))
    return options, problems


def _sized(name: str, value: Any) -> Any:
    """Convert a size from text to bytes, as the other tables do."""
    field = attrs.fields_dict(ProducerConfig).get(name)
    return to_bytes(value) if field is not None and field.metadata["unit"] == "bytes" else value


def _flat(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values with their keys. TOML reads `bootstrap.servers = "x"` as a table `bootstrap` with a key `servers`."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, (*above, key))
        else:
            yield (*above, key), value


def _problems_of(name: str, value: Any, fields: Mapping[str, attrs.Attribute[Any]]) -> list[Problem]:
    if name in OF_THE_FILE:
        return [((name,), f"kafka.{name}: [{name}] is a table of its own; as a key it must come before the first table")]
    try:
        if name not in fields:
            ProducerConfig.parse({name: value})
        field: Any = fields[name]
        made = value if field.converter is None else field.converter(value)
        if field.validator is not None:
            field.validator(None, field, made)
    except ConfigError as error:
        text = str(error)
        return [((name,), f"kafka.{text}" if text.startswith(name) else f"kafka.{repr(name)[1:-1]}: {text}")]
    return []
