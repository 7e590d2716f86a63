"""Reads topics between two offsets of each partition, on the thread that iterates.

Invariant: a read releases its connections when its iteration ends, on `close`, or when its handle is garbage-collected.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from itertools import chain
from types import TracebackType
from typing import Any, Literal, Self, Unpack

from pykafka4.bounded.extent import as_extent
from pykafka4.bounded.progress import counted, progress_for
from pykafka4.bounded.reading import BoundedRead, LostRange, read_options
from pykafka4.bounds import BoundSpec, Span
from pykafka4.client.client import Client
from pykafka4.client.steps import at_once
from pykafka4.consumer.guard import Iteration
from pykafka4.consumer.session import ConsumerSession, FailedPoll
from pykafka4.errors.frames import guarded
from pykafka4.misuse import check_timeout
from pykafka4.options.typed import ConsumerOptions
from pykafka4.records import TopicPartition
from pykafka4.splits import Split
from pykafka4.wire.records.hot import Record

__all__ = ["CLOSE_S", "Read", "close_read", "forgotten", "read"]

CLOSE_S = 5.0  # seconds, at most, to release a read's connections


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
    """All records of `topics` between two offsets of each partition, as an iterator. The read has no group, and commits nothing.

    `start` and `until` are "earliest", "latest" or "now" (the end of the log), a datetime with a time zone, milliseconds since 1970, a
    duration before now ("-1h", "-30m", "-7d", a timedelta), or a mapping of partitions to offsets: {("orders", 0): 5}, or {0: 5} with one
    topic. A time means the first record that is not older. The read stops before `until`. `partitions` are (topic, partition)
    pairs, or numbers if there is one topic; None means all. `split`, one of the results of `Client.splits`, replaces `topics`, `start`,
    `until` and `partitions`.

    The call, or `Client.splits`, looks up both ends, so the read ends even if more records are written. The records of one partition are
    in order. With isolation_level="read_committed", the default here, "now" is before the first open transaction (the last stable offset).

    Records deleted before they are read, by retention, DeleteRecords or an unclean leader election, raise OffsetOutOfRange or LogTruncated
    with the lost offsets; a topic that is created again raises InvalidOffset. With on_lost="warn", a warning and the result's `lost`
    name the lost offsets, and the read continues. Compacted records do not count as lost.

    After `timeout` seconds without progress, for example because a partition has no leader, iteration raises KafkaTimeoutError; None means
    no limit. The lookup of the ends has the same limit, or 60 s with None. `progress` shows a progress bar on stderr (rich's, if it is
    installed). The other options are options of `Consumer`, except options for groups, `auto_offset_reset` and
    `exclude_internal_topics`; `client` is a client to share.

    Raises TypeError or ConfigError for a wrong argument, ConfigError for an offset beyond the end of the log, BrokerError for a topic or
    partition that does not exist, AuthorizationError, KafkaTimeoutError; PartialFailure if the lookup fails for several partitions.
    """
    extent = as_extent("read", topics, start, until, partitions, split)
    session = ConsumerSession(client, None, read_options(options, "read"))
    try:
        reading = BoundedRead(session, extent, on_lost, progress_for(progress), check_timeout(timeout))
        at_once(reading.opening())
    except BaseException:
        session.close(0, failed=True)
        raise
    return Read(reading)


class Read:
    """The iterator and context manager that `read` returns. A read that is left early is closed when the iterator is freed.

    An exception does not end the iterator: the next call tries again. One thread at a time may iterate.
    """

    def __init__(self, reading: BoundedRead) -> None:
        self._reading = reading
        self._finalizer = weakref.finalize(self, forgotten, reading)
        self._finalizer.atexit = False  # at exit the client drains its sessions itself, while its loop still runs
        self._iteration = Iteration()  # the iteration of direct calls of `next`
        self._iteration.follow(self)
        self._list: Iterator[Record[Any, Any]] = iter(())

    def __iter__(self) -> Iterator[Record[Any, Any]]:
        iteration = Iteration()
        return chain.from_iterable(iteration.follow(self._lists(iteration)))

    def __next__(self) -> Record[Any, Any]:
        while (record := next(self._list, None)) is None:
            if self._reading.done:
                self.close()
                raise StopIteration
            self._list = self._reading.poll(self._reading.session.one_by_one, None, self._iteration)
        return record

    def _lists(self, iteration: Iteration) -> Iterator[Iterator[Record[Any, Any]]]:
        reading = self._reading  # `self` in this generator keeps the handle alive: a `for` loop over `read(…)` refers only to the generator
        records: Iterator[Record[Any, Any]] = iter(())
        while True:
            try:
                while True:  # inside the `try`: Ctrl-C can come between two rounds
                    yield records
                    if reading.done:
                        self.close()
                        return
                    records = reading.poll(reading.session.one_by_one, None, iteration)
            except GeneratorExit:
                raise
            except BaseException as error:  # a generator that raises has ended, which would look like the end of the read
                records = FailedPoll(error)

    @property
    def spans(self) -> dict[TopicPartition, Span]:
        """The offset range of each partition, as it was fixed when the read began."""
        return dict(self._reading.spans)

    @property
    def lost(self) -> list[LostRange]:
        """The ranges that have been lost so far, with on_lost="warn"."""
        return list(self._reading.lost)

    def close(self) -> None:
        """Release the connections. May be called twice, and by another thread. Iteration then raises ClosedError, unless it has ended."""
        if self._finalizer.detach() is not None:
            close_read(self._reading)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Read of {', '.join(map(str, self._reading.spans))}: {counted(self._reading.records)} so far>"


def forgotten(reading: BoundedRead) -> None:
    """Close a read that nothing refers to any more, on another thread, because the garbage collector must not wait."""
    session = reading.session
    if not session.closed and session.runtime.loop.alive:
        session.runtime.callbacks.post(lambda: close_read(reading))


def close_read(reading: BoundedRead) -> None:
    reading.end()
    reading.session.close(CLOSE_S, failed=True)
