"""Delivers the rows of a task at least once or exactly once, as the option `delivery` says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from pykafka4.spark.sink.exactly_once import Committed, Skipped, write_once
from pykafka4.spark.sink.options import Delivery, SinkOptions
from pykafka4.spark.sink.task import Written, write_batches

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["deliver"]

Outcome: TypeAlias = Written | Committed | Skipped
WAYS: Final[dict[Delivery, Callable[[SinkOptions, Iterable[pa.RecordBatch]], Outcome]]] = {
    Delivery.AT_LEAST_ONCE: write_batches,
    Delivery.EXACTLY_ONCE: write_once,
}


def deliver(sink: SinkOptions, batches: Iterable[pa.RecordBatch]) -> Outcome:
    """Deliver each row, or raise the first failure. `rows` of the outcome is the number of the task's rows in the log."""
    return WAYS[sink.delivery](sink, batches)
