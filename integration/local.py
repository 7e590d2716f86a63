"""LocalCluster. Rule: real brokers as plain processes of this machine, all of them gone when their owner is, however it ends.

Every broker has three listeners on 127.0.0.1: CLIENT, whose advertised address may be a proxy's; ADMIN, for the judge and for the brokers
among themselves, never proxied; and CONTROLLER. Each node is broker and controller in one JVM.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import attrs
import psutil

from integration import prerequisites
from integration.cluster import Address, Advertised, BrokerDied, Cluster, Properties, State
from integration.jars import KAFKA, classpath, install, kafka_jars, taken
from integration.ports import HOST, Ports
from integration.settings import JVM, LOGGING, expand, random_id, write_properties
from integration.waiting import Deadline, until
from integration.ward import Child, Ward

__all__ = ["JVM", "LocalCluster", "PortTaken"]

PREFIX, LOCK = "pykafka4-cluster-", "owner.lock"
START, STOP, ATTEMPTS = 120.0, 30.0, 3
PORT_TAKEN = re.compile(r"Address already in use|BindException")


class PortTaken(BrokerDied):
    """A broker died because somebody else has one of its ports."""


@attrs.frozen
class Node:
    """One broker: its ports and its folder."""

    id: int
    client: int
    admin: int
    controller: int
    folder: Path

    @property
    def ports(self) -> tuple[int, int, int]:
        return self.client, self.admin, self.controller

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def data(self) -> Path:
        return self.folder / "data"


def seed(version: str) -> Path:
    """A folder formatted for `version`, made once: copying it saves a JVM start for each broker."""
    jars = kafka_jars(version)
    return install(jars.parent / "seed", lambda folder: format_folder(jars, folder))


def format_folder(jars: Path, folder: Path) -> None:
    config = folder / "server.properties"
    listeners = {"listeners": f"CLIENT://{HOST}:9092,ADMIN://{HOST}:9094,CONTROLLER://{HOST}:9093", "log.dirs": str(folder / "data")}
    write_properties(config, {**expand(1), "node.id": "1", "controller.quorum.voters": f"1@{HOST}:9093", **listeners})
    command = [
        prerequisites.java(),
        *JVM,
        "-cp",
        classpath(jars),
        "kafka.tools.StorageTool",
        "format",
        "-t",
        random_id(),
        "-c",
        str(config),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=START, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"formatting a folder failed: {(done.stdout + done.stderr)[-2000:]}")
    for entry in (folder / "data").iterdir():
        entry.rename(folder / entry.name)
    (folder / "data").rmdir()
    config.unlink()


def sweep(parent: Path) -> list[Path]:
    """Remove the scratch folders whose owner and guardian were both killed: nobody holds their lock any more."""
    removed = []
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        try:
            with lock.open() as file:
                if taken(file.fileno()):
                    shutil.rmtree(lock.parent, ignore_errors=True)
                    removed.append(lock.parent)
        except OSError:
            continue
    return removed


class LocalCluster(Cluster):
    """A `Cluster` of JVMs on this machine.

    `scratch`: the folder to make the temporary folder in. `jvm`: the options of the JVMs, small and quick to start by default.
    """

    lacks = {
        "disconnect": "all brokers are at 127.0.0.1; ProxiedCluster cuts its clients off",
        "cut": "all brokers are at 127.0.0.1, where the ways between brokers cannot be told from the ways to clients",
    }

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        scratch: Path | str | None = None,
        jvm: Sequence[str] = JVM,
    ) -> None:
        super().__init__(brokers, version, advertised, properties)
        self.jvm = tuple(jvm)
        self.parent = Path(scratch) if scratch else Path(tempfile.gettempdir())
        self.members: dict[int, Node] = {}
        self.log_sizes: dict[int, int] = {}  # where the log of the present run begins
        self.ports: Ports | None = None
        self.ward: Ward | None = None

    # -- life --------------------------------------------------------------------------------------------------------------

    def up(self, timeout: float = START) -> None:
        """Start all brokers and wait until every one serves; other ports are tried when one turns out to be taken."""
        prerequisites.require(*prerequisites.check())
        deadline = Deadline(timeout)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.prepare()
                for node in self.nodes:
                    self.launch(node)
                self.wait_ready(timeout=deadline.left())
                return
            except PortTaken:
                self.close()
                if attempt == ATTEMPTS:
                    raise
            except BaseException as error:
                self.mourn(error)
                raise

    def close(self) -> None:
        """Kill every broker (the last one would wait in vain for a quorum to stop cleanly) and remove their folders; works twice."""
        super().close()
        ward, self.ward = self.ward, None
        if ward is not None:
            ward.close()
        ports, self.ports = self.ports, None
        if ports is not None:
            ports.close()

    @classmethod
    def clean(cls) -> list[str]:
        return [f"removed {folder}" for folder in sweep(Path(tempfile.gettempdir()))]

    def mourn(self, error: BaseException) -> None:
        """Close a cluster that did not come up, and say where its logs are."""
        if any(member.log.exists() for member in self.members.values()):
            error.add_note(f"the brokers' logs are kept in {self.keep_logs(Path(tempfile.mkdtemp(prefix='pykafka4-logs-')))}")
        self.close()

    def prepare(self) -> None:
        """Folders, ports, configurations; nothing runs yet."""
        jars = kafka_jars(self.version)
        template = seed(self.version)
        self.command = [prerequisites.java(), *self.jvm, "-cp", classpath(jars)]
        sweep(self.parent)
        scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self.parent))
        self.ward = guard(scratch)
        self.ports = ports = Ports()
        self.members = {node: Node(node, ports.take(), ports.take(), ports.take(), scratch / f"broker-{node}") for node in self.nodes}
        cluster_id = random_id()
        for node in self.members.values():
            self.configure(node, template, cluster_id)

    def configure(self, node: Node, template: Path, cluster_id: str) -> None:
        shutil.copytree(template, node.data)
        (node.folder / "tmp").mkdir()
        (node.folder / "log4j2.yaml").write_text(LOGGING)
        meta = (node.data / "meta.properties").read_text()
        for key, value in {"node.id": str(node.id), "cluster.id": cluster_id, "directory.id": random_id()}.items():
            meta = re.sub(rf"^{re.escape(key)}=.*$", f"{key}={value}", meta, flags=re.MULTILINE)
        (node.data / "meta.properties").write_text(meta)
        write_properties(node.config, self.settings(node))

    def settings(self, node: Node) -> dict[str, str]:
        host, port = self.advertise(node.id, (HOST, node.client))
        return {
            **expand(len(self.nodes)),
            "node.id": str(node.id),
            "broker.rack": f"rack-{node.id}",
            "controller.quorum.voters": ",".join(f"{other.id}@{HOST}:{other.controller}" for other in self.members.values()),
            "listeners": f"CLIENT://{HOST}:{node.client},ADMIN://{HOST}:{node.admin},CONTROLLER://{HOST}:{node.controller}",
            "advertised.listeners": f"CLIENT://{host}:{port},ADMIN://{HOST}:{node.admin}",
            "log.dirs": str(node.data),
            **self.extra(node.id),
        }

    def launch(self, node: int) -> None:
        """Start the process of one broker; does not wait for it."""
        member = self.members[node]
        if self.ports is not None:
            self.ports.release(*member.ports)
        options = [f"-Dlog4j2.configurationFile={member.folder / 'log4j2.yaml'}", f"-Djava.io.tmpdir={member.folder / 'tmp'}"]
        command = [self.command[0], *options, *self.command[1:], "kafka.Kafka", str(member.config)]
        self.log_sizes[node] = member.log.stat().st_size if member.log.exists() else 0
        self.guarded().start(str(node), command, member.log, member.folder)

    # -- one broker --------------------------------------------------------------------------------------------------------

    def start(self, node: int, timeout: float = START) -> None:
        """Start a broker that is down and wait until it serves; a port somebody has for a moment is waited for."""
        deadline = Deadline(timeout)
        if self.state(node) is not State.DOWN:
            raise RuntimeError(f"broker {node} is {self.state(node).value}; start is for one that is down")
        while True:
            try:
                self.launch(node)
                self.wait_ready(node, timeout=deadline.left())
                return
            except PortTaken:
                if deadline.passed():
                    raise

    def stop(self, node: int, timeout: float = STOP) -> None:
        """Ask the broker to hand over its leaders and end (SIGTERM); killed when it has not in `timeout` seconds, and then an error."""
        self.thaw(node)
        self.guarded().signal(str(node), signal.SIGTERM)
        try:
            self.wait_down(node, timeout)
        except AssertionError:
            self.kill(node)
            raise

    def kill(self, node: int) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.guarded().signal(str(node), signal.SIGKILL)
        self.wait_down(node, STOP)

    def freeze(self, node: int) -> None:
        """SIGSTOP: its sockets stay open and say nothing."""
        self.guarded().signal(str(node), signal.SIGSTOP)
        until(lambda: self.state(node) is State.FROZEN, STOP, f"broker {node} to freeze")

    def thaw(self, node: int) -> None:
        """SIGCONT; nothing happens to a broker that is not frozen."""
        self.guarded().signal(str(node), signal.SIGCONT)
        until(lambda: self.state(node) is not State.FROZEN, STOP, f"broker {node} to thaw")

    def wait_down(self, node: int, timeout: float) -> None:
        until(lambda: self.state(node) is State.DOWN, timeout, f"broker {node} to end")

    def state(self, node: int) -> State:
        child = self.child(node)
        if child is None or child.returncode is not None:
            return State.DOWN
        return State.FROZEN if child.stopped else State.RUNNING

    def process(self, node: int) -> str:
        return f"pid {self.pid(node)}"

    def pid(self, node: int) -> int:
        """The process id of a broker, for tools that watch it."""
        child = self.child(node)
        if child is None:
            raise RuntimeError(f"broker {node} was never started")
        return child.pid

    def child(self, node: int) -> Child | None:
        return self.guarded().status().get(str(node))

    def check_alive(self, node: int) -> None:
        if self.state(node) is not State.DOWN:
            return
        lines = self.server_log(node).read_bytes()[self.log_sizes[node] :].decode(errors="replace").splitlines()
        kind = PortTaken if any(PORT_TAKEN.search(line) for line in lines) else BrokerDied
        raise kind("\n".join([f"broker {node} ended while it was waited for; the end of its log:", *lines[-20:]]))

    def ready(self, wanted: set[int]) -> bool:
        """Asked of the process too: a broker may answer on one listener before it fails to bind the next."""
        return all(set(self.members[node].ports) <= self.listening(node) for node in wanted) and super().ready(wanted)

    def listening(self, node: int) -> set[int]:
        """The ports on which the broker's own process listens."""
        self.check_alive(node)
        try:
            found = psutil.Process(self.pid(node)).net_connections("tcp")
        except psutil.Error:
            return set()
        return {row.laddr.port for row in found if row.status == psutil.CONN_LISTEN}

    # -- where things are --------------------------------------------------------------------------------------------------

    def address(self, node: int) -> Address:
        """What clients are told: the advertised address, a proxy's where there is one."""
        told = re.search(r"^advertised\.listeners=CLIENT://([^,:]+):(\d+)", self.members[node].config.read_text(), re.MULTILINE)
        assert told is not None
        return told.group(1), int(told.group(2))

    def direct_address(self, node: int) -> Address:
        """The broker's own client listener."""
        return HOST, self.members[node].client

    def admin_address(self, node: int) -> Address:
        return HOST, self.members[node].admin

    def controller_address(self, node: int) -> Address:
        return HOST, self.members[node].controller

    def server_log(self, node: int) -> Path:
        """The file with all that the broker printed, over its restarts."""
        return self.members[node].log

    def folder(self, node: int) -> Path:
        """Where the broker's configuration (`server.properties`) and data (`data/`) lie."""
        return self.members[node].folder

    def guarded(self) -> Ward:
        if self.ward is None:
            raise RuntimeError("this cluster is not up: call up() or use it in a with statement")
        return self.ward


def guard(scratch: Path) -> Ward:
    """A guardian for `scratch` that holds its lock. The lock gets its name when it is held: a sweep never sees it free before."""
    fresh = scratch / f"{LOCK}.new"
    with fresh.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fresh.rename(scratch / LOCK)
        return Ward(scratch, keep=(file.fileno(),))
