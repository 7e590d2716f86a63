"""Describes producers and transactions, and aborts hanging transactions.

Invariant: an abort that bypasses the coordinator ends only the transaction of one producer in one partition.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import attrs

from pykafka4.admin.calls import AdminCalls, require_all_done, value_or_raise
from pykafka4.admin.replicas import as_partitions
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.broker_choices import NumberedBrokerChoice
from pykafka4.core.admin.offsets import CountPartitions
from pykafka4.core.admin.producers import (
    AbortTransaction,
    ActiveProducer,
    DescribeProducers,
    DescribeTransactions,
    ListTransactions,
    TransactionDescription,
    TransactionFilter,
    TransactionListing,
)
from pykafka4.errors import ConfigError, KafkaError, PartialFailure, shown
from pykafka4.misuse import check_count, check_topic, topic_partition
from pykafka4.records import TopicPartition

__all__ = ["HangingTransaction", "TransactionCalls", "TransactionList"]

MAX_TRANSACTION_S: Final = 900.0  # the default of `transaction.max.timeout.ms`
NOT_FOUND: Final = "TRANSACTIONAL_ID_NOT_FOUND"


@attrs.frozen
class TransactionList:
    """The transactional ids of a cluster, sorted. `errors` has the brokers that returned no list: their ids might be missing."""

    transactions: tuple[TransactionListing, ...]
    errors: Mapping[int, KafkaError]

    def __iter__(self) -> Iterator[TransactionListing]:
        return iter(self.transactions)

    def __len__(self) -> int:
        return len(self.transactions)


@attrs.frozen
class HangingTransaction:
    """A transaction that is open in a partition, but not in its coordinator's state, so read_committed consumers do not get past it.

    `transactional_id` is None if no broker has listed an id with the producer.
    """

    partition: TopicPartition
    producer: ActiveProducer
    transactional_id: str | None


class TransactionCalls(AdminCalls):
    def describe_producers(
        self, partitions: Iterable[Any], timeout: float | None = None
    ) -> dict[TopicPartition, tuple[ActiveProducer, ...] | KafkaError]:
        """Return the producers that the leader of each partition knows: ids, epochs, the last record, the start of an open transaction.

        Leaders remember idempotent producers for `producer.id.expiration.ms` (a day). Needs Kafka 2.8. Source: KIP-664.
        """
        chosen = as_partitions(partitions)
        return self._session.ask_leaders(DescribeProducers(), chosen, self._begin(timeout)).wait()

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        running_longer_than: float | None = None,
        pattern: str | None = None,
        timeout: float | None = None,
    ) -> TransactionList:
        """Return the transactional ids of all brokers, or only the ids that match all given filters.

        `states` has Kafka's names (Ongoing, Empty, …), `running_longer_than` is the minimum age of a transaction in seconds, `pattern` is a
        regular expression (RE2/J) for ids. `errors` of the result has the brokers that returned no list. Brokers leave out ids that this
        user is not allowed to DESCRIBE. Needs Kafka 3.0, for `running_longer_than` 3.8, for `pattern` 4.1. Source: KIP-664, KIP-994,
        KIP-1152.
        """
        longer_ms = -1 if running_longer_than is None else int(_seconds(running_longer_than, "running_longer_than") * 1000)
        if isinstance(states, str):
            raise ConfigError(f"states={shown(states)}: takes a list of names")
        numbers = tuple(check_count(number, "a producer id") for number in producer_ids)
        wanted = TransactionFilter(tuple(map(str, states)), numbers, longer_ms, pattern)
        return self._listed(wanted, self._begin(timeout))

    def describe_transactions(
        self, transactional_ids: Collection[str], timeout: float | None = None
    ) -> dict[str, TransactionDescription | KafkaError]:
        """Return state, producer, timeout, start and partitions of each transactional id.

        An id that no coordinator knows has the BrokerError TRANSACTIONAL_ID_NOT_FOUND. Needs Kafka 3.0. Source: KIP-664.
        """
        return self._transactions_described(_ids(transactional_ids), self._begin(timeout))

    def describe_transaction(self, transactional_id: str, timeout: float | None = None) -> TransactionDescription:
        """Return state, producer, timeout, start and partitions of one transactional id. Raises the id's error."""
        (name,) = _ids([transactional_id])
        return value_or_raise(self._transactions_described([name], self._begin(timeout))[name])

    def abort_transaction(self, partition: Any, producer: ActiveProducer, timeout: float | None = None) -> None:
        """Abort a hanging transaction in one partition, without its coordinator.

        Use this call only with `partition` and `producer` of a transaction that `find_hanging_transactions` returned. If the coordinator
        knew the transaction, the producer would continue, and only a part of its records would be committed. Raises ConfigError if the
        producer has no open transaction, BrokerError if the leader refuses: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED. After
        KafkaTimeoutError, or an error with a note that the request may have been carried out, `describe_producers` shows whether the
        transaction is still open. Source: KIP-664.
        """
        tp = topic_partition(partition)
        if not isinstance(producer, ActiveProducer):
            raise TypeError(f"producer must be an ActiveProducer, as describe_producers returns, not {shown(producer)}")
        if producer.transaction_start is None:
            raise ConfigError(f"producer {producer.producer_id} has no open transaction in {tp}: there is nothing to abort")
        value_or_raise(self._session.ask_leaders(AbortTransaction(producer), [tp], self._begin(timeout)).wait()[tp])

    def find_hanging_transactions(
        self, topics: Collection[str], *, older_than: float = MAX_TRANSACTION_S, timeout: float | None = None
    ) -> list[HangingTransaction]:
        """Return the transactions that are open in a partition of `topics`, but not in their coordinator's state.

        A transaction whose last record is less than `older_than` seconds old is left out. `older_than` should be at least the highest
        transaction timeout that brokers allow (`transaction.max.timeout.ms`): a younger transaction might still end normally. Needs
        DESCRIBE on the transactional ids: brokers leave out other ids, whose transactions would seem to hang. Raises the common error or
        PartialFailure if the call fails for a topic, partition or broker: an incomplete result could lack transactions, or have
        transactions that their coordinators know. Source: KIP-664.
        """
        if isinstance(topics, str):
            raise ConfigError(f"topics={shown(topics)}: takes a list of names")
        names, age = list(map(check_topic, topics)), _seconds(older_than, "older_than")
        deadline = self._begin(timeout)
        open_ones = self._open(names, age, deadline)
        if not open_ones:
            return []
        numbers = tuple({producer.producer_id: None for _, producer in open_ones})
        listed = self._listed(TransactionFilter(producer_ids=numbers), deadline)
        _require_all("transactional ids cannot be listed", listed.errors)
        ids = {one.producer_id: one.transactional_id for one in listed}
        known = self._transactions_described(list(ids.values()), deadline)
        errors = {name: one for name, one in known.items() if isinstance(one, KafkaError) and str(one.code) != NOT_FOUND}
        _require_all("transactions cannot be described", errors)
        found = [HangingTransaction(tp, producer, ids.get(producer.producer_id)) for tp, producer in open_ones]
        return [one for one in found if not _is_known(one, known)]

    def _open(self, topics: list[str], age: float, deadline: Deadline) -> list[tuple[TopicPartition, ActiveProducer]]:
        """Return the open transactions whose last record is at least `age` seconds old."""
        counted: dict[str, int | KafkaError] = self._ask_any_broker(CountPartitions(), topics, deadline)
        counts = require_all_done("topics cannot be looked up", counted)
        partitions = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
        found = require_all_done(
            "producers cannot be described", self._session.ask_leaders(DescribeProducers(), partitions, deadline).wait()
        )
        latest = time.time() * 1000 - age * 1000
        return [
            (tp, one)
            for tp, producers in found.items()
            for one in producers
            if one.transaction_start is not None and (one.last_timestamp_ms or 0) <= latest
        ]

    def _listed(self, wanted: TransactionFilter, deadline: Deadline) -> TransactionList:
        self._session.refresh_brokers(deadline)  # the ids of a broker that the metadata lacks would be missing without an error

        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            return machine.begin(
                now, ListTransactions(wanted), NumberedBrokerChoice(machine.cluster), list(machine.cluster.brokers), seconds, done
            )

        answers = self._session.ask(begin, deadline).wait()
        errors = {node: found for node, found in answers.items() if isinstance(found, KafkaError)}
        if errors and any(isinstance(error, ConfigError) for error in errors.values()):  # the filter is wrong for every broker
            raise next(error for error in errors.values() if isinstance(error, ConfigError)).again()
        rows = {one.transactional_id: one for node, found in answers.items() if node not in errors for one in found}
        return TransactionList(tuple(rows[name] for name in sorted(rows)), errors)

    def _transactions_described(self, names: list[str], deadline: Deadline) -> dict[str, TransactionDescription | KafkaError]:
        def begin(machine: Any, now: float, seconds: float, done: Any) -> Any:
            return machine.begin(now, DescribeTransactions(), machine.transaction_coordinators, names, seconds, done)

        return self._session.ask(begin, deadline).wait()


def _ids(value: object) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(item, str) and item for item in value):
        raise ConfigError(f"transactional_ids={shown(value)}: takes a list of transactional ids")
    return list(dict.fromkeys(value))


def _seconds(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**53:
        raise ConfigError(f"{name}={shown(value)}: must be a number of seconds, 0 or more")
    return float(value)


def _require_all(what: str, errors: Mapping[Any, KafkaError]) -> None:
    if errors:
        raise PartialFailure.of(what, errors)


def _is_known(one: HangingTransaction, known: Mapping[str, TransactionDescription | KafkaError]) -> bool:
    """Whether the coordinator lists the partition in its state of the transaction, and so will end the transaction there."""
    description = known.get(one.transactional_id or "")
    return isinstance(description, TransactionDescription) and one.partition in description.partitions
