"""The client for asyncio: the stateless calls, awaited."""

from __future__ import annotations

import asyncio
from inspect import getmembers, isfunction, signature

import pytest

from pykafka4 import ANY, LATEST, Client, ClosedError, ConfigError, aio
from pykafka4.client.futures import ClientFutures
from pykafka4.messages import MetadataRequest
from pykafka4.testing import ModelServer
from tests.aio.tasking import run
from tests.client.lowlevel import T0
from tests.consumer.consuming import topic


def test_every_call_is_awaited(server: ModelServer) -> None:
    topic(server, 3)

    async def main() -> None:
        async with aio.Client(bootstrap_servers=server.bootstrap_servers) as client:
            assert len((await client.fetch({T0: 0}))[T0].records) == 3
            assert (await client.list_offsets({T0: LATEST}))[T0].offset == 3
            assert (await client.commit_offsets("g", {T0: 2}))[T0].error is None
            assert (await client.committed_offsets("g"))[T0].offset == 2
            assert (await client.find_coordinator("g")).group_id == "g"
            assert (await client.request(ANY, MetadataRequest(topics=[]))).brokers
            assert [len(split) for split in await client.splits("t", 3)] == [1, 1, 1]
            assert client.status()["state"] == "connected"
        with pytest.raises(ClosedError):
            await client.fetch({T0: 0})

    run(main())


def test_a_cancelled_call_ends_and_others_go_on(server: ModelServer) -> None:
    topic(server, 1)

    async def main() -> None:
        async with aio.Client(bootstrap_servers=server.bootstrap_servers) as client:
            task = asyncio.create_task(client.fetch({T0: 1}, max_wait_ms=1_000))
            others = await asyncio.gather(*(client.fetch({T0: 0}) for _ in range(5)))
            assert [len(found[T0].records) for found in others] == [1] * 5
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(main())


def test_a_shared_client_is_not_closed(server: ModelServer, client: Client) -> None:
    topic(server, 1)

    async def main() -> None:
        async with aio.Client(client) as shared:
            assert len((await shared.fetch({T0: 0}))[T0].records) == 1

    run(main())
    assert len(client.fetch({T0: 0})[T0].records) == 1
    with pytest.raises(ConfigError, match="client_id: set by the shared Client"):
        aio.Client(client, client_id="me")
    with pytest.raises(ConfigError, match=r"client must be a pykafka4\.Client"):
        aio.Client("localhost:9092")  # type: ignore[arg-type]


def test_all_three_forms_take_the_same_arguments() -> None:
    names = [name for name, _ in getmembers(ClientFutures, isfunction) if not name.startswith("_")]
    assert names == ["commit_offsets", "committed_offsets", "fetch", "find_coordinator", "list_offsets", "request", "splits"]
    for name in names:
        arguments = [list(signature(getattr(kind, name)).parameters.values()) for kind in (Client, ClientFutures, aio.Client)]
        assert arguments[0] == arguments[1] == arguments[2], name
