"""At most once (`retries=0`): under every fault records may be lost, but none is ever in a log twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from pykafka4.core.producer.produce.responses import ProduceAnswers
from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.producer_plan import draw
from tests.simulation.plans.schedules import around
from tests.simulation.plans.simulation import Simulation

pytestmark = [pytest.mark.simulation]

SEEDS = range(60)


def simulation(seed: int, **changes: Any) -> Simulation:
    plan = attrs.evolve(draw(seed), **changes)
    options: dict[str, Any] = {**plan.options, "acks": "all", "enable_idempotence": False, "retries": 0}
    return Simulation(seed, plan=attrs.evolve(plan, options=options))


def test_no_record_is_in_a_log_twice(tell: Callable[[str], None]) -> None:
    reports = [simulation(seed).run() for seed in SEEDS]
    acked, failed = sum(r.acked for r in reports), sum(r.failed for r in reports)
    tell(f"{len(reports)} schedules at most once: {acked} acknowledged, {failed} failed")
    assert acked > failed > 0


def test_what_a_broker_names_fails_alone_and_nothing_is_in_a_log_twice(tell: Callable[[str], None]) -> None:
    reports = [simulation(seed, refuses=True, release="4.4", crash="", give_up=False).run() for seed in SEEDS]
    alone, beside = (sum(r.features[what] for r in reports) for what in ("failed alone", "acknowledged beside a bad record"))
    tell(f"{len(reports)} schedules at most once: {alone} records failed alone, {beside} beside them were acknowledged")
    assert min(alone, beside) > 50


def test_a_producer_that_sends_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    around(monkeypatch, ProduceAnswers, "_was_last", lambda original, self, batch: False)
    with pytest.raises(Broken, match="no duplicates"):
        for seed in SEEDS:
            simulation(seed).run()
