"""Offsets that a consumer looks up without moving."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pykafka4 import BrokerError, ClosedError, ConfigError, PartialFailure, Producer, TopicPartition
from pykafka4.core.admin import broker_choices, question_run
from pykafka4.testing import ModelServer
from tests.aio.tasking import consumer_of, run
from tests.consumer.consuming import Maker, topic

T0, T1, T2 = (TopicPartition("t", n) for n in range(3))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (question_run, broker_choices):
        monkeypatch.setattr(module, "MISSING_S", 0.2)


def test_ends_of_partitions_that_are_assigned_or_not(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 5)
    server.do(lambda cluster: cluster.delete_records("t", 1, 2))
    consumer = make.assigned(0)
    assert consumer.beginning_offsets([T0, ("t", 1)]) == {T0: 0, T1: 2}
    assert consumer.end_offsets([T0, ("t", 1)]) == {T0: 3, T1: 5}
    assert consumer.end_offsets(T1) == {T1: 5}
    assert consumer.end_offsets([]) == {}
    assert consumer.position(T0) == 0


def test_offsets_of_times(server: ModelServer, make: Maker) -> None:
    topic(server, 3, 3)
    found = make().offsets_for_times({T0: 1_001, ("t", 1): datetime.fromtimestamp(5, UTC)})
    assert found[T0] is not None
    assert (found[T0].offset, found[T0].timestamp_ms, found[T1]) == (1, 1_001, None)


def test_the_isolation_level_decides_the_end(server: ModelServer, make: Maker) -> None:
    topic(server, 2)
    with Producer(bootstrap_servers=server.bootstrap_servers, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result(10)
        assert make().end_offsets([T0]) == {T0: 3}
        assert make(isolation_level="read_committed").end_offsets([T0]) == {T0: 2}
        producer.abort_transaction()


def test_errors(server: ModelServer, make: Maker) -> None:
    topic(server, 3)
    consumer = make()
    with pytest.raises(BrokerError, match="t-7: UNKNOWN_TOPIC_OR_PARTITION"):
        consumer.end_offsets([("t", 7)])
    with pytest.raises(
        PartialFailure, match=r"beginning_offsets: 1 of 2 partitions failed; Client.list_offsets returns the other offsets"
    ) as caught:
        consumer.beginning_offsets([T0, ("none", 0)])
    assert list(caught.value.errors) == [("none", 0)]
    consumer.close()
    with pytest.raises(ClosedError):
        consumer.end_offsets([T0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda consumer: consumer.end_offsets("t"), r"'t'"),
        (lambda consumer: consumer.offsets_for_times([T0]), r"offsets_for_times takes a mapping of partitions to times"),
        (lambda consumer: consumer.offsets_for_times({T0: datetime(2026, 1, 1)}), r"has no time zone"),
        (lambda consumer: consumer.end_offsets([T0], timeout=-1), r"timeout=-1"),
    ],
)
def test_a_wrong_argument_is_named(make: Maker, call: Any, message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        call(make())


def test_tasks_look_up_offsets(server: ModelServer) -> None:
    topic(server, 3)

    async def main() -> None:
        async with consumer_of(server) as consumer:
            assert await consumer.beginning_offsets([T0]) == {T0: 0}
            assert await consumer.end_offsets([T0]) == {T0: 3}
            found = await consumer.offsets_for_times({T0: 1_002})
            assert found[T0] is not None
            assert found[T0].offset == 2

    run(main())
