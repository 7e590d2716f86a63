"""Makes the networks of containers. Invariant: the name of a network's bridge shows its owner, and its range of addresses was unused on the
machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import attrs
from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from integration.docker.client import EngineFailed
from integration.docker.engine import Engine
from integration.docker.place import free_subnets

__all__ = ["Network"]

TAKEN = re.compile(r"overlaps|already exists|same bridge name|already in use", re.IGNORECASE)


@attrs.frozen
class Network:
    """Node n has the address .10+n. `interface` is the bridge's name on this machine."""

    handle: Any
    name: str
    interface: str
    subnet: IPv4Network

    @staticmethod
    def made(engine: Engine, name: str, labels: Mapping[str, str], *, internal: bool = False) -> Network:
        """If another process takes the same range at this moment, try the next range."""
        for subnet in free_subnets():
            interface = engine.bridge()
            pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
            options = {"com.docker.network.bridge.name": interface, "com.docker.network.bridge.enable_ip_masquerade": "false"}
            ipam = IPAMConfig(pool_configs=[pool])
            try:
                handle = engine.client.networks.create(
                    name, driver="bridge", internal=internal, labels=dict(labels), ipam=ipam, options=options
                )
            except APIError as error:
                if TAKEN.search(str(error)):
                    continue
                raise
            if not Path("/sys/class/net", interface).exists():
                raise EngineFailed(
                    f"the engine at {engine.host} has its bridges elsewhere (a virtual machine, rootless): unset DOCKER_HOST"
                )
            return Network(handle, name, interface, subnet)
        raise EngineFailed("every private range for our networks is in use on this machine; see `ip route`")

    def address(self, node: int) -> str:
        return str(self.subnet[10 + node])

    def connect(self, container: Any, node: int) -> None:
        """The engine forgets address and name when a container is disconnected."""
        self.handle.connect(container, ipv4_address=self.address(node), aliases=[f"kafka{node}"])
