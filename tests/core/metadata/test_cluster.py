"""Cluster: the picture only moves forward, is asked for when needed, and costs little."""

from __future__ import annotations

import logging
from random import Random
from uuid import UUID

import attrs
import pytest
from core_talk import World, metadata, versions

from pykafka4.core import INFINITY, Failed, Reply
from pykafka4.core.backoff import Backoff
from pykafka4.core.metadata.cluster import EPOCHS_FROM, BrokerAdded, BrokerRemoved, Change, MetadataChanged
from pykafka4.core.metadata.topic import CONTRADICTED, Leader, Topic
from pykafka4.error_table import Written
from pykafka4.errors import ConfigError, ConnectionLost, KafkaError, UnsupportedVersion
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_cluster import MetadataResponse
from pykafka4.wire.protocol.schema import NO_UUID

ME = "the test"  # who wants topics here
ID, OTHER = UUID(int=1), UUID(int=2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def knowing(**options: object) -> World:
    """A world whose client knows topic t: two partitions, led by 1 (epoch 5) and 2 (epoch 7)."""
    world = World.make(**options)
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    return world


def told(world: World, picture: object) -> None:
    """The brokers tell `picture` when asked."""
    world.picture = picture  # type: ignore[assignment]
    world.engine.cluster.refresh(world.now)
    world.run(2.0)


# -- learning


def test_brokers_are_learned_without_being_asked_and_topics_when_wanted() -> None:
    world = World.make()
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    cluster = world.engine.cluster
    world.run()
    assert set(cluster.brokers) == {1, 2, 3}
    assert (cluster.controller, cluster.cluster_id) == (1, "c")
    assert cluster.partitions("t") == 0
    cluster.want("t", ME)
    world.run()
    assert cluster.partitions("t") == 2
    assert cluster.available("t") == [0, 1]
    assert cluster.leader(T1) == Leader(2, 7)
    assert cluster.topic_id("t") == ID
    assert cluster.topic_name(ID) == "t"
    assert cluster.leader(TopicPartition("t", 2)) is None
    assert cluster.leader(TopicPartition("t", -1)) is None


def test_the_age_of_a_topic_is_the_time_since_it_was_asked_for() -> None:
    world = knowing()
    cluster, asked_at = world.engine.cluster, world.asked[-1][0]
    assert cluster.age("t", world.now + 3.0) == world.now + 3.0 - asked_at
    assert cluster.age("u", world.now) == INFINITY
    cluster.want("u", ME)
    assert cluster.age("u", world.now) == INFINITY, "not asked for yet"


def test_while_no_broker_is_connected_it_is_looked_twice_a_second_whether_one_is() -> None:
    world = World.make()
    assert world.engine.cluster.poll(world.now).wake_at == world.now + 0.5


def test_a_partition_whose_epoch_nobody_tells_is_not_behind() -> None:
    known = Topic(Backoff(0.1, 1.0, Random(1)))
    known.resize(1)
    known.lead(0, 1, 5)
    known.compare(0.0, {0: -1})
    assert known.behind_since is None
    known.compare(0.0, {0: 4})
    assert known.behind_since == 0.0


def test_many_topics_wanted_at_once_are_one_request() -> None:
    world = World.make()
    for number in range(50):
        world.engine.cluster.want(f"t{number}", ME)
    world.run()
    assert len(world.asked) == 1
    assert len(world.asked[0][1].topics or []) == 50


def test_only_topics_of_producers_may_be_created_and_no_others_in_their_request() -> None:
    world = World.make()
    world.engine.cluster.want("read", ME)
    world.engine.cluster.want("written", ME, create=True)
    world.run()
    asked = {tuple(t.name for t in m.topics or []): m.allow_auto_topic_creation for _, m in world.asked}
    assert asked[("written",)] is True
    assert all(not create for names, create in asked.items() if "read" in names)


def test_a_topic_that_is_known_is_never_asked_for_in_a_way_that_creates_it() -> None:
    world = World.make()
    world.picture = metadata({"t": [(1, 0)]})
    world.engine.cluster.want("t", ME, create=True)
    world.run()
    world.asked.clear()
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    assert world.asked
    assert all(not message.allow_auto_topic_creation for _, message in world.asked)


def test_the_option_forbids_creation() -> None:
    world = World.make(allow_auto_create_topics=False)
    world.engine.cluster.want("t", ME, create=True)
    world.run(1.0)
    assert all(not message.allow_auto_topic_creation for _, message in world.asked)


def test_brokers_that_are_starting_are_too_few_for_a_topic_only_for_now() -> None:
    """A broker before 0.11 says so of every topic when it has just started; of a new one any broker does."""
    world = World.make()
    world.picture = metadata({"t": [(1, 0)]})
    for topic in ("t", "new"):
        world.engine.cluster.want(topic, ME, create=True)
    world.run(1.0)
    world.picture = metadata({"t": 38, "new": 38})
    world.engine.cluster.refresh(world.now, ("t",))
    world.run(1.0)
    for topic in ("t", "new"):
        error = world.engine.cluster.topic_error(topic)
        assert error is not None
        assert error.name == "INVALID_REPLICATION_FACTOR"
        assert error.retriable
    world.picture = metadata({"t": [(1, 0)], "new": [(2, 0)]})
    world.run(1.5)
    assert [world.engine.cluster.topic_error(topic) for topic in ("t", "new")] == [None, None]
    assert [world.engine.cluster.partitions(topic) for topic in ("t", "new")] == [1, 1]


def test_a_topic_that_does_not_exist_is_asked_for_with_growing_rests_until_it_does() -> None:
    world = World.make(retry_backoff_ms=100, retry_backoff_max_ms=1000)
    world.engine.cluster.want("t", ME)
    world.run(20.0)
    assert world.engine.cluster.unknown_since("t") == pytest.approx(100.0, abs=0.5)
    error = world.engine.cluster.topic_error("t")
    assert error is not None
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert 15 <= len(world.asked) <= 35
    world.picture = metadata({"t": [(1, 0)]})
    world.run(1.3)
    assert world.engine.cluster.partitions("t") == 1
    assert world.engine.cluster.unknown_since("t") is None
    assert world.engine.cluster.topic_error("t") is None


def test_a_new_wish_does_not_wait_for_the_rest_of_an_old_one() -> None:
    world = World.make(retry_backoff_ms=10_000, retry_backoff_max_ms=10_000)
    world.engine.cluster.want("missing", ME)
    world.run(1.0)
    world.picture = metadata({"t": [(1, 0)]})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.partitions("t") == 1


def test_an_error_that_will_not_go_away_is_not_asked_about_all_the_time() -> None:
    world = World.make()
    world.picture = metadata({"t": 29})
    world.engine.cluster.want("t", ME)
    world.run(60.0)
    assert len(world.asked) == 1
    world.engine.cluster.want("t", ME)
    world.run(1.0)
    assert len(world.asked) == 2


def test_a_partition_without_leader_is_asked_about_until_it_has_one() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(-1, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) is None
    assert world.engine.cluster.available("t") == [1]
    world.picture = metadata({"t": (ID, [(3, 7), (2, 7)])})
    world.run(1.3)
    assert world.engine.cluster.leader(T0) == Leader(3, 7)


# -- moving forward only


def test_an_older_epoch_never_moves_a_partition_back() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(3, 4), (3, 8)])}))
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    assert world.engine.cluster.leader(T1) == Leader(3, 8)


@pytest.mark.parametrize("topic_id", [ID, NO_UUID], ids=["restored", "made anew without an id"])
def test_older_epochs_are_believed_when_nobody_has_told_others_for_long(topic_id: UUID) -> None:
    world = World.make()
    world.picture = metadata({"t": (topic_id, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    told(world, metadata({"t": (topic_id, [(3, 0), (3, 0)])}))
    world.run(CONTRADICTED)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    told(world, world.picture)
    assert world.engine.cluster.leader(T0) == Leader(3, 0)
    assert world.engine.cluster.leader(T1) == Leader(3, 0)


def test_older_epochs_are_not_believed_while_somebody_tells_newer_ones() -> None:
    world = knowing()
    older, newer = metadata({"t": (ID, [(2, 4), (2, 6)])}), world.picture
    for _ in range(20):
        told(world, older)
        told(world, newer)
    told(world, older)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_topic_without_an_id_that_was_missing_may_be_another_one() -> None:
    world = World.make()
    world.picture = metadata({"t": (NO_UUID, [(1, 5), (2, 7)])})
    world.engine.cluster.want("t", ME)
    world.run()
    told(world, metadata({"t": 3}))
    told(world, metadata({"t": (NO_UUID, [(2, 0)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 0)
    assert world.engine.cluster.partitions("t") == 1


def test_epochs_of_brokers_that_tell_old_ones_are_not_used() -> None:
    """A leader would refuse whoever fetches with one, for as long as it is told."""
    world = World.make()
    world.speaks = versions(Metadata=(0, EPOCHS_FROM - 1))
    world.picture = metadata({"t": (NO_UUID, [(1, 5)])})
    world.engine.cluster.want("t", ME)
    world.run()
    assert world.engine.cluster.leader(T0) == Leader(1, -1)
    told(world, metadata({"t": (NO_UUID, [(2, 4)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, -1)


def test_an_older_answer_without_leader_does_not_take_the_leader_away() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(-1, 4), (2, 7)])}))
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_new_topic_of_the_same_name_begins_anew_and_the_old_one_never_comes_back() -> None:
    world = knowing()
    told(world, metadata({"t": (OTHER, [(2, 0)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 0)
    assert world.engine.cluster.partitions("t") == 1
    assert world.engine.cluster.topic_id("t") == OTHER
    told(world, metadata({"t": (ID, [(1, 99), (2, 99)])}))
    assert world.engine.cluster.topic_id("t") == OTHER
    assert world.engine.cluster.leader(T0) == Leader(2, 0)


def test_brokers_too_old_for_epochs_are_believed() -> None:
    world = World.make()
    world.picture = metadata({"t": [(1, -1)]})
    world.engine.cluster.want("t", ME)
    world.run()
    told(world, metadata({"t": [(2, -1)]}))
    assert world.engine.cluster.leader(T0) == Leader(2, -1)


def test_an_id_that_was_replaced_is_believed_when_nobody_has_told_another_for_long() -> None:
    """A broker that lagged behind told of the old topic after the others had told of the new one."""
    world = knowing()
    new = world.picture
    told(world, metadata({"t": (OTHER, [(3, 9), (3, 9)])}))
    told(world, new)
    world.run(CONTRADICTED / 2)
    told(world, new)
    assert world.engine.cluster.topic_id("t") == OTHER
    world.run(CONTRADICTED / 2)
    told(world, new)
    assert world.engine.cluster.topic_id("t") == ID
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    told(world, metadata({"t": (OTHER, [(3, 9), (3, 9)])}))
    assert world.engine.cluster.topic_id("t") == ID, "now that one is the older"
    told(world, metadata({"t": (ID, [(2, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) == Leader(2, 6)


def test_an_id_that_was_replaced_is_not_believed_while_somebody_tells_the_present_one() -> None:
    world = knowing()
    old, new = world.picture, metadata({"t": (OTHER, [(3, 0), (3, 0)])})
    for _ in range(4):
        told(world, new)
        told(world, old)
        world.run(CONTRADICTED / 2)
    told(world, old)
    assert world.engine.cluster.topic_id("t") == OTHER
    assert world.engine.cluster.leader(T0) == Leader(3, 0)


def test_fewer_partitions_of_the_same_topic_id_are_an_older_answer() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(1, 5)])}))
    assert world.engine.cluster.partitions("t") == 2


def test_more_partitions_are_learned() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(1, 5), (2, 7), (3, 0)])}))
    assert world.engine.cluster.available("t") == [0, 1, 2]


def test_a_topic_that_vanishes_keeps_its_partitions_without_leaders_for_a_while() -> None:
    world = knowing(unknown_topic_timeout_ms=10_000)
    told(world, metadata({}))
    cluster = world.engine.cluster
    assert cluster.partitions("t") == 2
    assert cluster.available("t") == []
    assert cluster.topic_id("t") == ID
    assert cluster.unknown_since("t") is not None
    world.run(12.0)
    assert cluster.partitions("t") == 0
    assert cluster.topic_id("t") == ID
    told(world, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    assert cluster.leader(T0) == Leader(1, 5)


def test_a_topic_that_was_hidden_for_a_moment_comes_back_as_it_was() -> None:
    world = knowing()
    told(world, metadata({}))
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_an_answer_with_no_brokers_takes_nothing_away_and_is_asked_again() -> None:
    world = knowing()
    before = len(world.asked)
    told(world, metadata({"t": (ID, [(1, 5), (2, 7)])}, brokers={}))
    assert set(world.engine.cluster.brokers) == {1, 2, 3}
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    assert len(world.asked) >= before + 2


@pytest.mark.parametrize("create", [False, True])
def test_a_broker_that_knows_no_brokers_is_not_believed_about_topics(create: bool) -> None:
    """Before KRaft, one that had just started said of every topic that it does not exist, until the controller told it the state."""
    world = World.make()
    world.picture = metadata({}, brokers={})
    cluster = world.engine.cluster
    cluster.want("t", ME, create=create)
    world.run(1.0)
    assert cluster.topic_error("t") is None
    assert cluster.unknown_since("t") is None
    assert "contains no brokers" in str(cluster.error)
    assert 2 <= len(world.asked) <= 16, "asked again, with a growing back-off"
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert cluster.partitions("t") == 2
    assert cluster.error is None


def test_who_waits_for_an_answer_goes_on_waiting_while_brokers_know_no_brokers() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.picture = metadata({}, brokers={})
    world.engine.cluster.refreshed(world.now, ["t"], outcomes.append)
    world.run(1.0)
    assert outcomes == []
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(2.0)
    assert outcomes == [None]


def test_a_leader_that_is_not_among_the_brokers_is_no_leader() -> None:
    world = knowing()
    told(world, metadata({"t": (ID, [(9, 6), (2, 7)])}))
    assert world.engine.cluster.leader(T0) is None


def test_a_leader_that_left_leads_nothing_and_his_topics_are_asked_for_whichever_the_answer_was_about() -> None:
    """Nobody else would: there is no connection to him that could be lost, and a producer waits for one before it sends."""
    world = knowing()
    cluster = world.engine.cluster
    cluster.want("other", ME)
    world.run(5.0)
    world.asked.clear()
    seen: list[tuple[Change, Leader | None]] = []
    cluster.on_change.append(lambda change: seen.append((change, cluster.leader(T1))))
    world.picture = metadata({"t": (ID, [(1, 5), (3, 8)]), "other": (OTHER, [(1, 1)])}, brokers={1: ("h1", 1), 3: ("h3", 3)})
    cluster.refresh(world.now, ["other"])
    world.run(1.0)
    assert [[topic.name for topic in message.topics or []] for _, message in world.asked] == [["other"], ["t"]]
    assert [(change.topics, change.brokers, leader) for change, leader in seen] == [
        ({"t", "other"}, True, None),
        ({"t"}, False, Leader(3, 8)),
    ]
    assert cluster.leader(T0) == Leader(1, 5)


def test_an_older_answer_that_lacks_a_leader_does_not_bring_the_leader_before_him_back() -> None:
    world = knowing()
    cluster = world.engine.cluster
    told(world, metadata({"t": (ID, [(1, 4), (1, 6)])}, brokers={1: ("h1", 1)}))
    assert cluster.leader(T1) is None
    told(world, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    assert cluster.leader(T1) == Leader(2, 7)


def test_a_partition_number_beyond_reason_costs_no_memory() -> None:
    world = knowing()
    broken = metadata({"t": (ID, [(1, 5), (2, 7)])})
    broken.topics[0].partitions[1].partition_index = 2**31 - 1
    told(world, broken)
    assert world.engine.cluster.partitions("t") == 2


# -- hints


def test_a_newer_hint_is_believed_and_an_older_or_equal_one_is_not() -> None:
    world = knowing()
    cluster = world.engine.cluster
    version = cluster.version
    cluster.hint(T0, 2, 5)
    cluster.hint(T0, 2, 4)
    assert cluster.leader(T0) == Leader(1, 5)
    assert cluster.version == version
    cluster.hint(T0, 2, 6)
    assert cluster.leader(T0) == Leader(2, 6)
    assert cluster.version == version + 1


def test_a_hint_can_bring_a_broker_that_is_new() -> None:
    world = knowing()
    cluster = world.engine.cluster
    cluster.hint(T0, 9, 6)
    assert cluster.leader(T0) == Leader(1, 5), "nobody knows where 9 is"
    cluster.hint(T0, 9, 6, ("h9", 9))
    assert cluster.leader(T0) == Leader(9, 6)
    world.engine.network.want(9)
    world.run()
    world.engine.network.want(9)
    world.run()
    assert world.engine.network.ready(9)


def test_hints_about_the_unknown_are_ignored() -> None:
    world = World.make()
    world.run()
    world.engine.cluster.hint(TopicPartition("x", 0), 1, 9)
    world.engine.cluster.hint(TopicPartition("t", 77), 1, 9)
    assert world.engine.cluster.leader(TopicPartition("x", 0)) is None


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


def test_after_news_the_next_refresh_is_at_once_again() -> None:
    world = knowing(retry_backoff_ms=500, retry_backoff_max_ms=1000)
    world.run(10.0)
    world.picture = metadata({"t": (ID, [(2, 6), (2, 7)])})
    world.engine.cluster.refresh(world.now, ["t"])
    world.run(0.001)
    assert world.engine.cluster.leader(T0) == Leader(2, 6)
    world.picture = metadata({"t": (ID, [(3, 7), (2, 7)])})
    world.engine.cluster.refresh(world.now, ["t"])
    world.run(0.001)
    assert world.engine.cluster.leader(T0) == Leader(3, 7)


def test_an_answer_that_tells_what_is_known_makes_nothing_anew() -> None:
    world = knowing()
    cluster = world.engine.cluster
    before = cluster.leader(T0), cluster.leader(T1)
    assert None not in before
    version = cluster.version
    world.asked.clear()
    told(world, world.picture)
    assert world.asked
    assert cluster.version == version
    assert all(now is then for now, then in zip((cluster.leader(T0), cluster.leader(T1)), before, strict=True))


def test_the_picture_is_renewed_before_its_maximum_age_and_not_in_step_with_other_clients() -> None:
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


def test_a_lost_broker_is_reason_to_ask() -> None:
    world = knowing()
    world.engine.network.want(2)
    world.run(10.0)
    world.asked.clear()
    world.lose(("h2", 2))
    world.run()
    assert world.asked


def test_a_lost_broker_is_reason_to_ask_while_another_is_connected() -> None:
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
    world.picture = metadata({"t": (ID, [(3, 6), (2, 7)])})
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
    world.picture = metadata({"t": (ID, [(1, 50), (1, 70)])}, brokers={1: ("new", 1)})
    world.run(5.0)
    assert world.engine.cluster.brokers[1].host == "new"
    assert world.engine.cluster.leader(T0) == Leader(1, 50)


def test_the_broker_can_ask_for_a_new_bootstrap() -> None:
    world = knowing()
    world.picture = attrs.evolve(metadata({}), error_code=129)
    world.engine.cluster.refresh(world.now)
    world.run(0.5)
    assert not world.engine.cluster.brokers
    assert world.engine.cluster.leader(T0) is None
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(3.0)
    assert set(world.engine.cluster.brokers) == {1, 2, 3}
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_a_late_answer_does_not_bring_brokers_back_that_a_newer_one_has_let_go() -> None:
    """A frozen broker thaws and answers what it was asked long ago: those addresses may be nobody's now."""
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
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])}, brokers={1: ("h1", 1), 2: ("elsewhere", 2)})
    world.run(5.0)
    assert world.engine.cluster.brokers[2].host == "elsewhere"
    world.answer(link, header, metadata({"t": (ID, [(1, 5), (2, 7)])}))
    world.run()
    assert world.engine.cluster.brokers[2].host == "elsewhere"
    assert set(world.engine.cluster.brokers) == {1, 2}


# -- brokers that hear no news

SEEDS = range(6)  # so that the first to be asked is the one that hears nothing, too
NONE_LEADS = metadata({"t": (ID, [(-1, 4), (-1, 6)])})


def with_a_deaf_broker(seed: int, heard: MetadataResponse, others: tuple[int, ...] = (2,)) -> World:
    """The client is connected to broker 1, which knows `heard` of topic t, and to `others`, which know all."""
    world = World.make(seed)
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.deaf["h1"] = heard
    world.run()
    for node in (1, *others):
        world.engine.network.want(node)
    world.run(1.0)
    return world


@pytest.mark.parametrize("heard", [metadata({}), NONE_LEADS], ids=["missing", "leaderless"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_topic_in_trouble_is_not_asked_of_one_broker_for_ever(seed: int, heard: MetadataResponse) -> None:
    world = with_a_deaf_broker(seed, heard)
    world.engine.cluster.want("t", ME)
    world.run(10.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_only_one_broker_is_connected_another_is_connected_to_for_a_topic_in_trouble(seed: int) -> None:
    world = World.make(seed)
    world.deaf = dict.fromkeys(("b1", "b2", "h1"), metadata({}))
    world.down = {("h2", 2), ("h3", 3)}
    world.picture = metadata({"t": (ID, [(1, 5), (2, 7)])})
    world.run(1.0)
    world.down.clear()
    world.engine.cluster.want("t", ME)
    world.run(15.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_where_a_broker_knows_no_brokers_another_is_asked(seed: int) -> None:
    world = with_a_deaf_broker(seed, metadata({}, brokers={}))
    for turn in range(10):
        world.engine.cluster.want(f"t{turn}", ME)
        world.engine.cluster.want("t", ME)
        world.run(0.3)
        assert world.engine.cluster.unknown_since("t") is None
    assert world.engine.cluster.leader(T0) == Leader(1, 5)


def test_brokers_need_not_all_be_connected_to_for_a_topic_that_does_not_exist() -> None:
    world = World.make()
    world.picture = metadata({}, brokers={node: (f"h{node}", node) for node in range(1, 21)})
    world.engine.cluster.want("t", ME)
    world.run(300.0)
    assert 2 <= len({host for _, host, _ in world.attempts}) <= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_who_asks_for_the_present_state_is_not_told_old_news_twice(seed: int) -> None:
    """Such as a producer that was given a partition nobody has told it of."""
    world = with_a_deaf_broker(seed, metadata({"t": (ID, [(1, 5)])}))
    cluster = world.engine.cluster
    cluster.want("t", ME)
    world.run(1.0)
    for _ in range(2):
        cluster.refreshed(world.now, ["t"], lambda error: None)
        world.run()
    assert cluster.partitions("t") == 2


# -- telling others


def test_listeners_and_events_hear_of_changes_and_only_of_changes() -> None:
    world = knowing()
    heard: list[Change] = []
    world.engine.cluster.on_change.append(heard.append)
    world.events.clear()
    told(world, world.picture)
    assert not heard
    assert not world.events
    told(world, metadata({"t": (ID, [(2, 6), (2, 7)])}, brokers={1: ("h1", 1), 2: ("moved", 2)}))
    assert heard == [Change(world.engine.cluster.version, frozenset({"t"}), True)]
    assert BrokerRemoved(3, "h3", 3) in world.events
    assert BrokerRemoved(2, "h2", 2) in world.events
    assert BrokerAdded(2, "moved", 2) in world.events
    assert world.events[-1] == MetadataChanged(world.engine.cluster.version)


@pytest.mark.parametrize("name", [5, b"t", "", "no/such", "\udc80", "t" * 250, None])
def test_a_name_that_kafka_does_not_allow_is_refused_and_spoils_no_other_request(name: object) -> None:
    world = knowing()
    cluster, outcomes = world.engine.cluster, list[KafkaError | None]()
    with pytest.raises((TypeError, ConfigError)):
        cluster.refreshed(world.now, ["t", name], outcomes.append)  # type: ignore[list-item]
    with pytest.raises((TypeError, ConfigError)):
        cluster.want(name, ME)  # type: ignore[arg-type]
    cluster.refreshed(world.now, ["t"], outcomes.append)
    world.run(2.0)
    assert outcomes == [None]
    assert not cluster._waiters


def test_refreshed_answers_when_a_request_sent_after_it_is_answered() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.picture = metadata({"t": (ID, [(2, 6), (2, 7)])})
    world.engine.cluster.refreshed(world.now, ["t", "unknown"], outcomes.append)
    assert not outcomes
    world.run()
    assert outcomes == [None]
    assert world.engine.cluster.leader(T0) == Leader(2, 6)


@pytest.mark.parametrize("passing", [True, False])
def test_those_who_wait_go_on_waiting_after_a_failure_that_passes(passing: bool) -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, ["t"], outcomes.append)
    request = world.engine.cluster.poll(world.now).requests[0]
    reason = ConnectionLost("h1:1: reset") if passing else UnsupportedVersion("the broker is too old")
    request.on_reply(world.now, Failed(reason, Written.NO))
    assert outcomes == ([] if passing else [reason])
    world.run(2.0)
    assert outcomes == ([None] if passing else [reason])


def test_a_crash_is_told_to_those_who_wait() -> None:
    world = knowing()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, None, outcomes.append)
    world.engine.crash(KafkaError("the loop crashed"))
    assert str(outcomes[0]) == "the loop crashed"


def test_two_clusters_among_the_bootstrap_servers_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    world = knowing()
    with caplog.at_level(logging.WARNING, "pykafka4.cluster"):
        told(world, metadata({"t": (ID, [(1, 5), (2, 7)])}, cluster_id="another"))
    assert "cluster id changed from c to another" in caplog.text


def names(world: World) -> set[str | None]:
    return {topic.name for _, message in world.asked for topic in message.topics or []}


def test_what_its_last_user_forgets_is_not_asked_for_and_not_known_any_more() -> None:
    world = knowing(metadata_max_age_ms=10_000)
    cluster = world.engine.cluster
    cluster.want("t", "another")
    cluster.want("w", ME)
    world.run()
    cluster.forget("t", ME)
    cluster.forget("t", ME)
    assert cluster.leader(T0) == Leader(1, 5)
    world.asked.clear()
    world.run(11.0)
    assert names(world) == {"t", "w"}
    cluster.forget("t", "another")
    assert cluster.leader(T0) is None
    assert not cluster.wants("t")
    world.asked.clear()
    world.run(11.0)
    assert names(world) == {"w"}


def test_nothing_is_left_of_topics_that_came_and_went() -> None:
    world = World.make()
    cluster = world.engine.cluster
    world.run()
    for number in range(50):
        name = f"t{number}"
        if number % 3:
            world.picture = metadata({name: (UUID(int=number + 1), [(1, 5)])})
        cluster.want(name, ME)
        world.run(0.5)
        if number % 3 == 2:
            world.engine.recovery.report(world.now, TopicPartition(name, 0), KafkaError("x"))
        cluster.forget(name, ME)
    world.run(1.0)
    assert set(cluster._topics) == {""}
    assert len(cluster._queue) == ("" in cluster._queue)
    assert not cluster._wanted
    assert not cluster._names
    assert not world.engine.recovery.offline
    assert not world.engine.recovery._backoffs


def test_an_answer_to_a_question_nobody_is_interested_in_any_more_teaches_nothing() -> None:
    world = World.make()
    world.run()
    world.mute.update(world.links)
    cluster = world.engine.cluster
    cluster.want("t", ME)
    world.run(0.1)
    cluster.forget("t", ME)
    cluster._answered(world.now, next(iter(cluster._asked)), Reply(metadata({"t": (ID, [(1, 5), (2, 7)])}), 12, 1))
    assert cluster.partitions("t") == 0
    assert set(cluster._topics) == {""}


def test_a_typo_is_not_asked_for_again_once_nobody_wants_it() -> None:
    world = World.make()
    world.engine.cluster.want("typo", ME)
    world.run(3.0)
    world.engine.cluster.forget("typo", ME)
    world.asked.clear()
    world.run(60.0)
    assert not world.asked


def test_a_topic_that_was_there_is_not_created_again_by_an_old_wish() -> None:
    world = World.make(unknown_topic_timeout_ms=1_000)
    world.picture = metadata({"t": (ID, [(1, 0)])})
    world.engine.cluster.want("t", ME, create=True)
    world.run()
    world.asked.clear()
    told(world, metadata({}))
    world.run(10.0)
    assert world.engine.cluster.partitions("t") == 0
    assert "t" in names(world)
    assert not any(message.allow_auto_topic_creation for _, message in world.asked)
    world.engine.cluster.want("t", ME, create=True)
    world.run(2.0)
    assert any(message.allow_auto_topic_creation for _, message in world.asked)


def test_a_wish_to_create_what_is_there_already_creates_nothing_later() -> None:
    world = World.make(unknown_topic_timeout_ms=1_000)
    world.picture = metadata({"t": (ID, [(1, 0)])})
    world.engine.cluster.want("t", "a reader")
    world.run()
    world.engine.cluster.want("t", ME, create=True)
    told(world, metadata({}))
    world.run(10.0)
    assert not any(message.allow_auto_topic_creation for _, message in world.asked)


def test_refreshing_no_topics_asks_for_the_brokers() -> None:
    world = knowing()
    world.asked.clear()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, [], outcomes.append)
    world.run()
    assert outcomes == [None]
    assert [message.topics for _, message in world.asked] == [[]]


def test_who_waits_no_more_is_forgotten_with_what_he_asked_for() -> None:
    world = knowing()
    world.mute.update(world.links)
    outcomes: list[KafkaError | None] = []
    waiters = [world.engine.cluster.refreshed(world.now, [f"x{n}", "t"], outcomes.append) for n in range(20)]
    world.run(0.1)
    for waiter in waiters:
        world.engine.cluster.give_up(waiter)
        world.engine.cluster.give_up(waiter)
    assert not world.engine.cluster._waiters
    assert set(world.engine.cluster._wanted) == {"t"}
    assert not outcomes


def test_troubles_name_what_is_wrong_with_wanted_topics() -> None:
    world = knowing()
    world.engine.cluster.want("missing", ME)
    told(world, metadata({"t": (ID, [(-1, 6), (2, 7)])}))
    assert world.engine.cluster.troubles() == {"t": "no leader for partition 0", "missing": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_wishes_that_come_while_a_broker_does_not_answer_do_not_make_it_wait_longer() -> None:
    world = knowing()
    world.run(10.0)
    world.mute.update(world.links)
    world.engine.cluster.refresh(world.now)
    world.run(1.0)
    world.engine.cluster.want("t", ME)
    world.engine.cluster.refresh(world.now, [])
    world.picture = metadata({"t": (ID, [(3, 6), (2, 7)])})
    world.run(3.0)
    assert world.engine.cluster.leader(T0) == Leader(3, 6)
