"""Computes the account at a moment from the counts of the producer, the spool and the ledger.

Invariant: accepted = acknowledged + queued + spooled + discarded, in total, for each topic, and for the topics without a row.

Each message is counted in one place: in the producer after its acceptance there, in the spool while it is only on disk, in the ledger if
it was discarded before the producer had it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs

from pykafka4.agent.account.ledger import BeforeProducer
from pykafka4.agent.account.reasons import Reasons
from pykafka4.agent.account.tallies import row_name
from pykafka4.agent.account.values import Account, Discards, TopicAccount, merged
from pykafka4.agent.message import Reason
from pykafka4.records import Written

__all__ = ["ProducerCounts", "SpooledCounts", "Stats", "balance"]

NO_TIME = -1  # first_lost_ms and last_lost_ms before the first lost record


class ProducerCounts(Protocol):
    """The producer's counts of one topic (RecordCounts) or of all (ProducerStats)."""

    @property
    def acked(self) -> int: ...
    @property
    def queued(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def failed(self) -> Mapping[tuple[str, Written], int]: ...
    @property
    def dropped(self) -> Mapping[str, int]: ...
    @property
    def first_lost_ms(self) -> int: ...
    @property
    def last_lost_ms(self) -> int: ...
    @property
    def repeated(self) -> int: ...


class Stats(ProducerCounts, Protocol):
    """ProducerStats, with a row for each topic."""

    @property
    def topics(self) -> Mapping[str, ProducerCounts]: ...


class SpooledCounts(Protocol):
    """The spool's counts of a topic: `messages` are only on disk, `restored` were there when the agent started."""

    @property
    def messages(self) -> int: ...
    @property
    def restored(self) -> int: ...


@attrs.frozen
class _Parts:
    """The counts of a topic, or sums over topics."""

    # In `balance`, `others` is the total minus the rows, so a count can be negative here, but not in an Account.

    acknowledged: int = 0
    queued: int = 0
    spooled: int = 0
    reasons: Counter[Reason] = attrs.Factory(Counter)

    def plus(self, other: _Parts, sign: int = 1) -> _Parts:
        reasons = self.reasons.copy()
        for reason, count in other.reasons.items():
            reasons[reason] += sign * count
        return _Parts(
            self.acknowledged + sign * other.acknowledged,
            self.queued + sign * other.queued,
            self.spooled + sign * other.spooled,
            reasons,
        )

    def value(self, times: Iterable[Discards]) -> TopicAccount:
        discarded = self.reasons.total()
        span = merged(times) if discarded else Discards()  # without discards, the times belong to messages that are on disk after all
        discards = Discards({reason: count for reason, count in self.reasons.items() if count}, span.first_ms, span.last_ms)
        accepted = self.acknowledged + self.queued + self.spooled + discarded
        return TopicAccount(accepted, self.acknowledged, self.queued, self.spooled, discards)


def balance(stats: Stats, before: BeforeProducer, spooled: Mapping[str, SpooledCounts], reasons: Reasons) -> Account:
    """`before` and `spooled` must be of one moment.

    Between this moment and the moment of `stats`, no message may pass from the spool to the producer, or it would be in both counts.
    """
    rows: dict[str, _Parts] = {}
    times: dict[str, list[Discards]] = {}

    def add(topic: str, parts: _Parts, lost: Discards) -> None:
        name = row_name(topic)
        rows[name] = rows.get(name, _Parts()).plus(parts)
        times.setdefault(name, []).append(lost)

    for topic, counts in stats.topics.items():
        add(topic, _of_producer(counts, reasons), _span(counts))
    for topic, discards in before.topics.items():
        add(topic, _Parts(reasons=Counter(discards.by_reason)), discards)
    for topic, on_disk in spooled.items():
        add(topic, _Parts(spooled=on_disk.messages), Discards())
    # When the agent ends, the spool keeps messages that the producer has reported as failed, so `kept` is subtracted from the failures.
    # If the producer has forgotten a topic's row, the topic's failures are in `others`, and no count of the row may fall below 0.
    for (topic, reason), count in before.kept.items():
        row = rows.get(row_name(topic), _Parts())
        add(topic, _Parts(reasons=Counter({reason: -min(count, row.reasons[reason])})), Discards())
    own = merged([*before.topics.values(), before.others])
    total = _of_producer(stats, reasons).plus(_Parts(reasons=Counter(own.by_reason)))
    total = total.plus(_Parts(spooled=sum(on_disk.messages for on_disk in spooled.values())))
    for (_, reason), count in before.kept.items():
        total = total.plus(_Parts(reasons=Counter({reason: -count})))
    # The total has every message, whether or not its topic has a row. So sum(rows) + others = total without a separate count.
    others = total
    for parts in rows.values():
        others = others.plus(parts, -1)
    everything = [own, _span(stats)]
    return Account(
        total=total.value(everything),
        topics={name: parts.value(times[name]) for name, parts in rows.items()},
        others=others.value(everything),
        refused=before.refused,
        possible_duplicates=stats.repeated,
        restored=sum(on_disk.restored for on_disk in spooled.values()),
    )


def _of_producer(counts: ProducerCounts, reasons: Reasons) -> _Parts:
    lost: Counter[Reason] = Counter()
    for (code, _), count in counts.failed.items():
        lost[reasons.of(code)] += count
    for code, count in counts.dropped.items():
        lost[reasons.of(code)] += count
    return _Parts(counts.acked, counts.queued + counts.in_flight, 0, lost)


def _span(counts: ProducerCounts) -> Discards:
    first, last = (None if ms == NO_TIME else ms for ms in (counts.first_lost_ms, counts.last_lost_ms))
    return Discards({}, first, last)
