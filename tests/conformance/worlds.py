"""Two clusters for one script: the model and real brokers, both asked with raw requests over sockets, without the client's logic."""

from __future__ import annotations

import itertools
import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from integration.cluster import Cluster
from pykafka4.errors.codes import CODES
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.frame import decode_response, encode_request
from pykafka4.wire.protocol.messages_admin import CreateTopicsRequest, DeleteTopicsRequest
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest

T = TypeVar("T")
LONG_S = 30.0  # seconds for one answer, and for a cluster to settle
PAUSE_S = 0.05


def error(code: int) -> str:
    """The name of an error code."""
    return CODES[code].name if code in CODES else f"UNKNOWN({code})"


def eventually(condition: Callable[[], T | None], what: str) -> T:
    """The first truthy answer."""
    deadline = time.monotonic() + LONG_S
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {LONG_S:g} s for {what}"
        time.sleep(PAUSE_S)


class Line:
    """A blocking connection to one broker."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=LONG_S)
        self.numbers = itertools.count(1)
        self.asked: dict[int, tuple[Any, int]] = {}

    def send(self, message: Any, version: int) -> int:
        number = next(self.numbers)
        self.asked[number] = (type(message), version)
        self.socket.sendall(b"".join(bytes(part) for part in encode_request(message, version, number, "conformance")))
        return number

    def receive(self, number: int, timeout: float = LONG_S) -> Any:
        """The answer to request `number`, which must be the next one; "closed" when the broker ended the connection."""
        self.socket.settimeout(timeout)
        try:
            head = self.read(4)
            frame = self.read(struct.unpack(">i", head)[0])
        except ConnectionError:
            return "closed"
        cls, version = self.asked.pop(number)
        answered, response = decode_response(cls, version, frame)
        assert answered == number
        return response

    def quiet(self, seconds: float) -> bool:
        """Whether nothing comes for so long."""
        self.socket.settimeout(seconds)
        try:
            return not self.socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data

    def close(self) -> None:
        self.socket.close()


class Place(Protocol):
    """What only the cluster itself can do."""

    nodes: tuple[int, ...]

    def address(self, node: int) -> tuple[str, int]:
        """Where a broker listens."""

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Have another broker lead."""

    def controller(self) -> int:
        """The broker without which no leader is elected."""

    def freeze(self, node: int) -> None:
        """The broker copies nothing from now on; it stays in sync for a while."""

    def thaw(self, node: int) -> None:
        """It goes on, and all replicas are in sync again."""

    def prefer(self, topic: str, partition: int, node: int) -> None:
        """`elect` will choose this broker."""

    def elect(self, topic: str, partition: int, node: int) -> None:
        """The preferred broker leads."""

    def stop(self, node: int) -> None:
        """End a broker."""

    def start(self, node: int) -> None:
        """Start it again, and wait until all replicas are in sync."""


class ModelPlace:
    """The model cluster on sockets."""

    def __init__(self, server: ModelServer) -> None:
        self.server, self.nodes = server, tuple(server.cluster.brokers)

    def address(self, node: int) -> tuple[str, int]:
        broker = self.server.cluster.brokers[node]
        return broker.host, broker.port

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        self.server.do(lambda cluster: cluster.move_leader(topic, partition, to))

    def controller(self) -> int:
        return self.server.cluster.controller

    def freeze(self, node: int) -> None:
        self.server.do(lambda cluster: cluster.pause_replication(node, LONG_S))

    def thaw(self, node: int) -> None:
        self.server.do(lambda cluster: cluster.replication.heal())

    def prefer(self, topic: str, partition: int, node: int) -> None:
        """Nothing to prepare."""

    def elect(self, topic: str, partition: int, node: int) -> None:
        self.move_leader(topic, partition, node)

    def stop(self, node: int) -> None:
        self.server.do(lambda cluster: cluster.stop_broker(node))

    def start(self, node: int) -> None:
        self.server.do(lambda cluster: cluster.start_broker(node))


class RealPlace:
    """Real brokers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.nodes = cluster, cluster.nodes

    def address(self, node: int) -> tuple[str, int]:
        return self.cluster.admin_address(node)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        self.cluster.move_leader(topic, partition, to)

    def controller(self) -> int:
        return self.cluster.controller()

    def freeze(self, node: int) -> None:
        self.cluster.freeze(node)

    def thaw(self, node: int) -> None:
        self.cluster.thaw(node)
        self.cluster.wait_full_isr()

    def prefer(self, topic: str, partition: int, node: int) -> None:
        replicas = (node, *[n for n in self.nodes if n != node])
        self.cluster.admin.reassign(topic, partition, replicas, LONG_S)
        eventually(lambda: self.cluster.partitions(topic)[partition].replicas == replicas, f"{topic} to prefer {node}")

    def elect(self, topic: str, partition: int, node: int) -> None:
        self.cluster.admin.elect(topic, partition, LONG_S)

    def stop(self, node: int) -> None:
        self.cluster.stop(node)
        self.cluster.wait_fenced(node)

    def start(self, node: int) -> None:
        self.cluster.start(node)
        self.cluster.wait_full_isr()


class World:
    """What the script asks of a cluster, and what it has observed."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.mark = uuid.uuid4().hex[:8]
        self.lines: dict[int, Line] = {}
        self.opened: list[Line] = []
        self.offered: dict[int, dict[int, int]] = {}
        self.seen: dict[str, Any] = {}
        self.ids: dict[str, uuid.UUID] = {}

    def close(self) -> None:
        for line in self.opened:
            line.close()

    def note(self, step: str, observed: Any) -> None:
        """One observation; the same step twice would hide the first."""
        assert step not in self.seen, step
        self.seen[step] = observed

    # ---- asking

    def line(self, node: int) -> Line:
        """A new connection."""
        self.opened.append(Line(self.place.address(node)))
        return self.opened[-1]

    def version(self, node: int, kind: Any, wanted: int) -> int:
        """`wanted`, or the highest version of these requests that the broker has."""
        if node not in self.offered:
            line = self.line(node)
            told = line.receive(line.send(ApiVersionsRequest(), 0))
            self.offered[node] = {api.api_key: api.max_version for api in told.api_keys}
        return min(wanted, self.offered[node].get(kind.api_key, wanted))

    @property
    def alone(self) -> bool:
        """Whether there is one broker: nothing can be moved, and there are no followers."""
        return len(self.place.nodes) == 1

    def ask(self, node: int, message: Any, version: int) -> Any:
        """The answer over a connection that is kept; "closed" when the broker ended it instead."""
        if node not in self.lines:
            self.lines[node] = self.line(node)
        line = self.lines[node]
        answer = line.receive(line.send(message, self.version(node, type(message), version)))
        if answer == "closed":
            self.lines.pop(node).close()
        return answer

    def metadata(self, node: int, topic: str) -> Any:
        wanted = [MetadataRequest.Topic(topic_id=uuid.UUID(int=0), name=topic)]
        return self.ask(node, MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 12).topics[0]

    # ---- topics

    def name(self, topic: str) -> str:
        return f"{topic}-{self.mark}"

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """A new topic that every broker knows; its real name."""
        name = self.name(topic)
        settings = [CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in (configs or {}).items()]
        row = CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, replication_factor=len(self.place.nodes), assignments=[], configs=settings
        )

        def created() -> bool:
            for node in self.place.nodes:
                answer = self.ask(node, CreateTopicsRequest(topics=[row], timeout_ms=10_000), 7).topics[0]
                if error(answer.error_code) in ("NONE", "TOPIC_ALREADY_EXISTS"):
                    return True
            return False

        eventually(created, f"{name} to be created")

        def led() -> bool:
            # Old brokers answer that a topic exists while they delete its predecessor of the same name; afterwards it is not there.
            if self.metadata(self.place.nodes[0], name).error_code:
                created()
            return all(self.led(node, name) == partitions for node in self.place.nodes)

        eventually(led, f"{name} to be known")
        for partition in range(partitions):
            leader = self.leader(name, partition)
            eventually(lambda leader=leader, p=partition: self.knows_its_end(leader, name, p), f"{leader} to lead {name}")  # type: ignore[misc]
        self.ids[name] = self.metadata(self.place.nodes[0], name).topic_id
        return name

    def led(self, node: int, name: str) -> int:
        found = self.metadata(node, name)
        return sum(p.leader_id >= 0 and len(p.isr_nodes) == len(p.replica_nodes) for p in found.partitions) if not found.error_code else -1

    def delete(self, name: str) -> None:
        """Deleted, and no broker knows it."""
        row = DeleteTopicsRequest.Topic(name=name, topic_id=uuid.UUID(int=0))
        named = self.version(self.place.nodes[0], DeleteTopicsRequest, 6) < 6
        topics = {"topic_names": [name]} if named else {"topics": [row]}
        eventually(
            lambda: any(
                error(self.ask(node, DeleteTopicsRequest(**topics, timeout_ms=10_000), 6).responses[0].error_code)
                in ("NONE", "UNKNOWN_TOPIC_OR_PARTITION")
                for node in self.place.nodes
            ),
            f"{name} to be deleted",
        )
        eventually(lambda: all(self.metadata(node, name).error_code for node in self.place.nodes), f"{name} to be forgotten")

    def leader(self, name: str, partition: int = 0) -> int:
        found = self.metadata(self.place.nodes[0], name)
        return int(next(p.leader_id for p in found.partitions if p.partition_index == partition))

    def epoch(self, name: str, partition: int = 0) -> int:
        found = self.metadata(self.place.nodes[0], name)
        return int(next(p.leader_epoch for p in found.partitions if p.partition_index == partition))

    def follower(self, name: str, partition: int = 0) -> int:
        return next(node for node in self.place.nodes if node != self.leader(name, partition))

    def move(self, name: str, partition: int = 0) -> None:
        """Another broker leads, every broker knows it, and its followers have fetched from it."""
        to = self.follower(name, partition)
        self.place.move_leader(name, partition, to)
        eventually(
            lambda: all(self.metadata(node, name).partitions[partition].leader_id == to for node in self.place.nodes),
            f"{to} to lead {name}",
        )
        eventually(lambda: self.knows_its_end(to, name, partition), f"{to} to know the end of {name}")

    def knows_its_end(self, node: int, name: str, partition: int) -> bool:
        row = ListOffsetsRequest.Topic.Partition(partition_index=partition, timestamp=-1)
        message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=name, partitions=[row])])
        return bool(self.ask(node, message, 8).topics[0].partitions[0].error_code == 0)

    def coordinator(self, group: str, *, transactional: bool = False) -> int:
        """The coordinator of a group or a transactional id, once it is one."""

        several = self.version(self.place.nodes[0], FindCoordinatorRequest, 4) >= 4
        keys = {"key": "", "coordinator_keys": [group]} if several else {"key": group, "coordinator_keys": []}

        def found() -> int | None:
            answer = self.ask(self.place.nodes[0], FindCoordinatorRequest(key_type=int(transactional), **keys), 4)
            row = answer.coordinators[0] if several else answer
            return int(row.node_id) if not row.error_code else None

        return eventually(found, f"a coordinator of {group}")
