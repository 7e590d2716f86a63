"""Starts, ends and shows a Kafka on this machine, for development: `pykafka4 cluster up`, `down` and `status`.

Invariant: `down` ends only a process whose command line names the cluster's folder; `up` itself ends brokers that do not come up.
"""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import click
from rich.console import Console
from rich.markup import escape

from pykafka4.admin import AdminClient
from pykafka4.cli.invocation import DONE, FAILED, show_note
from pykafka4.cli.kafka import VERSION, cache, fetch, fetched, jars_of, java
from pykafka4.cli.show import console, print_json, table
from pykafka4.errors import KafkaError

__all__ = ["down", "status", "up"]

HOST: Final = "127.0.0.1"
PORT: Final = 9092
CONTROLLER_PORT_OFFSET: Final = 100  # added to a broker's port for its controller's port
READY_S, STOP_S, FORMAT_S = 120.0, 15.0, 120.0
HEAP: Final = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")  # quick to start
LOG_SETTINGS: Final = """\
<Configuration>
  <Appenders><Console name="out"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


def _as_java_reads(text: str) -> str:
    """Escape `text` for a .properties file, where `\\u` takes one unit of UTF-16."""
    data = text.encode("utf-16-be", "surrogatepass")  # Python has surrogates in paths that are no UTF-8
    units = struct.unpack(f">{len(data) // 2}H", data)
    return "".join(chr(unit) if " " <= chr(unit) <= "~" and chr(unit) != "\\" else f"\\u{unit:04x}" for unit in units)


def _command_line(pid: int) -> str:
    """The command line of a process; empty if the process has ended. Small Linux images have no `ps`; macOS has no /proc."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")  # a zombie's is empty
        except OSError:
            return ""
    done = subprocess.run(["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return "" if done.stdout.startswith("Z") else done.stdout


@attrs.frozen
class LocalBroker:
    """A broker and controller of the local cluster."""

    id: int
    port: int
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "server.properties"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def pid(self) -> int | None:
        """The id of the broker's process; None if the broker does not run, even if another process has the stored id."""
        try:
            pid = int((self.folder / "pid").read_text())
        except (OSError, ValueError):
            return None
        return pid if str(self.config) in _command_line(pid) else None

    def settings(self, voters: str, brokers: int) -> str:
        replicas, least = min(3, brokers), max(1, min(3, brokers) - 1)
        found = {
            "process.roles": "broker,controller",
            "node.id": self.id,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.port + CONTROLLER_PORT_OFFSET}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.folder / "data",
            "default.replication.factor": replicas,
            "min.insync.replicas": least,
            "group.initial.rebalance.delay.ms": 0,
        }
        for kind in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            found |= {f"{kind}.replication.factor": replicas, f"{kind}.num.partitions": 3}
        found |= {"transaction.state.log.min.isr": least, "share.coordinator.state.topic.min.isr": least}
        return "".join(f"{name}={_as_java_reads(str(value))}\n" for name, value in found.items())


@attrs.frozen
class LocalCluster:
    folder: Path

    def brokers(self) -> list[LocalBroker]:
        """The brokers that were set up; none before the first `up`."""
        found = []
        for place in sorted(self.folder.glob("broker-*"), key=lambda path: int(path.name.partition("-")[2])):
            found.append(LocalBroker(int(place.name.partition("-")[2]), int((place / "port").read_text()), place))
        return found

    def make(self, port: int, brokers: int) -> list[LocalBroker]:
        """Set up the brokers; keep their data. The number of brokers cannot change, because each has a vote in the quorum."""
        found = [LocalBroker(number, port + number - 1, self.folder / f"broker-{number}") for number in range(1, brokers + 1)]
        have = self.brokers()
        if have and len(have) != brokers:
            raise click.UsageError(
                f"{self.folder} has data of another number of brokers; give --brokers {len(have)}, or delete the data: "
                "pykafka4 cluster down --delete"
            )
        voters = ",".join(f"{each.id}@{HOST}:{each.port + CONTROLLER_PORT_OFFSET}" for each in found)
        for each in found:
            (each.folder / "tmp").mkdir(parents=True, exist_ok=True)
            (each.folder / "port").write_text(str(each.port))
            each.config.write_text(each.settings(voters, brokers))
        (self.folder / "log4j2.xml").write_text(LOG_SETTINGS)
        return found

    @property
    def id(self) -> str:
        """The cluster's id: the same for all brokers, until the folder is deleted."""
        path = self.folder / "cluster-id"
        if not path.exists():
            # The tool that formats the folders would take a leading dash for an option.
            path.write_text("p" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22])
        return path.read_text()

    @property
    def bootstrap(self) -> str:
        return ",".join(f"localhost:{each.port}" for each in self.brokers())

    def running(self) -> list[LocalBroker]:
        return [each for each in self.brokers() if each.pid() is not None]

    def start(self, brokers: Sequence[LocalBroker], jars: Path) -> None:
        """Format new brokers, start processes that outlive this one, and wait until all brokers are in the cluster. Raises KafkaError."""
        command = [java(), *HEAP, f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}", "-cp", f"{jars}{os.sep}*"]
        for each in brokers:
            if not (each.folder / "data" / "meta.properties").exists():
                _format(command, self.id, each)
        for each in brokers:
            _launch(command, each)
        self._wait(brokers)

    def _wait(self, brokers: Sequence[LocalBroker]) -> None:
        limit = time.monotonic() + READY_S
        for each in brokers:  # without a client, because a client would log each refused connection
            while not _listens(each.port):
                self._check(brokers, limit)
                time.sleep(0.1)
        with AdminClient(bootstrap_servers=self.bootstrap) as admin:
            while len(admin.describe_cluster(timeout=READY_S).brokers) < len(brokers):
                self._check(brokers, limit)
                time.sleep(0.1)

    def _check(self, brokers: Sequence[LocalBroker], limit: float) -> None:
        for each in brokers:
            if each.pid() is None:
                raise _ended(each)
        if time.monotonic() > limit:
            raise KafkaError(f"the brokers are not up after {READY_S:.0f} s; see {brokers[0].log}")

    def stop(self) -> list[LocalBroker]:
        """End the running brokers; return them. A broker that does not end in time is killed, and recovers its log at the next start."""
        found = self.running()
        for number, seconds in ((signal.SIGTERM, STOP_S), (signal.SIGKILL, STOP_S)):
            for each in found:
                if (pid := each.pid()) is not None:  # read again for each signal: the id of an ended process may belong to another process
                    os.kill(pid, number)
            limit = time.monotonic() + seconds
            while any(each.pid() is not None for each in found) and time.monotonic() < limit:
                time.sleep(0.1)
        return found


def _format(command: Sequence[str], cluster: str, broker: LocalBroker) -> None:
    tool = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(broker.config)]
    try:
        done = subprocess.run([*command, *tool], capture_output=True, text=True, timeout=FORMAT_S, check=False)
    except subprocess.TimeoutExpired:
        raise KafkaError(f"the folder of broker {broker.id} was not formatted within {FORMAT_S:g} s; try again") from None
    if done.returncode != 0:
        raise KafkaError(f"the folder of broker {broker.id} cannot be formatted: {(done.stdout + done.stderr).strip()[-1000:]}")


def _launch(command: Sequence[str], broker: LocalBroker) -> None:
    with broker.log.open("wb") as log:
        process = subprocess.Popen(
            [*command[:1], f"-Djava.io.tmpdir={broker.folder / 'tmp'}", *command[1:], "kafka.Kafka", str(broker.config)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=broker.folder, start_new_session=True,
        )  # fmt: skip  # in its own session: Ctrl-C in this terminal does not end it
    (broker.folder / "pid").write_text(str(process.pid))
    # Until the program is loaded, the process has no command line, and `pid` would take it for ended.
    while not _command_line(process.pid) and process.poll() is None:
        time.sleep(0.01)
    process.returncode = 0  # the process outlives this one: without a code, Python would warn that it still runs


def _ended(broker: LocalBroker) -> KafkaError:
    error = KafkaError(f"broker {broker.id} has ended; the end of {broker.log}:")
    for line in broker.log.read_text(errors="replace").strip().splitlines()[-8:]:
        error.add_note(line)
    return error


def _listens(port: int) -> bool:
    with socket.socket() as it:
        it.settimeout(1.0)
        return it.connect_ex((HOST, port)) == 0


def _check_port(port: int) -> None:
    with socket.socket() as it:
        it.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may be in TIME_WAIT
        try:
            it.bind((HOST, port))
        except OSError as error:
            raise click.ClickException(f"port {port} is not free ({error.strerror}); choose others: --port 19092") from None


@contextmanager
def _busy(text: str) -> Iterator[Callable[[str], object]]:
    """Show a line on the terminal during the `with` block, which gets a function that shows more text after the line."""
    screen = Console(stderr=True, highlight=False)
    if not screen.is_terminal:
        yield lambda _: None
        return
    with screen.status(text) as status:
        yield lambda more: status.update(f"{text} {escape(more)}")


def _fetch(version: str) -> Path:
    text = f"Maven fetches Kafka {version}, about 100 MB, once …"
    if not sys.stderr.isatty():
        show_note(text)
    with _busy(text) as tell:
        return fetch(version, tell)


# -- commands

json_option = click.option("--json", "json_", is_flag=True, help="JSON instead of text.")


def _local_cluster() -> LocalCluster:
    return LocalCluster(cache() / "local")


@click.command(
    epilog="""\b
Examples:
  pykafka4 cluster up
  pykafka4 cluster up --brokers 3 --kafka ~/kafka_2.13-4.1.0
  export PYKAFKA4_BOOTSTRAP=localhost:9092
  pykafka4 cluster down
"""
)
@click.option("--brokers", metavar="N", type=click.IntRange(1, 9), default=1, show_default=True, help="Brokers, each also a controller.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(1024, 65_000),
    default=PORT,
    show_default=True,
    help="Port of the first broker; the others have the next ports.",
)
@click.option(
    "--kafka",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="KAFKA_HOME",
    help="The folder of an unpacked Kafka 4; default: KAFKA_HOME.",
)
@click.option("--kafka-version", metavar="VERSION", default=VERSION, show_default=True, help="The version that Maven fetches, once.")
@json_option
def up(brokers: int, port: int, kafka: Path | None, kafka_version: str, json_: bool) -> int:
    """Start a Kafka on this machine, for development.

    It needs Java 17 or newer, and a folder with Kafka or, the first time, Maven. It listens on 127.0.0.1 only, and runs until `cluster
    down`. Missing topics are created for producers, and stay from one `up` to the next, by default in ~/.cache/pykafka4/local. If it is
    already running, `up` shows it.
    """
    cluster = _local_cluster()
    if cluster.running():
        show_note("a local cluster is already running")
        return _show(cluster, json_)
    # The ports are checked before Maven runs, which takes minutes.
    for number in range(brokers):
        for each in (port + number, port + number + CONTROLLER_PORT_OFFSET):
            _check_port(each)
    java()
    jars = jars_of(kafka) if kafka is not None else fetched(kafka_version) or _fetch(kafka_version)
    try:
        with _busy(f"Kafka starts, {brokers} broker{'s'[: brokers > 1]} …"):
            cluster.start(cluster.make(port, brokers), jars)
    except BaseException:  # also Ctrl-C
        cluster.stop()
        raise
    return _show(cluster, json_)


@click.command(
    epilog="""\b
Examples:
  pykafka4 cluster down
  pykafka4 cluster down --delete     with all topics
"""
)
@click.option("--delete", is_flag=True, help="Delete all data of the cluster, too.")
@json_option
def down(delete: bool, json_: bool) -> int:
    """End the Kafka that `cluster up` started. Its topics stay, unless --delete is given."""
    cluster = _local_cluster()
    with _busy("Kafka ends …"):
        found = cluster.stop()
    if delete:
        shutil.rmtree(cluster.folder, ignore_errors=True)
    if json_:
        print_json({"ended": [each.id for each in found], "deleted": delete})
    else:
        show_note(
            f"{len(found)} broker{'s'[: len(found) != 1]} ended{', data deleted' if delete else ''}"
            if found or delete
            else "no local cluster runs"
        )
    return DONE


@click.command(
    epilog="""\b
Example:
  pykafka4 cluster status --json | jq -r .bootstrap
"""
)
@json_option
def status(json_: bool) -> int:
    """Show the Kafka that `cluster up` started; exit code 1 if none runs."""
    cluster = _local_cluster()
    if not cluster.running():
        show_note("no local cluster runs; start one with: pykafka4 cluster up")
        return FAILED
    return _show(cluster, json_)


def _show(cluster: LocalCluster, json_: bool) -> int:
    rows: list[dict[str, Any]] = [
        {"broker": each.id, "address": f"localhost:{each.port}", "pid": each.pid(), "log": str(each.log)} for each in cluster.brokers()
    ]
    if json_:
        print_json({"bootstrap": cluster.bootstrap, "folder": str(cluster.folder), "brokers": rows})
        return DONE
    console().print(table(("broker", "address", "pid", "log"), [tuple(row.values()) for row in rows]))
    show_note(f"export PYKAFKA4_BOOTSTRAP={cluster.bootstrap}")
    return DONE
