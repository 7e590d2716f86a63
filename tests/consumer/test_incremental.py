"""Single partitions come and go: what the application reads, commits and hears of, with a model cluster that checks each commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.consumer import Consumer
from pykafka4.errors import ClosedError, GroupError
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.testing.groups.group import GroupState, JoinRequest, Member
from tests.consumer.consuming import Listener, Maker, fill, numbers, poll_until, read, topic
from tests.core.incremental_harness import IncrementalProtocol, incremental
from tests.inspection import inspect

Become = Callable[..., None]
JOINED = JoinRequest("m", None, "c", "consumer", (), 600.0, 600.0, needs_id_first=False)


@pytest.fixture
def incrementally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.core.group.membership.classic.ClassicProtocol", incremental)


def beginning(server: ModelServer, consumer: Consumer, *partitions: int) -> Become:
    """Has `consumer` join with `partitions`. The result begins another epoch: the coordinator takes no commit of an earlier one."""
    machine = inspect(consumer).machine
    protocol = machine.membership.protocol
    assert isinstance(protocol, IncrementalProtocol)

    def of(*partitions: int) -> tuple[TopicPartition, ...]:
        return tuple(TopicPartition("t", partition) for partition in partitions)

    def expect(epoch: int) -> Callable[[Any], None]:
        def act(cluster: Any) -> None:
            group = cluster.group("g")
            group.members["m"], group.generation, group.state = Member("m", JOINED), epoch, GroupState.STABLE

        return act

    def become(*partitions: int) -> None:
        def act(now: float) -> None:
            server.do(expect(protocol.generation + 1))
            protocol.become(now, *of(*partitions))

        inspect(consumer).loop.ask(act, 5.0)

    protocol.target = of(*partitions)
    server.do(expect(1))
    poll_until(consumer, lambda: consumer.assignment() == set(of(*partitions)))
    return become


def test_kept_partitions_are_read_without_a_gap_or_repetition_while_others_come_and_go(
    server: ModelServer, make: Maker, incrementally: None
) -> None:
    topic(server, 0, 0, 0)
    told = Listener()
    consumer = make.member(told, auto_commit_interval_ms=10)
    become = beginning(server, consumer, 0, 1)
    for partition in range(3):
        fill(server, "t", partition, numbers(0, 100))
    seen: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def note(records: list[Any]) -> None:
        for record in records:
            seen[record.partition].append(record.offset)

    rounds = [(1,), (1, 2), (0, 1), (0, 1, 2), (1, 2), (0, 1)]
    for partitions in rounds:
        note(consumer.poll(0.2, max_records=7))
        become(*partitions)
        wanted = {("t", partition) for partition in partitions}
        note(poll_until(consumer, lambda wanted=wanted: consumer.assignment() == wanted))
        fill(server, "t", 1, numbers(0, 20))
        consumer.commit()  # the coordinator refuses every epoch but the present one
    become(0, 1, 2)
    note(read(consumer, 420 - sum(map(len, seen.values()))))
    assert seen == {0: list(range(100)), 1: list(range(220)), 2: list(range(100))}
    assert told.told[:4] == [
        ("assigned", [("t", 0), ("t", 1)]),
        ("revoked", [("t", 0)]),
        ("assigned", [("t", 2)]),
        ("revoked", [("t", 2)]),
    ]


def test_only_revoked_partitions_are_committed_last(server: ModelServer, make: Maker, incrementally: None) -> None:
    topic(server, 0, 0)
    consumer = make.member(auto_commit_interval_ms=3_600_000)
    become = beginning(server, consumer, 0, 1)
    for partition in range(2):
        fill(server, "t", partition, numbers(0, 10))
    read(consumer, 20)
    consumer.poll(0)  # what the last poll returned is finished
    become(1)
    assert poll_until(consumer, lambda: consumer.assignment() == {("t", 1)}) == []
    stored = server.do(lambda cluster: {tp: at.offset for tp, at in cluster.group("g").offsets.items()})
    assert stored == {("t", 0): 10}
    with pytest.raises(GroupError, match="t-0: not assigned to this consumer"):
        consumer.commit({("t", 0): 5})
    fill(server, "t", 0, numbers(0, 5))
    fill(server, "t", 1, numbers(0, 5))
    assert {record.partition for record in read(consumer, 5)} == {1}


def test_partitions_that_are_lost_are_not_committed_and_the_others_are_read_on(
    server: ModelServer, make: Maker, incrementally: None
) -> None:
    topic(server, 0, 0)
    told = Listener()
    consumer = make.member(told, auto_commit_interval_ms=3_600_000)
    beginning(server, consumer, 0, 1)
    for partition in range(2):
        fill(server, "t", partition, numbers(0, 10))
    read(consumer, 20)
    membership = inspect(consumer).machine.membership
    inspect(consumer).loop.ask(lambda now: membership.lost([TopicPartition("t", 0)], "for this test"), 5.0)
    with pytest.raises(GroupError, match="for this test"):
        consumer.commit({("t", 0): 5})
    poll_until(consumer, lambda: told.told[-1] == ("lost", [("t", 0)]))
    consumer.commit({("t", 1): 5})
    fill(server, "t", 1, numbers(0, 5))
    assert [record.offset for record in read(consumer, 5)] == list(range(10, 15))
    assert server.do(lambda cluster: set(cluster.group("g").offsets)) == {("t", 1)}


def test_close_tells_the_listener_of_each_partition_once(server: ModelServer, make: Maker, incrementally: None) -> None:
    topic(server, 0, 0, 0)

    class Closing(Listener):
        def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            consumer.close(5)

    told = Closing()
    consumer = make.member(told)
    become = beginning(server, consumer, 0, 1, 2)
    become(1, 2)
    with pytest.raises(ClosedError):
        poll_until(consumer, lambda: False)
    assert told.told[1:] == [("revoked", [("t", 0)]), ("revoked", [("t", 1), ("t", 2)])]
