"""Connects Spark with Kafka. Invariant: no client or producer crosses a process boundary; each Python worker creates its own.

Modules; each line imports only from lines below it:
    data_source  the readers and writers of `format("pykafka4")`
    source/      reads: offset ranges on the driver, records in tasks
    sink/        writes, and the functions `arrow_writer` and `foreach_batch`
    options      the options of the data source
    rows/        `partition_writer`: writes the rows of a partition
    outcomes     waits for the acknowledgements of a task's records
    workers      the producers (with a longer default linger) and clients that a Python worker keeps for its next tasks
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pykafka4.spark.rows.writer import PartitionWriter as PartitionWriter
    from pykafka4.spark.rows.writer import partition_writer as partition_writer
    from pykafka4.spark.sink.arrow_writer import ArrowWriter as ArrowWriter
    from pykafka4.spark.sink.arrow_writer import arrow_writer as arrow_writer
    from pykafka4.spark.sink.foreach_batch import BatchFunction as BatchFunction
    from pykafka4.spark.sink.foreach_batch import foreach_batch as foreach_batch
    from pykafka4.spark.workers import worker_stats as worker_stats

# A module is imported only when one of its names is used: the processes in which Spark plans a read or ends a micro-batch need few of
# these modules.
_HOME = {
    "ArrowWriter": "pykafka4.spark.sink.arrow_writer",
    "BatchFunction": "pykafka4.spark.sink.foreach_batch",
    "PartitionWriter": "pykafka4.spark.rows.writer",
    "arrow_writer": "pykafka4.spark.sink.arrow_writer",
    "foreach_batch": "pykafka4.spark.sink.foreach_batch",
    "partition_writer": "pykafka4.spark.rows.writer",
    "worker_stats": "pykafka4.spark.workers",
}

__all__ = ["ArrowWriter", "BatchFunction", "PartitionWriter", "arrow_writer", "foreach_batch", "partition_writer", "worker_stats"]


if not TYPE_CHECKING:  # with this function, a type checker would accept every misspelt name

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'pykafka4.spark' has no {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
