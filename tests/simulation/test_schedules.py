"""The producer under seeded schedules of faults: every promise of `invariants`, all the time.

A seed that fails is told with its promise and belongs into `seeds.txt`:
`python -c 'from simulation import Simulation; Simulation.replay(SEED)'` tells its story.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from plan import FAULTS
from schedules import SCHEDULES, kept, run_all, stories_of
from simulation import Simulation

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

FLOOR = 460  # of 468 pairs; 700 schedules reach them all
MUST_REACH = [
    *((fault, "batches pipelined") for fault in ("move leader", "broker stops", "broker freezes", "connection is cut", "answer swallowed")),
    *((fault, "batch maybe written, waiting") for fault in ("move leader", "error before append", "sequence error", "refusal")),
    *((fault, "batch maybe written, waiting") for fault in ("topic is hidden", "topic recreated", "metadata is stale", "broker stops")),
    *((fault, "identity asking") for fault in ("identity error", "broker stops", "connection is cut")),
    *((fault, "epoch ends") for fault in ("sequence error", "connection is cut", "move leader", "lost after append")),
    *((fault, "records parked") for fault in ("metadata error", "topic is hidden", "broker stops", "all connections are cut")),
    *((fault, "partition offline") for fault in ("move leader", "no leader", "throttled", "more partitions")),
    *((fault, "connecting") for fault in ("broker stops", "network is dark", "move leader")),
    *((fault, "batch in flight") for fault in sorted(FAULTS)),
]


@pytest.mark.parametrize("seed", kept("seeds.txt"))
def test_schedules_that_once_failed_hold(seed: int) -> None:
    Simulation(seed).run()


@pytest.mark.timeout(0 if SCHEDULES > 2000 else 1200)
def test_every_promise_holds_in_every_schedule(tell: Callable[[str], None]) -> None:
    seen = run_all(Simulation, SCHEDULES, alone=5000, chunk=500)
    tell(seen.line("producers", FAULTS))
    print(seen.table(FAULTS))
    seen.check(FLOOR if SCHEDULES >= 2000 else 0, MUST_REACH if SCHEDULES >= 2000 else ())


def test_the_same_seed_tells_the_same_story() -> None:
    one, other = stories_of(Simulation, 17)
    assert one == other
    assert len(one) > 20
