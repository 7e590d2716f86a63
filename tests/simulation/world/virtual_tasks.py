"""An asyncio event loop in virtual time. Rule: it sleeps as any thread of the world does, and other threads wake it.

Event loops of several threads run beside each other: `World` notes which one runs in the thread that goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.simulation.world.virtual import Thread, World

__all__ = ["VirtualEventLoop"]

T = TypeVar("T")
RESOLUTION_S = 1e-6  # seconds


class VirtualEventLoop(asyncio.BaseEventLoop):
    """As asyncio's own, without sockets."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._selector: Any = self
        self._clock_resolution = RESOLUTION_S
        self._asleep: Thread | None = None
        self._woken = False

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it to its end, and what else is ready meanwhile."""
        return self.run_until_complete(coroutine)

    def time(self) -> float:
        """Virtual seconds."""
        return self._world.now()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What a callback raised ends the schedule. Tasks that are left when it ends, or whose listener raised, are no news."""
        if "handle" in context and "exception" in context:
            self._world.fail(context["exception"])

    # what a loop asks of its selector

    def select(self, timeout: float | None) -> list[Any]:
        """Sleep until a thread has called something, or the time is over."""
        if not self._woken and (timeout is None or timeout > 0):
            self._asleep = self._world.me()
            self._world.park(timeout)
            self._asleep = None
        self._woken = False
        return []

    def _process_events(self, events: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        self._woken = True
        if self._asleep is not None:
            self._world.wake(self._asleep)

    def __del__(self) -> None:
        """The loop of a process that was killed is never closed."""
