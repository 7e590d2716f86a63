"""Consumer groups under seeded schedules of faults: what they are handed and what they commit, compared with the logs all the time.

A tenth as many schedules as of producers, for each takes ten times as long. A seed that fails belongs into `consumer_seeds.txt`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from consumer_plan import CONSUMER_FAULTS
from consumers import ConsumerSimulation
from schedules import SCHEDULES as PRODUCERS
from schedules import kept, run_all, stories_of

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

SCHEDULES = max(10, PRODUCERS // 10)
FLOOR = 145  # of 192 pairs; 70 schedules reach as many
MUST_REACH = [
    *((fault, "stable") for fault in sorted(CONSUMER_FAULTS)),
    *((fault, "joining") for fault in ("coordinator moves", "broker stops", "group error", "connection is cut")),
    *((fault, "syncing") for fault in ("group fault", "member joins")),
    *((fault, "unjoined") for fault in ("move leader", "network is dark", "member dies")),
    *((fault, "revoking") for fault in ("group error", "network is dark")),
]


@pytest.mark.parametrize("seed", kept("consumer_seeds.txt"))
def test_schedules_that_once_failed_hold(seed: int) -> None:
    ConsumerSimulation(seed).run()


@pytest.mark.timeout(0 if SCHEDULES > 200 else 1200)
def test_every_promise_holds_in_every_schedule(tell: Callable[[str], None]) -> None:
    seen = run_all(ConsumerSimulation, SCHEDULES, alone=500, chunk=100)
    tell(seen.line("consumers", CONSUMER_FAULTS))
    print(seen.table(CONSUMER_FAULTS))
    seen.check(FLOOR if SCHEDULES >= 200 else 0, MUST_REACH if SCHEDULES >= 200 else ())


def test_the_same_seed_tells_the_same_story() -> None:
    one, other = stories_of(ConsumerSimulation, 3)
    assert one == other
    assert len(one) > 20
