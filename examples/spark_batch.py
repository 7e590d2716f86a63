"""Count the records of a topic by key, and write the counts to another topic, with a batch job of Spark.

    python examples/spark_batch.py --bootstrap-servers localhost:9092 --topic greetings --to counts

The job needs `pip install '.[spark]'` and a JDK, 17 or newer. It also runs with `--format kafka`, given the jars of Spark's JVM connector.
"""

from __future__ import annotations

import argparse
import os
import sys

import javaproperties
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the records of a topic by key.")
    parser.add_argument("--bootstrap-servers", default="localhost:9092")
    parser.add_argument("--topic", default="greetings")
    parser.add_argument("--to", default="counts", help="the topic of the counts")
    parser.add_argument("--master", default="local[2]", help="where Spark runs: local[2], spark://host:7077, …")
    parser.add_argument("--format", default="pykafka4", help="pykafka4, or kafka for Spark's JVM connector")
    parser.add_argument("--config", help="a .properties file in the format of Java's clients, with security.protocol and so on")
    options = parser.parse_args()

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the workers' Python is this one, which has pykafka4
    kafka = {"kafka.bootstrap.servers": options.bootstrap_servers}
    if options.config:
        with open(options.config) as file:  # noqa: PTH123
            kafka |= {f"kafka.{name}": value for name, value in javaproperties.load(file).items()}

    spark = SparkSession.builder.master(options.master).appName("spark_batch").getOrCreate()
    records = spark.read.format(options.format).options(**kafka).option("subscribe", options.topic).load()
    counts = records.groupBy("key").agg(F.count("*").alias("records"), F.max("timestamp").alias("latest"))
    rows = counts.select("key", F.to_json(F.struct("records", "latest")).alias("value"))
    rows.write.format(options.format).options(**kafka).option("topic", options.to).mode("append").save()
    print(f"{records.count()} records counted")
    spark.stop()


if __name__ == "__main__":
    main()
