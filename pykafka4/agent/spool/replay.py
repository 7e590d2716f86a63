"""Sends messages from the disk to the producer. Invariant: a topic's messages are sent and marked as done in order.

The replay never waits for the cluster, and reads no file: `Spool` reads on a thread, and calls the replay again after acknowledgements.

The topics share `window` unacknowledged bytes; a topic that has used its share sends no messages. So a stuck topic does not
hold up other topics. A topic for which the producer has no room is tried again after a pause, with a short read.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

import attrs

from pykafka4.agent.format import parse
from pykafka4.agent.message import Refused
from pykafka4.agent.spool.fifo import Fifo
from pykafka4.agent.spool.frames import cut, salvage
from pykafka4.agent.spool.segment import OUT_OF, Segment
from pykafka4.agent.spool.values import Discards, Sender
from pykafka4.errors import ClosedError, DeliveryFailed, KafkaError
from pykafka4.logs import get_log
from pykafka4.wire.records.hot import Delivery

__all__ = ["ByteRange", "Replay", "Unsettled"]

log = get_log("pykafka4.agent.spool")

FIRST_READ: Final = 4 * 1024  # bytes; doubles after each read whose messages were all sent
LARGEST_READ: Final = 32 * 1024  # the loop sends the messages of a read in one turn, while inputs wait
RECORD_COST: Final = 220  # bytes of memory for a message, besides its own bytes and the producer's
MOST_AT_ONCE: Final = 5_000  # messages that leave the disk in one turn of the loop
LEAVING_COST: Final = 500  # the cost of removing an empty topic, in messages: removing a folder may take a millisecond
PAUSE_S: Final = 0.1  # seconds; the pause of a topic without room in the producer; doubles
LONGEST_PAUSE_S: Final = 1.0
# Seconds per topic: a pause for lack of room is at least this long. Otherwise the attempts of many topics would use up the loop's time.
PAUSE_OF_EACH_S: Final = 0.002
# Codes of messages that failed only because the producer ended or crashed. Such messages stay on disk.
GIVEN_UP: Final = (ClosedError.code, KafkaError.code)


@attrs.frozen
class ByteRange:
    """Bytes to read: `length` at `offset`, or fewer at the end of the segment."""

    replay: TopicReplay
    segment: Segment
    offset: int
    length: int


@attrs.define(eq=False)
class SentPart:
    """A part of a segment, up to `end`: a sent message, a discarded one if `delivery` is None, or damaged bytes if `count` is 0."""

    segment: Segment
    end: int
    count: int
    cost: int
    delivery: Delivery | None
    message: bytes


class Unsettled(NamedTuple):
    """A sent message without a definite outcome. `crashed` says whether the producer crashed."""

    message: bytes
    partition: int | None
    timestamp_ms: int
    crashed: bool


class TopicReplay:
    __slots__ = ("fifo", "in_flight", "least", "length", "pause_s", "paused_until", "reading", "sent", "watched")

    def __init__(self, fifo: Fifo) -> None:
        self.fifo = fifo
        self.sent: deque[SentPart] = deque()
        self.in_flight = 0  # unacknowledged bytes, with RECORD_COST for each message
        self.length = FIRST_READ
        self.least = 0  # bytes of the next read, even beyond the share, after a frame longer than the last read
        self.pause_s, self.paused_until = PAUSE_S, 0.0
        self.reading = False
        self.watched: Delivery | None = None  # the oldest unacknowledged delivery, which calls `wake`


class Replay:
    """The replays of all topics with messages on disk. The agent's loop calls all methods."""

    def __init__(self, sender: Sender, discards: Discards, window: int, empty: bytes | None, clock: Callable[[], float]) -> None:
        self.sender, self._discards, self._window, self._empty, self._clock = sender, discards, window, empty, clock
        self._topics: dict[str, TopicReplay] = {}
        self._turns: deque[TopicReplay] = deque()
        self._hurry = True  # False after `should_hurry` has returned True, until a message leaves the disk
        self._freed = False  # messages have left the disk since the last pause began, so pauses are ignored
        self.stopped = False
        self.holds = 0  # calls of `Spool.hold` that `Spool.release` has not undone

    def add(self, fifo: Fifo) -> None:
        if fifo.topic not in self._topics:
            self._topics[fifo.topic] = replay = TopicReplay(fifo)
            self._turns.append(replay)

    def remove(self, fifo: Fifo) -> None:
        replay = self._topics.pop(fifo.topic, None)
        if replay is not None:
            self._turns.remove(replay)

    def next_reading(self) -> ByteRange | None:
        """Return the next bytes to read, None if no message can be sent now. Topics take turns."""
        if self.stopped or self.holds:
            return None
        now, share = self._clock(), self._share()
        for _ in range(len(self._turns)):
            replay = self._turns[0]
            self._turns.rotate(-1)
            pauses = replay.paused_until > now and not self._freed
            if replay.reading or pauses or (replay.in_flight and replay.in_flight >= share):
                continue
            at = replay.fifo.next_read()
            if at is not None:
                replay.reading = True
                length = min(replay.length, max(FIRST_READ, share - replay.in_flight))
                return ByteRange(replay, *at, max(length, replay.least))
        return None

    def _share(self) -> int:
        return self._window // max(1, len(self._turns))

    def pause(self) -> float | None:
        """Return the seconds until the first pause of a topic ends, None if no topic pauses."""
        now = self._clock()
        pauses = [replay.paused_until - now for replay in self._turns if replay.paused_until > now]
        return min(pauses, default=None)

    def should_hurry(self) -> bool:
        """Whether the producer should send without linger, because a topic has used its share and has more messages.

        Otherwise linger_ms would set the pace of the replay. Returns True once, and again only after messages have left the disk, so
        the producer is not flushed repeatedly while the cluster is away.
        """
        if not self._hurry:
            return False
        share = self._share()
        if not any(replay.in_flight >= share and replay.fifo.unread for replay in self._turns):
            return False
        self._hurry = False
        return True

    # ---- sending

    def send(self, reading: ByteRange, data: bytes) -> None:
        """Send the messages in `data`, unless the replay is stopped or held."""
        replay, segment = reading.replay, reading.segment
        replay.reading = False
        # The read began before `hold`: a message sent now would be counted both on disk and in the producer. The bytes are read again.
        if self.stopped or self.holds:
            return
        found, replay.least = cut(data), 0
        if not data:  # another program has truncated the file
            self._skip(replay, segment, reading.offset, segment.size)
        elif found:
            self._send_all(replay, segment, reading.offset, found, [])
        elif reading.offset + len(data) < segment.size and len(data) == reading.length:
            replay.least = max(2 * reading.length, LARGEST_READ)  # the frame is longer than the read, or damaged
        else:
            whole = salvage(data)
            ranges = [(start, end) for start, end in (*whole.damaged, (whole.end, len(data))) if end > start]
            self._send_all(replay, segment, reading.offset, whole.frames, ranges)

    def unreadable(self, reading: ByteRange, refused: OSError) -> None:
        """Skip the rest of the segment after a failed read, or pause if only file descriptors or memory are short."""
        reading.replay.reading = False
        if refused.errno in OUT_OF:
            self._freed = False
            reading.replay.paused_until = self._clock() + LONGEST_PAUSE_S
            return
        log.warning("spool: cannot read %s from byte %d on: %s", reading.segment.path, reading.offset, refused.strerror or refused)
        self._skip(reading.replay, reading.segment, reading.offset, reading.segment.size)

    def _send_all(
        self, replay: TopicReplay, segment: Segment, base: int, frames: list[tuple[int, bytes]], damaged: list[tuple[int, int]]
    ) -> None:
        waiting = deque(damaged)
        begin, share = base, self._share()
        for end, message in frames:
            if waiting and base + waiting[0][0] == begin:
                begin = self._skip(replay, segment, begin, base + waiting.popleft()[1])
            if replay.in_flight >= share and replay.in_flight:  # the share is used up; the other frames are read again later
                return
            if not self._send(replay, segment, base + end, message):
                return
            begin = base + end
        for start, end in waiting:
            self._skip(replay, segment, base + start, base + end)
        replay.length = min(LARGEST_READ, 2 * replay.length)
        replay.pause_s = PAUSE_S

    def _send(self, replay: TopicReplay, segment: Segment, end: int, message: bytes) -> bool:
        """Send a message; return False if it must wait, True if it was sent, discarded or skipped."""
        try:
            delivery = self.sender.send_spooled(parse(message, self._empty))
        except (KafkaError, MemoryError):  # no room, or the producer has ended or failed
            self._freed = False
            replay.paused_until = self._clock() + max(replay.pause_s, len(self._turns) * PAUSE_OF_EACH_S)
            replay.pause_s = min(LONGEST_PAUSE_S, 2 * replay.pause_s)
            replay.length = FIRST_READ
            return False
        except Refused:  # a frame with the right checksum, in a format that this agent does not know
            self._skip(replay, segment, end - len(message) - 4, end)
            return True
        cost = len(message) + RECORD_COST
        replay.in_flight += cost
        replay.fifo.sent_to(end, 1)
        replay.sent.append(SentPart(segment, end, 1, cost, delivery, message))
        return True

    def _skip(self, replay: TopicReplay, segment: Segment, start: int, end: int) -> int:
        log.warning(
            "spool: bytes %d to %d of %s are damaged; their messages of topic %s are lost", start, end, segment.path, replay.fifo.topic
        )
        replay.fifo.skipped_to(end, end - start)
        replay.sent.append(SentPart(segment, end, 0, 0, None, b""))
        return end

    # ---- acknowledgements

    def remove_done(self, wake: Callable[[object], object]) -> list[Fifo]:
        """Remove acknowledged and discarded messages from the disk; return the FIFOs that became empty.

        `wake` is called, on any thread, when there may be more to remove.
        """
        emptied: list[Fifo] = []
        left = MOST_AT_ONCE
        for replay in list(self._turns):
            done = self._remove_done_of(replay, wake, left)
            left -= done
            if done and replay.fifo.empty:
                emptied.append(replay.fifo)
                left -= LEAVING_COST
            if left <= 0:
                wake(None)
                break
        return emptied

    def _remove_done_of(self, replay: TopicReplay, wake: Callable[[object], object] | None, most: float = math.inf) -> int:
        """Remove a topic's messages that are done, at most `most`; return the number of removed parts."""
        before = len(replay.sent)
        while replay.sent and before - len(replay.sent) < most:
            first = replay.sent[0]
            if first.delivery is not None and not first.delivery.done():
                # Only the oldest delivery calls back: no message can leave before this one.
                if wake is not None and replay.watched is not first.delivery:
                    replay.watched = first.delivery
                    first.delivery.add_done_callback(wake)
                break
            if first.delivery is not None and given_up(first.delivery):
                break
            replay.sent.popleft()
            self._hurry = self._freed = True
            replay.in_flight -= first.cost
            lost = replay.fifo.done_to(first.segment, first.end, first.count)
            if lost:
                self._discards.damaged(replay.fifo.topic, lost)
        return before - len(replay.sent)

    def unsettled(self) -> dict[str, list[Unsettled]]:
        """Return the sent messages without a definite outcome, by topic, after the producer has ended."""
        for replay in self._turns:
            self._remove_done_of(replay, None)
        return {
            topic: [
                Unsettled(sent.message, sent.delivery.partition, sent.delivery.timestamp_ms, _has_crashed(sent.delivery))
                for sent in replay.sent
                if sent.delivery is not None and (not sent.delivery.done() or given_up(sent.delivery))
            ]
            for topic, replay in self._topics.items()
        }


def given_up(delivery: Delivery) -> bool:
    """Whether a message failed only because the producer ended or crashed."""
    error = delivery.exception(0)
    return isinstance(error, DeliveryFailed) and error.code in GIVEN_UP


def _has_crashed(delivery: Delivery) -> bool:
    error = delivery.exception(0) if delivery.done() else None
    return isinstance(error, DeliveryFailed) and error.code == KafkaError.code
