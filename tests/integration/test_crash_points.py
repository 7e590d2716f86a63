"""Lost and repeated records after a crash: each cell of the table in docs/guide/commits.md, with a process killed there on real brokers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from integration.cluster import Cluster
from pykafka4 import Consumer
from tests.consumer import crashing
from tests.consumer.crash_table import ALL, judge
from tests.consumer.crashing import POINTS, SETTINGS
from tests.integration.reading import LONG_S, produce, read

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_crash_loses_and_repeats_what_the_guide_says(cluster: Cluster, topic: str, tmp_path: Path, setting: str, point: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, 0, len(ALL))
    file = tmp_path / "processed"
    arguments = [sys.executable, crashing.__file__, json.dumps(cluster.client), SETTINGS[setting], point, str(file), topic]
    died = subprocess.run(arguments, timeout=3 * LONG_S, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    processed = {int(line) for line in file.read_text().split()}
    with Consumer(**cluster.client, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])  # does not wait for the dead member's session
        left = len(ALL) - consumer.position((topic, 0), LONG_S)
        judge(setting, point, processed, {record.offset for record in read(consumer, left)})
