"""Seam. Rule: what a backend has to give, and all that the others may know of it: how brokers run is its own business.

`integration.cluster` builds on it what every backend has. What only some backends can do, the others refuse with the reason.
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

READY = 120.0
TAKEN = re.compile(r"Address already in use|BindException")


class State(enum.Enum):
    """Of a broker's process. A running broker may still be starting: `wait_ready` knows."""

    RUNNING = "running"
    FROZEN = "frozen"
    DOWN = "down"


class BrokerDied(RuntimeError):
    """A broker ended by itself; the message carries the end of its log."""


class PortTaken(BrokerDied):
    """A broker cannot run because somebody else has one of its ports."""


class Unsupported(RuntimeError):
    """This backend has not got that operation; the message says why."""


def died(what: str, log: str) -> BrokerDied:
    """The error for a process that ended by itself; `log` is what it printed in this run."""
    lines = log.splitlines()
    kind = PortTaken if any(TAKEN.search(line) for line in lines) else BrokerDied
    return kind("\n".join([f"{what} ended while it was waited for; the end of its log:", *lines[-20:]]))


class Brokers(abc.ABC):
    """`brokers` brokers of Kafka `version`, their ids `nodes` from 1.

    `advertised`: the address clients are told for a broker, `{1: (host, port)}` or a callable `(node, real address) -> address`,
    asked before the start. `properties`: added to every broker's settings, a mapping or a callable of the node. `security`: what the
    brokers demand of clients, by default nothing.
    """

    lacks: ClassVar[Mapping[str, str]] = {}  # the operations a backend has not got: name -> why
    secured_listeners: ClassVar[tuple[str, ...]] = ("CLIENT",)  # those that obey `security`

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
        """What clients are told where a broker listens at `real`."""
        if callable(self.advertised):
            return self.advertised(node, real)
        return (self.advertised or {}).get(node, real)

    def extra(self, node: int) -> Mapping[str, str]:
        """The settings asked for beside the usual ones."""
        return self.properties(node) if callable(self.properties) else self.properties or {}

    # -- what every backend gives ------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def up(self, timeout: float = READY) -> None:
        """Start all brokers and wait until every one serves."""

    @abc.abstractmethod
    def launch(self, node: int) -> None:
        """Start the process of a broker that is down; does not wait."""

    @abc.abstractmethod
    def stop(self, node: int, timeout: float = 30.0) -> None:
        """A clean stop: the broker hands over its leaders first. Needs a quorum of the others.

        A broker that has not ended in `timeout` seconds is killed, and that is an error.
        """

    @abc.abstractmethod
    def kill(self, node: int) -> None:
        """A crash; returns when the process is gone."""

    @abc.abstractmethod
    def freeze(self, node: int) -> None:
        """Its sockets stay open and say nothing."""

    @abc.abstractmethod
    def thaw(self, node: int) -> None:
        """Ends a freeze; nothing happens to a broker that is not frozen."""

    @abc.abstractmethod
    def state(self, node: int) -> State:
        """What the broker's process does now."""

    @abc.abstractmethod
    def address(self, node: int) -> Address:
        """The address clients are told: the advertised one, a proxy's where there is one."""

    @abc.abstractmethod
    def listener_address(self, node: int) -> Address:
        """Where clients reach the broker itself, past any proxy."""

    @abc.abstractmethod
    def admin_address(self, node: int) -> Address:
        """A listener that is never proxied."""

    @abc.abstractmethod
    def controller_address(self, node: int) -> Address:
        """The controller's listener; the admin one where brokers are no controllers."""

    @abc.abstractmethod
    def server_log(self, node: int) -> Path:
        """A file with all that the broker printed up to now, over its restarts."""

    def running(self) -> list[int]:
        """The brokers whose process runs now and that can be asked about the cluster."""
        return [node for node in self.nodes if self.state(node) is State.RUNNING]

    def process(self, node: int) -> str:
        """What runs a broker, for a person who looks for it: `pid 4711`, or a container's name."""
        return f"broker {node}"

    @classmethod
    def clean(cls) -> list[str]:
        """Remove what killed runs of this backend left on the machine; a line for each thing removed. What is in use stays."""
        return []

    # -- for `security` ----------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def private_folder(self) -> Path:
        """A folder of this machine that goes with the cluster, for the files that its clients need."""

    @abc.abstractmethod
    def put_keystore(self, node: int, keystore: bytes) -> Mapping[str, str]:
        """Write the PEM file from which a broker takes key and certificate; the options that, set again, have a running one read it."""

    def hosts(self, node: int) -> set[str]:
        """The names and addresses by which clients reach a broker: its certificate is for them."""
        found = {self.address(node)[0], self.listener_address(node)[0]}
        return found | {"localhost"} if HOST in found else found

    # -- what only some backends can do --------------------------------------------------------------------------------------

    def disconnect(self, node: int) -> None:
        """Pull its network cable: nobody reaches it, it reaches nobody, and nobody is told."""
        raise self.lacking("disconnect")

    def reconnect(self, node: int) -> None:
        """Ends a disconnect, with the same address; nothing happens to a broker that is connected."""
        raise self.lacking("disconnect")

    def cut(self, node: int) -> None:
        """Cut it off from the other brokers, while the clients at `direct_bootstrap` still reach it."""
        raise self.lacking("cut")

    def mend(self, node: int) -> None:
        """Ends a cut; nothing happens to a broker that is not cut off."""
        raise self.lacking("cut")

    @property
    def direct_bootstrap(self) -> str:
        """`host:port,…` by which clients reach also a broker that is cut off from the others."""
        raise self.lacking("cut")

    def lacking(self, operation: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} has no {operation!r}: {self.lacks.get(operation, 'it is not built for it')}")
