"""Sends the rows of Arrow data from a task. Invariant: other tasks run after every `SLICE` rows.

The exporter of a stream may compute each batch only when it is read, or wait for data. So a separate thread reads each batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pykafka4.aio.tasks import EventLoopBinding
from pykafka4.producer.attempts import WouldBlock
from pykafka4.producer.session import ProducerSession
from pykafka4.wire.records.hot import ArrowRows, Delivery, SentRows
from pykafka4.wire.records.rows import rows_ended

__all__ = ["READING", "RowsTask"]

READING: Final = "pykafka4-arrow"  # the name of threads that read Arrow data
SLICE: Final = 4096  # rows that are sent before other tasks run


class RowsTask:
    def __init__(self, binding: EventLoopBinding, session: ProducerSession, rows: ArrowRows) -> None:
        self._binding, self._session, self._rows = binding, session, rows
        self._sent = session.acc.send_rows(rows, None, 0)

    async def run(self, offer: Callable[[Callable[[], Any]], Awaitable[Any]]) -> SentRows:
        """`offer(attempt)` calls `attempt()`, and waits after each WouldBlock, until a call succeeds."""
        try:
            while await self._has_row():
                await offer(self._attempt)
                await asyncio.sleep(0)
        except BaseException as error:
            rows_ended(error, self._rows.topic, self._rows.position, self._sent)
            raise
        return self._sent

    async def run_each(self, send: Callable[..., Awaitable[Delivery]]) -> SentRows:
        """Send row by row, through hooks and serializers."""
        accepted: list[Delivery] = []
        try:
            while await self._has_row():
                value, key, headers, partition, timestamp_ms = self._rows.arguments()
                place = {"headers": headers, "partition": partition, "timestamp_ms": timestamp_ms}
                accepted.append(await send(self._rows.topic, value, key=key, **place))
                self._sent.took(self._rows, accepted.pop())
                if self._rows.position % SLICE == 0:
                    await asyncio.sleep(0)
        except BaseException as error:
            rows_ended(error, self._rows.topic, self._rows.position, self._sent)
            raise
        return self._sent

    def _attempt(self) -> None:
        """Send up to `SLICE` rows. Raises WouldBlock if not even the next row can be sent."""
        before = self._rows.position
        try:
            self._session.acc.send_rows(self._rows, self._sent, min(SLICE, self._rows.left))
        except WouldBlock:
            if self._rows.position == before:
                raise

    async def _has_row(self) -> bool:
        if self._rows.left:
            return True
        return await self._binding.run_on_thread(self._rows.has_row, self._session.config.client_id, READING)
