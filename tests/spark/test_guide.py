"""The code of the guide to Spark runs, block by block, against real brokers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from pykafka4 import Producer, read

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::FutureWarning:pyspark")]

PAGE = (Path(__file__).resolve().parents[2] / "docs/guide/spark.md").read_text()
SECTIONS = ("Quick start", "Exactly once")
BLOCK = re.compile(r"^```py\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(section: str) -> list[str]:
    return BLOCK.findall(PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0])


@pytest.mark.main_job
def test_quick_start_and_exactly_once(spark: SparkSession, cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for topic in ("orders", "numbers", "totals"):
        cluster.create_topic(topic, 2)
    with Producer(**cluster.client) as producer:
        for number in range(100):
            producer.send("orders", f"order {number}", key=f"customer {number % 10}")
    names: dict[str, Any] = {}
    for section in SECTIONS:
        assert blocks(section)
        for code in blocks(section):
            exec(code.replace("localhost:9092", cluster.bootstrap).replace("/data", str(tmp_path)), names)
    assert "customer 1" in capsys.readouterr().out
    with read("numbers", **cluster.client) as numbers:
        assert sorted(int(record.key) for record in numbers) == list(range(1000))
    with read("totals", isolation_level="read_committed", **cluster.client) as totals:
        values = [record.value.decode() for record in totals]
    assert sorted(value for value in values if "id" not in value) == sorted(2 * [f"ORDER {number}" for number in range(100)])
    assert sum("id" in value for value in values) == 1000
