"""A streaming query that copies a topic exactly once, 20,000 records in a micro-batch, until it has all: the driver that tests kill."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(servers: str, source: str, target: str, checkpoint: str) -> None:
    kafka = {"kafka.bootstrap.servers": servers}
    spark = SparkSession.builder.master("local[2]").appName("copy").getOrCreate()
    reading = spark.readStream.format("pykafka4").options(**kafka, subscribe=source, startingOffsets="earliest")
    rows = reading.option("maxOffsetsPerTrigger", 20_000).load().select("key", "value")
    sink = rows.writeStream.format("pykafka4").options(**kafka, topic=target, delivery="exactly_once")
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
