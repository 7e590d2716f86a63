"""Keeps positions after returned and after finished records. Invariant: only explicit commits move a finished position past a returned one.

Positions, commits, seeks and the recovery after Ctrl-C follow from `Cursors.handed`. One attribute store replaces this object, so other
threads, and the next call after Ctrl-C, see the complete list of a poll or nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import length_hint
from typing import Final

import attrs

from pykafka4.core import INFINITY
from pykafka4.core.subscription import UNBOUNDED, Claim, OffsetAndEpoch
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Record, RecordIterator

__all__ = ["IN_LIST", "IN_LOOP", "Cursors", "HandedOut"]

IN_LIST: Final = 0  # `HandedOut.held` of a list: the next poll finishes all its records at once
IN_LOOP: Final = 1  # `HandedOut.held` in a `for` loop: each step finishes the previous record, so only the current one is unfinished


@attrs.define(eq=False)
class HandedOut:
    """The list that the last poll returned. With an iterator, only the records before `iterator.given` were returned."""

    positions: Mapping[Claim, OffsetAndEpoch] = attrs.Factory(dict)  # after the list, for each claim whose position the list moves
    iterator: RecordIterator | None = None  # over the list, for a `for` loop or the rest of its list
    held: int = IN_LIST  # how many of the last returned records `commit()` leaves out: IN_LIST or IN_LOOP

    @property
    def has_rest(self) -> bool:
        return self.iterator is not None and length_hint(self.iterator) > 0

    @property
    def rest(self) -> list[Record]:
        return [] if self.iterator is None else self.iterator.records[self.iterator.given :]

    def position_of(self, claim: Claim) -> OffsetAndEpoch | None:
        """The position of the next record of `claim`; None if unknown."""
        after_list = self.positions.get(claim)
        if after_list is None:
            return None if claim.position is None else (claim.position, claim.epoch)
        rest = self.rest if self.has_rest else ()
        left = ((r.offset, r.leader_epoch) for r in rest if r.partition == claim.tp.partition and r.topic == claim.tp.topic)
        return next(left, after_list)

    def positions_of(self, claims: Collection[Claim]) -> dict[Claim, OffsetAndEpoch]:
        """The known positions of several claims. Reads the list once, not once for each claim."""
        positions = {claim: (claim.position, claim.epoch) for claim in claims if claim.position is not None}
        listed = {claim: self.positions[claim] for claim in claims if claim in self.positions}
        return positions | (_first_of(self.rest, list(listed), listed) if listed else {})

    def within(self, held: int) -> dict[Claim, OffsetAndEpoch]:
        """The finished offset of each claim that the list moves, if the last `held` returned records are unfinished.

        Threads other than the application's call `Cursors._read_handed`.
        """
        positions = dict(self.positions)
        if (iterator := self.iterator) is None:
            return positions
        # `given` is read before the list: the application's loop may take a record in between. Then this method counts too few records as
        # finished, never too many: at worst a commit lags by a few records.
        given = iterator.given
        return _first_of(iterator.records[max(0, given - held) :], positions, positions)

    def claims_with_rest(self, claims: Collection[Claim]) -> list[Claim]:
        listed = [claim for claim in claims if claim in self.positions] if self.has_rest else []
        return list(_first_of(self.rest, listed, {})) if listed else []

    def without(self, claims: Collection[Claim]) -> HandedOut:
        return HandedOut(_first_of(self.rest, claims, dict(self.positions)), self.iterator, self.held)

    def renamed(self, successors: Mapping[Claim, Claim]) -> HandedOut:
        return HandedOut({successors.get(claim, claim): position for claim, position in self.positions.items()}, self.iterator, self.held)


class Cursors:
    """The positions of all claims of a consumer.

    The loop calls `poll_mark` and `progress`; any thread may use `polls`, `idle_since`, `committable`, `lags` and `standing`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # written by the application
        self.claims: dict[TopicPartition, Claim] = {}
        self.finished: dict[TopicPartition, OffsetAndEpoch] = {}
        self.handed = HandedOut()  # the list of the last poll
        self.taken = self.handed  # the list of the running poll, which its last step stores in `handed`
        self.idle: float | None = -INFINITY
        self._polls = 0  # how many polls have begun
        # written by `idle_since`
        # The progress of a `for` loop at the last call of `idle_since`, and when a call last found new progress. One tuple: between two
        # stores another thread (metrics) could be interrupted; the loop would see the new progress with the old time, and end the lease.
        self._seen: tuple[RecordIterator | None, int, float] = (None, 0, -INFINITY)

    def finish(self) -> None:
        """Count all returned records as finished. During a run, `processing.committable_offsets` leaves out unfinished records."""
        handed = self.handed
        positions = handed.within(IN_LIST)
        for claim, position in handed.positions.items():
            claim.position, claim.epoch = position
            if claim.live:
                self.finished[claim.tp] = positions[claim]
        if handed.has_rest:
            # The rest of a loop's list was never returned: only claims that have records in the rest keep a position after the list.
            after_list = {claim: position for claim, position in handed.positions.items() if positions[claim] != position}
            self.handed = self.taken = HandedOut(after_list, handed.iterator)
        else:
            self.handed = self.taken = HandedOut()

    def reached(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The offsets that `commit()` commits: after all returned records, except a loop's current record."""
        outdated = self._outdated()
        return _without(self._positions_within(self.handed.held), outdated)

    def handed_out(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The known positions after the records that the application has received, including a loop's current record."""
        return self._positions_within(IN_LIST)

    def positions(self) -> dict[TopicPartition, int]:
        return {tp: offset for tp, (offset, _) in self.handed_out().items()}

    def _positions_within(self, held: int) -> dict[TopicPartition, OffsetAndEpoch]:
        positions = {tp: (claim.position, claim.epoch) for tp, claim in self.claims.items() if claim.position is not None}
        positions.update({claim.tp: position for claim, position in self.handed.within(held).items() if claim.live})
        return positions

    def _read_handed(self, held: int) -> tuple[HandedOut, dict[Claim, OffsetAndEpoch]]:
        """`handed` with the result of its `within`, on any thread.

        The application's thread may remove a partition's records from the list between the two reads. Then the former `handed` counts these
        records as returned, and auto-commit would skip them. `Reader._shorten` replaces `handed` first, so the check finds this.
        """
        while True:
            handed = self.handed
            positions = handed.within(held)
            if handed is self.handed:
                return handed, positions

    def lags(self) -> dict[TopicPartition, int]:
        claims, listed = self.claims.copy(), self._read_handed(IN_LIST)[1]
        ends = {tp: (claim.end, claim.position if (found := listed.get(claim)) is None else found[0]) for tp, claim in claims.items()}
        return {tp: max(0, end - position) for tp, (end, position) in ends.items() if position is not None and end >= 0}

    def settle(self, *, in_hand: bool = False) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished offsets if the application requests no further record.

        With `in_hand` the list that the last poll returned counts as finished. The current record of a `for` loop counts as
        finished only if the application has committed it explicitly.
        """
        handed = self.handed
        if in_hand or handed.held == IN_LOOP:
            _advance(self.finished, handed.within(handed.held))
        return self.committable()

    def position(self, tp: TopicPartition) -> int | None:
        position = self.handed.position_of(self.claims[tp])
        return None if position is None else position[0]

    def standing(self) -> dict[TopicPartition, tuple[int, int]]:
        """The known position of each partition, and the end of its log (-1: unknown)."""
        claims, listed = self.claims.copy(), self._read_handed(IN_LIST)[1]
        known = {tp: (claim.position if (found := listed.get(claim)) is None else found[0], claim.end) for tp, claim in claims.items()}
        return {tp: (position, end) for tp, (position, end) in known.items() if position is not None}

    def has_reached_ends(self) -> bool:
        return all(self.has_reached_end(claim) for claim in self.claims.values())

    def has_reached_end(self, claim: Claim) -> bool:
        """Whether `claim` has an end, and reading has reached it."""
        if claim.until == UNBOUNDED:
            return False
        position = self.handed.position_of(claim)
        # A position past the end counts only after a response. A committed offset past the end of the log, after a truncation, would look
        # like the end: nothing would be fetched, so no broker would answer that the offset is out of range, and the offset would never be
        # reset.
        return position is not None and (position[0] == claim.until or (position[0] > claim.until and claim.end >= 0))

    def _offsets_of(self, claims: Collection[Claim]) -> dict[Claim, int | None]:
        positions = self.handed.positions_of(claims)
        return {claim: positions[claim][0] if claim in positions else None for claim in claims}

    def idle_since(self) -> float | None:
        """When the last poll ended, a listener began, or a call last found progress of a `for` loop.

        None during a poll, except in a listener; -INFINITY before the first poll.
        """
        idle, handed = self.idle, self.handed
        if idle is None or (iterator := handed.iterator) is None or handed.held != IN_LOOP:
            return idle
        # The compiled iterator notes no times, but its count shows that the application has continued since the last call.
        seen, given = self._seen, iterator.given
        if (iterator, given) != seen[:2]:
            self._seen = seen = (iterator, given, self._clock())
        return max(idle, seen[2])

    @property
    def polls(self) -> int:
        return self._polls

    def poll_mark(self) -> object:
        """A mark that equals an earlier mark if the application has since begun no poll and taken no record of a `for` loop."""
        handed = self.handed
        return self._polls, -1 if handed.iterator is None or handed.held != IN_LOOP else handed.iterator.given

    def progress(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished offsets, as auto-commit stores them, with the progress of a running `for` loop."""
        outdated = self._outdated()
        handed, positions = self._read_handed(IN_LOOP)
        finished = self.finished.copy()
        if handed.held == IN_LOOP:
            _advance(finished, positions)
        return _without(finished, outdated)

    def committable(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished offsets, without the progress of a running `for` loop."""
        outdated = self._outdated()
        return _without(self.finished.copy(), outdated)

    def _outdated(self) -> set[TopicPartition]:
        """The partitions whose positions are offsets of a deleted topic.

        Callers call this before they read positions. In the other order an offset of the deleted topic could be committed in the new one:
        the loop thread reads the old offset, the poll reaches the beginning of the new topic, and the partition counts as up to date again.
        """
        return {tp for tp, claim in self.claims.copy().items() if claim.outdated}


def _advance(finished: dict[TopicPartition, OffsetAndEpoch], positions: Mapping[Claim, OffsetAndEpoch]) -> None:
    for claim, position in positions.items():
        if claim.live and (claim.tp not in finished or finished[claim.tp][0] < position[0]):
            finished[claim.tp] = position


def _without(positions: dict[TopicPartition, OffsetAndEpoch], tps: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
    for tp in tps:
        positions.pop(tp, None)
    return positions


def _first_of(records: list[Record], claims: Collection[Claim], positions: dict[Claim, OffsetAndEpoch]) -> dict[Claim, OffsetAndEpoch]:
    """Put the position of the first record of each claim into `positions`."""
    of = {(claim.tp.topic, claim.tp.partition): claim for claim in claims}
    for record in reversed(records):
        if (claim := of.get((record.topic, record.partition))) is not None:
            positions[claim] = (record.offset, record.leader_epoch)
    return positions
