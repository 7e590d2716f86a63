"""Takes sealed batches from the accumulator, keeps them in one queue per partition, and sends them to the current leaders.

Invariant: a batch leaves its queue only when it is acknowledged or fails, when its parts replace it, or when `LateBatches` moves it to the
queue of a partition. With idempotence, the sender resends a *maybe written* batch only with the same producer id, epoch and sequence, or
fails the batch as MAYBE.
"""

from __future__ import annotations

import random as _random
from typing import Protocol

from pykafka4.core import ANY, INFINITY, Effects, Job, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.metadata.topic import Leader
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.producer.outcomes.batch_outcomes import BatchEvents, Callbacks, Outcomes, Waiters
from pykafka4.core.producer.outcomes.deadlines import Deadlines
from pykafka4.core.producer.outcomes.obstacles import Obstacles
from pykafka4.core.producer.partition_status import PartitionStatus
from pykafka4.core.producer.produce.requests import SILENCE_S, ProduceRequests
from pykafka4.core.producer.produce.responses import ProduceAnswers
from pykafka4.core.producer.queues.late import UNDESIGNATED, LateBatches
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.core.producer.sequences.identity import Identity
from pykafka4.core.producer.sequences.numbering import Numbering
from pykafka4.core.producer.topics.limits import TopicLimits
from pykafka4.core.producer.topics.missing import MissingTopics
from pykafka4.core.producer.topics.parking import Parking
from pykafka4.core.producer.transactions.machine import Transactions
from pykafka4.core.producer.transactions.records import Transacted
from pykafka4.errors import ConnectionLost, KafkaError, short_name
from pykafka4.logs import get_log
from pykafka4.options.config import ProducerConfig
from pykafka4.records import TopicPartition, Written
from pykafka4.wire.records.hot import Accumulator, Batch

__all__ = ["Sender"]

log = get_log("pykafka4.producer")

# Seconds of failed attempts to connect to a leader, after which its partitions with a batch to send go offline. Without a connection there
# is no failed request that reports these partitions to `Recovery`.
UNREACHABLE_S = 2.0
FULL_PIPELINE_POLL_S = 0.02  # seconds between checks for sealed batches while every connection in use is full
MAX_INLINE_COMPRESSION_BYTES = 16 * 1024  # compressing this many bytes takes less time than passing them to a helper thread


class Application(Waiters, Protocol):
    """The part of the producer that application threads use."""

    @property
    def starved(self) -> bool:
        """Whether a waiter needs buffer_memory, and not only room in its partition."""

    def refuse(self, error: KafkaError) -> None:
        """Make `send` raise `error` from now on: the producer has failed for good."""

    def set_refusal(self, refusal: KafkaError | None) -> None:
        """Make `send` raise `refusal` from now on, or, if None, accept records."""


class Sender:
    """The producer's machine."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        network: Network,
        cluster: Cluster,
        recovery: Recovery,
        random: _random.Random,
        application: Application,
    ) -> None:
        self.config = config
        self.acc = accumulator
        self.network, self.cluster, self.recovery = network, cluster, recovery
        self.queues: dict[tuple[str, int], PartitionQueue] = {}  # by TopicPartition, or an equal tuple
        self._obstacles = Obstacles(config, network, recovery)
        self._random, self._application = random, application
        self._ready = ReadyQueues(recovery)
        self._numbering = Numbering(config, network, random, self._ready, self)
        self._outcomes = Outcomes(application)
        self.ledger, self.measures = self._outcomes.ledger, self._outcomes.measures
        self._deadlines = Deadlines(config, self._ready, self._outcomes, self)
        self._limits = TopicLimits(config, network, self._new_backoff(random), accumulator)
        self._answers = ProduceAnswers(
            config, accumulator, network, cluster, recovery, self._ready, self._deadlines, self._outcomes, self._limits, self
        )
        self._requests = ProduceRequests(config, network, cluster, self.ledger, self._answers)
        self.partition_status = PartitionStatus(network, cluster, recovery, self._requests, self.ledger, self._numbering)
        self._late = LateBatches(accumulator, network, cluster, recovery, self._ready, self)
        self._unready: list[PartitionQueue] = []  # queues whose next batch is still being compressed
        self._changes = TopicChanges(cluster, recovery)
        self._parking = Parking(config, accumulator, cluster, network, self._changes, self._outcomes, self)
        patience = min(config.unknown_topic_timeout_ms, config.delivery_timeout_ms) / 1000
        self._missing = MissingTopics(cluster, patience, self)
        self._refusals: dict[int, KafkaError] = {}  # brokers that refuse this client, and have never accepted it; ANY: the whole cluster
        network.refusals.listeners[self._note_refusal] = None
        self._ended = False  # the producer can deliver no more records
        self._flush = False  # open batches are due now
        accumulator.defers = True  # `designate` runs on the loop: its batches are compressed by `_collect`, large ones on a helper thread
        self._look_again = INFINITY  # when to take batches that were sealed without waking the loop
        self._listen_at = INFINITY  # when to check for brokers that do not respond
        self._queues_of: dict[str, list[PartitionQueue]] = {}  # by topic
        self._outbox = Outbox()
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            self._begin_transactional()

    def _begin_transactional(self) -> None:
        records = Transacted(self.acc, self.ledger, self._requests, self._ready, self._application, self)
        self.transactions = Transactions(self.config, self.network, self.cluster, self._random, self._outbox, records)
        self._numbering.transactions = self.partition_status.transactions = self.transactions
        self._outcomes.on_lost = self.transactions.record_failed

    @property
    def identity(self) -> Identity:
        """Used only without transactions."""
        return self._numbering.identity

    # ---------------------------------------------------------------- the machine

    def poll(self, now: float) -> Effects:
        # True until `_produce` has looked for room. If it were False: another thread seals a batch after `_collect`, the loop is not woken,
        # `_produce` does not see the batch, and the loop sleeps.
        self.acc.can_send = True
        if self._refusals:
            self._fail_refused(now)
        changed = self._changes.take_topics()
        parked_until = self._parking.poll(now, changed)
        if self._flush or self._parking.take_hurried():
            self._flush = False
            self.acc.expedite()  # wakes the loop, so only for a new flush or newly moved records: otherwise the loop would spin
        take_at = self._collect(now, no_linger=self.acc.waiters > 0 and self._application.starved)
        self._deadlines.run(now)  # after `_collect`: after a freeze of the loop, batches that were just taken may be too late to send
        self._look_at_leaders(changed, now)
        self._missing.run(now)
        requests = self._produce(now)
        if now >= self._listen_at:
            self._ask_for_silent(now)
        if requests and self.config.enable_idempotence:
            self._listen_at = min(self._listen_at, now + SILENCE_S)
        wanted = bool(self.queues or self._parking)
        self._outbox.requests += requests
        asked_at = min(self._numbering.poll(now, self._outbox, wanted), self._limits.poll(now, self._outbox))
        if (fatal := self._numbering.fatal) is not None:
            self._end(fatal)
        wake_at = min(
            take_at,
            parked_until,
            self._deadlines.wake_at,
            self._missing.wake_at,
            asked_at,
            self._look_again,
            self._listen_at,
            self._late.wake_at,
        )
        # Threads that wait for memory check again in each turn: a batch that failed earlier may free its memory only now, because a socket
        # still had to write it.
        if self._outcomes.take_finished() or self.acc.waiters:
            self._application.progress()
        return self._outbox.effects(wake_at, self._outcomes.take_deliver())

    def crash(self, reason: KafkaError) -> tuple[Callbacks, ...]:
        """Fail all records. The crash may have left the queues in any state, so the accumulator shows which records have no outcome yet."""
        try:
            self._end(reason)
        except Exception:
            log.exception("%s: the producer crashed; failing its records one by one", self.config.client_id)
        self._fail_unsettled(reason)
        deliver = self._outcomes.take_deliver()
        self._application.progress()
        return deliver

    def want(self, topic: str) -> None:
        self._parking.want(topic)

    @property
    def unknown_topics(self) -> int:
        """The number of topics with parked records, and of unknown topics without records that are not dropped yet. For any thread."""
        return len(self._parking)

    def announce_partitions(self, topic: str, now: float) -> None:
        """Pass new partitions of `topic` to the accumulator at once: a `send` waits for them."""
        self._parking.announce_partitions(topic, now)

    def dispose(self) -> None:
        self.network.refusals.listeners.pop(self._note_refusal, None)  # `dispose` may be called twice
        self._parking.dispose()
        self._changes.end()

    def expedite(self) -> None:
        """Flush: end the linger of the records that were sent so far, parked records included."""
        self._flush = True
        self._parking.hurry()

    def fail_all(self, reason: KafkaError) -> None:
        self._seal_open()
        self._collect(INFINITY)
        for topic in self._parking.topics:
            self._parking.fail(topic, reason)
        for queue in self.queues.values():
            self._fail_batches(queue, reason)

    def purge(self, now: float, reason: KafkaError, in_flight: bool) -> int:
        """Fail all records that are not in flight, or, with `in_flight`, all records; return the number of records that failed."""
        before, _ = self.fail_unsent(now, reason)
        for queue in self.queues.values():
            if in_flight:
                self._fail_batches(queue, reason)
            self._ready.place(queue)
        return self.ledger.failures_seen - before

    def _fail_batches(self, queue: PartitionQueue, reason: KafkaError) -> None:
        for batch in list(queue.batches):
            queue.hold_behind(batch)
            self._outcomes.fail(queue, batch, short_name(reason), reason)

    def fail_unsent(self, now: float, reason: KafkaError) -> tuple[int, int]:
        """Fail the records that are not in flight; return the numbers of failed records before and after."""
        before = self.ledger.failures_seen
        self._seal_open()
        self._collect(now)  # `now`, not INFINITY as in `fail_all`: otherwise topics would seem in use forever, and never be dropped
        for topic in self._parking.topics:
            self._parking.fail(topic, reason)
        for queue in self.queues.values():
            if queue.waiting:
                self.fail_waiting(queue, now, reason)
        return before, self.ledger.failures_seen

    def oldest_of(self, topic: str) -> float:
        """See `TopicBatches`. A batch that is older than the batches before it (`take_late`) is considered only when it is the first.

        A search through all batches would cost too much; without the search the batch only fails later.
        """
        queues = self._queues_of.get(topic, ())
        return min((b.sent_at for queue in queues for b in (*queue.batches[:1], queue.due) if b is not None), default=INFINITY)

    def fail_old(self, topic: str, now: float, age: float, error: KafkaError) -> None:
        for queue in self._queues_of.get(topic, ()):
            self._deadlines.fail_late(queue, now, age, short_name(error), lambda _: error)

    def _seal_open(self) -> None:
        # In the order of creation: the batches of a partition must reach their queue in the order in which they were filled.
        for batch in sorted((b for b in self.acc.unfinished() if isinstance(b, Batch)), key=lambda b: (b.topic, b.partition, b.created)):
            self.acc.seal(batch)

    def _note_refusal(self, now: float, broker: int, error: KafkaError) -> None:
        self._refusals[broker] = error
        if broker == ANY and self.transactions is not None:
            self.transactions.client_refused(error)

    def _fail_refused(self, now: float) -> None:
        """Fail the records that wait for brokers that refuse this client, with the reason: otherwise the records would wait for their
        delivery timeout."""
        refusals, self._refusals = self._refusals, {}
        for broker, error in refusals.items():
            for topic in self._parking.topics if broker == ANY else ():
                self._parking.fail(topic, error)
            for queue in [*self._ready.of(broker), *(self._ready.late if broker == ANY else ())]:
                self.fail_waiting(queue, now, error)

    def _fail_unsettled(self, reason: KafkaError) -> None:
        """Fail all records without an outcome. Batches fail as MAYBE: they may have been sent before the crash."""
        for item in self.acc.unfinished():
            try:
                if not isinstance(item, Batch):
                    self._parking.fail(item.topic, reason)
                elif not item.done:
                    self.acc.seal(item)
                    self._outcomes.lose(item, short_name(reason), Written.MAYBE, reason)
            except Exception:
                log.exception("%s: could not fail %r", self.config.client_id, item)

    # ---------------------------------------------------------------- taking batches

    def _collect(self, now: float, no_linger: bool = False) -> float:
        """Move sealed batches to their queues, and set `due` of queues whose open batch is due; with `no_linger` every open batch is due.

        Return the time of the next call.
        """
        sealed, due, take_at = self.acc.take(now, no_linger)
        for topic in dict.fromkeys([batch.topic for batch in (*sealed, *due)]):
            self._parking.used(topic, now)
            self._missing.note(topic)
        for batch in sealed:
            self._note_sealed(batch)
            queue = self._queue(batch.topic, batch.partition)
            if queue.due is batch:
                queue.due = None
            queue.batches.append(batch)
            if not batch.ready:  # for example, `designate` filled the batch, or another thread is still compressing it
                self.compress(batch, queue)
            self._deadlines.watch(queue)
            self._ready.place(queue)
            if queue.placed_at is None:
                self._report_leaderless(queue, now)
        for batch in due:
            queue = self._queue(batch.topic, batch.partition)
            queue.due = batch
            self._deadlines.watch(queue)
            self._deadlines.watch_due(queue)
            self._ready.place(queue)
        return take_at

    def listen(self, events: BatchEvents | None) -> None:
        """Report the sealing, sending and outcome of batches to `events` from now on; None stops the reports."""
        self._outcomes.events = self._requests.events = events
        self.acc.watch = None if events is None else events.watch  # for parked records that fail

    def _note_sealed(self, batch: Batch) -> None:
        if self._outcomes.events is not None:
            self._outcomes.events.sealed(batch)

    def is_busy(self, topic: str) -> bool:
        kept = self._keeps
        return any(queue.waiting or queue.in_flight or queue.strays or kept(queue) for queue in self._queues_of.get(topic, ()))

    def _keeps(self, queue: PartitionQueue) -> bool:
        return self.transactions is not None and self.transactions.keeps(queue)

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = self.queues.get((topic, partition))
        if queue is None:
            tp = TopicPartition(topic, partition)
            queue = self.queues[tp] = PartitionQueue(tp, self._new_backoff(self._random))
            if partition != UNDESIGNATED:
                self.ledger.meet(tp)
            queue.topic_id = self.cluster.topic_id(topic)
            self._queues_of.setdefault(topic, []).append(queue)
        return queue

    def drop_topic(self, topic: str) -> None:
        for queue in self._queues_of.pop(topic, ()):
            self._ready.remove(queue)
            self._numbering.forget(queue)
            del self.queues[queue.tp]
        self._late.forget(topic)
        self._limits.forget(topic)
        self.ledger.retire(topic)
        self.acc.forget(topic)

    def _new_backoff(self, random: _random.Random) -> Backoff:
        return Backoff.retry(self.config, random)

    # ---------------------------------------------------------------- the cluster

    def _look_at_leaders(self, changed: list[str], now: float) -> None:
        """Place queues whose topic has changed, or whose partition is online again; renumber the queues of recreated topics."""
        for topic in changed:
            self._late.changed(topic)
            if topic not in self._queues_of:
                continue
            self._missing.note(topic)
            topic_id, recreated = self.cluster.topic_id(topic), False
            for queue in self._queues_of[topic]:
                if topic_id is not None and queue.topic_id is not None and queue.topic_id != topic_id:
                    self._start_again(queue)
                    recreated = True
                queue.topic_id = topic_id or queue.topic_id
                self._follow_leader(queue)
                self._report_leaderless(queue, now)
            if recreated:
                self._limits.start_again(topic)
        for tp in self._changes.take_online():
            if (queue_back := self.queues.get(tp)) is not None:
                self._follow_leader(queue_back)

    def _report_leaderless(self, queue: PartitionQueue, now: float) -> None:
        """Take a leaderless partition offline, so that `Recovery` keeps the reason for events, `status()` and errors."""
        if queue.tp.partition >= 0 and self.cluster.leader(queue.tp) is None and self.cluster.partitions(queue.tp.topic):
            self.recovery.take_offline(now, queue.tp, KafkaError(f"{queue.tp}: no leader"))

    def _report_unreachable(self, node: int, now: float) -> None:
        since = self.network.down_since(node)
        if since is not None and now >= since + UNREACHABLE_S:
            reason = ConnectionLost(self.network.why_down(node))
            for queue in self._ready.of(node):
                self.recovery.take_offline(now, queue.tp, reason, since)
                self._ready.place(queue)

    def _follow_leader(self, queue: PartitionQueue) -> None:
        """Place `queue`. With idempotence, its batches no longer wait for a leader that was certainly replaced."""
        if self.config.enable_idempotence and queue.awaits_response:
            leader = self.recovery.leader(queue.tp)
            if leader is not None and queue.is_replaced_by(leader.node, leader.epoch):
                self.ledger.requeued(queue.supersede())
                self._answers.give_up_last(queue)
        self._ready.place(queue)

    def _ask_for_silent(self, now: float) -> None:
        """Request the metadata of silent leaders' partitions: a frozen broker returns no error and loses no connection."""
        topics, self._listen_at = self._requests.silent(now)
        if topics:
            self.cluster.refresh(now, topics)

    def _start_again(self, queue: PartitionQueue) -> None:
        """Have `queue` start at sequence 0 in another epoch: the topic was recreated.

        In the same epoch, records could be lost. A request to the old topic is in flight; the topic is recreated; a broker that identifies
        topics by name writes the request to the new log. The next batch has the same epoch and sequence, so the broker acknowledges it as
        a duplicate, and does not write it.
        """
        queue.proven = False
        queue.stale = True
        queue.leader_epoch = -1  # the known epoch belongs to the log of the deleted topic

    def why_late(self, queue: PartitionQueue, batch: Batch) -> KafkaError:
        return batch.last_error or self._obstacles.of(queue, batch, self._numbering.trouble(queue))

    # ---------------------------------------------------------------- failing

    def _end(self, reason: KafkaError) -> None:
        if not self._ended:
            self._ended = True
            # Refuse first. In the other order: the records fail, `send` on another thread accepts one more, then the refusal comes; nothing
            # fails that record.
            self._application.refuse(reason)
            self.fail_all(reason)

    def fail_waiting(self, queue: PartitionQueue, now: float, error: KafkaError) -> None:
        self.seal_due(queue, now)
        for batch in [batch for batch in queue.batches if not batch.in_flight]:
            self._outcomes.fail(queue, batch, short_name(error), error)

    # ---------------------------------------------------------------- sending

    def _produce(self, now: float) -> list[Request]:
        requests: list[Request] = []
        if self.transactions is not None:
            self._requests.highest = self.transactions.produce_version
        if self._unready:
            unready, self._unready = self._unready, []
            for queue in unready:
                self._ready.place(queue)
        assigned = True
        # An assignment may fill the queues that the next request takes. The last round assigns nothing, but still fills requests.
        while assigned:
            assigned = self._late.assign(now)
            self._fill_requests(now, requests)
        self._allow_wakeups(now, self._requests.all_full())
        return requests

    def _fill_requests(self, now: float, requests: list[Request]) -> None:
        for node in self._ready.nodes():
            if not self.network.ready(node):
                self.network.want(node)
                self._report_unreachable(node, now)
                continue
            while self._requests.room(node):
                entries = self._pick(node, now)
                if not entries:
                    break
                requests.append(self._requests.build(node, entries, now))

    def _allow_wakeups(self, now: float, full: bool) -> None:
        """Let newly sealed batches wake the loop, unless all connections in use are `full`: then a response soon causes a turn.

        These connections may be stuck, and a new batch may be for another broker, so the sender checks again after FULL_PIPELINE_POLL_S.
        """
        self.acc.can_send = not full
        self._look_again = now + FULL_PIPELINE_POLL_S if full else INFINITY

    def _pick(self, node: int, now: float) -> list[tuple[PartitionQueue, Batch]]:
        """Choose at most one batch of each ready queue, up to max_request_size in total, or one larger batch.

        Queues that were not reached keep their order.
        """
        entries: dict[PartitionQueue, Batch] = {}
        size = 0
        link = self.network.link(node)
        while (queue := self._ready.head(node)) is not None:
            # Kafka allows one batch of a partition in a request. `seal_due` may collect batches that another thread has just sealed, and so
            # place a queue of `entries` again.
            if queue in entries:
                self._ready.remove(queue)
                continue
            batch = self._next(queue, node, link, now)
            if batch is None:
                continue
            if entries and size + batch.size > self.config.max_request_size:
                break
            self._ready.remove(queue)
            entries[queue] = batch
            size += batch.size
            queue.sent(batch, node)
        for queue in entries:
            self._ready.place(queue)
        return list(entries.items())

    def _next(self, queue: PartitionQueue, node: int, link: int | None, now: float) -> Batch | None:
        """The batch to send to `node` now, or None; a batch that `node` cannot read fails.

        A queue that has to wait leaves the list of `node`; the event for which it waits places it again.
        """
        leader = self.recovery.leader(queue.tp)
        if leader is None or leader.node != node:
            self._ready.place(queue)
            return None
        if not self._may_send(queue, node, link, leader, now):
            self._ready.remove(queue)
            return None
        batch = queue.candidate or self.seal_due(queue, now)
        if batch is None:
            self._ready.remove(queue)
            return None
        if not batch.ready:
            self._ready.remove(queue)
            self._unready.append(queue)
            return None
        if (refusal := self._obstacles.unreadable(node, batch)) is not None:
            self._outcomes.fail(queue, batch, short_name(refusal), refusal)
            return None
        return batch

    def _may_send(self, queue: PartitionQueue, node: int, link: int | None, leader: Leader, now: float) -> bool:
        if queue.meet(now, link, leader.epoch):
            queue.depth = self._requests.depth(node)
        if not queue.may_send(now) or (queue.in_flight and queue.node != node):
            return False
        return not self.config.enable_idempotence or self._numbering.may_number(queue)

    # ---------------------------------------------------------------- batches that get their partition here (`late`)

    def has_room(self, node: int) -> bool:
        return self._requests.room(node)

    def late_queue(self, topic: str, partition: int, node: int, now: float) -> PartitionQueue | None:
        """See `late.PartitionQueues`. A queue with waiting batches is returned only after `HUNGER_S` (`LateBatches.is_hungry`)."""
        queue = self._queue(topic, partition)
        leader = self.recovery.leader(queue.tp)
        if leader is None or leader.node != node or (queue.waiting and not self._late.is_hungry(self.queues[topic, UNDESIGNATED], now)):
            return None
        return queue if self._may_send(queue, node, self.network.link(node), leader, now) else None

    def late_batch(self, queue: PartitionQueue, now: float) -> Batch | None:
        batch = queue.candidate or self.seal_due(queue, now)
        return batch if batch is not None and batch.ready else None

    def take_late(self, batch: Batch, queue: PartitionQueue) -> None:
        """See `late.PartitionQueues`. `batch` may be older than the batches before it."""
        if queue.batches and queue.batches[-1].sent_at > batch.sent_at:
            self._deadlines.watch_late(queue, batch)
        queue.batches.append(batch)
        self._deadlines.watch(queue)
        self._ready.place(queue)

    def seal_due(self, queue: PartitionQueue, now: float) -> Batch | None:
        """Seal the due batch, because a connection can take it, or because it must not stay open; return the queue's candidate, or None
        without a due batch.

        If it were sealed earlier, the batch would wait all the same, but with fewer records.
        """
        due, queue.due = queue.due, None
        if due is None:
            return None
        if not self.acc.seal(due, taken=True):  # the thread that fills the batch sealed it first
            self._collect(now)
            return queue.candidate
        self._note_sealed(due)
        queue.batches.append(due)  # earlier batches are already in the queue: `take` returned them before this batch was due
        self._parking.used(due.topic, now)
        if not due.ready:
            self.compress(due, queue)
        return queue.candidate

    def compress(self, batch: Batch, queue: PartitionQueue) -> None:
        if batch.size <= MAX_INLINE_COMPRESSION_BYTES:
            batch.compress()
        else:
            self._outbox.start(Job(batch.compress, lambda now, _: self._ready.place(queue)))
