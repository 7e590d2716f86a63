"""Stores offsets of consumer groups in a transaction. Invariant: EndTxn commits only after every given offset is stored.

The coordinator of the transactional id adds the group (AddOffsetsToTxn, up to transaction.version 1), then the coordinator of the group
stores the offsets (TxnOffsetCommit), which take effect with the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Protocol, TypeAlias

import attrs

from pykafka4.core import INFINITY, Failed, Outcome
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.coordinators import GROUP, Coordinator
from pykafka4.core.network.call import Call, Next, Verdict, unanswered
from pykafka4.core.network.network import Network
from pykafka4.core.outbox import Outbox
from pykafka4.core.producer.transactions.requests import BEFORE_VERSION_2, OFFSETS_BY_NAME, offsets_request
from pykafka4.errors import KafkaError
from pykafka4.options.config import ProducerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition, Written
from pykafka4.wire.protocol.messages_txn import AddOffsetsToTxnRequest

__all__ = ["Group", "OffsetsInTransaction"]

Group: TypeAlias = tuple[str, int, str, str | None]  # group id, generation, member id, instance id


class OpenTransaction(Protocol):
    """The part of `Transactions` that its offsets use."""

    config: ProducerConfig
    id: str
    producer_id: int
    epoch: int
    version_2: bool

    def call(self, message: Callable[[], Any], answered: Callable[[float, Outcome], Verdict]) -> Call:
        """A call to the coordinator of the transactional id."""

    def judge(self, code: int, request: str, *, topic: str = "", group: str = "") -> Verdict:
        """The verdict on an error code; None if `code` is 0."""

    def note_started(self, certain: bool) -> None:
        """Record that the coordinator knows of the transaction, or, if not `certain`, may know of it."""

    def note_unanswered(self) -> None:
        """Count a request that may still be executed."""

    def need_abort(self, error: KafkaError) -> None:
        """Allow only an abort, or end the producer: offsets cannot be stored."""


@attrs.define(eq=False)
class GivenOffsets:
    """The offsets of one `send_offsets`."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    group: Group
    done: Callable[[KafkaError | None], None]
    call: Call
    stopped: bool = False  # the transaction aborts: only the response to the request in flight has to arrive


class OffsetsInTransaction:
    """Stores the offsets of each `send_offsets`, one call after another. Implements `CoordinatorUser`."""

    __slots__ = ("_cluster", "_given", "_groups", "_network", "_outbox", "_random", "_transaction")

    def __init__(self, transaction: OpenTransaction, network: Network, cluster: Cluster, random: Random, outbox: Outbox) -> None:
        self._transaction, self._network, self._cluster, self._random, self._outbox = transaction, network, cluster, random, outbox
        self._given: list[GivenOffsets] = []
        self._groups: dict[str, Coordinator] = {}

    @property
    def busy(self) -> bool:
        """Whether offsets are not stored yet, or a request of a stopped call is in flight."""
        return bool(self._given)

    def add(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: Group, done: Callable[[KafkaError | None], None]) -> None:
        """`done` gets None, or the error."""
        if not offsets:
            done(None)
            return
        given = GivenOffsets(dict(offsets), group, done, self._transaction.call(_nothing, _never))
        self._given.append(given)
        if self._transaction.version_2:
            self._commit(given)
        else:
            given.call = self._transaction.call(lambda: self._add_message(given), lambda now, outcome: self._added(given, outcome))

    def stop(self, reason: KafkaError) -> None:
        """Fail all calls, because the transaction aborts. EndTxn still waits for the request in flight.

        Otherwise that request might arrive after the abort, and begin a transaction that no EndTxn ends.
        """
        for given in self._given:
            given.stopped = True
            done, given.done = given.done, _nobody
            done(reason)
        self._given = [given for given in self._given if given.call.in_flight]

    def fail(self, reason: KafkaError) -> None:
        given, self._given = self._given, []
        for each in given:
            each.done(reason)

    def poll(self, now: float) -> float:
        if not self._given:
            return INFINITY
        given = self._given[0]
        due = INFINITY if given.stopped else given.call.poll(now, self._outbox)
        found = self._groups.get(given.group[0])
        return due if found is None else min(due, found.poll(now))

    def _over(self, given: GivenOffsets, error: KafkaError | None = None) -> None:
        if given in self._given:
            self._given.remove(given)
        done, given.done = given.done, _nobody
        done(error)

    # ---------------------------------------------------------------- AddOffsetsToTxn

    def _add_message(self, given: GivenOffsets) -> Any:
        mine = self._transaction
        return AddOffsetsToTxnRequest(
            transactional_id=mine.id, producer_id=mine.producer_id, producer_epoch=mine.epoch, group_id=given.group[0]
        )

    def _added(self, given: GivenOffsets, outcome: Outcome) -> Verdict:
        if isinstance(outcome, Failed):
            if outcome.written is Written.MAYBE:
                self._transaction.note_started(certain=False)
                self._transaction.note_unanswered()
            verdict = unanswered(outcome)
        else:
            verdict = self._transaction.judge(outcome.message.error_code, "AddOffsetsToTxn", group=given.group[0])
            if verdict is None:
                self._transaction.note_started(certain=True)
        if given.stopped:
            self._over(given)
            return None
        if verdict is None:
            self._commit(given)
        return verdict

    # ---------------------------------------------------------------- TxnOffsetCommit

    def _commit(self, given: GivenOffsets) -> None:
        mine, config = self._transaction, self._transaction.config
        name = given.group[0]
        if name not in self._groups:
            self._groups[name] = Coordinator(config, self._network, self._cluster, GROUP, name, self._random, self._outbox, self)
        given.call = Call(
            self._groups[name],
            Backoff.retry(config, self._random),
            config.request_timeout_ms / 1000,
            lambda: offsets_request(mine.id, mine.producer_id, mine.epoch, given.group, given.offsets),
            lambda now, outcome: self._committed(given, outcome),
            lambda now, error: mine.need_abort(error),
            OFFSETS_BY_NAME if mine.version_2 else BEFORE_VERSION_2["TxnOffsetCommit"],
        )

    def coordinator_refused(self, coordinator: Coordinator, error: KafkaError) -> None:
        if any(self._groups.get(given.group[0]) is coordinator for given in self._given):
            self._transaction.need_abort(error)

    def _committed(self, given: GivenOffsets, outcome: Outcome) -> Verdict:
        self._transaction.note_started(certain=not isinstance(outcome, Failed) and not self._transaction.version_2)
        if isinstance(outcome, Failed) and outcome.written is Written.MAYBE:
            self._transaction.note_unanswered()
        if given.stopped:
            self._over(given)
            return None
        if isinstance(outcome, Failed):
            return unanswered(outcome)
        self._groups[given.group[0]].well()
        worst: Verdict = None
        for topic in outcome.message.topics:
            for result in topic.partitions:
                group = given.group[0]
                verdict = self._transaction.judge(result.error_code, "TxnOffsetCommit", topic=topic.name, group=group)
                if verdict is None:
                    given.offsets.pop(TopicPartition(topic.name, result.partition_index), None)
                elif worst is None or verdict[0] is Next.GIVE_UP:
                    worst = verdict
        if worst is not None:
            return worst
        if given.offsets:
            return Next.RETRY, KafkaError(f"the response to TxnOffsetCommit lacks {', '.join(map(str, given.offsets))}")
        self._over(given)
        return None


def _nothing() -> Any:
    raise AssertionError("this call is replaced before it is used")


def _never(now: float, outcome: Outcome) -> Verdict:
    raise AssertionError("this call is replaced before it is used")


def _nobody(error: KafkaError | None) -> None:
    """The caller has an outcome already."""
