"""Draws a plan of about two minutes for real brokers from the list of faults that the simulation uses, too.

Invariant: the plan follows from its seed, and can be read before it runs. The requests that a fault meets depend on the machine: two runs
with the same seed have the same faults, but need not fail in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random, randrange
from typing import Any, Final

import attrs

from integration.faults.catalog import Lane, ScheduledFault, real

__all__ = ["ChaosPlan", "Step", "draw", "seed_of"]

PAUSES: Final = {Lane.BROKERS: (1.0, 6.0), Lane.NETWORK: (0.5, 4.0), Lane.MEMBERS: (2.0, 8.0)}  # seconds between two faults of a lane
LIKELY: Final = 0.6  # probability that a fault is part of a plan
FAIR: Final = 3  # least number of faults in a lane
LEADERLESS: Final = ("no leader", "partition is gone")
UNCLEAN: Final = "unclean election"


@attrs.frozen
class Step:
    """One fault, with its duration and the pause after it, in seconds. `pick` chooses the broker, the partition, or another detail."""

    fault: str
    seconds: float
    pause: float
    pick: int

    def __str__(self) -> str:
        return f"{self.fault} ({self.seconds:.1f} s, {self.pick})"


@attrs.frozen(kw_only=True)
class ChaosPlan:
    """The plan of a run. The topic `fragile` has one replica, so that partitions can be leaderless, or two, for unclean elections."""

    seed: int
    seconds: float
    idempotent: Mapping[str, Any]  # options of the producer that may neither lose nor repeat records
    plain: Mapping[str, Any]  # options of the producer without idempotence
    fragile_replicas: int
    members: int  # at the start
    static: bool
    steps: Mapping[Lane, tuple[Step, ...]]


def seed_of(text: str | None) -> int:
    """None and an empty text, which `make chaos` passes, give a new seed."""
    return int(text) if text else randrange(1 << 31)


def draw(seed: int, seconds: float = 120.0) -> ChaosPlan:
    r = Random(seed)
    replicas = r.choice((1, 2))
    without = UNCLEAN if replicas == 1 else LEADERLESS
    return ChaosPlan(
        seed=seed,
        seconds=seconds,
        idempotent=_options(r),
        plain={**_options(r), "enable_idempotence": False, "acks": r.choice(("all", "1"))},
        fragile_replicas=replicas,
        members=r.choice((1, 2, 3)),
        static=r.random() < 0.3,
        steps={lane: _steps(r, lane, [f for f in real(lane) if f.name not in without], seconds) for lane in Lane},
    )


def _options(r: Random) -> dict[str, Any]:
    return {
        "linger_ms": r.choice((0, 5, 50)),
        "batch_size": r.choice((1024, 16384)),
        "compression_type": r.choice(("none", "gzip", "lz4")),
        "max_in_flight_requests_per_connection": r.choice((1, 5)),
        "request_timeout_ms": r.choice((1_500, 5_000, 30_000)),
        "metadata_max_age_ms": r.choice((2_000, 300_000)),
        "allow_auto_create_topics": False,  # a deleted topic must be gone until the run creates it again
    }


def _steps(r: Random, lane: Lane, faults: list[ScheduledFault], seconds: float) -> tuple[Step, ...]:
    chosen = [fault for fault in faults if r.random() < LIKELY]
    while len(chosen) < min(FAIR, len(faults)):
        chosen.append(r.choice([fault for fault in faults if fault not in chosen]))
    steps: list[Step] = []
    left = seconds
    while left > 0:
        fault = r.choice(chosen)
        step = Step(fault.name, r.uniform(*fault.real), r.uniform(*PAUSES[lane]), r.randrange(1 << 16))
        steps.append(step)
        left -= step.seconds + step.pause
    return tuple(steps)
