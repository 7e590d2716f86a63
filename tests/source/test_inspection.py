"""Tests reach the inner parts of a handle through `tests.inspection`: a part that moves is followed in one place."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PARTS = ("_session", "_runtime")


def reaches(tree: ast.AST) -> list[int]:
    """Lines that read such a part of anything but `self`."""
    return sorted(
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in PARTS and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    )


def test_an_access_is_recognized() -> None:
    assert reaches(ast.parse("self._session\nconsumer._session.closed\nself.client._runtime\n")) == [2, 3]


def test_no_other_module_reads_the_parts_of_a_handle() -> None:
    modules = [path for path in TESTS.rglob("*.py") if path.name != "inspection.py"]
    found = {str(path.relative_to(TESTS)): lines for path in modules if (lines := reaches(ast.parse(path.read_text())))}
    assert found == {}
