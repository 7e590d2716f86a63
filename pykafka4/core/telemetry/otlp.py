"""Encodes metrics in OpenTelemetry's protocol, version 1. Invariant: field numbers are the numbers in the published .proto files.

In protocol buffers a field is a varint of number and kind, then its value; an embedded message is a field of bytes. Source:
opentelemetry-proto 1.x, `metrics.proto`, `common.proto`, `resource.proto`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pykafka4.wire.protocol.emitted import uvarint

__all__ = ["DELTA", "TOTAL", "Gauge", "Sum", "encode"]

VARINT, FIXED64, BYTES = 0, 1, 2  # kinds of fields
DELTA, TOTAL = 1, 2  # aggregation temporality of a sum: since the last push, or since the start
TRUE: Final = 1


@attrs.frozen
class Gauge:
    """A metric with a current value."""

    name: str
    value: float
    attributes: Mapping[str, str] = attrs.Factory(dict)


@attrs.frozen
class Sum:
    """A metric that only grows, counted from `start_ns` of `encode`. `temporality` is DELTA or TOTAL."""

    name: str
    value: float
    temporality: int
    attributes: Mapping[str, str] = attrs.Factory(dict)


def encode(metrics: Iterable[Gauge | Sum], resource: Mapping[str, str], start_ns: int, now_ns: int) -> bytes:
    """A `MetricsData` message. Times are nanoseconds since 1970; sums count from `start_ns`."""
    points = [_metric(metric, start_ns, now_ns) for metric in metrics]
    scope = _text(1, "pykafka4")
    scoped = _bytes(1, scope) + b"".join(_bytes(2, point) for point in points)
    return _bytes(1, _bytes(1, _attributes(1, resource)) + _bytes(2, scoped))


def _metric(metric: Gauge | Sum, start_ns: int, now_ns: int) -> bytes:
    times = _fixed(3, now_ns) if isinstance(metric, Gauge) else _fixed(2, start_ns) + _fixed(3, now_ns)
    point = _bytes(1, times + _double(4, metric.value) + _attributes(7, metric.attributes))
    if isinstance(metric, Gauge):
        return _text(1, metric.name) + _bytes(5, point)
    return _text(1, metric.name) + _bytes(7, point + _number(2, metric.temporality) + _number(3, TRUE))


def _attributes(field: int, attributes: Mapping[str, str]) -> bytes:
    return b"".join(_bytes(field, _text(1, name) + _bytes(2, _text(1, value))) for name, value in attributes.items())


def _tag(field: int, kind: int) -> bytes:
    return uvarint(field << 3 | kind)


def _number(field: int, value: int) -> bytes:
    return _tag(field, VARINT) + uvarint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _tag(field, BYTES) + uvarint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _fixed(field: int, value: int) -> bytes:
    return _tag(field, FIXED64) + struct.pack("<Q", value)


def _double(field: int, value: float) -> bytes:
    return _tag(field, FIXED64) + struct.pack("<d", value)
