"""The results of Java's assignors, as they are stored and as Java gives them now."""

from __future__ import annotations

from typing import Any

import pytest

from integration.java.assignors import java_assign
from pykafka4.assignors.builtin import ASSIGNORS
from tests.assignors.assignor_cases import OWNED, Group, groups, is_comparable, owners, topics_of, vectors

FRESH = range(1_000_000, 1_000_150)  # seeds


def check(group: Group, assignor: str, answer: Any) -> None:
    """If there is no answer of Java, the result must be valid all the same."""
    ours = owners(group, assignor)
    if answer is not None:
        assert ours == answer
    elif assignor == "sticky":
        wanted = topics_of(group)
        assert not [name for (name, _), each in zip(group["topics"], ours) if name in wanted and -1 in each]


def test_every_assignor_gives_the_results_of_javas() -> None:
    stored = vectors()
    for group, answers in stored:
        assert answers.keys() == ASSIGNORS.keys()
        for assignor, answer in answers.items():
            check(group, assignor, answer)
    assert len(stored) > 2_000
    unknown = [assignor for _, answers in stored for assignor, answer in answers.items() if answer is None]
    assert set(unknown) <= OWNED.keys()
    assert len(unknown) < 0.05 * len(stored)


def test_the_vectors_have_groups_of_all_kinds() -> None:
    stored = [group for group, _ in vectors()]

    def share(fits: Any) -> float:
        return sum(map(bool, map(fits, stored))) / len(stored)

    assert share(lambda group: len({tuple(member["topics"]) for member in group["members"]}) > 1) > 0.2
    assert share(lambda group: any(member["rack"] for member in group["members"])) > 0.2
    assert share(lambda group: any(member["owned"] for member in group["members"])) > 0.3
    assert share(lambda group: any(member["instance"] for member in group["members"])) > 0.3
    assert share(lambda group: len({member["generation"] for member in group["members"]} - {-1}) > 1) > 0.1
    assert share(lambda group: any(not member["id"].isascii() for member in group["members"])) > 0.3
    assert share(lambda group: len(group["members"]) > 20) > 0.05
    assert share(lambda group: len(group["topics"]) > 20) > 0.1


@pytest.mark.java
def test_java_gives_the_same_results_for_groups_that_are_not_stored() -> None:
    drawn = groups(FRESH)
    for group, answers in zip(drawn, java_assign(drawn), strict=True):
        del answers["nanos"]
        for assignor, answer in answers.items():
            check(group, assignor, answer if is_comparable(group, assignor, answer) else None)
