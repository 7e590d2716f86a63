"""Cluster: topics that brokers deny are asked for again, and each user hears of it by a response to a request that came after it."""

from __future__ import annotations

from pykafka4.core.metadata.cluster import MetadataChange
from pykafka4.core.metadata.events import MetadataChanged
from pykafka4.core.metadata.topic import Leader
from pykafka4.errors import AuthorizationError, KafkaError
from tests.core.cluster_harness import ME, T0, knowing
from tests.core.scripted_brokers import World, metadata

DENIED = 29


def denying() -> World:
    """A world whose brokers have denied topic t."""
    world = World.make()
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.want("t", ME)
    world.run(5.0)
    return world


def changes(world: World) -> list[MetadataChange]:
    found: list[MetadataChange] = []
    world.engine.cluster.on_change.append(found.append)
    return found


def test_a_denied_topic_is_asked_for_while_it_is_used_and_known_soon_after_the_grant() -> None:
    world = World.make()
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.want("t", ME)
    world.run(60.0)
    assert 30 <= len(world.asked) <= 90, "about once a second"
    world.metadata = metadata({"t": [(1, 0)]})
    world.run(2.5)
    assert world.engine.cluster.partitions("t") == 1
    assert world.engine.cluster.refusal("t") is None
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.forget("t", ME)
    world.asked.clear()
    world.run(60.0)
    assert world.asked == []


def test_a_refusal_names_the_right() -> None:
    refusal = denying().engine.cluster.refusal("t")
    assert isinstance(refusal, AuthorizationError)
    assert (refusal.operation, refusal.resource_name) == ("DESCRIBE", "t")
    world = World.make()
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.want("t", ME, create=True)
    world.run(0.1)
    created = world.engine.cluster.refusal("t")
    assert isinstance(created, AuthorizationError)
    assert created.operation == "DESCRIBE or CREATE"


def test_what_is_known_of_a_topic_stays_when_it_is_denied() -> None:
    world = knowing()
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.refresh(world.now)
    world.run(2.0)
    assert world.engine.cluster.leader(T0) == Leader(1, 5)
    assert world.engine.cluster.refusal("t") is not None


def test_a_refusal_counts_only_for_who_came_before_its_request() -> None:
    world = denying()
    cluster = world.engine.cluster
    before = cluster.asked
    assert cluster.refusal("t", before) is None
    assert cluster.refusal("t", before - 1) is not None
    world.run(3.0)
    assert cluster.asked > before
    assert cluster.refusal("t", before) is not None


def test_users_that_came_since_hear_of_a_repeated_refusal_and_nobody_takes_it_for_a_change() -> None:
    world = denying()
    found, version = changes(world), world.engine.cluster.version
    events = len(world.events)
    world.asked.clear()
    world.run(5.0)
    assert len(found) == len(world.asked) >= 3
    assert {change.topics for change in found} == {frozenset({"t"})}
    assert {change.brokers for change in found} == {False}
    assert world.engine.cluster.version == version
    assert not [event for event in world.events[events:] if isinstance(event, MetadataChanged)]


def test_the_first_refusal_is_heard_once() -> None:
    world = World.make()
    world.run(1.0)
    found = changes(world)
    world.metadata = metadata({"t": DENIED})
    world.engine.cluster.want("t", ME)
    world.run(0.05)
    assert [change.topics for change in found] == [frozenset({"t"})]


def test_a_late_response_to_an_earlier_request_is_no_news_for_who_came_after_it() -> None:
    world = denying()
    topic = world.engine.cluster._topics["t"]
    first = world.engine.cluster.asked
    assert topic.answered_request == first
    topic.answered_request = first - 1  # as after the response to the request before, which came last
    assert world.engine.cluster.refusal("t", first - 1) is None


def test_a_refresh_of_named_topics_ends_with_the_denial_and_one_of_all_topics_does_not() -> None:
    world = denying()
    outcomes: list[KafkaError | None] = []
    world.engine.cluster.refreshed(world.now, ["t"], outcomes.append)
    world.engine.cluster.refreshed(world.now, None, outcomes.append)
    world.engine.cluster.refreshed(world.now, ["missing"], outcomes.append)
    world.run(2.0)
    assert [type(outcome) for outcome in outcomes].count(AuthorizationError) == 1
    assert outcomes.count(None) == 2


def test_other_topics_in_rotation_gain_nothing_from_a_repeated_refusal() -> None:
    """Only a change has all of them requested at once."""
    world = denying()
    world.run(20.0)
    assert not world.engine.cluster._queue._rush


def test_a_new_user_of_a_denied_topic_does_not_wait_for_the_back_off_and_an_old_one_does() -> None:
    world = denying()
    world.run(30.0)
    world.asked.clear()
    for _ in range(3):
        world.engine.cluster.want("t", ME)
        world.run(0.02)
    assert len(world.asked) <= 1
    world.asked.clear()
    world.engine.cluster.want("t", "another")
    world.run(0.02)
    assert len(world.asked) == 1
