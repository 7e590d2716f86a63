"""Gives out producer ids and epochs, and begins and ends transactions, as transaction coordinators do.

Invariant: a transactional id has at most one coordinator, and its state moves with the coordinator. Methods that serve requests return the
name of an error, or None. They do not check that a request has come to the coordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from pykafka4.records import TopicPartition
from pykafka4.testing.broker import Brokers
from pykafka4.testing.placement import Placement
from pykafka4.testing.storage.transactions import Marker
from pykafka4.testing.timeline import NEVER, Timeline
from pykafka4.testing.transactions.markers import Ending, MarkerWriter
from pykafka4.testing.transactions.transaction import MAX_EPOCH, Transaction
from pykafka4.testing.transactions.transaction import TransactionState as S
from pykafka4.wire.records.batch import ControlType

__all__ = ["TransactionCoordinators"]

MAX_TIMEOUT_S: Final = 900.0  # seconds: transaction.max.timeout.ms
MARKER_RETRY_S: Final = 0.05  # seconds until markers are written again
OVER: Final = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}


class TransactionCoordinators:
    def __init__(
        self, brokers: Brokers, timeline: Timeline, random: Random, new_producer_id: Callable[[], int], markers: MarkerWriter
    ) -> None:
        self._brokers, self._timeline, self._new_producer_id, self._markers = brokers, timeline, new_producer_id, markers
        self.placement = Placement(brokers, timeline, random)
        self.transactions: dict[str, Transaction] = {}
        self.marker_delay = 0.0  # seconds from the end of a transaction to its markers
        # called when a transaction's outcome is decided: (transactional id, producer id, epoch of its records, whether it is committed)
        self.on_decided: list[Callable[[str, int, int, bool], None]] = []

    def coordinator_of(self, transactional_id: str) -> int | None:
        return self.placement.coordinator_of(transactional_id)

    def move(self, transactional_id: str, to: int | None = None, *, loading: float = 0.0) -> int:
        return self.placement.move(transactional_id, to, loading=loading)

    def serves(self, transactional_id: str) -> bool:
        node = self.coordinator_of(transactional_id)
        return node is not None and self._brokers[node].running(self._timeline.now) and not self.placement.loading(transactional_id)

    # ---- InitProducerId

    def begin(self, transactional_id: str, timeout: float, expected: tuple[int, int] | None) -> str | None:
        """Give a producer id and an epoch to a new producer, or to the producer with the id and epoch `expected`."""
        if not 0 < timeout <= MAX_TIMEOUT_S:
            return "INVALID_TRANSACTION_TIMEOUT"
        known = self.transactions.get(transactional_id)
        if known is None:
            known = self.transactions[transactional_id] = Transaction(transactional_id, self._new_producer_id())
        if not known.may_begin(expected):
            return "PRODUCER_FENCED"
        if known.completing:
            return "CONCURRENT_TRANSACTIONS"
        if known.state is S.ONGOING:
            if expected is not None and expected[1] != known.epoch:
                return "PRODUCER_FENCED"
            self._fence(known)
            return "CONCURRENT_TRANSACTIONS"
        expected_epoch = None if expected is None else expected[1]
        if known.exhausted and expected_epoch in (None, known.epoch):
            known.rotate(self._new_producer_id(), keep=expected is not None)
        elif refused := known.next_epoch(expected_epoch):
            return refused
        known.timeout = timeout
        known.move(S.EMPTY)
        return None

    # ---- partitions and groups of a transaction

    def find(self, transactional_id: str, producer_id: int, epoch: int) -> tuple[Transaction | None, str | None]:
        """(transaction, error) for a request about the current transaction."""
        known = self.transactions.get(transactional_id)
        if known is None:
            return None, "INVALID_PRODUCER_ID_MAPPING"
        return known, known.refusal(producer_id, epoch)

    def add(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[TopicPartition] = (), groups: Iterable[str] = ()
    ) -> str | None:
        """The transaction begins with its first partition or group."""
        known, refused = self.find(transactional_id, producer_id, epoch)
        if known is None or refused:
            return refused
        if known.state is not S.ONGOING:
            known.move(S.ONGOING)
            known.partitions, known.groups = {}, {}
            known.deadline = self._timeline.after(known.timeout, lambda: self._fence(known))
        known.partitions.update(dict.fromkeys(partitions))
        known.groups.update(dict.fromkeys(groups))
        return None

    def verify(
        self, transactional_id: str, producer_id: int, epoch: int, partition: TopicPartition | None = None, group: str | None = None
    ) -> str | None:
        """INVALID_TXN_STATE if the partition or group was not added to the transaction; the errors of `find`; otherwise None."""
        known, refused = self.find(transactional_id, producer_id, epoch)
        if known is None or refused:
            return refused
        added = known.state is S.ONGOING and (partition in known.partitions or group in known.groups)
        return None if added else "INVALID_TXN_STATE"

    # ---- EndTxn

    def end(self, transactional_id: str, producer_id: int, epoch: int, *, committed: bool) -> str | None:
        """End the transaction without a new epoch, as with `transaction.version` 0 and 1."""
        known = self.transactions.get(transactional_id)
        if known is None or known.producer_id != producer_id:
            return "INVALID_PRODUCER_ID_MAPPING"
        if epoch != known.epoch:
            return "PRODUCER_FENCED"
        if known.state is S.ONGOING:
            self._decide(known, committed, known.epoch)
            return None
        return self._repeated(known, committed)

    def end_and_raise(self, transactional_id: str, producer_id: int, epoch: int, *, committed: bool) -> str | None:
        """End the transaction and begin the next epoch, as with `transaction.version` 2 (KIP-890)."""
        known = self.transactions.get(transactional_id)
        repeated = known is not None and known.ended_for(producer_id, epoch)
        if known is None or (known.producer_id != producer_id and not repeated):
            return "INVALID_PRODUCER_ID_MAPPING"
        if repeated and known.state not in (S.EMPTY, S.ONGOING):
            return self._repeated(known, committed)
        if epoch != known.epoch or known.completing:
            return "PRODUCER_FENCED"
        if known.state is not S.ONGOING:
            if committed:
                return "INVALID_TXN_STATE"
            known.partitions, known.groups = {}, {}
        marker_epoch = known.epoch + 1
        writer = known.producer_id
        if marker_epoch >= MAX_EPOCH:
            known.rotate(self._new_producer_id(), keep=True)
        else:
            known.next_epoch(known.epoch)
        self._decide(known, committed, marker_epoch, writer, epoch)
        return None

    def _repeated(self, known: Transaction, committed: bool) -> str | None:
        """The error of a repeated EndTxn; None if the transaction was completed with the same outcome."""
        if known.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT):
            return None
        same = known.state is (S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
        return "CONCURRENT_TRANSACTIONS" if same else "INVALID_TXN_STATE"

    def _fence(self, known: Transaction) -> None:
        """Abort the ongoing transaction, after its timeout or for an InitProducerId, and fence the producer."""
        before = known.epoch
        known.fence()
        self._decide(known, False, known.epoch, known.producer_id, before)

    def _decide(self, known: Transaction, committed: bool, marker_epoch: int, writer: int | None = None, epoch: int | None = None) -> None:
        """The outcome never changes from here on.

        `writer` and `epoch` are the producer id and epoch of the transaction's records, by default the current ones.
        """
        known.deadline.cancel()
        known.deadline = NEVER
        known.move(S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
        writer = known.producer_id if writer is None else writer
        for watch in self.on_decided:
            watch(known.id, writer, known.epoch if epoch is None else epoch, committed)
        marker = Marker(writer, marker_epoch, ControlType.COMMIT if committed else ControlType.ABORT)
        ending = self._markers.begin(marker, known.partitions, known.groups)
        if self.marker_delay > 0:
            self._timeline.after(self.marker_delay, lambda: self._complete(known, ending))
        else:
            self._complete(known, ending)

    def _complete(self, known: Transaction, ending: Ending) -> None:
        if self.serves(known.id):
            self._markers.write(ending)
            if ending.done:
                known.partitions, known.groups = {}, {}
                known.move(S.COMPLETE_COMMIT if known.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT)
                return
        self._timeline.after(MARKER_RETRY_S, lambda: self._complete(known, ending))

    def heal(self) -> None:
        self.placement.heal()
        self.marker_delay = 0.0
