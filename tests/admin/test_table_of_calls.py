"""The table of calls is complete: each call of an admin client has all its outcomes, and a page says what each of them needs."""

from __future__ import annotations

import re
from pathlib import Path

from pykafka4 import AdminClient
from tests.admin.outcomes import Mixed, Never, Old, Right, Shown
from tests.admin.table_of_calls import LOCAL, ROWS

ROOT = Path(__file__).resolve().parents[2]


def test_each_call_of_an_admin_client_has_one_row() -> None:
    public = {name for name in dir(AdminClient) if not name.startswith("_")}
    assert sorted([*(row.name for row in ROWS), *LOCAL]) == sorted(public)


def test_the_tests_that_rows_name_exist() -> None:
    texts = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py")]
    functions = {name for text in texts for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    named = {one.test for row in ROWS for one in (row.denied, row.old, row.mixed) if isinstance(one, Shown)}
    assert named | {row.works for row in ROWS} <= functions


def test_an_outcome_that_a_call_cannot_have_has_a_reason() -> None:
    for row in ROWS:
        for outcome in (row.denied, row.old, row.mixed):
            assert isinstance(outcome, (Right, Mixed, Shown)) or (outcome.why if isinstance(outcome, Never) else all(outcome)), row


def needs(line: str) -> tuple[str, ...]:
    return tuple(cell.strip(" `") for cell in line.strip("|").split("|"))


def test_the_reference_has_the_right_and_the_release_that_each_call_needs() -> None:
    text = (ROOT / "docs" / "reference" / "admin-calls.md").read_text()
    shown = [needs(line) for line in text.splitlines() if line.startswith("| `")]
    rows = [(row.name, str(row.denied) if isinstance(row.denied, Right) else "none", _releases(row.old)) for row in ROWS]
    assert shown == rows


def _releases(outcome: tuple[Old, ...] | Shown | Never) -> str:
    old = outcome if isinstance(outcome, tuple) else ()
    whole = next((one.since for one in old if one.top is None), "any")
    return "; ".join([whole, *(f"{one.what}: {one.since}" for one in old if one.what)])
