"""A topic as a PySpark DataFrame, by way of a table in the driver."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from pykafka4 import read_arrow
from pykafka4.testing import ModelServer

pytestmark = pytest.mark.spark


def test_a_topic_becomes_a_dataframe(spark: SparkSession, server: ModelServer) -> None:
    server.create_topic("t", 2)
    server.produce("t", b"a", b"b", partition=0)
    server.produce("t", b"c", partition=1)
    frame = spark.createDataFrame(pa.table(read_arrow("t", bootstrap_servers=server.bootstrap_servers)))
    assert dict(frame.dtypes) | {"timestamp": ""} == {
        "topic": "string",
        "partition": "int",
        "offset": "bigint",
        "timestamp": "",
        "timestamp_type": "int",
        "key": "binary",
        "value": "binary",
        "headers": "array<struct<key:string,value:binary>>",
    }
    rows = [(row.partition, row.offset, bytes(row.value)) for row in frame.orderBy("partition", "offset").collect()]
    assert rows == [(0, 0, b"a"), (0, 1, b"b"), (1, 0, b"c")]
