"""The two ends of a bounded read: what each form means, and the offset ranges that follow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pykafka4.bounds import EARLIEST, LATEST, Span, as_bound, as_bounds, as_selection
from pykafka4.errors import ConfigError
from pykafka4.records import TopicPartition

NOW = 1_800_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("value", "timestamp"),
    [
        ("earliest", EARLIEST),
        ("latest", LATEST),
        ("now", LATEST),
        (1_700_000_000_000, 1_700_000_000_000),
        (datetime(2026, 1, 1, tzinfo=UTC), 1_767_225_600_000),
        (datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 1_767_225_600_000),
        ("-1h", NOW - 3_600_000),
        ("-30m", NOW - 1_800_000),
        ("-7d", NOW - 7 * 86_400_000),
        ("-2w", NOW - 14 * 86_400_000),
        ("-1h30m", NOW - 5_400_000),
        ("-250ms", NOW - 250),
        (timedelta(hours=1), NOW - 3_600_000),
        (timedelta(hours=-1), NOW - 3_600_000),
    ],
)
def test_time_of_each_form(value: Any, timestamp: int) -> None:
    assert as_bound("start", value, ["t"], NOW).timestamp == timestamp


@pytest.mark.parametrize("value", [{0: 5, 1: 6}, {("t", 0): 5, ("t", 1): 6}, {T0: 5, T1: 6}])
def test_offsets_by_partition(value: Any) -> None:
    assert as_bound("start", value, ["t"], NOW).offsets == {T0: 5, T1: 6}


@pytest.mark.parametrize(
    ("value", "kind", "hint"),
    [
        (datetime(2026, 1, 1), ConfigError, "replace(tzinfo=timezone.utc)"),
        ("yesterday", ConfigError, '"earliest"'),
        ("1h", ConfigError, '"-1h"'),
        (5, ConfigError, "{0: 5}"),
        (1_700_000_000, ConfigError, "seconds"),
        (-5, ConfigError, "from 0"),
        (True, TypeError, "milliseconds"),
        (None, TypeError, "milliseconds"),
        (1.5, TypeError, "milliseconds"),
        ({}, ConfigError, "no partition"),
        ({0: -1}, ConfigError, "the offset of t-0"),
        ({"t": 1}, TypeError, "partition of topic"),
        ({("u", 0): 1}, ConfigError, "none of the topics"),
    ],
)
def test_wrong_value_names_the_way_out(value: Any, kind: type[Exception], hint: str) -> None:
    with pytest.raises(kind) as raised:
        as_bound("start", value, ["t"], NOW)
    assert hint in str(raised.value)


def test_number_of_a_partition_needs_its_topic_among_several() -> None:
    with pytest.raises(ConfigError, match=r"\(topic, partition\)"):
        as_bound("until", {0: 5}, ["t", "u"], NOW)


def test_span_of_words_and_times() -> None:
    found = {EARLIEST: 3, LATEST: 10, NOW - 3_600_000: 7, NOW - 60_000: None}
    assert as_bounds("earliest", "now", ["t"], NOW).span(T0, found) == Span(3, 10, 3)
    assert as_bounds("-1h", "now", ["t"], NOW).span(T0, found) == Span(7, 10, 3)
    assert as_bounds("-1h", "-1m", ["t"], NOW).span(T0, found) == Span(7, 10, 3)
    assert as_bounds("latest", "now", ["t"], NOW).span(T0, found).is_empty
    assert set(as_bounds("-1h", {0: 5}, ["t"], NOW).timestamps) == {EARLIEST, LATEST, NOW - 3_600_000}


def test_time_in_an_open_transaction_ends_at_the_stable_offset() -> None:
    assert as_bounds("earliest", "-1h", ["t"], NOW).span(T0, {EARLIEST: 0, LATEST: 4, NOW - 3_600_000: 6}) == Span(0, 4, 0)


def test_offset_beyond_the_end_is_an_error() -> None:
    bounds = as_bounds({0: 2}, {0: 11}, ["t"], NOW)
    with pytest.raises(ConfigError, match="until: offset 11 of t-0 is beyond the end of the log, 10"):
        bounds.span(T0, {EARLIEST: 3, LATEST: 10})


def test_start_beyond_the_end_is_an_error_with_a_way_out() -> None:
    bounds = as_bounds({0: 11}, "now", ["t"], NOW)
    with pytest.raises(ConfigError, match="start: offset 11 of t-0 is beyond the end of the log, 10; choose an offset up to that end"):
        bounds.span(T0, {EARLIEST: 3, LATEST: 10})


def test_deleted_start_stays_in_the_span() -> None:
    assert as_bounds({0: 2}, "now", ["t"], NOW).span(T0, {EARLIEST: 3, LATEST: 10}) == Span(2, 10, 3)


def test_partition_without_an_offset_is_an_error() -> None:
    with pytest.raises(ConfigError, match="start names no offset for t-1"):
        as_bounds({0: 2}, "now", ["t"], NOW).span(T1, {EARLIEST: 3, LATEST: 10})


@pytest.mark.parametrize(
    ("topics", "partitions", "expected"),
    [
        ("t", None, {"t": None}),
        (["t", "u"], None, {"t": None, "u": None}),
        ("t", [1, 0], {"t": (1, 0)}),
        ("t", ("t", 1), {"t": (1,)}),
        (["t", "u"], [("t", 0), ("u", 3), ("t", 1)], {"t": (0, 1), "u": (3,)}),
    ],
)
def test_selection(topics: Any, partitions: Any, expected: Any) -> None:
    assert as_selection(topics, partitions) == expected


@pytest.mark.parametrize(
    ("topics", "partitions", "kind", "hint"),
    [
        ([], None, ConfigError, "no topics"),
        (b"t", None, TypeError, "name of a topic"),
        (5, None, TypeError, "name of a topic"),
        ({"t": [0]}, None, TypeError, "partitions=[(topic, partition), …]"),
        (["t", "t"], None, ConfigError, "twice"),
        ("a b", None, ConfigError, "a-z"),
        (["t", "u"], [0], ConfigError, "needs its topic"),
        (["t", "u"], [("t", 0)], ConfigError, "none of topic 'u'"),
        ("t", [("u", 0)], ConfigError, "none of the topics"),
        ("t", 0, TypeError, "list of"),
    ],
)
def test_wrong_selection(topics: Any, partitions: Any, kind: type[Exception], hint: str) -> None:
    with pytest.raises(kind) as raised:
        as_selection(topics, partitions)
    assert hint in str(raised.value)
