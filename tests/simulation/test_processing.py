"""`Consumer.process` and `Consumer.streams` under seeded schedules: commits pass no unfinished record, and every record is finished."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.plans.processing_plan import PROCESSING_FAULTS, ProcessingSimulation
from tests.simulation.plans.schedules import SCHEDULES as PRODUCERS
from tests.simulation.plans.schedules import run_all

pytestmark = [pytest.mark.simulation]

ALL = 20_000  # schedules of producers from which on there is a tenth as many of processing
SCHEDULES = PRODUCERS // 10 if PRODUCERS >= ALL else max(10, PRODUCERS // 40)
EVERY_PAIR = [(fault, f"{how}: processing") for fault in PROCESSING_FAULTS for how in ("process", "streams")]


@pytest.mark.timeout(0 if SCHEDULES > 200 else 1200)
def test_whatever_fails_no_commit_passes_an_unfinished_record_and_all_are_finished(tell: Callable[[str], None]) -> None:
    seen = run_all(ProcessingSimulation, SCHEDULES, alone=200, chunk=50)
    tell(f"{seen.line('processing', PROCESSING_FAULTS)}; {dict(seen.features)}")
    print(seen.table(PROCESSING_FAULTS))
    happened = seen.features
    assert happened["finished"] > 50 * SCHEDULES
    assert min(happened[what] for what in ("begun again", "dead letters")) > 0
    assert happened["committed"] > SCHEDULES
    assert happened["ended"] > SCHEDULES
    seen.check(0, EVERY_PAIR if SCHEDULES >= 50 else ())
