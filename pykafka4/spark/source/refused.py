"""Stands in for the reader of a refused stream, and raises the reason when the query starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

__all__ = ["RefusedStreamReader"]


class RefusedStreamReader(DataSourceStreamReader):
    """A reader that raises `error` as soon as Spark runs its query.

    PySpark calls `streamReader` inside a `try` whose `finally` stops the reader. If `streamReader` itself raised, there would be no
    reader to stop, and the message would end with an UnboundLocalError of PySpark instead of the reason.
    """

    def __init__(self, error: Exception) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raise the reason, for a new query."""
        raise self.error

    def latestOffset(self, *_arguments: Any) -> dict[str, Any]:  # noqa: N802
        """Raise the reason, for a query with a checkpoint."""
        raise self.error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raise the reason, for a query that repeats a micro-batch."""
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Raise the reason. Spark does not call this, because no query gets partitions."""
        raise self.error
