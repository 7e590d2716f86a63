"""Transactions under seeded schedules of faults: what is committed is read whole and once, what is aborted is not."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.simulation.plans.transactions import TransactionSimulation

pytestmark = [pytest.mark.simulation]
KEPT = [int(line.split()[0]) for line in (Path(__file__).parent / "transaction_seeds.txt").read_text().splitlines() if line[0] != "#"]
COUNT = int(os.environ.get("PYKAFKA4_SIM_SCHEDULES", "300")) // 10 or 1


@pytest.mark.timeout(1800)
def test_readers_get_committed_transactions_whole_and_nothing_of_aborted_ones(tell: Callable[[str], None]) -> None:
    outcomes: Counter[str] = Counter()
    for seed in [*range(COUNT), *KEPT]:
        outcomes += TransactionSimulation(seed).run().outcomes
    tell(f"transactions: {COUNT} schedules, {dict(outcomes)}")
    assert outcomes["COMMITTED"] > COUNT
    assert outcomes["ABORTED"] > COUNT // 2
