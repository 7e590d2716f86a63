"""DockerCluster. Rule: each broker is a container on two networks, and every fault is one that the engine makes for real.

The clients' network has the listener that is published on 127.0.0.1 (CLIENT) and one told by its own address (DIRECT); the brokers talk
among themselves, and with the judge, on the other (ADMIN, CONTROLLER). So a broker can be cut off from the others while clients still
reach it. Nothing is forwarded between the two, or from either to anywhere else.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import attrs
from docker.errors import APIError, ImageNotFound
from docker.types import IPAMConfig, IPAMPool, LogConfig

from integration.cluster import Address, Advertised, BrokerDied, Cluster, PortTaken, Properties, State
from integration.docker.engine import Engine, EngineFailed, clean
from integration.docker.no_registry.dockerd import TROUBLE, purge
from integration.docker.no_registry.image import build
from integration.docker.place import free_subnets
from integration.host.ports import HOST, Ports
from integration.kafka.jars import KAFKA
from integration.kafka.releases import Kind, release
from integration.kafka.settings import JVM, expand, random_id
from integration.waiting import Deadline, until

__all__ = ["DockerCluster", "environment"]

START, STOP = 180.0, 30.0
CLIENT, CONTROLLER, ADMIN, DIRECT = 9092, 9093, 9094, 9095  # inside a container
MEMORY = "768m"
DATA = "/var/lib/kafka/data"
CLUSTER = "pykafka4.cluster"
NOT_RUNNING = 409
NET_TAKEN = re.compile(r"overlaps|already exists|same bridge name|already in use", re.IGNORECASE)
PORT_TAKEN = re.compile(r"port is already allocated|address already in use", re.IGNORECASE)
FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


@attrs.frozen
class Network:
    """A user-defined bridge; node n has the address .10+n in it."""

    handle: Any
    name: str
    subnet: IPv4Network

    def address(self, node: int) -> str:
        return str(self.subnet[10 + node])

    def connect(self, container: Any, node: int) -> None:
        """With the address and name it had: the engine forgets both when a container is disconnected."""
        self.handle.connect(container, ipv4_address=self.address(node), aliases=[f"kafka{node}"])


@attrs.frozen
class Member:
    """One broker: its container, and the port of this machine at which clients reach it."""

    id: int
    port: int
    advertised: Address
    container: Any


class DockerCluster(Cluster):
    """A `Cluster` of containers.

    `image`: by default one made from this machine's own Java and Maven's jars, never pulled. Another must have Kafka run by the
    environment as `apache/kafka` has it (KAFKA_NODE_ID and so on, CLUSTER_ID, KAFKA_HEAP_OPTS), and may write to /var/lib/kafka/data;
    it is pulled when the engine has not got it, and only then is a registry asked. `version` does not count for it. `$KAFKA_DOCKER_IMAGE`
    names one for clusters that are made without, a test suite's for example.
    `engine`: one that is open and stays so; by default a new `Engine`, the user's where DOCKER_HOST names one. It must run on this
    machine, because brokers are reached by the addresses of its bridges. `memory`: the limit of each container.
    """

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        image: str | None = None,
        engine: Engine | None = None,
        memory: str = MEMORY,
    ) -> None:
        super().__init__(brokers, version, advertised, properties)
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

    def up(self, timeout: float = START) -> None:
        """Start all brokers and wait until every one serves; other ports are tried when one turns out to be taken."""
        self.up_on_free_ports(self.prepare, timeout)

    def close(self) -> None:
        """Remove every container (the last broker would wait in vain for a quorum to stop cleanly) and both networks; works twice."""
        super().close()
        engine, self.engine = self.engine, self.lent
        if engine is not None and self.name:
            with contextlib.suppress(*TROUBLE):  # of an engine that has died nothing is left to remove
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

    def mourn(self, error: BaseException) -> None:
        """Close a cluster that did not come up, and say where its logs are."""
        with contextlib.suppress(*TROUBLE):
            self.keep_logs_for(error)
        self.close()

    def prepare(self) -> None:
        """Engine, image, networks, containers; nothing runs yet."""
        self.engine = engine = self.lent or Engine()
        if engine is not self.lent:
            engine.open()
        image = self.pulled(self.image) if self.image else build(engine.client, self.version)
        self.name = f"pykafka4-{secrets.token_hex(3)}"
        self.networks = (self.bridge("clients", internal=False), self.bridge("brokers", internal=True))
        self.ports = ports = Ports()
        cluster_id = random_id()
        for node in self.nodes:
            port = ports.take()
            advertised = self.advertise(node, (HOST, port))
            settings = {**environment(self.settings(node, advertised)), "CLUSTER_ID": cluster_id}
            self.members[node] = Member(node, port, advertised, self.container(node, port, image, settings))

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
        """A network in a range that nothing uses; somebody else may be choosing the same at this moment."""
        for subnet in free_subnets():
            name = self.opened().bridge()
            try:
                handle = self.create(f"{self.name}-{role}", name, subnet, internal=internal)
            except APIError as error:
                if not NET_TAKEN.search(str(error)):
                    raise
                continue
            self.isolate(name)
            return Network(handle, f"{self.name}-{role}", subnet)
        raise EngineFailed("every private range that networks are looked for in is used on this machine; see `ip route`")

    def create(self, name: str, interface: str, subnet: IPv4Network, *, internal: bool) -> Any:
        """`internal`: published ports then belong to the other network, whichever the engine happens to connect first."""
        pool = IPAMPool(subnet=str(subnet), gateway=str(subnet[1]))
        return self.opened().client.networks.create(
            name,
            driver="bridge",
            internal=internal,
            labels=self.labels(),
            ipam=IPAMConfig(pool_configs=[pool]),
            options={"com.docker.network.bridge.name": interface, "com.docker.network.bridge.enable_ip_masquerade": "false"},
        )

    def isolate(self, interface: str) -> None:
        """Where this machine forwards, a broker that is cut off would reach the others by way of it."""
        if not Path("/sys/class/net", interface).exists():
            host = self.opened().host
            raise EngineFailed(f"the engine at {host} has its bridges elsewhere (a virtual machine, rootless): unset DOCKER_HOST")
        with contextlib.suppress(PermissionError):
            Path(FORWARDING.format(interface)).write_text("0")

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
        listeners = {"CLIENT": CLIENT, "ADMIN": ADMIN, "CONTROLLER": CONTROLLER, "DIRECT": DIRECT}
        told = {"CLIENT": advertised, "ADMIN": (brokers.address(node), ADMIN), "DIRECT": (clients.address(node), DIRECT)}
        return {
            **usual,
            "listener.security.protocol.map": f"{usual['listener.security.protocol.map']},DIRECT:PLAINTEXT",
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
        """Start the process of one broker; does not wait for it."""
        member = self.members[node]
        if self.ports is not None:
            self.ports.release(member.port)
        try:
            member.container.start()
        except APIError as error:
            if PORT_TAKEN.search(str(error)):
                raise PortTaken(f"broker {node} was not started: {error.explanation}") from error
            raise

    def start(self, node: int, timeout: float = START) -> None:
        """Start a broker that is down and wait until it serves; a port somebody has for a moment is waited for."""
        if self.state(node) is not State.DOWN:
            raise RuntimeError(f"broker {node} is {self.state(node).value}; start is for one that is down")
        deadline = Deadline(timeout)
        until(lambda: self.launched(node), deadline.left(), f"port {self.members[node].port} to be free", forgive=(PortTaken,))
        self.wait_ready(node, timeout=deadline.left())

    def launched(self, node: int) -> bool:
        self.launch(node)
        return True

    def stop(self, node: int, timeout: float = STOP) -> None:
        """Ask the broker to hand over its leaders and end (SIGTERM); killed when it has not in `timeout` seconds, and then an error."""
        self.thaw(node)
        self.signal(node, "SIGTERM")
        try:
            self.wait_down(node, timeout)
        except AssertionError:
            self.kill(node)
            raise

    def kill(self, node: int) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.signal(node, "SIGKILL")
        self.thaw(node)  # some engines deliver nothing to a paused container
        self.wait_down(node, STOP)

    def signal(self, node: int, name: str) -> None:
        try:
            self.members[node].container.kill(name)
        except APIError as error:
            if error.status_code != NOT_RUNNING:
                raise

    def freeze(self, node: int) -> None:
        """The engine's pause: all its threads at once, its sockets stay open and say nothing."""
        self.members[node].container.pause()

    def thaw(self, node: int) -> None:
        """Ends a freeze; nothing happens to a broker that is not frozen."""
        if self.state(node) is not State.FROZEN:
            return
        try:
            self.members[node].container.unpause()
        except APIError:  # it was killed, and some engines let a killed one go on by themselves
            if self.state(node) is State.FROZEN:
                raise

    def state(self, node: int) -> State:
        told = self.inspect(node)["State"]
        if told["Paused"]:
            return State.FROZEN
        return State.RUNNING if told["Running"] else State.DOWN

    def check_alive(self, node: int) -> None:
        if self.state(node) is not State.DOWN:
            return
        lines = self.members[node].container.logs(tail=20).decode(errors="replace")
        raise BrokerDied(f"broker {node} ended while it was waited for; the end of its log:\n{lines}")

    # -- its networks ------------------------------------------------------------------------------------------------------

    def disconnect(self, node: int) -> None:
        """Off both networks: its published port is gone, too, as after a pulled cable nobody answers."""
        for network in self.on(node):
            network.handle.disconnect(self.members[node].container)

    def reconnect(self, node: int) -> None:
        """On both networks, with the addresses and names it had."""
        attached = list(self.on(node))
        for network in self.networks:
            if network not in attached:
                network.connect(self.members[node].container, node)

    def cut(self, node: int) -> None:
        """Off the brokers' network; published port and `direct_bootstrap` still reach it."""
        brokers = self.networks[1]
        if brokers in self.on(node):
            brokers.handle.disconnect(self.members[node].container)

    def mend(self, node: int) -> None:
        """Back on the brokers' network."""
        clients, _ = self.networks
        if list(self.on(node)) == [clients]:
            self.reconnect(node)

    def on(self, node: int) -> Iterator[Network]:
        """The networks it is on."""
        attached = self.inspect(node)["NetworkSettings"]["Networks"]
        return (network for network in self.networks if network.name in attached)

    def running(self) -> list[int]:
        """The brokers whose process runs now and that the others can reach: only they can be asked about the cluster."""
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
        """What clients are told: the advertised address, a proxy's where there is one."""
        return self.members[node].advertised

    def direct_address(self, node: int) -> Address:
        """The broker's own client listener, as published."""
        return HOST, self.members[node].port

    def admin_address(self, node: int) -> Address:
        return self.networks[1].address(node), ADMIN

    def controller_address(self, node: int) -> Address:
        return self.networks[1].address(node), CONTROLLER

    @property
    def direct_bootstrap(self) -> str:
        """All brokers on the clients' network; clients that start here stay on it."""
        return ",".join(f"{self.networks[0].address(node)}:{DIRECT}" for node in self.nodes)

    def server_log(self, node: int) -> Path:
        """A file with all that the broker printed up to now, over its restarts; collected anew by every call."""
        folder = self.opened().scratch / (self.name or "none")
        if node in self.members:
            folder.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(*TROUBLE):  # with an engine that died the last one stays
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


def environment(properties: dict[str, str]) -> dict[str, str]:
    """Properties and the JVM's options in the convention of the image apache/kafka."""
    names = {key: key.replace("_", "__").replace("-", "___").replace(".", "_").upper() for key in properties}
    heap = [option for option in JVM if option.startswith(("-Xms", "-Xmx"))]
    rest = [option for option in JVM if option not in heap]
    jvm = {"KAFKA_HEAP_OPTS": " ".join(heap), "KAFKA_JVM_PERFORMANCE_OPTS": " ".join(rest), "KAFKA_LOG4J_ROOT_LOGLEVEL": "WARN"}
    return {**{f"KAFKA_{names[key]}": value for key, value in properties.items()}, **jvm}
