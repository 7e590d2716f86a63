"""Runs a producer's calls on the threads of the application: `send` with its waits, flush, purge, status and close.

Invariant: `close` returns only when every accepted record has its outcome, except in a forked child, and in a callback or on the loop
thread while another thread closes. If Ctrl-C ends a `close`, the next `close` continues it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from pykafka4.client.attachment import LOOP_ANSWER_S, Attachment, read_config
from pykafka4.client.client import Client
from pykafka4.client.push import Pushing
from pykafka4.client.status import in_slices, with_offline
from pykafka4.core import INFINITY
from pykafka4.core.producer.outcomes.ledger import Census, ProducerStats, take_census
from pykafka4.core.producer.partition_status import show
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.sender import Sender
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S
from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed, ForkedClientError, KafkaError, KafkaTimeoutError, TransactionError
from pykafka4.logs import get_log
from pykafka4.misuse import check_topic
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Gate
from pykafka4.net.living import Living
from pykafka4.options.config import ProducerConfig
from pykafka4.partitioners import partitioner
from pykafka4.producer.attempts import Attempts, Obstacle, WouldBlock
from pykafka4.producer.deliveries import FORKED, Deliveries
from pykafka4.producer.hooks import HookCalls
from pykafka4.producer.overflow import DroppedCalls, FlushMark
from pykafka4.producer.rates import RateLimits
from pykafka4.producer.raw import RawSending
from pykafka4.producer.serializing import Serializing
from pykafka4.producer.topics import TopicPolicies, codecs_of
from pykafka4.producer.transactions import TransactionCalls
from pykafka4.records import ProducerRecord
from pykafka4.wire.records.compression import compress, require_codec
from pykafka4.wire.records.hot import ACKED, Accumulator, Batch, Delivery

__all__ = ["ProducerSession"]

log = get_log("pykafka4.producer")

EXIT_S: Final = 5.0  # seconds for deliveries when an exception leaves a `with` block, and for the callbacks of a flush without a timeout
WORKING: Final = ("connected", "connecting", "unreachable")  # states of a client whose loop runs
LOOK_PAUSE_S: Final = 0.01  # seconds between checks of a topic's parked records, and of the end of the loop
# Until this long after brokers first reported a partition as missing, `send` does not begin another wait of MISSING_PARTITION_S, unless the
# number of partitions changes.
KNOWN_MISSING_S: Final = 20.0
MOST_UNKNOWN: Final = 4_096  # topics that wait to be looked up with on_full=raise: neither buffer_memory nor a wait of `send` bounds them

T = TypeVar("T")


class ProducerSession(Attachment[Sender]):
    """The implementation of `Producer` and `aio.Producer`. The session may outlive its handle."""

    kind = "producer"
    acc: Accumulator

    def __init__(self, client: Client | None, executor: Executor | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ProducerConfig, client, executor, options)
        for codec in codecs_of(self.config):
            require_codec(codec)
        self._given, self._executor = client, executor
        self.closers: set[int] = set()  # threads in `close`
        self.pending: list[Batch | Delivery | FlushMark] | None = None  # the unsettled items when the first `close` began
        self.undecided: list[Batch | Delivery | FlushMark] = []  # the items of `pending` without an outcome at that time
        self.undelivered: list[ProducerRecord] | None = None  # the result of `close`
        self._missing: dict[str, tuple[int, float]] = {}  # by topic: its size and the time when a `send` began to wait for a partition
        self._busy: dict[int, float] = {}  # by thread: the time at which its `send` stops waiting at the latest, or has stopped
        self._serial = next(_serials)
        self.attempts = Attempts()
        self._final: KafkaError | None = None  # the reason why this producer accepts no more records
        self._final_at = 0.0
        self._unannounced: list[Batch | Delivery | FlushMark] | None = None  # items whose callbacks run before `on_close` of the hooks
        self.transactions = TransactionCalls(self, self.config, self.check)

    def open(self) -> None:
        config = self.config
        self.connect(self._given, config, self._executor)
        self.signal, self.gate = Deliveries(self.runtime.callbacks, self.runtime.engine), Gate(self._count_waiters, self._starving)
        self.hooks = HookCalls(config.hooks, self.runtime.callbacks.submit, config.client_id) if config.hooks else None
        self.dropped_calls = DroppedCalls(self.signal.submit, self.progress, config.client_id)
        rates = RateLimits(config.rate_limits, self._patience, system.monotonic, self.gate.lock, self._pause)
        self.acc = Accumulator(
            batch_size=config.batch_size,
            buffer_memory=config.buffer_memory,
            max_partition_bytes=config.partition_bytes,
            max_request_size=config.max_request_size,
            compress=compress,
            policy=(policies := TopicPolicies(config, rates)),
            clock=system.monotonic,
            wake=self.runtime.loop.wake,
            new_topic=self._new_topic,
            find_partition=self._find_partition,
            find_topic=self._find_topic,
            partitioner=partitioner(config.partitioner, config.partitioner_ignore_keys, config.partitioner_adaptive_partitioning_enable),
            make_room=self._make_room,
            wait=self.signal.wait,
            submit=self.signal.submit,
            awaiting=self.signal.awaiting,
            failure_seen=self.signal.failure_seen,
            client_id=config.client_id,
            lock=self.gate.lock,
            limits=self._limits() if config.on_full == "raise" else None,
            drop_error=BufferFull(self._limits()) if config.on_full == "drop" else None,
            call_dropped=self.dropped_calls,
        )
        if config.transactional_id is not None:
            self.acc.transactional = True
            self.acc.refusal = TransactionError(f"{config.transactional_id}: call init_transactions and begin_transaction first")
        self.raw = RawSending(self.acc, policies, self.signal)
        self.sending: Serializing | None = None  # None: `send` of the handle is the accumulator's
        if config.key_serializer is not None or config.value_serializer is not None or (self.hooks is not None and self.hooks.on_caller):
            self.sending = Serializing(self.acc, config.key_serializer, config.value_serializer, self.hooks)
        self.runtime.loop.ask(self._start, LOOP_ANSWER_S, "starting the producer")
        self.runtime.attach(self)
        _sessions.add(self)

    def undo(self) -> None:
        """Clean up after an exception in the handle's constructor."""
        self.undelivered = []
        runtime = getattr(self, "runtime", None)
        if runtime is None or self._given is None:  # a private client, or none yet
            if runtime is not None:
                runtime.close(0)
            return
        runtime.loop.call(self.withdraw)  # the loop makes calls in order: `withdraw` runs after `_start`, which adds the machine
        runtime.detach(self)

    def _start(self, now: float) -> None:
        engine = self.runtime.engine
        self.machine = Sender(
            self.config,
            self.acc,
            engine.network,
            engine.cluster,
            engine.recovery,
            engine.random,
            self,
        )
        self.machine.listen(self.hooks)
        self.machine.ledger.clock = system.monotonic
        self.machine.ledger.take_dropped = self.acc.take_dropped
        engine.add(self.machine, "producer")
        self.push_metrics(Pushing.PRODUCER, lambda: {"transactional_id": self.config.transactional_id})

    # ---- called by the accumulator, on application threads

    def _new_topic(self, topic: str) -> None:
        """Have the loop look up `topic`. With on_full=raise, raises BufferFull while MOST_UNKNOWN topics wait."""
        check_topic(topic)
        if self.config.on_full == "raise" and self.machine.unknown_topics >= MOST_UNKNOWN:
            raise BufferFull(f"{topic}: {MOST_UNKNOWN:,} topics wait for their partitions to be looked up; on_full=raise")
        self.post(lambda _: self.machine.want(topic))

    def _until(self, deadline: float) -> float:
        """The deadline of a `send`: max_block_ms after its first wait began. Before that wait, `deadline` is infinite."""
        return min(deadline, system.monotonic() + self.config.max_block_ms / 1000)

    def _find_partition(self, topic: str, partition: int, deadline: float) -> float:
        """Wait until an unknown partition exists, at most until `deadline`, or as long as `missing_until` allows.

        The partition may be new, and brokers learn of it at different times. Returns the deadline for further waits. Inside a callback
        there is no wait.
        """
        if self.attempts.is_attempt and not self.attempts.has_waited_for(Obstacle.PARTITION):
            raise WouldBlock(f"{topic}-{partition} has to be looked up", Obstacle.PARTITION, topic, partition)
        if self.attempts.is_attempt or self._inside():
            return deadline
        until, pace = self._until(deadline), self.config.retry_backoff_ms / 1000
        loop, cluster = self.runtime.loop, self.runtime.engine.cluster
        while True:
            if loop.ask(lambda now: cluster.age(topic, now), LOOP_ANSWER_S) >= pace:
                with contextlib.suppress(KafkaTimeoutError):
                    self.runtime.refresh_metadata([topic], max(0.0, until - system.monotonic()))
                loop.ask(lambda now: self.machine.announce_partitions(topic, now), LOOP_ANSWER_S, machine=self.machine)
            count, now = loop.ask(lambda now: cluster.partitions(topic), LOOP_ANSWER_S), system.monotonic()
            left = min(self.missing_until(topic, count), until) - now
            if partition < count or left <= 0:
                return until
            with self._waiting(until):
                if self.signal.wait(self._refused, min(left, pace)):
                    self._raise_refusal()

    def missing_until(self, topic: str, count: int) -> float:
        now, missing = system.monotonic(), self._missing.get(topic)
        if missing is None or missing[0] != count or now - missing[1] > KNOWN_MISSING_S:
            self._missing[topic] = missing = (count, now)
        return missing[1] + MISSING_PARTITION_S

    def _find_topic(self, topic: str, deadline: float) -> float:
        """Wait, at most until `deadline`, for the partitions of `topic`, which the application's partitioner needs.

        Returns the deadline for further waits. Raises KafkaTimeoutError with the reason; BrokerError if brokers refuse the topic;
        BufferFull inside a callback.
        """
        if self.attempts.is_attempt:
            raise WouldBlock(f"the partitions of {topic!r} have to be looked up", Obstacle.TOPIC, topic, -1)
        if self._inside():
            raise BufferFull(
                f"the partitions of {topic!r} are not known yet, and a callback must not wait until the partitioner can be called; "
                "send the record from another thread"
            )
        until = self._until(deadline)
        with self._waiting(until), self.runtime.callbacks.waiting():
            self.runtime.partitions_of(topic, max(0.0, until - system.monotonic()), create=True)
            self.runtime.loop.ask(lambda now: self.machine.announce_partitions(topic, now), LOOP_ANSWER_S, machine=self.machine)
            left = until - system.monotonic()
            if not self.acc.direct(topic):  # `send` must not overtake parked records with an explicit partition
                if left <= 0:
                    raise KafkaTimeoutError(f"{topic!r}: earlier records still wait for their partition; the partitioner cannot be called")
                self.signal.wait(lambda: self._refused() or self.acc.direct(topic), min(LOOK_PAUSE_S, left))
        self.check()
        return until

    def _make_room(self, topic: str, partition: int, size: int, deadline: float) -> float:
        """Wait for `size` free bytes, first come, first served. Returns the deadline for further waits.

        Raises BufferFull when `deadline` has passed; at once inside a callback and with on_full=raise.
        """
        if self.config.on_full == "raise":
            self.acc.hurry(size)
            raise BufferFull(self._limits(), self.acc.reserved, topic, partition, size)
        where = f"{topic}-{partition}" if partition >= 0 else topic
        limit = f"{self._limits()} ({self.acc.reserved} bytes in use), {where} needs {size} more"
        if self.attempts.is_attempt:
            if self.attempts.has_waited_for(Obstacle.ROOM) and self.acc.room(topic, partition, size):
                return deadline
            raise WouldBlock(limit, Obstacle.ROOM, topic, partition, size)
        if self._inside():
            raise BufferFull(f"{limit}; a callback must not wait for it: queue the record elsewhere, or send it from another thread")
        until = self._until(deadline)
        with self._waiting(until), self.runtime.callbacks.waiting():
            room = self.gate.wait(
                lambda: self._refused() or self.acc.room(topic, partition, size),
                max(0.0, until - system.monotonic()),
                key=(topic, partition),
                hindered=lambda: not self._refused() and self.acc.crowded(topic, partition, size),
            )
        self._raise_refusal()
        if not room:
            raise BufferFull(f"{limit}; no room within max_block_ms={self.config.max_block_ms:g}")
        return until

    def _limits(self) -> str:
        return f"buffer_memory={self.config.buffer_memory} or max_partition_bytes={self.config.max_partition_bytes} is used up"

    def _patience(self) -> float:
        return 0.0 if self._inside() else self.config.max_block_ms / 1000

    def _pause(self, seconds: float) -> None:
        """Wait; raise the error that has ended the producer, if any."""
        with self._waiting(system.monotonic() + seconds), self.runtime.callbacks.waiting():
            self.signal.wait(self._refused, seconds)
        self.check()

    @contextlib.contextmanager
    def _waiting(self, until: float) -> Iterator[None]:
        """Keep a producer without a handle open during this wait of `send`, which ends at `until` at the latest."""
        thread = system.get_ident()
        self._busy[thread] = until
        try:
            yield
        finally:
            # The entry stays: until `send` has accepted its record, a moment later, `ForgottenProducer` must not close the producer.
            self._busy[thread] = system.monotonic()

    def busy_until(self) -> float:
        """The time at which all waits of `send` have ended at the latest; -INFINITY if there were none."""
        return max(list(self._busy.values()), default=-INFINITY)

    def _count_waiters(self, waiting: int, aside: frozenset[Any] | None) -> None:
        self.acc.waiters, self.acc.full_partitions = waiting, aside

    def _starving(self) -> None:
        """Wake the loop for a `send` that waits for buffer_memory, because open batches are due now.

        If all connections are full, the sender cannot send, and soon checks again without a wake-up.
        """
        if self.acc.can_send:
            self.runtime.loop.wake()

    def _refused(self) -> bool:
        return self.acc.refusal is not None

    def _inside(self) -> bool:
        """Whether this thread must not wait: it runs a callback, or is the loop thread of any client (a destructor may send there)."""
        return self.runtime.callbacks.in_callback() or logs.current().on_loop()

    # ---- called by the sender (see sender.Application)

    @property
    def starved(self) -> bool:
        return self.gate.starved

    def progress(self) -> None:
        self.signal.notify()
        self.gate.release()
        if self._unannounced is not None:
            self._announce_close()

    def refuse(self, error: KafkaError) -> None:
        if self._final is None:
            self._final_at = system.monotonic()
            self._final = self.acc.refusal = error
        self.progress()

    def set_refusal(self, refusal: KafkaError | None) -> None:
        """Have `send` raise `refusal`, or accept records again (None). A final refusal stays."""
        if self._final is None:
            self.acc.refusal = refusal
        # Read again: after the first check, another thread may have called `refuse`, and the assignment would have overwritten its error.
        if self._final is not None:
            self.acc.refusal = self._final
        self.progress()

    # ---- operations

    def check(self) -> None:
        """Raise the error that ended this producer, if any. A TransactionError does not end the producer."""
        if not isinstance(self.acc.refusal, TransactionError):
            self._raise_refusal()

    def _raise_refusal(self) -> None:
        refusal = self.acc.refusal
        if refusal is not None:
            raise refusal.again()

    def stats(self) -> ProducerStats:
        """The counts, taken on the loop thread while the loop runs. Raises KafkaTimeoutError if the loop is stuck."""
        ledger = self.machine.ledger
        self._on_loop(ledger.collect_drops)
        snapshot = self._on_loop(lambda: ledger.snapshot(take_census(self.acc), self.acc.reserved))
        drops = snapshot.all_drops
        with contextlib.suppress(KafkaError):
            self.post(lambda _: ledger.settle_drops(snapshot, drops))
        return snapshot.stats(drops)

    def _on_loop(self, look: Callable[[], T]) -> T:
        """The result of `look`, called on the loop thread, or on this thread after the loop thread has ended (then no count changes)."""
        loop = self.runtime.loop
        try:
            return loop.ask(lambda _: look(), LOOP_ANSWER_S, "the producer's stats")
        except (ForkedClientError, KafkaTimeoutError):  # the counts belong to the parent; or the loop is stuck, and may still change them
            raise
        except KafkaError:  # the loop was closed or has crashed
            deadline = system.monotonic() + LOOP_ANSWER_S
            while loop.alive:  # the loop is in its last turn, which may still change the counts
                if system.monotonic() > deadline:
                    raise
                self.signal.wait(lambda: not loop.alive, LOOK_PAUSE_S)
        return look()

    def oldest_age(self) -> float:
        """Seconds since `send` of the oldest record in a batch without an outcome; 0 without such a batch."""
        oldest = min((batch.sent_at for batch in self.acc.unfinished() if isinstance(batch, Batch) and batch.state < ACKED), default=None)
        return 0.0 if oldest is None else max(0.0, system.monotonic() - oldest)

    def status(self) -> dict[str, Any]:
        found, partitions, totals = self.runtime.status(), {}, {}
        if found["state"] in WORKING:
            with contextlib.suppress(KafkaError):  # the client has just ended
                partitions = self._look_at_partitions()
                found = with_offline(found, {name: row for name, row in partitions.items() if row["state"] == "offline"})
        if found["state"] != "unresponsive":
            with contextlib.suppress(ForkedClientError, KafkaTimeoutError):
                totals = self.stats().totals()
        return {**found, "partitions": partitions, **self.crashed(), "producer": totals}

    def _look_at_partitions(self) -> dict[str, dict[str, Any]]:
        partition_status = self.machine.partition_status
        now, census, queues = self.runtime.loop.ask(self._begin_look, LOOP_ANSWER_S, "the producer's status")
        topics = [topic for topic, _ in census[2]]
        found = in_slices(self.runtime.loop, queues, partition_status.look)
        parked = in_slices(self.runtime.loop, topics, lambda part, now: partition_status.look_at_parked(part, self.acc, now))
        final = None if self._final is None else (self._final, self._final_at)
        return show(now, list(itertools.chain(*found)), census, list(itertools.chain(*parked)), final)

    def _begin_look(self, now: float) -> tuple[float, Census, list[PartitionQueue]]:
        return now, take_census(self.acc), list(self.machine.queues.values())

    def flush(self, timeout: float | None) -> None:
        if self._inside():
            raise KafkaError("flush inside a callback would deadlock; call it from another thread")
        pending, limit = self.begin_flush(), self.flush_seconds(timeout)
        if not self._wait_settled(pending, limit):
            raise self.late(pending, limit)

    def begin_flush(self) -> list[Batch | Delivery | FlushMark]:
        self.check()
        pending = [*self.acc.unfinished(), *self.dropped_calls.mark()]
        self._expedite()
        return pending

    def flush_seconds(self, timeout: float | None) -> float:
        """The seconds that a flush waits. None: the delivery timeout for outcomes, and EXIT_S for callbacks."""
        return self.config.delivery_timeout_ms / 1000 + EXIT_S if timeout is None else timeout

    def late(self, pending: Sequence[Batch | Delivery | FlushMark], limit: float) -> KafkaTimeoutError:
        left = sum(1 if isinstance(item, Delivery) else item.count for item in pending if not _done(item))
        if not left:
            return KafkaTimeoutError(f"flush: all records have their outcome, but delivery callbacks have not returned within {limit:g} s")
        return KafkaTimeoutError(f"flush: records not delivered within {limit:g} s: {left}; status() says why")

    def _expedite(self) -> None:
        self.post(lambda _: self.machine.expedite())

    def _wait_settled(self, pending: Sequence[Batch | Delivery | FlushMark], timeout: float) -> bool:
        return self.signal.wait(self.settled(pending), timeout)

    def settled(self, pending: Sequence[Batch | Delivery | FlushMark]) -> Callable[[], bool]:
        """A predicate, for repeated calls: whether all of `pending` have their outcome, and their callbacks have run.

        On a thread of the callback executor the outcome is enough: the callbacks may need this very thread.
        """
        waiting, on_executor = list(pending), self.runtime.callbacks.on_executor

        def over(item: Batch | Delivery | FlushMark) -> bool:
            # Called at each check, not once before: an executor may list a thread only after that thread has started to work.
            return item.settled or (_done(item) and on_executor())

        def done() -> bool:
            while waiting and over(waiting[-1]):
                waiting.pop()
            return not waiting

        return done

    @property
    def exit_seconds(self) -> float:
        return min(EXIT_S, self.close_seconds)

    @property
    def close_seconds(self) -> float:
        limit = self.config.close_timeout_ms
        return (self.config.delivery_timeout_ms if limit is None else limit) / 1000

    def note_open_records(self, error: BaseException) -> None:
        if count := sum(1 if isinstance(item, Delivery) else item.count for item in self.pending or () if not _done(item)):
            error.add_note(f"pykafka4: records not delivered yet: {count}; delivery continues in the background while the process runs")

    def raise_failures(self, mark: int) -> None:
        # Parked records get their outcome, which may end a flush, shortly before the loop counts them: then wait for the end of its turn.
        if self.acc.failed > self.machine.ledger.failures_seen:
            self.runtime.loop.ask(lambda now: None, LOOP_ANSWER_S, "counting failed records")
        now, reported = self.machine.ledger.failures_seen, _reported.get().get(self._serial, ())
        count, first = self.machine.ledger.failures_since(mark, self.signal.seen_failures, reported)
        if first is not None:
            error = DeliveryFailed(first.topic, first.partition, str(first.code), first.written, None, first.cause)
            if count > 1:
                error.add_note(f"{count} failures that the application had not seen, this one included")
            self.mark_failures_seen(mark, now)
            raise error

    def mark_failures_seen(self, start: int, end: int) -> None:
        if start >= end:  # no record failed, as in most aborts
            return
        # Drop the ranges of producers that are gone: a thread may use many producers.
        alive = {session._serial for session in list(_sessions)}
        others = {serial: ranges for serial, ranges in _reported.get().items() if serial in alive}
        known = others.get(self._serial, ())  # disjoint, and in order
        earlier, later = [r for r in known if r[1] < start], [r for r in known if r[0] > end]
        touched = known[len(earlier) : len(known) - len(later)]
        if touched:
            start, end = min(start, touched[0][0]), max(end, touched[-1][1])
        _reported.set({**others, self._serial: (*earlier, (start, end), *later)})

    def purge(self, in_flight: bool) -> int:
        self.check()
        reason = KafkaError("the application purged the record")
        reason.code = "PURGED"
        return self.runtime.loop.ask(lambda now: self.machine.purge(now, reason, in_flight), LOOP_ANSWER_S, "purging records", self.machine)

    def close(self, timeout: float | None = None) -> list[ProducerRecord]:
        if self.undelivered is not None:
            return self.undelivered
        if self.runtime.loop.forked:  # the records and the locks belong to the parent
            return []
        # A callback must wait neither for deliveries nor for a `close` of another thread. On the loop of another client, the wait
        # below raises KafkaTimeoutError, unless its timeout is 0: a destructor there must not give up records that this client's loop still
        # delivers.
        if self.runtime.callbacks.in_callback() or self.runtime.loop.on_loop():
            return [] if self.closers else self._close(0.0)
        self.closers.add(system.get_ident())
        try:
            return self._close(self.close_seconds if timeout is None else timeout)
        finally:
            self.closers.discard(system.get_ident())

    def _close(self, patience: float) -> list[ProducerRecord]:
        pending = self.begin_close()
        deadline = system.monotonic() + patience
        if self.config.transactional_id is not None and self.runtime.loop.alive:
            self.transactions.leave(patience)
        if not self._wait_settled(pending, max(0.0, deadline - system.monotonic())):
            self._give_up(pending)
        self.disconnect()
        self.undelivered = [record for item in sorted(self.undecided, key=_age) for record in item.lost()]
        if self.hooks is not None:
            self._unannounced = list(pending)
            self._announce_close()
        return self.undelivered

    def _announce_close(self) -> None:
        """Call `on_close` of the hooks after the callbacks of all records that were open have run, including `on_ack`.

        `close` does not wait for these callbacks beyond its timeout, so `progress` tries again after each change. The loop must not run
        code of the application: on the loop thread and in a callback, this method has the executor call `on_close`.
        """
        pending, hooks = self._unannounced, self.hooks
        if pending is None or hooks is None:
            return
        while pending:
            try:
                if not pending[-1].settled:
                    return
                pending.pop()
            except IndexError:  # another thread was faster
                break
        self._unannounced = None
        if not self._inside():
            hooks.on_close()  # calls each hook once, however many threads come here
        else:
            self.runtime.callbacks.post(hooks.on_close)

    def begin_close(self) -> list[Batch | Delivery | FlushMark]:
        """Refuse further records. Without a transactional_id, accepted records are sent without linger. Returns the items to wait for."""
        self.refuse(ClosedError("this producer is closed; create a new one"))  # first: no record may be accepted after the list below
        if self.pending is None:
            unfinished = [*self.acc.unfinished(), *self.dropped_calls.mark()]
            self.undecided = [item for item in unfinished if not _done(item)]
            self.pending = unfinished  # last: a call after Ctrl-C makes both lists again, unless both are complete
        if self.config.transactional_id is None:  # otherwise `leave` aborts the transaction, and its unsent records must not be sent
            self._expedite()
        return self.pending

    def _give_up(self, pending: Sequence[Batch | Delivery | FlushMark]) -> None:
        reason = ClosedError("the producer was closed before the record was acknowledged")
        with contextlib.suppress(KafkaError):  # a loop that crashed or was closed fails its records itself
            self.runtime.loop.ask(lambda _: self.machine.fail_all(reason), LOOP_ANSWER_S, "failing undelivered records", self.machine)
        if not self.signal.wait(lambda: all(_done(item) for item in pending), LOOP_ANSWER_S):
            raise KafkaTimeoutError(
                "close: the client's loop does not respond and some records have no outcome yet; call close again to wait for these records"
            )

    def drain(self, timeout: float) -> None:
        """Close at interpreter exit, and log how many records were not delivered."""
        if self.undelivered is None and self.close(timeout):
            log.warning(
                "%s: records not delivered when the interpreter exited: %d; close the producer before it exits",
                self.config.client_id,
                len(self.undelivered or ()),
            )


def _age(item: Batch | Delivery | FlushMark) -> tuple[float, float, int]:
    """A key to sort the batches of a partition by age, parked records last, because any batches of their partition are older.

    Batches filled from parked records at the same time differ in `sent_at`, parts of a split batch at most in their sequence numbers.
    """
    return (item.sent_at, item.created, item.base_sequence) if isinstance(item, Batch) else (INFINITY, 0.0, 0)


_sessions: Living[ProducerSession] = Living()
_serials = itertools.count()
# By a producer's serial number: the ranges of failures that this thread or task has seen, in `raise_failures` or an abort.
_reported: ContextVar[Mapping[int, tuple[tuple[int, int], ...]]] = ContextVar("_reported", default={})  # noqa: B039  # never changed in place


def _after_fork() -> None:
    for session in list(_sessions):
        session.acc.refusal = ForkedClientError(FORKED)
        session.signal.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _done(item: Batch | Delivery | FlushMark) -> bool:
    return item.done() if isinstance(item, Delivery) else item.done
