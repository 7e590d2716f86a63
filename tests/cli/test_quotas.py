"""`pykafka4 quotas`: whom a quota is for, and what is changed."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from pykafka4 import ConfigError, QuotaEntity, QuotaFilter, QuotaScope
from pykafka4.cli.quotas import quotas
from tests.cli.recording import RecordingAdmin, ran

ALICE = QuotaEntity(user="alice")
SET = {
    ALICE: {"consumer_byte_rate": 2.0, "producer_byte_rate": 1.0},
    QuotaEntity(client_id=QuotaScope.DEFAULT): {"request_percentage": 50.0},
}


@pytest.fixture
def admin() -> RecordingAdmin:
    return RecordingAdmin({"describe_quotas": lambda _: SET, "alter_quotas": lambda _: None})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--user alice", {"user": "alice"}),
        ("--user alice --client-id batch", {"user": "alice", "client_id": "batch"}),
        ("--user alice --client-defaults", {"user": "alice", "client_id": QuotaScope.DEFAULT}),
        ("--ip-defaults", {"ip": QuotaScope.DEFAULT}),
        ("--ip ::1", {"ip": "::1"}),
    ],
)
def test_options_say_whom_a_quota_is_for(
    line: str, expected: dict[str, Any], admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran(quotas, admin, ["set", *line.split(), "producer_byte_rate=1e6"], monkeypatch)
    ran(quotas, admin, ["list", *line.split(), "--strict"], monkeypatch)
    assert admin.calls == [
        ("alter_quotas", ({QuotaEntity(**expected): {"producer_byte_rate": 1e6}},), {}),
        ("describe_quotas", (QuotaFilter(**expected, strict=True),), {}),
    ]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("set producer_byte_rate=1", click.UsageError),
        ("set --user alice", click.UsageError),
        ("set --user alice producer_byte_rate=fast", click.BadParameter),
        ("set --user alice --user-defaults producer_byte_rate=1", click.UsageError),
        ("set --user alice --ip ::1 producer_byte_rate=1", ConfigError),
        ("remove", click.UsageError),
    ],
)
def test_wrong_options_are_refused(line: str, kind: type[Exception], admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ran(quotas, admin, line.split(), monkeypatch).exception, kind)
    assert admin.calls == []


def test_a_list_is_a_table_or_one_object_a_line(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ran(quotas, admin, ["list"], monkeypatch).stdout
    assert [line.split() for line in out.splitlines()][1:] == [
        ["alice", "-", "-", "consumer_byte_rate", "2"],
        ["alice", "-", "-", "producer_byte_rate", "1"],
        ["-", "<default>", "-", "request_percentage", "50"],
    ]
    assert [json.loads(line)["quota"] for line in ran(quotas, admin, ["list", "--json"], monkeypatch).stdout.splitlines()] == [
        "consumer_byte_rate",
        "producer_byte_rate",
        "request_percentage",
    ]


def test_nothing_is_removed_without_execute(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["remove", "--user", "alice", "producer_byte_rate"]
    assert "nothing has been changed" in ran(quotas, admin, line, monkeypatch).stderr
    assert [name for name, *_ in admin.calls] == ["describe_quotas"]
    assert "1 quota removed" in ran(quotas, admin, [*line, "--execute"], monkeypatch).stderr
    assert admin.calls[-1] == ("alter_quotas", ({ALICE: {"producer_byte_rate": None}},), {})
    ran(quotas, admin, ["remove", "--user", "alice", "--execute"], monkeypatch)
    assert admin.calls[-1][1] == ({ALICE: {"consumer_byte_rate": None, "producer_byte_rate": None}},)
