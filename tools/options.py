"""Renders docs/options.md and pykafka4/options/typed.py from `pykafka4.options.config`; neither is ever edited by hand.

`python -m tools.options` writes them; with `--check` it only checks that they are up to date.
"""

from __future__ import annotations

import sys

from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig, describe, typed
from pykafka4.options.security import SecurityConfig
from pykafka4.options.share import ShareConsumerConfig
from tools.rendered import ROOT, write_or_check

PAGE, MODULE = ROOT / "docs" / "options.md", ROOT / "pykafka4" / "options" / "typed.py"
CLASSES = (
    ("SecurityOptions", "TypedDict", SecurityConfig, "Options of encryption and authentication."),
    ("ClientOptions", "SecurityOptions", ClientConfig, "Options of every client, producer and consumer."),
    ("ProducerOptions", "ClientOptions", ProducerConfig, "Options of producers."),
    ("ConsumerOptions", "ClientOptions", ConsumerConfig, "Options of consumers."),
    ("ShareConsumerOptions", "ClientOptions", ShareConsumerConfig, "Options of share consumers."),
)
MODULE_HEAD = '''"""Options as types, for type checkers and editors. Rule: rendered from `pykafka4.options.config` by `make options`.

`KAFKA: ClientOptions = {"bootstrap_servers": "host:9092"}` is a plain dict; `Producer(**KAFKA)` is checked by name and type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict

from pykafka4.assignors.interface import Assignor
from pykafka4.partitioners import PartitionFunction
from pykafka4.serializers import Serializers

__all__ = ["ClientOptions", "ConsumerOptions", "ProducerOptions", "Secret", "SecurityOptions", "Servers", "ShareConsumerOptions"]

Servers: TypeAlias = str | Iterable[str | tuple[str, int]]
Secret: TypeAlias = str | Callable[[], str] | None
'''
PARTS = (
    ("Every client", ClientConfig),
    ("Security", SecurityConfig),
    ("Producer", ProducerConfig),
    ("Consumer", ConsumerConfig),
    ("Share consumer", ShareConsumerConfig),
)
INTRODUCTION = """# Options

Rendered from `pykafka4/options/config.py` by `make options`; change the options there. Producers and consumers take the options of
every client as well as their own. Names are Kafka's with underscores; options ending in `_ms` are milliseconds, `timeout` arguments
of methods are seconds.
"""


def table(cls: type[SecurityConfig]) -> str:
    rows = ["| option | default | unit | range | meaning |", "|---|---|---|---|---|"]
    for name, default, unit, span, meaning in describe(cls):
        rows.append(f"| `{name}` | {shown(default)} | {unit} | {span} | {meaning} |")
    return "\n".join(rows)


def shown(default: str) -> str:
    """Large numbers are read more easily with their commas."""
    return f"{int(default):,}" if default.isdecimal() else default


def render() -> str:
    return INTRODUCTION + "".join(f"\n## {title}\n\n{table(cls)}\n" for title, cls in PARTS)


def module() -> str:
    text = MODULE_HEAD
    for name, base, cls, meaning in CLASSES:
        rows = "".join(f"    {option}: {kind}\n" for option, kind in typed(cls))
        text += f'\n\nclass {name}({base}, total=False):\n    """{meaning}"""\n\n{rows}'
    return text


def main() -> int:
    return write_or_check({PAGE: render(), MODULE: module()}, "options")


if __name__ == "__main__":
    sys.exit(main())
