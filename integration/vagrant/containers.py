"""Drives machines of Vagrant's docker provider through their engine, also machines that are off."""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
from collections.abc import Mapping
from typing import Any

from docker.errors import APIError, NotFound

from integration.docker.client import TROUBLE, purge
from integration.docker.engine import Engine
from integration.docker.networks import Network
from integration.docker.no_registry import machine_image, machine_key, missing_for_engine, missing_for_machines
from integration.docker.place import CLUSTER
from integration.host import prerequisites
from integration.host.cache import cache
from integration.vagrant.machines import ORDER_S, Machines, Off
from integration.waiting import until

__all__ = ["Containers"]

PROGRAMS = {"docker": "Vagrant starts containers by it; apt-get install -y --no-install-recommends docker.io (or docker-cli)"}
NOT_RUNNING, NOT_ATTACHED = 409, 404


class Containers(Machines):
    """Machines in a Docker engine (`integration.docker.engine`), on a network of our own that Vagrant finds by its addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine()
        self.prefix = f"pykafka4-{secrets.token_hex(3)}-"
        self.network: Any = None

    def missing(self) -> list[str]:
        engine = missing_for_engine() if self.engine.own else []
        return [*super().missing(), *prerequisites.missing(PROGRAMS), *engine, *missing_for_machines()]

    def open(self) -> Mapping[str, str]:
        self.engine.open()
        image = machine_image(self.engine.client)
        self.network = Network.made(self.engine, f"{self.prefix}net", self.labels)
        self.net = str(self.network.subnet[0]).rpartition(".")[0]
        labels = " ".join(f"--label {key}={value}" for key, value in self.labels.items())
        return {
            "DOCKER_HOST": self.engine.host,
            "VAGRANT_HOME": str(cache() / "vagrant" / "home"),
            "KAFKA_NET": self.net,
            "KAFKA_NAME": self.prefix,
            "KAFKA_IMAGE": image,
            "KAFKA_KEY": str(machine_key()),
            "KAFKA_DOCKER": f"{labels} --cap-add NET_ADMIN",
        }

    @property
    def labels(self) -> dict[str, str]:
        return {**self.engine.labels, CLUSTER: self.prefix}

    def name(self, node: int) -> str:
        return f"{self.prefix}kafka{node}"

    def run(self, node: int, *command: str) -> tuple[int, str]:
        api = self.engine.client.api
        try:
            order = api.exec_create(self.name(node), list(command))["Id"]
            told = api.exec_start(order).decode(errors="replace")
            until(lambda: not api.exec_inspect(order)["Running"], ORDER_S, f"{' '.join(command)} to end on {self.name(node)}")
            return api.exec_inspect(order)["ExitCode"], told  # the output may be lost, the exit status never
        except APIError as error:
            if error.status_code in (NOT_RUNNING, NOT_ATTACHED):
                raise Off(f"machine {self.name(node)} does not run") from error
            raise

    def fetch(self, node: int, path: str) -> bytes | None:
        """Also for a machine that is off."""
        try:
            chunks, _ = self.engine.client.api.get_archive(self.name(node), path)
        except NotFound:
            return None
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
            content = archive.extractfile(archive.next() or "")
            return content.read() if content else None

    def power_off(self, node: int) -> None:
        self.engine.client.containers.get(self.name(node)).kill()

    def power_on(self, node: int) -> None:
        self.engine.client.containers.get(self.name(node)).start()

    def disconnect(self, node: int) -> None:
        if node not in self.unplugged:
            self.network.handle.disconnect(self.name(node))
            self.unplugged.add(node)

    def reconnect(self, node: int) -> None:
        if node in self.unplugged:
            self.network.handle.connect(self.name(node), ipv4_address=self.address(node))
            self.unplugged.remove(node)

    def close(self) -> None:
        """Vagrant would ask each broker to stop, for which the last one has no quorum: so the engine destroys the machines."""
        if self.network is not None:
            self.network = None
            with contextlib.suppress(*TROUBLE):
                purge(self.engine.client, f"{CLUSTER}={self.prefix}")
        self.engine.close()
