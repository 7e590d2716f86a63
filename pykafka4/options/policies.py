"""Parses topic policies and rate limits, and finds the entry for a topic: the exact name, otherwise the first pattern that matches.

Invariant: at most one entry applies to a topic. For a setting that the entry lacks, the producer's value applies
(`compression_level`: only with the producer's codec). Patterns are as in `fnmatch`: `*`, `?`, `[ab]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from typing import Any, Final, Generic, TypeVar

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.options.fields import MAX_INT, as_float, as_int, bad

__all__ = ["LEVELS", "SETTINGS", "Matcher", "RateLimit", "TopicPolicy", "check_level", "policies_of", "policy_with", "rates_of"]

# Settings that can differ by topic. The producer's options with these names have the same checks.
SETTINGS: Final = (
    "linger_ms",
    "batch_bytes",
    "batch_records",
    "batching",
    "compression_type",
    "compression_level",
    "compression_min_bytes",
    "compression_max_ratio",
    "max_message_bytes",
)
# The same as `wire.records.compression.LEVELS`, which options must not import; a test compares the two.
LEVELS: Final = {"gzip": (1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
LONGEST_INTERVAL_MS: Final = 86_400_000  # a day
T = TypeVar("T")


@attrs.frozen
class TopicPolicy:
    """An entry of `topic_policies`: the settings for a topic, or for topics that match a pattern."""

    pattern: str
    settings: tuple[tuple[str, Any], ...]


@attrs.frozen
class RateLimit:
    """An entry of `rate_limits`: the maximum number of records of one topic that `send` accepts in an interval."""

    pattern: str
    max_messages: int | None  # None: no limit
    interval_ms: float

    def __str__(self) -> str:
        interval = int(self.interval_ms) if self.interval_ms == int(self.interval_ms) else self.interval_ms  # 1000, not 1000.0
        records = "record" if self.max_messages == 1 else "records"
        return f"{self.max_messages} {records} in {interval} ms (rate_limits[{self.pattern!r}])"


class Matcher(Generic[T]):
    def __init__(self, rows: Mapping[str, T]) -> None:
        self._exact = dict(rows)
        self._patterns = [(re.compile(translate(pattern)).match, row) for pattern, row in rows.items()]

    def __call__(self, topic: str) -> T | None:
        found = self._exact.get(topic)
        return found if found is not None else next((row for matches, row in self._patterns if matches(topic)), None)


def check_level(codec: str, level: int | None) -> None:
    if level is None:
        return
    if codec not in LEVELS:
        raise bad(
            "compression_level", level, f"compression_type={codec!r} has no levels; omit the level, or use one of {', '.join(LEVELS)}"
        )
    low, high = LEVELS[codec]
    if not low <= level <= high:
        raise bad("compression_level", level, f"must be from {low:,} to {high:,} with compression_type={codec!r}")


def _rows(name: str, value: object) -> list[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{name} is of type {type(value).__name__}: must be a mapping with names or patterns of topics as keys")
    for pattern in value:
        if not isinstance(pattern, str) or not pattern:
            raise ConfigError(f"{name}: {shown(pattern)} must be the name of a topic, or a pattern such as 'orders-*'")
    return [(str.__str__(pattern), row) for pattern, row in value.items()]


def policies_of(value: object) -> Any:
    """Check the names of the settings; `policy_with` checks their values."""
    if isinstance(value, tuple) and all(isinstance(row, TopicPolicy) for row in value):
        return value
    rows = _rows("topic_policies", value)
    for pattern, row in rows:
        if not isinstance(row, Mapping):
            raise ConfigError(f"topic_policies[{pattern!r}] is of type {type(row).__name__}: must be a mapping of {', '.join(SETTINGS)}")
        for name in row:
            if name not in SETTINGS:
                raise ConfigError(
                    f"topic_policies[{pattern!r}]: {shown(name)} is not a setting of a topic; the settings are {', '.join(SETTINGS)}"
                )
    return tuple(TopicPolicy(pattern, tuple(row.items())) for pattern, row in rows)


def policy_with(policy: TopicPolicy, fields: Mapping[str, attrs.Attribute[Any]], codec: str) -> TopicPolicy:
    """Return `policy` with its values checked and converted by the producer's `fields`; `codec` is the producer's. Raises ConfigError."""
    checked: dict[str, Any] = {}
    try:
        for name, value in policy.settings:
            field = fields[name]
            convert: Callable[[Any], Any] | None = field.converter  # type: ignore[assignment]
            checked[name] = value if convert is None else convert(value)
            if field.validator is not None:
                field.validator(None, field, checked[name])
        check_level(checked.get("compression_type", codec), checked.get("compression_level"))
    except ConfigError as error:
        raise ConfigError(f"topic_policies[{policy.pattern!r}]: {error}") from None
    return TopicPolicy(policy.pattern, tuple(checked.items()))


def rates_of(value: object) -> Any:
    if isinstance(value, tuple) and all(isinstance(row, RateLimit) for row in value):
        return value
    return tuple(_rate(pattern, row) for pattern, row in _rows("rate_limits", value))


def _rate(pattern: str, row: Any) -> RateLimit:
    """None for `row` exempts topics of this pattern from the limits of later patterns."""
    name = f"rate_limits[{pattern!r}]"
    if row is None:
        return RateLimit(pattern, None, 1)  # the interval has no meaning without a limit
    if not isinstance(row, (tuple, list)) or len(row) != 2:
        raise ConfigError(f"{name}={shown(row)}: must be (max_messages, interval_ms), such as (1000, 1000), or None for no limit")
    most, interval = as_int(row[0]), as_float(row[1])
    if type(most) is not int or not 0 <= most <= MAX_INT:
        raise bad(name, row, f"max_messages must be an integer from 0 to {MAX_INT:,}")
    if type(interval) not in (int, float) or not 1 <= interval <= LONGEST_INTERVAL_MS:
        raise bad(name, row, f"interval_ms must be a number of milliseconds from 1 to {LONGEST_INTERVAL_MS:,}")
    return RateLimit(pattern, most, interval)
