"""A driver in a process of its own, which tests kill: `python -m tests.spark.cluster.driver PLAN`, with a `Plan` as JSON.

It reads from one topic what is there, writes it to another, and ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Self

import attrs
from pyspark.sql import SparkSession

from integration.cluster import Cluster
from integration.spark.cluster import StandaloneSpark
from integration.waiting import until
from tests.spark.cluster.jobs import in_log, sink, source, transformed
from tests.spark.cluster.tasks import Slowed

WAIT_S = 600.0  # seconds: a machine that is busy with other things starts a driver in minutes


@attrs.frozen
class Plan:
    """A query from topic to topic that ends when all is written."""

    settings: dict[str, str]  # of the session
    source: dict[str, str]
    sink: dict[str, str]
    checkpoint: str
    pause: float  # seconds before each Arrow batch

    @classmethod
    def of(cls, standalone: StandaloneSpark, cluster: Cluster, topics: tuple[str, str], delivery: str, folder: Path) -> Self:
        """Five micro-batches of two tasks."""
        settings = {
            **standalone.settings(),
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        }
        first = {**source(cluster, topics[0]), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4000"}
        second = {name: value for name, value in sink(cluster, topics[1], delivery, "").items() if value}
        return cls(settings, first, second, str(folder / "checkpoint"), 0.05)

    def start(self, standalone: StandaloneSpark, name: str) -> None:
        standalone.start_driver(name, "-m", "tests.spark.cluster.driver", json.dumps(attrs.asdict(self)))

    def run(self) -> None:
        """In the driver."""
        builder = SparkSession.builder.appName("driver")
        for name, value in self.settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        frame = transformed(spark.readStream.format("pykafka4").options(**self.source).load(), Slowed(self.pause))
        query = frame.writeStream.format("pykafka4").options(**self.sink).option("checkpointLocation", self.checkpoint)
        query.trigger(availableNow=True).start().awaitTermination()
        spark.stop()


def wait_written(standalone: StandaloneSpark, cluster: Cluster, name: str, topic: str, records: int) -> None:
    """Until the driver has so many records in the topic; one that ends before is an error."""

    def holds() -> bool:
        assert standalone.driver_ended(name) is None, f"{name} ended, see {standalone.log(name)}"
        return in_log(cluster, topic) >= records

    until(holds, WAIT_S, f"{records} records of {name} in {topic}")


def wait_done(standalone: StandaloneSpark, name: str) -> None:
    """Until the driver has ended well."""
    until(lambda: standalone.driver_ended(name) is not None, WAIT_S, f"{name} to end")
    log = standalone.log(name).read_text(errors="replace")
    assert standalone.driver_ended(name) == 0, log[-4000:]


if __name__ == "__main__":
    Plan(**json.loads(sys.argv[1])).run()
