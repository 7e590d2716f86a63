"""Share groups under seeded schedules of faults: accepted records stay accepted, and every record becomes final."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.plans.schedules import SCHEDULES as PRODUCERS
from tests.simulation.plans.schedules import run, run_all
from tests.simulation.plans.share_plan import FAULTS, ShareSimulation

pytestmark = [pytest.mark.simulation]

ALL = 20_000  # schedules of producers from which on there are as many of share groups
SCHEDULES = PRODUCERS if PRODUCERS >= ALL else max(10, PRODUCERS // 40)
STATES = ("polling", "working", "committing", "closing")  # of members that run
EVERY_PAIR = [(fault, state) for fault in FAULTS for state in STATES]


@pytest.mark.parametrize("seed", [186, 220, 448, 1218])
def test_schedules_that_once_failed_hold(seed: int) -> None:
    """False alarms: another broker led the partition while a member did not poll, so the member did not know that its locks had ended."""
    assert not run(ShareSimulation, range(seed, seed + 1)).wrong


@pytest.mark.timeout(0 if SCHEDULES > 200 else 1200)
def test_records_are_shared_and_become_final_whatever_fails(tell: Callable[[str], None]) -> None:
    seen = run_all(ShareSimulation, SCHEDULES, alone=200, chunk=100)
    tell(f"{seen.line('share groups', FAULTS)}; {dict(seen.features)}")
    print(seen.table(FAULTS))
    events = seen.features
    assert events["accepted"] > SCHEDULES
    assert min(events[what] for what in ("released", "rejected", "renewed", "expired", "archived")) > 0
    assert events["given again"] > SCHEDULES // 2
    seen.check(0, EVERY_PAIR if SCHEDULES >= 1000 else ())
