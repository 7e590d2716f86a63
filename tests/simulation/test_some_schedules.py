"""A few schedules of each kind, for runs that leave the simulation out."""

from __future__ import annotations

import attrs
import pytest

from tests.simulation.plans.consumers import ConsumerSimulation
from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import Kind, run
from tests.simulation.plans.simulation import Simulation


@pytest.mark.parametrize(("kind", "count"), [(Simulation, 100), (ConsumerSimulation, 15)])
def test_every_promise_holds_in_a_few_schedules(kind: Kind, count: int) -> None:
    seen = run(kind, range(count))
    assert not seen.wrong, "\n".join(seen.wrong)
    assert len(seen.reached) > count


@pytest.mark.parametrize("seed", range(20))
def test_every_promise_holds_where_records_get_their_partition_late(seed: int) -> None:
    plan = draw(seed)
    Simulation(seed, plan=attrs.evolve(plan, options={**plan.options, "partitioner": "late"})).run()
