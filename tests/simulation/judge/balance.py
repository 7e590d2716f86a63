"""Balance. The account of a producer adds up: in total, for each topic and for each partition, and knows all that applications know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from pykafka4.core.producer.outcomes.ledger import ProducerStats
from tests.simulation.judge.invariants import Broken, Sent

__all__ = ["balance"]

SUMS = ("accepted", "acked", "queued", "in_flight", "lost", "uncompressed_bytes", "compressed_bytes", "repeated")


def parts(counts: Any) -> int:
    """What became of the records."""
    return int(counts.acked + counts.queued + counts.in_flight + counts.lost + sum(counts.dropped.values()))


def balance(stats: ProducerStats, known: Iterable[Sent]) -> None:
    """Judge an answer of `stats`, given after these records were acknowledged."""
    if stats.accepted != parts(stats):
        raise Broken("the ledger balances", f"the parts are not the whole: {stats}")
    for name in SUMS:
        whole, topics = getattr(stats, name), sum(getattr(counts, name) for counts in stats.topics.values())
        if whole != topics:
            raise Broken("the ledger balances", f"{name}: {whole} in all, {topics} in the topics")
    acked = Counter(sent.stored.tp for sent in known if sent.stored is not None)
    kept: Counter[str] = Counter()  # by topic, in partitions that were not forgotten
    for tp, counts in stats.partitions.items():
        kept[tp.topic] += counts.acked
    for tp, told in acked.items():
        row = stats.partitions.get(tp)
        if kept[tp.topic] == stats.topics[tp.topic].acked and (row is None or row.acked < told):
            raise Broken(
                "the ledger balances", f"{tp}: {0 if row is None else row.acked} records count as acked, applications know of {told}"
            )
