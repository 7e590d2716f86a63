"""Measures acknowledged batches: records, size, and the time until the acknowledgement. A batch costs three searches in buckets."""

from __future__ import annotations

from pykafka4.core.histogram import BATCH_BYTES, BATCH_RECORDS, BucketCounts
from pykafka4.wire.records.hot import Batch

__all__ = ["BatchMeasures"]


class BatchMeasures:
    """Histograms of the acknowledged batches of one producer. Written on the loop thread, read on any."""

    __slots__ = ("durations", "records", "sizes")

    def __init__(self) -> None:
        self.records, self.sizes = BucketCounts(BATCH_RECORDS), BucketCounts(BATCH_BYTES)
        self.durations = BucketCounts()  # from `send` of the first record to the acknowledgement

    def acknowledged(self, batch: Batch, now: float) -> None:
        self.records.add(batch.count)
        self.sizes.add(batch.size)
        self.durations.add(max(0.0, now - batch.sent_at))
