"""The runner of mutants: killed means that a test failed, and nothing else does."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import attrs
import pytest

from tools.mutants.catalogue import MODULES, MUTANTS
from tools.mutants.mutant import Mutant, Stale
from tools.mutants.run import EXTENSIONS, ROOT, Fate, Tree, control, judged, run_one, switched

MUTANT = Mutant("code.py", "return a + b", "return a - b", "sums are differences", ("test_code.py::test_sum",))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    pytest.importorskip("pytest_timeout", reason="mutants are tried under pytest-timeout; pip install -e '.[test]'")
    (tmp_path / "mycode.py").write_text("def add(a, b):\n    return a + b\n\n\ndef other():\n    return 1\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    tests = "from mycode import add, other\n\n\ndef test_sum():\n    assert add(2, 1) == 3\n\n\ndef test_other():\n    assert other()\n"
    (tmp_path / "test_code.py").write_text(tests)
    return Tree(tmp_path)


def with_file(**changes: object) -> Mutant:
    return attrs.evolve(MUTANT, file="mycode.py", **changes)


def test_a_mutant_that_its_test_notices_is_killed_and_the_source_is_as_before(tree: Tree) -> None:
    before = (tree.folder / "mycode.py").read_text()
    verdict = run_one(tree, with_file(), MUTANT.tests, 1)
    assert (verdict.fate, verdict.detail) == (Fate.KILLED, "test_code.py::test_sum")
    assert (tree.folder / "mycode.py").read_text() == before
    assert control(tree, [with_file()]) == ""


def test_a_mutant_that_no_test_notices_survives(tree: Tree) -> None:
    assert run_one(tree, with_file(), ("test_code.py::test_other",), 1).fate is Fate.SURVIVED


@pytest.mark.parametrize("old", ["return a * b", "return"])
def test_a_text_that_is_not_there_once_is_stale(tree: Tree, old: str) -> None:
    verdict = run_one(tree, with_file(old=old), MUTANT.tests, 1)
    assert verdict.fate is Fate.STALE
    assert old in verdict.detail


@pytest.mark.parametrize("tests", [("test_code.py::test_gone",), ("test_gone.py",)])
def test_a_test_that_is_not_there_kills_nothing(tree: Tree, tests: tuple[str, ...]) -> None:
    assert run_one(tree, with_file(), tests, 1).fate is Fate.BROKEN


def test_a_module_that_cannot_be_imported_kills_nothing(tree: Tree) -> None:
    assert run_one(tree, with_file(old="def add", new="import nothing_of_that_name\n\n\ndef add"), MUTANT.tests, 1).fate is Fate.BROKEN


def test_tests_that_fail_without_a_mutant_show_nothing(tree: Tree) -> None:
    (tree.folder / "mycode.py").write_text("def add(a, b):\n    return 0\n\n\ndef other():\n    return 1\n")
    assert "test_sum" in control(tree, [with_file()])


def test_a_crash_of_the_interpreter_counts_as_noticed() -> None:
    assert judged(MUTANT, subprocess.CompletedProcess([], -11, "", ""), 0.0).fate is Fate.KILLED


def test_a_compiled_mutant_is_switched_on_by_its_number() -> None:
    mutant = Mutant("core.pyx", "if a:", "if a and not {on}:", "it is never so", ())
    assert mutant.apply("if a:\n", on="(mutant_on == 7)") == "if a and not (mutant_on == 7):\n"
    with pytest.raises(Stale):
        mutant.apply("if b:\n")


def test_every_compiled_module_can_switch_mutants_and_has_those_of_its_folder() -> None:
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "pykafka4").rglob("*.pyx")} == set(EXTENSIONS)
    for name, anchor in EXTENSIONS.items():
        source = switched(name, (ROOT / name).read_text(), anchor)
        assert source.index("int mutant_on") < source.index(anchor)
    folders = {Path(name).parent for name in EXTENSIONS}
    assert {Path(mutant.file).parent for mutant in MUTANTS if mutant.compiled} <= folders


def test_a_compiled_module_without_a_place_for_the_number_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"core\.pyx lacks the line 'here'"):
        switched("core.pyx", "nothing", "here")


def test_the_catalogue_holds_different_bugs_each_with_its_tests() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.old != mutant.new
        assert mutant.tests, mutant.breaks
        assert not mutant.compiled or "{on}" in mutant.new, mutant.breaks


def test_the_mutants_of_a_file_are_in_one_module_and_its_folder_mirrors_that_of_the_file() -> None:
    modules = {(mutant.file, module) for module, mutants in MODULES.items() for mutant in mutants}
    assert len(modules) == len({file for file, _ in modules})
    for file, module in modules:
        assert Path(file).is_relative_to(Path("pykafka4", *module.split(".")[:-1])), f"{file} is in {module}"


def test_every_mutant_of_the_catalogue_fits_the_source_and_names_tests_that_are_there() -> None:
    texts = {path: (ROOT / path).read_text() for path in {mutant.file for mutant in MUTANTS}}
    texts |= {
        path: (ROOT / path).read_text()
        for path in {test.partition("::")[0] for mutant in MUTANTS for test in mutant.tests}
        if path.endswith(".py")
    }
    for mutant in MUTANTS:
        changed = mutant.apply(texts[mutant.file], on="1")
        if not mutant.compiled:
            ast.parse(changed, f"{mutant.file}, {mutant.breaks}")
        for test in mutant.tests:
            path, _, name = test.partition("::")
            assert not name or f"def {name.partition('[')[0]}(" in texts[path], f"{test} is gone: {mutant.breaks}"
