"""Ledger. Rule: accepted = acked + queued + in flight + failed, at every moment.

Every record that `send` accepted is counted in exactly one of these; the simulation compares the sums with the batches themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed

__all__ = ["Ledger", "ProducerStats"]

REMEMBERED = 100  # failures kept for `failures_since`: the first, the last, and a sample of those between


@attrs.frozen
class ProducerStats:
    """Counts of all records accepted by `send`, by outcome.

    `failed` has an entry per (reason, written). `retries` counts batches that were resent, `requests` Produce requests;
    `buffered_bytes` is the part of `buffer_memory` in use.
    """

    accepted: int
    acked: int
    queued: int
    in_flight: int
    failed: dict[tuple[str, Written], int]
    retries: int
    requests: int
    buffered_bytes: int

    @property
    def lost(self) -> int:
        """Records that failed, whatever the reason."""
        return sum(self.failed.values())


@attrs.frozen
class Failure:
    """A failed batch: the number of records that had failed before it, the number of its records, and why it failed."""

    before: int
    records: int
    error: DeliveryFailed


class Ledger:
    """The sender's counters."""

    __slots__ = ("_batches", "_last", "_stride", "acked", "failed", "failures", "failures_seen", "in_flight", "requests", "retries")

    def __init__(self) -> None:
        self.acked = self.in_flight = self.retries = self.requests = 0
        self.failed: Counter[tuple[str, Written]] = Counter()
        self.failures: list[Failure] = []
        self.failures_seen = 0
        self._last: Failure | None = None
        self._batches, self._stride = 0, 1  # failed batches; one of every `_stride` is kept

    def sent(self, records: int, retried_batches: int) -> None:
        """A request with `records` was sent."""
        self.in_flight += records
        self.requests += 1
        self.retries += retried_batches

    def requeued(self, records: int) -> None:
        """Records in flight are back in their queue."""
        self.in_flight -= records

    def acknowledged(self, records: int) -> None:
        """Records in flight were acknowledged."""
        self.in_flight -= records
        self.acked += records

    def lost(self, topic: str, partition: int | None, code: str, written: Written, records: int, cause: Exception) -> None:
        """Queued records failed for good."""
        self._remember(Failure(self.failures_seen, records, DeliveryFailed(topic, partition, code, written, None, cause)))
        self.failures_seen += records
        self.failed[code, written] += records

    def _remember(self, failure: Failure) -> None:
        """Keep the first failure, the last, and one of every `_stride` in between."""
        self._last = failure
        if self._batches % self._stride == 0:
            if len(self.failures) == REMEMBERED:
                del self.failures[1::2]
                self._stride *= 2
            self.failures.append(failure)
        self._batches += 1

    def failures_since(
        self, mark: int, looked_at: Collection[int] = (), reported: Collection[tuple[int, int]] = ()
    ) -> tuple[int, DeliveryFailed | None]:
        """The number of records that failed since `failures_seen` was `mark` and that the application has not seen, and the first failure.

        It has seen those in `looked_at` (for each record, how many had failed before its batch), and those in the disjoint ranges
        `reported`.
        If many more than `REMEMBERED` batches failed, the failure may not be the first one, because not all are kept; it is None only if
        there was none. May be called from any thread.
        """
        total = self.failures_seen  # read first: a failure is stored before it is counted
        known = [failure for failure in (*self.failures, self._last) if failure is not None and failure.before >= mark]
        covered = sum(end - max(start, mark) for start, end in reported if end > mark)
        looked = Counter(before for before in looked_at if before >= mark and not any(start <= before < end for start, end in reported))
        count = total - mark - covered - looked.total()
        if count <= 0 or not known:
            return 0, None
        news = (f for f in known if looked[f.before] < f.records and not any(start <= f.before < end for start, end in reported))
        return count, next(news, known[-1]).error

    def stats(self, accepted: int, buffered_bytes: int) -> ProducerStats:
        """The counters at this moment, for the application."""
        queued = accepted - self.acked - self.in_flight - self.failures_seen
        return ProducerStats(accepted, self.acked, queued, self.in_flight, dict(self.failed), self.retries, self.requests, buffered_bytes)
