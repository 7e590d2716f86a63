"""Splits a batch by its column of topics. Invariant: the rows of one topic keep their order."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pykafka4.errors import ConfigError

__all__ = ["by_topic"]

COLUMN = "topic"


def by_topic(batch: pa.RecordBatch, wanted: Collection[str | None]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, one topic after the other.

    A batch whose dictionary has one topic is not copied. Of other batches, only the `wanted` columns are copied.
    """
    codes = _codes(batch)
    if len(codes.dictionary) == 1:
        yield codes.dictionary[0].as_py(), batch
        return
    used = [place for place, name in enumerate(batch.schema.names) if name in wanted]
    yield from _runs(batch.select(used).take(pc.sort_indices(codes.indices)), codes)


def _codes(batch: pa.RecordBatch) -> pa.DictionaryArray:
    """Raises ConfigError unless there is exactly one column of topics, ValueError for a null."""
    if (found := batch.schema.names.count(COLUMN)) > 1:
        raise ConfigError(f"there are {found} columns {COLUMN!r}; rename or drop the others, or set the option topic")
    if not found:
        raise ConfigError(f"there is no column {COLUMN!r} among {', '.join(batch.schema.names)}, and no option topic; set one of the two")
    column = batch.column(COLUMN)
    if column.null_count:
        row = pc.index(column.is_null(), value=True).as_py()
        raise ValueError(f"column {COLUMN!r} is null in row {row} of a batch of {len(column)}; filter such rows, or set the option topic")
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _runs(ordered: pa.RecordBatch, codes: pa.DictionaryArray) -> Iterator[tuple[str, pa.RecordBatch]]:
    begin = 0
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(codes.indices).to_pylist()}
    for code in sorted(counts):
        yield codes.dictionary[code].as_py(), ordered.slice(begin, counts[code])
        begin += counts[code]
