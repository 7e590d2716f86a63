"""Through Spark Connect: the client's process has no JVM and no Kafka; the server's Python has the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from integration.cluster import Cluster
from integration.spark.cluster import ROOT, environment
from tests.spark.cluster.jobs import ROWS, fill, sink, source, times

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.timeout(600)]

pytest.importorskip("grpc_status", reason="a client of Spark Connect needs pyspark[connect]")


def test_a_batch_and_a_stream(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    before, batch, stream = f"{topic}-in", f"{topic}-batch", f"{topic}-stream"
    for name in (before, batch, stream):
        cluster.create_topic(name, 2)
    fill(cluster, before)
    options = [source(cluster, before), sink(cluster, batch, "exactly_once", topic), sink(cluster, stream, "exactly_once", topic)]
    arguments = ["local[2]", *map(json.dumps, options), str(tmp_path / "checkpoint")]
    job = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_job", *arguments],
        env={**os.environ, **environment(), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert job.returncode == 0, job.stderr[-4000:]
    found = json.loads(job.stdout.splitlines()[-1])
    assert found == {"session": "pyspark.sql.connect.session", "count": ROWS, "sum": sum(range(ROWS))}
    for name in (batch, stream):
        assert times(cluster, name, "exactly_once") == dict.fromkeys(range(ROWS), 1)
