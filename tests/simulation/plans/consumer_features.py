"""Features of consumers' schedules: what applications may do beside subscribing to names, polling and committing all.

Drawn from the seed apart from the rest of the plan, so that a seed without features keeps its plan and its trace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from tests.simulation.plans.consumer_plan import ConsumerPlan

__all__ = [
    "EXCLUDED",
    "FEATURES",
    "LEAST",
    "MODERN",
    "PATTERN",
    "REMOTE_PATTERN",
    "TOPIC_FAULTS",
    "is_excluded",
    "is_for_tasks",
    "protocol_of",
    "too_rare",
    "with_consumer_features",
]

MODERN: Final = ("4.4", "4.0")  # releases that have the consumer protocol
SALT: Final = 0xFEA7
SALT_TOO: Final = 0xA510  # for the last feature, which came later
SHARE: Final = 0.25  # of schedules, for each feature
FEATURES: Final = ("pattern", "lease", "commits of a part", "seek to time", "migration", "asyncio")
COMING: Final = ("member joins", "member closes")
TOPIC_FAULTS: Final = ("topic is created", "topic is deleted")
PATTERN: Final = re.compile("[tu].*")
EXCLUDED: Final = "tx.*"
REMOTE_PATTERN: Final = "[tu]([^x].*)?"  # the same in one expression


LEAST: Final = {  # how often, at the least, in 200 schedules
    **dict.fromkeys(FEATURES, 25),
    "new topics assigned": 20,
    "topics deleted": 10,
    "new partitions begun with latest": 5,
    "leases kept": 3,
    "leases ended": 1,
    "commits of one topic": 40,
    "commits of one topic alone": 3,
    "commits with a text": 40,
    "times sought": 20,
    "polls cancelled": 100,
    "to the consumer protocol": 10,
    "to the classic protocol": 10,
}


def too_rare(seen: Mapping[str, int], schedules: int) -> list[str]:
    """What was drawn, or whose promise was looked at, less often than it has to be."""
    return [name for name, least in LEAST.items() if seen.get(name, 0) < least * schedules // 200] if schedules >= 200 else []


def is_excluded(topic: str) -> bool:
    """Whether members that subscribe by pattern leave it out."""
    return re.fullmatch(EXCLUDED, topic) is not None


def with_consumer_features(plan: ConsumerPlan) -> ConsumerPlan:
    """`plan`, with the features of its seed."""
    r = Random(plan.seed ^ SALT)
    names = [name for name in FEATURES[:-1] if r.random() < SHARE]
    if Random(plan.seed ^ SALT_TOO).random() < SHARE:
        names.append(FEATURES[-1])
    if "pattern" in names and plan.static and plan.release == "2.8":  # a static leader that rejoins assigns no topic that is new there
        names.remove("pattern")
    options, faults = dict(plan.options), plan.faults
    changes: dict[str, Any] = {"options": options, "features": tuple(names)}
    if "pattern" in names:
        faults += TOPIC_FAULTS
        changes["companion"] = False
    if "asyncio" in names:
        changes["companion"] = False
    if "migration" in names:
        faults += COMING * max(1, len(faults) // 3)
        changes.update(release=r.choice(MODERN), protocol="both", static=False, restarts=1.0, members=r.choice((1, 2)))
        changes.update(trouble=max(plan.trouble, 20.0), fault_interval=min(plan.fault_interval, 1.0))
    if "lease" in names and r.random() < 0.7:
        options["max_poll_interval_ms"] = 4_000
    if "commits of a part" in names:
        changes["topics"] = {**plan.topics, "u": plan.topics.get("u", 2)}
        options["enable_auto_commit"] = r.random() < 0.3
    return attrs.evolve(plan, faults=faults, **changes)


def is_for_tasks(plan: ConsumerPlan, number: int) -> bool:
    """Whether the member with this number uses asyncio."""
    return "asyncio" in plan.features and Random(plan.seed ^ number ^ ~SALT).random() < 0.6


def protocol_of(plan: ConsumerPlan, number: int) -> str:
    """The protocol of the member with this number. In a migration members are replaced one by one, there and back, some out of turn."""
    if plan.protocol != "both":
        return plan.protocol
    old, odd = ("classic", "consumer") if plan.seed % 2 else ("consumer", "classic")
    usual = odd if plan.members < number <= 2 * plan.members else old
    return odd if Random(plan.seed ^ number ^ SALT).random() < 0.2 else usual
