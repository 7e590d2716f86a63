"""Model client. A minimal client of the model cluster: it sends requests and decodes the answers."""

from __future__ import annotations

import struct
from typing import Any

from pykafka4.testing import ModelCluster
from pykafka4.wire.protocol.frame import decode_response, encode_request
from pykafka4.wire.protocol.messages_fetch import FetchRequest
from pykafka4.wire.protocol.messages_produce import ProduceRequest


class ModelClient:
    """One connection to one broker of a model cluster."""

    def __init__(self, cluster: ModelCluster, node: int = 1) -> None:
        self.cluster = cluster
        self.closed = False
        self.bytes = bytearray()
        self.asked: dict[int, tuple[Any, int]] = {}
        self.answers: dict[int, Any] = {}
        self.order: list[int] = []
        session = cluster.accept(node, self)
        assert session is not None, "connection refused"
        self.session = session

    # Front

    def send(self, data: bytes) -> None:
        self.bytes += data
        while len(self.bytes) >= 4:
            (size,) = struct.unpack_from(">i", self.bytes)
            if len(self.bytes) < 4 + size:
                return
            frame = bytes(self.bytes[4 : 4 + size])
            del self.bytes[: 4 + size]
            (number,) = struct.unpack_from(">i", frame)
            cls, version = self.asked[number]
            self.answers[number] = decode_response(cls, version, frame)[1]
            self.order.append(number)

    def close(self) -> None:
        self.closed = True

    # asking

    def ask(self, message: Any, version: int | None = None) -> int:
        """Send a request (in its highest version that the cluster speaks); its number in `answers`."""
        number = len(self.asked)
        spoken = min(message.versions.hi, self.cluster.versions[message.api_key][1]) if version is None else version
        self.asked[number] = (type(message), spoken)
        self.session.receive(b"".join(bytes(part) for part in encode_request(message, spoken, number, "client")))
        return number

    def call(self, message: Any, version: int | None = None) -> Any:
        """Send a request and give its answer, which must be here at once."""
        number = self.ask(message, version)
        assert number in self.answers, f"no answer to {message}"
        return self.answers[number]


def produce_request(cluster: ModelCluster, topic: str, partition: int, data: bytes, *, acks: int = -1) -> ProduceRequest:
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    entry = ProduceRequest.Topic(name=topic, topic_id=cluster.topics[topic].id, partition_data=[part])
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[entry])


def fetch_request(cluster: ModelCluster, topic: str, partition: int, offset: int, **options: Any) -> FetchRequest:
    part = FetchRequest.Topic.Partition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=options.pop("partition_max_bytes", 1 << 20),
        current_leader_epoch=options.pop("current_leader_epoch", -1),
        last_fetched_epoch=options.pop("last_fetched_epoch", -1),
    )
    entry = FetchRequest.Topic(topic=topic, topic_id=cluster.topics[topic].id, partitions=[part])
    return FetchRequest(**{"max_wait_ms": 500, "min_bytes": 1, "topics": [entry], "forgotten_topics_data": [], **options})
