"""What the admin client changes: offsets are set and deleted, groups are created and deleted, on model brokers."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import (
    AdminClient,
    AuthorizationError,
    BrokerError,
    ConfigError,
    GroupDescription,
    GroupLag,
    GroupNotEmpty,
    KafkaError,
    KafkaTimeoutError,
    PartialFailure,
    TopicPartition,
)
from pykafka4.testing import ModelServer
from tests.admin.administering import T0, T1, described, joined
from tests.consumer.consuming import LONG, Maker, topic
from tests.inspection import inspect


def test_a_group_with_members_refuses_and_names_them(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 10, 4)
    joined(make, client_id="me", enable_auto_commit=False)
    (member,) = described(admin).members
    plan = admin.plan_offsets("g", ["t"], to="earliest")
    for change in (lambda: admin.set_offsets("g", plan), lambda: admin.set_offsets("g", {T0: 1})):
        with pytest.raises(GroupNotEmpty) as caught:
            change()
        assert (caught.value.group, caught.value.members) == ("g", (member,))
        assert f"{member.member_id} (client me, host 127.0.0.1) with t-0, t-1; stop them first" in str(caught.value)
        assert "`rewind_group`" in str(caught.value)
    assert server.committed("g") == {}
    with pytest.raises(GroupNotEmpty, match=r"group g cannot be deleted.*client me.*stop them first\)$"):
        admin.delete_groups(["g"])
    with pytest.raises(GroupNotEmpty, match=r"offsets of group g cannot be deleted.*stop them first\)$") as caught:
        admin.delete_offsets("g", [("t", 0)])
    assert "rewind_group" not in str(caught.value)


def look_away_once(admin: AdminClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look at the members of a group sees none."""
    real, looks = inspect(admin).groups.require_empty, list[str]()

    def blind(group: str, *rest: Any) -> GroupDescription | None:
        looks.append(group)
        return None if len(looks) == 1 else real(group, *rest)

    monkeypatch.setattr(inspect(admin).groups, "require_empty", blind)


def test_a_member_that_joins_after_the_look_is_named_too(
    server: ModelServer, admin: AdminClient, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic(server, 10, 4)
    joined(make, client_id="me")
    look_away_once(admin, monkeypatch)
    with pytest.raises(GroupNotEmpty, match=r"offsets of group g cannot be set: .*client me"):
        admin.set_offsets("g", {T0: 1, T1: 1})


@pytest.mark.parametrize("error", ["REQUEST_TIMED_OUT", None])
def test_members_that_join_after_an_answer_was_lost_leave_open_what_was_set(
    server: ModelServer, admin: AdminClient, make: Maker, monkeypatch: pytest.MonkeyPatch, error: str | None
) -> None:
    topic(server, 10, 4)
    joined(make, client_id="me")
    look_away_once(admin, monkeypatch)
    if error is None:
        server.disconnect("OffsetCommit", after=True)
    else:
        server.fail("OffsetCommit", error)
    with pytest.raises(GroupNotEmpty, match=r"it is unknown whether an earlier request has set offsets of group g; .*client me"):
        admin.set_offsets("g", {T0: 1, T1: 1})


def test_offsets_of_topics_that_members_have_stay_and_others_are_deleted(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 10)
    server.create_topic("old", 1)
    admin.set_offsets("g", {T0: 1, ("old", 0): 0})
    joined(make, client_id="me", enable_auto_commit=False)
    with pytest.raises(PartialFailure, match=r"for 1 of 2 partitions: .*client me") as caught:
        admin.delete_offsets("g", ["t", "old"])
    assert {tp: type(error) for tp, error in caught.value.errors.items()} == {T0: GroupNotEmpty}
    assert caught.value.done == {("old", 0): True}
    assert server.committed("g") == {T0: 1}


def test_a_group_is_created_by_its_first_offsets(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 10, 4)
    plan = admin.create_group("g", ["t"], start="latest")
    assert plan.offsets == server.committed("g") == {T0: 10, T1: 4}
    with pytest.raises(KafkaError, match="group g already exists"):
        admin.create_group("g", ["t"])
    with pytest.raises(ConfigError, match="needs topics"):
        admin.create_group("h")
    assert admin.create_group("h", start={T0: 2}).offsets == {T0: 2}


def test_a_group_of_another_type_that_has_offsets_is_not_created_again(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10)
    admin.set_offsets("streams", {T0: 7})
    server.fail("DescribeGroups", "GROUP_ID_NOT_FOUND", times=1000)  # as for a group of streams
    plan = admin.plan_offsets("streams", ["t"], to="earliest")
    assert (plan.description, plan.exists) == (None, True)
    with pytest.raises(KafkaError, match="group streams already exists"):
        admin.create_group("streams", ["t"])
    assert server.committed("streams") == {T0: 7}
    with pytest.raises(BrokerError, match=r"group streams: GROUP_ID_NOT_FOUND \(Group streams is not a consumer group\.\)"):
        admin.describe_group("streams")


def test_what_has_no_offset_in_a_mapping_is_named_and_nothing_is_done(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    server.create_topic("u", 1)
    with pytest.raises(ConfigError, match=r"no offset is given for t: the offsets are for partitions of u"):
        admin.create_group("g", ["t"], start={("u", 0): 0})
    with pytest.raises(ConfigError, match=r"no offset is given for u, t-0: the offsets are for partitions of t"):
        admin.plan_offsets("g", ["u", T0, T1], to={T1: 0})
    with pytest.raises(PartialFailure, match=r"t-9: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.plan_offsets("g", ["t"], to={T1: 0, ("t", 9): 1})
    assert server.committed("g") == {}
    assert len(admin.list_groups()) == 0


def test_offsets_that_fail_are_named_and_the_others_are_stored(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    server.fail("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", topic="t", partition=1)
    with pytest.raises(PartialFailure, match="for 1 of 2 partitions") as caught:
        admin.set_offsets("g", {T0: 1, T1: 2})
    assert list(caught.value.errors) == [T1]
    assert caught.value.done == {T0: True}
    assert server.committed("g") == {T0: 1}


def test_a_right_that_is_missing_for_several_partitions_is_one_error(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    server.fail("OffsetCommit", "TOPIC_AUTHORIZATION_FAILED", topic="t", times=2)
    with pytest.raises(AuthorizationError, match="needs READ on topic 't'"):
        admin.set_offsets("g", {T0: 1, T1: 1})


@pytest.mark.parametrize("partitions", [[T0], [T0, T1]])
def test_an_error_about_the_group_is_one_error(server: ModelServer, admin: AdminClient, partitions: list[TopicPartition]) -> None:
    topic(server, 10, 4)
    offsets = dict.fromkeys(partitions, 1)
    server.fail("OffsetCommit", "GROUP_AUTHORIZATION_FAILED")
    with pytest.raises(AuthorizationError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        admin.set_offsets("g", offsets)
    server.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=1000)
    with pytest.raises(KafkaTimeoutError, match=r"group g: OffsetCommit: no answer within .*COORDINATOR_LOAD_IN_PROGRESS"):
        admin.set_offsets("g", offsets, timeout=0.5)


def test_a_coordinator_that_is_silent_costs_only_its_own_groups(server: ModelServer, admin: AdminClient) -> None:
    """Takes three seconds: each of three calls waits for the silent one until its time is over."""
    topic(server, 10)
    names = [f"g{number}" for number in range(12)]
    for name in names:
        admin.set_offsets(name, {T0: 4})
    at = {name: described(admin, name).coordinator for name in names}
    assert all(isinstance(one, GroupLag) for one in admin.group_lag(names).values())  # the metadata is known before
    leader = server.do(lambda cluster: cluster.topics["t"].partitions[0].leader)
    ill = next(node for node in at.values() if node != leader)
    server.do(lambda cluster: cluster.freeze(ill, LONG))
    for look in (admin.describe_groups, admin.group_offsets, admin.group_lag):
        found = look(names, timeout=1.0)
        assert {name for name, one in found.items() if isinstance(one, KafkaTimeoutError)} == {n for n in names if at[n] == ill}


@pytest.mark.parametrize("api", ["DeleteGroups", "OffsetDelete"])
def test_a_deletion_whose_response_is_lost_is_done(server: ModelServer, admin: AdminClient, api: str) -> None:
    topic(server, 10)
    admin.set_offsets("g", {T0: 4})
    server.disconnect(api, after=True)
    if api == "DeleteGroups":
        admin.delete_groups(["g"])
    else:
        assert admin.delete_offsets("g", ["t"]) == [T0]
    assert server.committed("g") == {}


def test_a_partition_that_does_not_exist_fails_soon(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10)
    with pytest.raises(BrokerError, match="group g, t-7: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.set_offsets("g", {("t", 7): 1})


def test_groups_are_deleted_and_each_has_its_outcome(server: ModelServer, admin: AdminClient, make: Maker) -> None:
    topic(server, 10)
    for name in ("a", "b"):
        admin.set_offsets(name, {T0: 1})
    joined(make)
    server.do(lambda cluster: cluster.controls.deny("group", "b", ["DELETE"]))
    with pytest.raises(PartialFailure) as caught:
        admin.delete_groups(["a", "b", "g", "none"])
    assert set(caught.value.done) == {"a"}
    found = caught.value.errors
    assert isinstance(found["b"], AuthorizationError)
    assert isinstance(found["g"], GroupNotEmpty)
    assert "GROUP_ID_NOT_FOUND" in str(found["none"])
    assert [group.group_id for group in admin.list_groups()] == ["b", "g"]


def test_offsets_of_a_topic_or_partition_are_deleted_and_others_stay(server: ModelServer, admin: AdminClient) -> None:
    topic(server, 10, 4)
    server.create_topic("u", 2)
    admin.set_offsets("g", {T0: 1, T1: 2, ("u", 0): 0, ("u", 1): 0})
    assert admin.delete_offsets("g", ["t", ("u", 1)]) == [T0, T1, TopicPartition("u", 1)]
    assert server.committed("g") == {("u", 0): 0}
    assert admin.delete_offsets("g", ["t"]) == []
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.delete_offsets("none", [("t", 0)])
