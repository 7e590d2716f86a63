"""Neighbour: another producer on the client of the first, judged as its own. Whatever becomes of one of them, the other goes on.

Faults, the clock and chance are the simulation's; the producer, what it was given and what is judged are the neighbour's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from pykafka4 import Client, Producer
from tests.inspection import inspect
from tests.simulation.users.applications import Application

if TYPE_CHECKING:
    from pykafka4.core.producer.sender import Sender
    from tests.simulation.judge.invariants import Watch
    from tests.simulation.plans.simulation import Simulation

__all__ = ["ACTORS", "Neighbour", "Party"]

ACTORS: Final = 1000  # added to the number of its application: values say who sent them


class Party(Protocol):
    """A producer and what is known of it."""

    producer: Producer
    watch: Watch
    closing: bool  # its application sends no more

    @property
    def sender(self) -> Sender:
        """Its machine."""


class Neighbour:
    """A producer with one application, which may close it early. It stands in for the simulation towards that application."""

    def __init__(self, sim: Simulation, number: int, watch: Watch, *, early: bool) -> None:
        self._sim, self.number, self.watch, self._early = sim, number, watch, early
        self.closing = self.started = False
        self._sending, self._leaving = True, early

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sim, name)

    def start(self, client: Client, options: dict[str, Any]) -> None:
        """Begin to send."""
        self.producer = Producer(client=client, **options)
        self.sender, self.acc = inspect(self.producer).machine, inspect(self.producer).session.acc
        self.started = True
        self._sim.watch_purges(self.watch, self.sender)
        self._sim.world.spawn(self._use, f"neighbour {self.number}")

    def look(self) -> None:
        """After every turn."""
        if self.started and not self.watch.crashed:
            self.watch.look(self.sender, self.acc)

    @property
    def finished(self) -> bool:
        """Whether nothing is to come."""
        return not (self._sending or self._leaving or self.watch.open_records())

    def _use(self) -> None:
        sim = self._sim
        if self._early:
            sim.world.spawn(self._leave, f"closer of neighbour {self.number}")
        Application(self, ACTORS * self.number).run()  # type: ignore[arg-type]
        self._sending = False

    def _leave(self) -> None:
        sim = self._sim
        sim.world.sleep(sim.random.uniform(0.1, sim.plan.trouble))
        if not self.closing:
            sim.close_early(self, f"neighbour {self.number}")
        self._leaving = False
