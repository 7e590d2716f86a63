"""Features. What applications may choose beside the plain way to send: drawn from the seed, in combination, for two of five schedules.

Which ones is decided apart from the rest of the plan, so that a seed without features keeps its plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from pykafka4.hooks import BatchOutcome, OutgoingRecord, ProducerHooks

if TYPE_CHECKING:
    from tests.simulation.plans.producer_plan import ProducerPlan

__all__ = ["LEAST", "Counting", "disguised", "drawn", "longest_linger", "missing", "with_all_features", "with_features"]

SALT: Final = 0x393A00000  # with it the seeds of seeds.txt have no features: each finds its bug in the plan that it was kept for
SHARE: Final = 0.4
SALT_TOO: Final = 0x5A50B  # likewise, for the features of `_special`
SHARE_TOO: Final = 0.25
NAMING: Final = ("2.8", "3.9", "4.0", "4.4")  # releases that name bad records
NAMES: Final = ("late", "late", "random", "round_robin", "murmur2_consistent", "consistent_random", "fnv1a")


def disguised(value: bytes) -> bytes:
    """What an application sends instead of `value`, if a serializer or a hook undoes it."""
    return value[::-1]


def by_length(topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
    """An application's own partitioner."""
    return (available or partitions)[len(key or b"") % len(available or partitions)]


class Counting(ProducerHooks):
    """A hook that counts what it is told, and may undo the disguise."""

    def __init__(self, *, undoes: bool) -> None:
        self.undoes = undoes
        self.enqueued = self.ended = 0

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord | None:
        """Undo the disguise."""
        return attrs.evolve(record, value=disguised(record.value)) if self.undoes else None

    def on_enqueue(self, delivery: Any) -> None:
        """Count it."""
        self.enqueued += 1

    def on_ack(self, outcome: BatchOutcome) -> None:
        """Count its records."""
        self.ended += outcome.records


def with_features(plan: ProducerPlan) -> ProducerPlan:
    """`plan`, with features if its seed is one of those."""
    r, too = Random(plan.seed ^ SALT), Random(plan.seed ^ SALT_TOO)
    if r.random() < SHARE:
        plan = _featured(plan, r)
    return _special(plan, too) if too.random() < SHARE_TOO else plan


def with_all_features(plan: ProducerPlan) -> ProducerPlan:
    """`plan` with features, whatever its seed is."""
    return _special(_featured(plan, Random(plan.seed ^ SALT)), Random(plan.seed ^ SALT_TOO))


def _special(plan: ProducerPlan, r: Random) -> ProducerPlan:
    """`plan` with numbers instead of partitions, purges, bad records, or more callbacks."""
    options = {**plan.options, "partitioner": "partition_key"} if r.random() < 0.4 else plan.options
    purges, refuses, called = (r.random() < 0.5 for _ in range(3))
    return attrs.evolve(plan, options=options, purges=purges, refuses=refuses and plan.release in NAMING, called=called)


def _featured(plan: ProducerPlan, r: Random) -> ProducerPlan:
    options = {**plan.options}
    for draw in (_partitioner, _policies, _rates, _on_full, _attempts):
        if r.random() < 0.5:
            options.update(draw(r, options))
    if r.random() < 0.2:
        options["partitioner_adaptive_partitioning_enable"] = False
    disguise = r.choice(("", "", "serializer", "hook"))
    if disguise == "serializer":
        options["value_serializer"] = lambda topic, value: disguised(value)
    return attrs.evolve(plan, options=options, many=r.random() < 0.5, disguise=disguise, hooked=disguise == "hook" or r.random() < 0.3)


def _partitioner(r: Random, options: dict[str, Any]) -> dict[str, Any]:
    return {"partitioner": r.choice((*NAMES, by_length)), "partitioner_ignore_keys": r.random() < 0.1}


def _policies(r: Random, options: dict[str, Any]) -> dict[str, Any]:
    return {"topic_policies": {"t": _policy(r), "[nu]*": _policy(r)}}


def _policy(r: Random) -> dict[str, Any]:
    codec, level = r.choice((("none", None), ("gzip", 1), ("gzip", 9), ("lz4", 5), ("lz4", None)))
    settings = {
        "linger_ms": r.choice((0, 20, 200)),
        "batch_bytes": r.choice((1, 500, 3_000)),
        "batch_records": r.choice((1, 2, 10)),
        "compression_min_bytes": r.choice((0, 300)),
        "compression_max_ratio": r.choice((0.3, 1.0)),
        "max_message_bytes": r.choice((1_000, 2_500)),  # more than the largest record
    }
    kept = {name: value for name, value in settings.items() if r.random() < 0.5}
    return {**kept, "compression_type": codec, **({} if level is None else {"compression_level": level})}


def _rates(r: Random, options: dict[str, Any]) -> dict[str, Any]:
    limits = {r.choice(("t", "u", "*")): (r.choice((1, 5, 30)), r.choice((10, 50)))}
    return {"rate_limits": limits, "on_rate_limit": r.choice(("drop", "delay"))}


def _on_full(r: Random, options: dict[str, Any]) -> dict[str, Any]:
    return {"on_full": r.choice(("raise", "drop")), "max_partition_bytes": 8 * 1024}


def _attempts(r: Random, options: dict[str, Any]) -> dict[str, Any]:
    if r.random() < 0.4:
        return {"retries": 0, "enable_idempotence": False}
    return {"max_failed_attempts": r.choice((1, 2, 4))}


def longest_linger(options: dict[str, Any]) -> float:
    """Seconds that a batch may take records, in the topic where that is longest."""
    policies = options.get("topic_policies", {}).values()
    return float(max(options.get("linger_ms", 0), *(policy.get("linger_ms", 0) for policy in policies), 0)) / 1000


# ---- what was drawn, and what came of it

PARTITIONERS: Final = ("murmur2", *NAMES[1:], "partition_key", "its own")
FLAGS: Final = ("many", "hooked", "purges", "refuses", "called")
DRAWN: Final = (
    *(f"partitioner: {name}" for name in PARTITIONERS),
    *("on_full: raise", "on_full: drop", "on_rate_limit: drop", "on_rate_limit: delay"),
    *("topic_policies", "retries", "max_failed_attempts", "disguise: serializer", "disguise: hook", *FLAGS),
)
PROMISED: Final = (  # counted where the judge looks at the promise
    *("purged", "purged in flight", "failed alone", "acknowledged beside a bad record", "acknowledged by number", "moved on by number"),
    *("second callbacks", "callbacks of many", "dropped: BUFFER_FULL", "dropped: RATE_LIMITED", "failed after max_failed_attempts"),
    *("announced to a hook", "ended before a hook", "acknowledged at most once", "acknowledged with a late partition"),
)
# In the first 2,000 schedules 213 have max_failed_attempts, and 96 records of 22 of them failed by it (32 of one, 15 of another).
RARE: Final = {"moved on by number": 20, "failed after max_failed_attempts": 50}
LEAST: Final = {**dict.fromkeys(DRAWN, 20), **dict.fromkeys(PROMISED, 100), **RARE}  # in 2,000 schedules


def drawn(plan: ProducerPlan) -> list[str]:
    """The features of a plan."""
    options = plan.options
    chosen = options.get("partitioner", "murmur2")
    found = [f"partitioner: {chosen if isinstance(chosen, str) else 'its own'}", f"disguise: {plan.disguise}"]
    found += [f"{name}: {options[name]}" for name in ("on_full", "on_rate_limit") if name in options]
    found += [name for name in ("topic_policies", "retries", "max_failed_attempts") if name in options]
    return found + [name for name in FLAGS if getattr(plan, name)]


def missing(counts: Mapping[str, int], schedules: int) -> dict[str, int]:
    """The features that so many schedules had less often than they have to, and how often."""
    return {name: counts.get(name, 0) for name, least in LEAST.items() if counts.get(name, 0) < least * (schedules // 2000)}
