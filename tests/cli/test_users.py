"""`pykafka4 users`: where a password comes from, and what is changed."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from pykafka4 import ScramCredential
from pykafka4.cli.users import users
from pykafka4.core.admin.users import ABSENT
from pykafka4.errors import broker_error
from tests.cli.recording import RecordingAdmin, ran

SECRET = "correct horse"
BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ALICE = tuple(ScramCredential(name, 4096) for name in BOTH)
UNKNOWN = broker_error(ABSENT, "user bob")


@pytest.fixture
def admin() -> RecordingAdmin:
    known = {"alice": ALICE, "carol": ALICE[1:]}
    return RecordingAdmin(
        {
            "list_users": lambda: known,
            "describe_users": lambda names: {name: known.get(name, UNKNOWN) for name in names},
            "upsert_users": lambda *_, **__: None,
            "delete_users": lambda *_, **__: [],
        }
    )


def test_users_are_listed_with_the_errors_of_others_beside_them(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ran(users, admin, ["list"], monkeypatch)
    wanted = [["alice", name, "4096"] for name in BOTH] + [["carol", BOTH[1], "4096"]]
    assert [line.split() for line in result.stdout.splitlines()][1:] == wanted
    result = ran(users, admin, ["list", "alice", "bob", "--json"], monkeypatch)
    *good, bad = map(json.loads, result.stdout.splitlines())
    assert ([one["mechanism"] for one in good], bad["user"], bad["error"]["code"]) == ([*BOTH], "bob", "RESOURCE_NOT_FOUND")
    assert result.return_value == 1


def test_a_password_is_read_from_a_file_or_standard_input(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "p").write_text(f"{SECRET}\r\nmore")
    for line, stdin in (([str(tmp_path / "p")], None), (["-"], f"{SECRET}\n")):
        result = ran(users, admin, ["set", "alice", "--password-file", *line], monkeypatch, stdin)
        assert SECRET not in result.output
    wanted = ({"alice": SECRET},), {"mechanisms": BOTH, "iterations": 4096}
    assert [call[1:] for call in admin.calls] == [wanted, wanted]
    ran(users, admin, ["set", "alice", "--mechanism", "scram-sha-512", "--iterations", "8192", "--password-file", "-"], monkeypatch, SECRET)
    assert admin.calls[2][2] == {"mechanisms": (BOTH[1],), "iterations": 8192}


def test_a_password_file_that_is_not_utf8_is_named(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(SECRET.encode() + b"\xff")
    error = ran(users, admin, ["set", "alice", "--password-file", str(tmp_path / "p")], monkeypatch).exception
    assert (type(error), str(error)) == (OSError, f"{tmp_path / 'p'}: is not UTF-8 text")


def test_without_a_terminal_nobody_is_asked_for_a_password(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ran(users, admin, ["set", "alice"], monkeypatch, SECRET).exception
    assert isinstance(error, click.UsageError)
    assert "--password-file" in error.message


def test_no_password_is_taken_from_the_command_line(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(ran(users, admin, ["set", "alice", SECRET], monkeypatch).exception, click.UsageError)
    assert not [name for param in users.commands["set"].params for name in param.opts if name in ("--password", "-p")]
    assert admin.calls == []


def test_nobody_is_deleted_without_execute(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["delete", "alice", "bob", "--mechanism", "SCRAM-SHA-256"]
    result = ran(users, admin, line, monkeypatch)
    assert (result.return_value, "nothing has been changed" in result.stderr) == (1, True)
    assert [line.split() for line in result.stdout.splitlines()][1:] == [["alice", BOTH[0], "4096"]]
    assert [name for name, *_ in admin.calls] == ["describe_users"]
    ran(users, admin, [*line, "--execute"], monkeypatch)
    assert admin.calls[-1] == ("delete_users", (["alice"],), {"mechanisms": (BOTH[0],)})
    assert "deleted" not in ran(users, admin, ["delete", "bob", "--execute"], monkeypatch).stderr


@pytest.mark.parametrize("options", [[], ["--execute"]])
def test_a_user_with_another_mechanism_only_is_an_error(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch, options: list[str]) -> None:
    result = ran(users, admin, ["delete", "carol", "--mechanism", "SCRAM-SHA-256", *options], monkeypatch)
    assert (result.return_value, result.stderr) == (1, f"error: {broker_error(ABSENT, 'the SCRAM-SHA-256 credential of user carol')}\n")
    assert [name for name, *_ in admin.calls] == ["describe_users"]


def test_both_mechanisms_mean_those_that_the_user_has(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["delete", "carol", "--execute", *(word for name in BOTH for word in ("--mechanism", name))]
    result = ran(users, admin, line, monkeypatch)
    assert [line.split() for line in result.stdout.splitlines()][1:] == [["carol", BOTH[1], "4096"]]
    assert admin.calls[-1] == ("delete_users", (["carol"],), {"mechanisms": None})
