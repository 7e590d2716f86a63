"""`client.futures`: the stateless calls with futures as their results."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, wait
from typing import Any

import pytest

from pykafka4 import ANY, LATEST, Client, ClosedError, ConfigError, KafkaError, OffsetAndMetadata
from pykafka4.errors.codes import BY_NAME
from pykafka4.messages import MetadataRequest
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_group import OffsetCommitResponse
from tests.client.lowlevel import T0
from tests.consumer.consuming import LONG, topic
from tests.net.net_helpers import until


def test_every_call_has_a_future(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    futures = client.futures
    assert len(futures.fetch({T0: 0}).result(LONG)[T0].records) == 3
    assert futures.list_offsets({T0: LATEST}).result(LONG)[T0].offset == 3
    assert futures.commit_offsets("g", {T0: 2}).result(LONG)[T0].error is None
    assert futures.committed_offsets("g").result(LONG)[T0].committed == OffsetAndMetadata(2)
    assert futures.find_coordinator("g").result(LONG).group_id == "g"
    assert len(futures.splits("t", 2).result(LONG)) == 2
    assert futures.request(ANY, MetadataRequest(topics=[])).result(LONG).brokers


def test_many_are_under_way_at_once(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    found = wait([client.futures.fetch({T0: offset}) for offset in range(3)], LONG)
    assert sorted(len(future.result()[T0].records) for future in found.done) == [1, 2, 3]


def test_an_error_is_that_of_the_call(client: Client) -> None:
    assert isinstance(client.futures.request(9, MetadataRequest(topics=[])).exception(LONG), KafkaError)
    with pytest.raises(ConfigError, match="must not be empty"):
        client.futures.commit_offsets("", {})


def test_callbacks_run_on_the_callback_executor_and_may_wait_for_other_futures(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    seen: list[tuple[str, int | None]] = []
    done = threading.Event()

    def follow(future: object) -> None:
        other = client.futures.list_offsets({T0: LATEST}).result(LONG)
        seen.append((threading.current_thread().name, other[T0].offset))
        done.set()

    client.futures.find_coordinator("g").add_done_callback(follow)
    assert done.wait(LONG)
    assert seen == [("pykafka4-callbacks", 3)]


def test_a_cancelled_call_ends(server: ModelServer, client: Client) -> None:
    topic(server, 1)
    future = client.futures.fetch({T0: 1}, max_wait_ms=1_000)
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result(LONG)
    assert len(client.fetch({T0: 0})[T0].records) == 1


def test_a_cancelled_call_is_not_tried_again(server: ModelServer, client: Client) -> None:
    topic(server, 1)
    kind, seen = OffsetCommitResponse.Topic, list[int]()

    def loading(call: Any) -> OffsetCommitResponse:
        seen.append(1)
        row = kind.Partition(partition_index=0, error_code=BY_NAME["COORDINATOR_LOAD_IN_PROGRESS"].code)
        return OffsetCommitResponse(topics=[kind(name="t", partitions=[row])])

    server.do(lambda cluster: cluster.control("OffsetCommit", loading))
    future = client.futures.commit_offsets("g", {T0: 1})
    until(lambda: seen)
    assert future.cancel()
    server.fail("ListOffsets", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=0, times=3)
    assert client.list_offsets({T0: LATEST})[T0].offset == 1, "after three backoffs"
    assert client.committed_offsets("g") == {}


def test_futures_fail_when_the_client_is_closed(server: ModelServer) -> None:
    topic(server, 1)
    with Client(bootstrap_servers=server.bootstrap_servers) as client:
        future = client.futures.fetch({T0: 1}, max_wait_ms=30_000)
    assert isinstance(future.exception(LONG), ClosedError)
    with pytest.raises(ClosedError):
        client.futures.fetch({T0: 0})


def test_asyncio_awaits_a_future(server: ModelServer, client: Client) -> None:
    topic(server, 3)

    async def main() -> int:
        return len((await asyncio.wrap_future(client.futures.fetch({T0: 0})))[T0].records)

    assert asyncio.run(main()) == 3
