"""Every module of the client begins with a sentence on what it does."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka4"
MODULES = [path.relative_to(PACKAGE).as_posix() for kind in ("py", "pyx", "pxi") for path in sorted(PACKAGE.rglob(f"*.{kind}"))]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_begins_with_a_sentence(module: str) -> None:
    text = (PACKAGE / module).read_text()
    head = (ast.get_docstring(ast.parse(text)) or "") if module.endswith(".py") else "\n".join(text.splitlines()[:2])
    assert len(head.split("\n\n")[0].split()) > 3, head
