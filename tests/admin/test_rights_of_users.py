"""ACLs, users, quotas and tokens: arguments that are refused before a broker is asked, and what is done in part."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pykafka4 import (
    Acl,
    AclFilter,
    AdminClient,
    ConfigError,
    DelegationToken,
    PartialFailure,
    QuotaEntity,
    QuotaFilter,
    QuotaScope,
)
from pykafka4.core.admin.users import SaltedPassword
from pykafka4.errors.codes import BY_NAME
from pykafka4.messages import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse
from pykafka4.testing import ModelServer

SECRET = "correct horse battery staple"
ALICE = QuotaEntity(user="alice")
SCRAM_SHA_512 = 2  # Kafka's number
TOKEN = DelegationToken("id", "User:alice", None, (), 1, 2, 3, SECRET.encode())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Acl("alice", "READ", "topic", "t"), "'alice': must be a type and a name, such as 'User:alice'"),
        (lambda: Acl("User:a", "REED", "topic", "t"), "operation='REED': must be one of ALL, READ"),
        (lambda: Acl("User:a", "READ", "topics", "t"), "resource_type='topics': must be one of topic, group, cluster"),
        (lambda: Acl("User:a", "READ", "topic"), "name the topic, or '\\*' for all"),
        (lambda: Acl("User:a", "READ", "topic", ""), "'': the name of a resource or a host must be a non-empty str"),
        (lambda: Acl("User:a", "READ", "topic", "t", pattern="match"), "pattern='match': must be one of LITERAL, PREFIXED"),
        (lambda: Acl("User:a", "READ", "topic", "t", permission="maybe"), "permission='maybe': must be one of DENY, ALLOW"),
        (lambda: AclFilter(pattern="all"), "pattern='all': must be one of MATCH, LITERAL, PREFIXED"),
        (lambda: QuotaEntity(), "a quota is for a user, a client_id, both, or an ip"),
        (lambda: QuotaEntity(user="a", ip="::1"), "a quota is for a user, a client_id, both, or an ip"),
        (lambda: QuotaEntity(user=QuotaScope.ANY), "QuotaScope.ANY is only for filters"),
        (lambda: QuotaFilter(user=""), "'': user, client_id and ip take a name, or QuotaScope.DEFAULT"),
    ],
)
def test_a_wrong_word_is_named_where_it_is_written(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()


def test_words_are_taken_as_kafkas_tools_write_them() -> None:
    written = Acl("User:a", "DescribeConfigs", "TransactionalId", "x", pattern="Prefixed", permission="Deny")
    assert written == Acl("User:a", "DESCRIBE_CONFIGS", "transactional-id", "x", pattern="PREFIXED", permission="DENY")
    assert str(written) == "DENY DESCRIBE_CONFIGS on transactional-id 'x' (prefixed) to User:a"
    assert Acl("User:a", "ALTER", "cluster").resource_name == "kafka-cluster"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda admin: admin.describe_acls("User:a"), "takes an AclFilter, such as"),
        (lambda admin: admin.create_acls(Acl("User:a", "READ", "topic", "t")), "takes a list of Acl"),
        (lambda admin: admin.create_acls([AclFilter()]), "takes a list of Acl"),
        (lambda admin: admin.delete_acls(["User:a"]), "takes a list of Acl or AclFilter"),
        (lambda admin: admin.describe_users("alice"), "takes a list of names"),
        (lambda admin: admin.describe_users([""]), "the name of a user is empty"),
        (lambda admin: admin.upsert_users({"a": SECRET}, mechanisms=["PLAIN"]), "takes a list of SCRAM-SHA-256, SCRAM-SHA-512"),
        (lambda admin: admin.upsert_users({"a": SECRET}, iterations=100), "iterations=100: must be from 4,096 to 16,384"),
        (lambda admin: admin.upsert_users({"a": SECRET}, iterations=20_000), "iterations=20000: must be from 4,096 to 16,384"),
        (lambda admin: admin.delete_users(["a"], mechanisms=[]), "takes a list of SCRAM-SHA-256"),
        (lambda admin: admin.describe_quotas({"user": "a"}), "takes a QuotaFilter"),
        (lambda admin: admin.alter_quotas({"alice": {"producer_byte_rate": 1}}), "takes a mapping such as"),
        (lambda admin: admin.alter_quotas({ALICE: {}}), "quotas of user alice must be a mapping of at least one name to a rate"),
        (lambda admin: admin.alter_quotas({ALICE: {"producer_byte_rate": -1}}), "producer_byte_rate=-1: must be a number above 0"),
        (lambda admin: admin.create_token(owner="alice"), "must be a type and a name"),
        (lambda admin: admin.create_token(renewers="User:bob"), "renewers='User:bob': takes a list of principals"),
        (lambda admin: admin.create_token(max_lifetime=0), "max_lifetime=0: must be a number of seconds above 0"),
        (lambda admin: admin.renew_token("id"), "token must be a DelegationToken or its hmac, not a str"),
    ],
)
def test_a_wrong_argument_is_named(admin: AdminClient, call: Callable[[Any], object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        call(admin)


@pytest.mark.parametrize("passwords", [{"a": SECRET.encode()}, {"a": [SECRET]}, {"a": SECRET + "\ud800"}, [("a", SECRET)], {"a": ""}])
def test_a_wrong_password_is_not_shown(admin: AdminClient, passwords: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        admin.upsert_users(passwords)
    assert "password" in str(caught.value)
    assert SECRET not in str(caught.value)
    trace: Any = caught.value.__traceback__.tb_next
    while trace is not None:  # as tools show it that report errors
        assert SECRET not in repr(trace.tb_frame.f_locals)
        trace = trace.tb_next


@pytest.mark.parametrize("value", [TOKEN, SaltedPassword(b"salt", SECRET.encode(), 4096)])
def test_what_brokers_keep_of_a_secret_is_neither_shown_nor_pickled(value: object) -> None:
    assert SECRET not in repr(value)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(value)


def test_one_mechanism_that_fails_leaves_the_other_done(server: ModelServer) -> None:
    kind = AlterUserScramCredentialsResponse.Result

    def answer(call: Any) -> AlterUserScramCredentialsResponse:
        (row,) = call.message.upsertions
        code = BY_NAME["UNACCEPTABLE_CREDENTIAL"].code if row.mechanism == SCRAM_SHA_512 else 0
        return AlterUserScramCredentialsResponse(results=[kind(user=row.name, error_code=code)])

    def begin(cluster: Any) -> None:  # model brokers have no users
        cluster.versions[AlterUserScramCredentialsRequest.api_key] = (0, 0)
        cluster.control("AlterUserScramCredentials", answer, keep=True)

    server.do(begin)
    with (
        AdminClient(bootstrap_servers=server.bootstrap_servers) as admin,  # connects only now, or it may find the versions of before
        pytest.raises(PartialFailure, match="the SCRAM-SHA-512 credential of user alice: UNACCEPTABLE_CREDENTIAL") as caught,
    ):
        admin.upsert_users({"alice": SECRET})
    assert caught.value.done == {("alice", "SCRAM-SHA-256"): True}
