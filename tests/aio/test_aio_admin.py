"""The admin client for asyncio: the calls of the threaded one, awaited."""

from __future__ import annotations

import asyncio
import threading
from inspect import getmembers, iscoroutinefunction, isroutine, signature
from typing import Any

import pytest

from pykafka4 import AdminClient, Client, ClosedError, ConfigError, PartialFailure, TopicPartition, aio
from pykafka4.testing import ModelServer
from tests.aio.tasking import eventually, run
from tests.net.net_helpers import closed_port

PLAIN = {"from_properties", "metrics", "status"}


def calls_under_way() -> int:
    return sum(thread.name == "pykafka4-admin" for thread in threading.enumerate())


def test_it_has_the_methods_of_the_threaded_client_with_the_same_arguments() -> None:
    def public(kind: type) -> dict[str, Any]:
        return {name: method for name, method in getmembers(kind, isroutine) if not name.startswith("_")}

    ours, threaded = public(aio.AdminClient), public(AdminClient)
    assert ours.keys() == threaded.keys(), "aio/admin.py needs a line for each call"
    assert {name for name, method in ours.items() if not iscoroutinefunction(method)} == PLAIN
    for name, method in {**ours, "__init__": aio.AdminClient.__init__}.items():
        assert signature(method) == signature(getattr(AdminClient, name)), name
        assert method.__doc__, name


def test_looks_and_changes_are_awaited(server: ModelServer) -> None:
    async def main() -> None:
        async with aio.AdminClient(bootstrap_servers=server.bootstrap_servers) as admin:
            created = await admin.create_topics({"orders": 2}, wait=True)
            assert created["orders"].partitions == 2
            described, groups, topics = await asyncio.gather(
                admin.describe_topic("orders"), admin.list_groups(), admin.list_topics(timeout=5)
            )
            assert [part.partition for part in described.partitions] == [0, 1]
            assert (len(groups), list(topics)) == (0, ["orders"])
            await admin.set_offsets("g", {("orders", 0): 0})
            assert set((await admin.group_offsets(["g"]))["g"]) == {TopicPartition("orders", 0)}  # type: ignore[arg-type]
            assert admin.status()["state"] == "connected"
            assert admin.metrics()

    run(main())


def test_errors_are_those_of_the_threaded_client(server: ModelServer) -> None:
    async def main() -> None:
        admin = aio.AdminClient(bootstrap_servers=server.bootstrap_servers)
        await admin.create_topics(["a"])
        with pytest.raises(PartialFailure) as caught:
            await admin.create_topics(["a", "b"])
        assert (set(caught.value.errors), set(caught.value.done)) == ({"a"}, {"b"})
        with pytest.raises(ConfigError, match="mapping of topic names"):
            await admin.create_topics("orders")
        await admin.close()
        await admin.close()
        with pytest.raises(ClosedError):
            await admin.list_topics()

    run(main())


def test_a_call_that_is_cancelled_ends() -> None:
    async def main() -> None:
        async with aio.AdminClient(bootstrap_servers=f"127.0.0.1:{closed_port()}") as admin:
            task = asyncio.create_task(admin.describe_group("g", timeout=600))
            await eventually(lambda: calls_under_way() == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await eventually(lambda: calls_under_way() == 0)

    run(main())


def test_a_close_ends_the_calls() -> None:
    async def main() -> None:
        admin = aio.AdminClient(bootstrap_servers=f"127.0.0.1:{closed_port()}")
        task = asyncio.create_task(admin.describe_group("g", timeout=600))
        await eventually(lambda: calls_under_way() == 1)
        await admin.close()
        with pytest.raises(ClosedError):
            await task

    run(main())


def test_a_shared_client_is_not_closed(server: ModelServer, client: Client) -> None:
    async def main() -> None:
        async with aio.AdminClient(client) as admin:
            await admin.create_topics(["a"], wait=True)
        with pytest.raises(ConfigError, match="client_id"):
            aio.AdminClient(client, client_id="me")

    run(main())
    assert client.partitions_for("a") == [0, 1, 2]


def test_another_event_loop_is_refused(server: ModelServer) -> None:
    admin = aio.AdminClient(bootstrap_servers=server.bootstrap_servers)

    async def elsewhere() -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await admin.list_topics()

    async def main() -> None:
        await admin.list_topics()
        await asyncio.to_thread(asyncio.run, elsewhere())
        await admin.close()

    run(main())
