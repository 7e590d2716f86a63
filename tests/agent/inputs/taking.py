"""An Intake that keeps what it gets, and a loop whose clock the test moves."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pykafka4.agent.inputs.connection import READ_BYTES
from pykafka4.agent.inputs.counters import InputCounters
from pykafka4.agent.inputs.entrance import Entrance
from pykafka4.agent.inputs.streams import StreamInput
from pykafka4.agent.inputs.unfinished import Unfinished
from pykafka4.agent.message import Message, Reason, Refused, Source

__all__ = ["READ_BYTES", "ManualLoop", "Streams", "Taken"]


class Taken:
    """See Intake."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.sources: set[Source] = set()
        self.refused: list[tuple[bytes, Reason, int | None]] = []

    def accept(self, messages: list[Message], source: Source) -> None:
        assert messages
        self.messages += messages
        self.sources.add(source)

    def refuse(self, data: bytes, refused: Refused, source: Source) -> None:
        self.refused.append((data, refused.reason, refused.detail))
        self.sources.add(source)

    @property
    def values(self) -> list[bytes | None]:
        return [message[1] for message in self.messages]


class ManualLoop:
    """The part of an asyncio loop that inputs use. The test calls turns itself."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.readers: dict[int, Callable[[], object]] = {}
        self._later: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.at

    def add_reader(self, fd: int, reader: Callable[[], object]) -> None:
        self.readers[fd] = reader

    def remove_reader(self, fd: int) -> bool:
        return self.readers.pop(fd, None) is not None

    def call_later(self, delay: float, call: Callable[[], object]) -> None:
        self._later.append((self.at + delay, call))

    def pass_time(self, seconds: float) -> None:
        """Call what is due, in order."""
        end = self.at + seconds
        while due := sorted((each for each in self._later if each[0] <= end), key=lambda each: each[0])[:1]:
            self._later.remove(due[0])
            self.at = due[0][0]
            due[0][1]()
        self.at = end


class Streams:
    """A UNIX stream input with small limits, and clients."""

    def __init__(self, folder: Path, *, max_size: int = 2_000_000, max_connections: int = 100, empty: bytes | None = None) -> None:
        self.path = folder / "stream"
        self.taken, self.loop, self.counters = Taken(), ManualLoop(), InputCounters()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen(100)
        self.listener.setblocking(False)
        self.unfinished = Unfinished(max_size + 4)
        entrance = Entrance(self.taken, Source.UNIX_STREAM, self.counters)
        self.input = StreamInput(self.listener, entrance, self.unfinished, max_size, empty, max_connections)
        self.input.start(cast(Any, self.loop))
        self.clients: list[socket.socket] = []

    @property
    def counts(self) -> Any:
        return self.counters.unix_stream

    def client(self) -> socket.socket:
        """A connection; it does not wait when the agent does not read."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(self.path))
        sock.setblocking(False)
        self.clients.append(sock)
        return sock

    def turns(self, most: int = 1000) -> None:
        """Turns until nothing is left to read."""
        for _ in range(most):
            before = (self.counts.read_bytes, self.counts.connections, self.counts.open)
            self.input.turn()
            if before == (self.counts.read_bytes, self.counts.connections, self.counts.open):
                return

    def send(self, client: socket.socket, data: bytes) -> None:
        """All of it, while the input reads."""
        view = memoryview(data)
        for _ in range(100_000):
            if not view:
                break
            try:
                view = view[client.send(view) :]
            except BlockingIOError:
                self.input.turn()
        assert not view, "the input stopped reading"
        self.turns()

    def balanced(self) -> bool:
        """Whether each byte that was read was accepted or refused; only at rest, without unfinished messages."""
        counts = self.counts
        return bool(counts.read_bytes == counts.forwarded_bytes + counts.refused_bytes)

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.input.close()


def run(main: Callable[[], Any]) -> None:
    """On a real loop, for at most 20 seconds."""
    asyncio.run(asyncio.wait_for(main(), 20))
