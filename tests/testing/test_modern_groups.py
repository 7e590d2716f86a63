"""The coordinator of the consumer protocol (KIP-848): epochs, one owner of each partition, sessions, static members, assignors."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka4.errors.codes import CODES
from pykafka4.testing import ModelCluster
from pykafka4.testing.groups.assigning import REMOTE_ASSIGNORS, Part
from pykafka4.testing.groups.modern import ConsumerProtocolGroup, GroupHeartbeat, GroupHeartbeatResponse
from pykafka4.wire.protocol.messages_admin import ConsumerGroupDescribeRequest
from pykafka4.wire.protocol.messages_group import ConsumerGroupHeartbeatRequest, JoinGroupRequest, OffsetCommitRequest
from tests.testing.model_client import ModelClient

NOTHING: frozenset[Part] = frozenset()


class World:
    """A group of a model cluster with one topic, and scripted members."""

    def __init__(self, partitions: int = 4) -> None:
        self.cluster = ModelCluster()
        self.topic = self.cluster.create_topic("t", partitions)
        self.group: ConsumerProtocolGroup = self.cluster.group("g").modern

    def join(self, member: str, **more: Any) -> GroupHeartbeatResponse:
        return self.beat(member, 0, **{"rebalance_timeout": 60.0, "topics": ("t",), "owned": NOTHING, **more})

    def beat(self, member: str, epoch: int, **more: Any) -> GroupHeartbeatResponse:
        return self.group.heartbeat(GroupHeartbeat(member, epoch, **more))

    def parts(self, *numbers: int) -> frozenset[Part]:
        return frozenset((self.topic.id, number) for number in numbers)

    def stable(self) -> tuple[GroupHeartbeatResponse, GroupHeartbeatResponse]:
        """Members a and b with two partitions each; both have acknowledged."""
        first = self.join("a")
        self.beat("a", first.epoch, owned=first.assignment)
        second = self.join("b")
        kept = self.beat("a", first.epoch).assignment
        first = self.beat("a", first.epoch, owned=kept)
        second = self.beat("b", second.epoch)
        assert self.group.state == "Stable"
        return attrs.evolve(first, assignment=kept), second


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_member_gets_everything_at_once(world: World) -> None:
    beat = world.join("a")
    assert (beat.error, beat.epoch, beat.assignment) == ("NONE", 1, world.parts(0, 1, 2, 3))
    assert world.beat("a", 1, owned=beat.assignment).assignment is None
    assert world.group.state == "Stable"


def test_a_partition_goes_to_another_member_only_after_it_was_given_back(world: World) -> None:
    first = world.join("a")
    world.beat("a", 1, owned=first.assignment)
    second = world.join("b")
    assert (second.epoch, second.assignment) == (2, NOTHING)
    assert world.group.state == "Reconciling"
    revoked = world.beat("a", 1)
    assert revoked.epoch == 1
    assert revoked.assignment is not None
    assert len(revoked.assignment) == 2
    assert world.beat("b", 2).assignment is None
    assert world.beat("a", 1, owned=revoked.assignment).epoch == 2
    gained = world.beat("b", 2).assignment
    assert gained == world.parts(0, 1, 2, 3) - revoked.assignment
    assert world.group.state == "Stable"


def test_a_member_that_does_not_give_back_in_time_is_removed(world: World) -> None:
    first = world.join("a", rebalance_timeout=3.0)
    world.beat("a", 1, owned=first.assignment)
    world.join("b")
    world.beat("a", 1)
    world.cluster.timeline.advance(2.9)
    assert "a" in world.group.members
    world.cluster.timeline.advance(3.1)
    assert "a" not in world.group.members
    assert world.beat("b", 2).assignment == world.parts(0, 1, 2, 3)


def test_a_silent_member_is_removed_after_its_session(world: World) -> None:
    first, second = world.stable()
    world.cluster.timeline.advance(40.0)
    world.beat("b", second.epoch)
    world.cluster.timeline.advance(46.0)
    assert list(world.group.members) == ["b"]
    assert world.beat("a", first.epoch).error == "UNKNOWN_MEMBER_ID"
    assert world.beat("b", second.epoch).assignment == world.parts(0, 1, 2, 3)


def test_the_previous_epoch_is_accepted_with_what_is_owned_and_no_other_one(world: World) -> None:
    """The response that had the new epoch may have been lost."""
    first, _ = world.stable()
    assert world.beat("a", 1).error == "FENCED_MEMBER_EPOCH"
    assert world.beat("a", first.epoch + 1).error == "FENCED_MEMBER_EPOCH"
    assert world.beat("a", 1, owned=world.parts(0, 1, 2, 3)).error == "FENCED_MEMBER_EPOCH"
    again = world.beat("a", 1, owned=first.assignment, topics=("t",), rebalance_timeout=1.0)
    assert (again.error, again.epoch, again.assignment) == ("NONE", first.epoch, first.assignment)


def test_leaving_frees_the_partitions(world: World) -> None:
    _, second = world.stable()
    assert world.beat("a", -1).epoch == -1
    assert world.beat("b", second.epoch).assignment == world.parts(0, 1, 2, 3)
    assert world.beat("a", -1).error == "UNKNOWN_MEMBER_ID"


def test_a_static_member_keeps_its_place_while_it_is_away(world: World) -> None:
    world.join("a", instance_id="i")
    world.beat("a", 1, instance_id="i", owned=world.parts(0, 1, 2, 3))
    assert world.join("b", instance_id="i").error == "UNRELEASED_INSTANCE_ID"
    assert world.beat("a", -2, instance_id="i").epoch == -2
    back = world.join("b", instance_id="i")
    assert back.assignment == world.parts(0, 1, 2, 3)
    assert world.beat("a", 1, instance_id="i").error == "FENCED_INSTANCE_ID"


def described(world: World) -> Any:
    """The group, as its coordinator describes it."""
    node = world.cluster.coordinator("g")
    assert node is not None
    (group,) = ModelClient(world.cluster, node).call(ConsumerGroupDescribeRequest(group_ids=["g"])).groups
    return group


def test_the_client_id_of_a_static_member_is_that_of_its_last_join(world: World) -> None:
    world.join("a", instance_id="i", client_id="old")
    world.beat("a", -2, instance_id="i")
    world.join("b", instance_id="i", client_id="new")
    assert [(member.member_id, member.client_id) for member in described(world).members] == [("b", "new")]


def test_a_refused_join_does_not_replace_a_static_member(world: World) -> None:
    world.join("a", instance_id="i")
    world.beat("a", -2, instance_id="i")
    assert world.join("b", instance_id="i", topics=None).error == "INVALID_REQUEST"
    assert list(world.group.members) == ["a"]


def test_the_described_assignor_is_the_one_that_most_members_name(world: World) -> None:
    world.join("a", assignor="uniform")
    assert described(world).assignor_name == "uniform"
    world.join("b", assignor="range")
    world.join("c", assignor="range")
    assert described(world).assignor_name == "range"


def test_a_static_member_that_stays_away_is_removed(world: World) -> None:
    world.join("a", instance_id="i")
    world.beat("a", -2, instance_id="i")
    world.cluster.timeline.advance(46.0)
    assert world.group.members == {}
    assert world.join("b", instance_id="i").error == "NONE"


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"assignor": "none such"}, "UNSUPPORTED_ASSIGNOR"),
        ({"topics": None}, "INVALID_REQUEST"),
        ({"rebalance_timeout": None}, "INVALID_REQUEST"),
        ({"owned": None}, "INVALID_REQUEST"),
    ],
)
def test_a_join_that_is_not_valid_is_refused_and_leaves_nothing(world: World, more: dict[str, Any], error: str) -> None:
    assert world.join("a", **more).error == error
    assert world.group.members == {}


def test_a_full_group_takes_no_more(world: World) -> None:
    world.group.max_size = 1
    world.join("a")
    assert world.join("b").error == "GROUP_MAX_SIZE_REACHED"


def test_new_partitions_and_topics_are_assigned(world: World) -> None:
    first = world.join("a", topics=("t", "u"))
    world.cluster.add_partitions("t", 5)
    grown = world.beat("a", first.epoch, owned=first.assignment)
    assert grown.assignment == world.parts(0, 1, 2, 3, 4)
    other = world.cluster.create_topic("u", 1)
    assert world.beat("a", grown.epoch, owned=grown.assignment).assignment == world.parts(0, 1, 2, 3, 4) | {(other.id, 0)}


@pytest.mark.parametrize("assignor", sorted(REMOTE_ASSIGNORS))
@pytest.mark.parametrize("sizes", [(1, 1), (7, 2), (3, 3), (12, 5)])
def test_assignors_give_every_partition_to_one_subscriber(assignor: str, sizes: tuple[int, int]) -> None:
    world = World(sizes[0])
    other = world.cluster.create_topic("u", sizes[1])
    counts = {world.topic.id: sizes[0], other.id: sizes[1]}
    subscribers = {world.topic.id: ["a", "b", "c"], other.id: ["b", "c"]}
    shares = REMOTE_ASSIGNORS[assignor](subscribers, counts, {})
    dealt = sorted(part for owned in shares.values() for part in owned)
    assert dealt == sorted((topic, number) for topic, count in counts.items() for number in range(count))
    assert all(member in subscribers[topic] for member, owned in shares.items() for topic, _ in owned)


def test_the_uniform_assignor_is_level_and_moves_as_little_as_possible(world: World) -> None:
    subscribers, sizes = {world.topic.id: ["a", "b"]}, {world.topic.id: 4}
    before = REMOTE_ASSIGNORS["uniform"](subscribers, sizes, {})
    assert {len(owned) for owned in before.values()} == {2}
    after = REMOTE_ASSIGNORS["uniform"]({world.topic.id: ["a", "b", "c"]}, sizes, before)
    assert sorted(len(owned) for owned in after.values()) == [1, 1, 2]
    assert all(after[member] <= before[member] for member in before)


# ---- the group's other side


def test_members_commit_in_their_epoch_and_outsiders_not_at_all(world: World) -> None:
    group = world.cluster.group("g")
    assert group.may_commit(-1, "", None) is None
    world.join("a")
    assert group.may_commit(1, "a", None) is None
    assert group.may_commit(0, "a", None) == "STALE_MEMBER_EPOCH"
    assert group.may_commit(1, "b", None) == "UNKNOWN_MEMBER_ID"
    assert group.may_commit(-1, "", None) == "UNKNOWN_MEMBER_ID"
    assert group.may_look_up(-1, "") is None
    assert group.may_look_up(0, "a") == "STALE_MEMBER_EPOCH"
    assert group.may_pend((1, 0), 0, "a", None) == "ILLEGAL_GENERATION"
    assert group.may_pend((1, 0), 1, "a", None) is None


def test_requests_of_either_protocol_reach_the_same_group() -> None:
    cluster = ModelCluster()
    client = ModelClient(cluster, node=cluster.coordinator("g"))
    cluster.create_topic("t", 1)
    beat = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    answer = client.answers[client.ask(beat, 1)]
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (0, 1, 5000)
    assert [part.partitions for part in answer.assignment.topic_partitions] == [[0]]
    join = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1000,
        rebalance_timeout_ms=1000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"no subscription")],
    )
    assert CODES[client.answers[client.ask(join, 9)].error_code].name == "INCONSISTENT_GROUP_PROTOCOL"
    commit = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=7,
        member_id="m",
        topics=[
            OffsetCommitRequest.Topic(
                name="t", partitions=[OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=1, committed_metadata="")]
            )
        ],
    )
    (topic,) = client.answers[client.ask(commit, 9)].topics
    assert CODES[topic.partitions[0].error_code].name == "STALE_MEMBER_EPOCH"
