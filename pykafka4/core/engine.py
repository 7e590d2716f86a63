"""Engine. Rule: one turn is the same under the real loop and under the simulation; nothing here knows which of the two it is."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Close, Connect, Job, Machine, Request
from pykafka4.core.cluster import Cluster
from pykafka4.core.network import Network
from pykafka4.core.recovery import Recovery
from pykafka4.errors import KafkaError
from pykafka4.wire.schema import Buffer

__all__ = ["Engine", "Turn"]

log = logging.getLogger("pykafka4.engine")


@attrs.frozen(eq=False)
class Turn:
    """What a turn wants done: carry it out in the order close, connect, write, deliver, jobs; then wait for I/O until `wake_at`."""

    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Buffer]], ...] = ()  # (link, buffers)
    deliver: tuple[Callable[[], None], ...] = ()
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY


class Engine:
    """All machines of one client. Loop thread only."""

    def __init__(self, config: ClientConfig, random: Random, emit: Callable[[object], None]) -> None:
        """`emit(event)` is told what `Client.events` reports, on the loop thread; it must not block."""
        self.config, self.random = config, random
        self.network = Network(config, random)
        self.cluster = Cluster(config, self.network, random, emit)
        self.recovery = Recovery(config, self.cluster, self.network, random, emit)
        # Each machine asks those after it for help while it is polled, so what they are asked for happens in the same turn.
        self.machines: tuple[Machine, ...] = (self.recovery, self.cluster)
        self._submitted: list[Request] = []

    def add(self, machine: Machine) -> None:
        """Poll `machine` from the next turn on."""
        self.machines = (machine, *self.machines)

    def remove(self, machine: Machine) -> None:
        """Poll `machine` no more. Answers to its requests still reach it."""
        self.machines = tuple(m for m in self.machines if m is not machine)

    def submit(self, request: Request) -> None:
        """Send a request that belongs to no machine, in the next turn."""
        self._submitted.append(request)

    def turn(self, now: float) -> Turn:
        """Poll every machine, send what they ask for, poll the network."""
        before = (self.cluster.version, self.recovery.changes)
        requests, self._submitted = self._submitted, []
        deliver: list[Callable[[], None]] = []
        jobs: list[Job] = []
        wake_at = INFINITY
        for machine in self.machines:
            effects = machine.poll(now)
            if effects.requests:
                requests += effects.requests
            if effects.deliver:
                deliver += effects.deliver
            if effects.jobs:
                jobs += effects.jobs
            wake_at = min(wake_at, effects.wake_at)
        for request in requests:
            self.network.submit(now, request)
        net = self.network.poll(now)
        if (self.cluster.version, self.recovery.changes) != before:
            wake_at = now  # news for machines that were polled before it came
        return Turn(net.connect, net.close, net.write, tuple(deliver), tuple(jobs), min(wake_at, net.wake_at))

    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]:
        """Every machine fails those who wait on it. One that breaks while doing so does not keep the others from it."""
        deliver: list[Callable[[], None]] = []
        for machine in self.machines:
            try:
                deliver += machine.crash(reason)
            except Exception:
                log.exception("%s could not be brought down cleanly", type(machine).__name__)
        return tuple(deliver)
