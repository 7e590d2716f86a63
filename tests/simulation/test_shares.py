"""Share groups under seeded schedules of faults: accepted records stay accepted, and every record becomes final."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from schedules import SCHEDULES as PRODUCERS
from schedules import run_all
from share_plan import FAULTS, ShareSimulation

pytestmark = [pytest.mark.simulation]

ALL = 20_000  # schedules of producers from which on there are as many of share groups
SCHEDULES = PRODUCERS if PRODUCERS >= ALL else max(10, PRODUCERS // 40)
STATES = ("polling", "working", "committing", "closing")  # of members that run
EVERY_PAIR = [(fault, state) for fault in FAULTS for state in STATES]


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
