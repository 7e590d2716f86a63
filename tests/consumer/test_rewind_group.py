"""Rewinds of a live group on a model cluster: every owner goes on from the new offset, once, or nothing changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from pykafka4 import EARLIEST, LATEST, ConfigError, GroupError, KafkaError, KafkaTimeoutError, aio
from pykafka4.assignors import GroupMember, RangeAssignor, Topics
from pykafka4.consumer import Consumer
from pykafka4.core.group.encoding import subscription_bytes
from pykafka4.core.group.membership.classic import ClassicProtocol
from pykafka4.records import TopicPartition
from pykafka4.testing import ModelServer
from pykafka4.testing.groups.group import JoinRequest
from tests.consumer.consuming import LONG, Listener, Maker, fill, numbers, read, topic
from tests.inspection import inspect

STRATEGIES = ["range", "cooperative-sticky"]
RECORDS = 20
TPS = [TopicPartition("t", partition) for partition in range(4)]


class Reading:
    """A member that reads, and notes which offsets it got since the test asked last."""

    def __init__(self, make: Maker, strategy: Any, **options: Any) -> None:
        self.told, self.strategy = Listener(), strategy
        self.consumer = make(group_id="g", partition_assignment_strategy=strategy, auto_commit_interval_ms=20, **options)
        self.consumer.subscribe(["t"], self.told)
        self.got: dict[TopicPartition, list[int]] = {}

    def turn(self) -> None:
        for record in self.consumer.poll(0.01):
            self.got.setdefault(TopicPartition(record.topic, record.partition), []).append(record.offset)


def turn_until(members: list[Reading], condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, [member.consumer.status()["consumer"] for member in members]
        for member in members:
            member.turn()


def read_all(server: ModelServer, make: Maker, strategy: str, count: int = 3, **options: Any) -> list[Reading]:
    """Members that have read and committed all records."""
    topic(server, *[0] * len(TPS))
    for tp in TPS:
        fill(server, "t", tp.partition, numbers(0, RECORDS))
    members = [Reading(make, strategy, **options) for _ in range(count)]
    turn_until(members, lambda: all(member.consumer.assignment() for member in members) and places(server) == dict.fromkeys(TPS, RECORDS))
    for member in members:
        member.got.clear()
        member.told.told.clear()
    return members


def places(server: ModelServer) -> dict[TopicPartition, int]:
    return server.do(lambda cluster: {tp: at.offset for tp, at in cluster.group("g").offsets.items()})


def got(members: list[Reading]) -> dict[TopicPartition, list[int]]:
    """Every partition's records, whoever read them."""
    found: dict[TopicPartition, list[int]] = {}
    for member in members:
        for tp, offsets in member.got.items():
            found.setdefault(tp, []).extend(offsets)
    return found


def done(future: Future[Any], members: list[Reading]) -> Any:
    turn_until(members, future.done)
    return future.result(0)


def turn_until_read_from(server: ModelServer, members: list[Reading], offsets: dict[TopicPartition, int]) -> None:
    """Each record from there on is read once more, no other is, and all are committed again."""
    expected = {tp: list(range(offset, RECORDS)) for tp, offset in offsets.items()}
    turn_until(members, lambda: got(members) == expected and places(server) == dict.fromkeys(TPS, RECORDS))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_owner_goes_on_from_the_new_offset_and_commits_it(server: ModelServer, make: Maker, strategy: str) -> None:
    members = read_all(server, make, strategy)
    wanted: dict[TopicPartition, Any] = {TPS[0]: 5, TPS[1]: EARLIEST, TPS[2]: 12}
    found = done(members[1].consumer.rewind_group(wanted, LONG), members)
    assert found == {TPS[0]: 5, TPS[1]: 0, TPS[2]: 12}
    turn_until_read_from(server, members, found)
    assigned = [tp for member in members for kind, tps in member.told.told if kind == "assigned" for tp in tps]
    assert set(found) <= set(assigned)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_static_members_rewind_as_well_and_a_second_rewind_follows(server: ModelServer, make: Maker, strategy: str) -> None:
    topic(server, *[RECORDS] * len(TPS))
    members = [Reading(make, strategy, group_instance_id=name) for name in ("a", "b")]
    turn_until(members, lambda: all(member.consumer.assignment() for member in members) and places(server) == dict.fromkeys(TPS, RECORDS))
    for offset, asker in ((5, members[0]), (9, members[1])):
        for member in members:
            member.got.clear()
        done(asker.consumer.rewind_group(dict.fromkeys(TPS, offset), LONG), members)
        turn_until_read_from(server, members, dict.fromkeys(TPS, offset))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rewind_survives_the_death_of_the_leader(server: ModelServer, make: Maker, strategy: str) -> None:
    """It dies when it has to assign: the next leader gets the wish with the next join."""
    members = read_all(server, make, strategy, session_timeout_ms=1_000)
    leader_id = server.do(lambda cluster: cluster.group("g").leader)
    leader = next(each for each in members if each.consumer.status()["consumer"]["member_id"] == leader_id)
    others = [each for each in members if each is not leader]
    future = others[0].consumer.rewind_group(dict.fromkeys(TPS, EARLIEST), LONG)
    leader.consumer.close(0)
    done(future, others)
    turn_until(others, lambda: got(others) == {tp: list(range(RECORDS)) for tp in TPS})


@pytest.mark.parametrize("instances", [(None,) * 3, ("a", "b", "c")], ids=["dynamic", "static"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_rewind_is_not_done_before_an_owner_that_missed_its_assignment_has_another(
    server: ModelServer, make: Maker, monkeypatch: pytest.MonkeyPatch, strategy: str, instances: tuple[str | None, ...]
) -> None:
    """The leader leaves once it has made the assignment: the group rebalances before the owner has asked for its own."""
    topic(server, *[RECORDS] * len(TPS))
    members = [Reading(make, strategy, group_instance_id=name, session_timeout_ms=2_000) for name in instances]
    turn_until(members, lambda: all(member.consumer.assignment() for member in members) and places(server) == dict.fromkeys(TPS, RECORDS))
    leader_id = server.do(lambda cluster: cluster.group("g").leader)
    leader = next(each for each in members if each.consumer.status()["consumer"]["member_id"] == leader_id)
    late, asker = [each for each in members if each is not leader]
    for member in members:
        member.got.clear()
    sync, protocol = ClassicProtocol._sync, inspect(late.consumer).machine.membership.protocol
    waits = [0.0, 0.5]

    def sync_late(self: ClassicProtocol, now: float, shares: Any) -> None:
        time.sleep(waits.pop() if self is protocol and waits else 0)
        sync(self, now, shares)

    monkeypatch.setattr(ClassicProtocol, "_sync", sync_late)
    future = asker.consumer.rewind_group(dict.fromkeys(TPS, EARLIEST), LONG)
    generation = leader.consumer.status()["consumer"]["generation"]
    turn_until(members, lambda: leader.consumer.status()["consumer"]["generation"] > generation and leader.consumer.assignment())
    leader.consumer.close()
    others = [late, asker]
    done(future, others)
    turn_until(others, lambda: {tp for tp, offsets in got(members).items() if 0 in offsets and offsets[-1] == RECORDS - 1} == set(TPS))


@attrs.define(eq=False)
class Dies:
    """Raises when it is told to, on which its member leaves: a leader that is gone between JoinGroup and SyncGroup."""

    now: bool = False
    name: str = "dies"
    cooperative: bool = False

    def assign(self, members: Sequence[GroupMember], topics: Topics) -> dict[str, list[TopicPartition]]:
        if self.now:
            raise RuntimeError("the leader dies")
        return RangeAssignor().assign(members, topics)


def test_a_rewind_survives_a_leader_that_dies_with_the_wish_in_its_hands(server: ModelServer, make: Maker) -> None:
    topic(server, *[RECORDS] * len(TPS))
    members = [Reading(make, Dies()) for _ in range(3)]
    turn_until(members, lambda: all(member.consumer.assignment() for member in members) and places(server) == dict.fromkeys(TPS, RECORDS))
    leader_id = server.do(lambda cluster: cluster.group("g").leader)
    leader = next(each for each in members if each.consumer.status()["consumer"]["member_id"] == leader_id)
    others = [each for each in members if each is not leader]
    for each in others:
        each.got.clear()
    leader.strategy.now = True
    future = others[0].consumer.rewind_group(dict.fromkeys(TPS, EARLIEST), LONG)

    def died() -> bool:
        try:
            leader.turn()
        except KafkaError as error:
            return "the leader dies" in str(error)
        return False

    turn_until(others, died)
    done(future, others)
    turn_until(others, lambda: got(others) == {tp: list(range(RECORDS)) for tp in TPS})


def test_a_datetime_is_the_first_record_since_then_or_the_end(server: ModelServer, make: Maker) -> None:
    members = read_all(server, make, "range", 1)
    later = datetime(2200, 1, 1, tzinfo=UTC)
    assert done(members[0].consumer.rewind_group({TPS[0]: later, TPS[1]: LATEST}, LONG), members) == {TPS[0]: RECORDS, TPS[1]: RECORDS}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_foreign_member_is_named_and_nothing_changes(server: ModelServer, make: Maker, strategy: str) -> None:
    members = read_all(server, make, strategy, 2)
    before = server.do(lambda cluster: cluster.group("g").generation)
    members[0].consumer.close()
    members = members[1:]
    joined: list[Any] = []
    request = JoinRequest("", None, "java", "consumer", ((strategy, subscription_bytes([])),), 60.0, 60.0, needs_id_first=False)
    server.do(lambda cluster: cluster.group("g").join(request, joined.append))
    turn_until(members, lambda: joined and members[0].consumer.assignment() and server.do(lambda c: c.group("g").generation) > before)
    before = server.do(lambda cluster: cluster.group("g").generation)
    future = members[0].consumer.rewind_group({TPS[0]: 0}, LONG)
    with pytest.raises(KafkaError, match=r"nothing has changed: member .*\(client java, host .*\) is not a member that can rewind"):
        done(future, members)
    assert server.do(lambda cluster: cluster.group("g").generation) == before
    assert places(server) == dict.fromkeys(TPS, RECORDS)


def test_a_partition_that_nobody_reads_is_named_and_nothing_is_rewound(server: ModelServer, make: Maker) -> None:
    members = read_all(server, make, "range", 2)
    server.do(lambda cluster: cluster.create_topic("other", 1))
    future = members[0].consumer.rewind_group({TPS[0]: 0, ("other", 0): 0}, LONG)
    with pytest.raises(KafkaError, match="nothing has changed: no member is assigned other-0"):
        done(future, members)
    assert places(server) == dict.fromkeys(TPS, RECORDS)


def test_arguments_are_refused_before_the_group_is_asked(server: ModelServer, make: Maker) -> None:
    (member,) = read_all(server, make, "range", 1)
    for wanted, message in (
        ({}, "no partitions"),
        ({TPS[0]: RECORDS + 1}, f"t-0 has no offset {RECORDS + 1}: its log is from 0 to {RECORDS}"),
        ({TPS[0]: -3}, "-3"),
        ({TPS[0]: datetime(2020, 1, 1)}, "time zone"),
    ):
        with pytest.raises(ConfigError, match=message):
            member.consumer.rewind_group(wanted)
    with pytest.raises(ConfigError, match="call subscribe first"):
        make(group_id="g").rewind_group({TPS[0]: 0})
    with pytest.raises(ConfigError, match="needs a group_id"):
        make().rewind_group({TPS[0]: 0})
    with pytest.raises(ConfigError, match="classic protocol"):
        make(group_id="h", group_protocol="consumer").rewind_group({TPS[0]: 0})


def test_a_rewind_ends_at_its_timeout_and_when_the_consumer_leaves(server: ModelServer, make: Maker) -> None:
    (member,) = read_all(server, make, "range", 1)
    with pytest.raises(KafkaTimeoutError, match="in no assignment in time"):
        member.consumer.rewind_group({TPS[0]: 0}, 0.2).result(LONG)  # nobody polls
    future = member.consumer.rewind_group({TPS[0]: 0}, LONG)
    with pytest.raises(KafkaError, match="waits for another rewind"):
        member.consumer.rewind_group({TPS[0]: 0}, LONG).result(LONG)
    member.consumer.unsubscribe()
    with pytest.raises(KafkaError, match="left group g"):
        future.result(LONG)


def test_all_look_ups_share_the_time_of_the_call(server: ModelServer, make: Maker) -> None:
    (member,) = read_all(server, make, "range", 1)
    server.delay("ListOffsets", 0.4, times=9)
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError):
        member.consumer.rewind_group({TPS[0]: 0, TPS[1]: datetime(2020, 1, 1, tzinfo=UTC)}, 0.6)  # three lookups
    assert time.monotonic() - began < 1.1


def test_a_task_waits_while_another_polls(server: ModelServer, make: Maker) -> None:
    read_all(server, make, "range", 1)[0].consumer.close()

    async def run() -> tuple[dict[TopicPartition, int], list[int]]:
        async with aio.Consumer(bootstrap_servers=server.bootstrap_servers, group_id="g", heartbeat_interval_ms=50) as consumer:
            consumer.subscribe(["t"])
            offsets: list[int] = []

            async def poll() -> None:
                async for record in consumer:
                    offsets.append(record.offset)

            task = asyncio.create_task(poll())
            found = await consumer.rewind_group({TPS[1]: 15}, LONG)
            while len(offsets) < 5:
                await asyncio.sleep(0.01)
            task.cancel()
            return found, offsets

    assert asyncio.run(run()) == ({TPS[1]: 15}, [15, 16, 17, 18, 19])


class CommitsLate(Listener):
    """Commits what it has read when it hears that the partitions are lost."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer: Consumer
        self.errors: list[KafkaError] = []

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        super().on_partitions_lost(partitions)
        try:
            self.consumer.commit(dict.fromkeys(partitions, 10))
        except KafkaError as error:
            self.errors.append(error)


def test_work_of_before_a_rewind_is_not_committed_behind_it(server: ModelServer, make: Maker) -> None:
    """Cooperative, where the partition stays at its owner: buffered records are dropped, and late commits are refused."""
    topic(server, RECORDS)
    late = CommitsLate()
    consumer = late.consumer = make(group_id="g", partition_assignment_strategy="cooperative-sticky", enable_auto_commit=False)
    consumer.subscribe(["t"], late)
    assert [record.offset for record in read(consumer, 10, max_records=10)] == list(range(10))
    future = consumer.rewind_group({TPS[0]: 3}, LONG)
    offsets: list[int] = []
    deadline = time.monotonic() + LONG
    while RECORDS - 1 not in offsets or late.kinds != ["assigned", "lost", "assigned", "assigned"]:
        assert time.monotonic() < deadline, (offsets, late.told)
        if late.kinds.count("lost") == 0:
            consumer.pause(consumer.assignment())
        else:
            consumer.resume(consumer.assignment())
        offsets += [record.offset for record in consumer.poll(0.01)]
    assert (future.result(0), offsets) == ({TPS[0]: 3}, list(range(3, RECORDS)))
    assert [type(error) for error in late.errors] == [GroupError]
    assert places(server) == {TPS[0]: 3}
