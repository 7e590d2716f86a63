"""Consumer groups under seeded schedules of faults, and seeded bugs that have to be found there.

`PYKAFKA4_SIM_SCHEDULES=200000` is `make sim`; a tenth of that number are schedules of consumers, which take ten times as long.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import attrs
import pytest

from pykafka4.core import INFINITY, Effects
from pykafka4.core.assignors import ASSIGNORS
from pykafka4.core.group import Group
from pykafka4.core.member import Member
from pykafka4.core.reader import Reader
from pykafka4.records import OffsetAndMetadata
from pykafka4.testing.consumer_plan import CONSUMER_FAULTS
from pykafka4.testing.consumers import ConsumerSimulation
from pykafka4.testing.invariants import Broken

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

SCHEDULES = max(10, int(os.environ.get("PYKAFKA4_SIM_SCHEDULES", "2000")) // 10)
KEPT = [int(line.split()[0]) for line in Path(__file__).with_name("consumer_seeds.txt").read_text().splitlines() if line[:1].isdigit()]
MUST_REACH = [
    *((fault, "stable") for fault in sorted(CONSUMER_FAULTS)),
    *((fault, "joining") for fault in ("coordinator moves", "broker stops", "group error", "connection is cut")),
    *((fault, "syncing") for fault in ("group fault", "member joins")),
    *((fault, "unjoined") for fault in ("move leader", "network is dark", "member dies")),
    *((fault, "revoking") for fault in ("group error", "network is dark")),
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
            reached.update(ConsumerSimulation(seed).run().coverage)
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    return reached, wrong


def run_all(count: int) -> tuple[Counter[tuple[str, str]], list[str]]:
    """The same, on all processors when there is much to do."""
    if count <= 500:
        return run(range(count))
    chunks = [range(start, min(start + 100, count)) for start in range(0, count, 100)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        results = list(pool.map(run, chunks))
    return sum((reached for reached, _ in results), Counter()), [line for _, wrong in results for line in wrong]


def table(reached: Counter[tuple[str, str]]) -> str:
    """Faults by states of members, how often each met the other."""
    states = sorted({state for _, state in reached})
    lines = [" " * 26 + " ".join(f"{state:>9}" for state in states)]
    lines += [f"{fault[:25]:<26}" + " ".join(f"{reached[fault, state]:>9}" for state in states) for fault in CONSUMER_FAULTS]
    return "\n".join(lines)


@pytest.mark.parametrize("seed", KEPT)
def test_schedules_that_once_failed_hold(seed: int) -> None:
    ConsumerSimulation(seed).run()


@pytest.mark.timeout(0 if SCHEDULES > 200 else 1200)
def test_every_promise_holds_in_every_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    reached, wrong = run_all(SCHEDULES)
    with capsys.disabled():
        if SCHEDULES > 200:
            print(f"\n{table(reached)}\n{SCHEDULES} schedules, {len(wrong)} failed")
    assert not wrong, "\n".join(wrong[:20])
    missed = [combination for combination in MUST_REACH if not reached[combination]]
    assert not missed, f"faults that never met a state they have to meet: {missed}"


def test_the_same_seed_tells_the_same_story() -> None:
    stories: list[list[str]] = [[], []]
    for story in stories:
        ConsumerSimulation(3, story=story.append).run()
    assert stories[0] == stories[1]
    assert len(stories[0]) > 20


# ---- seeded bugs

Patch = Callable[[pytest.MonkeyPatch], None]
MOST = 80  # schedules until a bug must have been found


def around(patch: pytest.MonkeyPatch, owner: Any, name: str, instead: Callable[..., Any]) -> None:
    """Replace a method; `instead` gets the original first."""
    original = getattr(owner, name)
    patch.setattr(owner, name, lambda *args, **options: instead(original, *args, **options))


def commit_what_is_prefetched(patch: pytest.MonkeyPatch) -> None:
    def put(original: Any, self: Reader, item: Any) -> None:
        original(self, item)
        if hasattr(item, "next_offset"):
            self.finished[item.serial.tp] = (item.next_offset, -1)

    around(patch, Reader, "put", put)


def commit_what_is_in_hand(patch: pytest.MonkeyPatch) -> None:
    def leave(original: Any, self: Reader) -> None:
        original(self)
        self.finished.update({claim.tp: (position, epoch) for claim, position, epoch in self._handed if claim.live})

    around(patch, Reader, "leave", leave)


def commit_from_the_start_now_and_then(patch: pytest.MonkeyPatch) -> None:
    count = [0]

    def commit(original: Any, self: Member, offsets: Any, *rest: Any) -> None:
        count[0] += 1
        original(self, dict.fromkeys(offsets, OffsetAndMetadata(0)) if count[0] % 3 == 0 else offsets, *rest)

    around(patch, Member, "commit", commit)


def lose_a_chunk(patch: pytest.MonkeyPatch) -> None:
    count = [0]

    def put(original: Any, self: Reader, item: Any) -> None:
        count[0] += hasattr(item, "next_offset")
        if not hasattr(item, "next_offset") or count[0] % 7:
            original(self, item)

    around(patch, Reader, "put", put)


def keep_what_is_revoked(patch: pytest.MonkeyPatch) -> None:
    around(patch, Reader, "purge", lambda original, self, claims: None)


def never_commit(patch: pytest.MonkeyPatch) -> None:
    around(patch, Member, "commit", lambda original, self, offsets, ticket, deadline, done: done(None))


def give_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    def everything(original: Any, members: Any, *rest: Any) -> Any:
        dealt = original(members, *rest)
        whole = [tp for mine in dealt.values() for tp in mine]
        return dict.fromkeys(dealt, whole)

    for name, deal in list(ASSIGNORS.items()):
        patch.setitem(ASSIGNORS, name, lambda *args, deal=deal: everything(deal, *args))  # type: ignore[misc, index]


def never_rest(patch: pytest.MonkeyPatch) -> None:
    def poll(original: Any, self: Member, now: float) -> Effects:
        return attrs.evolve(original(self, now), wake_at=now)

    around(patch, Member, "poll", poll)


def stay_out(patch: pytest.MonkeyPatch) -> None:
    """Members never join again once they are out."""

    def poll(original: Any, self: Group, now: float) -> float:
        return INFINITY if self.generation > 0 and self.state.name == "UNJOINED" else original(self, now)

    around(patch, Group, "poll", poll)


MUTANTS: dict[Patch, set[str]] = {
    commit_what_is_prefetched: {"nothing unfinished is committed"},
    commit_what_is_in_hand: {"nothing unfinished is committed"},
    commit_from_the_start_now_and_then: {"commits never go back"},
    lose_a_chunk: {"positions never skip"},
    keep_what_is_revoked: {"records of owned partitions only", "positions never skip", "progress"},
    never_commit: {"progress"},
    give_everybody_everything: {"one owner per generation"},
    never_rest: {"no hot loop"},
    stay_out: {"progress"},
}


def first_broken() -> Broken | None:
    """The first promise that a schedule finds broken."""
    for seed in range(MOST):
        try:
            ConsumerSimulation(seed).run()
        except Broken as broken:
            return broken
    return None


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    broken = first_broken()
    assert broken is not None, f"{MOST} schedules did not find it"
    assert broken.promise in MUTANTS[mutant], broken
