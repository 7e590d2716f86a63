"""Changes between two files."""

from __future__ import annotations

import pytest

from pykafka4.agent.settings.changes import changes
from pykafka4.agent.settings.file import parse_settings
from pykafka4.agent.settings.values import AgentSettings

SMALLEST = """\
[inputs]
unix_datagram = { path = "/run/agent.sock" }
[kafka]
bootstrap_servers = "localhost:9092"
"""


def settings(more: str = "") -> AgentSettings:
    return parse_settings(SMALLEST + more, "agent.toml")


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
    ],
)
def test_changes_are_named_by_their_keys(before: str, after: str, expected: dict[str, bool]) -> None:
    assert {change.key: change.live for change in changes(settings(before), settings(after))} == expected
