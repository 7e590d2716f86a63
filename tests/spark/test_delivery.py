"""The writer with a real producer, on model brokers: failures come in time, with their partition and cause, and end with their task."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from pykafka4.errors import BufferFull, DeliveryFailed
from pykafka4.spark import partition_writer, worker_stats, workers
from pykafka4.testing import ModelServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Three brokers, a topic of two partitions, and an empty pool that is closed in the end."""
    monkeypatch.setattr(workers, "_pools", {})
    with ModelServer() as brokers:
        brokers.create_topic("t", 2)
        yield brokers
        workers.close()


def config(server: ModelServer, **options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": server.bootstrap_servers, **options}


def values(server: ModelServer) -> list[bytes | None]:
    return [record.value for record in server.records("t")]


def alternating(numbers: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Rows for both partitions in turn; a pause now and then leaves the machine to others."""
    for number in numbers:
        if number % 100 == 0:
            time.sleep(0.01)
        yield {"value": str(number), "where": number % 2}


def test_when_the_writer_returns_everything_is_in_the_log(server: ModelServer) -> None:
    partition_writer(config(server, linger_ms=10_000), topic="t", partition="where")(alternating(iter(range(500))))
    assert sorted(map(int, filter(None, values(server)))) == list(range(500))


def test_two_tasks_share_a_producer(server: ModelServer) -> None:
    write = partition_writer(config(server), topic="t")
    write([{"value": "a"}])
    write([{"value": "b"}])
    assert sorted(filter(None, values(server))) == [b"a", b"b"]
    assert [stats.acked for stats in worker_stats()] == [2]


def test_one_partition_without_a_leader_fails_the_task_in_time_although_the_other_flows(server: ModelServer) -> None:
    write = partition_writer(config(server, delivery_timeout_ms=1000), topic="t", partition="where")
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    begun = time.monotonic()
    with pytest.raises(DeliveryFailed) as caught:
        write(alternating(count()))
    assert time.monotonic() - begun < 4.0
    assert (caught.value.topic, caught.value.partition) == ("t", 0)
    assert caught.value.cause is not None
    assert any("failures that the application had not seen" in note for note in caught.value.__notes__)
    assert worker_stats() == []


def test_the_next_task_knows_nothing_of_the_failed_one(server: ModelServer) -> None:
    write = partition_writer(config(server, delivery_timeout_ms=1000), topic="t", partition="where")
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    with pytest.raises(DeliveryFailed):
        write([{"value": "lost", "where": 0}])
    write([{"value": "kept", "where": 1}])
    assert values(server) == [b"kept"]
    assert [(stats.acked, stats.lost) for stats in worker_stats()] == [(1, 0)]


def test_a_full_buffer_says_which_partition_is_in_the_way_and_why(server: ModelServer) -> None:
    options = {"buffer_memory": 65_536, "max_partition_bytes": 32_768, "max_block_ms": 300, "batch_size": 4096}
    write = partition_writer(config(server, **options), topic="t", partition="where")
    write([{"value": "knows the topic", "where": 0}])
    server.do(lambda cluster: cluster.orphan("t", 0, 600.0))
    with pytest.raises(BufferFull, match="t-0 needs") as caught:
        write({"value": "x" * 1000, "where": 0} for _ in range(1000))
    assert any("t-0 is offline: " in note for note in caught.value.__notes__), caught.value.__notes__


def test_an_error_of_the_rows_drops_what_is_not_yet_sent(server: ModelServer) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield {"value": "early"}
        raise ZeroDivisionError

    begun = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        partition_writer(config(server, linger_ms=60_000, delivery_timeout_ms=120_000), topic="t")(rows())
    assert time.monotonic() - begun < 10.0
    assert worker_stats() == []
