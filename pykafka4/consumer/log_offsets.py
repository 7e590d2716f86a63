"""Looks up offsets of logs for the application, without moving the consumer. Rule: one look-up asks all leaders at the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pykafka4.client.attachment import Attachment
from pykafka4.consumer.waits import Steps, Waits
from pykafka4.core.consumer.lookup import Found, Lookup
from pykafka4.core.consumer.machine import ConsumerMachine
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.net.handoff.waiting import Promise

__all__ = ["LogOffsets"]


class LogOffsets:
    """The look-ups of one consumer."""

    def __init__(self, attachment: Attachment[ConsumerMachine], waits: Waits) -> None:
        self._attachment, self._waits = attachment, waits

    def looking_up(self, topics: Mapping[str, Collection[int] | None], timestamps: Collection[int], timeout: float) -> Steps[Found]:
        """The offsets of these partitions (None: all of the topic) for each of `timestamps`: EARLIEST, LATEST or milliseconds.

        Raises BrokerError for a topic or partition that does not exist, AuthorizationError, and KafkaTimeoutError after `timeout` seconds.
        """
        attachment = self._attachment
        promise: Promise[Found] = attachment.promise()
        begun: list[Lookup] = []

        def done(found: Found | KafkaError) -> None:
            if isinstance(found, KafkaError):
                promise.set_exception(found)
            else:
                promise.set_result(found)

        def begin(now: float) -> None:
            begun.append(attachment.machine.fetcher.lookup(topics, timestamps, done))
            begun[0].begin(now)

        attachment.post(begin)
        try:
            return (yield from self._waits.result(promise, timeout))
        except KafkaTimeoutError as error:
            late = f"; no result for {begun[0].waits_for}" if begun else ""
            raise KafkaTimeoutError(f"looking up offsets of {', '.join(topics)}: {error}{late}") from None
        finally:
            attachment.post(lambda _: begun[0].stop())
