"""Applies Produce responses to their batches. The row of an error code in `errors/codes.py` names a reaction; `ACTIONS` and `TRANSACTIONAL`
have the functions that react to errors.

A batch that is not acknowledged is resent, is halved, is resent without the refused records, or fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from pykafka4.core import Failed, Outcome
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.core.producer.outcomes.batch_outcomes import Outcomes
from pykafka4.core.producer.outcomes.deadlines import Deadlines
from pykafka4.core.producer.produce.requests import NO_ID, InFlightProduce
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.queues.ready import ReadyQueues
from pykafka4.core.producer.topics.limits import TopicLimits
from pykafka4.errors import (
    BrokerError,
    ConfigError,
    DecodeError,
    KafkaError,
    KafkaTimeoutError,
    RecordTooLarge,
    broker_error,
    short_name,
)
from pykafka4.errors.codes import ProduceReaction, Refresh, error_code
from pykafka4.options.config import ProducerConfig
from pykafka4.records import Written
from pykafka4.wire.protocol.messages_produce import ProduceResponse
from pykafka4.wire.records.hot import Accumulator, Batch

__all__ = ["ACTIONS", "ProduceAnswers"]

WAYS_OUT = {
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": "the topic's message.format.version is older than 0.11: raise it, or write with "
    "enable_idempotence=False and without headers",
}

UNREADABLE = (DecodeError, RecordTooLarge, ConfigError)  # the errors that the unpacking of a raw batch raises
# After these reactions the remaining records of a batch are sent in other batches.
PARTED = (ProduceReaction.SPLIT, ProduceReaction.REFUSED)

PartitionAnswer = ProduceResponse.Topic.Partition
Entries: TypeAlias = Sequence[tuple[PartitionQueue, Batch]]


class Compressor(Protocol):
    """The sender, which compresses the batches that replace a refused batch."""

    def compress(self, batch: Batch, queue: PartitionQueue) -> None:
        """Compress `batch` of `queue`, on a helper thread if the batch is large."""


class ProduceAnswers:
    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        network: Network,
        cluster: Cluster,
        recovery: Recovery,
        ready: ReadyQueues,
        deadlines: Deadlines,
        outcomes: Outcomes,
        limits: TopicLimits,
        compressor: Compressor,
    ) -> None:
        self._acc, self._limits, self._compressor = accumulator, limits, compressor
        self._config, self._network, self._cluster, self._recovery = config, network, cluster, recovery
        self._ready, self._deadlines, self._outcomes = ready, deadlines, outcomes
        self._actions = ACTIONS if config.transactional_id is None else TRANSACTIONAL

    def apply(self, now: float, flight: InFlightProduce, outcome: Outcome) -> None:
        """Apply the outcome of `flight`, and wake the threads that wait for its batches, before the turn continues."""
        # The queues of superseded entries no longer count this request, so `request_ended` must not be called for these entries.
        entries: Entries = flight.entries
        if late := flight.superseded:
            entries = [entry for entry in entries if entry not in late]
            self._read_late(flight, late, outcome)
        for queue, batch in entries:
            queue.request_ended(batch)
        if isinstance(outcome, Failed):
            self._flight_lost(flight.node, entries, now, outcome)
        elif outcome.message is None:
            for queue, batch in entries:
                self._outcomes.acknowledge(queue, batch, -1, -1)
        else:
            self._read_answers(flight, entries, now, outcome.message)
        for queue, _ in flight.entries:
            self._ready.place(queue)
        self._outcomes.wake_waiters()

    def _by_partition(self, message: ProduceResponse) -> dict[tuple[str, int], PartitionAnswer]:
        answers: dict[tuple[str, int], PartitionAnswer] = {}
        for topic in message.responses:
            name = topic.name or self._cluster.topic_name(topic.topic_id)
            for answer in topic.partition_responses:
                answers[name or "", answer.index] = answer
        return answers

    def _read_late(self, flight: InFlightProduce, late: list[tuple[PartitionQueue, Batch]], outcome: Outcome) -> None:
        """Read the response of a leader that was replaced. The batches may be in flight to the new leader.

        An acknowledgement is valid: all in-sync replicas had the batch, the new leader among them. Only the head is acknowledged, so that
        no more batches than brokers remember are written after an unacknowledged batch. Other responses say nothing about the new leader.
        """
        if isinstance(outcome, Failed) or outcome.message is None:
            return
        answers = self._by_partition(outcome.message)
        for queue, batch in late:
            found = answers.get(queue.tp)
            if found is None or batch not in queue.batches[:1] or not batch.written or not self._is_same_topic(flight, queue.tp.topic):
                continue
            if error_code(found.error_code).produce is ProduceReaction.ACK:
                queue.hold_behind(batch)
                if not batch.in_flight:
                    self._outcomes.ledger.sent_before(batch.count)
                self._outcomes.acknowledge(queue, batch, found.base_offset, found.log_append_time_ms)

    def _read_answers(self, flight: InFlightProduce, entries: Entries, now: float, message: ProduceResponse) -> None:
        answers = self._by_partition(message)
        endpoints = {e.node_id: (e.host, e.port) for e in message.node_endpoints}
        for queue, batch in entries:
            found = answers.get(queue.tp)
            if found is None:
                self._left_out(queue, batch, now)
                continue
            if found.current_leader.leader_id >= 0 and self._is_same_topic(flight, queue.tp.topic):
                hinted = found.current_leader
                self._cluster.hint(queue.tp, hinted.leader_id, hinted.leader_epoch, endpoints.get(hinted.leader_id))
            self._act(queue, batch, now, found)

    def _is_same_topic(self, flight: InFlightProduce, topic: str) -> bool:
        """Whether `topic` has the same id as when `flight` was sent: a recreated topic has another one.

        The leader epochs of the deleted topic may be higher than the epochs of the new topic, whose leaders would then be ignored.
        """
        return flight.topics[topic].topic_id == (self._cluster.topic_id(topic) or NO_ID)

    def _left_out(self, queue: PartitionQueue, batch: Batch, now: float) -> None:
        """Requeue a batch whose partition is missing from the response, or fail it after its last attempt."""
        queue.doubt(batch)
        self._requeue(queue, batch)
        if not batch.done:
            self._deadlines.hold(queue, now)
            if self._was_last(batch):
                reason = KafkaError(f"{queue.tp}: the response of broker {queue.node} does not contain the partition")
                self._outcomes.fail(queue, batch, short_name(reason), reason)

    def _act(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer) -> None:
        row = error_code(answer.error_code)
        if row.produce in (ProduceReaction.ACK, ProduceReaction.DUPLICATE):
            offset = answer.base_offset if row.produce is ProduceReaction.ACK else -1
            self._outcomes.acknowledge(queue, batch, offset, answer.log_append_time_ms)
            self._recovery.healthy(queue.tp)
            queue.acknowledged(now)
            return
        if row.written is Written.MAYBE:
            queue.doubt(batch)
        self._requeue(queue, batch)
        if batch.done:  # the batch had its outcome before, for example after its delivery timeout
            return
        detail = answer.error_message or WAYS_OUT.get(row.name)
        error = broker_error(row.code, str(queue.tp), detail, "Produce", topic=queue.tp.topic)
        batch.last_error = error
        if row.produce is not ProduceReaction.SEQUENCE or queue.batches[0] is batch:  # otherwise a batch before this one caused the error
            batch.failed_attempts += 1
        parted = row.produce in PARTED and not batch.written  # certainly not in the log: sending its remaining records is not a retry
        last = self._was_last(batch) and not parted
        self._actions[ProduceReaction.FAIL if last and row.produce in PARTED else row.produce](self, queue, batch, now, answer, error)
        if last and not batch.done:
            self._outcomes.fail(queue, batch, short_name(error), error)

    def _was_last(self, batch: Batch) -> bool:
        limit, most = self._config.retries, self._config.max_failed_attempts
        return (limit is not None and batch.attempts > limit) or (most is not None and batch.failed_attempts >= most)

    def _flight_lost(self, node: int, entries: Entries, now: float, outcome: Failed) -> None:
        """Requeue the batches of a request without a response. Fail them after the last attempt, or if a retry cannot help."""
        for queue, batch in entries:
            if outcome.written is Written.MAYBE:
                queue.doubt(batch)
            else:
                batch.attempts -= 1  # no byte was sent, so this was no attempt: an unreachable broker does not use up `retries`
            batch.last_error = outcome.reason
            self._requeue(queue, batch)
            if not batch.done and (not outcome.passing or self._was_last(batch)):
                self._outcomes.fail(queue, batch, short_name(outcome.reason), outcome.reason)
                if not outcome.passing:
                    continue
            self._recovery.report(now, queue.tp, outcome.reason, node)

    def give_up_last(self, queue: PartitionQueue) -> None:
        """Fail the batches that have no attempt left, after their leader was replaced before it responded."""
        if self._config.retries is not None:
            for batch in [batch for batch in queue.batches if batch.written and self._was_last(batch)]:
                reason = KafkaTimeoutError(f"{queue.tp}: broker {queue.node} has not responded and is no longer the leader")
                self._outcomes.fail(queue, batch, short_name(reason), reason)

    def _requeue(self, queue: PartitionQueue, batch: Batch) -> None:
        if not batch.done:
            self._outcomes.ledger.requeued(batch.count)
            queue.requeue(batch)

    # the actions of the error table

    def _resend(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        if isinstance(error, BrokerError) and error.code.refresh is Refresh.METADATA:
            if error.code.name == "REQUEST_TIMED_OUT":
                # The broker did not reach its replicas: it may not know that another broker leads, and still name itself in its metadata.
                self._network.avoid(now, queue.node)
            self._recovery.report(now, queue.tp, error, queue.node)
        else:
            self._recovery.note_retry(now, queue.tp, error)
            self._deadlines.hold(queue, now)

    def _split(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Halve the batch; a single record fails.

        Brokers check sizes before duplicates, so the error does not show whether an earlier attempt was written. The halves keep the
        sequence of the batch; if the batch is in doubt, so are its halves, which are then sent only in its epoch. If the log has the batch
        (because the limit was lowered later), the broker rejects the halves, whose sequence is in the past; they fail as MAYBE.
        """
        self._limits.refused(queue.tp.topic, now)
        if batch.count == 1:
            self._outcomes.fail(queue, batch, short_name(error), error)
            return
        try:
            parts = batch.split()
        except UNREADABLE as why:
            self._fail_unreadable(queue, batch, error, why)
            return
        self._acc.limit_batches(queue.tp.topic, batch.raw_size // 2)  # brokers refused twice that size
        for part in parts:
            part.attempts = 0  # never sent in this form: `_finish` must write the headers
            part.written = batch.written  # but the records may be in the log
        queue.replace(batch, parts)
        for part in parts:
            self._compressor.compress(part, queue)

    def _sequence(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Have `queue` continue in the next epoch, because the broker expects another sequence. Fail `batch` if it may be in the log.

        If `batch` is not the head, do nothing: the error is only a consequence of the failure of an earlier batch.
        """
        if queue.batches[0] is not batch:
            return
        queue.stale = True
        self._give_up_or_hold(queue, batch, now, error)

    def _epoch_over(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Fail `batch`: with transactions, the error ends the transaction, not only the epoch of the queue.

        If `batch` is not the head, a wrong sequence is only a consequence of the failure of an earlier batch.
        """
        if isinstance(error, BrokerError) and error.code.produce is ProduceReaction.SEQUENCE and queue.batches[0] is not batch:
            return
        queue.stale = True
        self._outcomes.fail(queue, batch, short_name(error), error)

    def _fenced(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Have `queue` continue under another producer id: the partition has seen a higher epoch of the current id.

        Without a transactional id no other producer can take over an id, so other partitions are not affected.
        """
        queue.stale = queue.spent = True
        if queue.batches[0] is batch:
            self._give_up_or_hold(queue, batch, now, error)

    def _give_up_or_hold(self, queue: PartitionQueue, batch: Batch, now: float, error: KafkaError) -> None:
        """Fail `batch` if it may be in the log: in another epoch it would be written again. In any case, hold `queue`."""
        if batch.written:
            self._outcomes.fail(queue, batch, short_name(error), error)
        self._deadlines.hold(queue, now)

    def _refused(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        """Fail the records that the response lists (KIP-467), and resend the others; a broker writes all records of a batch or none.

        Fail the whole batch if no record is listed, and with idempotence also if an earlier attempt may be in the log: otherwise the other
        records could be written twice.
        """
        reasons = {e.batch_index: e.batch_index_error_message for e in answer.record_errors if 0 <= e.batch_index < batch.count}
        if not reasons or (batch.written and self._config.enable_idempotence):
            self._outcomes.fail(queue, batch, short_name(error), error)
            return
        try:
            rest, refused = batch.set_apart(reasons)
        except UNREADABLE as why:
            self._fail_unreadable(queue, batch, error, why)
            return
        queue.withdraw(batch)
        queue.replace(batch, [] if rest is None else [rest])
        written = Written.MAYBE if batch.written else Written.NO
        for index, part in zip(sorted(reasons), refused, strict=True):
            cause = broker_error(answer.error_code, str(queue.tp), reasons[index] or answer.error_message)
            self._outcomes.lose(part, short_name(cause), written, cause)
        if rest is not None:
            rest.attempts, rest.written = 0, batch.written  # never sent in this form, but the records may be in the log
            self._compressor.compress(rest, queue)

    def _fail_unreadable(self, queue: PartitionQueue, batch: Batch, error: KafkaError, why: Exception) -> None:
        error.add_note(f"pykafka4: the raw batch of {batch.size} bytes could not be sent in parts: {why}")
        self._outcomes.fail(queue, batch, short_name(error), error)

    def _failed(self, queue: PartitionQueue, batch: Batch, now: float, answer: PartitionAnswer, error: KafkaError) -> None:
        self._outcomes.fail(queue, batch, short_name(error), error)


ACTIONS = {
    ProduceReaction.RESEND: ProduceAnswers._resend,
    ProduceReaction.SPLIT: ProduceAnswers._split,
    ProduceReaction.SEQUENCE: ProduceAnswers._sequence,
    ProduceReaction.FENCED: ProduceAnswers._fenced,
    ProduceReaction.REFUSED: ProduceAnswers._refused,
    ProduceReaction.FAIL: ProduceAnswers._failed,
}
TRANSACTIONAL = {**ACTIONS, ProduceReaction.SEQUENCE: ProduceAnswers._epoch_over, ProduceReaction.FENCED: ProduceAnswers._epoch_over}
