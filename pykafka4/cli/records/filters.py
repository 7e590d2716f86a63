"""Filters records by keys and headers. Without a filter a list passes unchanged, because a check of each record takes time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from pykafka4.cli.records.template import Records, to_bytes
from pykafka4.wire.records.hot import Record

__all__ = ["Chosen", "chosen_by"]

Chosen: TypeAlias = Callable[[Records], Records]


def chosen_by(keys: Iterable[str], headers: Sequence[str]) -> Chosen:
    """Make a filter for records with one of these keys (if there are any), and with all these headers (`NAME` or `NAME=VALUE`)."""
    tests: list[Callable[[Record[Any, Any]], bool]] = [_has_header(*header.partition("=")) for header in headers]
    if wanted := frozenset(to_bytes(key) for key in keys):
        tests.append(lambda record: record.key in wanted)
    if not tests:
        return _all
    return lambda records: [record for record in records if all(test(record) for test in tests)]


def _all(records: Records) -> Records:
    return records


def _has_header(name: str, equals: str, value: str) -> Callable[[Record[Any, Any]], bool]:
    if not equals:
        return lambda record: any(each == name for each, _ in record.headers)
    wanted = name, to_bytes(value)
    return lambda record: wanted in record.headers
