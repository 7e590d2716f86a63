"""Declares the operations of a backend, which runs brokers. Invariant: other modules know a backend only by these operations.

`integration.cluster` adds the methods that every backend has. For an operation that only some backends have, the others raise the reason.
"""

from __future__ import annotations

import abc
import enum
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar, TypeAlias

from integration.host.ports import HOST
from integration.kafka.jars import KAFKA
from integration.security.settings import Security

__all__ = ["Address", "Advertised", "BrokerDied", "Brokers", "PortTaken", "Properties", "State", "Unsupported", "died"]

Address: TypeAlias = tuple[str, int]
Advertised: TypeAlias = Mapping[int, Address] | Callable[[int, Address], Address]
Properties: TypeAlias = Mapping[str, str] | Callable[[int], Mapping[str, str]]

READY_S = 120.0
TAKEN = re.compile(r"Address already in use|BindException")


class State(enum.Enum):
    """The state of a broker's process. A running broker may still be starting; `wait_ready` waits until it serves."""

    RUNNING = "running"
    FROZEN = "frozen"
    DOWN = "down"


class BrokerDied(RuntimeError):
    """Raised if a broker has ended by itself; the message has the end of its log."""


class PortTaken(BrokerDied):
    """Raised if a broker cannot run because another process has one of its ports."""


class Unsupported(RuntimeError):
    """Raised if this backend lacks the operation; the message has the reason."""


def died(what: str, log: str) -> BrokerDied:
    """The error for a process that ended by itself; `log` is its output in this run."""
    lines = log.splitlines()
    kind = PortTaken if any(TAKEN.search(line) for line in lines) else BrokerDied
    return kind("\n".join([f"{what} ended during a wait for it; the end of its log:", *lines[-20:]]))


class Brokers(abc.ABC):
    """`brokers` brokers of Kafka `version`, with the ids `nodes` from 1.

    `advertised`: the address that a broker advertises to clients, `{1: (host, port)}` or a callable `(node, real address) -> address`,
    which is called before the start. `properties`: additional settings of every broker, a mapping or a callable of the node. `security`:
    the brokers' demands on clients, by default none.
    """

    lacks: ClassVar[Mapping[str, str]] = {}  # operation that this backend lacks -> the reason
    secured_listeners: ClassVar[tuple[str, ...]] = ("CLIENT",)  # the listeners that obey `security`

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        security: Security | None = None,
    ) -> None:
        self.nodes = tuple(range(1, brokers + 1))
        self.version, self.advertised, self.properties, self.security = version, advertised, properties, security

    def advertise(self, node: int, real: Address) -> Address:
        """Return the address that a broker, which listens at `real`, advertises to clients."""
        if callable(self.advertised):
            return self.advertised(node, real)
        return (self.advertised or {}).get(node, real)

    def extra(self, node: int) -> Mapping[str, str]:
        return self.properties(node) if callable(self.properties) else self.properties or {}

    # -- operations of every backend ---------------------------------------------------------------------------------------

    @abc.abstractmethod
    def up(self, timeout: float = READY_S) -> None:
        """Start all brokers and wait until every one serves."""

    @abc.abstractmethod
    def launch(self, node: int) -> None:
        """Start the process of a broker that is down, without a wait."""

    @abc.abstractmethod
    def stop(self, node: int, timeout: float = 30.0) -> None:
        """Stop a broker cleanly: its leaders move to other brokers first, for which the others need a quorum.

        A broker that has not ended after `timeout` seconds is killed, and an error is raised.
        """

    @abc.abstractmethod
    def kill(self, node: int) -> None:
        """Crash a broker; returns when the process is gone."""

    @abc.abstractmethod
    def freeze(self, node: int) -> None:
        """Stop all threads of a broker: its sockets stay open and silent."""

    @abc.abstractmethod
    def thaw(self, node: int) -> None:
        """End a freeze; without effect for a broker that is not frozen."""

    @abc.abstractmethod
    def state(self, node: int) -> State:
        """Return the state of the broker's process."""

    @abc.abstractmethod
    def address(self, node: int) -> Address:
        """Return the address that the broker advertises to clients, which may be a proxy's."""

    @abc.abstractmethod
    def listener_address(self, node: int) -> Address:
        """Return the address at which clients reach the broker itself, past any proxy."""

    @abc.abstractmethod
    def admin_address(self, node: int) -> Address:
        """Return the address of the listener that is never proxied."""

    @abc.abstractmethod
    def controller_address(self, node: int) -> Address:
        """Return the address of the controller's listener; of the admin listener if brokers are not controllers."""

    @abc.abstractmethod
    def server_log(self, node: int) -> Path:
        """Return a file with the broker's output up to now, across its restarts."""

    def running(self) -> list[int]:
        """A backend leaves out brokers that the others cannot reach: they do not know the state of the cluster."""
        return [node for node in self.nodes if self.state(node) is State.RUNNING]

    def process(self, node: int) -> str:
        """`pid 4711`, or a container's name, for a person who looks for the broker."""
        return f"broker {node}"

    @classmethod
    def clean(cls) -> list[str]:
        """Remove the leftovers of killed runs from the machine, and return a line for each. Objects in use stay."""
        return []

    # -- for `security` ----------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def private_folder(self) -> Path:
        """Return a folder of this machine for the files that clients need; it is removed with the cluster."""

    @abc.abstractmethod
    def put_keystore(self, node: int, keystore: bytes) -> Mapping[str, str]:
        """Write the PEM file with a broker's key and certificate. Returns the options that, set again, have a running broker read it."""

    def hosts(self, node: int) -> set[str]:
        """The names and addresses by which clients reach a broker; its certificate must contain them."""
        found = {self.address(node)[0], self.listener_address(node)[0]}
        return found | {"localhost"} if HOST in found else found

    # -- operations of some backends -----------------------------------------------------------------------------------------

    def disconnect(self, node: int) -> None:
        """Pull a broker's network cable: no packet reaches or leaves it, and no side gets a sign."""
        raise self.lacking("disconnect")

    def reconnect(self, node: int) -> None:
        """End a disconnect, with the same address; without effect for a broker that is connected."""
        raise self.lacking("disconnect")

    def cut(self, node: int) -> None:
        """Cut a broker off from the other brokers, while clients at `direct_bootstrap` still reach it."""
        raise self.lacking("cut")

    def mend(self, node: int) -> None:
        """End a cut; without effect for a broker that is not cut off."""
        raise self.lacking("cut")

    @property
    def direct_bootstrap(self) -> str:
        """`host:port,…` by which clients reach all brokers, even one that is cut off from the others."""
        raise self.lacking("cut")

    def lacking(self, operation: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} has no {operation!r}: {self.lacks.get(operation, 'it is not built for it')}")
