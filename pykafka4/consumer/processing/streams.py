"""Implements the handles that `Consumer.streams` returns.

Invariant: after the end of the streams, a loop ends when it requests its next record. `close` waits no longer than its timeout.

`processing.allotment` has the partitions and unfinished records of each stream; `processing.dispatcher` polls and commits.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Generic, Self, overload

from pykafka4.client.runtime import warn_unclosed
from pykafka4.consumer.processing.allotment import Allotment, StreamState
from pykafka4.consumer.processing.dispatcher import Dispatcher
from pykafka4.consumer.processing.limits import Limits, at_least_one
from pykafka4.consumer.processing.run_loop import RunConsumer
from pykafka4.errors import ConfigError, ForkedClientError, shown
from pykafka4.logs import get_log
from pykafka4.misuse import api_timeout, check_timeout, refuse_pickling
from pykafka4.net import logs, system
from pykafka4.records import KeyT, TopicPartition, ValueT
from pykafka4.wire.records.hot import Record

__all__ = ["MOST_STREAMS", "Counts", "Stream", "Streams", "open_streams", "stream_counts"]

log = get_log("pykafka4.processing")

MOST_STREAMS: Final = 10_000
FORKED: Final = "these streams were opened in the parent process; create a Consumer in this one"

Counts = dict[str | None, int]


class Stream(Generic[KeyT, ValueT]):
    """An iterator over the records of some partitions, for one thread: `for record in stream`.

    A record is finished when the thread requests the next one. So the current record of a loop that was left, by `break` or an exception,
    stays unfinished until `finish` or the next request. The loop ends when the streams are stopped or closed. The loop raises the
    error that ended the streams, if any.
    """

    __slots__ = ("__weakref__", "_allotment", "_loop", "_state", "_streams")

    def __init__(self, streams: Streams[KeyT, ValueT], state: StreamState, allotment: Allotment, loop: Any) -> None:
        self._streams = streams  # a reference: otherwise `Streams` could be collected, and closed, while a thread iterates
        self._state, self._allotment, self._loop = state, allotment, loop

    @property
    def topic(self) -> str | None:
        """The topic of the stream; None for a stream of a pattern or list of topics."""
        return self._state.topic

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that the stream has now."""
        return set(self._state.queues)

    def __iter__(self) -> Iterator[Record[KeyT, ValueT]]:
        """The same stream: a second loop continues where the first was left, and finishes the record that was current there."""
        return self

    def __next__(self) -> Record[KeyT, ValueT]:
        """Finish the previous record, then wait for the next one and return it.

        Raises StopIteration when the streams have ended, KafkaError if another thread reads this stream, and the error that ended the
        streams.
        """
        if self._loop.forked:
            raise ForkedClientError(FORKED)
        return self._allotment.next_record(self._state)

    def finish(self) -> None:
        """Count the current record as finished, without requesting the next one. Then another thread may read this stream.

        Raises KafkaError while another thread reads it.
        """
        self._allotment.finish(self._state)

    def leave(self) -> None:
        """Leave the current record unfinished, so that it is returned again. Then another thread may read this stream.

        Raises KafkaError while another thread reads it.
        """
        self._allotment.leave(self._state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"<{self._state.name} with {', '.join(map(str, sorted(self._state.queues))) or 'no partitions'}>"

    def __reduce__(self) -> Any:
        return refuse_pickling("Stream")


class Streams(Sequence[Stream[KeyT, ValueT]]):
    """The streams of a consumer, each for one thread: a sequence of `Stream`. Leaving a `with` block closes them.

    While the streams are open, any thread may still call the consumer's `close`, `wakeup`, `assignment`, `committed`, `stats` and `status`.
    """

    def __init__(self, dispatcher: Dispatcher, loop: Any) -> None:
        self._streams = [Stream(self, state, dispatcher, loop) for state in dispatcher.streams]
        self._dispatcher, self._loop = dispatcher, loop
        self._finalizer = weakref.finalize(self, _forgotten, dispatcher)
        self._finalizer.atexit = False

    @overload
    def __getitem__(self, at: int) -> Stream[KeyT, ValueT]: ...

    @overload
    def __getitem__(self, at: slice) -> list[Stream[KeyT, ValueT]]: ...

    def __getitem__(self, at: int | slice) -> Stream[KeyT, ValueT] | list[Stream[KeyT, ValueT]]:
        return self._streams[at]

    def __len__(self) -> int:
        return len(self._streams)

    def of(self, topic: str) -> list[Stream[KeyT, ValueT]]:
        """The streams of one topic, if `Consumer.streams` got a mapping of topics to counts; otherwise an empty list."""
        return [stream for stream in self._streams if stream.topic == topic]

    def commit(self, timeout: float | None = None) -> None:
        """Commit the records that the streams have finished, without waiting for the next regular commit (every 5 s).

        Raises KafkaTimeoutError after `timeout` seconds (default 60), GroupError if partitions were lost, ConfigError without
        a group_id, ClosedError after the end.
        """
        if self._loop.forked:
            raise ForkedClientError(FORKED)
        self._dispatcher.commit(api_timeout(timeout))

    def stop(self) -> None:
        """Have every loop end when it requests its next record. Does not wait; any thread or signal handler may call it."""
        self._dispatcher.stop()

    def close(self, timeout: float | None = None) -> None:
        """End all loops, wait for the current records, commit finished records. The consumer stays open, and its partitions stay assigned.

        Waits up to `timeout` seconds (default: drain_timeout, and 10 s for the commit). Records that are unfinished by then are not
        committed, and reading goes back to the first of them. `close` does not wait for current records of the calling thread; they stay
        unfinished. In a listener `close` does not wait: the streams end when the listener has returned.
        Raises the error that ended the streams, unless a loop or an earlier `close` has raised it.
        """
        limit = check_timeout(timeout)
        self._end(limit)
        error = self._dispatcher.error
        if error is not None and not self._dispatcher.raised:
            self._dispatcher.raised = True
            raise error

    def _end(self, limit: float | None) -> None:
        self._finalizer.detach()
        if self._loop.forked:
            return
        drain = self._dispatcher.limits.drain if limit is None else limit
        self._dispatcher.close(system.monotonic() + drain)
        # No wait on the dispatcher's thread (in a listener), which would wait for itself, nor on a client's loop (in a destructor).
        if self._dispatcher.in_own_thread() or logs.current().on_loop():
            return
        patience = drain + 10.0 if limit is None else limit
        if not self._dispatcher.wait_for_end(patience):
            log.warning("%s: the streams have not ended within %g s; they end in the background", self._dispatcher.limits.where, patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            self.close()
        else:
            self._end(None)

    def __repr__(self) -> str:
        return f"<Streams {self._streams!r}>"

    def __reduce__(self) -> Any:
        return refuse_pickling("Streams")


def _forgotten(dispatcher: Dispatcher) -> None:
    """Close open streams whose handle was garbage-collected: no thread reads them any more."""
    if not dispatcher.ended:
        warn_unclosed("Streams")
        dispatcher.close(0.0)


def stream_counts(topics: object, count: object) -> tuple[Counts, Any]:
    """The number of streams of each topic, or of all topics together (key None), and the topics to subscribe to."""
    if isinstance(topics, Mapping):
        if count is not None:
            raise ConfigError("streams({topic: n}) has the counts in the mapping; count is for a pattern or list of topics")
        counts: Counts = {topic: at_least_one(n, f"the count of streams of {topic!r}", MOST_STREAMS) for topic, n in topics.items()}
        return counts, list(counts)
    if count is None:
        raise ConfigError(
            f"streams takes a mapping of topics to counts, or a pattern or list of topics and a count, not {shown(topics)} alone"
        )
    return {None: at_least_one(count, "count", MOST_STREAMS)}, topics


def open_streams(consumer: RunConsumer, counts: Counts, limits: Limits, session: Any, subscribe: Callable[[], object]) -> Streams[Any, Any]:
    """`session` is the consumer's session; `subscribe()` subscribes to the topics."""
    states = [
        StreamState(topic, f"stream {n}" if topic is None else f"stream {n} of {topic}")
        for topic, most in counts.items()
        for n in range(most)
    ]
    guard, selection = session.guard, session.selection
    read = consumer.assignment()
    if strange := sorted(tp for tp in read if tp in selection.by_hand or (None not in counts and tp.topic not in counts)):
        raise ConfigError(f"streams: this consumer reads {strange[0]}, which no stream reads: call unsubscribe() first")

    dispatcher = Dispatcher(consumer, states, limits, session)
    thread = system.Thread(target=dispatcher.serve, name=f"pykafka4-streams-{session.config.client_id}", daemon=True)
    subscribe()
    guard.iterations.clear()  # loops of the caller end here: the thread of the streams polls from now on
    dispatcher.assign(read)
    streams = Streams(dispatcher, session.runtime.loop)
    try:
        guard.lent, selection.run = (thread, "streams of this consumer are open: close them first"), dispatcher.run
        thread.start()
    except BaseException:
        dispatcher.give_back()
        raise
    return streams
