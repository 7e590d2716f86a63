"""Reads all records of a topic from its leaders, without any code of the client.

Invariant: a finding that no correct log has is an error: records of `log` whose offsets do not rise, a fetch whose batches all end before
its offset, a partition that returns no bytes although it has records.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from integration.judge.log_format import Batch, LogRecord, Wrong, batches_in
from integration.judge.raw import Broker, NotNow
from integration.seam import Brokers
from integration.waiting import Deadline, until

__all__ = ["Committed", "LogRecord", "Wrong", "committed", "log", "offsets"]

EARLIEST, LATEST = -2, -1
PIECE = 8 << 20  # bytes of one partition in one answer
WAIT_MS = 500
ANSWER_S = 10.0
RECORD_BATCHES_SINCE = (0, 11)


class Committed(NamedTuple):
    records: list[LogRecord]
    aborted: int  # records of aborted transactions
    open: int  # records of transactions without a marker


def offsets(brokers: Brokers, topic: str, deadline: Deadline) -> dict[int, tuple[int, int]]:
    """(earliest, latest) of each partition."""
    found = until(partial(leaders, brokers, topic), deadline.left(), f"the partitions of {topic}", forgive=(OSError,))
    return {
        index: (find_offset(brokers, topic, index, EARLIEST, deadline), find_offset(brokers, topic, index, LATEST, deadline))
        for index in sorted(found)
    }


def find_offset(brokers: Brokers, topic: str, partition: int, timestamp: int, deadline: Deadline) -> int:

    def attempt() -> tuple[int]:
        with leader_of(brokers, topic, partition) as broker:
            return (broker.offset(topic, partition, timestamp),)

    (offset,) = until(attempt, deadline.left(), f"the offsets of {topic}-{partition}", forgive=(OSError,))
    return offset


def leaders(brokers: Brokers, topic: str) -> dict[int, int]:
    """From the first running broker that answers."""
    for node in brokers.running():
        with contextlib.suppress(OSError), Broker(brokers.admin_address(node), ANSWER_S) as broker:
            return broker.leaders(topic)
    raise NotNow("no running broker answers")


def leader_of(brokers: Brokers, topic: str, partition: int) -> Broker:
    """Raises NotNow if there is no leader."""
    leader = leaders(brokers, topic).get(partition, -1)
    if leader not in brokers.nodes:
        raise NotNow(f"{topic}-{partition} has no leader now")
    return Broker(brokers.admin_address(leader), ANSWER_S)


def log(brokers: Brokers, topic: str, deadline: Deadline) -> dict[int, list[LogRecord]]:
    """Every record of the topic, by partition, up to the high watermarks at the moment of the call."""
    return {index: read(brokers, topic, index, first, end, deadline) for index, (first, end) in offsets(brokers, topic, deadline).items()}


def committed(brokers: Brokers, topic: str, deadline: Deadline) -> dict[int, Committed]:
    """The records for a reader of committed records, up to the high watermarks at the moment of the call."""
    return {
        index: committed_of(batches(brokers, topic, index, first, end, deadline))
        for index, (first, end) in offsets(brokers, topic, deadline).items()
    }


def committed_of(log: Iterable[Batch]) -> Committed:
    open_ones: dict[int, list[LogRecord]] = {}  # producer id -> records of its transaction
    records: list[LogRecord] = []
    aborted = 0
    for batch in log:
        if not batch.transactional:
            records += batch.records
        elif not batch.control:
            open_ones.setdefault(batch.producer_id, []).extend(batch.records)
        elif batch.commits:
            records += open_ones.pop(batch.producer_id, ())
        else:
            aborted += len(open_ones.pop(batch.producer_id, ()))
    return Committed(sorted(records), aborted, sum(map(len, open_ones.values())))


def read(brokers: Brokers, topic: str, partition: int, first: int, end: int, deadline: Deadline) -> list[LogRecord]:
    found = batches(brokers, topic, partition, first, end, deadline)
    records = [record for batch in found for record in batch.records if first <= record.offset < end]
    rising(f"{topic}-{partition}", records)
    return records


def batches(brokers: Brokers, topic: str, partition: int, first: int, end: int, deadline: Deadline) -> Iterator[Batch]:
    """The first and the last batch may have offsets outside of `first` to `end`."""
    at = first
    where = f"{topic}-{partition}"
    while at < end:
        data = until(
            partial(fetch, brokers, topic, partition, at),
            deadline.left(),
            f"{where} to answer with records from {at}",
            forgive=(OSError,),
        )
        before = at
        for batch in batches_in(data, where):
            if at < batch.next_offset and at < end:
                yield batch
            at = max(at, batch.next_offset)
        if at == before:
            raise Wrong(f"{where}: a fetch from {at} brought no batch that goes past it")


def fetch(brokers: Brokers, topic: str, partition: int, offset: int) -> bytes | None:
    """None if there are no bytes yet."""
    release = tuple(int(part) for part in brokers.version.split(".")[:2])
    with leader_of(brokers, topic, partition) as broker:
        return broker.fetch(topic, partition, offset, PIECE, WAIT_MS, old=release < RECORD_BATCHES_SINCE) or None


def rising(where: str, records: Iterable[LogRecord]) -> None:
    for before, after in pairwise(records):
        if after.offset <= before.offset:
            raise Wrong(f"{where}: offset {after.offset} follows {before.offset}")
