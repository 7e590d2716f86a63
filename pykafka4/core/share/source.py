"""Source. Rule: one request of a share session is in flight, because each has the next epoch; an acknowledgement is settled once.

A share session belongs to a connection. When that is lost, the broker releases what this member has acquired from partitions that are in
the session then; not that of others, on hold or no longer assigned, and nothing if a new session replaces it on the same connection.
Whatever ends the session ends its leases, and acknowledgements under these fail without being sent. So what may still be locked is
released by name: by `close`, or in the next session with the broker. If there is none, it stays locked until its time is over.
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
from pykafka4.core.share.requests import CLOSE, by_partition, needs_renewals, share_acknowledge, share_fetch
from pykafka4.core.share.values import EXPIRED, Acknowledgements, AcknowledgeType, Acquired, Lease, lock_lost, release
from pykafka4.errors import KafkaError, KafkaTimeoutError, UnsupportedVersion, broker_error
from pykafka4.errors.codes import Refresh, error_code
from pykafka4.logs import get_log
from pykafka4.options.share import ShareConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["Context", "Source"]

log = get_log("pykafka4.share")

SESSION_OVER: Final = frozenset({"SHARE_SESSION_NOT_FOUND", "INVALID_SHARE_SESSION_EPOCH"})
NOT_ACQUIRED: Final = "INVALID_RECORD_STATE"
TRANSIENT: Final = "UNKNOWN_SERVER_ERROR"  # not retriable by Kafka's table, but a failure inside one broker
MISSING: Final = "the response does not mention the partition"
NOBODY: Final = -1


class ShareUser(Protocol):
    """The machine of the share consumer."""

    def unsupported(self, error: KafkaError) -> None:
        """The brokers have no share groups."""


@attrs.frozen(eq=False)
class Context:
    """What all sources of a consumer share."""

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
    """The purpose of a request in a share session."""

    FETCH = "acquire records, and acknowledge others"
    ACKNOWLEDGE = "only acknowledge records"
    RELEASE = "release by name the records that earlier sessions have left locked"
    CLOSE = "end the session"


@attrs.define(eq=False)
class ShareInFlight(Request):
    """The request of a share session that has no response yet."""

    source: Source = attrs.field(kw_only=True)
    kind: ShareRequest = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        """See `Request`."""
        self.source.answered(now, self.kind, outcome)


@attrs.define(eq=False)
class Hold:
    """A partition that has failed: until a time it has no part in requests, so that it does not slow down the others."""

    backoff: Backoff
    error: KafkaError
    until: float = -INFINITY
    tried: bool = False  # by the request in flight


class Source:
    """The share session with one broker."""

    def __init__(self, node: int, context: Context) -> None:
        self.node, self._context, self._config = node, context, context.config
        self.targets: dict[TopicPartition, UUID] = {}  # to acquire records from
        self.leases: dict[TopicPartition, Lease] = {}  # under which records were acquired in this session
        self.wanted = NOBODY  # `Mailbox.taken` of a poll that found nothing: one ShareFetch is due, even if no poll waits
        self.in_flight = False
        self.queue: list[Acknowledgements] = []
        self._sent: list[Acknowledgements] = []  # in flight
        self._left: list[tuple[Acquired, list[int]]] = []  # offsets that sessions which are over may have left locked
        self._in_session: dict[TopicPartition, UUID] = {}  # what the broker fetches
        self._names: dict[tuple[UUID, int], TopicPartition] = {}  # of what was fetched last: the metadata may have forgotten the topic
        self._epoch = 0  # of the next request; 0 opens a session
        self._backoff = Backoff.retry(context.config, context.random)
        self._rest_until = 0.0  # after a request that has failed as a whole
        self._error: KafkaError | None = None  # of that request
        self._holds: dict[TopicPartition, Hold] = {}
        self._closing: Callable[[], None] | None = None
        self._closed = False

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost with this object."""
        return not (self.targets or self.leases or self.in_flight or self.queue or self._epoch)

    @property
    def errors(self) -> dict[str, str]:
        """Why no records are acquired, of the broker and of each partition: they are asked again."""
        whole = {} if self._error is None or not self.targets else {f"broker {self.node}": str(self._error)}
        return whole | {str(tp): str(hold.error) for tp, hold in self._holds.items() if tp in self.targets}

    # ---------------------------------------------------------------- calls

    def acknowledge(self, acknowledgements: Acknowledgements) -> None:
        """Send it with the next request."""
        self.queue.append(acknowledgements)

    def drop_lease(self, tp: TopicPartition, reason: str) -> None:
        """Another broker leads the partition: the records that this one had acquired are released."""
        lease = self.leases.pop(tp, None)
        if lease is not None:
            lease.ended = reason

    def close(self, done: Callable[[], None]) -> None:
        """Send what is acknowledged and release everything else; `done` is called afterwards."""
        self._closing = done
        self.targets = {}

    def abandon(self, error: KafkaError) -> None:
        """Nothing is sent any more: what has no outcome fails with `error`."""
        self._end("the consumer was closed")
        queue, self.queue = [*self._sent, *self.queue], []
        self._sent, self._closed = [], True
        self._fail(queue, lambda _: error)
        self._finish()

    def poll(self, now: float) -> float:
        """Send the next request if one is due; returns when to look again."""
        if self._closed:
            return INFINITY
        self._fail_lost()  # also while a broker that does not respond holds up the others
        if self.in_flight:
            return INFINITY
        if self._closing is not None:
            self._close(now)
            return INFINITY
        held = {tp: hold.until for tp, hold in self._holds.items() if now < hold.until}
        if self._epoch and self._left and self._release_left(now, held):
            return INFINITY
        targets = {tp: i for tp, i in self.targets.items() if tp not in held} if held else self.targets
        due = [each for each in self.queue if each.acquired.tp not in held]
        fetches = bool(targets) and self._context.mailbox.wants(self.wanted)
        if not due and not fetches:
            return min(held.values(), default=INFINITY)
        if now < self._rest_until:
            return self._rest_until
        self._sent, self.queue = due, [each for each in self.queue if each.acquired.tp in held]
        if due and (not fetches or any(each.renews or each.acquired.tp not in targets for each in due)):
            self._send_acknowledgements(now, self._epoch, ShareRequest.ACKNOWLEDGE)
        else:
            self._fetch(now, targets)
        return INFINITY

    def _fail_lost(self) -> None:
        """Acknowledgements under leases that have ended, and of deliveries that were not the last."""
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
        self.wanted = NOBODY
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
        self._submit(now, message, 0.0, kind, needs_renewals)

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
        """The request in flight has its outcome."""
        self.in_flight = False
        if not self._closed:
            READERS[kind](self, now, outcome)

    # ---------------------------------------------------------------- responses

    def _fetched(self, now: float, outcome: Outcome) -> None:
        if not self._is_whole(now, "ShareFetch", outcome):
            return
        assert not isinstance(outcome, Failed)
        answer = outcome.message
        self.wanted = NOBODY  # polls that asked meanwhile have this answer
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
        self._release()

    def _acknowledged(self, now: float, outcome: Outcome) -> None:
        renews = any(each.renews for each in self._sent)
        if renews and isinstance(outcome, Failed) and isinstance(outcome.reason, UnsupportedVersion):  # nothing was sent
            sent, self._sent = self._sent, []
            self.queue = [*self._without_renewals(sent, lambda _: outcome.reason), *self.queue]
        elif self._is_whole(now, "ShareAcknowledge", outcome):
            assert not isinstance(outcome, Failed)
            lock = outcome.message.acquisition_lock_timeout_ms / 1000 or self._context.mailbox.lock_seconds or 0.0
            self._settle(now, outcome.message, lock, "")
            self._release()

    def _without_renewals(self, those: list[Acknowledgements], error: Callable[[Acknowledgements], KafkaError]) -> list[Acknowledgements]:
        """The others; renewals fail with `error`."""
        others = []
        for each in those:
            renewals, rest = each.split({offset for offset, kind in each.types.items() if kind is AcknowledgeType.RENEW})
            if renewals is not None:
                renewals.fail(error(renewals))
            if rest is not None:
                others.append(rest)
        return others

    def _is_whole(self, now: float, what: str, outcome: Outcome) -> bool:
        """Whether the request was carried out. If not, the session is over."""
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
            self._epoch = self._epoch % 0x7FFFFFFF + 1
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
            self._context.mailbox.tell(error)
        return False

    def _broken(self, now: float, error: KafkaError, reason: str) -> None:
        """The request failed as a whole, and with it the session. Mostly it is not known whether the acknowledgements are stored."""
        sent, self._sent = self._sent, []
        over = getattr(getattr(error, "code", None), "name", "") in SESSION_OVER
        if not over:  # first: what may be stored is not released
            self._fail(sent, lambda _: error)
        self._left += [found for lease in self.leases.values() for found in lease.locked(now).items()]
        self._end(reason)
        self._fail(sent if over else [], lambda each: lock_lost(each.acquired.tp, each.types, reason))
        self._rest_until, self._error = now + self._backoff.next(), error

    def _end(self, reason: str) -> None:
        """Begin again with a new session."""
        self._epoch, self._in_session = 0, {}
        leases, self.leases = self.leases, {}
        for lease in leases.values():
            lease.ended = reason

    def _try(self, fetched: Iterable[TopicPartition]) -> None:
        """A request is about to be sent."""
        if self._holds:
            tried = {*fetched, *(each.acquired.tp for each in self._sent)}
            for tp, hold in self._holds.items():
                hold.tried = tp in tried

    def _hold(self, now: float, tp: TopicPartition, error: KafkaError) -> None:
        hold = self._holds.setdefault(tp, Hold(Backoff.retry(self._config, self._context.random), error))
        hold.error = error
        self._context.recovery.note_retry(now, tp, error)
        if now >= hold.until:  # otherwise the same response has said so before
            hold.until, hold.tried = now + hold.backoff.next(), False

    def _release(self) -> None:
        """Forget the partitions that were tried again and have not failed."""
        self._holds = {tp: hold for tp, hold in self._holds.items() if not hold.tried}

    def _settle(self, now: float, answer: Any, lock: float, prefix: str) -> None:
        """The outcome of the acknowledgements that were sent. What is sent again comes before what was said meanwhile."""
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
            self.queue.append(each)  # still locked: the broker could not store it now
            self._hold(now, lease.tp, error)
            return
        each.fail(error)

    def _partition_failed(self, now: float, tp: TopicPartition, part: Any, endpoints: Mapping[int, tuple[str, int]]) -> None:
        row = error_code(part.error_code)
        error = broker_error(row.code, f"fetching {tp}", part.error_message, "ShareFetch", topic=tp.topic)
        if row.refresh is Refresh.METADATA:
            self._moved(now, tp, error, part, endpoints)
            return
        self._hold(now, tp, error)
        if not row.retriable and row.name != TRANSIENT:
            self._context.mailbox.tell(error)

    def _moved(self, now: float, tp: TopicPartition, error: KafkaError, part: Any, endpoints: Mapping[int, tuple[str, int]]) -> None:
        """The broker does not lead the partition, or does not know it."""
        self.drop_lease(tp, f"broker {self.node} no longer leads the partition")
        self._hold(now, tp, error)  # and out of the session: the broker would answer each ShareFetch at once, or not learn the topic's name
        leader = part.current_leader
        if leader.leader_id >= 0:
            self._context.cluster.hint(tp, leader.leader_id, leader.leader_epoch, endpoints.get(leader.leader_id))
        self._context.recovery.report(now, tp, error, self.node)

    def _acquired(self, now: float, tp: TopicPartition, topic_id: UUID, part: Any, lock: float) -> None:
        lease = self.leases.get(tp)
        if lease is None or lease.topic_id != topic_id:
            self.drop_lease(tp, "the topic was created again")
            lease = self.leases[tp] = Lease(tp, topic_id, self.node)
        spans = tuple((span.first_offset, span.last_offset, span.delivery_count) for span in part.acquired_records)
        acquired = Acquired(lease, spans, part.records or b"", now + lock)
        lease.deliver(acquired, now)
        self._context.recovery.healthy(tp)
        if tp in self.targets and self._closing is None:
            self._context.mailbox.put(acquired)
            return
        self.queue.append(release(acquired, (offset for first, last, _ in spans for offset in range(first, last + 1))))  # no longer wanted

    def _fail_sent(self, error: KafkaError) -> None:
        sent, self._sent = self._sent, []
        self._fail(sent, lambda _: error)

    def _fail(self, those: Iterable[Acknowledgements], error: Callable[[Acknowledgements], KafkaError]) -> None:
        for each in those:
            each.fail(error(each))

    # ---------------------------------------------------------------- what is left of sessions

    def _release_left(self, now: float, held: Container[TopicPartition]) -> bool:
        """Release by name what earlier sessions have left locked, but for partitions that are `held` now; whether a request was sent.

        Alone: if the broker has released one of these records by itself, it refuses all acknowledgements of the partition.
        """
        left, self._left = self._left, [(acquired, offsets) for acquired, offsets in self._left if acquired.tp in held]
        due = [each for each in left if each[0].tp not in held]
        self._sent = [found for acquired, offsets in due for found in self._as_release(now, acquired, offsets)]
        if self._sent:
            self._send_acknowledgements(now, self._epoch, ShareRequest.RELEASE)
        return bool(self._sent)

    def _left_released(self, now: float, outcome: Outcome) -> None:
        """What a broker says of a partition has no consequences: one that has none of the locks, or does not lead it, says so, too."""
        if self._is_whole(now, "ShareAcknowledge", outcome):
            self._sent = []  # nobody waits for the outcome

    def _as_release(self, now: float, acquired: Acquired, offsets: Iterable[int]) -> list[Acknowledgements]:
        """What is still locked, and was not delivered again in this session: that would be released instead."""
        tp, topic_id, lease = acquired.tp, acquired.lease.topic_id, self.leases.get(acquired.tp)
        if topic_id != self.targets.get(tp, topic_id) or (lease is not None and lease.topic_id != topic_id):  # it was created again
            return []
        locked = [offset for offset in offsets if now < acquired.locked_until(offset) and (lease is None or not lease.has(offset))]
        copy = Acquired(Lease(tp, topic_id, self.node), (), b"", acquired.until)  # under a lease that has not ended
        return [release(copy, locked)] if locked else []

    # ---------------------------------------------------------------- the end

    def _close(self, now: float) -> None:
        if self._epoch == 0:  # there is no session: no records are locked
            self._closed = True
            self._finish()
            return
        reason = "the consumer was closed, which releases the records that are neither accepted nor rejected"
        self.queue = self._without_renewals(self.queue, lambda each: lock_lost(each.acquired.tp, each.types, reason))
        if self._left and self._release_left(now, ()):
            return
        self._sent = self._locked_outside(now)
        if self._sent:  # alone: if the broker finds one of these locks over, it refuses all acknowledgements of the partition
            self._send_acknowledgements(now, self._epoch, ShareRequest.ACKNOWLEDGE)
            return
        self._sent, self.queue = self.queue, []
        self._send_acknowledgements(now, CLOSE, ShareRequest.CLOSE)

    def _locked_outside(self, now: float) -> list[Acknowledgements]:
        """Release what the end of the session does not: records of partitions that are not in it now, unless something is said of them."""
        said = {(each.acquired, offset) for each in self.queue for offset in each.types}
        released = []
        for tp, lease in self.leases.items():
            if self._in_session.get(tp) != lease.topic_id:
                for acquired, offsets in lease.locked(now).items():
                    unsaid = [offset for offset in offsets if (acquired, offset) not in said]
                    released += [release(acquired, unsaid)] if unsaid else []
        return released

    def _session_closed(self, now: float, outcome: Outcome) -> None:
        """Whatever the outcome: the connection is closed next, which ends the session as well."""
        if isinstance(outcome, Failed):
            self._fail_sent(outcome.reason)
        elif outcome.message.error_code:
            self._fail_sent(broker_error(outcome.message.error_code, "closing the share session", outcome.message.error_message))
        else:
            self._settle(now, outcome.message, 0.0, "")
        for each in self.queue:
            each.fail(KafkaTimeoutError("the share session was closed before a retry"))
        self.queue = []
        self._end("the consumer was closed")
        self._closed = True
        self._finish()

    def _finish(self) -> None:
        done, self._closing = self._closing, None
        if done is not None:
            done()


READERS: Final[Mapping[ShareRequest, Callable[[Source, float, Outcome], None]]] = {
    ShareRequest.FETCH: Source._fetched,
    ShareRequest.ACKNOWLEDGE: Source._acknowledged,
    ShareRequest.RELEASE: Source._left_released,
    ShareRequest.CLOSE: Source._session_closed,
}
