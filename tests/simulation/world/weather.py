"""The simulated network. Rule: bytes of one connection stay in order and may end anywhere; connections are independent of each other.

`VirtualTransport` takes the place of a `net.transport.Transport` under a real `net.loop.Loop`; `Weather` carries its bytes to a
`ModelCluster` and back. Buffers are copied only when the "socket" takes them, often a little later, so that memory that is reused too
early shows up as a foreign record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import attrs

from pykafka4.errors import ConnectionLost, KafkaError
from pykafka4.net.handoff.wakeup import Wakeup
from pykafka4.net.transport import Event, EventKind
from pykafka4.testing.model import ModelCluster
from pykafka4.testing.requests.session import Session
from pykafka4.testing.timeline import Timeline
from pykafka4.wire.protocol.frame import frame_size
from tests.simulation.judge.invariants import Broken
from tests.simulation.world.virtual import World

__all__ = ["Climate", "Path", "VirtualTransport", "Weather"]

SOCKET_DELAY_S = 0.0005  # until the socket has taken a write, at most
SELECT_SECONDS = 0.00002  # what a `select` takes at least
IDLE_TURNS = 10  # turns in a row with neither changes nor a pause, of each producer or consumer
MOST_TURNS = 60_000
TURNS_PER_NEWS = 12  # a loop that turns more often than this is hot
TURNS_PER_SECOND = 150


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
    report: bool = False  # whether the loop waits for the end of one of them
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
        self.users = 1  # producers or consumers of the client
        self.max_frame = 1 << 31
        self.on_failed: Callable[[int], None] = lambda node: None  # called when a connection attempt fails by itself
        self.report: Callable[[Event], None] = lambda event: None  # called with events of connections

    # ---- carried out for the transport

    def connect(self, link: int, host: str, port: int) -> None:
        """Try; the answer comes later, or never."""
        self.connects += 1
        node = next((b.node for b in self.cluster.brokers.values() if (b.host, b.port) == (host, port)), 0)
        path = self.paths[link] = Path(link, node, self)
        if self.random.random() >= self.climate.unanswered:
            self._later(path, lambda: self._attempt(path, f"{host}:{port}"))
        else:
            self.on_failed(node)

    def _attempt(self, path: Path, where: str) -> None:
        if path.closed:
            return None
        if path.node == 0:
            return self._lose(path, f"{where}: host name not found")
        if self.random.random() < self.climate.refused:
            self.on_failed(path.node)
        else:
            path.session = self.cluster.accept(path.node, path)
        if path.session is None:
            return self._lose(path, f"{where}: connection refused")
        self._log(f"link {path.link} connected to {path.node}")
        return self._tell(EventKind.CONNECTED, path)

    def close(self, link: int) -> None:
        """The client hangs up. What is under way arrives, or does not."""
        path = self.paths.pop(link, None)
        if path is None:
            return
        self._log(f"link {path.link} to {path.node} closed")
        path.closed = True
        self._end_session(path)

    def _end_session(self, path: Path) -> None:
        session, path.session = path.session, None
        if session is None:
            return
        session.abandoned = True
        if self.random.random() < self.climate.leak:
            self.timeline.at(max(path.up_at, self.timeline.now), session.lost)
            path.session = session  # bytes under way still find it
        else:
            session.lost()

    def write(self, link: int, buffers: Iterable[Any], report: bool) -> bool:
        """The socket takes them at once, or a little later; only then are they copied. Whether it has taken them."""
        path = self.paths.get(link)
        if path is None:
            return False
        views = [memoryview(buffer) for buffer in buffers]
        if not path.pending and self.random.random() < 0.5:
            self._take(path, views)
            return True
        path.pending += 1
        path.report |= report
        path.taken_at = max(path.taken_at, self.timeline.now + self.random.random() * SOCKET_DELAY_S)
        self.timeline.at(path.taken_at, lambda: self._taken(path, views))
        return False

    def _taken(self, path: Path, views: list[memoryview]) -> None:
        path.pending -= 1
        self._take(path, views)
        if path.report and not (path.closed or path.lost or path.pending):
            path.report = False
            self._tell(EventKind.WRITTEN, path)

    def _take(self, path: Path, views: list[memoryview]) -> None:
        data = b"".join(views)
        for view in views:
            view.release()
        if path.closed or path.lost:
            return
        path.up_at = self._arrival(path, path.up_at)
        self.timeline.at(path.up_at, lambda: self._to_broker(path, data))

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
            try:
                frame_size(path.rest, self.max_frame)
            except KafkaError as error:
                self._end_session(path)
                return self._lose(path, error)
            if len(path.rest) < 4 + size:
                break
            frame = bytes(path.rest[4 : 4 + size])
            del path.rest[: 4 + size]
            self._tell(EventKind.FRAME, path, frame)
        return None

    def hang_up(self, path: Path) -> None:
        """The broker closed: the client notices it after the bytes sent before."""
        path.session = None
        path.down_at = self._arrival(path, path.down_at)
        self.timeline.at(path.down_at, lambda: self._lose(path, f"broker {path.node}: connection closed by the peer"))

    # ---- faults

    def cut(self, path: Path) -> None:
        """The connection breaks: both sides notice it, and bytes in flight may be cut."""
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

    def _lose(self, path: Path, reason: str | KafkaError) -> None:
        if path.closed or path.lost:
            return
        path.lost = True
        self.paths.pop(path.link, None)
        self._log(f"link {path.link} lost: {reason}")
        self._tell(EventKind.LOST, path, ConnectionLost(reason) if isinstance(reason, str) else reason)

    def _tell(self, kind: EventKind, path: Path, payload: Any = None) -> None:
        self.inputs += 1
        self.report(Event(kind, path.link, payload))

    def _later(self, path: Path, act: Callable[[], object]) -> None:
        self.timeline.at(self._arrival(path, self.timeline.now), act)

    def _arrival(self, path: Path, earliest: float) -> float:
        """When something sent now arrives: not before what was sent before it, not while the node is dark."""
        start, (least, most) = self.timeline.now, self.climate.delay
        if self.dark:
            start = max(start, self.dark.get(path.node, 0.0))
        return max(earliest, start + (least + (most - least) * self.random.random()))

    def _held(self, node: int) -> bool:
        return bool(self.dark) and self.dark.get(node, 0.0) > self.timeline.now


class VirtualWakeup(Wakeup):
    """As `Wakeup`, without a socket: the byte wakes the thread that selects."""

    __slots__ = ("_transport", "_world", "foreign")

    def __init__(self, world: World, transport: VirtualTransport) -> None:
        self._world, self._transport = world, transport
        self.asleep = self.news = False
        self.foreign = 0  # how often another thread than the loop's asked
        self._writer: Any = self

    def wake(self) -> None:
        """There is work."""
        self._world.perhaps_yield()
        if self._world.me() is not self._transport.thread:
            self.foreign += 1
        super().wake()

    def send(self, data: bytes) -> None:
        """The byte."""
        self._transport.interrupt()

    def clear(self) -> None:
        """There are no bytes to take out."""

    def close(self) -> None:
        """There is no socket."""


class VirtualTransport:
    """What a `Loop` asks of its sockets, in virtual time. Watches that the loop does not spin."""

    def __init__(self, world: World, weather: Weather, max_frame: int, after_turn: Callable[[VirtualTransport], None]) -> None:
        self.world, self.weather, self._after_turn = world, weather, after_turn
        self.wakeup = VirtualWakeup(world, self)
        weather.max_frame, weather.report = max_frame, self._report
        self.connect, self.close, self.write = weather.connect, weather.close, weather.write
        self.process = world.me().process
        self.thread: Any = None  # the loop's
        self.turns = 0
        self.began = world.now()
        self._events: list[Event] = []
        self._interrupted = self._waiting = False
        self._idle = self._foreign = 0
        self._quiet = True  # whether the last `select` brought nothing

    def select(self, timeout: float | None) -> list[Event]:
        """Wait; at least for as long as a system call takes."""
        world = self.world
        self.thread = world.me()
        self.turns += 1
        self._check_heat(timeout)
        self._after_turn(self)
        if self._events or self._interrupted:
            world.sleep(SELECT_SECONDS)
        else:
            self._waiting = True
            world.park(SELECT_SECONDS if timeout is None else max(timeout, SELECT_SECONDS))
            self._waiting = False
        self._interrupted = False
        events, self._events = self._events, []
        self._quiet = not events
        return events

    def interrupt(self) -> None:
        """End the wait."""
        self._interrupted = True
        if self._waiting:
            self.world.wake(self.thread)

    def shut(self) -> None:
        """The loop ends: every connection is closed."""
        for link in list(self.weather.paths):
            self.weather.close(link)

    def abandon(self) -> None:
        """There is no fork here."""

    def die(self) -> None:
        """The process is dead: every connection breaks."""
        self.weather.report = lambda event: None
        for path in list(self.weather.paths.values()):
            self.weather.cut(path)

    def _report(self, event: Event) -> None:
        self._events.append(event)
        if self._waiting:
            self.world.wake(self.thread)

    def _check_heat(self, timeout: float | None) -> None:
        foreign = self.wakeup.foreign
        short = timeout is not None and timeout <= SELECT_SECONDS
        self._idle = self._idle + 1 if short and self._quiet and foreign == self._foreign else 0
        self._foreign = foreign
        seconds = self.world.now() - self.began
        allowed = 200 + TURNS_PER_NEWS * (self.weather.inputs + foreign) + TURNS_PER_SECOND * seconds
        if self._idle > IDLE_TURNS * self.weather.users:
            self.world.fail(Broken("no hot loop", f"{self._idle} turns in a row without news and without a pause"))
        elif self.turns > allowed or self.turns > MOST_TURNS:
            self.world.fail(Broken("no hot loop", f"{self.turns} turns in {seconds:.3f} s with {self.weather.inputs} inputs"))
