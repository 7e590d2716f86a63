"""Chooses the broker, the partitions and the size of the next Fetch. Invariant: no Fetch requests more data than there is room for.

The next Fetch, for the partitions that have room, does not wait until the records of the previous response are decoded. Each partition can
have an equal share of `prefetch_bytes` waiting for the application. Waiting and requested data together stay within `prefetch_bytes`
(except for a first batch that is larger than requested, which is returned whole).

Brokers fill the response to a full Fetch in the order of the request. A partition that had data, or was the first of a full Fetch, moves to
the end, and nothing else changes the order. So each partition is read regularly, however often others are paused, sought or offline.

An idle poll costs the same for many partitions as for few, because it looks only at changes (`Positions.touched`, `TopicChanges`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Any, Final

from pykafka4.core import INFINITY, Outcome
from pykafka4.core.consumer.fetch_answers import FetchAnswers
from pykafka4.core.consumer.followers import Followers
from pykafka4.core.consumer.losses import Losses
from pykafka4.core.consumer.positions import Intake, Positions
from pykafka4.core.consumer.searches import Searches
from pykafka4.core.consumer.source import InFlightFetch, Source
from pykafka4.core.consumer.sources import Sources
from pykafka4.core.consumer.start_offsets import StartOffsets
from pykafka4.core.consumer.tails import Tails
from pykafka4.core.group.committing.offsets import Offsets
from pykafka4.core.metadata.changes import TopicChanges
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.events import EventSink
from pykafka4.core.metadata.recovery import SLACK_PART, SLACK_S, Recovery
from pykafka4.core.outbox import Outbox
from pykafka4.core.subscription import Claim, Move, Policy, Position, Since, Stage, Start
from pykafka4.core.timers import Timers
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition

__all__ = ["Fetcher"]

PAUSE_BESIDE_S: Final = 0.05  # seconds until the next Fetch, after a Fetch beside a held one has returned no records
# Seconds for which a broker may hold back a Fetch that leaves out a partition without room (which may have room soon), or a Fetch
# from a source that `nears_end`.
SHORT_WAIT_S: Final = 0.05


class Fetcher:
    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        recovery: Recovery,
        offsets: Offsets,
        intake: Intake,
        lanes: tuple[int, int],
        random: Random,
        outbox: Outbox,
        wall_ms: Callable[[], int],
        events: EventSink,
    ) -> None:
        """There are two `lanes` for Fetch and ListOffsets, because requests on the connection of a held Fetch wait for that Fetch."""
        self._config, self._cluster, self._recovery = config, cluster, recovery
        self._intake, self.lanes, self._outbox = intake, lanes, outbox
        self.positions = Positions(intake)
        self._timers = Timers()
        self.losses = Losses(config, events)
        self._followers = Followers(config, cluster, recovery, self.positions, self._timers)
        self._sources = Sources(config, cluster, recovery, self.positions, self._followers, lanes)
        self.searches = Searches(config, cluster, recovery, self._sources, outbox)
        self._start_offsets = StartOffsets(config, cluster, offsets, self.searches, self.positions, self.losses, self._timers, wall_ms)
        tails = Tails(self.positions, self.searches)
        answers = self._start_offsets, self._followers, self.losses, self._timers, random, tails
        self.answers = FetchAnswers(config, cluster, recovery, self.positions, *answers)
        self._changes = TopicChanges(cluster, recovery)
        self._new: list[Position] = []  # positions not yet compared with the metadata of their topics
        self._due: dict[Source, None] = {}  # sources that may send a Fetch, in this order
        self._short_of_room: dict[Source, None] = {}  # sources that had too little room, oldest first
        self._reserved = 0  # bytes of room for the responses of Fetches in flight
        self._slack = min(SLACK_S, SLACK_PART * config.retry_backoff_ms / 1000)

    # ---------------------------------------------------------------- claims

    def adopt(self, claims: Collection[Claim], start: Start | int, fallback: Callable[[TopicPartition], Policy] | None = None) -> None:
        """Begin to read `claims` at `start`; without a committed offset, by `fallback(tp)`, or by auto_offset_reset if `fallback` is None.

        Claims that are read already continue: after Ctrl-C the application repeats the call.
        """
        for claim in claims:
            if self.positions.of_assignment(claim) is not None:
                continue
            self._place(claim, start, self._start_offsets.policy if fallback is None else fallback(claim.tp))
            self._cluster.want(claim.tp.topic, self)

    def locate(self, claim: Claim, offset: int) -> None:
        """Begin to read `claim`, which was just adopted, at `offset`, as if that were its committed offset."""
        if (position := self.positions.of_assignment(claim)) is not None:
            self.positions.locate(position, offset, -1)

    def drop(self, claims: Collection[Claim], deleted: Collection[str] = ()) -> None:
        """Stop reading the partitions of `claims`, even if a seek has replaced a claim.

        A partition that a later assignment already reads continues.
        """
        for claim in claims:
            if (position := self.positions.of_assignment(claim)) is not None:
                self._start_offsets.end(position, deleted)
                self.positions.remove(claim.tp)
                self.searches.tidy(claim.tp)
        for topic in dict.fromkeys(claim.tp.topic for claim in claims):
            if topic not in self.positions.of_topic:
                self._cluster.forget(topic, self)

    def end(self) -> None:
        self.drop([position.claim for position in self.positions.values()])
        self._changes.end()

    def seek(self, moves: Iterable[Move]) -> None:
        """Continue reading under the new claim of each move, unless the assignment has ended.

        After Ctrl-C in an earlier seek, the old claim of a move can be older than the claim that is read.
        """
        positions, fallback = self.positions, self._start_offsets.policy
        topics: dict[str, None] = {}
        for old, new, start in moves:
            position = positions.of_assignment(old)
            if position is not None:
                self._start_offsets.notice(position)
                old = position.claim
            new.recreated = max(new.recreated, old.recreated)  # even without a position: the offsets of the claim may still be committed
            if position is None:
                continue
            sought = self._place(new, start, fallback)
            sought.paused, sought.own_backoff, sought.follower = position.paused, position.own_backoff, position.follower
            sought.end_before = position.last_end
            topics[old.tp.topic] = None
            if new.outdated and sought.stage is Stage.FETCHING:
                self._start_offsets.restart(sought)
        for topic in topics:
            self._cluster.want(topic, self)

    def pause(self, *claims: Claim) -> None:
        for claim in claims:
            self._set_paused(claim, paused=True)

    def resume(self, *claims: Claim) -> None:
        for claim in claims:
            self._set_paused(claim, paused=False)

    def space(self, now: float) -> None:
        """Look for room, because the application has read buffered data."""
        self._intake.resume_at = INFINITY
        self._look_at_all()

    def status(self, position: Position) -> dict[str, Any]:
        tp = position.tp
        leader = self._recovery.leader(tp)
        offline, source = self._recovery.offline.get(tp), self._sources.of(tp)
        error = self._cluster.topic_error(tp.topic)
        waits = str(offline.reason) if offline is not None else f"topic {tp.topic}: {error.name}" if error is not None else None
        return {
            "state": "paused" if position.paused else position.stage.value,
            "reason": None if position.paused else position.stage.meaning,
            "offset": position.offset,
            "end": position.claim.end,
            "buffered": position.buffered,
            "leader": None if leader is None else leader.node,
            "fetched_from": None if source is None else source.node,
            "waits_for": waits if leader is None else _waits_for(position),
        }

    def _set_paused(self, claim: Claim, *, paused: bool) -> None:
        """Pause or resume, even if a seek (interrupted, or made by a signal handler during this call) has replaced `claim`."""
        position = self.positions.of_assignment(claim)
        if position is not None:
            position.paused = paused
            self.positions.touch(claim.tp)

    def _place(self, claim: Claim, start: Start | Since | int, fallback: Policy) -> Position:
        position = Position(claim, start, fallback, self._config.max_partition_fetch_bytes)
        self.positions.put(position)
        position.topic_id, position.after_request = self._cluster.topic_id(claim.tp.topic), self._cluster.asked
        self._new.append(position)
        self._start_offsets.begin(position)
        return position

    # ---------------------------------------------------------------- polling

    def poll(self, now: float) -> float:
        self._timers.run(now + self._slack)
        self._take_changes()
        self._start_offsets.poll(now)
        if self.positions.touched:
            self._line_up()
        if self.positions.located:
            self._fetch_located()
        if self._due:
            self._fetch_due(now)
        return self._timers.wake_at

    def _take_changes(self) -> None:
        positions = self.positions
        new, self._new = self._new, []
        self._start_offsets.topic_changed([position for position in new if positions.is_current(position)])
        for topic in self._changes.take_topics():
            of_topic = positions.of_topic.get(topic, {})
            positions.touched.update(of_topic)
            self._start_offsets.topic_changed([positions[tp] for tp in of_topic])
            self.searches.check_topic(topic)
        self._followers.look()
        for tp in self._changes.take_online():
            positions.touch(tp)
            self.searches.check_partition(tp)

    def _line_up(self) -> None:
        """Move each touched position to the source that can fetch it, or out of its source."""
        touched, self.positions.touched = self.positions.touched, {}
        moved = [tp for tp in touched if self._sources.place(tp)]
        if moved:
            self._look_at_all()
        for tp in moved:
            source = self._sources.of(tp)
            if source is not None and source.is_held_long:
                self.positions.located.append(self.positions[tp])

    def _fetch_located(self) -> None:
        """Fetch positions that were just located or sought, without waiting for a Fetch that does not include them, if a lane is free.

        Positions that can be fetched again (they were paused, or had another leader) do not wait either, if that Fetch may be held back for
        long.
        """
        located, self.positions.located = self.positions.located, []
        for position in located:
            source = self._sources.of(position.tp) if self.positions.is_current(position) else None
            if source is not None and source.leave_behind(position):
                self._due[source] = None

    # ---------------------------------------------------------------- requests

    def _look_at_all(self) -> None:
        """Let `_fetch_due` check all sources with positions. Sources that had too little room are added first."""
        self._due.update(self._short_of_room)
        self._due.update(self._sources.with_positions)
        self._short_of_room.clear()

    def _fetch_due(self, now: float) -> None:
        due, self._due = self._due, {}
        for source in due:
            if source.in_flight is None and source.positions:
                self._fetch_from(now, source)

    def _fetch_from(self, now: float, source: Source) -> None:
        budget = self._budget()
        worth = min(self._config.max_partition_fetch_bytes, self._config.prefetch_bytes // (2 * len(self._sources.with_positions)))
        if budget < min(worth, self._config.fetch_max_bytes):
            self._short_of_room[source] = None
            self._wait_for_room()
            return
        source.look_for_room(self._config.prefetch_bytes // len(self.positions))
        if source.full:
            self._wait_for_room()
        if source.has_work():
            wait = min(source.next_wait, SHORT_WAIT_S) if source.full or source.nears_end else source.next_wait
            if wait > source.usual_wait:
                budget = min(budget, worth)  # while the broker holds this Fetch back, other sources cannot use its room
            fetch = source.fetch(now, budget, wait, self.positions.last_turn, self)
            self._reserved += fetch.reserved
            self._outbox.send(fetch)

    def _budget(self) -> int:
        """Bytes to request from one broker: its share of the room, at most fetch_max_bytes and the unreserved room."""
        prefetch, intake = self._config.prefetch_bytes, self._intake
        # Half of `prefetch_bytes` is always for fetching: otherwise an application that keeps all columns would wait forever.
        held = min(intake.held, prefetch // 2)
        room = prefetch - held - (self.positions.delivered - intake.consumed)
        free = room - self._reserved
        return min(self._config.fetch_max_bytes, room // len(self._sources.with_positions), free)

    def _wait_for_room(self) -> None:
        """Have the application call `space` when it has read a part of the buffered data.

        The mark is set before `consumed` is read again; the application adds to `consumed` before it reads the mark. So at least one side
        sees the other's change.
        """
        intake, delivered = self._intake, self.positions.delivered
        waiting = delivered - intake.consumed
        mark = delivered - waiting + max(1, waiting // 4)
        intake.resume_at = mark
        if intake.consumed >= mark:
            intake.resume_at = INFINITY
            self._look_at_all()
            self._timers.at(0.0, lambda now: None)

    def fetch_ended(self, now: float, fetch: InFlightFetch, outcome: Outcome) -> None:
        source = fetch.source
        source.finish(fetch)
        self.positions.located += source.take_left_out()
        self._reserved -= fetch.reserved
        self._due.update(self._short_of_room)  # these sources may use the room of `fetch` before `source` does
        if source.found_nothing(fetch, outcome):
            self._timers.at(now + PAUSE_BESIDE_S, lambda _: self._due.setdefault(source))
        else:
            self._due[source] = None
        self._short_of_room.clear()
        self.answers.apply(now, source, fetch, outcome)
        self._intake.news()  # the application reads the records while the next poll requests more
        self._sources.retire(source)


def _waits_for(position: Position) -> str | None:
    """Why a partition with a leader waits, or None."""
    if position.refusal is not None:
        return str(position.refusal)
    held = position.behind_open
    if not held or position.offset < position.claim.end:
        return None
    return f"the end of the transaction that began at offset {position.claim.end}; waiting offsets: {held} (isolation_level=read_committed)"
