"""Queues of topics. Rule: the four counts of a topic add up to its queued records and those in flight, of the same moment.

They are computed on the thread that asked, a little later than the counts that they divide: a batch that was sealed meanwhile counts as
sealed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

__all__ = ["QueuedRecords", "Queues"]

OPEN = 0  # the state of a batch that takes records


class QueuedBatch(Protocol):
    """What is read of a batch."""

    @property
    def topic(self) -> str: ...
    @property
    def state(self) -> int: ...


class QueuedRecords(NamedTuple):
    """Records of a topic without an outcome. `parked` have no partition yet; `open` are in batches that take more records, `sealed` in
    batches that wait to be sent, `in_flight` in requests. The first three add up to `queued` of `RecordCounts`.
    """

    parked: int = 0
    open: int = 0
    sealed: int = 0
    in_flight: int = 0


class Queues(Mapping[str, QueuedRecords]):
    """The queues of the topics that have records without an outcome; counted when somebody looks."""

    __slots__ = ("_batches", "_counts", "_parked")

    def __init__(self, batches: Iterable[tuple[QueuedBatch, int, bool]], parked: Iterable[tuple[str, int]]) -> None:
        """The batches with their records, and whether they are in flight; parked records by topic."""
        self._batches, self._parked = batches, parked
        self._counts: dict[str, QueuedRecords] | None = None

    @property
    def _all(self) -> dict[str, QueuedRecords]:
        if self._counts is None:
            self._counts = self._count()
        return self._counts

    def _count(self) -> dict[str, QueuedRecords]:
        rows = {topic: [records, 0, 0, 0] for topic, records in self._parked}
        for batch, records, flying in self._batches:
            row = rows.get(batch.topic)
            if row is None:
                row = rows[batch.topic] = [0, 0, 0, 0]
            row[3 if flying else 1 if batch.state == OPEN else 2] += records
        return {topic: QueuedRecords(*row) for topic, row in rows.items()}

    def __getitem__(self, topic: str) -> QueuedRecords:
        return self._all[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> Any:
        return dict, (self._all,)
