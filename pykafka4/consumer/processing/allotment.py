"""Allots partitions to streams. Invariant: a partition is on one stream at a time.

Records wait in one queue per partition, so that a partition moves between streams together with its waiting records. The new stream gets a
record of the partition only when the old stream has none in hand.

Any thread may iterate a stream, including the main thread, where Ctrl-C can interrupt any call. So waiting threads hold no lock, and only
`with` takes the lock.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from threading import Thread
from typing import Any

from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.errors import KafkaError
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Signal
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["Allotment", "StreamState"]

CHECK_S = 0.2  # seconds between checks of threads that hold a record: the end of a thread notifies no other thread


class StreamState:
    """One stream: its partitions, and the record in hand. Changed under the allotment's lock, except `owner` at the end of a loop."""

    __slots__ = ("asked_at", "hand", "name", "owner", "queues", "ready", "signal", "topic", "warned")

    def __init__(self, topic: str | None, name: str) -> None:
        """`topic` is None for a stream of a pattern or list of topics."""
        self.topic, self.name = topic, name
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.ready: deque[PartitionQueue] = deque()  # queues with records, and some that have since moved, ended or become empty
        self.hand: tuple[PartitionQueue, Record] | None = None
        self.owner: Thread | None = None  # the thread that iterates the stream
        self.signal = Signal()  # notified when a queue is ready, or the streams end
        self.asked_at = system.monotonic()  # when a thread last requested a record
        self.warned = False  # a log line has said that no thread reads the stream

    def __repr__(self) -> str:
        return self.name


class PartitionQueue:
    """The waiting records of a partition. An assignment begins a queue; when reading goes back, a new queue replaces it."""

    __slots__ = ("ended", "last", "listed", "records", "stream", "tp")

    def __init__(self, tp: TopicPartition, stream: StreamState) -> None:
        self.tp, self.stream = tp, stream
        self.records: deque[Record] = deque()
        self.last = -1  # the highest offset that was added
        self.listed: StreamState | None = None  # the stream whose `ready` has this queue
        self.ended = False  # the partition is released, or another queue has replaced this one: no stream takes its records


class Allotment:
    def __init__(self, streams: Sequence[StreamState], wake: Callable[[], object]) -> None:
        """`wake()` has the dispatcher check paused partitions."""
        self.streams, self._wake = tuple(streams), wake
        # Reentrant: a signal handler or destructor may call a method while its own thread has the lock.
        self._lock = system.RLock()
        self._of_topic: dict[str | None, tuple[StreamState, ...]] = {}
        for stream in streams:
            self._of_topic[stream.topic] = (*self._of_topic.get(stream.topic, ()), stream)
        self._busy: dict[TopicPartition, StreamState] = {}  # partitions with a record in hand, including ended partitions
        self._changed = Signal()  # notified when a record is finished, or given back
        self._watched: dict[TopicPartition, int] = {}  # for each partition: wake the dispatcher when at most this many records wait
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.held = 0  # waiting records; after Ctrl-C perhaps off by one, which only changes how many records a poll returns
        self._ending: dict[TopicPartition, PartitionQueue] = {}  # queues of partitions that end, until their records are dropped
        self.stopping = False
        self.error: BaseException | None = None  # the error that ended the streams
        self.raised = False  # a loop or `Streams.close` has raised `error`

    # ---------------------------------------------------------------- threads that iterate

    def next_record(self, stream: StreamState) -> Record[Any, Any]:
        """Finish the record in hand, and return the next record. Raises StopIteration at the end, or the error that ended the streams.

        Raises KafkaError while another thread reads the stream.
        """
        me, begun = system.current_thread(), False
        try:
            with self._lock:
                self._enter(stream, me)
                self._finish(stream)
                begun = True  # a record that comes into hand from here on has not been returned yet
            while True:
                with self._lock:
                    stream.asked_at = system.monotonic()
                    if self.error is None and not self.stopping and (record := self._take(stream)) is not None:
                        return record
                if self.error is not None or self.stopping:
                    self._end_of(stream)
                stream.signal.wait(lambda: bool(stream.ready) or self.stopping or self.error is not None)
        except BaseException:
            # Without this, Ctrl-C between `_take` and the return would lose the record in hand: the next call would count it as finished.
            if begun:
                with self._lock:
                    self._give_back(stream)
            raise

    def _end_of(self, stream: StreamState) -> None:
        stream.owner = None
        error = self.error
        if error is not None:
            self.raised = True
            raise error.again() if isinstance(error, KafkaError) else error
        raise StopIteration

    def finish(self, stream: StreamState) -> None:
        """Finish the record in hand; another thread may then iterate the stream."""
        with self._lock:
            self._enter(stream, system.current_thread())
            self._finish(stream)
            stream.owner = None

    def leave(self, stream: StreamState) -> None:
        """Put the unfinished record in hand back, to be handed out again; another thread may then iterate the stream."""
        with self._lock:
            self._enter(stream, system.current_thread())
            self._give_back(stream)
            stream.owner = None

    def _enter(self, stream: StreamState, me: Thread) -> None:
        """Raises KafkaError while another living thread iterates the stream."""
        owner = stream.owner
        if owner is me:
            return
        if owner is not None:
            if owner.is_alive():
                raise KafkaError(
                    f"thread {me.name!r} reads {stream.name} while thread {owner.name!r} does: one thread reads a stream; "
                    "finish() or leave() in that thread frees the stream"
                )
            self._give_back(stream)
        stream.owner = me

    def _finish(self, stream: StreamState) -> None:
        """Every step must be safe to repeat: if Ctrl-C comes before `hand` is None, a later call starts over."""
        if stream.hand is None:
            return
        self._release(stream, stream.hand[0])

    def _give_back(self, stream: StreamState) -> None:
        """See `leave`. Every step must be safe to repeat, as in `_finish`."""
        if stream.hand is None:
            return
        queue, record = stream.hand
        # The record is already at the front if Ctrl-C came before `_take` removed it, or in an earlier attempt to give it back.
        if not (queue.records and queue.records[0] is record):
            queue.records.appendleft(record)
            self.held += not queue.ended
        self._release(stream, queue)

    def _release(self, stream: StreamState, queue: PartitionQueue) -> None:
        self._busy.pop(queue.tp, None)
        now = self.queues.get(queue.tp)
        if now is not None:  # the queue may belong to another stream by now, which cannot take the next record until `now` is listed
            self._list(now)
        stream.hand = None
        self._changed.notify()

    def _take(self, stream: StreamState) -> Record | None:
        """Take into hand the first record of the next ready queue, in turn; None if no queue is ready."""
        ready = stream.ready
        while ready:
            queue = ready[0]
            if queue.stream is stream and queue.records and not queue.ended and not self._held_elsewhere(queue):
                record = queue.records[0]
                # In hand before it leaves the queue: after Ctrl-C between the two it is in both places, and `_give_back` sees that.
                stream.hand = queue, record
                self._busy[queue.tp] = stream
                queue.records.popleft()
                self.held -= 1
                ready.rotate(-1)
                if len(queue.records) <= self._watched.get(queue.tp, -1):
                    self._watched.pop(queue.tp, None)
                    self._wake()
                return record
            ready.popleft()
            if queue.listed is stream:
                queue.listed = None
        return None

    def _held_elsewhere(self, queue: PartitionQueue) -> bool:
        return self._busy.get(queue.tp, queue.stream) is not queue.stream

    def _list(self, queue: PartitionQueue) -> None:
        stream = queue.stream
        if queue.records and not self._held_elsewhere(queue):
            if queue.listed is not stream:
                stream.ready.append(queue)
                queue.listed = stream
            stream.signal.notify()

    # ---------------------------------------------------------------- the dispatcher

    def add(self, records: Iterable[Record], taken: Callable[[], object] = lambda: None) -> None:
        """Records that belong to no stream are dropped. `taken()` is called before a stream takes one of `records`."""
        touched: dict[PartitionQueue, None] = {}
        with self._lock:
            for record in records:
                queue = self._queue_for(record)
                if queue is None:
                    continue
                queue.records.append(record)
                queue.last = record.offset
                self.held += not queue.ended
                touched[queue] = None
            taken()
            for queue in touched:
                self._list(queue)

    def _queue_for(self, record: Record) -> PartitionQueue | None:
        tp = TopicPartition(record.topic, record.partition)
        known = self.queues.get(tp)
        if known is None and (ending := self._ending.get(tp)) is not None:
            # A thread is closing the consumer, and has ended the partition after the poll that returned this record. In the ending queue
            # the record counts as unfinished; without an entry there, the last commit would pass it.
            return ending
        if known is None:
            streams = self._streams_for(tp)
            return self._assign(tp, min(streams, key=lambda one: len(one.queues))) if streams else None
        if record.offset > known.last:
            return known
        return self._go_back(known, record.offset)

    def _go_back(self, known: PartitionQueue, offset: int) -> PartitionQueue:
        """Begin a new queue when reading has gone back to `offset`: no stream takes the old records from `offset` on."""
        tp, stream = known.tp, self._busy.get(known.tp)
        now = PartitionQueue(tp, known.stream)
        now.records.extend(record for record in known.records if record.offset < offset)
        known.ended = True
        self.held += len(now.records) - len(known.records)
        if stream is not None and stream.hand is not None and stream.hand[0] is known and stream.hand[1].offset < offset:
            stream.hand = now, stream.hand[1]
        self.queues[tp] = known.stream.queues[tp] = now
        return now

    def assign(self, tps: Collection[TopicPartition]) -> list[TopicPartition]:
        """Give each new partition to the stream of its topic with the fewest partitions. Returns partitions that belong to no stream."""
        strange = []
        heaps: dict[str | None, list[tuple[int, int, StreamState]]] = {}  # for each topic: its streams, by number of partitions
        with self._lock:
            for tp in sorted(tps):
                if not (streams := self._streams_for(tp)):
                    strange.append(tp)
                elif tp not in self.queues:
                    heap = heaps.get(streams[0].topic)
                    if heap is None:
                        heap = heaps[streams[0].topic] = sorted((len(stream.queues), n, stream) for n, stream in enumerate(streams))
                    count, n, stream = heap[0]
                    self._assign(tp, stream)
                    heapq.heapreplace(heap, (count + 1, n, stream))
            self._balance()
        return strange

    def _streams_for(self, tp: TopicPartition) -> tuple[StreamState, ...]:
        return self._of_topic.get(tp.topic) or self._of_topic.get(None, ())

    def _assign(self, tp: TopicPartition, stream: StreamState) -> PartitionQueue:
        queue = self.queues[tp] = stream.queues[tp] = PartitionQueue(tp, stream)
        return queue

    def _balance(self) -> None:
        """Move as few partitions as possible, until streams of a topic differ by at most one partition."""
        for streams in self._of_topic.values():
            while True:
                most, least = (choose(streams, key=lambda one: len(one.queues)) for choose in (max, min))
                if len(most.queues) - len(least.queues) <= 1:
                    break
                # Prefer a partition without a record in hand: any other would wait until the old stream has finished its record.
                free = [tp for tp in most.queues if tp not in self._busy]
                tp = (free or list(most.queues))[-1]
                queue = least.queues[tp] = most.queues.pop(tp)
                queue.stream = least
                self._list(queue)

    def end(self, tps: Collection[TopicPartition], timeout: float) -> None:
        self._wait_for(self._take_away(tps), timeout)

    def _take_away(self, tps: Collection[TopicPartition]) -> list[PartitionQueue]:
        with self._lock:
            ending = [self.queues.pop(tp) for tp in tps if tp in self.queues]
            for queue in ending:
                queue.ended = True
                self.held -= len(queue.records)
                self._ending[queue.tp] = queue
                del queue.stream.queues[queue.tp]
            self._balance()
        return ending

    def drop(self, tps: Collection[TopicPartition]) -> None:
        self._take_away(tps)
        with self._lock:
            for tp in tps:
                if (queue := self._ending.pop(tp, None)) is not None:
                    queue.records.clear()

    def _meanwhile(self) -> Iterable[Thread | None]:
        """Called repeatedly while this thread waits for records in hand. Returns threads whose records it does not wait for."""
        return ()

    def wait_for_hands(self, timeout: float) -> bool:
        return self._wait_for(list(self.queues.values()), timeout)

    def _wait_for(self, queues: Collection[PartitionQueue], timeout: float) -> bool:
        """Wait until no record of `queues` is in hand; return False after a timeout.

        Records of this thread, of threads that have ended, and of threads that wait for this one are left out: nothing would finish them
        during the wait.
        """
        me, deadline = system.current_thread(), system.monotonic() + timeout

        def finished() -> bool:
            excepted = (me, *self._meanwhile())
            hands = [(stream.hand, stream.owner) for stream in self.streams]
            return not any(hand is not None and hand[0] in queues and owner not in excepted and _alive(owner) for hand, owner in hands)

        while not finished():
            left = deadline - system.monotonic()
            if left <= 0:
                return False
            self._changed.wait(finished, min(left, CHECK_S))
        return True

    def size(self, tp: TopicPartition) -> int:
        queue = self.queues.get(tp)
        return 0 if queue is None else len(queue.records)

    def watch(self, least: Mapping[TopicPartition, int]) -> None:
        """Wake the dispatcher when at most `least[partition]` records of a partition wait."""
        with self._lock:
            self._watched = dict(least)
        if any(self.size(tp) <= most for tp, most in least.items()):
            self._wake()

    def unfinished(self) -> dict[TopicPartition, OffsetAndEpoch]:
        with self._lock:
            queues = {**self.queues, **self._ending}
            first = {tp: queue.records[0] for tp, queue in queues.items() if queue.records}
            for stream in self.streams:
                if stream.hand is not None and queues.get((queue := stream.hand[0]).tp) is queue:
                    first[queue.tp] = stream.hand[1]
        return {tp: (record.offset, record.leader_epoch) for tp, record in first.items()}

    def unread(self, now: float, seconds: float) -> tuple[list[StreamState], list[StreamState]]:
        """Streams whose thread has ended with a record in hand, and streams with records but without a request in the last `seconds`.

        An idle stream is not returned again while it stays idle. The record of an ended thread is put back: another thread may read the
        stream.
        """
        dead, idle = [], []
        with self._lock:
            for stream in self.streams:
                if stream.owner is not None and not stream.owner.is_alive():
                    if stream.hand is not None:
                        dead.append(stream)
                    self._give_back(stream)
                    stream.owner = None
                late = (stream.hand is not None or bool(stream.ready)) and now - stream.asked_at > seconds
                if late and not stream.warned:
                    idle.append(stream)
                stream.warned = late
        return dead, idle

    # ---------------------------------------------------------------- the end

    def stop(self) -> None:
        """End every loop when it requests its next record. May be called in signal handlers."""
        self.stopping = True
        self._wake_all()

    def fail(self, error: BaseException) -> None:
        """Have every loop raise `error` when it requests its next record."""
        self.error = error
        self._wake_all()

    def _wake_all(self) -> None:
        for stream in self.streams:
            stream.signal.notify()


def _alive(thread: Thread | None) -> bool:
    return thread is not None and thread.is_alive()
