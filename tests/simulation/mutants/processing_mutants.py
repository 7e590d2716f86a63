"""Bugs of `Consumer.process` and `Consumer.streams`, each with the check that has to find it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pykafka4.consumer import assignment
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.processing import plan
from pykafka4.consumer.processing.allotment import Allotment, StreamState
from pykafka4.consumer.processing.committable_offsets import CommittableOffsets
from pykafka4.consumer.processing.pauses import Pauses
from pykafka4.consumer.processing.progress import PartitionProgress
from pykafka4.consumer.processing.work import HandlerWork
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.core.subscription import OffsetAndEpoch
from pykafka4.net import system
from pykafka4.records import OffsetAndMetadata, TopicPartition
from tests.simulation.plans.schedules import Hunt, Patch, around

__all__ = ["MUTANTS"]

PASSES, LEFT = "a commit passes no unfinished record", "every record is finished and committed"
BACK = "committed offsets do not go back"
BOUNDED = "records in hand are bounded"
ALONE, ORDER, ENDS = "one record of a key or partition at a time", "records are handled in order", "runs end when they are asked to"


def the_last_finished_record_is_committed(patch: pytest.MonkeyPatch) -> None:
    def first(self: PartitionProgress) -> OffsetAndEpoch | None:
        tasks = list(self._window.values())
        behind = max((n + 1 for n, task in enumerate(tasks) if task.finished), default=0)
        return (tasks[behind].record.offset, -1) if behind < len(tasks) else None

    patch.setattr(PartitionProgress, "first", property(first))


def a_record_that_a_stream_takes_is_finished(patch: pytest.MonkeyPatch) -> None:
    def instead(_: Any, self: Allotment) -> dict[TopicPartition, OffsetAndEpoch]:
        return {tp: (queue.records[0].offset, -1) for tp, queue in self.queues.items() if queue.records}

    around(patch, Allotment, "unfinished", instead)


def a_listener_commits_what_was_polled(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: Commits, *arguments: Any) -> Any:
        running, self._selection.run = self._selection.run, None
        try:
            return original(self, *arguments)
        finally:
            self._selection.run = running

    around(patch, Commits, "_offsets_to_commit", instead)


def every_poll_takes_what_it_gets(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pauses, "room", lambda self, held, most: most)


def keys_have_no_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plan, "_by_key", lambda record: (record.topic, record.partition, record.offset))


def two_streams_read_a_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Allotment, "_held_elsewhere", lambda self, queue: False)


def a_record_that_is_given_back_comes_last(patch: pytest.MonkeyPatch) -> None:
    def instead(_: Any, self: Allotment, stream: StreamState) -> None:
        if stream.hand is not None:
            queue, record = stream.hand
            if not queue.ended:
                queue.records.append(record)
            self._release(stream, queue)

    around(patch, Allotment, "_give_back", instead)


def old_offsets_are_committed_again(patch: pytest.MonkeyPatch) -> None:
    def instead(original: Any, self: CommittableOffsets, *tps: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        return {tp: OffsetAndMetadata(at.offset % 7) for tp, at in original(self, *tps).items()}

    around(patch, CommittableOffsets, "uncommitted", instead)


def where_reading_began_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    seen: dict[int, set[TopicPartition]] = {}

    def instead(original: Any, self: CommittableOffsets) -> dict[TopicPartition, OffsetAndMetadata]:
        known = seen.setdefault(id(self), set())
        known |= self._unfinished().keys()
        return {tp: at for tp, at in original(self).items() if tp in known}

    around(patch, CommittableOffsets, "offsets", instead)


def a_lane_stops_after_a_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HandlerWork, "_next", lambda self, lane: None)


def runs_go_on_for_half_a_minute(patch: pytest.MonkeyPatch) -> None:
    ends: dict[int, float] = {}

    def instead(original: Any, self: HandlerWork) -> bool:
        return original(self) or system.monotonic() < ends.setdefault(id(self), system.monotonic() + 30.0)

    around(patch, HandlerWork, "goes_on", instead)


def leaving_takes_its_time(patch: pytest.MonkeyPatch) -> None:
    """The machine does not report that the consumer has left, and the thread that closes waits too long for it."""
    around(
        patch,
        ConsumerMachine,
        "leave",
        lambda original, self, now, seconds, then, reason: original(self, now, seconds, lambda: None, reason),
    )
    settled = assignment.settled
    patch.setattr(assignment, "settled", lambda waits, promise, seconds: settled(waits, promise, seconds + 3.0))


MUTANTS: Final[dict[Patch, Hunt]] = {
    the_last_finished_record_is_committed: Hunt(
        {PASSES}, plan={"how": ("process", "process"), "by": "key", "keys": 1_000, "workers": 4, "work": 0.1}, says=" are not finished"
    ),
    a_record_that_a_stream_takes_is_finished: Hunt({PASSES}, says=" are not finished"),
    a_listener_commits_what_was_polled: Hunt({PASSES, BACK, LEFT}, plan={"listener_commits": True}, says=" are not finished"),
    every_poll_takes_what_it_gets: Hunt(
        {BOUNDED}, plan={"topics": {"t": 6}, "most_in_hand": 10, "records": 200, "work": 0.3, "trouble": 8.0}, says=" in hand, of "
    ),
    keys_have_no_order: Hunt({ALONE}, says=", beside "),
    two_streams_read_a_partition: Hunt(  # only after a loss: a partition with a record in hand is never moved
        {ALONE, ORDER},
        faults=("group error",),
        every=0.3,
        plan={"how": ("streams", "streams"), "topics": {"t": 6}, "workers": 4, "work": 0.3, "trouble": 15.0},
        says=", beside ",
    ),
    a_record_that_is_given_back_comes_last: Hunt({ORDER, PASSES}, says=", after "),
    old_offsets_are_committed_again: Hunt({BACK, LEFT}, says=" is committed after "),
    where_reading_began_is_not_committed: Hunt({LEFT}, options={"auto_offset_reset": "latest"}, says="records are left: "),
    a_lane_stops_after_a_record: Hunt({LEFT, ALONE}, says="records are left: "),
    runs_go_on_for_half_a_minute: Hunt({ENDS}, says="the run of "),
    leaving_takes_its_time: Hunt({ENDS}, says="the close of "),
}
