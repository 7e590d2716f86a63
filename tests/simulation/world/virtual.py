"""Threads in virtual time. Invariant: one thread runs at a time, and which one runs next follows from the timeline alone.

Every thread of the client and of the simulated application is a greenlet. A thread that waits is an entry of the timeline; whoever wakes
it makes another entry. `World.installed` puts these primitives in the place of those in `pykafka4.net.system`, so the client runs
unchanged, and a schedule of threads can be replayed from its seed.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

import pykafka4.client.runtime
import pykafka4.net.loop
import pykafka4.producer.session
from pykafka4.net import system
from pykafka4.net.living import Living
from pykafka4.testing.timeline import Timeline

__all__ = ["Process", "Thread", "World"]

JITTER_S: Final = 0.00005  # seconds until a thread that was woken runs, at most
FOREVER_S: Final = 1e8  # a longer wait has no deadline


class Process:
    """What dies together: its threads never run again after `killed` is set."""

    __slots__ = ("killed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.killed = False


class Thread:
    """As `threading.Thread`, on a greenlet."""

    def __init__(
        self, world: World, target: Callable[[], Any], name: str = "", daemon: bool = True, process: Process | None = None
    ) -> None:
        self.world, self.name, self.daemon = world, name, daemon
        self.process = process or world.process
        world.count += 1
        self.ident = world.count
        self.token: object | None = None  # what it waits with; None while it runs
        self.event_loop: Any = None  # asyncio's, while it runs one
        self._target = target
        self._ended = False
        self._joining: list[Thread] = []
        self.greenlet = greenlet(self._run, world.hub)

    def start(self) -> None:
        """Run soon."""
        self.world.threads.append(self)
        self.world.wake(self, self.world.new_token(self))

    def is_alive(self) -> bool:
        """Whether it was started and has not ended."""
        return self in self.world.threads

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        if not self._ended:
            self._joining.append(self.world.me())
            self.world.park(timeout)

    def _run(self, _: object) -> None:
        try:
            self._target()
        except GreenletExit:
            pass
        except BaseException as error:
            self.world.fail(error)
        finally:
            self._ended = True
            self.world.threads.remove(self)
            for thread in self._joining:
                self.world.wake(thread)


class RLock:
    """As `threading.RLock`. Asking for it is a point where another thread may come first."""

    __slots__ = ("_count", "_owner", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: Thread | None = None
        self._count = 0
        self._waiting: deque[Thread] = deque()

    def acquire(self) -> bool:
        """Wait until it is free."""
        world = self._world
        me = world.me()
        if self._owner is not me:
            world.perhaps_yield()
            while self._owner is not None:
                self._waiting.append(me)
                world.park(None)
            self._owner = me
        self._count += 1
        return True

    def release(self) -> None:
        """Let the next have it."""
        self._count -= 1
        if not self._count:
            self._owner = None
            if self._waiting:
                self._world.wake(self._waiting.popleft())

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """As `threading.Condition`."""

    __slots__ = ("_lock", "_waiting", "_world")

    def __init__(self, world: World, lock: RLock | None = None) -> None:
        self._world = world
        self._lock = lock or RLock(world)
        self._waiting: list[Thread] = []

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `notify`; whether it came in time."""
        me = self._world.me()
        self._waiting.append(me)
        self._lock.release()
        try:
            return self._world.park(timeout)
        finally:
            if me in self._waiting:
                self._waiting.remove(me)
            self._lock.acquire()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until `predicate()` is true; what it said last."""
        now = self._world.now
        end = None if timeout is None else now() + timeout
        while not (result := predicate()):
            left = None if end is None else end - now()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify(self, n: int = 1) -> None:
        """Wake `n` of those that wait."""
        for _ in range(min(n, len(self._waiting))):
            self._world.wake(self._waiting.pop(0))

    def notify_all(self) -> None:
        """Wake all of them."""
        self.notify(len(self._waiting))


class Lock:
    """As `threading.Lock`: any thread may release it, so a thread can wait until another releases it."""

    __slots__ = ("__weakref__", "_locked", "_waiting", "_world")

    def __init__(self, world: World) -> None:
        self._world = world
        self._locked = False
        self._waiting: deque[Thread] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, waiting up to `timeout` seconds (-1: for ever); whether it was taken."""
        world = self._world
        world.perhaps_yield()
        end = None if timeout < 0 else world.now() + timeout
        while self._locked:
            left = None if end is None else end - world.now()
            if not blocking or (left is not None and left <= 0):
                return False
            me = world.me()
            self._waiting.append(me)
            world.park(left)
            if me in self._waiting:
                self._waiting.remove(me)
        self._locked = True
        return True

    def release(self) -> None:
        """Let one that waits have it."""
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        if self._waiting:
            self._world.wake(self._waiting.popleft())

    def locked(self) -> bool:
        """Whether it is taken."""
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class World:
    """The threads of one schedule. `preempt` is how likely a thread that asks for a lock lets another go first."""

    def __init__(self, timeline: Timeline, random: Random, preempt: float) -> None:
        self.timeline, self._chance, self._preempt = timeline, random.random, preempt
        self.hub = getcurrent()
        self.threads: list[Thread] = []
        self.count = 0
        self.failure: BaseException | None = None
        self.process = Process("main")
        self._main = Thread(self, lambda: None, "timeline")
        self._closed = False
        self._current: Thread = self._main

    # ---- the schedule

    def now(self) -> float:
        """Virtual seconds."""
        return self.timeline.now

    def spawn(self, target: Callable[[], Any], name: str, process: Process | None = None) -> Thread:
        """Start a thread of the application."""
        thread = Thread(self, target, name, process=process)
        thread.start()
        return thread

    def step(self) -> None:
        """The next entry of the timeline; raises what a thread died of."""
        self.timeline.step()
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def fail(self, error: BaseException) -> None:
        """Have `step` raise `error`, unless there was another before."""
        if self.failure is None:
            self.failure = error

    # ---- for threads

    def me(self) -> Thread:
        """The thread that runs."""
        return self._current

    def park(self, timeout: float | None) -> bool:
        """Stop until `wake` or for `timeout` seconds; whether it was woken."""
        if self._closed:
            raise GreenletExit
        me = self._current
        assert me is not self._main, "the timeline itself cannot wait"
        token = me.token = object()
        if timeout is None or timeout >= FOREVER_S:
            return bool(self.hub.switch())
        timeline = self.timeline
        moment = timeline.at(timeline.now + timeout, lambda: self._resume(me, token, False))
        woken = self.hub.switch()
        moment.act = None
        return bool(woken)

    def sleep(self, seconds: float) -> None:
        """Stop for so long, without regard to `wake`."""
        end = self.timeline.now + seconds
        while (left := end - self.timeline.now) > 0:
            self.park(left)

    def perhaps_yield(self) -> None:
        """Let other threads go first, now and then."""
        if self._preempt and self._current is not self._main and not self._closed and self._chance() < self._preempt:
            self.park(self._chance() * JITTER_S)

    def wake(self, thread: Thread, token: object | None = None) -> None:
        """Have a thread that waits go on soon."""
        token = token or thread.token
        if token is not None:
            timeline = self.timeline
            timeline.at(timeline.now + self._chance() * JITTER_S, lambda: self._resume(thread, token, True))

    def new_token(self, thread: Thread) -> object:
        """What the thread waits with from here on."""
        token = thread.token = object()
        return token

    def _resume(self, thread: Thread, token: object, woken: bool) -> None:
        if thread.token is token and not thread.process.killed:
            thread.token = None
            before, self._current = self._current, thread
            events._set_running_loop(thread.event_loop)
            try:
                thread.greenlet.switch(woken)
            finally:
                thread.event_loop = events._get_running_loop()
                events._set_running_loop(None)
                self._current = before

    # ---- in the place of what the client uses

    @contextlib.contextmanager
    def installed(self, transport: Callable[..., Any], seed: int, wall_ms: Callable[[], int]) -> Iterator[None]:
        """The client's threads, clock, network and chance are those of this world."""
        accumulator = vars(pykafka4.producer.session)["Accumulator"]
        seeds = Random(seed)
        finalizers: list[weakref.finalize[Any, Any]] = []
        finalize = weakref.finalize

        def noted(*args: Any) -> weakref.finalize[Any, Any]:
            finalizers.append(finalize(*args))
            return finalizers[-1]

        places: tuple[tuple[Any, str, Any], ...] = (
            (system, "Condition", partial(Condition, self)),
            (system, "Lock", partial(Lock, self)),
            (system, "RLock", partial(RLock, self)),
            (system, "Thread", partial(Thread, self)),
            (system, "current_thread", self.me),
            (system, "get_ident", lambda: self._current.ident),
            (system, "monotonic", self.now),
            (pykafka4.net.loop, "open_transport", transport),
            (weakref, "finalize", noted),
            (pykafka4.client.runtime, "_RUNTIMES", Living()),
            (pykafka4.client.runtime, "Random", lambda: Random(seeds.random())),
            (
                pykafka4.producer.session,
                "Accumulator",
                lambda **options: accumulator(wall=wall_ms, seed=seeds.randrange(1 << 30), **options),
            ),
        )
        before = [(owner, name, vars(owner)[name]) for owner, name, _ in places]
        hooks = sys.get_asyncgen_hooks()  # which event loops replace while they run
        collecting = gc.isenabled()
        gc.disable()  # when it runs depends on what ran before; handles that are dropped are freed at once all the same
        try:
            for owner, name, value in places:
                setattr(owner, name, value)
            yield
        finally:
            self._close()
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(None)
            for owner, name, value in before:
                setattr(owner, name, value)
            for finalizer in finalizers:
                finalizer.detach()  # of clients that were never closed: the registry of finalizers would keep the schedule alive
            if collecting:
                gc.enable()

    def _close(self) -> None:
        """End all threads that are left."""
        self._closed = True
        for thread in list(self.threads):
            self._current = thread
            with contextlib.suppress(BaseException):
                thread.greenlet.throw(GreenletExit)
        self._current = self._main
