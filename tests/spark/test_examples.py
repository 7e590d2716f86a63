"""The examples for Spark do what they say on real brokers: a stream that is killed and started again has each window once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.kafka.settings import write_properties
from integration.waiting import until
from pykafka4 import Producer, read

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
BEGIN_MS = 1_700_000_000_000  # milliseconds; a window begins here
WINDOW, KEYS, WINDOWS = 10_000, 5, 20
SUBMIT = "--driver-memory 1g --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false pyspark-shell"
ENOUGH_S = 400.0  # seconds for a job, on a busy machine


def command(name: str, cluster: Cluster, folder: Path, **options: str) -> list[str]:
    write_properties(folder / "client.properties", cluster.java)
    given = [part for option, value in options.items() for part in (f"--{option}", value)]
    where = ["--bootstrap-servers", cluster.bootstrap, "--config", str(folder / "client.properties")]
    return [sys.executable, str(ROOT / "examples" / name), *where, *given]


def environment(folder: Path) -> dict[str, str]:
    found = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "PYSPARK_SUBMIT_ARGS": SUBMIT, "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **found, "SPARK_LOCAL_DIRS": str(folder)}


def run(folder: Path, arguments: list[str]) -> str:
    done = subprocess.run(arguments, env=environment(folder), cwd=folder, capture_output=True, text=True, timeout=ENOUGH_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def values(cluster: Cluster, topic: str) -> list[tuple[bytes | None, dict]]:
    """Keys and values of the committed records."""
    with read(topic, isolation_level="read_committed", **cluster.client) as records:
        return [(record.key, json.loads(record.value)) for record in records]


def test_a_batch_counts_the_records_of_a_topic(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    cluster.create_topic(topic, 3)
    cluster.create_topic(f"{topic}-counts", 2)
    with Producer(**cluster.client) as producer:
        for number in range(1000):
            producer.send(topic, f"greeting {number}", key=f"guest {number % 10}" if number % 100 else None, timestamp_ms=BEGIN_MS + number)
    assert run(tmp_path, command("spark_batch.py", cluster, tmp_path, topic=topic, to=f"{topic}-counts")) == "1000 records counted\n"
    found = {key: row["records"] for key, row in values(cluster, f"{topic}-counts")}
    assert found == {None: 10, b"guest 0": 90, **{f"guest {number}".encode(): 100 for number in range(1, 10)}}


def windows(cluster: Cluster, topic: str) -> dict[tuple[str, bytes], int]:
    """Fill the topic; how many records of each key are in each window. A last record, far later, finishes the windows before it."""
    counts = Counter[tuple[str, bytes]]()
    with Producer(**cluster.client) as producer:
        for number in range(WINDOWS * 60):
            key, at = f"key {number % KEYS}", BEGIN_MS + number * WINDOW // 60
            producer.send(topic, str(number), key=key, timestamp_ms=at)
            counts[start(at), key.encode()] += 1
        for partition in range(2):
            producer.send(topic, "last", key="last", partition=partition, timestamp_ms=BEGIN_MS + WINDOWS * 10 * WINDOW)
    return dict(counts)


def start(at: int) -> str:
    """Of the window of a time in milliseconds, as the example writes it."""
    return datetime.fromtimestamp(at // WINDOW * WINDOW / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


@pytest.mark.main_job
def test_a_stream_that_is_killed_and_started_again_has_each_window_once(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    to = f"{topic}-windows"
    cluster.create_topic(topic, 2)
    cluster.create_topic(to, 2)
    expected = windows(cluster, topic)
    job = command("spark_stream.py", cluster, tmp_path, topic=topic, to=to, checkpoint=str(tmp_path / "checkpoint"), most="200")

    def log() -> str:
        return (tmp_path / "log").read_text()[-3000:]

    with (
        (tmp_path / "log").open("w") as out,
        subprocess.Popen(job, env=environment(tmp_path), cwd=tmp_path, stdout=out, stderr=out, start_new_session=True) as query,
    ):
        try:
            until(lambda: query.poll() is not None or len(values(cluster, to)) >= KEYS, ENOUGH_S, lambda: f"the first window; {log()}")
        finally:
            os.killpg(query.pid, signal.SIGKILL)  # the driver and its JVM
    assert query.wait() == -signal.SIGKILL, log()
    assert KEYS <= len(values(cluster, to)) < len(expected), "killed too late: nothing was left to do"
    run(tmp_path, [*job, "--once"])
    found = [((row["start"], key), row["count"]) for key, row in values(cluster, to)]
    assert len(found) == len(dict(found)), "a window was written twice"
    assert dict(found) == expected
