"""Attachment. Rule: a producer or consumer has one machine on the loop of its client, and ends with that client.

Everything of a producer or consumer but its handle derives from `Attachment`. The client may keep it alive, not the handle, so a
handle that is forgotten while open is noticed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Final, Generic, Protocol, TypeVar

import attrs

from pykafka4.client import Client
from pykafka4.config import ClientConfig
from pykafka4.core import Machine
from pykafka4.errors import ConfigError, KafkaError
from pykafka4.net.handoff.waiting import Promise
from pykafka4.runtime import Runtime

__all__ = ["SHORT", "Attachment", "read_config"]

SHORT: Final = 10.0  # the loop answers at once; this bounds the wait if it cannot

C = TypeVar("C", bound=ClientConfig)


class Leaving(Machine, Protocol):
    """A machine that can be taken off the loop."""

    def gone(self) -> None:
        """It was taken off: let go of what others keep for it."""


M = TypeVar("M", bound=Leaving)


def read_config(kind: type[C], client: object | None, executor: Executor | None, options: Mapping[str, Any]) -> C:
    """The options, checked; those of a client come from it. `client` is what the application gave as one."""
    if client is None:
        return kind.parse(options)
    if not isinstance(client, Client):
        name = kind.__name__.removesuffix("Config")
        raise ConfigError(f"client must be a pykafka4.Client, not {client!r}; options are keywords: {name}(bootstrap_servers=…)")
    theirs = [name for name in options if name in attrs.fields_dict(ClientConfig)] + ["callback_executor"] * (executor is not None)
    if theirs:
        raise ConfigError(f"{', '.join(theirs)}: set on the shared Client already; give it there")
    return kind.parse({**attrs.asdict(client.config, recurse=False), **options})


class Attachment(ABC, Generic[M]):
    """The runtime of a producer's or consumer's client, its machine there, and how the two are reached from the application's threads."""

    runtime: Runtime
    machine: M

    def connect(self, given: Client | None, config: ClientConfig, executor: Executor | None) -> None:
        """Use the runtime of the client that was given, or one of one's own."""
        self.runtime = given._runtime if given is not None else Runtime.private(config, executor)
        self.runtime.check()

    @abstractmethod
    def check(self) -> None:
        """Raise what every call would raise."""

    @abstractmethod
    def close(self, timeout: float | None = None) -> Any:
        """See `runtime.User`."""

    @abstractmethod
    def drain(self, timeout: float) -> Any:
        """See `runtime.User`."""

    def post(self, fn: Callable[[float], object]) -> None:
        """Have `fn(now)` run on the loop thread, unless the machine has ended. An exception in it ends the machine."""
        self.runtime.loop.call(fn, self.machine)

    def promise(self) -> Promise[Any]:
        """A Promise that fails with the machine."""
        return self.runtime.loop.promise(self.machine)

    def failure(self) -> KafkaError | None:
        """Why the machine ended by itself; None while it works."""
        return self.runtime.engine.failure(self.machine)

    def crashed(self) -> dict[str, Any]:
        """What `status` says where an internal error has ended this machine alone."""
        failure = self.failure()
        return {} if failure is None else {"state": "crashed", "reason": str(failure)}

    def disconnect(self) -> None:
        """Take the machine off the loop and leave the client."""
        self.runtime.loop.call(lambda _: self.runtime.engine.remove(self.machine))  # also where it has failed
        self.runtime.loop.call(lambda _: self.machine.gone())
        self.runtime.detach(self)
