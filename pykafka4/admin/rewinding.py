"""Plans new offsets for groups. Invariant: a plan changes nothing, and each new offset lies between the `start` and `end` of its row."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs

from pykafka4.admin.arguments import Goal
from pykafka4.admin.calls import are_too_old, value_or_raise
from pykafka4.admin.groups import Groups
from pykafka4.admin.session import AdminSession
from pykafka4.admin.values import OffsetPlan, PlannedOffset
from pykafka4.client.answers import Deadline
from pykafka4.core.admin.offsets import EARLIEST, LATEST, ListOffsets
from pykafka4.core.admin.values import ListedOffset
from pykafka4.errors import ConfigError, KafkaError, PartialFailure, listed
from pykafka4.records import OffsetAndMetadata, TopicPartition

__all__ = ["Rewinding"]


@attrs.frozen
class Log:
    """Both ends of a partition's log, and the offset of the first record at the goal's time or later.

    `at_time` is None if the goal has no time, or if no record is that late.
    """

    start: int
    end: int
    at_time: int | None


class Rewinding:
    def __init__(self, session: AdminSession, groups: Groups) -> None:
        self._session, self._groups = session, groups

    def plan(self, group: str, topics: tuple[list[str], list[TopicPartition]] | None, goal: Goal, deadline: Deadline) -> OffsetPlan:
        # `stable` waits for the end of open transactions, whose offsets would replace the planned ones.
        committed = value_or_raise(self._groups.offsets([group], deadline, stable=True)[group])
        partitions = self._partitions(topics, goal, committed, deadline)
        logs = self._logs(group, partitions, goal, deadline)
        rows, errors = [], dict[TopicPartition, KafkaError]()
        for tp in partitions:
            try:
                rows.append(_planned(group, tp, goal, committed.get(tp), logs[tp]))
            except KafkaError as error:
                errors[tp] = error
        _require(group, errors)
        return OffsetPlan(group, tuple(rows), self._groups.find(group, deadline), bool(committed))

    def resolve(self, targets: tuple[list[str], list[TopicPartition]], deadline: Deadline) -> list[TopicPartition]:
        names, single = targets
        found = set(single)
        for name, count in self._groups.partitions(names, deadline).items():
            found.update(TopicPartition(name, number) for number in range(value_or_raise(count)))
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
        return self.resolve(topics, deadline) if goal.offsets is None else _among(topics, goal.offsets)

    def _logs(self, group: str, partitions: list[TopicPartition], goal: Goal, deadline: Deadline) -> dict[TopicPartition, Log]:
        """Raises PartialFailure, UnsupportedVersion."""
        wanted = ((EARLIEST, partitions), (LATEST, partitions), (goal.timestamp or 0, partitions if goal.timestamp is not None else []))
        # All three questions are in flight at once, so they take the time of one ListOffsets request.
        asked = [self._session.ask_leaders(ListOffsets(dict.fromkeys(of, timestamp)), of, deadline) for timestamp, of in wanted]
        try:
            starts, ends, times = (answers.wait() for answers in asked)
        finally:  # otherwise Ctrl-C in one `wait` would leave the later questions open
            for answers in asked:
                answers.end()
        logs, errors = {}, dict[TopicPartition, KafkaError]()
        for tp in partitions:
            try:
                at_time = None if goal.timestamp is None else value_or_raise(times[tp]).offset
                logs[tp] = Log(_end(starts[tp]), _end(ends[tp]), at_time)
            except KafkaError as error:
                errors[tp] = error
        _require(group, errors)
        return logs


def _end(found: ListedOffset | KafkaError) -> int:
    """The offset of a log's start or end, which is never None. Raises `found` if it is an error."""
    offset = value_or_raise(found).offset
    assert offset is not None
    return offset


def _among(topics: tuple[list[str], list[TopicPartition]], offsets: Collection[TopicPartition]) -> list[TopicPartition]:
    """Each topic and each single partition must have an offset in `offsets`."""
    names, single = set(topics[0]), set(topics[1])
    given = {tp.topic for tp in offsets}
    if without := [*sorted(names - given), *map(str, sorted(single.difference(offsets)))]:
        have = f"the offsets are for partitions of {listed(sorted(given))}"
        raise ConfigError(
            f"no offset is given for {listed(without)}: {have}; name only partitions with offsets to set, or give their offsets"
        )
    return sorted(tp for tp in offsets if tp.topic in names or tp in single)


def _require(group: str, errors: Mapping[TopicPartition, KafkaError]) -> None:
    if are_too_old(errors):  # one error is enough, because each says that a broker is too old
        raise next(iter(errors.values())).again()
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
    """Return the wanted offset, and a note if the end of the log stands in for an offset that does not exist.

    Raises KafkaError for a shift without a committed offset.
    """
    if goal.offset is not None:
        return goal.offset, ""
    if goal.offsets is not None:
        return goal.offsets[tp], ""
    if goal.timestamp is not None:
        return (log.end, "no record at that time or later, so the end") if log.at_time is None else (log.at_time, "")
    if goal.shift is not None:
        if current is None:
            raise KafkaError(f"{tp}: group {group} has committed no offset that could be shifted")
        return current + goal.shift, ""
    if goal.word == "current":
        return (log.end, "nothing is committed, so the end") if current is None else (current, "")
    return (log.start if goal.word == "earliest" else log.end), ""
