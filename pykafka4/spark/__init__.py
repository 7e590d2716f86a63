"""Spark. Rule: only configuration crosses a process boundary; each Python worker makes its own producer."""

from __future__ import annotations

from pykafka4.spark.writer import PartitionWriter, partition_writer, worker_stats

__all__ = ["PartitionWriter", "partition_writer", "worker_stats"]
