"""Hostile bytes into each socket. Invariant: no crash; each byte that was read was accepted or refused; memory has a limit.

`make fuzz-agent` runs a million inputs for each socket from a new seed; `make unit` a few thousand from the same one.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import resource
import socket
import time
from pathlib import Path

import pytest

from pykafka4.agent.format import pack
from pykafka4.agent.inputs import streams, unfinished
from pykafka4.agent.inputs.opening import Inputs
from pykafka4.agent.message import Message, Reason, Refused, Source
from pykafka4.agent.settings.values import InputSettings, TcpSettings, UnixSettings
from tests.agent.cases import CASES, message_bytes

TIMES = int(os.environ.get("PYKAFKA4_FUZZ_AGENT") or 3000)
SEED = int(os.environ.get("PYKAFKA4_FUZZ_SEED") or 1)
MIB = 1024 * 1024
MAX_SIZE = 60_000  # of a datagram
SECONDS = 30.0
ENOUGH = 1000  # bytes that a client gathers before it writes
ESCAPED = re.compile(r"\\x[89a-f][0-9a-f]")
KNOWN = [case.data for case in CASES if len(case.data) <= MAX_SIZE]


class Counting:
    """An Intake that keeps counts only. Each message that it gets must be one, to the byte."""

    def __init__(self) -> None:
        self.messages = self.message_bytes = self.refused = self.refused_bytes = 0
        self.reasons: dict[Reason, int] = {}

    def accept(self, messages: list[Message], source: Source) -> None:
        self.messages += len(messages)
        for topic, value, key, partition_key, timestamp in messages:
            name = ESCAPED.sub(".", topic).encode()  # a byte that is no UTF-8 is four characters
            self.message_bytes += 28 + 4 * (partition_key is not None) + len(name) + len(key or b"") + len(value or b"") + 0 * timestamp

    def refuse(self, data: bytes, refused: Refused, source: Source) -> None:
        self.refused += 1
        self.refused_bytes += len(data)
        self.reasons[refused.reason] = self.reasons.get(refused.reason, 0) + 1


def one_input(rng: random.Random, largest: int) -> bytes:
    """A message, most often with something wrong."""
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        return message_bytes(api_key=rng.choice([255, 256, 257, -1]), version=rng.choice([0, 0, 1, -1]), flags=rng.choice([0, 0, 1]))
    if kind == 2:
        partition_key = rng.choice([None, rng.getrandbits(32)])
        return pack(rng.randbytes(rng.randrange(1, 9)), rng.randbytes(rng.randrange(largest)), b"k" * rng.randrange(3), partition_key)
    data = bytearray(rng.choice(KNOWN) if kind < 6 else pack(b"topic", rng.randbytes(rng.randrange(100))))
    for _ in range(rng.randrange(3)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
    if kind in {3, 7} and len(data) >= 4:
        data[:4] = len(data).to_bytes(4, "big")  # so that the parser gets beyond it
    return bytes(data[: rng.randrange(len(data) + 1)] if kind == 4 else data)


def one_frame(rng: random.Random) -> bytes:
    """An input, most often with a right size: a wrong one ends its connection, and what the client wrote behind it is lost."""
    data = one_input(rng, 300)
    return max(4, len(data)).to_bytes(4, "big") + data[4:] if rng.randrange(40) else data


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def judge(kind: str, counting: Counting, inputs: Inputs, source: Source, sent: int | None, began: tuple[float, int]) -> None:
    counts = inputs.counters.of(source)
    grown = resident() - began[1]
    print(
        f"\n{kind}: seed {SEED}, {TIMES:,} inputs in {time.monotonic() - began[0]:.1f} s; {counts.read_bytes:,} bytes read, "
        f"{counts.forwarded:,} messages, {counts.refused:,} refused {dict(sorted(counting.reasons.items()))}; "
        f"{counts.connections:,} connections, {counts.unclean_ends:,} unclean ends; {grown / MIB:+.1f} MiB resident"
    )
    assert sent is None or counts.read_bytes == sent
    assert counts.read_bytes == counts.forwarded_bytes + counts.refused_bytes
    assert (counting.messages, counting.refused, counting.refused_bytes) == (counts.forwarded, counts.refused, counts.refused_bytes)
    assert counts.open == 0
    assert counting.messages > TIMES // 20
    assert len(counting.reasons) >= 3
    assert grown < 32 * MIB


async def rest() -> None:
    """Let the inputs read; the few inputs per call are less than any queue holds."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


@pytest.fixture
def settings(tmp_path: Path) -> InputSettings:
    return InputSettings(UnixSettings(tmp_path / "datagram"), UnixSettings(tmp_path / "stream"), TcpSettings(0), max_datagram_size=MAX_SIZE)


def test_datagrams(settings: InputSettings) -> None:
    async def main() -> None:
        rng, counting, inputs = random.Random(SEED), Counting(), Inputs.bind(settings)
        inputs.start(counting, asyncio.get_running_loop())
        assert settings.unix_datagram is not None
        began, sent = (time.monotonic(), resident()), 0
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(str(settings.unix_datagram.path))
            sock.setblocking(False)
            for _ in range(TIMES):
                data = one_input(rng, 300) if rng.randrange(200) else pack(b"t", bytes(rng.choice([MAX_SIZE - 29, MAX_SIZE - 28])))
                while True:
                    try:
                        sent += sock.send(data)
                        break
                    except BlockingIOError:
                        await rest()
        inputs.close()
        judge("UNIX datagram", counting, inputs, Source.UNIX_DATAGRAM, sent, began)
        assert inputs.counters.unix_datagram.forwarded + inputs.counters.unix_datagram.refused == TIMES
        assert counting.message_bytes == inputs.counters.unix_datagram.forwarded_bytes

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["UNIX stream", "TCP"])
def test_streams(settings: InputSettings, kind: str) -> None:
    source = Source.TCP if kind == "TCP" else Source.UNIX_STREAM

    async def main() -> None:
        rng, counting, inputs = random.Random(SEED), Counting(), Inputs.bind(settings)
        inputs.start(counting, asyncio.get_running_loop())
        clients = [Client(settings, inputs, source) for _ in range(20)]
        began = time.monotonic(), resident()
        for _ in range(TIMES):
            client = rng.choice(clients)
            client.queue(one_frame(rng) if rng.randrange(2000) else pack(b"t", bytes(rng.randrange(200_000))), rng)
            await client.push()
        for client in clients:
            await client.push(everything=True)
            client.end()
        deadline = time.monotonic() + SECONDS
        while inputs.counters.of(source).open:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)
        inputs.close()
        judge(kind, counting, inputs, source, None, began)
        assert counting.message_bytes == inputs.counters.of(source).forwarded_bytes

    asyncio.run(main())


class Client:
    """A connection that is made again whenever it has ended. It writes pieces that have nothing to do with messages."""

    def __init__(self, settings: InputSettings, inputs: Inputs, source: Source) -> None:
        assert settings.unix_stream is not None
        assert inputs.tcp_port is not None
        self._unix, self._tcp = source is Source.UNIX_STREAM, inputs.tcp_port
        self._path = settings.unix_stream.path
        self._waiting = bytearray()
        self._piece = 1
        self._connect()

    def _connect(self) -> None:
        self._waiting.clear()
        self._sock = socket.socket(socket.AF_UNIX if self._unix else socket.AF_INET)
        self._sock.connect(str(self._path) if self._unix else ("127.0.0.1", self._tcp))
        self._sock.setblocking(False)

    def queue(self, data: bytes, rng: random.Random) -> None:
        """Append an input; sometimes the client ends, or resets, the connection first."""
        what = rng.randrange(400)
        if what < 3:
            if what == 2:
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self.end()
            self._connect()
        self._waiting += data
        self._piece = rng.choice([1 + rng.randrange(40), 1 + rng.randrange(1000), 4096, 100_000])

    async def push(self, *, everything: bool = False) -> None:
        """Write a piece, or all."""
        while len(self._waiting) > (0 if everything else ENOUGH):
            try:
                sent = self._sock.send(self._waiting[: self._piece])
            except BlockingIOError:
                await rest()
                continue
            except OSError:  # the input has ended the connection, because of a size
                self._sock.close()
                self._connect()
                return
            del self._waiting[:sent]
            await rest()

    def end(self) -> None:
        """Close."""
        self._sock.close()


def test_a_thousand_connections_that_never_finish_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on meanwhile, and memory has a limit."""
    monkeypatch.setattr(unfinished, "HOLD_S", 0.05)
    monkeypatch.setattr(streams, "OVERDUE_S", 0.02)
    settings = InputSettings(unix_stream=UnixSettings(tmp_path / "stream"))
    sizes = {0: 100, 1: 50_000, 2: 60_000, 3: 2_000_000}  # of the messages

    async def main() -> None:
        counting, inputs = Counting(), Inputs.bind(settings)
        loop = asyncio.get_running_loop()
        inputs.start(counting, loop)
        began, clients = resident(), []
        for number in range(1000):
            sock = socket.socket(socket.AF_UNIX)
            sock.setblocking(False)
            await loop.sock_connect(sock, str(tmp_path / "stream"))
            with contextlib.suppress(BlockingIOError):
                sock.send(pack(b"t", bytes(sizes[number % 4]))[:-1])
            clients.append(sock)
            await rest()
        other = socket.socket(socket.AF_UNIX)
        other.setblocking(False)
        await loop.sock_connect(other, str(tmp_path / "stream"))
        await asyncio.wait_for(loop.sock_sendall(other, pack(b"t", b"v") * 1000), SECONDS)
        deadline = time.monotonic() + SECONDS
        while counting.messages < 1000:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.001)
        grown = resident() - began
        assert inputs.counters.unix_stream.connections == 1001
        for sock in (*clients, other):
            sock.close()
        inputs.close()
        assert grown < 32 * MIB
        assert counting.refused == 1000 - inputs.counters.unix_stream.clean_ends + 1

    asyncio.run(main())
