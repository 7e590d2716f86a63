"""Sends requests and orders to brokers, over one blocking connection to each broker's admin listener. Invariant: every request has a
deadline, and an order that brokers refuse raises the error by name.

The code is plain and slow on purpose: the tests rely on it, so it shares only the message formats and the errors with the client.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from integration.seam import Address, Brokers
from integration.waiting import Deadline, until
from pykafka4.errors import BrokerError, ConnectionLost, KafkaError, UnsupportedVersion, broker_error
from pykafka4.wire.protocol.frame import decode_response, encode_request
from pykafka4.wire.protocol.messages_admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
)
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, MetadataRequest, MetadataResponse
from pykafka4.wire.protocol.messages_replicas import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from pykafka4.wire.protocol.schema import Request, ResponseT

__all__ = ["Admin", "ClusterView", "Connection", "Partition"]

T = TypeVar("T")

CLIENT_ID = "integration"
ANSWER_S = 10.0  # seconds for one answer: a broker that is starting on a busy machine is slow
MOST_ANSWER_BYTES = 256 << 20
CONTROLLERS = 2  # the endpoint type of DescribeCluster that asks controllers
PREFERRED = 0
WITHOUT_CREATION = 4  # the first version of Metadata that can name a topic without creating it
TOPICS_AS_ROWS = 6  # the first version of DeleteTopics with a structure for each topic
UNKNOWN_TOPIC, ALREADY_EXISTS, ELECTION_NOT_NEEDED = 3, 36, 84


@attrs.frozen
class ClusterView:
    """The cluster in the answer of one broker, without fenced brokers."""

    brokers: frozenset[int]
    controller: int
    cluster_id: str


@attrs.frozen
class Partition:
    """`leader` is -1 if there is none."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error: int = 0

    def whole(self, alive: set[int]) -> bool:
        return self.leader in alive and set(self.isr) == set(self.replicas) <= alive


class Connection:
    """A blocking connection, which carries one request at a time, and none after the first failure."""

    def __init__(self, address: Address, timeout: float = ANSWER_S) -> None:
        self.address, self.broken = address, False
        self.numbers = itertools.count(1)
        deadline = Deadline(timeout)
        self.socket = socket.create_connection(address, timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            told = self.exchange(ApiVersionsRequest(), 0, deadline)  # the one version that every broker has
        except BaseException:
            self.close()
            raise
        self.offered = {api.api_key: (api.min_version, api.max_version) for api in told.api_keys}

    def request(self, message: Request[ResponseT], timeout: float = ANSWER_S, highest: int | None = None) -> ResponseT:
        deadline = Deadline(timeout)
        return self.exchange(message, self.version(type(message), highest), deadline)

    def usable(self) -> bool:
        """Bytes without a request, or the end of the stream, show that the connection ends."""
        if self.broken:
            return False
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def version(self, kind: type[Request[Any]], highest: int | None = None) -> int:
        """The highest version that both sides know. Raises UnsupportedVersion if there is none."""
        ours = kind.versions
        low, high = self.offered.get(kind.api_key, (0, -1))
        version = min(high, ours[1], ours[1] if highest is None else highest)
        if version < max(low, ours[0]):
            raise UnsupportedVersion(
                f"{self.address}: {kind.__name__} is offered in versions {low} to {high}, known are {ours[0]} to {ours[1]}"
            )
        return version

    def exchange(self, message: Request[ResponseT], version: int, deadline: Deadline) -> ResponseT:
        number = next(self.numbers)
        frame = b"".join(encode_request(message, version, number, CLIENT_ID))
        try:
            self.socket.settimeout(max(0.001, deadline.left()))
            self.socket.sendall(frame)
            answered, response = decode_response(type(message), version, self.frame(deadline))
            if answered != number:
                raise ConnectionLost(f"{self.address} answered request {answered} where {number} was asked")
        except BaseException:
            self.broken = True  # the remaining bytes of this answer would be mistaken for the next answer
            raise
        return response

    def frame(self, deadline: Deadline) -> bytes:
        (size,) = struct.unpack(">i", self.read(4, deadline))
        if not 4 <= size <= MOST_ANSWER_BYTES:
            raise ConnectionLost(f"{self.address} sent a frame of {size} bytes")
        return self.read(size, deadline)

    def read(self, size: int, deadline: Deadline) -> bytes:
        data = bytearray(size)
        view, at = memoryview(data), 0
        while at < size:
            self.socket.settimeout(max(0.001, deadline.left()))
            got = self.socket.recv_into(view[at:])
            if not got:
                raise ConnectionLost(f"{self.address} closed the connection")
            at += got
        return bytes(data)

    def close(self) -> None:
        self.broken = True
        self.socket.close()


class Admin:
    """Orders go over the listener that is never proxied. Any thread may use this object."""

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.lock = threading.Lock()
        self.turns: dict[Address, threading.Lock] = {}
        self.connections: dict[Address, Connection] = {}

    def close(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.connections.clear()

    # -- asking ------------------------------------------------------------------------------------------------------------

    def ask(self, node: int, message: Request[ResponseT], timeout: float = ANSWER_S, highest: int | None = None) -> ResponseT:
        return self.ask_address(self.brokers.admin_address(node), message, timeout, highest)

    def ask_address(
        self, address: Address, message: Request[ResponseT], timeout: float = ANSWER_S, highest: int | None = None
    ) -> ResponseT:
        deadline = Deadline(timeout)
        with self.turn(address, timeout):
            return self.connection(address, deadline.left()).request(message, deadline.left(), highest)

    def version(self, node: int, kind: type[Request[Any]], timeout: float = ANSWER_S) -> int:
        deadline = Deadline(timeout)
        address = self.brokers.admin_address(node)
        with self.turn(address, timeout):
            return self.connection(address, deadline.left()).version(kind)

    def of_any(self, question: Callable[[int], T], what: str) -> T:
        """The answer of the first running broker that gives one. Raises ConnectionLost if none does."""
        failures: list[str] = []
        for node in self.brokers.running():
            try:
                return question(node)
            except (OSError, KafkaError) as error:
                failures.append(f"broker {node}: {error}")
        raise ConnectionLost(f"no running broker says {what}: {'; '.join(failures) or 'none runs'}")

    @contextlib.contextmanager
    def turn(self, address: Address, timeout: float) -> Iterator[None]:
        with self.lock:
            turn = self.turns.setdefault(address, threading.Lock())
        if not turn.acquire(timeout=timeout):
            raise TimeoutError(f"{address}: another thread has been waiting for its answer for {timeout:g} s")
        try:
            yield
        finally:
            turn.release()

    def connection(self, address: Address, timeout: float) -> Connection:
        known = self.connections.get(address)
        if known is not None and known.usable():
            return known
        if known is not None:
            known.close()
        self.connections[address] = Connection(address, timeout)
        return self.connections[address]

    def order(self, message: Request[ResponseT], judge: Callable[[ResponseT, bool], None], timeout: float) -> None:
        """Send `message` to the controller until `judge(response, again)` raises no error.

        Retriable codes and lost connections lead to another attempt; then `again` is true.
        """
        attempts = itertools.count()

        def attempt() -> bool:
            again = next(attempts) > 0
            try:
                judge(self.ask(self.describe_any().controller, message), again)
            except UnsupportedVersion as error:
                raise Refused(error) from error
            except BrokerError as error:
                if error.retriable:
                    raise ConnectionLost(str(error)) from error
                raise Refused(error) from error
            return True

        try:
            until(attempt, timeout, f"the controller to carry out {type(message).__name__}", forgive=(OSError, KafkaError))
        except Refused as refused:
            raise refused.error from None

    # -- the cluster -------------------------------------------------------------------------------------------------------

    def describe_cluster(self, node: int) -> ClusterView:
        try:
            return view_of(self.ask(node, DescribeClusterRequest()))
        except UnsupportedVersion:  # a broker before 2.8
            return view_of_metadata(self.ask(node, MetadataRequest(topics=[])))

    def describe_any(self) -> ClusterView:
        return self.of_any(self.describe_cluster, "what the cluster is")

    def active_controller(self) -> int | None:
        """The controller that a majority of all nodes names; None while there is none."""
        votes: list[int] = []
        for node in self.brokers.running():
            with contextlib.suppress(OSError, KafkaError):
                votes.append(self.vote(node))
        return next((node for node in votes if node > 0 and votes.count(node) * 2 > len(self.brokers.nodes)), None)

    def vote(self, node: int) -> int:
        """A controller gets the request at its controller listener."""
        address = self.brokers.controller_address(node)
        if address == self.brokers.admin_address(node):
            return self.describe_cluster(node).controller
        return view_of(self.ask_address(address, DescribeClusterRequest(endpoint_type=CONTROLLERS))).controller

    # -- topics ------------------------------------------------------------------------------------------------------------

    def metadata(self, node: int | None, topics: list[str] | None) -> MetadataResponse:
        """The metadata of `topics` (None: all) from `node` (None: any running broker). The request creates no topic."""
        if node is None:
            return self.of_any(lambda other: self.metadata(other, topics), "what the topics are")
        if topics is not None and self.version(node, MetadataRequest) < WITHOUT_CREATION:
            return narrowed(self.ask(node, MetadataRequest(topics=None)), topics)
        wanted = None if topics is None else [MetadataRequest.Topic(name=name) for name in topics]
        return self.ask(node, MetadataRequest(topics=wanted, allow_auto_topic_creation=topics is None))

    def partitions(self, topic: str, node: int | None = None) -> dict[int, Partition]:
        (answer,) = self.metadata(node, [topic]).topics
        check(answer.error_code, f"topic {topic}")
        return {row.partition_index: partition_of(row) for row in answer.partitions}

    def knows(self, node: int, topic: str) -> bool:
        (answer,) = self.metadata(node, [topic]).topics
        return answer.error_code != UNKNOWN_TOPIC

    def led(self, node: int, topic: str) -> list[int]:
        """The partitions of `topic` that have a leader, according to `node`."""
        return [index for index, row in self.partitions(topic, node).items() if row.leader >= 0 and row.error == 0]

    def out_of_sync(self, node: int, topics: list[str] | None) -> list[str]:
        """The partitions that have no leader, or fewer replicas in sync than assigned, according to `node`.

        A replica whose process does not run does not count as in sync, although brokers count it until its session ends.
        """
        answer = self.metadata(node, topics)
        alive = {broker.node_id for broker in answer.brokers} & set(self.brokers.running())
        missing = [f"{topic.name}: error {topic.error_code}" for topic in answer.topics if topic.error_code]
        rows = [(f"{topic.name}-{row.partition_index}", partition_of(row)) for topic in answer.topics for row in topic.partitions]
        return missing + [f"{name} {row}" for name, row in rows if not row.whole(alive)]

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str], timeout: float) -> None:
        settings = [CreateTopicsRequest.Topic.Config(name=key, value=value) for key, value in configs.items()]
        topic = CreateTopicsRequest.Topic(
            name=name, num_partitions=partitions, replication_factor=replication_factor, assignments=[], configs=settings
        )

        def judge(response: Any, again: bool) -> None:
            row = response.topics[0]
            if not (again and row.error_code == ALREADY_EXISTS):  # an earlier attempt has created the topic, and its response was lost
                check(row.error_code, f"create topic {name}", row.error_message)

        self.order(CreateTopicsRequest(topics=[topic], timeout_ms=int(ANSWER_S * 500)), judge, timeout)

    def delete_topic(self, name: str, timeout: float) -> None:
        def judge(response: Any, again: bool) -> None:
            row = response.responses[0]
            if row.error_code != UNKNOWN_TOPIC:
                check(row.error_code, f"delete topic {name}", row.error_message)
            elif not again:  # final: other brokers may not know the topic yet, but the controller does
                raise Refused(broker_error(row.error_code, f"delete topic {name}", row.error_message))

        version = self.of_any(lambda node: self.version(node, DeleteTopicsRequest), "how topics are deleted")
        row = {"topics": [DeleteTopicsRequest.Topic(name=name)]} if version >= TOPICS_AS_ROWS else {"topic_names": [name]}
        self.order(DeleteTopicsRequest(**row, timeout_ms=int(ANSWER_S * 500)), judge, timeout)

    def create_partitions(self, name: str, total: int, timeout: float) -> None:
        topic = CreatePartitionsRequest.Topic(name=name, count=total, assignments=None)

        def judge(response: Any, _again: bool) -> None:
            row = response.results[0]
            check(row.error_code, f"raise {name} to {total} partitions", row.error_message)

        self.order(CreatePartitionsRequest(topics=[topic], timeout_ms=int(ANSWER_S * 500)), judge, timeout)

    # -- leaders -----------------------------------------------------------------------------------------------------------

    def reassign(self, topic: str, partition: int, replicas: tuple[int, ...], timeout: float) -> None:
        row = AlterPartitionReassignmentsRequest.Topic.Partition(partition_index=partition, replicas=list(replicas))
        wanted = AlterPartitionReassignmentsRequest.Topic(name=topic, partitions=[row])

        def judge(response: Any, _again: bool) -> None:
            check(response.error_code, f"reassign {topic}-{partition}", response.error_message)
            for told in (told for answer in response.responses for told in answer.partitions):
                check(told.error_code, f"reassign {topic}-{partition} to {replicas}", told.error_message)

        self.order(AlterPartitionReassignmentsRequest(topics=[wanted], timeout_ms=int(ANSWER_S * 500)), judge, timeout)

    def elect(self, topic: str, partition: int, timeout: float) -> None:
        """Without effect if the first replica leads already."""
        wanted = ElectLeadersRequest.Topic(topic=topic, partitions=[partition])

        def judge(response: Any, _again: bool) -> None:
            check(response.error_code, f"elect a leader of {topic}-{partition}")
            for told in (told for answer in response.replica_election_results for told in answer.partition_result):
                if told.error_code != ELECTION_NOT_NEEDED:
                    check(told.error_code, f"elect a leader of {topic}-{partition}", told.error_message)

        self.order(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=[wanted], timeout_ms=int(ANSWER_S * 500)), judge, timeout)


class Refused(Exception):
    """Wraps a final error of an order, because the wait for the order forgives errors of brokers."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


def check(code: int, what: str, detail: str | None = None) -> None:
    if code:
        raise broker_error(code, what, detail)


def view_of(answer: Any) -> ClusterView:
    check(answer.error_code, "describe the cluster", answer.error_message)
    return ClusterView(frozenset(broker.broker_id for broker in answer.brokers), answer.controller_id, answer.cluster_id)


def view_of_metadata(answer: MetadataResponse) -> ClusterView:
    return ClusterView(frozenset(broker.node_id for broker in answer.brokers), answer.controller_id, answer.cluster_id or "")


def narrowed(answer: MetadataResponse, topics: list[str]) -> MetadataResponse:
    """A topic that the answer lacks becomes UNKNOWN_TOPIC."""
    told = {topic.name: topic for topic in answer.topics}
    answer.topics = [told.get(name) or MetadataResponse.Topic(error_code=UNKNOWN_TOPIC, name=name, partitions=[]) for name in topics]
    return answer


def partition_of(row: MetadataResponse.Topic.Partition) -> Partition:
    return Partition(row.leader_id, row.leader_epoch, tuple(row.replica_nodes), tuple(row.isr_nodes), row.error_code)
