"""The simulated network. Rule: bytes of one connection stay in order and may end anywhere; connections know nothing of each other.

It takes the place of `net.transport`: it carries out the `Connect`s, `Close`s and writes of an engine's turn against a `ModelCluster`.
Buffers are copied only when the "socket" takes them, a little later, so that memory that is reused too early shows up as a foreign record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import attrs

from pykafka4.core import Close, Connect
from pykafka4.core.network import Network
from pykafka4.errors import ConnectionLost
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.session import Session
from pykafka4.testing.timeline import Timeline

__all__ = ["Climate", "Path", "Weather"]

SOCKET_DELAY = 0.0005  # until the socket has taken a write, at most


@attrs.define
class Climate:
    """What the network is like. Times in seconds, chances from 0 to 1."""

    delay: tuple[float, float] = (0.0002, 0.004)
    refused: float = 0.0  # connection attempts
    unanswered: float = 0.0  # connection attempts that just hang
    leak: float = 0.5  # how likely bytes under way still arrive when a connection ends


@attrs.define(eq=False)
class Path:
    """One connection, seen from the middle of the network."""

    link: int
    node: int
    weather: Weather
    session: Session | None = None
    closed: bool = False  # by the client
    lost: bool = False  # for the client
    pending: int = 0  # writes the socket has not taken
    taken_at: float = 0.0
    up_at: float = 0.0
    down_at: float = 0.0
    rest: bytearray = attrs.Factory(bytearray)

    # what a broker's session does with it

    def send(self, data: bytes) -> None:
        """The broker answers."""
        self.weather.to_client(self, data)

    def close(self) -> None:
        """The broker hangs up, after what it sent."""
        self.weather.hang_up(self)


class Weather:
    """Carries bytes between one engine and the model cluster."""

    def __init__(self, timeline: Timeline, random: Random, cluster: ModelCluster, climate: Climate, log: Callable[[str], None]) -> None:
        self.timeline, self.random, self.cluster, self.climate, self._log = timeline, random, cluster, climate, log
        self.paths: dict[int, Path] = {}
        self.dark: dict[int, float] = {}  # node: until when nothing gets through
        self.connects = 0
        self.inputs = 0
        self.network: Network | None = None
        self.poke: Callable[[], None] = lambda: None

    def attach(self, network: Network, poke: Callable[[], None]) -> None:
        """The engine's network hears from us; `poke` asks for a turn."""
        self.network, self.poke = network, poke

    # ---- carried out for the engine

    def connect(self, order: Connect) -> None:
        """Try; the answer comes later, or never."""
        self.connects += 1
        node = next((b.node for b in self.cluster.brokers.values() if (b.host, b.port) == (order.host, order.port)), 0)
        path = self.paths[order.link] = Path(order.link, node, self)
        if self.random.random() >= self.climate.unanswered:
            self._later(path, lambda: self._attempt(path, order))

    def _attempt(self, path: Path, order: Connect) -> None:
        if path.closed:
            return None
        where = f"{order.host}:{order.port}"
        if path.node == 0:
            return self._lose(path, f"{where}: name not known")
        path.session = None if self.random.random() < self.climate.refused else self.cluster.accept(path.node, path)
        if path.session is None:
            return self._lose(path, f"{where}: connection refused")
        self._log(f"link {path.link} connected to {path.node}")
        return self._tell(lambda network, now: network.connected(now, path.link))

    def close(self, order: Close) -> None:
        """The client hangs up. What is under way arrives, or does not."""
        path = self.paths.pop(order.link, None)
        if path is None:
            return
        self._log(f"link {path.link} to {path.node} closed: {order.reason}")
        path.closed = True
        self._end_session(path)

    def _end_session(self, path: Path) -> None:
        session, path.session = path.session, None
        if session is None:
            return
        session.forsaken = True
        if self.random.random() < self.climate.leak:
            self.timeline.at(max(path.up_at, self.timeline.now), session.lost)
            path.session = session  # bytes under way still find it
        else:
            session.lost()

    def write(self, link: int, buffers: Iterable[Any]) -> None:
        """The socket takes them a little later; only then are they copied."""
        path = self.paths.get(link)
        if path is None:
            return
        views = [memoryview(buffer) for buffer in buffers]
        path.pending += 1
        path.taken_at = max(path.taken_at, self.timeline.now + self.random.random() * SOCKET_DELAY)
        self.timeline.at(path.taken_at, lambda: self._taken(path, views))

    def _taken(self, path: Path, views: list[memoryview]) -> None:
        path.pending -= 1
        data = b"".join(views)
        for view in views:
            view.release()
        if path.closed or path.lost:
            return
        path.up_at = self._arrival(path, path.up_at)
        self.timeline.at(path.up_at, lambda: self._to_broker(path, data))
        if not path.pending:
            self._tell(lambda network, now: network.written(now, path.link))

    def _to_broker(self, path: Path, data: bytes) -> None:
        if self._held(path.node):
            path.up_at = self._arrival(path, path.up_at)
            self.timeline.at(path.up_at, lambda: self._to_broker(path, data))
        elif path.session is not None:
            path.session.receive(data)

    # ---- carried out for sessions

    def to_client(self, path: Path, data: bytes) -> None:
        """An answer is on its way."""
        path.down_at = self._arrival(path, path.down_at)
        self.timeline.at(path.down_at, lambda: self._arrived(path, data))

    def _arrived(self, path: Path, data: bytes) -> None:
        if path.closed or path.lost:
            return None
        if self._held(path.node):
            return self.to_client(path, data)
        path.rest += data
        while len(path.rest) >= 4 and not path.closed:
            (size,) = struct.unpack_from(">i", path.rest)
            if len(path.rest) < 4 + size:
                break
            frame = bytes(path.rest[4 : 4 + size])
            del path.rest[: 4 + size]
            self._tell(lambda network, now, frame=frame: network.receive(now, path.link, frame))  # type: ignore[misc]
        return None

    def hang_up(self, path: Path) -> None:
        """The broker closed: the client hears of it after what was sent before."""
        path.session = None
        path.down_at = self._arrival(path, path.down_at)
        self.timeline.at(path.down_at, lambda: self._lose(path, f"broker {path.node}: connection closed by the peer"))

    # ---- faults

    def cut(self, path: Path) -> None:
        """The connection breaks: both sides hear of it, bytes under way may end in the middle."""
        self._log(f"link {path.link} to {path.node} is cut")
        session = path.session
        if session is not None:
            self._end_session(path)
            path.session = None if self.random.random() < 0.5 else path.session
        self._later(path, lambda: self._lose(path, f"broker {path.node}: connection reset by peer"))

    def split(self, path: Path, data: bytes) -> None:
        """A part of `data` arrives at the broker, then the connection breaks."""
        if path.session is not None:
            path.session.receive(data[: self.random.randrange(len(data) + 1)])
        self.cut(path)

    def darken(self, node: int, seconds: float) -> None:
        """Nothing gets through to or from `node` for a while; connections stay."""
        self.dark[node] = self.timeline.now + seconds

    def open_paths(self, node: int | None = None) -> list[Path]:
        """Connections that are up."""
        return [p for p in self.paths.values() if p.session is not None and not p.lost and node in (None, p.node)]

    def clear(self) -> None:
        """Fine weather from now on."""
        self.dark.clear()
        self.climate = Climate(leak=self.climate.leak)

    # ---- inside

    def _lose(self, path: Path, reason: str) -> None:
        if path.closed or path.lost:
            return
        path.lost = True
        self.paths.pop(path.link, None)
        self._log(f"link {path.link} lost: {reason}")
        self._tell(lambda network, now: network.lost(now, path.link, ConnectionLost(reason)))

    def _tell(self, act: Callable[[Network, float], object]) -> None:
        assert self.network is not None
        self.inputs += 1
        act(self.network, self.timeline.now)
        self.poke()

    def _later(self, path: Path, act: Callable[[], object]) -> None:
        self.timeline.at(self._arrival(path, self.timeline.now), act)

    def _arrival(self, path: Path, earliest: float) -> float:
        """When something sent now arrives: not before what was sent before it, not while the node is dark."""
        start = max(self.timeline.now, self.dark.get(path.node, 0.0))
        return max(earliest, start + self.random.uniform(*self.climate.delay))

    def _held(self, node: int) -> bool:
        return self.dark.get(node, 0.0) > self.timeline.now
