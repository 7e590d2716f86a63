"""Questions on scripted brokers: who is asked, retries, what ends a key, deadlines."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import attrs
import pytest

from pykafka4.core.admin.broker_choices import GroupCoordinatorChoice, LeaderChoice, NumberedBrokerChoice
from pykafka4.core.admin.committed import CommitOffsets, FetchOffsets, Unstable
from pykafka4.core.admin.groups import DescribeConsumer, ListGroups, UnknownGroup
from pykafka4.core.admin.offsets import LATEST, CountPartitions, ListOffsetsAt
from pykafka4.core.admin.producers import AbortTransaction, ActiveProducer
from pykafka4.core.admin.question_run import DOUBT, SENT
from pykafka4.core.admin.records import DeleteRecords
from pykafka4.core.admin.replicas import DescribeLogDirs
from pykafka4.core.admin.requests import ControllerChoice, OneBrokerChoice
from pykafka4.core.admin.tokens import TOKEN, CreateToken
from pykafka4.core.admin.topics import CreateTopics, NewTopic
from pykafka4.core.admin.values import ListedOffset
from pykafka4.core.group.encoding import assignment_bytes, subscription_bytes
from pykafka4.core.group.notes import NO_NOTE, note_bytes
from pykafka4.core.metadata.topic import MISSING_S
from pykafka4.core.network.call import OTHER_BROKER_S
from pykafka4.errors import AuthorizationError, BrokerError, KafkaError, KafkaTimeoutError, UnsupportedVersion
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_admin import (
    ConsumerGroupDescribeResponse,
    CreateTopicsResponse,
    DeleteRecordsResponse,
    DescribeLogDirsResponse,
    ListGroupsResponse,
)
from pykafka4.wire.protocol.messages_cluster import FindCoordinatorResponse
from pykafka4.wire.protocol.messages_group import DescribeGroupsResponse, OffsetCommitResponse, OffsetFetchResponse
from pykafka4.wire.protocol.messages_producers import WriteTxnMarkersResponse
from pykafka4.wire.protocol.messages_users import CreateDelegationTokenResponse
from tests.core.scripted_admin import Harness, code, coordinators, groups, make, offsets_of
from tests.core.scripted_brokers import metadata

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def harness() -> Harness:
    return make()


def test_each_coordinator_is_asked_once_about_its_groups(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=1, b=2, c=1, d=3)
    outcomes = harness.describe("a", "b", "c", "d", "a")
    harness.run()
    assert list(outcomes[0]) == ["a", "b", "c", "d"]
    assert {name: found.coordinator for name, found in outcomes[0].items()} == {"a": 1, "b": 2, "c": 1, "d": 3}
    assert outcomes[0]["d"].coordinator_address == "h3:3"
    assert sorted((host, message.groups) for _, host, message in harness.of("DescribeGroups")) == [
        ("h1", ["a", "c"]),
        ("h2", ["b"]),
        ("h3", ["d"]),
    ]
    assert len(harness.of("FindCoordinator")) == 1


def test_what_is_known_of_coordinators_is_used_again_until_one_refuses(harness: Harness) -> None:
    harness.describe("a")
    harness.run()
    harness.script["DescribeGroups"] = groups(a="NOT_COORDINATOR")
    outcomes = harness.describe("a")
    harness.run()
    assert outcomes == []
    assert len(harness.of("FindCoordinator")) == 2
    harness.script["DescribeGroups"] = groups()
    harness.run(1.0)
    assert outcomes[0]["a"].state == "Empty"


def test_a_coordinator_that_loads_is_asked_again_with_a_growing_back_off(harness: Harness) -> None:
    harness.script["DescribeGroups"] = groups(a="COORDINATOR_LOAD_IN_PROGRESS")
    outcomes = harness.describe("a", "b")
    harness.run(3.0)
    times = [at for at, _, message in harness.of("DescribeGroups") if message.groups == ["a"]]
    pauses = [second - first for first, second in pairwise(times)]
    assert pauses[0] == pytest.approx(0.2, rel=0.4)
    assert pauses[-1] > 2 * pauses[0]
    assert len(harness.of("FindCoordinator")) == 1
    assert outcomes == []


def test_one_key_that_cannot_be_answered_does_not_hide_the_others(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=-code("GROUP_AUTHORIZATION_FAILED"))
    harness.script["DescribeGroups"] = groups(b="INVALID_GROUP_ID")
    outcomes = harness.describe("a", "b", "c")
    harness.run()
    (found,) = outcomes
    assert isinstance(found["a"], AuthorizationError)
    assert isinstance(found["b"], BrokerError)
    assert found["c"].state == "Empty"
    harness.script["FindCoordinator"] = coordinators(a=2)  # the right was granted
    again = harness.describe("a")
    harness.run()
    assert again[0]["a"].coordinator == 2


def test_at_the_deadline_what_is_known_is_returned(harness: Harness) -> None:
    harness.script["DescribeGroups"] = groups(a="COORDINATOR_LOAD_IN_PROGRESS")
    outcomes = harness.describe("a", "b", seconds=5.0)
    harness.run(4.9)
    assert outcomes == []
    harness.run(0.2)
    (found,) = outcomes
    assert isinstance(found["a"], KafkaTimeoutError)
    assert "no answer within 5 s (last error: group a: COORDINATOR_LOAD_IN_PROGRESS)" in str(found["a"])
    assert found["b"].state == "Empty"
    before = len(harness.asked)
    harness.run(5.0)
    assert len(harness.asked) == before  # nothing more is sent for it


def test_at_the_deadline_it_is_told_why_a_coordinator_is_not_known(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=-code("COORDINATOR_NOT_AVAILABLE"))
    offsets = {T0: OffsetAndMetadata(1)}
    outcomes = harness.describe("a", seconds=5.0)
    commits = harness.ask(CommitOffsets("a", offsets), GroupCoordinatorChoice(harness.machine.coordinators, "a"), [T0], 5.0)
    harness.run(5.1)
    for found in (outcomes[0]["a"], commits[0][T0]):
        assert "no answer within 5 s (last error: coordinator of group a: COORDINATOR_NOT_AVAILABLE)" in str(found)


def test_at_the_deadline_a_partition_without_a_leader_is_told(harness: Harness) -> None:
    harness.world.metadata = metadata({"t": [(-1, 5), (2, 7)]})
    harness.script["ListOffsets"] = offsets_of
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [T0, T1], 5.0)
    harness.run(5.1)
    assert str(outcomes[0][T0]) == "t-0: ListOffsets: no answer within 5 s (t-0 has no leader)"
    assert outcomes[0][T1] == ListedOffset(T1, 20)


def test_at_the_deadline_the_broker_that_is_silent_is_named(harness: Harness) -> None:
    harness.script["DescribeGroups"] = harness.script["CreateTopics"] = lambda message, host: None
    outcomes = harness.describe("b", seconds=2.0)
    create = CreateTopics({"t": NewTopic(1, 1)}, 2_000, validate_only=False)
    created = harness.ask(create, ControllerChoice(harness.world.engine.cluster), ["t"], 2.0)
    harness.run(2.1)
    assert str(outcomes[0]["b"]) == "group b: DescribeGroups: no answer within 2 s from broker 1"
    assert re.fullmatch(
        "creating topic t: CreateTopics: no answer within 2 s from broker [123], which stands in for the controller", str(created[0]["t"])
    )


def test_at_the_deadline_the_broker_is_named_that_is_silent_about_coordinators(harness: Harness) -> None:
    harness.script["FindCoordinator"] = lambda message, host: None
    outcomes = harness.describe("a", seconds=2.0)
    harness.run(2.1)
    reason = r"coordinator of group a: FindCoordinator: no answer from b1:9092"
    assert re.fullmatch(rf"group a: DescribeGroups: no answer within 2 s \({reason}\)", str(outcomes[0]["a"]))


def test_at_the_deadline_the_broker_is_named_that_is_silent_about_leaders(harness: Harness) -> None:
    harness.script["Metadata"] = lambda message, host: None
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [TopicPartition("u", 0)], 2.0)
    harness.run(2.1)
    reason = r"the leader of u-0 is not known yet, because b1:9092 has not answered Metadata"
    assert re.fullmatch(rf"u-0: ListOffsets: no answer within 2 s \({reason}\)", str(outcomes[0][TopicPartition("u", 0)]))


def test_a_question_that_comes_after_the_time_of_its_call_is_not_sent(harness: Harness) -> None:
    outcomes = harness.describe("a", seconds=0.0)
    harness.run(1.0)
    assert str(outcomes[0]["a"]) == "group a: DescribeGroups: not asked, because no time was left"
    assert harness.of("DescribeGroups") == []


def test_another_broker_is_asked_for_coordinators_when_one_is_silent(harness: Harness) -> None:
    harness.script["FindCoordinator"] = lambda message, host: None
    outcomes = harness.describe("a")
    harness.run(OTHER_BROKER_S - 0.1)
    assert len(harness.of("FindCoordinator")) == 1
    harness.script["FindCoordinator"] = coordinators()
    harness.run(0.5)
    first, second = harness.of("FindCoordinator")
    assert first[1] != second[1]
    assert outcomes[0]["a"].state == "Empty"


def test_a_coordinator_that_is_not_in_the_metadata_yet_is_waited_for(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=9)
    outcomes = harness.describe("a")
    harness.run(0.4)
    assert len(harness.of("FindCoordinator")) == 1
    harness.world.metadata = metadata({}, {1: ("h1", 1), 9: ("h9", 9)})
    harness.run(1.5)
    assert outcomes[0]["a"].coordinator == 9
    assert harness.of("DescribeGroups")[0][1] == "h9"


def test_a_broker_that_is_gone_is_replaced_after_a_new_lookup(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=3)
    harness.world.down.add(("h3", 3))
    outcomes = harness.describe("a")
    harness.run(0.3)
    harness.script["FindCoordinator"] = coordinators(a=2)
    harness.run(2.0)
    assert outcomes[0]["a"].coordinator == 2


def test_many_groups_are_asked_about_in_parts(harness: Harness) -> None:
    names = [f"g{number}" for number in range(250)]
    outcomes = harness.describe(*names)
    harness.run()
    assert list(outcomes[0]) == names
    assert [len(message.groups) for _, _, message in harness.of("DescribeGroups")] == [100, 100, 50]


def test_a_lookup_that_nobody_waits_for_ends(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=-code("COORDINATOR_NOT_AVAILABLE"))
    harness.describe("a", seconds=2.0)
    harness.run(2.5)
    before = len(harness.of("FindCoordinator"))
    harness.run(5.0)
    assert before > 1
    assert len(harness.of("FindCoordinator")) <= before + 1
    harness.describe("b")
    harness.run()
    assert harness.of("FindCoordinator")[-1][2].coordinator_keys == ["b"]


# ---- what responses mean


def test_assignments_of_consumers_are_read_and_those_of_others_are_not(harness: Harness) -> None:
    kind = DescribeGroupsResponse.Group
    member = kind.Member(member_id="m", client_id="c", client_host="/10.0.0.1", member_assignment=assignment_bytes([T1, T0]))
    odd = attrs.evolve(member, member_id="o", member_assignment=b"\x00")

    def answer(message: Any, host: str) -> Any:
        types = {"a": "consumer", "b": "connect"}
        rows = [kind(group_id=g, group_state="Stable", protocol_type=types[g], members=[member, odd]) for g in message.groups]
        return DescribeGroupsResponse(groups=rows)

    harness.script["DescribeGroups"] = answer
    outcomes = harness.describe("a", "b")
    harness.run()
    good, bad = outcomes[0]["a"].members
    assert good.can_rewind is None
    assert (good.partitions, good.host, good.is_readable) == ((T0, T1), "10.0.0.1", True)
    assert (bad.partitions, bad.is_readable) == ((), False)
    assert [(m.partitions, m.is_readable) for m in outcomes[0]["b"].members] == [((), False), ((), False)]


@pytest.mark.parametrize(("user_data", "can_rewind"), [(note_bytes(NO_NOTE), True), (None, False)])
def test_members_that_carry_out_a_rewind_are_told_from_others(harness: Harness, user_data: bytes | None, *, can_rewind: bool) -> None:
    kind = DescribeGroupsResponse.Group
    subscription = subscription_bytes(["t"], user_data=user_data)
    member = kind.Member(member_id="m", client_id="c", client_host="/h", member_metadata=subscription, member_assignment=b"")
    rows = [kind(group_id="a", group_state="Stable", protocol_type="consumer", members=[member])]
    harness.script["DescribeGroups"] = lambda message, host: DescribeGroupsResponse(groups=rows)
    outcomes = harness.describe("a")
    harness.run()
    assert [one.can_rewind for one in outcomes[0]["a"].members] == [can_rewind]


@pytest.mark.parametrize("low_high", [(0, 5), (6, 6)])
def test_a_group_that_is_none_of_the_classic_protocol_is_no_error(low_high: tuple[int, int]) -> None:
    harness = make(DescribeGroups=low_high)
    row = DescribeGroupsResponse.Group(group_id="a", group_state="Dead", error_code=code("GROUP_ID_NOT_FOUND") if low_high[0] else 0)
    harness.script["DescribeGroups"] = lambda message, host: DescribeGroupsResponse(groups=[row])
    outcomes = harness.describe("a")
    harness.run()
    assert outcomes == [{"a": UnknownGroup()}]


def test_groups_of_the_consumer_protocol_have_epochs_and_targets(harness: Harness) -> None:
    kind = ConsumerGroupDescribeResponse.Group
    of = kind.Member.Assignment
    some, more = (of(topic_partitions=[of.TopicPartitions(topic_name="t", partitions=numbers)]) for numbers in ([1], [1, 0]))
    member = kind.Member(
        member_id="m", instance_id="i", member_epoch=7, client_id="c", client_host="/h", assignment=some, target_assignment=more
    )
    row = kind(group_id="a", group_state="Reconciling", group_epoch=8, assignment_epoch=7, assignor_name="uniform", members=[member])
    missing = kind(group_id="b", error_code=code("GROUP_ID_NOT_FOUND"))
    harness.script["ConsumerGroupDescribe"] = lambda message, host: ConsumerGroupDescribeResponse(groups=[row, missing])
    outcomes = harness.ask(DescribeConsumer(harness.machine.address), harness.machine.coordinators, ["a", "b"])
    harness.run()
    found = outcomes[0]["a"]
    assert (found.state, found.type, found.assignor, found.epoch, found.assignment_epoch) == ("Reconciling", "consumer", "uniform", 8, 7)
    (shown,) = found.members
    assert (shown.instance_id, shown.epoch, shown.partitions, shown.target) == ("i", 7, (T1,), (T0, T1))
    assert outcomes[0]["b"] == UnknownGroup()


def test_a_denied_topic_of_a_member_which_is_not_named_is_one_of_all(harness: Harness) -> None:
    row = ConsumerGroupDescribeResponse.Group(group_id="a", error_code=code("TOPIC_AUTHORIZATION_FAILED"))
    harness.script["ConsumerGroupDescribe"] = lambda message, host: ConsumerGroupDescribeResponse(groups=[row])
    outcomes = harness.ask(DescribeConsumer(harness.machine.address), harness.machine.coordinators, ["a"])
    harness.run()
    assert "needs DESCRIBE on every topic of the members of the group; grant it with `" in str(outcomes[0]["a"])
    assert "--operation Describe --topic <name>`" in str(outcomes[0]["a"])


def test_a_broker_without_the_request_is_told_for_each_key() -> None:
    harness = make(ConsumerGroupDescribe=None)
    outcomes = harness.ask(DescribeConsumer(harness.machine.address), harness.machine.coordinators, ["a", "b"])
    harness.run()
    assert all(isinstance(found, UnsupportedVersion) for found in outcomes[0].values())


def test_old_brokers_are_asked_about_one_group_at_a_time() -> None:
    harness = make(FindCoordinator=(0, 2), OffsetFetch=(1, 5))
    kind = OffsetFetchResponse.Topic

    def one(message: Any, host: str) -> Any:
        return FindCoordinatorResponse(node_id=2 if message.key == "b" else 1, host="", port=0)

    def offsets(message: Any, host: str) -> Any:
        part = kind.Partition(partition_index=0, committed_offset=len(message.group_id), metadata=None)
        return OffsetFetchResponse(topics=[kind(name="t", partitions=[part])])

    harness.script.update(FindCoordinator=one, OffsetFetch=offsets)
    outcomes = harness.ask(FetchOffsets(Unstable.REPORT), harness.machine.coordinators, ["a", "b", "ccc"])
    harness.run()
    assert outcomes[0] == {"a": {T0: OffsetAndMetadata(1)}, "b": {T0: OffsetAndMetadata(1)}, "ccc": {T0: OffsetAndMetadata(3)}}
    assert sorted(message.group_id for _, _, message in harness.of("OffsetFetch")) == ["a", "b", "ccc"]
    assert all(message.topics is None and not message.require_stable for _, _, message in harness.of("OffsetFetch"))


@pytest.mark.parametrize("unstable", list(Unstable))
def test_offsets_of_an_open_transaction(harness: Harness, unstable: Unstable) -> None:
    kind = OffsetFetchResponse.Group

    def answer(message: Any, host: str) -> Any:
        error = code("UNSTABLE_OFFSET_COMMIT") if message.require_stable else 0
        part = kind.Topic.Partition(partition_index=0, committed_offset=4, metadata="m", error_code=error)
        none = kind.Topic.Partition(partition_index=1, committed_offset=-1, metadata="")
        return OffsetFetchResponse(groups=[kind(group_id="a", topics=[kind.Topic(name="t", partitions=[part, none])])])

    harness.script["OffsetFetch"] = answer
    outcomes = harness.ask(FetchOffsets(unstable), harness.machine.coordinators, ["a"], seconds=5.0)
    harness.run(5.1)
    found = outcomes[0]["a"]
    if unstable is Unstable.WAIT:
        assert isinstance(found, KafkaTimeoutError)
        assert "t-0" in str(found)
    else:
        assert found == (Unstable.REPORT if unstable is Unstable.REPORT else {T0: OffsetAndMetadata(4, metadata="m")})


def test_every_broker_is_asked_for_its_groups_and_one_that_left_is_an_error(harness: Harness) -> None:
    rows = [ListGroupsResponse.Group(group_id="g", protocol_type="consumer", group_state="Stable", group_type="Consumer")]
    harness.script["ListGroups"] = lambda message, host: ListGroupsResponse(groups=rows if host == "h2" else [])
    outcomes = harness.ask(ListGroups(), NumberedBrokerChoice(harness.world.engine.cluster), [1, 2, 7])
    harness.run()
    assert outcomes[0][1] == ()
    assert [(g.group_id, g.type, g.coordinator) for g in outcomes[0][2]] == [("g", "consumer", 2)]
    assert isinstance(outcomes[0][7], KafkaError)


def test_leaders_are_asked_about_their_partitions_and_topics_are_released(harness: Harness) -> None:
    harness.script["ListOffsets"] = offsets_of
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [T0, T1])
    harness.run()
    assert outcomes == [{T0: ListedOffset(T0, 10), T1: ListedOffset(T1, 20)}]
    assert not harness.world.engine.cluster.wants("t")


def test_a_new_leader_is_found(harness: Harness) -> None:
    def refuse(message: Any, host: str) -> Any:
        found = offsets_of(message, host)
        found.topics[0].partitions[0].error_code = code("NOT_LEADER_OR_FOLLOWER") if host == "h1" else 0
        return found

    harness.script["ListOffsets"] = refuse
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(0.05)
    harness.world.metadata = metadata({"t": [(3, 6), (2, 7)]})
    harness.run(2.0)
    assert outcomes == [{T0: ListedOffset(T0, 30)}]


def test_an_error_after_that_of_a_replaced_leader_leaves_the_outcome_open(harness: Harness) -> None:
    """A leader that is replaced while the deletion waits for followers has already deleted the records."""

    def refuse(message: Any, host: str) -> DeleteRecordsResponse:
        error = "NOT_LEADER_OR_FOLLOWER" if len(harness.of("DeleteRecords")) == 1 else "TOPIC_AUTHORIZATION_FAILED"
        kind = DeleteRecordsResponse.Topic
        return DeleteRecordsResponse(topics=[kind(name="t", partitions=[kind.Partition(partition_index=0, error_code=code(error))])])

    harness.script["DeleteRecords"] = refuse
    outcomes = harness.ask(DeleteRecords({T0: 5}, 1_000), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(2.0)
    assert isinstance(outcomes[0][T0], AuthorizationError)
    assert outcomes[0][T0].__notes__ == [DOUBT]


def markers(*errors: str) -> Callable[[Any, str], WriteTxnMarkersResponse]:
    """Responses about the first partition of topic t, one after the other; "" lacks the partition."""
    left, kind = list(errors), WriteTxnMarkersResponse.Marker

    def answer(message: Any, host: str) -> WriteTxnMarkersResponse:
        error = left.pop(0)
        rows = [kind.Topic(name="t", partitions=[kind.Topic.Partition(partition_index=0, error_code=code(error))])] if error else []
        return WriteTxnMarkersResponse(markers=[kind(producer_id=7, topics=rows)])

    return answer


@pytest.mark.parametrize("error", ["REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", ""])
def test_a_marker_that_may_be_written_is_not_sent_again(harness: Harness, error: str) -> None:
    harness.script["WriteTxnMarkers"] = markers(error, "NONE")
    producer = ActiveProducer(7, 1, 0, None, None, 5)
    outcomes = harness.ask(AbortTransaction(producer), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(2.0)
    assert len(harness.of("WriteTxnMarkers")) == 1
    assert (error or "missing in the response") in str(outcomes[0][T0])
    assert outcomes[0][T0].__notes__ == [SENT]


def test_a_marker_that_is_certainly_not_written_is_sent_again(harness: Harness) -> None:
    harness.script["WriteTxnMarkers"] = markers("NOT_ENOUGH_REPLICAS", "NONE")
    producer = ActiveProducer(7, 1, 0, None, None, 5)
    outcomes = harness.ask(AbortTransaction(producer), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run(2.0)
    assert outcomes == [{T0: True}]


def test_a_change_that_was_refused_each_time_was_certainly_not_carried_out(harness: Harness) -> None:
    rows = [CreateTopicsResponse.Topic(name="t", error_code=code("THROTTLING_QUOTA_EXCEEDED"))]
    harness.script["CreateTopics"] = lambda message, host: CreateTopicsResponse(topics=rows)
    create = CreateTopics({"t": NewTopic(1, 1)}, 2_000, validate_only=False)
    outcomes = harness.ask(create, ControllerChoice(harness.world.engine.cluster), ["t"], seconds=2.0)
    harness.run(2.1)
    assert isinstance(outcomes[0]["t"], KafkaTimeoutError)
    assert not hasattr(outcomes[0]["t"], "__notes__")


def test_a_token_that_may_exist_is_not_created_again(harness: Harness) -> None:
    response = CreateDelegationTokenResponse(error_code=code("REQUEST_TIMED_OUT"))
    harness.script["CreateDelegationToken"] = lambda message, host: response
    outcomes = harness.ask(CreateToken(None, [], -1), ControllerChoice(harness.world.engine.cluster), [TOKEN])
    harness.run(2.0)
    assert len(harness.of("CreateDelegationToken")) == 1
    assert outcomes[0][TOKEN].__notes__ == [SENT]


def test_a_partition_or_topic_that_does_not_exist_is_told_after_a_while(harness: Harness) -> None:
    keys = [TopicPartition("t", 5), TopicPartition("none", 0), TopicPartition("not valid", 0)]
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), keys)
    harness.run(MISSING_S - 0.1)
    assert outcomes == []
    harness.run(1.0)
    assert [str(error).partition(" (")[0] for error in outcomes[0].values()][:2] == [
        "t-5: UNKNOWN_TOPIC_OR_PARTITION",
        "none-0: UNKNOWN_TOPIC_OR_PARTITION",
    ]
    assert "a name has 1 to 249" in str(outcomes[0][keys[2]])


def test_a_broker_that_is_missing_is_told_beside_one_that_is_asked_again(harness: Harness) -> None:
    harness.script["DescribeLogDirs"] = lambda message, host: DescribeLogDirsResponse(error_code=code("REQUEST_TIMED_OUT"))
    outcomes = harness.ask(DescribeLogDirs(), OneBrokerChoice(harness.world.engine.cluster), [1, 99], seconds=10.0)
    harness.run(10.0)
    assert "the cluster has no broker 99" in str(outcomes[0][99])
    assert isinstance(outcomes[0][1], KafkaTimeoutError)


def test_a_partition_that_appears_meanwhile_is_found(harness: Harness) -> None:
    harness.script["ListOffsets"] = offsets_of
    new = TopicPartition("t", 2)
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [new])
    harness.run(1.0)
    harness.world.metadata = metadata({"t": [(1, 5), (2, 7), (3, 1)]})
    harness.run(1.5)
    assert outcomes == [{new: ListedOffset(new, 30)}]


def test_commits_of_one_group_have_an_outcome_for_each_partition(harness: Harness) -> None:
    kind = OffsetCommitResponse.Topic

    def answer(message: Any, host: str) -> Any:
        assert (message.generation_id_or_member_epoch, message.member_id, host) == (-1, "", "h2")
        rows = [
            kind.Partition(partition_index=p.partition_index, error_code=0 if p.partition_index == 0 else code("UNKNOWN_MEMBER_ID"))
            for p in message.topics[0].partitions
        ]
        return OffsetCommitResponse(topics=[kind(name="t", partitions=rows)])

    harness.script.update(FindCoordinator=coordinators(a=2), OffsetCommit=answer)
    offsets = {T0: OffsetAndMetadata(4, 2, "m"), T1: OffsetAndMetadata(5)}
    outcomes = harness.ask(CommitOffsets("a", offsets), GroupCoordinatorChoice(harness.machine.coordinators, "a"), list(offsets))
    harness.run()
    ((_, _, message),) = harness.of("OffsetCommit")
    first = message.topics[0].partitions[0]
    assert (first.committed_offset, first.committed_leader_epoch, first.committed_metadata) == (4, 2, "m")
    assert outcomes[0][T0] is True
    assert "group a, t-1: UNKNOWN_MEMBER_ID" in str(outcomes[0][T1])


def test_the_number_of_partitions_is_that_of_the_topic(harness: Harness) -> None:
    outcomes = harness.ask(CountPartitions(), harness.machine.any_broker(), ["t", "none"])
    harness.run(MISSING_S + 1.0)
    assert outcomes[0]["t"] == 2
    assert "topic none: UNKNOWN_TOPIC_OR_PARTITION" in str(outcomes[0]["none"])


def test_what_nobody_waits_for_ends_with_the_machine(harness: Harness) -> None:
    harness.script["ListOffsets"] = lambda message, host: None
    outcomes = harness.ask(ListOffsetsAt(LATEST), LeaderChoice(harness.world.engine.cluster), [T0])
    harness.run()
    assert harness.world.engine.cluster.wants("t")
    harness.world.engine.remove(harness.machine)
    harness.machine.dispose()
    assert not harness.world.engine.cluster.wants("t")
    harness.run(60.0)
    assert outcomes == []
