"""Renders the table of metrics in docs/guide/metrics-list.md from `pykafka4.metrics.catalogue`, and the dashboard for Grafana.

People write the rest of the page. `python -m tools.metrics` writes both files; with `--check` it only checks that they are up to date.
"""

from __future__ import annotations

import sys

from pykafka4.metrics.catalogue import DEFINITIONS, OPERATION, OPERATION_TYPE, SYSTEM
from pykafka4.metrics.naming import label_name, sample_name
from pykafka4.metrics.values import Definition
from tools import dashboard
from tools.rendered import ROOT, write_or_check

PAGE = ROOT / "docs" / "guide" / "metrics-list.md"
BEGIN, END = "<!-- rendered by make metrics: begin -->\n", "<!-- rendered by make metrics: end -->\n"
CONSTANT = (SYSTEM, OPERATION, OPERATION_TYPE)  # labels of all `messaging.` metrics: the page names them once
PARTS = (
    ("Every client", ("pykafka4.client.", "messaging.client.operation.")),
    ("Producers", ("messaging.client.sent.", "pykafka4.producer.")),
    ("Consumers", ("messaging.client.consumed.", "pykafka4.consumer.")),
    ("Share consumers", ("pykafka4.share.",)),
)


def table(prefixes: tuple[str, ...]) -> str:
    rows = ["| Prometheus, OpenTelemetry | kind, unit | meaning, labels |", "|---|---|---|"]
    rows += [row(defined) for name, defined in DEFINITIONS.items() if name.startswith(prefixes)]
    return "\n".join(rows) + "\n"


def row(defined: Definition) -> str:
    labels = ", ".join(f"`{label_name(label)}`" for label in defined.labels if label not in CONSTANT)
    unit = defined.unit.replace("{", "").replace("}", "")
    names = f"`{sample_name(defined)}`<br>`{defined.name}`"  # two columns of names would leave no room for the meaning
    meaning = f"{defined.description}<br>{labels}" if labels else defined.description
    return f"| {names} | {defined.kind.value}, {unit} | {meaning} |"


def render(page: str) -> str:
    head, rest = page.split(BEGIN)
    tail = rest.split(END)[1]
    parts = "".join(f"## {title}\n\n{table(prefixes)}\n" for title, prefixes in PARTS)
    return f"{head}{BEGIN}\n{parts}{END}{tail}"


def main() -> int:
    return write_or_check({PAGE: render(PAGE.read_text()), dashboard.PAGE: dashboard.render()}, "metrics")


if __name__ == "__main__":
    sys.exit(main())
