"""Runs the machines of one client on one thread, moves bytes between their polls, and sleeps.

Invariant: no other thread runs a machine; if the loop crashes, its promises fail with the error.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

from pykafka4.core import INFINITY, Job, Machine, Threads
from pykafka4.core.engine import Engine, Turn, describe
from pykafka4.core.network.jobs import MAX_CONCURRENT_STEPS
from pykafka4.errors import ClosedError, ForkedClientError, KafkaError, KafkaTimeoutError
from pykafka4.errors.frames import empty_frames
from pykafka4.logs import get_log
from pykafka4.net import logs, system
from pykafka4.net.handoff.waiting import Promise
from pykafka4.net.handoff.wakeup import Inbox
from pykafka4.net.handoff.workers import Callbacks, Helper
from pykafka4.net.living import Living
from pykafka4.net.transport import Event, EventKind, Transport
from pykafka4.net.transports import open_contexts, open_transport

__all__ = ["CALLER_GONE", "Loop"]

log = get_log("pykafka4.loop")
T = TypeVar("T")
LONGEST_SLEEP_S = 3600.0  # `select` does not accept infinity
JOIN_S = 10.0
# A wait that ends more than STANDSTILL_S after its deadline suggests that the process stood still (after SIGSTOP, for example). Then the
# loop had no time to answer either, so the caller waits for another EXTRA_WAIT_S.
STANDSTILL_S, EXTRA_WAIT_S = 0.25, 1.0
LOOKUPS = 16  # concurrent name lookups: a bad name may take half a minute to fail, and good names must not wait
ASSIGNORS = 16  # threads for calls of assignors, any of which may hang
FORKED = "this client was created in another process; threads and sockets do not survive a fork: create a client in this process"
CALLER_GONE: Final = KafkaError("the caller no longer waits")
_LOOPS: Living[Loop] = Living()


class Loop:
    """The thread of one client. For any thread, except `abandon`, which is for forked children."""

    def __init__(self, engine: Engine, callbacks: Callbacks, clock: Callable[[], float] | None = None) -> None:
        self.engine = engine  # loop thread only, except for methods "for any thread"
        self.now = clock if clock is not None else system.monotonic
        self.crashed: KafkaError | None = None
        self.forked = False
        client_id = engine.config.client_id
        self._callbacks = callbacks
        self._helpers = {
            Threads.HELPER: Helper(client_id=client_id),
            Threads.CREDENTIALS: Helper("pykafka4-credentials", MAX_CONCURRENT_STEPS, client_id),
            Threads.ASSIGNORS: Helper("pykafka4-assignors", ASSIGNORS, client_id),
        }
        self._inbox = Inbox()
        names = Helper("pykafka4-names", LOOKUPS, client_id)
        contexts, proxy = open_contexts(engine.config, client_id), engine.config.proxy_url
        self._transport: Transport = open_transport(engine.config.receive_message_max_bytes, names, self._post, contexts, proxy)
        self._wakeup = self._transport.wakeup
        callbacks.serve(self._wakeup)
        self._logs = logs.current()
        # Promises that must fail when the loop ends or their machine fails. The references are weak: Ctrl-C can end a wait for a
        # promise that is then never resolved, and no code would remove the entry.
        self._promises: dict[weakref.ref[Promise[Any]], Machine | None] = {}
        engine.on_failure.append(self._machine_failed)
        self._deliver: deque[Callable[[], None]] = deque()  # callables from the engine that `_callbacks` does not have yet
        self._stopping = self._ended = False
        self.client_id, self.turns = client_id, 0  # for `hangs.WatchedLoop`
        self._thread = system.Thread(target=self._run, name="pykafka4-loop", daemon=True)
        self._events: dict[EventKind, Callable[[float, int, Any], object]] = {
            EventKind.FRAME: engine.network.receive,
            EventKind.CONNECTED: lambda now, link, _: engine.network.connected(now, link),
            EventKind.LOST: engine.network.lost,
            EventKind.WRITTEN: lambda now, link, _: engine.network.written(now, link),
        }
        _LOOPS.add(self)

    # -- called from any thread

    def start(self) -> None:
        try:
            self._logs.retain(self)
            self._thread.start()
        except BaseException:
            self._logs.release(self)
            raise

    def wake(self) -> None:
        """Run a turn soon."""
        self._wakeup.wake()

    def call(self, fn: Callable[[float], object], machine: Machine | None = None) -> None:
        """Run `fn(now)` on the loop thread. Does nothing if the loop has ended or `machine` has failed.

        An exception in `fn` ends `machine`; without a machine, or after its removal, the exception is logged.
        """
        self._post(lambda now: self.engine.call(now, fn, machine))

    def _post(self, fn: Callable[[float], object]) -> None:
        """Run `fn(now)` on the loop thread; an exception in it crashes the loop."""
        self._inbox.post(fn)
        self._wakeup.wake()

    @overload
    def ask(self, fn: Callable[[float], Promise[T]], timeout: float | None, what: str = ..., machine: Machine | None = ...) -> T: ...

    @overload
    def ask(self, fn: Callable[[float], T], timeout: float | None, what: str = ..., machine: Machine | None = ...) -> T: ...

    def ask(self, fn: Callable[[float], Any], timeout: float | None, what: str = "the operation", machine: Machine | None = None) -> Any:
        """Run `fn(now)` on the loop thread and return its result; if the result is a Promise, wait for it and return its result.

        An exception of `fn` is raised here; unless it is a KafkaError or this is the loop thread, it also ends `machine`. Raises
        KafkaTimeoutError, whose message begins with `what`, after `timeout` seconds (None: no limit); also the errors of `check`. The loop
        thread, which cannot wait, gets a KafkaError for a Promise that is not done.
        """
        self.check()
        if self.on_loop():
            return self._own_result(fn(self.now()), what)
        promise = self.promise(machine)

        def run(now: float) -> None:
            error = _settle(promise, fn, now)
            if machine is not None and error is not None and not isinstance(error, KafkaError):
                self.engine.fail(machine, error)

        self.call(run)
        deadline = INFINITY if timeout is None else system.monotonic() + timeout
        try:
            if not promise.wait(timeout) and system.monotonic() > deadline + STANDSTILL_S:
                promise.wait(EXTRA_WAIT_S)
            return promise.result(0)
        except KafkaTimeoutError:
            if promise.done():
                raise
            raise KafkaTimeoutError(f"{what}: not done within {round(timeout or 0, 2):g} s{self._because()}") from None
        finally:
            promise.set_exception(CALLER_GONE)  # without effect if the promise is done

    def promise(self, machine: Machine | None = None) -> Promise[Any]:
        """Return a Promise that fails if it is not done when the loop crashes or closes, or `machine` fails."""
        promise: Promise[Any] = Promise(self.engine.config.client_id)
        self._promises[weakref.ref(promise, self._promises.__delitem__)] = machine
        # Read after the promise is registered; `_finish` sets `_ended` before it fails the promises. Otherwise: this thread reads False,
        # the loop ends and fails its promises, this thread registers one more, which never fails.
        if self._ended:
            promise.set_exception(self._end())
        elif machine is not None and (failure := self.engine.failure(machine)) is not None:
            promise.set_exception(failure)
        return promise

    def check(self) -> None:
        """Raise ForkedClientError in a forked child, the error of a crash, or ClosedError after `stop`."""
        if self.forked:
            raise ForkedClientError(FORKED)
        if self._ended or self._stopping:
            raise self._end()

    def on_loop(self) -> bool:
        return system.current_thread() is self._thread

    @property
    def sleeps(self) -> bool:
        return self._wakeup.asleep

    @property
    def alive(self) -> bool:
        """False after the end of the loop, and in a forked child."""
        return not (self._ended or self.forked)

    def stop(self) -> None:
        """End the loop soon. Does not wait, so destructors may call it."""
        self._stopping = True
        self._wakeup.wake()

    def close(self, timeout: float | None = None) -> None:
        """End the loop and wait up to `timeout` seconds (None: JOIN_S) for its thread. The loop thread and a forked child do not wait."""
        self.stop()
        if self.forked or self.on_loop():
            return
        if self._thread.is_alive():
            self._thread.join(JOIN_S if timeout is None else timeout)
        self._logs.flush()  # also if the loop had ended already: its last records may still wait for the log thread

    # -- the thread

    def _run(self) -> None:
        self._logs.enter(self)
        try:
            while not self._stopping:
                self._turn()
        except BaseException as error:
            self._crash(error)
        finally:
            self._finish()
            self._logs.leave()
            self._logs.release(self)

    def _turn(self) -> None:
        wakeup = self._wakeup
        # Cleared before the inbox is read. Otherwise: the inbox is empty, a thread posts a call and sets `news`, this line clears `news`,
        # and the loop sleeps although a call waits.
        wakeup.news = False
        self.turns += 1
        now = self.now()
        if self._inbox:
            self._inbox.run(now)
        turn = self.engine.turn(now)
        self._deliver += turn.deliver
        self._perform(now, turn)
        wakeup.asleep = True  # from here on `wake` ends `select`; an earlier `wake` has set `news`
        timeout = 0.0 if wakeup.news or self._stopping else turn.wake_at - self.now()
        events = self._transport.select(min(max(timeout, 0.0), LONGEST_SLEEP_S))
        self.turns += 1
        wakeup.asleep = False
        if events:
            self._report(events)

    def _report(self, events: list[Event]) -> None:
        now = self.now()
        for kind, link, payload in events:
            self._events[kind](now, link, payload)

    def _perform(self, now: float, turn: Turn) -> None:
        for close in turn.close:
            self._transport.close(close.link)
        for connect in turn.connect:
            self._transport.connect(connect.link, connect.host, connect.port)
        for link, buffers in turn.write:
            written = self._transport.write(link, buffers, self.engine.network.awaits_write(link))
            buffers.clear()  # a view that stays here would keep a batch's memory in use; the transport keeps the views that it needs
            if written and self.engine.network.written(now, link):
                self._wakeup.news = True  # a request without a response is complete: its machine may continue
        self._submit_callbacks()
        for job in turn.jobs:
            self._start_job(job)

    def _submit_callbacks(self) -> None:
        self._callbacks.submit_posted()
        while self._deliver:
            self._callbacks.submit(self._deliver.popleft())

    def _start_job(self, job: Job) -> None:
        self._helpers[job.threads].submit(job.run, lambda result: self.call(lambda now: job.then(now, result)))

    # -- the end of calls and of the loop

    def _own_result(self, result: T | Promise[T], what: str) -> T:
        if not isinstance(result, Promise):
            return result
        if not result.done():
            raise KafkaError(f"{what}: called on the loop's own thread, which would deadlock")
        return result.result(0)

    def _because(self) -> str:
        why = self.engine.network.why_unreachable()
        return f"; {why}" if why else ""

    def _end(self) -> KafkaError:
        """Return the error of the ended loop, a new instance for each caller."""
        return ClosedError("this client is closed; create a new one") if self.crashed is None else self.crashed.again()

    def _machine_failed(self, machine: Machine, reason: KafkaError) -> None:
        for reference, waits_for in list(self._promises.items()):
            if waits_for is machine and (promise := reference()) is not None:
                promise.set_exception(reason)

    def _crash(self, error: BaseException) -> None:
        self.crashed = KafkaError(f"the loop crashed: {describe(error)}; close this client and create a new one")
        self.crashed.__cause__ = error
        empty_frames(error)
        log.critical("%s: the loop crashed", self.engine.config.client_id, exc_info=error)

    def _finish(self) -> None:
        self._ended = True
        try:
            self._fail_waiters()
        finally:  # also after an error: otherwise descriptors stay open, and a GIL flag that stays raised slows every thread down
            self._transport.shut()
            _LOOPS.discard(self)

    def _fail_waiters(self) -> None:
        self._callbacks.serve(None)  # before the last `_submit_callbacks`: a later `post` submits its callback itself
        reason = self.crashed or self._end()
        self._deliver += self.engine.crash(reason)
        while True:
            with contextlib.suppress(Exception):  # after an error with one callback the others still have to run
                self._submit_callbacks()
                break
        for reference in list(self._promises):
            if (promise := reference()) is not None:
                promise.set_exception(reason)

    def abandon(self) -> None:
        """Close the descriptors of a forked child, which has no loop thread.

        Takes no lock: a thread of the parent may have held any lock at the fork.
        """
        self.forked = True
        self._wakeup.asleep = False
        self._transport.abandon()


def _settle(promise: Promise[T], fn: Callable[[float], T | Promise[T]], now: float) -> Exception | None:
    """Resolve `promise` with the result of `fn`. An exception of `fn` fails the promise, not the loop, and is returned."""
    try:
        result = fn(now)
    except Exception as error:
        promise.set_exception(error)
        return error
    if isinstance(result, Promise):
        result.add_done_callback(lambda inner: _pass_on(inner, promise))
    else:
        promise.set_result(result)
    return None


def _pass_on(inner: Promise[T], outer: Promise[T]) -> None:
    error = inner.exception(0)
    if error is not None:
        outer.set_exception(error)
    else:
        outer.set_result(inner.result(0))


def _after_fork() -> None:
    for loop in list(_LOOPS):
        loop.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
