"""Runs real brokers as plain processes of this machine. Invariant: all of them end with their owner, however it ends.

Every broker has three listeners on 127.0.0.1: CLIENT, whose advertised address may be a proxy's; ADMIN, for the judge and for the brokers
among themselves, never proxied; and CONTROLLER. Each node is broker and controller in one JVM. Brokers before 4.0 have no CONTROLLER
listener, but one ZooKeeper for each cluster.
"""

from __future__ import annotations

import re
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from integration.cluster import Cluster
from integration.host import prerequisites
from integration.host.ports import HOST, Ports
from integration.host.ward import Child, Ward, guard, sweep
from integration.kafka.class_archive import mapped_classes
from integration.kafka.jars import KAFKA, classpath, kafka_jars
from integration.kafka.releases import Kind, release
from integration.kafka.settings import JVM, write_properties
from integration.local.quorum import Node, Quorum, Raft, Site
from integration.local.zookeeper import ZooKeeper
from integration.seam import READY_S, Address, Advertised, Properties, State
from integration.security.settings import Security
from integration.waiting import until

__all__ = ["LocalCluster"]

STOP_S = 30.0
KEYSTORE = "listener.name.client.ssl.keystore.location"
QUORUMS: Mapping[Kind, Callable[[Site], Quorum]] = {Kind.RAFT: Raft, Kind.ZOOKEEPER: ZooKeeper}


class LocalCluster(Cluster):
    """`scratch`: the parent of the temporary folder. `jvm`: the options of the JVMs; by default the options in
    `integration.kafka.settings`, and the class archive of the release. `plugins`: folders with classes that the brokers' settings name.
    """

    lacks = {
        "disconnect": "all brokers are at 127.0.0.1; proxies before them cut their clients off",
        "cut": "all brokers are at 127.0.0.1, where the ways between brokers cannot be told from the ways to clients",
    }

    def __init__(
        self,
        brokers: int = 3,
        version: str = KAFKA,
        advertised: Advertised | None = None,
        properties: Properties | None = None,
        scratch: Path | str | None = None,
        jvm: Sequence[str] | None = None,
        security: Security | None = None,
        plugins: Sequence[Path] = (),
    ) -> None:
        super().__init__(brokers, version, advertised, properties, security)
        if security is not None and release(version).quorum is not Kind.RAFT:
            raise ValueError(f"security: only brokers that are their own quorum (Kafka 4.0 or newer) are set up for it, not {version}")
        self.jvm, self.plugins = jvm, tuple(plugins)
        self.parent = Path(scratch) if scratch else Path(tempfile.gettempdir())
        self.members: dict[int, Node] = {}
        self.log_sizes: dict[int, int] = {}  # node -> byte at which the log of the current run begins
        self.ports: Ports | None = None
        self.ward: Ward | None = None

    # -- life --------------------------------------------------------------------------------------------------------------

    def up(self, timeout: float = READY_S) -> None:
        prerequisites.require(*prerequisites.check())
        self.up_on_free_ports(self.prepare, timeout)

    def close(self) -> None:
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

    def keep_logs_for(self, error: BaseException) -> None:
        if self.members:  # otherwise nothing was started
            super().keep_logs_for(error)

    def prepare(self) -> None:
        secured = () if self.security is None else self.security.jvm
        jars = kafka_jars(self.version)
        path = ":".join([classpath(jars), *map(str, self.plugins)])
        options = [*JVM, *mapped_classes(jars)] if self.jvm is None else self.jvm
        self.command = [prerequisites.java(), *options, *secured, "-cp", path]
        self.ward = guard(self.parent)
        self.ports = Ports()
        self.quorum = QUORUMS[release(self.version).quorum](Site(self.version, self.ports, self.ward))
        self.members = {node: self.quorum.node(node) for node in self.nodes}
        self.quorum.begin(self.members)
        for member in self.members.values():
            self.quorum.furnish(member)
            (member.folder / "tmp").mkdir()
            write_properties(member.config, self.settings(member))
        for node, keystore in self.keystores().items():
            self.put_keystore(node, keystore)

    def settings(self, node: Node) -> dict[str, str]:
        host, port = self.advertise(node.id, (HOST, node.client))
        usual = self.quorum.settings(node, len(self.nodes))
        return {
            **usual,
            **self.demands(usual, str(node.keystore), host),
            "broker.rack": f"rack-{node.id}",
            "advertised.listeners": f"CLIENT://{host}:{port},ADMIN://{HOST}:{node.admin}",
            "log.dirs": str(node.data),
            **self.extra(node.id),
        }

    def launch(self, node: int) -> None:
        """With ZooKeeper, wait until the session of the broker's last run has ended."""
        member = self.members[node]
        self.quorum.admit(node, STOP_S)
        if self.ports is not None:
            self.ports.release(*member.ports)
        options = [self.quorum.logging(), f"-Djava.io.tmpdir={member.folder / 'tmp'}"]
        command = [self.command[0], *options, *self.command[1:], "kafka.Kafka", str(member.config)]
        self.log_sizes[node] = member.log.stat().st_size if member.log.exists() else 0
        self.guarded().start(str(node), command, member.log, member.folder)

    # -- one broker --------------------------------------------------------------------------------------------------------

    def stop(self, node: int, timeout: float = STOP_S) -> None:
        self.stopped_by(node, lambda: self.guarded().signal(str(node), signal.SIGTERM), timeout)

    def kill(self, node: int) -> None:
        self.guarded().signal(str(node), signal.SIGKILL)
        self.wait_down(node, STOP_S)

    def freeze(self, node: int) -> None:
        self.guarded().signal(str(node), signal.SIGSTOP)
        until(lambda: self.state(node) is State.FROZEN, STOP_S, f"broker {node} to freeze")

    def thaw(self, node: int) -> None:
        self.guarded().signal(str(node), signal.SIGCONT)
        until(lambda: self.state(node) is not State.FROZEN, STOP_S, f"broker {node} to thaw")

    def state(self, node: int) -> State:
        child = self.child(node)
        if child is None or child.returncode is not None:
            return State.DOWN
        return State.FROZEN if child.stopped else State.RUNNING

    def process(self, node: int) -> str:
        return f"pid {self.pid(node)}"

    def pid(self, node: int) -> int:
        child = self.child(node)
        if child is None:
            raise RuntimeError(f"broker {node} was never started")
        return child.pid

    def child(self, node: int) -> Child | None:
        return self.guarded().status().get(str(node))

    def last_words(self, node: int) -> str:
        return self.server_log(node).read_bytes()[self.log_sizes[node] :].decode(errors="replace")

    def ready(self, wanted: set[int]) -> bool:
        """The brokers' processes listen on all ports: a broker may answer on one and fail to bind the next."""
        return all(set(self.members[node].ports) <= self.listening(node) for node in wanted) and super().ready(wanted)

    def listening(self, node: int) -> set[int]:
        import psutil  # imported here: the offline tests import this module, and run without it

        self.check_alive(node)
        try:
            found = psutil.Process(self.pid(node)).net_connections("tcp")
        except psutil.Error:
            return set()
        return {row.laddr.port for row in found if row.status == psutil.CONN_LISTEN}

    # -- where things are --------------------------------------------------------------------------------------------------

    def address(self, node: int) -> Address:
        told = re.search(r"^advertised\.listeners=CLIENT://([^,:]+):(\d+)", self.members[node].config.read_text(), re.MULTILINE)
        assert told is not None
        return told.group(1), int(told.group(2))

    def admin_address(self, node: int) -> Address:
        return HOST, self.members[node].admin

    def controller_address(self, node: int) -> Address:
        member = self.members[node]
        return HOST, member.admin if member.controller is None else member.controller

    def listener_address(self, node: int) -> Address:
        return HOST, self.members[node].client

    def private_folder(self) -> Path:
        return self.guarded().scratch / "security"

    def put_keystore(self, node: int, keystore: bytes) -> dict[str, str]:
        path = self.members[node].keystore
        fresh = path.with_suffix(".new")
        fresh.write_bytes(keystore)
        fresh.rename(path)
        return {KEYSTORE: str(path)}

    def server_log(self, node: int) -> Path:
        return self.members[node].log

    def folder(self, node: int) -> Path:
        """The folder with the broker's configuration (`server.properties`) and data (`data/`)."""
        return self.members[node].folder

    def guarded(self) -> Ward:
        if self.ward is None:
            raise RuntimeError("this cluster is not up: call up() or use it in a with statement")
        return self.ward
