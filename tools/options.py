"""Renders docs/options.md and pykafka4/options/typed.py from `pykafka4.options.config`, and the page of the agent's settings.

None of these files is edited by hand. `python -m tools.options` writes them; with `--check` it only checks that they are up to date.
"""

from __future__ import annotations

import sys

import attrs

from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.security import SecurityConfig
from pykafka4.options.share import ShareConsumerConfig
from tools import agent_settings
from tools.rendered import ROOT, write_or_check

PAGE, MODULE = ROOT / "docs" / "options.md", ROOT / "pykafka4" / "options" / "typed.py"
CLASSES = (
    ("SecurityOptions", "TypedDict", SecurityConfig, "Options of encryption and authentication."),
    ("ClientOptions", "SecurityOptions", ClientConfig, "Options of every client, producer and consumer."),
    ("ProducerOptions", "ClientOptions", ProducerConfig, "Options of producers."),
    ("BytesConsumerOptions", "ClientOptions", ConsumerConfig, "Options of consumers, without deserializers: keys and values are bytes."),
    ("ConsumerOptions", "BytesConsumerOptions", ConsumerConfig, "Options of consumers."),
    ("ShareConsumerOptions", "ClientOptions", ShareConsumerConfig, "Options of share consumers."),
)
MODULE_HEAD = '''"""Declares the options as types, for type checkers and editors; rendered by `make options` from `pykafka4.options.config`.

`KAFKA: ClientOptions = {"bootstrap_servers": "host:9092"}` is a plain dict; `Producer(**KAFKA)` is checked by name and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias, TypedDict

from pykafka4.assignors.interface import Assignor
from pykafka4.partitioners import PartitionFunction
from pykafka4.serializers import Deserializers, Serializers

__all__ = [
    "BytesConsumerOptions",
    "ClientOptions",
    "ConsumerOptions",
    "ProducerOptions",
    "Secret",
    "SecurityOptions",
    "Servers",
    "ShareConsumerOptions",
]

Servers: TypeAlias = str | Iterable[str | tuple[str, int]]
Secret: TypeAlias = str | Callable[[], str] | None
'''
DESERIALIZERS = ("key_deserializer", "value_deserializer")  # the options on which the types of keys and values depend
PARTS = (
    ("Every client", ClientConfig),
    ("Security", SecurityConfig),
    ("Producer", ProducerConfig),
    ("Consumer", ConsumerConfig),
    ("Share consumer", ShareConsumerConfig),
)
INTRODUCTION = """# Options

<!-- Rendered from `pykafka4/options/config.py` by `make options`: change the options there. -->

Producers and consumers take the options of every client and their own. Names are Kafka's, with underscores. Options that end in `_ms` are
in milliseconds, `timeout` arguments of methods in seconds.
"""


def default_of(name: str, default: object) -> str:
    if name == "acks":
        return "all"
    return ", ".join(default) or "none" if isinstance(default, tuple) else str(default)


def inherited(cls: type[SecurityConfig]) -> set[str]:
    return {a.name for a in attrs.fields(cls.__base__)} if cls is not SecurityConfig else set()  # type: ignore[arg-type]


def typed(cls: type[SecurityConfig]) -> list[tuple[str, str]]:
    """(name, type) of each option that `cls` adds to its base; the type is for calls."""
    base = inherited(cls)
    special = {
        "bootstrap_servers": "Servers",
        "proxy_url": "str | None",
        "allowed_hosts": "str | Iterable[str] | None",
        "acks": "str | int",
        "partitioner": "str | PartitionFunction",
        # `object`, not Any: an argument with Any in its type makes type checkers give up the choice between overloads
        "ssl_context": "object",
        "sasl_oauth_token": "Callable[[], object] | None",
        "hooks": "Any",
        "auto_offset_reset": "str | timedelta",
        "partition_assignment_strategy": "str | Assignor | Iterable[str | Assignor]",
        "topic_policies": "Mapping[str, Mapping[str, Any]]",
        "rate_limits": "Mapping[str, tuple[int, float] | None]",
    }
    return [(a.name, special.get(a.name, str(a.type))) for a in attrs.fields(cls) if a.name not in base]


def describe(cls: type[SecurityConfig]) -> list[tuple[str, str, str, str, str]]:
    """(name, default, unit, range, meaning) of each option that `cls` adds to its base."""
    base = inherited(cls)
    rows = []
    for a in attrs.fields(cls):
        if a.name not in base:
            default = "required" if a.default is attrs.NOTHING else default_of(a.name, a.default)
            rows.append((a.name, default, a.metadata["unit"], a.metadata["range"], a.metadata["doc"]))
    return rows


def table(cls: type[SecurityConfig]) -> str:
    rows = ["| option | default | unit | range | meaning |", "|---|---|---|---|---|"]
    for name, default, unit, span, meaning in describe(cls):
        rows.append(f"| `{name}` | {shown(default)} | {unit} | {span} | {meaning} |")
    return "\n".join(rows)


def shown(default: str) -> str:
    """A default as text, with commas in a large number."""
    return f"{int(default):,}" if default.isdecimal() else default


def render() -> str:
    return INTRODUCTION + "".join(f"\n## {title}\n\n{table(cls)}\n" for title, cls in PARTS)


def module() -> str:
    text = MODULE_HEAD
    for name, base, cls, meaning in CLASSES:
        options = [row for row in typed(cls) if cls is not ConsumerConfig or (row[0] in DESERIALIZERS) == (name == "ConsumerOptions")]
        rows = "".join(f"    {option}: {kind}\n" for option, kind in options)
        text += f'\n\nclass {name}({base}, total=False):\n    """{meaning}"""\n\n{rows}'
    return text


def main() -> int:
    return write_or_check({PAGE: render(), MODULE: module(), agent_settings.PAGE: agent_settings.render()}, "options")


if __name__ == "__main__":
    sys.exit(main())
