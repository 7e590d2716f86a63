"""Network harness. The other end of a network's connections: the test opens, answers and closes them."""

from __future__ import annotations

from random import Random
from typing import Any

from pykafka4.core import Connect
from pykafka4.core.network.network import Network, NetworkEffects
from pykafka4.errors import ConnectionLost
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest
from tests.core.scripted_brokers import Answers, config, frame, metadata, read, request, versions

HOSTS = {1: ("h1", 1), 2: ("h2", 2), 3: ("h3", 3)}


class NetworkHarness:
    """A network whose connections the test opens, answers and cuts."""

    def __init__(self, **options: Any) -> None:
        self.network = Network(config(**options), Random(1))
        self.connects: list[Connect] = []
        self.closed: list[int] = []
        self.effects = NetworkEffects()
        self.unanswered: list[tuple[int, Any, Any]] = []

    def placed(self) -> NetworkHarness:
        self.network.set_addresses(0.0, HOSTS)
        return self

    def poll(self, now: float) -> NetworkEffects:
        self.effects = self.network.poll(now)
        self.connects += self.effects.connect
        self.closed += [close.link for close in self.effects.close]
        self.unanswered += [(link, header, message) for link, buffers in self.effects.write for header, message in read(buffers)]
        return self.effects

    def outage(self, begin: float, end: float, reasons: dict[str, str] | None = None) -> list[tuple[float, str]]:
        """Every attempt fails at once; (when, host) of each."""
        attempts, now = [], begin
        while now < end:
            effects = self.poll(now)
            for connect in effects.connect:
                attempts.append((now, connect.host))
                why = (reasons or {}).get(connect.host, "connection refused")
                self.network.lost(now, connect.link, ConnectionLost(f"{connect.host}:{connect.port}: {why}"))
            now = now if effects.connect else max(now, effects.wake_at)
        return attempts

    def submit(self, node: int, now: float = 0.0, **options: Any) -> Answers:
        asked, answers = request(node, **options)
        self.network.submit(now, asked)
        return answers

    def accept(self, now: float, link: int | None = None) -> int:
        """Complete the handshake of the newest connection (or of `link`)."""
        link = self.connects[-1].link if link is None else link
        self.network.connected(now, link)
        self.poll(now)
        (header,) = [h for at, h, m in self.unanswered if at == link and isinstance(m, ApiVersionsRequest)]
        self.unanswered = [u for u in self.unanswered if u[0] != link]
        self.network.receive(now, link, frame(versions(), header.version, header.correlation_id))
        self.poll(now)
        return link

    def open(self, node: int, now: float = 0.0) -> int:
        self.network.want(node)
        self.poll(now)
        return self.accept(now)

    def answer(self, now: float, link: int) -> None:
        (at, header, _), *_ = [u for u in self.unanswered if u[0] == link]
        self.unanswered = [u for u in self.unanswered if u[1] is not header]
        self.network.receive(now, at, frame(metadata({}), header.version, header.correlation_id))
