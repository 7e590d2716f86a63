"""Returns fetched records to `poll`. Invariant: no record is lost, and `poll` returns none that a seek, pause or revocation has removed.

The reader is the application's side of a consumer, and never waits. The thread that polls calls its methods, except `_settle`,
`consumed`, `held` and the methods that the modules of its base classes list (`arrivals`, `cursors`). Only one side writes each piece of
shared state: plain attributes, and the deque `arrivals` (the loop appends, the thread that polls deletes). Exceptions: both sides write the
flags `_urgent`, `loop_wanted`, `Claim.troubled` and `RecordIterator.stopped`; any thread writes `_seen`, and appends the markers of dead
letters.

Crash-only: Ctrl-C can interrupt a step anywhere. Then `changing` stays set, and the next call of the consumer begins with `recover`, which
drops the decoded records that no poll has returned, and has the loop fetch them again. CPython runs signal handlers only after calls, at
backward jumps and when a function begins. Therefore either all plain stores between two calls are done or none; comments mark the code that
relies on this rule. If a signal handler calls the consumer during a step, the guard sees `changing`, and refuses the call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pykafka4.consumer.reading.arrivals import Arrivals
from pykafka4.consumer.reading.column_forms import ColumnForms
from pykafka4.consumer.reading.cursors import IN_LOOP, HandedOut
from pykafka4.consumer.reading.delivered import DeliveredOffsets
from pykafka4.consumer.reading.deserializing import AwaitedLetters, Halted
from pykafka4.consumer.reading.fetch_buffer import FetchBuffer
from pykafka4.consumer.reading.forms import Form
from pykafka4.consumer.reading.steps import step
from pykafka4.core import INFINITY
from pykafka4.core.subscription import (
    Assigned,
    Claim,
    Ended,
    Lasting,
    Located,
    Move,
    OffsetAndEpoch,
    PollError,
    Since,
    Start,
    Subscribed,
    Truncated,
)
from pykafka4.errors import ConfigError, CorruptRecord, KafkaError, LogTruncated, RecordTooLarge
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Chunk

__all__ = ["Reader"]

log = get_log("pykafka4.consumer")

T = TypeVar("T")
NO_ENDS: Mapping[TopicPartition, int] = MappingProxyType({})


class Reader(Arrivals):
    def __init__(
        self,
        clock: Callable[[], float],
        notify: Callable[[], None],
        reseek: Callable[[Collection[Move]], None],
        client_id: str = "",
        max_bytes: int = 64 << 20,
    ) -> None:
        """`clock` is monotonic; `notify` wakes the thread that polls; `reseek(moves)` has the loop fetch from other offsets.

        A poll ends when its records take `max_bytes` of memory.
        """
        super().__init__(clock, notify)
        self._reseek, self._client_id, self._max_bytes = reseek, client_id, max_bytes
        # written by the application's thread
        self.changing = False  # True during a step, and after a step that an exception left in the middle
        self.paused: set[TopicPartition] = set()
        self._withheld: set[TopicPartition] = set()  # partitions of topics that are no longer subscribed, before their revocation
        self.delivered = DeliveredOffsets()
        self.events: deque[Assigned | Ended] = deque()
        self.fatal: KafkaError | None = None
        self.columns = ColumnForms()
        self._buffer = FetchBuffer()
        self._arrived = 0  # bytes that were taken from `arrivals`
        self._room = max_bytes  # bytes left for more records of the running poll
        self.returned: dict[TopicPartition, int] = {}  # how many records polls have returned; counts all of a `for` loop's list
        self._counts: dict[TopicPartition, int] = {}  # how many records the running poll has collected

    # ---------------------------------------------------------------- the loop's side

    @property
    def consumed(self) -> int:
        return self._buffer.consumed

    @property
    def held(self) -> int:
        return self.columns.held_bytes

    # ---------------------------------------------------------------- polling

    def enter(self) -> None:
        self._polls += 1
        self.idle = None
        self.finish()

    def leave(self) -> None:
        """Restart the member's lease."""
        self.idle = self._clock()

    def recover(self) -> None:
        """After an interrupted step, fetch all unreturned records again. An interrupted recovery begins again.

        A claim without a known position keeps its items: none of them was decoded, and a second lookup may find another offset.
        """
        self.taken, claims = self.handed, self.claims
        for claim in claims.values():
            claim.live = True  # `_move` may have ended the claim, and not yet stored its successor
        # Keep the start offset of a seek if the offset has arrived: otherwise the loop looks it up again in a log that may have grown.
        self._reach_start([claim for claim in claims.values() if claim.target is not None])
        known = self.handed.positions_of(claims.values())
        back = [claim for claim in claims.values() if claim.target is not None or claim in known]
        kept = {claim for claim in self._buffer.claims if claim.live}.difference(back)
        self._buffer = self._buffer.keep(kept, self._arrived, self.arrivals[0] if self.arrivals else None)
        self._buffer.bring_back(claim for claim in kept if claims.get(claim.tp) is claim and self._may_read(claim))
        self._fetch_again(back)
        self.changing = False

    @property
    def ready(self) -> bool:
        return bool(self.arrivals or self.events or self.notices or self.fatal or self._urgent)

    @property
    def filled(self) -> bool:
        """Whether a poll may find an item, even one that another call has drained or brought back."""
        return bool(self.arrivals) or self._buffer.first is not None

    @step
    def drain(self) -> None:
        """Move arrived data to the buffer and events to `events`; drop data of ended claims."""
        # First. If this store came after the `while` loop, it would clear the mark of an event that arrives between the two, and a `for`
        # loop would process its complete list before that event is handled.
        self._urgent = False
        arrivals = self.arrivals
        while arrivals:
            item = arrivals[0]
            ARRIVE[item.__class__](self, item)
            size = item.size if item.__class__ is Chunk else 0
            # Last: if Ctrl-C ends the call above, the deque still has the item, and the next `drain` takes it again. There is no call
            # between these two lines, so the bytes are counted if and only if the item is gone.
            del arrivals[0]
            self._arrived += size

    def take(self, form: Form[T], limit: int) -> T | None:
        """Up to `limit` items in this form; None if there are none. Raises an error only after the records before it have been returned.

        The records are handed out only when the poll stores `taken` in `handed` and sets `changing` to False, immediately before it
        returns. The list of a `for` loop ends early when an event arrives.
        """
        self.changing = True
        if self.handed.has_rest:
            going_on = form.go_on(self.handed, limit)
            if going_on is not None:
                return self._taken(*going_on)
            self._fetch_again(self.handed.claims_with_rest(self.claims.values()))
        # A seek or a revocation during this poll may have removed the rest of a loop's list. Then the list's positions become
        # the positions of its claims.
        if self.handed.iterator is not None:
            self.finish()
        form.begin(limit)
        positions: dict[Claim, OffsetAndEpoch] = {}
        self._room, self._counts = self._max_bytes, {}
        while (item := self._buffer.first) is not None:
            # An error for the application is returned. A raised KafkaError comes from a signal handler, and `changing` stays set.
            outcome = TAKE[item.__class__](self, item, form, positions)
            if isinstance(outcome, KafkaError):
                self._return_nothing(positions)
                try:
                    raise outcome
                finally:
                    del outcome  # otherwise the error, its traceback and this frame are a cycle, which keeps a forgotten consumer alive
            if not outcome:
                break
        if len(form):
            for tp, count in self._counts.items():
                self.returned[tp] = self.returned.get(tp, 0) + count
            return self._taken(*form.finish(positions))
        self._return_nothing(positions)
        return None

    def _taken(self, out: T, taken: HandedOut) -> T:
        # `taken` is stored before `_urgent` is read, and `interrupt` sets `_urgent` before it reads `taken`: at least one of the two
        # threads sees the other's store.
        self.taken = taken
        if taken.held == IN_LOOP:
            assert taken.iterator is not None
            taken.iterator.stopped = False
            if self._urgent:
                taken.iterator.stopped = True
        return out

    def _return_nothing(self, positions: dict[Claim, OffsetAndEpoch]) -> None:
        """Store positions that moved over a gap. Without returned records, they count as finished at once."""
        self.handed = self.taken = HandedOut(positions)
        self.finish()
        self.changing = False

    def _take_chunk(self, chunk: Chunk, form: Form[Any], positions: dict[Claim, OffsetAndEpoch]) -> bool | KafkaError:
        """Have the form collect records of `chunk`; return whether to continue with the next item, or the error to raise."""
        claim: Claim = chunk.serial
        epoch = positions[claim][1] if claim in positions else claim.epoch
        halted: Halted | None = None
        before = form.records
        try:
            added = form.add(chunk, self._room)
        except (CorruptRecord, RecordTooLarge, ConfigError) as error:
            positions[claim] = (chunk.position, epoch)
            if len(form):
                return False
            if isinstance(error, ConfigError):  # a codec is missing: the batch is fetched again, and readable when the codec is installed
                self._fetch_again([claim])
            else:
                self._buffer.block(claim, PollError(claim, error.again()))
            return error
        except Halted as stop:
            halted = stop
        self._counts[claim.tp] = self._counts.get(claim.tp, 0) + form.records - before
        if halted is not None:  # after the `except` block: inside it, Python would attach `Halted` to the raised error as its context
            return self._halt(chunk, halted, form, positions, epoch)
        if added is not None:
            first, last, epoch = added
            self.delivered.add(claim.tp, first, last)
        if chunk.exhausted:
            if chunk.last_leader_epoch >= 0:
                epoch = chunk.last_leader_epoch  # a marker after the last record may have a later epoch
            self._buffer.pop(claim)
        positions[claim] = (chunk.position, epoch)
        self._room -= chunk.decoded
        return self._room > 0 and not form.full  # a chunk that stopped before a corrupt batch raises at the next call

    def _halt(self, chunk: Chunk, halted: Halted, form: Form[Any], positions: dict[Claim, OffsetAndEpoch], epoch: int) -> bool | KafkaError:
        """Read no further in the partition of `chunk`: its next record was refused. Returns whether to continue with other partitions.

        Returns the error of the record instead, if there is one and the form has no records.
        """
        claim, halt = chunk.serial, halted.halt
        if halted.added is not None:
            first, last, epoch = halted.added
            self.delivered.add(claim.tp, first, last)
        positions[claim] = (halt.offset, epoch)
        if halt.error is not None:
            self._buffer.block(claim, PollError(claim, halt.error))
            if len(form):
                return False
            return halt.error.again()
        letters = AwaitedLetters(claim, halt.offset, halt.deliveries)
        self._buffer.block(claim, letters)
        self._buffer.set_aside((claim,))
        letters.watch(self._settle)
        self._room -= chunk.decoded
        return self._room > 0 and not form.full

    def _settle(self, letters: AwaitedLetters) -> None:
        """Pass the marker to the thread that polls: the dead letters have their outcomes. Called on any thread."""
        self.put(letters)
        self._notify()

    def next_offset(self, tp: TopicPartition) -> int | None:
        """None while the offset of the next record is unknown. Raises the error that keeps it unknown."""
        known = self.position(tp)
        if known is not None:
            return known
        item = self._buffer.first_of(self.claims[tp])
        if isinstance(item, PollError):
            raise item.error.again()
        return None if item is None else item.position if isinstance(item, Chunk) else item.offset

    # ---------------------------------------------------------------- partitions

    @step
    def adopt(self, claims: Iterable[Claim]) -> None:
        """Read these claims instead of claims of earlier assignments. A repeated call keeps the seeks since the first call."""
        for claim in claims:
            before = self.claims.get(claim.tp)
            if before is not None and before.origin is claim.origin:  # a repeated call, after Ctrl-C: a seek may have replaced the claim
                continue
            if before is not None:
                before.live = False
                self.paused.discard(claim.tp)
                self.purge((before,))
                self.delivered.end(before, self.position(claim.tp))
            self.claims[claim.tp] = claim
            if self._may_read(claim):
                self._buffer.bring_back((claim,))

    def _may_read(self, claim: Claim) -> bool:
        return claim.tp not in self.paused and claim.tp not in self._withheld

    @step
    def release(self, claims: Collection[Claim]) -> None:
        """Stop reading these claims, and drop their finished offsets."""
        current = self.current(claims)
        self.purge(current)
        for claim, position in self._offsets_of(current).items():
            self.finished.pop(claim.tp, None)
            self.paused.discard(claim.tp)
            self._withheld.discard(claim.tp)
            self.delivered.end(claim, position)
            claim.live = False
            del self.claims[claim.tp]

    @step
    def refuse(self, claims: Collection[Claim]) -> None:
        """Drop these claims, which are not adopted."""
        self.purge(claims)
        for claim in claims:
            claim.live = False

    def current(self, claims: Iterable[Claim]) -> list[Claim]:
        """The current claims of the same assignments: seeks may have replaced `claims`."""
        found = [(claim, self.claims.get(claim.tp)) for claim in claims]
        return [now for claim, now in found if now is not None and now.origin is claim.origin]

    @step
    def stop_delivering(self, claims: Collection[Claim]) -> None:
        """Drop the buffered data of claims whose reading ends. Returned records can still be committed."""
        self._reach_start(claims)
        self.purge(claims)

    @step
    def begin(self, tps: Iterable[TopicPartition]) -> None:
        """Make the known start offsets of these partitions their positions now, so that `commit` has them before the next poll."""
        self._reach_start([self.claims[tp] for tp in tps if tp in self.claims])

    def _reach_start(self, claims: Collection[Claim]) -> None:
        """Count the known start offsets of these claims as reached, although no poll has taken their markers.

        Otherwise a commit could lack them: the next owner would begin at the end of the log with auto_offset_reset=latest, and skip the
        records that were written since.
        """
        for claim in claims:
            first = self._buffer.first_of(claim) if claim.position is None else None
            if first.__class__ is Located:
                self._reach(first)

    @step
    def purge(self, claims: Iterable[Claim]) -> None:
        """Drop buffered data of `claims`, even from the rest of a loop's list; the iterator continues over the other records."""
        gone = tuple(claims)
        self._buffer.drop(gone)
        self._shorten(gone)

    def _shorten(self, claims: Collection[Claim]) -> None:
        if listed := self.handed.claims_with_rest(claims):
            iterator, rest, tps = self.handed.iterator, self.handed.rest, {claim.tp for claim in listed}
            assert iterator is not None
            given, left, handed = iterator.given, [r for r in rest if (r.topic, r.partition) not in tps], self.handed.without(listed)
            # Positions first. In the other order `progress`, on the loop thread, could see the shorter list with the old positions: it
            # would count the removed records as finished, and auto-commit would skip them. No call separates the stores, so Ctrl-C cannot
            # either.
            self.handed = self.taken = handed
            iterator.records[given:] = left

    def seek(self, tp: TopicPartition, start: Start | Since | int) -> None:
        self.seek_each({tp: start})

    @step
    def seek_each(self, starts: Mapping[TopicPartition, Start | Since | int]) -> None:
        """Continue each partition where `starts` says: buffered records are dropped; records before a start offset count as finished."""
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(start), start) for tp, start in starts.items()]
        for _, claim, _ in moves:
            claim.followed = claim.recreated  # the application chose the offset, so it is an offset of the current topic
        self._seek(moves, self._offsets_of([before for before, _, _ in moves]))

    @step
    def read_spans(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Continue in each partition at the first offset of its span, up to the second."""
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(start), start) for tp, (start, _) in spans.items()]
        for _, claim, _ in moves:
            claim.followed, claim.until = claim.recreated, spans[claim.tp][1]
        self._seek(moves, self._offsets_of([before for before, _, _ in moves]))

    @step
    def bound_each(self, ends: Mapping[TopicPartition, int]) -> None:
        """Read on up to these ends (UNBOUNDED: no end). Buffered data is fetched again, because an end holds for all data of a claim."""
        self._fetch_again([self.claims[tp] for tp in ends], ends)

    @step
    def rewind_each(self, starts: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """Read again from these offsets: the application drops the records that polls returned. Unlike a seek, this begins no stretch."""
        moves: list[Move] = [(claim := self.claims[tp], claim.successor(*start), start[0]) for tp, start in starts.items()]
        positions = self._offsets_of([before for before, _, _ in moves])
        for before, claim, _ in moves:
            claim.otherwise = self.delivered.first(before, positions[before])
        self._jump(moves)
        self.delivered.forget()

    @step
    def go_back(self, starts: Mapping[TopicPartition, OffsetAndEpoch]) -> None:
        """Read again from these offsets in partitions whose position differs: returned records from the offsets on are not finished."""
        positions = self._offsets_of([self.claims[tp] for tp in starts if tp in self.claims])
        back = {claim: starts[claim.tp] for claim, position in positions.items() if position not in (None, starts[claim.tp][0])}
        self._seek([(claim, claim.successor(*start), start[0]) for claim, start in back.items()], {c: positions[c] for c in back})

    def _seek(self, moves: list[Move], positions: Mapping[Claim, int | None]) -> None:
        """Jump, and begin stretches: the application may still process records before `positions`, the old positions."""
        self._jump(moves)
        for before, position in positions.items():
            self.delivered.sought(before, position)

    def _jump(self, moves: list[Move]) -> None:
        """Records before a new offset count as finished."""
        finished: dict[TopicPartition, OffsetAndEpoch] = {}
        for _, claim, start in moves:
            claim.start = claim.position
            if isinstance(start, int):
                finished[claim.tp] = (start, claim.epoch)
            else:
                self.finished.pop(claim.tp, None)
        self._move(moves, finished, {})

    def _move(self, moves: list[Move], finished: Mapping[TopicPartition, OffsetAndEpoch], returned: Mapping[Claim, Claim]) -> None:
        """Replace claims by their successors. `returned` maps the claims whose returned records stay unfinished to their successors."""
        gone = [old for old, _, _ in moves]
        for old in gone:
            old.live = False
        self._shorten(gone)
        fresh = {new.tp: new for _, new, _ in moves}
        handed = self.handed.renamed(returned)
        # From here to the next call no signal handler runs: all three stores are done, or none. With `claims` alone replaced, the recovery
        # after Ctrl-C would look for the positions of the new claims in a list that has only the old ones.
        self.claims |= fresh
        self.finished |= finished
        self.handed = self.taken = handed
        self._buffer.drop(gone)  # not earlier: if Ctrl-C prevents the move, a claim that has not begun needs its items
        self._reseek(moves)

    def _fetch_again(self, claims: Collection[Claim], ends: Mapping[TopicPartition, int] = NO_ENDS) -> None:
        """Fetch these claims again from their positions; returned records remain returned. `ends` replaces `Claim.until`."""
        moves: list[Move] = []
        positions = self.handed.positions_of(claims)
        for claim in claims:
            if claim in positions:
                moves.append((claim, claim.successor(*positions[claim]), positions[claim][0]))
            elif claim.target is not None:
                moves.append((claim, claim.successor(claim.target), claim.target))
        for _, claim, _ in moves:
            claim.until = ends.get(claim.tp, claim.until)
        if moves:
            self._move(moves, {}, {old: new for old, new, _ in moves})

    @step
    def pause(self, *tps: TopicPartition) -> None:
        """Unreturned records of these partitions in a loop's list are fetched again."""
        self.paused.update(tps)
        self._set_aside(tps)

    def _set_aside(self, tps: Collection[TopicPartition]) -> None:
        self._fetch_again(self.handed.claims_with_rest([self.claims[tp] for tp in tps]))
        self._buffer.set_aside([self.claims[tp] for tp in tps])

    @step
    def resume(self, *tps: TopicPartition) -> None:
        self.paused.difference_update(tps)
        self._bring_back(tps)

    def _bring_back(self, tps: Iterable[TopicPartition]) -> None:
        self._buffer.bring_back([claim for tp in tps if (claim := self.claims.get(tp)) is not None and self._may_read(claim)])

    @step
    def withhold(self, tps: Collection[TopicPartition]) -> None:
        """Return no records of these partitions, whose topics are no longer subscribed, until a later call leaves them out.

        Their positions are kept: if the application subscribes to the old topics again, a cooperative member keeps the partitions and reads
        on.
        """
        again = self._withheld.difference(tps)
        self._withheld = set(tps)
        self._set_aside(tps)
        self._bring_back(again)

    @step
    def relieve(self) -> None:
        """If the loop waits for room, and `poll` can read no buffered data, drop data that is set aside. It is fetched again."""
        if self.resume_at == INFINITY:
            return
        # Claims whose assignment was not adopted yet keep their data: a seek cannot fetch it again, because the reader lacks the claim.
        idle = [claim for claim in self._buffer.only_aside() if self.claims.get(claim.tp) is claim]
        self._reach_start(idle)
        self._fetch_again(idle)

    # ---------------------------------------------------------------- arrivals

    def _arrive(self, item: Any) -> None:
        claim: Claim = item.serial if item.__class__ is Chunk else item.claim
        if claim.live:
            # Data of a new assignment can arrive before a poll adopts the assignment, because an earlier revocation waits for its last
            # commit. The new records also wait, because the listener has to be called first.
            waits = self.claims.get(claim.tp) is not claim
            self._buffer.append(claim, item, aside=waits or not self._may_read(claim))
        else:
            self._buffer.let_go(claim, item)

    def _arrive_letters(self, letters: AwaitedLetters) -> None:
        """Fetch the records of these dead letters again: they are judged again, now that the letters have outcomes."""
        claim = letters.claim
        if self.claims.get(claim.tp) is claim and self._buffer.first_of(claim) is letters:
            self._fetch_again((claim,))

    def _arrive_trouble(self, trouble: PollError) -> None:
        if trouble.claim is not None:
            self._arrive(trouble)
        elif trouble.lasting is Lasting.ONCE:
            if trouble.error not in self.notices.waiting:  # an interrupted attempt may have added it already
                self.notices.add(trouble.error)
        else:
            self.fatal = trouble.error

    def _arrive_subscribed(self, _: Subscribed) -> None:
        self.fatal = None

    def _arrive_event(self, event: Assigned | Ended) -> None:
        if not self.events or self.events[-1] is not event:  # an interrupted attempt may have appended it already
            self.events.append(event)

    # ---------------------------------------------------------------- markers at the head of the buffer

    def _take_located(self, located: Located, form: Form[Any], positions: dict[Claim, OffsetAndEpoch]) -> bool:
        """If the poll has collected records of the same claim, end the poll before the marker."""
        if len(form) and located.claim in positions:
            return False
        positions.pop(located.claim, None)  # the position after a gap, which the start offset replaces
        self._reach(located)
        return True

    def _reach(self, located: Located) -> None:
        """Count a start offset as reached, so that it is committed even without records.

        In a recreated topic, and after a reset to a lower offset, progress restarts there: the old offset must not be committed any more.
        """
        claim = located.claim
        anew = claim.followed != located.recreated
        if anew:
            self.delivered.sought(claim, claim.position)  # no transaction can contain the offsets of the earlier records
        if anew or claim.start is None:
            claim.start = located.offset
        self.finished[claim.tp] = (located.offset, located.epoch)
        claim.position, claim.epoch = located.offset, located.epoch
        # Last: until here the claim's position may belong to the former topic. In another order, a commit of the loop between these stores
        # could find the claim up to date, and commit an offset of the deleted topic in the new one.
        claim.followed = located.recreated
        self._buffer.pop(claim)

    def _take_letters(self, letters: AwaitedLetters, form: Form[Any], positions: dict[Claim, OffsetAndEpoch]) -> bool:
        """The claim still waits for its dead letters, but `_bring_back` has put it into the queue."""
        self._buffer.set_aside((letters.claim,))
        return True

    def _take_trouble(self, trouble: PollError, form: Form[Any], positions: dict[Claim, OffsetAndEpoch]) -> bool | KafkaError:
        if len(form):
            return False
        claim = trouble.claim
        assert claim is not None
        if trouble.lasting is Lasting.ONCE:
            known = self.notices.raised_lately(trouble.error)
            claim.troubled = False  # from now on the loop may put the next error of this claim
            self._buffer.pop(claim)
            if known:
                return True
        else:
            self._buffer.block(claim, trouble)
        return trouble.error.again()

    def _take_truncated(self, truncated: Truncated, form: Form[Any], positions: dict[Claim, OffsetAndEpoch]) -> bool | KafkaError:
        claim = truncated.claim
        if len(form):
            return False
        if claim in positions:  # the position moved over a gap in this poll
            claim.position, claim.epoch = positions.pop(claim)
        offset, epoch, position = truncated.offset, truncated.epoch, claim.position
        if truncated.raises and position is not None and position > offset:
            self._buffer.block(claim, truncated)
            return LogTruncated.to(*claim.tp, position, offset)
        log.warning(
            "%s: %s: an unclean leader election truncated the log to offset %d; lost offsets that were already read: %d",
            self._client_id,
            claim.tp,
            offset,
            max(0, (position or 0) - offset),
            tp=claim.tp,
            offset=offset,
        )
        if position is not None and position < offset:
            offset = position
            epoch = min(claim.epoch, epoch)  # with the same offset and epoch as before, the broker would return the same truncation again
        self._move([(claim, claim.successor(offset, epoch), offset)], {claim.tp: (offset, epoch)}, {})
        return True


ARRIVE: Mapping[type, Callable[[Reader, Any], None]] = {
    Chunk: Reader._arrive,
    Located: Reader._arrive,
    Truncated: Reader._arrive,
    AwaitedLetters: Reader._arrive_letters,
    PollError: Reader._arrive_trouble,
    Assigned: Reader._arrive_event,
    Ended: Reader._arrive_event,
    Subscribed: Reader._arrive_subscribed,
}
TAKE: Mapping[type, Callable[[Reader, Any, Form[Any], dict[Claim, OffsetAndEpoch]], bool | KafkaError]] = {
    Chunk: Reader._take_chunk,
    AwaitedLetters: Reader._take_letters,
    Located: Reader._take_located,
    PollError: Reader._take_trouble,
    Truncated: Reader._take_truncated,
}
