"""Parses `--from` and `--until`, the limits of a read, and computes their offsets in each partition."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import attrs
import click

from pykafka4.bounds import EARLIEST, LATEST, Span, now_ms
from pykafka4.records import TopicPartition

__all__ = ["LOG_START", "LOG_END", "Place", "PlaceType", "spans", "timestamps"]

WORDS: Final = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST, "now": LATEST}
UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
AGO: Final = re.compile(r"-(\d{1,9})(ms|[smhdw])")
LEAST_MS_DIGITS: Final = 12  # a number with at least this many digits is a time in milliseconds, because offsets are usually smaller
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
FORMS: Final = "earliest, latest, now, an offset, -100 (the last 100 records), -1h, 2026-01-31T12:00:00 or milliseconds since 1970"


@attrs.frozen
class Place:
    """A place in each partition: a time (`timestamp`, as in ListOffsets), an `offset`, or a number of offsets before the end."""

    timestamp: int | None = None
    offset: int | None = None
    before_end: int | None = None

    def offset_in(self, found: Mapping[int, int | None]) -> int:
        """The offset in a partition, within its log. `found` has the partition's offsets by timestamp."""
        first, end = found[EARLIEST] or 0, found[LATEST] or 0
        if self.before_end is not None:
            return max(first, end - self.before_end)
        if self.offset is not None:
            return min(max(first, self.offset), end)
        at = found[LATEST if self.timestamp is None else self.timestamp]
        return end if at is None else min(at, end)


LOG_START, LOG_END = Place(EARLIEST), Place(LATEST)


class PlaceType(click.ParamType):  # type: ignore[type-arg]  # generic only since click 8.4
    """The type of an option whose value is a `Place`."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        if isinstance(value, Place):
            return value
        found = _place(str(value))
        if found is None:
            self.fail(f"{value!r} is none of: {FORMS}", param, ctx)
        return found


def _place(text: str) -> Place | None:
    if text in WORDS:
        return Place(WORDS[text])
    if text.isascii() and text.isdigit():
        return Place(int(text)) if len(text) >= LEAST_MS_DIGITS else Place(offset=int(text))
    if text.startswith("-"):
        return _before(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _at((found.replace(tzinfo=found.tzinfo or UTC) - EPOCH) // timedelta(milliseconds=1))


def _before(text: str) -> Place | None:
    if ago := AGO.fullmatch(text):
        return _at(now_ms() - int(ago[1]) * UNITS[ago[2]])
    return Place(before_end=int(text[1:])) if text[1:].isascii() and text[1:].isdigit() else None


def _at(ms: int) -> Place:
    """A time before 1970 becomes the start of 1970: ListOffsets gives some negative timestamps another meaning, such as LATEST."""
    return Place(max(0, ms))


def timestamps(*places: Place) -> Collection[int]:
    return {EARLIEST, LATEST, *(place.timestamp for place in places if place.timestamp is not None)}


def spans(found: Mapping[TopicPartition, Mapping[int, int | None]], start: Place, until: Place) -> dict[TopicPartition, Span]:
    return {tp: Span(start.offset_in(at), until.offset_in(at), at[EARLIEST] or 0) for tp, at in sorted(found.items())}
