"""Divides polled records among streams. Invariant: the dispatcher's thread waits for readers of streams only before it releases revoked
partitions, and at the end.

During such a wait the dispatcher makes the commits for which these readers may wait. An error of `poll` ends all streams.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from threading import Thread
from typing import Final

from pykafka4.consumer.arguments import no_group
from pykafka4.consumer.processing.allotment import Allotment, StreamState
from pykafka4.consumer.processing.committable_offsets import RunSession
from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.run_loop import RELEASE_COMMIT_S, RunConsumer, RunLoop
from pykafka4.consumer.waits import at_once
from pykafka4.errors import ClosedError, KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Promise, Signal
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Dispatcher"]

log = get_log("pykafka4.processing")

LEAST_CLOSE_S: Final = 1.0  # seconds for the last commit, even if `close` has no time left: otherwise finished records would be read again


class Dispatcher(Allotment):
    """Implements `RecordsInHand` for streams. Its thread runs `serve`."""

    abandoned = False

    def __init__(self, consumer: RunConsumer, streams: Sequence[StreamState], limits: Limits, reads: RunSession) -> None:
        super().__init__(streams, consumer.wakeup)
        self._consumer, self._reads, self.limits = consumer, reads, limits
        self.run = RunLoop(consumer, self, reads)
        self._wanted: deque[Promise[None]] = deque()  # commits that the application waits for
        self._drain_until = system.TIMEOUT_MAX  # set by `close`: when the wait for records in hand ends
        self._closer: Thread | None = None  # set by `close`: the thread that may wait for the end
        self._signal = Signal()  # notified when the streams have ended
        self._thread: Thread | None = None  # the thread that runs `serve`
        self.ended = False

    # ---------------------------------------------------------------- calls of the application

    def commit(self, timeout: float) -> None:
        if not self.limits.commits:  # checked here: without finished records no commit follows that would raise
            raise no_group("commit")
        if self.in_own_thread():
            if offsets := self.run.committable():
                self._consumer.commit(offsets, timeout)
            return
        done: Promise[None] = Promise(self.limits.where)
        self._wanted.append(done)
        self._look_again()
        # Read after the append: `serve` sets `ended` before it refuses the waiting commits. If `ended` were read before the append, `serve`
        # could end between the two, and this commit would wait for its complete timeout.
        if self.ended:
            self._refuse_commits()
        try:
            done.result(timeout)
        except KafkaTimeoutError:
            raise KafkaTimeoutError(f"commit of streams: no result within {timeout:g} s; its outcome is unknown") from None

    def close(self, deadline: float) -> None:
        """Have the streams end. The last wait for records in hand, if it begins later, ends by `deadline` (monotonic seconds)."""
        self._drain_until, self._closer = deadline, system.current_thread()
        self.stop()
        self._look_again()

    def _look_again(self) -> None:
        """Wake the thread of `serve` from a poll or from a wait for records in hand."""
        self._consumer.wakeup()
        self._changed.notify()

    def in_own_thread(self) -> bool:
        """Whether the caller is on the thread of `serve`: a wait for this thread would never end."""
        return system.current_thread() is self._thread

    def wait_for_end(self, timeout: float) -> bool:
        return self._signal.wait(lambda: self.ended, timeout)

    # ---------------------------------------------------------------- the dispatcher's thread

    def serve(self) -> None:
        self._thread = system.current_thread()
        try:
            self._reads.take_over()
            at_once(self.run.run())
        except BaseException as error:
            self._end_by(error)
        finally:
            self.give_back()
            self._refuse_commits()
            self._signal.notify()

    def _end_by(self, error: BaseException) -> None:
        if isinstance(error, ClosedError):
            self.stop()
        elif self.error is None:
            self.fail(error.again() if isinstance(error, KafkaError) else error)

    def give_back(self) -> None:
        self.run.end()
        if not self.run.closed:  # otherwise the closing thread still needs these queues for its commit
            self.drop(list(self.queues))
        self._reads.guard.lent = None
        self.ended = True

    # ---------------------------------------------------------------- calls of the run loop

    @property
    def partitions(self) -> Collection[TopicPartition]:
        return self.queues

    def goes_on(self) -> bool:
        return not self.stopping

    def start_due(self, now: float) -> None:
        where, most = self.limits.where, self.limits.max_poll
        dead, idle = self.unread(now, most)
        for stream in dead:
            log.warning(
                "%s: the thread that read %s has ended with a record in hand: records of %s wait until another thread reads the stream",
                where,
                stream,
                ", ".join(map(str, sorted(stream.queues))) or "its partitions",
            )
        for stream in idle:
            names = ", ".join(map(str, sorted(stream.queues))) or "none is left"
            log.warning("%s: no thread has requested a record from %s for %g s, and its partitions wait: %s", where, stream, most, names)
        self._commit_wanted()

    def drain(self, error: BaseException | None) -> float:
        """Wait for the records in hand, unless another thread closes the consumer: then the listener waits for them on that thread."""
        if error is not None:
            self._end_by(error)
        began = system.monotonic()
        seconds = max(0.0, min(self.limits.drain, self._drain_until - began))
        if not isinstance(error, ClosedError) and not self.wait_for_hands(seconds):
            log.warning("%s: streams still have records in hand after %g s; these are not finished", self.limits.where, seconds)
        return max(LEAST_CLOSE_S, min(RELEASE_COMMIT_S, seconds))

    def cancel_handlers(self) -> None:
        self.stop()

    # ---------------------------------------------------------------- commits

    def _commit_wanted(self) -> None:
        if not (wanted := self._take_wanted()):
            return

        def settle(offsets: Mapping[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
            self.run.committed(offsets, error)
            for promise in wanted:
                if error is None:
                    promise.set_result(None)
                else:
                    promise.set_exception(error)

        if not (offsets := self.run.committable()):
            settle(offsets, None)
            return
        try:
            self.run.commit_soon(offsets, settle)
        except ClosedError as error:
            settle(offsets, error)
            raise

    def _meanwhile(self) -> tuple[Thread | None, ...]:
        """Make the commits for which threads with a record in hand may wait; return the threads that may wait for the end.

        Otherwise this thread and a thread that calls `commit` or `close` with a record in hand would wait for each other.
        """
        self._commit_wanted()
        return self._closer, self._reads.closer()

    def _refuse_commits(self) -> None:
        for promise in self._take_wanted():
            promise.set_exception(ClosedError("the streams have ended"))

    def _take_wanted(self) -> list[Promise[None]]:
        wanted = []
        with contextlib.suppress(IndexError):  # several threads may be here, so a check for emptiness could be outdated
            while True:
                wanted.append(self._wanted.popleft())
        return wanted
