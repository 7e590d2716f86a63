"""Sends the rows of Arrow data. Invariant: `send_arrow` accepts and refuses each row as a loop of `send` over the rows would.

Without serializers and without a hook `on_send` or `on_enqueue`, the accumulator reads the rows itself. Otherwise each row becomes the
arguments of one `send`.
"""

from __future__ import annotations

from typing import Any

from pykafka4.misuse import check_topic
from pykafka4.producer.serializing import Serializing
from pykafka4.producer.session import ProducerSession
from pykafka4.wire.records.hot import ArrowRows, Delivery, SentRows
from pykafka4.wire.records.rows import rows_ended

__all__ = ["open_rows", "send_arrow"]


def open_rows(session: ProducerSession, topic: str, data: Any, columns: dict[str, str | None]) -> ArrowRows:
    """Raise the producer's refusal, if any, before opening `data`, which may be readable only once."""
    if (refusal := session.acc.refusal) is not None:
        raise refusal.again()
    return ArrowRows(check_topic(topic), data, **columns)


def send_arrow(session: ProducerSession, topic: str, data: Any, columns: dict[str, str | None]) -> SentRows:
    rows = open_rows(session, topic, data, columns)
    if session.sending is None:
        return session.acc.send_rows(rows)
    return _send_each(session.acc.send_rows(rows, None, 0), rows, session.sending)


def _send_each(sent: SentRows, rows: ArrowRows, sending: Serializing) -> SentRows:
    accepted: list[Delivery] = []
    try:
        while rows.has_row():
            value, key, headers, partition, timestamp_ms = rows.arguments()
            sending.send_into(accepted, rows.topic, value, key, (headers, partition, timestamp_ms), None)
            sent.took(rows, accepted[-1])
            accepted.clear()
    except BaseException as error:
        if accepted:  # an exception came before `clear`, perhaps before `took`: otherwise the row would be sent but not counted
            sent.took(rows, accepted[-1])
        rows_ended(error, rows.topic, rows.position, sent)
        raise
    return sent
