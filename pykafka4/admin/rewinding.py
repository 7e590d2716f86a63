"""Rewinding. Rule: a plan changes nothing, names every offset, and has none outside the log."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka4.admin.arguments import Goal
from pykafka4.admin.desk import Deadline, Desk
from pykafka4.admin.groups import Groups, raised
from pykafka4.admin.values import OffsetPlan, PlannedOffset
from pykafka4.core.admin.offsets import EARLIEST, LATEST, ListOffsets
from pykafka4.errors import KafkaError, PartialFailure
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Rewinding"]


@attrs.frozen
class Log:
    """Both ends of a partition's log, and the first offset at the time that was asked for."""

    start: int
    end: int
    at_time: int | None


class Rewinding:
    """Plans for the offsets of groups."""

    def __init__(self, desk: Desk, groups: Groups) -> None:
        self._desk, self._groups = desk, groups

    def plan(self, group: str, topics: tuple[list[str], list[TopicPartition]] | None, goal: Goal, deadline: Deadline) -> OffsetPlan:
        """See AdminClient.plan_offsets."""
        committed = raised(self._groups.offsets([group], deadline, stable=True)[group])
        partitions = self._partitions(topics, goal, committed, deadline)
        logs = self._logs(group, partitions, goal, deadline)
        rows, errors = [], dict[TopicPartition, KafkaError]()
        for tp in partitions:
            try:
                rows.append(_planned(group, tp, goal, committed.get(tp), logs[tp]))
            except KafkaError as error:
                errors[tp] = error
        _require(group, errors)
        return OffsetPlan(group, tuple(rows), self._groups.find(group, deadline))

    def resolve(self, targets: tuple[list[str], list[TopicPartition]], deadline: Deadline) -> list[TopicPartition]:
        """All partitions of whole topics, and single ones."""
        names, single = targets
        found = set(single)
        for name, count in self._groups.partitions(names, deadline).items():
            found.update(TopicPartition(name, number) for number in range(raised(count)))
        return sorted(found)

    def _partitions(
        self,
        topics: tuple[list[str], list[TopicPartition]] | None,
        goal: Goal,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: Deadline,
    ) -> list[TopicPartition]:
        if topics is None:
            return sorted(committed if goal.offsets is None else goal.offsets)
        chosen = self.resolve(topics, deadline)
        return chosen if goal.offsets is None else [tp for tp in chosen if tp in goal.offsets]

    def _logs(self, group: str, partitions: list[TopicPartition], goal: Goal, deadline: Deadline) -> dict[TopicPartition, Log]:
        starting = self._desk.of_leaders(ListOffsets(EARLIEST), partitions, deadline)
        ending = self._desk.of_leaders(ListOffsets(LATEST), partitions, deadline)
        timed = partitions if goal.timestamp is not None else []
        timing = self._desk.of_leaders(ListOffsets(goal.timestamp or 0), timed, deadline)
        starts, ends, times = starting.wait(), ending.wait(), timing.wait()
        logs, errors = {}, dict[TopicPartition, KafkaError]()
        for tp in partitions:
            try:
                logs[tp] = Log(raised(starts[tp]), raised(ends[tp]), raised(times.get(tp)))
            except KafkaError as error:
                errors[tp] = error
        _require(group, errors)
        return logs


def _require(group: str, errors: Mapping[TopicPartition, KafkaError]) -> None:
    if errors:
        raise PartialFailure.of(f"offsets of group {group} cannot be planned", errors)


def _planned(group: str, tp: TopicPartition, goal: Goal, committed: OffsetAndMetadata | None, log: Log) -> PlannedOffset:
    current = None if committed is None else committed.offset
    wanted, note = _wanted(group, tp, goal, current, log)
    new = min(max(wanted, log.start), log.end)
    if new != wanted:
        note = f"{wanted} is {'before the first' if wanted < log.start else 'beyond the last'} offset"
    return PlannedOffset(tp, current, new, log.start, log.end, note)


def _wanted(group: str, tp: TopicPartition, goal: Goal, current: int | None, log: Log) -> tuple[int, str]:
    """The offset that was asked for, and a note if that is another one than could be expected."""
    if goal.offset is not None:
        return goal.offset, ""
    if goal.offsets is not None:
        return goal.offsets[tp], ""
    if goal.timestamp is not None:
        return (log.end, "no record at that time or later, so the end") if log.at_time is None else (log.at_time, "")
    if goal.shift is not None:
        if current is None:
            raise KafkaError(f"{tp}: group {group} has committed no offset, so there is none to shift")
        return current + goal.shift, ""
    if goal.word == "current":
        return (log.end, "nothing is committed, so the end") if current is None else (current, "")
    return (log.start if goal.word == "earliest" else log.end), ""
