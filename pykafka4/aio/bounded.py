"""Reads topics between two offsets of each partition, in a task. Invariant: a cancelled step loses no record.

`bounded.read` does the same on threads. Here the first step looks up the ends, because the plain call `read` cannot wait.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from pykafka4.aio.session import TaskConsumerSession
from pykafka4.aio.waits import run
from pykafka4.bounded.extent import as_extent
from pykafka4.bounded.progress import counted, progress_for
from pykafka4.bounded.read import CLOSE_S, forgotten
from pykafka4.bounded.reading import BoundedRead, LostRange, read_options
from pykafka4.bounds import BoundSpec, Span
from pykafka4.client.client import Client
from pykafka4.consumer.guard import Iteration
from pykafka4.errors import ClosedError, InvalidOffset
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout
from pykafka4.options.typed import ConsumerOptions
from pykafka4.records import TopicPartition
from pykafka4.splits import Split
from pykafka4.wire.records.hot import Record

__all__ = ["Read", "read"]


@guarded
def read(
    topics: str | Iterable[str] | None = None,
    *,
    start: BoundSpec = "earliest",
    until: BoundSpec = "now",
    partitions: Iterable[TopicPartition | tuple[str, int] | int] | None = None,
    split: Split | None = None,
    progress: bool = False,
    on_lost: Literal["raise", "warn"] = "raise",
    timeout: float | None = 60.0,
    client: Client | None = None,
    **options: Unpack[ConsumerOptions],
) -> Read:
    """All records of `topics` between two offsets of each partition: the loop `async for record in read("orders", …)` ends.

    Arguments and errors are as in `pykafka4.read`. The call itself raises the error of a wrong argument. The first step of the loop, or
    `async with`, looks up the ends, and raises the errors of that lookup, which close the read.
    """
    extent = as_extent("read", topics, start, until, partitions, split)
    patience = check_timeout(timeout)
    session = TaskConsumerSession(client, read_options(options, "read"))
    try:
        return Read(BoundedRead(session, extent, on_lost, progress_for(progress), patience), session)
    except BaseException:
        session.close(0)
        raise


class Read:
    """The asynchronous iterator and context manager that `aio.read` returns."""

    def __init__(self, reading: BoundedRead, session: TaskConsumerSession) -> None:
        self._reading, self._session, self._iteration = reading, session, Iteration()
        self._iteration.follow(self)
        self._opened = False
        self._finalizer = weakref.finalize(self, forgotten, reading)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs
        self._begin()

    def _begin(self) -> None:
        """Create a generator for the next records: an exception ends a generator, and must not look like the end of the read."""
        self._records: Any = _records(self, self._iteration)

    async def open(self) -> None:
        """Look up the ends of the partitions, once. An error closes the read, as in `pykafka4.read`; a cancelled step may be repeated."""
        if not self._opened:
            self._session.enter()
            try:
                await run(self._reading.opening())
            except Exception:
                await self.close()
                raise
            self._opened = True

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Record[Any, Any]]:
        if self._records.ag_frame is None and not self.is_over:
            self._begin()
        return self._records.__anext__()  # type: ignore[no-any-return]

    @property
    def is_over(self) -> bool:
        return self._opened and self._reading.done

    async def next_list(self, iteration: Iteration) -> Iterator[Record[Any, Any]]:
        reading, session = self._reading, self._session
        while not reading.done:
            try:
                out = await session.next_list(reading.step, None, session.one_by_one, iteration)
            except InvalidOffset as error:
                reading.settle(error)
                continue
            except ClosedError as error:
                raise reading.named(error) from None
            if reading.is_answer(out):
                return out
        return iter(())

    @property
    def spans(self) -> dict[TopicPartition, Span]:
        """The offset range of each partition; empty until the ends are known."""
        return dict(self._reading.spans)

    @property
    def lost(self) -> list[LostRange]:
        """The ranges that have been lost so far, with on_lost="warn"."""
        return list(self._reading.lost)

    async def close(self) -> None:
        """Release the resources of the read. May be called twice. Iteration then raises ClosedError, unless it has ended."""
        if self._finalizer.detach() is not None:
            self._reading.end()
            await self._session.end(CLOSE_S, failed=True)

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:  # also a cancellation: `__aexit__` will not be called
            await self.close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<aio.Read: {counted(self._reading.records)} so far>"


async def _records(read: Read, iteration: Iteration) -> AsyncGenerator[Record[Any, Any], None]:
    """The generator refers to its `Read` only while it waits for records, so both are freed when the application leaves its loop."""
    of: Any = weakref.ref(read)
    await read.open()
    while not read.is_over:
        records = await read.next_list(iteration)
        del read
        for record in records:
            yield record
        read = of()
    await read.close()
