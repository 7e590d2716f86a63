"""Questions that change rights, users and tokens: what responses mean, and what a repeated request means."""

from __future__ import annotations

from pykafka4.core import Reply
from pykafka4.core.admin.acls import Acl, AclFilter, CreateAcls, DeleteAcls, DescribeAcls
from pykafka4.core.admin.question_run import Refusal
from pykafka4.core.admin.tokens import TOKEN, CreateToken, ExpireToken, RenewToken
from pykafka4.core.admin.users import DeleteUsers, UpsertUsers
from pykafka4.errors.codes import BY_NAME
from pykafka4.wire.protocol.messages_acls import CreateAclsResponse, DeleteAclsResponse, DescribeAclsResponse

FIRST, SECOND = Acl("User:a", "READ", "topic", "t"), Acl("User:b", "READ", "topic", "t")
REFUSED = Refusal(BY_NAME["INVALID_REQUEST"].code, "because")
ABSENT = Refusal(BY_NAME["RESOURCE_NOT_FOUND"].code)
GONE = Refusal(BY_NAME["DELEGATION_TOKEN_NOT_FOUND"].code)


def created(*codes: int) -> Reply:
    rows = [CreateAclsResponse.Result(error_code=code, error_message="because") for code in codes]
    return Reply(CreateAclsResponse(results=rows), 3, 1)


def test_results_are_in_the_order_of_the_request() -> None:
    assert CreateAcls().read([FIRST, SECOND], created(0, REFUSED.code)) == {FIRST: True, SECOND: REFUSED}


def test_results_of_another_number_than_the_requests_are_nobodys() -> None:
    assert CreateAcls().read([SECOND], created(0, REFUSED.code)) == {}


def test_an_acl_that_cannot_be_deleted_is_the_error_of_its_filter() -> None:
    filter_, acl = DeleteAclsResponse.Filter, DeleteAclsResponse.Filter.Acl
    row = {"resource_type": 2, "resource_name": "t", "pattern_type": 3, "host": "*", "operation": 3, "permission_type": 3}
    bad = acl(principal="User:b", error_code=REFUSED.code, error_message=REFUSED.detail, **row)
    good = acl(principal="User:a", error_code=0, error_message=None, **row)
    answer = DeleteAclsResponse(filter_results=[filter_(matching_acls=[good]), filter_(matching_acls=[good, bad])])
    assert DeleteAcls().read([FIRST, AclFilter()], Reply(answer, 3, 1)) == {FIRST: (FIRST,), AclFilter(): REFUSED}


def test_words_of_newer_brokers_are_kept_and_can_be_sent() -> None:
    row = DescribeAclsResponse.Resource.Acl(principal="User:a", host="*", operation=99, permission_type=3)
    resource = DescribeAclsResponse.Resource(resource_type=42, resource_name="x", pattern_type=3, acls=[row])
    answer = DescribeAclsResponse(error_message=None, resources=[resource])
    (found,) = DescribeAcls().answer(answer, Reply(answer, 3, 1))  # type: ignore[misc]
    assert (found.operation, found.resource_type, found.permission) == ("UNKNOWN(99)", "UNKNOWN(42)", "ALLOW")
    (sent,) = DeleteAcls().message([found]).filters
    assert (sent.operation, sent.resource_type_filter) == (99, 42)


def test_a_deletion_that_is_repeated_finds_nothing_and_is_done() -> None:
    assert DeleteUsers("SCRAM-SHA-256").repeated(ABSENT) is True
    assert DeleteUsers("SCRAM-SHA-256").repeated(REFUSED) is REFUSED
    assert ExpireToken(b"hmac", -1).repeated(GONE) is None
    assert UpsertUsers("SCRAM-SHA-256", {}).repeated(ABSENT) is ABSENT
    assert RenewToken(b"hmac", -1).repeated(GONE) is GONE


def test_a_token_is_not_created_twice_and_its_secret_not_shown() -> None:
    assert not CreateToken(None, [], -1).repeatable
    assert b"secret" in ExpireToken(b"secret", -1).message([TOKEN]).hmac
    assert "secret" not in repr(ExpireToken(b"secret", -1).message([TOKEN]))
