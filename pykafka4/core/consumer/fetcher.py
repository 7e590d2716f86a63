"""Fetcher. Rule: a position moves by fetched data or by the reset policy only; what arrives for a claim that ended is dropped unread.

One Fetch is under way per broker; one that waits for data while a position was sought or found is left behind, and the next goes out beside
it over a second connection. The next is sent as soon as the answer is in, before anybody decodes it, for the partitions that have
room: each may have its share of `prefetch_bytes` waiting for the application, and what waits and what was asked for fit into it together
(but for a first batch that is larger than what was asked for: it comes whole). An answer counts only if it was asked at the offset that
the position still has, so two brokers that both think they lead a partition cannot make a record come twice.

Brokers fill an answer in the order of the request. A partition that had data, or was the first, moves to the end, and nothing else changes
the order: each partition is read in its turn however often others are paused, sought or offline.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from random import Random
from typing import Any, Final, Protocol
from uuid import UUID

import attrs

from pykafka4.config import ConsumerConfig
from pykafka4.core import INFINITY, Failed, Outcome, Request
from pykafka4.core.backoff import Backoff
from pykafka4.core.consumer.searches import Search, Searches
from pykafka4.core.group.offsets import Found, Offsets
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import SLACK, SLACK_PART, Recovery
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Claim, Lasting, Located, Position, Rest, Stage, Start, Trouble, Truncated
from pykafka4.core.timers import Timers
from pykafka4.error_table import ErrorCode, Refresh, error_code
from pykafka4.errors import (
    CorruptRecord,
    DecodeError,
    InvalidOffset,
    KafkaError,
    NoOffsetForPartition,
    OffsetOutOfRange,
    RecordTooLarge,
    broker_error,
)
from pykafka4.logs import get_log
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.frame import FrameTooLarge
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from pykafka4.wire.protocol.schema import NO_UUID
from pykafka4.wire.records.compression import decompress
from pykafka4.wire.records.hot import Chunk

__all__ = ["Fetcher", "Intake"]

log = get_log("pykafka4.fetcher")

BY_NAME_ONLY: Final = 12  # from Fetch 13 on topics go by id
EPOCHS_FROM: Final = 12  # `last_fetched_epoch`: the broker notices that our log is not its log
NO_SESSION: Final = -1
CONSUMER: Final = -1
SHORT_WAIT: Final = 0.05  # while a partition had no room: it may have some before the broker's usual patience is over
FRAME, PER_PARTITION = 512, 320  # bytes of an answer that are no records, at most; a name can take 249 of them
RETRY_LOOKUP: Final = 1.0  # after a refusal that only an administrator can change

Answer = FetchResponse.Topic.Partition


class Intake(Protocol):
    """Where fetched data goes: the thread that polls."""

    consumed: int  # bytes read or dropped since the beginning; the application writes it
    resume_at: float  # set here: wake the loop when `consumed` reaches this

    def put(self, item: object) -> None:
        """Hand over a chunk or event."""


@attrs.frozen(eq=False)
class Flight:
    """One Fetch under way: what was asked for, at which offset, and the bytes kept free for it."""

    node: int
    lane: int
    reserved: int
    asked: dict[tuple[str, int], tuple[Position, int]]
    names: Mapping[UUID, str]


class Fetcher:
    """Reads the claimed partitions ahead of the application."""

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        recovery: Recovery,
        offsets: Offsets,
        intake: Intake,
        lanes: tuple[int, int],
        random: Random,
        send: Callable[[Request], None],
    ) -> None:
        """`lanes` are connections for Fetch and ListOffsets: a broker that has nothing new holds back whatever comes behind a Fetch."""
        self._config, self._cluster, self._recovery = config, cluster, recovery
        self._offsets, self._intake, self.lanes, self._random, self._send = offsets, intake, lanes, random, send
        self._policy = Start(config.auto_offset_reset)
        self.searches = Searches(config, cluster, recovery, self._lane_for_searches, send)
        self.positions: OrderedDict[TopicPartition, Position] = OrderedDict()  # who was served last comes last; a seek changes no place
        self.delivered = 0  # bytes put before the application
        self._lines: dict[int, OrderedDict[TopicPartition, Position]] = {}  # by leader: what can be fetched, in the same order
        self._flights: dict[int, Flight] = {}
        self._left: dict[int, Flight] = {}  # those that no one waits for: the next Fetch went out beside them
        self._fresh: list[Position] = []  # located since the last poll
        self._due: dict[int, None] = {}  # nodes to look at, in this order
        self._cramped: dict[int, None] = {}  # those that had no room
        self._garbled: set[int] = set()  # those whose last answer could not be understood
        self._unlocated: list[Position] = []
        self._regroup = False
        self._seen: tuple[int, ...] = ()
        self._timers = Timers()
        self._slack = min(SLACK, SLACK_PART * config.retry_backoff_ms / 1000)

    # ---------------------------------------------------------------- what is read

    def adopt(self, claims: Collection[Claim], start: Start | int, fallback: Callable[[TopicPartition], Start] | None = None) -> None:
        """Begin to read `claims` at `start`; `fallback(tp)` says where without a committed offset, instead of auto_offset_reset."""
        for claim in claims:
            self._place(claim, start, self._policy if fallback is None else fallback(claim.tp))

    def drop(self, claims: Collection[Claim]) -> None:
        """Stop reading the partitions of `claims`, under whatever claim a seek has put in its place.

        What another assignment reads of them by now (`subscribe` to something else, then `assign`) goes on.
        """
        for claim in claims:
            position = self.positions.get(claim.tp)
            if position is not None and position.claim.origin is claim.origin:
                del self.positions[claim.tp]
                self._regroup = True
        for topic in {claim.tp.topic for claim in claims} - {tp.topic for tp in self.positions}:
            self._cluster.forget(topic, self)

    def seek(self, old: Claim, new: Claim, start: Start | int) -> None:
        """Read on elsewhere, unless `old` ended meanwhile: then the application will hear of it."""
        position = self.positions.get(old.tp)
        if position is not None and position.claim is old:
            sought = self._place(new, start, self._policy)
            sought.paused, sought.rest = position.paused, position.rest

    def pause(self, *claims: Claim) -> None:
        """Fetch no more of these for now."""
        for claim in claims:
            self._set_paused(claim, paused=True)

    def resume(self, *claims: Claim) -> None:
        """Fetch these again."""
        for claim in claims:
            self._set_paused(claim, paused=False)

    def space(self, now: float) -> None:
        """The application has read some of what waited."""
        self._intake.resume_at = INFINITY
        self._look_again()

    def status(self, position: Position) -> dict[str, Any]:
        """What `position` does or waits for."""
        tp = position.tp
        leader = self._recovery.leader(tp)
        offline = self._recovery.offline.get(tp)
        error = self._cluster.topic_error(tp.topic)
        waits = str(offline.reason) if offline is not None else f"topic {tp.topic}: {error.name}" if error is not None else None
        return {
            "state": "paused" if position.paused else position.stage.value,
            "reason": None if position.paused else position.stage.meaning,
            "offset": position.offset,
            "end": position.claim.end,
            "buffered": position.buffered,
            "leader": None if leader is None else leader.node,
            "waits_for": waits if leader is None else None if position.refusal is None else str(position.refusal),
        }

    def _set_paused(self, claim: Claim, *, paused: bool) -> None:
        position = self.positions.get(claim.tp)
        if position is not None and position.claim is claim:
            position.paused = paused
            self._regroup = True

    def _place(self, claim: Claim, start: Start | int, fallback: Start) -> Position:
        position = Position(claim, start, fallback, self._config.max_partition_fetch_bytes)
        self.positions[claim.tp] = position
        self._cluster.want(claim.tp.topic, self)
        position.topic_id = self._cluster.topic_id(claim.tp.topic)
        self._regroup = True
        if position.stage is Stage.UNKNOWN:
            self._offsets.stored.pop(claim.tp, None)  # somebody else may have committed since this was last ours
            self._unlocated.append(position)
        elif position.stage is Stage.FETCHING:
            self._fresh.append(position)
        elif position.stage is Stage.RESETTING:
            self._search(position)
        return position

    def _lives(self, position: Position) -> bool:
        return self.positions.get(position.tp) is position

    # ---------------------------------------------------------------- the clock

    def poll(self, now: float) -> float:
        """Send what can be sent; returns when to be polled again."""
        self._timers.run(now + self._slack)
        seen = (self._cluster.version, self._recovery.changes)
        if seen != self._seen:
            self._seen = seen
            self._regroup = True
            self.searches.stir()
            self._look_at_topics()
        if self._unlocated:
            self._ask_committed()
        self.searches.poll(now)
        if self._regroup:
            self._group_by_leader()
        if self._fresh:
            self._pass_by()
        if self._due:
            self._fetch(now)
        return self._timers.wake_at

    def _pass_by(self) -> None:
        """A Fetch that waits for data does not have a position just found or sought: leave it behind, once per broker at a time."""
        fresh, self._fresh = self._fresh, []
        for position in fresh:
            leader = self._recovery.leader(position.tp) if self._lives(position) and position.fetchable else None
            flight = None if leader is None else self._flights.get(leader.node)
            if flight is None or flight.node in self._left or flight.asked.get(position.tp, (None, 0))[0] is position:
                continue
            self._left[flight.node] = self._flights.pop(flight.node)
            self._due[flight.node] = None

    def _group_by_leader(self) -> None:
        self._regroup = False
        lines: dict[int, OrderedDict[TopicPartition, Position]] = {}
        for tp, position in self.positions.items():
            if position.fetchable:
                leader = self._recovery.leader(tp)
                if leader is not None:
                    lines.setdefault(leader.node, OrderedDict())[tp] = position
        self._lines = lines
        self._look_again()

    def _look_at_topics(self) -> None:
        """A topic made anew shares nothing with the old one but the name: its offsets mean other records."""
        for position in list(self.positions.values()):
            known = self._cluster.topic_id(position.tp.topic)
            error = self._cluster.topic_error(position.tp.topic)
            if error is not None and not error.retriable:
                self._tell_once(position, broker_error(error.code, f"topic {position.tp.topic}"))
            if position.by_policy and position.stage is not Stage.FETCHING:
                self._look_whether_new(position, error)
            if known is None or known == position.topic_id:
                continue
            if position.topic_id is not None and position.stage is Stage.FETCHING:
                log.warning(
                    "%s: %s: the topic was deleted and created again; offset %d is void",
                    self._config.client_id,
                    position.tp,
                    position.offset,
                )
                self._restart(position)
            elif position.topic_id is not None:
                self._search_anew(position)
            position.topic_id = known

    def _search_anew(self, position: Position) -> None:
        """The topic was made anew while the beginning of `position` was looked for: an answer under way may be about the old topic."""
        if position.by_policy and position.fallback is Start.LATEST:
            position.fallback = position.target = Start.EARLIEST
        if position.search is not None:
            self._search(position)

    def _look_whether_new(self, position: Position, error: ErrorCode | None) -> None:
        """A partition that was not there when its reading began is read from its beginning, whatever `latest` says."""
        size = self._cluster.partitions(position.tp.topic)
        missing = (size == 0 and error is not None and error.name == "UNKNOWN_TOPIC_OR_PARTITION") or 0 < size <= position.tp.partition
        if missing and position.fallback is Start.LATEST:
            position.fallback = position.target = Start.EARLIEST
            if position.search is not None:
                position.search.target = Start.EARLIEST

    def _restart(self, position: Position) -> None:
        self._offsets.stored.pop(position.tp, None)  # brokers forget the committed offsets of a topic that is deleted
        if self._policy is Start.NONE:
            self._stop(position, InvalidOffset.at(*position.tp, "the topic was deleted and created again", position.offset))
        else:
            # All of the new topic appeared after the subscription, so it is read from its beginning whatever the policy.
            self._reset(position, Start.EARLIEST)

    # ---------------------------------------------------------------- where to begin

    def _ask_committed(self) -> None:
        asking, self._unlocated = [p for p in self._unlocated if self._lives(p)], []
        if not asking:
            return
        if self._config.group_id is None:
            for position in asking:
                self._without_committed(position)
            return
        for position in asking:
            position.move(Stage.ASKING)
        self._offsets.lookup(
            [p.tp for p in asking],
            INFINITY,
            lambda now, found: self._committed(now, asking, found),
            lambda: any(self._waits(p) for p in asking),
            lambda now, found: self._some_committed(now, asking, found),
        )

    def _some_committed(self, now: float, asked: list[Position], found: Found) -> None:
        """The coordinator refuses the others of `asked` for now: only these are left in it."""
        known = [position for position in asked if position.tp in found]
        asked[:] = [position for position in asked if position.tp not in found]
        self._committed(now, known, found)

    def _waits(self, position: Position) -> bool:
        """Whether the committed offset of `position` is still to be found."""
        return self._lives(position) and position.stage is Stage.ASKING

    def _committed(self, now: float, asked: list[Position], found: Found | KafkaError) -> None:
        for position in [p for p in asked if self._waits(p)]:
            if isinstance(found, KafkaError):
                position.move(Stage.UNKNOWN)
                self._tell_once(position, found)
                self._timers.at(now + RETRY_LOOKUP, lambda _, position=position: self._unlocated.append(position))  # type: ignore[misc]
                continue
            place = found[position.tp]
            if place is None:
                self._without_committed(position)
            else:
                self._offsets.stored[position.tp] = place.offset
                self._locate(position, place.offset, place.leader_epoch)

    def _without_committed(self, position: Position) -> None:
        self._offsets.stored.pop(position.tp, None)
        if position.fallback is Start.NONE:
            group = f"in group {self._config.group_id}" if self._config.group_id is not None else "(there is no group_id)"
            self._stop(position, NoOffsetForPartition.at(*position.tp, f"no committed offset {group}"))
        else:
            self._reset(position, position.fallback)

    def _reset(self, position: Position, target: Start) -> None:
        position.reset(target)
        self._regroup = True
        self._search(position)

    def _search(self, position: Position) -> None:
        def found(now: float, offset: int, epoch: int) -> None:
            position.search = None
            log.info("%s: %s: reading from offset %d, the %s", self._config.client_id, position.tp, offset, position.target.value)
            self._locate(position, offset, -1)

        def wanted() -> bool:
            return position.search is search and self._lives(position) and position.stage is Stage.RESETTING

        refused = lambda now, error: self._tell_once(position, error)  # noqa: E731
        position.search = search = Search(position.tp, position.target, found, refused, wanted)
        self.searches.begin(search)

    def _locate(self, position: Position, offset: int, epoch: int) -> None:
        position.locate(offset, epoch)
        self._fresh.append(position)
        self._intake.put(Located(position.claim, offset, epoch))
        self._regroup = True

    def _stop(self, position: Position, error: KafkaError) -> None:
        """Only a seek goes on from here."""
        position.move(Stage.STOPPED)
        self._regroup = True
        self._intake.put(Trouble(position.claim, error))

    def _tell_once(self, position: Position, error: KafkaError) -> None:
        """Raise `error` from a poll; while that has not happened there is nothing to add."""
        if self._lives(position) and not position.claim.troubled:
            position.claim.troubled = True
            self._intake.put(Trouble(position.claim, error, Lasting.ONCE))

    def _lane_for_searches(self, node: int) -> int:
        """The connection to `node` that no Fetch occupies, else that of the Fetch which has waited longer."""
        left, flight = self._left.get(node), self._flights.get(node)
        if left is not None and flight is not None:
            return via(left.lane, node)
        busy = left or flight
        return via(self.lanes[0] if busy is None or busy.lane != self.lanes[0] else self.lanes[1], node)

    # ---------------------------------------------------------------- asking

    def _fetch(self, now: float) -> None:
        due, self._due = self._due, {}
        for node in due:
            if node not in self._flights and node in self._lines:
                self._fetch_from(now, node)

    def _fetch_from(self, now: float, node: int) -> None:
        line = self._lines[node].values()
        budget = self._budget()
        worth = min(self._config.max_partition_fetch_bytes, self._config.prefetch_bytes // (2 * len(self._lines)))
        if budget < min(worth, self._config.fetch_max_bytes):
            self._cramped[node] = None
            self._wait_for_space()
            return
        share = self._config.prefetch_bytes // len(self.positions)
        chosen = [p for p in line if not (held := p.buffered) or held < share]
        if len(chosen) < len(line):
            self._wait_for_space()
        alone = [p for p in chosen if p.alone][:1]
        if chosen:
            patience = self._config.fetch_max_wait_ms / 1000
            wait = 0.0 if alone else min(patience, SHORT_WAIT) if len(chosen) < len(line) else patience
            self._ask(now, node, alone or chosen, budget, wait)

    def _look_again(self) -> None:
        """There may be room: who found none before comes first."""
        self._due.update(self._cramped)
        self._due.update(dict.fromkeys(self._lines))
        self._cramped.clear()

    def _budget(self) -> int:
        """Bytes to ask one broker for: its part of the room, as far as that is not kept for answers that are under way."""
        room = self._config.prefetch_bytes - (self.delivered - self._intake.consumed)
        free = room - sum(flight.reserved for flights in (self._flights, self._left) for flight in flights.values())
        return min(self._config.fetch_max_bytes, room // len(self._lines), free)

    def _wait_for_space(self) -> None:
        """Be woken when a part of what waits was read.

        The mark is set before `consumed` is looked at again, and the application adds to `consumed` before it looks at the mark: one of
        the two sees the other.
        """
        intake = self._intake
        waiting = self.delivered - intake.consumed
        mark = self.delivered - waiting + max(1, waiting // 4)
        intake.resume_at = mark
        if intake.consumed >= mark:
            intake.resume_at = INFINITY
            self._look_again()
            self._timers.at(0.0, lambda now: None)

    def _ask(self, now: float, node: int, chosen: list[Position], budget: int, wait: float) -> None:
        beside = self._left.get(node)
        lane = self.lanes[1] if beside is not None and beside.lane == self.lanes[0] else self.lanes[0]
        topics: dict[str, list[FetchRequest.Topic.Partition]] = {}
        asked: dict[tuple[str, int], tuple[Position, int]] = {}
        for position in chosen:
            leader = self._recovery.leader(position.tp)
            tp = position.tp
            asked[tp] = (position, position.offset)
            topics.setdefault(tp.topic, []).append(
                FetchRequest.Topic.Partition(
                    partition=tp.partition,
                    current_leader_epoch=-1 if leader is None else leader.epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.epoch,
                    partition_max_bytes=position.limit,
                )
            )
        ids = {topic: self._cluster.topic_id(topic) for topic in topics}
        budget = max(1, min(budget, self._config.receive_message_max_bytes - FRAME - PER_PARTITION * len(chosen)))
        message = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=int(wait * 1000),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=budget,
            session_epoch=NO_SESSION,
            topics=[FetchRequest.Topic(topic=name, topic_id=ids[name] or NO_UUID, partitions=parts) for name, parts in topics.items()],
        )
        reserved = min(budget, sum(position.limit for position in chosen))
        flight = Flight(node, lane, reserved, asked, {topic_id: name for name, topic_id in ids.items() if topic_id is not None})
        self._flights[node] = flight
        deadline = now + self._config.request_timeout_ms / 1000 + wait
        by_id = len(flight.names) == len(topics)
        on_reply = lambda at, got: self._answered(at, flight, got)  # noqa: E731
        self._send(Request(via(lane, node), message, deadline, on_reply, None if by_id else BY_NAME_ONLY, _with_epochs))

    # ---------------------------------------------------------------- answers

    def _answered(self, now: float, flight: Flight, outcome: Outcome) -> None:
        for flights in (self._flights, self._left):
            if flights.get(flight.node) is flight:
                del flights[flight.node]
        self._due.update(self._cramped)  # what was kept free for this one may be theirs, before it takes as much again
        self._due[flight.node] = None
        self._cramped.clear()
        if isinstance(outcome, Failed):
            self._failed(now, flight, outcome)
            return
        self._garbled.discard(flight.node)
        for let_in, _ in flight.asked.values():
            let_in.alone = False
        message: FetchResponse = outcome.message
        if message.error_code:
            self._unanswered(now, flight, broker_error(message.error_code, "Fetch"), error_code(message.error_code).retriable)
            return
        endpoints = {e.node_id: (e.host, e.port) for e in message.node_endpoints}
        first, _ = next(iter(flight.asked.values()))
        self._move_to_end(flight.node, first.tp)  # it would have got a whole batch however large
        for topic in message.responses:
            name = topic.topic or flight.names.get(topic.topic_id, "")
            for answer in topic.partitions:
                # A partition named twice, or one not asked for, finds nothing here.
                position, offset = flight.asked.pop((name, answer.partition_index), (None, 0))
                if position is None:
                    continue
                if answer.records:
                    self._move_to_end(flight.node, position.tp)
                if self._awaits(position, offset):
                    self._heed(now, flight.node, position, answer, endpoints)

    def _move_to_end(self, node: int, tp: TopicPartition) -> None:
        """Ask for all others before `tp`: a broker fills its answer in the order of the request."""
        for line in (self.positions, self._lines.get(node, OrderedDict())):
            if tp in line:
                line.move_to_end(tp)

    def _awaits(self, position: Position, offset: int) -> bool:
        """Whether what was asked at `offset` still counts."""
        return self._lives(position) and position.offset == offset and position.stage is Stage.FETCHING

    def _failed(self, now: float, flight: Flight, outcome: Failed) -> None:
        cause = outcome.reason.__cause__
        if isinstance(cause, FrameTooLarge):
            self._not_let_in(flight, cause.size)
            return
        passing = outcome.passing
        if isinstance(cause, DecodeError):  # damage on the way comes once; a broker that cannot be understood must not be a silent one
            passing = flight.node not in self._garbled
            self._garbled.add(flight.node)
        self._unanswered(now, flight, outcome.reason, passing)

    def _unanswered(self, now: float, flight: Flight, reason: KafkaError, passing: bool) -> None:
        """Nothing is known of the partitions asked for. One error is enough for all of them."""
        waiting = [position for position, _ in flight.asked.values() if self._lives(position)]
        for position in waiting:
            self._report(now, flight.node, position, reason)
        if waiting and not passing:
            self._tell_once(waiting[0], reason)

    def _not_let_in(self, flight: Flight, size: int) -> None:
        """An answer was over receive_message_max_bytes: less was asked for, so the first batch of one of the partitions is.

        Each is asked for alone, once: the one to blame is refused again, the others go on.
        """
        limit = f"receive_message_max_bytes={self._config.receive_message_max_bytes}"
        reason = f"the next batch makes an answer of {size} bytes, over {limit}; raise that option to read it"
        for position, offset in flight.asked.values():
            if position.alone and len(flight.asked) == 1 and self._awaits(position, offset):
                self._stop(position, RecordTooLarge.fetched(position.tp.topic, position.tp.partition, offset, reason))
            position.alone = True

    def _heed(self, now: float, node: int, position: Position, answer: Answer, endpoints: Mapping[int, tuple[str, int]]) -> None:
        if answer.current_leader.leader_id >= 0:
            hinted = answer.current_leader
            self._cluster.hint(position.tp, hinted.leader_id, hinted.leader_epoch, endpoints.get(hinted.leader_id))
        row = error_code(answer.error_code)
        if row.code:
            ERRORS.get(row.name, Fetcher._by_the_table)(self, now, node, position, row)
            return
        if position.reported:
            position.reported = False
            self._recovery.healthy(position.tp)
        position.rest, position.told = None, False
        if answer.diverging_epoch.epoch >= 0:
            self._truncate(position, answer.diverging_epoch)
            return
        position.claim.end = answer.high_watermark
        if answer.records:
            self._take(position, answer.records)

    def _take(self, position: Position, records: Any) -> None:
        """Put the whole batches before the application, undecoded."""
        tp, claim = position.tp, position.claim
        try:
            chunk = Chunk(
                tp.topic,
                tp.partition,
                records,
                position.offset,
                serial=claim,
                decompress=_decompress,
                max_decompressed=self._config.max_decompressed_bytes,
            )
        except DecodeError as error:
            self._stop(position, CorruptRecord(tp.topic, tp.partition, position.offset, str(error)))
            return
        if chunk.exhausted:
            # Even the first batch was cut: ask for all of it next time.
            position.limit = max(position.limit, min(chunk.incomplete, self._config.receive_message_max_bytes))
            return
        position.limit = self._config.max_partition_fetch_bytes  # one large batch is no reason to ask for so much each time
        if chunk.next_offset <= position.offset:
            position.move(Stage.STOPPED)  # nothing readable: decoding will say why
            self._regroup = True
        position.offset = chunk.next_offset
        if chunk.last_leader_epoch >= 0:
            position.epoch = chunk.last_leader_epoch
        claim.delivered += chunk.size
        self.delivered += chunk.size
        self._intake.put(chunk)

    def _truncate(self, position: Position, agreed: Answer.EpochEndOffset) -> None:
        """An unclean election cut the log below what we read. The application steps back itself: it knows how far it has come."""
        position.move(Stage.STOPPED)
        self._regroup = True
        self._intake.put(Truncated(position.claim, max(agreed.end_offset, 0), agreed.epoch, raises=self._policy is Start.NONE))

    # what an error code of a partition does, by name; all others go by the table

    def _report(self, now: float, node: int, position: Position, reason: KafkaError) -> None:
        position.reported = True
        self._regroup = True
        self._recovery.report(now, position.tp, reason, node)

    def _hold(self, now: float, position: Position, reason: KafkaError) -> None:
        """Let `position` rest for a back-off. The partition is not offline: others who use it, such as a producer, go on."""
        rest = position.rest = position.rest or Rest(Backoff.retry(self._config, self._random))
        waits = rest.reason is not None  # two Fetches were under way: one failure, not two
        rest.reason = reason
        self._regroup = True
        if not waits:
            self._timers.at(now + rest.backoff.next(), partial(self._release, rest))

    def _release(self, rest: Rest, now: float) -> None:
        rest.reason = None
        self._regroup = True

    def _by_the_table(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        """Wait for a leader, or for time to pass; what neither can be expected to cure is raised as well."""
        error = broker_error(row.code, f"fetching {position.tp} at offset {position.offset}")
        if row.refresh is Refresh.METADATA:
            self._report(now, node, position, error)
        else:
            self._hold(now, position, error)
        if not row.retriable and row.name != "UNKNOWN_SERVER_ERROR":
            self._tell_once(position, error)

    def _damaged(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        """The leader cannot read its log there. Another leader may, so it is tried again; the first time the application is told."""
        self._by_the_table(now, node, position, row)
        if not position.told:
            position.told = True
            what = f"fetching {position.tp} at offset {position.offset}: the leader's log is damaged"
            self._tell_once(position, broker_error(row.code, what))

    def _out_of_range(self, now: float, node: int, position: Position, row: ErrorCode) -> None:
        if self._policy is Start.NONE:
            self._explain_range(position)
            return
        log.warning(
            "%s: %s: offset %d is out of range; going on at the %s",
            self._config.client_id,
            position.tp,
            position.offset,
            self._policy.value,
        )
        self._reset(position, self._policy)

    def _explain_range(self, position: Position) -> None:
        """Ask for the valid range, then stop with an error that names it."""
        position.move(Stage.RESETTING)
        self._regroup = True

        def wanted() -> bool:
            return self._lives(position) and position.stage is Stage.RESETTING

        def refused(now: float, error: KafkaError) -> None:
            self._tell_once(position, error)

        def first(now: float, earliest: int, epoch: int) -> None:
            def last(now: float, latest: int, epoch: int) -> None:
                self._stop(position, OffsetOutOfRange.among(*position.tp, position.offset, earliest, latest))

            self.searches.begin(Search(position.tp, Start.LATEST, last, refused, wanted))

        self.searches.begin(Search(position.tp, Start.EARLIEST, first, refused, wanted))


def _with_epochs(message: FetchRequest, version: int) -> None:
    if version < EPOCHS_FROM:
        for partition in (partition for topic in message.topics for partition in topic.partitions):
            partition.last_fetched_epoch = -1


def _decompress(codec: int, data: Any, max_size: int) -> bytes:
    return decompress(codec, data, max_size)


ERRORS: Mapping[str, Callable[[Fetcher, float, int, Position, ErrorCode], None]] = {
    "CORRUPT_MESSAGE": Fetcher._damaged,
    "OFFSET_OUT_OF_RANGE": Fetcher._out_of_range,
}
