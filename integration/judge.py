"""Judge. Rule: what is in a topic is read from its leaders, slowly and completely, with nothing of the client but the formats.

It stops with an error at anything a reader should never meet: offsets that do not rise, a batch that starts after the end that was asked
for, a partition that answers nothing although it has records.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

from integration.admin import Admin, check
from integration.waiting import Deadline, until
from pykafka4.errors import BrokerError, ConnectionLost, KafkaError
from pykafka4.wire.batch import RecordBatch, batches, records_of
from pykafka4.wire.messages_data import FetchRequest, FetchResponse, ListOffsetsRequest
from pykafka4.wire.schema import Buffer, Request, ResponseT

__all__ = ["LogRecord", "Wrong", "log", "offsets"]

EARLIEST, LATEST = -2, -1
WITH_NAMES = 12  # the highest Fetch that speaks of topics by name
PIECE = 8 << 20  # bytes of one partition in one answer
LARGEST = 256 << 20  # bytes of one batch, decompressed
WAIT_MS = 500
NO_SESSION = -1


class Wrong(AssertionError):
    """A broker's log is not what a log can be; the message says where."""


class LogRecord(NamedTuple):
    """A record as it lies in the log; -1 where its producer was not idempotent. Control records are not shown."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    producer_id: int
    epoch: int
    sequence: int


def offsets(admin: Admin, topic: str, deadline: Deadline) -> dict[int, tuple[int, int]]:
    """(earliest, latest) of each partition."""
    partitions = until(lambda: admin.partitions(topic), deadline.left(), f"the partitions of {topic}", forgive=(OSError, KafkaError))
    return {
        index: (one(admin, topic, index, EARLIEST, deadline), one(admin, topic, index, LATEST, deadline)) for index in sorted(partitions)
    }


def one(admin: Admin, topic: str, partition: int, timestamp: int, deadline: Deadline) -> int:
    row = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=topic, partitions=[row])])

    def attempt() -> tuple[int]:
        answer = ask_leader(admin, topic, partition, request).topics[0].partitions[0]
        check(answer.error_code, f"offsets of {topic}-{partition}")
        return (answer.offset,)

    (offset,) = until(attempt, deadline.left(), f"the offsets of {topic}-{partition}", forgive=(OSError, KafkaError))
    return offset


def log(admin: Admin, topic: str, deadline: Deadline) -> dict[int, list[LogRecord]]:
    """Every record of the topic, up to the high watermarks at the moment of the call."""
    return {index: read(admin, topic, index, first, end, deadline) for index, (first, end) in offsets(admin, topic, deadline).items()}


def read(admin: Admin, topic: str, partition: int, first: int, end: int, deadline: Deadline) -> list[LogRecord]:
    """The records from `first` up to `end`."""
    records: list[LogRecord] = []
    at = first
    while at < end:
        data = until(
            partial(fetch, admin, topic, partition, at),
            deadline.left(),
            f"{topic}-{partition} to answer with records from {at}",
            forgive=(OSError, ConnectionLost, BrokerError),
        )
        before = at
        for batch in batches(data):
            records += [record for record in unpack(batch, topic, partition) if at <= record.offset < end]
            at = max(at, batch.next_offset)
        if at == before:
            raise Wrong(f"{topic}-{partition}: a fetch from {at} brought no batch that goes past it")
    rising(topic, partition, records)
    return records


def fetch(admin: Admin, topic: str, partition: int, offset: int) -> Buffer | None:
    """One answer's records; None when there are none yet."""
    row = FetchRequest.Topic.Partition(partition=partition, fetch_offset=offset, partition_max_bytes=PIECE)
    request = FetchRequest(
        max_wait_ms=WAIT_MS,
        min_bytes=1,
        max_bytes=PIECE,
        session_epoch=NO_SESSION,
        topics=[FetchRequest.Topic(topic=topic, partitions=[row])],
    )
    response: FetchResponse = ask_leader(admin, topic, partition, request, WITH_NAMES)
    check(response.error_code, f"fetch of {topic}-{partition}")
    answer = response.responses[0].partitions[0]
    check(answer.error_code, f"fetch of {topic}-{partition} from {offset}")
    return answer.records if answer.records is not None and len(answer.records) else None


def ask_leader(admin: Admin, topic: str, partition: int, request: Request[ResponseT], highest: int | None = None) -> ResponseT:
    leader = admin.partitions(topic)[partition].leader
    if leader < 0:
        raise ConnectionLost(f"{topic}-{partition} has no leader now")
    return admin.ask(leader, request, highest=highest)


def unpack(batch: RecordBatch, topic: str, partition: int) -> list[LogRecord]:
    rows = records_of(batch, LARGEST)
    if rows and rows[-1].offset > batch.last_offset:
        raise Wrong(f"{topic}-{partition}: the batch at {batch.base_offset} holds offset {rows[-1].offset}, past its own end")
    return [
        LogRecord(row.offset, row.key, row.value, row.headers, row.timestamp_ms, row.producer_id, row.producer_epoch, row.sequence)
        for row in rows
        if not row.control
    ]


def rising(topic: str, partition: int, records: list[LogRecord]) -> None:
    for before, after in pairwise(records):
        if after.offset <= before.offset:
            raise Wrong(f"{topic}-{partition}: offset {after.offset} follows {before.offset}")
