"""Lost and repeated records after a crash: each cell of the table in docs/guide/commits.md, with a process that is killed there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykafka4.testing import ModelServer
from tests.consumer import crashing
from tests.consumer.consuming import LONG, Maker, fill, numbers, read
from tests.consumer.crash_table import ALL, CELLS, MEANINGS, judge
from tests.consumer.crashing import POINTS, SETTINGS


def test_the_table_has_every_setting_and_every_point() -> None:
    assert set(CELLS) == {(setting, point) for setting in SETTINGS for point in POINTS}
    assert set(CELLS.values()) == set(MEANINGS)


@pytest.mark.parametrize(("setting", "point"), CELLS)
def test_a_crash_loses_and_repeats_what_the_guide_says(server: ModelServer, make: Maker, tmp_path: Path, setting: str, point: str) -> None:
    server.create_topic("t", 1)
    fill(server, "t", 0, numbers(0, 20))
    file = tmp_path / "processed"
    options = json.dumps({"bootstrap_servers": server.bootstrap_servers})
    arguments = [sys.executable, crashing.__file__, options, SETTINGS[setting], point, str(file), "t"]
    died = subprocess.run(arguments, timeout=3 * LONG, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    processed = {int(line) for line in file.read_text().split()}
    next_consumer = make.assigned(0, group_id="t")  # `assign` does not wait for the dead member's session
    read_on = {record.offset for record in read(next_consumer, len(ALL) - next_consumer.position(("t", 0), LONG))}
    judge(setting, point, processed, read_on)
