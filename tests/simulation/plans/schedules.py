"""What the tests of schedules share. Rule: a schedule is a class and a seed, so that any process can run it.

`PYKAFKA4_SIM_SCHEDULES=200000` is `make sim`; `PYKAFKA4_SIM_FIRST` is the first seed, for schedules that nobody has run yet.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import pytest

from tests.simulation.judge.invariants import Broken
from tests.simulation.plans.consumers import ConsumerSimulation
from tests.simulation.plans.processing_plan import ProcessingSimulation
from tests.simulation.plans.producer_plan import ProducerPlan
from tests.simulation.plans.share_plan import ShareSimulation
from tests.simulation.plans.simulation import Simulation
from tests.simulation.world.weather import Climate

SCHEDULES = int(os.environ.get("PYKAFKA4_SIM_SCHEDULES", "2000"))
FIRST = int(os.environ.get("PYKAFKA4_SIM_FIRST", "0"))
COLLECT_EVERY = 20  # schedules whose garbage, about 1 MB, is collected together

Kind: TypeAlias = "type[Simulation] | type[ConsumerSimulation] | type[ShareSimulation] | type[ProcessingSimulation]"
Pair: TypeAlias = tuple[str, str]
Patch: TypeAlias = Callable[[pytest.MonkeyPatch], None]


@attrs.frozen
class Seen:
    """What schedules met: how often each fault met each state, and what went wrong."""

    schedules: int = 0
    reached: Counter[Pair] = attrs.Factory(Counter)
    wrong: list[str] = attrs.Factory(list)
    features: Counter[str] = attrs.Factory(Counter)  # how often each was drawn, and its promise looked at; of shares: what happened

    def __add__(self, other: Seen) -> Seen:
        features = self.features + other.features
        return Seen(self.schedules + other.schedules, self.reached + other.reached, self.wrong + other.wrong, features)

    def line(self, what: str, faults: Iterable[str]) -> str:
        """How many faults met how many states."""
        states = {state for _, state in self.reached}
        of = f"{len(self.reached)} of {len(list(faults)) * len(states)} pairs of a fault and a state reached"
        return f"{self.schedules} schedules of {what}: {len(self.wrong)} failed, {of}"

    def table(self, faults: Iterable[str]) -> str:
        """Faults by states, how often each met the other."""
        states = sorted({state for _, state in self.reached})
        lines = [" " * 26 + " ".join(f"{state[:12]:>12}" for state in states)]
        lines += [f"{fault[:25]:<26}" + " ".join(f"{self.reached[fault, state]:>12}" for state in states) for fault in faults]
        return "\n".join(lines)

    def check(self, floor: int, must: Iterable[Pair]) -> None:
        """Nothing went wrong, and what has to meet has met."""
        assert not self.wrong, "\n".join(self.wrong[:20])
        missed = [pair for pair in must if not self.reached[pair]]
        assert not missed, f"faults that never met a state they have to meet: {missed}"
        assert len(self.reached) >= floor, f"{len(self.reached)} pairs of a fault and a state were reached; there were always {floor}"


def run(kind: Kind, seeds: range) -> Seen:
    """These schedules, one after the other."""
    logging.disable(logging.CRITICAL)
    seen = Seen(len(seeds))
    with uncollected() as collect:
        for done, seed in enumerate(seeds, 1):
            schedule = kind(seed)
            try:
                report = schedule.run()
                seen.reached.update(report.coverage)
                seen.features.update(getattr(report, "features", {}))
            except Exception as error:
                seen.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
            vars(schedule).clear()  # handles of records are invisible to the collector, so a schedule that keeps some is never freed
            if done % COLLECT_EVERY == 0:
                collect()
    return seen


@contextlib.contextmanager
def uncollected() -> Iterator[Callable[[], object]]:
    """Without a garbage collector, which looks at whole schedules while they are alive: what it gives looks at what they left.

    Not at what was there before: modules, and who runs this.
    """
    gc.collect()
    gc.freeze()
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield gc.collect
    finally:
        if collecting:
            gc.enable()


def run_all(kind: Kind, count: int, *, alone: int, chunk: int) -> Seen:
    """`count` schedules; more than `alone` on all processors, `chunk` at a time."""
    seeds = range(FIRST, FIRST + count)
    if count <= alone:
        return run(kind, seeds)
    chunks = [seeds[start : start + chunk] for start in range(0, count, chunk)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        return summed(pool.map(partial(run, kind), chunks), count)


def summed(parts: Iterable[Seen], count: int) -> Seen:
    """Their sum. What failed is printed as soon as it is known, and how far they are at every tenth: all of them take an hour."""
    seen = Seen()
    for part in parts:
        tenths = 10 * seen.schedules // count
        seen += part
        for line in part.wrong:
            print(line, flush=True)
        if 10 * seen.schedules // count > tenths:
            print(f"{seen.schedules} of {count} schedules: {len(seen.wrong)} failed", flush=True)
    return seen


def kept(name: str) -> list[int]:
    """The seeds in a file beside the tests."""
    return [int(line.split()[0]) for line in (Path(__file__).parents[1] / name).read_text().splitlines() if line[:1].isdigit()]


def traces_of(kind: Kind, seed: int) -> list[list[str]]:
    """The traces of two runs of the same schedule."""
    traces: list[list[str]] = [[], []]
    for trace in traces:
        kind(seed, trace=trace.append).run()
    return traces


def calm(plan: Any, *, trouble: float, **changes: Any) -> Any:
    """`plan` with nothing that goes wrong by itself for `trouble` seconds: what does, the test does."""
    calmed = {"faults": ("more partitions",), "fault_interval": 1e9, "climate": Climate(leak=1.0), **changes}
    if isinstance(plan, ProducerPlan):
        calmed.update(spaced=False, ending="close", neighbours=0)
    return attrs.evolve(plan, trouble=trouble, **calmed)


# ---- mutants


def around(patch: pytest.MonkeyPatch, owner: Any, name: str, instead: Callable[..., Any]) -> None:
    """Replace a method; `instead` gets the original first."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **options: instead(original, *args, **options))


@attrs.frozen
class Hunt:
    """Which promises a bug may break, the words of the check that has to find it, and what narrows the search."""

    promises: set[str]
    options: dict[str, Any] = attrs.Factory(dict)
    faults: tuple[str, ...] = ()
    every: float | None = None  # mean seconds between faults
    says: str = ""
    plan: dict[str, Any] = attrs.Factory(dict)  # what else is different
    first: int = 0  # the seed to begin with: the one that finds it, where those before it take long

    def narrowed(self, plan: Any) -> Any:
        """`plan` with these options and faults."""
        faults, interval = self.faults or plan.faults, self.every or plan.fault_interval
        options = {**plan.options, **self.options}
        if options.get("linger_ms", 0) >= options.get("delivery_timeout_ms", 120_000):  # the plan's linger, the hunt's timeout
            options["linger_ms"] = 0
        changes = {"options": options, "faults": faults, "fault_interval": interval, **self.plan}
        return attrs.evolve(plan, **changes)

    def check(self, schedules: Iterable[Simulation | ConsumerSimulation]) -> None:
        """One of them finds the bug with the check that has to; others of `promises` may be broken before."""
        promise, detail = "", "no schedule found anything"
        for schedule in schedules:
            try:
                schedule.run()
            except Broken as broken:
                promise, detail = broken.promise, broken.detail
                if promise not in self.promises or self.says in detail:
                    break
            finally:
                vars(schedule).clear()  # see `run`
        assert promise in self.promises, f"{promise}: {detail}"
        assert self.says in detail, f"other checks found it: {promise}: {detail}"
