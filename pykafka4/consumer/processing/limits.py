"""Checks and keeps the bounds of a run of `process` or streams."""

from __future__ import annotations

from typing import Self

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.misuse import check_count
from pykafka4.net import system
from pykafka4.options.config import ConsumerConfig

__all__ = ["Limits", "at_least_one", "seconds"]


@attrs.frozen
class Limits:
    """Times are in seconds."""

    where: str  # the beginning of log lines
    most_in_hand: int  # records of all partitions together
    most_polled: int  # records of one poll
    drain: float  # the wait for records in hand, before partitions go to another member and at the end
    max_poll: float  # max_poll_interval_ms: half of it limits the wait before a release; a log line names a stream not read for so long
    commits: bool  # whether there is a group to commit to

    @classmethod
    def of(cls, config: ConsumerConfig, max_in_hand: object, drain_timeout: object) -> Self:
        """Raises TypeError or ConfigError with the name of the wrong argument."""
        most = at_least_one(max_in_hand, "max_in_hand", 2**31 - 1)
        drain, max_poll = seconds(drain_timeout, "drain_timeout"), config.max_poll_interval_ms / 1000
        return cls(config.log_name, most, min(most, config.max_poll_records), drain, max_poll, config.group_id is not None)


def at_least_one(value: object, what: str, most: int) -> int:
    """Raises TypeError or ConfigError."""
    count = check_count(value, what, most)
    if not count:
        raise ConfigError(f"{what} must be at least 1")
    return count


def seconds(value: object, what: str) -> float:
    """Raises TypeError or ConfigError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number of seconds, not {shown(value)}")
    if not 0 <= value < system.TIMEOUT_MAX:
        raise ConfigError(f"{what} must be from 0 to {system.TIMEOUT_MAX:,.0f} seconds, not {shown(value)}")
    return float(value)
