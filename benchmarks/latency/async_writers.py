"""Wraps the producers for asyncio. The invariants of `writers` hold.

`open` and `close` are coroutines because asyncio's clients need a running loop for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from benchmarks.latency.load import VALUE, WAIT_S, Spec
from benchmarks.latency.writers import Note

__all__ = ["AsyncWriter", "async_writer"]


class AsyncWriter(Protocol):
    """The calls that all of them have. `sent` counts the records."""

    sent: int

    async def open(self) -> None:
        """Connect, and wait until the first record is acknowledged."""

    async def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        """Send a record. `note` is called with the error, or with None, when the record has its outcome."""

    async def send_one(self) -> None:
        """Send a record and wait until it is acknowledged."""

    async def close(self) -> None:
        """Wait until every record is acknowledged, and close."""


class Ours:
    def __init__(self, spec: Spec) -> None:
        self._spec, self.sent = spec, 0

    async def open(self) -> None:
        import pykafka4

        self._producer = pykafka4.Producer(bootstrap_servers=self._spec.bootstrap, **self._spec.options)
        await self.send_one()

    async def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        raise NotImplementedError("measured in a program with threads")

    async def send_one(self) -> None:
        self.sent += 1
        await self._producer.send(self._spec.topic, VALUE)

    async def close(self) -> None:
        self._producer.close(WAIT_S)


class Aiokafka:
    def __init__(self, spec: Spec) -> None:
        self._spec, self.sent = spec, 0

    async def open(self) -> None:
        import aiokafka

        self._producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=self._spec.bootstrap, acks="all", enable_idempotence=True, **self._spec.options
        )
        await self._producer.start()
        await self.send_one()

    async def send(self, note: Note | None = None, value: bytes = VALUE) -> None:
        self.sent += 1
        future = await self._producer.send(self._spec.topic, value)
        if note is not None:
            future.add_done_callback(lambda done: note(done.exception()))

    async def send_one(self) -> None:
        self.sent += 1
        await self._producer.send_and_wait(self._spec.topic, VALUE)

    async def close(self) -> None:
        await self._producer.stop()


WRITERS: dict[str, Callable[[Spec], AsyncWriter]] = {"pykafka4": Ours, "aiokafka": Aiokafka}


def async_writer(spec: Spec) -> AsyncWriter:
    return WRITERS[spec.client](spec)
