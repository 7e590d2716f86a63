"""Runs the loop of `Consumer.process`, `aio.Consumer.process` and `Consumer.streams`: polls, hands out, pauses, commits, ends.

Invariant: no commit of a run passes an unfinished record. Before the release of revoked partitions, and at its end, a run tries to commit
finished records. The loop keeps polling while handlers or streams work, so that the member keeps its partitions. A partition is paused when
its share of records is in hand, so that one slow record does not hold up the other partitions.

The loop is written once, as steps (see `consumer.waits`): calls that wait block in `Consumer`, `HandlerWork` and `Dispatcher`, and return
awaitables in `aio.Consumer` and `TaskWork`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from pykafka4.consumer.processing.committable_offsets import CommittableOffsets, RunSession
from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.pauses import Pauses, Pausing
from pykafka4.consumer.waits import Steps, at_once
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.errors import ClosedError, KafkaError
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["RELEASE_COMMIT_S", "RunConsumer", "OnCommitted", "RecordsInHand", "RunLoop", "run"]

log = get_log("pykafka4.processing")

CHECK_S: Final = 0.2  # seconds between checks of `stop`, retries and failures
COMMIT_INTERVAL_S: Final = 5.0  # seconds between commits, like the default of auto_commit_interval_ms: a crash repeats about this much work
RELEASE_COMMIT_S: Final = 10.0  # seconds for a commit before partitions are released, and at the end

OnCommitted = Callable[[Mapping[TopicPartition, OffsetAndMetadata], KafkaError | None], object]


class RunConsumer(Pausing, Protocol):
    """The methods of a Consumer or an aio.Consumer that a run calls."""

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> Any:
        """See Consumer.poll."""

    def wakeup(self) -> None:
        """See Consumer.wakeup."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float | None = None) -> Any:
        """See Consumer.commit."""

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_done: OnCommitted) -> None:
        """See Consumer.commit_async."""


class RecordsInHand(Protocol):
    """The records of a run between poll and commit: `HandlerWork`, `TaskWork` (handlers) or `Dispatcher` (streams)."""

    limits: Limits
    held: int  # records that count against `Limits.most_in_hand`

    @property
    def abandoned(self) -> bool:
        """Whether the run can never continue, because its event loop was closed."""

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that may have records in hand."""

    def goes_on(self) -> bool:
        """Whether to poll again."""

    def start_due(self, now: float) -> None:
        """Start the attempts and commits that are due; called after each poll."""

    def assign(self, tps: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Adopt these partitions; return the partitions that no stream reads."""

    def add(self, records: Collection[Record], taken: Callable[[], object]) -> None:
        """Take these records, then call `taken()`."""

    def size(self, tp: TopicPartition) -> int:
        """The number of records that count against the partition's share."""

    def watch(self, sizes: Mapping[TopicPartition, int]) -> None:
        """Wake the thread or task that polls when `size(tp)` of a partition is at most `sizes[tp]`."""

    def unfinished(self) -> Mapping[TopicPartition, OffsetAndEpoch]:
        """The offset of the first unfinished record of each partition."""

    def end(self, tps: Collection[TopicPartition], timeout: float) -> Any:
        """Hand out no more records of these partitions, and wait for the records in hand."""

    def drop(self, tps: Collection[TopicPartition]) -> None:
        """Forget these partitions' records, including records that a handler or stream has."""

    def drain(self, error: BaseException | None) -> Any:
        """Wait for the records in hand at the end of the run, which `error` may have ended. Returns the seconds for the last commit."""

    def cancel_handlers(self) -> None:
        """Hand out no more records, and cancel handlers that can be cancelled."""


class RunLoop:
    """`run` belongs to the thread or task that polls. The listener methods may also run on the thread that closes the consumer."""

    def __init__(self, consumer: RunConsumer, in_hand: RecordsInHand, reads: RunSession) -> None:
        self._consumer, self._in_hand, self._reads, self._waits = consumer, in_hand, reads, reads.waits
        self._limits = in_hand.limits
        self._committable = CommittableOffsets(reads, in_hand.unfinished)
        self._pauses = Pauses(consumer, self._limits.most_in_hand)
        self._commit_at = system.monotonic() + COMMIT_INTERVAL_S
        self.closed = False  # another thread or task closes the consumer; its call of the listener commits the finished records

    # ---------------------------------------------------------------- rounds

    def run(self) -> Steps[None]:
        try:
            while self._in_hand.goes_on():
                most = self._pauses.room(self._in_hand.held, self._limits.most_polled)
                self._round((yield from self._waits.awaited(self._consumer.poll(CHECK_S, most))))
        except BaseException as error:
            yield from self._finish(error)
            raise
        yield from self._finish(None)

    def _round(self, polled: list[Record]) -> None:
        in_hand, pauses = self._in_hand, self._pauses
        # `add` calls `taken`, which advances the offsets of the run, after the records are in hand. In the other order a commit of another
        # thread between the two would find the new offset and no unfinished record before it, and pass the records that were just polled.
        in_hand.add(polled, self._reads.taken)
        pauses.pause_full({TopicPartition(record.topic, record.partition) for record in polled}, in_hand.size)
        pauses.resume_free(in_hand.size, in_hand.watch)
        now = system.monotonic()
        in_hand.start_due(now)
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_INTERVAL_S
            self._drop_gone()
            self.commit_soon(self._uncommitted(), self.committed)

    def _drop_gone(self) -> None:
        """Drop partitions that `assign` has taken away: the listener gets no call for them."""
        mine = self._consumer.assignment()
        self._committable.keep(mine)
        if gone := [tp for tp in tuple(self._in_hand.partitions) if tp not in mine]:  # a copy: a closing thread removes partitions
            self._in_hand.drop(gone)

    # ---------------------------------------------------------------- commits

    def committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._committable.offsets()

    def paused_by_application(self, tps: Collection[TopicPartition]) -> None:
        self._pauses.forget(tps)

    def _uncommitted(self, tps: Collection[TopicPartition] | None = None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._committable.uncommitted(tps) if self._limits.commits else {}

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
        if error is not None:
            log.warning("%s: the commit of finished records failed; they are committed later, or read again: %s", self._limits.where, error)

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], then: OnCommitted) -> None:
        """If there are `offsets`, commit them without waiting, and call `then(offsets, error)` with the outcome. Raises ClosedError."""
        try:
            if offsets:
                self._consumer.commit_async(offsets, then)
        except ClosedError:
            raise
        except KafkaError as error:  # for example, partitions were lost, as the next poll reports, or too many callbacks are waiting
            then(offsets, error)

    def _commit_now(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> Steps[None]:
        """Commit before partitions are released, or at the end; without waiting if no time is left.

        A failure is only logged: later steps have to be done all the same. ClosedError is raised: the thread or task that closes the
        consumer commits instead.
        """
        left = min(timeout, self._reads.close_time_left())
        if left <= 0 or not offsets:
            self.commit_soon(offsets, self.committed)
            return
        try:
            yield from self._waits.awaited(self._consumer.commit(offsets, left))
        except ClosedError:
            raise
        except KafkaError as error:
            log.warning("%s: the last commit of finished records failed; they may be read again: %s", self._limits.where, error)

    # ---------------------------------------------------------------- the listener, inside `poll` or `close`

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Any:
        self._committable.begin(partitions)
        if left_out := self._in_hand.assign(partitions):
            self._committable.end(left_out)
            names = ", ".join(map(str, left_out))
            log.info("%s: no stream reads %s: records wait there until the streams are closed", self._limits.where, names)
            self._pauses.leave_out(left_out)
        return self._tell(partitions, "on_partitions_assigned")

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Any:
        return self._waits.drive(self._release(partitions))

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Any:
        """Commit nothing: another member may already read these partitions."""
        self._gone(partitions)
        return self._tell(partitions, "on_partitions_lost", "on_partitions_revoked")

    def _release(self, partitions: list[TopicPartition]) -> Steps[None]:
        # At most half of max_poll_interval_ms: the commit and the application's listener get the other half.
        limit = min(self._limits.drain, self._limits.max_poll / 2, self._reads.close_time_left())
        yield from self._waits.awaited(self._in_hand.end(partitions, limit))
        # Offsets first, because `_gone` forgets them; but `_gone` before the commit, so that no other commit of the run has these
        # partitions any more.
        offsets = self._uncommitted(partitions)
        self._gone(partitions)
        yield from self._commit_now(offsets, RELEASE_COMMIT_S)
        yield from self._waits.awaited(self._tell(partitions, "on_partitions_revoked"))

    def _gone(self, tps: Collection[TopicPartition]) -> None:
        self._committable.end(tps)
        self._in_hand.drop(tps)
        self._pauses.release(tps)

    def _tell(self, partitions: list[TopicPartition], *methods: str) -> Any:
        for method in methods:
            listen: Callable[[list[TopicPartition]], Any] | None = getattr(self._reads.selection.listener, method, None)
            if listen is not None:
                return listen(partitions)
        return None

    # ---------------------------------------------------------------- the end

    def _finish(self, error: BaseException | None) -> Steps[None]:
        """Ctrl-C or a cancellation of the wait does not skip `_leave`: otherwise the next run or `poll` would skip unfinished records."""
        if self.abandoned:  # this generator is being garbage-collected: the next call on another event loop ends the run
            return
        seconds = 0.0
        try:
            seconds = yield from self._waits.awaited(self._in_hand.drain(error))
        finally:
            if not self.abandoned:
                yield from self._leave(seconds)

    def _leave(self, seconds: float) -> Steps[None]:
        self._in_hand.cancel_handlers()
        try:
            try:
                self._go_back()
            except KeyboardInterrupt:  # once more: otherwise the next poll would skip the unfinished records
                self._go_back()
                raise
            yield from self._commit_now(self._uncommitted(), seconds)
        except ClosedError:
            self.closed = True
        except KafkaError:  # the client has crashed; the records are processed again
            return

    def _go_back(self) -> None:
        self._reads.go_back(self._committable.offsets())
        self._pauses.end()

    def end(self) -> None:
        if not self.closed:
            self._reads.end_run(self)

    @property
    def abandoned(self) -> bool:
        return self._in_hand.abandoned

    def abandon(self) -> None:
        """Called before the consumer is used on another event loop."""
        self._in_hand.cancel_handlers()
        self._go_back()
        offsets = self._uncommitted()
        self.end()  # before the commit, which would call `abandon` again if the run had not ended
        self.commit_soon(offsets, self.committed)


def run(consumer: RunConsumer, in_hand: RecordsInHand, reads: RunSession) -> None:
    loop = RunLoop(consumer, in_hand, reads)
    try:
        reads.begin_run(loop)
        at_once(loop.run())
    finally:  # even if Ctrl-C interrupted the end: otherwise `commit` would still commit the offsets of this run
        loop.end()
