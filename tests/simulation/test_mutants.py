"""Every check can find something: a small bug put into the client on purpose is found within a bounded number of schedules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.judge.invariants import Broken
from tests.simulation.judge.promised import CONSUMER_PROMISES, PROCESSING_PROMISES, PRODUCER_PROMISES, SHARE_PROMISES, TRANSACTION_PROMISES
from tests.simulation.mutants import consumer_mutants, processing_mutants, producer_mutants, share_mutants, transaction_mutants
from tests.simulation.mutants.promises import Check, checks, found_by, without_a_mutant
from tests.simulation.plans.consumer_plan import draw_plain_consumers
from tests.simulation.plans.consumers import ConsumerSimulation
from tests.simulation.plans.processing_plan import ProcessingSimulation, draw_processing
from tests.simulation.plans.producer_plan import draw_plain
from tests.simulation.plans.schedules import Hunt, Patch
from tests.simulation.plans.share_plan import ShareSimulation
from tests.simulation.plans.simulation import Simulation
from tests.simulation.plans.transactions import TransactionSimulation

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

PRODUCERS, CONSUMERS = producer_mutants.MUTANTS, consumer_mutants.MUTANTS
TRANSACTIONS, SHARES, PROCESSING = transaction_mutants.MUTANTS, share_mutants.MUTANTS, processing_mutants.MUTANTS
ALL = [*PRODUCERS.values(), *CONSUMERS.values(), *TRANSACTIONS.values(), *SHARES.values(), *PROCESSING.values()]
SCHEDULES = {Simulation: 400, ConsumerSimulation: 80}


def hunted(hunt: Hunt, kind: Any, count: int) -> Iterator[Any]:
    plan_of = draw_plain if kind is Simulation else draw_plain_consumers
    return (kind(seed, plan=hunt.narrowed(plan_of(seed))) for seed in range(hunt.first, hunt.first + count))


def controls(mutants: dict[Patch, Hunt]) -> list[Any]:
    """All mutants; `make test` takes one of ten of them, `make mutants` the others."""
    return [pytest.param(m, id=m.__name__, marks=[pytest.mark.controls] if n % 10 else []) for n, m in enumerate(mutants)]


def test_every_check_finds_a_mutant_of_the_client() -> None:
    assert not without_a_mutant(checks(), ALL)


def test_a_new_check_without_a_mutant_is_named(tmp_path: Path) -> None:
    (tmp_path / "more.py").write_text('def look(n):\n    if n:\n        raise Broken("progress", f"{n} are left")\n')
    (tmp_path / "test_more.py").write_text('def test():\n    Broken("progress", "not a check")\n')
    assert without_a_mutant(checks(tmp_path), ALL) == [Check("more.py:3", "progress", (" are left",))]
    assert without_a_mutant(checks(tmp_path), [*ALL, Hunt({"progress"}, says="are left")]) == []


@pytest.mark.parametrize(
    "mutants",
    [PRODUCERS, CONSUMERS, TRANSACTIONS, SHARES, PROCESSING],
    ids=["producers", "consumers", "transactions", "shares", "processing"],
)
def test_every_mutant_waits_for_the_words_of_one_check(mutants: dict[Patch, Hunt]) -> None:
    known = checks()
    wrong = {mutant.__name__: found_by(hunt, known) for mutant, hunt in mutants.items() if len(found_by(hunt, known)) != 1}
    assert not wrong


@pytest.mark.parametrize(
    ("mutants", "promises"),
    [
        (PRODUCERS, PRODUCER_PROMISES),
        (CONSUMERS, CONSUMER_PROMISES),
        (TRANSACTIONS, TRANSACTION_PROMISES),
        (SHARES, SHARE_PROMISES),
        (PROCESSING, PROCESSING_PROMISES),
    ],
    ids=["producers", "consumers", "transactions", "shares", "processing"],
)
def test_every_promise_is_broken_by_a_mutant(mutants: dict[Patch, Hunt], promises: dict[str, str]) -> None:
    known = checks()
    assert {check.promise for hunt in mutants.values() for check in found_by(hunt, known)} == set(promises)


@pytest.mark.parametrize("mutant", PRODUCERS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_producer_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    PRODUCERS[mutant].check(hunted(PRODUCERS[mutant], Simulation, SCHEDULES[Simulation]))


@pytest.mark.parametrize("mutant", CONSUMERS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_the_consumer_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    CONSUMERS[mutant].check(hunted(CONSUMERS[mutant], ConsumerSimulation, SCHEDULES[ConsumerSimulation]))


@pytest.mark.filterwarnings("ignore:an? (aio.)?(Consumer|Producer) was not closed:ResourceWarning")
@pytest.mark.parametrize("mutant", TRANSACTIONS, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_transactions_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    TRANSACTIONS[mutant].check(TransactionSimulation(seed) for seed in range(40))


@pytest.mark.filterwarnings("ignore:a (ShareConsumer|Producer) was not closed:ResourceWarning")  # a schedule that is broken off closes none
@pytest.mark.parametrize("mutant", SHARES, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_share_consumers_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    SHARES[mutant].check(ShareSimulation(seed) for seed in range(60))


@pytest.mark.filterwarnings("ignore:a (Consumer|Producer) was not closed:ResourceWarning")
@pytest.mark.parametrize("mutant", PROCESSING, ids=lambda mutant: mutant.__name__)
def test_a_bug_of_processing_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    hunt = PROCESSING[mutant]
    hunt.check(ProcessingSimulation(seed, plan=hunt.narrowed(draw_processing(seed))) for seed in range(60))


@pytest.mark.parametrize("mutant", controls(PRODUCERS))
def test_without_the_bug_of_the_producer_the_same_search_finds_nothing(mutant: Patch) -> None:
    for schedule in hunted(PRODUCERS[mutant], Simulation, 4):
        schedule.run()


@pytest.mark.parametrize("mutant", controls(CONSUMERS))
def test_without_the_bug_of_the_consumer_the_same_search_finds_nothing(mutant: Patch) -> None:
    for schedule in hunted(CONSUMERS[mutant], ConsumerSimulation, 2):
        schedule.run()


def kept_seeds() -> list[tuple[int, str]]:
    """The seeds in `seeds.txt` that are kept for a mutant, and its name."""
    lines = (Path(__file__).with_name("seeds.txt")).read_text().splitlines()
    words = [line.split() for line in lines if line[:1].isdigit()]
    return [(int(seed), name) for seed, name, *sentence in words if not sentence]


@pytest.mark.parametrize(("seed", "name"), kept_seeds())
def test_a_kept_seed_still_finds_its_bug(seed: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan may be drawn otherwise than when the seed was kept: then another seed has to take its place."""
    mutant = next(mutant for mutant in PRODUCERS if mutant.__name__ == name)
    mutant(monkeypatch)
    with pytest.raises(Broken) as broken:
        Simulation(seed).run()
    assert broken.value.promise in PRODUCERS[mutant].promises
