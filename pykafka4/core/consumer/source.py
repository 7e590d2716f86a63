"""Fetches partitions from one broker. Invariant: at most two Fetches are in flight, one of them left behind; each has its own connection.

A broker holds a Fetch back until there is data. If a position that the Fetch does not include is sought or located meanwhile, the Fetch is
left behind, and another is sent beside it, on the other lane, for such positions. Searches (ListOffsets) use the lane on which they wait
least.

While a broker has no records, each Fetch may be held back twice as long as the previous one, up to ten times fetch_max_wait_ms (at most
MOST_WAIT_S, unless fetch_max_wait_ms is longer). So an idle consumer sends few requests, and the broker still responds as soon as it has
records. With fetch_min_bytes over 1 the wait would delay records, so it stays the same.

A Fetch belongs to the broker's session (`fetch_session`), except a Fetch beside a held one, a Fetch of a single partition (`alone`), and
all Fetches for a while after the broker has rejected the session several times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias
from uuid import UUID

import attrs

from pykafka4.core import INFINITY, Failed, Outcome, Request
from pykafka4.core.consumer.fetch_session import SESSION_ERRORS, FetchSession, OtherVersion, RequestedPartition
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import via
from pykafka4.core.subscription import UNBOUNDED, Position
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse

__all__ = ["Answer", "InFlightFetch", "Source"]

BY_NAME_ONLY: Final = 12  # the last version of Fetch in which topics go by name, not by id
EPOCHS_FROM: Final = 12  # the first version with `last_fetched_epoch`, which shows a broker that its log was truncated
NO_SESSION: Final = -1
# After this many rejected sessions in a row, Fetches have no session for WITHOUT_SESSIONS_S, because each rejection costs a round trip.
REFUSALS: Final = 3
WITHOUT_SESSIONS_S: Final = 60.0
LONGEST_HOLD_WAITS: Final = 10  # times fetch_max_wait_ms
MOST_WAIT_S: Final = 30.0  # less than the time for which brokers keep an unused session (2 minutes) or connection
CONSUMER: Final = -1  # the replica id of clients
FRAME, PER_PARTITION = 512, 320  # bytes set aside, apart from records, for a response and for each partition in it

Answer: TypeAlias = FetchResponse.Topic.Partition


class FetchOwner(Protocol):
    """The part of the consumer that sends Fetches."""

    def fetch_ended(self, now: float, fetch: InFlightFetch, outcome: Outcome) -> None:
        """Handle the outcome of `fetch`."""


@attrs.define(eq=False)
class InFlightFetch(Request):
    """A Fetch without a response."""

    fetcher: FetchOwner = attrs.field(kw_only=True)
    source: Source = attrs.field(kw_only=True)
    lane: int = attrs.field(kw_only=True)
    reserved: int = attrs.field(kw_only=True)  # bytes of room for the response
    wait: float = attrs.field(kw_only=True)  # seconds for which the broker may hold this Fetch back
    held_until: float = attrs.field(kw_only=True)
    asked: Mapping[TopicPartition, RequestedPartition] = attrs.field(kw_only=True)  # by this Fetch, or by its session
    session: FetchSession | None = attrs.field(kw_only=True)
    incremental: bool = attrs.field(kw_only=True)  # names only changes
    alone: bool = attrs.field(kw_only=True)  # a single partition, after a response that was too large, or batches that were cut off
    beside: bool = attrs.field(kw_only=True)  # only positions that the Fetch left behind does not include

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.fetcher.fetch_ended(now, self, outcome)

    def asks_for(self, position: Position) -> bool:
        """Whether the response can be used for `position`. It cannot after a seek, or after a change of the offset."""
        asked = self.asked.get(position.tp)
        return asked is not None and asked.position is position and asked.offset == position.offset


class Source:
    """One broker from which the consumer reads, or has read."""

    def __init__(self, node: int, lanes: tuple[int, int], config: ConsumerConfig, cluster: Cluster, recovery: Recovery) -> None:
        self.node = node
        self._lanes, self._config, self._cluster, self._recovery = lanes, config, cluster, recovery
        self.positions: dict[TopicPartition, Position] = {}  # positions that can be fetched here; `Position.turn` is the order
        # four subsets of `positions`
        self.full: dict[TopicPartition, None] = {}  # had used up their share of the room at the last check
        self._bound: dict[TopicPartition, None] = {}  # a leader must not choose a follower for them
        self.bounded: dict[TopicPartition, Position] = {}  # read up to an offset
        self.alone: dict[TopicPartition, None] = {}  # to be fetched alone, once

        self.served = 0  # how often a partition returned records since the last full Fetch
        self.in_flight: InFlightFetch | None = None
        self.left_behind: InFlightFetch | None = None  # the next Fetch does not wait for it
        self._left_out: list[Position] = []  # positions that were sought or located while both connections had a Fetch
        self.usual_wait = config.fetch_max_wait_ms / 1000
        longest = LONGEST_HOLD_WAITS if config.fetch_min_bytes <= 1 else 1
        self._longest_wait = max(self.usual_wait, min(longest * self.usual_wait, MOST_WAIT_S))
        self.wait = self.usual_wait  # seconds for which the broker may hold the next Fetch back, if none is left behind
        self.undecodable = False  # the last response could not be decoded
        self.session = FetchSession()
        self._holding: dict[TopicPartition, None] = {}  # have data that the application has not read
        self._news: dict[TopicPartition, None] = {}  # partitions that may differ from their last request in the session
        self._refusals = 0
        self._no_session_before = -INFINITY

    @property
    def idle(self) -> bool:
        return not self.positions and self.in_flight is None and self.left_behind is None

    @property
    def lane(self) -> int:
        """The lane for the next request: one without a Fetch, otherwise the one whose Fetch the broker must answer first."""
        if self.left_behind is not None and self.in_flight is not None:
            return min(self.left_behind, self.in_flight, key=_held_until).lane
        busy = self.left_behind or self.in_flight
        return self._lanes[1] if busy is not None and busy.lane == self._lanes[0] else self._lanes[0]

    @property
    def address(self) -> int:
        return via(self.lane, self.node)

    # ---------------------------------------------------------------- the positions

    def put(self, position: Position) -> None:
        self.positions[position.tp] = position
        self._news[position.tp] = None
        if position.bound:
            self._bound[position.tp] = None
        else:
            self._bound.pop(position.tp, None)
        if position.buffered:
            self._holding[position.tp] = None
        if position.claim.until < UNBOUNDED:
            self.bounded[position.tp] = position
        elif self.bounded:
            self.bounded.pop(position.tp, None)

    def remove(self, tp: TopicPartition) -> None:
        for things in (self.positions, self.full, self.alone, self._bound, self._holding, self.bounded):
            things.pop(tp, None)
        self._news[tp] = None
        if not self.positions:  # the source may never have positions again: release the memory
            self.session = FetchSession(self.session.number)
            self._news.clear()

    def look_for_room(self, share: int) -> None:
        """Update `full`: the partitions with at least `share` bytes that the application has not read."""
        for tp in list(self._holding):
            held = self.positions[tp].buffered
            if not held:
                del self._holding[tp]
            if (held > 0 and held >= share) is not (tp in self.full):
                self._news[tp] = None
                if tp in self.full:
                    del self.full[tp]
                else:
                    self.full[tp] = None

    @property
    def is_held_long(self) -> bool:
        return self.in_flight is not None and self.in_flight.wait > self.usual_wait

    @property
    def nears_end(self) -> bool:
        """Whether a bounded partition has had no empty response since its last records: a long wait would delay the end of the read."""
        return any(not position.found_nothing for position in self.bounded.values())

    @property
    def next_wait(self) -> float:
        """Seconds for which the broker may hold the next Fetch back; 0 for a Fetch beside a held one.

        With two held Fetches both connections would be busy, and the next seek would wait.
        """
        if self._held is not None:
            return 0.0
        return self.wait if self.left_behind is None else self.usual_wait

    @property
    def _held(self) -> InFlightFetch | None:
        """The Fetch left behind, if the next Fetch is only for positions that the Fetch left behind does not include."""
        return self.left_behind if self.left_behind is not None and not self.left_behind.beside else None

    def has_work(self) -> bool:
        return any(True for _ in self._with_room())

    def _with_room(self) -> Iterator[Position]:
        """The positions with room, except those that the held Fetch includes."""
        held = self._held
        for tp, position in self.positions.items():
            if tp not in self.full and not (held is not None and held.asks_for(position)):
                yield position

    def leave_behind(self, position: Position) -> bool:
        """Leave the Fetch in flight behind if it does not include `position`. False: `position` must wait for a Fetch to end."""
        waiting = self.in_flight
        if waiting is not None:
            if waiting.asks_for(position):
                return False
            if self.left_behind is not None:
                self._left_out.append(position)
                return False
            self.left_behind, self.in_flight = waiting, None
        return True

    def take_left_out(self) -> list[Position]:
        left_out, self._left_out = self._left_out, []
        return left_out

    # ---------------------------------------------------------------- requests

    def fetch(
        self,
        now: float,
        budget: int,
        wait: float,
        last_turn: int,
        fetcher: FetchOwner,
    ) -> InFlightFetch:
        """The next Fetch of a source that `has_work`: for at most `budget` bytes; the broker may hold it back for `wait` seconds at most.

        `last_turn` is the highest turn of all positions, at any source.
        """
        alone, session = self._next_alone(), self.session
        beside = alone is None and self._held is not None
        in_session = alone is None and not beside and now >= self._no_session_before
        used = session if in_session else FetchSession(epoch=NO_SESSION)
        changes = self._changes(last_turn) if in_session and session.is_open else None
        named, forgotten = changes or (self._name_all(used, alone), [])
        budget = max(1, min(budget, self._config.receive_message_max_bytes - FRAME - PER_PARTITION * len(used.asked)))
        message = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=0 if alone is not None else int(wait * 1000),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=budget,
            isolation_level=self._config.isolation,
            session_id=used.number,
            session_epoch=used.epoch,
            topics=_topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten),
            rack_id="" if self._bound else self._config.client_rack or "",
        )
        lane = self.lane
        self.in_flight = fetch = InFlightFetch(
            via(lane, self.node),
            message,
            now + self._config.request_timeout_ms / 1000 + wait,
            BY_NAME_ONLY if used.unnamed else None,
            _fit if changes is None else partial(_continue, session),
            fetcher=fetcher,
            source=self,
            lane=lane,
            reserved=min(budget, used.limit),
            wait=wait,
            held_until=now + wait,
            asked=used.asked,
            session=session if in_session else None,
            incremental=changes is not None,
            alone=alone is not None,
            beside=beside,
        )
        return fetch

    def _next_alone(self) -> Position | None:
        return next((self.positions[tp] for tp in self.alone if tp not in self.full), None)

    def _name_all(self, used: FetchSession, alone: Position | None) -> list[RequestedPartition]:
        """Name `alone`, otherwise all partitions to fetch, in the order of their turns."""
        used.clear()
        if used is self.session:
            self._news.clear()
            self.served = 0
        chosen = self._with_room() if alone is None else [alone]
        for position in sorted(chosen, key=_turn):
            used.note(position.tp, self._wish(position))
        return list(used.asked.values())

    def _changes(self, last_turn: int) -> tuple[list[RequestedPartition], list[RequestedPartition]] | None:
        """(partitions to name, partitions to forget) in the session.

        None if this call has ended the session, because a partition that has waited long would come last.
        """
        session = self.session
        if not self._news:
            return [], []
        positions = {tp: None if tp in self.full else self.positions.get(tp) for tp in self._news}
        for tp, position in positions.items():
            if position is not None and tp not in session.asked and min(last_turn - position.turn, self.served) >= len(self.positions):
                session.end()
                return None
        self._news.clear()
        named, forgotten = list[RequestedPartition](), list[RequestedPartition]()
        for tp, position in positions.items():
            now = None if position is None else self._wish(position)
            before = session.note(tp, now)
            known = now is None or now.position.is_unconfirmed or now.position.claim.end >= 0
            if before is not None and now is not None and not known:  # after a seek: the broker returns the end only if it has changed
                now.position.claim.end = before.position.claim.end
            if before is not None and (now is None or (session.by_id and now.topic_id != before.topic_id)):
                forgotten.append(before)
            if now is not None and (before is None or now[1:] != before[1:]):
                named.append(now)
        named.sort(key=lambda asked: asked.position.turn)
        return named, forgotten

    def _wish(self, position: Position) -> RequestedPartition:
        tp = position.tp
        leader = self._recovery.leader(tp)
        epoch = -1 if leader is None else leader.epoch
        return RequestedPartition(position, self._cluster.topic_id(tp.topic), position.offset, position.epoch, epoch, position.limit)

    # ---------------------------------------------------------------- responses

    def finish(self, fetch: InFlightFetch) -> None:
        """Remove `fetch`, which has ended. If it was left behind, a Fetch beside it takes its place, so that the next Fetch can include all
        positions."""
        if self.in_flight is fetch:
            self.in_flight = None
        elif self.left_behind is fetch:
            self.left_behind = None
            if self.in_flight is not None and self.in_flight.beside:
                self.left_behind, self.in_flight = self.in_flight, None

    def _choose_wait(self, outcome: Outcome) -> None:
        if isinstance(outcome, Failed) or outcome.message.error_code or any(map(_has_records, outcome.message.responses)):
            self.wait = self.usual_wait
        elif self.in_flight is None and self.left_behind is None:
            self.wait = min(2 * self.wait, self._longest_wait)

    def found_nothing(self, fetch: InFlightFetch, outcome: Outcome) -> bool:
        """Whether `fetch` was sent beside a held one and returned no records; then the next Fetch follows after a pause."""
        return fetch.beside and not isinstance(outcome, Failed) and not any(map(_has_records, outcome.message.responses))

    def conclude(self, now: float, fetch: InFlightFetch, outcome: Outcome) -> bool:
        """Update the wait and the session. True if `outcome` concerns only the session: the next Fetch repeats the request."""
        self._choose_wait(outcome)
        session = fetch.session
        if session is None:
            return False
        if isinstance(outcome, Failed):
            session.end()
            return isinstance(outcome.reason, OtherVersion)
        response: FetchResponse = outcome.message
        if not response.error_code:
            session.answered(response.session_id, outcome.version)
            if not self.session.is_open:
                self.session.number = session.number
            self._refusals = 0 if fetch.incremental else self._refusals
            return False
        session.end()
        if not fetch.incremental or response.error_code not in SESSION_ERRORS:
            return False
        self._refusals += 1
        if self._refusals >= REFUSALS:
            self._refusals, self._no_session_before = 0, now + WITHOUT_SESSIONS_S
        return True

    def read(self, fetch: InFlightFetch, response: FetchResponse) -> Iterator[tuple[Position, int, Answer]]:
        """(position, requested offset, response for the partition) of each requested partition in `response`.

        Skip partitions that were not requested, that are repeated, or whose topic has been recreated since the request.
        """
        seen = set[TopicPartition]()
        for topic in response.responses:
            name = topic.topic or self._cluster.topic_name(topic.topic_id) or ""
            for answer in topic.partitions:
                tp = TopicPartition(name, answer.partition_index)
                asked = fetch.asked.get(tp)
                if asked is None or tp in seen or asked.topic_id not in (None, asked.position.topic_id):
                    continue
                seen.add(tp)
                self.served += bool(answer.records)
                yield asked.position, asked.offset, answer


def _turn(position: Position) -> int:
    return position.turn


def _held_until(fetch: InFlightFetch) -> float:
    return fetch.held_until


def _has_records(topic: FetchResponse.Topic) -> bool:
    return any(answer.records for answer in topic.partitions)


def _topics(asked: Iterable[RequestedPartition]) -> list[FetchRequest.Topic]:
    topics: dict[tuple[str, UUID], list[FetchRequest.Topic.Partition]] = {}
    for one in asked:
        tp = one.position.tp
        topics.setdefault((tp.topic, one.topic_id or NO_UUID), []).append(
            FetchRequest.Topic.Partition(
                partition=tp.partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                last_fetched_epoch=one.epoch,
                partition_max_bytes=one.limit,
            )
        )
    return [FetchRequest.Topic(topic=name, topic_id=topic_id, partitions=parts) for (name, topic_id), parts in topics.items()]


def _forgotten_topics(asked: Iterable[RequestedPartition]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for one in asked:
        topics.setdefault((one.position.tp.topic, one.topic_id or NO_UUID), []).append(one.position.tp.partition)
    return [FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=parts) for (name, topic_id), parts in topics.items()]


def _continue(session: FetchSession, message: FetchRequest, version: int) -> None:
    session.check(version)
    _fit(message, version)


def _fit(message: FetchRequest, version: int) -> None:
    if version < EPOCHS_FROM:
        for partition in (partition for topic in message.topics for partition in topic.partitions):
            partition.last_fetched_epoch = -1
