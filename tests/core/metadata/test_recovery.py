"""Recovery: partitions go offline and come back one by one."""

from __future__ import annotations

from random import Random
from unittest.mock import Mock, call
from uuid import UUID

import pytest

from pykafka4.core import INFINITY
from pykafka4.core.metadata.recovery import PartitionOffline, PartitionOnline, Recovery
from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import KafkaError, broker_error
from pykafka4.records import TopicPartition
from tests.core.scripted_brokers import World, config, metadata

ME = "the test"  # who wants topics here
ID = UUID(int=1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOT_LEADER = broker_error(6, "t-0")
STORAGE = broker_error(56, "t-0")


@pytest.fixture
def world() -> World:
    """Topic t: partition 0 led by 1, partition 1 by 2; both connected."""
    world = World.make(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    for node in (1, 2, 3):
        world.engine.network.want(node)
    world.run(10.0)
    world.events.clear()
    world.asked.clear()
    return world


def report(world: World, tp: TopicPartition = T0, reason: object = NOT_LEADER, node: int | None = None) -> None:
    world.engine.recovery.report(world.now, tp, reason, node)  # type: ignore[arg-type]


def test_a_partition_that_failed_has_no_leader_and_the_others_keep_theirs(world: World) -> None:
    report(world)
    assert world.engine.recovery.leader(T0) is None
    assert world.engine.recovery.leader(T1) == Leader(2, 7)
    assert world.engine.recovery.offline[T0].reason is NOT_LEADER
    assert world.engine.recovery.leader(TopicPartition("x", 0)) is None


def test_a_failed_partition_requests_metadata_at_once(world: World) -> None:
    began = world.now
    report(world)
    world.run(0.001)
    assert world.asked[0][0] == began


def test_the_partition_returns_to_the_same_leader_after_the_back_off(world: World) -> None:
    changes = world.engine.recovery.changes
    report(world)
    world.run(0.07)
    assert world.engine.recovery.leader(T0) is None
    world.run(0.06)
    assert world.engine.recovery.leader(T0) == Leader(1, 5)
    assert world.engine.recovery.changes == changes + 1


def test_no_timer_is_left_once_all_partitions_are_back(world: World) -> None:
    report(world)
    world.engine.recovery.poll(world.now)
    world.engine.recovery.offline.clear()
    world.engine.recovery.poll(world.now)
    assert world.engine.recovery._timers.wake_at == INFINITY


@pytest.mark.parametrize("milliseconds", [1, 5, 10])
def test_a_short_back_off_is_waited_for_too(milliseconds: int) -> None:
    world = World.make(retry_backoff_ms=milliseconds, retry_backoff_max_ms=milliseconds)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    world.engine.network.want(1)
    world.run(10.0)
    report(world)
    world.run(milliseconds / 1000 * 0.5)
    assert world.engine.recovery.leader(T0) is None
    world.run(milliseconds / 1000 * 0.8)
    assert world.engine.recovery.leader(T0) == Leader(1, 5)


def test_the_partition_returns_to_a_leader_connected_just_before_the_end_of_the_back_off() -> None:
    network = Mock(changes=0, up=True, **{"ready.return_value": False})
    cluster = Mock(on_change=[], on_forgotten=[], **{"leader.return_value": Leader(1, 5)})
    recovery = Recovery(config(), cluster, network, Random(1), Mock())
    recovery.report(100.0, T0, NOT_LEADER)
    due = recovery.offline[T0].not_before
    recovery.poll(due - 0.006)  # the timer runs this early
    assert recovery.leader(T0) is None
    network.changes, network.ready.return_value = 1, True
    recovery.poll(due - 0.004)
    assert recovery.leader(T0) == Leader(1, 5)


def test_partitions_without_a_leader_are_checked_only_when_their_metadata_changes() -> None:
    """Of many topics whose leaders are down each asks by itself (or the cluster does: u), and has only its own leaders connected to."""
    network = Mock(changes=0, up=True, **{"ready.return_value": False})
    cluster = Mock(on_change=[], on_forgotten=[], **{"seeks.side_effect": lambda topic: topic == "u"})
    cluster.leader.side_effect = lambda tp: Leader(1 if tp.topic == "t" else 2, 5)
    recovery = Recovery(config(), cluster, network, Random(1), Mock())
    for tp in (T0, TopicPartition("u", 0)):
        recovery.report(100.0, tp, NOT_LEADER)
    recovery.poll(100.0)
    network.want.reset_mock()
    recovery._ask("t", 101.0)
    assert network.want.mock_calls == [call(1)]
    cluster.seeks.reset_mock()
    for _ in range(3):
        network.changes += 1
        recovery.poll(100.0)
    assert not cluster.seeks.called


def test_the_partition_moves_to_a_new_leader_at_once(world: World) -> None:
    world.metadata = metadata({"t": (ID, [(3, 6), (2, 7)])})
    report(world)
    world.run(0.001)
    assert world.engine.recovery.leader(T0) == Leader(3, 6)


def test_a_new_epoch_of_the_same_leader_counts_as_new(world: World) -> None:
    world.metadata = metadata({"t": (ID, [(1, 6), (2, 7)])})
    report(world)
    world.run(0.001)
    assert world.engine.recovery.leader(T0) == Leader(1, 6)


def test_a_hint_that_came_with_the_error_is_followed_at_once(world: World) -> None:
    world.engine.cluster.hint(T0, 3, 6)
    report(world, node=1)
    world.run(0.0)
    assert world.engine.recovery.leader(T0) == Leader(3, 6)


def test_the_back_off_doubles_until_a_request_succeeded(world: World) -> None:
    rests = []
    for _ in range(7):
        began = world.now
        report(world)
        while T0 in world.engine.recovery.offline:
            world.run(0.01)
        rests.append(world.now - began)
    assert rests[0] <= 0.14
    assert 0.15 <= rests[1] <= 0.26
    assert all(0.75 <= rest <= 1.25 for rest in rests[4:])
    world.engine.recovery.healthy(T0)
    report(world)
    world.run(0.14)
    assert T0 not in world.engine.recovery.offline


def test_the_failures_of_requests_under_way_together_are_one_failure(world: World) -> None:
    for _ in range(5):
        report(world)
    report(world, reason=STORAGE)
    assert world.engine.recovery.offline[T0].reason is STORAGE
    assert world.engine.recovery.offline[T0].attempts == 1
    world.run(0.14)
    assert T0 not in world.engine.recovery.offline


def test_a_partition_without_leader_waits_for_one_and_goes_on_asking(world: World) -> None:
    world.metadata = metadata({"t": (ID, [(-1, 6), (2, 7)])})
    report(world)
    world.run(30.0)
    assert T0 in world.engine.recovery.offline
    assert 20 <= len(world.asked) <= 60
    world.metadata = metadata({"t": (ID, [(2, 7), (2, 7)])})
    world.run(1.3)
    assert world.engine.recovery.leader(T0) == Leader(2, 7)


def test_a_leader_that_cannot_be_reached_is_tried_until_it_can(world: World) -> None:
    world.lose(("h1", 1))
    report(world)
    world.run(20.0)
    assert T0 in world.engine.recovery.offline
    assert T1 not in world.engine.recovery.offline
    attempts = [when for when, host, _ in world.attempts if host == "h1" and when > world.now - 10]
    assert 5 <= len(attempts) <= 20
    world.down.clear()
    world.run(2.5)  # the pauses of the connection and of the partition, at their longest, one after the other
    assert world.engine.recovery.leader(T0) == Leader(1, 5)


def test_another_leader_is_followed_while_the_old_one_is_still_dead(world: World) -> None:
    world.lose(("h1", 1))
    report(world)
    world.run(5.0)
    world.metadata = metadata({"t": (ID, [(3, 6), (2, 7)])})
    world.run(1.3)
    assert world.engine.recovery.leader(T0) == Leader(3, 6)


def test_with_every_broker_down_nothing_spins_and_all_come_back(world: World) -> None:
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    for address in (("h1", 1), ("h2", 2), ("h3", 3), ("b1", 9092), ("b2", 9092)):
        world.lose(address)
    for tp in partitions:
        report(world, tp)
    turns, attempts = world.turns, len(world.attempts)
    world.run(60.0)
    assert world.turns - turns < 60 * 60
    assert len(world.attempts) - attempts < 60 * 12
    world.down.clear()
    world.run(2.5)
    assert not world.engine.recovery.offline


def test_going_offline_and_coming_back_are_reported_once_each(world: World) -> None:
    report(world)
    report(world)
    world.run(5.0)
    told = [event for event in world.events if isinstance(event, (PartitionOffline, PartitionOnline))]
    assert told == [PartitionOffline(T0, NOT_LEADER), PartitionOnline(T0)]


def test_a_partition_that_fails_again_and_again_is_logged_rarely_until_a_request_succeeds(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(20):
        report(world, reason=STORAGE)
        world.run(2.0)
        assert T0 not in world.engine.recovery.offline, "its backoff is over, and it is tried again"
    troubles = world.engine.network.troubles
    assert [record.getMessage().count("t-0: KAFKA_STORAGE_ERROR") for record in caplog.records] == [1, 1]
    assert "a disk of the broker has failed" in str(troubles.reason(world.now))
    world.engine.recovery.healthy(T0)
    assert troubles.reason(world.now) is None


def test_a_partition_that_stays_offline_is_logged_rarely_until_it_is_back(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.metadata = metadata({"t": (ID, [(-1, 6), (2, 7)])})
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    world.engine.recovery.take_offline(world.now, T0, KafkaError("t-0: no leader"))
    world.run(40.0)
    troubles = world.engine.network.troubles
    assert [record.getMessage().count("t-0: no leader") for record in caplog.records] == [1, 1]
    assert troubles.reason(world.now) == "t-0: no leader"
    world.metadata = metadata({"t": (ID, [(2, 7), (2, 7)])})
    world.run(2.5)
    assert troubles.reason(world.now) is None


def test_an_error_of_a_topic_is_logged_rarely_until_the_topic_is_found(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.engine.cluster.want("missing", ME)
    world.run(40.0)
    troubles = world.engine.network.troubles
    assert [record.getMessage().count("topic missing: UNKNOWN_TOPIC_OR_PARTITION") for record in caplog.records] == [1, 1]
    assert "does not exist" in str(troubles.reason(world.now))
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)]), "missing": (UUID(int=2), [(1, 1)])})
    world.run(2.5)
    assert troubles.reason(world.now) is None


def test_a_topic_that_was_created_and_has_no_leader_yet_is_not_said_to_be_missing(world: World) -> None:
    world.engine.cluster.want("new", ME)
    world.run(10.0)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)]), "new": (UUID(int=2), [(-1, 1)])})
    world.run(2.5)
    assert world.engine.network.troubles.reason(world.now) is None


def test_an_unused_partition_is_removed(world: World) -> None:
    report(world)
    world.engine.cluster.forget("t", ME)
    assert not world.engine.recovery.offline
    assert not world.engine.recovery._backoffs
    report(world)
    world.run(5.0)
    assert not world.engine.recovery.offline, "a late answer to somebody who is gone"
    assert not [event for event in world.events if isinstance(event, PartitionOnline)]


def test_ten_thousand_offline_partitions_come_back_without_a_request_each(world: World) -> None:
    count = 10_000
    world.metadata = metadata({"big": (UUID(int=2), [(1 + n % 3, 0) for n in range(count)])})
    world.engine.cluster.want("big", ME)
    world.run(3.0)
    world.asked.clear()
    for n in range(count):
        report(world, TopicPartition("big", n))
    world.run(0.2)
    assert not world.engine.recovery.offline
    assert len(world.asked) <= 3


class Looks:
    """Counts the leaders that were looked up."""

    def __init__(self, world: World) -> None:
        self.count = 0
        self._leader = world.engine.cluster.leader
        world.engine.cluster.leader = self.leader  # type: ignore[method-assign]

    def leader(self, tp: TopicPartition) -> Leader | None:
        self.count += 1
        return self._leader(tp)


def leaderless(world: World, topics: int, partitions: int) -> list[TopicPartition]:
    """So many topics, wanted, whose partitions have no leader and are reported."""
    names = [f"gone-{n}" for n in range(topics)]
    told = {name: (UUID(int=100 + n), [(1, 0)] * partitions) for n, name in enumerate(names)}
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)]), **told})
    for name in names:
        world.engine.cluster.want(name, ME)
    world.run(3.0)
    told = {name: (topic_id, [(-1, 1)] * partitions) for name, (topic_id, _) in told.items()}
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)]), **told})
    gone = [TopicPartition(name, p) for name in names for p in range(partitions)]
    for tp in gone:
        report(world, tp)
    world.run(5.0)
    return gone


@pytest.mark.parametrize(("topics", "partitions"), [(1, 3000), (300, 10)])
def test_thousands_of_partitions_without_leader_cost_no_connection_and_no_scan(world: World, topics: int, partitions: int) -> None:
    gone = leaderless(world, topics, partitions)
    looks, attempts, turns = Looks(world), len(world.attempts), world.turns
    world.run(60.0)
    assert len(world.attempts) == attempts
    assert looks.count == 0
    assert world.turns - turns < 60 * 40
    for _ in range(10):  # what happens elsewhere is no reason to look at them
        world.metadata.topics[0].partitions[0].leader_epoch += 1
        report(world)
        world.run(1.5)
    assert len(world.attempts) == attempts
    assert looks.count < 1000
    assert set(world.engine.recovery.offline) >= set(gone)


def test_partitions_that_get_a_leader_come_back_while_the_others_wait(world: World) -> None:
    gone = leaderless(world, 2, 100)
    back = [(2, 2) if p % 2 else (-1, 2) for p in range(100)]
    world.metadata = metadata({"gone-0": (UUID(int=100), back), "gone-1": (UUID(int=101), [(-1, 1)] * 100)})
    world.run(1.5)
    offline = world.engine.recovery.offline
    assert set(offline) == {tp for tp in gone if tp.topic == "gone-1" or tp.partition % 2 == 0}


def test_partitions_wait_for_the_connection_to_their_leader_and_come_back_with_it(world: World) -> None:
    world.lose(("h1", 1))
    report(world)
    report(world, T1)
    world.run(3.0)
    looks = Looks(world)
    world.run(10.0)
    assert looks.count == 0, "nothing happened to it"
    assert set(world.engine.recovery.offline) == {T0}
    assert [when for when, _ in world.asked if when > world.now - 5.0], "there may be news of another leader"
    world.down.clear()
    world.run(1.3)
    assert not world.engine.recovery.offline
    assert not world.engine.recovery._awaited
    assert not world.engine.recovery._outages


def test_a_partition_that_the_metadata_does_not_know_is_asked_about(world: World) -> None:
    report(world, TopicPartition("t", 7))
    world.run(2.0)
    world.asked.clear()
    world.run(10.0)
    assert 5 <= len(world.asked) <= 20
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7), *[(3, 0)] * 6])})
    world.run(1.3)
    assert world.engine.recovery.leader(TopicPartition("t", 7)) == Leader(3, 0)


def test_a_new_leader_that_is_not_connected_is_connected_to_at_once() -> None:
    world = World.make(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    world.engine.network.want(1)
    world.run(10.0)
    assert not world.engine.network.ready(3)
    world.engine.cluster.hint(T0, 3, 6)
    report(world, node=1)
    world.run(0.05)
    assert world.engine.recovery.leader(T0) == Leader(3, 6)


def test_a_new_leader_is_connected_to_although_no_other_connection_comes_or_goes() -> None:
    network = Mock(changes=0, up=True, **{"ready.side_effect": lambda node: node != 3})
    leaders = {T0: Leader(1, 5), T1: Leader(2, 7)}
    cluster = Mock(on_change=[], on_forgotten=[], **{"leader.side_effect": leaders.get})
    recovery = Recovery(config(), cluster, network, Random(1), Mock())
    recovery.report(100.0, T1, NOT_LEADER)
    recovery.poll(100.0)
    assert not network.want.called
    recovery.report(100.0, T0, NOT_LEADER)
    leaders[T0] = Leader(3, 6)
    recovery.poll(100.0)
    assert network.want.mock_calls == [call(3)]


def test_a_leader_whose_connection_ended_in_the_turn_it_was_ready_is_connected_to_again(world: World) -> None:
    """Its topic has a partition without a leader: the cluster requests it, and nothing changes. Only the connection leads back here."""
    world.metadata = metadata({"t": (ID, [(-1, 5), (2, 7)])}, brokers={node: (f"h{node}", node) for node in range(1, 30)})
    world.engine.cluster.refresh(world.now, ("t",))
    world.lose(("h2", 2))
    report(world, T1)
    world.run(1.0)
    world.down.clear()
    world.mute = set(range(max(world.links) + 1, 1000))
    world.run(2.5)
    ((link, header, _),) = [muted for muted in world.muted if world.links.get(muted[0]) == ("h2", 2)]
    world.answer(link, header, world.speaks)
    assert world.engine.network.ready(2)
    world.lose(("h2", 2))
    world.down.clear()
    world.mute.clear()
    world.run(2.5)
    assert world.engine.recovery.leader(T1) == Leader(2, 7)
