"""Rights, users, quotas and delegation tokens on a secured broker: as Kafka's own Admin and other clients see them on the same cluster."""

from __future__ import annotations

import getpass
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient as ForeignAdmin
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from integration.cluster import Cluster
from integration.java.client import java_rights, run_tool
from integration.local.cluster import LocalCluster
from integration.security.options import for_java, for_librdkafka
from integration.security.settings import Mechanism, Security
from integration.waiting import Deadline, until
from pykafka4 import (
    Acl,
    AclFilter,
    AdminClient,
    AuthorizationError,
    BrokerError,
    DelegationToken,
    KafkaError,
    PartialFailure,
    QuotaEntity,
    QuotaFilter,
    QuotaScope,
    ScramCredential,
)
from pykafka4.cli.main import run
from tests.cli.settings import forget
from tests.integration.reading import LONG_S, SECONDS

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

ALICE = "User:alice"
BOTH: tuple[Mechanism, Mechanism] = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One broker with an authorizer and delegation tokens; the administrator may do everything, alice nothing."""
    users = {"administrator": "secret", "alice": "secret"}
    security = Security("SASL_PLAINTEXT", mechanisms=("PLAIN", *BOTH), authorizer=True, users=users, super_users=("administrator",))
    with LocalCluster(1, security=security, properties={"delegation.token.secret.key": "a secret of brokers"}) as brokers:
        yield brokers


def options(cluster: Cluster, user: str = "administrator") -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap, **cluster.client_security(user)}


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**options(cluster)) as it:
        yield it


@pytest.fixture(scope="module")
def alice(cluster: Cluster) -> Iterator[AdminClient]:
    """An admin client without any right."""
    with AdminClient(**options(cluster, "alice")) as it:
        yield it


@pytest.fixture(autouse=True)
def nothing_left(admin: AdminClient) -> Iterator[None]:
    """The next test begins without ACLs, quotas and tokens, whatever became of this one."""
    yield
    admin.delete_acls([AclFilter()])
    if quotas := admin.describe_quotas():
        admin.alter_quotas({entity: dict.fromkeys(rates) for entity, rates in quotas.items()})
    for token in admin.describe_tokens():
        admin.expire_token(token)
    soon(lambda: (admin.describe_acls(), admin.describe_quotas(), admin.describe_tokens()), ((), {}, ()))


@pytest.fixture
def other(cluster: Cluster) -> Any:
    """The admin client of confluent-kafka."""
    return ForeignAdmin(for_librdkafka(options(cluster)))


def soon(look: Callable[[], Any], wanted: Any) -> None:
    """A broker knows of a change moments after the controller has made it."""
    seen: list[Any] = []
    until(lambda: seen.append(look()) or seen[-1] == wanted, SECONDS, lambda: f"{wanted} instead of {seen[-1]}")  # type: ignore[func-returns-value]


def code(error: object) -> str:
    assert isinstance(error, BrokerError), error
    return error.code.name


# -- ACLs


ACLS = (
    Acl(ALICE, "READ", "topic", "orders"),
    Acl(ALICE, "DescribeConfigs", "topic", "ord", pattern="prefixed", host="10.0.0.1"),
    Acl(ALICE, "READ", "group", "*"),
    Acl("User:*", "DESCRIBE", "cluster", permission="deny"),
    Acl(ALICE, "WRITE", "transactional-id", "billing"),
    Acl(ALICE, "DESCRIBE", "delegation-token", "some"),
    Acl(ALICE, "CREATE_TOKENS", "user", "User:bob"),
)


def test_acls_are_created_described_and_deleted_and_other_clients_see_the_same(admin: AdminClient, other: Any) -> None:
    admin.create_acls(ACLS)
    admin.create_acls(ACLS[:1])  # again
    soon(lambda: set(admin.describe_acls()), set(ACLS))
    anything = AclBindingFilter(ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY)
    theirs = {(one.principal, one.operation.name, one.restype.name, one.name) for one in other.describe_acls(anything).result(LONG_S)}
    assert {("User:alice", "READ", "TOPIC", "orders"), ("User:*", "DESCRIBE", "BROKER", "kafka-cluster")} <= theirs
    assert set(admin.describe_acls(AclFilter(principal="User:*"))) == {ACLS[3]}
    assert set(admin.describe_acls(AclFilter(resource_type="topic", resource_name="orders", pattern="match"))) == set(ACLS[:2])
    gone = admin.delete_acls([ACLS[0], AclFilter(resource_type="group"), AclFilter(principal="User:nobody")])
    assert list(gone.values()) == [(ACLS[0],), (ACLS[2],), ()]
    soon(lambda: set(admin.describe_acls()), {*ACLS} - {ACLS[0], ACLS[2]})
    written = AclBinding(
        ResourceType.TOPIC, "theirs", ResourcePatternType.LITERAL, "User:eve", "*",
        AclOperation.ALTER, AclPermissionType.ALLOW,
    )  # fmt: skip
    next(iter(other.create_acls([written]).values())).result(LONG_S)
    soon(lambda: admin.describe_acls(AclFilter(principal="User:eve")), (Acl("User:eve", "ALTER", "topic", "theirs"),))
    admin.delete_acls([AclFilter()])
    soon(admin.describe_acls, ())


def test_what_one_acl_is_refused_for_leaves_the_others(admin: AdminClient) -> None:
    good, bad = Acl(ALICE, "READ", "topic", "t"), Acl(ALICE, "READ", "cluster", "another")
    with pytest.raises(PartialFailure, match="ALLOW READ on cluster to User:alice: INVALID_REQUEST") as caught:
        admin.create_acls([good, bad])
    assert (set(caught.value.errors), caught.value.done) == ({bad}, {good: True})
    assert admin.delete_acls([good]) == {good: (good,)}


# -- users


def test_users_get_passwords_log_in_with_them_and_lose_them(cluster: Cluster, admin: AdminClient, other: Any) -> None:
    known = {name: tuple(ScramCredential(one, 4096) for one in BOTH) for name in ("administrator", "alice")}
    admin.upsert_users({"bob": "bob's password", "carol": "größer"}, iterations=16_384)
    soon(admin.list_users, {**known, **{name: tuple(ScramCredential(one, 16_384) for one in BOTH) for name in ("bob", "carol")}})
    theirs = other.describe_user_scram_credentials(["bob"])["bob"].result(LONG_S)
    assert sorted((one.mechanism.name, one.iterations) for one in theirs.scram_credential_infos) == [
        ("SCRAM_SHA_256", 16_384),
        ("SCRAM_SHA_512", 16_384),
    ]
    for name, word in (("bob", "bob's password"), ("carol", "größer")):
        for mechanism in BOTH:
            assert cluster.access.admits(1, name, mechanism, word)
            assert not cluster.access.admits(1, name, mechanism, word + "!")
    assert admin.delete_users(["bob", "carol"], mechanisms=["SCRAM-SHA-256"]) == [("bob", BOTH[0]), ("carol", BOTH[0])]
    soon(lambda: admin.describe_user("bob"), (ScramCredential(BOTH[1], 16_384),))
    assert admin.delete_users(["bob", "carol"]) == [("bob", BOTH[1]), ("carol", BOTH[1])]
    soon(admin.list_users, known)
    assert code(admin.describe_users(["bob"])["bob"]) == "RESOURCE_NOT_FOUND"
    with pytest.raises(BrokerError, match="the SCRAM-SHA-256 credential of user bob: RESOURCE_NOT_FOUND"):
        admin.delete_users(["bob"], mechanisms=["SCRAM-SHA-256"])


# -- quotas


def test_quotas_are_set_found_and_removed(admin: AdminClient) -> None:
    everybody, alice = QuotaEntity(user=QuotaScope.DEFAULT), QuotaEntity(user="alice", client_id="billing")
    address = QuotaEntity(ip="10.0.0.1")
    rates = {
        everybody: {"consumer_byte_rate": 2e6, "controller_mutation_rate": 3.5, "producer_byte_rate": 1e6},
        alice: {"request_percentage": 50.0},
        address: {"connection_creation_rate": 7.0},
    }
    admin.alter_quotas(rates, validate_only=True)
    admin.alter_quotas(rates)
    soon(admin.describe_quotas, rates)
    assert list(admin.describe_quotas(QuotaFilter(user=QuotaScope.ANY, strict=True))) == [everybody]
    assert list(admin.describe_quotas(QuotaFilter(user="alice"))) == [alice]
    assert list(admin.describe_quotas(QuotaFilter(ip=QuotaScope.ANY))) == [address]
    with pytest.raises(PartialFailure, match=r"quotas of ip 10\.0\.0\.1: INVALID_REQUEST") as caught:
        admin.alter_quotas({address: {"producer_byte_rate": 1}, alice: {"request_percentage": 60}})
    assert caught.value.done == {alice: True}
    admin.alter_quotas({entity: dict.fromkeys(quotas) for entity, quotas in rates.items()})
    soon(admin.describe_quotas, {})


# -- delegation tokens


def ids(admin: AdminClient) -> list[str]:
    return [one.token_id for one in admin.describe_tokens()]


def test_a_token_is_created_logged_in_with_renewed_and_expired(cluster: Cluster, admin: AdminClient) -> None:
    token = admin.create_token(owner=ALICE, renewers=["User:administrator"], max_lifetime=3600)
    assert (token.owner, token.requester, token.renewers) == (ALICE, "User:administrator", ("User:administrator",))
    assert token.max_ms - token.issued_ms == 3_600_000
    soon(lambda: admin.describe_tokens([ALICE]), (token,))
    assert admin.describe_tokens(["User:bob"]) == ()
    with AdminClient(**options(cluster) | by(token)) as with_token, pytest.raises(AuthorizationError):
        with_token.list_users(timeout=SECONDS)  # alice, who may not
    assert not cluster.access.admits(1, token.token_id, BOTH[0], token.password), "a token is no password"
    assert token.issued_ms < admin.renew_token(token, period=60) <= token.issued_ms + SECONDS * 1000 + 60_000
    assert (admin.expire_token(token) or 0) <= token.max_ms
    soon(admin.describe_tokens, ())
    with pytest.raises(BrokerError, match="cannot be renewed: DELEGATION_TOKEN_NOT_FOUND"):
        admin.renew_token(token.hmac)


def by(token: DelegationToken) -> dict[str, Any]:
    """Options of a client that logs in with a token."""
    return {"sasl_mechanism": BOTH[0], "sasl_username": token.token_id, "sasl_password": token.password, "sasl_delegation_token": True}


# -- Kafka's own view


def test_kafkas_own_admin_sees_what_was_made(cluster: Cluster, admin: AdminClient) -> None:
    quotas = {
        QuotaEntity(user="alice", client_id=QuotaScope.DEFAULT): {"producer_byte_rate": 1e6},
        QuotaEntity(ip="::1"): {"connection_creation_rate": 7.0},
    }
    admin.create_acls(ACLS)
    admin.alter_quotas(quotas)
    token = admin.create_token(owner=ALICE, renewers=["User:administrator", "User:bob"])
    for look, wanted in (
        (lambda: set(admin.describe_acls()), set(ACLS)),
        (admin.describe_quotas, quotas),
        (lambda: ids(admin), [token.token_id]),
    ):
        soon(look, wanted)
    found = java_rights({"bootstrap.servers": cluster.bootstrap, **for_java(cluster.client_security("administrator"))})
    assert {
        Acl(who, what, kind, name, permission=p, host=host, pattern=pattern) for who, what, kind, name, p, host, pattern in found["acls"]
    } == {*ACLS}
    users = {name: sorted(rows) for name, rows in found["users"].items()}  # Kafka has them in no order
    assert users == {name: [[one.mechanism, one.iterations] for one in row] for name, row in admin.list_users().items()}
    assert sorted(found["quotas"], key=str) == [
        {"entity": {"client-id": None, "user": "alice"}, "values": {"producer_byte_rate": 1e6}},
        {"entity": {"ip": "::1"}, "values": {"connection_creation_rate": 7.0}},
    ]
    assert found["tokens"] == [
        {
            "password": token.password, "id": token.token_id, "owner": ALICE, "requester": "User:administrator",
            "renewers": ["User:administrator", "User:bob"],
            "issued": token.issued_ms, "expires": token.expires_ms, "max": token.max_ms,
        }
    ]  # fmt: skip


# -- refused


def test_tokens_of_others_cannot_be_seen_or_renewed(admin: AdminClient, alice: AdminClient) -> None:
    token = admin.create_token()
    soon(lambda: ids(admin), [token.token_id])
    assert alice.describe_tokens() == ()
    for call in (alice.renew_token, alice.expire_token):
        with pytest.raises(KafkaError, match=r"DELEGATION_TOKEN_OWNER_MISMATCH \(log in as the owner or a renewer of the token"):
            call(token)


# -- the command line, and the guide

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "admin-users.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
TOOL = "org.apache.kafka.tools.AclCommand"


@pytest.fixture
def config(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that Kafka's tools take, too."""
    forget(monkeypatch, tmp_path)
    file = tmp_path / "client.properties"
    file.write_text("\n".join(f"{name}={value}" for name, value in for_java(cluster.client_security("administrator")).items()))
    return file


@pytest.fixture
def command(cluster: Cluster, config: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """Runs a command with `--json`; what it prints."""

    def call(*line: str) -> list[Any]:
        code = run([line[0], line[1], "-b", cluster.bootstrap, "-c", str(config), *line[2:]])
        out = capsys.readouterr()
        assert code == 0, out.err
        return [json.loads(row) for row in out.out.splitlines()]

    return call


def test_commands_change_what_kafkas_tools_show(
    cluster: Cluster, admin: AdminClient, config: Path, command: Callable[..., list[Any]], tmp_path: Path
) -> None:
    named = ("--allow-principal", "User:shop", "--consumer", "--topic", "orders", "--group", "billing", "--json")
    assert len(command("acls", "add", *named)) == 3
    soon(lambda: len(command("acls", "list", "--principal", "User:shop", "--json")), 3)
    shown = run_tool(TOOL, "--bootstrap-server", cluster.bootstrap, "--command-config", str(config), "--list", "--principal", "User:shop")
    assert sorted(re.findall(r"resourceType=(\w+), name=(\w+)|operation=(\w+)", shown)) == sorted(
        [("GROUP", "billing", ""), ("TOPIC", "orders", ""), ("", "", "READ"), ("", "", "READ"), ("", "", "DESCRIBE")]
    )
    assert len(command("acls", "remove", *named, "--execute")) == 3
    soon(lambda: command("acls", "list", "--json"), [])

    (tmp_path / "password").write_text("of the shop\n")
    assert command("users", "set", "shop", "--password-file", str(tmp_path / "password")) == []
    cluster.access.wait_admitted("shop", BOTH[1], "of the shop", True, Deadline(SECONDS))
    assert len(command("users", "delete", "shop", "--json", "--execute")) == 2
    soon(lambda: {row["user"] for row in command("users", "list", "--json")}, {"administrator", "alice"})

    assert len(command("quotas", "set", "--user", "shop", "--client-defaults", "producer_byte_rate=1e6", "--json")) == 1
    shop = QuotaEntity(user="shop", client_id=QuotaScope.DEFAULT)
    soon(admin.describe_quotas, {shop: {"producer_byte_rate": 1e6}})
    assert len(command("quotas", "remove", "--user", "shop", "--client-defaults", "--json", "--execute")) == 1
    soon(lambda: command("quotas", "list", "--json"), [])

    (token,) = command("tokens", "create", "--max-lifetime", "60", "--json")
    soon(lambda: [row["token_id"] for row in command("tokens", "list", "--json")], [token["token_id"]])
    assert admin.describe_tokens()[0].password == token["password"]
    command("tokens", "renew", token["token_id"])
    command("tokens", "expire", token["token_id"], "--execute")
    soon(admin.describe_tokens, ())


def test_the_code_of_the_guide_runs(cluster: Cluster, admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSWORD", "of alice")
    monkeypatch.setattr(getpass, "getpass", lambda: "of bob")
    known: dict[str, Any] = {"admin": admin, "KAFKA": options(cluster), "os": os, "getpass": getpass}
    *begin, end = BLOCKS
    for block in begin:
        exec(block, known)
    soon(lambda: ids(admin), [known["token"].token_id])
    exec(end, known)
    assert [len(found) for found in known["deleted"].values()] == [2]
    soon(lambda: (len(admin.describe_acls()), len(admin.describe_quotas()), ids(admin)), (2, 4, []))
    assert admin.describe_user("bob") == (ScramCredential(BOTH[1], 8192),)
