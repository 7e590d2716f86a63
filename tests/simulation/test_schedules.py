"""The producer under seeded schedules of faults: every promise of `pykafka4.testing.invariants`, all the time.

`PYKAFKA4_SIM_SCHEDULES=200000` is `make sim`. A seed that fails is told with its promise and belongs into `seeds.txt`:
`python -c 'from pykafka4.testing.simulation import Simulation; Simulation.replay(SEED)'` tells its story.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from pykafka4.testing.plan import FAULTS
from pykafka4.testing.simulation import Simulation

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

SCHEDULES = int(os.environ.get("PYKAFKA4_SIM_SCHEDULES", "2000"))
CHUNKS = 20
KEPT = [int(line.split()[0]) for line in Path(__file__).with_name("seeds.txt").read_text().splitlines() if line[:1].isdigit()]

MUST_REACH = [
    *((fault, "batches pipelined") for fault in ("move leader", "broker stops", "broker freezes", "connection is cut", "answer swallowed")),
    *((fault, "batch maybe written, waiting") for fault in ("move leader", "error before append", "sequence error", "refusal")),
    *((fault, "batch maybe written, waiting") for fault in ("topic is hidden", "topic recreated", "metadata is stale", "broker stops")),
    *((fault, "identity asking") for fault in ("identity error", "broker stops", "connection is cut")),
    *((fault, "identity renewing") for fault in ("sequence error", "connection is cut", "move leader", "lost after append")),
    *((fault, "records parked") for fault in ("metadata error", "topic is hidden", "broker stops", "all connections are cut")),
    *((fault, "partition offline") for fault in ("move leader", "no leader", "throttled", "more partitions")),
    *((fault, "connecting") for fault in ("broker stops", "network is dark", "move leader")),
    *((fault, "batch in flight") for fault in sorted(FAULTS)),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(seeds: range) -> tuple[Counter[tuple[str, str]], list[str]]:
    """(what was reached, what went wrong) of these schedules."""
    logging.disable(logging.CRITICAL)
    reached: Counter[tuple[str, str]] = Counter()
    wrong = []
    for seed in seeds:
        try:
            reached.update(Simulation(seed).run().coverage)
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    return reached, wrong


def run_all(count: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    """The same, on all processors when there is much to do."""
    size = max(1, min(500, count // CHUNKS))
    chunks = [range(start, min(start + size, count)) for start in range(0, count, size)]
    if count <= 5_000:
        results = [run(chunk) for chunk in chunks]
    else:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            results = list(pool.map(run, chunks))
    return sum((reached for reached, _ in results), Counter()), [line for _, wrong in results for line in wrong]


def table(reached: Counter[tuple[str, str]]) -> str:
    """Faults by states, how often each met the other."""
    states = sorted({state for _, state in reached})
    lines = [" " * 26 + " ".join(f"{state[:12]:>12}" for state in states)]
    lines += [f"{fault[:25]:<26}" + " ".join(f"{reached[fault, state]:>12}" for state in states) for fault in FAULTS]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", KEPT)
def test_schedules_that_once_failed_hold(seed: int) -> None:
    Simulation(seed).run()


@pytest.mark.timeout(0 if SCHEDULES > 2000 else 1200)
def test_every_promise_holds_in_every_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    reached, wrong = run_all(SCHEDULES)
    with capsys.disabled():
        if SCHEDULES > 2000:
            print(f"\n{table(reached)}\n{SCHEDULES} schedules, {len(wrong)} failed")
    assert not wrong, "\n".join(wrong[:20])
    missed = [combination for combination in MUST_REACH if not reached[combination]]
    assert not missed, f"faults that never met a state they have to meet: {missed}"


def test_the_same_seed_tells_the_same_story() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        Simulation(17, story=story.append).run()
    assert stories[0] == stories[1]
    assert len(stories[0]) > 20
