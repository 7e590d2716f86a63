"""Defines the consumer for asyncio. Invariant: a cancelled call loses no record.

`Consumer` is a handle. `aio.session` has the calls that wait; `consumer.session` has their steps, which serve threads and tasks.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Never, Self, TypeVar, Unpack, overload

from pykafka4.aio.processing import TaskWork, check_producer, run_in_tasks
from pykafka4.aio.producer import Producer
from pykafka4.aio.session import TaskConsumerSession
from pykafka4.client.client import Client
from pykafka4.consumer.arguments import (
    Offsets,
    OnDone,
    PartitionList,
    Partitions,
    Times,
    check_lease,
)
from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.handle import ConsumerHandle
from pykafka4.consumer.processing.plan import Stop, check_commits, plan
from pykafka4.consumer.processing.work import Processed
from pykafka4.consumer.rewinding import RewindOffsets
from pykafka4.consumer.transactional import TransactionalReads
from pykafka4.consumer.until_end import UntilEnd
from pykafka4.errors import ConfigError
from pykafka4.errors.frames import guarded
from pykafka4.misuse import api_timeout, check_timeout, refuse_keywords, topic_partition
from pykafka4.options.config import ConsumerConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import BytesConsumerOptions, ConsumerOptions
from pykafka4.records import KeyT, OffsetAndMetadata, TopicPartition, ValueT
from pykafka4.serializers import Deserializer
from pykafka4.wire.records.hot import Record, RecordColumns
from pykafka4.wire.records.raw_batch import RawBatch

if TYPE_CHECKING:
    from pykafka4.core.admin.values import ListedOffset

__all__ = ["Consumer"]

A = TypeVar("A")
B = TypeVar("B")

PLAIN_PRODUCER: Final = (
    "transaction(consumer): a pykafka4.aio.Consumer waits on its event loop, which a transaction of pykafka4.Producer would block; "
    "use it with pykafka4.aio.Producer, or pykafka4.Consumer here"
)


class Consumer(ConsumerHandle, Generic[KeyT, ValueT]):
    """Reads records from Kafka in asyncio: `async for record in consumer`, or `await consumer.poll()`. Methods that wait are awaited.

    `pykafka4.Consumer` has the same options; `client` may be shared with other producers and consumers. A consumer belongs to the event
    loop of its first use. One task at a time polls, unsubscribes or begins `process`; other tasks may call other methods. The methods of a
    rebalance listener may be coroutine functions or plain functions; they run inside the calls that wait. Cancelling a poll does not cancel
    a listener's coroutine: it runs in a separate task, and the next poll waits for its end. Partitions are `TopicPartition`s or (topic,
    partition) pairs, timeouts are seconds.
    """

    _name = "aio.Consumer"
    _session: TaskConsumerSession

    @overload
    def __init__(self: Consumer[bytes, bytes], client: Client | None = None, **options: Unpack[BytesConsumerOptions]) -> None: ...

    @overload
    def __init__(
        self: Consumer[bytes, B],
        client: Client | None = None,
        *,
        key_deserializer: None = None,
        value_deserializer: Deserializer[B],
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[A, bytes],
        client: Client | None = None,
        *,
        key_deserializer: Deserializer[A],
        value_deserializer: None = None,
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[A, B],
        client: Client | None = None,
        *,
        key_deserializer: Deserializer[A],
        value_deserializer: Deserializer[B],
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(self: Consumer[Any, Any], client: Client | None = None, **options: Unpack[ConsumerOptions]) -> None: ...

    @guarded
    def __init__(self, client: Client | None = None, **options: Unpack[ConsumerOptions]) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background; no broker needs to be up yet.

        The constructor waits only for the start of the client's thread. May be called without a running event loop.
        """
        self._session = session = TaskConsumerSession(client, options)
        self._finalizer = weakref.finalize(self, TaskConsumerSession.forgotten, session)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs

    @classmethod
    @guarded
    def from_properties(cls, properties: Properties, /, client: Client | None = None, **options: Unpack[ConsumerOptions]) -> Self:
        """See pykafka4.Consumer.from_properties."""
        return create(cls, ConsumerConfig, properties, options, client=client)

    # -- topics and partitions

    async def unsubscribe(self) -> None:
        """See pykafka4.Consumer.unsubscribe.

        A cancellation does not stop the release of the partitions, but leaves the outcome of the last commit unknown.
        """
        await self._session.await_unsubscribe()

    # -- records

    async def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> list[Record[KeyT, ValueT]]:
        """A list of up to `max_records` records (default max_poll_records); empty if none arrived within `timeout` seconds.

        See pykafka4.Consumer.poll for the errors. `poll` decodes for about a millisecond, and returns the records that it has decoded.
        After a cancellation the next poll returns the records that this poll has not returned, and records returned by earlier polls may
        count as finished. Raises KafkaError if another task is in `poll` or a loop.
        """
        if unknown:
            refuse_keywords("aio.Consumer.poll", unknown)
        return await self._session.next_list(timeout, max_records, self._session.records)

    async def poll_arrow(
        self, timeout: float | None = 1.0, max_rows: int | None = None, columns: Iterable[str] | None = None, **unknown: Never
    ) -> RecordColumns:
        """Records as columns; decodes for about a millisecond. See pykafka4.Consumer.poll_arrow, and `poll` for cancellation."""
        if unknown:
            refuse_keywords("aio.Consumer.poll_arrow", unknown)
        return await self._session.next_list(timeout, max_rows, self._session.reader.columns.form(columns))

    async def poll_raw(self, timeout: float | None = 1.0, max_batches: int | None = None, max_bytes: int | None = None) -> list[RawBatch]:
        """A list of complete record batches. See pykafka4.Consumer.poll_raw, and `poll` for cancellation."""
        return await self._session.next_list(timeout, max_batches, self._session.raw_form(max_bytes))

    async def extend_lease(self, seconds: float) -> None:
        """Let the application work on the records in hand beyond max_poll_interval_ms. See pykafka4.Consumer.extend_lease."""
        await self._session.await_extend_lease(check_lease(seconds))

    def __aiter__(self) -> AsyncIterator[Record[KeyT, ValueT]]:
        """An endless loop over single records. Each record counts as finished when the loop requests the next one."""
        return Records(self._session, self)

    def until_end(self) -> AsyncIterator[Record[KeyT, ValueT]]:
        """A loop over single records up to the ends that the logs of the assigned partitions have when the loop begins.

        See pykafka4.Consumer.until_end. The loop, not this call, raises the errors of the lookup.
        """
        return RecordsUntilEnd(self._session, self)

    def batches(self, timeout: float | None = 1.0, max_records: int | None = None) -> AsyncIterator[list[Record[KeyT, ValueT]]]:
        """An endless loop over the lists that `poll` returns, including empty lists, so that the loop body runs regularly."""
        return Batches(self._session, self, timeout, max_records)

    # -- positions

    async def seek_to_end(self, partitions: Partitions | None = None, timeout: float | None = None) -> None:
        """See pykafka4.Consumer.seek_to_end."""
        await self._session.await_seek_to_end(partitions, api_timeout(timeout))

    async def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """See pykafka4.Consumer.position."""
        return await self._session.await_position(topic_partition(partition), api_timeout(timeout))

    async def beginning_offsets(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, int]:
        """See pykafka4.Consumer.beginning_offsets."""
        return await self._session.await_lookup(self._session.lookups.beginnings(partitions, api_timeout(timeout)))

    async def end_offsets(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, int]:
        """See pykafka4.Consumer.end_offsets."""
        return await self._session.await_lookup(self._session.lookups.ends(partitions, api_timeout(timeout)))

    async def offsets_for_times(self, times: Times, timeout: float | None = None) -> dict[TopicPartition, ListedOffset | None]:
        """See pykafka4.Consumer.offsets_for_times."""
        return await self._session.await_lookup(self._session.lookups.for_times(times, api_timeout(timeout)))

    # -- commits

    async def commit(
        self, offsets: Offsets | None = None, timeout: float | None = None, *, topic: str | None = None, **unknown: Never
    ) -> None:
        """Commit offsets for the group; return when the coordinator has stored them. See pykafka4.Consumer.commit.

        After a cancellation the outcome of the commit is not known. Where the CancelledError is caught in the same task, it has a note that
        says so.
        """
        if unknown:
            refuse_keywords("aio.Consumer.commit", unknown)
        await self._session.await_commit(offsets, api_timeout(timeout), topic)

    def commit_async(self, offsets: Offsets | None = None, on_done: OnDone | None = None, *, topic: str | None = None) -> None:
        """Commit without waiting. `on_done(offsets, error)` is called on the event loop, with error None on success.

        `on_done` is a plain function. Without `on_done` a failure is logged as a warning. Commits reach the coordinator in the order of the
        calls. At most 1,000 commits can wait for the coordinator; further commits fail. Raises the errors of
        pykafka4.Consumer.commit_async.
        """
        self._session.commit_async(offsets, on_done, topic)

    @overload
    async def committed(self, partitions: TopicPartition | tuple[str, int], timeout: float | None = None) -> OffsetAndMetadata | None: ...

    @overload
    async def committed(
        self, partitions: PartitionList, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    async def committed(
        self, partitions: TopicPartition | tuple[str, int] | Partitions, timeout: float | None = None
    ) -> OffsetAndMetadata | dict[TopicPartition, OffsetAndMetadata | None] | None:
        """See pykafka4.Consumer.committed."""
        limit = api_timeout(timeout)
        if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
            return (await self._session.await_committed((partitions,), limit))[topic_partition(partitions)]
        return await self._session.await_committed(partitions, limit)

    async def rewind_group(self, offsets: RewindOffsets, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Have all members of the running group continue at other offsets; return these offsets when all are known to be committed.

        Another task must poll meanwhile: the group rebalances, and this member takes part. Raises the errors of
        `pykafka4.Consumer.rewind_group`, and of the future that it returns.
        """
        return await self._session.await_rewind(offsets, api_timeout(timeout))

    # -- handlers

    async def process(
        self,
        handler: Callable[[Record[KeyT, ValueT]], object],
        by: Literal["key", "partition"] | Callable[[Record[KeyT, ValueT]], Hashable] = "key",
        workers: int = 8,
        *,
        retries: int = 0,
        retry_backoff: float = 0.1,
        dead_letter: str | None = None,
        producer: Producer | None = None,
        max_in_hand: int = 10_000,
        drain_timeout: float = 30.0,
        stop: Stop | None = None,
    ) -> Processed:
        """Await `handler(record)` for each record, up to `workers` at a time, in order per key, and commit the offsets of finished records.

        Works like pykafka4.Consumer.process, in tasks instead of threads: `handler` is a coroutine function (or a plain function, which
        must not block; an awaitable result is awaited), `producer` an aio.Producer, `stop` an asyncio.Event. If a handler returns a
        `Delivery`, or a list of deliveries, the record is finished when they are acknowledged. When `process` ends, handlers that
        still run after `drain_timeout` are cancelled. A cancellation of `process` cancels the running handlers, whose records are not
        finished. The offsets of finished records are committed, and reading goes back to the first unfinished record of each partition.
        """
        session = self._visit()
        session.check()
        check_commits(session.config)
        session.transactional.check_none("process")
        if not callable(handler):
            raise TypeError(f"process: the handler must be callable, not {type(handler).__name__}")
        check_producer(producer)
        sends: Any = producer
        how = by, workers, retries, retry_backoff, dead_letter, sends, max_in_hand, drain_timeout, stop
        work = TaskWork(plan(session.config, handler, *how), self.wakeup)
        await run_in_tasks(self, work, session)
        return work.result()

    # -- the rest

    async def close(self, timeout: float | None = None) -> None:
        """Commit finished records (with enable_auto_commit), call the listener, leave the group, release everything.

        Takes at most `timeout` seconds (default: `close_timeout_ms`) plus the time of the listener. pykafka4.Consumer.close says which
        records are finished then: for "thread" read "task". `close` may be called twice, in a listener, and from
        another task; a running `poll` then raises ClosedError. After a cancellation the close continues in the background, and the next
        call waits for its end.
        """
        await self._close(check_timeout(timeout))

    async def _close(self, timeout: float | None = None, *, failed: bool | None = None) -> None:
        await self._session.end(timeout, failed=failed)
        self._finalizer.detach()

    async def __aenter__(self) -> Self:
        self._session.enter()
        self._session.check()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._close(failed=error is not None)

    def _visit(self) -> TaskConsumerSession:
        self._session.binding.check_caller()
        return self._session

    def _in_task_transaction(self) -> TransactionalReads:
        """Raises ConfigError if the offsets of this consumer cannot be part of a transaction."""
        self._session.transactional.check()
        return self._session.transactional

    if not TYPE_CHECKING:

        def _in_transaction(self) -> Any:
            raise ConfigError(PLAIN_PRODUCER)


class Records:
    """Gets the records of `async for record in consumer` from a generator, because generators are fast.

    An exception ends the generator. Without a new generator, the next step would look like the end of the records.
    """

    def __init__(self, session: TaskConsumerSession, consumer: Consumer[Any, Any]) -> None:
        """Keep `consumer` alive: the loop may have the only reference to the handle."""
        self._session, self._consumer, self._iteration = session, consumer, Iteration()
        self._ends: UntilEnd | None = None
        self._iteration.follow(self)
        self.begin()

    def begin(self) -> None:
        """Have a new generator return the next record."""
        self._records: Any = self._generator()
        self._next, self.goes_on = self._records.__anext__, False

    def _generator(self) -> AsyncGenerator[Record[Any, Any], None]:
        session, iteration = self._session, self._iteration
        return _records(lambda: session.next_list(None, None, session.one_by_one, iteration), iteration)

    @property
    def ag_frame(self) -> object:
        """None if the generator has ended or has not begun: then the loop has no record in hand. See `Iteration.ended`."""
        return self._records.ag_frame if self.goes_on else None

    def __aiter__(self) -> Records:
        return self

    def __anext__(self) -> Awaitable[Record[Any, Any]]:
        return self._next()

    async def aclose(self) -> None:
        await self._records.aclose()


class RecordsUntilEnd(Records):
    def _generator(self) -> AsyncGenerator[Record[Any, Any], None]:
        if self._ends is None:
            self._ends = UntilEnd(self._session, self._iteration)
        session, ends = self._session, self._ends
        return _records(lambda: session.next_until_end(ends), self._iteration)


async def _records(
    next_list: Callable[[], Awaitable[Iterator[Record[Any, Any]] | None]], iteration: Iteration
) -> AsyncGenerator[Record[Any, Any], None]:
    of: Any = iteration.iterator  # a weak reference to the Records: a strong one would keep the Records alive after the loop is left
    if (records := of()) is not None:
        records.goes_on = True
    del records
    try:
        while (records := await next_list()) is not None:
            for record in records:
                yield record
    except GeneratorExit:
        raise
    except BaseException:
        if (records := of()) is not None:
            records.begin()
        raise


class Batches:
    """The iterator of `Consumer.batches`. Not a generator, which would end with the first exception."""

    def __init__(self, session: TaskConsumerSession, consumer: Consumer[Any, Any], timeout: float | None, max_records: int | None) -> None:
        """See `Records.__init__`."""
        self._session, self._consumer, self._timeout, self._max_records = session, consumer, timeout, max_records
        self._iteration: Iteration | None = None

    def __aiter__(self) -> Batches:
        """An iterator for this loop, freed with the loop even if the application keeps the object that `batches` has returned."""
        if self._iteration is not None:  # this object is the iterator of a loop already
            return self
        lists = Batches(self._session, self._consumer, self._timeout, self._max_records)
        lists._iteration = Iteration()
        return lists._iteration.follow(lists)

    async def __anext__(self) -> list[Record[Any, Any]]:
        session = self._session
        return await session.next_list(self._timeout, self._max_records, session.records, self._iteration)
