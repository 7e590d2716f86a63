"""Consumer. Rule: a record counts as finished when the next one is asked for, and nothing unfinished is ever committed.

Decoding, positions (`consumer.session`) and listeners (`consumer.assignment`) belong to the thread that polls; fetching, heartbeats and
commits to the loop (`core.consumer.machine`). The two meet in `core.consumer.reader`: chunks go one way and counters the other.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack, overload

from pykafka4.client import Client
from pykafka4.consumer.arguments import Offsets, OnDone, Partitions, SeekOffsets, as_seek_offsets
from pykafka4.consumer.session import API_SECONDS, Session
from pykafka4.core.subscription import Start
from pykafka4.misuse import ShortCuts, check_timeout, hint, refuse_pickling, topic_partition
from pykafka4.options import ConsumerOptions
from pykafka4.peers import CONSUMER_METHODS
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["Consumer"]


class Consumer(metaclass=ShortCuts, shortcut="poll"):
    """Reads records from Kafka: by `subscribe` as a member of a group, by `assign` from given partitions, or both side by side.

    `Consumer(bootstrap_servers="host:9092", **options)` owns a client; `Consumer(client=client, **options)` shares one. Options are those
    of `ConsumerConfig` (docs/options.md). One thread at a time uses it; heartbeats go on by themselves. Listeners run inside `poll` and
    iteration, on the thread that polls. Partitions are `TopicPartition`s or (topic, partition) pairs, timeouts are seconds.
    """

    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ConsumerOptions]
    ) -> None:
        """ConfigError names a wrong option. Nothing is connected to before something is to be read.

        `callback_executor` runs the callbacks of `commit_async`; by default they run on a thread of the client.
        """
        self._session = session = Session(client, callback_executor, options)
        Consumer.choose(self)
        self._finalizer = weakref.finalize(self, Session.forgotten, session)
        self._finalizer.atexit = False  # the client drains at exit

    # -- what to read

    def subscribe(self, topics: Sequence[str], listener: object | None = None) -> None:
        """Read `topics` as a member of the group, in place of those subscribed to before. Joining begins with the next poll.

        `listener` has any of the methods on_partitions_assigned, on_partitions_revoked, on_partitions_lost; each gets a list of
        TopicPartitions. Without on_partitions_lost a loss is told to on_partitions_revoked. Raises ConfigError.
        """
        self._session.assignment.subscribe(topics, listener)

    def unsubscribe(self) -> None:
        """Leave the group and give up every partition, assigned ones too. What is finished is committed if enable_auto_commit says so."""
        self._session.assignment.unsubscribe()

    def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions, beside what `subscribe` brings; those already assigned go on where they are.

        With a group_id reading begins at the committed offset, without one or the other by auto_offset_reset. Raises ConfigError for
        duplicates and for partitions of subscribed topics.
        """
        self._session.assignment.assign(partitions)

    def assignment(self) -> set[TopicPartition]:
        """The partitions this consumer reads now."""
        return set(self._session.reader.claims)

    def subscription(self) -> set[str]:
        """The topics subscribed to."""
        return set(self._session.selection.topics)

    # -- records

    def _fast(self) -> Callable[..., list[Record]]:
        """`poll` with one call less; the method below is its contract."""
        return self._session.poll

    def poll(self, timeout: float | None = 1.0, max_records: int | None = None) -> list[Record]:
        """Up to `max_records` records (default max_poll_records), always a list; empty when none came within `timeout` seconds.

        What earlier polls handed out counts as finished from here on. None waits as long as it takes, 0 not at all. Raises CorruptRecord
        and RecordTooLarge for a batch that cannot be read, again until `seek((error.topic, error.partition), error.next_offset)` passes
        it; InvalidOffset (with auto_offset_reset=none) until `seek` says where to go on; errors that only an application or administrator
        can answer (GroupError, AuthorizationError, …); BrokerError (CORRUPT_MESSAGE), once, where a leader cannot read its log, which is
        tried again meanwhile; what a listener raises.
        """
        return self._session.poll(timeout, max_records)

    def wakeup(self) -> None:
        """Make the poll in progress in another thread, or else the next one, return at once: [] if there are no records.

        Allowed from any thread and from signal handlers. Iteration goes on; `close` ends it.
        Other methods called by a signal handler or destructor raise KafkaError while a poll on the same thread is taking out records.
        """
        self._session.wakeup()

    def __iter__(self) -> Iterator[Record]:
        """One record after the other, without end. Each counts as finished when the next is asked for."""
        return chain.from_iterable(self._lists())

    def batches(self, timeout: float | None = 1.0, max_records: int | None = None) -> Iterator[list[Record]]:
        """What `poll` returns, again and again without end: empty lists too, so that the loop's body can look at other things."""
        # Not a generator: Ctrl-C between the return of `poll` and the `yield` would lose the list.
        return iter(partial(self._session.poll, timeout, max_records), None)

    def _lists(self) -> Iterator[Iterator[Record]]:
        yield from self._session.lists()

    # -- positions

    @overload
    def seek(self, partition: TopicPartition | tuple[str, int], offset: int) -> None: ...

    @overload
    def seek(self, partition: SeekOffsets) -> None: ...

    def seek(self, partition: TopicPartition | tuple[str, int] | SeekOffsets, offset: int | None = None) -> None:
        """Continue at `offset`; records before it count as finished, and records that are already buffered are dropped.

        A mapping moves several partitions in one call: `seek({("orders", 0): 5, ("orders", 1): 7})`. With thousands of partitions this is
        much faster than one call for each. Nothing moves if one of them is wrong.

        Raises ConfigError for a negative offset or a partition that is not assigned to this consumer.
        """
        self._session.seek(as_seek_offsets(partition, offset))

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        """Read on from the first record there is; None: of all assigned partitions."""
        self._session.seek_to(partitions, Start.EARLIEST, "seek_to_beginning")

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        """Read on from what comes after the last record there is; None: of all assigned partitions."""
        self._session.seek_to(partitions, Start.LATEST, "seek_to_end")

    def position(self, partition: TopicPartition | tuple[str, int], timeout: float | None = None) -> int:
        """The offset of the record handed out next. Waits up to `timeout` seconds (default 60) while it is being found out."""
        return self._session.position(topic_partition(partition), _limit(timeout))

    def lag(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """How many offsets lie between the position and the end of the log as last heard of; None while either is unknown."""
        return self._session.lag(topic_partition(partition))

    def pause(self, partitions: Partitions) -> None:
        """Hand out nothing of these until `resume`; membership and position stay."""
        self._session.pause(partitions)

    def resume(self, partitions: Partitions) -> None:
        """Hand these out again."""
        self._session.resume(partitions)

    def paused(self) -> set[TopicPartition]:
        """The partitions paused."""
        return set(self._session.reader.paused)

    # -- commits

    def commit(self, offsets: Offsets | None = None, timeout: float | None = None) -> None:
        """Store positions with the group; returns when the coordinator has them.

        Without `offsets`: everything handed out by polls that returned, inside a `for` loop everything before the record in hand.
        `offsets` maps partitions to the offset of the next record to read (an int or OffsetAndMetadata). Raises GroupError when the
        partitions are not this consumer's (one that has not subscribed may commit for any), KafkaTimeoutError after `timeout` seconds
        (default 60): then the outcome is unknown.
        """
        self._session.commits.commit(offsets, _limit(timeout))

    def commit_async(self, offsets: Offsets | None = None, on_done: OnDone | None = None) -> None:
        """The same without waiting; `on_done(offsets, error)` is called on the callback executor, with None for no error.

        Commits reach the coordinator in the order in which they were made. Further ones than 1,000 that wait for it fail.
        BufferFull when 10,000 such callbacks have not begun.
        """
        self._session.commits.commit_async(offsets, on_done)

    @overload
    def committed(self, partitions: TopicPartition | tuple[str, int], timeout: float | None = None) -> OffsetAndMetadata | None: ...

    @overload
    def committed(self, partitions: Partitions, timeout: float | None = None) -> dict[TopicPartition, OffsetAndMetadata | None]: ...

    def committed(
        self, partitions: TopicPartition | tuple[str, int] | Partitions, timeout: float | None = None
    ) -> OffsetAndMetadata | dict[TopicPartition, OffsetAndMetadata | None] | None:
        """What the group has stored: an OffsetAndMetadata or None for one partition, a dict of these for several."""
        limit = _limit(timeout)
        if isinstance(partitions, tuple) and len(partitions) == 2 and isinstance(partitions[0], str):
            return self._session.commits.committed((partitions,), limit)[topic_partition(partitions)]
        return self._session.commits.committed(partitions, limit)

    # -- the rest

    def status(self) -> dict[str, Any]:
        """Why is nothing flowing: the client's status, this member's, and what each partition waits for."""
        return {**self._session.runtime.status(), "consumer": self._session.status()}

    def stats(self) -> dict[str, int]:
        """Bytes fetched so far, bytes that wait for `poll`, partitions assigned."""
        return self._session.stats()

    def close(self, timeout: float | None = None) -> None:
        """Commit what is finished (with enable_auto_commit), tell the listener, leave the group, let go of everything.

        Takes at most `timeout` seconds (default 10) and the listener's time, which may commit; with 0 nothing is waited for, but sent.

        | records in hand | `close()`, or the end of a `with` block | while an exception is handled, or from another thread |
        |---|---|---|
        | the list that `poll` or `batches` returned last | finished | not finished |
        | the record that a `for` loop holds, also after `break` | not finished | not finished |
        | the records before it | finished | finished |

        An exception that was being handled during that `poll` already does not count.
        What is not finished is read again by whoever has the partition next; `commit({(topic, partition): offset + 1})` finishes a record
        by name. What the listener raises is raised here when all is closed. Closing twice, in a listener or from another thread is
        allowed; a poll there raises ClosedError.
        """
        limit = check_timeout(timeout)
        self._finalizer.detach()
        self._session.close(limit)

    def __enter__(self) -> Consumer:
        self._session.check()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._finalizer.detach()
        self._session.close(failed=error is not None)

    def __repr__(self) -> str:
        return f"<Consumer of group {self._session.config.group_id!r} at {self._session.runtime!r}>"

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(hint("Consumer", name, CONSUMER_METHODS, dir(type(self))))

    def __reduce__(self) -> Any:
        return refuse_pickling("Consumer")


def _limit(timeout: float | None) -> float:
    limit = check_timeout(timeout)
    return API_SECONDS if limit is None else limit
