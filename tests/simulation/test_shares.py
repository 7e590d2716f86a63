"""Share groups under seeded schedules of faults: accepted records stay accepted, and every record becomes final."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest
from share_plan import ShareSimulation

pytestmark = [pytest.mark.simulation]
COUNT = int(os.environ.get("PYKAFKA4_SIM_SCHEDULES", "300")) // 10 or 1


@pytest.mark.timeout(1800)
def test_records_are_shared_and_become_final_whatever_fails(tell: Callable[[str], None]) -> None:
    events: Counter[str] = Counter()
    repeated, reached = 0, Counter[tuple[str, str]]()
    for seed in range(COUNT):
        report = ShareSimulation(seed).run()
        events += report.events
        repeated += report.repeated
        reached += report.coverage
    tell(f"share groups: {COUNT} schedules, {dict(events)}, {repeated} repeated deliveries, {len(reached)} pairs of a fault and a state")
    assert events["accepted"] > COUNT
    assert min(events[what] for what in ("released", "rejected", "renewed", "expired", "archived")) > 0
    assert repeated > COUNT // 2
