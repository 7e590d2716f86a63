"""Hands blocking steps of authentication to the loop's threads for credentials. Invariant: at most MAX_CONCURRENT_STEPS steps are under
way. A step that has not begun is dropped if its connection is closed.

A step may wait for the application's callable, which may hang. The loop has MAX_CONCURRENT_STEPS threads for such jobs, and would queue one
more job for each attempt to connect. So further steps wait here, and are dropped with their connections.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

import attrs

from pykafka4.core import Job, Threads
from pykafka4.core.network.connection import Connection, ConnectionState
from pykafka4.core.network.endpoint import Endpoint

__all__ = ["MAX_CONCURRENT_STEPS", "Jobs", "Task"]

MAX_CONCURRENT_STEPS: Final = 4  # the loop has as many threads for these steps


@attrs.frozen(eq=False)
class Task:
    endpoint: Endpoint
    connection: Connection
    exchange: object
    run: Callable[[], Any]

    @property
    def is_over(self) -> bool:
        """Whether the connection is closed: then nobody needs the result."""
        return self.connection.state is ConnectionState.CLOSED

    def attempt(self) -> Any:
        """Return the step's result or exception; None if the connection is closed. Runs on a thread for credentials."""
        try:
            return None if self.is_over else self.run()
        except BaseException as error:  # `SystemExit` in the application's callable ends this exchange, not the thread
            return error


class Authenticating(Protocol):
    """The network: the part that receives results."""

    def authenticated(self, now: float, task: Task, result: Any) -> None:
        """Handle the result of `task`, or its exception."""


class Jobs:
    __slots__ = ("_network", "_running", "_waiting")

    def __init__(self, network: Authenticating) -> None:
        self._network = network
        self._waiting: deque[Task] = deque()
        self._running = 0

    def take(self, endpoint: Endpoint, connection: Connection) -> None:
        self._waiting += [Task(endpoint, connection, connection.exchange, run) for run in connection.jobs]
        connection.jobs.clear()

    def start(self) -> tuple[Job, ...]:
        if not self._waiting:
            return ()
        self._waiting = deque(task for task in self._waiting if not task.is_over)
        started = []
        while self._waiting and self._running < MAX_CONCURRENT_STEPS:
            self._running += 1
            started.append(self._job(self._waiting.popleft()))
        return tuple(started)

    @property
    def waits(self) -> bool:
        return bool(self._waiting) and self._running < MAX_CONCURRENT_STEPS

    def _job(self, task: Task) -> Job:
        def then(now: float, result: Any) -> None:
            self._running -= 1
            self._network.authenticated(now, task, result)

        return Job(task.attempt, then, Threads.CREDENTIALS)
