"""Rate limits of topics: which settings hold for a topic, and how many messages pass in an interval."""

from __future__ import annotations

from pykafka4.agent.limits import ArrivalLimits, rate_limits
from pykafka4.agent.settings.values import RateLimitSettings, TopicSettings, TopicsSettings


def limited(count: int, interval_ms: int = 1_000) -> TopicSettings:
    return TopicSettings(rate_limit=RateLimitSettings(interval_ms, count))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def passed(limits: ArrivalLimits, topic: str, count: int) -> int:
    return sum(limits.admits(topic) for _ in range(count))


def test_without_a_limit_there_is_nothing_to_ask() -> None:
    assert ArrivalLimits.of(TopicsSettings(named={"t": TopicSettings()})) is None


def test_each_interval_takes_so_many_messages_and_refused_ones_do_not_make_it_longer() -> None:
    clock = Clock()
    limits = ArrivalLimits(rate_limits(TopicsSettings(named={"t": limited(3)})), clock)
    assert passed(limits, "t", 10) == 3
    clock.now += 0.999
    assert passed(limits, "t", 10) == 0
    clock.now += 0.001
    assert passed(limits, "t", 10) == 3
    assert passed(limits, "other", 10) == 10


def test_a_limit_of_zero_takes_nothing() -> None:
    clock = Clock()
    limits = ArrivalLimits(rate_limits(TopicsSettings(named={"t": limited(0)})), clock)
    assert [passed(limits, "t", 5) for clock.now in (100.0, 101.0, 200.0)] == [0, 0, 0]


def test_the_limit_of_the_default_topic_holds_for_each_topic_without_its_own() -> None:
    topics = TopicsSettings(default=limited(2), named={"own": limited(4), "other settings": TopicSettings(linger_ms=5)})
    limits = ArrivalLimits(rate_limits(topics), Clock())
    assert [passed(limits, topic, 9) for topic in ("own", "other settings", "a", "b")] == [4, 2, 2, 2]


def test_the_first_pattern_that_matches_counts_even_if_it_has_no_limit() -> None:
    limits = ArrivalLimits(rate_limits(TopicsSettings(named={"a*": TopicSettings(), "ab*": limited(1), "ac": limited(1)})), Clock())
    assert [passed(limits, topic, 9) for topic in ("abc", "ac", "b")] == [9, 1, 9]


def test_many_names_need_bounded_memory_and_a_busy_topic_goes_on_in_its_interval() -> None:
    limits = ArrivalLimits({"*": (1, 60_000)}, Clock())
    assert passed(limits, "t", 2) == 1
    for n in range(25_000):
        limits.admits(f"name-{n}")
        assert n % 5_000 or passed(limits, "t", 2) == 0
    assert len(limits._admissions) <= 10_000
    assert len(limits._rates.windows) <= 10_000


def test_names_that_kafka_does_not_allow_are_not_kept() -> None:
    limits = ArrivalLimits({"*": (1, 60_000)}, Clock())
    assert passed(limits, "n" * 250, 3) == 3  # the producer refuses them
    assert not limits._rates.windows
