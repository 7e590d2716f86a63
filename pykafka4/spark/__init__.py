"""Spark. Rule: only configuration crosses process boundaries; each Python worker creates its own producer."""

from __future__ import annotations

from pykafka4.spark.writer import PartitionWriter, partition_writer, worker_stats

__all__ = ["PartitionWriter", "partition_writer", "worker_stats"]
