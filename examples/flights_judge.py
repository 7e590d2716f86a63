"""Checks the flights in the log and at the readers. Invariant: the expected flights come from the data set alone."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
from flights_job import NULL, TEXTS
from flights_reader import Read, checksum

ROWS, NULLS = 336_776, 2_512  # the data set, and its flights without a tail number
Flight = dict[str, Any]


class Logged(Protocol):
    """A record of the log, as `Cluster.log` returns it."""

    @property
    def offset(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


Log = Mapping[int, Sequence[Logged]]


@attrs.frozen
class Check:
    """A promise, whether it was kept, and the finding as text."""

    promise: str
    kept: bool
    found: str


def flights(path: Path) -> list[Flight]:
    """The flights as the JSON of their records must have them: with numbers, without missing values."""
    with path.open(newline="") as file:
        return [{**flight(line), "number": number} for number, line in enumerate(csv.DictReader(file))]


def flight(line: Mapping[str, str]) -> Flight:
    return {name: value if name in TEXTS else int(value) for name, value in line.items() if value != NULL}


def check_data(expected: Sequence[Flight], rows: int) -> Check:
    """Check the data set itself: it has `rows` flights, and a complete one has the known number of flights without a key."""
    nulls = sum("tailnum" not in flight for flight in expected)
    whole = len(expected) == rows and (rows != ROWS or nulls == NULLS)
    return Check("the data set is complete", whole, f"{len(expected):,} of {rows:,} flights, {nulls:,} without a tail number")


def check_log(log: Log, expected: Sequence[Flight]) -> list[Check]:
    """Check that the log has each flight once, unchanged, in input order within its key."""
    found = {partition: [(record.key, json.loads(record.value or b"null")) for record in records] for partition, records in log.items()}
    times = Counter(number_of(value) for records in found.values() for _, value in records)
    lost = [number for number in range(len(expected)) if number not in times]
    twice = [number for number, count in times.items() if number is not None and count > 1]
    changed = [value for records in found.values() for key, value in records if not same(key, value, expected)]
    disordered = [number for records in found.values() for number in out_of_order(records)]
    nulls, wanted = (
        sum(key is None for records in found.values() for key, _ in records),
        sum("tailnum" not in flight for flight in expected),
    )
    return [
        Check("no flight is lost", not lost, shown("lost", lost)),
        Check("no flight is in the log twice", not twice, shown("twice", twice)),
        Check("every flight is unchanged, under its own key", not changed, shown("changed", changed)),
        Check("each key in one partition", not (keys := scattered(found)), shown("scattered", keys)),
        Check("input order within each key", not disordered, shown("out of order", disordered)),
        Check("flights without a tail number have a null key", nulls == wanted, f"{nulls:,} of {wanted:,}"),
    ]


def scattered(found: Mapping[int, Sequence[tuple[bytes | None, Any]]]) -> list[str]:
    """The keys that are in more than one partition."""
    homes: dict[bytes, set[int]] = {}
    for partition, records in found.items():
        for key in {key for key, _ in records if key is not None}:
            homes.setdefault(key, set()).add(partition)
    return [key.decode(errors="replace") for key, places in homes.items() if len(places) > 1]


def shown(what: str, found: Sequence[object]) -> str:
    """The number of findings, and the first three."""
    return f"{len(found)} {what}" + (f", such as {', '.join(map(str, found[:3]))}" if found else "")


def number_of(value: Any) -> int | None:
    """The number of a flight; None for a value that is not a flight."""
    number = value.get("number") if isinstance(value, dict) else None
    return number if isinstance(number, int) else None


def same(key: bytes | None, value: Any, expected: Sequence[Flight]) -> bool:
    number = number_of(value)
    if number is None or not 0 <= number < len(expected):
        return False
    tail = expected[number].get("tailnum")
    return bool(value == expected[number] and key == (tail.encode() if tail else None))


def out_of_order(records: Iterable[tuple[bytes | None, Any]]) -> list[int]:
    """The numbers that follow a higher number of the same key, within one partition. Only the null key is in several partitions."""
    last: dict[bytes | None, int] = {}
    wrong = []
    for key, value in records:
        number = number_of(value)
        if number is not None and number < last.get(key, -1):
            wrong.append(number)
        last[key] = number if number is not None else last.get(key, -1)
    return wrong


def check_group(seen: Sequence[Sequence[Read]], log: Log) -> list[Check]:
    """Check that the group has read each offset, with the bytes of the log, in order. An offset that was read again breaks no promise."""
    truth = {(partition, r.offset): checksum(r.key, r.value) for partition, records in log.items() for r in records}
    handed = {(read.partition, read.offset) for reads in seen for read in reads}
    missed = sum(place not in handed for place in truth)
    other = sum(truth.get((read.partition, read.offset)) != read.checksum for reads in seen for read in reads)
    backwards = [read for reads in seen for read in overtaken(reads)]
    return [
        Check("the group read every record", missed == 0, f"{missed} missed of {len(truth):,}"),
        Check("its records equal the records of the log", other == 0, f"{other} differ"),
        Check("in the order of the log", not backwards, f"{len(backwards)} overtaken"),
        Check("all three members read", all(seen), ", ".join(f"{len(reads):,}" for reads in seen)),
    ]


def overtaken(reads: Iterable[Read]) -> list[Read]:
    """The records that a member read for the first time after a higher offset of the same partition."""
    highest: dict[int, int] = {}
    before: set[tuple[int, int]] = set()
    wrong = []
    for read in reads:
        place = (read.partition, read.offset)
        if place not in before and read.offset < highest.get(read.partition, -1):
            wrong.append(read)
        before.add(place)
        highest[read.partition] = max(read.offset, highest.get(read.partition, -1))
    return wrong


def rereads(seen: Iterable[Iterable[Read]]) -> int:
    """The number of times that the group read an offset again."""
    places = [(read.partition, read.offset) for reads in seen for read in reads]
    return len(places) - len(set(places))
