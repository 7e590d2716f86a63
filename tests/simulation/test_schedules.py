"""The producer under seeded schedules of faults: every promise of `invariants`, all the time.

A seed that fails is told with its promise. Its bug, put back as a mutant, belongs in `producer_mutants.py`, the seed in `seeds.txt`:
`python -c 'from simulation import Simulation; Simulation.replay(SEED)'` prints its trace.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.plans.features import LEAST, missing
from tests.simulation.plans.producer_plan import FAULTS, LATER
from tests.simulation.plans.schedules import SCHEDULES, kept, run_all, traces_of
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

STATES = (
    "no connection",
    "connecting",
    "connected",
    "identity none",
    "identity ready",
    "records parked",
    "batch queued",
    "batch in flight",
    "batches pipelined",
    "batch maybe written, waiting",
    "epoch ends",
    "partition offline",
)
MANY = 20_000  # schedules from which on every pair is required
GONE = ("partition is gone", "broker is gone")  # few per schedule, and only in one schedule of eleven
PAIRS = [(fault, state) for fault in FAULTS for state in STATES]
RARE = {(fault, state) for fault, state in PAIRS if fault in GONE or (fault in LATER and state == "batches pipelined")}


def required(schedules: int) -> list[tuple[str, str]]:
    """The faults that have to meet a state. None is unreachable; the rare ones take more schedules."""
    if schedules >= MANY:
        return PAIRS
    return [pair for pair in PAIRS if pair not in RARE] if schedules >= 2000 else []


@pytest.mark.parametrize("seed", kept("seeds.txt"))
def test_schedules_that_once_failed_hold(seed: int) -> None:
    Simulation(seed).run()


@pytest.mark.timeout(0 if SCHEDULES > 2000 else 1200)
def test_every_promise_holds_in_every_schedule(tell: Callable[[str], None]) -> None:
    seen = run_all(Simulation, SCHEDULES, alone=5000, chunk=500)
    tell(seen.line("producers", FAULTS))
    print(seen.table(FAULTS))
    print(", ".join(f"{name}: {seen.features[name]}" for name in LEAST))
    seen.check(0, required(SCHEDULES))
    assert not missing(seen.features, SCHEDULES), "features that were drawn, or whose promises were looked at, less often than they have to"
    assert {state for _, state in seen.reached} <= set(STATES)


def test_the_same_seed_gives_the_same_trace() -> None:
    one, other = traces_of(Simulation, 17)
    assert one == other
    assert len(one) > 20
