"""Sends dead letters for records that a deserializer has refused. Invariant: `judge` lets reading pass such a record only
when its dead letter is acknowledged.
"""

from __future__ import annotations

from typing import Final

import attrs

from pykafka4.client.client import Client
from pykafka4.client.runtime import Runtime
from pykafka4.consumer.dead_letters import DeadLetters
from pykafka4.consumer.reading.deserializing import OnPoison
from pykafka4.errors import BufferFull, DeserializationError, KafkaError
from pykafka4.misuse import check_topic
from pykafka4.options.config import ClientConfig, ConsumerConfig
from pykafka4.producer.session import ProducerSession
from pykafka4.wire.records.hot import Delivery

__all__ = ["PoisonTopic"]

Position = tuple[str, int, int]  # topic, partition, offset

MIB: Final = 1 << 20
MOST_SENT: Final = 10_000  # at this number, letters with outcomes are dropped: otherwise letters of unread partitions would fill memory
# Far above the usual limits of brokers: the broker decides whether to accept a dead letter, which its headers make larger than its record.
LIMITS: Final = {"buffer_memory": 256 * MIB, "max_partition_bytes": 256 * MIB, "max_request_size": 128 * MIB}


class PoisonTopic(OnPoison):
    """Implements `on_poison="dead-letter:<topic>"` with a producer on the consumer's client. Used by the thread that polls or closes."""

    def __init__(self, topic: str, config: ConsumerConfig, runtime: Runtime) -> None:
        """Raises ConfigError for a topic that cannot exist."""
        client = ClientConfig(**{a.name: getattr(config, a.name) for a in attrs.fields(ClientConfig)})
        self._topic, self._group = check_topic(topic), config.group_id
        self._session = ProducerSession(Client.of(runtime, client), None, {**LIMITS, "on_full": "raise"})
        self._sent: dict[Position, Delivery] = {}  # dead letters whose outcomes `judge` has not used
        self.passed = 0

    def open(self) -> None:
        """Start the producer last: it would keep running if the construction of the consumer failed later."""
        self._session.open()
        self._letters = DeadLetters(self._topic, self._session.acc, self._group)

    def judge(self, error: DeserializationError) -> KafkaError | Delivery | None:
        position = error.topic, error.partition, error.offset
        delivery = self._sent.get(position)
        if delivery is None:
            return self._send(position, error)
        if not delivery.done():
            return delivery
        refused = delivery.exception(0)
        del self._sent[position]
        if refused is not None:
            return _lost(error, refused)
        self.passed += 1
        return None

    def _send(self, position: Position, error: DeserializationError) -> KafkaError | Delivery:
        if error.topic == self._topic:  # its dead letter would be read and refused again, without end
            return error
        try:
            sent = self._letters.send(error.record, 1, error.__cause__ or error)
        except BufferFull as full:
            waiting = next((each for each in self._sent.values() if not each.done()), None)
            return _lost(error, full) if waiting is None else waiting
        except Exception as refused:
            return _lost(error, refused)
        if len(self._sent) >= MOST_SENT:  # drop letters with outcomes: a letter is sent again if its record is read again
            self._sent = {at: each for at, each in self._sent.items() if not each.done()}
        self._sent[position] = sent
        return sent

    def close(self, timeout: float) -> None:
        self._session.close(timeout)


def _lost(error: DeserializationError, refused: BaseException) -> DeserializationError:
    error.add_note(
        f"pykafka4: its dead letter was not acknowledged ({type(refused).__name__}: {refused}); seek to {error.offset} to try again"
    )
    return error
