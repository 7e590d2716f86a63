"""The common part of a run: `process` on threads and in tasks, and streams. Rule: a partition is released after the commit of its records.

A run has the records that polls return until handlers or streams have finished them. It is the consumer's rebalance listener meanwhile, and
forwards each event to the listener of the application.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from pykafka4.consumer.processing.pauses import Pauses, Pausing
from pykafka4.consumer.processing.safe import Reads, Safe
from pykafka4.core.subscription import Place
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.logs import get_log
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["COMMIT_SECONDS", "Between", "ConsumerRun", "Consumes", "OnCommitted", "RecordsInHand", "ThreadListener", "call_listener"]

log = get_log("pykafka4.processing")

COMMIT_SECONDS: Final = 10.0

OnCommitted = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class Between(Pausing, Protocol):
    """The methods of a consumer that a run calls between two polls, on threads and in tasks."""

    def wakeup(self) -> None:
        """See Consumer.wakeup."""

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_done: OnCommitted) -> None:
        """See Consumer.commit_async."""


class Consumes(Between, Protocol):
    """The methods of a consumer that a run on threads calls."""

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """See Consumer.poll."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> None:
        """See Consumer.commit."""


class RecordsInHand(Protocol):
    """The records that a run has: those of handlers, or those of streams."""

    def unfinished(self) -> Mapping[TopicPartition, Place]:
        """The first unfinished record of each partition."""

    def drop(self, tps: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions; records that are finished from now on do not count."""


class ConsumerRun:
    """Commits and pauses of a run."""

    def __init__(self, consumer: Between, reads: Reads, in_hand: RecordsInHand, most_in_hand: int, where: str, commits: bool) -> None:
        """`where` begins log lines. `commits`: there is a group."""
        self._between, self._reads, self._in_hand, self._where, self._commits = consumer, reads, in_hand, where, commits
        self._safe = Safe(reads, in_hand.unfinished)
        self._pauses = Pauses(consumer, most_in_hand)

    def safe(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets that `commit` of the application may commit."""
        return self._safe.places()

    def paused_by_application(self, tps: Collection[TopicPartition]) -> None:
        """They stay paused."""
        self._pauses.forget(tps)

    def _uncommitted(self, tps: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._safe.uncommitted(tps) if self._commits else {}

    def _committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        if error is not None:
            log.warning("%s: the commit of finished records failed, and is repeated: %s", self._where, error)

    def _gone(self, tps: Collection[TopicPartition]) -> None:
        """These partitions are another member's."""
        self._safe.end(tps)
        self._in_hand.drop(tps)
        self._pauses.release(tps)

    def _tell(self, partitions: list[TopicPartition], *methods: str) -> object:
        """Call the first of these methods that the application's listener has; returns its result."""
        return call_listener(self._reads.selection.listener, partitions, *methods)


class ThreadListener(ConsumerRun):
    """The listener of a run on threads. Its methods are called inside `poll`, or by the thread that closes the consumer."""

    _consumer: Consumes

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Commit these partitions from now on."""
        self._safe.begin(partitions)
        self._tell(partitions, "on_partitions_assigned")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        """Wait for the records in hand, and commit, before another member begins."""
        self._end_in_hand(partitions)
        offsets = self._uncommitted(partitions)
        self._gone(partitions)
        self._commit_now(offsets, COMMIT_SECONDS)
        self._tell(partitions, "on_partitions_revoked")

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        """Another member may have begun: nothing can be committed."""
        self._gone(partitions)
        self._tell(partitions, "on_partitions_lost", "on_partitions_revoked")

    def _end_in_hand(self, partitions: list[TopicPartition]) -> None:
        """Hand out no more records of these partitions, and wait for those in hand."""
        raise NotImplementedError

    def _commit_now(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit records of partitions that are released, or at the end: without waiting, if there is no time.

        A failure is logged. Whatever it is, the rest of the end has to be done. Only ClosedError is raised: the thread that closes does it.
        """
        if not offsets:
            return
        left = min(timeout, self._reads.left())
        try:
            if left <= 0:
                self._consumer.commit_async(offsets, self._committed)
            else:
                self._consumer.commit(offsets, left)
        except ClosedError:
            raise
        except KafkaError as error:
            log.warning("%s: the last commit of finished records failed; they will be read again: %s", self._where, error)


def call_listener(listener: object | None, partitions: list[TopicPartition], *methods: str) -> object:
    """Call the first of these methods that `listener` has; returns its result."""
    for method in methods:
        listen: Callable[[list[TopicPartition]], Any] | None = getattr(listener, method, None)
        if listen is not None:
            return listen(partitions)
    return None
