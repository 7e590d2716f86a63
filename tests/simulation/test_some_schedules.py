"""A few schedules of each kind, for runs that leave the simulation out."""

from __future__ import annotations

import pytest
from consumers import ConsumerSimulation
from schedules import Kind, run
from simulation import Simulation


@pytest.mark.parametrize(("kind", "count"), [(Simulation, 100), (ConsumerSimulation, 15)])
def test_every_promise_holds_in_a_few_schedules(kind: Kind, count: int) -> None:
    seen = run(kind, range(count))
    assert not seen.wrong, "\n".join(seen.wrong)
    assert len(seen.reached) > count
