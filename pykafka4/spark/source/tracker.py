"""Decides where the next micro-batch of a stream ends. Invariant: no offset between the positions of two batches is left out, unless a
report names it as lost.

Before `pin`, a trigger without new records usually costs one ListOffsets per leader; topics are looked up again when the known topics are
`topics_age_s` old. A batch also costs a Metadata request after the ListOffsets, because ListOffsets identifies a topic by its name: the
ends of a topic that was recreated with more records than before would pass for ends of the old topic.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import attrs

from pykafka4.errors import ConfigError, KafkaError, listed
from pykafka4.records import TopicPartition
from pykafka4.spark.source.limits import Holdback, backlog, limited
from pykafka4.spark.source.offsets import Positions, StreamOffset

__all__ = ["TrackerLookups", "Topics", "Tracker"]

Partitions = Collection[TopicPartition]
ATTEMPTS: Final = 50  # attempts to look up topics and ends that belong together
ATTEMPT_PAUSE_S: Final = 0.2
# Seconds between lookups of an end that is before a position: a new leader may not know yet how far its followers are.
DOUBTS_S: Final = (0.1, 0.3, 0.6, 1.0)


@attrs.frozen
class Topics:
    """The topics of a subscription: partitions, ids (none from brokers before 2.8), and a text about missing topics and partitions."""

    partitions: frozenset[TopicPartition]
    ids: Mapping[str, str] = attrs.Factory(dict)
    missing: str = ""


class TrackerLookups(Protocol):
    """The lookups of a tracker. A lookup waits for brokers up to its own limit, then raises the error of a broker, or a timeout."""

    def topics(self) -> Topics:
        """The topics of the subscription, from a broker."""
        ...

    def ends(self, partitions: Partitions) -> Positions | None:
        """The end of each partition: the first offset that no batch may have yet. None if one of the partitions does not exist."""
        ...

    def log_ends(self, partitions: Partitions) -> Positions:
        """The high watermarks. With read_committed they can be higher than the ends while a transaction is open."""
        ...

    def earliest(self, partitions: Partitions) -> Positions: ...

    def starting(self, partitions: Partitions, ends: Mapping[TopicPartition, int]) -> Positions:
        """The offsets at which a new query starts. `ends` are the ends of the last lookup."""
        ...

    def lose(self, what: str) -> None:
        """Raise DataLost, or log a warning, as failOnDataLoss says."""
        ...


@attrs.frozen
class Snapshot:
    """Topics and ends that belong together, as `Tracker._look` finds them."""

    topics: Topics
    ends: Positions


@attrs.define
class Tracker:
    """Chooses the ends of the micro-batches of one query. `latest`: each log's end from the last lookup, or a later position."""

    lookups: TrackerLookups
    fails_on_loss: bool = True
    max_delay_s: float = 900.0
    planning: Mapping[str, int] = attrs.Factory(dict)
    topics_age_s: float = 10.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    latest: Positions = attrs.Factory(dict)
    _topics: Topics | None = None
    _topics_at: float = 0.0
    _pinned: Snapshot | None = None
    _holdback: Holdback | None = None
    _reported: set[str] = attrs.Factory(set)  # losses that were reported: each is logged once

    def pin(self) -> None:
        """Fix the current ends of the logs: no later batch has a record past them, or of a partition that is created after this call."""
        self._pinned = self._look({})

    def next_end(self, start: StreamOffset, most: int | None, least: int | None) -> StreamOffset | None:
        """The end of the batch that begins at `start`; None: there is no batch.

        `most` and `least` are the limits of the trigger. Raises DataLost, ConfigError for missing topics, and the errors of the lookups.
        """
        snapshot = self._pinned or self._look(start.positions)
        known, voids = self._settled(start, snapshot)
        if snapshot.topics.missing and (self.fails_on_loss or start.is_initial):
            raise ConfigError(snapshot.topics.missing)
        starts = {**voids, **self._starts_of_new(start, snapshot, known.keys() | voids.keys())}
        if most is not None and not self.fails_on_loss:
            starts = {**starts, **self._deleted({**known, **starts}, snapshot.ends, most)}
        begins = {**known, **starts}
        ends = {tp: max(begins[tp], snapshot.ends.get(tp, 0)) for tp in begins}
        self.latest = {tp: ends[tp] for tp in snapshot.ends}
        if self._is_held(sum(backlog(begins, ends).values()), least):
            ends = begins
        elif most is not None:
            ends = limited(begins, ends, most)
        if ends == start.positions and not starts and not start.is_initial:
            return None
        deleted = {tp.topic for tp in known} & start.topic_ids.keys()  # also has existing topics, but the snapshot overwrites their ids
        ids = {**{name: start.topic_ids[name] for name in deleted}, **snapshot.topics.ids}
        return StreamOffset(ends, starts, ids, self.planning)

    # ---------------------------------------------------------------- lookups

    def _look(self, positions: Mapping[TopicPartition, int]) -> Snapshot:
        """Topics and ends that belong together. `positions` are the positions at the end of the last batch.

        If all ends equal the positions, usually no batch begins, so the topics are not looked up again.
        """
        topics = self._topics
        if topics is None or self.clock() - self._topics_at >= self.topics_age_s:
            topics = self._refresh()
        for _ in range(ATTEMPTS):
            ends = self.lookups.ends(topics.partitions)
            if ends is not None and all(positions.get(tp) == end for tp, end in ends.items()):
                return Snapshot(topics, ends)
            before, topics = topics, self._refresh()
            if topics == before and ends is not None:
                return Snapshot(topics, ends)
            if topics == before:
                self.pause(ATTEMPT_PAUSE_S)  # brokers do not agree yet that a topic is deleted
        raise KafkaError(f"{_names(topics.partitions)}: topics change while their ends are looked up, {ATTEMPTS} times in a row")

    def _refresh(self) -> Topics:
        self._topics, self._topics_at = self.lookups.topics(), self.clock()
        return self._topics

    def _starts_of_new(self, start: StreamOffset, snapshot: Snapshot, known: Collection[TopicPartition]) -> Positions:
        new = sorted(snapshot.ends.keys() - known)
        if not new:
            return {}
        return self.lookups.starting(new, snapshot.ends) if start.is_initial else self.lookups.earliest(new)

    # ---------------------------------------------------------------- losses

    def _settled(self, start: StreamOffset, snapshot: Snapshot) -> tuple[Positions, Positions]:
        """The positions in topics that were not recreated, and the starts that replace positions past the ends of their logs.

        Partitions of recreated topics are in neither: they are new. Positions of missing topics are kept, because the broker that has
        responded may not know these topics yet.
        """
        recreated = {name for name, topic_id in snapshot.topics.ids.items() if start.topic_ids.get(name, topic_id) != topic_id}
        known = {tp: offset for tp, offset in start.positions.items() if tp.topic not in recreated}
        for name in sorted(recreated):
            self._lose_topic(name, start, snapshot)
        if gone := sorted(known.keys() - snapshot.ends.keys()):
            self._lose_partitions(gone)
        return known, self._truncated(known, snapshot.ends)

    def _lose_topic(self, name: str, start: StreamOffset, snapshot: Snapshot) -> None:
        self._lose(
            f"topic {name} was deleted and created again (its id was {start.topic_ids[name]}, now it is {snapshot.topics.ids[name]}): "
            "unread records of the old topic are lost, and the new topic is read from its first record"
        )

    def _lose_partitions(self, gone: list[TopicPartition]) -> None:
        self._lose(
            f"{_names(gone)}: in the checkpoint, but not in the subscription any more: the topic was deleted, or the options have changed; "
            "its unread records are lost"
        )

    def _truncated(self, known: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Positions:
        """New starts for positions past the ends of their logs.

        An end can be before a position without a loss: an earlier run may have read uncommitted records, or a new leader may not
        know yet how far its followers are.
        """
        past_ends = {tp: offset for tp, offset in known.items() if offset > ends.get(tp, offset)}
        if not past_ends:
            return {}
        log_ends = self._confirmed(past_ends)
        lost = {tp: end for tp, end in log_ends.items() if end < past_ends[tp]}
        for tp, end in lost.items():
            self._lose(
                f"{tp}: the log ends at {end}, before offset {past_ends[tp]}, up to which it was read: it was truncated, or the topic was "
                "deleted and created again; the query continues at the end of the log"
            )
        return lost

    def _deleted(self, begins: Positions, ends: Mapping[TopicPartition, int], most: int) -> Positions:
        """New starts for positions before the first offsets of their logs.

        A task would skip deleted offsets as well, but only within its range: under a limit of 1,000 offsets, a million deleted ones would
        be a thousand batches without records.
        """
        waiting = backlog(begins, ends)
        if sum(waiting.values()) <= most:
            return {}
        firsts = {tp: first for tp, first in self.lookups.earliest(list(waiting)).items() if first > begins[tp]}
        for tp, first in firsts.items():
            self._lose(f"{tp}: offsets {begins[tp]} to {first - 1} were deleted before they were read")
        return firsts

    def _confirmed(self, past_ends: Positions) -> Positions:
        for pause_s in DOUBTS_S:
            found = self.lookups.log_ends(list(past_ends))
            if all(found[tp] >= offset for tp, offset in past_ends.items()):
                return found
            self.pause(pause_s)
        return self.lookups.log_ends(list(past_ends))

    def _lose(self, what: str) -> None:
        if what not in self._reported:
            self._reported.add(what)
            self.lookups.lose(what)

    # ---------------------------------------------------------------- minOffsetsPerTrigger

    def _is_held(self, waiting: int, least: int | None) -> bool:
        if least is None or self._pinned is not None:  # pinned: the query ends, and would leave the held records unread
            return False
        if self._holdback is None:
            self._holdback = Holdback(least, self.max_delay_s)
        return self._holdback.holds(waiting, self.clock())


def _names(partitions: Partitions) -> str:
    return listed(sorted(partitions), str)
