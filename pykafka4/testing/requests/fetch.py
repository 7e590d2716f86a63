"""Serves Fetch requests. The response is sent as soon as there is enough to send (`enough`), or when `max_wait_ms` has passed.

Invariant: a Fetch requests the partitions that it names, and the partitions of its session (`storage.fetch_sessions`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final, TypeAlias

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.faults.controls import When
from pykafka4.testing.requests.partitions import FETCH_FROM_FOLLOWERS, endpoints, isolation, named, readable
from pykafka4.testing.requests.session import LATER, Call, code
from pykafka4.testing.storage.fetch_sessions import FetchSession, RequestedPartition
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.testing.storage.purgatory import Delayed
from pykafka4.testing.storage.transactions import Isolation
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse

__all__ = ["fetch"]

SESSIONS_SINCE: Final = 7  # the first version of Fetch with sessions
BY_ID_SINCE: Final = 13  # the first version of Fetch that names topics by id
LEADERS_SINCE: Final = 16  # the first version of Fetch whose responses name new leaders
FULL, SESSIONLESS = 0, -1  # epochs of a request that begins a session, or has none
Answer: TypeAlias = FetchResponse.Topic.Partition


@attrs.frozen(eq=False)
class Wanted:
    asked: list[RequestedPartition]
    session: FetchSession | None = None  # the session to which the Fetch belongs
    opens: bool = False  # whether the Fetch begins a session


def fetch(call: Call) -> Any:
    message: FetchRequest = call.message
    wanted, refused = want(call)
    if refused is not None:
        return FetchResponse(error_code=code(refused), session_id=0, responses=[])
    if message.max_wait_ms <= 0 or not wanted.asked or enough(call, wanted.asked):
        return fetched(call, wanted)
    epoch = None if wanted.session is None else wanted.session.epoch
    delayed = Delayed(
        [TopicPartition(a.name or "", a.wish.partition) for a in wanted.asked],
        ready=lambda tp: call.session.dead or enough(call, wanted.asked),
        answer=lambda: call.answer(fetched(call, wanted, epoch)),
    )
    call.cluster.replication.fetches.add(delayed, message.max_wait_ms / 1000)
    return LATER


def want(call: Call) -> tuple[Wanted, str | None]:
    """(the partitions that the Fetch requests, error). Applies the request's changes to its session."""
    message: FetchRequest = call.message
    sessions = call.cluster.fetch_sessions[call.broker.node]
    asked = [RequestedPartition(t.topic, t.topic_id, part, name(call, t)) for t in message.topics for part in t.partitions]
    if call.version < SESSIONS_SINCE:
        return Wanted(asked), None
    if message.session_epoch in (FULL, SESSIONLESS):
        sessions.close(message.session_id)
        return Wanted(asked, opens=message.session_epoch == FULL), None
    session = sessions.find(message.session_id)
    if session is None:
        return Wanted([]), "FETCH_SESSION_ID_NOT_FOUND"
    if session.epoch != message.session_epoch:
        return Wanted([]), "INVALID_FETCH_SESSION_EPOCH"
    if session.by_id is not (call.version >= BY_ID_SINCE):
        return Wanted([]), "FETCH_SESSION_TOPIC_ID_ERROR"
    topics = message.forgotten_topics_data
    session.update(asked, [(t.topic if t.topic_id == NO_UUID else t.topic_id, number) for t in topics for number in t.partitions])
    if not session.partitions:
        sessions.close(session.id)
        return Wanted(asked), None
    return Wanted(list(session.partitions.values()), session), None


def name(call: Call, topic: FetchRequest.Topic | RequestedPartition) -> str | None:
    """None if no topic has the id."""
    return named(call, topic, topic.topic, BY_ID_SINCE)[0]


def enough(call: Call, asked: Iterable[RequestedPartition]) -> bool:
    """Whether the response need not wait: it has an error, a diverging epoch, a preferred replica, or `min_bytes` of records."""
    message: FetchRequest = call.message
    size = 0
    for one in asked:
        part = one.wish
        if (topic := name(call, one)) is None:
            return True
        _, log, refused = readable(call, topic, part.partition, part.current_leader_epoch)
        if refused or log is None or _bad_offset(log, part) or _diverging(log, part):
            return True
        if _preferred(call, topic, part) is not None:
            return True
        if call.denied("topic", topic, "READ"):
            return True
        if any(e.fits(call.key, topic, part.partition, When.BEFORE) for e in call.cluster.controls.pushed):
            return True
        size += len(log.read(part.fetch_offset, part.partition_max_bytes, end_of(call, log)))
    return size >= message.min_bytes


def end_of(call: Call, log: PartitionLog) -> int:
    return log.end_offset if call.message.replica_id >= 0 else log.end_for(isolation(call))


def _bad_offset(log: PartitionLog, part: FetchRequest.Topic.Partition) -> bool:
    """Whether the Fetch gets OFFSET_OUT_OF_RANGE. If the client's history diverges, an offset beyond the log's end is no error."""
    if part.last_fetched_epoch >= 0 and log.end_of_epoch(part.last_fetched_epoch) == (-1, -1):
        return True
    beyond = part.fetch_offset > log.end_offset and not _diverging(log, part)
    return part.fetch_offset < log.start_offset or beyond


def _diverging(log: PartitionLog, part: FetchRequest.Topic.Partition) -> tuple[int, int] | None:
    """(epoch, end offset) at which the client's history diverges from the log's; None if it does not."""
    if part.last_fetched_epoch < 0:
        return None
    epoch, end = log.end_of_epoch(part.last_fetched_epoch)
    return (epoch, end) if epoch < part.last_fetched_epoch or end < part.fetch_offset else None


def fetched(call: Call, wanted: Wanted, epoch: int | None = None) -> FetchResponse:
    """`epoch`: the session's epoch when the wait began; None without a session or a wait."""
    session = wanted.session
    if session is not None and epoch not in (None, session.epoch):
        return FetchResponse(error_code=code("INVALID_FETCH_SESSION_EPOCH"), session_id=session.id, responses=[])
    budget = _Budget(call.message.max_bytes)
    answers = [(one, _answer(call, one, budget)) for one in wanted.asked]
    number = 0 if session is None else session.id
    if session is not None:
        answers = list(session.select(answers))
    elif wanted.opens:
        number = call.cluster.fetch_sessions[call.broker.node].open(answers, by_id=call.version >= BY_ID_SINCE)
    response = FetchResponse(session_id=number, responses=_by_topic(answers))
    if call.version >= LEADERS_SINCE:
        leaders = {answer.current_leader.leader_id for _, answer in answers}
        response.node_endpoints = endpoints(call, FetchResponse.Endpoint, leaders)
    return response


def _by_topic(answers: Iterable[tuple[RequestedPartition, Answer]]) -> list[FetchResponse.Topic]:
    """Only adjacent partitions of a topic share a row, so that the order of the session stays."""
    found = groupby(answers, key=lambda pair: (pair[0].topic, pair[0].topic_id))
    return [FetchResponse.Topic(topic=name, topic_id=number, partitions=[a for _, a in rows]) for (name, number), rows in found]


@attrs.define
class _Budget:
    """The bytes left in a response, whose first batch is complete, however large."""

    left: int
    empty: bool = True


def _answer(call: Call, asked: RequestedPartition, budget: _Budget) -> Answer:
    topic, error = name(call, asked), None
    if topic is not None:
        asked.name = topic
    elif asked.name is None:
        error = "UNKNOWN_TOPIC_ID"
    else:  # the topic existed earlier
        error = "INCONSISTENT_TOPIC_ID" if asked.name in call.cluster.topics else "UNKNOWN_TOPIC_OR_PARTITION"
    return _partition(call, topic, error, asked.wish, budget)


def _partition(call: Call, topic: str | None, error: str | None, part: FetchRequest.Topic.Partition, budget: _Budget) -> Answer:
    found, log, refused = (None, None, error) if topic is None else readable(call, topic, part.partition, part.current_leader_epoch)
    refused = call.ordered_error(topic, part.partition) or (topic and call.denied("topic", topic, "READ")) or refused
    if refused is None and log is not None and _bad_offset(log, part):
        refused = "OFFSET_OUT_OF_RANGE"
    if refused is not None:
        log = None
    answer = Answer(
        partition_index=part.partition,
        error_code=code(refused),
        high_watermark=log.high_watermark if log else -1,
        last_stable_offset=log.stable_offset if log else -1,
        log_start_offset=log.start_offset if log else -1,
        aborted_transactions=None,
        records=b"",
    )
    if refused in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH") and found is not None and call.version >= LEADERS_SINCE:
        answer.current_leader = Answer.Leader(leader_id=found.leader, leader_epoch=found.epoch)
    if log is not None and topic is not None and (preferred := _preferred(call, topic, part)) is not None:
        answer.preferred_read_replica = preferred
    elif log is not None:
        _fill(call, answer, log, part, budget)
    return answer


def _preferred(call: Call, topic: str, part: FetchRequest.Topic.Partition) -> int | None:
    """The first in-sync follower in the consumer's rack whose log has the offset; None: read from this broker."""
    message, brokers = call.message, call.cluster.brokers
    found = call.cluster.partition(topic, part.partition)
    if call.version < FETCH_FROM_FOLLOWERS or message.replica_id >= 0 or not message.rack_id or found is None:
        return None
    if found.leader != call.broker.node or call.broker.rack == message.rack_id:
        return None
    copies = (copy for copy in found.followers if copy.node in found.in_sync and brokers[copy.node].rack == message.rack_id)
    fit = (copy for copy in copies if copy.log.start_offset <= part.fetch_offset <= copy.confirmed)
    return next((copy.node for copy in fit), None)


def _fill(call: Call, answer: Answer, log: PartitionLog, part: FetchRequest.Topic.Partition, budget: _Budget) -> None:
    diverging = _diverging(log, part)
    if diverging is not None:
        answer.diverging_epoch = Answer.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        return
    limit = min(part.partition_max_bytes, budget.left)
    data = log.read(part.fetch_offset, limit, end_of(call, log))
    if len(data) > limit and not budget.empty:
        data = data[: max(limit, 0)]
    if data:
        budget.left, budget.empty = budget.left - len(data), False
        answer.records = data
    if call.message.replica_id < 0 and isolation(call) is Isolation.READ_COMMITTED:
        aborted = log.aborted(part.fetch_offset, len(data)) if data else []
        answer.aborted_transactions = [Answer.AbortedTransaction(producer_id=a.producer_id, first_offset=a.first_offset) for a in aborted]
