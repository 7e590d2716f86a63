"""Declares metrics and their kinds. Invariant: metrics with the same name have the same kind, unit and description."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Literal, TypeAlias

import attrs

from pykafka4.core.histogram import Histogram

__all__ = ["By", "Definition", "Histogram", "Kind", "Metric"]

By: TypeAlias = Literal["client", "topic", "partition"]


class Kind(Enum):
    """The meaning of a value over time."""

    COUNTER = "counter"  # grows from 0 while the client lives
    GAUGE = "gauge"  # the state of this moment
    HISTOGRAM = "histogram"  # growing counts of values, by size


@attrs.frozen
class Definition:
    """The fixed part of a metric. `labels` names the labels that a value may have, besides the labels of its client."""

    name: str
    kind: Kind
    unit: str
    description: str
    labels: tuple[str, ...] = ()


@attrs.frozen
class Metric:
    """One figure of a client. `unit` is a UCUM unit, in OpenTelemetry's spelling: `s`, `By`, `1`, `{message}`.

    `value` is a Histogram if `kind` is HISTOGRAM. `labels` has only labels with a value.
    """

    name: str
    kind: Kind
    unit: str
    description: str
    labels: Mapping[str, str]
    value: float | Histogram
