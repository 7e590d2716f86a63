"""Adds up lost records. Invariant: sums are replaced and never changed, so that other threads can read them.

A record is lost if it failed, or if a policy dropped it instead of queueing it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from pykafka4.records import Written
from pykafka4.wire.records.common import dropped_rows

__all__ = ["NEVER", "NOTHING", "NO_DROPS", "NO_LOSS", "RETIRED", "Dropped", "Drops", "Failed", "Loss", "LossKey", "by_topic"]

RETIRED = 1000  # the maximum number of idle topics whose sums are kept
NEVER = -1  # stands for a timestamp if there is none

Failed = Mapping[tuple[str, Written], int]
Dropped = Mapping[str, int]
LossKey = tuple[str, int | None]  # (topic, partition); with None, the records whose partition is unknown or no longer counted
NOTHING: Mapping[Any, int] = MappingProxyType({})


class Loss(NamedTuple):
    failed: Failed = NOTHING
    dropped: Dropped = NOTHING
    first_ms: int = NEVER
    last_ms: int = NEVER

    def plus(self, other: Loss) -> Loss:
        first, last = _earlier(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return Loss(_sum(self.failed, other.failed), _sum(self.dropped, other.dropped), first, last)


NO_LOSS = Loss()


def _earlier(one: int, other: int) -> int:
    return other if one == NEVER or NEVER < other < one else one


def _sum(one: Mapping[Any, int], other: Mapping[Any, int]) -> Mapping[Any, int]:
    return {**one, **{key: one.get(key, 0) + count for key, count in other.items()}} if one and other else one or other


class Drops:
    """The records that policies dropped, by (topic, partition or -1, reason): their number, first and last timestamp (ms)."""

    __slots__ = ("by_reason", "first_ms", "last_ms", "rows")

    def __init__(self, rows: dict[tuple[str, int, str], tuple[int, int, int]], by_reason: dict[str, int], times: tuple[int, int]) -> None:
        self.rows, self.by_reason, (self.first_ms, self.last_ms) = rows, by_reason, times

    def plus(self, taken: Iterable[list[Any]], known: Collection[str]) -> Drops:
        """The sums, after adding the counts `taken` from the accumulator. Topics that are not `known` keep at most their sums."""
        rows, reasons, first_ms, last_ms = self.rows.copy(), self.by_reason.copy(), self.first_ms, self.last_ms
        for part in taken:
            for topic, partition, reason, records, first, last in dropped_rows(part):
                reasons[reason] = reasons.get(reason, 0) + records
                key = (topic, partition, reason)
                if (before := rows.get(key)) is None:
                    rows[key] = (records, first, last)
                else:  # does what `_joined` does, in less time
                    known_first, known_last = before[1], before[2]
                    rows[key] = (
                        before[0] + records,
                        first if known_first == NEVER or NEVER < first < known_first else known_first,
                        known_last if known_last > last else last,
                    )
                if first_ms == NEVER or NEVER < first < first_ms:
                    first_ms = first
                if last > last_ms:
                    last_ms = last
        return Drops(_forget(rows, known), reasons, (first_ms, last_ms))

    def added(self, loss: Loss, place: tuple[str, int]) -> Loss:
        for reason in self.by_reason:
            if (row := self.rows.get((*place, reason))) is not None:
                dropped = tuple.__new__(Loss, (NOTHING, {reason: row[0]}, row[1], row[2]))  # takes half the time of `Loss(...)`
                loss = dropped if loss is NO_LOSS else loss.plus(dropped)
        return loss


NO_DROPS = Drops({}, {}, (NEVER, NEVER))


def _joined(one: tuple[int, int, int], other: tuple[int, int, int]) -> tuple[int, int, int]:
    return one[0] + other[0], _earlier(one[1], other[1]), max(one[2], other[2])


def _forget(
    rows: dict[tuple[str, int, str], tuple[int, int, int]], known: Collection[str]
) -> dict[tuple[str, int, str], tuple[int, int, int]]:
    """Keep the partitions of `known` topics, and the sums of the last RETIRED other topics."""
    others = dict.fromkeys(topic for topic, _, _ in rows if topic not in known)
    if not others:
        return rows
    kept: dict[tuple[str, int, str], tuple[int, int, int]] = {}
    for topic in list(others)[:-RETIRED]:
        del others[topic]
    for key, row in rows.items():
        topic, _, reason = key
        if topic in others:
            key = topic, -1, reason
            kept[key] = _joined(kept[key], row) if key in kept else row
        elif topic in known:
            kept[key] = row
    return kept


def by_topic(losses: Mapping[LossKey, Loss], drops: Drops) -> dict[str, Loss]:
    found: dict[str, tuple[dict[tuple[str, Written], int], dict[str, int], list[int]]] = {}
    for (topic, _), (failed, dropped, first, last) in losses.items():
        sums = found.setdefault(topic, ({}, {}, [NEVER, NEVER]))
        for why, count in failed.items():
            sums[0][why] = sums[0].get(why, 0) + count
        for reason, count in dropped.items():
            sums[1][reason] = sums[1].get(reason, 0) + count
        _widen(sums[2], first, last)
    for (topic, _, reason), (count, first, last) in drops.rows.items():
        sums = found.get(topic) or found.setdefault(topic, ({}, {}, [NEVER, NEVER]))
        sums[1][reason] = sums[1].get(reason, 0) + count
        _widen(sums[2], first, last)
    return {topic: Loss(failed, dropped, *times) for topic, (failed, dropped, times) in found.items()}


def _widen(times: list[int], first: int, last: int) -> None:
    times[:] = _earlier(times[0], first), max(times[1], last)
