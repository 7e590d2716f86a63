"""Produce, Fetch and offsets. Only the leader answers for a partition, but any replica answers a Fetch of version 11 or newer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.faults import When
from pykafka4.testing.log import Appended, PartitionLog, RecordError, request_refusal
from pykafka4.testing.replication import Partition, Row
from pykafka4.testing.session import LATER, NO_ANSWER, Call, Handler, code
from pykafka4.testing.timeline import Moment, Timeline
from pykafka4.wire.messages_data import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)

__all__ = ["HANDLERS", "Waiting"]

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL = -1, -2, -3, -4
ALL: Final = -1  # acks
LEADERS_SINCE: Final = 10  # the version of Produce whose answers name new leaders
WITHOUT_START: Final = ("CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE")  # errors that come without the log's start offset
FETCH_FROM_FOLLOWERS: Final = 11  # the version of Fetch that any replica answers (KIP-392)


def named(call: Call, topic: Any, name: str, since: int) -> tuple[str | None, str | None]:
    """(topic name, error) of a topic entry that goes by id from version `since` on."""
    if call.version < since:
        return name, None
    found = call.cluster.topic_by_id(topic.topic_id)
    return (found.name, None) if found else (None, "UNKNOWN_TOPIC_ID")


def led(call: Call, topic: str, partition: int, epoch: int = -1) -> tuple[Partition | None, str | None]:
    """(partition, error): the error says why this broker does not answer for it."""
    found = call.cluster.partition(topic, partition)
    if found is None:
        return None, "UNKNOWN_TOPIC_OR_PARTITION"
    if epoch >= 0 and epoch != found.epoch and call.broker.node in found.copies:
        return found, "FENCED_LEADER_EPOCH" if epoch < found.epoch else "UNKNOWN_LEADER_EPOCH"
    return found, None if found.leader == call.broker.node else "NOT_LEADER_OR_FOLLOWER"


def readable(call: Call, topic: str, partition: int, epoch: int) -> tuple[Partition | None, PartitionLog | None, str | None]:
    """(partition, the log to read, error) of a Fetch."""
    found, refused = led(call, topic, partition, epoch)
    follows = found is not None and refused == "NOT_LEADER_OR_FOLLOWER" and call.broker.node in found.copies
    if found is not None and follows and call.version >= FETCH_FROM_FOLLOWERS:
        return found, found.copies[call.broker.node].log, None
    return found, None if refused or found is None else found.log, refused


# ---- Produce


def produce(call: Call) -> Any:
    """Append each partition's batch; acks=0 gets no answer, and a closed connection where there was an error."""
    message: ProduceRequest = call.message
    waiting: list[Row] = []
    response = ProduceResponse(responses=[_produce_topic(call, topic, waiting) for topic in message.topic_data])
    answers = [p for t in response.responses for p in t.partition_responses]
    if message.acks == 0:
        if any(p.error_code for p in answers):
            call.session.close()
        return NO_ANSWER
    if waiting and not call.cluster.acknowledgements.add(call, response, waiting, message.timeout_ms / 1000):
        return LATER
    name_leaders(call, response)
    return response


def name_leaders(call: Call, response: ProduceResponse) -> None:
    """Add the addresses of the leaders that the answer names."""
    named_leaders = {p.current_leader.leader_id for t in response.responses for p in t.partition_responses}
    if call.version >= LEADERS_SINCE:
        response.node_endpoints = [
            ProduceResponse.Endpoint(node_id=b.node, host=b.host, port=b.port, rack=b.rack)
            for b in call.cluster.brokers.values()
            if b.up and b.node in named_leaders
        ]


def tell(call: Call, row: Row, outcome: str) -> None:
    """Put what became of a partition's batch into its part of the answer."""
    row.answer.error_code = code(outcome)
    if outcome == "NOT_LEADER_OR_FOLLOWER" and call.version >= LEADERS_SINCE:
        leader = ProduceResponse.Topic.Partition.Leader
        row.answer.current_leader = leader(leader_id=row.partition.leader, leader_epoch=row.partition.epoch)


def _produce_topic(call: Call, topic: ProduceRequest.Topic, waiting: list[Row]) -> ProduceResponse.Topic:
    name, error = named(call, topic, topic.name, 13)
    parts = [_produce_partition(call, name, error, part, waiting) for part in topic.partition_data]
    return ProduceResponse.Topic(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)


def _without_start(call: Call) -> tuple[str, ...]:
    return WITHOUT_START if call.cluster.names_invalid_records else (*WITHOUT_START, "INVALID_TIMESTAMP")


def _as_released(call: Call, result: Appended) -> Appended:
    """The refusal as the release names it."""
    if result.error == "INVALID_RECORD" and not call.cluster.names_invalid_records:
        return attrs.evolve(result, error="CORRUPT_MESSAGE")
    return result


def _produce_partition(
    call: Call, topic: str | None, error: str | None, part: ProduceRequest.Topic.Partition, waiting: list[Row]
) -> ProduceResponse.Topic.Partition:
    found, refused = (None, error) if topic is None else led(call, topic, part.index)
    if found is not None and refused and call.message.acks == ALL and call.cluster.was_replaced(call.broker.node, found):
        answer = ProduceResponse.Topic.Partition(index=part.index, base_offset=-1, log_start_offset=-1)
        waiting.append(Row(found, answer, None))
        return answer
    early = Appended(refused) if refused else _request_refusal(call, part.records)
    result = _ordered(call, topic, part.index, When.BEFORE) or early or _as_released(call, _append(call, found, part.records))
    call.cluster.on_batch(f"{topic}-{part.index}", part.records, result)
    after = _ordered(call, topic, part.index, When.AFTER) if result.error == "NONE" and topic is not None else None
    told = after or result
    answer = ProduceResponse.Topic.Partition(
        index=part.index,
        error_code=code(told.error),
        base_offset=result.base_offset,
        log_append_time_ms=result.append_time_ms,
        log_start_offset=-1 if found is None or early or result.error in _without_start(call) else found.log.start_offset,
    )
    if call.version >= 8:
        one = ProduceResponse.Topic.Partition.RecordError
        answer.record_errors = [one(batch_index=e.index, batch_index_error_message=e.message) for e in told.record_errors]
        answer.error_message = told.message
    if refused == "NOT_LEADER_OR_FOLLOWER" and found is not None and call.version >= LEADERS_SINCE:
        answer.current_leader = ProduceResponse.Topic.Partition.Leader(leader_id=found.leader, leader_epoch=found.epoch)
    if found is not None and told.error == "NONE" and call.message.acks == ALL:
        waiting.append(Row(found, answer, result.next_offset))
    return answer


def _ordered(call: Call, topic: str | None, partition: int, when: When) -> Appended | None:
    """The error that was ordered for this partition's answer."""
    pushed = call.cluster.controls.pushed_for(call.key, topic, partition, when)
    if pushed is None:
        return None
    errors = tuple(RecordError(index, message) for index, message in pushed.record_errors)
    return Appended(pushed.error, record_errors=errors)


def _request_refusal(call: Call, records: Any) -> Appended | None:
    if call.message.acks not in (0, 1, ALL):
        return Appended("INVALID_REQUIRED_ACKS")
    refused = request_refusal(b"" if records is None else bytes(records), call.version)
    if refused is not None and refused.error == "UNSUPPORTED_COMPRESSION_TYPE" and not call.cluster.knows_zstd:
        return Appended("UNKNOWN_SERVER_ERROR")
    return refused


def _append(call: Call, found: Partition | None, records: Any) -> Appended:
    assert found is not None
    if call.message.acks == ALL and len(found.in_sync) < found.min_in_sync:
        return Appended("NOT_ENOUGH_REPLICAS")
    log = found.log
    before = log.end_offset
    result = log.append(bytes(records), found.epoch)
    if log.end_offset > before:
        call.cluster.appended(found.tp, before)
    return result


# ---- Fetch


@attrs.define(eq=False)
class Poll:
    """A fetch that waits for `min_bytes`."""

    call: Call
    partitions: tuple[TopicPartition, ...]
    timer: Moment | None = None


class Waiting:
    """Fetches that wait, by the partitions they wait for."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._polls: dict[TopicPartition, list[Poll]] = {}

    def add(self, call: Call, partitions: Iterator[TopicPartition], seconds: float) -> None:
        """Keep `call` until something arrives or `seconds` are over."""
        poll = Poll(call, tuple(dict.fromkeys(partitions)))
        poll.timer = self._timeline.after(seconds, lambda: self._end(poll))
        for tp in poll.partitions:
            self._polls.setdefault(tp, []).append(poll)

    def wake(self, tp: TopicPartition) -> None:
        """Something happened to `tp`: whoever has enough now is answered."""
        for poll in list(self._polls.get(tp, ())):
            if poll.call.session.dead or enough(poll.call):
                self._end(poll)

    def wake_all(self) -> None:
        """Topics came or went."""
        for tp in list(self._polls):
            self.wake(tp)

    def _end(self, poll: Poll) -> None:
        if poll.timer is not None:
            poll.timer.cancel()
            poll.timer = None
        for tp in poll.partitions:
            self._polls[tp].remove(poll)
            if not self._polls[tp]:
                del self._polls[tp]
        poll.call.answer(fetched(poll.call, "UNKNOWN_TOPIC_OR_PARTITION"))


def fetch(call: Call) -> Any:
    """Answer at once when there is enough or something is wrong, else when there is."""
    message: FetchRequest = call.message
    if message.session_id:
        return FetchResponse(error_code=code("FETCH_SESSION_ID_NOT_FOUND"), session_id=0, responses=[])
    if message.max_wait_ms <= 0 or not message.topics or enough(call):
        return fetched(call)
    wanted = (TopicPartition(named(call, t, t.topic, 13)[0] or "", p.partition) for t in message.topics for p in t.partitions)
    call.cluster.waiting.add(call, wanted, message.max_wait_ms / 1000)
    return LATER


def enough(call: Call) -> bool:
    """Whether there is an error to tell, or `min_bytes` to give."""
    message: FetchRequest = call.message
    size = 0
    for topic in message.topics:
        name, error = named(call, topic, topic.topic, 13)
        for part in topic.partitions:
            if name is None or error:
                return True
            _, log, refused = readable(call, name, part.partition, part.current_leader_epoch)
            if refused or log is None or _bad_offset(log, part) or _diverging(log, part):
                return True
            if any(e.fits(call.key, name, part.partition, When.BEFORE) for e in call.cluster.controls.pushed):
                return True
            size += len(log.read(part.fetch_offset, part.partition_max_bytes, to_end=message.replica_id >= 0))
    return size >= message.min_bytes


def _bad_offset(log: PartitionLog, part: FetchRequest.Topic.Partition) -> bool:
    """Whether the offset is outside the log, or the last fetched epoch newer than all that it knows."""
    if part.last_fetched_epoch >= 0 and log.end_of_epoch(part.last_fetched_epoch) == (-1, -1):
        return True
    beyond = part.fetch_offset > log.end_offset and not _diverging(log, part)
    return part.fetch_offset < log.start_offset or beyond


def _diverging(log: PartitionLog, part: FetchRequest.Topic.Partition) -> tuple[int, int] | None:
    """(epoch, end offset) where the client's history ends to be the log's."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end = log.end_of_epoch(part.last_fetched_epoch)
    return (epoch, end) if epoch < part.last_fetched_epoch or end < part.fetch_offset else None


def fetched(call: Call, unknown_id: str = "UNKNOWN_TOPIC_ID") -> FetchResponse:
    """What there is now; `unknown_id` is the error of a topic whose id is not known: a Fetch that waited had a topic when it began."""
    message: FetchRequest = call.message
    budget = _Budget(message.max_bytes)
    topics = [_fetch_topic(call, topic, budget, unknown_id) for topic in message.topics]
    response = FetchResponse(session_id=0, responses=topics)
    leaders = {p.current_leader.leader_id for t in topics for p in t.partitions}
    if call.version >= 16:
        response.node_endpoints = [
            FetchResponse.Endpoint(node_id=b.node, host=b.host, port=b.port, rack=b.rack)
            for b in call.cluster.brokers.values()
            if b.up and b.node in leaders
        ]
    return response


@attrs.define
class _Budget:
    """Bytes an answer may still take; the first batch of an answer comes whole whatever its size."""

    left: int
    empty: bool = True


def _fetch_topic(call: Call, topic: FetchRequest.Topic, budget: _Budget, unknown_id: str) -> FetchResponse.Topic:
    name, error = named(call, topic, topic.topic, 13)
    error = error and unknown_id
    parts = [_fetch_partition(call, name, error, part, budget) for part in topic.partitions]
    return FetchResponse.Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)


def _fetch_partition(
    call: Call, topic: str | None, error: str | None, part: FetchRequest.Topic.Partition, budget: _Budget
) -> FetchResponse.Topic.Partition:
    found, log, refused = (None, None, error) if topic is None else readable(call, topic, part.partition, part.current_leader_epoch)
    refused = call.cluster.controls.error_for(call.key, topic, part.partition) or refused
    if refused is None and log is not None and _bad_offset(log, part):
        refused = "OFFSET_OUT_OF_RANGE"
    if refused is not None:
        log = None
    answer = FetchResponse.Topic.Partition(
        partition_index=part.partition,
        error_code=code(refused or "NONE"),
        high_watermark=log.high_watermark if log else -1,
        last_stable_offset=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
        aborted_transactions=None,
        records=b"",
    )
    if refused in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH") and found is not None and call.version >= 16:
        answer.current_leader = FetchResponse.Topic.Partition.Leader(leader_id=found.leader, leader_epoch=found.epoch)
    if log is not None:
        _fill(answer, log, part, budget, to_end=call.message.replica_id >= 0)
    return answer


def _fill(
    answer: FetchResponse.Topic.Partition, log: PartitionLog, part: FetchRequest.Topic.Partition, budget: _Budget, *, to_end: bool
) -> None:
    diverging = _diverging(log, part)
    if diverging is not None:
        answer.diverging_epoch = FetchResponse.Topic.Partition.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return
    limit = min(part.partition_max_bytes, budget.left)
    data = log.read(part.fetch_offset, limit, to_end=to_end)
    if len(data) > limit and not budget.empty:
        data = data[: max(limit, 0)]
    if data:
        budget.left, budget.empty = budget.left - len(data), False
        answer.records = data


# ---- ListOffsets, OffsetForLeaderEpoch


def list_offsets(call: Call) -> ListOffsetsResponse:
    """Earliest, latest, newest, or by timestamp."""
    message: ListOffsetsRequest = call.message
    return ListOffsetsResponse(
        topics=[
            ListOffsetsResponse.Topic(name=topic.name, partitions=[_list_partition(call, topic.name, part) for part in topic.partitions])
            for topic in message.topics
        ]
    )


def _list_partition(call: Call, topic: str, part: ListOffsetsRequest.Topic.Partition) -> ListOffsetsResponse.Topic.Partition:
    found, refused = led(call, topic, part.partition_index, part.current_leader_epoch)
    refused = call.cluster.controls.error_for(call.key, topic, part.partition_index) or refused
    offset, timestamp = (-1, -1) if refused or found is None else _lookup(found.log, part.timestamp)
    if refused is None and found is not None and part.timestamp not in (EARLIEST, EARLIEST_LOCAL, NEWEST) and offset < 0:
        refused = _not_yet(call, found.log)
    return ListOffsetsResponse.Topic.Partition(
        partition_index=part.partition_index,
        error_code=code(refused or "NONE"),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=found.log.epoch_at(offset) if found and call.version >= 4 and offset >= 0 else -1,
    )


def _not_yet(call: Call, log: PartitionLog) -> str | None:
    """A new leader cannot tell the end until its high watermark has come to where its epoch begins."""
    if log.high_watermark >= log.epochs[-1][1]:
        return None
    return "OFFSET_NOT_AVAILABLE" if call.version >= 5 else "LEADER_NOT_AVAILABLE"


def _lookup(log: PartitionLog, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp) below the high watermark; (-1, -1) when there is none, or when the end is not known yet."""
    if timestamp == NEWEST:
        return log.newest()
    if timestamp == LATEST:
        return (log.high_watermark, -1) if log.high_watermark >= log.epochs[-1][1] else (-1, -1)
    return (log.start_offset, -1) if timestamp in (EARLIEST, EARLIEST_LOCAL) else log.offset_at(timestamp)


def offsets_for_epochs(call: Call) -> OffsetForLeaderEpochResponse:
    """Where each epoch ended."""
    message: OffsetForLeaderEpochRequest = call.message
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderEpochResponse.Topic(
                topic=topic.topic, partitions=[_epoch_end(call, topic.topic, part) for part in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _epoch_end(call: Call, topic: str, part: OffsetForLeaderEpochRequest.Topic.Partition) -> OffsetForLeaderEpochResponse.Topic.Partition:
    found, refused = led(call, topic, part.partition, part.current_leader_epoch)
    refused = call.cluster.controls.error_for(call.key, topic, part.partition) or refused
    epoch, end = (-1, -1) if refused or found is None else found.log.end_of_epoch(part.leader_epoch)
    return OffsetForLeaderEpochResponse.Topic.Partition(
        error_code=code(refused or "NONE"), partition=part.partition, leader_epoch=epoch, end_offset=end
    )


HANDLERS: Final[Mapping[int, Handler]] = {
    ProduceRequest.api_key: produce,
    FetchRequest.api_key: fetch,
    ListOffsetsRequest.api_key: list_offsets,
    OffsetForLeaderEpochRequest.api_key: offsets_for_epochs,
}
