"""Splits on real brokers: complete and disjoint, balanced by the sizes of the logs; and the example that loads a topic with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from integration.cluster import Cluster
from integration.kafka.settings import write_properties
from integration.waiting import until
from pykafka4 import Client, Producer, read
from tests.integration.reading import LONG_S

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 20_000


def fill(cluster: Cluster, topic: str) -> None:
    """Partitions of unequal sizes, with committed and aborted transactions."""
    cluster.create_topic(topic, 4)
    with Producer(**cluster.client, transactional_id=topic, compression_type="lz4") as producer:
        producer.init_transactions()
        for first in range(0, RECORDS, 1_000):
            with producer.transaction():
                for n in range(first, first + 1_000):
                    producer.send(topic, str(n).zfill(6 if n % 2 else 200), partition=0 if n % 10 else 1 + n // 10 % 3)
            producer.begin_transaction()
            producer.send(topic, b"aborted", partition=first // 1_000 % 4)
            producer.flush(LONG_S)
            producer.abort_transaction()


@pytest.mark.main_job
def test_splits_have_every_record_once_and_about_the_same_size(cluster: Cluster, topic: str) -> None:
    fill(cluster, topic)
    with Client(**cluster.client) as client:
        for n in (1, 7, 40):
            splits = client.splits(topic, n)
            assert len(splits) == n
            assert max(split.bytes for split in splits) <= 1.2 * min(split.bytes for split in splits)
            assert min(split.bytes for split in splits) > 0
            found = Counter(int(record.value or b"") for split in splits for record in read(split=split, client=client))
            assert found == Counter(range(RECORDS))


def test_a_load_that_is_killed_goes_on_where_it_stopped(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    fill(cluster, topic)
    folder = tmp_path / "out"
    write_properties(tmp_path / "client.properties", cluster.java)
    command = [sys.executable, str(ROOT / "examples" / "parallel_load.py"), "--bootstrap-servers", cluster.bootstrap, "--topic", topic]
    command += ["--config", str(tmp_path / "client.properties"), "--to", str(folder), "--processes", "2", "--splits", "24"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until(lambda: list(folder.glob("*.parquet")), LONG_S, "the first file")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait(LONG_S)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert 0 < len(before) < 24
    second = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert second.returncode == 0, second.stderr
    assert f"in {24 - len(before)} files, {len(before)} were there already" in second.stdout
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == 24
    assert {path: path.stat().st_mtime_ns for path in before} == before
    values = Counter(int(value) for path in files for value in parquet.read_table(path)["value"].to_pylist())
    assert values == Counter(range(RECORDS))
