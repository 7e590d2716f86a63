"""The sample of mutations: the same for the same seed, only of what runs, and what is listed as equivalent is there and is left out."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

pytest.importorskip("cosmic_ray", reason="needs cosmic-ray; pip install -e '.[dev]'")

from tools.mutants.run import Fate, Tree, run_one
from tools.mutants.sample import EQUIVALENT, REST, Equivalent, candidates, draw

CODE = """from __future__ import annotations

from typing import Protocol


def wait(now: int | None, pause: float) -> float | None:
    if now is None:
        return pause  # some 3 seconds
    if pause > 10:
        return 10.0
    return now + pause


def many(count: int) -> bool:
    return count >= 100


class Counts(Protocol):
    @property
    def size(self, least: int = 1) -> int:
        return 3
"""
FILE = "pykafka4/code_under_test.py"
ENTRY = Equivalent("ReplaceComparisonOperator_Gt_GtE", "if pause > 10:", "if pause >= 10:", "the result is 10 either way")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(CODE)
    return tmp_path


def changes(root: Path, seed: int, size: int = 100) -> list[str]:
    return [mutant.breaks.partition(", ")[2] for mutant in draw(size, seed, (), (root / FILE).parent, root)]


def test_a_seed_draws_the_same_mutations_every_time_and_another_seed_others(root: Path) -> None:
    assert changes(root, 1, 4) == changes(root, 1, 4)
    assert len(set(changes(root, 1, 4))) == 4
    assert len({tuple(changes(root, seed, 4)) for seed in range(5)}) > 1


@pytest.mark.parametrize("test", REST)
def test_what_is_run_for_the_sample_is_there(test: str) -> None:
    path, _, function = test.partition("::")
    place = Path(__file__).parents[2] / path
    assert place.exists()
    assert not function or f"def {function}(" in place.read_text()


def test_a_changed_line_changes_no_other_mutation_of_the_sample(root: Path) -> None:
    before = set(changes(root, 1))
    (root / FILE).write_text(CODE.replace("annotations\n", "annotations\n\nimport attrs\n").replace("count >= 100", "count >= 200"))
    after = set(changes(root, 1))
    assert before - after
    assert {change for change in before if "count" not in change} == {change for change in after if "count" not in change}


def test_only_what_runs_is_mutated() -> None:
    lines = CODE.splitlines()
    at = {lines[candidate.span[0][0] - 1].strip().partition("  #")[0] for candidate in candidates(FILE, CODE)}
    assert at == {"if now is None:", "if pause > 10:", "return 10.0", "return now + pause", "return count >= 100"}
    assert not any(candidate.operator.endswith("_Is_Eq") for candidate in candidates(FILE, CODE))


def test_a_mutation_that_is_no_python_is_not_drawn(root: Path) -> None:
    (root / FILE).write_text("def read(lines):\n    while line := next(lines):\n        print(0 <= line)\n")
    drawn = {change for seed in range(20) for change in changes(root, seed)}
    assert any("0 < line" in change for change in drawn)
    assert not any("not line :=" in change or "0 is line" in change for change in drawn)


def test_what_is_listed_as_equivalent_is_not_drawn(root: Path) -> None:
    def drawn(listed: tuple[Equivalent, ...]) -> list[int]:
        samples = ((seed, draw(100, seed, listed, (root / FILE).parent, root)) for seed in range(40))
        return [seed for seed, sample in samples if any("'if pause >= 10:'" in mutant.breaks for mutant in sample)]

    assert drawn(())
    assert not drawn((ENTRY,))


def test_every_entry_of_the_list_has_a_reason() -> None:
    assert all(entry.reason for entry in EQUIVALENT)
    assert len(set(EQUIVALENT)) == len(EQUIVALENT)


def test_a_drawn_mutation_is_judged_by_the_other_tests_too_when_those_near_it_pass(root: Path) -> None:
    """Takes seconds: pytest starts four times."""
    (root / "pytest.ini").write_text("[pytest]\npythonpath = pykafka4\n")
    (root / "test_near.py").write_text("def test_near():\n    import code_under_test as code\n    assert code.wait(1, 2.0) == 3.0\n")
    (root / "test_far.py").write_text("def test_far():\n    import code_under_test as code\n    assert code.many(100)\n")
    mutant = next(
        mutant for mutant in draw(100, 1, (), (root / FILE).parent, root) if "count >=" in mutant.breaks and "_GtE_Gt" in mutant.breaks
    )
    mutant = attrs.evolve(mutant, tests=("test_near.py",), otherwise=("test_far.py",))
    verdict = run_one(Tree(root), mutant)
    assert (verdict.fate, verdict.detail) == (Fate.KILLED, "test_far.py::test_far")
    mutant = attrs.evolve(mutant, otherwise=("test_near.py::test_near",))
    assert run_one(Tree(root), mutant).fate is Fate.SURVIVED
