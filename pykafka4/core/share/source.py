"""Acquires and acknowledges records in the share session with one broker. Invariants: at most one request of the session is in flight,
because each request has the next epoch; each acknowledgement of the application has one outcome.

A share session belongs to a connection. When the connection is lost, the broker releases this member's acquired records, but only those of
partitions that are in the session at that moment. Records of other partitions (paused, no longer assigned) stay locked, as do all records
if a new session replaces the old one on the same connection. The end of a session ends its leases; acknowledgements under these leases
fail unsent. So `close` of an open session, or this source's next session, releases the records that may still be locked.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from enum import Enum
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import via
from pykafka4.core.outbox import Outbox
from pykafka4.core.share.mailbox import Mailbox
from pykafka4.core.share.requests import CLOSE, by_partition, require_renewals, share_acknowledge, share_fetch
from pykafka4.core.share.values import EXPIRED, Acknowledgements, AcknowledgeType, Acquired, SessionLease, lock_lost, release
from pykafka4.errors import KafkaError, KafkaTimeoutError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import Refresh, error_code
from pykafka4.logs import get_log
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["SourceContext", "ShareSource"]

log = get_log("pykafka4.share")

SESSION_OVER: Final = frozenset({"SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"})
NOT_ACQUIRED: Final = "INVALID_RECORD_STATE"
TRANSIENT: Final = "UNKNOWN_SERVER_ERROR"  # not retriable by Kafka's table, but a failure inside one broker
MISSING: Final = "the response does not mention the partition"
NOBODY: Final = -1


class ShareUser(Protocol):
    """The machine of the share consumer."""

    def unsupported(self, error: KafkaError) -> None:
        """End the member: a broker does not support share groups."""


@attrs.frozen(eq=False)
class SourceContext:
    """The objects that all sources of a consumer share."""

    config: ShareConsumerConfig
    member_id: str
    lane: int
    cluster: Cluster
    recovery: Recovery
    mailbox: Mailbox
    random: Random
    outbox: Outbox
    consumer: ShareUser


class ShareRequest(Enum):
    FETCH = "acquire records, and acknowledge others"
    ACKNOWLEDGE = "only acknowledge records"
    RELEASE = "release the records that earlier sessions have left locked"
    CLOSE = "end the session"


@attrs.define(eq=False)
class ShareInFlight(Request):
    source: ShareSource = attrs.field(kw_only=True)
    kind: ShareRequest = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.source.answered(now, self.kind, outcome)


@attrs.define(eq=False)
class PartitionPause:
    """The pause of a partition after its error: no request fetches from it before `until`.

    A broker answers a ShareFetch at once while a partition of the session has an error, so without the pause the source would
    fetch in a busy loop.
    """

    backoff: Backoff
    error: KafkaError
    until: float = -INFINITY
    tried: bool = False  # covered by the last request, and not failed since


class ShareSource:
    def __init__(self, node: int, context: SourceContext) -> None:
        self.node, self._context, self._config = node, context, context.config
        self.targets: dict[TopicPartition, UUID] = {}  # partitions from which to acquire records
        self.leases: dict[TopicPartition, SessionLease] = {}  # leases of this session
        self.wanted_by_poll = NOBODY  # `Mailbox.taken` of a poll that found no records: one ShareFetch is due, even if no poll waits
        self.in_flight = False
        self.queue: list[Acknowledgements] = []
        self._sent: list[Acknowledgements] = []  # acknowledgements in the request in flight
        self._left: list[tuple[Acquired, list[int]]] = []  # offsets that earlier sessions may have left locked
        self._left_again: list[tuple[Acquired, list[int]]] = []  # offsets that a failed request may have released already
        self._in_session: dict[TopicPartition, UUID] = {}  # partitions of the session, as the broker knows it
        # The partitions of the last ShareFetch, by topic id and number. After an `unsubscribe` the metadata may lack the topic, but the
        # response has locked records, which must be released.
        self._names: dict[tuple[UUID, int], TopicPartition] = {}
        self._epoch = 0  # session epoch of the next request; 0 opens a session
        self._backoff = Backoff.retry(context.config, context.random)
        self._paused_until = 0.0  # end of the pause after a request that has failed as a whole
        self._error: KafkaError | None = None  # the error of the last request that failed as a whole, until the next success
        self._pauses: dict[TopicPartition, PartitionPause] = {}
        self._closing: Callable[[], None] | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether the source can be dropped."""
        return not (self.targets or self.leases or self.in_flight or self.queue or self._epoch)

    @property
    def errors(self) -> dict[str, str]:
        """The errors that keep the broker (`broker N`) or a partition from delivering records now."""
        whole = {} if self._error is None or not self.targets else {f"broker {self.node}": str(self._error)}
        return whole | {str(tp): str(pause.error) for tp, pause in self._pauses.items() if tp in self.targets}

    # ---------------------------------------------------------------- calls

    def acknowledge(self, acknowledgements: Acknowledgements) -> None:
        self.queue.append(acknowledgements)

    def drop_lease(self, tp: TopicPartition, reason: str) -> None:
        """End the lease of `tp`: the broker has lost the partition, or the topic was deleted, so the records are released."""
        lease = self.leases.pop(tp, None)
        if lease is not None:
            lease.ended = reason

    def close(self, done: Callable[[], None]) -> None:
        """Fail renewals, send all other acknowledgements, release all other records, end the session; then call `done`."""
        self._closing = done
        self.targets = {}

    def abandon(self, error: KafkaError) -> None:
        """Fail all acknowledgements without an outcome, and send no more requests."""
        self._end("the consumer was closed or unsubscribed")
        queue, self.queue = [*self._sent, *self.queue], []
        self._sent, self._closed = [], True
        self._fail(queue, lambda _: error)
        self._finish()

    def poll(self, now: float) -> float:
        if self._closed:
            return INFINITY
        self._fail_lost()  # before the next test: a silent broker must not delay errors that are certain already
        if self.in_flight:
            return INFINITY
        if self._closing is not None:
            self._close(now)
            return INFINITY
        paused = {tp: pause.until for tp, pause in self._pauses.items() if now < pause.until}
        if self._epoch and self._release_left(now, paused):
            return INFINITY
        targets = {tp: i for tp, i in self.targets.items() if tp not in paused} if paused else self.targets
        due = [each for each in self.queue if each.acquired.tp not in paused]
        fetches = bool(targets) and self._context.mailbox.wants(self.wanted_by_poll)
        if not due and not fetches:
            return min(paused.values(), default=INFINITY)
        if now < self._paused_until:
            return self._paused_until
        self._sent, self.queue = due, [each for each in self.queue if each.acquired.tp in paused]
        # ShareAcknowledge is sent if no records are wanted, for renewals (brokers refuse to fetch in the same request), and for partitions
        # that are not targets: a ShareFetch would put them back into the session.
        if due and (not fetches or any(each.renews or each.acquired.tp not in targets for each in due)):
            self._send_acknowledgements(now, self._epoch, ShareRequest.ACKNOWLEDGE)
        else:
            self._fetch(now, targets)
        return INFINITY

    def _fail_lost(self) -> None:
        """Fail acknowledgements under leases that have ended, and of records that a later response has acquired again."""
        if not any(each.acquired.lease.ended or each.acquired.again for each in self.queue):
            return
        queue, self.queue = self.queue, []
        for each in queue:
            acquired, reason = each.acquired, each.acquired.lease.ended
            lost, rest = each.split(acquired.again if reason is None else each.types)
            if lost is not None:
                lost.fail(lock_lost(acquired.tp, lost.types, reason or EXPIRED))
            if rest is not None:
                self.queue.append(rest)

    # ---------------------------------------------------------------- requests

    def _fetch(self, now: float, targets: dict[TopicPartition, UUID]) -> None:
        added = {tp: i for tp, i in targets.items() if self._in_session.get(tp) != i}
        forgotten = {tp: i for tp, i in self._in_session.items() if targets.get(tp) != i}
        self.wanted_by_poll = NOBODY
        self._try(targets)
        context = self._context
        most = min(context.mailbox.limit, self._config.max_poll_records)
        message = share_fetch(self._config, context.member_id, self._epoch, added, forgotten, by_partition(self._sent), most)
        if added or forgotten:
            self._in_session = dict(targets)
            self._names = {(topic_id, tp.partition): tp for tp, topic_id in targets.items()}
        wait = self._config.fetch_max_wait_ms / 1000
        self._submit(now, message, wait, ShareRequest.FETCH)

    def _send_acknowledgements(self, now: float, epoch: int, kind: ShareRequest) -> None:
        self._try(())
        message = share_acknowledge(self._config, self._context.member_id, epoch, self._sent)
        self._submit(now, message, 0.0, kind, require_renewals)

    def _submit(
        self,
        now: float,
        message: Any,
        wait: float,
        kind: ShareRequest,
        fit: Callable[[Any, int], None] | None = None,
    ) -> None:
        self.in_flight = True
        deadline = now + self._config.request_timeout_ms / 1000 + wait
        self._context.outbox.send(ShareInFlight(via(self._context.lane, self.node), message, deadline, fit=fit, source=self, kind=kind))

    def answered(self, now: float, kind: ShareRequest, outcome: Outcome) -> None:
        self.in_flight = False
        if not self._closed:
            READERS[kind](self, now, outcome)

    # ---------------------------------------------------------------- responses

    def _fetched(self, now: float, outcome: Outcome) -> None:
        if not self._is_whole(now, "ShareFetch", outcome):
            return
        assert not isinstance(outcome, Failed)
        answer = outcome.message
        self.wanted_by_poll = NOBODY  # this response also answers polls that wanted records meanwhile
        lock = answer.acquisition_lock_timeout_ms / 1000
        self._context.mailbox.lock_seconds = lock
        self._settle(now, answer, lock, "acknowledge_")
        endpoints = {e.node_id: (e.host, e.port) for e in answer.node_endpoints}
        for topic in answer.responses:
            for part in topic.partitions:
                tp = self._names.get((topic.topic_id, part.partition_index))
                if tp is None:
                    continue
                if part.error_code:
                    self._partition_failed(now, tp, part, endpoints)
                elif part.acquired_records:
                    self._acquired(now, tp, topic.topic_id, part, lock)
        self._end_pauses()

    def _acknowledged(self, now: float, outcome: Outcome) -> None:
        renews = any(each.renews for each in self._sent)
        # `require_renewals` refuses the message when it is encoded, so the broker has seen nothing and the session's epoch is unchanged.
        if renews and isinstance(outcome, Failed) and isinstance(outcome.reason, UnsupportedVersion):
            sent, self._sent = self._sent, []
            self.queue = [*self._without_renewals(sent, lambda _: outcome.reason), *self.queue]
        elif self._is_whole(now, "ShareAcknowledge", outcome):
            assert not isinstance(outcome, Failed)
            lock = outcome.message.acquisition_lock_timeout_ms / 1000 or self._context.mailbox.lock_seconds or 0.0
            self._settle(now, outcome.message, lock, "")
            self._end_pauses()

    def _without_renewals(self, those: list[Acknowledgements], error: Callable[[Acknowledgements], KafkaError]) -> list[Acknowledgements]:
        """Fail the renewals among `those`; return the other acknowledgements."""
        others = []
        for each in those:
            renewals, rest = each.split({offset for offset, kind in each.types.items() if kind is AcknowledgeType.RENEW})
            if renewals is not None:
                renewals.fail(error(renewals))
            if rest is not None:
                others.append(rest)
        return others

    def _is_whole(self, now: float, what: str, outcome: Outcome) -> bool:
        """Whether the broker has reported success for the request as a whole; if not, end the session."""
        if isinstance(outcome, Failed):
            self._broken(now, outcome.reason, f"the share session with broker {self.node} has ended: {outcome.reason}")
            if isinstance(outcome.reason, UnsupportedVersion):
                self._context.consumer.unsupported(outcome.reason)
                return False
            for tp in self.targets:
                self._context.recovery.report(now, tp, outcome.reason, self.node)
            return False
        answer = outcome.message
        if not answer.error_code:
            self._epoch = self._epoch % 0x7FFFFFFF + 1  # epochs are positive 32-bit numbers; 0 would open a new session
            self._backoff.reset()
            self._error = None
            return True
        row = error_code(answer.error_code)
        error = broker_error(row.code, f"{what} of group {self._config.group}", answer.error_message, what, group=self._config.group)
        self._broken(now, error, f"the share session with broker {self.node} has ended: {row.name}")
        if row.name in SESSION_OVER:
            where, node = self._config.client_id, self.node
            log.info("%s: the share session with broker %d has ended (%s); opening another", where, node, row.name, broker=node)
        elif not row.retriable and row.name != TRANSIENT:
            self._context.mailbox.put_error(error)
        return False

    def _broken(self, now: float, error: KafkaError, reason: str) -> None:
        """End the session: its request has failed as a whole.

        Unless the broker has refused the session, it may have stored the acknowledgements of the request.
        """
        sent, self._sent = self._sent, []
        over = getattr(getattr(error, "code", None), "name", "") in SESSION_OVER
        # Acknowledgements that the broker may have stored fail first, so that `lease.locked` omits their offsets (except renewed ones).
        # Otherwise the next session would release these records, and a broker that has stored one acknowledgement would refuse the whole
        # partition. Acknowledgements of a refused session are not stored: they fail afterwards, so their records are released.
        if not over:
            self._fail(sent, lambda _: error)
        self._left += [found for lease in self.leases.values() for found in lease.locked(now).items()]
        self._end(reason)
        self._fail(sent if over else [], lambda each: lock_lost(each.acquired.tp, each.types, reason))
        self._paused_until, self._error = now + self._backoff.next(), error

    def _end(self, reason: str) -> None:
        """End all leases; a later request would open another session."""
        self._epoch, self._in_session = 0, {}
        leases, self.leases = self.leases, {}
        for lease in leases.values():
            lease.ended = reason

    def _try(self, fetched: Iterable[TopicPartition]) -> None:
        """Mark the paused partitions that the next request covers: those in `fetched`, and those with acknowledgements."""
        if self._pauses:
            tried = {*fetched, *(each.acquired.tp for each in self._sent)}
            for tp, pause in self._pauses.items():
                pause.tried = tp in tried

    def _pause(self, now: float, tp: TopicPartition, error: KafkaError) -> None:
        pause = self._pauses.setdefault(tp, PartitionPause(Backoff.retry(self._config, self._context.random), error))
        pause.error = error
        self._context.recovery.note_retry(now, tp, error)
        if now >= pause.until:  # several errors of one response cause one pause
            pause.until, pause.tried = now + pause.backoff.next(), False

    def _end_pauses(self) -> None:
        """Delete the pauses of partitions that the last request has covered, and that have not failed again."""
        self._pauses = {tp: pause for tp, pause in self._pauses.items() if not pause.tried}

    def _settle(self, now: float, answer: Any, lock: float, prefix: str) -> None:
        """Settle each acknowledgement of the request, or queue it again.

        Acknowledgements that are sent again go before later ones: of several for one delivery, the last one must apply.
        """
        sent, self._sent = self._sent, []
        later, self.queue = self.queue, []
        parts = {(topic.topic_id, part.partition_index): part for topic in answer.responses for part in topic.partitions}
        endpoints = {e.node_id: (e.host, e.port) for e in answer.node_endpoints}
        for each in sent:
            lease = each.acquired.lease
            part = parts.get((lease.topic_id, lease.tp.partition))
            if part is None:
                each.fail(KafkaError(f"acknowledging {lease.tp}: {MISSING}"))
                continue
            code, text = getattr(part, f"{prefix}error_code"), getattr(part, f"{prefix}error_message")
            if not code:
                each.succeed(now, lock)
            else:
                self._refused(now, each, code, text, part, endpoints)
        self.queue += later

    def _refused(
        self, now: float, each: Acknowledgements, code: int, text: str | None, part: Any, endpoints: Mapping[int, tuple[str, int]]
    ) -> None:
        row, lease = error_code(code), each.acquired.lease
        error: KafkaError = broker_error(code, f"acknowledging {lease.tp}", text, "ShareAcknowledge", topic=lease.tp.topic)
        if row.name == NOT_ACQUIRED:
            error = lock_lost(lease.tp, each.types, f"the lock has expired, or the record is archived ({text or row.name})")
        elif row.refresh is Refresh.METADATA:
            self._moved(now, lease.tp, error, part, endpoints)
            error = lock_lost(lease.tp, each.types, f"broker {self.node} no longer leads the partition ({row.name})")
        elif row.retriable and lease.ended is None and now < max(each.acquired.locked_until(offset) for offset in each.types):
            self.queue.append(each)  # to be sent again: at least one of the records is still locked
            self._pause(now, lease.tp, error)
            return
        each.fail(error)

    def _partition_failed(self, now: float, tp: TopicPartition, part: Any, endpoints: Mapping[int, tuple[str, int]]) -> None:
        row = error_code(part.error_code)
        error = broker_error(row.code, f"fetching {tp}", part.error_message, "ShareFetch", topic=tp.topic)
        if row.refresh is Refresh.METADATA:
            self._moved(now, tp, error, part, endpoints)
            return
        self._pause(now, tp, error)
        if not row.retriable and row.name != TRANSIENT:
            self._context.mailbox.put_error(error)

    def _moved(self, now: float, tp: TopicPartition, error: KafkaError, part: Any, endpoints: Mapping[int, tuple[str, int]]) -> None:
        """End the lease and pause the partition: the broker does not lead the partition, or does not know it."""
        self.drop_lease(tp, f"broker {self.node} no longer leads the partition")
        # A ShareFetch during the pause removes the partition from the session. Otherwise the broker would answer each ShareFetch at once,
        # or not learn the name of a topic whose id it did not know when the partition joined the session.
        self._pause(now, tp, error)
        leader = part.current_leader
        if leader.leader_id >= 0:
            self._context.cluster.hint(tp, leader.leader_id, leader.leader_epoch, endpoints.get(leader.leader_id))
        self._context.recovery.report(now, tp, error, self.node)

    def _acquired(self, now: float, tp: TopicPartition, topic_id: UUID, part: Any, lock: float) -> None:
        lease = self.leases.get(tp)
        if lease is None or lease.topic_id != topic_id:
            self.drop_lease(tp, "the topic was recreated")
            lease = self.leases[tp] = SessionLease(tp, topic_id, self.node)
        spans = tuple((span.first_offset, span.last_offset, span.delivery_count) for span in part.acquired_records)
        acquired = Acquired(lease, spans, part.records or b"", now + lock)
        lease.deliver(acquired, now)
        self._context.recovery.healthy(tp)
        if tp in self.targets and self._closing is None:
            self._context.mailbox.put(acquired)
            return
        # Meanwhile the partition has ceased to be a target: no poll may return these records.
        self.queue.append(release(acquired, (offset for first, last, _ in spans for offset in range(first, last + 1))))

    def _fail_sent(self, error: KafkaError) -> None:
        sent, self._sent = self._sent, []
        self._fail(sent, lambda _: error)

    def _fail(self, those: Iterable[Acknowledgements], error: Callable[[Acknowledgements], KafkaError]) -> None:
        for each in those:
            each.fail(error(each))

    # ---------------------------------------------------------------- locks of earlier sessions

    def _release_left(self, now: float, paused: Container[TopicPartition]) -> bool:
        """Release the records that earlier sessions have left locked, except in `paused` partitions; return whether a request was sent.

        The request carries nothing else: if the broker has already released one of these records, it refuses all acknowledgements of the
        partition. So releases that are sent again have a separate request.
        """
        for those in (self._left, self._left_again):
            due = [each for each in those if each[0].tp not in paused]
            those[:] = [each for each in those if each[0].tp in paused]
            releases = [found for acquired, offsets in due for found in self._as_release(now, acquired, offsets)]
            if releases:
                self._sent = releases
                self._send_acknowledgements(now, self._epoch, ShareRequest.RELEASE)
                return True
        return False

    def _left_released(self, now: float, outcome: Outcome) -> None:
        """Ignore errors of partitions: a broker also reports one for a partition without these locks, or with another leader."""
        sent = self._sent
        if self._is_whole(now, "ShareAcknowledge", outcome):
            self._sent = []  # no report waits for the outcome of a `release`
        else:  # a repeated release does no harm: the broker refuses it, or the records are still locked
            self._left_again += [(each.acquired, list(each.types)) for each in sent]

    def _as_release(self, now: float, acquired: Acquired, offsets: Iterable[int]) -> list[Acknowledgements]:
        """A list with the release of those `offsets` that are still locked by an earlier session; empty if there are none.

        Records that this session has delivered again are left out: a broker identifies a record only by member and offset, so it would
        release a record that the application is processing.
        """
        tp, topic_id, current = acquired.tp, acquired.lease.topic_id, self.leases.get(acquired.tp)
        # If the topic id differs, the topic was recreated, and the locks have gone with the old topic.
        if topic_id != self.targets.get(tp, topic_id) or (current is not None and current.topic_id != topic_id):
            return []
        locked = [offset for offset in offsets if now < acquired.locked_until(offset) and (current is None or not current.has(offset))]
        lease = SessionLease(tp, topic_id, self.node)  # under the ended lease, releases fail unsent
        return [release(Acquired(lease, (), b"", acquired.until, acquired.renewed), locked)] if locked else []

    # ---------------------------------------------------------------- the end

    def _close(self, now: float) -> None:
        if self._epoch == 0:  # there is no session to end, or in which to release records
            self._closed = True
            self._finish()
            return
        reason = "the consumer was closed or unsubscribed, which releases the records that are neither accepted nor rejected"
        self.queue = self._without_renewals(self.queue, lambda each: lock_lost(each.acquired.tp, each.types, reason))
        if self._release_left(now, ()):
            return
        self._sent = self._locked_outside(now)
        if self._sent:  # in a separate request: if one of these locks has ended, the broker refuses the whole partition
            self._send_acknowledgements(now, self._epoch, ShareRequest.ACKNOWLEDGE)
            return
        self._sent, self.queue = self.queue, []
        self._send_acknowledgements(now, CLOSE, ShareRequest.CLOSE)

    def _locked_outside(self, now: float) -> list[Acknowledgements]:
        """Releases of the records that the end of the session leaves locked: the records of partitions outside the session."""
        # Records with an acknowledgement in the queue are left out.
        said = {(each.acquired, offset) for each in self.queue for offset in each.types}
        released = []
        for tp, lease in self.leases.items():
            if self._in_session.get(tp) != lease.topic_id:
                for acquired, offsets in lease.locked(now).items():
                    unsaid = [offset for offset in offsets if (acquired, offset) not in said]
                    released += [release(acquired, unsaid)] if unsaid else []
        return released

    def _session_closed(self, now: float, outcome: Outcome) -> None:
        """Settle the last acknowledgements, without retries: the caller waits for the end of the session."""
        if isinstance(outcome, Failed):
            self._fail_sent(outcome.reason)
        elif outcome.message.error_code:
            self._fail_sent(broker_error(outcome.message.error_code, "closing the share session", outcome.message.error_message))
        else:
            self._settle(now, outcome.message, 0.0, "")
        for each in self.queue:
            each.fail(KafkaTimeoutError("the share session was closed before a retry"))
        self.queue = []
        self._end("the consumer was closed or unsubscribed")
        self._closed = True
        self._finish()

    def _finish(self) -> None:
        done, self._closing = self._closing, None
        if done is not None:
            done()


READERS: Final[Mapping[ShareRequest, Callable[[ShareSource, float, Outcome], None]]] = {
    ShareRequest.FETCH: ShareSource._fetched,
    ShareRequest.ACKNOWLEDGE: ShareSource._acknowledged,
    ShareRequest.RELEASE: ShareSource._left_released,
    ShareRequest.CLOSE: ShareSource._session_closed,
}
