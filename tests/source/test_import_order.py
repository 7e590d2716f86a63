"""The lists of modules in the docstrings of folders are complete, and each module imports only from lines below its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLAIM = "each line imports only from lines below it:\n"


def listed(init: Path) -> list[str]:
    """The modules in the docstring of a folder, from the first line on; none without the claim."""
    _, _, after = (ast.get_docstring(ast.parse(init.read_text())) or "").partition(CLAIM)
    rows, _, _ = after.partition("\n\n")
    return re.findall(r"^    (\w+)/? ", rows, re.MULTILINE)


FOLDERS = {init.parent: rows for init in sorted(ROOT.glob("pykafka4/**/__init__.py")) if (rows := listed(init))}


def imported(folder: Path, name: str) -> Iterator[tuple[str, str]]:
    """Each file of the module or folder `name`, with a module of `folder` that it imports, also in functions and for type checkers."""
    package = ".".join(folder.relative_to(ROOT).parts)
    for path in sorted({*folder.glob(f"{name}.py"), *folder.glob(f"{name}/**/*.py")}):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{each.name}" for each in node.names]
            else:
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            for each in names:
                if each.startswith(f"{package}."):
                    yield path.relative_to(ROOT).as_posix(), each.removeprefix(f"{package}.").partition(".")[0]


def test_lists_are_found() -> None:
    assert len(FOLDERS) > 50


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_each_module_imports_only_from_lines_below_its_own(folder: Path) -> None:
    rows = FOLDERS[folder]
    present = {path.stem for path in folder.glob("*.py")} | {path.parent.name for path in folder.glob("*/__init__.py")}
    compiled = {path.stem for path in folder.glob("*.p[yx][xi]")}
    assert set(rows) - compiled == present - {"__init__"}
    above = {(path, other) for at, name in enumerate(rows) for path, other in imported(folder, name) if other in rows[:at]}
    assert above == set()
