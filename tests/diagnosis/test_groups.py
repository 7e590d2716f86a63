"""Groups: lag that nobody reads is wrong, lag alone is not."""

from __future__ import annotations

import pytest

from pykafka4 import AdminClient, TopicPartition
from pykafka4.core.group.encoding import assignment_bytes
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.errors.codes import BY_NAME
from pykafka4.messages import DescribeGroupsResponse
from pykafka4.testing import ModelServer
from tests.consumer.consuming import Maker, poll_until, topic
from tests.diagnosis.looking import findings, of

T0 = TopicPartition("t", 0)


def last(server: ModelServer) -> Finding:
    """The last finding about the group `g`."""
    return of(findings(server.bootstrap_servers, groups=["g"]), "groups")[-1]


def test_a_group_that_does_not_exist_is_wrong(server: ModelServer) -> None:
    found = last(server)
    assert (found.outcome, found.what) == (Outcome.WRONG, "does not exist")
    assert "group_id" in found.way_out


def test_a_group_that_is_denied_is_wrong(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.deny("group", "g"))
    found = last(server)
    assert found.outcome is Outcome.WRONG
    assert "--group g" in found.way_out


def test_a_group_that_cannot_be_checked_may_exist(server: ModelServer) -> None:
    kind = DescribeGroupsResponse.Group
    answer = DescribeGroupsResponse(groups=[kind(group_id="g", error_code=BY_NAME["UNKNOWN_SERVER_ERROR"].code)])
    server.do(lambda cluster: cluster.control("DescribeGroups", lambda call: answer, keep=True))
    found = last(server)
    assert (found.outcome, found.what, found.way_out) == (Outcome.WRONG, "cannot be checked", "")


def test_without_members_lag_is_wrong_and_no_lag_a_notice(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    admin.set_offsets("g", {T0: 1})
    found = last(server)
    assert (found.outcome, found.what) == (Outcome.WRONG, "has no members: no consumer reads")
    assert "lag 2: t-0 2" in found.evidence
    admin.set_offsets("g", {T0: 3})
    assert last(server).outcome is Outcome.NOTICE


def test_a_group_whose_members_read_is_fine(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 3)
    member = make.member()
    poll_until(member, lambda: member.assignment() and admin.describe_group("g").state == "Stable")
    assert last(server).outcome is Outcome.FINE


def test_an_offset_behind_the_end_of_the_log_is_wrong(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 3)
    admin.set_offsets("g", {T0: 9})
    found = of(findings(server.bootstrap_servers, groups=["g"]), "groups")
    assert "has committed an offset of t-0 that does not exist" in [one.what for one in found if one.outcome is Outcome.WRONG]


@pytest.mark.parametrize(("assignment", "is_told"), [(assignment_bytes([]), True), (b"in a format of its own", False)])
def test_a_partition_without_owner_is_told_if_the_assignments_can_be_read(
    server: ModelServer, admin: AdminClient, assignment: bytes, *, is_told: bool
) -> None:
    topic(server, 3)
    admin.set_offsets("g", {T0: 1})
    kind = DescribeGroupsResponse.Group
    member = kind.Member(member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=assignment)
    answer = DescribeGroupsResponse(groups=[kind(group_id="g", group_state="Stable", protocol_type="consumer", members=[member])])
    server.do(lambda cluster: cluster.control("DescribeGroups", lambda call: answer, keep=True))
    found = of(findings(server.bootstrap_servers, groups=["g"]), "groups")
    assert ("1 partition has records and no owner" in [one.what for one in found]) is is_told
    assert found[-1].what == "has 1 member"
