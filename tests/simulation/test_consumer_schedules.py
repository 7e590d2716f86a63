"""Consumer groups under seeded schedules of faults: what they are handed and what they commit, compared with the logs all the time.

A tenth as many schedules as of producers, for each takes ten times as long; `make sim` runs as many of both. A seed that fails belongs in
`consumer_seeds.txt`.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka4.core.group.membership.classic import MemberState
from tests.simulation.plans.consumer_features import LEAST, too_rare
from tests.simulation.plans.consumer_plan import CONSUMER_FAULTS, draw_plain_consumers
from tests.simulation.plans.consumers import ConsumerSimulation
from tests.simulation.plans.schedules import SCHEDULES as PRODUCERS
from tests.simulation.plans.schedules import kept, run, run_all, traces_of

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

ALL = 20_000  # schedules of producers from which on there are as many of consumers
SCHEDULES = PRODUCERS if PRODUCERS >= ALL else max(10, PRODUCERS // 10)
FLOOR = 220  # of 290 pairs; 200 schedules reach 246
STATES = ("starting", "unjoined", "joining", "syncing", "stable", "revoking", "rejoining", "leaving", "nobody")
# Not in every run. A member is fatal only where a late JoinGroup of a killed process fences its static successor, in one of some thousand
# schedules; tests/core/consumer/test_consumer_codes.py has every answer that ends a membership for good.
RARE = {"fatal"}
EVERY_PAIR = [(fault, state) for fault in sorted(CONSUMER_FAULTS) for state in STATES]
MUST_REACH = [
    *((fault, "stable") for fault in sorted(CONSUMER_FAULTS)),
    *((fault, "joining") for fault in ("coordinator moves", "broker stops", "group error", "connection is cut")),
    *((fault, "unjoined") for fault in ("move leader", "network is dark", "member dies")),
]


@pytest.mark.parametrize("seed", kept("consumer_seeds.txt"))
def test_schedules_that_once_failed_hold(seed: int) -> None:
    """Seeds were kept before there were features: those have to hold, too."""
    seen = run(ConsumerSimulation, range(seed, seed + 1))
    assert not seen.wrong
    ConsumerSimulation(seed, plan=draw_plain_consumers(seed)).run()


@pytest.mark.timeout(0 if SCHEDULES > 200 else 1200)
def test_every_promise_holds_in_every_schedule(tell: Callable[[str], None]) -> None:
    seen = run_all(ConsumerSimulation, SCHEDULES, alone=500, chunk=100)
    tell(seen.line("consumers", CONSUMER_FAULTS))
    print(seen.table(CONSUMER_FAULTS))
    print(", ".join(f"{name}: {seen.features[name]}" for name in LEAST))
    states = {state for _, state in seen.reached}
    assert states <= {*STATES, *RARE}
    assert SCHEDULES < 200 or states >= set(STATES)
    assert not too_rare(seen.features, SCHEDULES)
    seen.check(FLOOR if SCHEDULES >= 200 else 0, EVERY_PAIR if SCHEDULES >= 5000 else MUST_REACH if SCHEDULES >= 200 else ())


def test_every_state_of_a_member_is_to_be_reached_or_is_rare() -> None:
    assert {state.value for state in MemberState} | {"starting", "nobody"} == {*STATES, *RARE}


def test_the_same_seed_gives_the_same_trace() -> None:
    one, other = traces_of(ConsumerSimulation, 3)
    assert one == other
    assert len(one) > 20
