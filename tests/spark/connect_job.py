"""A client of Spark Connect, in a process of its own: `python -m tests.spark.connect_job URL READ WRITE STREAM_WRITE CHECKPOINT`.

READ, WRITE and STREAM_WRITE are options as JSON. It reads a batch, writes it, runs a stream, and prints what it has read as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812


def main(url: str, read: str, write: str, stream_write: str, checkpoint: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    source = json.loads(read)
    rows = spark.read.format("pykafka4").options(**source).load()
    count, total = rows.agg(F.count("*"), F.sum(F.col("key").cast("string").cast("int"))).first()
    shouted = F.upper(F.col("value").cast("string")).alias("value")
    rows.select("key", shouted).write.format("pykafka4").options(**json.loads(write)).mode("append").save()
    stream = spark.readStream.format("pykafka4").options(**source, startingOffsets="earliest").load()
    sink = stream.select("key", shouted).writeStream.format("pykafka4").options(**json.loads(stream_write))
    sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
    print(json.dumps({"session": type(spark).__module__, "count": count, "sum": total}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
