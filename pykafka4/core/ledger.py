"""Ledger. Rule: accepted = acked + queued + in flight + failed, at every moment.

Every record that `send` accepted is in exactly one of these places; the simulation compares the sums with a walk over the batches.
"""

from __future__ import annotations

from collections import Counter, deque

import attrs

from pykafka4.error_table import Written
from pykafka4.errors import DeliveryFailed

__all__ = ["Ledger", "ProducerStats"]

REMEMBERED = 100  # failures kept for whoever asks what went wrong


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

    __slots__ = ("acked", "failed", "failures", "failures_seen", "in_flight", "requests", "retries")

    def __init__(self) -> None:
        self.acked = self.in_flight = self.retries = self.requests = 0
        self.failed: Counter[tuple[str, Written]] = Counter()
        self.failures: deque[tuple[int, DeliveryFailed]] = deque(maxlen=REMEMBERED)  # (records failed before this one, the failure)
        self.failures_seen = 0

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
        self.failures.append((self.failures_seen, DeliveryFailed(topic, partition, code, written, None, cause)))
        self.failures_seen += records
        self.failed[code, written] += records

    def failures_since(self, mark: int) -> tuple[int, DeliveryFailed | None]:
        """How many records failed since `failures_seen` was `mark`, and the first of these failures still remembered. For any thread."""
        first = next((failure for seen, failure in tuple(self.failures) if seen >= mark), None)
        return self.failures_seen - mark, first

    def stats(self, accepted: int, buffered_bytes: int) -> ProducerStats:
        """The account at this moment, for the application."""
        queued = accepted - self.acked - self.in_flight - self.failures_seen
        return ProducerStats(accepted, self.acked, queued, self.in_flight, dict(self.failed), self.retries, self.requests, buffered_bytes)
