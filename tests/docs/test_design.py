"""The pages about the design are short, and what they name exists."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FIRST = ROOT / "docs" / "design.md"
PAGES = [FIRST, *sorted((ROOT / "docs" / "design").glob("*.md"))]
PACKAGE = ROOT / "pykafka4"
CODE = ("pykafka4", "tests", "integration", "tools", "benchmarks", "examples")
MOST_WORDS = {FIRST: 2_000}
MOST_WORDS_OF_A_SUBJECT = 3_000
PATH = re.compile(r"[\w./-]+\.(?:py|pxi|toml|tsv|txt|json|md)|[\w./-]+/")


def quoted(page: Path) -> list[str]:
    """What stands in backticks, blocks left out."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))


@cache
def paths() -> frozenset[str]:
    """Every file and folder, with each part of its path that a page may leave out at the beginning."""
    found = [path.relative_to(ROOT).parts for place in (*CODE, "docs") for path in (ROOT / place).rglob("*")]
    found += [path.relative_to(ROOT).parts for path in ROOT.glob("*")]
    return frozenset("/".join(parts[start:]) for parts in found for start in range(len(parts)))


@cache
def words() -> frozenset[str]:
    sources = [path for place in CODE for kind in ("py", "pyx", "pxi", "h") for path in (ROOT / place).rglob(f"*.{kind}")]
    texts = [path.read_text() for path in [*sources, ROOT / "Makefile", ROOT / "pyproject.toml"]]
    return frozenset(word for text in texts for word in re.findall(r"[A-Za-z_]\w*", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().split()) <= MOST_WORDS.get(page, MOST_WORDS_OF_A_SUBJECT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_files_and_names_on_a_page_exist(page: Path) -> None:
    named = [name for name in quoted(page) if not name.startswith("grep ")]
    assert named
    files = [name for name in named if PATH.fullmatch(name)]
    assert [name for name in files if name.rstrip("/") not in paths()] == []
    others = [word for name in named if name not in files for word in re.findall(r"[A-Za-z_]\w*", name)]
    assert [word for word in others if word not in words()] == []


def test_the_first_page_leads_to_every_other() -> None:
    linked = set(re.findall(r"\]\(design/([\w-]+\.md)\)", FIRST.read_text()))
    assert linked == {page.name for page in PAGES[1:]}


def test_the_file_map_has_each_folder_of_the_package() -> None:
    rows = re.findall(r"^\| `([\w/]+)/` \|", FIRST.read_text().split("## File map")[1].split("\n## ")[0], re.MULTILINE)
    folders = {path.parent.relative_to(PACKAGE).as_posix() for place in (PACKAGE, PACKAGE / "core") for path in place.glob("*/__init__.py")}
    assert sorted(folder for folder in folders if not any(f"{row}/".startswith(f"{folder}/") for row in rows)) == []
    assert len(rows) == len(set(rows))
