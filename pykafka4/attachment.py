"""Attachment. Rule: a producer or consumer has one machine on the loop of its client, and ends with that client.

Everything of a producer or consumer but its handle derives from `Attachment`. The client may keep it alive, not the handle, so a
handle that is forgotten while open is noticed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final, Generic, TypeVar

from pykafka4.client import Client
from pykafka4.config import ClientConfig
from pykafka4.core import Machine
from pykafka4.errors import KafkaError
from pykafka4.net.handoff.waiting import Promise

__all__ = ["SHORT", "Attachment"]

SHORT: Final = 10.0  # the loop answers at once; this bounds the wait if it cannot

M = TypeVar("M", bound=Machine)


class Attachment(ABC, Generic[M]):
    """The client of a producer or consumer, its machine there, and how the two are reached from the application's threads."""

    client: Client
    machine: M

    def connect(self, given: Client | None, config: ClientConfig, executor: Executor | None) -> None:
        """Use the client that was given, or one of one's own."""
        self.client = given if given is not None else Client.private(config, executor)
        self.client.check()

    @abstractmethod
    def check(self) -> None:
        """Raise what every call would raise."""

    @abstractmethod
    def close(self, timeout: float | None = None) -> Any:
        """See `client.User`."""

    @abstractmethod
    def drain(self, timeout: float) -> Any:
        """See `client.User`."""

    def post(self, fn: Callable[[float], object]) -> None:
        """Have `fn(now)` run on the loop thread, unless the machine has ended. An exception in it ends the machine."""
        self.client.loop.call(fn, self.machine)

    def promise(self) -> Promise[Any]:
        """A Promise that fails with the machine."""
        return self.client.loop.promise(self.machine)

    def failure(self) -> KafkaError | None:
        """Why the machine ended by itself; None while it works."""
        return self.client.engine.failure(self.machine)
