"""The dashboard and the alert rules name metrics and labels that exist, and the dashboard shows each kind of client."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pykafka4.metrics.catalogue import CLIENT_ID, DEFINITIONS
from pykafka4.metrics.naming import label_name, sample_name
from pykafka4.metrics.values import Kind

FOLDER = Path(__file__).parents[2] / "docs" / "dashboards"
LABELS = {label_name(label) for defined in DEFINITIONS.values() for label in (CLIENT_ID, *defined.labels)}
SAMPLES = {
    sample_name(defined) + suffix: defined
    for defined in DEFINITIONS.values()
    for suffix in (("_bucket", "_count", "_sum") if defined.kind is Kind.HISTOGRAM else ("",))
}


def expressions(file: str) -> list[str]:
    text = (FOLDER / file).read_text()
    if file.endswith(".json"):
        return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    return re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("expression", [e for file in ("pykafka4.json", "alerts.yml") for e in expressions(file)])
def test_a_query_names_a_metric_that_exists_and_labels_that_it_has(expression: str) -> None:
    words = set(re.findall(r"\b(?:messaging|pykafka4)_\w+", expression))
    metrics = words - LABELS
    assert metrics
    assert metrics <= SAMPLES.keys()
    known = {label_name(label) for name in metrics for label in (CLIENT_ID, *SAMPLES[name].labels)}
    selected = set(re.findall(r"(\w+)(?:=~|!=|=)\"", expression))
    assert (words & LABELS) | selected <= known


@pytest.mark.parametrize("file", ["pykafka4.json", "alerts.yml"])
def test_producers_consumers_and_connections_are_watched(file: str) -> None:
    words = " ".join(expressions(file))
    assert all(name in words for name in ("messaging_client_sent_messages", "pykafka4_consumer_lag", "pykafka4_client_"))


def test_counters_are_shown_by_their_growth() -> None:
    for expression in [*expressions("pykafka4.json"), *expressions("alerts.yml")]:
        for name in re.findall(r"\b(?:messaging|pykafka4)_\w+(?:_total|_bucket|_count|_sum)\b", expression):
            assert re.search(rf"(?:rate|increase)\({name}\b", expression), expression
