"""Spark. Rule: only configuration crosses process boundaries; each Python worker creates its own producer.

Modules; each line imports only from lines below it:
    data_source  format("pykafka4"): its readers and writers
    source/   reading
    sink/     writing: arrow_writer and foreach_batch, too
    options   the options of the data source
    rows/     partition_writer: produces the rows of a partition
    outcomes  waits until the records of a task are acknowledged
    workers   what a Python worker keeps for its next tasks: producers and clients, by configuration
"""

from __future__ import annotations

from pykafka4.spark.rows.writer import PartitionWriter, partition_writer
from pykafka4.spark.sink.arrow_writer import ArrowWriter, arrow_writer
from pykafka4.spark.sink.foreach_batch import BatchFunction, foreach_batch
from pykafka4.spark.workers import worker_stats

__all__ = ["ArrowWriter", "BatchFunction", "PartitionWriter", "arrow_writer", "foreach_batch", "partition_writer", "worker_stats"]
