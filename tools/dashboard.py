"""Renders the Grafana dashboard docs/dashboards/pykafka4.json. Invariant: each query takes the name of its metric from the catalogue.

`python -m tools.metrics` writes the dashboard, and the table of the guide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import attrs

from pykafka4.metrics.catalogue import CLIENT_ID, DEFINITIONS, ERROR, GROUP, REASON, REQUEST, TOPIC
from pykafka4.metrics.naming import label_name, sample_name
from tools.rendered import ROOT

PAGE = ROOT / "docs" / "dashboards" / "pykafka4.json"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3  # width and height of a panel in Grafana's grid, which has 24 columns; panels in a row
CLIENTS = f'{label_name(CLIENT_ID)}=~"$client"'
SOURCE = {"type": "prometheus", "uid": "${source}"}


@attrs.frozen
class Query:
    """A PromQL expression, and the labels that name its series."""

    expression: str
    by: tuple[str, ...] = ()
    name: str = ""

    @property
    def legend(self) -> str:
        labels = " ".join("{{" + label_name(label) + "}}" for label in (CLIENT_ID, *self.by))
        return f"{self.name} {labels}".strip()


@attrs.frozen
class Panel:
    """A graph. `unit` is the name of a unit in Grafana."""

    title: str
    unit: str
    queries: tuple[Query, ...]


def _grouped(by: tuple[str, ...]) -> str:
    return ", ".join(map(label_name, (CLIENT_ID, *by)))


def rate(name: str, *by: str, where: str = "", title: str = "") -> Query:
    selector = ", ".join(filter(None, (CLIENTS, where)))
    return Query(f"sum by ({_grouped(by)}) (rate({sample_name(DEFINITIONS[name])}{{{selector}}}[$__rate_interval]))", by, title)


def value(name: str, *by: str, title: str = "", fold: str = "sum") -> Query:
    return Query(f"{fold} by ({_grouped(by)}) ({sample_name(DEFINITIONS[name])}{{{CLIENTS}}})", by, title)


def quantile(share: float, name: str, *by: str, where: str = "") -> Query:
    selector = ", ".join(filter(None, (CLIENTS, where)))
    buckets = f"rate({sample_name(DEFINITIONS[name])}_bucket{{{selector}}}[$__rate_interval])"
    grouped = f"sum by (le, {_grouped(by)}) ({buckets})"
    return Query(f"histogram_quantile({share}, {grouped})", by, f"{share:.0%}")


def mean(name: str, *by: str) -> Query:
    parts = (f"rate({sample_name(DEFINITIONS[name])}_{part}{{{CLIENTS}}}[$__rate_interval])" for part in ("sum", "count"))
    return Query(" / ".join(f"sum by ({_grouped(by)}) ({part})" for part in parts), by)


FAILED = f'{label_name(ERROR)}!=""'
PRODUCE = f'{label_name(REQUEST)}="Produce"'
PANELS = (
    Panel("Records sent", "cps", (rate("messaging.client.sent.messages", TOPIC, where=f'{label_name(ERROR)}=""'),)),
    Panel(
        "Records failed and dropped",
        "cps",
        (
            rate("messaging.client.sent.messages", TOPIC, ERROR, where=FAILED),
            rate("pykafka4.producer.messages.dropped", TOPIC, REASON, title="dropped"),
        ),
    ),
    Panel("Time from send to acknowledgement", "s", tuple(quantile(share, "pykafka4.producer.delivery.duration") for share in (0.5, 0.99))),
    Panel("Records consumed", "cps", (rate("messaging.client.consumed.messages", GROUP, TOPIC),)),
    Panel("Lag", "short", (value("pykafka4.consumer.lag", GROUP, TOPIC),)),
    Panel("Rebalances", "cps", (rate("pykafka4.consumer.rebalances", GROUP),)),
    Panel(
        "Records that wait, oldest",
        "s",
        (value("pykafka4.producer.oldest.age", fold="max"), value("pykafka4.consumer.poll.age", GROUP, title="last poll", fold="max")),
    ),
    Panel(
        "Memory",
        "bytes",
        (
            value("pykafka4.producer.buffer.used", title="to send"),
            value("pykafka4.consumer.buffer.used", GROUP, title="fetched"),
            value("pykafka4.consumer.columns.held", GROUP, title="columns"),
        ),
    ),
    Panel("Records per batch, mean", "short", (mean("pykafka4.producer.batch.messages"),)),
    Panel("Produce requests, duration", "s", (quantile(0.99, "pykafka4.client.request.duration", where=PRODUCE),)),
    Panel("Bytes", "Bps", (rate("pykafka4.client.io.sent", title="sent"), rate("pykafka4.client.io.received", title="received"))),
    Panel(
        "Lost connections, failed attempts to connect, failed requests",
        "cps",
        (
            rate("pykafka4.client.connections.lost", title="lost"),
            rate("pykafka4.client.connections.failed", title="attempts"),
            rate("pykafka4.client.requests.failed", REQUEST, title="requests"),
        ),
    ),
)


def panels() -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(PANELS):
        row, column = divmod(number, COLUMNS)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": SOURCE,
            "gridPos": {"h": HEIGHT, "w": WIDTH, "x": column * WIDTH, "y": row * HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query.expression, "legendFormat": query.legend}
                for at, query in enumerate(panel.queries)
            ],
        }


def dashboard() -> dict[str, Any]:
    clients = f"label_values({sample_name(DEFINITIONS['pykafka4.client.connected'])}, {label_name(CLIENT_ID)})"
    return {
        "title": "pykafka4",
        "uid": "pykafka4",
        "tags": ["kafka"],
        "schemaVersion": 39,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
                {
                    "name": "client",
                    "label": "Client",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": {"query": clients, "refId": "clients"},
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": list(panels()),
    }


def render() -> str:
    return json.dumps(dashboard(), indent=1) + "\n"
