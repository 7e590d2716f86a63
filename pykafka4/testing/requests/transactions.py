"""Serves InitProducerId and the requests of transactions. Invariant: a request changes a
transactional id's state only if the id's coordinator allows the change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.requests.commits import keep
from pykafka4.testing.requests.groups import error_after
from pykafka4.testing.requests.groups import refusal as group_refusal
from pykafka4.testing.requests.session import Call, code
from pykafka4.wire.protocol.messages_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

__all__ = ["add_offsets", "add_partitions", "commit_offsets", "end", "init_producer_id", "verified"]

# By API: the first version whose responses have PRODUCER_FENCED; earlier versions get INVALID_PRODUCER_EPOCH.
FENCED_SINCE: Final[Mapping[str, int]] = {"InitProducerId": 4, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2, "EndTxn": 2}
BATCHED_SINCE: Final = 4  # the first version of AddPartitionsToTxn that brokers send, for several transactions at once
RAISES_SINCE: Final = 5  # the first version of EndTxn that begins the next epoch


def refusal(call: Call, transactional_id: str, operation: str = "WRITE") -> str | None:
    """The ordered error, or the error if this broker does not serve the transactional id or denies the operation; otherwise None."""
    refused = call.ordered_error() or call.denied("transactional_id", transactional_id, operation)
    return refused or _elsewhere(call, transactional_id)


def _elsewhere(call: Call, transactional_id: str) -> str | None:
    if not transactional_id:
        return "INVALID_REQUEST"
    transactions = call.cluster.transactions
    if transactions.coordinator_of(transactional_id) != call.broker.node:
        return "NOT_COORDINATOR"
    return "COORDINATOR_LOAD_IN_PROGRESS" if transactions.placement.loading(transactional_id) else None


def code_for(call: Call, error: str | None) -> int:
    if error == "PRODUCER_FENCED" and call.version < FENCED_SINCE.get(call.name, 0):
        error = "INVALID_PRODUCER_EPOCH"
    return code(error)


def init_producer_id(call: Call) -> InitProducerIdResponse:
    """A request without a transactional id gets an error or a new producer id, whatever else it contains."""
    message: InitProducerIdRequest = call.message
    transactional_id = message.transactional_id
    if transactional_id is None:
        refused = call.ordered_error() or call.denied("cluster", "kafka-cluster", "IDEMPOTENT_WRITE")
        producer_id, epoch = (-1, -1) if refused else (call.cluster.new_producer_id(), 0)
        return InitProducerIdResponse(error_code=code(refused), producer_id=producer_id, producer_epoch=epoch)
    refused = refusal(call, transactional_id)
    if refused is None:
        given = message.producer_id, message.producer_epoch
        if (given[0] < 0) is not (given[1] < 0):
            refused = "INVALID_REQUEST"
        else:
            expected = None if given[0] < 0 else given
            refused = call.cluster.transactions.begin(transactional_id, message.transaction_timeout_ms / 1000, expected)
    refused = refused or _after(call)
    if refused:
        return InitProducerIdResponse(error_code=code_for(call, refused), producer_id=-1, producer_epoch=-1)
    known = call.cluster.transactions.transactions[transactional_id]
    return InitProducerIdResponse(error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)


def _after(call: Call) -> str | None:
    error = error_after(call, "NONE")
    return None if error == "NONE" else error


# ---- partitions and groups of a transaction


def add_partitions(call: Call) -> AddPartitionsToTxnResponse:
    """From version 4 on, a request may name several transactions. For each, partitions are added, or checked to have been added."""
    message: AddPartitionsToTxnRequest = call.message
    if call.version < BATCHED_SINCE:
        name, topics = message.v3_and_below_transactional_id, message.v3_and_below_topics
        rows = _added(call, name, message.v3_and_below_producer_id, message.v3_and_below_producer_epoch, topics)
        return AddPartitionsToTxnResponse(error_code=0, results_by_topic_v3_and_below=rows, results_by_transaction=[])
    kind = AddPartitionsToTxnResponse.Result
    one = [
        kind(
            transactional_id=t.transactional_id,
            topic_results=_added(call, t.transactional_id, t.producer_id, t.producer_epoch, t.topics, verify=t.verify_only),
        )
        for t in message.transactions
    ]
    return AddPartitionsToTxnResponse(error_code=0, results_by_transaction=one, results_by_topic_v3_and_below=[])


def _added(call: Call, name: str, producer_id: int, epoch: int, topics: list[Any], *, verify: bool = False) -> list[Any]:
    wanted = [TopicPartition(t.name, number) for t in topics for number in t.partitions]
    errors: dict[TopicPartition, str | None] = {}
    denied = call.denied("transactional_id", name, "WRITE")
    if denied:
        errors = dict.fromkeys(wanted, denied)
    else:
        errors = {tp: wrong for tp in wanted if (wrong := _part_refusal(call, tp))}
        if errors:
            errors = {tp: errors.get(tp, "OPERATION_NOT_ATTEMPTED") for tp in wanted}
    if not errors:
        transactions, refused = call.cluster.transactions, _elsewhere(call, name)
        if verify:
            errors = {tp: refused or transactions.verify(name, producer_id, epoch, tp) for tp in wanted}
        else:
            errors = dict.fromkeys(wanted, refused or transactions.add(name, producer_id, epoch, wanted))
        ordered = call.cluster.controls.use_error
        errors = {tp: error or ordered(call.key, tp.topic, tp.partition, When.AFTER) for tp, error in errors.items()}
    topic, part = AddPartitionsToTxnResponse.Topic, AddPartitionsToTxnResponse.Partition

    def row(tp: TopicPartition) -> Any:
        return part(partition_index=tp.partition, partition_error_code=code_for(call, errors[tp]))

    return [topic(name=t.name, results_by_partition=[row(TopicPartition(t.name, n)) for n in t.partitions]) for t in topics]


def _part_refusal(call: Call, tp: TopicPartition) -> str | None:
    refused = call.ordered_error(tp.topic, tp.partition) or call.denied("topic", tp.topic, "WRITE")
    return refused or (None if call.cluster.partition(*tp) else "UNKNOWN_TOPIC_OR_PARTITION")


def add_offsets(call: Call) -> AddOffsetsToTxnResponse:
    """Add a group to the transaction, before TxnOffsetCommit writes the group's offsets."""
    message: AddOffsetsToTxnRequest = call.message
    name, group = message.transactional_id, message.group_id
    refused = refusal(call, name) or call.denied("group", group, "READ")
    refused = refused or call.cluster.transactions.add(name, message.producer_id, message.producer_epoch, groups=[group])
    return AddOffsetsToTxnResponse(error_code=code_for(call, refused or _after(call)))


def end(call: Call) -> EndTxnResponse:
    """From version 5 on, a response without an error has the producer id and epoch of the next transaction."""
    message: EndTxnRequest = call.message
    name, transactions = message.transactional_id, call.cluster.transactions
    refused = refusal(call, name)
    how = transactions.end_and_raise if call.version >= RAISES_SINCE else transactions.end
    refused = refused or how(name, message.producer_id, message.producer_epoch, committed=message.committed) or _after(call)
    known = transactions.transactions.get(name)
    if refused or known is None or call.version < RAISES_SINCE:
        return EndTxnResponse(error_code=code_for(call, refused), producer_id=-1, producer_epoch=-1)
    return EndTxnResponse(error_code=0, producer_id=known.producer_id, producer_epoch=known.epoch)


# ---- verification of writes


def verified(call: Call, name: str, producer: tuple[int, int], what: TopicPartition | str, *, adds: bool, abortable: bool) -> str | None:
    """The error if the coordinator does not allow a transactional write (KIP-890); otherwise None.

    `what`: the partition, or the group whose offsets are written. `adds`: whether the request's version adds the partition
    or group to the transaction. `abortable`: whether the request's version has TRANSACTION_ABORTABLE.
    """
    transactions, topics = call.cluster.transactions, isinstance(what, TopicPartition)
    if not transactions.serves(name):
        return "NOT_ENOUGH_REPLICAS" if topics else "COORDINATOR_LOAD_IN_PROGRESS"
    if adds:
        parts, groups = ([what], []) if isinstance(what, TopicPartition) else ([], [what])
        error = transactions.add(name, *producer, parts, groups)
    elif isinstance(what, TopicPartition):
        error = transactions.verify(name, *producer, partition=what)
    else:
        error = transactions.verify(name, *producer, group=what)
    if error == "CONCURRENT_TRANSACTIONS" and not adds and topics:
        return "NOT_ENOUGH_REPLICAS"
    if error == "INVALID_TXN_STATE" and abortable:
        return "TRANSACTION_ABORTABLE"
    return "INVALID_PRODUCER_EPOCH" if error == "PRODUCER_FENCED" else error


# ---- TxnOffsetCommit


def commit_offsets(call: Call) -> TxnOffsetCommitResponse:
    message: TxnOffsetCommitRequest = call.message
    producer = message.producer_id, message.producer_epoch
    refused = call.denied("transactional_id", message.transactional_id, "WRITE") or group_refusal(call, message.group_id)
    group = call.cluster.group(message.group_id)
    refused = refused or group.may_pend(producer, message.generation_id_or_member_epoch, message.member_id, message.group_instance_id)
    if refused is None and call.cluster.behaviour.verifies_transactions:
        name, versions = message.transactional_id, {"adds": call.version >= 5, "abortable": call.version >= 4}
        refused = verified(call, name, producer, message.group_id, **versions)
    store = partial(group.pend, producer)
    one = partial(keep, call, TxnOffsetCommitResponse.Topic.Partition, call.version >= 6, refused, "NONE", store)
    kind = TxnOffsetCommitResponse.Topic
    return TxnOffsetCommitResponse(
        topics=[kind(name=t.name, topic_id=t.topic_id, partitions=[one(t, part) for part in t.partitions]) for t in message.topics]
    )
