"""Reader. Rule: only records that were returned and are finished are committed, never buffered or current ones.

The application's side of a consumer, without waiting. `put`, `news`, `idle_since`, `mark` and `progress` are called on the loop thread,
everything else on the thread that polls. Shared state is written by one side only: `arrivals` (a deque: append there, popleft here) and
plain attributes.

Ctrl-C (an exception of any signal handler) can arrive after every call and in every pass of a loop. Therefore nothing is removed from one
place before it is in the next, and each step can be repeated: the next poll completes an interrupted one. A signal handler that calls the
consumer during a step would see it half done: `changing` tells the guard, which refuses the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps
from itertools import islice
from operator import length_hint
from typing import Any, TypeVar, cast

from pykafka4.consumer.reading.delivered import DeliveredOffsets
from pykafka4.consumer.reading.fetch_buffer import FetchBuffer
from pykafka4.consumer.reading.notices import Notices, subject_of
from pykafka4.consumer.reading.places import first_left, later, within, without
from pykafka4.core import INFINITY
from pykafka4.core.subscription import Assigned, Claim, Ended, Lasting, Located, Move, Place, Since, Start, Subscribed, Trouble, Truncated
from pykafka4.errors import ConfigError, CorruptRecord, KafkaError, LogTruncated, RecordTooLarge
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Chunk, Record, RecordIterator

__all__ = ["Reader"]

log = get_log("pykafka4.consumer")

IN_LIST, IN_LOOP = 0, 1  # how many of the records returned one by one are not finished

Step = TypeVar("Step", bound=Callable[..., Any])


def _whole(method: Step) -> Step:
    """A step that must not be entered again: `changing` is set until it returns."""

    @wraps(method)
    def run(self: Reader, *args: Any) -> Any:
        before = self.changing
        try:
            self.changing = True
            return method(self, *args)
        finally:
            self.changing = before

    return cast(Step, run)


class Reader:
    """Takes chunks, returns records, and knows which ones are finished."""

    def __init__(
        self,
        clock: Callable[[], float],
        notify: Callable[[], None],
        reseek: Callable[[Collection[Move]], None],
        client_id: str = "",
        max_bytes: int = 64 << 20,
    ) -> None:
        """`clock` is monotonic; `notify` wakes the polling thread; `reseek(moves)` makes the loop fetch from other offsets.

        A poll ends when the records that it returns take `max_bytes` of memory.
        """
        self._clock, self._notify, self._reseek, self._client_id, self._max_bytes = clock, notify, reseek, client_id, max_bytes
        # written by the loop
        self.arrivals: deque[Any] = deque()
        self.resume_at: float = INFINITY
        self.loop_wanted = False  # the next poll has to wake the loop
        self._urgent = False  # an event waits: a `for` loop has to handle it before its next record
        self._seen: tuple[RecordIterator | None, int] = (None, 0)  # the progress of a `for` loop when the loop thread last read it
        self._seen_at = -INFINITY  # when that progress last changed
        # written by the application, read by the loop
        self.finished: dict[TopicPartition, Place] = {}
        self.idle: float | None = -INFINITY
        self._polls = 0  # begun so far
        # used by the application's thread only
        self.changing = False  # during a step
        self.claims: dict[TopicPartition, Claim] = {}
        self.paused: set[TopicPartition] = set()
        self._withheld: set[TopicPartition] = set()  # their topics are no longer subscribed, but they are not revoked yet
        self.delivered = DeliveredOffsets()
        self.events: deque[Assigned | Ended] = deque()
        self.notices = Notices(clock)
        self.fatal: KafkaError | None = None
        self._buffer = FetchBuffer()
        self._handed: dict[Claim, Place] = {}  # the place of each claim after the records returned last
        self._iterator: RecordIterator | None = None  # those records, if they are returned one by one
        self._held = IN_LIST
        self._out: list[Record] | None = None  # what the running poll has decoded
        self._room = max_bytes  # for further records of the running poll
        self._decoding: tuple[Chunk, int] | None = None  # from what it decodes at the moment, behind how many records
        self._replacement: list[Move] = []  # an unfinished seek
        self._islice_from = -1  # how many records the iterator had returned when the running poll took a list from it

    # ---------------------------------------------------------------- the loop's side

    @property
    def consumed(self) -> int:
        """Bytes read or dropped so far."""
        return self._buffer.consumed

    def put(self, item: object) -> None:
        """Pass a chunk or event on, in order; `news` wakes the poll, and an event ends the list of a `for` loop early."""
        self.arrivals.append(item)
        if item.__class__ is not Chunk and item.__class__ is not Located:
            self.interrupt()

    def tell_denied(self, error: KafkaError) -> None:
        """Have `poll` raise that a right is missing, unless the same waits to be raised."""
        waiting = {subject_of(item.error) for item in tuple(self.arrivals) if item.__class__ is Trouble and item.claim is None}
        if subject_of(error) not in waiting | self.notices.subjects():
            self.put(Trouble(None, error, Lasting.ONCE))

    def tell_refused(self, error: KafkaError) -> None:
        """Have `poll` raise that a broker refuses this client, unless another error of the whole consumer waits to be raised."""
        if not self.notices and not any(item.__class__ is Trouble and item.claim is None for item in tuple(self.arrivals)):
            self.put(Trouble(None, error, Lasting.ONCE))
            self.news()

    def interrupt(self) -> None:
        """Have a `for` loop request its next list before its next record. May be called on any thread."""
        self._urgent = True  # before reading the iterator: `take_one_by_one` sets that first and reads this afterwards
        if (iterator := self._iterator) is not None:
            iterator.stopped = True

    def news(self) -> None:
        """Wake the thread that polls, if it waits and something has arrived."""
        if self.arrivals:
            self._notify()

    def idle_since(self) -> float | None:
        """When the last poll returned, or a `for` loop last took a record; None during a poll, -INFINITY before the first."""
        idle, iterator = self.idle, self._iterator
        if idle is None or iterator is None or self._held != IN_LOOP:
            return idle
        seen = (iterator, iterator.given)
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        return max(idle, self._seen_at)

    def mark(self) -> object:
        """Equal to an earlier one while the application has neither begun another poll nor taken another record of a `for` loop."""
        iterator = self._iterator
        return self._polls, -1 if iterator is None or self._held != IN_LOOP else iterator.given

    def progress(self) -> dict[TopicPartition, Place]:
        """The finished place of each partition; in a `for` loop everything before the current record is finished."""
        outdated = self._outdated()
        finished, iterator, handed = self.finished.copy(), self._iterator, self._handed.copy()
        given = 0 if iterator is None else iterator.given  # before the list is read: it can only shrink, then fewer records are finished
        if not (iterator is None or self._held != IN_LOOP or self.idle is None or self._iterator is not iterator):  # not between two lists
            later(finished, within(iterator, given, handed, IN_LOOP))
        return without(finished, outdated)

    def committable(self) -> dict[TopicPartition, Place]:
        """The place behind what polls have returned and is finished. May be called on any thread."""
        outdated = self._outdated()
        return without(self.finished.copy(), outdated)

    def _outdated(self) -> set[TopicPartition]:
        """Whose places are those of a deleted topic. Called before places are read: what is written from then on is of the new one."""
        return {tp for tp, claim in self.claims.copy().items() if claim.outdated}

    # ---------------------------------------------------------------- polling

    def enter(self) -> None:
        """A poll begins: records returned by earlier ones are finished."""
        self._polls += 1
        self.idle = None
        self._out, self._decoding, self._islice_from = None, None, -1
        self._complete_replacement()
        self.finish()

    def leave(self) -> None:
        """The poll returns."""
        self.idle = self._clock()

    def take_back(self) -> None:
        """The poll was interrupted (Ctrl-C) after it had decoded records: the next one returns them."""
        if self._out is not None:
            self._note_decoded(self._out)
        if self._iterator is not None:
            if self._islice_from >= 0:
                self._iterator.given = self._islice_from
        elif self._out:
            self._held, self._iterator = IN_LIST, RecordIterator(self._out)

    def finish(self) -> None:
        """What polls have returned is finished, or in the hands of a run, which knows what of it is not."""
        iterator = self._iterator
        if iterator is not None:
            self._held = IN_LIST
            if length_hint(iterator):  # a loop was left early: the rest of its list was never returned
                places = self._within(IN_LIST)
                self.finished.update(places)
                self._handed = {claim: place for claim, place in self._handed.items() if places.get(claim.tp, place) != place}
                return
            self._iterator = None
        for claim, place in self._handed.items():
            if claim.live:
                self.finished[claim.tp] = place
        self._handed = {}

    def _drop_empty_list(self) -> None:
        """A revocation or seek during a poll may remove the rest of a loop's list: then the buffered chunks are next."""
        if self._iterator is not None and not length_hint(self._iterator):
            self.finish()

    @property
    def ready(self) -> bool:
        """Whether there is something to drain, handle or raise. `interrupt` counts: `drain` ends it."""
        return bool(self.arrivals or self.events or self.notices or self.fatal or self._urgent)

    @property
    def filled(self) -> bool:
        """Whether something arrived that a poll may take, also if another call has drained it, or if `resume` has brought it back."""
        return bool(self.arrivals) or self._buffer.first is not None

    @_whole
    def drain(self) -> None:
        """Move arrived data to the buffer and events to `events`; data of ended claims is dropped."""
        self._urgent = False  # first: an event from here on sets it again
        arrivals = self.arrivals
        while arrivals:
            item = arrivals[0]
            ARRIVE[item.__class__](self, item)
            arrivals.popleft()

    @_whole
    def take(self, limit: int) -> list[Record]:
        """Up to `limit` records. Raises an error once the records before it were returned."""
        self._drop_empty_list()
        iterator = self._iterator
        if iterator is not None:
            self._islice_from, iterator.stopped = iterator.given, False
            records = list(islice(iterator, limit))
            iterator.stopped = True  # a `for` loop that goes on asks for its next list first: then these are finished
            return records
        out: list[Record] = []
        self._out = out
        self._room = self._max_bytes
        while (item := self._buffer.first) is not None:
            if item.__class__ is not Chunk:
                if not TAKE[item.__class__](self, item, bool(out)):
                    break
            elif not self._decode(item, out, limit):
                break
        if not out:
            self.finish()  # positions moved without records (located, or over a gap): nothing to be finished first
        return out

    def _decode(self, chunk: Chunk, out: list[Record], limit: int) -> bool:
        """Decode from `chunk`; returns whether to continue with the next."""
        claim: Claim = chunk.serial
        self._decoding = chunk, len(out)  # first: Ctrl-C during `decode` is raised when that returns
        try:
            chunk.decode(out, limit - len(out), self._room)
        except (CorruptRecord, RecordTooLarge, ConfigError) as error:
            self._decoding = None
            claim.position = chunk.position
            if out:
                return False
            if isinstance(error, ConfigError):  # a codec is missing: when it has been installed, reading goes on
                self._step_back({claim: chunk.position})
            else:
                self._buffer.stick(claim, Trouble(claim, error.again()))
            raise
        self._note_decoded(out)
        self._room -= chunk.decoded
        return len(out) < limit and self._room > 0  # a chunk that stopped before a corrupt batch raises at the next call

    def _note_decoded(self, out: list[Record]) -> None:
        """The poll has what was just decoded. Each step may be done twice, until `_decoding` is None."""
        if self._decoding is None:
            return
        chunk, before = self._decoding
        claim: Claim = chunk.serial
        if len(out) > before:
            claim.epoch = out[-1].leader_epoch
            self.delivered.add(claim.tp, out[before].offset, out[-1].offset)
        if chunk.exhausted and chunk.last_leader_epoch >= 0:
            claim.epoch = chunk.last_leader_epoch  # of a marker behind the last record, for example
        claim.position = chunk.position
        self._handed[claim] = (chunk.position, claim.epoch)
        if chunk.exhausted and self._buffer.first_of(claim) is chunk:
            self._buffer.pop(claim, chunk)
        self._decoding = None

    def take_one_by_one(self, limit: int) -> Iterator[Record]:
        """As `take`, for a `for` loop, which has one current record. Records that it leaves are returned by the next call of either.

        The list ends early when an event arrives.
        """
        self._drop_empty_list()
        if self._iterator is None:
            records = self.take(limit)
            if not records:
                return iter(records)
            self._iterator = RecordIterator(records)
        self._iterator.stopped = False
        if self._urgent:
            self._iterator.stopped = True
        self._held = IN_LOOP
        return self._iterator

    # ---------------------------------------------------------------- progress of the application

    def _within(self, held: int) -> dict[TopicPartition, Place]:
        """The places within the current list, if the last `held` records returned are not finished."""
        assert self._iterator is not None
        return within(self._iterator, self._iterator.given, self._handed, held)

    def reached(self) -> dict[TopicPartition, Place]:
        """What `commit()` commits: everything that polls have returned; in a loop, everything before the current record."""
        outdated = self._outdated()
        return without(self._places(self._held), outdated)

    def handed_out(self) -> dict[TopicPartition, Place]:
        """The place behind what the application has got of each partition, where it is known; the current record of a loop counts."""
        return self._places(IN_LIST)

    def positions(self) -> dict[TopicPartition, int]:
        """The offset of the next record of each partition, where it is known."""
        return {tp: offset for tp, (offset, _) in self.handed_out().items()}

    def _places(self, held: int) -> dict[TopicPartition, Place]:
        places = {tp: (claim.position, claim.epoch) for tp, claim in self.claims.items() if claim.position is not None}
        if self._iterator is not None:
            places.update(self._within(held))
        return places

    def settle(self, *, in_hand: bool = False) -> dict[TopicPartition, Place]:
        """What is finished if no further record is requested.

        With `in_hand` the list that the last poll returned counts as finished. The current record of a `for` loop never does, unless it
        was committed explicitly.
        """
        if self._iterator is not None:
            if self._held == IN_LOOP or in_hand:
                later(self.finished, self._within(self._held))
        elif in_hand:
            later(self.finished, {claim.tp: place for claim, place in self._handed.items() if claim.live})
        return self.committable()

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of `tp`, if it is known."""
        claim = self.claims[tp]
        if self._iterator is None or claim not in self._handed:
            return claim.position
        left = islice(self._iterator.records, self._iterator.given, None)
        listed = (record.offset for record in left if record.partition == tp.partition and record.topic == tp.topic)
        return next(listed, self._handed[claim][0])

    def next_offset(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of `tp`; None until it is known. Raises the error that prevents that."""
        known = self.position(tp)
        if known is not None:
            return known
        item = self._buffer.first_of(self.claims[tp])
        if isinstance(item, Trouble):
            raise item.error.again()
        return None if item is None else item.position if isinstance(item, Chunk) else item.offset

    # ---------------------------------------------------------------- partitions

    @_whole
    def adopt(self, claims: Iterable[Claim]) -> None:
        """Read these from now on, instead of claims of another assignment. If the call is repeated, seeks made meanwhile remain."""
        for claim in claims:
            before = self.claims.get(claim.tp)
            if before is None or before.origin is not claim.origin:
                if before is not None:
                    before.live = False
                    self.paused.discard(claim.tp)
                    self.purge((before,))
                    self.delivered.end(before)
                self.claims[claim.tp] = claim
            if claim.tp not in self.paused and claim.tp not in self._withheld:
                self._buffer.bring_back((claim,))

    @_whole
    def release(self, claims: Collection[Claim]) -> None:
        """Stop reading these; nothing of them is committed from now on."""
        current = self.current(claims)
        self.purge(current)
        for claim in current:
            self.finished.pop(claim.tp, None)
            self.paused.discard(claim.tp)
            self._withheld.discard(claim.tp)
            self.delivered.end(claim)
            claim.live = False
            del self.claims[claim.tp]

    def refuse(self, claims: Collection[Claim]) -> None:
        """These ended before they were adopted: drop their data, also what still arrives."""
        self.purge(claims)
        for claim in claims:
            claim.live = False

    def current(self, claims: Iterable[Claim]) -> list[Claim]:
        """The claims that seeks have put in their place; not those of another assignment of the same partitions."""
        found = [(claim, self.claims.get(claim.tp)) for claim in claims]
        return [now for claim, now in found if now is not None and now.origin is claim.origin]

    def mark_start_reached(self, claims: Iterable[Claim]) -> None:
        """Claims that end before a poll took the offset where they begin have reached it, so that it is committed.

        Otherwise the next owner would begin at the end of the log with auto_offset_reset=latest, and skip what was written meanwhile.
        """
        for claim in claims:
            first = self._buffer.first_of(claim) if claim.position is None else None
            if first.__class__ is Located and claim.tp not in self.finished:
                self.finished[claim.tp] = (first.offset, first.epoch)
                claim.followed = first.recreated

    def stop_delivering(self, claims: Collection[Claim]) -> None:
        """Return no more records of these, which the loop has ceased to fetch. What was returned can still be committed."""
        self.mark_start_reached(claims)
        self.purge(claims)

    @_whole
    def purge(self, claims: Iterable[Claim]) -> None:
        """Drop buffered data of `claims`, also from the rest of a loop's list."""
        gone = tuple(claims)
        self._buffer.drop(gone)
        if self._iterator is not None and (listed := [claim for claim in gone if claim in self._handed]):
            self._shorten(listed)

    def _shorten(self, claims: Collection[Claim]) -> None:
        """Remove records of `claims` that were not returned yet from the list; the iterator continues over the rest.

        Positions first: `progress` must not see the shorter list and take the removed records for finished.
        """
        assert self._iterator is not None
        records, given, tps = self._iterator.records, self._iterator.given, {claim.tp for claim in claims}
        rest = records[given:]
        first: dict[tuple[str, int], Place] = {}
        for record in reversed(rest):
            if (record.topic, record.partition) in tps:
                first[record.topic, record.partition] = (record.offset, record.leader_epoch)
        for claim in claims:
            if claim.tp in first:
                self._handed[claim] = first[claim.tp]
                claim.position = first[claim.tp][0]
        records[given:] = [r for r in rest if (r.topic, r.partition) not in tps]

    def seek(self, tp: TopicPartition, start: Start | Since | int) -> None:
        """Continue at `start`: buffered records are dropped, and records before an offset count as finished."""
        self.seek_each({tp: start})

    def seek_all(self, tps: Iterable[TopicPartition], start: Start | Since | int) -> None:
        """The same for several partitions."""
        self.seek_each(dict.fromkeys(tps, start))

    @_whole
    def seek_each(self, starts: Mapping[TopicPartition, Start | Since | int]) -> None:
        """The same for several partitions, each with its own start; the loop gets one call."""
        self._complete_replacement()  # an interrupted seek: it replaces claims
        for tp in starts:
            self.delivered.sought(self.claims[tp])
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(start), start) for tp, start in starts.items()]
        for _, claim, _ in moves:
            claim.followed = claim.recreated  # the application knows where to read
        self._jump(moves)

    @_whole
    def rewind_each(self, places: Mapping[TopicPartition, Place]) -> None:
        """Read again from these: what was handed out is dropped by the application. Unlike a seek, it chooses no other beginning."""
        self._complete_replacement()
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(*place), place[0]) for tp, place in places.items()]
        for before, claim, _ in moves:
            claim.otherwise = self.delivered.first(before)
        self._jump(moves)
        self.delivered.forget()

    @_whole
    def go_back(self, places: Mapping[TopicPartition, Place]) -> None:
        """Read again from these, where that is not the place already: what was handed out behind them is not finished."""
        self._complete_replacement()
        back = {tp: place for tp, place in places.items() if tp in self.claims and self.position(tp) not in (None, place[0])}
        self.finished.update(back)  # first: after an interrupt nothing is finished that reading has not come to
        for tp in back:
            self.delivered.sought(self.claims[tp])
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(*place), place[0]) for tp, place in back.items()]
        self._jump(moves)

    def _jump(self, moves: list[Move]) -> None:
        for _, claim, start in moves:
            claim.start = start if isinstance(start, int) else None
        self._replace(moves)
        for _, claim, start in moves:  # last: after an interrupt nothing is finished that reading does not skip
            if isinstance(start, int):
                self.finished[claim.tp] = (start, claim.epoch)
            else:
                self.finished.pop(claim.tp, None)

    def _replace(self, moves: list[Move]) -> None:
        """Replace claims by their successors."""
        self._complete_replacement()
        self._replacement = moves
        self._complete_replacement()

    def _complete_replacement(self) -> None:
        """Do the replacement. After an interrupt it is repeated; each step may be done twice."""
        if not self._replacement:
            return
        claims = self.claims
        current = [move for move in self._replacement if claims.get(move[0].tp) in move]
        self._reseek(current)
        for old, new, _ in current:
            claims[old.tp] = new
            old.live = False
        self.purge([old for old, _, _ in current])
        self._replacement = []

    @_whole
    def pause(self, *tps: TopicPartition) -> None:
        """Return no records of these until `resume`. Those in the list of a loop are fetched again then."""
        self.paused.update(tps)
        self._set_aside(tps)

    def _set_aside(self, tps: Collection[TopicPartition]) -> None:
        claims = [self.claims[tp] for tp in tps]
        listed = {claim.tp: claim for claim in claims if claim in self._handed}
        if self._iterator is not None and listed:
            self._step_back(first_left(self._iterator, listed))
            claims = [self.claims[tp] for tp in tps]
        self._buffer.set_aside(claims)

    @_whole
    def resume(self, *tps: TopicPartition) -> None:
        """Return records of these again."""
        self._buffer.bring_back([self.claims[tp] for tp in tps if tp in self.paused and tp not in self._withheld])
        self.paused.difference_update(tps)

    @_whole
    def withhold(self, tps: Collection[TopicPartition]) -> None:
        """Return no records of these, whose topics are no longer subscribed, until they are revoked or a later call leaves them out.

        Their records are not dropped: after `subscribe` of the old topics a cooperative member keeps the partitions, and reads on.
        """
        again = self._withheld.difference(tps)
        self._withheld |= set(tps)  # first: what arrives from here on is set aside
        self._set_aside(tps)
        self._buffer.bring_back([self.claims[tp] for tp in again if tp in self.claims and tp not in self.paused])
        self._withheld -= again

    @_whole
    def relieve(self) -> None:
        """If data of paused partitions fills all the room, drop it, so that the others continue."""
        if self.resume_at == INFINITY:
            return
        offsets: dict[Claim, int] = {}
        for claim, chunk in self._buffer.only_aside().items():
            if self.current((claim,)):  # otherwise it waits for its assignment, which no seek brings
                known = self.position(claim.tp)
                offsets[claim] = chunk.position if known is None else known
        self._step_back(offsets)

    def _step_back(self, offsets: Mapping[Claim, int]) -> None:
        """Fetch again from these offsets; records that were returned remain returned."""
        if not offsets:
            return
        moves: list[Move] = [(claim, claim.successor(offset, claim.epoch), offset) for claim, offset in offsets.items()]
        self._replace(moves)
        self._handed.update({new: self._handed[old] for old, new, _ in moves if old in self._handed})

    # ---------------------------------------------------------------- what arrives

    def _arrive(self, item: Any) -> None:
        claim: Claim = item.serial if item.__class__ is Chunk else item.claim
        if claim.live:
            # Until its assignment is taken up: a revocation before that may wait for its last commit.
            waits = bool(self.events) and not self.current((claim,))
            self._buffer.append(claim, item, aside=waits or claim.tp in self.paused or claim.tp in self._withheld)
        elif item.__class__ is Chunk:
            self._buffer.let_go(claim, item.size)

    def _arrive_trouble(self, trouble: Trouble) -> None:
        if trouble.claim is not None:
            self._arrive(trouble)
        elif trouble.lasting is Lasting.ONCE:
            self.notices.add(trouble.error)
        else:
            self.fatal = trouble.error

    def _arrive_subscribed(self, _: Subscribed) -> None:
        self.fatal = None

    def _arrive_event(self, event: Assigned | Ended) -> None:
        if not self.events or self.events[-1] is not event:  # an interrupted attempt may have appended it already
            self.events.append(event)

    # ---------------------------------------------------------------- markers at the head of the buffer

    def _take_located(self, located: Located, records_before: bool) -> bool:
        """A start offset (committed, or from the reset policy) counts as reached, so that it is committed even without records.

        In a recreated topic, and after a reset to a lower offset, progress restarts there: the offset before must not be committed any
        more. Therefore the records before the marker are returned first, in a list of their own.
        """
        claim = located.claim
        anew = claim.followed != located.recreated
        if anew or (claim.position is not None and located.offset < claim.position):
            if records_before:
                return False
            self.finished[claim.tp] = (located.offset, located.epoch)
        self.finished.setdefault(claim.tp, (located.offset, located.epoch))
        if anew:
            self.delivered.sought(claim)  # no transaction can contain the records before, or their offsets
        if anew or claim.start is None:
            claim.start = located.offset
        claim.position, claim.epoch = located.offset, located.epoch
        self._handed[claim] = (located.offset, located.epoch)
        claim.followed = located.recreated  # last: until here its places may be of the former topic
        self._buffer.pop(claim, located)
        return True

    def _take_trouble(self, trouble: Trouble, records_before: bool) -> bool:
        if records_before:
            return False
        if trouble.lasting is Lasting.ONCE and trouble.claim is not None:
            known = self.notices.raised_lately(trouble.error)
            trouble.claim.troubled = False
            self._buffer.pop(trouble.claim, trouble)
            if known:
                return True
        elif trouble.claim is not None:
            self._buffer.stick(trouble.claim, trouble)
        raise trouble.error.again()

    def _take_truncated(self, truncated: Truncated, records_before: bool) -> bool:
        if records_before:
            return False
        claim = truncated.claim
        if truncated.raises and claim.position is not None and claim.position > truncated.offset:
            self._buffer.stick(claim, truncated)
            raise LogTruncated.to(*claim.tp, claim.position, truncated.offset)
        lost = max(0, (claim.position or 0) - truncated.offset)
        log.warning(
            "%s: %s: an unclean leader election truncated the log to offset %d; %d offsets that were already read are lost",
            self._client_id,
            claim.tp,
            truncated.offset,
            lost,
        )
        offset, epoch = truncated.offset, truncated.epoch
        if claim.position is not None and claim.position < offset:
            offset = claim.position
            epoch = min(claim.epoch, epoch)  # for the same offset and epoch the broker would return the same truncation again
        self.finished[claim.tp] = (offset, epoch)
        self._replace([(claim, claim.successor(offset, epoch), offset)])
        return True


ARRIVE: Mapping[type, Callable[[Reader, Any], None]] = {
    Chunk: Reader._arrive,
    Located: Reader._arrive,
    Truncated: Reader._arrive,
    Trouble: Reader._arrive_trouble,
    Assigned: Reader._arrive_event,
    Ended: Reader._arrive_event,
    Subscribed: Reader._arrive_subscribed,
}
TAKE: Mapping[type, Callable[[Reader, Any, bool], bool]] = {
    Located: Reader._take_located,
    Trouble: Reader._take_trouble,
    Truncated: Reader._take_truncated,
}
