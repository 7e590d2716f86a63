"""Passes each message to the producer or to the spool, or discards it. Invariant: calls by the inputs neither wait for the
cluster nor raise.

A message is checked in this order: a topic unknown to brokers; the topic's rate limit; whether the spool must take it; the topic's
name; the message's size; room in the pool. The limit comes before the disk, so a message is counted in the interval of its arrival.
The messages of a new topic wait in the pool until the producer has found out whether the topic exists.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.limits import ArrivalLimits
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.agent.unknown import UnknownTopics
from pykafka4.errors import BufferFull, ClosedError, ForkedClientError, KafkaError, RecordTooLarge
from pykafka4.producer import Producer
from pykafka4.wire.records.hot import Delivery

__all__ = ["AHEAD_MS", "Router", "SpoolSeam", "reason_of_refusal"]

log = logging.getLogger("pykafka4.agent")

# How far a client's clock may be ahead: by default, brokers since Kafka 4.0 refuse later timestamps (message.timestamp.after.max.ms).
AHEAD_MS: Final = 3_600_000
# The first row that fits applies: RecordTooLarge is a ValueError, as is the error for an illegal name.
REASONS: Final = (
    (BufferFull, Reason.NO_MEM),
    (MemoryError, Reason.NO_MEM),
    (RecordTooLarge, Reason.LONG_MSG),
    (ValueError, Reason.BAD_TOPIC),
    (ClosedError, Reason.SERVER_SHUTDOWN),
    (ForkedClientError, Reason.SERVER_SHUTDOWN),
)


class SpoolSeam(Protocol):
    """The methods of the spool that the router calls. None waits for the cluster or raises."""

    def takes(self, topic: str) -> bool:
        """Whether the topic's next message must be added to the spool."""

    def add(self, message: Message) -> None:
        """Put a message behind its topic's earlier messages, for the next `write`; or discard and count the message."""

    def write(self) -> None:
        """Write the added messages."""


class Router:
    """The Intake of the inputs and the Sender of the spool. The agent's loop calls all methods except `counters` and `hurry`."""

    def __init__(
        self,
        producer: Producer,
        ledger: Ledger,
        limits: ArrivalLimits | None = None,
        spool: SpoolSeam | None = None,
        unknown: UnknownTopics | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`unknown` is a hook of the producer; `wall_clock` is in seconds."""
        self._producer, self._send, self._ledger = producer, producer.send, ledger
        self._limits, self._spool, self._clock = limits, spool, wall_clock
        self._unknown = UnknownTopics() if unknown is None else unknown
        self._logged: set[type[BaseException]] = set()
        self.timestamps_replaced = 0

    def limit(self, limits: ArrivalLimits | None) -> None:
        """Replace the rate limits; all intervals start again."""
        self._limits = limits

    def counters(self) -> dict[str, int]:
        return {"TimestampsReplaced": self.timestamps_replaced}

    # -- Intake

    def accept(self, messages: list[Message], source: Source) -> None:
        self._ledger.received(len(messages), source)
        if self._unknown:
            messages = self._not_denied(self._unknown, messages)
        if self._limits is not None:
            messages = self._within_limits(self._limits, messages)
        if self._spool is None:
            self._pass(messages)
        else:
            self._pass_or_spool(self._spool, messages)

    def refuse(self, data: bytes, refused: Refused, source: Source) -> None:
        self._ledger.refused(data, refused, source)

    # -- Sender

    def send_spooled(self, message: Message) -> Delivery | None:
        """See Sender. Unknown topics are not refused here: for a message from the disk, the producer asks the brokers again."""
        try:
            return self._send_one(message, self._latest())
        except Exception as error:
            if _waits_on_disk(error):
                raise
            self._ledger.discarded(message, self._reason(error))
            return None

    def hurry(self) -> None:
        with contextlib.suppress(KafkaError):  # the timeout of 0 s has passed, or the producer has ended
            self._producer.flush(0)

    # -- the way of each message

    def _pass(self, messages: list[Message]) -> None:
        """The hot path: names are local, and each message costs only a call of `send`."""
        send, latest = self._send, self._latest()
        for topic, value, key, partition_key, timestamp_ms in messages:
            try:
                if 0 < timestamp_ms <= latest:
                    send(topic, value, key=key, partition=partition_key, timestamp_ms=timestamp_ms)
                else:
                    send(topic, value, key=key, partition=partition_key)
                    self.timestamps_replaced += 1
            except Exception as error:
                self._ledger.discarded((topic, value, key, partition_key, timestamp_ms), self._reason(error))

    def _pass_or_spool(self, spool: SpoolSeam, messages: list[Message]) -> None:
        takes, add, latest = spool.takes, spool.add, self._latest()
        for message in messages:
            if takes(message[0]):
                add(self._stamped(message, latest))
                continue
            try:
                self._send_one(message, latest)
            except Exception as error:
                if _waits_on_disk(error):
                    add(self._stamped(message, latest))
                else:
                    self._ledger.discarded(message, self._reason(error))
        spool.write()

    def _send_one(self, message: Message, latest: float) -> Delivery:
        topic, value, key, partition_key, timestamp_ms = message
        if 0 < timestamp_ms <= latest:
            return self._send(topic, value, key=key, partition=partition_key, timestamp_ms=timestamp_ms)
        delivery = self._send(topic, value, key=key, partition=partition_key)
        self.timestamps_replaced += 1
        return delivery

    def _stamped(self, message: Message, latest: float) -> Message:
        """Replace an unusable timestamp with the time of arrival, because the message may stay on disk for a long time."""
        if 0 < message[4] <= latest:
            return message
        self.timestamps_replaced += 1
        return (*message[:4], int(self._clock() * 1000))

    def _latest(self) -> float:
        """Return the latest timestamp that is sent. The current time replaces later timestamps, and timestamps that are not positive.

        Brokers may refuse later timestamps, and soon delete messages from 1970, which are older than the topic's retention.
        """
        return self._clock() * 1000 + AHEAD_MS

    def _not_denied(self, unknown: UnknownTopics, messages: list[Message]) -> list[Message]:
        kept = []
        for message in messages:
            if unknown.denies(message[0]):
                self._ledger.discarded(message, unknown.reason)
            else:
                kept.append(message)
        return kept

    def _within_limits(self, limits: ArrivalLimits, messages: list[Message]) -> list[Message]:
        kept = []
        for message in messages:
            if limits.admits(message[0]):
                kept.append(message)
            else:
                self._ledger.discarded(message, Reason.RATE_LIMIT)
        return kept

    def _reason(self, error: Exception) -> Reason:
        """Return the reason for an exception of `send`. Logs each unexpected kind of exception once."""
        reason = reason_of_refusal(error)
        if reason is Reason.BUG and type(error) not in self._logged:
            self._logged.add(type(error))
            log.critical("agent: a bug: a message could not be passed to the producer", exc_info=error)
        return reason


def _waits_on_disk(error: Exception) -> bool:
    """Whether `error` means that there is no room, or that the producer has ended or crashed."""
    return isinstance(error, (KafkaError, MemoryError)) and not isinstance(error, ValueError)


def reason_of_refusal(error: BaseException) -> Reason:
    return next((reason for kind, reason in REASONS if isinstance(error, kind)), Reason.BUG)
