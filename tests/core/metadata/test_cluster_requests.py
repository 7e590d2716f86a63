"""Cluster: when metadata is requested, from which broker, and what that costs."""

from __future__ import annotations

import attrs
import pytest

from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import KafkaError
from pykafka4.wire.protocol.messages_cluster import MetadataResponse
from tests.core.cluster_harness import ID, ME, T0, T1, answer_metadata, knowing
from tests.core.scripted_brokers import World, metadata

# -- when it is asked for


def test_refresh_is_at_once_the_first_time_and_then_with_back_off() -> None:
    world = knowing(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.run(10.0)
    world.asked.clear()
    began = world.now
    for _ in range(1000):
        world.engine.cluster.refresh(world.now, ["t"])
        world.run(0.01)
    assert world.asked[0][0] == began
    assert 8 <= len(world.asked) <= 20


def test_after_a_change_the_next_refresh_is_immediate_again() -> None:
    world = knowing(retry_backoff_ms=500, retry_backoff_max_ms=1000)
    world.run(10.0)
    world.metadata = metadata({"t": (ID, [(2, 6), (2, 7)])})
    world.engine.cluster.refresh(world.now, ["t"])
    world.run(0.001)
    assert world.engine.cluster.leader(T0) == Leader(2, 6)
    world.metadata = metadata({"t": (ID, [(3, 7), (2, 7)])})
    world.engine.cluster.refresh(world.now, ["t"])
    world.run(0.001)
    assert world.engine.cluster.leader(T0) == Leader(3, 7)


def test_an_answer_without_changes_creates_no_new_objects() -> None:
    world = knowing()
    cluster = world.engine.cluster
    before = cluster.leader(T0), cluster.leader(T1)
    assert None not in before
    version = cluster.version
    world.asked.clear()
    answer_metadata(world, world.metadata)
    assert world.asked
    assert cluster.version == version
    assert all(now is then for now, then in zip((cluster.leader(T0), cluster.leader(T1)), before, strict=True))


def test_metadata_is_refreshed_before_its_maximum_age_and_not_in_step_with_other_clients() -> None:
    ages = []
    for seed in range(8):
        world = World.make(seed=seed, metadata_max_age_ms=100_000)
        world.run()
        world.asked.clear()
        world.run(101.0)
        ages.append(world.asked[0][0] - 100.0)
    assert all(79 <= age <= 100 for age in ages)
    assert max(ages) - min(ages) > 1


def test_an_idle_client_asks_for_nothing_else() -> None:
    world = knowing()
    world.asked.clear()
    turns = world.turns
    world.run(200.0)
    assert not world.asked
    assert world.turns - turns < 15


def test_a_lost_broker_triggers_a_refresh() -> None:
    world = knowing()
    world.engine.network.want(2)
    world.run(10.0)
    world.asked.clear()
    world.lose(("h2", 2))
    world.run()
    assert world.asked


def test_a_lost_broker_triggers_a_refresh_while_another_is_connected() -> None:
    world = knowing()
    for node in (1, 2):
        world.engine.network.want(node)
    world.run(10.0)
    world.asked.clear()
    world.lose(("h2", 2))
    assert world.engine.network.up
    world.run()
    assert world.asked


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    world = knowing(request_timeout_ms=30_000)
    world.run(10.0)
    world.mute.update(world.links)
    world.engine.cluster.refresh(world.now)
    world.metadata = metadata({"t": (ID, [(3, 6), (2, 7)])})
    world.run(4.5)
    assert world.engine.cluster.leader(T0) == Leader(3, 6)


def test_all_brokers_down_is_cheap_and_over_when_one_comes_back() -> None:
    world = knowing()
    addresses = {("h1", 1), ("h2", 2), ("h3", 3), ("b1", 9092), ("b2", 9092)}
    for address in addresses:
        world.lose(address)
    world.run(10.0)
    attempts, turns = len(world.attempts), world.turns
    world.run(60.0)
    assert len(world.attempts) - attempts <= 60 * 8
    assert world.turns - turns <= 60 * 30
    world.down.clear()
    world.run(1.3)
    assert world.engine.network.up


def test_a_cluster_that_was_replaced_is_found_through_the_bootstrap_servers() -> None:
    world = knowing()
    for address in (("h1", 1), ("h2", 2), ("h3", 3)):
        world.lose(address)
    for link in list(world.links):
        world.lose(world.links[link])
    world.down -= {("b1", 9092), ("b2", 9092)}
    world.metadata = metadata({"t": (ID, [(1, 50), (1, 70)])}, brokers={1: ("new", 1)})
    world.run(5.0)
    assert world.engine.cluster.brokers[1].host == "new"
    assert world.engine.cluster.leader(T0) == Leader(1, 50)


def test_the_broker_can_ask_for_a_new_bootstrap() -> None:
    world = knowing()
    world.metadata = attrs.evolve(metadata({}), error_code=129)
    world.engine.cluster.refresh(world.now)
    world.run(0.5)
    assert not world.engine.cluster.brokers
    assert world.engine.cluster.leader(T0) is None
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(3.0)
    assert set(world.engine.cluster.brokers) == {1, 2, 3}
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_late_answer_does_not_bring_brokers_back_that_a_newer_one_has_let_go() -> None:
    """A frozen broker thaws and answers what it was asked long ago: those addresses may be out of use."""
    world = knowing()
    world.run(5.0)
    for node in (1, 2, 3):
        world.engine.network.want(node)
    world.run(1.0)
    silent = set(world.links)
    world.mute |= silent
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    ((link, header, _),) = world.muted
    world.mute -= silent - {link}
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])}, brokers={1: ("h1", 1), 2: ("elsewhere", 2)})
    world.run(5.0)
    assert world.engine.cluster.brokers[2].host == "elsewhere"
    world.answer(link, header, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    world.run()
    assert world.engine.cluster.brokers[2].host == "elsewhere"
    assert set(world.engine.cluster.brokers) == {1, 2}


def test_refreshing_no_topics_asks_for_the_brokers() -> None:
    world = knowing()
    world.asked.clear()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, [], outcomes.append)
    world.run()
    assert outcomes == [None]
    assert [message.topics for _, message in world.asked] == [[]]


def test_topics_wanted_while_a_broker_does_not_answer_do_not_extend_its_deadline() -> None:
    world = knowing()
    world.run(10.0)
    world.mute.update(world.links)
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    world.engine.cluster.want("t", ME)
    world.engine.cluster.refresh(world.now, [])
    world.metadata = metadata({"t": (ID, [(3, 6), (2, 7)])})
    world.run(3.0)
    assert world.engine.cluster.leader(T0) == Leader(3, 6)


# -- brokers with stale metadata

SEEDS = range(6)  # so that the broker with stale metadata is asked first, too
NONE_LEADS = metadata({"t": (ID, [(-1, 4), (-1, 6)])})


def with_a_deaf_broker(seed: int, heard: MetadataResponse, others: tuple[int, ...] = (2,)) -> World:
    """The client is connected to broker 1, which knows `heard` of topic t, and to `others`, which know all."""
    world = World.make(seed)
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.deaf["h1"] = heard
    world.run()
    for node in (1, *others):
        world.engine.network.want(node)
    world.run(1.0)
    return world


@pytest.mark.parametrize("heard", [metadata({}), NONE_LEADS], ids=["missing", "leaderless"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_with_an_error_is_not_requested_from_one_broker_for_ever(seed: int, heard: MetadataResponse) -> None:
    world = with_a_deaf_broker(seed, heard)
    world.engine.cluster.want("t", ME)
    world.run(10.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_with_an_error_connects_to_another_broker_where_only_one_is_connected(seed: int) -> None:
    world = World.make(seed)
    world.deaf = dict.fromkeys(("b1", "b2", "h1"), metadata({}))
    world.down = {("h2", 2), ("h3", 3)}
    world.metadata = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(1.0)
    world.down.clear()
    world.engine.cluster.want("t", ME)
    world.run(15.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_without_brokers_is_requested_from_another_broker(seed: int) -> None:
    world = with_a_deaf_broker(seed, metadata({}, brokers={}))
    for turn in range(10):
        world.engine.cluster.want(f"t{turn}", ME)
        world.engine.cluster.want("t", ME)
        world.run(0.3)
        assert world.engine.cluster.unknown_since("t") is None
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_brokers_need_not_all_be_connected_to_for_a_topic_that_does_not_exist() -> None:
    world = World.make()
    world.metadata = metadata({}, brokers={node: (f"h{node}", node) for node in range(1, 21)})
    world.engine.cluster.want("t", ME)
    world.run(300.0)
    assert 2 <= len({host for _, host, _ in world.attempts}) <= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_refresh_is_not_answered_twice_with_old_metadata(seed: int) -> None:
    """Such as a producer whose application names a partition that it does not know."""
    world = with_a_deaf_broker(seed, metadata({"t": (ID, [(1, 5)])}))
    cluster = world.engine.cluster
    cluster.want("t", ME)
    world.run(1.0)
    for _ in range(2):
        cluster.refreshed(world.now, ["t"], lambda error: None)
        world.run()
    assert cluster.partitions("t") == 2
