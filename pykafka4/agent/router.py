"""Passes each message to the producer or to the spool, or discards it. Invariant: no call waits."""

from __future__ import annotations

from pykafka4.agent.account.ledger import Ledger
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.errors import BufferFull, RecordTooLarge
from pykafka4.producer import Producer

__all__ = ["Router"]


class Router:
    """The way of a message, on the agent's loop."""

    def __init__(self, producer: Producer, ledger: Ledger) -> None:
        self._producer, self._ledger = producer, ledger

    def accept(self, messages: list[Message], source: Source) -> None:
        """See Intake."""
        self._ledger.received(len(messages), source)
        for message in messages:
            topic, value, key, partition_key, timestamp_ms = message
            try:
                self._producer.send(topic, value, key=key, partition=partition_key, timestamp_ms=timestamp_ms)
            except BufferFull:
                self._ledger.discarded(message, Reason.NO_MEM)
            except RecordTooLarge:
                self._ledger.discarded(message, Reason.LONG_MSG)
            except ValueError:
                self._ledger.discarded(message, Reason.BAD_TOPIC)

    def refuse(self, data: bytes, refused: Refused, source: Source) -> None:
        """See Intake."""
        self._ledger.refused(data, refused, source)
