"""Groups with members of both protocols. `tests/conformance/migration_script.py` has what real brokers answer; here is what takes time."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.testing import ModelCluster
from pykafka4.testing.groups.assigning import Part
from pykafka4.testing.groups.group import Group, GroupState
from pykafka4.testing.groups.joining import Joined, JoinRequest, Synced
from pykafka4.testing.groups.modern import GroupHeartbeat, GroupHeartbeatResponse
from pykafka4.wire.protocol.messages_group import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from pykafka4.wire.protocol.schema import decode_data, encode_data

NOTHING: frozenset[Part] = frozenset()
SESSION, REBALANCE = 10.0, 20.0


class World:
    """A group of a model cluster with one topic of two partitions."""

    def __init__(self) -> None:
        self.cluster = ModelCluster()
        self.topic = self.cluster.create_topic("t", 2)
        self.group: Group = self.cluster.group("g")

    def join(self, member_id: str = "", owned: tuple[int, ...] = (), **more: Any) -> list[Joined]:
        """The answer to a JoinGroup, as soon as there is one."""
        rows = [ConsumerProtocolSubscription.Topic(topic="t", partitions=list(owned))] if owned else []
        data = encode_data(ConsumerProtocolSubscription(topics=["t"], user_data=None, owned_partitions=rows), 3)
        request = {
            "member_id": member_id,
            "instance_id": None,
            "client_id": "c",
            "protocol_type": "consumer",
            "protocols": (("range", data),),
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "needs_id_first": False,
            **more,
        }
        answers: list[Joined] = []
        self.group.join(JoinRequest(**request), answers.append)
        return answers

    def sync(self, joined: Joined, share: tuple[int, ...] = (), **others: tuple[int, ...]) -> list[Synced]:
        shares = {joined.member_id: share, **others}
        answers: list[Synced] = []
        rows = {member: self.bytes_of(numbers) for member, numbers in shares.items()} if joined.leader == joined.member_id else {}
        self.group.sync(joined.generation, joined.member_id, None, rows, answers.append)
        return answers

    def bytes_of(self, numbers: tuple[int, ...]) -> bytes:
        row = ConsumerProtocolAssignment.Topic(topic="t", partitions=list(numbers))
        return encode_data(ConsumerProtocolAssignment(assigned_partitions=[row], user_data=None), 3)

    def beat(self, member: str, epoch: int, owned: frozenset[Part] | None = None) -> GroupHeartbeatResponse:
        more: dict[str, Any] = {"rebalance_timeout": REBALANCE, "topics": ("t",), "owned": NOTHING} if epoch == 0 else {"owned": owned}
        return self.group.group_heartbeat(GroupHeartbeat(member, epoch, **more))

    def parts(self, *numbers: int) -> frozenset[Part]:
        return frozenset((self.topic.id, number) for number in numbers)

    def alone(self) -> Joined:
        """A classic member that has both partitions."""
        (joined,) = self.join()
        self.sync(joined, (0, 1))
        return joined

    def pass_time(self, seconds: float) -> None:
        self.cluster.timeline.advance(self.cluster.timeline.now + seconds)


@pytest.fixture
def world() -> World:
    return World()


def numbers_in(synced: Synced) -> list[int]:
    parts = decode_data(ConsumerProtocolAssignment, synced.assignment).assigned_partitions
    return sorted(number for part in parts for number in part.partitions)


def test_a_converted_group_keeps_partitions_with_their_owner_until_it_joins_again(world: World) -> None:
    old = world.alone()
    assert (world.beat("new", 0).assignment, world.group.state) == (NOTHING, GroupState.EMPTY)
    assert world.beat("new", 2).assignment is None
    assert world.group.heartbeat(old.generation, old.member_id, None) == "REBALANCE_IN_PROGRESS"
    (joined,) = world.join(old.member_id)
    assert (joined.error, joined.generation, joined.leader) == ("NONE", 2, "")
    (synced,) = world.sync(joined)
    assert numbers_in(synced) == [0]
    assert world.beat("new", 2).assignment == world.parts(1)


def test_what_a_cooperative_member_still_has_goes_to_nobody(world: World) -> None:
    old = world.alone()
    world.beat("new", 0)
    (joined,) = world.join(old.member_id, (0, 1))
    (synced,) = world.sync(joined)
    assert (joined.generation, numbers_in(synced)) == (1, [0])
    assert world.group.heartbeat(1, old.member_id, None) == "REBALANCE_IN_PROGRESS"
    assert world.beat("new", 2).assignment is None
    (joined,) = world.join(old.member_id, (0,))
    assert joined.generation == 2
    assert world.beat("new", 2).assignment == world.parts(1)


def test_joins_and_syncs_that_wait_are_answered_when_the_group_is_converted(world: World) -> None:
    old = world.alone()
    waiting = world.join()
    assert waiting == []
    world.beat("new", 0)
    assert [joined.error for joined in waiting] == ["REBALANCE_IN_PROGRESS"]
    assert old.member_id in world.group.modern.members


def test_a_classic_member_that_does_not_join_again_in_time_is_removed(world: World) -> None:
    old = world.alone()
    epoch = world.beat("new", 0).epoch
    for _ in range(5):
        world.pass_time(REBALANCE / 4)
        epoch = world.beat("new", epoch, NOTHING).epoch
        world.group.heartbeat(old.generation, old.member_id, None)
    assert old.member_id not in world.group.modern.members
    assert world.beat("new", epoch).assignment is not None or world.group.modern.members["new"].assigned == world.parts(0, 1)


def test_a_silent_classic_member_is_removed_after_its_session(world: World) -> None:
    old = world.alone()
    world.beat("new", 0)
    world.pass_time(SESSION + 1)
    assert world.group.heartbeat(old.generation, old.member_id, None) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize("how", ["leaves", "is removed", "is silent"])
def test_without_members_of_the_consumer_protocol_the_group_is_classic_again(world: World, how: str) -> None:
    old = world.alone()
    world.beat("new", 0)
    (joined,) = world.join(old.member_id)
    world.sync(joined)
    if how == "leaves":
        assert world.beat("new", -1).error == "NONE"
    elif how == "is removed":
        assert world.group.leave("new", None) == "NONE"
    else:
        while "new" in world.group.modern.members:
            world.pass_time(SESSION / 2)
            world.group.heartbeat(joined.generation, joined.member_id, None)
    assert not world.group.modern.members
    assert world.group.state is GroupState.PREPARING
    assert world.group.heartbeat(joined.generation, joined.member_id, None) == "REBALANCE_IN_PROGRESS"
    (again,) = world.join(old.member_id)
    assert (again.leader, again.generation) == (old.member_id, joined.generation + 1)
    assert numbers_in(world.sync(again, (0, 1))[0]) == [0, 1]


def test_a_static_member_of_the_other_protocol_is_replaced_or_waited_for(world: World) -> None:
    (old,) = world.join(instance_id="i")
    world.group.sync(old.generation, old.member_id, "i", {old.member_id: world.bytes_of((0, 1))}, lambda synced: None)
    joins = GroupHeartbeat("new", 0, "i", rebalance_timeout=REBALANCE, topics=("t",), owned=NOTHING)
    assert world.group.group_heartbeat(joins).error == "UNRELEASED_INSTANCE_ID"
    assert old.member_id in world.group.members  # a refused join converts nothing
    world.group.leave("", "i")
    assert world.group.group_heartbeat(joins).error == "NONE"
    (back,) = world.join(instance_id="i")
    assert (back.error, world.group.modern.members) == ("NONE", {})  # the last one of the consumer protocol was replaced


def test_groups_of_other_kinds_are_not_converted(world: World) -> None:
    (joined,) = world.join(protocol_type="connect")
    world.sync(joined)
    assert world.beat("new", 0).error == "GROUP_ID_NOT_FOUND"
    assert joined.member_id in world.group.members
