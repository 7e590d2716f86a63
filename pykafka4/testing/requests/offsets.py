"""Serves ListOffsets and OffsetForLeaderEpoch. Invariant: only the leader returns offsets, from its log."""

from __future__ import annotations

from pykafka4.testing.requests.partitions import isolation, led
from pykafka4.testing.requests.session import Call, code
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest, ListOffsetsResponse
from pykafka4.wire.protocol.messages_fetch import OffsetForLeaderEpochRequest as EpochRequest
from pykafka4.wire.protocol.messages_fetch import OffsetForLeaderEpochResponse as EpochResponse

__all__ = ["list_offsets", "offsets_for_epochs"]

LATEST, EARLIEST, NEWEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5


def list_offsets(call: Call) -> ListOffsetsResponse:
    message: ListOffsetsRequest = call.message
    kind = ListOffsetsResponse.Topic
    topics = [kind(name=t.name, partitions=[_listed(call, t.name, p) for p in t.partitions]) for t in message.topics]
    return ListOffsetsResponse(topics=topics)


def _listed(call: Call, topic: str, part: ListOffsetsRequest.Topic.Partition) -> ListOffsetsResponse.Topic.Partition:
    found, refused = led(call, topic, part.partition_index, part.current_leader_epoch)
    refused = call.ordered_error(topic, part.partition_index) or call.denied("topic", topic, "DESCRIBE") or refused
    offset, timestamp = (-1, -1) if refused or found is None else _lookup(found.log, part.timestamp, found.log.end_for(isolation(call)))
    if refused is None and found is not None and part.timestamp not in (EARLIEST, EARLIEST_LOCAL, NEWEST, LATEST_TIERED) and offset < 0:
        refused = _not_yet(call, found.log)
    return ListOffsetsResponse.Topic.Partition(
        partition_index=part.partition_index,
        error_code=code(refused),
        timestamp=timestamp,
        offset=offset,
        leader_epoch=found.log.epoch_at(offset) if found and call.version >= 4 and offset >= 0 else -1,
    )


def _not_yet(call: Call, log: PartitionLog) -> str | None:
    """The error of a leader that cannot name the latest offset, because its high watermark is below the start of its epoch; or None."""
    if log.high_watermark >= log.epochs[-1][1]:
        return None
    return "OFFSET_NOT_AVAILABLE" if call.version >= 5 else "LEADER_NOT_AVAILABLE"


def _lookup(log: PartitionLog, timestamp: int, end: int) -> tuple[int, int]:
    """(offset, timestamp), searched below `end`; (-1, -1) if no record fits, or if LATEST is unknown. LATEST_TIERED fits no record."""
    if timestamp == LATEST_TIERED:
        return -1, -1
    if timestamp == NEWEST:
        return log.newest(end)
    if timestamp == LATEST:
        return (end, -1) if log.high_watermark >= log.epochs[-1][1] else (-1, -1)
    return (log.start_offset, -1) if timestamp in (EARLIEST, EARLIEST_LOCAL) else log.offset_at(timestamp, end)


def offsets_for_epochs(call: Call) -> EpochResponse:
    message: EpochRequest = call.message
    kind = EpochResponse.Topic
    topics = [kind(topic=t.topic, partitions=[_epoch_end(call, t.topic, p) for p in t.partitions]) for t in message.topics]
    return EpochResponse(topics=topics)


def _epoch_end(call: Call, topic: str, part: EpochRequest.Topic.Partition) -> EpochResponse.Topic.Partition:
    found, refused = led(call, topic, part.partition, part.current_leader_epoch)
    refused = call.ordered_error(topic, part.partition) or call.denied("topic", topic, "DESCRIBE") or refused
    epoch, end = (-1, -1) if refused or found is None else found.log.end_of_epoch(part.leader_epoch)
    return EpochResponse.Topic.Partition(error_code=code(refused), partition=part.partition, leader_epoch=epoch, end_offset=end)
