"""Scripted brokers. They read what the machines write and answer it as the test says."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

import attrs

from pykafka4.core import Failed, Machine, Outcome, Reply, Request
from pykafka4.core.engine import Engine, Turn
from pykafka4.errors import ConnectionLost, KafkaError
from pykafka4.options.config import ClientConfig
from pykafka4.wire.protocol import declared  # noqa: F401  # importing it fills REQUESTS
from pykafka4.wire.protocol.fields import NO_UUID
from pykafka4.wire.protocol.frame import RequestHeader, decode_request, encode_response
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from pykafka4.wire.protocol.schema import REQUESTS

FAR = 1e9
REFUSED = ConnectionLost("127.0.0.1:9092: connection refused")


def config(**options: Any) -> ClientConfig:
    return ClientConfig.parse({"bootstrap_servers": "b1:9092,b2:9092", **options})


@attrs.define(eq=False)
class PlainRequest(Request):
    """A request of no machine."""

    answers: Any = attrs.field(kw_only=True)

    def on_reply(self, now: float, outcome: Outcome) -> None:
        self.answers(now, outcome)


class EventList(list[object]):
    """An `EventSink` that keeps all events."""

    def emit(self, event: object) -> None:
        self.append(event)


class Answers:
    """The outcomes of a `PlainRequest`."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []

    def __call__(self, now: float, outcome: Outcome) -> None:
        self.outcomes.append(outcome)

    @property
    def only(self) -> Outcome:
        assert len(self.outcomes) == 1
        return self.outcomes[0]

    @property
    def failure(self) -> Failed:
        assert isinstance(self.only, Failed)
        return self.only

    @property
    def reply(self) -> Reply:
        assert isinstance(self.only, Reply)
        return self.only


def request(node: int = 1, message: Any = None, deadline: float = FAR, **options: Any) -> tuple[Request, Answers]:
    answers = Answers()
    return PlainRequest(node, message or MetadataRequest(topics=[]), deadline, answers=answers, **options), answers


def read(buffers: Iterable[Any]) -> list[tuple[RequestHeader, Any]]:
    """The requests in what was written."""
    data, found = b"".join(map(bytes, buffers)), []
    while data:
        size = int.from_bytes(data[:4], "big")
        found.append(decode_request(data[4 : 4 + size]))
        data = data[4 + size :]
    return found


def frame(response: Any, version: int, correlation_id: int) -> bytes:
    return b"".join(map(bytes, encode_response(response, version, correlation_id)))[4:]


def versions(**limits: tuple[int, int] | None) -> ApiVersionsResponse:
    """What a broker speaks: all that we do, but for `limits` by request name (`Produce=(0, 5)`, None: not at all)."""
    apis = []
    for key, cls in REQUESTS.items():
        low_high = limits.get(cls.__name__.removesuffix("Request"), tuple(cls.versions))
        if low_high is not None:
            apis.append(ApiVersionsResponse.Api(api_key=key, min_version=low_high[0], max_version=low_high[1]))
    return ApiVersionsResponse(error_code=0, api_keys=apis)


def metadata(
    topics: dict[str, Any], brokers: dict[int, tuple[str, int]] | None = None, controller: int = 1, cluster_id: str = "c"
) -> MetadataResponse:
    """Topics are {name: error code | [(leader, epoch), …] | (id, [(leader, epoch), …])}."""
    brokers = {1: ("h1", 1), 2: ("h2", 2), 3: ("h3", 3)} if brokers is None else brokers
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=n, host=h, port=p) for n, (h, p) in brokers.items()],
        controller_id=controller,
        cluster_id=cluster_id,
        topics=[_topic(name, told) for name, told in topics.items()],
    )


def _topic(name: str, told: Any) -> MetadataResponse.Topic:
    if isinstance(told, int):
        return MetadataResponse.Topic(name=name, error_code=told, topic_id=NO_UUID, partitions=[])
    topic_id, leaders = told if isinstance(told, tuple) else (NO_UUID, told)
    parts = [
        MetadataResponse.Topic.Partition(
            error_code=0 if leader >= 0 else 5, partition_index=index, leader_id=leader, leader_epoch=epoch, replica_nodes=[], isr_nodes=[]
        )
        for index, (leader, epoch) in enumerate(leaders)
    ]
    return MetadataResponse.Topic(name=name, error_code=0, topic_id=topic_id, partitions=parts)


def raise_cause(machine: Machine, reason: KafkaError) -> None:
    """For `Engine.on_failure`: a machine that fails fails the test."""
    assert reason.__cause__ is not None
    raise reason.__cause__


@attrs.define(eq=False)
class World:
    """An engine and scripted brokers. `now` moves only by `run`."""

    engine: Engine
    events: list[object]
    now: float = 100.0
    metadata: MetadataResponse = attrs.Factory(lambda: metadata({}))
    speaks: ApiVersionsResponse = attrs.Factory(lambda: versions())
    deaf: dict[str, MetadataResponse] = attrs.Factory(dict)  # what these hosts tell instead
    down: set[tuple[str, int]] = attrs.Factory(set)  # addresses that refuse
    mute: set[int] = attrs.Factory(set)  # links that take requests and do not answer
    muted: list[tuple[int, RequestHeader, Any]] = attrs.Factory(list)  # what these did not answer
    links: dict[int, tuple[str, int]] = attrs.Factory(dict)  # open ones
    attempts: list[tuple[float, str, int]] = attrs.Factory(list)
    asked: list[tuple[float, MetadataRequest]] = attrs.Factory(list)
    others: list[tuple[int, RequestHeader, Any]] = attrs.Factory(list)  # requests for the test to answer
    turns: int = 0

    @classmethod
    def make(cls, seed: int = 1, **options: Any) -> World:
        events = EventList()
        engine = Engine(config(**options), Random(seed), events)
        engine.on_failure.append(raise_cause)
        return cls(engine, events)

    def run(self, seconds: float = 0.0) -> None:
        """Turn until nothing is due up to `seconds` from now."""
        end = self.now + seconds
        for _ in range(10_000):
            turn = self.engine.turn(self.now)
            self.turns += 1
            news = self._carry_out(turn)
            if not news and turn.wake_at > self.now:
                if turn.wake_at > end:
                    self.now = end
                    return
                self.now = turn.wake_at
        raise AssertionError("the engine does not come to rest")

    def answer(self, link: int, header: RequestHeader, response: Any) -> None:
        self.engine.network.receive(self.now, link, frame(response, header.version, header.correlation_id))

    def lose(self, address: tuple[str, int]) -> None:
        """The broker at `address` goes down."""
        self.down.add(address)
        for link in [link for link, where in self.links.items() if where == address]:
            del self.links[link]
            self.engine.network.lost(self.now, link, ConnectionLost(f"{address[0]}:{address[1]}: reset"))

    def link_to(self, host: str) -> int:
        return next(link for link, where in self.links.items() if where[0] == host)

    def _carry_out(self, turn: Turn) -> bool:
        network = self.engine.network
        for close in turn.close:
            self.links.pop(close.link, None)
        for connect in turn.connect:
            self.attempts.append((self.now, connect.host, connect.port))
            if (connect.host, connect.port) in self.down:
                network.lost(self.now, connect.link, ConnectionLost(f"{connect.host}:{connect.port}: connection refused"))
            else:
                self.links[connect.link] = (connect.host, connect.port)
                network.connected(self.now, connect.link)
        for link, buffers in turn.write:
            network.written(self.now, link)
            for header, message in read(buffers):
                self._take(link, header, message)
        return bool(turn.connect or turn.write)

    def _take(self, link: int, header: RequestHeader, message: Any) -> None:
        if link in self.mute:
            self.muted.append((link, header, message))
            return
        if isinstance(message, ApiVersionsRequest):
            self.answer(link, header, self.speaks)
        elif isinstance(message, MetadataRequest):
            self.asked.append((self.now, message))
            self.answer(link, header, self._told(message, self.deaf.get(self.links[link][0], self.metadata)))
        else:
            self.others.append((link, header, message))

    def _told(self, message: MetadataRequest, answer: MetadataResponse) -> MetadataResponse:
        names = {topic.name for topic in message.topics or []}
        known = [topic for topic in answer.topics if topic.name in names]
        missing = names - {topic.name for topic in known}
        return attrs.evolve(answer, topics=[*known, *(_topic(name or "", 3) for name in sorted(missing, key=str))])
