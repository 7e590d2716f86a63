"""Count the records of a topic by key in windows of time, and write each finished window to another topic exactly once: a streaming query.

    python examples/spark_stream.py --bootstrap-servers localhost:9092 --topic greetings --to windows --checkpoint /data/windows

The query needs `pip install '.[spark]'` and a JDK, 17 or newer. After a kill, a start with the same checkpoint continues where it was: a
reader of `--to` with `isolation_level="read_committed"` finds each window of a key once. A window is finished when the query has read
records that are `--late` seconds newer than the end of the window.
"""

from __future__ import annotations

import argparse
import os
import sys

import javaproperties
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the records of a topic by key in windows of time.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--to", default="windows", help="the topic of the finished windows")
    parser.add_argument("--checkpoint", required=True, help="a folder that outlives the job; on a cluster one that all nodes reach")
    parser.add_argument("--window", type=int, default=10, help="length of a window in seconds")
    parser.add_argument("--late", type=int, default=10, help="seconds by which a record may be late")
    parser.add_argument("--most", type=int, default=100_000, help="maximum number of records in a micro-batch")
    parser.add_argument("--once", action="store_true", help="end when all records that the topic has now are read")
    parser.add_argument("--master", default="local[2]", help="where Spark runs: local[2], spark://host:7077, …")
    parser.add_argument("--config", help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' Python is this one, which has pykafka4
    kafka = {"kafka.bootstrap.servers": options.bootstrap_servers}
    if options.config:
        with open(options.config) as file:  # noqa: PTH123
            kafka |= {f"kafka.{name}": value for name, value in javaproperties.load(file).items()}

    settings = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
    spark = SparkSession.builder.master(options.master).appName("spark_stream").config(map=settings).getOrCreate()
    source = spark.readStream.format("pykafka4").options(**kafka, subscribe=options.topic, startingOffsets="earliest")
    records = source.option("maxOffsetsPerTrigger", options.most).load().withWatermark("timestamp", f"{options.late} seconds")
    counts = records.groupBy(F.window("timestamp", f"{options.window} seconds"), "key").count()
    rows = counts.select("key", F.to_json(F.struct("window.start", "window.end", "count")).alias("value"))
    sink = rows.writeStream.format("pykafka4").options(**kafka, topic=options.to, delivery="exactly_once")
    trigger = {"availableNow": True} if options.once else {"processingTime": "1 second"}
    query = sink.option("checkpointLocation", options.checkpoint).outputMode("append").trigger(**trigger).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
