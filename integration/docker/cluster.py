"""Runs each broker of a cluster as a container on two networks. Invariant: the engine makes every fault for real.

The clients' network has a listener that is published on 127.0.0.1 (CLIENT), and a listener that is advertised with the container's own
address (DIRECT): these two obey `security`. The brokers talk among themselves, and with the judge, on the other network (ADMIN,
CONTROLLER). So a broker can be cut off from the other brokers while clients still reach it. No packet is forwarded between the two
networks, or from them to any other network, if this process may switch forwarding off.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import secrets
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from docker.errors import APIError, ImageNotFound
from docker.types import LogConfig

from integration.cluster import Cluster
from integration.docker.client import TROUBLE, purge
from integration.docker.engine import Engine, clean
from integration.docker.networks import Network
from integration.docker.no_registry import broker_image
from integration.docker.place import CLUSTER
from integration.host.ports import HOST, Ports
from integration.kafka.jars import KAFKA
from integration.kafka.releases import Kind, release
from integration.kafka.settings import JVM, escaped, expand, random_id
from integration.seam import Address, Advertised, PortTaken, Properties, State
from integration.security.settings import Security

__all__ = ["DockerCluster", "environment"]

START_S, STOP_S = 180.0, 30.0
CLIENT, CONTROLLER, ADMIN, DIRECT = 9092, 9093, 9094, 9095  # inside a container
MEMORY = "768m"
DATA = "/var/lib/kafka/data"
KEYSTORE = "/opt/kafka/keystore.pem"
NOT_RUNNING = 409
PORT_TAKEN = re.compile(r"port is already allocated|address already in use", re.IGNORECASE)
FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


@attrs.frozen
class Member:
    """One broker: its container, and the port of this machine at which clients reach the broker."""

    id: int
    port: int
    advertised: Address
    container: Any


class DockerCluster(Cluster):
    """A `Cluster` of containers.

    `image`: by default an image made from this machine's Java and Maven's jars, never pulled. `$KAFKA_DOCKER_IMAGE` names the image of
    clusters without this argument. Any other image must take Kafka's settings from the environment as `apache/kafka` does (KAFKA_NODE_ID,
    CLUSTER_ID, KAFKA_HEAP_OPTS, …), and must be able to write to /var/lib/kafka/data. Such an image is pulled only if the engine lacks it;
    `version` does not apply to it.
    `engine`: an open engine, which the cluster leaves open; by default a new `Engine`, which is the user's if DOCKER_HOST names one. The
    engine must run on this machine, because brokers are reached by the addresses of its bridges. `memory`: the limit of each container.
    """

    start_timeout = START_S
    secured_listeners = ("DIRECT", "CLIENT")  # a running broker changes its listeners in this order, and `Access` waits for CLIENT

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        image: str | None = None,
        engine: Engine | None = None,
        memory: str = MEMORY,
        security: Security | None = None,
    ) -> None:
        super().__init__(brokers, version, advertised, properties, security)
        self.image = image or os.environ.get("KAFKA_DOCKER_IMAGE") or None
        if self.image is None and release(version).quorum is not Kind.RAFT:
            raise ValueError(f"the image made here runs Kafka 4.0 or newer, not {version}: such brokers run on the local backend")
        self.memory, self.lent = memory, engine
        self.engine: Engine | None = engine
        self.members: dict[int, Member] = {}
        self.networks: tuple[Network, ...] = ()
        self.ports: Ports | None = None
        self.name = ""

    # -- life --------------------------------------------------------------------------------------------------------------

    def up(self, timeout: float = START_S) -> None:
        self.up_on_free_ports(self.prepare, timeout)

    def close(self) -> None:
        super().close()
        engine, self.engine = self.engine, self.lent
        if engine is not None and self.name:
            with contextlib.suppress(*TROUBLE):  # an engine that has died has nothing left to remove
                purge(engine.client, f"{CLUSTER}={self.name}")
        self.members, self.networks, self.name = {}, (), ""
        ports, self.ports = self.ports, None
        if ports is not None:
            ports.close()
        if engine is not None and engine is not self.lent:
            engine.close()

    @classmethod
    def clean(cls) -> list[str]:
        return clean()

    def close_failed(self, error: BaseException) -> None:
        with contextlib.suppress(*TROUBLE):
            self.keep_logs_for(error)
        self.close()

    def prepare(self) -> None:
        self.engine = engine = self.lent or Engine()
        if engine is not self.lent:
            engine.open()
        image = self.pulled(self.image) if self.image else broker_image(engine.client, self.version)
        self.name = f"pykafka4-{secrets.token_hex(3)}"
        self.networks = (self.bridge("clients", internal=False), self.bridge("brokers", internal=True))
        self.ports = ports = Ports()
        cluster_id = random_id()
        for node in self.nodes:
            port = ports.take()
            advertised = self.advertise(node, (HOST, port))
            settings = {**environment(self.settings(node, advertised)), "CLUSTER_ID": cluster_id}
            self.members[node] = Member(node, port, advertised, self.container(node, port, image, settings))
        for node, keystore in self.keystores().items():
            self.put_keystore(node, keystore)

    def pulled(self, image: str) -> str:
        images = self.opened().client.images
        try:
            images.get(image)
        except ImageNotFound:
            images.pull(image)
        return image

    def labels(self) -> dict[str, str]:
        return {**self.opened().labels, CLUSTER: self.name}

    def bridge(self, role: str, *, internal: bool) -> Network:
        """With `internal`, published ports belong to the other network, in any order of connecting."""
        network = Network.made(self.opened(), f"{self.name}-{role}", self.labels(), internal=internal)
        # If this machine forwards packets, a broker that is cut off reaches the others through it.
        with contextlib.suppress(PermissionError):
            Path(FORWARDING.format(network.interface)).write_text("0")
        return network

    def container(self, node: int, port: int, image: str, settings: dict[str, str]) -> Any:
        clients, brokers = self.networks
        client = self.opened().client
        endpoint = client.api.create_endpoint_config(ipv4_address=clients.address(node), aliases=[f"kafka{node}"])
        container = client.containers.create(
            image,
            name=f"{self.name}-kafka{node}",
            hostname=f"kafka{node}",
            labels=self.labels(),
            environment=settings,
            ports={f"{CLIENT}/tcp": (HOST, port)},
            network=clients.name,
            networking_config={clients.name: endpoint},
            mem_limit=self.memory,
            memswap_limit=self.memory,
            log_config=LogConfig(type="json-file"),
        )
        brokers.connect(container, node)
        return container

    def settings(self, node: int, advertised: Address) -> dict[str, str]:
        clients, brokers = self.networks
        usual = expand(len(self.nodes))
        usual["listener.security.protocol.map"] += ",DIRECT:PLAINTEXT"
        listeners = {"CLIENT": CLIENT, "ADMIN": ADMIN, "CONTROLLER": CONTROLLER, "DIRECT": DIRECT}
        told = {"CLIENT": advertised, "ADMIN": (brokers.address(node), ADMIN), "DIRECT": (clients.address(node), DIRECT)}
        return {
            **usual,
            **self.demands(usual, KEYSTORE),
            "node.id": str(node),
            "broker.rack": f"rack-{node}",
            "controller.quorum.voters": ",".join(f"{other}@{brokers.address(other)}:{CONTROLLER}" for other in self.nodes),
            "listeners": ",".join(f"{name}://0.0.0.0:{port}" for name, port in listeners.items()),
            "advertised.listeners": ",".join(f"{name}://{host}:{port}" for name, (host, port) in told.items()),
            "log.dirs": DATA,
            **self.extra(node),
        }

    # -- one broker --------------------------------------------------------------------------------------------------------

    def launch(self, node: int) -> None:
        member = self.members[node]
        if self.ports is not None:
            self.ports.release(member.port)
        try:
            member.container.start()
        except APIError as error:
            if PORT_TAKEN.search(str(error)):
                raise PortTaken(f"broker {node} was not started: {error.explanation}") from error
            raise

    def stop(self, node: int, timeout: float = STOP_S) -> None:
        self.stopped_by(node, lambda: self.signal(node, "SIGTERM"), timeout)

    def kill(self, node: int) -> None:
        self.signal(node, "SIGKILL")
        self.thaw(node)  # some engines deliver no signal to a paused container
        self.wait_down(node, STOP_S)

    def signal(self, node: int, name: str) -> None:
        try:
            self.members[node].container.kill(name)
        except APIError as error:
            if error.status_code != NOT_RUNNING:
                raise

    def freeze(self, node: int) -> None:
        self.members[node].container.pause()

    def thaw(self, node: int) -> None:
        if self.state(node) is not State.FROZEN:
            return
        try:
            self.members[node].container.unpause()
        except APIError:  # the container was killed, and some engines thaw a killed one by themselves
            if self.state(node) is State.FROZEN:
                raise

    def state(self, node: int) -> State:
        told = self.inspect(node)["State"]
        if told["Paused"]:
            return State.FROZEN
        return State.RUNNING if told["Running"] else State.DOWN

    def last_words(self, node: int) -> str:
        """The last lines from the engine, not from `server_log`, which hides an engine's failure."""
        return str(self.members[node].container.logs(tail=20).decode(errors="replace"))

    # -- its networks ------------------------------------------------------------------------------------------------------

    def disconnect(self, node: int) -> None:
        """The published port is gone, too: as after a pulled cable, nothing answers."""
        for network in self.on(node):
            network.handle.disconnect(self.members[node].container)

    def reconnect(self, node: int) -> None:
        attached = list(self.on(node))
        for network in self.networks:
            if network not in attached:
                network.connect(self.members[node].container, node)

    def cut(self, node: int) -> None:
        """The published port and `direct_bootstrap` still reach the broker."""
        brokers = self.networks[1]
        if brokers in self.on(node):
            brokers.handle.disconnect(self.members[node].container)

    def mend(self, node: int) -> None:
        clients, _ = self.networks
        if list(self.on(node)) == [clients]:
            self.reconnect(node)

    def on(self, node: int) -> Iterator[Network]:
        attached = self.inspect(node)["NetworkSettings"]["Networks"]
        return (network for network in self.networks if network.name in attached)

    def running(self) -> list[int]:
        return [node for node in super().running() if len(list(self.on(node))) == len(self.networks)]

    def broken(self) -> list[str]:
        found = super().broken()
        for node in self.nodes:
            attached = list(self.on(node))
            if len(attached) < len(self.networks):
                found.append(f"broker {node} is {'cut off from the others' if attached else 'disconnected'}")
        return found

    # -- where things are --------------------------------------------------------------------------------------------------

    def address(self, node: int) -> Address:
        return self.members[node].advertised

    def admin_address(self, node: int) -> Address:
        return self.networks[1].address(node), ADMIN

    def controller_address(self, node: int) -> Address:
        return self.networks[1].address(node), CONTROLLER

    def listener_address(self, node: int) -> Address:
        return HOST, self.members[node].port

    def hosts(self, node: int) -> set[str]:
        return {*super().hosts(node), self.networks[0].address(node)}

    def private_folder(self) -> Path:
        return self.opened().scratch / self.name / "security"

    def put_keystore(self, node: int, keystore: bytes) -> dict[str, str]:
        """Also for a container that does not run."""
        self.members[node].container.put_archive("/", archive(KEYSTORE, keystore))
        return {f"listener.name.{listener}.ssl.keystore.location": KEYSTORE for listener in map(str.lower, self.secured_listeners)}

    @property
    def direct_bootstrap(self) -> str:
        """`host:port,…` of all brokers on the clients' network; clients that start there stay on it."""
        return ",".join(f"{self.networks[0].address(node)}:{DIRECT}" for node in self.nodes)

    def server_log(self, node: int) -> Path:
        """Each call collects the output anew."""
        folder = self.opened().scratch / (self.name or "none")
        if node in self.members:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(*TROUBLE):  # after the death of the engine, the file of the last call stays
                (folder / f"broker-{node}.log").write_bytes(self.members[node].container.logs())
        return folder / f"broker-{node}.log"

    def process(self, node: int) -> str:
        return f"container {self.members[node].container.name} at {self.opened().host}"

    def inspect(self, node: int) -> dict[str, Any]:
        told: dict[str, Any] = self.opened().client.api.inspect_container(self.members[node].container.id)
        return told

    def opened(self) -> Engine:
        if self.engine is None:
            raise RuntimeError("this cluster is not up: call up() or use it in a with statement")
        return self.engine


def archive(path: str, content: bytes) -> bytes:
    """A file as an archive, readable for any user, and dated now: a broker reads a file again only if it is newer."""
    entry = tarfile.TarInfo(path.removeprefix("/"))
    entry.size, entry.mode, entry.mtime = len(content), 0o644, time.time()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as file:
        file.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def environment(properties: dict[str, str]) -> dict[str, str]:
    """Properties and JVM options in the convention of the image apache/kafka, which writes values to a file unchanged."""
    names = {key: key.replace("_", "__").replace("-", "___").replace(".", "_").upper() for key in properties}
    heap = [option for option in JVM if option.startswith(("-Xms", "-Xmx"))]
    rest = [option for option in JVM if option not in heap]
    jvm = {"KAFKA_HEAP_OPTS": " ".join(heap), "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(rest), "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN"}
    return {**{f"KAFKA_{names[key]}": escaped(value) for key, value in properties.items()}, **jvm}
