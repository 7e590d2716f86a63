"""Every module of the client begins with a sentence on what it does, and has a line in the map of its folder; the guide has all calls."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pykafka4 import AdminClient

PACKAGE = Path(__file__).resolve().parents[2] / "pykafka4"
MODULES = [path.relative_to(PACKAGE).as_posix() for kind in ("py", "pyx", "pxi") for path in sorted(PACKAGE.rglob(f"*.{kind}"))]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_begins_with_a_sentence(module: str) -> None:
    text = (PACKAGE / module).read_text()
    head = (ast.get_docstring(ast.parse(text)) or "") if module.endswith(".py") else "\n".join(text.splitlines()[:2])
    assert len(head.split("\n\n")[0].split()) > 3, head


@pytest.mark.parametrize("folder", sorted({path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("__init__.py")}))
def test_the_map_of_a_folder_has_a_line_for_each_module_and_folder(folder: str) -> None:
    room = PACKAGE / folder
    modules = {path.stem for kind in ("py", "pyx", "pxi") for path in room.glob(f"*.{kind}")} - {"__init__"}
    folders = {f"{path.parent.name}/" for path in room.glob("*/__init__.py")}
    lines = re.findall(r"^ *(\w+/?)  +\S", ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "", re.MULTILINE)
    assert sorted(lines) == sorted(modules | folders)


def test_the_guide_of_administration_has_every_call_of_an_admin_client() -> None:
    table = (PACKAGE.parent / "docs" / "guide" / "admin.md").read_text().split("## All calls")[1].split("\n## ")[0]
    calls = {name for name in dir(AdminClient) if not name.startswith("_")}
    assert calls - set(re.findall(r"`(\w+)`", table)) == {"close", "from_properties", "metrics", "status"}
