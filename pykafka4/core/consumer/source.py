"""Source. Rule: one Fetch per broker is in flight, and at most one more was left behind; each has a connection of its own.

A broker holds a Fetch back until there is data. It does not ask for a position that was sought or found meanwhile: then it is left behind,
and the next goes out beside it, over the other lane. Searches (ListOffsets) take the lane on which they wait least.

A Fetch goes in the broker's session (`session`), except one beside another that is in it, one for a single partition, and all of them for
a while after the broker has refused its sessions several times. A Fetch in an open session costs what changed since the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, TypeAlias
from uuid import UUID

import attrs

from pykafka4.config import ConsumerConfig
from pykafka4.core import INFINITY, Failed, Outcome, Request
from pykafka4.core.consumer.session import SESSION_ERRORS, Asked, FetchSession, OtherVersion
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import via
from pykafka4.core.subscription import Position
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_fetch import FetchRequest, FetchResponse
from pykafka4.wire.protocol.schema import NO_UUID

__all__ = ["Answer", "InFlightFetch", "Source"]

BY_NAME_ONLY: Final = 12  # from Fetch 13 on topics go by id
EPOCHS_FROM: Final = 12  # `last_fetched_epoch`: the broker notices that our log is not its log
NO_SESSION: Final = -1
REFUSALS: Final = 3  # sessions that may end before anything was asked in them
WITHOUT_SESSIONS: Final = 60.0  # seconds after that
CONSUMER: Final = -1  # the replica id of whoever is no replica
FRAME, PER_PARTITION = 512, 320  # bytes of an answer that are no records, at most; a name can take 249 of them

Answer: TypeAlias = FetchResponse.Topic.Partition


@attrs.frozen(eq=False)
class InFlightFetch:
    """One Fetch that has no answer yet: what it asks for, named in it or known from its session, and the bytes kept free for it."""

    lane: int
    reserved: int
    asked: Mapping[TopicPartition, Asked]
    session: FetchSession | None = None
    incremental: bool = False  # names only what changed
    alone: bool = False  # for one partition whose answer was too large together with others

    def asks_for(self, position: Position) -> bool:
        """Whether its answer can count for `position`, and not only for one of the same partition before a seek."""
        asked = self.asked.get(position.tp)
        return asked is not None and asked.position is position


class Source:
    """One broker that leads, or led, partitions that are read."""

    def __init__(self, node: int, lanes: tuple[int, int], config: ConsumerConfig, cluster: Cluster, recovery: Recovery) -> None:
        self.node = node
        self._lanes, self._config, self._cluster, self._recovery = lanes, config, cluster, recovery
        self.line: dict[TopicPartition, Position] = {}  # what can be fetched here; `Position.turn` is the order
        self.full: dict[TopicPartition, None] = {}  # those of `line` that hold their share, when it was last looked at
        self.alone: dict[TopicPartition, None] = {}  # those of `line` to be asked for by themselves once
        self.served = 0  # partitions that brought records since the last Fetch that named all
        self.in_flight: InFlightFetch | None = None
        self.left_behind: InFlightFetch | None = None  # no one waits for it
        self.undecodable = False  # the last answer could not be decoded
        self.session = FetchSession()
        self._holding: dict[TopicPartition, None] = {}  # those of `line` with something that the application has not read
        self._news: dict[TopicPartition, None] = {}  # what may differ from what the session was told
        self._refusals = 0
        self._no_session_before = -INFINITY

    @property
    def idle(self) -> bool:
        """Whether there is nothing to ask for and nothing to wait for."""
        return not self.line and self.in_flight is None and self.left_behind is None

    @property
    def lane(self) -> int:
        """The lane for the next request: one that no Fetch occupies, else that of the Fetch which has waited longer."""
        if self.left_behind is not None and self.in_flight is not None:
            return self.left_behind.lane
        busy = self.left_behind or self.in_flight
        return self._lanes[1] if busy is not None and busy.lane == self._lanes[0] else self._lanes[0]

    @property
    def address(self) -> int:
        """The connection for the next request."""
        return via(self.lane, self.node)

    # ---------------------------------------------------------------- what can be asked for

    def put(self, position: Position) -> None:
        """`position` is in the line from now on, or something about it changed."""
        self.line[position.tp] = position
        self._news[position.tp] = None
        if position.buffered:
            self._holding[position.tp] = None

    def remove(self, tp: TopicPartition) -> None:
        """It is not to be asked for here."""
        for things in (self.line, self.full, self.alone, self._holding):
            things.pop(tp, None)
        self._news[tp] = None
        if not self.line:  # perhaps for ever: keep nothing
            self.session = FetchSession(self.session.number)
            self._news.clear()

    def look_for_room(self, share: int) -> None:
        """Find out which partitions hold their share: at least `share` bytes that the application has not read."""
        for tp in list(self._holding):
            held = self.line[tp].buffered
            if not held:
                del self._holding[tp]
            if (held > 0 and held >= share) is not (tp in self.full):
                self._news[tp] = None
                if tp in self.full:
                    del self.full[tp]
                else:
                    self.full[tp] = None

    def leave_behind(self, position: Position) -> bool:
        """Make way for a Fetch that asks for `position`, if that in flight does not, once at a time; False if nothing changed."""
        waiting = self.in_flight
        if waiting is None or self.left_behind is not None or waiting.asks_for(position):
            return False
        self.left_behind, self.in_flight = waiting, None
        return True

    # ---------------------------------------------------------------- asking

    def fetch(
        self,
        now: float,
        budget: int,
        wait: float,
        last_turn: int,
        answered: Callable[[float, Source, InFlightFetch, Outcome], None],
    ) -> tuple[Request, InFlightFetch]:
        """Ask for what has room, from now on in flight: `budget` bytes, and `wait` seconds at most until there is data.

        `last_turn` is the turn of who was served last, here or elsewhere.
        """
        alone, session = self._next_alone(), self.session
        busy = self.left_behind is not None and self.left_behind.session is session
        in_session = alone is None and not busy and now >= self._no_session_before
        told = session if in_session else FetchSession(epoch=NO_SESSION)
        changes = self._changes(last_turn) if in_session and session.is_open else None
        named, forgotten = changes or (self._name_all(told, alone), [])
        budget = max(1, min(budget, self._config.receive_message_max_bytes - FRAME - PER_PARTITION * len(told.asked)))
        self.in_flight = fetch = InFlightFetch(
            lane=self.lane,
            reserved=min(budget, told.limit),
            asked=told.asked,
            session=session if in_session else None,
            incremental=changes is not None,
            alone=alone is not None,
        )
        message = FetchRequest(
            replica_id=CONSUMER,
            max_wait_ms=0 if fetch.alone else int(wait * 1000),
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=budget,
            session_id=told.number,
            session_epoch=told.epoch,
            topics=_topics(named),
            forgotten_topics_data=_forgotten_topics(forgotten),
        )
        deadline = now + self._config.request_timeout_ms / 1000 + wait
        on_reply = lambda at, outcome: answered(at, self, fetch, outcome)  # noqa: E731
        fit = partial(_continue, session) if fetch.incremental else _fit
        return Request(via(fetch.lane, self.node), message, deadline, on_reply, BY_NAME_ONLY if told.unnamed else None, fit), fetch

    def _next_alone(self) -> Position | None:
        return next((self.line[tp] for tp in self.alone if tp not in self.full), None)

    def _name_all(self, told: FetchSession, alone: Position | None) -> list[Asked]:
        """Ask for `alone`, else for all that has room: who was served last comes last."""
        told.clear()
        if told is self.session:
            self._news.clear()
            self.served = 0
        chosen = [alone] if alone is not None else [position for tp, position in self.line.items() if tp not in self.full]
        for position in sorted(chosen, key=_turn):
            told.note(position.tp, self._wish(position))
        return list(told.asked.values())

    def _changes(self, last_turn: int) -> tuple[list[Asked], list[Asked]] | None:
        """(what to name, what to forget) in the session; None if it has to end, as a partition would come last that is not to."""
        session = self.session
        if not self._news:
            return [], []
        positions = {tp: None if tp in self.full else self.line.get(tp) for tp in self._news}
        for tp, position in positions.items():
            if position is not None and tp not in session.asked and min(last_turn - position.turn, self.served) >= len(self.line):
                session.end()
                return None
        self._news.clear()
        named, forgotten = list[Asked](), list[Asked]()
        for tp, position in positions.items():
            now = None if position is None else self._wish(position)
            before = session.note(tp, now)
            if before is not None and (now is None or (session.by_id and now.topic_id != before.topic_id)):
                forgotten.append(before)
            if now is not None and (before is None or now[1:] != before[1:]):
                named.append(now)
        named.sort(key=lambda asked: asked.position.turn)
        return named, forgotten

    def _wish(self, position: Position) -> Asked:
        tp = position.tp
        leader = self._recovery.leader(tp)
        epoch = -1 if leader is None else leader.epoch
        return Asked(position, self._cluster.topic_id(tp.topic), position.offset, position.epoch, epoch, position.limit)

    # ---------------------------------------------------------------- answers

    def finish(self, fetch: InFlightFetch) -> None:
        """`fetch` was answered, or failed: it is in flight no more."""
        if self.in_flight is fetch:
            self.in_flight = None
        elif self.left_behind is fetch:
            self.left_behind = None

    def conclude(self, now: float, fetch: InFlightFetch, outcome: Outcome) -> bool:
        """Note what `outcome` says of the session; True if it says nothing else, and the next Fetch asks for the same."""
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
            self._refusals, self._no_session_before = 0, now + WITHOUT_SESSIONS
        return True

    def read(self, fetch: InFlightFetch, response: FetchResponse) -> Iterator[tuple[Position, int, Answer]]:
        """What was asked for, the offset at which it was, and the answer.

        Passed over is what was not asked for, what is named twice, and what comes from a topic that was deleted and created again since.
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


def _topics(asked: Iterable[Asked]) -> list[FetchRequest.Topic]:
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


def _forgotten_topics(asked: Iterable[Asked]) -> list[FetchRequest.ForgottenTopic]:
    topics: dict[tuple[str, UUID], list[int]] = {}
    for one in asked:
        topics.setdefault((one.position.tp.topic, one.topic_id or NO_UUID), []).append(one.position.tp.partition)
    return [FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=parts) for (name, topic_id), parts in topics.items()]


def _continue(session: FetchSession, message: FetchRequest, version: int) -> None:
    session.check(version)
    _fit(message, version)


def _fit(message: FetchRequest, version: int) -> None:
    """Name no epochs to a broker that would not understand them."""
    if version < EPOCHS_FROM:
        for partition in (partition for topic in message.topics for partition in topic.partitions):
            partition.last_fetched_epoch = -1
