"""Runs the ZooKeeper of a cluster of brokers before 4.0. Invariant: a broker starts only after the session of its last run has ended.

A broker registers its id for as long as its session lives, and a broker that finds its id taken ends itself. After a SIGKILL, the id stays
taken for a few seconds.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from integration.host import prerequisites
from integration.host.ports import HOST
from integration.kafka.jars import classpath, kafka_jars
from integration.kafka.settings import OLD_LOGGING, expand, write_properties
from integration.local.quorum import Node, Site
from integration.seam import died
from integration.waiting import until

__all__ = ["ZooKeeper"]

NAME: Final = "zookeeper"  # among the children of the ward, which also has "1", "2", …
START_S: Final = 60.0
ANSWER_S: Final = 5.0
JVM: Final = ("-Xms32m", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xshare:auto")
SYSTEM: Final = ("-Dzookeeper.jmx.log4j.disable=true", "-Dzookeeper.forceSync=no")
REGISTERED: Final = re.compile(r"/brokers/ids/(\d+)\b")
NOT_YET: Final = (OSError,)

SERVER: Final = {
    "tickTime": "500",
    "clientPortAddress": HOST,
    "maxClientCnxns": "0",
    "admin.enableServer": "false",  # from 3.5 on this server would listen on 8080
    "4lw.commands.whitelist": "srvr,dump",
}

# A session of 3 s: a dead broker is replaced after 3 to 4 s, and a JVM that gets no processor for 2 s keeps its session.
SETTINGS: Final = {
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,ADMIN:PLAINTEXT",
    "zookeeper.session.timeout.ms": "3000",
    "zookeeper.connection.timeout.ms": "60000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "delete.topic.enable": "true",  # the default only from 1.0 on
}
OF_RAFT: Final = re.compile(r"process\.|controller\.|broker\.(session|heartbeat)\.|share\.|group\.consumer\.")


class ZooKeeper:
    """The quorum of brokers before 4.0: one ZooKeeper server on a port of its own."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.folder = site.ward.scratch / NAME
        self.port = site.ports.take()

    def node(self, number: int) -> Node:
        ports = self.site.ports
        return Node(number, ports.take(), ports.take(), None, self.site.folder(number))

    def begin(self, members: Mapping[int, Node]) -> None:
        """Wait until the server serves: a broker that starts before waits a second between its attempts."""
        (self.folder / "tmp").mkdir(parents=True)
        config = self.folder / "zoo.cfg"
        write_properties(config, {**SERVER, "clientPort": str(self.port), "dataDir": str(self.folder / "data")})
        options = [*JVM, *SYSTEM, self.logging(), f"-Djava.io.tmpdir={self.folder / 'tmp'}"]
        jars = classpath(kafka_jars(self.site.version))
        command = [prerequisites.java(), *options, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)]
        self.site.ports.release(self.port)
        self.site.ward.start(NAME, command, self.log, self.folder)
        until(lambda: "Mode: standalone" in self.ask("srvr"), START_S, f"ZooKeeper to serve; see {self.log}", forgive=NOT_YET)

    def furnish(self, node: Node) -> None:
        node.data.mkdir(parents=True)

    def settings(self, node: Node, brokers: int) -> dict[str, str]:
        return {
            **{key: value for key, value in expand(brokers).items() if not OF_RAFT.match(key)},
            **SETTINGS,
            "broker.id": str(node.id),
            "zookeeper.connect": f"{HOST}:{self.port}",
            "listeners": f"CLIENT://{HOST}:{node.client},ADMIN://{HOST}:{node.admin}",
        }

    def logging(self) -> str:
        return f"-Dlog4j.configuration={OLD_LOGGING.as_uri()}"

    def admit(self, node: int, timeout: float) -> None:
        until(lambda: node not in self.registered(), timeout, f"the last session of broker {node} to end", forgive=NOT_YET)

    def registered(self) -> set[int]:
        return {int(number) for number in REGISTERED.findall(self.ask("dump"))}

    def ask(self, word: str) -> str:
        """Raises ConnectionError if ZooKeeper does not answer the command, a word of four letters."""
        self.check_alive()
        with socket.create_connection((HOST, self.port), timeout=ANSWER_S) as connection:
            connection.sendall(word.encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")
        if not answer.strip():
            raise ConnectionError(f"ZooKeeper does not answer {word}")
        return answer

    def check_alive(self) -> None:
        child = self.site.ward.status().get(NAME)
        if child is None or child.returncode is not None:
            raise died("ZooKeeper", self.log.read_text(errors="replace") if self.log.exists() else "")

    @property
    def log(self) -> Path:
        return self.folder / "server.log"
