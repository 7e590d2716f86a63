"""Engine: polls all machines of one client, and keeps the failure of one from the others.

Invariants: a turn is the same under the real loop and in a simulation. An exception in a machine's poll, in an answer to its request, in
the end of its job or in a call made for it ends that machine alone: those who wait on it are told. Only an exception in the shared parts
(network, cluster, recovery) leaves `turn`, and ends the client.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, NOTHING, Close, Connect, Effects, Job, Machine, Outcome, Request
from pykafka4.core.metadata.cluster import Cluster
from pykafka4.core.metadata.recovery import Recovery
from pykafka4.core.network.network import Network
from pykafka4.errors import KafkaError
from pykafka4.logs import get_log
from pykafka4.wire.buffers import Buffer

__all__ = ["Engine", "Turn", "describe"]

log = get_log("pykafka4.engine")


@attrs.frozen(eq=False)
class Turn:
    """What a turn wants done: carry it out in the order close, connect, write, deliver, jobs; then wait for I/O until `wake_at`."""

    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Buffer]], ...] = ()  # (link, buffers)
    deliver: tuple[Callable[[], None], ...] = ()
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY


@attrs.define(eq=False)
class Slot:
    """A machine in the engine. Requests and jobs refer to this, so that their answers know whether the machine still works."""

    machine: Machine
    what: str  # "producer", "consumer": as messages call it
    failure: KafkaError | None = None


class Engine:
    """All machines of one client. Loop thread only, except `failure`."""

    def __init__(self, config: ClientConfig, random: Random, emit: Callable[[object], None]) -> None:
        """`emit(event)` is told what `Client.events` reports, on the loop thread; it must not block."""
        self.config, self.random = config, random
        self.network = Network(config, random)
        self.cluster = Cluster(config, self.network, random, emit)
        self.recovery = Recovery(config, self.cluster, self.network, random, emit)
        self.on_failure: list[Callable[[Machine, KafkaError], None]] = []  # told when a machine was ended by its own exception
        # Each machine asks those after it for help while it is polled, so what they are asked for happens in the same turn.
        self._shared: tuple[Machine, ...] = (self.recovery, self.cluster)
        self._slots: tuple[Slot, ...] = ()  # those that are polled
        self._all: dict[Machine, Slot] = {}  # failed ones too, until they are removed
        self._submitted: list[Request] = []
        self._deliver: list[Callable[[], None]] = []  # not handed out yet; here, so that a crash in the middle of a turn loses none

    def add(self, machine: Machine, what: str = "machine") -> None:
        """Poll `machine` from the next turn on. `what` names it in errors."""
        slot = self._all[machine] = Slot(machine, what)
        self._slots = (slot, *self._slots)

    def remove(self, machine: Machine) -> None:
        """Poll `machine` no more. Answers to its requests still reach it."""
        self._all.pop(machine, None)
        self._slots = tuple(slot for slot in self._slots if slot.machine is not machine)

    def submit(self, request: Request) -> None:
        """Send a request that belongs to no machine, in the next turn. What its `on_reply` raises is logged."""
        request.on_reply = partial(self._answer_nobody, request.on_reply)
        self._submitted.append(request)

    def call(self, now: float, fn: Callable[[float], object], machine: Machine | None) -> None:
        """Run `fn(now)` for `machine`, unless that has failed. Without a machine an exception is logged and ends nothing."""
        slot = None if machine is None else self._all.get(machine)
        if slot is not None and slot.failure is not None:
            return
        try:
            fn(now)
        except Exception as error:
            if slot is None:
                log.exception("a call on the loop failed")
            else:
                self._fail(slot, error)

    def failure(self, machine: Machine) -> KafkaError | None:
        """Why `machine` ended by itself; None while it works. Any thread may ask."""
        slot = self._all.get(machine)
        return None if slot is None else slot.failure

    def fail(self, machine: Machine, error: Exception) -> None:
        """End `machine` because of `error`: tell those who wait on it, and poll it no more."""
        if (slot := self._all.get(machine)) is not None:
            self._fail(slot, error)

    def turn(self, now: float) -> Turn:
        """Poll every machine, send what they ask for, poll the network."""
        version, changes = self.cluster.version, self.recovery.changes
        requests, self._submitted = self._submitted, []
        jobs: list[Job] = []
        wake_at = INFINITY
        for slot in self._slots:
            effects = self._poll(slot, now)
            if effects.requests:
                for request in effects.requests:
                    request.on_reply = partial(self._answer, slot, request.on_reply)
                requests += effects.requests
            if effects.deliver:
                self._deliver += effects.deliver
            if effects.jobs:
                jobs += [Job(job.run, partial(self._answer, slot, job.then)) for job in effects.jobs]
            if effects.wake_at < wake_at:
                wake_at = effects.wake_at
        for machine in self._shared:
            effects = machine.poll(now)
            requests += effects.requests
            if effects.wake_at < wake_at:
                wake_at = effects.wake_at
        for request in requests:
            self.network.submit(now, request)
        net = self.network.poll(now)
        if self.cluster.version != version or self.recovery.changes != changes:
            wake_at = now  # news for machines that were polled before it came
        deliver, self._deliver = self._deliver, []
        return Turn(net.connect, net.close, net.write, tuple(deliver), tuple(jobs), min(wake_at, net.wake_at))

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Every machine fails those who wait on it. One that breaks while doing so does not keep the others from it."""
        deliver, self._deliver = self._deliver, []
        for slot in self._slots:
            deliver += _bring_down(slot.machine, reason)
        for machine in self._shared:
            deliver += _bring_down(machine, reason)
        return tuple(deliver)

    # -- one machine's failure

    def _poll(self, slot: Slot, now: float) -> Effects:
        try:
            return slot.machine.poll(now)
        except Exception as error:
            self._fail(slot, error)
            return NOTHING

    def _answer(self, slot: Slot, handler: Callable[[float, Any], None], now: float, result: Any) -> None:
        """Give its machine the outcome of a request, or the result of a job, unless the machine has failed."""
        if slot.failure is None:
            try:
                handler(now, result)
            except Exception as error:
                self._fail(slot, error)

    def _answer_nobody(self, on_reply: Callable[[float, Outcome], None], now: float, outcome: Outcome) -> None:
        try:
            on_reply(now, outcome)
        except Exception:
            log.exception("the handler of an answer failed")

    def _fail(self, slot: Slot, error: Exception) -> None:
        """The first failure counts. The machine is told like in a crash of the loop; what that raises is logged."""
        if slot.failure is not None:
            return
        reason = KafkaError(f"an internal error ended this {slot.what}: {describe(error)}; close it and make a new one")
        reason.__cause__ = error
        slot.failure = reason
        self._slots = tuple(other for other in self._slots if other is not slot)
        log.critical("an internal error ended a %s; the client and its other users go on", slot.what, exc_info=error)
        self._deliver += _bring_down(slot.machine, reason)
        for listener in self.on_failure:
            listener(slot.machine, reason)


def describe(error: BaseException) -> str:
    """`ValueError: the message`; the type alone where the message cannot be made."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _bring_down(machine: Machine, reason: KafkaError) -> tuple[Callable[[], None], ...]:
    try:
        return machine.crash(reason)
    except Exception:
        log.exception("%s could not be brought down cleanly", type(machine).__name__)
        return ()
