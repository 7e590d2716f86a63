"""The table of settings and crash points in docs/guide/commits.md, and what its cells mean."""

from __future__ import annotations

from pathlib import Path

from tests.consumer.crashing import DIES_AFTER, LIST

__all__ = ["ALL", "CELLS", "MEANINGS", "judge"]

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "commits.md"
ALL = frozenset(range(20))


def table() -> dict[tuple[str, str], str]:
    """The cells of the table: (setting, point) to what is lost or repeated."""
    section = GUIDE.read_text().partition("## Lost and repeated records after a crash\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    head, _, *body = rows
    return {(row[0], point): cell for row in body for point, cell in zip(head[1:], row[1:], strict=True)}


CELLS = table()
MEANINGS = {
    "nothing": lambda point: (set(), set()),
    "repeated: the list": lambda point: (set(), set(LIST)),
    "repeated: its processed records": lambda point: (set(), set(range(LIST.start, DIES_AFTER[point] + 1))),
    "repeated: the current record": lambda point: (set(), {DIES_AFTER[point]}),
    "lost: the list": lambda point: (set(LIST), set()),
    "lost: its unprocessed records": lambda point: (set(range(DIES_AFTER[point] + 1, LIST.stop)), set()),
}


def judge(setting: str, point: str, processed: set[int], read_on: set[int]) -> None:
    """What the process had done, and what the next consumer reads, is what the table says."""
    lost, repeated = MEANINGS[CELLS[setting, point]](point)
    assert (set(ALL - processed - read_on), processed & read_on) == (lost, repeated)
