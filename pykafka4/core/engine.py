"""Engine. Rule: one turn is the same under the real loop and under the simulation; nothing here knows which of the two it is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import attrs

from pykafka4.config import ClientConfig
from pykafka4.core import INFINITY, Close, Connect, Job, Machine
from pykafka4.core.cluster import Cluster
from pykafka4.core.network import Network
from pykafka4.core.recovery import Recovery
from pykafka4.errors import KafkaError

__all__ = ["Engine", "Turn"]


@attrs.frozen(eq=False)
class Turn:
    """Carry these out in this order: close, connect, write, deliver, jobs; then wait for I/O until `wake_at`."""

    connect: tuple[Connect, ...] = ()
    close: tuple[Close, ...] = ()
    write: tuple[tuple[int, list[Any]], ...] = ()
    deliver: tuple[Callable[[], None], ...] = ()
    jobs: tuple[Job, ...] = ()
    wake_at: float = INFINITY


class Engine:
    network: Network
    cluster: Cluster
    recovery: Recovery
    machines: tuple[Machine, ...]  # cluster and recovery first, then those added, in order

    def __init__(self, config: ClientConfig, random: Random, emit: Callable[[object], None]) -> None: ...
    def add(self, machine: Machine) -> None: ...
    def remove(self, machine: Machine) -> None: ...
    def turn(self, now: float) -> Turn: ...
    def crash(self, reason: KafkaError) -> tuple[Callable[[], None], ...]: ...
