"""Holds the positions of a consumer, and hands their chunks and events to the application. Invariant: the application gets the items of a
position in the order in which they occurred.

Code that changes whether, where or how a position is fetched must call `touch`: the next poll checks touched positions only.
"""

from __future__ import annotations

from typing import Protocol

from pykafka4.core.subscription import Claim, Lasting, Located, PollError, Position, Stage, Truncated
from pykafka4.errors import CorruptRecord, KafkaError
from pykafka4.records import TopicPartition
from pykafka4.wire.records.hot import Chunk

__all__ = ["Intake", "Positions"]


class Intake(Protocol):
    """The receiver of fetched data: the thread that polls."""

    resume_at: float  # set by the loop: the application wakes the loop when `consumed` reaches this

    @property
    def consumed(self) -> int:
        """Bytes read or dropped since the beginning; the application's thread counts them."""

    @property
    def held(self) -> int:
        """Bytes of columns that the application has not freed yet. It may free them on any thread, without notice."""

    def put(self, item: object) -> None:
        """Hand over a chunk or event."""

    def news(self) -> None:
        """Wake the thread that polls, if it waits and something has arrived."""


class Positions(dict[TopicPartition, Position]):
    def __init__(self, intake: Intake) -> None:
        super().__init__()
        self._intake = intake
        self.of_topic: dict[str, dict[TopicPartition, None]] = {}
        self.touched: dict[TopicPartition, None] = {}  # touched since the last poll
        self.located: list[Position] = []  # to be fetched without waiting for a Fetch that does not include them
        self.delivered = 0  # bytes passed to the application
        self.last_turn = 0

    def put(self, position: Position) -> None:
        """Read `position` from now on. A seek keeps the turn of the partition."""
        tp = position.tp
        before = self.get(tp)
        if before is None:
            position.turn = self._next_turn()
            self.of_topic.setdefault(tp.topic, {})[tp] = None
        else:
            position.turn = before.turn
        self[tp] = position
        self.touched[tp] = None

    def remove(self, tp: TopicPartition) -> None:
        del self[tp]
        of_topic = self.of_topic[tp.topic]
        del of_topic[tp]
        if not of_topic:
            del self.of_topic[tp.topic]
        self.touch(tp)

    def touch(self, tp: TopicPartition) -> None:
        self.touched[tp] = None

    def move_to_end(self, tp: TopicPartition) -> None:
        position = self.get(tp)
        if position is not None:
            position.turn = self._next_turn()

    def _next_turn(self) -> int:
        self.last_turn += 1
        return self.last_turn

    def is_current(self, position: Position) -> bool:
        """Whether `position` is still read: false after a seek or the end of its assignment."""
        return self.get(position.tp) is position

    def of_assignment(self, claim: Claim) -> Position | None:
        """The position of the assignment of `claim`, even after seeks; None if the assignment is not read."""
        position = self.get(claim.tp)
        return position if position is not None and position.claim.origin is claim.origin else None

    def locate(self, position: Position, offset: int, epoch: int) -> None:
        position.locate(offset, epoch)
        self.located.append(position)
        self.touch(position.tp)
        self._intake.put(Located(position.claim, offset, epoch, position.claim.recreated))

    def pass_over(self, position: Position) -> None:
        """Move to `Claim.until`, because no record is left before it. The application moves its own position after the earlier items."""
        position.offset = position.claim.until
        self.touch(position.tp)
        self._intake.put(Located(position.claim, position.offset, position.epoch, position.claim.recreated))
        self._intake.news()

    def deliver(self, position: Position, chunk: Chunk) -> None:
        """Pass `chunk` to the application, and continue after it.

        Stop if the application cannot get past an earlier record, or if all records of `chunk` are before the position.
        """
        if position.claim.stuck:  # the application would drop it
            position.move(Stage.STOPPED)
            self.touch(position.tp)
            return
        stays = chunk.next_offset <= position.offset
        if stays:
            position.move(Stage.STOPPED)
        position.offset, position.found_nothing = chunk.next_offset, False
        if chunk.last_leader_epoch >= 0:
            position.epoch = chunk.last_leader_epoch
        position.claim.delivered += chunk.size
        self.delivered += chunk.size
        self.touch(position.tp)
        self._intake.put(chunk)
        if stays:  # after the chunk, which raises its own error first if its first batch has an invalid header
            tp = position.tp
            error = CorruptRecord(tp.topic, tp.partition, position.offset, "the broker returned only records before that offset")
            self._intake.put(PollError(position.claim, error))

    def truncate(self, position: Position, offset: int, epoch: int, *, raises: bool) -> None:
        """Stop, because the log was truncated to `offset`. The reader knows the next record to return, and steps back or raises."""
        position.move(Stage.STOPPED)
        self.touch(position.tp)
        self._intake.put(Truncated(position.claim, offset, epoch, raises=raises))

    def stop(self, position: Position, error: KafkaError) -> None:
        """Stop at an error; only a seek continues."""
        position.move(Stage.STOPPED)
        self.touch(position.tp)
        self._intake.put(PollError(position.claim, error))

    def tell_once(self, position: Position, error: KafkaError) -> None:
        """Have `poll` raise `error` once, unless another error of this claim waits for `poll`."""
        if self.is_current(position) and not position.claim.troubled:
            position.claim.troubled = True
            self._intake.put(PollError(position.claim, error, Lasting.ONCE))
