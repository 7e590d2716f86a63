"""Options. Rule: docs/options.md is rendered from `pykafka4.config` and never edited by hand.

`python -m tools.options` writes it; with `--check` it only says whether the file is what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pykafka4.config import ClientConfig, ConsumerConfig, ProducerConfig, describe

PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
PARTS = (("Every client", ClientConfig), ("Producer", ProducerConfig), ("Consumer", ConsumerConfig))
INTRODUCTION = """# Options

Rendered from `pykafka4/config.py` by `make options`; change the options there. Producers and consumers take the options of every client as
well as their own. Names are Kafka's with underscores; options ending in `_ms` are milliseconds, `timeout` arguments of methods are seconds.
"""


def table(cls: type[ClientConfig]) -> str:
    rows = ["| option | default | unit | range | meaning |", "|---|---|---|---|---|"]
    for name, default, unit, span, meaning in describe(cls):
        rows.append(f"| `{name}` | {shown(default)} | {unit} | {span} | {meaning} |")
    return "\n".join(rows)


def shown(default: str) -> str:
    """Large numbers are read more easily with their commas."""
    return f"{int(default):,}" if default.isdecimal() else default


def render() -> str:
    return INTRODUCTION + "".join(f"\n## {title}\n\n{table(cls)}\n" for title, cls in PARTS)


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        current = PAGE.exists() and PAGE.read_text() == render()
        if not current:
            print("docs/options.md is not what pykafka4/config.py says: make options", file=sys.stderr)
        return 0 if current else 1
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main())
