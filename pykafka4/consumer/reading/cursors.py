"""Keeps the places after returned and after finished records. Invariant: only explicit commits move a finished place past a returned one.

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
IN_LOOP: Final = 1  # `HandedOut.held` in a `for` loop: each step finishes the record before, so only the current one is unfinished


@attrs.define(eq=False)
class HandedOut:
    """The list that the last poll returned. With an iterator, only the records before `iterator.given` were returned."""

    places: Mapping[Claim, OffsetAndEpoch] = attrs.Factory(dict)  # the place after the list, for each claim whose position the list moves
    iterator: RecordIterator | None = None  # over the list, for a `for` loop or the rest of its list
    held: int = IN_LIST  # how many returned records the application has in hand: IN_LIST or IN_LOOP

    @property
    def has_rest(self) -> bool:
        """Whether there are records that were not returned."""
        return self.iterator is not None and length_hint(self.iterator) > 0

    @property
    def rest(self) -> list[Record]:
        """The records that were not returned."""
        return [] if self.iterator is None else self.iterator.records[self.iterator.given :]

    def place(self, claim: Claim) -> OffsetAndEpoch | None:
        """The place of the next record of `claim`; None if the place is unknown."""
        behind = self.places.get(claim)
        if behind is None:
            return None if claim.position is None else (claim.position, claim.epoch)
        rest = self.rest if self.has_rest else ()
        left = ((r.offset, r.leader_epoch) for r in rest if r.partition == claim.tp.partition and r.topic == claim.tp.topic)
        return next(left, behind)

    def places_of(self, claims: Collection[Claim]) -> dict[Claim, OffsetAndEpoch]:
        """The known places of the next records of several claims. Reads the list once, not once for each claim."""
        places = {claim: (claim.position, claim.epoch) for claim in claims if claim.position is not None}
        listed = {claim: self.places[claim] for claim in claims if claim in self.places}
        return places | (_first_of(self.rest, list(listed), listed) if listed else {})

    def within(self, held: int) -> dict[Claim, OffsetAndEpoch]:
        """The finished place of each claim that the list moves, if the last `held` returned records are unfinished.

        Any thread may call it.
        """
        places = dict(self.places)
        if (iterator := self.iterator) is None:
            return places
        # `given` is read before the list: the application's thread may shorten the list in between (`Reader._shorten`). Then this method
        # counts too few records as finished, never too many: at worst a commit lags by a few records.
        given = iterator.given
        return _first_of(iterator.records[max(0, given - held) :], places, places)

    def left(self, claims: Collection[Claim]) -> list[Claim]:
        """The claims among these with records in the list that were not returned."""
        listed = [claim for claim in claims if claim in self.places] if self.has_rest else []
        return list(_first_of(self.rest, listed, {})) if listed else []

    def without(self, claims: Collection[Claim]) -> HandedOut:
        """A copy for the list without the records of these claims that were not returned."""
        return HandedOut(_first_of(self.rest, claims, dict(self.places)), self.iterator, self.held)

    def renamed(self, successors: Mapping[Claim, Claim]) -> HandedOut:
        """A copy with the successors of claims in their place."""
        return HandedOut({successors.get(claim, claim): place for claim, place in self.places.items()}, self.iterator, self.held)


class Cursors:
    """The places of all claims of a consumer.

    The loop calls `poll_mark` and `progress`; any thread may call `idle_since`, `committable`, `lags` and `standing`.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic."""
        self._clock = clock
        # written by the application
        self.claims: dict[TopicPartition, Claim] = {}
        self.finished: dict[TopicPartition, OffsetAndEpoch] = {}
        self.handed = HandedOut()  # the list of the last poll
        self.taken = self.handed  # the list of the running poll, which its last step stores in `handed`
        self.idle: float | None = -INFINITY
        self._polls = 0  # begun so far
        # written by `idle_since`
        self._seen: tuple[RecordIterator | None, int] = (None, 0)  # the progress of a `for` loop at the last call of `idle_since`
        self._seen_at = -INFINITY  # when that progress last changed

    def finish(self) -> None:
        """Count all returned records as finished. During a run, `processing.committable_offsets` leaves out unfinished records."""
        handed = self.handed
        places = handed.within(IN_LIST)
        for claim, place in handed.places.items():
            claim.position, claim.epoch = place
            if claim.live:
                self.finished[claim.tp] = places[claim]
        if handed.has_rest:
            # A loop was left early. The rest of its list was never returned, so the next poll begins with that rest; only claims that have
            # records in the rest keep a place after the list.
            behind = {claim: place for claim, place in handed.places.items() if places[claim] != place}
            self.handed = self.taken = HandedOut(behind, handed.iterator)
        else:
            self.handed = self.taken = HandedOut()

    def reached(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The places that `commit()` commits: after all returned records; in a `for` loop, after the record before the current one."""
        outdated = self._outdated()
        return _without(self._places(self.handed.held), outdated)

    def handed_out(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The known place of each partition after the records that the application has received; a loop's current record counts."""
        return self._places(IN_LIST)

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition with a known position."""
        return {tp: offset for tp, (offset, _) in self.handed_out().items()}

    def _places(self, held: int) -> dict[TopicPartition, OffsetAndEpoch]:
        places = {tp: (claim.position, claim.epoch) for tp, claim in self.claims.items() if claim.position is not None}
        places.update({claim.tp: place for claim, place in self.handed.within(held).items() if claim.live})
        return places

    def lags(self) -> dict[TopicPartition, int]:
        """The number of offsets from the position to the end of the log, of each partition where both are known. Any thread may call it."""
        claims, listed = self.claims.copy(), self.handed.within(IN_LIST)
        ends = {tp: (claim.end, claim.position if (place := listed.get(claim)) is None else place[0]) for tp, claim in claims.items()}
        return {tp: max(0, end - position) for tp, (end, position) in ends.items() if position is not None and end >= 0}

    def settle(self, *, in_hand: bool = False) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished places if the application requests no further record.

        With `in_hand` the list that the last poll returned counts as finished. The current record of a `for` loop never counts, unless the
        application has committed it explicitly.
        """
        handed = self.handed
        if in_hand or handed.held == IN_LOOP:
            _advance(self.finished, handed.within(handed.held))
        return self.committable()

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of `tp`; None if the offset is unknown."""
        place = self.handed.place(self.claims[tp])
        return None if place is None else place[0]

    def standing(self) -> dict[TopicPartition, tuple[int, int]]:
        """The position of each partition that has one, and the end of its log (-1: unknown). Any thread may call it."""
        claims, listed = self.claims.copy(), self.handed.within(IN_LIST)
        places = {tp: (claim.position if (place := listed.get(claim)) is None else place[0], claim.end) for tp, claim in claims.items()}
        return {tp: (position, end) for tp, (position, end) in places.items() if position is not None}

    def has_reached_ends(self) -> bool:
        """Whether every claim has an end, `Claim.until`, and reading has reached it."""
        return all(self.has_reached_end(claim) for claim in self.claims.values())

    def has_reached_end(self, claim: Claim) -> bool:
        """Whether `claim` has an end, and reading is at the end, or past it at an offset that the log has."""
        if claim.until == UNBOUNDED:
            return False
        place = self.handed.place(claim)
        # Past the end only after a response. A committed offset past the end of the log, after a truncation, would look like the end:
        # nothing would be fetched, so no broker would answer that the offset is out of range, and the offset would never be reset.
        return place is not None and (place[0] == claim.until or (place[0] > claim.until and claim.end >= 0))

    def _positions(self, claims: Collection[Claim]) -> dict[Claim, int | None]:
        places = self.handed.places_of(claims)
        return {claim: places[claim][0] if claim in places else None for claim in claims}

    def idle_since(self) -> float | None:
        """When the last poll returned, or a `for` loop last took a record; None during a poll, -INFINITY before the first poll."""
        idle, handed = self.idle, self.handed
        if idle is None or (iterator := handed.iterator) is None or handed.held != IN_LOOP:
            return idle
        # The compiled iterator notes no times, but its count shows that the application has continued since the last call.
        seen = (iterator, iterator.given)
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        return max(idle, self._seen_at)

    @property
    def polls(self) -> int:
        """How many polls have begun."""
        return self._polls

    def poll_mark(self) -> object:
        """A mark that equals an earlier mark if the application has since begun no poll and taken no record of a `for` loop."""
        handed = self.handed
        return self._polls, -1 if handed.iterator is None or handed.held != IN_LOOP else handed.iterator.given

    def progress(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished place of each partition, as auto-commit stores it; in a `for` loop, the place of the current record."""
        outdated = self._outdated()
        handed, finished = self.handed, self.finished.copy()
        if handed.held == IN_LOOP:
            _advance(finished, handed.within(IN_LOOP))
        return _without(finished, outdated)

    def committable(self) -> dict[TopicPartition, OffsetAndEpoch]:
        """The finished place of each partition, without the progress of a running `for` loop. May be called on any thread."""
        outdated = self._outdated()
        return _without(self.finished.copy(), outdated)

    def _outdated(self) -> set[TopicPartition]:
        """The partitions whose places are offsets of a deleted topic.

        Callers call this before they read places. In the other order an offset of the deleted topic could be committed in the new one: the
        loop thread reads the old place, the poll reaches the beginning of the new topic, and the partition counts as up to date again.
        """
        return {tp for tp, claim in self.claims.copy().items() if claim.outdated}


def _advance(finished: dict[TopicPartition, OffsetAndEpoch], places: Mapping[Claim, OffsetAndEpoch]) -> None:
    """Advance `finished` to each of `places` that is later."""
    for claim, place in places.items():
        if claim.live and (claim.tp not in finished or finished[claim.tp][0] < place[0]):
            finished[claim.tp] = place


def _without(places: dict[TopicPartition, OffsetAndEpoch], tps: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndEpoch]:
    """Remove the partitions `tps` from `places`."""
    for tp in tps:
        places.pop(tp, None)
    return places


def _first_of(records: list[Record], claims: Collection[Claim], places: dict[Claim, OffsetAndEpoch]) -> dict[Claim, OffsetAndEpoch]:
    """Put the place of the first record of each of `claims` among `records` into `places`, and return `places`."""
    of = {(claim.tp.topic, claim.tp.partition): claim for claim in claims}
    for record in reversed(records):
        if (claim := of.get((record.topic, record.partition))) is not None:
            places[claim] = (record.offset, record.leader_epoch)
    return places
