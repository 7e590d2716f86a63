"""Neighbours of the spool for its tests: a clock, a ledger, a producer that acknowledges when it is told to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pykafka4.agent.message import Message, Reason
from pykafka4.agent.settings.values import SpoolSettings
from pykafka4.agent.spool.replay import Replay
from pykafka4.agent.spool.spool import Spool
from pykafka4.errors import BufferFull, DeliveryFailed
from pykafka4.records import ProducerRecord, Written

__all__ = ["FakeDelivery", "FakeLedger", "FakeSender", "World", "message"]


def message(topic: str, number: int, size: int = 10, partition_key: int | None = None) -> Message:
    """The message with this number; its key and value are not empty."""
    return topic, str(number).encode().rjust(size, b"."), b"k", partition_key, 1_000 + number


def number_of(given: Message) -> int:
    assert given[1] is not None
    return int(given[1].lstrip(b"."))


class FakeDelivery:
    def __init__(self, sent: Message) -> None:
        self.message, self.timestamp_ms = sent, sent[4]
        self.partition: int | None = None
        self.outcome: str | None = None  # "ACKED", or the code of a failure
        self.callbacks: list[Callable[[object], object]] = []

    def done(self) -> bool:
        return self.outcome is not None

    def exception(self, timeout: float | None = None) -> DeliveryFailed | None:
        assert self.outcome is not None
        return None if self.outcome == "ACKED" else DeliveryFailed(self.message[0], 0, self.outcome, Written.NO, None, None)

    def add_done_callback(self, function: Callable[[object], object]) -> None:
        self.callbacks.append(function)

    def end(self, outcome: str) -> None:
        self.outcome = outcome
        for function in self.callbacks:
            function(self)


class FakeSender:
    """A producer with room for `room` messages."""

    def __init__(self, room: int = 10**9) -> None:
        self.room = room
        self.waiting: list[FakeDelivery] = []
        self.sent: list[Message] = []
        self.hurried = self.attempts = 0

    def send_spooled(self, given: Message) -> FakeDelivery:
        self.attempts += 1
        if len(self.waiting) >= self.room:
            raise BufferFull("full")
        self.sent.append(given)
        self.waiting.append(FakeDelivery(given))
        return self.waiting[-1]

    def hurry(self) -> None:
        self.hurried += 1

    def end(self, outcome: str = "ACKED", count: int | None = None) -> None:
        """The oldest `count` messages get this outcome; None: all."""
        ended = self.waiting[:count]
        del self.waiting[: len(ended)]
        for delivery in ended:
            delivery.end(outcome)


class FakeLedger:
    def __init__(self) -> None:
        self.lost: Counter[tuple[str, Reason]] = Counter()
        self.were_kept: Counter[str] = Counter()
        self.reasons_of_kept: set[Reason] = set()
        self.messages: list[Message] = []

    def discarded(self, given: Message, reason: Reason) -> None:
        self.lost[given[0], reason] += 1
        self.messages.append(given)

    def damaged(self, topic: str, count: int) -> None:
        self.lost[topic, Reason.SPOOL_DAMAGED] += count

    def kept(self, topic: str, reason: Reason, count: int) -> None:
        self.were_kept[topic] += count
        self.reasons_of_kept.add(reason)


class World:
    """A spool whose tasks are run by hand, on a clock that stands still."""

    def __init__(self, folder: Path, *, window: int = 2**20, room: int = 10**9, **settings: object) -> None:
        self.now = 0.0
        self.settings = SpoolSettings(path=folder, **settings)  # type: ignore[arg-type]
        self.window, self.room = window, room
        self.begin()

    def begin(self) -> None:
        """A new process."""
        self.ledger = FakeLedger()
        self.sender = FakeSender(self.room)
        self.spool = Spool(self.settings, self.ledger, None, lambda: self.now)
        self.spool.begin(self.sender, self.window)  # type: ignore[arg-type]

    @property
    def replay(self) -> Replay:
        assert self.spool.replay is not None
        return self.spool.replay

    def add(self, *messages: Message) -> None:
        for given in messages:
            self.spool.add(given)
        self.spool.write()

    def count(self) -> None:
        """What the counting task does."""
        for fifo in self.spool.uncounted():
            fifo.inspect()
            self.spool.counted(fifo)

    def run(self) -> None:
        """What the sending task does, until there is nothing to do."""
        self.count()
        self.spool.remove_done(lambda _: None)
        while (reading := self.replay.next_reading()) is not None:
            try:
                data = reading.segment.read(reading.offset, reading.length)
            except OSError as refused:
                self.replay.unreadable(reading, refused)
            else:
                self.replay.send(reading, data)
            self.spool.remove_done(lambda _: None)

    def crash(self) -> None:
        """kill -9: nothing is closed but what the system closes."""
        self.spool.abandon()

    def restart(self) -> None:
        self.crash()
        self.begin()

    def sent(self, topic: str) -> list[int]:
        """The numbers of the messages that this process has sent."""
        return [number_of(given) for given in self.sender.sent if given[0] == topic]


def undelivered(given: Message, partition: int | None = None) -> ProducerRecord:
    topic, value, key, _, timestamp_ms = given
    return ProducerRecord(topic, value, key, (), partition, timestamp_ms)
