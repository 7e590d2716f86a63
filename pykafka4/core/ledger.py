"""Ledger. Rule: accepted = acked + queued + in flight + failed, at every moment.

Every record that `send` accepted is in exactly one of these places; the simulation compares the sums with a walk over the batches.
"""

from __future__ import annotations

from collections import Counter

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed

__all__ = ["Ledger", "ProducerStats"]

REMEMBERED = 100  # failures kept for whoever asks what went wrong: the first of all, the last, and some between


@attrs.frozen
class ProducerStats:
    """What became of every record handed to `send`. Counts are records.

    `failed` has a row per (reason, written); `retries` counts batches that were sent again, `requests` produce requests,
    `buffered_bytes` the memory of `buffer_memory` in use.
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


class Ledger:
    """The sender's account."""

    __slots__ = ("_batches", "_last", "_stride", "acked", "failed", "failures", "failures_seen", "in_flight", "requests", "retries")

    def __init__(self) -> None:
        self.acked = self.in_flight = self.retries = self.requests = 0
        self.failed: Counter[tuple[str, Written]] = Counter()
        self.failures: list[tuple[int, DeliveryFailed]] = []  # (records failed before this one, the failure)
        self.failures_seen = 0
        self._last: tuple[int, DeliveryFailed] | None = None
        self._batches, self._stride = 0, 1  # failed; of so many one is kept

    def sent(self, records: int, retried_batches: int) -> None:
        """A request with `records` went out."""
        self.in_flight += records
        self.requests += 1
        self.retries += retried_batches

    def returned(self, records: int) -> None:
        """Records in flight are back in their queue."""
        self.in_flight -= records

    def landed(self, records: int) -> None:
        """Records in flight were acknowledged."""
        self.in_flight -= records
        self.acked += records

    def lost(self, topic: str, partition: int | None, code: str, written: Written, records: int, cause: Exception) -> None:
        """Queued records failed for good."""
        self._remember(DeliveryFailed(topic, partition, code, written, None, cause))
        self.failures_seen += records
        self.failed[code, written] += records

    def _remember(self, failure: DeliveryFailed) -> None:
        """The first of all, the last, and between them one of every `_stride`."""
        self._last = (self.failures_seen, failure)
        if self._batches % self._stride == 0:
            if len(self.failures) == REMEMBERED:
                del self.failures[1::2]
                self._stride *= 2
            self.failures.append(self._last)
        self._batches += 1

    def failures_since(self, mark: int) -> tuple[int, DeliveryFailed | None]:
        """How many records failed since `failures_seen` was `mark`, and the first of these failures. For any thread.

        Where many more than `REMEMBERED` batches failed it is an early one, for not all are kept; it is None only when there was none.
        """
        known = (*self.failures, self._last) if self._last is not None else ()
        first = next((failure for seen, failure in known if seen >= mark), None)
        return self.failures_seen - mark, first

    def stats(self, accepted: int, buffered_bytes: int) -> ProducerStats:
        """The account at this moment, for the application."""
        queued = accepted - self.acked - self.in_flight - self.failures_seen
        return ProducerStats(accepted, self.acked, queued, self.in_flight, dict(self.failed), self.retries, self.requests, buffered_bytes)
