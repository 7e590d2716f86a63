"""Reading. What one application was handed is compared with the logs, and what it waits for with what there is.

A partition that is owned, not paused, has records below its high watermark and that nothing keeps from being read is read within a bound:
that is judged over the time in which the application looked, found nothing more and did not get that partition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record
from tests.simulation.judge.invariants import Broken

if TYPE_CHECKING:
    from tests.simulation.judge.ledger import Cut
    from tests.simulation.plans.consumers import ConsumerSimulation

__all__ = ["GROUP_ITSELF", "ReadingPosition", "Reading"]

GROUP_ITSELF: Final = TopicPartition("the group", 0)  # stands for the group where faults are noted: its coordinator "leads" it
EVERY_S: Final = 0.5  # seconds between looks at what is not read
AWAY_S: Final = 1.0  # an application that asked for nothing for so long has to ask again before anything is late


@attrs.define(eq=False)
class ReadingPosition:
    """How far the application has come in a partition that it owns."""

    at: int | None = None  # where the next record is looked for, None at the beginning
    handed: int = 0  # records since it began, or since a seek
    last: Record | None = None  # of those
    sought: bool = False  # the application said where to read
    least: int = 0  # with auto_offset_reset=latest: reading cannot begin below
    cuts: list[int] = attrs.Factory(list)  # where the log was cut since; not noticed yet
    fresh: bool = False  # with auto_offset_reset=latest: it came after the subscription, so reading begins at its beginning
    time: int | None = None  # what the application sought; `at` is the first record that was not older then
    dry: float | None = None  # since when there are records and the application got none

    @property
    def known(self) -> bool:
        """Whether the client needs not look up where it is."""
        return self.time is None or self.handed > 0


class Reading:
    """One application's partitions."""

    def __init__(self, sim: ConsumerSimulation, name: str, policy: str, *, in_group: bool = True, keeps: bool = False) -> None:
        """`keeps`: partitions that do not move are read on while the group rebalances."""
        self._sim, self.name, self._policy, self._in_group, self._keeps = sim, name, policy, in_group, keeps
        self.owned: dict[TopicPartition, ReadingPosition] = {}
        self.paused: set[TopicPartition] = set()
        self._paused_before: set[TopicPartition] = set()  # released while they were paused: still paused if the next assignment has them
        self.subscribed = INFINITY  # when it was first told of an assignment: from then on its client knows its topics
        self._looked = 0.0
        self._asked_until = 0.0  # when the application last had an answer

    # ---- partitions come and go

    def begin(self, tps: Iterable[TopicPartition]) -> None:
        """They are this application's."""
        for tp in tps:
            if tp in self.owned:
                raise Broken("listeners are told the truth", f"{tp} is assigned twice")
            self._sim.used["new topics assigned"] += self._in_group and self._sim.is_new(tp.topic)
            fresh = self._in_group and self._sim.is_fresh(tp, self.subscribed)
            self.owned[tp] = ReadingPosition(at=None if self._in_group else 0, least=self._sim.least(tp), fresh=fresh)
        self.paused |= self._paused_before & self.owned.keys()
        self._paused_before.clear()
        excluded = [tp for tp in self.owned if self._in_group and self._sim.leaves_out(tp.topic)]
        if excluded:
            raise Broken("subscriptions select topics", f"{self.name} is assigned {excluded}, which its subscription excludes")
        self.subscribed = min(self.subscribed, self._sim.timeline.now)

    def end(self, tps: Collection[TopicPartition], *, lost: bool = False) -> None:
        """They are not any more. One that was lost may never have been reported."""
        for tp in tps:
            if tp not in self.owned and not lost:
                raise Broken("listeners are told the truth", f"{tp} is revoked and was not assigned")
            self.owned.pop(tp, None)
        self._paused_before |= self.paused.intersection(tps)
        self.paused.difference_update(tps)

    def sought(self, tp: TopicPartition, offset: int, time: int | None = None) -> None:
        """The application reads on from there; with `time` the client has to find that offset."""
        if self._in_group:
            self._sim.ledger.rewind(tp, offset)
        if tp in self.owned:
            end = self._sim.ledger.log(tp).end_offset
            cuts = [end] if offset > end else []  # an election took that offset
            self.owned[tp] = ReadingPosition(at=offset, sought=True, time=time, cuts=cuts)

    def cut(self, tp: TopicPartition, end: int) -> None:
        """An election took what lay from `end` on."""
        position = self.owned.get(tp)
        if position is not None:
            position.cuts.append(end)
            position.least = min(position.least, end)

    # ---- what is handed out

    def take(self, record: Record) -> None:
        """A record was handed out: it must be of a partition that is owned, in the log, and the next."""
        tp, ledger = TopicPartition(record.topic, record.partition), self._sim.ledger
        ledger.handed += 1
        position = self.owned.get(tp)
        if position is None:
            raise Broken("records of owned partitions only", f"{self.name} gets {tp} offset {record.offset} and owns {sorted(self.owned)}")
        if tp in self.paused:
            raise Broken("paused partitions are quiet", f"{self.name} gets {tp} offset {record.offset}, which is paused")
        if not ledger.below_high(tp, record.offset):
            what = f"{self.name} gets {tp} offset {record.offset}; the high watermark never was above {ledger.high(tp)}"
            raise Broken("never past the high watermark", what)
        ledger.check_content(tp, record)
        self._check_position(tp, position, record)
        position.at, position.handed, position.dry, position.last = record.offset + 1, position.handed + 1, None, record

    def _check_position(self, tp: TopicPartition, position: ReadingPosition, record: Record) -> None:
        ledger = self._sim.ledger
        if (
            position.cuts
            and position.last is not None
            and position.last.offset >= min(position.cuts)
            and ledger.cut_with(tp, position.last) is None
        ):
            # A replica with the old log leads again: no record that was read is lost. The client may have gone back before.
            if record.offset in self._after_cuts(tp, position) and self._policy != "none":
                self._go_back(tp, position, record.offset)
                position.at = record.offset
            position.cuts.clear()
        cut = ledger.cut_with(tp, record) if tp in ledger.cuts else None
        if cut is not None:
            self._check_old(tp, position, record, cut)
        elif position.cuts and position.at is not None and position.at > min(position.cuts):
            self._check_after_cut(tp, position, record, position.at)
        else:
            self._check_next(tp, position, record)
            if position.cuts and record.offset >= min(position.cuts):
                position.cuts.clear()

    def _check_old(self, tp: TopicPartition, position: ReadingPosition, record: Record, cut: Cut) -> None:
        """It was fetched before the log was cut."""
        if cut.end not in position.cuts:  # cut between the Fetch and the notification of the assignment
            position.cuts.append(cut.end)
        if position.at is None:
            return
        expected = self._sim.ledger.next_in_log(tp, position.at)
        if expected is None or expected >= cut.end:
            expected = min(offset for offset in cut.tail if offset >= min(position.at, record.offset))
        if record.offset != expected:
            raise Broken("positions never skip", f"{self.name} {tp}: {record.offset} of a log that was cut, {expected} is next")

    def _check_after_cut(self, tp: TopicPartition, position: ReadingPosition, record: Record, before: int) -> None:
        """The application had read what an election took: the client noticed, and goes back to where the log was cut."""
        sim, ledger = self._sim, self._sim.ledger
        if record.offset in self._after_cuts(tp, position) and self._policy != "none":
            self._go_back(tp, position, record.offset)
            if self._in_group and not sim.knows_epochs:  # of several cuts this is not the lowest: it went on where it was
                ledger.skip(tp, record.offset)
            return
        log_start = sim.ledger.log(tp).start_offset
        if (
            sim.knows_epochs and position.handed and before > log_start
        ):  # where the log begins, its epochs begin: nothing was cut that is there
            where = f"cut at {position.cuts} after {before - 1} was read"
            raise Broken("what was cut off is told or read again", f"{self.name} {tp}: {record.offset} is next, {where}")
        # A client that cannot know goes on where it was, or by its policy when that is behind the end of the log.
        reset = self._policy == "latest" or (self._policy == "earliest" and record.offset in ledger.firsts(tp))
        if not reset and record.offset != ledger.next_in_log(tp, before):
            raise Broken("positions never skip", f"{self.name} {tp}: {record.offset} after {before}, cut at {position.cuts}")
        self._go_back(tp, position, record.offset)
        if self._in_group:
            ledger.skip(tp, record.offset)

    def _after_cuts(self, tp: TopicPartition, position: ReadingPosition) -> set[int | None]:
        """Where a client goes on that has noticed one of the cuts."""
        ledger, start = self._sim.ledger, self._sim.ledger.log(tp).start_offset
        ends = {*position.cuts, *(max(end, start) for end in position.cuts)}  # a batch may begin before the start of the log
        return {find(tp, end) for end in ends for find in (ledger.next_in_log, ledger.next_written)}

    def _go_back(self, tp: TopicPartition, position: ReadingPosition, offset: int) -> None:
        if self._in_group:
            self._sim.ledger.rewind(tp, offset)
        position.cuts.clear()
        position.handed = 0

    def _check_next(self, tp: TopicPartition, position: ReadingPosition, record: Record) -> None:
        """It must be the next in the log; the first of an assignment may lie before that, not behind an unfinished record."""
        sim, ledger, before, offset = self._sim, self._sim.ledger, position.at, record.offset
        start = sim.ledger.log(tp).start_offset
        if not position.known and before is not None:
            before = self._check_time(tp, position, offset, before)
        if self._policy == "none" and self._in_group:
            self._check_asked(tp, position, offset, start)
        elif before is None or before < start:
            if self._policy == "latest" and offset < position.least and ledger.last.get(tp, -1) < 0:
                raise Broken("positions never skip", f"{self.name} {tp}: begins at {offset}, the latest was {position.least} or more")
            self._sim.used["new partitions begun with latest"] += position.fresh
            if position.fresh and ledger.last.get(tp, -1) < 0 and offset not in ledger.firsts(tp) and tp not in ledger.cuts:
                raise Broken(
                    "new partitions are read from their beginning", f"{self.name} {tp}: begins at {offset}, which is not its first"
                )
            if self._policy == "latest" and ledger.begin(tp, offset):
                before = offset
        if before is None:
            furthest = ledger.next_in_log(tp, max(ledger.done_below(tp), ledger.last.get(tp, -1) if tp in ledger.cuts else -1))
            wrong = furthest is not None and offset > furthest
        else:
            furthest = ledger.next_in_log(tp, before)
            wrong = offset != furthest
        if wrong and offset > start and offset not in ledger.firsts(tp):
            raise Broken("positions never skip", f"{self.name} {tp}: {offset} where {furthest} is next (after {before})")
        if not position.handed and tp in ledger.cuts and self._in_group:  # it begins where the group or the application said before a cut
            ledger.rewind(tp, offset)
            ledger.skip(tp, offset)

    def _check_time(self, tp: TopicPartition, position: ReadingPosition, offset: int, before: int) -> int:
        """The application sought a time; returns where reading had to go on. The log may have changed before the client looked."""
        ledger, time = self._sim.ledger, position.time
        assert time is not None
        self._sim.used["times sought"] += 1
        ledger.found_time(tp)
        if offset == ledger.next_in_log(tp, before):
            return before
        if ledger.log(tp).start_offset <= before and tp not in ledger.cuts:
            raise Broken("positions never skip", f"{self.name} {tp}: {offset} after seeking the time {time}, the first is {before}")
        if offset > before:
            ledger.skip(tp, offset)
        else:
            ledger.rewind(tp, offset)
        position.at = offset
        return offset

    def _check_asked(self, tp: TopicPartition, position: ReadingPosition, offset: int, start: int) -> None:
        """With auto_offset_reset=none only the application says where to read."""
        stored = self._sim.ledger.last.get(tp, -1)
        if position.at is None and not position.sought and stored < 0:
            raise Broken("no offset is chosen unasked", f"{self.name} {tp}: begins at {offset}, nothing was committed")
        if position.at is not None and position.at < start:
            following = min((o for o in self._sim.ledger.values[tp] if o >= position.at), default=offset)
            if offset != following:
                raise Broken("no offset is chosen unasked", f"{self.name} {tp}: {offset} after {position.at}, which was deleted")

    # ---- what is waited for

    def looked(self, asked: float, *, emptied: bool) -> None:
        """The application asked for records at `asked`. `emptied`: it was given all that there was, what it was not given is not there."""
        now, away = self._sim.timeline.now, asked - self._asked_until > AWAY_S
        self._asked_until = now
        if not emptied or away:  # while the application does not read, fetched records may leave no room for other partitions
            for position in self.owned.values():
                position.dry = None
            self._looked = now
        elif now - self._looked >= EVERY_S:
            self._looked = now
            for tp, position in self.owned.items():
                if tp in self.paused or not self._available(tp, position):
                    position.dry = None
                elif position.dry is None:
                    position.dry = now
                else:
                    self._check_patience(tp, position, position.dry, now)

    def _available(self, tp: TopicPartition, position: ReadingPosition) -> bool:
        partition = self._sim.cluster.partition(*tp)
        if partition is None:
            return False
        if self._policy == "latest" and (position.at is None or position.at < partition.log.start_offset):
            return False  # reading begins at the end of the log, or goes on there
        at = self._sim.ledger.done_below(tp) if position.at is None else position.at
        return at < partition.log.high_watermark

    def _check_patience(self, tp: TopicPartition, position: ReadingPosition, dry: float, now: float) -> None:
        sim = self._sim
        waits_for_group = self._in_group and not (self._keeps and position.at is not None)
        since, base = max(dry, sim.unstable_at if waits_for_group else dry), sim.disturbances.base
        if now - since <= base:
            return
        calm = sim.calm_time(tp if position.at is not None else None, since, now, grouped=self._in_group)
        if calm > base:
            what = f"{self.name} {tp}: nothing since {since:.3f}, now {now:.3f}, {calm:.3f} s of it without a fault; next is {position.at}"
            raise Broken("partitions go on", what)
