"""Machines. Rule: what a cluster does to a machine is done by the shortest way its provider has; Vagrant only makes and ends them.

Containers are reached by the engine (`containers.py`), every other machine by ssh (`virtual.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path

from integration.host import prerequisites
from integration.vagrant.tool import PROGRAMS, Vagrant

__all__ = ["NODE", "ORDER", "Machines", "Off"]

NODE = "/opt/kafka/kafka-node"
ORDER = 60.0  # seconds for a command in a machine


class Off(RuntimeError):
    """The machine does not run, or nobody reaches it."""


class Machines(abc.ABC):
    """The machines kafka1, … of one cluster, from `open` to `close`. `net`: the first three bytes of their addresses."""

    net = ""
    vagrant: Vagrant | None = None  # what makes them, from before they are made

    def __init__(self) -> None:
        self.unplugged: set[int] = set()

    def missing(self) -> list[str]:
        """All that this machine lacks to make them, a line each."""
        return prerequisites.missing(PROGRAMS)

    def home(self, scratch: Path) -> Path:
        """Where Vagrant keeps what it knows of them; `scratch` goes with this process."""
        return scratch

    def address(self, node: int) -> str:
        return f"{self.net}.{10 + node}"

    @abc.abstractmethod
    def open(self) -> Mapping[str, str]:
        """Take what must be there before the machines are made; what the Vagrantfile shall be told of it."""

    @abc.abstractmethod
    def run(self, node: int, *command: str) -> tuple[int, str]:
        """Exit status and output of a command, as root; `Off` when the machine does not run."""

    @abc.abstractmethod
    def fetch(self, node: int, path: str) -> bytes | None:
        """A file of the machine; None when there is none, or no way to read it now."""

    @abc.abstractmethod
    def power_off(self, node: int) -> None:
        """Pull the plug: nothing in it is asked, nothing is written back."""

    @abc.abstractmethod
    def power_on(self, node: int) -> None:
        """Let it boot; returns when it does."""

    @abc.abstractmethod
    def disconnect(self, node: int) -> None:
        """Off the network of the brokers and their clients."""

    @abc.abstractmethod
    def reconnect(self, node: int) -> None:
        """On it again, with the same address."""

    @abc.abstractmethod
    def close(self) -> None:
        """Destroy them and give back what `open` took; works twice, and for machines that were never made."""

    @abc.abstractmethod
    def name(self, node: int) -> str:
        """For a person who looks for it."""
