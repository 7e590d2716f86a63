"""Runs the waiting calls of an asyncio consumer in tasks. Invariant: a cancelled poll neither loses nor repeats a record.

`pykafka4.consumer` has the steps of these calls. A poll aims to decode for at most a millisecond, and returns the records that it has
decoded; if other tasks have had no turn for that long, the poll first lets them run. Nothing is awaited between the decoding and the
return, because a cancellation there would lose the records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from operator import length_hint
from typing import Any, Final, TypeVar

from pykafka4.aio.guard import TaskGuard, TaskUse
from pykafka4.aio.tasks import EventLoopBinding
from pykafka4.aio.waits import TaskWaits, run
from pykafka4.client.client import Client
from pykafka4.client.steps import Steps
from pykafka4.consumer.arguments import Offsets, OnDone, Partitions, check_timeout
from pykafka4.consumer.guard import Iteration, call
from pykafka4.consumer.reading.forms import Form
from pykafka4.consumer.rewinding import RewindOffsets
from pykafka4.consumer.selection import ConsumerRun
from pykafka4.consumer.session import ConsumerSession
from pykafka4.consumer.until_end import UntilEnd
from pykafka4.core import INFINITY
from pykafka4.core.consumer.machine import CLOSING
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.net import system
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["TaskConsumerSession"]

T = TypeVar("T")

SLICE_S: Final = 0.001  # target for the decoding of one poll, and for the time for which tasks that only poll delay other tasks
FIRST_SLICE: Final = 256  # records of the first poll, before the time per record is known
LEAST_SLICE: Final = 32  # records; without a minimum, a pause of the thread during the measurement would make any number look slow
MOST_TURNS: Final = 10  # turns of the event loop in which asyncio may close the generator of a loop that another task has left


class TaskConsumerSession(ConsumerSession):
    """Implements `aio.Consumer`, and outlives this handle."""

    handle = "aio.Consumer"
    guard: TaskGuard
    waits: TaskWaits

    def __init__(self, client: Client | None, options: Mapping[str, Any]) -> None:
        self.binding = EventLoopBinding("aio.Consumer")
        super().__init__(client, None, options)
        self._now = self.runtime.loop.now
        self._slices: dict[type[Form[Any]], int] = {}  # by form: the number of records that can be decoded in SLICE_S
        self._turned = -INFINITY  # the last time when other tasks could run
        self._ending: asyncio.Task[None] | None = None  # the task of the close
        # A run whose listener is not called, because this consumer is closed without its event loop.
        self._detached_run: ConsumerRun | None = None

    def _new_guard(self) -> TaskGuard:
        return TaskGuard(self.reader, self.signal, self.check)

    def _new_waits(self) -> TaskWaits:
        return TaskWaits(self.binding, self.signal, self.guard)

    def enter(self) -> None:
        """Check that this event loop may use the consumer."""
        if self.runtime.loop.forked:
            self.check()  # first: a forked child has another event loop, and `binding` would report that instead of the fork
        self.binding.enter()
        self._end_left_run()

    def _end_left_run(self) -> None:
        """If the event loop of a run was closed, end the run: the records that it had in hand are read again."""
        left: Any = self.selection.run
        if left is not None and left.abandoned:
            with contextlib.suppress(KafkaError):  # the error of an ended consumer, which the call itself raises
                left.abandon()

    # ---------------------------------------------------------------- polling

    @call
    async def next_list(self, timeout: float | None, most: int | None, form: Form[T], iteration: Iteration | None = None) -> T:
        limit, timeout = form.limit(most), check_timeout(timeout)
        self.enter()
        if self.guard.in_listener():
            raise KafkaError(
                f"{form.call} must not be called inside {self.waits.method}: the running call continues when the listener returns"
            )
        reader = self.reader
        holder: TaskUse | None = None
        try:
            with self.guard.exclusive(form.call) as holder:
                await self._let_others_run(iteration)
                self._begin_poll(holder.task, iteration)
                records = await self._await_records(INFINITY if timeout is None else self._now() + timeout, limit, form)
                self._woken = False
                reader.leave()
            # As in ConsumerSession.poll: no call from here to the return. This line is after the `with` block, because Ctrl-C at the end of
            # the block would lose records that already count as handed out.
            reader.handed, reader.changing = reader.taken, False
            return records
        except BaseException:
            if holder is not None and (self.guard.holds(holder) or self.guard.unused()) and reader.idle is None:
                reader.leave()
            raise

    async def _let_others_run(self, iteration: Iteration | None) -> None:
        """Let other tasks run if they have had no turn in the last SLICE_S, or while the loop of another task seems to have the consumer.

        asyncio closes the generator of an abandoned loop only some turns later, and until then the guard would refuse this call.
        """
        if self._now() - self._turned > SLICE_S:
            await asyncio.sleep(0)
            self._turned = self._now()
        if self.guard.iterations:
            for _ in range(MOST_TURNS):
                if self.guard.looping(asyncio.current_task(), iteration) is None:
                    break
                await asyncio.sleep(0)

    async def _await_records(self, deadline: float, limit: int, form: Form[T]) -> T:
        """Wait for records: the form of `ConsumerSession._wait_for_records` for tasks."""
        reader = self.reader
        while True:
            if reader.ready:
                reader.drain()
                if reader.events:
                    await run(self._handle_events())
                    self.check()
            if (records := self._take_slice(limit, form)) is not None:
                return records
            left = deadline - self._now()
            if left <= 0 or self._woken or (self.ends is not None and self.ends.due()):
                return form.nothing()
            await run(self.waits.until(self._has_news, self._pause(left)))
            self._turned = self._now()
            self.check()

    def _take_slice(self, limit: int, form: Form[T]) -> T | None:
        """Take up to `limit` records, but only about as many as can be decoded in SLICE_S.

        The number follows the measured time: it is reduced in proportion after a slow slice, and doubled after a full slice that took less
        than half of SLICE_S.
        """
        usual = self._slices.get(type(form), FIRST_SLICE)
        most, began = min(limit, usual), self._now()
        records = self._take(most, form)
        count, seconds = 0 if records is None else length_hint(records), self._now() - began
        if seconds > SLICE_S:
            self._slices[type(form)] = max(LEAST_SLICE, int(most * SLICE_S / seconds))
        elif count == usual and seconds < SLICE_S / 2:
            self._slices[type(form)] = usual * 2
        return records

    # ---------------------------------------------------------------- other calls that wait

    @call
    async def await_run(self, begins: ConsumerRun) -> None:
        self.enter()
        with self.guard.exclusive("process"):
            await self._let_others_run(None)
            self.guard.iterate(asyncio.current_task(), None, "process")
            if self.selection.run is not None:
                raise ConfigError("process was called while another process of this consumer runs: end it first")
            self.selection.run = begins
            self.take_over()

    @call
    async def next_until_end(self, ends: UntilEnd) -> Iterator[Record[Any, Any]] | None:
        """The next records; None at the end. See `ConsumerSession.lists_until_end`."""
        while True:
            if self._until_end is not ends or ends.lacks_some():
                await self._find_ends(ends)
            if length_hint(records := await self.next_list(None, None, self.one_by_one, ends.iteration)):
                return records
            if ends.is_over():
                return None

    async def _find_ends(self, ends: UntilEnd) -> None:
        self.enter()
        self.guard.enter("until_end")
        await run(self.finding_ends(ends))

    @call
    async def await_position(self, tp: TopicPartition, timeout: float) -> int:
        self.enter()
        self.guard.enter("position")
        return await run(self.finding_position(tp, timeout))

    async def await_lookup(self, lookup: Steps[T]) -> T:
        self.enter()
        return await run(lookup)

    @call
    async def await_seek_to_end(self, partitions: Partitions | None, timeout: float) -> None:
        self.enter()
        self.guard.enter("seek_to_end")
        await run(self.seeking_to_end(partitions, timeout))

    @call
    async def await_commit(self, offsets: Offsets | None, timeout: float, topic: str | None) -> None:
        self.enter()
        try:
            await run(self.commits.committing(offsets, timeout, topic))
        except asyncio.CancelledError as error:
            error.add_note("pykafka4: the commit was under way; its outcome is unknown")
            raise

    @call
    async def await_committed(self, partitions: Partitions, timeout: float) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self.enter()
        return await run(self.commits.looking_up(partitions, timeout))

    @call
    async def await_rewind(self, offsets: RewindOffsets, timeout: float) -> dict[TopicPartition, int]:
        self.enter()
        return await run(self.rewinding.awaiting(offsets, timeout))

    async def await_extend_lease(self, seconds: float) -> None:
        self.enter()
        await run(self.assignment.extending_lease(seconds))

    @call
    async def await_unsubscribe(self) -> None:
        self.enter()
        with self.guard.exclusive("unsubscribe", within=self.guard.in_listener()):
            await run(self.assignment.unsubscribing())

    def commit_async(self, offsets: Offsets | None, on_done: OnDone | None, topic: str | None) -> None:
        self.enter()
        if callable(on_done):
            on_done = self.binding.call_back(on_done, "on_done")
        self.commits.commit_async(offsets, on_done, topic)

    # ---------------------------------------------------------------- the end

    @call
    async def end(self, timeout: float | None, *, failed: bool | None = None) -> None:
        """Close the consumer in a separate task, so that a cancellation of this call does not end the close halfway."""
        if self.closed or self.runtime.loop.forked:
            return
        self.binding.enter()
        self._end_left_run()
        self.guard.check_whole("close")
        ending = self._ending
        if ending is None or ending.get_loop().is_closed():
            interrupted = self.handled.interrupted() if failed is None else failed
            in_hand = not interrupted and self._reads is asyncio.current_task()
            seconds = self.config.close_timeout_ms / 1000 if timeout is None else timeout
            self._ending = ending = asyncio.ensure_future(self._end(seconds, in_hand=in_hand))
        elif self.guard.close_waits():
            return  # neither wait would end
        await asyncio.wait([ending])
        ending.result()

    async def _end(self, timeout: float, *, in_hand: bool) -> None:
        self._close_by, inside = system.monotonic() + timeout, self.guard.in_listener()
        self.guard.begin_closing()
        self.reader.interrupt()
        self.signal.notify()
        async with contextlib.AsyncExitStack() as ends:  # all steps run, even if one fails, or `asyncio.run` cancels this task
            ends.callback(self._ended)
            ends.push_async_callback(self.binding.run_on_thread, self.disconnect, self.config.client_id)
            ends.push_async_callback(self._release_all, in_hand=in_hand)
            if not inside:
                await run(self.waits.until(self.guard.unused, timeout))

    async def _release_all(self, *, in_hand: bool) -> None:
        if self.runtime.loop.alive:  # after a crash, the loop can neither commit nor leave the group
            until = self.runtime.loop.now() + self.close_time_left()
            await run(self.assignment.release_all(until, CLOSING, in_hand=in_hand))

    def _ended(self) -> None:
        self.closed = True
        self.guard.end_closing()

    def close(self, timeout: float | None = None, *, failed: bool | None = None) -> None:
        """Close the consumer without its event loop: for `Client.close`, the exit of the interpreter, and garbage-collected handles.

        No listener is called, because its methods may be coroutines, which could not run. The records of the last list do not count as
        finished.
        """
        self.guard.detached = self.waits.detached = True
        self._detached_run, self.selection.listener, self.selection.run = self.selection.run, None, None
        super().close(timeout, failed=True)

    def _late_run(self) -> ConsumerRun | None:
        """The run that a close without the event loop has stopped. Other closes wait for the listener, which commits."""
        return self._detached_run
