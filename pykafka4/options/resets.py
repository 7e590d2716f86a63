"""Parses the option `auto_offset_reset`: `earliest`, `latest`, `none`, or a duration in ISO 8601 (KIP-1106)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

from pykafka4.options.fields import as_str, bad

__all__ = ["BY_DURATION", "MOST_MS", "check_reset", "duration_ms", "parse_reset"]

BY_DURATION: Final = "by_duration:"
MOST_MS: Final = 2**53  # the longest duration: a float represents all integers up to this one exactly, and no log is older
FIXED: Final = ("earliest", "latest", "none")
PART: Final = r"(?:([-+]?\d{1,18})%s)?"
# As in java.time.Duration.parse, a part of the time must follow `T`.
ISO: Final = re.compile(
    rf"([-+]?)P{PART % 'D'}(?:T(?=.){PART % 'H'}{PART % 'M'}(?:([-+]?\d{{1,18}})(?:[.,](\d{{0,9}}))?S)?)?", re.IGNORECASE | re.ASCII
)


def parse_reset(value: Any) -> Any:
    """Return the option as text; a timedelta becomes a duration, rounded down to milliseconds.

    Other types are returned unchanged, and `check_reset` refuses them.
    """
    if isinstance(value, timedelta):
        return f"{BY_DURATION}PT{value // timedelta(milliseconds=1) / 1000:.3f}S"
    return as_str(value)


def check_reset(_: Any, attribute: Any, value: Any) -> None:
    if isinstance(value, str) and (value in FIXED or (value.startswith(BY_DURATION) and duration_ms(value) is not None)):
        return
    raise bad(attribute.name, value, "must be one of earliest, latest, none, by_duration:PT1H (ISO 8601, not negative), or a timedelta")


def duration_ms(reset: str) -> int | None:
    """The milliseconds of `by_duration:<duration>`; None for any other text, and for a duration below 0 or above MOST_MS."""
    found = ISO.fullmatch(reset.removeprefix(BY_DURATION)) if reset.startswith(BY_DURATION) else None
    if found is None or not any(found.groups()[1:]):
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    whole = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000 + int(seconds or 0) * 1000
    part = int((fraction or "").ljust(9, "0")) // 1_000_000 if fraction else 0
    total = whole - part if (seconds or "").startswith("-") else whole + part
    total = -total if sign == "-" else total
    return total if 0 <= total <= MOST_MS else None
