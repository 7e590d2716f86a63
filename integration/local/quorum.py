"""Makes the quorum of a local cluster, which elects the controller. Invariant: other modules of `local` never compare versions.

From 4.0 on, every node is broker and controller in one JVM. Older brokers have a ZooKeeper (`integration.local.zookeeper`).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from integration.host.ports import HOST, Ports
from integration.host.ward import Ward
from integration.kafka.seed import seed
from integration.kafka.settings import LOGGING, expand, random_id

__all__ = ["Node", "Quorum", "Raft", "Site"]


@attrs.frozen
class Node:
    """`controller` is None if brokers are not controllers."""

    id: int
    client: int
    admin: int
    controller: int | None
    folder: Path

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(port for port in (self.client, self.admin, self.controller) if port is not None)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def keystore(self) -> Path:
        return self.folder / "client.pem"

    @property
    def data(self) -> Path:
        return self.folder / "data"


@attrs.frozen
class Site:
    version: str
    ports: Ports
    ward: Ward

    def folder(self, node: int) -> Path:
        return self.ward.scratch / f"broker-{node}"


class Quorum(Protocol):
    def node(self, number: int) -> Node:
        """Return a broker, with as many ports as it needs."""

    def begin(self, members: Mapping[int, Node]) -> None:
        """Make the parts that must exist before the first broker is configured."""

    def furnish(self, node: Node) -> None:
        """Make the broker's data folder."""

    def settings(self, node: Node, brokers: int) -> dict[str, str]:
        """Return the broker's settings, without those that are the same for every quorum: advertised listeners and folders."""

    def logging(self) -> str:
        """Return the JVM option with which the broker logs to its standard output."""

    def admit(self, node: int, timeout: float) -> None:
        """Wait until the broker may be started. This matters only for a broker that ran before."""


class Raft:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.cluster_id = random_id()
        self.voters = ""

    def node(self, number: int) -> Node:
        ports = self.site.ports
        return Node(number, ports.take(), ports.take(), ports.take(), self.site.folder(number))

    def begin(self, members: Mapping[int, Node]) -> None:
        self.voters = ",".join(f"{node.id}@{HOST}:{node.controller}" for node in members.values())

    def furnish(self, node: Node) -> None:
        shutil.copytree(seed(self.site.version), node.data)
        meta = (node.data / "meta.properties").read_text()
        for key, value in {"node.id": str(node.id), "cluster.id": self.cluster_id, "directory.id": random_id()}.items():
            meta = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", meta, flags=re.MULTILINE)
        (node.data / "meta.properties").write_text(meta)

    def settings(self, node: Node, brokers: int) -> dict[str, str]:
        return {
            **expand(brokers),
            "node.id": str(node.id),
            "controller.quorum.voters": self.voters,
            "listeners": f"CLIENT://{HOST}:{node.client},ADMIN://{HOST}:{node.admin},CONTROLLER://{HOST}:{node.controller}",
        }

    def logging(self) -> str:
        return f"-Dlog4j2.configurationFile={LOGGING}"

    def admit(self, node: int, timeout: float) -> None:
        """Do nothing: the other brokers recognize a new run."""
