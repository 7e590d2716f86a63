"""Serves Produce requests. Invariant: only the leader appends; acks=all succeeds only when the high watermark is above the records."""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.testing.faults.controls import When
from pykafka4.testing.requests.partitions import endpoints, led, named
from pykafka4.testing.requests.session import LATER, NO_ANSWER, Call, code
from pykafka4.testing.requests.transactions import verified
from pykafka4.testing.storage.batch import Appended, parse_header, request_refusal
from pykafka4.testing.storage.partition import Partition
from pykafka4.testing.storage.purgatory import Delayed
from pykafka4.wire.protocol.messages_produce import ProduceRequest, ProduceResponse

__all__ = ["produce"]

ALL: Final = -1  # acks
LEADERS_SINCE: Final = 10  # the first version of Produce whose responses name new leaders
ABORTABLE_SINCE: Final = 11  # the first version with TRANSACTION_ABORTABLE
ADDS_SINCE: Final = 12  # the first version whose requests add their partitions to the transaction (KIP-890)


@attrs.define(eq=False)
class Row:
    """A partition's part of a response that waits until the high watermark reaches `offset`.

    `offset` is None if no replica will copy the records, because the broker is no longer the leader, but has not learned of it.
    """

    partition: Partition
    answer: ProduceResponse.Topic.Partition
    offset: int | None


def produce(call: Call) -> Any:
    """With acks=0 there is no response, and an error closes the connection."""
    message: ProduceRequest = call.message
    rows: list[Row] = []
    response = ProduceResponse(responses=[_topic(call, topic, rows) for topic in message.topic_data])
    if message.acks == 0:
        if any(p.error_code for t in response.responses for p in t.partition_responses):
            call.session.close()
        return NO_ANSWER
    _settle(call, rows)
    if not rows:
        return _with_leaders(call, response)
    delayed = Delayed(
        [row.partition for row in rows],
        ready=lambda partition: any(row.partition is partition for row in rows) and _settle(call, rows),
        answer=lambda: _answer(call, response, rows),
        frozen_until=lambda: call.broker.frozen_until if call.broker.up else 0.0,
    )
    call.cluster.replication.produces.add(delayed, message.timeout_ms / 1000)
    return LATER


def _settle(call: Call, rows: list[Row]) -> bool:
    """Remove the rows that have an outcome; return whether none is left."""
    for row in list(rows):
        outcome = _outcome(call, row)
        if outcome is not None:
            rows.remove(row)
            _set_error(call, row, outcome)
    return not rows


def _outcome(call: Call, row: Row) -> str | None:
    """NONE or an error; None while the row has to wait."""
    partition = row.partition
    if call.cluster.partition(*partition.tp) is not partition:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if row.offset is None and call.cluster.metadata.was_replaced(call.broker.node, partition):
        return None
    if row.offset is None or partition.leader != call.broker.node:
        return "NOT_LEADER_OR_FOLLOWER"
    if partition.log.high_watermark < row.offset:
        return None
    return "NONE" if len(partition.in_sync) >= partition.min_in_sync else "NOT_ENOUGH_REPLICAS_AFTER_APPEND"


def _answer(call: Call, response: ProduceResponse, rows: list[Row]) -> None:
    """The partitions that are left in `rows` have timed out."""
    for row in rows:
        _set_error(call, row, "REQUEST_TIMED_OUT")
    _with_leaders(call, response)
    if not call.session.dead:
        call.answer(response)


def _set_error(call: Call, row: Row, error: str) -> None:
    row.answer.error_code = code(error)
    if error == "NOT_LEADER_OR_FOLLOWER":
        _name_leader(call, row.answer, row.partition)


def _name_leader(call: Call, answer: ProduceResponse.Topic.Partition, partition: Partition) -> None:
    if call.version >= LEADERS_SINCE:
        answer.current_leader = ProduceResponse.Topic.Partition.Leader(leader_id=partition.leader, leader_epoch=partition.epoch)


def _with_leaders(call: Call, response: ProduceResponse) -> ProduceResponse:
    if call.version >= LEADERS_SINCE:
        leaders = {p.current_leader.leader_id for t in response.responses for p in t.partition_responses}
        response.node_endpoints = endpoints(call, ProduceResponse.Endpoint, leaders)
    return response


def _topic(call: Call, topic: ProduceRequest.Topic, rows: list[Row]) -> ProduceResponse.Topic:
    name, error = named(call, topic, topic.name, 13)
    parts = [_partition(call, name, error, part, rows) for part in topic.partition_data]
    return ProduceResponse.Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)


def _partition(
    call: Call, topic: str | None, error: str | None, part: ProduceRequest.Topic.Partition, rows: list[Row]
) -> ProduceResponse.Topic.Partition:
    found, refused = (None, error) if topic is None else led(call, topic, part.index)
    if found is not None and refused and call.message.acks == ALL and call.cluster.metadata.was_replaced(call.broker.node, found):
        rows.append(Row(found, ProduceResponse.Topic.Partition(index=part.index, base_offset=-1, log_start_offset=-1), None))
        return rows[-1].answer
    early = Appended(refused) if refused else _request_refusal(call, part.records)
    ordered = call.ordered_error(topic, part.index) or (topic and call.denied("topic", topic, "WRITE"))
    result = Appended(ordered) if ordered else early or _append(call, found, part.records)
    call.cluster.on_batch(f"{topic}-{part.index}", part.records, result)
    after = call.ordered_error(topic, part.index, When.AFTER) if result.error == "NONE" and topic is not None else None
    reported = Appended(after) if after else result
    answer = ProduceResponse.Topic.Partition(
        index=part.index,
        error_code=code(reported.error),
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=-1 if found is None or early or result.error in call.cluster.behaviour.without_start else found.log.start_offset,
    )
    if call.version >= 8:
        one = ProduceResponse.Topic.Partition.RecordError
        answer.record_errors = [one(batch_index=e.index, batch_index_error_message=e.message) for e in reported.record_errors]
        answer.error_message = reported.message
    if refused == "NOT_LEADER_OR_FOLLOWER" and found is not None:
        _name_leader(call, answer, found)
    if found is not None and reported.error == "NONE" and call.message.acks == ALL:
        rows.append(Row(found, answer, result.next_offset))
    return answer


def _request_refusal(call: Call, records: Any) -> Appended | None:
    if call.message.acks not in (0, 1, ALL):
        return Appended("INVALID_REQUIRED_ACKS")
    refused = request_refusal(b"" if records is None else bytes(records), call.version, call.message.transactional_id)
    if refused is not None and refused.error == "UNSUPPORTED_COMPRESSION_TYPE" and not call.cluster.behaviour.knows_zstd:
        return Appended("UNKNOWN_SERVER_ERROR")
    return refused


def _append(call: Call, found: Partition | None, records: Any) -> Appended:
    assert found is not None
    if call.message.acks == ALL and len(found.in_sync) < found.min_in_sync:
        return Appended("NOT_ENOUGH_REPLICAS")
    log = found.log
    unverified = _unverified(call, found, bytes(records))
    if unverified is not None:
        return Appended(unverified)
    before = log.end_offset
    result = log.append(bytes(records), found.epoch)
    if log.end_offset > before:
        call.cluster.appended(found, before)
    return attrs.evolve(result, error=call.cluster.behaviour.invalid_record) if result.error == "INVALID_RECORD" else result


def _unverified(call: Call, found: Partition, data: bytes) -> str | None:
    """The error if the coordinator does not allow this transactional write to the partition; otherwise None."""
    header, name = parse_header(data), call.message.transactional_id
    if header is None or name is None or not header.transactional or not call.cluster.behaviour.verifies_transactions:
        return None
    producer = header.producer_id, header.producer_epoch
    if found.log.writes_in_transaction(*producer):
        return None
    return verified(call, name, producer, found.tp, adds=call.version >= ADDS_SINCE, abortable=call.version >= ABORTABLE_SINCE)
