"""As `test_mutants`, for consumers: a small bug put into a member on purpose breaks the promise it is about."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from schedules import Patch, around, first_broken

from pykafka4.core import INFINITY, Effects
from pykafka4.core.assignors import ASSIGNORS
from pykafka4.core.group import Group
from pykafka4.core.member import Member
from pykafka4.core.reader import Reader
from pykafka4.records import OffsetAndMetadata
from pykafka4.testing.consumers import ConsumerSimulation

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(900)]

SCHEDULES = 80


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


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_seeded_bug_is_found(mutant: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    broken = first_broken(ConsumerSimulation(seed) for seed in range(SCHEDULES))
    assert broken is not None, f"{SCHEDULES} schedules did not find it"
    assert broken.promise in MUTANTS[mutant], broken
