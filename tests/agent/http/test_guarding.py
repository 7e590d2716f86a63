"""Connections to the pages: what takes too long is closed, what is used stays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import attrs
from aiohttp import web

from pykafka4.agent.http.guarding import IDLE_S, Connections

WAIT_S = 10.0
REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@attrs.define
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


Test = Callable[[Connections, Clock, int], Awaitable[None]]


def run(test: Test) -> None:
    """Run `test(connections, clock, port)` with a server that answers "ok"."""

    async def main() -> None:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            connections.active(request)
            return web.Response(text="ok")

        server, clock = web.Server(answer), Clock()
        connections = Connections(server, clock)
        listener = await asyncio.get_running_loop().create_server(connections, "127.0.0.1", 0)
        try:
            await asyncio.wait_for(test(connections, clock, listener.sockets[0].getsockname()[1]), WAIT_S)
        finally:
            listener.close()
            await server.shutdown(1)

    asyncio.run(main())


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that the server has answered on once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await ask(reader, writer)
    return reader, writer


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REQUEST)
    assert (await reader.read(1000)).startswith(b"HTTP/1.1 200")


async def ended(reader: asyncio.StreamReader) -> bool:
    try:
        while await reader.read(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def test_half_a_request_is_not_waited_for() -> None:
    async def test(connections: Connections, clock: Clock, port: int) -> None:
        reader, writer = await connected(port)
        writer.write(REQUEST[:20])
        clock.now += IDLE_S
        connections.sweep()
        assert await ended(reader)
        writer.close()

    run(test)


def test_a_request_gives_a_connection_time_again() -> None:
    async def test(connections: Connections, clock: Clock, port: int) -> None:
        reader, writer = await connected(port)
        for _ in range(5):
            clock.now += IDLE_S - 1
            await ask(reader, writer)
            connections.sweep()
        clock.now += IDLE_S
        connections.sweep()
        assert await ended(reader)
        writer.close()

    run(test)


def test_a_client_that_does_not_read_is_closed() -> None:
    async def test(connections: Connections, clock: Clock, port: int) -> None:
        reader, writer = await connected(port)
        writer.write(REQUEST * 20)
        clock.now += IDLE_S
        connections.sweep()
        assert await ended(reader)
        writer.close()

    run(test)
