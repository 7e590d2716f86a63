"""The encoding of metrics: read back field by field, with the numbers of the published .proto files."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pykafka4.core.telemetry.otlp import DELTA, Gauge, Sum, encode

Fields = dict[int, list[Any]]


def fields(data: bytes) -> Fields:
    """The fields of a message by number: integers for varints, bytes otherwise."""
    found: Fields = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.setdefault(number, []).append(varint())
        else:
            size = 8 if kind == 1 else varint()
            found.setdefault(number, []).append(data[at : at + size])
            at += size
    assert at == len(data)
    return found


def attributes(pairs: list[bytes]) -> dict[bytes, bytes]:
    return {fields(pair)[1][0]: fields(fields(pair)[2][0])[1][0] for pair in pairs}


def test_metrics_are_encoded_as_opentelemetry_defines() -> None:
    long = "n" * 300  # its length takes two bytes
    data = encode([Gauge(long, 1.5, {"node_id": "node-1"}), Sum("sum", 3.0, DELTA)], {"group_id": "größe"}, 5, 1 << 62)
    (resource_metrics,) = fields(data)[1]
    (resource,), (scope_metrics,) = fields(resource_metrics)[1], fields(resource_metrics)[2]
    assert attributes(fields(resource)[1]) == {b"group_id": "größe".encode()}
    assert fields(fields(scope_metrics)[1][0]) == {1: [b"pykafka4"]}
    gauge, total = (fields(metric) for metric in fields(scope_metrics)[2])
    assert (gauge[1], total[1]) == ([long.encode()], [b"sum"])
    (point,) = (fields(one) for one in fields(gauge[5][0])[1])
    assert (struct.unpack("<Q", point[3][0]), struct.unpack("<d", point[4][0])) == ((1 << 62,), (1.5,))
    assert attributes(point[7]) == {b"node_id": b"node-1"}
    assert 2 not in point
    summed = fields(total[7][0])
    assert (summed[2], summed[3]) == ([DELTA], [1])  # temporality, monotonic
    assert struct.unpack("<Q", fields(summed[1][0])[2][0]) == (5,)


@pytest.mark.parametrize("size", [127, 128, 129, 16_383, 16_384])
def test_lengths_at_the_limits_of_a_byte_are_read_back(size: int) -> None:
    (resource_metrics,) = fields(encode([Gauge("n" * size, 1.0)], {}, 5, 6))[1]
    (scope_metrics,) = fields(resource_metrics)[2]
    assert fields(fields(scope_metrics)[2][0])[1] == [b"n" * size]
