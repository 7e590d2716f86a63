"""Gives tests a cluster of real brokers. Invariant: a backend runs the brokers (`integration.seam`), and facts about them come from their
own answers.

A backend starts, stops and finds brokers; `integration.backends` lists the backends. All methods here use only these operations and the
brokers' answers, so every backend has them.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from integration.admin import Admin, Partition
from integration.judge import reader
from integration.judge.reader import Committed, LogRecord
from integration.seam import READY_S, Brokers, PortTaken, State, Unsupported, died
from integration.security.options import for_java, for_librdkafka
from integration.security.settings import Mechanism
from integration.waiting import Deadline, until
from pykafka4.errors import KafkaError

if TYPE_CHECKING:
    from integration.access import Access
    from integration.security.certificates import Certificate

__all__ = ["NOT_YET", "Cluster", "LogRecord", "State", "Unsupported"]

T = TypeVar("T")

ISR_S, LEADER_S, TOPIC_S = 60.0, 60.0, 60.0
NOT_YET = (OSError, KafkaError)
ATTEMPTS = 3


class Cluster(Brokers):
    """As a context manager: up on entry, everything gone on exit."""

    start_timeout: ClassVar[float] = READY_S  # seconds: the default timeout of `start`
    ready_after = 0.0  # seconds that `up` took on entry

    @functools.cached_property
    def admin(self) -> Admin:
        return Admin(self)

    @functools.cached_property
    def access(self) -> Access:
        """Users, rights and certificates; RuntimeError where clients need none."""
        from integration.access import Access  # only here: it needs trustme, which the offline tests lack, and they import this module

        if self.security is None:
            raise RuntimeError("this cluster was made without `security`")
        return Access(self, self.admin, self.security)

    def client_security(self, user: str | None = None, mechanism: Mechanism | None = None, password: str | None = None) -> dict[str, Any]:
        """The options besides `bootstrap_servers`; empty where the brokers demand nothing."""
        return {} if self.security is None else self.access.options(user, mechanism, password)

    @property
    def client(self) -> dict[str, Any]:
        """The options of a pykafka4 client: `Producer(**cluster.client)`."""
        return {"bootstrap_servers": self.bootstrap, **self.client_security()}

    @property
    def librdkafka(self) -> dict[str, Any]:
        """The options of a confluent-kafka client: `confluent_kafka.Producer(cluster.librdkafka)`."""
        return for_librdkafka(self.client)

    @property
    def java(self) -> dict[str, str]:
        """The properties of a Java client besides `bootstrap.servers`."""
        return {} if self.security is None else for_java(self.client_security())

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

    def close(self) -> None:
        """Remove all brokers without a clean stop, for which the last one would need a quorum. A second call does nothing."""
        self.admin.close()

    def start(self, node: int, timeout: float | None = None) -> None:
        """Wait until the broker serves. The start waits for a port that another process has for a moment."""
        if self.state(node) is not State.DOWN:
            raise RuntimeError(f"broker {node} is {self.state(node).value}; start is for one that is down")
        deadline = Deadline(self.start_timeout if timeout is None else timeout)

        def served() -> bool:
            self.launch(node)
            self.wait_ready(node, timeout=deadline.left())
            return True

        until(served, deadline.left(), f"the ports of broker {node} to be free", forgive=(PortTaken,))

    def restart(self, node: int, timeout: float = READY_S) -> None:
        deadline = Deadline(timeout)
        self.stop(node, timeout=min(30.0, deadline.left()))
        self.start(node, timeout=deadline.left())

    def restart_with(self, node: int, certificate: Certificate, timeout: float = READY_S) -> None:
        """`access.replace_certificate` needs no restart."""
        deadline = Deadline(timeout)
        self.stop(node, timeout=min(30.0, deadline.left()))
        self.put_keystore(node, certificate.keystore)
        self.start(node, timeout=deadline.left())

    def start_all(self, timeout: float = READY_S) -> None:
        """Start all brokers that are down at once, because one of three alone has no quorum; wait until all running brokers serve."""
        for node in self.nodes:
            if self.state(node) is State.DOWN:
                self.launch(node)
        self.wait_ready(timeout=timeout)

    def broken(self) -> list[str]:
        """A line for each broker that a test left down or frozen."""
        states = {node: self.state(node) for node in self.nodes}
        return [f"broker {node} is {state.value}" for node, state in states.items() if state is not State.RUNNING]

    def heal(self, timeout: float = READY_S) -> None:
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
        if any(self.server_log(node).exists() for node in self.nodes):
            error.add_note(f"the brokers' logs are kept in {self.keep_logs(Path(tempfile.mkdtemp(prefix='pykafka4-logs-')))}")

    # -- addresses ---------------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """`host:port,…` of all brokers, as they advertise themselves to clients."""
        return ",".join(f"{host}:{port}" for host, port in map(self.address, self.nodes))

    # -- for backends ----------------------------------------------------------------------------------------------------

    def up_on_free_ports(self, prepare: Callable[[], None], timeout: float) -> None:
        """If a port turns out to be taken, try again with other ports."""
        deadline = Deadline(timeout)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                prepare()
                for node in self.nodes:
                    self.launch(node)
                self.begin(deadline)
                return
            except PortTaken:
                self.close()
                if attempt == ATTEMPTS:
                    raise
            except BaseException as error:
                self.close_failed(error)
                raise

    def begin(self, deadline: Deadline) -> None:
        self.wait_ready(timeout=deadline.left())
        if self.security is not None:
            self.access.begin(deadline.left())

    def demands(self, usual: Mapping[str, str], keystore: str, host: str = "localhost") -> dict[str, str]:
        """A broker's settings for `security`, in addition to the `usual` settings.

        `keystore` is the broker's path of the file that `put_keystore` writes; `host` is the name by which clients reach the broker.
        """
        if self.security is None:
            return {}
        return self.security.settings(usual, keystore, self.access.authority.pem.decode(), self.secured_listeners, host)

    def keystores(self) -> dict[int, bytes]:
        """Call this once all brokers have an address. Also writes the authority's certificate for clients."""
        if self.security is None:
            return {}
        self.access.authority.write(self.private_folder())
        return {node: self.access.certificate(node).keystore for node in self.nodes}

    def close_failed(self, error: BaseException) -> None:
        self.keep_logs_for(error)
        self.close()

    def stopped_by(self, node: int, ask: Callable[[], object], timeout: float) -> None:
        """A broker that has not ended after `timeout` seconds is killed, and an error is raised."""
        self.thaw(node)
        ask()
        try:
            self.wait_down(node, timeout)
        except AssertionError:
            self.kill(node)
            raise

    def check_alive(self, node: int) -> None:
        if self.state(node) is State.DOWN:
            raise died(f"broker {node}", self.last_words(node))

    def last_words(self, node: int) -> str:
        return self.server_log(node).read_text(errors="replace")

    def wait_down(self, node: int, timeout: float) -> None:
        until(lambda: self.state(node) is State.DOWN, timeout, f"broker {node} to end")

    # -- waiting -----------------------------------------------------------------------------------------------------------

    def wait(self, condition: Callable[[], T | None], timeout: float, what: str | Callable[[], str]) -> T:
        """An error of a broker that does not answer counts as "not yet"."""
        return until(condition, timeout, what, forgive=NOT_YET)

    def wait_everywhere(self, condition: Callable[[int], bool], timeout: float, what: str) -> None:
        self.wait(lambda: all(condition(node) for node in self.running()), timeout, what)

    def wait_ready(self, node: int | None = None, timeout: float = READY_S) -> None:
        """Wait until `node` (None: every running broker) serves, knows a controller, and is known to all running brokers."""
        wanted = set(self.running()) if node is None else {node}
        self.wait(lambda: self.ready(wanted), timeout, f"brokers {sorted(wanted)} to serve")

    def ready(self, wanted: set[int]) -> bool:
        for node in wanted:
            self.check_alive(node)
        views = {node: self.admin.describe_cluster(node) for node in {*self.running(), *wanted}}
        return all(wanted <= view.brokers and view.controller in view.brokers for view in views.values())

    def wait_fenced(self, node: int, timeout: float = LEADER_S) -> None:
        """Wait until no running broker counts `node`, which is down or frozen, as a member of the cluster."""
        self.wait_everywhere(lambda other: node not in self.admin.describe_cluster(other).brokers, timeout, f"broker {node} to be fenced")

    def wait_full_isr(self, topics: Iterable[str] | None = None, timeout: float = ISR_S) -> None:
        """Wait until every running broker says that all partitions of `topics` (None: all) have a leader and all replicas in sync."""
        names = None if topics is None else list(topics)
        short: list[str] = []

        def full() -> bool:
            short[:] = [text for node in self.running() for text in self.admin.out_of_sync(node, names)]
            return not short

        self.wait(full, timeout, lambda: f"full in-sync replicas; the last answer: {', '.join(short[:5]) or 'none'}")

    # -- topics ------------------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int = 3,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        timeout: float = TOPIC_S,
    ) -> None:
        """Create a topic, and wait until every running broker knows all its leaders.

        `replication_factor`: by default 3, or the number of brokers if that is lower.
        """
        factor = min(3, len(self.nodes)) if replication_factor is None else replication_factor
        deadline = Deadline(timeout)
        self.admin.create_topic(name, partitions, factor, configs or {}, deadline.left())
        self.wait_led(name, partitions, deadline)

    def delete_topic(self, name: str, timeout: float = TOPIC_S) -> None:
        """Wait until no running broker knows the topic."""
        deadline = Deadline(timeout)
        self.admin.delete_topic(name, deadline.left())
        self.wait_everywhere(lambda node: not self.admin.knows(node, name), deadline.left(), f"every broker to forget {name}")

    def add_partitions(self, name: str, total: int, timeout: float = TOPIC_S) -> None:
        """Wait until every running broker knows the new leaders."""
        deadline = Deadline(timeout)
        self.admin.create_partitions(name, total, deadline.left())
        self.wait_led(name, total, deadline)

    def wait_led(self, name: str, count: int, deadline: Deadline) -> None:
        self.wait_everywhere(
            lambda node: len(self.admin.led(node, name)) == count,
            deadline.left(),
            f"every broker to know the leaders of {count} partitions of {name}",
        )

    def partitions(self, topic: str) -> dict[int, Partition]:
        return self.admin.partitions(topic)

    # -- leaders -----------------------------------------------------------------------------------------------------------

    def leader(self, topic: str, partition: int = 0) -> int:
        """The leader according to a running broker; -1 if there is none."""
        return self.partitions(topic)[partition].leader

    def controller(self, timeout: float = LEADER_S) -> int:
        return self.wait(self.admin.active_controller, timeout, "an active controller")

    def wait_leader(self, topic: str, partition: int = 0, other_than: int | None = None, timeout: float = LEADER_S) -> int:
        """Wait until all running brokers agree on a leader that runs and is not `other_than`."""
        what = f"a leader of {topic}-{partition} other than {other_than}"
        return self.wait(lambda: self.agreed(topic, partition, other_than), timeout, what)

    def agreed(self, topic: str, partition: int, other_than: int | None) -> int | None:
        running = self.running()
        leaders = {self.admin.partitions(topic, node)[partition].leader for node in running}
        leader = leaders.pop() if len(leaders) == 1 else None
        return leader if leader in running and leader != other_than else None

    def move_leader(self, topic: str, partition: int, to: int, timeout: float = LEADER_S) -> None:
        """Put `to` first in the replica list, then elect it. Only clients with old metadata get an error."""
        deadline = Deadline(timeout)
        replicas = self.partitions(topic)[partition].replicas
        wanted = (to, *[node for node in replicas if node != to])[: len(replicas)]
        self.prefer(topic, partition, wanted, deadline.left())
        self.admin.elect(topic, partition, deadline.left())
        self.wait(lambda: self.agreed(topic, partition, None) == to, deadline.left(), f"broker {to} to lead {topic}-{partition}")

    def prefer(self, topic: str, partition: int, replicas: tuple[int, ...], timeout: float = LEADER_S) -> None:
        """Wait until the first of `replicas` is in sync. A leader among them stays the leader."""
        deadline = Deadline(timeout)
        self.admin.reassign(topic, partition, replicas, deadline.left())
        what = f"{topic}-{partition} to have replicas {replicas}"
        self.wait(lambda: self.moved(topic, partition, replicas), deadline.left(), what)

    def moved(self, topic: str, partition: int, wanted: tuple[int, ...]) -> bool:
        now = self.partitions(topic)[partition]
        return now.replicas == wanted and wanted[0] in now.isr

    # -- the judge ---------------------------------------------------------------------------------------------------------

    def offsets(self, topic: str, timeout: float = TOPIC_S) -> dict[int, tuple[int, int]]:
        """(earliest, latest) of each partition; latest is the high watermark."""
        return reader.offsets(self, topic, Deadline(timeout))

    def log(self, topic: str, timeout: float = TOPIC_S) -> dict[int, list[LogRecord]]:
        """Every record in the topic now, by partition, read from the leaders without the client under test."""
        return reader.log(self, topic, Deadline(timeout))

    def committed(self, topic: str, timeout: float = TOPIC_S) -> dict[int, Committed]:
        """`log` without records of aborted and open transactions."""
        return reader.committed(self, topic, Deadline(timeout))
