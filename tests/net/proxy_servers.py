"""Proxies and TLS in front of brokers, for tests. Rule: one thread serves all of them, and nothing waits for longer than `SECONDS`."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from net_helpers import SECONDS

T = TypeVar("T")
Address = tuple[str, int]


class Background:
    """An asyncio loop on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(SECONDS)

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(SECONDS)
        self.loop.close()


class Server:
    """A listener that can be killed with its connections, and be back on its port."""

    def __init__(self, background: Background, tls: ssl.SSLContext | None = None) -> None:
        self.background, self.tls = background, tls
        self.port = 0
        self.tasks: set[asyncio.Task[None]] = set()
        self.start()

    def start(self) -> None:
        self.background.call(self._start())

    def stop(self) -> None:
        self.background.call(self._stop())

    async def _start(self) -> None:
        self.server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self.server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self.server.close()
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._run(reader, writer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, EOFError, ValueError):
                await self.serve(reader, writer)
        finally:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError


async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: Address, opened: Callable[[], object]) -> None:
    """Connect to `address`, and carry bytes in both directions until one side ends."""
    onward_reader, onward_writer = await asyncio.open_connection(*address)

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()

    opened()
    directions = [asyncio.ensure_future(copy(reader, onward_writer)), asyncio.ensure_future(copy(onward_reader, writer))]
    try:
        await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        onward_writer.transport.abort()


class TlsFront(Server):
    """TLS in front of a broker that has none."""

    def __init__(self, background: Background, tls: ssl.SSLContext, address: Address) -> None:
        self.address = address
        super().__init__(background, tls)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await join(reader, writer, self.address, lambda: None)


class ProxyServer(Server):
    """A proxy that knows names that nobody else knows."""

    def __init__(self, background: Background, hosts: dict[str, Address], login: tuple[str, str] | None = None) -> None:
        self.hosts, self.login = hosts, login
        self.asked: list[Address] = []
        self.hangs = False
        super().__init__(background)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.hangs:
            await reader.read()
        elif (target := await self.negotiate(reader, writer)) is not None:
            self.asked.append(target)
            await join(reader, writer, self.hosts.get(target[0], target), lambda: writer.write(self.success))

    success = b""

    async def negotiate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Address | None:
        """Where the client wants to go; None after a refusal."""
        raise NotImplementedError


class SocksServer(ProxyServer):
    success = b"\x05\x00\x00\x01" + bytes(6)

    async def negotiate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Address | None:
        _, count = await reader.readexactly(2)
        method = 0 if self.login is None else 2
        if method not in await reader.readexactly(count):
            writer.write(b"\x05\xff")
            await writer.drain()
            return None
        writer.write(bytes((5, method)))
        if self.login is not None:
            await reader.readexactly(1)
            given = [(await reader.readexactly((await reader.readexactly(1))[0])).decode() for _ in range(2)]
            right = given == list(self.login)
            writer.write(b"\x01\x00" if right else b"\x01\x01")
            await writer.drain()
            if not right:
                return None
        kind = (await reader.readexactly(4))[3]
        if kind == 3:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, await reader.readexactly(size))
        return host, int.from_bytes(await reader.readexactly(2), "big")


class HttpServer(ProxyServer):
    success = b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n"

    async def negotiate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Address | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        login = None if self.login is None else "Basic " + base64.b64encode(":".join(self.login).encode()).decode()
        if login is not None and f"Proxy-Authorization: {login}\r\n" not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 4\r\n\r\n<a/>")
            await writer.drain()
            return None
        method, target, _ = head.split("\r\n")[0].split(" ")
        assert method == "CONNECT"
        host, _, port = target.rpartition(":")
        return host.strip("[]"), int(port)


SERVERS = {"socks5": SocksServer, "http": HttpServer}


@contextlib.contextmanager
def background() -> Iterator[tuple[Background, list[Server]]]:
    """A loop, and a list of what is to be stopped with it."""
    it, servers = Background(), list[Server]()
    try:
        yield it, servers
    finally:
        for server in servers:
            server.stop()
        it.end()
