"""docs/promises.md names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_promise_names_tests_that_exist() -> None:
    functions = {
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    lines = (ROOT / "docs" / "promises.md").read_text().splitlines()
    rows = [line.split(" | ") for line in lines if line.startswith("| ") and "`test_" in line]
    assert len(rows) > 40
    named = [set(re.findall(r"`(test_\w+)`", row[-1])) for row in rows]
    assert all(named)
    assert set.union(*named) - functions == set()
