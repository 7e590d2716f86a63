"""Columns read by pyarrow, in the form of `as_tuples`, so that columns and records compare."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow as pa

from pykafka4.wire.records.columns import COLUMN_NAMES
from pykafka4.wire.records.compression import decompress
from tests.wire.records.hot_world import MIB

KINDS = {0: "CREATE_TIME", 1: "LOG_APPEND_TIME", -1: "NO_TIMESTAMP_TYPE"}
LONGEST_MS = (2**63 - 1) // 1000


def chunk_of(core: ModuleType, data: Any, offset: int = 0, **more: Any) -> Any:
    return core.Chunk("t", 3, data, offset, **({"decompress": decompress, "max_decompressed": MIB} | more))


def columns_of(core: ModuleType, data: Any, names: Any = COLUMN_NAMES) -> Any:
    """All records of `data` as columns."""
    builder = core.ColumnsBuilder(names)
    chunk = chunk_of(core, data)
    while builder.add(chunk, 1000):
        pass
    return builder.finish()


def lists_of(columns: Any) -> dict[str, list[Any]]:
    """Each column as a list; timestamps in microseconds."""
    batch = pa.record_batch(columns)
    batch.validate(full=True)
    arrays = {name: batch.column(name) for name in batch.schema.names}
    if "timestamp" in arrays:
        arrays["timestamp"] = arrays["timestamp"].cast(pa.int64())
    return {name: array.to_pylist() for name, array in arrays.items()}


def rows_of(columns: Any) -> list[tuple[Any, ...]]:
    """The rows of all eight columns, as `as_tuples` gives records, without the leader epoch."""
    lists = lists_of(columns)
    return [
        (
            topic,
            partition,
            offset,
            -1 if us is None else us // 1000,
            KINDS[kind],
            key,
            value,
            tuple((h["key"], h["value"]) for h in headers),
        )
        for topic, partition, offset, us, kind, key, value, headers in zip(*(lists[name] for name in COLUMN_NAMES), strict=True)
    ]


def expected(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows of `as_tuples` as columns give them: a timestamp that microseconds cannot express is null."""
    return [(*row[:3], row[3] if abs(row[3]) <= LONGEST_MS else -1, *row[4:8]) for row in rows]
