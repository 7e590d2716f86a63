"""A client's loop in virtual time. Rule: it does what `net.loop` does, at the moments a timeline gives it, and nothing of its own.

`Driver` turns one engine against the model cluster. `VirtualClient` makes it look like a `Client`, so that the application side of
consumers runs on it as it is: what would wait for the loop's thread moves virtual time instead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, Generic, TypeVar

from invariants import Broken
from weather import Climate, Weather

from pykafka4.client import Client
from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Job, Machine
from pykafka4.core.engine import Engine, Turn
from pykafka4.errors import KafkaError, KafkaTimeoutError
from pykafka4.net.handoff import Promise
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.timeline import Moment, Timeline

__all__ = ["Driver", "Executor", "VirtualClient"]

LOOP_STEP: Final = 0.00002  # shortest time between two turns
MOST_TURNS: Final = 60_000
TURNS_PER_INPUT: Final = 12  # a loop that turns more often than this is hot
TURNS_PER_SECOND: Final = 150
T = TypeVar("T")


class Executor:
    """The application's callback executor: one after the other, each after a while."""

    __slots__ = ("_delay", "_queue", "_running", "_timeline")

    def __init__(self, timeline: Timeline, delay: Callable[[], float]) -> None:
        self._timeline, self._delay = timeline, delay
        self._queue: deque[Callable[[], None]] = deque()
        self._running = False

    def submit(self, act: Callable[[], None]) -> None:
        """Run `act` later."""
        self._queue.append(act)
        self._next()

    def in_callback(self) -> bool:
        """Nothing here waits, so nobody has to know."""
        return False

    def _next(self) -> None:
        if self._queue and not self._running:
            self._running = True
            self._timeline.after(self._delay(), self._run)

    def _run(self) -> None:
        self._running = False
        self._queue.popleft()()
        self._next()


class Driver:
    """One engine, its network and its turns."""

    def __init__(
        self,
        config: ClientConfig,
        cluster: ModelCluster,
        random: Random,
        seed: int,
        climate: Climate,
        *,
        note: Callable[[str], None],
        after_turn: Callable[[], None] = lambda: None,
    ) -> None:
        """`random` is the schedule's own; `seed` is for the client's dice."""
        self.timeline, self._random, self._after_turn = cluster.timeline, random, after_turn
        self.engine = Engine(config, Random(seed), lambda event: None)
        self.engine.on_failure.append(_raise_cause)  # no schedule may end a machine, and invariants raise in its poll
        self.executor = Executor(self.timeline, lambda: random.random() * 0.002)
        self.weather = Weather(self.timeline, random, cluster, climate, note)
        self.weather.attach(self.engine.network, self.poke)
        self.turns = 0
        self.began = self.timeline.now
        self.stopped = False
        self.before_sleep: Callable[[float], None] = lambda wake_at: None
        self._inbox: deque[Callable[[float], object]] = deque()
        self._turn_at: Moment | None = None

    def call(self, fn: Callable[[float], object], machine: Machine | None = None) -> None:
        """Have `fn(now)` run at the beginning of the next turn."""
        self._inbox.append(fn)
        self.poke()

    def poke(self) -> None:
        """Ask for a turn."""
        self._turn_by(self.timeline.now + LOOP_STEP)

    def stop(self) -> None:
        """The process is gone: no more turns, every connection breaks."""
        self.stopped = True
        if self._turn_at is not None:
            self._turn_at.cancel()
        for path in list(self.weather.paths.values()):
            self.weather.cut(path)

    def _turn_by(self, when: float) -> None:
        if self.stopped or (self._turn_at is not None and self._turn_at.act is not None and self._turn_at.at <= when):
            return
        if self._turn_at is not None:
            self._turn_at.cancel()
        self._turn_at = self.timeline.at(when, self._turn) if when < INFINITY else None

    def _turn(self) -> None:
        self.turns += 1
        for _ in range(len(self._inbox)):
            self._inbox.popleft()(self.timeline.now)
        turn = self.engine.turn(self.timeline.now)
        self._perform(turn)
        self._after_turn()
        self.before_sleep(turn.wake_at)
        self._turn_by(max(turn.wake_at, self.timeline.now + LOOP_STEP))
        if self._inbox:
            self.poke()

    def _perform(self, turn: Turn) -> None:
        for closed in turn.close:
            self.weather.close(closed)
        for opened in turn.connect:
            self.weather.connect(opened)
        for link, buffers in turn.write:
            self.weather.write(link, buffers)
        for act in turn.deliver:
            self.executor.submit(act)
        for job in turn.jobs:
            self.timeline.after(self._random.random() * 0.003, lambda job=job: self._job(job))  # type: ignore[misc]

    def _job(self, job: Job) -> None:
        try:
            result = job.run()
        except Exception as error:
            result = error
        job.then(self.timeline.now, result)
        self.poke()

    def check_heat(self, more: int = 0) -> None:
        """Broken when the loop turned more often than what it was told, and `more` things beside, can explain."""
        seconds = self.timeline.now - self.began
        allowed = 200 + TURNS_PER_INPUT * (self.weather.inputs + more) + TURNS_PER_SECOND * seconds
        if self.turns > allowed or self.turns > MOST_TURNS:
            raise Broken("no hot loop", f"{self.turns} turns in {seconds:.3f} s with {self.weather.inputs} inputs")


def _raise_cause(machine: Machine, reason: KafkaError) -> None:
    assert reason.__cause__ is not None
    raise reason.__cause__


class VirtualPromise(Promise[T], Generic[T]):
    """Whoever waits for it moves virtual time."""

    __slots__ = ("_driver",)

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self._driver = driver

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `Promise.exception`."""
        timeline = self._driver.timeline
        end = timeline.now + (INFINITY if timeout is None else timeout)
        while not self.done() and timeline.next_at <= end:
            timeline.step()
        if not self.done():
            raise KafkaTimeoutError(f"no result within {timeout} s")
        return super().exception(0)


class VirtualLoop:
    """What applications' threads use of `net.loop.Loop`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.forked = False
        self.call, self.wake = driver.call, driver.poke

    def now(self) -> float:
        """Virtual seconds."""
        return self._driver.timeline.now

    def ask(self, fn: Callable[[float], Any], timeout: float | None, what: str = "", machine: Machine | None = None) -> Any:
        """`fn(now)`: there is no other thread to wait for."""
        result = fn(self.now())
        self._driver.poke()
        return result.result(timeout) if isinstance(result, Promise) else result

    def promise(self, machine: Machine | None = None) -> Promise[Any]:
        """A result that comes later, in virtual time."""
        return VirtualPromise(self._driver)

    def check(self) -> None:
        """It never ends by itself."""

    @property
    def alive(self) -> bool:
        """Whether it turns."""
        return not self._driver.stopped

    def stop(self) -> None:
        """A client that is forgotten stops its loop."""


class VirtualClient(Client):
    """A `Client` whose loop is a `Driver`."""

    def __init__(self, config: ClientConfig, driver: Driver) -> None:
        self.config = config
        self.callbacks: Any = driver.executor
        self.engine = driver.engine
        self.loop: Any = VirtualLoop(driver)
        self._users = {}
        self._private = False
