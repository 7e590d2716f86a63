"""Makes names for Prometheus: replaces dots with `_`, and appends the unit, and `_total` for counters.

Source: OpenTelemetry, "Prometheus and OpenMetrics Compatibility".
"""

from __future__ import annotations

from typing import Final

from pykafka4.metrics.values import Definition, Kind

__all__ = ["family_name", "label_name", "sample_name"]

UNITS: Final = {"s": "seconds", "By": "bytes"}  # `1` and units in braces are left out


def label_name(label: str) -> str:
    """The name of a label: `messaging.destination.name` becomes `messaging_destination_name`."""
    return label.replace(".", "_")


def family_name(definition: Definition) -> str:
    """The name without `_total`: `pykafka4.client.io.sent` becomes `pykafka4_client_io_sent_bytes`."""
    name, unit = label_name(definition.name), UNITS.get(definition.unit, "")
    return f"{name}_{unit}" if unit and not name.endswith(f"_{unit}") else name


def sample_name(definition: Definition) -> str:
    """The name in queries. To the name of a histogram, Prometheus appends `_bucket`, `_count` or `_sum`."""
    return family_name(definition) + ("_total" if definition.kind is Kind.COUNTER else "")
