"""Changes between two files."""

from __future__ import annotations

import pytest

from pykafka4.agent.settings.changes import Change, changes, with_live_changes
from pykafka4.agent.settings.file import parse_settings
from pykafka4.agent.settings.values import AgentSettings

SMALLEST = """\
[inputs]
unix_datagram = { path = "/run/agent.sock" }
[kafka]
bootstrap_servers = "localhost:9092"
"""


LIMITED = "[topics.a]\nrate_limit = {{ interval_ms = 1, max_count = {} }}\n"


def settings(more: str = "") -> AgentSettings:
    return parse_settings(SMALLEST + more, "agent.toml")


def limited(name: str) -> str:
    return LIMITED.format(2).replace(".a]", f".'{name}']")


def test_no_change() -> None:
    assert changes(settings(), settings()) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "[service]\nshutdown_ms = 1\n", {"service.shutdown_ms": True}),
        ("", '[service]\nlog_level = "DEBUG"\nuser = "root"\n', {"service.user": False, "service.log_level": True}),
        ("", "acks = 1\n", {"kafka.acks": False}),
        ("", '[spool]\npath = "/s"\n', {"spool": False}),
        ('[spool]\npath = "/s"\n', '[spool]\npath = "/t"\n', {"spool.path": False}),
        ("", "[inputs.tcp]\nport = 1\n", {"inputs.tcp": False}),
        ('[topics."a b"]\nlinger_ms = 1\n', '[topics."a b"]\nlinger_ms = 2\n', {'topics."a b".linger_ms': False}),
        ("[topics.a]\n", "[topics.b]\n", {"topics.a": False, "topics.b": False}),
        ("[topics.a]\nlinger_ms = 1\n", "[topics.a]\nlinger_ms = 2\n[topics.b]\n", {"topics.a.linger_ms": False, "topics.b": False}),
        ("[topics.a]\n", LIMITED.format(2).replace(".a]", ".b]"), {"topics.a": False, "topics.b.rate_limit": True}),
        ("", "[topics.a]\nrate_limit = { interval_ms = 1, max_count = 2 }\n", {"topics.a.rate_limit": True}),
        (LIMITED.format(2), "[topics.a]\n", {"topics.a.rate_limit": True}),
        (LIMITED.format(2), LIMITED.format(3), {"topics.a.rate_limit.max_count": True}),
        (LIMITED.format(2), LIMITED.format(3) + "linger_ms = 7\n", {"topics.a.linger_ms": False, "topics.a.rate_limit.max_count": True}),
    ],
)
def test_changes_are_named_by_their_keys(before: str, after: str, expected: dict[str, bool]) -> None:
    old, new = settings(before), settings(after)
    assert {change.key: change.live for change in changes(old, new)} == expected
    assert not any(change.live for change in changes(with_live_changes(old, new), new))


def test_only_live_changes_are_taken_and_the_others_stay_changes() -> None:
    old, new = settings(LIMITED.format(2)), settings(LIMITED.format(3) + "linger_ms = 7\n[service]\nshutdown_ms = 1\nuser = 'root'\n")
    taken = with_live_changes(old, new)
    assert taken.topics.named["a"].rate_limit == new.topics.named["a"].rate_limit
    assert taken.service.shutdown_ms == 1
    assert [change.key for change in changes(taken, new)] == ["topics.a.linger_ms", "service.user"]
    assert not any(change.live for change in changes(taken, new))
    assert changes(with_live_changes(taken, old), old) == []


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("", "[topics.a]\n", []),
        ("", "[topics.a]\nlinger_ms = 1\n", []),
        ("", LIMITED.format(2), ["a"]),
        ("[topics.a]\n", "", ["a"]),
        ("[topics.a]\nlinger_ms = 1\n", "", ["a"]),
        (LIMITED.format(2), "", []),
        (LIMITED.format(2), "[topics.a]\n", ["a"]),
    ],
)
def test_a_table_comes_or_goes_without_a_restart_only_with_its_rate_limit(before: str, after: str, kept: list[str]) -> None:
    """While a topic has a table, no limit of a pattern applies to the topic."""
    old, new = settings(before), settings(after + "[service]\nshutdown_ms = 1\n")
    assert list(with_live_changes(old, new).topics.named) == kept


@pytest.mark.parametrize(
    ("before", "after", "merged"),
    [
        (["a*"], ["ab*", "a*"], ["ab*", "a*"]),
        (["a*"], ["ab*", "ac*", "a*", "*"], ["ab*", "ac*", "a*", "*"]),
        (["a*", "c*"], ["a*", "b*", "c*", "d*"], ["a*", "b*", "c*", "d*"]),
        ([], ["b*", "a*"], ["b*", "a*"]),
    ],
)
def test_a_new_pattern_has_the_place_that_it_has_in_the_file(before: list[str], after: list[str], merged: list[str]) -> None:
    old, new = (settings("".join(limited(name) for name in names)) for names in (before, after))
    assert list(with_live_changes(old, new).topics.named) == merged


def test_the_order_of_patterns_is_a_change_that_needs_a_restart() -> None:
    """The producer cannot change the order of its policies."""
    old, new = settings(limited("a*") + limited("ab*")), settings(limited("ab*") + limited("new*") + limited("a*"))
    order = Change("topics (the order of its patterns)", False)
    assert changes(old, new) == [Change('topics."new*".rate_limit', True), order]
    merged = with_live_changes(old, new)
    assert list(merged.topics.named) == ["new*", "a*", "ab*"]
    assert changes(merged, new) == [order]


def test_the_order_of_exact_names_is_no_change() -> None:
    assert changes(settings(limited("a") + limited("b")), settings(limited("b") + limited("a"))) == []
