"""Producer. Rule: a record accepted by `send` gets exactly one outcome, and nothing here waits without a deadline."""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from pykafka4.attachment import SHORT, Attachment, read_config
from pykafka4.client import Client, warn_unclosed
from pykafka4.config import ProducerConfig
from pykafka4.core import NOTHING, Effects
from pykafka4.core.producer.ledger import ProducerStats
from pykafka4.core.producer.parking import DENIED_SECONDS
from pykafka4.core.producer.sender import Sender
from pykafka4.errors import BufferFull, ClosedError, DeliveryFailed, ForkedClientError, KafkaError, KafkaTimeoutError
from pykafka4.logs import get_log
from pykafka4.misuse import ShortCuts, check_count, check_timeout, check_topic, hint, refuse_pickling
from pykafka4.net import system
from pykafka4.net.handoff.waiting import Gate, Signal
from pykafka4.net.handoff.workers import Callbacks
from pykafka4.options import ProducerOptions
from pykafka4.peers import PRODUCER_METHODS
from pykafka4.records import HeadersLike, ProducerRecord, RecordMetadata
from pykafka4.wire.records.compression import CODECS, compress, require_codec
from pykafka4.wire.records.hot import Accumulator, Batch, Delivery

__all__ = ["Producer"]

log = get_log("pykafka4.producer")

EXIT_SECONDS = 5.0
AWAIT_SECONDS = 0.005  # between two looks at a delivery where no callback may be waited for
AWAIT_CALLBACK_SECONDS = 0.1  # the first such pause elsewhere: callbacks bring the outcome, but may be held up; doubles
AWAIT_LONGEST_SECONDS = 1.0  # the longest that it grows to
FORGOTTEN_SECONDS = 1.0  # how long a producer without a handle stays open with nothing to deliver
FORGIVEN_SECONDS = 20.0  # after so long they have to deny it anew
FORKED = "this producer was made in the parent process; make a Producer in this one"


class Producer(metaclass=ShortCuts, shortcut="send"):
    """Sends records to Kafka: at least once, in order per partition, without duplicates from its own retries.

    `Producer(bootstrap_servers="host:9092", **options)` owns a client; `Producer(client=client, **options)` shares one.
    Options are those of `ProducerConfig` (docs/options.md). All methods may be called from any thread.
    Leaving a `with` block delivers everything or raises `DeliveryFailed`, unless the application knows of each failure already: it was
    looked at (`result()` or `exception()` of its Delivery), or raised by `delivery_scope` or `raise_failures` inside the block. An
    exception raised inside the block gets out after at most 5 s of delivering; a note on it counts the records that were left.
    """

    def __init__(
        self, client: Client | None = None, *, callback_executor: Executor | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        """ConfigError names a wrong option. `callback_executor` runs the callbacks; default: one thread, so that they keep their order.

        While every thread of a ThreadPoolExecutor waits in `send` for memory that callbacks hold, a thread of the client runs them.

        Brokers are looked for in the background; none need be there yet.
        """
        self._failures_at_start = 0
        self._core = core = _Core(client, executor=callback_executor, options=options)
        try:
            self._finalizer = weakref.finalize(self, _Core.forgotten, core)
            self._finalizer.atexit = False  # the client drains at exit
            core.open()
            Producer.choose(self)
        except BaseException:  # Ctrl-C among them: no handle is left that could close it
            core.undo()
            raise

    def _fast(self) -> Callable[..., Delivery]:
        """`send` with one call less per record; the method below is its contract."""
        return self._core.acc.send

    def send(
        self,
        topic: str,
        value: bytes | str | None = None,
        *,
        key: bytes | str | None = None,
        headers: HeadersLike | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Queue a record and return its `Delivery`. Blocks for at most `max_block_ms`, and only in two cases: `buffer_memory` (or
        `max_partition_bytes`) is full, or `partition` is not known and brokers are asked whether it was added. When they have denied
        it for two seconds (inside a callback: at once) that is a ValueError.

        `value` and `key` are bytes-like, str (sent as UTF-8) or None (a null; a null value is a tombstone). `headers` are (name, value)
        pairs or a mapping. Without `partition` a key chooses it (murmur2, as in Java), without a key it is whichever is being filled.
        `timestamp_ms` is milliseconds since the epoch, default now. `on_delivery(delivery)` runs on the callback executor.
        Raises BufferFull, RecordTooLarge, TypeError or ValueError naming the argument, ClosedError, ForkedClientError.
        """
        return self._core.acc.send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery
        )

    def flush(self, timeout: float | None = None) -> None:
        """Send everything at once and wait until all sent before this call has its outcome and its callbacks have run.

        `timeout` in seconds, None: as long as `delivery_timeout_ms` allows. KafkaTimeoutError says how much is left. On a thread of the
        ThreadPoolExecutor that is the `callback_executor` callbacks are not waited for: they may need this very thread.
        """
        self._core.flush(check_timeout(timeout))

    def close(self, timeout: float | None = None) -> list[ProducerRecord]:
        """Deliver what is queued, then give everything up; returns the records that could not be delivered.

        Waits at most `timeout` seconds (None: `delivery_timeout_ms`; 0: not at all). Each record returned says whether it may be in the
        log (`written`). Closing twice is allowed, and after a Ctrl-C the next call finishes what the first one began. So is closing from
        a callback: nothing is waited for there, and while another thread closes nothing is done. In a forked child nothing happens.
        """
        undelivered = self._core.close(check_timeout(timeout))
        if self._core.undelivered is not None:
            self._finalizer.detach()  # it would keep a closed producer alive that is part of a cycle, by way of a listener say
        return undelivered

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[int]:
        """The partitions of `topic`; asks the cluster if they are not known, and has a topic that is not there created as `send` would.

        `timeout` in seconds, default `max_block_ms`. KafkaTimeoutError says why they are not known.
        """
        topic, limit = check_topic(topic), check_timeout(timeout)
        self._core.check()
        return self._core.client.partitions_of(topic, self._core.config.max_block_ms / 1000 if limit is None else limit, create=True)

    def stats(self) -> ProducerStats:
        """What became of every record so far: numbers that always balance. Works after `close`, too."""
        return self._core.stats()

    def raise_failures(self, since: int = 0) -> None:
        """Raise DeliveryFailed if there were failures after `since` failed records (an earlier `stats().lost`) that are not known yet.

        A failure is known once it was looked at (`result()` or `exception()` of its Delivery), or was among those that `delivery_scope`
        or this method raised before in the same thread (in asyncio: the same task). The first one is raised (of more than 100 failed
        batches it may be another early one), and a note says how many there are.
        """
        self._core.raise_failures(check_count(since, "since"))

    def status(self) -> dict[str, Any]:
        """Why is nothing flowing: brokers, offline partitions with reason, queued bytes."""
        return {**self._core.client.status(), **self._core.crashed(), "producer": attrs.asdict(self._core.stats())}

    @contextlib.contextmanager
    def delivery_scope(self, timeout: float | None = None) -> Iterator[Producer]:
        """A block that ends only when everything sent has its outcome, and then raises as `raise_failures` does for what failed in it.

        What other threads send through the same producer meanwhile counts, too. When the block itself raises, that is what is raised.
        `timeout` is that of `flush`.
        """
        limit, mark = check_timeout(timeout), self._core.machine.ledger.failures_seen
        yield self
        self._core.flush(limit)
        self._core.raise_failures(mark)

    def __enter__(self) -> Producer:
        self._core.check()
        self._failures_at_start = self._core.machine.ledger.failures_seen
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        undelivered = self.close(None if kind is None else self._core.exit_seconds)
        if kind is None:
            self._core.raise_failures(self._failures_at_start)
        elif undelivered and error is not None:
            error.add_note(f"pykafka4: {len(undelivered)} records were not delivered when the producer closed")

    def __repr__(self) -> str:
        return f"<Producer of {self._core.client!r}>"

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(hint("Producer", name, PRODUCER_METHODS, dir(type(self))))

    def __reduce__(self) -> Any:
        return refuse_pickling("Producer")


class _Outcomes(Signal):
    """What handles need: no more of a producer than that, for they may outlive it. In a forked child no outcome comes any more."""

    __slots__ = ("_callbacks", "_seen", "forked")

    def __init__(self, callbacks: Callbacks) -> None:
        super().__init__()
        self._callbacks = callbacks
        self._seen: deque[int] = deque()
        self.forked = False

    @property
    def looked_at(self) -> list[int]:
        """For each failed record that the application has looked at: how many had failed before its batch."""
        while True:
            with contextlib.suppress(RuntimeError):  # another thread looks at one just now
                return list(self._seen)

    def failure_seen(self, before: int) -> None:
        """The application looks at the failure of a record, for the first time; `before` others had failed before its batch."""
        self._seen.append(before)

    def wait(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """As `Signal.wait`; ForkedClientError where there is something to wait for and nobody who brings it."""
        if self.forked and not predicate():
            raise ForkedClientError(FORKED)
        limit = 0.0 if isinstance(timeout, (int, float)) and timeout < 0 else check_timeout(timeout)  # a deadline may have passed already
        return super().wait(predicate, limit)

    def submit(self, fn: Callable[[], object]) -> None:
        """Have `fn` called where callbacks are."""
        if self.forked:
            raise ForkedClientError(FORKED)
        self._callbacks.post(fn)

    def awaiting(self, delivery: Delivery) -> Generator[Any, None, RecordMetadata]:
        """What `await delivery` does: the outcome comes from the callback executor to the running asyncio loop.

        A callback may wait for this very task. So the task looks at the delivery by itself, too: seldom, or often where the calling thread
        is needed for callbacks.
        """
        import asyncio  # here, as only those who await need it, and its import takes longer than that of everything else

        if self.wait(delivery.done, 0):
            return delivery.result(0)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def look() -> None:
            if not future.done():  # the awaiting task may be gone
                future.set_result(None)

        def done(_: Delivery) -> None:
            with contextlib.suppress(RuntimeError):  # the asyncio loop is closed: nobody awaits any more
                loop.call_soon_threadsafe(look)

        often = self._callbacks.on_executor() or self._callbacks.in_callback()
        pause = AWAIT_SECONDS if often else AWAIT_CALLBACK_SECONDS
        if not often:
            delivery.add_done_callback(done)
        while not self.wait(delivery.done, 0):
            timer = loop.call_later(pause, look)
            try:
                yield from future
            finally:
                timer.cancel()
            future = loop.create_future()
            pause = pause if often else min(2 * pause, AWAIT_LONGEST_SECONDS)
        return delivery.result(0)


class _Core(Attachment[Sender]):
    """Everything of a producer but its handle."""

    acc: Accumulator

    def __init__(self, client: Client | None, executor: Executor | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ProducerConfig, client, executor, options)
        require_codec(self.config.compression_type)
        self._given, self._executor = client, executor
        self.closers: set[int] = set()  # threads in `close`
        self.pending: list[Batch | Delivery] | None = None  # what had no outcome, or callbacks to run, when the first `close` began
        self.undecided: list[Batch | Delivery] = []  # those without an outcome
        self.undelivered: list[ProducerRecord] | None = None  # what came of that, once it is closed
        self._denied: dict[str, tuple[int, float]] = {}  # topic: how many partitions brokers insist on, and since when
        self._serial = next(_serials)

    def open(self) -> None:
        """Start what `undo` or `close` stop."""
        config = self.config
        self.connect(self._given, config, self._executor)
        self.signal, self.gate = _Outcomes(self.client.callbacks), Gate(self._count_waiters, self._starving)
        self.acc = Accumulator(
            batch_size=config.batch_size,
            linger=config.linger_ms / 1000,
            buffer_memory=config.buffer_memory,
            max_partition_bytes=config.partition_bytes,
            max_request_size=config.max_request_size,
            codec=CODECS[config.compression_type],
            compress=compress,
            clock=system.monotonic,
            wake=self.client.loop.wake,
            new_topic=self._new_topic,
            seek=self._seek,
            make_room=self._make_room,
            wait=self.signal.wait,
            submit=self.signal.submit,
            awaiting=self.signal.awaiting,
            failure_seen=self.signal.failure_seen,
            lock=self.gate.lock,
        )
        self.client.loop.ask(self._start, SHORT, "starting the producer")
        self.client.attach(self)
        _cores.add(self)

    def undo(self) -> None:
        """`open` did not come to its end, or nobody learned that it did."""
        client = getattr(self, "client", None)
        if client is None or self._given is None:  # a client of its own ends with its last reference, or now
            self.undelivered = []
            if client is not None:
                client.close(0)
            return
        self.undelivered = []
        client.loop.call(self._withdraw)  # behind `_start`
        client.detach(self)

    def _withdraw(self, now: float) -> None:
        if hasattr(self, "machine"):
            self.client.engine.remove(self.machine)
            self.machine.gone()

    def _start(self, now: float) -> None:
        engine = self.client.engine
        self.machine = Sender(
            self.config,
            self.acc,
            engine.network,
            engine.cluster,
            engine.recovery,
            engine.random,
            self._progress,
            self._refuse,
            lambda: self.gate.starved,
        )
        engine.add(self.machine, "producer")

    # ---- called by the accumulator, on application threads

    def _new_topic(self, topic: str) -> None:
        check_topic(topic)
        self.post(lambda _: self.machine.want(topic))

    def _until(self, deadline: float) -> float:
        """When a `send` ends that has to wait: max_block_ms after it first waited. `deadline` is infinite until then."""
        return min(deadline, system.monotonic() + self.config.max_block_ms / 1000)

    def _seek(self, topic: str, partition: int, deadline: float) -> float:
        """`partition` is beyond those known of `topic`. It may have been added since: ask until it is there, `deadline`, or DENIED_SECONDS.

        Not more often than failed requests are tried again. Who names a wrong partition again and again does not wait each time.
        """
        if self._inside():
            return deadline
        until, pace = self._until(deadline), self.config.retry_backoff_ms / 1000
        loop, cluster = self.client.loop, self.client.engine.cluster
        while True:
            if loop.ask(lambda now: cluster.age(topic, now), SHORT) >= pace:
                with contextlib.suppress(KafkaTimeoutError):
                    self.client.refresh_metadata([topic], max(0.0, until - system.monotonic()))
                loop.ask(lambda now: self.machine.tell(topic, now), SHORT, machine=self.machine)
            count, now = loop.ask(lambda now: cluster.partitions(topic), SHORT), system.monotonic()
            denied = self._denied.get(topic)
            if denied is None or denied[0] != count or now - denied[1] > FORGIVEN_SECONDS:
                self._denied[topic] = denied = (count, now)
            left = min(denied[1] + DENIED_SECONDS, until) - now
            if partition < count or left <= 0:
                return until
            if self.signal.wait(self._refused, min(left, pace)):
                self.check()

    def _make_room(self, topic: str, partition: int, size: int, deadline: float) -> float:
        """Wait for `size` bytes, in the order of asking. Returns the deadline for waiting again: another thread may take them first.

        BufferFull when `deadline` (the first time: max_block_ms) is over, or at once inside a callback.
        """
        where = f"{topic}-{partition}" if partition >= 0 else topic
        limit = (
            f"buffer_memory={self.config.buffer_memory} or max_partition_bytes={self.config.max_partition_bytes} is in use "
            f"({self.acc.reserved} bytes) and {where} needs {size} more"
        )
        if self._inside():
            raise BufferFull(f"{limit}; a callback cannot wait for it: queue the record elsewhere, or send it from another thread")
        until = self._until(deadline)
        with self.client.callbacks.waiting():
            room = self.gate.wait(
                lambda: self._refused() or self.acc.room(topic, partition, size),
                max(0.0, until - system.monotonic()),
                key=(topic, partition),
                hindered=lambda: self.acc.crowded(topic, partition, size),
            )
        self.check()
        if not room:
            raise BufferFull(f"{limit}; no room within max_block_ms={self.config.max_block_ms:g}")
        return until

    def _count_waiters(self, waiting: int) -> None:
        self.acc.waiters = waiting

    def _starving(self) -> None:
        """A `send` waits for buffer_memory: open batches are due. While the sender is not hungry it looks by itself soon."""
        if self.acc.hungry:
            self.client.loop.wake()

    def _refused(self) -> bool:
        return self.acc.refusal is not None

    def _inside(self) -> bool:
        """Whether this thread must not wait: it runs a callback, or (by way of a destructor) is the loop's own."""
        return self.client.callbacks.in_callback() or self.client.loop.on_loop()

    # ---- called by the sender, on the loop thread

    def _progress(self) -> None:
        self.signal.notify()
        self.gate.release()

    def _refuse(self, error: KafkaError) -> None:
        if self.acc.refusal is None:
            self.acc.refusal = error
        self._progress()

    # ---- operations

    def check(self) -> None:
        """Raise what `send` would raise."""
        if self.acc.refusal is not None:
            raise self.acc.refusal.again()

    def stats(self) -> ProducerStats:
        """The account, taken on the loop thread while there is one."""
        try:
            return self.client.loop.ask(self._account, SHORT, "the producer's account")
        except ForkedClientError:  # its numbers are the parent's
            raise
        except KafkaError:  # the loop is closed or crashed: nothing changes any more
            return self._account(0.0)

    def _account(self, now: float) -> ProducerStats:
        return self.machine.ledger.stats(self.acc.accepted, self.acc.reserved)

    def flush(self, timeout: float | None) -> None:
        """Wait for the outcome of everything sent so far."""
        if self._inside():
            raise KafkaError("flush inside a callback would wait for itself; flush from another thread")
        self.check()
        pending = self.acc.unfinished()
        self._expedite()
        limit = self.config.delivery_timeout_ms / 1000 + EXIT_SECONDS if timeout is None else timeout
        if not self._wait_settled(pending, limit):
            left = sum(1 if isinstance(item, Delivery) else item.count for item in pending if not _settled(item))
            raise KafkaTimeoutError(f"flush: {left} records have no outcome after {limit:g} s; status() says what they wait for")

    def _expedite(self) -> None:
        self.post(lambda _: self.machine.expedite())

    def _wait_settled(self, pending: Sequence[Batch | Delivery], timeout: float) -> bool:
        waiting, on_executor = list(pending), self.client.callbacks.on_executor

        def over(item: Batch | Delivery) -> bool:
            return _settled(item) or (_done(item) and on_executor())  # asked late: an executor may list a thread after it began to work

        def done() -> bool:
            while waiting and over(waiting[-1]):
                waiting.pop()
            return not waiting

        return self.signal.wait(done, timeout)

    @property
    def exit_seconds(self) -> float:
        """How long an exception that leaves a `with` block may be held up by deliveries."""
        return min(EXIT_SECONDS, self.config.delivery_timeout_ms / 1000)

    def raise_failures(self, mark: int) -> None:
        """Raise the first failure after `mark` that the application does not know of, if there is one; a note says how many there are."""
        now, told = self.machine.ledger.failures_seen, _told.get().get(self._serial, ())
        count, first = self.machine.ledger.failures_since(mark, self.signal.looked_at, told)
        if first is not None:
            error = DeliveryFailed(first.topic, first.partition, str(first.code), first.written, None, first.cause)
            if count > 1:
                error.add_note(f"{count} records failed in all")
            self._tell(mark, now)
            raise error

    def _tell(self, start: int, end: int) -> None:
        """From here on this thread or task knows of the failures from `start` to `end`."""
        alive = {core._serial for core in list(_cores)}
        others = {serial: ranges for serial, ranges in _told.get().items() if serial in alive}
        ranges = others.get(self._serial, ())
        while ranges and ranges[-1][1] >= start:  # they end one after the other, at the number of failures there were
            start, ranges = min(start, ranges[-1][0]), ranges[:-1]
        _told.set({**others, self._serial: (*ranges, (start, end))})

    def close(self, timeout: float | None = None) -> list[ProducerRecord]:
        """Flush, give up the rest, stop what is ours. Wherever Ctrl-C ends this, the next call goes on from there."""
        if self.undelivered is not None:
            return self.undelivered
        if self.client.loop.forked:  # the records are the parent's, and so are the locks
            return []
        if self._inside():
            return [] if self.closers else self._close(0.0)
        self.closers.add(system.get_ident())
        try:
            return self._close(self.config.delivery_timeout_ms / 1000 if timeout is None else timeout)
        finally:
            self.closers.discard(system.get_ident())

    def _close(self, patience: float) -> list[ProducerRecord]:
        self._refuse(ClosedError("this producer is closed; make a new one"))
        if self.pending is None:  # nothing can join them any more
            unfinished = self.acc.unfinished()
            self.undecided = [item for item in unfinished if not _done(item)]
            self.pending = unfinished
        self._expedite()
        if not self._wait_settled(self.pending, patience):
            self._give_up(self.pending)
        self.disconnect()
        self.undelivered = [record for item in self.undecided for record in item.lost()]
        return self.undelivered

    def _give_up(self, pending: Sequence[Batch | Delivery]) -> None:
        reason = ClosedError("the producer was closed before this was acknowledged")
        with contextlib.suppress(KafkaError):  # a loop that has crashed or is closed fails them as the last thing it does
            self.client.loop.ask(lambda _: self.machine.abandon(reason), SHORT, "giving up undelivered records", self.machine)
        if not self.signal.wait(lambda: all(_done(item) for item in pending), SHORT):
            raise KafkaTimeoutError("close: the loop does not answer; records are left without an outcome, close again to have them")

    def drain(self, timeout: float) -> None:
        """The interpreter exits: deliver what is left within `timeout` seconds, and say how much was lost."""
        if self.undelivered is None and self.close(timeout):
            log.warning("%d records were not delivered when the interpreter exited; close the producer before", len(self.undelivered or ()))

    @staticmethod
    def forgotten(core: _Core) -> None:
        """The handle was collected while open: warn, and deliver in the background what it took."""
        if core.undelivered is None and not core.client.loop.forked:
            core.client.loop.call(lambda _: core.client.engine.add(_Forgotten(core)))
            warn_unclosed("Producer")


class _Forgotten:
    """Closes a producer whose handle was collected, once every record it took has its outcome, and logs how many were lost.

    A machine of the loop. It leaves the producer open for FORGOTTEN_SECONDS after the last record: in `Producer(…).send(…)` the handle is
    gone before `send` begins.
    """

    def __init__(self, core: _Core) -> None:
        self._core = core
        self._accepted, self._since = -1, 0.0
        self._failed_before = core.acc.failed

    def poll(self, now: float) -> Effects:
        core, acc = self._core, self._core.acc
        if core.undelivered is not None:  # closed by somebody else: the exit of the interpreter, or the client
            core.client.engine.remove(self)
            return NOTHING
        if acc.accepted != self._accepted or acc.accepted != acc.acked + acc.failed:
            self._accepted, self._since = acc.accepted, now
            if acc.accepted != acc.acked + acc.failed:
                return NOTHING  # an outcome comes with a turn
        if now - self._since < FORGOTTEN_SECONDS or core.closers:
            return Effects(wake_at=max(now, self._since) + FORGOTTEN_SECONDS)
        self._report(acc.failed - self._failed_before)
        core.client.engine.remove(self)
        core.close(0)
        return NOTHING

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        acc = self._core.acc
        self._report(acc.accepted - acc.acked - self._failed_before)
        return ()

    def _report(self, lost: int) -> None:
        if lost:
            _, first = self._core.machine.ledger.failures_since(0)
            log.warning("%d records of a producer that was not closed were lost; the first failure: %s", lost, first)


_cores: weakref.WeakSet[_Core] = weakref.WeakSet()
_serials = itertools.count()
# By the serial number of a producer: the failures that a DeliveryFailed of no Delivery was raised for in this thread or task.
_told: ContextVar[Mapping[int, tuple[tuple[int, int], ...]]] = ContextVar("_told", default={})  # noqa: B039  # never changed in place


def _after_fork() -> None:
    for core in list(_cores):
        core.acc.refusal = ForkedClientError(FORKED)
        core.signal.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _settled(item: Batch | Delivery) -> bool:
    return item.settled


def _done(item: Batch | Delivery) -> bool:
    return item.done() if isinstance(item, Delivery) else item.done
