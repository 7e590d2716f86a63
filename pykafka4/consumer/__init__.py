"""Defines `Consumer`. Invariant: an auto-commit covers only finished records. Usually a record is finished when the application requests
the next one; `seek`, `commit` and `close` can also finish records.

`Consumer` is a handle. Threads that use the consumer decode records, keep positions (`consumer.session`) and call listeners
(`consumer.assignment`); the loop fetches, commits and sends heartbeats (`core.consumer.machine`). Both sides meet in
`consumer.reading.reader`.

Modules; each line imports only from lines below it:
    processing/        the handlers of `process`, and streams
    handle             the methods that `Consumer` and `aio.Consumer` share
    watched            the figures of consumers and share consumers for their status pages
    session            polls, seeks, pauses, runs of `process` and streams, `close`
    poison             the producer of dead letters for records that a deserializer refuses
    dead_letters       dead letters: their headers, and the call of `send`
    transactional      a consumer's offsets in transactions, and rewinds after uncommitted transactions
    polling_session    the common base of consumers and share consumers: errors, `status`, `close`
    assignment         assigned, revoked and lost partitions; calls of the rebalance listener
    commits            commits of the application, and the last auto-commit before a release
    until_end          the ends of a loop of `until_end`, also for partitions that are assigned later
    reading/           the way from fetched data to records, on the thread that polls
    hooks              calls of hooks with the records of a poll
    rewinding          rewinds of a group at the request of one member
    lookups            log offsets (ListOffsets)
    guard              the check that one thread at a time uses a consumer, even after Ctrl-C
    waits              the waits of a consumer's steps, and their form on threads
    selection          the subscription, and the partitions of `assign`
    arguments          checks of arguments
    exception_in_hand  the exception that an application handles while it polls
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, Self, TypeVar, Unpack, overload

from pykafka4.client.client import Client
from pykafka4.client.steps import at_once
from pykafka4.consumer.arguments import (
    Offsets,
    OnDone,
    PartitionList,
    Partitions,
    Times,
    Topics,
    check_lease,
    check_listener,
)
from pykafka4.consumer.dead_letters import LetterSender
from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.handle import ConsumerHandle
from pykafka4.consumer.processing.limits import Limits
from pykafka4.consumer.processing.plan import Stop, check_commits, check_sends, plan
from pykafka4.consumer.processing.run_loop import run
from pykafka4.consumer.processing.streams import Streams, open_streams, stream_counts
from pykafka4.consumer.processing.work import HandlerWork, Processed
from pykafka4.consumer.rewinding import RewindOffsets
from pykafka4.consumer.session import ConsumerSession
from pykafka4.consumer.transactional import TransactionalReads
from pykafka4.consumer.until_end import UntilEnd
from pykafka4.errors import ConfigError
from pykafka4.errors.frames import guarded
from pykafka4.misuse import api_timeout, check_timeout, refuse_keywords, topic_partition
from pykafka4.net import system
from pykafka4.options.config import ConsumerConfig
from pykafka4.options.from_properties import Properties, create
from pykafka4.options.typed import BytesConsumerOptions, ConsumerOptions
from pykafka4.records import KeyT, OffsetAndMetadata, TopicPartition, ValueT
from pykafka4.serializers import Deserializer
from pykafka4.wire.records.common import checked_callback
from pykafka4.wire.records.hot import Record, RecordColumns
from pykafka4.wire.records.raw_batch import RawBatch

if TYPE_CHECKING:
    from pykafka4.core.admin.values import ListedOffset

__all__ = ["Consumer"]

A = TypeVar("A")
B = TypeVar("B")


class Consumer(ConsumerHandle, Generic[KeyT, ValueT]):
    """Reads records from Kafka: with `subscribe` as a member of a group, with `assign` from given partitions, or both at once.

    `Consumer(bootstrap_servers="host:9092", **options)` owns a client; `Consumer(client=client, **options)` shares one. The options are
    the fields of `ConsumerConfig` (docs/options.md). Use a consumer from one thread at a time; heartbeats are sent in the background.
    Rebalance listeners run inside polls, iteration, `process`, `unsubscribe` and `close`, and the listener of `streams` in a thread of
    the client. Partitions are `TopicPartition`s or (topic, partition) pairs, timeouts are seconds.
    """

    _name = "Consumer"

    @overload
    def __init__(
        self: Consumer[bytes, bytes],
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[bytes, B],
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        key_deserializer: None = None,
        value_deserializer: Deserializer[B],
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[A, bytes],
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        key_deserializer: Deserializer[A],
        value_deserializer: None = None,
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[A, B],
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        key_deserializer: Deserializer[A],
        value_deserializer: Deserializer[B],
        **options: Unpack[BytesConsumerOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: Consumer[Any, Any],
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None: ...

    @guarded
    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ConsumerOptions]
    ) -> None:
        """Raises ConfigError for an invalid option. The client connects in the background; no broker needs to be up yet.

        `callback_executor` runs the callbacks of `commit_async`; default: one thread of the client.
        """
        self._session = session = ConsumerSession(client, callback_executor, options)
        self._finalizer = weakref.finalize(self, ConsumerSession.forgotten, session)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs

    @classmethod
    @guarded
    def from_properties(
        cls,
        properties: Properties,
        /,
        client: Client | None = None,
        *,
        callback_executor: Executor | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Self:
        """Create a consumer from a file or mapping of options with Java's or librdkafka's names: see `Client.from_properties`.

        `client`, `callback_executor` and `options` are as in the constructor; `options` override `properties`.
        """
        return create(cls, ConsumerConfig, properties, options, client=client, callback_executor=callback_executor)

    # -- topics and partitions

    def unsubscribe(self) -> None:
        """Leave the group and release all partitions, including the partitions of `assign`.

        With enable_auto_commit, the call first commits finished records. It calls the listener for the partitions of the group.
        """
        self._session.assignment.unsubscribe()

    # -- records

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None, **unknown: Never) -> list[Record[KeyT, ValueT]]:
        """A list of up to `max_records` records (default max_poll_records); empty if none arrived within `timeout` seconds.

        `timeout=None` waits indefinitely, 0 does not wait. Records returned by earlier polls count as finished. While a rebalance waits for
        the last commit of revoked partitions, `poll` returns no records for up to 0.5 s.

        Raises CorruptRecord and RecordTooLarge for a batch that cannot be read, and DeserializationError (with on_poison=raise), until
        `seek((error.topic, error.partition), error.next_offset)` skips the batch or record (`next_offset` is None if the end of the batch
        is unknown); InvalidOffset (with auto_offset_reset=none) until `seek` chooses an offset; errors that the application or
        an administrator must resolve (GroupError, …); AuthorizationError, at most once a second for each topic or group, while a right is
        missing; BrokerError (CORRUPT_MESSAGE), once, if a leader cannot read its log, while the client keeps trying; exceptions of the
        rebalance listener; ConfigError without partitions or a subscription, and for a compressed batch without the library of its codec.
        """
        if unknown:
            refuse_keywords("Consumer.poll", unknown)
        return self._session.poll(timeout, max_records, self._session.records)

    def poll_arrow(
        self, timeout: float | None = 1.0, max_rows: int | None = None, columns: Iterable[str] | None = None, **unknown: Never
    ) -> RecordColumns:
        """Records as columns, for everything that reads Arrow data: `polars.DataFrame(columns)`, `pyarrow.table(columns)`, DuckDB, pandas.

        Errors, positions and commits are as with `poll`. The call returns the records that have arrived: up to about 8 MiB of columns, or
        with `max_rows` up to that number of rows and about `max_decompressed_bytes`. If no record arrived within `timeout` seconds, the
        columns have length 0, and are false. `columns` names the wanted columns, in order; the default is topic, partition,
        offset, timestamp, timestamp_type, key, value, headers. Fewer columns need less CPU and memory.

        Columns that the application keeps, or that a data frame uses, count as waiting data, for up to half of `prefetch_bytes`. They may
        be freed on any thread. Raises ConfigError for a column that does not exist.
        """
        if unknown:
            refuse_keywords("Consumer.poll_arrow", unknown)
        return self._session.poll(timeout, max_rows, self._session.reader.columns.form(columns))

    def poll_raw(self, timeout: float | None = 1.0, max_batches: int | None = None, max_bytes: int | None = None) -> list[RawBatch]:
        """A list of complete record batches, as brokers store them; empty if none arrived within `timeout` seconds.

        The list ends after `max_batches` batches (default: no limit), or with the batch that brings their total size to `max_bytes`
        (default: `max_decompressed_bytes`). Checksums are verified. Control batches and, with read_committed, batches of aborted
        transactions are not returned. If reading begins in the middle of a batch (after a seek, or a `poll` that returned a part of
        the batch), the batch is unpacked, and packed again without the earlier records. Message sets of formats v0 and v1 become batches of
        format v2.

        Positions, commits, rebalances and errors are as with `poll`; the two methods may alternate. `Producer.send_raw` sends such batches.
        """
        return self._session.poll(timeout, max_batches, self._session.raw_form(max_bytes))

    def extend_lease(self, seconds: float) -> None:
        """Let the application work on the records in hand for up to `seconds` from now, beyond max_poll_interval_ms.

        The extension ends with the next poll, or the next record of a `for` loop. A later call replaces an earlier one; no call makes the
        lease shorter than max_poll_interval_ms. `seconds` is at most a day. May be called from any thread, even while another thread is in
        a call. If the group rebalances meanwhile, the other members wait for only max_poll_interval_ms; then the partitions are lost.

        Raises ConfigError without a subscription or a group_id, and for `seconds` out of range; GroupError before the first poll, if the
        lease has ended or partitions were lost (another member may have them), or if the group is rebalancing and does not wait that long.
        """
        self._session.assignment.extend_lease(check_lease(seconds))

    def __iter__(self) -> Iterator[Record[KeyT, ValueT]]:
        """An endless loop over single records. Each record counts as finished when the loop requests the next one.

        An exception of a poll does not end the iterator.
        """
        iteration = Iteration()
        return chain.from_iterable(iteration.follow(self._lists(iteration)))

    def until_end(self) -> Iterator[Record[KeyT, ValueT]]:
        """A loop over single records up to the ends that the logs of the assigned partitions have at the time of the call.

        The loop commits like the endless loop; when it ends, all its records are finished. In a group, partitions that a rebalance takes
        away drop out, and partitions that a rebalance brings are read up to their ends at that time; the loop does not end before this
        member has its partitions. Paused partitions are left out. A poll or another loop after this loop reads on without ends; a poll or
        another loop during this loop makes this loop raise a KafkaError.

        With isolation_level="read_committed" the end is the last stable offset. Waits up to 60 s for the positions, and up to 60 s for the
        ends. Raises ConfigError without partitions or a subscription, the errors of `position` and `end_offsets`, and in the loop also the
        errors of `poll`. Errors in the loop do not end the iterator.
        """
        ends = UntilEnd(self._session, Iteration())
        self._session.find_ends(ends)
        return chain.from_iterable(ends.iteration.follow(self._lists_until_end(ends)))

    def batches(self, timeout: float | None = 1.0, max_records: int | None = None) -> Iterator[list[Record[KeyT, ValueT]]]:
        """An endless loop over the lists that `poll` returns, including the empty list after `timeout` seconds without records."""
        # Not a generator: Ctrl-C between the return of `poll` and the `yield` would lose the list.
        poll = partial(self._session.poll, timeout, max_records, self._session.records)
        poll.__dict__["consumer"] = self  # the loop may have the only reference to the consumer
        return iter(poll, None)

    def _lists(self, iteration: Iteration) -> Iterator[Iterator[Record[KeyT, ValueT]]]:
        yield from self._session.lists(iteration)

    def _lists_until_end(self, ends: UntilEnd) -> Iterator[Iterator[Record[KeyT, ValueT]]]:
        yield from self._session.lists_until_end(ends)

    def seek_to_end(self, partitions: Partitions | None = None, timeout: float | None = None) -> None:
        """Continue at the current end of the log; with isolation_level="read_committed", at the last stable offset.

        `partitions=None` means all assigned partitions. A `commit` after this call needs no poll to commit that end; the group then skips
        its backlog. Waits up to `timeout` seconds (default 60) for the lookup.
        Raises ConfigError for a partition that is not assigned, the errors that `poll` raises for a partition, and KafkaTimeoutError: then
        the lookup continues in the background, and `position` waits for it.
        """
        self._session.seek_to_end(partitions, api_timeout(timeout))

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the next record to return. Waits up to `timeout` seconds (default 60) until it is known.

        Raises KafkaTimeoutError after that time, ConfigError for a partition that is not assigned, or is taken away before its
        position is known, and the errors that `poll` raises for this partition.
        """
        return self._session.position(topic_partition(partition), api_timeout(timeout))

    def beginning_offsets(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The first offset in the log of each partition, assigned or not. No position moves. Any thread may call this method.

        Waits up to `timeout` seconds (default 60). A call for one partition raises its error (BrokerError, AuthorizationError,
        KafkaTimeoutError); a call for several raises PartialFailure with the error of each partition that failed.
        `Client.list_offsets` returns all outcomes instead.
        """
        return at_once(self._session.lookups.beginnings(partitions, api_timeout(timeout)))

    def end_offsets(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, int]:
        """The end of the log of each partition, assigned or not: the offset of the next record. No position moves.

        With isolation_level="read_committed" the end is the last stable offset. Raises the same errors as `beginning_offsets`.
        """
        return at_once(self._session.lookups.ends(partitions, api_timeout(timeout)))

    def offsets_for_times(self, times: Times, timeout: float | None = None) -> dict[TopicPartition, ListedOffset | None]:
        """The `offset` and `timestamp_ms` of the first record of each partition at or after a time; None if there is no such record.

        `times` maps partitions, assigned or not, to milliseconds since 1970 or aware datetimes. No position moves (`seek_to_time` does
        that). Raises the same errors as `beginning_offsets`.
        """
        return at_once(self._session.lookups.for_times(times, api_timeout(timeout)))

    # -- commits

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None, *, topic: str | None = None, **unknown: Never) -> None:
        """Commit offsets for the group; return when the coordinator has stored them.

        Without `offsets`, the call commits all records that `poll` has returned; inside a `for` loop, all records before the current one.
        Offsets of a deleted topic are left out, because in a new topic of the same name they would be offsets of other records.
        With `topic`, the call commits only offsets of this topic. While `process` or streams run, the call commits their finished records,
        except in partitions that are being revoked.
        `offsets` maps partitions to the offset of the next record to read (an int or OffsetAndMetadata).
        Raises ConfigError without a group_id, for `offsets` together with `topic`, and for a topic that the consumer does not read;
        GroupError if partitions are not assigned to this member (a consumer that has not subscribed may commit offsets of any partition);
        AuthorizationError; KafkaTimeoutError after `timeout` seconds (default 60): then the outcome is unknown, unless the message
        says that the commit was not sent.
        """
        if unknown:
            refuse_keywords("Consumer.commit", unknown)
        self._session.commits.commit(offsets, api_timeout(timeout), topic)

    def commit_async(self, offsets: Offsets | None = None, on_done: OnDone | None = None, *, topic: str | None = None) -> None:
        """Commit as `commit` does, but without waiting; then `on_done(offsets, error)` runs on the callback executor.

        `error` is None on success. Without `on_done` a failure is logged as a warning.

        Commits reach the coordinator in the order of the calls. At most 1,000 commits can wait for the coordinator; further commits fail.
        With `on_done`, raises BufferFull while 10,000 callbacks wait to run.
        """
        self._session.commits.commit_async(offsets, on_done, topic)

    @overload
    def committed(self, partitions: TopicPartition | tuple[str, int], timeout: float | None = None) -> OffsetAndMetadata | None: ...

    @overload
    def committed(self, partitions: PartitionList, timeout: float | None = None) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def committed(
        self, partitions: TopicPartition | tuple[str, int] | Partitions, timeout: float | None = None
    ) -> OffsetAndMetadata | dict[TopicPartition, OffsetAndMetadata | None] | None:
        """The committed offsets of the group: an OffsetAndMetadata or None for one partition, a dict of these for several.

        Raises ConfigError without a group_id, KafkaTimeoutError after `timeout` seconds (default 60), GroupError or AuthorizationError.
        """
        limit = api_timeout(timeout)
        if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
            return self._session.commits.committed((partitions,), limit)[topic_partition(partitions)]
        return self._session.commits.committed(partitions, limit)

    def rewind_group(self, offsets: RewindOffsets, timeout: float | None = None) -> Future[dict[TopicPartition, int]]:
        """Have all members of the running group continue at other offsets, whichever member owns a partition.

        `offsets` maps partitions to an offset, `EARLIEST`, `LATEST` or an aware datetime (the first record of that time or later; without
        such a record, the end). The call returns after the lookup of these offsets.
        Returns a Future of the offsets, done when the new offset of each partition is known to be committed. Keep polling meanwhile: the
        group rebalances, and this member takes part. Each owner commits the new offsets and reads on from there. The owner's listener gets
        `on_partitions_revoked` (with cooperative assignors `on_partitions_lost`), then `on_partitions_assigned` for these partitions.
        No commit of records that were read before the rewind passes the new offset. A partition whose owner leaves meanwhile may be rewound
        twice.
        The future fails with KafkaError if this consumer waits for another rewind, if a member uses another client, a version of this
        client that cannot rewind, or the assignor `sticky` (the message names the member), if no member is subscribed to a partition, or if
        the group has members of the consumer protocol. It fails with KafkaTimeoutError after `timeout` seconds (default 60), and with
        KafkaError if this consumer leaves the group; then the rewind may still be carried out. A refusal before the rewind has begun leaves
        all offsets unchanged; later, the error of a timeout or refusal names the partitions that are perhaps not rewound. `cancel`
        withdraws a rewind that no JoinGroup request has carried yet.
        Raises ConfigError without a subscription or a group_id, with group_protocol="consumer", and for an offset that is not in the log;
        the lookup raises the same errors as `beginning_offsets`.
        """
        return self._session.rewinding.future(offsets, api_timeout(timeout))

    def _in_transaction(self) -> TransactionalReads:
        """For `Producer.transaction`."""
        self._session.transactional.check()
        return self._session.transactional

    # -- handlers

    def process(
        self,
        handler: Callable[[Record[KeyT, ValueT]], object],
        by: Literal["key", "partition"] | Callable[[Record[KeyT, ValueT]], Hashable] = "key",
        workers: int = 8,
        *,
        retries: int = 0,
        retry_backoff: float = 0.1,
        dead_letter: str | None = None,
        producer: LetterSender | None = None,
        max_in_hand: int = 10_000,
        drain_timeout: float = 30.0,
        stop: Stop | None = None,
        executor: Executor | None = None,
    ) -> Processed:
        """Call `handler(record)` for each record, on `workers` threads, in order per key, and commit finished records.

        Runs until `stop` (a threading.Event) is set, and returns the counts; an error ends the run. The committed offset of a partition
        never passes an unfinished record, so after a crash, records from the first unfinished one on are handled again (at least once).

        `by`: "key" handles records with the same key in order, and records without a key in any order; "partition" keeps the order of each
        partition; with a callable, records for which it returns equal keys are handled in order.
        The handler must be neither a coroutine function nor a generator function. If a handler returns a `Delivery`, or a list of them, its
        record is finished when these are acknowledged.
        A handler that raises is called again up to `retries` times, after `retry_backoff` seconds, which double each time up to 30 s; the
        other keys continue meanwhile. Then `producer` sends the record to the topic `dead_letter`, with the cause in headers;
        without `dead_letter`, `process` ends and raises the handler's exception.
        In each partition, the first unfinished record and all records after it that were handed out count as in hand: about `max_in_hand`
        in all partitions together, at most three times as many. A partition with a slow record is paused when it has its share in hand (at
        least one record); the others continue.
        When the run ends, and before partitions go to another member, `process` waits up to `drain_timeout` seconds for the running
        handlers (before a revocation for at most half of max_poll_interval_ms). When the run ends, reading goes back to the first
        unfinished record of each partition.
        `executor` runs the handlers instead of daemon threads of the client (then `workers` has no effect); it must use threads of this
        interpreter.

        During the run other threads, including handlers' threads, may only close the consumer and call methods that any thread may call
        (`wakeup`, `stats`, `status`, …).
        Without a group_id, nothing is committed. Raises ConfigError with a group_id and enable_auto_commit, and inside
        `transaction(consumer)`; TypeError or ConfigError with the name of a wrong argument; KafkaError for a dead letter that could not be
        written; the errors of `poll`.
        """
        session = self._session
        session.check()
        check_commits(session.config)
        session.transactional.check_none("process")
        check_sends(producer)
        handler = checked_callback("process", "the handler", handler)
        how = by, workers, retries, retry_backoff, dead_letter, producer, max_in_hand, drain_timeout, stop, executor
        work = HandlerWork(plan(session.config, handler, *how), self.wakeup)
        run(self, work, session)
        return work.result()

    @overload
    def streams(
        self,
        topics: Mapping[str, int],
        *,
        listener: object | None = None,
        max_in_hand: int = 10_000,
        drain_timeout: float = 30.0,
    ) -> Streams[KeyT, ValueT]: ...

    @overload
    def streams(
        self,
        topics: Topics,
        count: int,
        *,
        listener: object | None = None,
        exclude: Topics | None = None,
        max_in_hand: int = 10_000,
        drain_timeout: float = 30.0,
    ) -> Streams[KeyT, ValueT]: ...

    def streams(
        self,
        topics: Mapping[str, int] | Topics,
        count: int | None = None,
        *,
        listener: object | None = None,
        exclude: Topics | None = None,
        max_in_hand: int = 10_000,
        drain_timeout: float = 30.0,
    ) -> Streams[KeyT, ValueT]:
        """Subscribe to `topics`, and divide their partitions among streams: iterators over records, each for a thread of the application.

        `streams({"orders": 4, "refunds": 1})` makes four streams of one topic and one of another; `streams(pattern, 4)` makes four of
        all topics that match, or that a list names (`exclude` as in `subscribe`). A partition is on one stream at a time: after a move to
        another stream it starts there when its current record on the old stream is finished, or put back by `leave`. Some streams have no
        partition while there are more streams than partitions.

        A record is finished when a thread requests the next one from its stream, or calls `finish`. Finished records are committed every
        5 s, before partitions go to another member, and by `close`; the committed offset of a partition never passes an unfinished record.
        About `max_in_hand` records wait for the streams (see `process`); partitions whose records are not read are paused.
        Before partitions go to another member (for at most half of max_poll_interval_ms), and in `close`, the streams wait up to
        `drain_timeout` seconds for current records.
        A thread of the client polls, commits and runs `listener`, so the member keeps its partitions, however long a record takes.

        Without a group_id, nothing is committed, and `commit` of the streams raises ConfigError.
        Raises ConfigError with a group_id and enable_auto_commit, inside `transaction(consumer)`, while other streams are open, and if the
        consumer reads a partition that belongs to no stream; TypeError or ConfigError for a wrong argument; KafkaError while another thread
        is in a loop over the consumer.
        """
        session = self._session
        session.check()
        config = session.config
        if config.group_id is not None and config.enable_auto_commit:
            raise ConfigError("streams commit finished records themselves: create the consumer with enable_auto_commit=False")
        if session.guard.lent is not None:
            raise ConfigError(f"streams was called while {session.guard.lent[1]}")
        session.transactional.check_none("streams")
        counts, subscribed = stream_counts(topics, count)
        check_listener(listener)
        limits = Limits.of(config, max_in_hand, drain_timeout)
        session.guard.iterate(system.current_thread(), None, "streams")
        return open_streams(self, counts, limits, session, lambda: session.assignment.subscribe(subscribed, listener, exclude))

    # -- the rest

    def close(self, timeout: float | None = None) -> None:
        """Commit finished records (with enable_auto_commit), call the listener, leave the group, release everything.

        Takes at most `timeout` seconds (default: `close_timeout_ms`) plus the time of the listener, which may commit. `timeout=0` sends
        the requests without waiting for responses.

        | last records | `close()`, or the end of a `with` block | while an exception is handled, or from another thread |
        |---|---|---|
        | the list that `poll` or `batches` returned last | finished | not finished |
        | the current record of a `for` loop, even after `break` | not finished | not finished |
        | the records before the current one | finished | finished |

        An exception that was already being handled during the last `poll` does not count.
        Records that are not finished are redelivered to the next owners of their partitions; `commit({(topic, partition): offset + 1})`
        commits one explicitly. An exception of the listener is raised after everything is closed. `close` may be called twice, in a
        listener, and from another thread; a running `poll` then raises ClosedError.
        """
        limit = check_timeout(timeout)
        self._finalizer.detach()
        self._session.close(limit)

    def __enter__(self) -> Self:
        self._session.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finalizer.detach()
        self._session.close(failed=error is not None)
