"""Defines ShareRecord, the record that a share consumer returns. A record owns its bytes; it refers to its response (`Acquired`) only for
its lock and its acknowledgement.
"""

from __future__ import annotations

from pykafka4.core.share.values import AcknowledgementReport, Acquired
from pykafka4.records import Headers
from pykafka4.wire.records.hot import Record

__all__ = ["ShareRecord"]


class ShareRecord:
    """A record that a share consumer has acquired: the fields of `Record`, and the number of deliveries. Compared by identity."""

    __slots__ = ("__weakref__", "_acquired", "_record", "_renewal", "_renewed", "delivery_count")

    delivery_count: int  # deliveries of the record so far: 1 at the first

    def __init__(self, record: Record, delivery_count: int, acquired: Acquired) -> None:
        self._record, self.delivery_count, self._acquired = record, delivery_count, acquired
        self._renewed = False  # a renewal by the application was sent
        self._renewal: AcknowledgementReport | None = None  # report of the last renewal, by the application or by a poll

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._record.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._record.partition

    @property
    def offset(self) -> int:
        """The offset in the partition."""
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; -1 if there is none."""
        return self._record.timestamp_ms

    @property
    def timestamp_type(self) -> str:
        """`CREATE_TIME`, `LOG_APPEND_TIME` or `NO_TIMESTAMP_TYPE`."""
        return self._record.timestamp_type

    @property
    def key(self) -> bytes | None:
        """The key; None for a null."""
        return self._record.key

    @property
    def value(self) -> bytes | None:
        """The value; None for a null."""
        return self._record.value

    @property
    def headers(self) -> Headers:
        """(name, value) pairs."""
        return self._record.headers

    @property
    def leader_epoch(self) -> int:
        """The leader epoch in which the record was written; -1 if unknown."""
        return self._record.leader_epoch

    def __repr__(self) -> str:
        return f"<ShareRecord {self.topic}-{self.partition} offset {self.offset}, delivery {self.delivery_count}>"
