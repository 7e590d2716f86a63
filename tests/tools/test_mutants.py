"""The runner of mutants: killed means that a test fails with the bug and passes without it."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import attrs
import pytest

from tools.mutants.catalogue import Entry, entries, mutants_of
from tools.mutants.mutant import ROOT, Mutant, mirrored
from tools.mutants.places import Stale, edited, places
from tools.mutants.run import Fate, Tree, judged, run_one

CODE = """class Total:
    def __init__(self):
        self.sum = 0

    def add(self, *parts):
        if not parts:
            return self.sum
        for part in parts:  # a comment
            self.sum += part
            self.last = part
        return self.sum + 0


def other():
    return 1
"""
COMPILED = """cdef class Ring:
    cdef int put(self, int value) noexcept nogil:
        self.last = value
        return self.size + value

    def get(self):
        return self.last
"""
TESTS = """from total import Total, other


def test_sum():
    assert Total().add(2, 1) == 3


def test_other():
    assert other()
"""
KILLER, BLIND = "tests/test_total.py::test_sum", "tests/test_total.py::test_other"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    pytest.importorskip("pytest_timeout", reason="mutants are tried under pytest-timeout; pip install -e '.[test]'")
    (tmp_path / "pykafka4").mkdir()
    (tmp_path / "pykafka4" / "total.py").write_text(CODE)
    (tmp_path / "pykafka4" / "_ring.pyx").write_text(COMPILED)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = pykafka4\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_total.py").write_text(TESTS)
    return Tree(tmp_path)


def change(tree: Tree, symbol: str, was: str, becomes: str, on: str = "") -> str:
    (place,) = places(tree.folder)[symbol]
    return edited((tree.folder / place.file).read_text(), place, was, becomes, on)


def mutant(tree: Tree, becomes: str, test: str = "") -> Mutant:
    (made,), stale = mutants_of([Entry("Total.add", "self.sum += part", becomes, "sums are wrong", test)], tree.folder)
    assert not stale
    return made


# -- the place of an edit


@pytest.mark.parametrize(
    ("was", "becomes", "line"),
    [
        ("self.sum + 0", "self.sum + 1", "return self.sum + 1"),
        ("self.last=part", "", "self.sum += part"),
        ("self.sum += part; self.last = part", "self.last = part; self.sum += part", "self.last = part\n            self.sum += part"),
        ("if not parts: ...", "", "def add(self, *parts):\n        pass\n        for"),
    ],
)
def test_an_edit_finds_its_code_whatever_its_formatting(tree: Tree, was: str, becomes: str, line: str) -> None:
    changed = change(tree, "Total.add", was, becomes)
    assert line in changed
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(CODE))


@pytest.mark.parametrize("was", ["self.sum", "self.sum * 2", "if parts: ..."])
def test_code_that_is_not_there_once_is_stale(tree: Tree, was: str) -> None:
    with pytest.raises(Stale, match="times"):
        change(tree, "Total.add", was, "x")


def test_a_compiled_edit_is_switched_on_at_run_time(tree: Tree) -> None:
    assert "return ((value) if (on == 7) else (self.size + value))" in change(tree, "Ring.put", "self.size + value", "value", "(on == 7)")
    assert "if not (on == 7): self.last = value\n" in change(tree, "Ring.put", "self.last = value", "", "(on == 7)")
    with pytest.raises(Stale):
        change(tree, "Ring.get", "value", "0", "on")


def test_a_stale_entry_costs_a_line_and_no_failure(tree: Tree) -> None:
    listed = [
        Entry("Total.gone", "a", "b", "the first"),
        Entry("Total.add", "gone()", "", "the second"),
        Entry("Total.add", "self.last = part", "", "the third", "tests/test_gone.py"),
    ]
    made, stale = mutants_of(listed, tree.folder)
    assert not made
    assert len(stale) == 3
    assert "0 functions or classes" in stale[0]
    assert "the second" in stale[1]
    assert "tests/test_gone.py" in stale[2]


def test_the_compiled_mutants_of_a_file_are_built_together(tree: Tree) -> None:
    both, _ = mutants_of([Entry("Ring.put", "self.last = value", "", "one"), Entry("Ring.get", "self.last", "0", "two")], tree.folder)
    assert [made.number for made in both] == [1, 2]
    assert "mutant_on == 1" in both[1].new
    assert "mutant_on == 2" in both[1].new


def test_the_tests_that_mirror_a_module_run_first_and_then_those_of_its_folder() -> None:
    near, folder = mirrored("pykafka4/core/group/membership/classic.py")
    assert near == ("tests/core/group/membership/test_classic.py",)
    assert folder == ("tests/core/group/membership",)


# -- the catalogue


def test_the_catalogue_has_at_most_250_different_bugs() -> None:
    listed = entries()
    assert len(listed) <= 250
    assert len({(entry.symbol, entry.was, entry.becomes) for entry in listed}) == len(listed)
    assert all(entry.breaks and entry.was != entry.becomes for entry in listed)


# -- the verdict


def test_a_mutant_that_its_test_notices_is_killed_and_the_source_is_as_before(tree: Tree) -> None:
    verdict = run_one(tree, mutant(tree, ""))
    assert (verdict.fate, verdict.detail) == (Fate.KILLED, KILLER)
    assert (tree.folder / "pykafka4" / "total.py").read_text() == CODE


def test_a_mutant_that_no_test_notices_survives(tree: Tree) -> None:
    assert run_one(tree, mutant(tree, "", BLIND)).fate is Fate.SURVIVED


def test_a_test_that_fails_without_the_mutant_shows_nothing(tree: Tree) -> None:
    made = mutant(tree, "self.sum -= part")
    (tree.folder / "pykafka4" / "total.py").write_text(CODE.replace("self.sum = 0", "self.sum = 5"))
    verdict = run_one(tree, made)
    assert verdict.fate is Fate.BROKEN
    assert "without it, too" in verdict.detail


def test_a_module_that_cannot_be_imported_shows_nothing(tree: Tree) -> None:
    made = attrs.evolve(mutant(tree, ""), new="import nothing_of_that_name\n")
    assert run_one(tree, made).fate is Fate.BROKEN


def test_a_crash_of_the_interpreter_counts_as_noticed() -> None:
    made = Mutant("a.py", "", "a crash", ())
    assert judged(made, subprocess.CompletedProcess([], -11, "", ""), 0.0).fate is Fate.KILLED


def test_every_compiled_module_has_a_place_for_the_number_of_the_mutant() -> None:
    for path in (ROOT / "pykafka4").rglob("*.pyx"):
        assert "\ncdef extern from " in path.read_text()
