"""Connects a producer, consumer or admin client to the runtime of its client.

The implementation behind the handle of each derives from `Attachment`. The runtime keeps the implementation alive, but not the handle. So
if the application drops an open handle, the handle is garbage-collected, and its finalizer warns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import attrs

from pykafka4.client.answers import LOOP_ANSWER_S
from pykafka4.client.client import Client
from pykafka4.client.push import MetricsPush, Pushing
from pykafka4.client.runtime import Runtime
from pykafka4.core import Machine
from pykafka4.errors import ConfigError, KafkaError, shown_unless_secret
from pykafka4.net.handoff.waiting import Promise
from pykafka4.options.config import ClientConfig

__all__ = ["LOOP_ANSWER_S", "Attachment", "read_config"]

C = TypeVar("C", bound=ClientConfig)


class RemovableMachine(Machine, Protocol):
    def dispose(self) -> None:
        """Release the entries of the removed machine in other objects."""


M = TypeVar("M", bound=RemovableMachine)


def read_config(kind: type[C], client: object | None, executor: Executor | None, options: Mapping[str, Any]) -> C:
    """The checked options; a given client supplies the client options. `client` is the application's argument.

    Raises ConfigError for a wrong option, for a `client` of another type, and for a client option or executor in addition to a client.
    """
    if client is None:
        return kind.parse(options)
    if not isinstance(client, Client):
        name = "AdminClient" if kind is ClientConfig else kind.__name__.removesuffix("Config")
        given = shown_unless_secret(client)
        raise ConfigError(f"client must be a pykafka4.Client, not {given}; pass options as keywords: {name}(bootstrap_servers=…)")
    theirs = [name for name in options if name in attrs.fields_dict(ClientConfig)] + ["callback_executor"] * (executor is not None)
    if theirs:
        raise ConfigError(f"{', '.join(theirs)}: set by the shared Client; pass it there")
    return kind.parse({**attrs.asdict(client.config, recurse=False), **options})


class Attachment(ABC, Generic[M]):
    """The implementation behind a handle, through which application threads reach the machine and the runtime."""

    kind: ClassVar[str]  # the name in messages, and on the page of the client
    runtime: Runtime
    machine: M
    _push: MetricsPush | None = None

    def connect(self, given: Client | None, config: ClientConfig, executor: Executor | None) -> None:
        """Use the runtime of the given client, or create a private one. Raises ConfigError, and the errors of `Runtime.check`."""
        self.runtime = given._runtime if given is not None else Runtime.private(config, executor)
        self.runtime.check()

    @abstractmethod
    def check(self) -> None:
        """Raise the error that every call would raise, if any."""

    @abstractmethod
    def close(self, timeout: float | None = None) -> Any:
        """See `runtime.RuntimeUser`."""

    @abstractmethod
    def drain(self, timeout: float) -> Any:
        """See `runtime.RuntimeUser`."""

    def post(self, fn: Callable[[float], object]) -> None:
        """Run `fn(now)` on the loop thread, for the machine: see `Loop.call`."""
        self.runtime.loop.call(fn, self.machine)

    def promise(self) -> Promise[Any]:
        """A Promise that fails if the machine fails."""
        return self.runtime.loop.promise(self.machine)

    def failure(self) -> KafkaError | None:
        return self.runtime.engine.failure(self.machine)

    def crashed(self) -> dict[str, Any]:
        """The items of `status` for a machine that an internal error has ended; otherwise empty."""
        failure = self.failure()
        return {} if failure is None else {"state": "crashed", "reason": str(failure)}

    def push_metrics(self, kind: Pushing, labels: Callable[[], Mapping[str, str | None]]) -> None:
        """On the loop thread, begin to push metrics with `labels` to brokers that ask for them, if `enable_metrics_push` is set."""
        if self.runtime.config.enable_metrics_push:
            self._push = MetricsPush(self.runtime, kind, self, labels)

    def disconnect(self, timeout: float | None = None) -> None:
        """End the push of metrics, remove the machines from the loop, and detach from the runtime.

        If Ctrl-C ends the wait for the last push, the other steps still follow. `timeout` in seconds limits the close of a private runtime;
        None: the default limit of `Loop.close`.
        """
        try:
            if self._push is not None:
                self._push.end()
        finally:
            # Before `detach`, because that can close the runtime, whose loop then runs no calls.
            self.runtime.loop.call(self.withdraw)
            self.runtime.detach(self, timeout)

    def withdraw(self, now: float) -> None:
        """On the loop thread, remove the machines, failed or not. After an interrupted start, some of them may not exist."""
        for machine in (getattr(self, "machine", None), None if self._push is None else self._push.machine):
            if machine is not None:
                self.runtime.engine.remove(machine)
                machine.dispose()
