"""What `process` (on threads and in tasks) and streams commit of partitions, and where the consumer stands then: as a plain consumer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from integration.waiting import until
from pykafka4 import KafkaError, Producer
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_group import HeartbeatRequest
from pykafka4.wire.records.batch import WireRecord
from tests.consumer.consuming import LONG, Listener, fill, numbers, topic
from tests.consumer.running import HOWS, Running

LATEST = {"auto_offset_reset": "latest"}
EARLIEST = {"auto_offset_reset": "earliest"}
T0 = TopicPartition("t", 0)

every_how = pytest.mark.parametrize("how", HOWS)


def committed(server: ModelServer) -> dict[int, int]:
    return {tp.partition: offset for tp, offset in server.committed("g").items()}


@every_how
def test_where_reading_began_is_committed_so_that_the_next_run_skips_nothing(server: ModelServer, how: str) -> None:
    topic(server, 0)
    with Running(server, how, **LATEST) as first:
        first.begun()
    assert committed(server) == {0: 0}
    fill(server, "t", 0, numbers(0, 3))
    with Running(server, how, **LATEST) as second:
        second.got(3)
    assert second.offsets == [0, 1, 2]


@every_how
def test_a_first_record_that_is_not_finished_is_handled_by_the_next_run(server: ModelServer, how: str) -> None:
    topic(server, 0)
    blocked = threading.Event()

    def handle(record: Any) -> None:
        if how == "tasks":
            raise LookupError
        blocked.wait(LONG)

    with Running(server, how, handle, drain_timeout=0, **LATEST) as first:
        first.begun()
        fill(server, "t", 0, numbers(0, 3))
        first.got(1)
    blocked.set()
    assert committed(server) == {0: 0}
    with Running(server, how, **LATEST) as second:
        second.got(3)
    assert second.offsets == [0, 1, 2]


@pytest.mark.parametrize("how", ["process", "streams"])
def test_close_by_another_thread_commits_where_reading_began(server: ModelServer, how: str) -> None:
    topic(server, 0)
    with Running(server, how, **LATEST) as running:
        running.begun().consumer.close(LONG)
        assert committed(server) == {0: 0}


@every_how
def test_before_a_revocation_where_reading_began_is_committed(server: ModelServer, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.consumer.processing.run_loop.COMMIT_INTERVAL_S", 1e6)
    topic(server, 0, 0)
    with Running(server, how, **LATEST) as first:
        first.begun(0, 1)
        with Running(server, how, **LATEST) as second:
            until(lambda: len(second.consumer.assignment()) == 1, LONG, "a partition of its own")
            assert committed(server) == {0: 0, 1: 0}


@every_how
def test_records_that_are_not_returned_are_committed_as_well(server: ModelServer, how: str) -> None:
    topic(server, 0)
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="x") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("t", b"kept")
        with pytest.raises(LookupError), producer.transaction():
            producer.send("t", b"aborted").result(LONG)
            raise LookupError
    with Running(server, how, isolation_level="read_committed", **EARLIEST) as running:
        running.got(1)
        until(lambda: running.position() == 4, LONG, "the end of the log")
    assert (running.offsets, committed(server)) == ([0], {0: 4})


def unclean(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.unclean_election("t", 0, lost=1))


def two_batches(server: ModelServer) -> None:
    """A hundred records, of which an unclean election can take the second half."""
    server.do(lambda cluster: cluster.create_topic("t", 1, unclean=True))
    fill(server, "t", 0, numbers(0, 50))
    fill(server, "t", 0, numbers(50, 100))


def recreated(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.recreate_topic("t"))


@every_how
@pytest.mark.parametrize(("change", "begins"), [(unclean, 50), (recreated, 0)])
def test_after_a_log_went_back_so_does_what_is_committed(
    server: ModelServer, how: str, change: Callable[[ModelServer], None], begins: int
) -> None:
    two_batches(server)
    with Running(server, how, **EARLIEST) as first:
        first.got(100)
        change(server)
        until(lambda: first.position() == begins, LONG, "the consumer has gone back")
    assert committed(server) == {0: begins}
    server.do(lambda cluster: cluster.append("t", 0, [WireRecord(timestamp_ms=1, value=b"new") for _ in range(begins, 120)]))
    with Running(server, how, **EARLIEST) as second:
        second.got(120 - begins)
    assert second.offsets == list(range(begins, 120))


@pytest.mark.parametrize("how", ["process", "streams"])
@pytest.mark.parametrize(("change", "begins"), [(unclean, 50), (recreated, 0)])
def test_after_a_run_whose_log_went_back_the_consumer_stands_there(
    server: ModelServer, how: str, change: Callable[[ModelServer], None], begins: int
) -> None:
    two_batches(server)
    with Running(server, how, **EARLIEST) as running:
        running.got(100)
        change(server)
        until(lambda: running.position() == begins, LONG, "the consumer has gone back")
        running.end()
        assert running.consumer.position(T0) == begins


@pytest.mark.parametrize("how", ["process", "streams"])
def test_what_the_application_commits_holds_back_nothing(server: ModelServer, how: str) -> None:
    topic(server, 10)
    with Running(server, how, **EARLIEST) as running:
        running.got(10).consumer.commit({T0: 2})
        running.end()
        assert committed(server) == {0: 10}
        running.consumer.commit({T0: 3})
        stop = threading.Event()
        stop.set()
        running.consumer.process(print, stop=stop)
        assert running.consumer.position(T0) == 10
    assert committed(server) == {0: 10}


@every_how
@pytest.mark.parametrize("fails", [False, True])
def test_a_commit_that_failed_or_has_no_outcome_yet_is_repeated_at_the_end(
    server: ModelServer, how: str, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykafka4.consumer.processing.run_loop.COMMIT_INTERVAL_S", 0.0)
    topic(server, 10)
    running, sent = Running(server, how, **EARLIEST), list[Any]()

    def commit_async(offsets: Any, on_done: Any) -> None:
        if fails:
            on_done(offsets, KafkaError("no"))
        sent.append(offsets[T0].offset)

    running.consumer.commit_async = commit_async
    with running:
        until(lambda: 10 in sent, LONG, "a commit of everything")
        assert committed(server) == {}
    assert committed(server) == {0: 10}


@pytest.mark.parametrize("how", ["process", "streams"])
def test_after_a_run_the_place_to_go_on_is_that_of_the_next_run_too(server: ModelServer, how: str) -> None:
    topic(server, 10)
    blocked, stop = threading.Event(), threading.Event()
    with Running(server, how, lambda record: record.offset == 3 and blocked.wait(LONG), drain_timeout=0, **EARLIEST) as running:
        running.got(4).end()
        assert committed(server) == {0: 3}
        blocked.set()
        stop.set()
        running.consumer.process(print, stop=stop)
        assert running.consumer.position(T0) == 3
    assert committed(server) == {0: 3}


@every_how
def test_a_partition_that_the_run_has_paused_is_read_after_a_rebalance(server: ModelServer, how: str) -> None:
    topic(server, 3, 3)
    go_on, told = threading.Event(), Listener()

    def handle(record: Any) -> Any:
        if how != "tasks":
            go_on.wait(LONG)
            return None
        return asyncio.to_thread(go_on.wait, LONG)

    with Running(server, how, handle, max_in_hand=2, listener=told, **EARLIEST) as running:
        until(lambda: len(running.consumer.paused()) == 2, LONG, "the run pauses both partitions")
        server.do(lambda cluster: cluster.push_error(HeartbeatRequest, "ILLEGAL_GENERATION"))
        until(lambda: told.kinds.count("assigned") == 2, LONG, "the partitions come back")
        go_on.set()
        until(lambda: {(r.partition, r.offset) for r in running.handled} >= {(p, i) for p in (0, 1) for i in range(3)}, LONG, "all records")
