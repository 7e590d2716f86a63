"""Every module of the client states its rule, so that the command in docs/design.md prints all of them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka4"
MODULES = [path.relative_to(PACKAGE).as_posix() for kind in ("py", "pyx", "pxi") for path in sorted(PACKAGE.rglob(f"*.{kind}"))]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_states_its_rule(module: str) -> None:
    text = (PACKAGE / module).read_text()
    head = (ast.get_docstring(ast.parse(text)) or "") if module.endswith(".py") else "\n".join(text.splitlines()[:2])
    assert re.search(r"\bRules?:", head), head
