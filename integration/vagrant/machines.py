"""Declares the operations on machines, which a provider carries out in the shortest way that it has. Vagrant makes the machines.

Containers are driven through their engine (`containers.py`), all other machines through ssh (`virtual.py`).
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from pathlib import Path

from integration.host import prerequisites
from integration.vagrant.tool import PROGRAMS, Vagrant

__all__ = ["NODE", "ORDER_S", "Machines", "Off"]

NODE = "/opt/kafka/kafka-node"
ORDER_S = 60.0  # seconds for a command in a machine


class Off(RuntimeError):
    """Raised if the machine does not run, or cannot be reached."""


class Machines(abc.ABC):
    """The machines kafka1, … of one cluster, from `open` to `close`. `net`: the first three bytes of their addresses."""

    net = ""
    vagrant: Vagrant | None = None  # makes the machines; set before they are made

    def __init__(self) -> None:
        self.unplugged: set[int] = set()

    def missing(self) -> list[str]:
        """Return a line for each program that this machine needs to make them, and lacks."""
        return prerequisites.missing(PROGRAMS)

    def home(self, scratch: Path) -> Path:
        """Return the folder of Vagrant's state; `scratch` is removed with this process."""
        return scratch

    def address(self, node: int) -> str:
        return f"{self.net}.{10 + node}"

    @abc.abstractmethod
    def open(self) -> Mapping[str, str]:
        """Prepare the parts that must exist before the machines are made, and return their settings for the Vagrantfile."""

    @abc.abstractmethod
    def run(self, node: int, *command: str) -> tuple[int, str]:
        """Run a command as root, and return its exit status and output. Raises `Off` if the machine does not run."""

    @abc.abstractmethod
    def fetch(self, node: int, path: str) -> bytes | None:
        """Return the content of a file of the machine; None if there is none, or if it cannot be read now."""

    @abc.abstractmethod
    def power_off(self, node: int) -> None:
        """Switch the machine off at once: no program ends cleanly, and no data is written back."""

    @abc.abstractmethod
    def power_on(self, node: int) -> None:
        """Boot the machine; returns when it boots."""

    @abc.abstractmethod
    def disconnect(self, node: int) -> None:
        """Take the machine off the network of the brokers and their clients."""

    @abc.abstractmethod
    def reconnect(self, node: int) -> None:
        """Put the machine on the network again, with the same address."""

    @abc.abstractmethod
    def close(self) -> None:
        """Destroy the machines, and release the parts that `open` prepared. May be called twice, and for machines that were never made."""

    @abc.abstractmethod
    def name(self, node: int) -> str:
        """Return the name of a machine, for a person who looks for it."""
