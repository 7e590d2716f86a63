"""Simulated schedules and those on real brokers draw from one list of faults, and each fault is done on real brokers or says why not."""

from __future__ import annotations

import pytest

from integration.faults.actions import ACTIONS
from integration.faults.catalog import CONSUMERS, FAULTS, PRODUCERS, REAL_ONLY, Lane, ScheduledFault
from integration.faults.chaos_plan import draw, seed_of
from tests.simulation.plans.consumer_plan import CONSUMER_FAULTS
from tests.simulation.plans.producer_plan import FAULTS as PRODUCER_FAULTS


def test_the_simulation_draws_from_the_list_and_leaves_nothing_out() -> None:
    assert set(PRODUCER_FAULTS) == set(PRODUCERS)
    assert set(CONSUMER_FAULTS) == set(CONSUMERS)


@pytest.mark.parametrize("fault", [*FAULTS, *REAL_ONLY], ids=lambda fault: fault.name)
def test_each_fault_is_done_on_real_brokers_or_says_why_not(fault: ScheduledFault) -> None:
    assert (fault.lane is not None) == (fault.name in ACTIONS) == (not fault.unreal)


def test_no_action_is_without_its_fault_and_no_fault_is_named_twice() -> None:
    names = [fault.name for fault in (*FAULTS, *REAL_ONLY)]
    assert len(names) == len(set(names))
    assert set(ACTIONS) <= set(names)


def test_a_plan_follows_from_its_seed() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


@pytest.mark.parametrize("text", [None, ""])
def test_without_a_given_seed_a_new_one_is_drawn(text: str | None) -> None:
    assert len({seed_of(text) for _ in range(10)}) > 1
    assert seed_of("0") == 0


def test_every_fault_of_real_brokers_is_drawn_and_fills_the_time() -> None:
    plans = [draw(seed) for seed in range(50)]
    assert {step.fault for plan in plans for lane in Lane for step in plan.steps[lane]} == set(ACTIONS)
    for plan in plans:
        assert all(sum(step.seconds + step.pause for step in steps) >= plan.seconds for steps in plan.steps.values())
