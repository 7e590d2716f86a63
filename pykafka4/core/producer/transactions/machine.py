"""Carries out the transactions of one transactional id, with the states and errors of Java's TransactionManager.

Invariant: EndTxn commits only after every record of the transaction has been acknowledged, and is repeated until its outcome is known or
the producer ends.

The coordinator chooses the producer id and the epoch. Up to transaction.version 1 a partition is added before its first batch is sent, and
the epoch stays the same unless a numbering is lost or a request may be executed late. From version 2 on (KIP-890) brokers add partitions
themselves, and EndTxn returns the epoch of the next transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from random import Random
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pykafka4.core import INFINITY, Failed, Outcome, Transitions
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import TRANSACTIONAL_ID, Coordinator
from pykafka4.core.network.call import Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.producer.queues.partition_queue import PartitionQueue
from pykafka4.core.producer.transactions.offsets import Group, OffsetsInTransaction
from pykafka4.core.producer.transactions.requests import (
    BEFORE_VERSION_2,
    ENDS_ADDING,
    ErrorMeaning,
    add_partitions_request,
    end_request,
    init_request,
    meaning_of,
)
from pykafka4.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    KafkaError,
    ProducerFencedError,
    TransactionAborted,
    TransactionError,
    UnsupportedVersion,
    broker_error,
    caused_by,
)
from pykafka4.errors.codes import BY_NAME
from pykafka4.logs import get_log
from pykafka4.options.config import ProducerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition, Written
from pykafka4.wire.protocol.messages_txn import InitProducerIdRequest

__all__ = ["Done", "TransactionRecords", "TransactionState", "Transactions"]

log = get_log("pykafka4.producer")

FEATURE: Final = "transaction.version"
RENEWS_FROM: Final = 3  # the first version of InitProducerId that can continue a producer id (KIP-360, Kafka 2.5)
SOON_S: Final = 0.02  # seconds: about the time that the previous transaction takes to complete (as in Java)
INIT_FIRST: Final = "call init_transactions first"

MAYBE_COMMITTED: Final = "the commit was sent, and the transaction may have been committed"

E = TypeVar("E", bound=KafkaError)
Done: TypeAlias = Callable[[KafkaError | None], None]


class TransactionState(Enum):
    """The state of the transactional id."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTABLE_ERROR = "abortable error"
    ABORTING = "aborting"
    FATAL = "fatal"


S = TransactionState
TABLE = Transitions[S](
    "transactional id",
    {
        S.UNINITIALIZED: {S.INITIALIZING, S.FATAL},
        S.INITIALIZING: {S.UNINITIALIZED, S.READY, S.FATAL},
        S.READY: {S.IN_TRANSACTION, S.FATAL},
        S.IN_TRANSACTION: {S.COMMITTING, S.ABORTABLE_ERROR, S.ABORTING, S.FATAL},
        S.COMMITTING: {S.READY, S.ABORTABLE_ERROR, S.FATAL},
        S.ABORTABLE_ERROR: {S.ABORTING, S.FATAL},
        S.ABORTING: {S.READY, S.ABORTABLE_ERROR, S.FATAL},
        S.FATAL: set(),
    },
    {
        S.UNINITIALIZED: "init_transactions has not been called, or may be called again after an error",
        S.INITIALIZING: "InitProducerId has to be sent, or is in flight: it fences older producers and ends their transaction",
        S.READY: "no transaction is open",
        S.IN_TRANSACTION: "records are accepted and sent",
        S.COMMITTING: "no more records are accepted; EndTxn follows when all are acknowledged",
        S.ABORTABLE_ERROR: "after an error: unsent records fail, and the transaction can only be aborted",
        S.ABORTING: "unsent records fail; EndTxn follows when nothing is in flight",
        S.FATAL: "fenced, or refused for good: every record fails",
    },
)
OPEN: Final = {S.IN_TRANSACTION, S.COMMITTING, S.ABORTABLE_ERROR, S.ABORTING}


class TransactionRecords(Protocol):
    """The records of the producer: the part of the sender that the transactions use."""

    def settled(self) -> bool:
        """Whether every record has its outcome and no Produce request is in flight.

        A request to a replaced leader is ignored if its records are acknowledged: the old leader cannot append them.
        """

    def renumber(self, producer_id: int, epoch: int) -> bool:
        """Whether a queue cannot continue its numbering in this epoch (`PartitionQueue.stale`)."""

    def dropped(self) -> int:
        """The number of records that a policy has dropped so far."""

    def set_refusal(self, refusal: KafkaError | None) -> None:
        """Make `send` raise `refusal` from now on, or, if None, accept records."""

    def expedite(self) -> None:
        """Make all open batches due now."""

    def fail_unsent(self, now: float, reason: KafkaError) -> tuple[int, int] | None:
        """Fail the records that are not in flight; return the numbers of failed records before and after, or None if all are in flight."""

    def place(self) -> None:
        """Place all queues: those that were not allowed to send may send now."""


class Transactions:
    def __init__(
        self, config: ProducerConfig, network: Network, cluster: Cluster, random: Random, outbox: Outbox, records: TransactionRecords
    ) -> None:
        assert config.transactional_id is not None
        self.config, self.id = config, config.transactional_id
        self.state = S.UNINITIALIZED
        self.fatal: KafkaError | None = None
        self.version_2 = False
        self.producer_id = self.epoch = -1
        self._network, self._random, self._outbox, self._records = network, random, outbox, records
        self.coordinator = Coordinator(config, network, cluster, TRANSACTIONAL_ID, self.id, random, outbox, self)
        self._offsets = OffsetsInTransaction(self, network, cluster, random, outbox)
        self._why: KafkaError = TransactionAborted(f"{self.id}: the transaction was aborted")  # the error of the records that `_poll` fails
        self._now = 0.0  # the time of the last poll
        self._begun_at = 0.0
        self.given_up: list[tuple[int, int]] = []  # ranges of `Ledger.failures_seen`: the records that `_poll` has failed
        self._dropped = 0  # number of records that were dropped before this transaction
        self._done: Done | None = None  # the callback of the running init, commit or abort
        self._waiters: list[Callable[[], None]] = []  # called when no transaction is open
        self._renewing: Callable[[], None] | None = None  # called when the next epoch has arrived; None: no epoch is requested
        self._started = False  # the coordinator knows, or may know, of this transaction
        self._certain = False  # the coordinator certainly knows of this transaction
        self._unanswered = 0  # number of requests of this transaction, other than Produce, that may still be executed
        self._commits_sent = 0  # number of EndTxn requests that may have committed this transaction
        self._added: set[TopicPartition] = set()
        self._to_add: dict[TopicPartition, None] = {}
        self._init = self._end = self.call(self._init_message, self._initialized)
        self._joining = JoinBackoff(config, random)
        self._add = self.call(self._add_message, self._partitions_added, BEFORE_VERSION_2["AddPartitionsToTxn"], self._joining)

    def call(
        self,
        message: Callable[[], Any],
        answered: Callable[[float, Outcome], Verdict],
        highest: int | None = None,
        backoff: Backoff | None = None,
    ) -> Call:
        backoff = backoff or Backoff.retry(self.config, self._random)
        timeout = self.config.request_timeout_ms / 1000
        return Call(self.coordinator, backoff, timeout, message, answered, lambda now, error: self._refused(error), highest)

    # ---------------------------------------------------------------- calls of the application

    def init(self, now: float, done: Done) -> None:
        """Request a producer id. The coordinator first ends the transaction of an earlier producer with this transactional id."""
        self._check("init_transactions", S.UNINITIALIZED, "init_transactions is called once, before the first transaction")
        self._move(S.INITIALIZING, done)
        self._init = self.call(self._init_message, self._initialized)
        self._look_at_version()

    def begin(self, now: float) -> None:
        self._check("begin_transaction", S.READY, "a transaction is open; commit or abort it first")
        had_version_2 = self.version_2
        self._look_at_version()
        self._begun_at, self._dropped = now, self._records.dropped()
        self._started = self._certain = False
        self._unanswered = self._commits_sent = 0
        self._added.clear()
        self._to_add.clear()
        self.given_up.clear()
        self._move(S.IN_TRANSACTION, None)
        if self.version_2 and not had_version_2 and self._renewing is None:
            self._renew(self._records.place)  # in the same epoch, brokers would add a late batch of version 1 to this transaction
        if self.fatal is not None:
            raise self.fatal.again()
        self._records.set_refusal(None)

    def commit(self, now: float, done: Done) -> None:
        """Commit as soon as every record is acknowledged. `done` gets None, or the error.

        After an error the transaction must be aborted, unless the error ended the producer.
        """
        self._check("commit_transaction", S.IN_TRANSACTION, "no transaction is open; call begin_transaction first")
        # Refuse records before the counters are read. In the other order: all records are acknowledged, `send` on another thread accepts
        # one more, and the commit is sent without it.
        self._refuse_records("commit_transaction has been called; call begin_transaction before the next record")
        self._move(S.COMMITTING, done)
        self._end = self.call(self._end_message, self._ended, None if self.version_2 else BEFORE_VERSION_2["EndTxn"])
        if dropped := self._records.dropped() - self._dropped:
            self._must_abort(KafkaError(f"{dropped} of its records {'was' if dropped == 1 else 'were'} dropped; stats() says why"))
        self._records.expedite()

    def abort(self, now: float, done: Done, why: KafkaError | None = None) -> None:
        """Fail the unsent records, wait for the requests in flight, then send EndTxn if the coordinator may know of the transaction.

        `why` is the error of records that fail here, unless an earlier error has made the abort necessary.
        """
        if self.state is not S.ABORTABLE_ERROR:
            self._check("abort_transaction", S.IN_TRANSACTION, "no transaction is open; call begin_transaction first")
            self._why = why or TransactionAborted(f"{self.id}: the transaction was aborted before this record was written")
        self._refuse_records("abort_transaction has been called; call begin_transaction before the next record")
        self._move(S.ABORTING, done)
        self._to_add.clear()
        self._offsets.stop(self._why)
        self._end = self.call(self._end_message, self._ended, None if self.version_2 else BEFORE_VERSION_2["EndTxn"])

    def send_offsets(self, now: float, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: Group, done: Done) -> None:
        self._check("send_offsets_to_transaction", S.IN_TRANSACTION, "no transaction is open; call begin_transaction first")
        self._offsets.add(offsets, group, done)

    def leave(self, now: float, why: KafkaError, then: Callable[[], None]) -> None:
        """Abort the open transaction unless it is already ending; call `then` when no transaction is open."""
        if self.state in (S.IN_TRANSACTION, S.ABORTABLE_ERROR):
            self.abort(now, _ignore, why)
        self._waiters.append(then)
        self._tell_waiters()

    @property
    def trouble(self) -> KafkaError | None:
        """An error of a request to the coordinator, or else of the search for the coordinator."""
        calls = (self._init, self._add, self._end)
        return next((call.last_error for call in calls if call.last_error is not None), None) or self.coordinator.last_error

    # ---------------------------------------------------------------- calls of the sender

    @property
    def produce_version(self) -> int | None:
        """The highest version of Produce; None: any. With a higher version brokers would add partitions themselves."""
        return None if self.version_2 else BEFORE_VERSION_2["Produce"]

    def may_number(self, queue: PartitionQueue) -> bool:
        """Whether the next batch of `queue` may be sent now. With transactions, a queue never raises its epoch itself."""
        if self.state not in (S.IN_TRANSACTION, S.COMMITTING) or self._renewing is not None:
            return False
        if (queue.producer_id, queue.epoch) != (self.producer_id, self.epoch):
            queue.begin_epoch(self.producer_id, self.epoch)
        elif queue.stale:
            self.record_failed(KafkaError(f"{queue.tp}: the broker's state of this transaction is lost"))
            return False
        if self.version_2:
            self._started = True
            return True
        if queue.tp in self._added:
            return True
        self._to_add[queue.tp] = None
        return False

    def keeps(self, queue: PartitionQueue) -> bool:
        """Whether brokers expect the numbering of `queue` to continue."""
        return (queue.producer_id, queue.epoch) == (self.producer_id, self.epoch)

    def record_failed(self, error: BaseException) -> None:
        """Prevent the commit because of `error`; end the producer if the error is fatal."""
        if isinstance(error, BrokerError) and error.code.fatal:
            self._end_producer(error)
        elif self.state in (S.IN_TRANSACTION, S.COMMITTING):
            self._must_abort(error)

    def poll(self, now: float) -> float:
        self._now = now
        due = self._poll(now)
        return due if self.state in (S.UNINITIALIZED, S.FATAL) else min(due, self.coordinator.poll(now))

    def _poll(self, now: float) -> float:
        if self.state in (S.UNINITIALIZED, S.FATAL):
            return INFINITY
        if self.state is S.INITIALIZING or self._renewing is not None:
            return self._init.poll(now, self._outbox)
        if self.state is S.READY:
            return INFINITY
        if self.state in (S.ABORTABLE_ERROR, S.ABORTING):
            given_up = self._records.fail_unsent(now, self._why)
            if given_up is not None and given_up[0] < given_up[1]:
                self.given_up.append(given_up)
        due = self._offsets.poll(now)
        if self._to_add:
            due = min(due, self._add_partitions(now))
        if self.state in (S.COMMITTING, S.ABORTING) and self._records.settled() and not self._offsets.busy and not self._adding:
            due = min(due, self._finish(now))
        return due

    def _finish(self, now: float) -> float:
        if self._started:
            return self._end.poll(now, self._outbox)
        self._complete()  # no record or offset was sent: the coordinator does not know of this transaction
        return INFINITY

    # ---------------------------------------------------------------- states

    def _check(self, what: str, expected: S, otherwise: str) -> None:
        if self.state is expected:
            return
        if self.fatal is not None:
            raise self.fatal.again()
        if self.state is S.UNINITIALIZED:
            otherwise = INIT_FIRST
        if self.state is S.ABORTABLE_ERROR and expected is S.IN_TRANSACTION:
            raise self._why.again()
        # Not TransactionAborted: an application that begins again after that error without an abort would repeat this forever.
        if self.state is S.ABORTABLE_ERROR and expected is S.READY:
            otherwise = f"call abort_transaction first ({self._why})"
        raise TransactionError(f"{what}: {self.id}: {otherwise}")

    def _move(self, to: S, done: Done | None) -> None:
        self.state = TABLE.move(self.state, to)
        self._done = done

    def _refuse_records(self, why: str) -> None:
        self._records.set_refusal(TransactionError(f"{self.id}: {why}"))

    def _resolve(self, error: KafkaError | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(error)

    def _complete(self) -> None:
        log.info("%s: %s: transaction ended (%s)", self.config.client_id, self.id, self.state.value, transactional_id=self.id)
        self.state = TABLE.move(self.state, S.READY)
        self._refuse_records("no transaction is open; call begin_transaction first")
        self._resolve(None)
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        if self.state not in OPEN:
            waiters, self._waiters = self._waiters, []
            for then in waiters:
                then()

    def _must_abort(self, error: BaseException) -> None:
        """From now on, allow only an abort; fail the running commit or abort."""
        if self.state in (S.ABORTABLE_ERROR, S.FATAL):
            return
        self._why = self._or_committed(caused_by(TransactionAborted(f"{self.id}: the transaction must be aborted: {error}"), error))
        log.warning("%s: %s", self.config.client_id, self._why, transactional_id=self.id)
        self.state = TABLE.move(self.state, S.ABORTABLE_ERROR)
        self._records.set_refusal(self._why)
        self._to_add.clear()
        self._offsets.stop(self._why)
        self._resolve(self._why)

    def coordinator_refused(self, coordinator: Coordinator, error: KafkaError) -> None:
        self._end_producer(error)

    def client_refused(self, error: KafkaError) -> None:
        """Fail a running initialization with the reason why the whole cluster refuses this client."""
        if self.state is S.INITIALIZING:
            self._end_producer(error)

    def _end_producer(self, error: KafkaError) -> None:
        """End the producer for good, unless `error` denies the initialization, which may be repeated."""
        if self.state is S.INITIALIZING and isinstance(error, AuthorizationError | AuthenticationError):  # nothing has begun yet
            self.state = TABLE.move(self.state, S.UNINITIALIZED)
            self._resolve(error)
            return
        if self.state is S.FATAL:
            return
        fenced = isinstance(error, BrokerError) and error.code.name in ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
        self.fatal = self._or_committed(self._fenced() if fenced else error)
        log.warning("%s: %s", self.config.client_id, self.fatal, transactional_id=self.id)
        self.state = TABLE.move(self.state, S.FATAL)
        self._offsets.fail(self.fatal)
        self._resolve(self.fatal)
        self._tell_waiters()

    def _or_committed(self, error: E) -> E:
        """Return `error`, or, if the commit was sent, a copy that says that the transaction may have been committed."""
        if not self._commits_sent or self.state not in OPEN:
            return error
        told = error.again()
        told.args = (f"{error}; {MAYBE_COMMITTED}",)
        return told

    def _fenced(self) -> ProducerFencedError:
        limit = int(self.config.transaction_timeout_ms)
        late = self._now - self._begun_at >= limit / 1000 and self.state in OPEN
        hint = f", or the coordinator aborted the transaction after transaction_timeout_ms={limit}" if late else ""
        return ProducerFencedError.of_id(self.id, hint)

    def _refused(self, error: KafkaError) -> None:
        meaning = meaning_of(error)
        if meaning is ErrorMeaning.ABORT and self.state is S.INITIALIZING:  # nothing has begun yet: the next init_transactions may succeed
            self.state = TABLE.move(self.state, S.UNINITIALIZED)
            self._resolve(error)
        elif meaning is ErrorMeaning.ABORT and self.state is S.READY:
            pass  # the request for the next epoch is sent again: there is no transaction to abort
        elif meaning is ErrorMeaning.ABORT and self.state in OPEN:
            self._must_abort(error)
        elif isinstance(error, BrokerError) and error.code.name == "INVALID_TRANSACTION_TIMEOUT":
            limit = int(self.config.transaction_timeout_ms)
            why = f"transaction_timeout_ms={limit} is larger than the brokers' transaction.max.timeout.ms; use a lower one"
            self._end_producer(ConfigError(f"{self.id}: {why}"))
        else:
            self._end_producer(error)

    # ---------------------------------------------------------------- InitProducerId

    def _look_at_version(self) -> None:
        level = self._network.feature(FEATURE)
        if level is not None:
            self.version_2 = level >= 2

    @property
    def _can_renew(self) -> bool:
        node = self.coordinator.node
        return node is None or (self._network.version(node, InitProducerIdRequest.api_key) or RENEWS_FROM) >= RENEWS_FROM

    def _renew(self, then: Callable[[], None]) -> None:
        """Request the next epoch of this producer id (KIP-360): brokers then refuse late requests of the current epoch."""
        if not self._can_renew:
            why = f"{self.id}: the producer needs another epoch, which brokers before Kafka 2.5 do not give; create a new producer"
            self._end_producer(UnsupportedVersion(why))
            return
        self._renewing = then
        self._init = self.call(self._init_message, self._initialized)

    def _init_message(self) -> Any:
        if self._renewing is None:
            return init_request(self.config, -1, -1)
        return init_request(self.config, self.producer_id, self.epoch)

    def _initialized(self, now: float, outcome: Outcome) -> Verdict:
        if (verdict := self._verdict(outcome, "InitProducerId")) is not None:
            return verdict
        assert not isinstance(outcome, Failed)
        self.producer_id, self.epoch = outcome.message.producer_id, outcome.message.producer_epoch
        self.coordinator.well()
        then, self._renewing = self._renewing, None
        if then is not None:
            then()
            return None
        where = self.config.client_id
        log.info("%s: %s: producer id %d, epoch %d", where, self.id, self.producer_id, self.epoch, transactional_id=self.id)
        self._look_at_version()
        self._complete()
        return None

    def _verdict(self, outcome: Outcome, request: str) -> Verdict:
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        return self.judge(outcome.message.error_code, request)

    def judge(self, code: int, request: str, *, topic: str = "", group: str = "") -> Verdict:
        """The verdict on an error code of a coordinator; None if `code` is 0."""
        if not code:
            return None
        error = broker_error(code, f"{request} of {self.id}", None, request, topic=topic, group=group, transactional_id=self.id)
        if request == "AddPartitionsToTxn" and meaning_of(error) is ErrorMeaning.FATAL and error.code.name not in ENDS_ADDING:
            reason = TransactionAborted(f"{error}: {topic} cannot be part of this transaction")
            return Next.GIVE_UP, caused_by(reason, error)
        then = {ErrorMeaning.RETRY: Next.RETRY, ErrorMeaning.REFIND: Next.ELSEWHERE}
        return then.get(meaning_of(error), Next.GIVE_UP), error

    # ---------------------------------------------------------------- AddPartitionsToTxn

    @property
    def _adding(self) -> bool:
        return self._add.in_flight

    def _add_partitions(self, now: float) -> float:
        if not self._add.in_flight and not self._add.last_error:
            self._add.start_over()
        return self._add.poll(now, self._outbox)

    def _add_message(self) -> Any:
        return add_partitions_request(self.id, self.producer_id, self.epoch, self._to_add)

    def _partitions_added(self, now: float, outcome: Outcome) -> Verdict:
        ending = self.state not in (S.IN_TRANSACTION, S.COMMITTING)
        if isinstance(outcome, Failed):
            if outcome.written is Written.MAYBE:
                self.note_started(certain=False)
                self.note_unanswered()
            return None if ending else unanswered(outcome)
        self.coordinator.well()
        self._joining.soon = False
        worst: Verdict = None
        for topic in outcome.message.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                code = result.partition_error_code
                self._joining.soon = self._joining.soon or (code == CONCURRENT and not self._added)
                verdict = self.judge(code, "AddPartitionsToTxn", topic=topic.name)
                if verdict is None:
                    self._started = self._certain = True
                    self._added.add(tp := TopicPartition(topic.name, result.partition_index))
                    self._to_add.pop(tp, None)
                elif worst is None or (verdict[0] is Next.GIVE_UP and code != NOT_ATTEMPTED):
                    worst = verdict
        if ending:
            return (
                worst if worst is not None and meaning_of(worst[1]) is ErrorMeaning.FATAL else None
            )  # other errors do not matter in an abort
        self._records.place()
        if worst is None:
            self._add.reset()
        return worst

    # ---------------------------------------------------------------- EndTxn

    def _end_message(self) -> Any:
        self._unanswered += 1
        self._commits_sent += self.state is S.COMMITTING
        return end_request(self.id, self.producer_id, self.epoch, self.state is S.COMMITTING)

    def _ended(self, now: float, outcome: Outcome) -> Verdict:
        if not isinstance(outcome, Failed) or outcome.written is Written.NO:
            self._unanswered -= 1
        if isinstance(outcome, Failed) and outcome.written is Written.NO and self.state is S.COMMITTING:
            self._commits_sent -= 1
        verdict = self._verdict(outcome, "EndTxn")
        if verdict is not None and not self._is_nothing_to_abort(verdict[1]):
            return verdict
        assert not isinstance(outcome, Failed)
        self.coordinator.well()
        if self.version_2 and outcome.message.producer_id >= 0 and verdict is None:
            self.producer_id, self.epoch = outcome.message.producer_id, outcome.message.producer_epoch
            self._complete()
        elif not self._records.renumber(self.producer_id, self.epoch) and not (self._unanswered and self._can_renew):
            self._complete()
        elif self.state is S.ABORTING:
            self._renew(self._complete)
        else:  # committed, even if the request for the next epoch fails; in this epoch a late request would join the next transaction
            self._complete()
            self._renew(self._records.place)
        return None

    def _is_nothing_to_abort(self, error: KafkaError) -> bool:
        """Whether the coordinator has no transaction: the requests that would have begun it may have been lost."""
        unknown = isinstance(error, BrokerError) and error.code.name == "INVALID_TXN_STATE"
        return unknown and self.state is S.ABORTING and not self._certain and not self._commits_sent

    def note_started(self, certain: bool) -> None:
        """Record that the coordinator knows of the transaction, or, if not `certain`, may know of it."""
        self._started, self._certain = True, self._certain or certain

    def note_unanswered(self) -> None:
        """Count a request that may still be executed: in the same epoch, it would begin the next transaction, or store its offsets
        there."""
        self._unanswered += 1

    def need_abort(self, error: KafkaError) -> None:
        """Allow only an abort, or end the producer: offsets cannot be stored."""
        if isinstance(error, UnsupportedVersion) and self.state in OPEN:  # before Kafka 2.5 the group's member cannot be named (KIP-447)
            self._must_abort(error)
        else:
            self._refused(error)


class JoinBackoff(Backoff):
    """The pauses of AddPartitionsToTxn. `soon`: the previous transaction is still being completed, and this one has no partition yet."""

    __slots__ = ("_soon", "soon")

    def __init__(self, config: ProducerConfig, random: Random) -> None:
        longest = config.retry_backoff_max_ms / 1000
        super().__init__(config.retry_backoff_ms / 1000, longest, random)
        self._soon, self.soon = Backoff(SOON_S, longest, random), False

    def next(self) -> float:
        return self._soon.next() if self.soon else super().next()

    def reset(self) -> None:
        super().reset()
        self._soon.reset()


NOT_ATTEMPTED: Final = BY_NAME["OPERATION_NOT_ATTEMPTED"].code
CONCURRENT: Final = BY_NAME["CONCURRENT_TRANSACTIONS"].code


def _ignore(error: KafkaError | None) -> None:
    """No caller waits for this abort."""
