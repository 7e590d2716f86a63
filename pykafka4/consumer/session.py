"""Implements a consumer for threads. Invariant: decoded records are handed out if and only if `poll` returns them.

In a poll only `_wait_for_records` blocks the thread. Its condition (`_has_news`) and its work (`_take_records`) wait only for code of the
application: the listener, deserializers and hooks. Most other calls that wait are `Steps` (`waits`), which the consumer for asyncio also
runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from operator import length_hint
from threading import Thread
from typing import Any, Protocol, TypeVar

import attrs

from pykafka4.client.attachment import LOOP_ANSWER_S, read_config
from pykafka4.client.client import Client
from pykafka4.client.push import Pushing
from pykafka4.consumer.arguments import Partitions, as_partitions, check_limit, check_timeout
from pykafka4.consumer.assignment import Assignment
from pykafka4.consumer.commits import Commits
from pykafka4.consumer.guard import Guard, Iteration, call
from pykafka4.consumer.hooks import PollCalls
from pykafka4.consumer.lookups import Lookups
from pykafka4.consumer.polling_session import PollingSession
from pykafka4.consumer.reading.deserializing import Deserializing, OnPoison, Raising, Skipping
from pykafka4.consumer.reading.forms import Form, ListForm, LoopForm, RawForm
from pykafka4.consumer.reading.reader import Reader
from pykafka4.consumer.rewinding import GroupRewinding
from pykafka4.consumer.selection import ConsumerRun, Selection
from pykafka4.consumer.transactional import TransactionalReads
from pykafka4.consumer.until_end import CHECK_S, UntilEnd
from pykafka4.consumer.waits import Steps, ThreadWaits, Waits, at_once
from pykafka4.core import INFINITY
from pykafka4.core.consumer.machine import CLOSING, ConsumerMachine
from pykafka4.core.subscription import Assigned, Ended, Move, OffsetAndEpoch, Since, Start
from pykafka4.errors import ConfigError, KafkaError, KafkaTimeoutError
from pykafka4.net import system
from pykafka4.net.living import Living
from pykafka4.options.config import ConsumerConfig
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.records.hot import Record

__all__ = ["ConsumerSession"]

T = TypeVar("T")


@attrs.define(eq=False)
class PostedMoves:
    """The moves of one or more seeks, in a posted call."""

    moves: list[Move]
    begun: bool = False  # set by the loop: moves that are added later may be missed


class BoundedEnds(Protocol):
    """The ends of a bounded read, or of a loop of `until_end`."""

    def due(self) -> bool:
        """Whether a poll without records returns instead of waiting, for example because all ends are reached."""


class FailedPoll(Iterator[Record[Any, Any]]):
    """Replaces the list of a failed poll: raises the error once, and is then empty."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = [error]

    def __next__(self) -> Record:
        if self._error:
            raise self._error.pop()  # `pop` keeps no reference to the error, whose traceback has this frame
        raise StopIteration


class ConsumerSession(PollingSession[ConsumerMachine]):
    handle = "Consumer"
    config: ConsumerConfig

    def __init__(self, client: Client | None, executor: Executor | None, options: Mapping[str, Any]) -> None:
        self.config = read_config(ConsumerConfig, client, executor, options)
        self.connect(client, self.config, executor)
        super().__init__()
        config = self.config
        self.reader = Reader(self.runtime.loop.now, self.signal.notify, self._reseek, config.client_id, config.max_decompressed_bytes)
        self._on_poison: OnPoison = self._new_on_poison()
        hooks = PollCalls(config.hooks, config.client_id, config.group_id, self.runtime.loop.now) if config.hooks else None
        how = config.max_poll_records, self._new_deserializing(), hooks
        self.records, self.one_by_one = ListForm(*how), LoopForm(*how)
        self.guard = self._new_guard()
        self.waits = self._new_waits()
        self.selection = Selection()
        self.lookups = Lookups(self, self.config, self.waits)
        self.commits = Commits(self, self.config, self.reader, self.guard, self.selection, self.waits)
        self.assignment = Assignment(self, self.config, self.reader, self.signal, self.guard, self.selection, self.commits, self.waits)
        self.transactional = TransactionalReads(self, self.config, self.reader, self.guard, self.selection, self.commits, self.waits)
        self.rewinding = GroupRewinding(self, self.config, self.selection, self.lookups, self.waits)
        self.ends: BoundedEnds | None = None  # the ends of the bounded read, or of the loop of `until_end`, in progress
        self._until_end: UntilEnd | None = None  # `ends`, if a loop of `until_end` has set them
        self._asked_at: float = INFINITY  # the reader's mark at which this session last had the loop fetch more
        self._moving: PostedMoves | None = None  # the posted call of the last seek, unless another call was posted after it
        self.machine = self.runtime.loop.ask(self._start, LOOP_ANSWER_S, "starting the consumer")
        self.runtime.attach(self)
        _sessions.add(self)
        self._on_poison.open()

    def _new_on_poison(self) -> OnPoison:
        config = self.config
        if config.poison_topic is None:
            return Raising() if config.on_poison == "raise" else Skipping(config.client_id, self.runtime.loop.now)
        from pykafka4.consumer.poison import PoisonTopic  # imported here: other consumers need no producer

        return PoisonTopic(config.poison_topic, config, self.runtime)

    def _new_deserializing(self) -> Deserializing | None:
        config = self.config
        return Deserializing(config.key_deserializer, config.value_deserializer, self._on_poison) if config.deserializes else None

    def raw_form(self, max_bytes: int | None) -> RawForm:
        limit = self.config.max_decompressed_bytes
        return RawForm(check_limit(max_bytes, limit, "max_bytes", "max_decompressed_bytes"), limit)

    def _new_guard(self) -> Guard:
        return Guard(self.reader, self.signal, self.check)

    def _new_waits(self) -> Waits:
        return ThreadWaits(self.signal, self.runtime.callbacks.post)

    def _start(self, now: float) -> ConsumerMachine:
        engine = self.runtime.engine
        machine = ConsumerMachine(
            self.config, engine.network, engine.cluster, engine.recovery, engine.random, self.reader, events=self.runtime.events
        )
        engine.add(machine, "consumer")
        self.push_metrics(Pushing.CONSUMER, self._labels)
        return machine

    def _labels(self) -> Mapping[str, str | None]:
        config, member = self.config, self.machine.membership.protocol.member_id
        group = {"group_id": config.group_id, "group_instance_id": config.group_instance_id, "group_member_id": member}
        return {"client_rack": config.client_rack, **(group if config.group_id is not None else {})}

    def post(self, fn: Callable[[float], object]) -> None:
        """See Attachment.post. Later seeks do not overtake `fn`."""
        self._moving = None
        super().post(fn)

    def _reseek(self, moves: Collection[Move]) -> None:
        """Add `moves` to the last posted call, if that is a seek that has not begun, so that a loop of seeks posts few calls."""
        posted = self._moving
        if posted is not None:
            posted.moves += moves
            # `begun` is read after the addition, and the loop sets `begun` before it reads `moves`. So if `begun` is not set here, the loop
            # gets these moves. If it is set, the loop may have missed them, so they are posted again.
            if not posted.begun:
                return
        posted = PostedMoves([*moves])
        super().post(partial(self._move, posted))
        self._moving = posted

    def _move(self, posted: PostedMoves, now: float) -> None:
        posted.begun = True
        self.machine.fetcher.seek(posted.moves)
        posted.moves.clear()

    # ---------------------------------------------------------------- polling

    def lists(self, iteration: Iteration) -> Iterator[Iterator[Record[Any, Any]]]:
        """Lists for a `for` loop. A list ends early when an event or an error arrives, or when the consumer is closed.

        A list, not this generator, raises the error of a failed poll: a generator that raises has ended, but a loop may continue.
        """
        while True:
            yield self._next_list(iteration)

    def lists_until_end(self, ends: UntilEnd) -> Iterator[Iterator[Record[Any, Any]]]:
        """The poll after the last list finishes the records of that list."""
        records: Iterator[Record[Any, Any]] = iter(())
        while True:
            try:
                while True:  # inside the `try`: Ctrl-C can come at the jump back
                    yield records
                    if self._until_end is not ends or ends.lacks_some():  # before a poll, because a busy partition might never lack records
                        records = self._ends_found(ends)
                        continue
                    records = self._next_list(ends.iteration)
                    if not isinstance(records, FailedPoll) and not length_hint(records) and ends.is_over():
                        return
            except GeneratorExit:
                raise
            except BaseException as error:  # a generator that raises has ended, which would look like the end of the logs
                records = FailedPoll(error)

    def _ends_found(self, ends: UntilEnd) -> Iterator[Record[Any, Any]]:
        try:
            self.find_ends(ends)
        except BaseException as error:
            return FailedPoll(error)
        return iter(())

    @call
    def find_ends(self, ends: UntilEnd) -> None:
        with self.guard.using("until_end"):
            at_once(self.finding_ends(ends))

    def finding_ends(self, ends: UntilEnd) -> Steps[None]:
        """From the first call on, this consumer reads up to `ends`.

        Raises KafkaError if another poll or loop has lifted `ends` since then.
        """
        self.check()
        self.assignment.complete_change()
        if not self.selection.subscribed and not self.selection.by_hand:
            raise ConfigError("until_end: no topics or partitions; call subscribe or assign first")
        if not ends.begun:
            self._lift_ends()
            self.ends = self._until_end = ends
            ends.begun = True
        elif self._until_end is not ends:
            raise KafkaError("another poll or loop has read on while a loop of until_end was in progress: call until_end again")
        yield from ends.finding()

    def _lift_ends(self) -> None:
        if self._until_end is not None:
            self._until_end.lift()
            self.ends = self._until_end = None

    def _next_list(self, iteration: Iteration) -> Iterator[Record[Any, Any]]:
        try:
            return self.poll(None, None, self.one_by_one, iteration)
        except BaseException as error:
            return FailedPoll(error)

    @call
    def poll(self, timeout: float | None, most: int | None, form: Form[T], iteration: Iteration | None = None) -> T:
        """Without `guard.using`, because Ctrl-C in its `__exit__` would lose the list."""
        limit, timeout = form.limit(most), check_timeout(timeout)
        if not self.guard.enter(form.call):
            if method := self.assignment.listener_method:
                raise KafkaError(f"{form.call} must not be called inside {method}: the running call continues when the listener returns")
            raise self.guard.refusal(form.call)
        reader, guard = self.reader, self.guard
        try:
            self._begin_poll(system.current_thread(), iteration)
            records = self._wait_for_records(INFINITY if timeout is None else self.runtime.loop.now() + timeout, limit, form)
            self._woken = False
            reader.leave()
            # No call from here to the return (unless `close` waits): no signal handler runs, so the caller gets the handed-out records.
            reader.handed, reader.changing = reader.taken, False
            guard.busy = {}
            if guard.closing:  # the close waits for the end of this poll; no poll follows, so this list is never committed
                self.signal.notify()
            return records
        except BaseException:  # including Ctrl-C: the next call finds the reader `changing` if something was decoded
            if reader.idle is None:  # the poll had begun. A poll that was refused shows no progress, and must not prolong the lease
                reader.leave()
            guard.leave()
            raise

    def _begin_poll(self, reads: object, iteration: Iteration | None) -> None:
        """`reads`, a thread or task, will have the records of this poll in hand."""
        reader = self.reader
        if iteration is not None or self.guard.iterations:
            self.guard.iterate(reads, iteration)
        self.assignment.complete_change()
        if self._until_end is not None and self._until_end.iteration is not iteration:
            self._lift_ends()
        if not self.selection.subscribed and not self.selection.by_hand:
            raise ConfigError("poll: no topics or partitions; call subscribe or assign first")
        reader.enter()
        self._reads = reads
        self.handled.note()
        if reader.loop_wanted:
            self.runtime.loop.wake()
            reader.loop_wanted = False

    def _wait_for_records(self, deadline: float, limit: int, form: Form[T]) -> T:
        while (records := self._take_records(limit, form)) is None:
            left = deadline - self.runtime.loop.now()
            if left <= 0 or self._woken or (self.ends is not None and self.ends.due()):
                return form.nothing()
            self.signal.wait(self._has_news, self._pause(left))
            self.check()
        return records

    def _take_records(self, limit: int, form: Form[T]) -> T | None:
        """Handle the events, then take the records that have arrived."""
        if self.reader.ready:
            self.reader.drain()
            if self.reader.events:
                at_once(self._handle_events())
        return self._take(limit, form)

    def _take(self, limit: int, form: Form[T]) -> T | None:
        if self.assignment.last_commit is not None:
            if self.assignment.last_commit_wait_left() > 0:
                return None
        elif self.reader.fatal is not None or self.reader.notices:
            self._raise_errors()
        try:
            records = self.reader.take(form, limit)
        except KafkaError:  # an error of one partition: other partitions need room, or they stop while the application handles the error
            self.reader.relieve()
            self._fetch_more()
            raise
        if records is None:
            self.reader.relieve()
        if self.guard.closing:  # a `drain` may have cleared the interrupt of the close: a `for` loop would process all of this list first
            self.reader.interrupt()
        self._fetch_more()
        return records

    def _has_news(self) -> bool:
        """Whether a waiting poll has something to do. Events wait until the last commit of revoked partitions has its outcome."""
        reader, assignment = self.reader, self.assignment
        if assignment.last_commit is None:
            ready = reader.ready or reader.filled
        else:
            ready = assignment.last_commit_done() or (assignment.last_commit_wait_left() <= 0 and reader.filled)
        return ready or self.guard.closing or self._woken

    def _pause(self, left: float) -> float | None:
        """For how many of the `left` seconds a poll may wait before it checks again; None means no limit."""
        wait_left = self.assignment.last_commit_wait_left()
        longest = min(left, wait_left) if wait_left > 0 else left
        if self._until_end is not None:
            longest = min(longest, CHECK_S)
        return None if longest == INFINITY else longest

    def _fetch_more(self) -> None:
        """Have the loop fetch more, once for each mark that reading reaches."""
        mark = self.reader.resume_at
        if self.reader.consumed >= mark and mark != self._asked_at:
            self.post(self.machine.fetcher.space)
            self._asked_at = mark

    def _handle_events(self) -> Steps[None]:
        reader = self.reader
        while reader.events:
            event = reader.events[0]
            if isinstance(event, Assigned):
                yield from self.assignment.adopt(event)
            elif self.assignment.begin_release(event) and not (yield from self.assignment.finish_release(event)):
                return  # the last commit has no outcome yet, or belongs to `release_all`
            reader.events.popleft()

    def _raise_errors(self) -> None:
        reader = self.reader
        if reader.fatal is not None:
            raise reader.fatal.again()
        reader.notices.raise_next()

    # ---------------------------------------------------------------- positions

    def _assigned(self, partitions: Partitions | None, what: str) -> list[TopicPartition]:
        if partitions is None:
            self.assignment.complete_assign()
            return list(self.reader.claims)
        tps = list(as_partitions(partitions))
        self._check_assigned(tps, what)
        return tps

    def _check_assigned(self, tps: Iterable[TopicPartition], what: str) -> None:
        self.assignment.complete_assign()
        claims = self.reader.claims
        for tp in tps:
            if tp not in claims:
                raise ConfigError(f"{what}: {tp} is not assigned to this consumer; assignment() lists its partitions")

    @call
    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        with self.guard.using("seek"):
            self._check_assigned(offsets, "seek")
            self.reader.seek_each(offsets)

    @call
    def read_spans(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Read each of these assigned partitions from the first offset of its span up to the second."""
        with self.guard.using("read"):
            self._check_assigned(spans, "read")
            self.reader.read_spans(spans)

    @call
    def seek_to(self, partitions: Partitions | None, start: Start | Since, what: str) -> None:
        with self.guard.using(what):
            self.reader.seek_each(dict.fromkeys(self._assigned(partitions, what), start))

    @call
    def seek_to_end(self, partitions: Partitions | None, timeout: float) -> None:
        with self.guard.using("seek_to_end"):
            at_once(self.seeking_to_end(partitions, timeout))

    def seeking_to_end(self, partitions: Partitions | None, timeout: float) -> Steps[None]:
        tps = self._assigned(partitions, "seek_to_end")
        self.reader.seek_each(dict.fromkeys(tps, Start.LATEST))
        yield from self.finding_positions(tps, timeout)
        self.reader.begin(tps)

    @call
    def position(self, tp: TopicPartition, timeout: float) -> int:
        with self.guard.using("position"):
            return at_once(self.finding_position(tp, timeout))

    def finding_position(self, tp: TopicPartition, timeout: float) -> Steps[int]:
        self._check_assigned((tp,), "position")
        yield from self.finding_positions([tp], timeout)
        self._check_assigned((tp,), "position")  # another task may have polled, or assigned other partitions
        offset = self.reader.next_offset(tp)
        if offset is not None:
            return offset
        what = "it was taken away from this consumer" if self._is_ending(tp) else "this consumer was closed"
        raise ConfigError(f"position of {tp}: {what} before its position was known")

    def finding_positions(self, tps: Sequence[TopicPartition], timeout: float) -> Steps[None]:
        """Wait until each of these positions is known, or can never be known."""
        waiting = list(tps)

        def all_known() -> bool:
            while waiting and self._has_position(waiting[-1]):
                waiting.pop()
            return not waiting

        if not (yield from self.waits.until(all_known, timeout)):
            raise KafkaTimeoutError(f"position of {waiting[-1]}: not known within {timeout:g} s; status() says why")
        self.check()
        reader = self.reader  # another task may have polled, and released partitions
        if reader.fatal is not None and any(tp not in reader.claims or reader.next_offset(tp) is None for tp in tps):
            raise reader.fatal.again()

    def _has_position(self, tp: TopicPartition) -> bool:
        self.reader.drain()
        reader = self.reader
        over = self.guard.closing or reader.fatal is not None or tp not in reader.claims
        return over or reader.next_offset(tp) is not None or self._is_ending(tp)

    def _is_ending(self, tp: TopicPartition) -> bool:
        """Whether an event that ends `tp` waits to be handled, or is being handled: no more data of `tp` arrives."""
        origin = self.reader.claims[tp].origin
        ends = [event for event in self.reader.events if isinstance(event, Ended)]
        return any(claim.origin is origin for ended in ends for claim in ended.claims)

    @call
    def lag(self, tp: TopicPartition) -> int | None:
        with self.guard.using("lag"):
            self._check_assigned((tp,), "lag")
            position, end = self.reader.position(tp), self.reader.claims[tp].end
            return None if position is None or end < 0 else max(0, end - position)

    @call
    def pause(self, partitions: Partitions) -> None:
        with self.guard.using("pause"):
            tps = self._assigned(partitions, "pause")
            self.reader.pause(*tps)
            if self.selection.run is not None:
                self.selection.run.paused_by_application(tps)
            claims = [self.reader.claims[tp] for tp in tps]
            self.post(lambda _: self.machine.fetcher.pause(*claims))

    @call
    def resume(self, partitions: Partitions) -> None:
        with self.guard.using("resume"):
            tps = self._assigned(partitions, "resume")
            claims = [self.reader.claims[tp] for tp in tps]
            # Posted twice. The first call is for Ctrl-C after `reader.resume`: without it, the partitions would be resumed here and never
            # fetched. The second call is for a signal handler that pauses them meanwhile: its pause reaches the loop after the first call.
            self.post(lambda _: self.machine.fetcher.resume(*claims))
            self.reader.resume(*tps)
            self.post(lambda _: self.machine.fetcher.resume(*claims))
            self.signal.notify()  # wakes the poll of another task, or the poll that a signal handler has interrupted

    # ---------------------------------------------------------------- for `process` and streams: see RunSession

    def closer(self) -> Thread | None:
        return self.guard.closer()

    @call
    def begin_run(self, run: ConsumerRun) -> None:
        guard, me = self.guard, system.current_thread()
        with guard.using("process"):
            if guard.lent is not None:  # lent to this thread, which is in a listener, for example
                raise ConfigError(f"process was called while {guard.lent[1]}")
            guard.iterate(me, None, "process")
            self.selection.run = run
            guard.lent = me, f"process of this consumer runs in thread {me.name!r}: other threads, handlers too, may only close it"
            self.take_over()

    def end_run(self, run: ConsumerRun) -> None:
        if self.selection.run is run:
            self.guard.lent = None
            self.selection.run = None  # last: after Ctrl-C this is called again

    @call
    def take_over(self) -> None:
        with self.guard.using("process"):
            self.reader.finish()
            self.reader.finished.update(self.reader.handed_out())  # `finished` may hold an explicit commit instead of the returned position

    def taken(self) -> None:
        """Without the guard: another thread may have begun to close the consumer, and wait for records in hand."""
        self.reader.finish()

    def stored(self) -> Mapping[TopicPartition, int]:
        return self.machine.offsets.stored

    def taken_offsets(self) -> dict[TopicPartition, OffsetAndEpoch]:
        return self.reader.committable()

    @call
    def go_back(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        with self.guard.using("process"):
            self.assignment.complete_assign()
            self.reader.go_back({tp: (at.offset, at.leader_epoch) for tp, at in offsets.items()})

    # ---------------------------------------------------------------- the rest

    def stats(self) -> dict[str, int]:
        delivered = self.machine.fetcher.positions.delivered
        waiting = delivered - self.reader.consumed
        return {
            "records": sum(self.reader.returned.copy().values()),
            "fetched_bytes": delivered,
            "buffered_bytes": waiting,
            "held_bytes": self.reader.held,
            "partitions": len(self.reader.claims),
            "poison_records": self._on_poison.passed,
            "lost_offsets": self.machine.fetcher.losses.count,
        }

    def _end_work(self, *, in_hand: bool) -> None:
        self._commit_for_run()
        at_once(self.assignment.release_all(self.runtime.loop.now() + self.close_time_left(), CLOSING, in_hand=in_hand))

    def disconnect(self, timeout: float | None = None) -> None:
        self._on_poison.close(self.close_time_left())
        super().disconnect(timeout)

    def _interrupt(self) -> None:
        self.reader.interrupt()
        super()._interrupt()

    def _commit_for_run(self) -> None:
        run = self._late_run()
        if run is None or self.config.group_id is None:
            return
        if offsets := {tp: at for tp, at in run.committable().items() if tp in self.reader.claims}:
            with contextlib.suppress(KafkaError):  # the records are read again
                self.commits.commit_async(offsets, None)

    def _late_run(self) -> ConsumerRun | None:
        """The run if its listener is running: the partitions may end before the listener commits."""
        return self.selection.run if self.guard.listening else None


_sessions: Living[ConsumerSession] = Living()


def _after_fork() -> None:
    """Interrupt `for` loops in a forked child, so that they poll and raise the error of the fork."""
    for session in list(_sessions):
        session.reader.interrupt()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
