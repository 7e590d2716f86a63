"""What a crash loses or repeats: each cell of the table in docs/guide/commits.md, with a process that is killed there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import crashing
import pytest
from consuming import LONG, Maker, fill, numbers, read
from crashing import DIES_AFTER, LIST, POINTS, SETTINGS

from pykafka4.testing import ModelServer

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "commits.md"
ALL = frozenset(range(20))


def table() -> dict[tuple[str, str], str]:
    """The cells of the table: (setting, point) to what is lost or repeated."""
    section = GUIDE.read_text().partition("## What a crash loses or repeats\n")[2].partition("\n## ")[0]
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
    "lost: its other records": lambda point: (set(range(DIES_AFTER[point] + 1, LIST.stop)), set()),
}


def test_the_table_has_every_setting_and_every_point() -> None:
    assert set(CELLS) == {(setting, point) for setting in SETTINGS for point in POINTS}
    assert set(CELLS.values()) == set(MEANINGS)


@pytest.mark.parametrize(("setting", "point"), CELLS)
def test_a_crash_loses_and_repeats_what_the_guide_says(server: ModelServer, make: Maker, tmp_path: Path, setting: str, point: str) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 20))
    file = tmp_path / "processed"
    arguments = [sys.executable, crashing.__file__, server.bootstrap_servers, SETTINGS[setting], point, str(file)]
    died = subprocess.run(arguments, timeout=3 * LONG, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    processed = {int(line) for line in file.read_text().split()}
    next_consumer = make.assigned(0, group_id="g")  # `assign` does not wait for the dead member's session
    read_on = {record.offset for record in read(next_consumer, len(ALL) - next_consumer.position(("t", 0), LONG))}
    lost, repeated = MEANINGS[CELLS[setting, point]](point)
    assert (set(ALL - processed - read_on), processed & read_on) == (lost, repeated)
