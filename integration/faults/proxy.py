"""Passes the bytes between clients and one broker through a TCP proxy that makes faults, and counts the bytes. A fault is a method;
`heal()` ends all faults.

The proxy has a thread of its own. "Requests" are the bytes of clients, "responses" the bytes of the broker. Every method is synchronous:
when it returns, the fault is in force.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

import attrs

from integration.faults.acks import Acks
from integration.host.ports import HOST, Ports

__all__ = ["Counters", "Proxy"]

T = TypeVar("T")

Address = tuple[str, int]
ORDER_S = 30.0  # seconds for the proxy's thread to carry out one order
BOUND = 32 << 20  # bytes that one direction of a connection may hold back before its sender has to wait
CHUNK = 64 << 10
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds: close sends RST


@attrs.define
class Counters:
    """Bytes count when they leave the proxy."""

    connections: int = 0
    refused: int = 0  # connections for which the broker was not there
    resets: int = 0
    lossy_resets: int = 0  # of these, connections that had lost responses before
    lost_acks: int = 0  # the least number of responses to Produce requests among the swallowed bytes; 0 over TLS
    request_bytes: int = 0
    response_bytes: int = 0
    swallowed_bytes: int = 0


@attrs.define
class Faults:
    delay: float = 0.0  # seconds
    jitter: float = 0.0  # longest additional delay, in seconds; the order is kept
    bandwidth: float | None = None  # bytes per second, for each connection
    swallow: bool = False
    hold: bool = False
    cut_after: int | None = None  # reset the connection after this many more bytes of this direction, of all connections together


@attrs.frozen
class Chaos:
    """Each new connection lives a random time, and with probability `swallow` loses the responses of its last `tail` seconds."""

    shortest: float
    longest: float
    swallow: float
    tail: float


class Direction(asyncio.Protocol):
    """One side of a connection, whose received bytes go to the other side, at once, late or never."""

    def __init__(self, link: Link, faults: Faults, counter: str) -> None:
        self.link, self.faults, self.counter = link, faults, counter
        self.other: Direction | None = None
        self.transport: asyncio.Transport | None = None
        self.queue: deque[tuple[float, bytes]] = deque()
        self.queued, self.free_at, self.last_due = 0, 0.0, 0.0
        self.timer: asyncio.TimerHandle | None = None
        self.swallow = False  # this connection only
        self.ended = False

    # -- asyncio -----------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=BOUND)
        self.link.made(self)

    def data_received(self, data: bytes) -> None:
        lost = self.faults.swallow or self.swallow
        self.link.passes(self, data, lost)
        if lost:
            return
        for at in range(0, len(data), CHUNK):
            piece = data[at : at + CHUNK]
            self.queue.append((self.due(len(piece)), piece))
        self.queued += len(data)
        if self.queued > BOUND and self.transport is not None:
            self.transport.pause_reading()
        self.pump()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self.ended = True
        self.link.lost(self)

    # -- the way of a chunk ------------------------------------------------------------------------------------------------

    def due(self, size: int) -> float:
        """The time at which a chunk that arrives now may leave: never before the last chunk."""
        now = self.link.loop.time()
        faults = self.faults
        due = now + faults.delay + (self.link.proxy.random.uniform(0, faults.jitter) if faults.jitter else 0.0)
        if faults.bandwidth:
            self.free_at = max(self.free_at, now) + size / faults.bandwidth
            due = max(due, self.free_at + faults.delay)
        self.last_due = max(self.last_due, due)
        return self.last_due

    def pump(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.faults.hold or self.other is None or self.other.transport is None:
            return
        now = self.link.loop.time()
        while self.queue and self.queue[0][0] <= now:
            _, data = self.queue.popleft()
            self.queued -= len(data)
            if not self.forward(data, self.other.transport):
                return
        if self.queue:
            self.timer = self.link.loop.call_at(self.queue[0][0], self.pump)
        elif self.ended:
            self.link.finish(self)
        if self.queued <= BOUND // 2 and self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()

    def forward(self, data: bytes, to: asyncio.Transport) -> bool:
        """Returns False if the connection was cut."""
        counters, cut = self.link.proxy.counters, self.faults.cut_after
        piece = data if cut is None else data[:cut]
        if not to.is_closing():
            to.write(piece)
        setattr(counters, self.counter, getattr(counters, self.counter) + len(piece))
        if cut is None:
            return True
        self.faults.cut_after = cut - len(piece)
        if self.faults.cut_after:
            return True
        self.faults.cut_after = None  # a cut happens once
        self.link.reset()
        return False


class Link:
    def __init__(self, proxy: Proxy) -> None:
        self.proxy, self.loop = proxy, proxy.loop
        self.requests = Direction(self, proxy.requests, "request_bytes")
        self.responses = Direction(self, proxy.responses, "response_bytes")
        self.requests.other, self.responses.other = self.responses, self.requests
        self.timers: list[asyncio.TimerHandle] = []
        self.acks = Acks()
        self.dead = self.lossy = False

    def passes(self, direction: Direction, data: bytes, lost: bool) -> None:
        counters = self.proxy.counters
        if lost:
            counters.swallowed_bytes += len(data)
        if direction is self.requests:
            self.acks.asked(data)
            return
        acks = self.acks.answered(data)
        if lost:
            self.lossy = True
            counters.lost_acks += acks

    def made(self, direction: Direction) -> None:
        """Once the client's side is open, connect to the broker, or let the client wait; once the broker's side is open, send the waiting
        bytes."""
        if self.dead or (direction is self.responses and self.requests.ended and not self.requests.queue):
            self.abort(direction)
        elif direction is self.responses:
            self.requests.pump()
        elif not self.proxy.silent:
            self.proxy.spawn(self.connect())

    async def adopt(self, client: socket.socket) -> None:
        self.proxy.links.add(self)
        self.proxy.counters.connections += 1
        if self.proxy.chaotic is not None:
            self.live(self.proxy.chaotic)
        await self.loop.connect_accepted_socket(lambda: self.requests, client)

    async def connect(self) -> None:
        try:
            await self.loop.create_connection(lambda: self.responses, *self.proxy.target)
        except OSError:
            self.proxy.counters.refused += 1
            self.reset()

    def live(self, chaos: Chaos) -> None:
        rng = self.proxy.random
        life = rng.uniform(chaos.shortest, chaos.longest)
        if rng.random() < chaos.swallow:
            self.timers.append(self.loop.call_later(max(0.0, life - rng.uniform(0, chaos.tail)), self.deafen))
        self.timers.append(self.loop.call_later(life, self.reset))

    def deafen(self) -> None:
        self.responses.swallow = True

    def lost(self, direction: Direction) -> None:
        """Note the end of one side. Its earlier bytes still go through, even held bytes: a request may outlive its client."""
        told = not self.proxy.silent or direction.other is None or direction.other.ended
        if told and not direction.queue:
            self.finish(direction)

    def finish(self, direction: Direction) -> None:
        other = direction.other
        if other is not None and other.transport is not None:
            other.transport.close()
        if all(side.ended or side.transport is None for side in (self.requests, self.responses)):
            self.forget()

    def reset(self) -> None:
        """Send RST to both sides; bytes on their way are lost."""
        if self.dead:
            return
        self.dead = True
        self.proxy.counters.resets += 1
        self.proxy.counters.lossy_resets += self.lossy
        for side in (self.requests, self.responses):
            self.abort(side)
        self.forget()

    @staticmethod
    def abort(side: Direction) -> None:
        side.queue.clear()
        if side.transport is not None and not side.ended:
            with contextlib.suppress(OSError):
                side.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            side.transport.abort()

    def forget(self) -> None:
        for timer in (*self.timers, self.requests.timer, self.responses.timer):
            if timer is not None:
                timer.cancel()
        self.proxy.links.discard(self)


class Proxy:
    """The proxy at `port` in front of the broker at `target`. `seed` makes jitter and chaos repeatable."""

    def __init__(self, target: Address, port: int | None = None, seed: int = 0) -> None:
        self.target, self.random = target, random.Random(seed)
        self.counters, self.requests, self.responses = Counters(), Faults(), Faults()
        self.silent = False
        self.chaotic: Chaos | None = None
        self.links: set[Link] = set()
        self.tasks: set[asyncio.Task[None]] = set()
        self.ports = Ports() if port is None else None
        self.port: int = self.ports.take() if self.ports is not None else int(port or 0)
        self.loop = asyncio.new_event_loop()
        self.listener: socket.socket | None = None
        self.thread = threading.Thread(target=self.run, name=f"proxy-{self.port}", daemon=True)
        self.thread.start()
        self.accept()

    @property
    def address(self) -> Address:
        return HOST, self.port

    @property
    def open(self) -> int:
        return self.call(lambda: len(self.links))

    # -- faults ------------------------------------------------------------------------------------------------------------

    def delay(self, seconds: float, jitter: float = 0.0) -> None:
        """Delay every exchange by `seconds`, half in each direction, and by a random time up to `jitter`, likewise."""
        self.both(delay=seconds / 2, jitter=jitter / 2)

    def bandwidth(self, bytes_per_second: float | None) -> None:
        """None: no limit."""
        self.both(bandwidth=bytes_per_second)

    def cut_requests_after(self, count: int) -> None:
        """Let `count` more bytes of requests through, then reset the connection that sent the last of them; once."""
        self.change(self.requests, cut_after=count)

    def cut_responses_after(self, count: int) -> None:
        """Let `count` more bytes of responses through, then reset the connection with the last of them; once."""
        self.change(self.responses, cut_after=count)

    def swallow_requests(self) -> None:
        """Neither side gets a sign."""
        self.change(self.requests, swallow=True)

    def swallow_responses(self) -> None:
        """The client does not know which records were written."""
        self.change(self.responses, swallow=True)

    def hold_requests(self) -> None:
        """Keep requests until `release`. Requests of a connection that ends meanwhile arrive after the death of their client."""
        self.change(self.requests, hold=True)

    def hold_responses(self) -> None:
        self.change(self.responses, hold=True)

    def release(self) -> None:
        self.both(hold=False)
        self.call(self.pump_all)

    def drop_connections(self) -> int:
        """Send RST on every connection, and return their number. New connections are accepted."""
        return self.call(self.reset_all)

    def refuse(self) -> None:
        """New connections are refused at once, open ones dropped."""
        self.call(self.close_listener)
        self.drop_connections()

    def accept(self) -> None:
        self.call(self.listen)

    def silence(self) -> None:
        """Accept new connections and never answer them, and pass no more bytes of open connections, in either direction."""
        self.both(swallow=True)
        self.set(silent=True)

    def chaos(self, shortest: float = 0.5, longest: float = 1.5, swallow: float = 0.5, tail: float = 0.2) -> None:
        """Reset each connection after `shortest` to `longest` seconds, and with probability `swallow` lose its last `tail` seconds."""
        self.set(chaotic=Chaos(shortest, longest, swallow, tail))
        self.drop_connections()

    def heal(self) -> None:
        """End every fault. If connections may have lost bytes, all are reset: no client can read a stream with holes."""
        torn = self.silent or self.requests.swallow or self.responses.swallow or self.chaotic is not None
        self.set(silent=False, chaotic=None)
        self.both(**{field.name: field.default for field in attrs.fields(Faults)})
        if torn:
            self.drop_connections()
        self.release()
        self.accept()

    def retarget(self, target: Address) -> None:
        """Open connections stay with the old broker."""
        self.set(target=target)

    # -- life --------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """A second call does nothing."""
        if not self.thread.is_alive():
            return
        self.refuse()
        self.wait(self.settle())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(ORDER_S)
        if self.ports is not None:
            self.ports.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def listen(self) -> None:
        if self.listener is None:
            if self.ports is not None:
                self.ports.release(self.port)
            self.listener = socket.create_server(self.address, backlog=512)
            self.listener.setblocking(False)
            self.loop.add_reader(self.listener, self.welcome)

    def welcome(self) -> None:
        """asyncio's own server would forget a connection that is closed right after the accept."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while self.listener is not None:
                self.spawn(Link(self).adopt(self.listener.accept()[0]))

    def close_listener(self) -> None:
        if self.listener is not None:
            self.loop.remove_reader(self.listener)
            self.listener.close()
            self.listener = None

    def pump_all(self) -> None:
        for link in list(self.links):
            for side in (link.requests, link.responses):
                side.pump()

    def reset_all(self) -> int:
        links = list(self.links)
        for link in links:
            link.reset()
        return len(links)

    async def settle(self) -> None:
        """Let connections that are being accepted or connected arrive and be reset, so that none is open when the loop ends."""
        if self.tasks:
            _, late = await asyncio.wait(self.tasks, timeout=1.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self.reset_all()
        for _ in range(3):  # an aborted transport closes its socket one turn later
            await asyncio.sleep(0)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    # -- across threads ----------------------------------------------------------------------------------------------------

    def both(self, **values: Any) -> None:
        for faults in (self.requests, self.responses):
            self.change(faults, **values)

    def change(self, faults: Faults, **values: Any) -> None:
        self.call(lambda: assign(faults, values))

    def set(self, **values: Any) -> None:
        self.call(lambda: assign(self, values))

    def call(self, work: Callable[[], T]) -> T:

        async def wrapped() -> T:
            return work()

        return self.wait(wrapped())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(ORDER_S)


def assign(thing: object, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(thing, name, value)
