"""Positions. Rule: what the application has to hear of a position goes out here, in the order in which it happened.

Whoever changes whether, where or how a position is to be fetched touches it: the next poll looks at those that were, once.
"""

from __future__ import annotations

from typing import Protocol

from pykafka4.core.subscription import Lasting, Located, Position, Stage, Trouble, Truncated
from pykafka4.errors import KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Chunk

__all__ = ["Intake", "Positions"]


class Intake(Protocol):
    """Where fetched data goes: the thread that polls."""

    resume_at: float  # set here: wake the loop when `consumed` reaches this

    @property
    def consumed(self) -> int:
        """Bytes read or dropped since the beginning; the application's thread counts them."""

    def put(self, item: object) -> None:
        """Hand over a chunk or event."""


class Positions(dict[TopicPartition, Position]):
    """All that a consumer reads."""

    def __init__(self, intake: Intake) -> None:
        super().__init__()
        self._intake = intake
        self.of_topic: dict[str, dict[TopicPartition, None]] = {}
        self.touched: dict[TopicPartition, None] = {}  # since the last poll
        self.located: list[Position] = []  # since the last poll: no Fetch in flight asks for these
        self.delivered = 0  # bytes put before the application
        self.last_turn = 0

    def put(self, position: Position) -> None:
        """Read `position` from now on; a seek changes no turn."""
        before = self.get(position.tp)
        position.turn = self._next_turn() if before is None else before.turn
        self[position.tp] = position
        self.of_topic.setdefault(position.tp.topic, {})[position.tp] = None
        self.touch(position.tp)

    def remove(self, tp: TopicPartition) -> None:
        """Read it no more."""
        del self[tp]
        of_topic = self.of_topic[tp.topic]
        del of_topic[tp]
        if not of_topic:
            del self.of_topic[tp.topic]
        self.touch(tp)

    def touch(self, tp: TopicPartition) -> None:
        """Something about it changed."""
        self.touched[tp] = None

    def move_to_end(self, tp: TopicPartition) -> None:
        """All others come before `tp`: it was served."""
        position = self.get(tp)
        if position is not None:
            position.turn = self._next_turn()

    def _next_turn(self) -> int:
        self.last_turn += 1
        return self.last_turn

    def is_current(self, position: Position) -> bool:
        """Whether `position` is still read: a seek or the end of its assignment replaces or removes it."""
        return self.get(position.tp) is position

    def locate(self, position: Position, offset: int, epoch: int) -> None:
        """Read from `offset`, which was looked for."""
        position.locate(offset, epoch)
        self.located.append(position)
        self.touch(position.tp)
        self._intake.put(Located(position.claim, offset, epoch))

    def deliver(self, position: Position, chunk: Chunk) -> None:
        """Put `chunk` before the application, and go on behind it."""
        if chunk.next_offset <= position.offset:
            position.move(Stage.STOPPED)  # nothing readable: decoding will say why
        position.offset = chunk.next_offset
        if chunk.last_leader_epoch >= 0:
            position.epoch = chunk.last_leader_epoch
        position.claim.delivered += chunk.size
        self.delivered += chunk.size
        self.touch(position.tp)
        self._intake.put(chunk)

    def truncate(self, position: Position, offset: int, epoch: int, *, raises: bool) -> None:
        """The log was cut at `offset`. The application steps back itself, or raises: it knows how far it has come."""
        position.move(Stage.STOPPED)
        self.touch(position.tp)
        self._intake.put(Truncated(position.claim, offset, epoch, raises=raises))

    def stop(self, position: Position, error: KafkaError) -> None:
        """Only a seek goes on from here."""
        position.move(Stage.STOPPED)
        self.touch(position.tp)
        self._intake.put(Trouble(position.claim, error))

    def tell_once(self, position: Position, error: KafkaError) -> None:
        """Raise `error` from a poll; while that has not happened there is nothing to add."""
        if self.is_current(position) and not position.claim.troubled:
            position.claim.troubled = True
            self._intake.put(Trouble(position.claim, error, Lasting.ONCE))
