"""Defines the producer for asyncio. Invariant: a cancelled `send` has not accepted its record.

The handle uses the session of the threaded producer (`producer.session`). A `send` first makes an attempt that never waits, and usually
finds room. An attempt that would have to wait raises WouldBlock. The task then waits (for room, in the same queue as threads), and makes
another attempt. The task awaits nothing between the successful attempt and the return: a cancellation there would lose the Delivery.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from pykafka4.aio.columns import READING, RowsTask
from pykafka4.aio.tasks import EventLoopBinding, TaskLatch
from pykafka4.aio.transactions import ReadingTaskConsumer, Transaction, TransactionTasks
from pykafka4.client.client import Client
from pykafka4.core.producer.topics.parking import MISSING_PARTITION_S
from pykafka4.errors import BufferFull, ConfigError, KafkaTimeoutError
from pykafka4.errors.frames import empty_frames, guarded
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.net import system
from pykafka4.options.config import ProducerConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ProducerOptions
from pykafka4.producer.attempts import Obstacle, WouldBlock
from pykafka4.producer.columns import open_rows
from pykafka4.producer.forgotten import deliver_forgotten
from pykafka4.producer.handle import ProducerHandle
from pykafka4.producer.raw import RawDelivery
from pykafka4.producer.serializing import More, each_pair, each_record, lasting
from pykafka4.producer.session import LOOK_PAUSE_S, ProducerSession
from pykafka4.records import ConsumerGroupMetadata, HeadersLike, OffsetAndMetadata, ProducerRecord
from pykafka4.wire.records.common import many_ended
from pykafka4.wire.records.hot import Delivery, SentRows
from pykafka4.wire.records.raw_batch import RawBatch

__all__ = ["Producer"]

T = TypeVar("T")


class Producer(ProducerHandle):
    """Sends records to Kafka from asyncio: `delivery = await producer.send(…)`, then `await delivery` for the acknowledgement.

    `pykafka4.Producer` has the same options; `client` may be shared with other producers and consumers. A producer belongs to the event
    loop of its first use. Leaving an `async with` block delivers all records or raises `DeliveryFailed`, as with `pykafka4.Producer`.
    """

    _name = "aio.Producer"

    def __init__(self, client: Client | None = None, **options: Unpack[ProducerOptions]) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background.

        The constructor waits only for the start of the client's thread. May be called without a running event loop.
        """
        self._binding = EventLoopBinding(self._name)
        session: ProducerSession | None = None
        try:
            self._session = session = ProducerSession(client, executor=None, options=options)
            self._finalizer = weakref.finalize(self, deliver_forgotten, session)
            self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs
            if session.config.rate_limits and session.config.on_rate_limit == "delay":
                raise ConfigError("rate_limits with on_rate_limit='delay': it would block the event loop; use on_rate_limit='drop'")
            session.open()
            self._transactions = TransactionTasks(self._binding, session)
        except BaseException as error:  # also Ctrl-C: no handle is returned that could close the session
            if session is not None:
                session.undo()
            del client, options  # `empty_frames` clears only frames that have ended, and this frame has not
            empty_frames(error)
            raise

    @classmethod
    @guarded
    def from_properties(cls, properties: Properties, /, client: Client | None = None, **options: Unpack[ProducerOptions]) -> Self:
        """See pykafka4.Producer.from_properties."""
        return create(cls, ProducerConfig, properties, options, client=client)

    # ---------------------------------------------------------------- records

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Queue a record; return its `Delivery`, which can be awaited. See pykafka4.Producer.send for the arguments and errors.

        Where the threaded `send` blocks, this `send` lets other tasks run, for at most `max_block_ms`. A cancellation during the wait means
        that the record was not accepted. A `send` that need not wait does not yield to other tasks. `on_delivery(delivery)` runs on the
        event loop. Cancelling a task that awaits a `Delivery` does not take back the record.
        """
        self._binding.enter()
        if on_delivery is not None and callable(on_delivery):
            on_delivery = self._binding.call_back(on_delivery)
        more, sending = (lasting(headers), partition, timestamp_ms), self._session.sending  # several attempts may read the headers
        if sending is None:
            return await self._offer(topic, value, key, more, on_delivery)
        topic, value, key, more = sending.prepare(topic, value, key, more)
        try:
            return await self._offer(topic, value, key, more, on_delivery)
        except BaseException as error:
            sending.refused(error)
            raise

    @overload
    async def send_many(self, records: Iterable[ProducerRecord], /) -> list[Delivery]: ...

    @overload
    async def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> list[Delivery]: ...

    async def send_many(
        self, topic: str | Iterable[ProducerRecord], values: Iterable[Any] | None = None, *, keys: Iterable[Any] | None = None, **more: Any
    ) -> list[Delivery]:
        """Send a record for each of `values` to `topic`, in order, as `send` would; or send each `ProducerRecord` of an iterable.

        See pykafka4.Producer.send_many, also for the attribute `accepted` of the exception if a record is refused. After a
        cancellation the earlier records are still sent; the CancelledError has the same attribute where it is caught in the same task.
        """
        self._binding.enter()
        out: list[Delivery] = []
        try:
            if not isinstance(topic, str) and values is None and keys is None and not more:
                for record in each_record(topic):
                    place = lasting(record.headers), record.partition, record.timestamp_ms
                    out.append(await self._offer(record.topic, record.value, record.key, place, None))
            elif values is None:
                raise TypeError("send_many takes a topic and values, or only an iterable of ProducerRecord")
            else:
                if "headers" in more:
                    more["headers"] = lasting(more["headers"])
                for value, key in each_pair(topic, values, keys):  # type: ignore[arg-type]  # `send` refuses a topic that is not a str
                    out.append(await self.send(topic, value, key=key, **more))  # type: ignore[arg-type]
        except BaseException as error:
            many_ended(error, topic if isinstance(topic, str) else None, out)
            raise
        return out

    async def send_arrow(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = "key",
        value: str | None = "value",
        headers: str | None = "headers",
        timestamp: str | None = "timestamp",
        partition: str | None = "partition",
    ) -> SentRows:
        """Send a record for each row of `data`, in order, as `send` would; return one handle for all rows, which can be awaited.

        See pykafka4.Producer.send_arrow for the arguments and errors, and for the attribute `accepted` of the exception if a row is
        refused. Other tasks run while another thread reads a batch of `data`, and after every few thousand rows. After a
        cancellation the earlier rows are still sent; if there are any, the CancelledError has the attribute `accepted` where it is caught
        in the same task.
        """
        self._binding.enter()
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        rows = await self._binding.run_on_thread(
            lambda: open_rows(self._session, topic, data, columns), self._session.config.client_id, READING
        )
        task = RowsTask(self._binding, self._session, rows)
        return await (task.run(self._attempt) if self._session.sending is None else task.run_each(self.send))

    async def send_raw(self, topic: str, batch: RawBatch, partition: int | None = None) -> RawDelivery:
        """Queue a complete record batch; return its `RawDelivery`, which can be awaited. See pykafka4.Producer.send_raw.

        Where the threaded `send_raw` blocks, this `send_raw` lets other tasks run. A cancellation means that the batch was not accepted.
        """
        self._binding.enter()
        raw = self._session.raw
        prepared = raw.prepare(topic, batch, partition)
        return await self._attempt(lambda: raw.accept(*prepared))

    async def _offer(self, topic: str, value: Any, key: Any, more: More, on_delivery: Callable[[Delivery], None] | None) -> Delivery:
        return await self._attempt(lambda: self._accept(topic, value, key, more, on_delivery))

    async def _attempt(self, attempt: Callable[[], T]) -> T:
        """Call `attempt`; after each WouldBlock, wait and call it again."""
        try:
            with self._session.attempts.attempt():
                return attempt()
        except WouldBlock as obstacle:
            awaits = obstacle.with_traceback(None)
        return await self._send_later(awaits, attempt)

    def _accept(self, topic: str, value: Any, key: Any, more: More, on_delivery: Callable[[Delivery], None] | None) -> Delivery:
        headers, partition, timestamp_ms = more
        delivery = self._session.acc.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery
        )
        if self._session.hooks is not None:
            self._session.hooks.on_enqueue(delivery)
        return delivery

    async def _send_later(self, awaits: WouldBlock, attempt: Callable[[], T]) -> T:
        """Wait as the last attempt's obstacle requires, then make another attempt, until one succeeds or `max_block_ms` has passed."""
        deadline = system.monotonic() + self._session.config.max_block_ms / 1000
        while True:
            try:
                return await WAYS[awaits.awaits](self, awaits, attempt, deadline)
            except WouldBlock as obstacle:
                awaits = obstacle.with_traceback(None)
            except asyncio.CancelledError as cancelled:
                partition = awaits.partition if awaits.partition >= 0 else None
                why = self._session.signal.why_open(awaits.topic, partition)
                cancelled.add_note(f"pykafka4: the record or batch was not accepted yet: {awaits}{why}")
                raise

    async def _wait_for_room(self, awaits: WouldBlock, attempt: Callable[[], T], deadline: float) -> T:
        """Make an attempt in each turn of this task in the queue for room. Raises BufferFull at `deadline`."""
        session, latch, accepted = self._session, TaskLatch(self._binding), list[T]()
        topic, partition, size = awaits.topic, awaits.partition, awaits.size

        def try_again() -> bool:
            try:
                with session.attempts.attempt(Obstacle.ROOM):
                    accepted.append(attempt())
            except WouldBlock as obstacle:
                if obstacle.awaits is not Obstacle.ROOM:
                    raise  # `_send_later` waits for the other obstacle, and this task leaves the queue for room
            return bool(accepted)

        def hindered() -> bool:
            return session.acc.refusal is None and session.acc.crowded(topic, partition, size)

        with session.gate.queued(latch, (topic, partition), hindered, latch.gone) as attempts:
            while not attempts(try_again):
                if not await latch.sleep(deadline):
                    raise BufferFull(f"{awaits}; no room within max_block_ms={session.config.max_block_ms:g}")
        return accepted[0]

    async def _look_up_partition(self, awaits: WouldBlock, attempt: Callable[[], T], deadline: float) -> T:
        """Refresh the metadata until the partition exists, or `deadline` or MISSING_PARTITION_S has passed; then make an attempt."""
        session, engine, topic = self._session, self._session.runtime.engine, awaits.topic
        until = min(deadline, system.monotonic() + MISSING_PARTITION_S)
        while True:  # for some seconds, later calls with a missing partition do not wait again: see `ProducerSession.missing_until`
            promise = session.promise()

            # `promise` is a default argument because the loop may run `refresh` after the next round has given the name another promise.
            def refresh(now: float, promise: Any = promise) -> None:
                engine.cluster.refreshed(now, [topic], promise.set_result)

            session.post(refresh)
            await self._binding.done(promise, until)
            count = session.promise()

            def tell(now: float, count: Any = count) -> None:
                session.machine.announce_partitions(topic, now)
                count.set_result(engine.cluster.partitions(topic))

            session.post(tell)
            known = 0
            if await self._binding.done(count, until):
                known = count.result(0)
                until = min(until, session.missing_until(topic, known))
            if awaits.partition < known or system.monotonic() >= until:
                with session.attempts.attempt(Obstacle.PARTITION):
                    return attempt()
            await asyncio.sleep(min(session.config.retry_backoff_ms / 1000, max(0.0, until - system.monotonic())))

    async def _look_up_topic(self, awaits: WouldBlock, attempt: Callable[[], T], deadline: float) -> T:
        """Wait for the partitions of the topic, which a partitioner needs, and make an attempt. Raises KafkaTimeoutError or BrokerError."""
        session, topic = self._session, awaits.topic
        late = f"{awaits}; not done within max_block_ms={session.config.max_block_ms:g}"
        await self._find_topic(topic, deadline, late)
        session.post(lambda now: session.machine.announce_partitions(topic, now))
        # Parked records with an explicit partition come first: this record must not overtake them.
        while session.acc.refusal is None and not session.acc.direct(topic):
            if system.monotonic() >= deadline:
                raise KafkaTimeoutError(late)
            await asyncio.sleep(LOOK_PAUSE_S)
        with session.attempts.attempt():
            return attempt()

    async def _find_topic(self, topic: str, deadline: float, late: str) -> list[int]:
        """The partitions; [] if the producer ends first. Raises KafkaTimeoutError (`late` and the reason), or BrokerError."""
        session, latch = self._session, TaskLatch(self._binding)
        found, ask, stop = session.runtime.lookup(topic, create=True)
        found.add_done_callback(lambda _: latch.release())
        session.runtime.loop.call(ask)
        try:
            with session.signal.opening(latch):
                if not await self._binding.until(latch, lambda: found.done() or session.acc.refusal is not None, deadline):
                    raise session.runtime.not_found(topic, KafkaTimeoutError(late))
            return found.result(0) if found.done() else []
        finally:
            session.runtime.loop.call(stop)  # also after a cancellation: otherwise the listeners of the lookup would stay

    # ---------------------------------------------------------------- the end

    async def flush(self, timeout: float | None = None) -> None:
        """Send all records without linger, and wait until each record sent before this call has its outcome and its callbacks have run.

        `timeout` in seconds, None: as long as `delivery_timeout_ms` allows. Raises KafkaTimeoutError, with the number of undelivered
        records if there are any.
        """
        self._binding.enter()
        pending, limit = self._session.begin_flush(), self._session.flush_seconds(check_timeout(timeout))
        if not await self._settled(pending, limit):
            raise self._session.late(pending, limit)

    async def _settled(self, pending: list[Any], limit: float) -> bool:
        latch = TaskLatch(self._binding)
        with self._session.signal.opening(latch):
            settled = await self._binding.until(latch, self._session.settled(pending), system.monotonic() + limit)
        if settled:
            await self._binding.callbacks_run()
        return settled

    async def close(self, timeout: float | None = None) -> list[ProducerRecord]:
        """Deliver the queued records; return the undelivered records, in order within each partition.

        Waits at most `timeout` seconds (None: `close_timeout_ms`, by default `delivery_timeout_ms`; 0: not at all) for deliveries, then
        fails the remaining records. `close` aborts an open transaction, and waits for one that is already ending. Each returned
        record says whether it may be in the log (`written`). `close` may be called twice. After a cancellation the producer accepts no
        record, and the next call finishes the close. If the cancellation ends the wait for deliveries, the queued records are still
        delivered, and a note on the CancelledError has the number of records without an outcome, if any.
        """
        limit, session = check_timeout(timeout), self._session
        self._binding.enter()
        if session.undelivered is None and not session.runtime.loop.forked:
            deadline = system.monotonic() + (session.close_seconds if limit is None else limit)
            pending = session.begin_close()
            try:
                await self._transactions.leave_soon(deadline)
                await self._settled(pending, max(0.0, deadline - system.monotonic()))
            except asyncio.CancelledError as cancelled:
                session.note_open_records(cancelled)
                raise
        undelivered = await self._end() if session.undelivered is None else session.undelivered
        if session.undelivered is not None:
            self._finalizer.detach()
        return undelivered

    async def _end(self) -> list[ProducerRecord]:
        session = self._session
        if session.runtime.loop.forked:
            return session.close(0)
        # On another thread, because the wait for the end of the client's thread blocks.
        return await self._binding.run_on_thread(lambda: session.close(0.0), session.config.client_id)

    async def __aenter__(self) -> Self:
        self._binding.enter()
        self._begin_block()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end_block(error, await self.close(None if kind is None else self._session.exit_seconds))

    @contextlib.asynccontextmanager
    async def delivery_scope(self, timeout: float | None = None) -> AsyncIterator[Self]:
        """An `async with` block that flushes at its end, and then raises failures since its start. See pykafka4.Producer.delivery_scope."""
        self._binding.enter()
        limit, mark = check_timeout(timeout), self._session.machine.ledger.failures_seen
        yield self
        await self.flush(limit)
        self._session.raise_failures(mark)

    async def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """See pykafka4.Producer.partitions_for."""
        self._binding.enter()
        session, topic, limit = self._session, check_topic(topic), check_timeout(timeout)
        session.check()
        seconds = session.config.max_block_ms / 1000 if limit is None else limit
        found, ask, stop = session.runtime.lookup(topic, create=True)
        session.runtime.loop.call(ask)
        try:
            if not await self._binding.done(found, system.monotonic() + seconds):
                raise session.runtime.not_found(topic, KafkaTimeoutError(f"looking up topic {topic}: not done within {seconds:g} s"))
            return found.result(0)
        finally:
            session.runtime.loop.call(stop)

    # ---------------------------------------------------------------- transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """See pykafka4.Producer.init_transactions."""
        await self._transactions.init(check_timeout(timeout))

    async def begin_transaction(self) -> None:
        """See pykafka4.Producer.begin_transaction."""
        await self._transactions.begin()

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """See pykafka4.Producer.commit_transaction. After a cancellation the outcome is not known, and another call waits for it."""
        await self._transactions.commit(check_timeout(timeout))

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """See pykafka4.Producer.abort_transaction. After a cancellation another call waits for the end of the abort."""
        await self._transactions.abort(check_timeout(timeout))

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Any, int | OffsetAndMetadata], group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """See pykafka4.Producer.send_offsets_to_transaction."""
        await self._transactions.send_offsets(offsets, group_metadata, check_timeout(timeout))

    def transaction(self, consumer: ReadingTaskConsumer | None = None, timeout: float | None = None) -> Transaction:
        """An `async with` block that is one transaction. Leaving it normally commits; an exception (or a cancellation) aborts.

        With a `consumer`, an aio.Consumer, the offsets of the records that it has returned become part of the transaction, and after an
        abort the consumer reads these records again, as in pykafka4.Producer.transaction. `timeout` (seconds, default `max_block_ms`)
        limits each step.
        """
        return Transaction(self, self._transactions, consumer, check_timeout(timeout))


WAYS = {
    Obstacle.ROOM: Producer._wait_for_room,
    Obstacle.PARTITION: Producer._look_up_partition,
    Obstacle.TOPIC: Producer._look_up_topic,
}
