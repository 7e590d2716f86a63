"""`pykafka4 acls`: options become the ACLs that kafka-acls makes of them."""

from __future__ import annotations

import json

import click
import pytest

from pykafka4 import Acl, AclFilter, ConfigError
from pykafka4.cli.acls import acls
from tests.cli.recording import RecordingAdmin, ran

ALICE, BOB = "User:alice", "User:bob"
READ = Acl(ALICE, "READ", "topic", "t")


@pytest.fixture
def admin() -> RecordingAdmin:
    return RecordingAdmin(
        {
            "create_acls": lambda _: None,
            "describe_acls": lambda _: (READ,),
            "delete_acls": lambda filters: dict.fromkeys(filters, (READ,)),
        }
    )


def rows(line: list[str], admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> list[Acl]:
    """The ACLs that `acls add` creates."""
    result = ran(acls, admin, ["add", *line], monkeypatch)
    assert result.exception is None, result.exception
    ((_, (created,), _),) = admin.calls
    return list(created)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--allow-principal User:alice --operation Read --topic t", [READ]),
        ("--allow-principal User:alice --cluster", [Acl(ALICE, "ALL", "cluster")]),
        (
            "--deny-principal User:bob --allow-host 10.0.0.1 --operation write --topic ord --prefixed --cluster",
            [
                Acl(BOB, "WRITE", "topic", "ord", permission="DENY", host="10.0.0.1", pattern="PREFIXED"),
                Acl(BOB, "WRITE", "cluster", permission="DENY", host="10.0.0.1"),
            ],
        ),
        (
            "--allow-principal User:alice --allow-principal User:bob --operation Read --operation Describe --group *",
            [Acl(who, what, "group", "*") for what in ("READ", "DESCRIBE") for who in (ALICE, BOB)],
        ),
        (
            "--allow-principal User:alice --producer --idempotent --topic t --transactional-id x",
            [
                *(Acl(ALICE, what, "topic", "t") for what in ("WRITE", "DESCRIBE", "CREATE")),
                *(Acl(ALICE, what, "transactional-id", "x") for what in ("WRITE", "DESCRIBE")),
                Acl(ALICE, "IDEMPOTENT_WRITE", "cluster"),
            ],
        ),
        (
            "--allow-principal User:alice --producer --idempotent --topic t --topic t --cluster",
            [
                *(Acl(ALICE, what, "topic", "t") for what in ("WRITE", "DESCRIBE", "CREATE")),
                Acl(ALICE, "IDEMPOTENT_WRITE", "cluster"),
            ],
        ),
        (
            "--allow-principal User:alice --allow-principal User:alice --operation Read --operation read --topic t --topic t",
            [READ],
        ),
        (
            "--allow-principal User:alice --consumer --topic t --group g",
            [Acl(ALICE, "READ", "topic", "t"), Acl(ALICE, "DESCRIBE", "topic", "t"), Acl(ALICE, "READ", "group", "g")],
        ),
        (
            "--allow-principal User:alice --operation CreateTokens --user-principal User:bob --delegation-token d",
            [Acl(ALICE, "CREATE_TOKENS", "delegation-token", "d"), Acl(ALICE, "CREATE_TOKENS", "user", BOB)],
        ),
    ],
)
def test_options_are_those_of_kafka_acls(line: str, expected: list[Acl], admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows(line.split(), admin, monkeypatch) == expected


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("add --topic t", "give a principal and a resource"),
        ("add --allow-principal User:alice", "give a principal and a resource"),
        ("add --allow-principal User:alice --producer --group g", "--producer needs --topic"),
        ("add --allow-principal User:alice --consumer --topic t", "--consumer needs --topic and --group"),
        ("add --allow-principal User:alice --producer --topic t --group g", "the group has no effect with the given --producer"),
        (
            "add --allow-principal User:alice --producer --operation Read --topic t",
            "--operation cannot be combined with --producer or --consumer",
        ),
        ("add --allow-principal User:alice --idempotent --topic t", "goes with --producer"),
        ("remove --principal User:alice --topic t", "name single ACLs with the options of `add`"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(line: str, text: str, admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ran(acls, admin, line.split(), monkeypatch).exception
    assert isinstance(error, click.UsageError)
    assert text in error.message
    assert admin.calls == []


def test_a_wrong_word_is_refused(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "add --allow-principal User:alice --operation Reed --topic t"
    assert isinstance(ran(acls, admin, line.split(), monkeypatch).exception, ConfigError)


def test_a_list_is_a_table_or_one_object_a_line(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    out = ran(acls, admin, ["list", "--topic", "t", "--match"], monkeypatch).stdout
    assert [line.split() for line in out.splitlines()][1] == [ALICE, "ALLOW", "READ", "topic", "t", "LITERAL", "*"]
    (one,) = map(json.loads, ran(acls, admin, ["list", "--json"], monkeypatch).stdout.splitlines())
    assert (one["principal"], one["operation"], one["resource_name"]) == (ALICE, "READ", "t")
    assert [args for _, args, _ in admin.calls] == [
        (AclFilter(resource_type="topic", resource_name="t", pattern="MATCH"),),
        (AclFilter(),),
    ]


def test_nothing_is_removed_without_execute(admin: RecordingAdmin, monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["remove", "--allow-principal", ALICE, "--operation", "Read", "--topic", "t"]
    result = ran(acls, admin, line, monkeypatch)
    assert "nothing has been changed" in result.stderr
    assert [name for name, *_ in admin.calls] == ["describe_acls"]
    result = ran(acls, admin, [*line, "--execute"], monkeypatch)
    assert "1 ACL removed" in result.stderr
    assert admin.calls[1] == ("delete_acls", ([READ],), {})
    ran(acls, admin, ["remove", "--principal", ALICE, "--execute"], monkeypatch)
    assert admin.calls[2] == ("delete_acls", ([AclFilter(principal=ALICE)],), {})
