"""Runs brokers on machines that Vagrant makes from the Vagrantfile, each at its own address on a private network.

A broker has three listeners: CLIENT, whose advertised address may be a proxy's; ADMIN, for the judge and for the brokers
among themselves; and CONTROLLER. An operation on a broker runs inside its machine (`vagrant/kafka-node.sh`), an operation on a machine is
carried out by its provider.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from integration.cluster import Cluster
from integration.host import prerequisites
from integration.host.ward import Ward, guard
from integration.kafka.jars import KAFKA, kafka_jars
from integration.kafka.releases import Kind, release
from integration.kafka.seed import seed
from integration.kafka.settings import BROKER, expand, random_id, write_properties
from integration.seam import Address, Advertised, Properties, State
from integration.security.settings import Security
from integration.vagrant.containers import Containers
from integration.vagrant.machines import NODE, Machines, Off
from integration.vagrant.tool import Vagrant, VagrantFailed
from integration.vagrant.virtual import Virtual, left
from integration.waiting import Deadline, WaitTimeout, until

__all__ = ["VagrantCluster", "write_settings"]

PROVIDERS: Mapping[str, Callable[[], Machines]] = {"docker": Containers, "virtualbox": Virtual, "libvirt": Virtual}
MACHINES_S, START_S, STOP_S = 900.0, 180.0, 25.0
CLIENT, CONTROLLER, ADMIN = 9092, 9093, 9094
# The state follows from the exit status, not from the output: an engine loses the output of about one command in a thousand.
STATUS = {0: State.RUNNING, 150: State.FROZEN, 3: State.DOWN}
LOG, KEYSTORE = "/var/log/kafka/server.log", "/etc/kafka/keystore.pem"


def write_settings(folder: Path, brokers: int) -> None:
    """Write the settings of all nodes for provision.sh."""
    folder.mkdir(parents=True, exist_ok=True)
    write_properties(folder / "broker.properties", expand(brokers))
    for name in ("jvm.options", "log4j2.yaml"):
        shutil.copy(BROKER / name, folder)


class VagrantCluster(Cluster):
    """A `Cluster` of machines. `provider`: docker, virtualbox or libvirt; by default VAGRANT_DEFAULT_PROVIDER, otherwise docker.

    `up` makes the machines; if they are up already, it only empties them, with another cluster id.
    """

    lacks = {"cut": "its machines have one network, for brokers and clients alike; the docker backend has two"}

    start_timeout = START_S

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        provider: str | None = None,
        security: Security | None = None,
    ) -> None:
        super().__init__(brokers, version, advertised, properties, security)
        self.provider = provider or os.environ.get("VAGRANT_DEFAULT_PROVIDER") or "docker"
        if self.provider not in PROVIDERS:
            raise ValueError(f"no machines by the provider {self.provider!r} here; there are {', '.join(PROVIDERS)}")
        if release(version).quorum is not Kind.RAFT:
            raise ValueError(f"provision.sh makes nodes of Kafka 4.0 or newer, not of {version}: such brokers run on the local backend")
        self.machines: Machines | None = None
        self.scratch = Path(os.devnull)
        self.ward: Ward | None = None
        self.told: dict[int, Address] = {}

    # -- life --------------------------------------------------------------------------------------------------------------

    def up(self, timeout: float = MACHINES_S) -> None:
        deadline = Deadline(timeout)
        try:
            if self.machines is None:
                self.make(deadline)
            else:
                self.empty()
            self.begin(deadline)
        except BaseException as error:
            self.close_failed(error)
            raise

    def make(self, deadline: Deadline) -> None:
        machines = PROVIDERS[self.provider]()
        prerequisites.require(*prerequisites.check(), *machines.missing())
        self.ward = guard(Path(tempfile.gettempdir()))
        self.scratch = self.ward.scratch
        self.machines = machines
        settings = {**machines.open(), **self.settings()}
        machines.vagrant = vagrant = Vagrant(machines.home(self.scratch), self.ward, self.provider, settings)
        vagrant.run("up", "--no-destroy-on-error", timeout=deadline.left())

    def settings(self) -> dict[str, str]:
        """The environment for the Vagrantfile."""
        folder = self.scratch / "settings"
        write_settings(folder, len(self.nodes))
        self.told = {node: self.advertise(node, self.listener_address(node)) for node in self.nodes}
        for node in self.nodes:
            own = {**self.demands(expand(len(self.nodes)), KEYSTORE), **self.extra(node)}
            write_properties(folder / f"kafka{node}.properties", own)
        for node, keystore in self.keystores().items():
            self.upload_of(node).write_bytes(keystore)
        return {
            "KAFKA_NODES": str(len(self.nodes)),
            "KAFKA_LIBS": str(kafka_jars(self.version)),
            "KAFKA_VERSION": self.version,
            "KAFKA_SEED": str(seed(self.version)),
            "KAFKA_SETTINGS": str(folder),
            "KAFKA_CLUSTER_ID": random_id(),
            **{f"KAFKA_CLIENT_{node}": f"{host}:{port}" for node, (host, port) in self.told.items()},
        }

    def empty(self) -> None:
        """Undo all faults of the machines, and give them brokers without topics and groups."""
        cluster_id = random_id()
        for node in self.nodes:
            self.opened().reconnect(node)
            self.switch_on(node)
            self.order(node, "reset", cluster_id)
        for node, keystore in self.keystores().items():
            self.put_keystore(node, keystore)
        for node in self.nodes:
            self.launch(node)

    def close(self) -> None:
        super().close()
        machines, self.machines = self.machines, None
        if machines is not None:
            machines.close()
        ward, self.ward = self.ward, None
        if ward is not None:
            ward.close()

    @classmethod
    def clean(cls) -> list[str]:
        """Machines that are containers belong to their engine, which the docker backend cleans."""
        return [f"virtual machines on {net}" for net in left()]

    def close_failed(self, error: BaseException) -> None:
        if self.machines is not None and not isinstance(error, VagrantFailed):
            self.keep_logs_for(error)
        self.close()

    # -- one broker --------------------------------------------------------------------------------------------------------

    def launch(self, node: int) -> None:
        """If the machine is off, boot it. The call does not wait until the broker serves."""
        if not self.switch_on(node):
            self.order(node, "start")

    def stop(self, node: int, timeout: float = STOP_S) -> None:
        """Raises WaitTimeout if the broker did not end in order, and was killed."""
        code, told = self.opened().run(node, NODE, "stop", f"{min(timeout, STOP_S):.0f}")
        self.wait_down(node, STOP_S)
        if code != 0:
            raise WaitTimeout(f"broker {node} did not end in order, it was killed: {told.strip()}")

    def kill(self, node: int) -> None:
        self.order(node, "kill")
        self.wait_down(node, STOP_S)

    def cut_power(self, node: int) -> None:
        """`launch` and `start` boot the machine again."""
        self.opened().power_off(node)
        self.wait_down(node, STOP_S)

    def switch_on(self, node: int) -> bool:
        """Boot a machine that is off, which starts its broker. Returns False if the machine was on."""
        try:
            self.opened().run(node, "true")
            return False
        except Off:
            self.opened().power_on(node)
        until(lambda: self.state(node) is not State.DOWN, START_S, f"machine {node} to boot and start its broker")
        return True

    def freeze(self, node: int) -> None:
        self.order(node, "freeze")

    def thaw(self, node: int) -> None:
        if self.state(node) is State.FROZEN:
            self.order(node, "thaw")

    def disconnect(self, node: int) -> None:
        self.opened().disconnect(node)

    def reconnect(self, node: int) -> None:
        self.opened().reconnect(node)

    def order(self, node: int, *words: str) -> None:
        code, told = self.opened().run(node, NODE, *words)
        if code != 0:
            raise RuntimeError(f"`kafka-node {' '.join(words)}` failed on machine {node}: {told.strip() or f'exit status {code}'}")

    def state(self, node: int) -> State:
        try:
            code, told = self.opened().run(node, NODE, "status")
        except Off:
            return State.DOWN
        if code not in STATUS:
            raise RuntimeError(f"machine {node} does not know what its broker does: exit status {code} {told.strip()}")
        return STATUS[code]

    def running(self) -> list[int]:
        return [node for node in super().running() if node not in self.opened().unplugged]

    def broken(self) -> list[str]:
        return super().broken() + [f"broker {node} is disconnected" for node in sorted(self.opened().unplugged)]

    # -- where things are --------------------------------------------------------------------------------------------------

    def address(self, node: int) -> Address:
        return self.told[node]

    def listener_address(self, node: int) -> Address:
        return self.opened().address(node), CLIENT

    def admin_address(self, node: int) -> Address:
        return self.opened().address(node), ADMIN

    def controller_address(self, node: int) -> Address:
        return self.opened().address(node), CONTROLLER

    def private_folder(self) -> Path:
        self.opened()
        return self.scratch / "security"

    def put_keystore(self, node: int, keystore: bytes) -> dict[str, str]:
        """Writes the file in a running machine, and in the files with which the machine is provisioned."""
        self.upload_of(node).write_bytes(keystore)
        self.order(node, "keystore", base64.b64encode(keystore).decode())
        return {"listener.name.client.ssl.keystore.location": KEYSTORE}

    def upload_of(self, node: int) -> Path:
        """Return the path of the keystore for the Vagrantfile."""
        return self.scratch / "settings" / f"kafka{node}.pem"

    def server_log(self, node: int) -> Path:
        """Each call collects the output anew."""
        file = self.scratch / f"broker-{node}.log"
        content = self.opened().fetch(node, LOG)
        if content is not None:
            file.write_bytes(content)
        return file

    def process(self, node: int) -> str:
        return f"machine {self.opened().name(node)} ({self.provider})"

    def opened(self) -> Machines:
        if self.machines is None:
            raise RuntimeError("this cluster is not up: call up() or use it in a with statement")
        return self.machines
