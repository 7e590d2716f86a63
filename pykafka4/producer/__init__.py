"""Defines `Producer`, the handle for threads. Invariant: a record that `send` accepts gets exactly one outcome (none in a forked child).

`producer.session` runs the calls of the handle on application threads, and `core.producer.sender` sends batches on the loop. Both sides
share the accumulator (`wire.records`).

Modules; each line imports only from lines below it:
    handle             the common base of `Producer` and `aio.Producer`
    watched            the figures of a producer for its status page
    columns            `send_arrow`: the rows of Arrow data
    forgotten          the last deliveries and the close of a producer whose handle was garbage-collected
    session            waits of `send`, flush, purge, status and close; it outlives the handle
    serializing        `send` and `send_many` with serializers or hooks
    transaction_block  the `with` block of a transaction
    transactions       begin, commit and abort of transactions
    raw                complete record batches: `send_raw` and its handles
    topics             the policy of each topic, from the options
    rates              rate limits of topics
    hooks              calls of hooks, and their errors
    overflow           callbacks of dropped records
    attempts           `send` without a wait, for asyncio tasks
    deliveries         waits for deliveries, on threads and in tasks
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Self, Unpack, overload

from pykafka4.client.client import Client
from pykafka4.errors.frames import empty_frames, guarded
from pykafka4.misuse import check_timeout, check_topic
from pykafka4.options.config import ProducerConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import ProducerOptions
from pykafka4.producer.columns import send_arrow
from pykafka4.producer.forgotten import deliver_forgotten
from pykafka4.producer.handle import ProducerHandle
from pykafka4.producer.raw import RawDelivery
from pykafka4.producer.serializing import send_records
from pykafka4.producer.session import ProducerSession
from pykafka4.producer.transaction_block import ReadingConsumer, TransactionBlock
from pykafka4.records import ConsumerGroupMetadata, HeadersLike, OffsetAndMetadata, ProducerRecord
from pykafka4.wire.records.hot import Delivery, SentRows, send_method
from pykafka4.wire.records.raw_batch import RawBatch

__all__ = ["Producer"]


class Producer(ProducerHandle):
    """Sends records to Kafka: by default at least once, in order per partition, without duplicates from its own retries.

    `Producer(bootstrap_servers="host:9092", **options)` owns a client; `Producer(client=client, **options)` shares one.
    The options are the fields of `ProducerConfig` (docs/options.md). All methods may be called from any thread.
    Leaving a `with` block delivers everything or raises `DeliveryFailed`, unless the application has already seen each failure (see
    `raise_failures`). If the block raises an exception, its end waits at most 5 s for deliveries; a note gives the number of undelivered
    records, if any.
    """

    _name = "Producer"

    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        """Raises ConfigError for an invalid option. `callback_executor` runs the callbacks; default: one thread, so they keep their order.

        While every thread of a ThreadPoolExecutor waits in `send` for memory that callbacks hold, a client thread runs the callbacks.
        The client connects in the background; no broker needs to be up yet.
        """
        session: ProducerSession | None = None
        try:
            self._session = session = ProducerSession(client, executor=callback_executor, options=options)
            self._finalizer = weakref.finalize(self, deliver_forgotten, session)
            self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs
            session.open()
            self._send: Callable[..., Delivery] = session.acc.send if session.sending is None else session.sending.send
        except BaseException as error:  # also Ctrl-C: no handle is returned that could close the session
            if session is not None:
                session.undo()
            del client, options  # `empty_frames` clears only frames that have ended, and this frame has not
            empty_frames(error)
            raise

    @classmethod
    @guarded
    def from_properties(
        cls,
        properties: Properties,
        /,
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        **options: Unpack[ProducerOptions],
    ) -> Self:
        """Create a producer from a file or mapping of options with Java's or librdkafka's names: see `Client.from_properties`.

        `client`, `callback_executor` and `options` are as in the constructor, and override `properties`.
        """
        return create(cls, ProducerConfig, properties, options, client=client, callback_executor=callback_executor)

    @send_method
    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Queue a record, and return its `Delivery`.

        Blocks for at most `max_block_ms`, and only while one of these holds:
        `buffer_memory` (or `max_partition_bytes`) is used up (`on_full` changes that); an unknown `partition` is looked up; a callable
        partitioner needs the partitions of an unknown topic; a rate limit with `on_rate_limit="delay"` is reached.

        `value` and `key` are arguments of their serializers; without serializers they are bytes-like or str (sent as UTF-8). None is a null
        (a null value is a tombstone). `headers` are (name, value) pairs or a mapping. Without `partition`, `partitioner` decides:
        by default the hash of the key (murmur2, as in Java), or without a key, the batch that is being filled. `timestamp_ms` is
        milliseconds since the epoch, default now. `on_delivery(delivery)` usually runs on the callback executor.

        Raises BufferFull, RecordTooLarge, TypeError or ValueError with the name of the argument, ClosedError, ForkedClientError, and the
        exceptions of the serializers; TransactionError if there is a `transactional_id` and no open transaction; KafkaTimeoutError or
        BrokerError if a callable partitioner needs partitions that brokers do not name; ValueError if brokers do not have the `partition`.
        """
        return self._send(topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery)

    @overload
    def send_many(self, records: Iterable[ProducerRecord], /) -> list[Delivery]: ...

    @overload
    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> list[Delivery]: ...

    def send_many(self, topic: str | Iterable[ProducerRecord], values: Iterable[Any] | None = None, **more: Any) -> list[Delivery]:
        """Send a record for each of `values` to `topic`, in order, as `send` would; or send each `ProducerRecord` of an iterable.

        Returns a `Delivery` for each record. `keys` has as many items as `values`; `headers`, `partition`, `timestamp_ms` and `on_delivery`
        apply to all records. The call blocks for each record as `send` does. The exception for a refused record has a note with its number,
        and the attribute `accepted`: the Deliveries of the earlier records, which are sent. So the application can continue with
        `values[len(error.accepted):]`, which begins with the refused record. A KeyboardInterrupt also has the attribute.
        A `ProducerRecord` holds bytes, which no serializer changes: `send_many(other.close())` sends the undelivered records again.
        Raises the exceptions of `send`, and TypeError or ValueError if `values` and `keys` do not fit together.
        """
        if not isinstance(topic, str) and values is None and not more:
            return send_records(self._session.acc, self._session.hooks, topic)
        if values is None:
            raise TypeError("send_many takes a topic and values, or only an iterable of ProducerRecord")
        sending = self._session.sending
        return (self._session.acc if sending is None else sending).send_many(topic, values, **more)  # type: ignore[arg-type]

    def send_arrow(
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
        """Send a record for each row of `data`, in order, as `send` would; return one handle for all rows.

        `data` is a table, a batch or a stream of pyarrow, polars, pandas, DuckDB, PySpark (4.2 or newer): anything with the Arrow C
        interface. A stream is read batch by batch. Each of the other arguments names a column, or is None for no column. The default is
        the column of the same name, which may be missing, except for `value`. Data without columns (a polars Series) are the values.

        Keys and values are binary or string columns, headers lists of (name, value) structs or maps, timestamps a timestamp, date or
        integer column (milliseconds), partitions an integer column. Another type raises TypeError before the first row is sent. A null
        means None in `send`. Keys and values are copied before the call returns. The call blocks for each row as `send` does.
        A refused row ends the call. As with `send_many`, the exception has a note with the row's number, and the attribute `accepted`, the
        handle of the earlier rows, which are sent.
        Raises the exceptions of `send`, ConfigError for a column that does not exist, ValueError for a row that cannot be sent.
        """
        columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp, "partition": partition}
        return send_arrow(self._session, topic, data, columns)

    def send_raw(self, topic: str, batch: RawBatch, partition: int | None = None) -> RawDelivery:
        """Queue a complete record batch, from `poll_raw` or `RawBatch.from_bytes`; return its `RawDelivery`.

        The batch keeps keys, values, headers, timestamps, order and compression; the broker assigns new offsets. The batch comes
        after all earlier records of `partition`, by default the partition from which the batch was read. Retries, idempotence,
        transactions, `buffer_memory`, rate limits, `stats` and the hooks of batches and requests work as for records; serializers and the
        hooks `on_send`, `on_enqueue` and `on_refuse` are not called. A batch with compaction gaps or broker timestamps (LOG_APPEND_TIME) is
        decompressed and rebuilt; a broker timestamp becomes the timestamp of each record. If brokers refuse a batch as too large, or refuse
        some of its records, the batch is decompressed and split.

        Blocks as `send` does, and also until the partitions of an unknown topic are known. Raises the exceptions of `send`, RecordTooLarge
        for a batch over `buffer_memory`, ValueError for a partition that does not exist, and DecodeError if the batch cannot be rebuilt.
        """
        return self._session.raw.accept(*self._session.raw.prepare(topic, batch, partition))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything without linger, and wait until each record sent before this call has its outcome and its callbacks have run.

        `timeout` in seconds, None: `delivery_timeout_ms`, and 5 s for callbacks. Raises KafkaTimeoutError, with the number of
        undelivered records if there are any; KafkaError inside a callback. On a thread of a ThreadPoolExecutor passed as
        `callback_executor`, `flush` does not wait for callbacks: they may need this very thread.
        """
        self._session.flush(check_timeout(timeout))

    def close(self, timeout: float | None = None) -> list[ProducerRecord]:
        """Deliver the queued records; return the undelivered records, in order within each partition.

        Waits at most `timeout` seconds (None: `close_timeout_ms`, by default `delivery_timeout_ms`; 0: not at all) for deliveries, then
        fails the remaining records. `close` aborts an open transaction, and waits for one that is already ending. Each returned
        record says whether it may be in the log (`written`). `close` may be called twice; after a Ctrl-C the next call finishes the
        close. In a callback `close` does not wait, and does nothing while another thread closes the producer. In a forked child it does
        nothing. Raises KafkaTimeoutError if the client's thread is stuck.
        """
        undelivered = self._session.close(check_timeout(timeout))
        if self._session.undelivered is not None:
            self._finalizer.detach()  # a finalizer would keep alive a closed producer that is in a cycle, for example through a listener
        return undelivered

    def init_transactions(self, timeout: float | None = None) -> None:
        """Prepare for transactions: get the producer id of `transactional_id`, fence its older producers, and end their transaction.

        Call this once, before the first transaction. `timeout` in seconds, default `max_block_ms`. Raises KafkaTimeoutError (call it
        again), AuthorizationError (call it again when the right has been granted), ConfigError without a `transactional_id` or if
        `transaction_timeout_ms` is too large for the brokers. Sources: KIP-98, KIP-360.
        """
        self._session.transactions.init(check_timeout(timeout))

    def begin_transaction(self) -> None:
        """Open a transaction: from now on `send` accepts records, from any thread.

        Raises TransactionError before `init_transactions` and while a transaction is open, ProducerFencedError, ConfigError without a
        `transactional_id`.
        """
        self._session.transactions.begin()

    def transaction(self, consumer: ReadingConsumer | None = None, timeout: float | None = None) -> TransactionBlock:
        """A `with` block that is one transaction; its value is the producer. Leaving it normally commits; an exception aborts.

        With a `consumer` (`enable_auto_commit=False`), the transaction includes the offsets of all records that polls and loops have
        returned, the current record included; after an abort the consumer reads these records again. `timeout` (seconds, default
        `max_block_ms`) limits the commit or abort. Raises the exceptions of `begin_transaction`, `send_offsets_to_transaction`,
        `commit_transaction` and `abort_transaction`; TypeError or ConfigError for a `consumer` whose offsets cannot be part of a
        transaction. Source: KIP-447.
        """
        return TransactionBlock(self, self._session.transactions, consumer, check_timeout(timeout))

    def send_offsets_to_transaction(
        self, offsets: Mapping[Any, int | OffsetAndMetadata], group_metadata: ConsumerGroupMetadata, timeout: float | None = None
    ) -> None:
        """Make offsets of a group part of the transaction, whose commit stores them. Returns when the coordinators have the offsets.

        `offsets` maps partitions to the offset of the next record to read (an int or OffsetAndMetadata), `group_metadata` is
        `consumer.group_metadata()`. `timeout` in seconds, default `max_block_ms`. Raises TransactionAborted if the member is no longer
        valid (abort the transaction), TransactionError outside of a transaction, KafkaTimeoutError (the commit waits for these
        offsets all the same), ProducerFencedError. Source: KIP-447.
        """
        self._session.transactions.send_offsets(offsets, group_metadata, check_timeout(timeout))

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Wait until every record of the transaction is acknowledged, then commit it.

        Raises TransactionAborted if a record or an offset of the transaction failed, or if a record was dropped: call `abort_transaction`
        next. Nothing is committed, unless the error says that the commit was sent and may have been carried out. Raises
        KafkaTimeoutError after `timeout` seconds (default `max_block_ms`): the outcome is not known, and another call waits for it. The
        same holds after Ctrl-C. Raises ProducerFencedError if another producer now uses the transactional id, TransactionError without an
        open transaction. Sources: KIP-98, KIP-890.
        """
        self._session.transactions.commit(check_timeout(timeout))

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort the transaction: fail the records that are not sent yet, wait for the records in flight, and notify the coordinator.

        Consumers with read_committed skip the records of an aborted transaction. `timeout` in seconds, default `max_block_ms`. Raises
        KafkaTimeoutError (call it again), ProducerFencedError, TransactionError without an open transaction.
        """
        self._session.transactions.abort(check_timeout(timeout))

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of `topic`, looked up if they are unknown. Brokers may create a missing topic, as for `send`.

        `timeout` in seconds, default `max_block_ms`. Raises KafkaTimeoutError with the reason, BrokerError (AuthorizationError, …).
        """
        topic, limit = check_topic(topic), check_timeout(timeout)
        self._session.check()
        return self._session.runtime.partitions_of(topic, self._session.config.max_block_ms / 1000 if limit is None else limit, create=True)

    def refresh_metadata(self, topics: Collection[str] | None = None, timeout: float | None = None) -> None:
        """Refresh the metadata of `topics`, or of all topics in use (None): see `Client.refresh_metadata`."""
        self._session.check()
        Client.of(self._session.runtime, self._session.config).refresh_metadata(topics, timeout)

    @contextlib.contextmanager
    def delivery_scope(self, timeout: float | None = None) -> Iterator[Producer]:
        """A `with` block that flushes at its end, and then raises DeliveryFailed for failures since its start, as `raise_failures` does.

        These include failures of records that other threads sent meanwhile. An exception raised inside the block ends it without a flush.
        `timeout` (seconds) is the timeout of the flush.
        """
        limit, mark = check_timeout(timeout), self._session.machine.ledger.failures_seen
        yield self
        self._session.flush(limit)
        self._session.raise_failures(mark)

    def __enter__(self) -> Producer:
        self._begin_block()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end_block(error, self.close(None if kind is None else self._session.exit_seconds))
