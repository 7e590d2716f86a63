"""Running. A consumer of group `g` whose records of `t` are handled: by `process` on threads, by `aio.process`, or by a stream."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from integration.waiting import until
from pykafka4 import Consumer, aio
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.records.hot import Record
from tests.consumer.consuming import LONG
from tests.inspection import inspect

HOWS = ("process", "tasks", "streams")
QUICK = {"group_id": "g", "enable_auto_commit": False, "fetch_max_wait_ms": 50, "heartbeat_interval_ms": 50, "metadata_max_age_ms": 500}


class Running:
    """One run, on a thread of its own. The end of a `with` block ends it, and closes the consumer."""

    def __init__(self, server: ModelServer, how: str, handle: Callable[[Record], object] = lambda record: None, **options: Any) -> None:
        self._how, self._handle, self._stop = how, handle, threading.Event()
        options = {"bootstrap_servers": server.bootstrap_servers, **QUICK, **options}
        self.drain, self._listener = options.pop("drain_timeout", LONG), options.pop("listener", None)
        self._limits = {"drain_timeout": self.drain, "max_in_hand": options.pop("max_in_hand", 1_000)}
        self.consumer: Any = (aio.Consumer if how == "tasks" else Consumer)(**options)
        self.handled: list[Record] = []
        self.error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        if self._how != "tasks":
            self.consumer.close(2)

    def end(self) -> None:
        """End the run; the consumer stays open, but for one of tasks."""
        self._stop.set()
        self.consumer.wakeup()
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def closes(self, timeout: float) -> float:
        """Close the consumer, in another thread or task than that of the run; how many seconds it took."""
        began = time.monotonic()
        if self._how == "tasks":
            assert self._loop is not None
            asyncio.run_coroutine_threadsafe(self.consumer.close(timeout), self._loop).result(LONG)
        else:
            self.consumer.close(timeout)
        return time.monotonic() - began

    def cancel(self) -> None:
        """Cancel the run, if it is one of tasks."""
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def begun(self, *partitions: int) -> Running:
        """When the places where it begins to read are known."""
        session = inspect(self.consumer).session
        until(lambda: {TopicPartition("t", p) for p in partitions or (0,)} <= session.taken_offsets().keys(), LONG, "where reading begins")
        return self

    def position(self, partition: int = 0) -> int | None:
        """Where the consumer stands."""
        claim = inspect(self.consumer).session.reader.claims.get(TopicPartition("t", partition))
        return None if claim is None else claim.position

    def got(self, count: int) -> Running:
        """When so many records were given to handlers."""
        until(lambda: len(self.handled) >= count, LONG, lambda: f"{count} records; there are {self.offsets}, {self.error!r}")
        return self

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in self.handled]

    def _note(self, record: Record) -> object:
        self.handled.append(record)
        return self._handle(record)

    def _run(self) -> None:
        try:
            if self._how == "tasks":
                asyncio.run(self._run_tasks())
            elif self._how == "process":
                self.consumer.subscribe(["t"], self._listener)
                self.consumer.process(self._note, "partition", stop=self._stop, **self._limits)
            else:
                self._stream()
        except BaseException as error:
            self.error = error

    async def _run_tasks(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with self.consumer as consumer:
            consumer.subscribe(["t"], self._listener)
            await consumer.process(self._note, "partition", stop=self._stop, **self._limits)

    def _stream(self) -> None:
        with self.consumer.streams({"t": 1}, listener=self._listener, **self._limits) as streams:
            threading.Thread(target=lambda: [self._note(record) for record in streams[0]], daemon=True).start()
            self._stop.wait(LONG)
