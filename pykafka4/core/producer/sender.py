"""Sender. Rule: a batch leaves its queue only by ACK or by a classified failure that hands its records back.

The sender takes sealed batches from the accumulator, keeps them in one queue per partition, and builds produce requests for whoever leads
the partitions at that moment. A batch that was written to a socket is *maybe persisted*: it is repeated only with the same producer id,
epoch and sequence, or failed as MAYBE. What an error code does is a row of `error_table`, not a branch here.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable
from uuid import UUID

import attrs

from pykafka4.config import ProducerConfig
from pykafka4.core import INFINITY, Effects, Failed, Job, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.identity import Identity
from pykafka4.core.producer.ledger import Ledger
from pykafka4.core.producer.obstacles import Obstacles
from pykafka4.core.producer.parking import Parking
from pykafka4.core.producer.queues import PartitionQueue
from pykafka4.core.producer.ready import ReadyQueues
from pykafka4.core.timers import Timers
from pykafka4.error_table import Produce, Refresh, Written, error_code
from pykafka4.errors import BrokerError, KafkaError, broker_error, short_name
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_produce import ProduceRequest, ProduceResponse
from pykafka4.wire.records.hot import Accumulator, Batch

__all__ = ["Sender"]

log = get_log("pykafka4.producer")

WAYS_OUT = {
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the topic's message.format.version is older than 0.11: raise it, or write with "
    "enable_idempotence=False and without headers",
}
BY_NAME_ONLY = 12  # from Produce 13 on topics go by id
MOST_IN_FLIGHT = 5  # batches per partition that brokers remember of an idempotent producer, from Kafka 1.0 on
REMEMBERS_ONE = 3  # the highest Produce version of Kafka 0.11, which remembers only the last batch
BROKERS_SHARE = 0.8  # of request_timeout_ms: brokers wait as long for replicas, so that what they tell of the other partitions is not lost
NO_ID = UUID(int=0)
OPEN_SHARE = 10  # a batch that cannot be sent takes records for one part in so many of delivery_timeout_ms after its linger
GLANCE = 0.02  # seconds between looks at what was sealed while every connection in use is full
INLINE = 16 * 1024  # compressing so little takes less than handing it to the helper executor

PartitionAnswer = ProduceResponse.Topic.Partition
Callbacks = Callable[[], None]


@attrs.frozen(eq=False)
class InFlightProduce:
    """One produce request under way."""

    node: int
    entries: tuple[tuple[PartitionQueue, Batch], ...]


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
        progress: Callable[[], None],
        refuse: Callable[[KafkaError], None],
        starved: Callable[[], bool],
    ) -> None:
        """`progress` is called after batches finished (waiters look again); `refuse` when the producer is finished for good.

        `starved()` says whether one of the waiters needs buffer_memory, and not only room in its partition.
        """
        self.config = config
        self.acc = accumulator
        self.network, self.cluster, self.recovery = network, cluster, recovery
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.ledger = Ledger()
        self.identity = Identity(self._new_backoff(random), config.request_timeout_ms / 1000, self._place_unnumbered, network.doubt)
        self._obstacles = Obstacles(config, network, recovery)
        self._random = random
        self._progress, self._refuse, self._starved = progress, refuse, starved
        self._ready = ReadyQueues(self._leader)
        self._unready: list[PartitionQueue] = []  # their next batch is still being compressed
        self._unnumbered: dict[PartitionQueue, None] = {}  # they wait for a producer id
        self._flights: dict[int, int] = {}  # node -> produce requests in flight
        self._timers = Timers()
        self._parking = Parking(config, accumulator, cluster, network, self._lost_parked, self._busy, self._drop)
        self._picture = -1
        self._recovered = -1
        self._deliver: list[Callbacks] = []
        self._finished = False  # a batch was, since the last poll
        self._ended = False  # nothing can be delivered any more
        self._flush = False  # open batches are due now
        self._look_again = INFINITY  # when to take what was sealed without waking the loop
        self._queues_of: dict[str, list[PartitionQueue]] = {}  # by topic
        self._jobs: list[Job] = []
        self._nothing = Effects()

    # ---------------------------------------------------------------- the machine

    def poll(self, now: float) -> Effects:
        """Take what was sealed, do what is due, and send what can be sent."""
        self.acc.hungry = True  # until `_produce` has looked for room: what other threads seal meanwhile makes another turn
        self._timers.run(now)
        parked_until = self._parking.poll(now)
        if self._flush or self._parking.take_hurried():
            self._flush = False
            self.acc.expedite()  # wakes the loop, so only when there is something new to flush
        linger_ends = self._collect(now, no_linger=self.acc.waiters > 0 and self._starved())
        self._look_at_leaders()
        requests = self._produce(now)
        identity = self._look_after_identity(now)
        if identity is not None:
            requests.append(identity)
        wake_at = min(linger_ends, parked_until, self._timers.wake_at, self._identity_wakes(now), self._look_again)
        if self._finished or self.acc.waiters:  # memory may also come free late, when a socket lets go of a batch
            self._finished = False
            self._progress()
        if requests or self._deliver or self._jobs:
            deliver, self._deliver = tuple(self._deliver), []
            jobs, self._jobs = tuple(self._jobs), []
            return Effects(tuple(requests), deliver, jobs, wake_at)
        if wake_at != self._nothing.wake_at:
            self._nothing = Effects(wake_at=wake_at)
        return self._nothing

    def crash(self, reason: KafkaError) -> tuple[Callbacks, ...]:
        """The loop or this sender is going down: everything still here fails with `reason`.

        An exception may have left the queues in any state, so the accumulator has the last word about what has no outcome.
        """
        try:
            self._end(reason)
        except Exception:
            log.exception("the records of a producer that crashed are failed one by one")
        self._fail_unsettled(reason)
        deliver, self._deliver = tuple(self._deliver), []
        self._progress()
        return deliver

    def want(self, topic: str) -> None:
        """The first record for `topic` was sent: learn its partitions."""
        self._parking.want(topic)

    def tell(self, topic: str, now: float) -> None:
        """Somebody waits to hear whether `topic` has more partitions now: do not let him wait for the next turn."""
        self._parking.tell(topic, now)

    def gone(self) -> None:
        """The producer is closed: nothing of it stays."""
        self._parking.gone()

    def expedite(self) -> None:
        """Flush: no lingering for what was sent so far, nor for what is still parked."""
        self._flush = True
        self._parking.hurry()

    def abandon(self, reason: KafkaError) -> None:
        """Fail everything that is still here: what may be in the log as MAYBE."""
        for batch in sorted((b for b in self.acc.unfinished() if isinstance(b, Batch)), key=lambda b: (b.topic, b.partition, b.created)):
            self.acc.seal(batch)
        self._collect(INFINITY)
        for topic in self._parking.topics:
            self._parking.fail(topic, reason)
        for queue in self.queues.values():
            for batch in list(queue.batches):
                queue.abandon(batch)
                self._fail(queue, batch, short_name(reason), reason)

    def _fail_unsettled(self, reason: KafkaError) -> None:
        """Fail what the accumulator still holds and no queue knows; batches as MAYBE."""
        for item in self.acc.unfinished():
            try:
                if not isinstance(item, Batch):
                    self._parking.fail(item.topic, reason)
                elif not item.done:
                    self.acc.seal(item)
                    self._lose(item, short_name(reason), Written.MAYBE, reason)
            except Exception:
                log.exception("%r could not be failed", item)

    # ---------------------------------------------------------------- taking batches in

    def _collect(self, now: float, no_linger: bool = False) -> float:
        """Move what was sealed into its queue; returns when the next linger ends. With `no_linger` every open batch is due."""
        sealed, due, linger_ends = self.acc.take(now + self.config.linger_ms / 1000 if no_linger else now)
        for batch in sealed:
            queue = self._queue(batch.topic, batch.partition)
            if queue.due is batch:
                queue.due = None
            queue.batches.append(batch)
            self._expect(queue, now)
        for batch in due:
            queue = self._queue(batch.topic, batch.partition)
            queue.due = batch
            self._expect(queue, now)
            self._watch_due(queue)
        return linger_ends

    def _expect(self, queue: PartitionQueue, now: float) -> None:
        """A batch came."""
        self._parking.used(queue.tp.topic, now)
        self._watch(queue)
        self._ready.place(queue)

    def _busy(self, topic: str) -> bool:
        """Whether batches for `topic` are here, or requests with some are under way."""
        return any(queue.waiting or queue.in_flight or queue.strays for queue in self._queues_of.get(topic, ()))

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        tp = TopicPartition(topic, partition)
        queue = self.queues.get(tp)
        if queue is None:
            queue = self.queues[tp] = PartitionQueue(tp, self._new_backoff(self._random))
            queue.topic_id = self.cluster.topic_id(topic)
            self._queues_of.setdefault(topic, []).append(queue)
        return queue

    def _drop(self, topic: str) -> None:
        """Nothing was sent to `topic` for long: keep nothing of it. Queues made for it later begin in a later epoch than these were in."""
        for queue in self._queues_of.pop(topic, ()):
            self._ready.remove(queue)
            self._unnumbered.pop(queue, None)
            self.identity.forget(queue.producer_id, queue.epoch)
            del self.queues[queue.tp]
        self.acc.forget(topic)

    def _new_backoff(self, random: _random.Random) -> Backoff:
        return Backoff.retry(self.config, random)

    def _leader(self, tp: TopicPartition) -> int | None:
        leader = self.recovery.leader(tp)
        return None if leader is None else leader.node

    # ---------------------------------------------------------------- timers

    def _hold(self, queue: PartitionQueue, now: float) -> None:
        """Let `queue` rest for a back-off."""
        queue.held_until = now + queue.backoff.next()
        self._timers.at(queue.held_until, lambda _: self._ready.place(queue))

    def _watch(self, queue: PartitionQueue) -> None:
        """Have the delivery deadline of the oldest batch looked at, sealed or not."""
        oldest = queue.batches[0] if queue.batches else queue.due
        if not queue.watched and oldest is not None:
            queue.watched = True
            self._timers.at(oldest.sent_at + self.config.delivery_timeout_ms / 1000, lambda now: self._expire(queue, now))

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        """Fail the batches of `queue` that were not acknowledged within delivery_timeout_ms."""
        queue.watched = False
        timeout = self.config.delivery_timeout_ms / 1000
        if queue.due is not None and queue.due.sent_at + timeout <= now:
            self._seal_due(queue, now)
        for batch in queue.late(now, timeout):
            trouble = self.identity.trouble if queue in self._unnumbered else None
            reason = batch.last_error or self._obstacles.of(queue, batch, trouble)
            queue.abandon(batch)
            self._fail(queue, batch, "TIMED_OUT", reason)
        self._watch(queue)
        self._ready.place(queue)

    def _watch_due(self, queue: PartitionQueue) -> None:
        """Have the batch that is due sealed even if no connection can take it: its records expire together, with the oldest."""
        if queue.due is not None and not queue.due_watched:
            queue.due_watched = True
            self._timers.at(self._open_until(queue.due), lambda now: self._stop_filling(queue, now))

    def _open_until(self, batch: Batch) -> float:
        return batch.sent_at + (self.config.linger_ms + self.config.delivery_timeout_ms / OPEN_SHARE) / 1000

    def _stop_filling(self, queue: PartitionQueue, now: float) -> None:
        queue.due_watched = False
        if queue.due is not None and self._open_until(queue.due) <= now:
            self._seal_due(queue, now)
        self._watch_due(queue)

    # ---------------------------------------------------------------- the cluster

    def _look_at_leaders(self) -> None:
        """When the picture changed or a partition came back, look again who leads what."""
        changed = self.cluster.version != self._picture
        if not changed and self.recovery.changes == self._recovered:
            return
        self._picture, self._recovered = self.cluster.version, self.recovery.changes
        self._ready.replace_all()
        for queue in [q for q in self.queues.values() if changed and self._made_anew(q)]:
            queue.topic_id = self.cluster.topic_id(queue.tp.topic)
            self._begin_anew(queue)

    def _made_anew(self, queue: PartitionQueue) -> bool:
        """Whether the topic was deleted and created again: the new log knows nothing of our sequence."""
        known = self.cluster.topic_id(queue.tp.topic)
        if queue.topic_id is None:
            queue.topic_id = known
        return known is not None and queue.topic_id != known

    def _begin_anew(self, queue: PartitionQueue) -> None:
        """The new log knows nothing of this producer: number from 0 in another epoch.

        Another epoch, as brokers that know topics by name write what was under way into the new log. A batch of the same epoch with the
        same sequence would be taken for that one sent again, and acknowledged without being written.
        """
        queue.proven = False
        queue.stale = True

    def _lost_parked(self, topic: str, code: str, cause: Exception, records: int, callbacks: Callbacks | None) -> None:
        try:
            self.ledger.lost(topic, None, code, Written.NO, records, cause)
        finally:
            self._settled(callbacks)

    # ---------------------------------------------------------------- who we are

    def _look_after_identity(self, now: float) -> Request | None:
        """Ask for a producer id when there is something to send."""
        if not self.config.enable_idempotence:
            return None
        if self.identity.fatal is not None:
            self._end(self.identity.fatal)
            return None
        return self.identity.ask(now) if self.queues or self._parking else None

    def _end(self, reason: KafkaError) -> None:
        """Refuse what comes and fail what is here: once, for nothing gets in after a refusal."""
        if not self._ended:
            self._ended = True
            self._refuse(reason)
            self.abandon(reason)

    def _identity_wakes(self, now: float) -> float:
        return self.identity.wake_at if self.config.enable_idempotence and self.identity.wake_at > now else INFINITY

    def _may_number(self, queue: PartitionQueue) -> bool:
        """Whether the next batch of `queue` may be sent under its epoch, or under the one that begins here.

        While a batch is in doubt only what may be written goes out, as it was. Each queue changes its epoch alone: the others go on.
        """
        if queue.producer_id >= 0 and not queue.stale:
            return True
        if queue.in_doubt:
            candidate = queue.candidate
            return candidate is not None and candidate.written
        identity = self.identity.after(queue.producer_id, queue.epoch, queue.spent)
        if identity is None:
            self._unnumbered[queue] = None
            return False
        queue.begin_epoch(*identity)
        return True

    def _place_unnumbered(self) -> None:
        """There is another producer id for those that wait for one."""
        waiting, self._unnumbered = self._unnumbered, {}
        for queue in waiting:
            self._ready.place(queue)

    # ---------------------------------------------------------------- sending

    def _produce(self, now: float) -> list[Request]:
        """One request after the other for every node that has room, until its line or its room is used up."""
        requests: list[Request] = []
        if self._unready:
            unready, self._unready = self._unready, []
            for queue in unready:
                self._ready.place(queue)
        room = full = False
        for node in self._ready.nodes():
            if not self.network.ready(node):
                if self._ready.head(node) is not None:
                    self.network.want(node)
                continue
            while self._room(node):
                entries = self._pick(node, now)
                if not entries:
                    break
                requests.append(self._request(node, entries, now))
            if self._room(node):
                room = True
            else:
                full = True
        self._rest(now, full and not room)
        return requests

    def _rest(self, now: float, full: bool) -> None:
        """A batch that is sealed from here on wakes the loop, unless all connections in use are `full`: it would only cost time.

        One of them answers soon and makes another turn. A stuck one does not, and the batch may be for a broker that had none before.
        """
        self.acc.hungry = not full
        self._look_again = now + GLANCE if full else INFINITY

    def _room(self, node: int) -> bool:
        return self._flights.get(node, 0) < self.config.max_in_flight_requests_per_connection

    def _pick(self, node: int, now: float) -> list[tuple[PartitionQueue, Batch]]:
        """At most one batch of each queue in `node`'s line, up to max_request_size; those not reached keep their turn."""
        entries: dict[PartitionQueue, Batch] = {}
        size = 0
        while (queue := self._ready.head(node)) is not None:
            if queue in entries:  # a batch that another thread sealed meanwhile put it back into the line
                self._ready.remove(queue)
                continue
            batch = self._next(queue, node, now)
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

    def _next(self, queue: PartitionQueue, node: int, now: float) -> Batch | None:
        """The batch of `queue` that may go to `node` now. A queue that has none leaves the line; what it waits for puts it back."""
        leader = self.recovery.leader(queue.tp)
        if leader is None or leader.node != node:
            self._ready.place(queue)
            return None
        if queue.meet(now, self.network.link(node), leader.epoch):
            queue.depth = self._depth(node)
        if not queue.may_send(now) or (queue.in_flight and queue.node != node):
            self._ready.remove(queue)
            return None
        if self.config.enable_idempotence and not self._may_number(queue):
            self._ready.remove(queue)
            return None
        batch = queue.candidate or self._seal_due(queue, now)
        if batch is None:
            self._ready.remove(queue)
            return None
        if not batch.ready:
            self._ready.remove(queue)
            self._unready.append(queue)
            return None
        if (refusal := self._obstacles.unreadable(node)) is not None:
            self._fail(queue, batch, short_name(refusal), refusal)
            return None
        return batch

    def _depth(self, node: int) -> int:
        """Most batches of a partition in flight to `node`: as many as it remembers of a producer.

        If the answers of more were lost it would not know the first ones again. Without idempotence it is one: a batch that is sent again
        would be written behind those after it.
        """
        remembers_one = (self.network.version(node, ProduceRequest.api_key) or 0) <= REMEMBERS_ONE
        return 1 if remembers_one or not self.config.enable_idempotence else MOST_IN_FLIGHT

    def _seal_due(self, queue: PartitionQueue, now: float) -> Batch | None:
        """Seal the lingered batch now that its connection can take it: sealed earlier it would wait all the same, with fewer records."""
        due, queue.due = queue.due, None
        if due is None:
            return None
        sealed_here = self.acc.seal(due)
        self._collect(now)
        if sealed_here and not due.ready:
            self._compress(due, queue)
        return queue.candidate

    def _compress(self, batch: Batch, queue: PartitionQueue) -> None:
        if batch.size <= INLINE:
            batch.compress()
        else:
            self._jobs.append(Job(batch.compress, lambda now, _: self._ready.place(queue)))

    def _request(self, node: int, entries: list[tuple[PartitionQueue, Batch]], now: float) -> Request:
        topics: dict[str, list[ProduceRequest.Topic.Partition]] = {}
        for queue, batch in entries:
            self._finish(queue, batch)
            topics.setdefault(batch.topic, []).append(ProduceRequest.Topic.Partition(index=batch.partition, records=batch))
        ids = {topic: self.cluster.topic_id(topic) for topic in topics}
        message = ProduceRequest(
            acks=self.config.acks,
            timeout_ms=max(1, int(self.config.request_timeout_ms * BROKERS_SHARE)),
            topic_data=[_topic(name, ids[name], partitions) for name, partitions in topics.items()],
        )
        flight = InFlightProduce(node, tuple(entries))
        self._flights[node] = self._flights.get(node, 0) + 1
        self.ledger.sent(sum(batch.count for _, batch in entries), sum(batch.attempts > 1 for _, batch in entries))
        return Request(
            node,
            message,
            now + self.config.request_timeout_ms / 1000,
            lambda at, outcome: self._answered(flight, at, outcome),
            max_version=None if all(ids.values()) else BY_NAME_ONLY,
            expects_reply=self.config.acks != 0,
        )

    def _finish(self, queue: PartitionQueue, batch: Batch) -> None:
        """Number and checksum the batch, unless it goes out again as it was."""
        batch.attempts += 1
        if not self.config.enable_idempotence:
            if batch.attempts == 1:
                batch.finish(-1, -1, -1)
            return
        fresh = batch.base_sequence < 0
        queue.number(batch)
        if fresh or batch.producer_id < 0:
            batch.finish(queue.producer_id, queue.epoch, batch.base_sequence)

    # ---------------------------------------------------------------- answers

    def _answered(self, flight: InFlightProduce, now: float, outcome: Outcome) -> None:
        self._flights[flight.node] -= 1
        for queue, batch in flight.entries:
            queue.request_ended(batch)
        if isinstance(outcome, Failed):
            self._flight_lost(flight, now, outcome)
        elif outcome.message is None:
            for queue, batch in flight.entries:
                self._acknowledge(queue, batch, -1, -1)
        else:
            self._read_answers(flight, now, outcome.message)
        for queue, _ in flight.entries:
            self._ready.place(queue)

    def _read_answers(self, flight: InFlightProduce, now: float, message: ProduceResponse) -> None:
        answers: dict[TopicPartition, PartitionAnswer] = {}
        for topic in message.responses:
            name = topic.name or self.cluster.topic_name(topic.topic_id)
            for answer in topic.partition_responses:
                answers[TopicPartition(name or "", answer.index)] = answer
        endpoints = {e.node_id: (e.host, e.port) for e in message.node_endpoints}
        for queue, batch in flight.entries:
            found = answers.get(queue.tp)
            if found is None:
                self._left_out(queue, batch, now)
                continue
            if found.current_leader.leader_id >= 0:
                hinted = found.current_leader
                self.cluster.hint(queue.tp, hinted.leader_id, hinted.leader_epoch, endpoints.get(hinted.leader_id))
            self._act(queue, batch, now, found)

    def _left_out(self, queue: PartitionQueue, batch: Batch, now: float) -> None:
        """An answer without this partition says nothing about it: maybe written."""
        queue.doubt(batch)
        self._requeue(queue, batch)
        if not batch.done:
            self._hold(queue, now)

    def _act(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer) -> None:
        """What the table says for this code."""
        row = error_code(answer.error_code)
        if row.produce in (Produce.ACK, Produce.DUPLICATE):
            offset = answer.base_offset if row.produce is Produce.ACK else -1
            self._acknowledge(queue, batch, offset, answer.log_append_time_ms)
            self.recovery.healthy(queue.tp)
            queue.acknowledged(now)
            return
        if row.written is Written.MAYBE:
            queue.doubt(batch)
        self._requeue(queue, batch)
        if batch.done:  # its delivery timeout was first
            return
        error = broker_error(row.code, str(queue.tp), answer.error_message or WAYS_OUT.get(row.name))
        batch.last_error = error
        ACTIONS[row.produce](self, queue, batch, now, answer, error)

    def _acknowledge(self, queue: PartitionQueue, batch: Batch, offset: int, log_append_time_ms: int) -> None:
        if batch.done:  # its delivery timeout was first
            queue.end_flight(batch)
            return
        queue.remove(batch)
        self.ledger.acknowledged(batch.count)
        self._settled(batch.complete(offset, log_append_time_ms))

    def _flight_lost(self, flight: InFlightProduce, now: float, outcome: Failed) -> None:
        """No answer: every batch stays; what may have been written keeps its number."""
        for queue, batch in flight.entries:
            if outcome.written is Written.MAYBE:
                queue.doubt(batch)
            batch.last_error = outcome.reason
            self._requeue(queue, batch)
            if not outcome.passing and not batch.done:
                self._fail(queue, batch, short_name(outcome.reason), outcome.reason)
                continue
            self.recovery.report(now, queue.tp, outcome.reason, flight.node)

    def _requeue(self, queue: PartitionQueue, batch: Batch) -> None:
        """`batch` was not acknowledged; it stays where it is in its queue."""
        if not batch.done:
            self.ledger.requeued(batch.count)
        queue.requeue(batch)

    # what a produce response does with its batch, by the table

    def _resend(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        if isinstance(error, BrokerError) and error.code.refresh is Refresh.METADATA:
            if error.code.name == "REQUEST_TIMED_OUT":
                self.network.doubt(now, queue.node)  # it may have been replaced without knowing: ask another for the leader
            self.recovery.report(now, queue.tp, error, queue.node)
        else:
            self._hold(queue, now)

    def _split(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Halve it. Brokers look at sizes before they look for duplicates, so this answer does not say whether an earlier try was written.

        The halves keep the numbers and the doubt of the batch, so they go out in its epoch only. A log that has the batch after all (its
        limit was lowered since) is past these numbers: it refuses the halves, and they fail as MAYBE.
        """
        if batch.count == 1:
            self._fail(queue, batch, "MESSAGE_TOO_LARGE", error)
            return
        parts = batch.split()
        for part in parts:
            part.attempts = 0  # never sent as they are: `_finish` has to write their headers
            part.written = batch.written  # but their records may be in the log
        queue.replace(batch, parts)
        for part in parts:
            self._compress(part, queue)

    def _sequence(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """The broker expects another sequence.

        Behind an unacknowledged batch that only follows from its failure. At the head the broker's state of this producer and ours differ:
        continue in the next epoch, and give up what may have been written in this one.
        """
        if queue.batches[0] is not batch:
            return
        queue.stale = True
        self._give_up_or_hold(queue, batch, now, error)

    def _fenced(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """The broker knows a higher epoch of this producer id in this partition, and will never take ours.

        Nobody can take over an id that has no transactional id, so this says nothing about other partitions: the queue gets another id.
        """
        queue.stale = queue.spent = True
        if queue.batches[0] is batch:
            self._give_up_or_hold(queue, batch, now, error)

    def _give_up_or_hold(self, queue: PartitionQueue, batch: Batch, now: float, error: KafkaError) -> None:
        """The epoch of `queue` ends. Under another epoch a batch that is in the log already would be written again."""
        if batch.written:
            self._fail(queue, batch, short_name(error), error)
        self._hold(queue, now)

    def _refused(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """The records that the answer names fail (KIP-467), the others are sent again; a broker writes all records of a batch or none.

        The batch fails whole when the answer names no record, and when the others may be in the log: sent again they would be there twice.
        """
        reasons = {e.batch_index: e.batch_index_error_message for e in answer.record_errors if 0 <= e.batch_index < batch.count}
        if not reasons or (batch.written and self.config.enable_idempotence):
            self._fail(queue, batch, short_name(error), error)
            return
        rest, refused = batch.set_apart(reasons)
        queue.withdraw(batch)
        queue.replace(batch, [] if rest is None else [rest])
        written = Written.MAYBE if batch.written else Written.NO
        for index, part in zip(sorted(reasons), refused, strict=True):
            why = broker_error(answer.error_code, str(queue.tp), reasons[index] or answer.error_message)
            self._lose(part, short_name(why), written, why)
        if rest is not None:
            rest.attempts, rest.written = 0, batch.written  # never sent as it is, but its records may be in the log
            self._compress(rest, queue)

    def _failed(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        self._fail(queue, batch, short_name(error), error)

    def _fail(self, queue: PartitionQueue, batch: Batch, code: str, error: KafkaError) -> None:
        """Hand the records of `batch` back."""
        written = Written.MAYBE if queue.may_be_written(batch) else Written.NO
        if batch.in_flight:
            self.ledger.requeued(batch.count)
        queue.withdraw(batch)
        queue.remove(batch)
        self._lose(batch, code, written, error)

    def _lose(self, batch: Batch, code: str, written: Written, error: KafkaError) -> None:
        """Give the records of `batch` their outcome, whatever raises. The ledger first: a thread that sees the outcome may look there."""
        try:
            self.ledger.lost(batch.topic, batch.partition, code, written, batch.count, error)
        finally:
            self._settled(batch.fail(code, written, error))

    def _settled(self, callbacks: Callbacks | None) -> None:
        self._finished = True
        if callbacks is not None:
            self._deliver.append(lambda: self._call_back(callbacks))

    def _call_back(self, callbacks: Callbacks) -> None:
        """On the executor: only when its callbacks have run a batch is settled and its memory free, so that waiters look again here."""
        try:
            callbacks()
        finally:
            self._progress()


def _topic(name: str, topic_id: UUID | None, partitions: list[ProduceRequest.Topic.Partition]) -> ProduceRequest.Topic:
    return ProduceRequest.Topic(name=name, topic_id=topic_id or NO_ID, partition_data=partitions)


ACTIONS = {
    Produce.RESEND: Sender._resend,
    Produce.SPLIT: Sender._split,
    Produce.SEQUENCE: Sender._sequence,
    Produce.FENCED: Sender._fenced,
    Produce.REFUSED: Sender._refused,
    Produce.FAIL: Sender._failed,
}
