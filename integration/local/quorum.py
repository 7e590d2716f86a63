"""Quorum. Rule: all that a local broker's start has to do with who elects its controller is here; `local` never asks for a version.

From 4.0 on every node is broker and controller in one JVM. Before that the brokers have a ZooKeeper (`integration.local.zookeeper`).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import attrs

from integration.cluster import BrokerDied, PortTaken
from integration.host import prerequisites
from integration.host.ports import HOST, Ports
from integration.host.ward import Ward
from integration.kafka.jars import classpath, install, kafka_jars
from integration.kafka.settings import JVM, LOGGING, expand, random_id, write_properties

__all__ = ["Node", "Site", "Quorum", "Raft", "died", "seed"]

FORMAT = 120.0
TAKEN = re.compile(r"Address already in use|BindException")


def died(what: str, log: str) -> BrokerDied:
    """The error for a process that ended by itself; `log` is what it printed in this run."""
    lines = log.splitlines()
    kind = PortTaken if any(TAKEN.search(line) for line in lines) else BrokerDied
    return kind("\n".join([f"{what} ended while it was waited for; the end of its log:", *lines[-20:]]))


@attrs.frozen
class Node:
    """One broker: its ports and its folder. `controller` is None where brokers are no controllers."""

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
    def data(self) -> Path:
        return self.folder / "data"


@attrs.frozen
class Site:
    """Where a cluster is being made: its release, its folder, its ports, and who guards its processes."""

    version: str
    scratch: Path
    ports: Ports
    ward: Ward

    def folder(self, node: int) -> Path:
        return self.scratch / f"broker-{node}"


class Quorum(Protocol):
    """What every kind of quorum does for the brokers."""

    def node(self, number: int) -> Node:
        """A broker, with as many ports as it needs."""

    def begin(self, members: Mapping[int, Node]) -> None:
        """All that must be there before the first broker is configured."""

    def furnish(self, node: Node) -> None:
        """Make the broker's data folder."""

    def settings(self, node: Node, brokers: int) -> dict[str, str]:
        """The broker's settings, but for what is the same everywhere: listeners and folders."""

    def logging(self, node: Node) -> str:
        """The JVM option that makes the broker log to its standard output."""

    def admit(self, node: int, timeout: float) -> None:
        """Wait until the broker may be started: again, when it was running before."""


class Raft:
    """The brokers themselves."""

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

    def logging(self, node: Node) -> str:
        file = node.folder / "log4j2.yaml"
        file.write_text(LOGGING)
        return f"-Dlog4j2.configurationFile={file}"

    def admit(self, node: int, timeout: float) -> None:
        """The others find out by themselves that it is a new run."""


def seed(version: str) -> Path:
    """A folder formatted for `version`, made once: copying it saves a JVM start for each broker."""
    jars = kafka_jars(version)
    return install(jars.parent / "seed", lambda folder: format_folder(jars, folder))


def format_folder(jars: Path, folder: Path) -> None:
    config = folder / "server.properties"
    listeners = {"listeners": f"CLIENT://{HOST}:9092,ADMIN://{HOST}:9094,CONTROLLER://{HOST}:9093", "log.dirs": str(folder / "data")}
    write_properties(config, {**expand(1), "node.id": "1", "controller.quorum.voters": f"1@{HOST}:9093", **listeners})
    tool = ["kafka.tools.StorageTool", "format", "-t", random_id(), "-c", str(config)]
    command = [prerequisites.java(), *JVM, "-cp", classpath(jars), *tool]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FORMAT, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"formatting a folder failed: {(done.stdout + done.stderr)[-2000:]}")
    for entry in (folder / "data").iterdir():
        entry.rename(folder / entry.name)
    (folder / "data").rmdir()
    config.unlink()
