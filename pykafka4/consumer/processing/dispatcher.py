"""Dispatcher. Rule: one thread polls and commits for all streams; it never waits for a thread that reads one, except before partitions go.

While it waits then, it does what such a thread may wait for.
It goes on polling while streams work, so that the member keeps its partitions. What `poll` raises ends all streams.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Final

import attrs

from pykafka4.consumer.processing.allotment import Allotment
from pykafka4.consumer.processing.consumer_run import COMMIT_SECONDS, Consumes, ThreadListener
from pykafka4.consumer.processing.run import COMMIT_EVERY, LOOK
from pykafka4.consumer.processing.safe import Reads
from pykafka4.errors import ClosedError, KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Dispatcher", "StreamsPlan"]

log = get_log("pykafka4.processing")

LEAST_SECONDS: Final = 1.0  # for the last commit


@attrs.frozen
class StreamsPlan:
    """How streams are served; times are seconds."""

    where: str  # begins log lines
    client_id: str
    most_in_hand: int
    most_polled: int
    drain: float  # for records in hand, before partitions go to another member and at the end
    max_poll: float  # how long a listener may take, and a stream may go unread before that is logged


class Dispatcher(ThreadListener):
    """Serves the streams of one consumer. `run` is its thread; the listener runs there, or in the thread that closes the consumer."""

    def __init__(
        self, consumer: Consumes, allotment: Allotment, plan: StreamsPlan, reads: Reads, give_back: Callable[[bool], object]
    ) -> None:
        """`give_back(whole)` is called at the end: the consumer may be used by others; `whole`: and it is not being closed."""
        super().__init__(consumer, reads, allotment, plan.most_in_hand, plan.where, commits=True)
        self._consumer, self._allotment, self._plan, self._give_back = consumer, allotment, plan, give_back
        self._commit_at = system.monotonic() + COMMIT_EVERY
        self._wanted: deque[Promise[None]] = deque()  # commits that the application waits for
        self._drain_until: float | None = None  # set by `end`, and so is
        self._closer: Thread | None = None  # the thread that waits for the end
        self._signal = Signal()
        self._thread: Thread | None = None  # that of `run`
        self.ended = False

    # ---------------------------------------------------------------- calls of the application

    def commit(self, timeout: float) -> None:
        """Have everything committed that streams have finished, and wait for that."""
        if self.in_own_thread():
            if offsets := self.safe():
                self._consumer.commit(offsets, timeout)
            return
        done: Promise[None] = Promise(self._plan.client_id)
        self._wanted.append(done)
        self._consumer.wakeup()
        self._allotment.look()
        if self.ended:
            self._refuse_commits()
        try:
            done.result(timeout)
        except KafkaTimeoutError:
            raise KafkaTimeoutError(f"commit of streams: no result within {timeout:g} s; its outcome is unknown") from None

    def end(self, deadline: float) -> None:
        """Have it end after the records in hand, at `deadline` (monotonic seconds) at the latest. Waits for nothing."""
        self._drain_until, self._closer = deadline, system.current_thread()
        self._allotment.stop()
        self._consumer.wakeup()
        self._allotment.look()

    def in_own_thread(self) -> bool:
        """Whether the listener calls, which must not wait for what its thread does next."""
        return system.current_thread() is self._thread

    def wait_for_end(self, timeout: float) -> bool:
        """Whether it has ended, within `timeout` seconds."""
        return self._signal.wait(lambda: self.ended, timeout)

    # ---------------------------------------------------------------- its thread

    def run(self) -> None:
        """Poll until the streams end."""
        allotment, whole, self._thread = self._allotment, True, system.current_thread()
        try:
            self._reads.take_over()
            while not allotment.stopping:
                self._hand_out()
                now = system.monotonic()
                self._look_at_streams(now)
                if self._wanted:
                    self._commit_wanted()
                elif now >= self._commit_at:
                    self._commit_later(now)
            self._finish()
        except ClosedError:  # the thread that closes the consumer has the listener commit what is finished
            whole = False
            allotment.stop()
        except BaseException as error:
            allotment.fail(error.again() if isinstance(error, KafkaError) else error)
            whole = self._finish_after_error()
        finally:
            self._give_back(whole)
            self.ended = True
            self._refuse_commits()
            self._signal.notify()

    def _finish_after_error(self) -> bool:
        """Returns whether the consumer is still open."""
        try:
            self._finish()
        except ClosedError:
            return False
        except KafkaError as error:
            log.warning("%s: the end of the streams: %s", self._plan.where, error)
        return True

    def _hand_out(self) -> None:
        allotment, pauses = self._allotment, self._pauses
        records = self._consumer.poll(LOOK, pauses.room(allotment.held, self._plan.most_polled))
        allotment.add(records, self._reads.taken)
        if records:
            touched = {TopicPartition(record.topic, record.partition) for record in records}
            pauses.pause_full(touched, allotment.waiting)
        pauses.resume_free(allotment.waiting, allotment.watch)

    def _look_at_streams(self, now: float) -> None:
        dead, idle = self._allotment.unread(now, self._plan.max_poll)
        for stream in dead:
            log.warning(
                "%s: the thread that read %s has ended with a record in hand, which is not finished: %s wait until another thread reads it",
                self._plan.where,
                stream,
                ", ".join(map(str, sorted(stream.queues))) or "its partitions",
            )
        for stream in idle:
            log.warning(
                "%s: %s has not been asked for a record for %g s, and its partitions wait: %s",
                self._plan.where,
                stream,
                self._plan.max_poll,
                ", ".join(map(str, sorted(stream.queues))) or "none is left",
            )

    # ---------------------------------------------------------------- commits

    def _commit_wanted(self) -> None:
        wanted = self._take_wanted()

        def settle(error: KafkaError | None) -> None:
            for promise in wanted:
                if error is None:
                    promise.set_result(None)
                else:
                    promise.set_exception(error)

        offsets = self.safe()
        if offsets:
            self._commit(offsets, settle)
        else:
            settle(None)

    def _meanwhile(self) -> tuple[Thread | None, ...]:
        """During a wait for records in hand: a thread that has one may wait for a commit, or for the end."""
        if self._wanted:
            self._commit_wanted()
        return self._closer, self._reads.closer()

    def _commit_later(self, now: float) -> None:
        self._commit_at = now + COMMIT_EVERY
        offsets = self._safe.uncommitted()
        if offsets:
            self._commit(offsets, lambda _: None)

    def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], then: Callable[[KafkaError | None], object]) -> None:
        def committed(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            self._committed(offsets, error)
            then(error)

        try:
            self._consumer.commit_async(offsets, committed)
        except KafkaError as error:  # partitions were lost, and the next poll says so; or callbacks are stuck
            committed(offsets, error)

    def _refuse_commits(self) -> None:
        for promise in self._take_wanted():
            promise.set_exception(ClosedError("the streams have ended"))

    def _take_wanted(self) -> list[Promise[None]]:
        wanted = []
        with contextlib.suppress(IndexError):  # more than one thread may be here
            while True:
                wanted.append(self._wanted.popleft())
        return wanted

    # ---------------------------------------------------------------- the listener, inside `poll`

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        """Give them to streams."""
        self._safe.begin(partitions)
        if not self.ended and (strange := self._allotment.assign(partitions)):
            self._safe.end(strange)
            log.info("%s: %s: for no stream, and so not read while the streams are open", self._plan.where, ", ".join(map(str, strange)))
            self._pauses.leave_out(strange)
        self._tell(partitions, "on_partitions_assigned")

    def _end_in_hand(self, partitions: list[TopicPartition]) -> None:
        limit = min(self._plan.drain, self._plan.max_poll / 2, self._reads.left())
        self._allotment.end(partitions, limit, self._meanwhile)

    # ---------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Wait for the records in hand, commit what is finished, and go back to the first record of each partition that is not."""
        allotment, began = self._allotment, system.monotonic()
        until = min(began + self._plan.drain, system.TIMEOUT_MAX if self._drain_until is None else self._drain_until)
        if not allotment.drain(max(0.0, until - began), self._meanwhile):
            log.warning("%s: streams still have records in hand after %g s; these are not finished", self._plan.where, until - began)
        self._reads.go_back(self._safe.places())
        self._commit_now(self._safe.uncommitted(), max(LEAST_SECONDS, min(COMMIT_SECONDS, until - began)))
        self._pauses.end()
        allotment.drop(list(allotment.queues))
