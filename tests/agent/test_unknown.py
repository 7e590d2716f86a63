"""Topics that brokers have denied: who is discarded, who asks again, and when a topic is known."""

from __future__ import annotations

from collections.abc import Callable

from pykafka4.agent.message import Reason
from pykafka4.agent.unknown import PAUSE_S, UnknownTopics
from pykafka4.errors import DeliveryFailed
from pykafka4.hooks import BatchOutcome
from pykafka4.records import Written


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.at_next_look: Callable[[], object] = lambda: None
        self.unknown = UnknownTopics(Reason.TOPIC_AUTOCREATE_FAIL, self._clock)

    def _clock(self) -> float:
        act, self.at_next_look = self.at_next_look, lambda: None
        act()
        return self.now

    def ended(self, topic: str, code: str | None, partition: int | None = None) -> None:
        error = None if code is None else DeliveryFailed(topic, partition, code, Written.NO)
        self.unknown.on_ack(BatchOutcome(topic, partition, 1, -1, error))


def test_nothing_is_denied_before_brokers_have_done_so() -> None:
    world = World()
    for code in ("TIMED_OUT", "NOT_ENOUGH_REPLICAS", "CLOSED", None):
        world.ended("t", code)
    assert (world.unknown.denies("t"), bool(world.unknown)) == (False, False)


def test_a_partition_that_does_not_exist_does_not_deny_its_topic() -> None:
    world = World()
    world.ended("t", "UNKNOWN_TOPIC_OR_PARTITION", 7)
    assert not world.unknown.denies("t")


def test_one_message_asks_again_after_each_pause() -> None:
    world = World()
    world.ended("t", "UNKNOWN_TOPIC_OR_PARTITION")
    assert [world.unknown.denies("t") for _ in range(3)] == [True, True, True]
    world.now += PAUSE_S
    assert [world.unknown.denies("t") for _ in range(3)] == [False, True, True]
    world.now += PAUSE_S
    assert [world.unknown.denies("t") for _ in range(3)] == [False, True, True]
    assert not world.unknown.denies("other")


def test_an_acknowledged_message_makes_the_topic_known() -> None:
    world = World()
    world.ended("t", "UNKNOWN_TOPIC_OR_PARTITION")
    world.ended("t", None, 3)
    assert not world.unknown.denies("t")


def test_a_million_names_use_bounded_memory() -> None:
    world = World()
    for n in range(25_000):
        world.ended(f"t-{n}", "UNKNOWN_TOPIC_OR_PARTITION")
    assert len(world.unknown) <= 10_000
    assert world.unknown.denies("t-24999")


def test_a_topic_that_becomes_known_while_a_message_is_checked_stays_known() -> None:
    world = World()
    world.ended("t", "UNKNOWN_TOPIC_OR_PARTITION")
    world.now += PAUSE_S
    world.at_next_look = lambda: world.ended("t", None, 3)  # as on the thread of callbacks
    assert [world.unknown.denies("t") for _ in range(2)] == [False, False]
    assert not world.unknown
