"""The group coordinator: generations, sessions, static members, and which members may commit."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.errors.codes import CODES
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.testing import ModelCluster, When
from pykafka4.testing.groups.group import Group, GroupState, Joined, JoinRequest, Synced
from pykafka4.testing.timeline import Timeline
from pykafka4.wire.protocol.messages_group import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest
from tests.testing.model_client import ModelClient

SESSION, REBALANCE = 10.0, 60.0
TP = TopicPartition("t", 0)


class World:
    """A group and scripted members."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self.count = 0
        self.group = Group("g", self.timeline, self.new_id)

    def new_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    def join(self, member_id: str = "", *, instance: str | None = None, protocols: Any = None, first: bool = False) -> list[Joined]:
        answers: list[Joined] = []
        known = (("range", b"meta"),) if protocols is None else protocols
        self.group.join(JoinRequest(member_id, instance, "c", "consumer", known, SESSION, REBALANCE, first), answers.append)
        return answers

    def sync(self, joined: Joined, assignments: dict[str, bytes] | None = None, instance: str | None = None) -> list[Synced]:
        answers: list[Synced] = []
        self.group.sync(joined.generation, joined.member_id, instance, assignments or {}, answers.append)
        return answers

    def stable(self, *instances: str | None) -> list[Joined]:
        """A stable group of so many members; the first leads."""
        joined = [self.join(instance=instances[0])[0]]
        for count in range(1, len(instances)):
            newcomer = self.join(instance=instances[count])
            again = [self.join(j.member_id, instance=i) for j, i in zip(joined, instances)]
            joined = [one[0] for one in (*again, newcomer)]
        for j, instance in zip(joined, instances):
            self.sync(j, {k.member_id: k.member_id.encode() for k in joined} if j.members else None, instance)
        assert self.group.state is GroupState.STABLE
        return joined


@pytest.fixture
def world() -> World:
    return World()


def test_a_single_member_leads_and_gets_what_it_assigns(world: World) -> None:
    joined = world.join()[0]
    assert (joined.generation, joined.leader, joined.protocol) == (1, joined.member_id, "range")
    assert world.sync(joined, {joined.member_id: b"all"}) == [Synced("NONE", b"all", "range")]


def test_new_members_of_newer_clients_are_sent_for_an_id_first(world: World) -> None:
    refused = world.join(first=True)[0]
    assert refused.error == "MEMBER_ID_REQUIRED"
    assert world.join(refused.member_id, first=True)[0].generation == 1


def test_no_join_is_answered_before_all_members_joined(world: World) -> None:
    first = world.join()[0]
    second = world.join()
    assert second == []
    assert world.group.heartbeat(1, first.member_id, None) == "REBALANCE_IN_PROGRESS"
    world.join(first.member_id)
    assert second[0].generation == 2


def test_followers_wait_for_the_leaders_assignment(world: World) -> None:
    first = world.join()[0]
    second = world.join()
    again = world.join(first.member_id)
    waiting = world.sync(second[0])
    assert waiting == []
    world.sync(again[0], {second[0].member_id: b"yours"})
    assert waiting[0].assignment == b"yours"


def test_a_member_that_does_not_rejoin_in_time_is_removed(world: World) -> None:
    first = world.join()[0]
    second = world.join()
    world.timeline.advance(REBALANCE + 1)
    assert second[0].generation == 2
    assert world.group.heartbeat(2, first.member_id, None) == "UNKNOWN_MEMBER_ID"


def test_a_silent_member_loses_its_session_and_the_rest_rebalances(world: World) -> None:
    first, second = world.stable(None, None)
    generation = world.group.generation
    for _ in range(3):
        world.timeline.advance(world.timeline.now + SESSION / 2)
        answer = world.group.heartbeat(generation, first.member_id, None)
    assert answer == "REBALANCE_IN_PROGRESS"
    assert second.member_id not in world.group.members


def test_leaving_starts_a_rebalance_and_the_last_one_empties_the_group(world: World) -> None:
    first, second = world.stable(None, None)
    assert world.group.leave(second.member_id, None) == "NONE"
    assert world.group.state is GroupState.PREPARING
    assert world.group.leave(first.member_id, None) == "NONE"
    assert world.group.state is GroupState.EMPTY
    assert world.group.leave("nobody", None) == "UNKNOWN_MEMBER_ID"


def test_old_generations_may_not_sync_beat_or_commit(world: World) -> None:
    joined = world.stable(None)[0]
    old = Joined("NONE", joined.generation - 1, None, "", joined.member_id)
    assert world.sync(old)[0].error == "ILLEGAL_GENERATION"
    assert world.group.heartbeat(old.generation, joined.member_id, None) == "ILLEGAL_GENERATION"
    assert world.group.may_commit(old.generation, joined.member_id, None) == "ILLEGAL_GENERATION"
    assert world.group.may_commit(joined.generation, joined.member_id, None) is None


def test_outsiders_commit_to_empty_groups_only(world: World) -> None:
    assert world.group.may_commit(-1, "", None) is None
    world.stable(None)
    assert world.group.may_commit(-1, "", None) == "UNKNOWN_MEMBER_ID"


def test_a_join_with_another_protocol_or_an_unknown_member_id_is_refused(world: World) -> None:
    world.join()
    assert world.join(protocols=(("sticky", b""),))[0].error == "INCONSISTENT_GROUP_PROTOCOL"
    assert world.join("made-up")[0].error == "UNKNOWN_MEMBER_ID"


def test_a_static_member_comes_back_without_a_rebalance_and_fences_its_old_instance(world: World) -> None:
    old = world.stable("i1", "i2")[1]
    back = world.join(instance="i2")[0]
    assert (back.error, back.generation) == ("NONE", old.generation)
    assert world.group.state is GroupState.STABLE
    assert world.group.heartbeat(old.generation, old.member_id, "i2") == "FENCED_INSTANCE_ID"
    assert world.sync(back, instance="i2")[0].assignment == old.member_id.encode()


def test_a_static_member_that_comes_back_with_another_subscription_causes_no_rebalance_unless_the_assignor_changes(world: World) -> None:
    old = world.stable("i1", "i2")[1]
    back = world.join(instance="i2", protocols=(("range", b"another"),))[0]
    assert (back.generation, world.group.state) == (old.generation, GroupState.STABLE)
    world.join(instance="i1", protocols=(("sticky", b""), ("range", b"")))
    assert world.group.state is GroupState.STABLE
    world.join(instance="i2", protocols=(("sticky", b""),))
    assert world.group.state is GroupState.STABLE


def test_a_coordinator_that_moves_answers_pending_requests_and_keeps_positions(world: World) -> None:
    first = world.join()[0]
    second = world.join()
    world.group.change_coordinator()
    assert second[0].error == "NOT_COORDINATOR"
    assert first.member_id in world.group.members


def test_a_new_coordinator_may_answer_an_old_offset_unless_a_stable_one_is_required(world: World) -> None:
    world.group.commit(TP, OffsetAndMetadata(5))
    world.group.commit(TP, OffsetAndMetadata(30))
    world.group.change_coordinator(behind=0.5)
    assert [world.group.stored(TP, stable=stable) for stable in (False, True)] == [OffsetAndMetadata(5), OffsetAndMetadata(30)]
    world.timeline.advance(1.0)
    assert world.group.stored(TP, stable=False) == OffsetAndMetadata(30)


# ---- errors in answers to requests that were executed


@pytest.mark.parametrize("named", [False, True])
def test_a_commit_can_be_stored_and_refused(named: bool) -> None:
    cluster = ModelCluster()
    cluster.create_topic("t", 2)
    place = {"topic": "t", "partition": 0} if named else {}
    cluster.push_error("OffsetCommit", "COORDINATOR_NOT_AVAILABLE", when=When.AFTER, **place)
    rows = [OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=7) for index in (0, 1)]
    entry = OffsetCommitRequest.Topic(name="t", topic_id=cluster.topics["t"].id, partitions=rows)
    node = cluster.coordinator("g")
    assert node is not None
    answer = ModelClient(cluster, node).call(OffsetCommitRequest(group_id="g", topics=[entry]))
    told = [CODES[row.error_code].name for row in answer.topics[0].partitions]
    assert told == ["COORDINATOR_NOT_AVAILABLE", "NONE" if named else "COORDINATOR_NOT_AVAILABLE"]
    assert [position.offset for position in cluster.groups["g"].offsets.values()] == [7, 7]


def test_a_single_partition_of_a_commit_can_be_refused() -> None:
    cluster = ModelCluster()
    cluster.create_topic("t", 2)
    cluster.push_error("OffsetCommit", "OFFSET_METADATA_TOO_LARGE", topic="t", partition=1)
    rows = [OffsetCommitRequest.Topic.Partition(partition_index=index, committed_offset=7) for index in (0, 1)]
    entry = OffsetCommitRequest.Topic(name="t", topic_id=cluster.topics["t"].id, partitions=rows)
    node = cluster.coordinator("g")
    assert node is not None
    answer = ModelClient(cluster, node).call(OffsetCommitRequest(group_id="g", topics=[entry]))
    assert [CODES[row.error_code].name for row in answer.topics[0].partitions] == ["NONE", "OFFSET_METADATA_TOO_LARGE"]
    assert list(cluster.groups["g"].offsets) == [TP]


def test_a_member_can_be_refused_although_it_joined_and_left() -> None:
    cluster = ModelCluster()
    cluster.push_error("JoinGroup", "COORDINATOR_NOT_AVAILABLE", when=When.AFTER)
    cluster.push_error("LeaveGroup", "NOT_COORDINATOR", when=When.AFTER)
    node = cluster.coordinator("g")
    assert node is not None
    client = ModelClient(cluster, node)
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"m")]
    join = JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, member_id="", protocol_type="consumer", protocols=protocols
    )
    answer = client.call(join, 3)
    assert CODES[answer.error_code].name == "COORDINATOR_NOT_AVAILABLE"
    (member,) = cluster.groups["g"].members
    left = client.call(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member)]))
    assert CODES[left.error_code].name == "NOT_COORDINATOR"
    assert not cluster.groups["g"].members
