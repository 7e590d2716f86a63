"""The fetch buffer: what its items add to the count of bytes that were read."""

from __future__ import annotations

from typing import Any

from pykafka4.consumer.reading.fetch_buffer import FetchBuffer


class Reading:
    """Stands for a claim."""

    consumed = 0


def test_an_item_that_is_no_chunk_has_no_bytes() -> None:
    buffer, claim = FetchBuffer(), Reading()
    reading: Any = claim
    event = object()
    buffer.append(reading, event, aside=False)
    assert buffer.first is event
    buffer.pop(reading)
    assert buffer.first is None
    assert (buffer.consumed, claim.consumed) == (0, 0)
