"""Fetch: answered when there are `min_bytes`, on an error, or when `max_wait_ms` has passed."""

from __future__ import annotations

from typing import Any, Final

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.requests.partitions import endpoints, named, readable
from pykafka4.testing.requests.session import LATER, Call, code
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.purgatory import Delayed
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse

__all__ = ["fetch"]

LEADERS_SINCE: Final = 16  # the first version of Fetch whose responses name new leaders


def fetch(call: Call) -> Any:
    """Respond at once if there is enough data or an error, otherwise when there is."""
    message: FetchRequest = call.message
    if message.session_id:
        return FetchResponse(error_code=code("FETCH_SESSION_ID_NOT_FOUND"), session_id=0, responses=[])
    if message.max_wait_ms <= 0 or not message.topics or enough(call):
        return fetched(call)
    delayed = Delayed(
        [TopicPartition(named(call, t, t.topic, 13)[0] or "", p.partition) for t in message.topics for p in t.partitions],
        ready=lambda tp: call.session.dead or enough(call),
        answer=lambda: call.answer(fetched(call, "UNKNOWN_TOPIC_OR_PARTITION")),
    )
    call.cluster.replication.fetches.add(delayed, message.max_wait_ms / 1000)
    return LATER


def enough(call: Call) -> bool:
    """Whether there is an error, or `min_bytes` of records."""
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
    """Whether the offset is outside the log, or the last fetched epoch is newer than any in it."""
    if part.last_fetched_epoch >= 0 and log.end_of_epoch(part.last_fetched_epoch) == (-1, -1):
        return True
    beyond = part.fetch_offset > log.end_offset and not _diverging(log, part)
    return part.fetch_offset < log.start_offset or beyond


def _diverging(log: PartitionLog, part: FetchRequest.Topic.Partition) -> tuple[int, int] | None:
    """(epoch, end offset) where the client's history diverges from the log's."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end = log.end_of_epoch(part.last_fetched_epoch)
    return (epoch, end) if epoch < part.last_fetched_epoch or end < part.fetch_offset else None


def fetched(call: Call, unknown_id: str = "UNKNOWN_TOPIC_ID") -> FetchResponse:
    """The data that is there now; `unknown_id` is the error for an unknown topic id: for a Fetch that waited, the topic was deleted."""
    message: FetchRequest = call.message
    budget = _Budget(message.max_bytes)
    topics = [_topic(call, topic, budget, unknown_id) for topic in message.topics]
    response = FetchResponse(session_id=0, responses=topics)
    if call.version >= LEADERS_SINCE:
        leaders = {p.current_leader.leader_id for t in topics for p in t.partitions}
        response.node_endpoints = endpoints(call, FetchResponse.Endpoint, leaders)
    return response


@attrs.define
class _Budget:
    """Bytes that a response may still take; its first batch is complete whatever its size."""

    left: int
    empty: bool = True


def _topic(call: Call, topic: FetchRequest.Topic, budget: _Budget, unknown_id: str) -> FetchResponse.Topic:
    name, error = named(call, topic, topic.topic, 13)
    error = error and unknown_id
    parts = [_partition(call, name, error, part, budget) for part in topic.partitions]
    return FetchResponse.Topic(topic=topic.topic, topic_id=topic.topic_id, partitions=parts)


def _partition(
    call: Call, topic: str | None, error: str | None, part: FetchRequest.Topic.Partition, budget: _Budget
) -> FetchResponse.Topic.Partition:
    found, log, refused = (None, None, error) if topic is None else readable(call, topic, part.partition, part.current_leader_epoch)
    refused = call.ordered_error(topic, part.partition) or refused
    if refused is None and log is not None and _bad_offset(log, part):
        refused = "OFFSET_OUT_OF_RANGE"
    if refused is not None:
        log = None
    answer = FetchResponse.Topic.Partition(
        partition_index=part.partition,
        error_code=code(refused),
        high_watermark=log.high_watermark if log else -1,
        last_stable_offset=log.high_watermark if log else -1,
        log_start_offset=log.start_offset if log else -1,
        aborted_transactions=None,
        records=b"",
    )
    if refused in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH") and found is not None and call.version >= LEADERS_SINCE:
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
