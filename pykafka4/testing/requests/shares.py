"""Serves the requests of share groups. Invariant: the acknowledgements of a request are applied before it acquires records."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.requests.groups import beaten, error_after, member_refusal
from pykafka4.testing.requests.partitions import endpoints, led
from pykafka4.testing.requests.session import LATER, Call, code
from pykafka4.testing.shares.group import ShareBeat
from pykafka4.testing.shares.shares import ShareSession
from pykafka4.testing.storage.partition import Partition
from pykafka4.testing.storage.purgatory import Delayed
from pykafka4.wire.protocol.messages_share import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

__all__ = ["acknowledge", "fetch", "heartbeat"]

OPENS, CLOSES = 0, -1  # epochs
RECORD_LIMIT: Final = 1  # acquire mode
NOBODY = LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
Errors = dict[tuple[UUID, int], str]


def heartbeat(call: Call) -> ShareGroupHeartbeatResponse:
    message: ShareGroupHeartbeatRequest = call.message
    topics = message.subscribed_topic_names
    beat = ShareBeat(member_refusal(call, topics) or "NONE")
    if beat.error == "NONE":
        group = call.cluster.shares.group(message.group_id)
        beat = group.heartbeat(message.member_id, message.member_epoch, None if topics is None else tuple(topics))
        error = error_after(call, beat.error)
        beat = beat if error == beat.error else ShareBeat(error)
    response: ShareGroupHeartbeatResponse = beaten(
        ShareGroupHeartbeatResponse, beat, message.member_id, call.cluster.shares.heartbeat_interval
    )
    return response


# ---- sessions


def _session(call: Call) -> tuple[ShareSession | None, str | None]:
    """(the session that the request continues or opens, error)."""
    message, shares = call.message, call.cluster.shares
    refused = call.ordered_error() or call.denied("group", message.group_id, "READ")
    if refused:
        return None, refused
    where = (call.broker.node, message.group_id, message.member_id)
    if message.share_session_epoch == OPENS:
        if isinstance(message, ShareAcknowledgeRequest):
            return None, "INVALID_SHARE_SESSION_EPOCH"
        if any(part.acknowledgement_batches for topic in message.topics for part in topic.partitions):
            return None, "INVALID_REQUEST"
        return shares.open(*where, call.session), None
    session = shares.find(*where)
    if session is None:
        return None, "SHARE_SESSION_NOT_FOUND"
    if message.share_session_epoch not in (CLOSES, session.epoch):
        return None, "INVALID_SHARE_SESSION_EPOCH"
    session.epoch += 1
    return session, None


def _found(call: Call, topic_id: UUID, number: int, operation: str = "READ") -> tuple[Partition | None, str | None]:
    topic = call.cluster.topics.by_id(topic_id)
    if topic is None:
        return None, "UNKNOWN_TOPIC_ID"
    found, refused = led(call, topic.name, number)
    ordered = call.cluster.controls.use_error_of_part(call.key, topic.name, number, When.BEFORE)
    return found, ordered or call.denied("topic", topic.name, operation) or refused


def _carry_out(call: Call, session: ShareSession) -> tuple[Errors, set[tuple[UUID, int]]]:
    """Apply the acknowledgements of a request; return (errors, partitions with acknowledgements)."""
    errors: Errors = {}
    named: set[tuple[UUID, int]] = set()
    for topic in call.message.topics:
        for part in topic.partitions:
            key = (topic.topic_id, part.partition_index)
            if not part.acknowledgement_batches:
                continue
            named.add(key)
            partition, refused = _found(call, *key)
            if refused is None and partition is not None:
                batches = [(b.first_offset, b.last_offset, list(b.acknowledge_types)) for b in part.acknowledgement_batches]
                refused = call.cluster.shares.partition(session.group, topic.topic_id, partition).acknowledge(session, batches)
                call.cluster.replication.fetches.wake(partition.tp)
            if refused is not None:
                errors[key] = refused
    return errors, named


def _close(call: Call, session: ShareSession) -> None:
    call.cluster.shares.close(call.broker.node, session.group, session.member)
    call.cluster.replication.fetches.wake_all()


def _leader(call: Call, topic_id: UUID, number: int, refused: str | None) -> LeaderIdAndEpoch:
    topic = call.cluster.topics.by_id(topic_id)
    if topic is None or refused != "NOT_LEADER_OR_FOLLOWER":
        return NOBODY
    partition = topic.partitions[number]
    return LeaderIdAndEpoch(leader_id=partition.leader, leader_epoch=partition.epoch)


# ---- ShareAcknowledge


def acknowledge(call: Call) -> ShareAcknowledgeResponse:
    message: ShareAcknowledgeRequest = call.message
    session, refused = _session(call)
    if session is None:
        return ShareAcknowledgeResponse(error_code=code(refused), responses=[], node_endpoints=[])
    errors, named = _carry_out(call, session)
    if message.share_session_epoch == CLOSES:
        _close(call, session)
    kind = ShareAcknowledgeResponse.Topic
    topics: dict[UUID, list[ShareAcknowledgeResponse.Topic.Partition]] = {}
    leaders: set[int] = set()
    for topic_id, number in sorted(named):
        refused = errors.get((topic_id, number))
        leader = _leader(call, topic_id, number, refused)
        leaders.add(leader.leader_id)
        part = kind.Partition(partition_index=number, error_code=code(refused), current_leader=leader)
        topics.setdefault(topic_id, []).append(part)
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=int(call.cluster.shares.lock_seconds * 1000),
        responses=[kind(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()],
        node_endpoints=endpoints(call, NodeEndpoint, leaders),
    )


# ---- ShareFetch


def fetch(call: Call) -> Any:
    """Apply acknowledgements, then acquire records. The response may wait for records, for at most `max_wait_ms`.

    A request with the epoch CLOSES acquires no records, and closes the session.
    """
    message: ShareFetchRequest = call.message
    session, refused = _session(call)
    if session is None:
        return ShareFetchResponse(error_code=code(refused), acquisition_lock_timeout_ms=0, responses=[], node_endpoints=[])
    errors, named = _carry_out(call, session)
    if message.share_session_epoch == CLOSES:
        _close(call, session)
        return _fetched(call, session, errors, named)
    for topic in message.topics:
        session.partitions.update(((topic.topic_id, part.partition_index), None) for part in topic.partitions)
    for gone in message.forgotten_topics_data:
        for number in gone.partitions:
            session.partitions.pop((gone.topic_id, number), None)

    def answer() -> ShareFetchResponse:
        return _fetched(call, session, errors, named)

    if message.max_wait_ms <= 0 or _enough(call, session):
        return answer()
    delayed = Delayed(
        _names(call, session),
        ready=lambda _: session.ended or _enough(call, session),
        answer=lambda: call.answer(answer()),
    )
    call.cluster.replication.fetches.add(delayed, message.max_wait_ms / 1000)
    return LATER


def _names(call: Call, session: ShareSession) -> list[TopicPartition]:
    topics = ((call.cluster.topics.by_id(topic_id), number) for topic_id, number in session.partitions)
    return [TopicPartition(topic.name, number) for topic, number in topics if topic is not None]


def _enough(call: Call, session: ShareSession) -> bool:
    """Whether a partition has a record to acquire, or is not led by this broker."""
    for topic_id, number in session.partitions:
        topic = call.cluster.topics.by_id(topic_id)
        partition, refused = (None, "UNKNOWN_TOPIC_ID") if topic is None else led(call, topic.name, number)
        if refused is not None or partition is None:
            return True
        if call.cluster.shares.partition(session.group, topic_id, partition).available(partition.log):
            return True
    return False


def _fetched(call: Call, session: ShareSession, errors: Errors, named: set[tuple[UUID, int]]) -> ShareFetchResponse:
    message: ShareFetchRequest = call.message
    kind = ShareFetchResponse.Topic
    left, topics, leaders = message.max_records, dict[UUID, list[ShareFetchResponse.Topic.Partition]](), set[int]()
    fetched = () if session.ended else session.partitions.keys()
    for topic_id, number in dict.fromkeys([*fetched, *sorted(named)]):
        refused, leader = None, NOBODY
        records, spans = b"", list[tuple[int, int, int]]()
        if (topic_id, number) in fetched:
            partition, refused = _found(call, topic_id, number)
            leader = _leader(call, topic_id, number, refused)
            if refused is None and partition is not None and left > 0:
                shared = call.cluster.shares.partition(session.group, topic_id, partition)
                spans = shared.acquire(partition.log, session, left, message.share_acquire_mode != RECORD_LIMIT)
                left -= sum(last - first + 1 for first, last, _ in spans)
                records = _read(partition, spans)
        acknowledged = errors.get((topic_id, number))
        if not (spans or refused or (topic_id, number) in named):
            continue
        leaders.add(leader.leader_id)
        part = kind.Partition(
            partition_index=number,
            error_code=code(refused),
            acknowledge_error_code=code(acknowledged),
            current_leader=leader if refused else _leader(call, topic_id, number, acknowledged),
            records=records,
            acquired_records=[
                kind.Partition.AcquiredRecords(first_offset=first, last_offset=last, delivery_count=count) for first, last, count in spans
            ],
        )
        topics.setdefault(topic_id, []).append(part)
    return ShareFetchResponse(
        acquisition_lock_timeout_ms=int(call.cluster.shares.lock_seconds * 1000),
        responses=[kind(topic_id=topic_id, partitions=parts) for topic_id, parts in topics.items()],
        node_endpoints=endpoints(call, NodeEndpoint, leaders),
    )


def _read(partition: Partition, spans: list[tuple[int, int, int]]) -> bytes:
    if not spans:
        return b""
    first, last = spans[0][0], spans[-1][1]
    return b"".join(batch.data for batch in partition.log.batches if batch.next_offset > first and batch.base_offset <= last)
