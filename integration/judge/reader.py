"""Reads from a topic's leaders everything that is in it, without any code of the client.

Invariant: anything a reader should never meet is an error: offsets that do not rise, a batch that starts after the end that was asked
for, a partition that answers nothing although it has records. `raw.py` asks the brokers, `log_format.py` reads the bytes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from integration.judge.log_format import LogRecord, Wrong, batches_in
from integration.judge.raw import Broker, NotNow
from integration.waiting import Deadline, until

if TYPE_CHECKING:
    from integration.cluster import Cluster

__all__ = ["LogRecord", "Wrong", "log", "offsets"]

EARLIEST, LATEST = -2, -1
PIECE = 8 << 20  # bytes of one partition in one answer
WAIT_MS = 500
ANSWER = 10.0  # seconds for one answer
RECORD_BATCHES_SINCE = (0, 11)


def offsets(cluster: Cluster, topic: str, deadline: Deadline) -> dict[int, tuple[int, int]]:
    """(earliest, latest) of each partition."""
    found = until(partial(leaders, cluster, topic), deadline.left(), f"the partitions of {topic}", forgive=(OSError,))
    return {
        index: (one(cluster, topic, index, EARLIEST, deadline), one(cluster, topic, index, LATEST, deadline)) for index in sorted(found)
    }


def one(cluster: Cluster, topic: str, partition: int, timestamp: int, deadline: Deadline) -> int:
    def attempt() -> tuple[int]:
        with leader_of(cluster, topic, partition) as broker:
            return (broker.offset(topic, partition, timestamp),)

    (offset,) = until(attempt, deadline.left(), f"the offsets of {topic}-{partition}", forgive=(OSError,))
    return offset


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """partition -> leader, as the first running broker that answers sees them."""
    for node in cluster.running():
        with contextlib.suppress(OSError), Broker(cluster.admin_address(node), ANSWER) as broker:
            return broker.leaders(topic)
    raise NotNow("no running broker answers")


def leader_of(cluster: Cluster, topic: str, partition: int) -> Broker:
    """A connection to the leader."""
    leader = leaders(cluster, topic).get(partition, -1)
    if leader not in cluster.nodes:
        raise NotNow(f"{topic}-{partition} has no leader now")
    return Broker(cluster.admin_address(leader), ANSWER)


def log(cluster: Cluster, topic: str, deadline: Deadline) -> dict[int, list[LogRecord]]:
    """Every record of the topic, up to the high watermarks at the moment of the call."""
    return {index: read(cluster, topic, index, first, end, deadline) for index, (first, end) in offsets(cluster, topic, deadline).items()}


def read(cluster: Cluster, topic: str, partition: int, first: int, end: int, deadline: Deadline) -> list[LogRecord]:
    """The records from `first` up to `end`."""
    records: list[LogRecord] = []
    at = first
    where = f"{topic}-{partition}"
    while at < end:
        data = until(
            partial(fetch, cluster, topic, partition, at),
            deadline.left(),
            f"{where} to answer with records from {at}",
            forgive=(OSError,),
        )
        before = at
        for batch in batches_in(data, where):
            records += [record for record in batch.records if at <= record.offset < end]
            at = max(at, batch.next_offset)
        if at == before:
            raise Wrong(f"{where}: a fetch from {at} brought no batch that goes past it")
    rising(where, records)
    return records


def fetch(cluster: Cluster, topic: str, partition: int, offset: int) -> bytes | None:
    """One answer's bytes; None when there are none yet."""
    release = tuple(int(part) for part in cluster.version.split(".")[:2])
    with leader_of(cluster, topic, partition) as broker:
        return broker.fetch(topic, partition, offset, PIECE, WAIT_MS, old=release < RECORD_BATCHES_SINCE) or None


def rising(where: str, records: Iterable[LogRecord]) -> None:
    for before, after in pairwise(records):
        if after.offset <= before.offset:
            raise Wrong(f"{where}: offset {after.offset} follows {before.offset}")
