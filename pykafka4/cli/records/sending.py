"""Sends blocks of input. Invariant: each item is accepted or reported as a failure, unless an error other than a refusal ends the
command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from pykafka4.cli.records.inputs import Block
from pykafka4.cli.records.json_text import NotSendable, read_row
from pykafka4.cli.records.outcomes import Outcomes
from pykafka4.errors import BufferFull, RecordTooLarge
from pykafka4.producer import Producer
from pykafka4.wire.records.hot import Delivery

__all__ = ["Send", "send_plain", "send_rows"]

Send = Callable[[Producer, Block, Outcomes], None]
REFUSALS = (RecordTooLarge, BufferFull, ValueError, NotSendable)  # errors of one record; any other error ends the command


@attrs.frozen
class Plain:
    """Sends items that are values, or keys and values."""

    topic: str
    separator: bytes | None  # the text between key and value
    key: bytes | None  # the key of items without a key of their own; not empty if `null` is set
    null: bool  # whether an empty key or value is a null
    more: dict[str, Any]  # other arguments of `send_many`

    def __call__(self, producer: Producer, block: Block, outcomes: Outcomes) -> None:
        """Send the items of `block`. Report refused items to `outcomes`; raise any other error."""
        keys, values = self._pairs(block)
        at, count = 0, len(block.items)
        while at < count:
            how = self.more if keys is None else {**self.more, "keys": keys[at:] if at else keys}
            try:
                deliveries = producer.send_many(self.topic, values[at:] if at else values, **how)
            except BaseException as error:  # of any kind, because the records before the error are accepted, and need their outcomes
                accepted: list[Delivery] = getattr(error, "accepted", [])
                outcomes.add(block, at, accepted)
                if not isinstance(error, REFUSALS):
                    raise
                at += len(accepted)
                outcomes.fail(block, at, error)
                at += 1  # continue after the refused record
            else:
                outcomes.add(block, at, deliveries)
                return

    def _pairs(self, block: Block) -> tuple[Sequence[bytes | None] | None, Sequence[bytes | None]]:
        separator, items = self.separator, block.items
        if separator is None:
            return None if self.key is None else [self.key] * len(items), self._nulls(items)
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        for item in items:
            key, found, value = (item or b"").partition(separator)
            keys.append(key if found else self.key)
            values.append(value if found else item)
        return self._nulls(keys), self._nulls(values)

    def _nulls(self, items: Sequence[bytes | None]) -> Sequence[bytes | None]:
        return [item or None for item in items] if self.null else items


def send_plain(topic: str, separator: bytes | None, key: bytes | None, null: bool, **more: Any) -> Send:
    """The key of an item is the text before the separator, otherwise `key`. `more`: arguments of `send_many`."""
    return Plain(topic, separator, (key or None) if null else key, null, more)


def send_rows(topic: str) -> Send:

    def send(producer: Producer, block: Block, outcomes: Outcomes) -> None:
        first, sent = 0, list[Delivery]()
        try:
            for index, line in enumerate(block.items):
                try:
                    sent.append(_send_row(producer, topic, line or b""))
                except REFUSALS as error:
                    outcomes.add(block, first, sent)
                    first, sent = index + 1, []
                    outcomes.fail(block, index, error)
        finally:  # also after another error or Ctrl-C, because the sent records still need their outcomes
            outcomes.add(block, first, sent)

    return send


def _send_row(producer: Producer, topic: str, line: bytes) -> Delivery:
    row = read_row(line)
    return producer.send(topic, row.value, key=row.key, headers=row.headers, partition=row.partition, timestamp_ms=row.timestamp_ms)
