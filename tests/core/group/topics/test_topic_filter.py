"""Topic filters: which topics a subscription by pattern means."""

from __future__ import annotations

import re

import pytest

from pykafka4.core.group.topics.topic_filter import TopicFilter
from pykafka4.errors import ConfigError


def chosen(*patterns: str, exclude: tuple[str, ...] = (), names: tuple[str, ...] = (), with_internal: bool = False) -> TopicFilter:
    return TopicFilter(tuple(map(re.compile, patterns)), tuple(map(re.compile, exclude)), frozenset(names), with_internal)


def selected(topic_filter: TopicFilter, *topics: str, internal: tuple[str, ...] = ()) -> list[str]:
    result = topic_filter.select({**dict.fromkeys(topics, False), **dict.fromkeys(internal, True)}, {})
    return [topic for topic, is_selected in result.items() if is_selected]


def test_whole_names_match_and_what_is_excluded_does_not() -> None:
    orders = chosen("orders-.*", "audit", exclude=(".*-old",), names=("orders-test",))
    assert selected(orders, "orders-1", "my-orders-1", "audit", "audit-2", "orders-1-old", "orders-test") == ["orders-1", "audit"]
    assert str(orders) == "orders-.*, audit without orders-test, .*-old"


@pytest.mark.parametrize(("with_internal", "expected"), [(False, ["mine"]), (True, ["mine", "__consumer_offsets", "theirs"])])
def test_internal_topics_are_left_out_unless_they_are_wanted(with_internal: bool, expected: list[str]) -> None:
    assert selected(chosen(".*", with_internal=with_internal), "mine", "__consumer_offsets", internal=("theirs",)) == expected


def test_names_that_no_topic_can_have_are_left_out() -> None:
    assert selected(chosen(".*"), "good", "b/d", "x" * 250) == ["good"]


def test_only_names_that_are_new_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = chosen("a.*")
    before = topics.select({"a1": False, "b": False}, {})
    compared: list[str] = []
    monkeypatch.setattr(TopicFilter, "matches", lambda _, topic: compared.append(topic) or True)
    assert topics.select({"a1": False, "b": False, "c": False}, before) == {"a1": True, "b": False, "c": True}
    assert compared == ["c"]


def test_a_topic_by_name_must_not_be_excluded() -> None:
    chosen(".*", names=("a",)).check_names(["b"])
    with pytest.raises(ConfigError, match="'a' is both subscribed to by name and excluded"):
        chosen(".*", names=("a",)).check_names(["b", "a"])
    with pytest.raises(ConfigError, match="'a' is both"):
        chosen(".*", exclude=("[a]",)).check_names(["a"])
