"""The glossary is short, and the names in it are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_TERMS = 40
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<code>`[^|]+) \|$", re.MULTILINE)


def rows() -> list[re.Match[str]]:
    return list(ROW.finditer((ROOT / "docs" / "glossary.md").read_text()))


def source() -> str:
    return "\n".join(path.read_text() for kind in ("py", "pyx", "pxi") for path in (ROOT / "pykafka4").rglob(f"*.{kind}"))


def test_each_term_is_there_once_and_they_are_few() -> None:
    terms = [row["term"] for row in rows()]
    assert len(terms) == len(set(terms)) <= MOST_TERMS
    table_lines = [line for line in (ROOT / "docs" / "glossary.md").read_text().splitlines() if line.startswith("| ")]
    assert len(table_lines) == len(terms) + sum(line.startswith("| term ") for line in table_lines)


def test_the_names_in_the_last_column_are_in_the_code() -> None:
    words = set(re.findall(r"\w+", source()))
    named = [name for row in rows() for name in re.findall(r"`(\w+)`", row["code"])]
    assert named
    assert [name for name in named if name not in words] == []
