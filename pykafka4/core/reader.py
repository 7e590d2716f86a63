"""Reader. Rule: what is committed was handed out and finished before; what is buffered, or still in hand, never counts.

The application's side of a consumer, without the waiting. `put`, `news` and `idle_since` are called on the loop thread, everything else on
the thread that polls. What both touch is written by one side only: `arrivals` (a deque: append there, popleft here) and plain attributes.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import length_hint
from typing import Any

from pykafka4.core import INFINITY
from pykafka4.core.subscription import Assigned, Claim, Ended, Lasting, Located, Start, Ticket, Trouble, Truncated
from pykafka4.errors import CorruptRecord, KafkaError, RecordTooLarge
from pykafka4.records import TopicPartition
from pykafka4.wire.hot import Chunk, Record

__all__ = ["Place", "Reader"]

log = logging.getLogger("pykafka4.consumer")

Place = tuple[int, int]  # offset of the next record to read, leader epoch of the one before it
Reseek = Callable[[Claim, Claim, "Start | int"], None]

IN_LIST, IN_LOOP = 0, 1  # how many of the records given out one by one are still being worked on


class Reader:
    """Chunks in, records out, and how far the application has come."""

    def __init__(self, clock: Callable[[], float], notify: Callable[[], None], reseek: Reseek) -> None:
        """`clock` is monotonic; `notify` wakes the polling thread; `reseek(old, new, start)` has the loop read on elsewhere."""
        self._clock, self._notify, self._reseek = clock, notify, reseek
        # written by the loop
        self.arrivals: deque[Any] = deque()
        self.resume_at: float = INFINITY
        self.beckoned = False
        # written by the application, read by the loop
        self.consumed = 0
        self.finished: dict[TopicPartition, Place] = {}
        self.ticket: Ticket | None = None
        self._idle: float | None = -INFINITY
        # the application's own
        self.claims: dict[TopicPartition, Claim] = {}
        self.paused: set[TopicPartition] = set()
        self.events: deque[Assigned | Ended] = deque()
        self.notices: deque[KafkaError] = deque()
        self.fatal: KafkaError | None = None
        self._queue: deque[Any] = deque()  # chunks and markers, in order of arrival
        self._aside: deque[Any] = deque()  # those of paused partitions
        self._handed: list[tuple[Claim, int, int]] = []  # (claim, position, epoch) behind the records given out last
        self._records: list[Record] = []  # these, when they are given out one by one
        self._cursor: Iterator[Record] | None = None
        self._held = IN_LIST
        self._out: list[Record] = []  # what this poll decoded

    # ---------------------------------------------------------------- the loop's side

    def put(self, item: object) -> None:
        """Hand over a chunk or event, in order; `news` makes it known."""
        self.arrivals.append(item)

    def news(self) -> None:
        """Wake the polling thread, if it waits."""
        self._notify()

    def idle_since(self) -> float | None:
        """When the last poll returned; None while one is under way, -INFINITY before the first."""
        return self._idle

    # ---------------------------------------------------------------- polling

    def enter(self) -> None:
        """A poll begins: what earlier ones handed out is finished."""
        self._idle = None
        self._out = []
        self._finish()

    def leave(self) -> None:
        """The poll returns."""
        self._idle = self._clock()

    def take_back(self) -> None:
        """The poll was interrupted (Ctrl-C) with records decoded and not handed out: the next one hands them out."""
        if self._out and self._cursor is None:
            self._records, self._cursor, self._held = self._out, iter(self._out), IN_LIST

    def _finish(self) -> None:
        cursor = self._cursor
        if cursor is not None:
            if length_hint(cursor):  # a loop was left early: the rest of its list was never given out
                self._held = IN_LIST
                self.finished.update(self._within(IN_LIST))
                return
            self._cursor = None
        for claim, position, epoch in self._handed:
            if claim.live:
                self.finished[claim.tp] = (position, epoch)
        self._handed.clear()

    @property
    def ready(self) -> bool:
        """Whether a look is worth it."""
        return bool(self.arrivals or self.events or self.notices or self.fatal)

    def drain(self) -> None:
        """Sort what arrived: data to its place in line, events to `events`; what belongs to dead claims goes."""
        arrivals = self.arrivals
        while arrivals:
            item = arrivals.popleft()
            ARRIVE[item.__class__](self, item)

    def take(self, limit: int) -> list[Record]:
        """Up to `limit` records. Raises what stands at the head of the line: good records before it were handed out first."""
        if self._cursor is not None:
            return list(islice(self._cursor, limit))
        out = self._out = []
        queue = self._queue
        while queue:
            item = queue[0]
            if item.__class__ is not Chunk:
                if not TAKE[item.__class__](self, item, bool(out)):
                    break
            elif not self._decode(item, out, limit):
                break
        return out

    def _decode(self, chunk: Chunk, out: list[Record], limit: int) -> bool:
        """Decode from `chunk`; whether to go on with the next."""
        claim: Claim = chunk.serial
        try:
            if chunk.decode(out, limit - len(out)):
                claim.epoch = out[-1].leader_epoch
        except (CorruptRecord, RecordTooLarge):
            claim.position = chunk.position
            if out:
                return False
            raise
        claim.position = chunk.position
        self._handed.append((claim, chunk.position, claim.epoch))
        if not chunk.exhausted:
            return len(out) < limit  # stopped before damage: the next attempt raises it, once these are handed out
        self._queue.popleft()
        self._let_go(claim, chunk.size)
        return len(out) < limit

    def take_one_by_one(self, limit: int) -> Iterator[Record]:
        """The same for a `for` loop, which holds one record at a time; what it leaves is given out by the next call of either."""
        if self._cursor is None:
            records = self.take(limit)
            if not records:
                return iter(records)
            self._records, self._cursor = records, iter(records)
        self._held = IN_LOOP
        return self._cursor

    # ---------------------------------------------------------------- how far the application has come

    def _within(self, held: int) -> dict[TopicPartition, Place]:
        """Where the partitions of the list now given out one by one stand, when the last `held` records given out are not finished."""
        places = {claim.tp: (position, epoch) for claim, position, epoch in self._handed if claim.live}
        for record in reversed(self._records[max(0, self._given - held) :]):
            tp = TopicPartition(record.topic, record.partition)
            if tp in places:
                places[tp] = (record.offset, record.leader_epoch)
        return places

    @property
    def _given(self) -> int:
        return len(self._records) - (0 if self._cursor is None else length_hint(self._cursor))

    def reached(self) -> dict[TopicPartition, Place]:
        """What `commit()` commits: everything handed out by polls that returned, in a loop everything before the record in hand."""
        return self._places(self._held)

    def positions(self) -> dict[TopicPartition, int]:
        """The offsets of the records handed out next, as far as they are known."""
        return {tp: offset for tp, (offset, _) in self._places(IN_LIST).items()}

    def _places(self, held: int) -> dict[TopicPartition, Place]:
        places = {tp: (claim.position, claim.epoch) for tp, claim in self.claims.items() if claim.position is not None}
        if self._cursor is not None:
            places.update(self._within(held))
        return places

    def settle(self) -> dict[TopicPartition, Place]:
        """What is finished when nothing more will be asked for: not the list, or the record, now in the application's hands."""
        if self._cursor is not None and self._held == IN_LOOP:
            self.finished.update(self._within(IN_LOOP))
        return dict(self.finished)

    def next_offset(self, tp: TopicPartition) -> int | None:
        """The offset of the record of `tp` handed out next; None while it is being found out. Raises what keeps it from that."""
        known = self.positions().get(tp)
        if known is not None:
            return known
        for item in (*self._queue, *self._aside):
            if _claim_of(item) is self.claims[tp]:
                if isinstance(item, Trouble):
                    raise item.error
                return item.offset if isinstance(item, (Located, Truncated)) else item.position
        return None

    # ---------------------------------------------------------------- partitions

    def adopt(self, claims: Iterable[Claim]) -> None:
        """These are read from now on."""
        for claim in claims:
            self.claims[claim.tp] = claim

    def release(self, claims: Collection[Claim]) -> None:
        """These are not read any more, and nothing of them is committed from here."""
        current = self.current(claims)
        self.purge(current)
        for claim in current:
            claim.live = False
            del self.claims[claim.tp]
            self.finished.pop(claim.tp, None)
            self.paused.discard(claim.tp)

    def refuse(self, claims: Collection[Claim]) -> None:
        """These were over before they were taken up: what came for them goes, and what still comes."""
        self.purge(claims)
        for claim in claims:
            claim.live = False

    def current(self, claims: Iterable[Claim]) -> list[Claim]:
        """The claims that stand for the same partitions now, after seeks."""
        return [self.claims[claim.tp] for claim in claims if claim.tp in self.claims]

    def purge(self, claims: Iterable[Claim]) -> None:
        """Drop what is buffered of `claims`, and what a loop left of its list."""
        gone = set(claims)
        for line in (self._queue, self._aside):
            kept = [item for item in line if _claim_of(item) not in gone]
            for item in line:
                if item.__class__ is Chunk and item.serial in gone:
                    self._let_go(item.serial, item.size)
            line.clear()
            line.extend(kept)
        if self._cursor is not None:
            self._shorten({claim.tp for claim in gone})

    def _shorten(self, tps: Collection[TopicPartition]) -> None:
        """Take the records of `tps` that were not given out yet back out of the list; its iterator goes on over what is left."""
        given = self._given
        rest = self._records[given:]
        first: dict[tuple[str, int], Place] = {}
        for record in reversed(rest):
            if (record.topic, record.partition) in tps:
                first[record.topic, record.partition] = (record.offset, record.leader_epoch)
        self._records[given:] = [r for r in rest if (r.topic, r.partition) not in tps]
        self._handed = [(c, *first.get(c.tp, (position, epoch))) for c, position, epoch in self._handed]
        for tp, (offset, _) in first.items():
            if (claim := self.claims.get(TopicPartition(*tp))) is not None:
                claim.position = offset

    def seek(self, tp: TopicPartition, start: Start | int) -> None:
        """Read on from `start`: everything buffered goes, and what comes before counts as finished."""
        if isinstance(start, int):
            self.finished[tp] = (start, -1)
        else:
            self.finished.pop(tp, None)
        self._replace(tp, start)

    def _replace(self, tp: TopicPartition, start: Start | int) -> Claim:
        old = self.claims[tp]
        self.purge((old,))
        new = self.claims[tp] = Claim(tp)
        new.position = start if isinstance(start, int) else None
        old.live = False
        self._reseek(old, new, start)
        return new

    def pause(self, tp: TopicPartition) -> None:
        """Hand out nothing of it for now. What a loop has of it in its list is fetched again after `resume`."""
        if tp in self.paused:
            return
        self.paused.add(tp)
        claim = self.claims[tp]
        if self._cursor is not None and any((r.topic, r.partition) == tp for r in self._records[self._given :]):
            self._shorten((tp,))
            self._step_back(claim)
            return
        for item in self._queue:
            if _claim_of(item) is claim:
                self._put_aside(item)
        kept = [item for item in self._queue if _claim_of(item) is not claim]
        self._queue.clear()
        self._queue.extend(kept)

    def _put_aside(self, item: Any) -> None:
        """Nobody knows for how long: a small chunk must not hold on to the large response it came in, which nobody counts."""
        if item.__class__ is Chunk:
            item.own()
        self._aside.append(item)

    def resume(self, tp: TopicPartition) -> None:
        """Hand it out again."""
        if tp not in self.paused:
            return
        self.paused.discard(tp)
        claim = self.claims[tp]
        self._queue.extend(item for item in self._aside if _claim_of(item) is claim)
        kept = [item for item in self._aside if _claim_of(item) is not claim]
        self._aside.clear()
        self._aside.extend(kept)

    def relieve(self) -> None:
        """When all the room there is holds data of paused partitions, drop it: the others must get on."""
        if self.resume_at == INFINITY or self._queue or not self._aside:
            return
        for claim in {_claim_of(item) for item in self._aside if item.__class__ is Chunk}:
            assert claim is not None
            self._step_back(claim)

    def _step_back(self, claim: Claim) -> None:
        """Fetch again from where `claim` stands; what was handed out of it stays handed out."""
        offset = self.next_offset(claim.tp)
        if offset is not None:
            new = self._replace(claim.tp, offset)
            new.epoch = claim.epoch
            self._handed = [(new if c is claim else c, position, epoch) for c, position, epoch in self._handed]

    # ---------------------------------------------------------------- what arrives

    def _let_go(self, claim: Claim, size: int) -> None:
        claim.consumed += size
        self.consumed += size

    def _arrive(self, item: Any) -> None:
        claim = _claim_of(item)
        assert claim is not None
        if not claim.live:
            if item.__class__ is Chunk:
                self._let_go(claim, item.size)
        elif claim.tp in self.paused:
            self._put_aside(item)
        else:
            self._queue.append(item)

    def _arrive_trouble(self, trouble: Trouble) -> None:
        if trouble.claim is not None:
            self._arrive(trouble)
        elif trouble.lasting is Lasting.ONCE:
            self.notices.append(trouble.error)
        else:
            self.fatal = trouble.error

    def _arrive_event(self, event: Assigned | Ended) -> None:
        self.events.append(event)

    # ---------------------------------------------------------------- markers whose turn has come

    def _take_located(self, located: Located, records_before: bool) -> bool:
        """A place found by the group or the reset policy counts as reached: without records, it is what a restart begins at."""
        self._queue.popleft()
        claim = located.claim
        claim.position, claim.epoch = located.offset, located.epoch
        self._handed.append((claim, located.offset, located.epoch))
        return True

    def _take_trouble(self, trouble: Trouble, records_before: bool) -> bool:
        if records_before:
            return False
        if trouble.lasting is Lasting.ONCE and trouble.claim is not None:
            self._queue.popleft()
            trouble.claim.troubled = False
        raise trouble.error

    def _take_truncated(self, truncated: Truncated, records_before: bool) -> bool:
        if records_before:
            return False
        self._queue.popleft()
        claim = truncated.claim
        lost = max(0, (claim.position or 0) - truncated.offset)
        log.warning(
            "%s: the log was cut at offset %d by an unclean leader election; %d offsets that were read exist no more",
            claim.tp,
            truncated.offset,
            lost,
        )
        self.seek(claim.tp, truncated.offset if claim.position is None else min(claim.position, truncated.offset))
        return True


def _claim_of(item: Any) -> Claim | None:
    """Whose it is."""
    claim: Claim | None = item.serial if item.__class__ is Chunk else item.claim
    return claim


ARRIVE: Mapping[type, Callable[[Reader, Any], None]] = {
    Chunk: Reader._arrive,
    Located: Reader._arrive,
    Truncated: Reader._arrive,
    Trouble: Reader._arrive_trouble,
    Assigned: Reader._arrive_event,
    Ended: Reader._arrive_event,
}
TAKE: Mapping[type, Callable[[Reader, Any, bool], bool]] = {
    Located: Reader._take_located,
    Trouble: Reader._take_trouble,
    Truncated: Reader._take_truncated,
}
