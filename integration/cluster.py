"""Cluster. Rule: how brokers run is a backend's business; what is true of them is asked from the brokers.

A backend (`integration.backends` lists them: plain processes, containers, virtual machines) starts, stops and finds brokers. Everything
here is built on that and on the brokers' own answers, so every backend has it. What only some can do, the others refuse with the reason.
By hand: `python -m integration up|status|kill N|…|down`.
"""

from __future__ import annotations

import abc
import enum
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self, TypeAlias

from integration.admin import Admin, Partition
from integration.judge import reader as judge
from integration.judge.reader import LogRecord
from integration.kafka.jars import KAFKA
from integration.waiting import Deadline, until
from pykafka4.errors import KafkaError

__all__ = ["Address", "Advertised", "BrokerDied", "Cluster", "LogRecord", "PortTaken", "Properties", "State", "Unsupported"]

Address: TypeAlias = tuple[str, int]
Advertised: TypeAlias = Mapping[int, Address] | Callable[[int, Address], Address]
Properties: TypeAlias = Mapping[str, str] | Callable[[int], Mapping[str, str]]

READY, ISR, LEADER, TOPIC = 120.0, 60.0, 60.0, 60.0
NOT_YET = (OSError, KafkaError)
ATTEMPTS = 3


class State(enum.Enum):
    """Of a broker's process. A running broker may still be starting: `wait_ready` knows."""

    RUNNING = "running"
    FROZEN = "frozen"
    DOWN = "down"


class BrokerDied(RuntimeError):
    """A broker ended by itself; the message carries the end of its log."""


class PortTaken(BrokerDied):
    """A broker cannot run because somebody else has one of its ports."""


class Unsupported(RuntimeError):
    """This backend has not got that operation; the message says why."""


class Cluster(abc.ABC):
    """`brokers` brokers of Kafka `version`, their ids `nodes` from 1. Use as a context manager: up on entry, everything gone on exit.

    `advertised`: the address clients are told for a broker, `{1: (host, port)}` or a callable `(node, real address) -> address`,
    asked before the start. `properties`: added to every broker's settings, a mapping or a callable of the node.
    """

    lacks: ClassVar[Mapping[str, str]] = {}  # the operations a backend has not got: name -> why

    def __init__(
        self, brokers: int = 3, version: str = KAFKA, advertised: Advertised | None = None, properties: Properties | None = None
    ) -> None:
        self.nodes = tuple(range(1, brokers + 1))
        self.version, self.advertised, self.properties = version, advertised, properties
        self.admin = Admin(self)
        self.ready_after = 0.0  # seconds that `up` took on entry

    def advertise(self, node: int, real: Address) -> Address:
        """What clients are told where a broker listens at `real`."""
        if callable(self.advertised):
            return self.advertised(node, real)
        return (self.advertised or {}).get(node, real)

    def extra(self, node: int) -> Mapping[str, str]:
        """The settings asked for beside the usual ones."""
        return self.properties(node) if callable(self.properties) else self.properties or {}

    # -- the seam: what a backend gives ------------------------------------------------------------------------------------

    @abc.abstractmethod
    def up(self, timeout: float = READY) -> None:
        """Start all brokers and wait until every one serves."""

    @abc.abstractmethod
    def launch(self, node: int) -> None:
        """Start the process of a broker that is down; does not wait."""

    @abc.abstractmethod
    def start(self, node: int, timeout: float = READY) -> None:
        """Start a broker that is down and wait until it serves."""

    @abc.abstractmethod
    def stop(self, node: int, timeout: float = 30.0) -> None:
        """A clean stop: the broker hands over its leaders first. Needs a quorum of the others."""

    @abc.abstractmethod
    def kill(self, node: int) -> None:
        """A crash; returns when the process is gone."""

    @abc.abstractmethod
    def freeze(self, node: int) -> None:
        """Its sockets stay open and say nothing."""

    @abc.abstractmethod
    def thaw(self, node: int) -> None:
        """Ends a freeze; nothing happens to a broker that is not frozen."""

    @abc.abstractmethod
    def state(self, node: int) -> State:
        """What the broker's process does now."""

    @abc.abstractmethod
    def check_alive(self, node: int) -> None:
        """Raises `BrokerDied` when the process has ended."""

    @abc.abstractmethod
    def address(self, node: int) -> Address:
        """The address clients are told."""

    @abc.abstractmethod
    def admin_address(self, node: int) -> Address:
        """A listener that is never proxied."""

    @abc.abstractmethod
    def controller_address(self, node: int) -> Address:
        """The controller's listener."""

    @abc.abstractmethod
    def server_log(self, node: int) -> Path:
        """The file with all that the broker printed, over its restarts."""

    def close(self) -> None:
        """End everything and remove it; a backend adds its part."""
        self.admin.close()

    def process(self, node: int) -> str:
        """What runs a broker, for a person who looks for it: `pid 4711`, or a container's name."""
        return f"broker {node}"

    @classmethod
    def clean(cls) -> list[str]:
        """Remove what killed runs of this backend left on the machine; a line for each thing removed. What is in use stays."""
        return []

    # -- what only some backends can do --------------------------------------------------------------------------------------

    def disconnect(self, node: int) -> None:
        """Pull its network cable: nobody reaches it, it reaches nobody, and nobody is told."""
        raise self.lacking("disconnect")

    def reconnect(self, node: int) -> None:
        """Ends a disconnect; nothing happens to a broker that is connected."""
        raise self.lacking("disconnect")

    def cut(self, node: int) -> None:
        """Cut it off from the other brokers, while the clients at `direct_bootstrap` still reach it."""
        raise self.lacking("cut")

    def mend(self, node: int) -> None:
        """Ends a cut; nothing happens to a broker that is not cut off."""
        raise self.lacking("cut")

    @property
    def direct_bootstrap(self) -> str:
        """`host:port,…` by which clients reach also a broker that is cut off from the others."""
        raise self.lacking("cut")

    def lacking(self, operation: str) -> Unsupported:
        return Unsupported(f"{type(self).__name__} has no {operation!r}: {self.lacks.get(operation, 'it is not built for it')}")

    # -- life --------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        began = time.monotonic()
        self.up()
        self.ready_after = time.monotonic() - began
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, Exception):
            self.keep_logs_for(error)
        self.close()

    def restart(self, node: int, timeout: float = READY) -> None:
        """A clean stop and a start."""
        deadline = Deadline(timeout)
        self.stop(node, timeout=min(30.0, deadline.left()))
        self.start(node, timeout=deadline.left())

    def start_all(self, timeout: float = READY) -> None:
        """Start every broker that is down, all at once (one of three alone has no quorum), and wait until all running ones serve."""
        for node in self.nodes:
            if self.state(node) is State.DOWN:
                self.launch(node)
        self.wait_ready(timeout=timeout)

    def broken(self) -> list[str]:
        """What a test left broken, one line for each broker; empty when all run."""
        states = {node: self.state(node) for node in self.nodes}
        return [f"broker {node} is {state.value}" for node, state in states.items() if state is not State.RUNNING]

    def heal(self, timeout: float = READY) -> None:
        """Thaw, connect, start, and wait for full in-sync replicas: the cluster as a test expects to find it."""
        deadline = Deadline(timeout)
        for node in self.nodes:
            self.thaw(node)
            for operation, end in (("cut", self.mend), ("disconnect", self.reconnect)):
                if operation not in self.lacks:
                    end(node)
        self.start_all(timeout=deadline.left())
        self.wait_full_isr(timeout=deadline.left())

    def keep_logs(self, to: Path | str) -> Path:
        """Copy the brokers' logs into the folder `to`, which outlives the cluster."""
        folder = Path(to)
        folder.mkdir(parents=True, exist_ok=True)
        for node in self.nodes:
            if self.server_log(node).exists():
                shutil.copy(self.server_log(node), folder / f"broker-{node}.log")
        return folder

    def keep_logs_for(self, error: BaseException) -> None:
        """Keep what logs there are, and have the error say where."""
        if any(self.server_log(node).exists() for node in self.nodes):
            error.add_note(f"the brokers' logs are kept in {self.keep_logs(Path(tempfile.mkdtemp(prefix='pykafka4-logs-')))}")

    # -- addresses ---------------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of all brokers as clients are told."""
        return ",".join(f"{host}:{port}" for host, port in map(self.address, self.nodes))

    @property
    def admin_bootstrap(self) -> str:
        """`host:port,…` around any proxy; clients that start here stay on this listener."""
        return ",".join(f"{host}:{port}" for host, port in map(self.admin_address, self.nodes))

    def running(self) -> list[int]:
        """The brokers whose process runs now."""
        return [node for node in self.nodes if self.state(node) is State.RUNNING]

    # -- for backends ----------------------------------------------------------------------------------------------------

    def up_on_free_ports(self, prepare: Callable[[], None], timeout: float) -> None:
        """Prepare, launch all brokers and wait until every one serves; other ports are tried when one turns out to be taken."""
        deadline = Deadline(timeout)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                prepare()
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

    def mourn(self, error: BaseException) -> None:
        """Close a cluster that did not come up, and say where its logs are."""
        self.keep_logs_for(error)
        self.close()

    def wait_down(self, node: int, timeout: float) -> None:
        """Until the broker's process is gone."""
        until(lambda: self.state(node) is State.DOWN, timeout, f"broker {node} to end")

    # -- waiting -----------------------------------------------------------------------------------------------------------

    def wait_ready(self, node: int | None = None, timeout: float = READY) -> None:
        """Until `node` (default: every running broker) serves, knows a controller, and is known to all brokers that run."""
        wanted = set(self.running()) if node is None else {node}
        until(lambda: self.ready(wanted), timeout, f"brokers {sorted(wanted)} to serve", forgive=NOT_YET)

    def ready(self, wanted: set[int]) -> bool:
        for node in wanted:
            self.check_alive(node)
        views = {node: self.admin.describe_cluster(node) for node in {*self.running(), *wanted}}
        return all(wanted <= view.brokers and view.controller in view.brokers for view in views.values())

    def wait_fenced(self, node: int, timeout: float = LEADER) -> None:
        """Until no running broker counts `node`, which is down or frozen, as a member of the cluster."""
        until(
            lambda: all(node not in self.admin.describe_cluster(other).brokers for other in self.running()),
            timeout,
            f"broker {node} to be fenced",
            forgive=NOT_YET,
        )

    def wait_full_isr(self, topics: Iterable[str] | None = None, timeout: float = ISR) -> None:
        """Until every running broker says that all partitions of `topics` (default: all) have a leader and all replicas in sync."""
        names = None if topics is None else list(topics)
        short: list[str] = []

        def full() -> bool:
            short[:] = [text for node in self.running() for text in self.admin.out_of_sync(node, names)]
            return not short

        until(full, timeout, lambda: f"full in-sync replicas; the last answer: {', '.join(short[:5]) or 'none'}", forgive=NOT_YET)

    # -- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 3,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        timeout: float = TOPIC,
    ) -> None:
        """Create it and wait until every running broker knows all its leaders; replication factor 3, or as many as there are brokers."""
        factor = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        deadline = Deadline(timeout)
        self.admin.create_topic(name, partitions, factor, configs or {}, deadline.left())
        until(
            lambda: all(len(self.admin.led(node, name)) == partitions for node in self.running()),
            deadline.left(),
            f"every broker to know the leaders of {name}",
            forgive=NOT_YET,
        )

    def delete_topic(self, name: str, timeout: float = TOPIC) -> None:
        """Delete it and wait until no running broker knows it."""
        deadline = Deadline(timeout)
        self.admin.delete_topic(name, deadline.left())
        until(
            lambda: all(not self.admin.knows(node, name) for node in self.running()),
            deadline.left(),
            f"every broker to forget {name}",
            forgive=NOT_YET,
        )

    def add_partitions(self, name: str, total: int, timeout: float = TOPIC) -> None:
        """Raise the partition count to `total` and wait until every running broker knows the new leaders."""
        deadline = Deadline(timeout)
        self.admin.create_partitions(name, total, deadline.left())
        until(
            lambda: all(len(self.admin.led(node, name)) == total for node in self.running()),
            deadline.left(),
            f"every broker to know {total} partitions of {name}",
            forgive=NOT_YET,
        )

    def partitions(self, topic: str) -> dict[int, Partition]:
        """The partitions as a running broker sees them now: leader, epoch, replicas, in-sync replicas."""
        return self.admin.partitions(topic)

    # -- leaders -----------------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader as a running broker sees it now, -1 when there is none."""
        return self.partitions(topic)[partition].leader

    def controller(self, timeout: float = LEADER) -> int:
        """The active controller's node."""
        return until(self.admin.active_controller, timeout, "an active controller", forgive=NOT_YET)

    def wait_leader(self, topic: str, partition: int = 0, other_than: int | None = None, timeout: float = LEADER) -> int:
        """The leader, once all running brokers agree on one that runs and is not `other_than`."""
        return until(
            lambda: self.agreed(topic, partition, other_than),
            timeout,
            f"a leader of {topic}-{partition} other than {other_than}",
            forgive=NOT_YET,
        )

    def agreed(self, topic: str, partition: int, other_than: int | None) -> int | None:
        running = self.running()
        leaders = {self.admin.partitions(topic, node)[partition].leader for node in running}
        leader = leaders.pop() if len(leaders) == 1 else None
        return leader if leader in running and leader != other_than else None

    def move_leader(self, topic: str, partition: int, to: int, timeout: float = LEADER) -> None:
        """Make `to` the leader, without an error for anybody but a stale client: first in the replica list, then elected."""
        deadline = Deadline(timeout)
        replicas = self.partitions(topic)[partition].replicas
        wanted = (to, *[node for node in replicas if node != to])[: len(replicas)]
        self.admin.reassign(topic, partition, wanted, deadline.left())
        until(
            lambda: self.moved(topic, partition, wanted), deadline.left(), f"{topic}-{partition} to have replicas {wanted}", forgive=NOT_YET
        )
        self.admin.elect(topic, partition, deadline.left())
        until(
            lambda: self.agreed(topic, partition, None) == to, deadline.left(), f"broker {to} to lead {topic}-{partition}", forgive=NOT_YET
        )

    def moved(self, topic: str, partition: int, wanted: tuple[int, ...]) -> bool:
        now = self.partitions(topic)[partition]
        return now.replicas == wanted and wanted[0] in now.isr

    # -- the judge ---------------------------------------------------------------------------------------------------------

    def offsets(self, topic: str, timeout: float = TOPIC) -> dict[int, tuple[int, int]]:
        """(earliest, latest) offset of each partition; latest is the high watermark."""
        return judge.offsets(self, topic, Deadline(timeout))

    def log(self, topic: str, timeout: float = TOPIC) -> dict[int, list[LogRecord]]:
        """Every record in the topic now, by partition, read from the leaders without the client under test."""
        return judge.log(self, topic, Deadline(timeout))
