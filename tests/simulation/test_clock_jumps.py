"""The wall clock jumps by an hour, to and fro: no record is late, early or lost for that, and each has the time at which it was sent."""

from __future__ import annotations

import pytest

from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import calm
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation]

HOUR_MS = 3_600_000  # milliseconds; brokers refuse timestamps that are further in their future
TROUBLE_S = 20.0  # virtual seconds


@pytest.mark.parametrize("hours", [1, -1])
def test_a_wall_clock_that_jumps_delays_and_fails_nothing(hours: int) -> None:
    options = {"acks": "all", "linger_ms": 50, "delivery_timeout_ms": 3_000, "request_timeout_ms": 1_000, "metadata_max_age_ms": 1_000}
    plan = calm(
        draw(1),
        trouble=TROUBLE_S,
        release="4.4",
        topics={"t": 2},
        unknown_topics=("new",),
        actors=2,
        records=200,
        give_up=False,
        options=options,
    )
    sim = Simulation(7, plan=plan)
    wall, begun = sim.cluster.wall_ms, sim.timeline.now
    sim.cluster.wall_ms = lambda: wall() + (hours * HOUR_MS if int((sim.timeline.now - begun) * 20) % 2 else 0)
    report = sim.run()
    assert (report.acked, report.failed) == (report.accepted, 0)
    assert report.accepted == 400
    times = {stored.record.timestamp_ms for found in sim.truth.stored.values() for stored in found}
    assert max(times) - min(times) > abs(hours) * HOUR_MS / 2, "the clock has jumped while records were sent"
