"""Compares a producer's acknowledgements with the brokers' own logs, record by record.

A load sends numbered records at a fixed rate, while a test kills or freezes leaders, or makes other faults. The verdict: no acknowledged
record is missing, no record is in a partition twice, every record is unchanged, every partition has its records in the order of sending,
and every record has the offset of its acknowledgement.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs

from integration.cluster import Cluster
from integration.waiting import until
from pykafka4 import Producer

__all__ = ["TOO_LATE_MS", "Cycle", "Load", "Verdict", "freeze_cycle", "judge", "kill_cycle"]

PARTITIONS = 6
BEGIN_MS = time.time_ns() // 1_000_000  # timestamp of record 0; brokers delete segments whose records are all old
FAILOVER_S, RECOVERY_S = 60.0, 60.0
TOO_LATE_MS = 10 * 24 * 3600 * 1000  # milliseconds in the future, which topics refuse
MARGIN = 1_000  # records that may be on their way to `send` when a load learns of new partitions


class Content(NamedTuple):
    """The content of a record, without its partition and offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int


def content(n: int) -> Content:
    """Some records have empty or missing parts."""
    key = (None, b"", b"k%d" % n)[n % 3]
    headers = ((), (("n", b"%d" % n),), (("empty", b""), ("none", None), ("empty", b"again")))[n % 3]
    return Content(key, b"%d" % n, headers, BEGIN_MS + n)


class Load(threading.Thread):
    """Sends record n = 0, 1, 2, … to partition n % partitions at `rate` per second until `enough()`, and keeps the report of each."""

    def __init__(self, producer: Producer, topic: str, rate: float, enough: Callable[[int], bool], partitions: int = PARTITIONS) -> None:
        super().__init__(name="chaos-load", daemon=True)
        self.producer, self.topic, self.rate, self.enough = producer, topic, rate, enough
        self.sent = 0
        self.counts = [(0, partitions)]  # (first record, number of partitions from it on)
        self.excuses: list[tuple[int, Callable[[int], bool]]] = []  # (first record that is not excused, choice among the earlier ones)
        self.shaken: set[int] = set()  # partitions with an unclean election, in which records may fail
        self.refuse = False  # whether the next record has a timestamp that brokers refuse
        self.refused: set[int] = set()
        self.offsets: dict[int, int] = {}  # record -> acknowledged offset
        self.repeated: set[int] = set()  # acknowledged records whose batch may be in the log more than once, according to the producer
        self.failures: dict[int, BaseException] = {}
        self.completions: Counter[int] = Counter()
        self.last_ack = [0.0] * partitions  # monotonic seconds
        self.error: BaseException | None = None

    def run(self) -> None:
        """Send in small bursts, so that the rate holds also with a coarse clock."""
        begin = time.monotonic()
        try:
            while not self.enough(self.sent):
                due = int((time.monotonic() - begin) * self.rate) + 1
                for _ in range(due - self.sent):
                    self.send_one()
                time.sleep(0.005)
        except BaseException as error:  # kept for the test, which reads it
            self.error = error

    def partition(self, n: int) -> int:
        """The partition follows from the number, so that every partition has traffic."""
        return n % self.counts[bisect.bisect_right(self.counts, n, key=lambda row: row[0]) - 1][1]

    def grow(self, partitions: int) -> None:
        """Use the topic's new partitions from `MARGIN` records after this call on. Any thread may call this."""
        self.last_ack += [0.0] * (partitions - len(self.last_ack))
        self.counts.append((self.sent + MARGIN, partitions))

    def excuse(self, concerned: Callable[[int], bool]) -> None:
        """Excuse the loss of records sent so far for which `concerned` is true: their log was deleted or cut off.

        Any thread may call this. `concerned` is called at the end, because an acknowledgement may come long after the broker has lost its
        record.
        """
        self.excuses.append((self.sent + 1, concerned))  # with the record that is being sent now, which may be written, too

    def excused(self) -> set[int]:
        """The acknowledged records whose loss is not the client's fault."""
        return {n for n in self.offsets if any(n < sent and concerned(n) for sent, concerned in self.excuses)}

    def send_one(self, later_ms: int = 0) -> None:
        n = self.sent
        if self.refuse:
            self.refuse, later_ms = False, TOO_LATE_MS
            self.refused.add(n)
        key, value, headers, timestamp = content(n)
        self.producer.send(
            self.topic,
            value,
            key=key,
            headers=headers,
            timestamp_ms=timestamp + later_ms,
            partition=self.partition(n),
            on_delivery=lambda d: self.finished(n, d),
        )
        self.sent += 1

    def finished(self, n: int, delivery: Any) -> None:
        """The callback executor calls this method."""
        self.completions[n] += 1
        error = delivery.exception(0)
        if error is not None:
            self.failures[n] = error
        else:
            metadata = delivery.result(0)
            self.offsets[n] = metadata.offset
            if getattr(metadata, "maybe_repeated", False):
                self.repeated.add(n)
            self.last_ack[self.partition(n)] = time.monotonic()


@attrs.frozen
class Cycle:
    node: int
    election: float
    first_ack: float


def kill_cycle(cluster: Cluster, topic: str, load: Load, partition: int) -> Cycle:
    """Kill the leader, wait for its successor's first acknowledgement, restart it, and wait for all replicas in sync."""
    node = cluster.wait_leader(topic, partition)
    cluster.kill(node)
    died = time.monotonic()
    cluster.wait(lambda: cluster.leader(topic, partition) not in (node, -1), FAILOVER_S, f"a new leader of {topic}-{partition}")
    elected = time.monotonic()
    until(lambda: load.last_ack[partition] > elected, RECOVERY_S, f"an acknowledgement from the new leader of {topic}-{partition}")
    cycle = Cycle(node, elected - died, load.last_ack[partition] - elected)
    cluster.start(node)
    cluster.wait_full_isr([topic])
    return cycle


def freeze_cycle(cluster: Cluster, topic: str, load: Load, partition: int, seconds: float) -> Cycle:
    """Freeze the leader for `seconds`, then wait for all replicas in sync. The acknowledgement may come after the thaw."""
    node = cluster.wait_leader(topic, partition)
    cluster.freeze(node)
    frozen = time.monotonic()
    try:
        cluster.wait(lambda: cluster.leader(topic, partition) not in (node, -1), seconds, f"a new leader of {topic}-{partition}")
        elected = time.monotonic()
        while load.last_ack[partition] <= elected and time.monotonic() < frozen + seconds:
            time.sleep(0.02)
        first = load.last_ack[partition]
        time.sleep(max(0.0, frozen + seconds - time.monotonic()))
    finally:
        cluster.thaw(node)
    if first <= elected:
        first = until(
            lambda: load.last_ack[partition] > elected and load.last_ack[partition],
            RECOVERY_S,
            f"an acknowledgement of {topic}-{partition}",
        )
    cluster.wait_full_isr([topic])
    return Cycle(node, elected - frozen, first - elected)


@attrs.frozen
class Verdict:
    """The differences between logs and reports, as record numbers. A load that wrote no record proves nothing."""

    sent: int
    acked: int
    lost: list[int]
    duplicated: list[int]
    reordered: list[int]
    changed: list[int]
    foreign: list[str]
    wrong_offset: list[int]
    not_completed_once: list[int]
    failed: dict[int, BaseException]
    ended_by: BaseException | None = None

    def complaints(self) -> list[str]:
        """A line for each kind of fault."""
        kinds: dict[str, list[Any]] = {
            "acknowledged but not in the log": self.lost,
            "in the log more than once": self.duplicated,
            "after a later record of their partition": self.reordered,
            "not as sent": self.changed,
            "that nobody sent": self.foreign,
            "not at the offset reported": self.wrong_offset,
            "not completed exactly once": self.not_completed_once,
            "failed": [f"{n}: {error}" for n, error in self.failed.items()],
        }
        told = [f"{len(found)} records {kind}: {found[:5]}" for kind, found in kinds.items() if found]
        if self.ended_by is not None or not self.acked:
            told.append(f"the load ended after {self.sent} records, {self.acked} acknowledged: {self.ended_by!r}")
        return told


def judge(cluster: Cluster, topic: str, load: Load) -> Verdict:
    excused = load.excused()
    seen: Counter[int] = Counter()
    reordered, changed, foreign = [], [], []
    found_at_its_offset: set[int] = set()
    for partition, records in cluster.log(topic).items():
        latest = -1
        for record in records:
            n = number(record.value, load.sent)
            if n is None:
                foreign.append(f"{topic}-{partition}@{record.offset}")
                continue
            seen[n] += 1
            if n < latest and seen[n] == 1:
                reordered.append(n)
            latest = max(latest, n)
            found = Content(record.key, record.value, record.headers, record.timestamp)
            if found != content(n) or partition != load.partition(n):
                changed.append(n)
            if load.offsets.get(n) == record.offset:  # one copy is enough: a record may be there twice
                found_at_its_offset.add(n)
    return Verdict(
        sent=load.sent,
        acked=len(load.offsets),
        lost=[n for n in load.offsets if not seen[n] and n not in excused],
        duplicated=[n for n, times in seen.items() if times > 1],
        reordered=reordered,
        changed=changed,
        foreign=foreign,
        wrong_offset=[n for n in seen if n in load.offsets and n not in excused and n not in found_at_its_offset],
        not_completed_once=[n for n in range(load.sent) if load.completions[n] != 1],
        failed={n: error for n, error in load.failures.items() if load.partition(n) not in load.shaken},
        ended_by=load.error,
    )


def number(value: bytes | None, sent: int) -> int | None:
    """None if no record of the load has this value."""
    return int(value) if value is not None and value.isdigit() and int(value) < sent else None
