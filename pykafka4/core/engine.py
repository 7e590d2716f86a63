"""Polls all machines of one client and passes their requests to the network; a turn is the same under the real loop and in the simulation.

Invariant: an exception in one machine (in `poll`, in a handler of its responses and jobs, or in a call for the machine) stops that machine
alone, and fails the calls and records that wait for it. An exception in the shared parts (network, cluster, recovery) stops the client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

import attrs

from pykafka4.core import INFINITY, NOTHING, Close, Connect, Effects, Job, Machine, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.events import EventSink
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.errors import KafkaError
from pykafka4.errors.frames import empty_frames
from pykafka4.logs import get_log
from pykafka4.options.config import ClientConfig
from pykafka4.wire.buffers import Buffer

if TYPE_CHECKING:
    from pykafka4.core.sasl.mechanism import Mechanism

__all__ = ["Engine", "Turn", "describe"]

log = get_log("pykafka4.engine")


@attrs.frozen(eq=False)
class Turn:
    """The output of a turn. The loop does this work in the order close, connect, write, deliver, jobs, then waits for events until
    `wake_at`."""

    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Buffer]], ...] = ()  # (link, buffers)
    deliver: tuple[Callable[[], None], ...] = ()
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY


@attrs.define(eq=False)
class Slot:
    """A machine of the engine, and the `Owner` of its requests: responses reach the machine only until its first failure."""

    engine: Engine
    machine: Machine
    what: str  # a noun for messages: "producer", "consumer", …
    failure: KafkaError | None = None

    def pass_on(self, now: float, request: Request, outcome: Outcome) -> None:
        if self.failure is None:
            try:
                request.on_reply(now, outcome)
            except Exception as error:
                self.engine.stop(self, error)


class Engine:
    """For the loop thread, except `failure`."""

    def __init__(self, config: ClientConfig, random: Random, events: EventSink, prepare: Callable[[str], Mechanism] | None = None) -> None:
        """`prepare(host name of a broker)` makes a SASL mechanism with the current credentials, and may block. None: no SASL."""
        self.config, self.random = config, random
        self.network = Network(config, random, prepare)
        self.cluster = Cluster(config, self.network, random, events)
        self.recovery = Recovery(config, self.cluster, self.network, random, events)
        self.on_failure: list[Callable[[Machine, KafkaError], None]] = []  # called when an exception has stopped a machine
        # A machine passes work only to machines that are polled later in the same turn: users' machines call recovery and the cluster, and
        # recovery calls the cluster (`refresh`). In the other order, a request for metadata would wait for the next turn.
        self._shared: tuple[Machine, ...] = (self.recovery, self.cluster)
        self._slots: tuple[Slot, ...] = ()  # the machines that are polled
        self._all: dict[Machine, Slot] = {}  # includes failed machines, until they are removed
        self._deliver: list[Callable[[], None]] = []  # callbacks for the next `Turn`; a crash within a turn must lose none

    def add(self, machine: Machine, what: str = "machine") -> None:
        """Poll `machine` from the next turn on. `what` is its noun for messages."""
        slot = self._all[machine] = Slot(self, machine, what)
        self._slots = (slot, *self._slots)

    def remove(self, machine: Machine) -> None:
        """Stop polling `machine`. Responses to its requests still reach the machine."""
        self._all.pop(machine, None)
        self._slots = tuple(slot for slot in self._slots if slot.machine is not machine)

    def call(self, now: float, fn: Callable[[float], object], machine: Machine | None) -> None:
        """Run `fn(now)` for `machine`, unless the machine has failed. An exception stops the machine.

        Without a machine, or after its removal, an exception is only logged.
        """
        slot = None if machine is None else self._all.get(machine)
        if slot is not None and slot.failure is not None:
            return
        try:
            fn(now)
        except Exception as error:
            if slot is None:
                empty_frames(error)
                log.exception("%s: a call on the loop raised an exception", self.config.client_id)
            else:
                self.stop(slot, error)

    def failure(self, machine: Machine) -> KafkaError | None:
        """The error that stopped `machine`; None while it runs, and after its removal. For any thread."""
        slot = self._all.get(machine)
        return None if slot is None else slot.failure

    def fail(self, machine: Machine, error: Exception) -> None:
        if (slot := self._all.get(machine)) is not None:
            self.stop(slot, error)

    def turn(self, now: float) -> Turn:
        version, changes = self.cluster.version, self.recovery.changes
        self.network.close_stale(now)
        requests: list[Request] = []
        jobs: list[Job] = []
        wake_at = INFINITY
        for slot in self._slots:
            effects = self._poll(slot, now)
            if effects.requests:
                for request in effects.requests:
                    request.owner = slot
                requests += effects.requests
            if effects.deliver:
                self._deliver += effects.deliver
            if effects.jobs:
                jobs += [Job(job.run, partial(self._job_done, slot, job.then), job.threads) for job in effects.jobs]
            if effects.wake_at < wake_at:
                wake_at = effects.wake_at
        for machine in self._shared:
            effects = machine.poll(now)
            requests += effects.requests
            if effects.wake_at < wake_at:
                wake_at = effects.wake_at
        # The network is last, so it writes the requests of this turn. It also passes on outcomes, on which the machines act in the next
        # turn.
        for request in requests:
            self.network.submit(now, request)
        net = self.network.poll(now)
        jobs += net.jobs
        if self.cluster.version != version or self.recovery.changes != changes:
            wake_at = now  # the machines were polled before the change, and must see it
        deliver, self._deliver = self._deliver, []
        return Turn(net.connect, net.close, net.write, tuple(deliver), tuple(jobs), min(wake_at, net.wake_at))

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Make every machine fail its waiters; return the callbacks."""
        deliver, self._deliver = self._deliver, []
        for slot in self._slots:
            deliver += self._shut_down(slot.machine, reason)
        for machine in self._shared:
            deliver += self._shut_down(machine, reason)
        return tuple(deliver)

    # -- one machine's failure

    def _poll(self, slot: Slot, now: float) -> Effects:
        try:
            return slot.machine.poll(now)
        except Exception as error:
            self.stop(slot, error)
            return NOTHING

    def _job_done(self, slot: Slot, handler: Callable[[float, Any], None], now: float, result: Any) -> None:
        if slot.failure is None:
            try:
                handler(now, result)
            except Exception as error:
                self.stop(slot, error)

    def stop(self, slot: Slot, error: Exception) -> None:
        """Fail the machine's waiters as after a crash of the loop. Later failures are ignored."""
        if slot.failure is not None:
            return
        reason = KafkaError(f"an internal error stopped this {slot.what}: {describe(error)}; close it and create a new one")
        reason.__cause__ = error
        empty_frames(error)
        slot.failure = reason
        # A new tuple, because `turn` may be iterating over the old one. The slot stays in `_all`, for `failure`.
        self._slots = tuple(other for other in self._slots if other is not slot)
        log.critical(
            "%s: an internal error stopped the %s; the client and its other users continue",
            self.config.client_id,
            slot.what,
            exc_info=error,
        )
        self._deliver += self._shut_down(slot.machine, reason)
        for listener in self.on_failure:
            listener(slot.machine, reason)

    def _shut_down(self, machine: Machine, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        try:
            return machine.crash(reason)
        except Exception as error:
            empty_frames(error)
            log.exception("%s: %s could not be shut down cleanly", self.config.client_id, type(machine).__name__)
            return ()


def describe(error: BaseException) -> str:
    """The error as `ValueError: the message`; only the type if the error's `__str__` raises."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
