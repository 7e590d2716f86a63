"""Splits a batch by its column of topics. Invariant: the rows of one topic keep their order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["by_topic"]

COLUMN = "topic"


def by_topic(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, in the order in which the topics appear. Most batches have one topic, and are not copied."""
    column = batch.column(COLUMN)
    if column.null_count:
        raise null_topic(column)
    codes = column.dictionary_encode() if not pa.types.is_dictionary(column.type) else column
    if len(codes.dictionary) == 1:
        yield codes.dictionary[0].as_py(), batch
        return
    yield from _runs(batch.take(pc.sort_indices(codes.indices)), codes)


def _runs(ordered: pa.RecordBatch, codes: pa.DictionaryArray) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The slices of a batch that is ordered by topic."""
    begin = 0
    counts = {entry["values"]: entry["counts"] for entry in pc.value_counts(codes.indices).to_pylist()}
    for code in sorted(counts):
        yield codes.dictionary[code].as_py(), ordered.slice(begin, counts[code])
        begin += counts[code]


def null_topic(column: pa.Array) -> ValueError:
    row = pc.index(column.is_null(), value=True).as_py()
    return ValueError(f"column {COLUMN!r} is null in row {row} of a batch of {len(column)}; filter such rows, or set the option topic")
