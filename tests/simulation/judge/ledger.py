"""Ledger. What lies in the logs, what applications have finished, and what the group may therefore store.

Applications finish records, the coordinator reports what it stored. A log that an election cut short keeps the records it lost here: a
consumer may have fetched them before, and hand them out afterwards.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from pykafka4.records import TopicPartition
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.storage.log import PartitionLog
from pykafka4.wire.records.batch import WireRecord
from pykafka4.wire.records.hot import Record
from tests.simulation.judge.invariants import Broken

__all__ = ["Cut", "Ledger"]

Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


@attrs.frozen(eq=False)
class Cut:
    """An election took the records from `end` on; `tail` has them by offset, `finished` says which an application has finished."""

    end: int
    tail: dict[int, WireRecord]
    finished: set[int]


class Ledger:
    """What was written, handed out, finished and committed."""

    def __init__(self, cluster: ModelCluster, *, latest: bool, knows_epochs: bool) -> None:
        """`latest`: reading begins at the end of the log where nothing is committed. `knows_epochs`: clients can see that a log was cut."""
        self._cluster, self.latest, self._knows_epochs = cluster, latest, knows_epochs
        self.values: dict[TopicPartition, dict[int, WireRecord]] = defaultdict(dict)  # what was written, retention or not
        self.cuts: dict[TopicPartition, list[Cut]] = {}
        self.finished: dict[TopicPartition, set[int]] = defaultdict(set)
        self.committed: dict[TopicPartition, int] = {}
        self.last: dict[TopicPartition, int] = {}  # what the group has stored
        self.most: dict[TopicPartition, int] = {}  # the highest it ever stored
        self.floor: dict[TopicPartition, int] = {}  # the lowest offset that an application went back to
        self.commits: Counter[TopicPartition] = Counter()  # how many were stored whose client still waited
        self.gone: dict[TopicPartition, PartitionLog] = {}  # the logs of deleted topics
        self.handed = self.written = 0
        self.on_cut: list[Callable[[TopicPartition, int], None]] = []
        self._writing: list[WireRecord] = []
        self._begun: dict[TopicPartition, int] = {}  # where reading began, with auto_offset_reset=latest
        self._unseen: dict[
            TopicPartition, int
        ] = {}  # what was stored when another member got a partition before its owner had given it back
        self._times: dict[TopicPartition, int] = {}  # that an application asks for, until it has a record
        self._done_below: dict[TopicPartition, int] = defaultdict(int)  # every record below is finished
        self._start: dict[TopicPartition, int] = defaultdict(int)  # where an application saw the log begin
        self._old_done: dict[TopicPartition, int] = {}  # as much was finished of logs that were cut since
        self._high: dict[TopicPartition, int] = defaultdict(int)  # the highest high watermark so far
        self._begins: dict[TopicPartition, int] = defaultdict(int)  # the highest start of a log so far
        cluster.on_commit.append(self._committed)
        cluster.on_append.append(self._appended)
        cluster.replication.on_truncate.append(self._truncated)
        self._note_leaders(cluster.replication)

    # ---- what is written

    def log(self, tp: TopicPartition) -> PartitionLog:
        """The log of its leader, or what that was when the topic was deleted."""
        return self.gone[tp] if tp in self.gone else self._cluster.log(*tp)

    def records(self, tp: TopicPartition) -> Iterator[WireRecord]:
        """What the log has now."""
        return self._after(tp, self.log(tp).start_offset)

    def delete(self, tp: TopicPartition) -> None:
        """Its topic is about to be deleted."""
        self.high(tp)
        self.gone[tp] = self._cluster.log(*tp)

    def write(self, tp: TopicPartition, records: list[WireRecord], *, codec: int, gap: int) -> None:
        """These are written."""
        self._writing = records
        self._cluster.append(*tp, records, codec=codec, gap=gap)
        self.written += len(records)

    def _appended(self, tp: TopicPartition, base: int, count: int) -> None:
        for n, record in enumerate(self._writing):
            self.values[tp][base + n] = record
        self._writing = []

    def _truncated(self, tp: TopicPartition, end: int) -> None:
        self.high(tp)
        log = self.log(tp)
        end = max(min(end, log.end_offset), log.start_offset)  # a gap before the lost records is lost, too
        values = self.values[tp]
        finished, done = self.finished[tp], self._done_below[tp]
        done = min((o for o in values if o >= done and o not in finished), default=max(values, default=-1) + 1)
        tail = {offset: values.pop(offset) for offset in [o for o in values if o >= end]}
        cut = Cut(end, tail, {offset for offset in tail if offset in finished})
        self.cuts.setdefault(tp, []).append(cut)
        self._old_done[tp] = max(self._old_done.get(tp, 0), done)
        self.finished[tp] = {offset for offset in finished if offset < end}
        self._done_below[tp] = min(self._done_below[tp], end)
        self.rewind(tp, self.log(tp).start_offset)  # as far as auto_offset_reset goes back who knows no epoch
        for told in self.on_cut:
            told(tp, end)

    def _note_leaders(self, replication: Any) -> None:
        """A new leader may know of a lower high watermark: note the old one's first."""
        lead = replication.lead

        def led(partition: Any, node: int) -> None:
            self.high(partition.tp)
            end, cuts = partition.log.end_offset, len(self.cuts.get(partition.tp, ()))
            lead(partition, node)
            if partition.log.end_offset < end and len(self.cuts.get(partition.tp, ())) == cuts:
                self._truncated(partition.tp, partition.log.end_offset)  # retention had left nothing that could be missed
            if partition.tp in self.cuts:  # a leader from before has what an election had taken
                self._restored(partition.tp)

        replication.lead = led

    def _restored(self, tp: TopicPartition) -> None:
        """The log of `tp` may have records again that an election had taken."""
        values, cuts = self.values[tp], self.cuts[tp]
        for record in self._after(tp, 0):
            values[record.offset] = record
            if any(record.offset in cut.finished and content(cut.tail[record.offset]) == content(record) for cut in cuts):
                self.finished[tp].add(record.offset)

    def high(self, tp: TopicPartition) -> int:
        """The highest high watermark that the partition ever had."""
        partition = self._cluster.partition(*tp)
        if partition is not None:
            logs = [copy.log for copy in partition.copies.values()]
            self._high[tp] = max(self._high[tp], *(log.high_watermark for log in logs))
            self._begins[tp] = max(self._begins[tp], *(log.start_offset for log in logs))
        return self._high[tp]

    def _begin_of(self, tp: TopicPartition) -> int:
        """Where its log begins, or began: a leader that was behind may have again what retention had deleted when it was asked for."""
        return max(self.log(tp).start_offset, self._begins[tp])

    def firsts(self, tp: TopicPartition) -> set[int]:
        """Where a log of this partition begins: the leader's, and one of a leader before that had deleted more."""
        self.high(tp)
        starts = self.log(tp).start_offset, self._begins[tp]
        return {first for first in (*starts, *(self.next_in_log(tp, start) for start in starts)) if first is not None}

    def below_high(self, tp: TopicPartition, offset: int) -> bool:
        """Whether consumers could ever see `offset`."""
        return offset < self._high[tp] or offset < self.high(tp)

    # ---- what is finished

    def finish(self, record: Record) -> None:
        """An application has finished with it."""
        tp = TopicPartition(record.topic, record.partition)
        cut = self.cut_with(tp, record) if tp in self.cuts else None
        if cut is not None:
            cut.finished.add(record.offset)
            following = min((offset for offset in cut.tail if offset > record.offset), default=record.offset + 1)
            self._old_done[tp] = max(self._old_done.get(tp, 0), following)
        else:
            self.finished[tp].add(record.offset)

    def done_below(self, tp: TopicPartition) -> int:
        """The offset of the first unfinished record, the end of the log when there is none."""
        finished, log = self.finished[tp], self.log(tp)
        at = max(self._done_below[tp], self._begin_of(tp), self._start[tp])
        for record in self._after(tp, at):
            if record.offset not in finished:
                self._done_below[tp] = record.offset
                return record.offset
        self._done_below[tp] = log.end_offset
        return log.end_offset

    def may_commit(self, tp: TopicPartition) -> int:
        """The highest offset with nothing unfinished before it, in this log or in one that was cut since."""
        done = max(self.done_below(tp), self._old_done.get(tp, 0))
        if tp in self.cuts:  # who begins at what is stored may store it again
            done = max(done, self._done_before_cuts(tp), self.most.get(tp, 0))
        return done

    def _done_before_cuts(self, tp: TopicPartition) -> int:
        """The first unfinished record of a log that was cut since, if all below the cut is finished. Offsets may be missing there."""
        done = self.done_below(tp)
        tails = [sorted(cut.tail.keys() - cut.finished) for cut in self.cuts[tp] if done >= cut.end]
        return max((tail[0] for tail in tails if tail), default=0)

    def _after(self, tp: TopicPartition, offset: int) -> Iterator[WireRecord]:
        log = self.log(tp)
        first = bisect.bisect_right(log.batches, offset, key=lambda batch: batch.next_offset)
        batches = itertools.islice(log.batches, first, None)
        return (r for b in batches for r in log.records_in(b) if r.offset >= offset)

    def next_in_log(self, tp: TopicPartition, offset: int) -> int | None:
        """The offset of the first record at `offset` or later."""
        return next((r.offset for r in self._after(tp, offset)), None)

    def next_written(self, tp: TopicPartition, offset: int) -> int | None:
        """The same, with what retention deleted since."""
        return min((o for o in self.values[tp] if o >= offset), default=None)

    def begin(self, tp: TopicPartition, offset: int) -> bool:
        """Whether reading begins at `offset`: with auto_offset_reset=latest, where nothing that is still in the log was committed."""
        stored, log, start = self.last.get(tp, -1), self.log(tp), self._begin_of(tp)
        stored = min(stored, self._unseen.get(tp, stored))
        begun = self._begun.get(tp)
        if begun is not None and offset in (begun, self.next_in_log(tp, begun)):
            self.skip(tp, offset)  # a log that was cut since has other records there
            return True
        if tp in self.cuts and (stored > log.end_offset or not self._knows_epochs):
            stored = -1  # out of range, now or when the client asked for what a cut had taken
        if self.floor.get(tp, start) < start:
            stored = -1  # retention deleted the offset that an application had moved back to
        if offset < self._begun.get(tp, 0) or (stored >= 0 and stored >= start):
            return False
        self._begun[tp] = offset
        self.skip(tp, offset)
        return True

    def given(self, tp: TopicPartition, *, early: bool) -> None:
        """The coordinator gives `tp` to a member; `early`: another one still reads it, whose last commit may come too late for that."""
        self._unseen.pop(tp, None)
        if early:
            self._unseen[tp] = self.last.get(tp, -1)

    def skip(self, tp: TopicPartition, offset: int) -> None:
        """Records before `offset` will not be read, which is correct."""
        self.finished[tp].update(r.offset for r in self._after(tp, self._done_below[tp]) if r.offset < offset)

    def went_back(self, tp: TopicPartition, offset: int) -> None:
        """The application seeks to `offset`, which it had passed. Another log that leads since may have more records before that."""
        if tp in self.cuts:
            self._old_done[tp] = max(self._old_done.get(tp, 0), offset)

    def sought_time(self, tp: TopicPartition, time: int) -> None:
        """The application asks for the first record of that time; no record was handed out since."""
        self._times[tp] = time

    def found_time(self, tp: TopicPartition) -> None:
        """It has a record."""
        self._times.pop(tp, None)

    def _is_after_time(self, tp: TopicPartition, offset: int) -> bool:
        """Whether a log that was cut has only records before `offset` that are older than the application asks for."""
        time = self._times.get(tp)
        if time is None or tp not in self.cuts:
            return False
        older = all(r.timestamp_ms < time for r in self._after(tp, self.done_below(tp)) if r.offset < offset)
        if older:
            self.skip(tp, offset)
        return older

    def deleted(self, tp: TopicPartition, start: int) -> None:
        """An application got the error that the log begins at `start`."""
        self._start[tp] = max(self._start[tp], start)

    def rewind(self, tp: TopicPartition, offset: int) -> None:
        """The application reads again from there, and commits may go back as far."""
        self.floor[tp] = min(self.floor.get(tp, offset), offset)

    # ---- which record it is

    def cut_with(self, tp: TopicPartition, record: Record) -> Cut | None:
        """The cut that took this very record; None when it is in the log, or was deleted by retention."""
        found = content(record)
        there = self.values[tp].get(record.offset)
        if there is not None and content(there) == found:
            return None
        lost = (cut for cut in self.cuts.get(tp, ()) if record.offset in cut.tail)
        return next((cut for cut in lost if content(cut.tail[record.offset]) == found), None)

    def check_content(self, tp: TopicPartition, record: Record) -> None:
        """It is what was written at its offset."""
        written = self.values[tp].get(record.offset)
        if (written is None or content(record) != content(written)) and self.cut_with(tp, record) is None:
            raise Broken("records are what was written", f"{tp} offset {record.offset}: {content(record)}, written {written}")

    # ---- what is stored

    def _committed(self, group: str, tp: TopicPartition, offset: int, awaited: bool) -> None:
        before = self.committed.get(tp, -1)
        begins = self.latest and offset > self.done_below(tp) and self.begin(tp, offset)  # also if records of a log before end there
        if offset > self.may_commit(tp) and not begins and not self._is_after_time(tp, offset):
            raise Broken("nothing unfinished is committed", f"{tp}: {offset} is committed, record {self.done_below(tp)} is not finished")
        self.commits[tp] += awaited
        self.last[tp], self.most[tp] = offset, max(offset, self.most.get(tp, -1))
        if not awaited:
            # Executed after the client had given the connection up: it may have committed more meanwhile, which cannot be
            # prevented. A client that asks now begins at what is stored now.
            self.committed[tp] = min(before, offset)
            return
        if offset < min(before, self.floor.get(tp, before)):
            raise Broken("commits never go back", f"{tp}: {offset} after {before}")
        self.committed[tp] = offset


def content(record: WireRecord | Record) -> Content:
    """What an application gets of a record."""
    return record.key, record.value, tuple(record.headers), record.timestamp_ms
