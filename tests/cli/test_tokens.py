"""`pykafka4 tokens`: only `create` shows a secret."""

from __future__ import annotations

import json

import attrs
import pytest

from pykafka4 import DelegationToken, KafkaError
from pykafka4.cli.tokens import tokens
from tests.cli.recording import RecordingAdmin, ran

TOKEN = DelegationToken("id-1", "User:alice", "User:ops", ("User:bob",), 0, 1_000, 1769860800000, b"secret")


@pytest.fixture
def admin() -> RecordingAdmin:
    return RecordingAdmin(
        {
            "describe_tokens": lambda _=None: (TOKEN,),
            "create_token": lambda **_: TOKEN,
            "renew_token": lambda _, **__: 2_000,
            "expire_token": lambda _: 0,
        }
    )


def test_a_list_has_no_secret(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ran(tokens, admin, ["list", "--owner", "User:alice"], monkeypatch).stdout
    assert out.splitlines()[1].split() == [
        *("id-1", "User:alice", "User:bob", "1970-01-01T00:00:00Z", "1970-01-01T00:00:01Z", "2026-01-31T12:00:00Z"),
    ]
    found = ran(tokens, admin, ["list", "--json"], monkeypatch).stdout
    assert json.loads(found)["max"] == 1769860800000
    assert TOKEN.password not in out + found
    assert [call[1] for call in admin.calls] == [(("User:alice",),), (None,)]


def test_a_new_token_is_shown_with_its_secret(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["create", "--owner", "User:alice", "--renewer", "User:bob", "--max-lifetime", "60", "--json"]
    found = json.loads(ran(tokens, admin, line, monkeypatch).stdout)
    assert (found["token_id"], found["password"]) == ("id-1", TOKEN.password)
    assert admin.calls == [("create_token", (), {"owner": "User:alice", "renewers": ("User:bob",), "max_lifetime": 60.0})]
    assert f"password  {TOKEN.password}" in ran(tokens, admin, ["create"], monkeypatch).stdout


def test_names_in_a_new_token_lose_their_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = RecordingAdmin({"create_token": lambda **_: attrs.evolve(TOKEN, owner="User:a\x07")})
    out = ran(tokens, admin, ["create"], monkeypatch).stdout
    assert "\x07" not in out
    assert "User:a" in out


def test_a_token_is_named_by_its_id(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "id-1 expires at 1970-01-01T00:00:02Z" in ran(tokens, admin, ["renew", "id-1", "--period", "5"], monkeypatch).stderr
    assert admin.calls[-1] == ("renew_token", (TOKEN,), {"period": 5.0})
    assert "nothing has been changed" in ran(tokens, admin, ["expire", "id-1"], monkeypatch).stderr
    assert "expire_token" not in [name for name, *_ in admin.calls]
    ran(tokens, admin, ["expire", "id-1", "--execute"], monkeypatch)
    assert admin.calls[-1] == ("expire_token", (TOKEN,), {})
    assert isinstance(ran(tokens, admin, ["expire", "id-2", "--execute"], monkeypatch).exception, KafkaError)
