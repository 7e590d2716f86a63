"""Calls of several questions on scripted brokers: one that is silent holds up its own groups only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykafka4.core.admin import calls
from pykafka4.core.admin.broker_choices import GroupCoordinatorChoice
from pykafka4.core.admin.committed import DeleteOffsets
from pykafka4.core.admin.values import GroupPosition
from pykafka4.errors import GroupNotEmpty, KafkaTimeoutError
from pykafka4.errors.codes import BY_NAME
from pykafka4.records import OffsetAndMetadata, TopicPartition
from pykafka4.wire.protocol.messages_admin import (
    ConsumerGroupDescribeResponse,
    DeleteGroupsResponse,
    ListGroupsResponse,
    OffsetDeleteResponse,
)
from pykafka4.wire.protocol.messages_fetch import ListOffsetsRequest
from pykafka4.wire.protocol.messages_group import DescribeGroupsResponse, OffsetFetchRequest, OffsetFetchResponse
from pykafka4.wire.protocol.messages_share import ShareGroupDescribeResponse
from tests.core.scripted_admin import Harness, coordinators, groups, make, offsets_of

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SECONDS = 5.0
ILL = "h3"
Answer = Callable[[Any, str], Any]


def unless_ill(answer: Answer) -> Answer:
    """Broker 3 says nothing."""
    return lambda message, host: None if host == ILL else answer(message, host)


def call(harness: Harness, begin: calls.Begin) -> list[dict[Any, Any]]:
    outcomes: list[dict[Any, Any]] = []
    begin(harness.machine, harness.world.now, SECONDS, outcomes.append)
    return outcomes


def known(message: Any, host: str) -> DescribeGroupsResponse:
    """All groups but those of the other protocol, `m…`, which a broker before 4.0 calls dead; `o…` has a member."""
    kind = DescribeGroupsResponse.Group
    member = kind.Member(member_id="x", client_id="me")
    rows = [
        kind(
            group_id=name,
            group_state="Dead" if name.startswith("m") else "Empty",
            protocol_type="consumer",
            members=[member] if name.startswith("o") else [],
        )
        for name in message.groups
    ]
    return DescribeGroupsResponse(groups=rows)


def fetched(message: Any, host: str) -> OffsetFetchResponse:
    """Offset 4 of t-0, and of t-1 for `b…`; that of `u…` is in an open transaction."""
    kind = OffsetFetchResponse.Group
    rows = []
    for group in message.groups:
        error = BY_NAME["UNSTABLE_OFFSET_COMMIT"].code if message.require_stable and group.group_id.startswith("u") else 0
        numbers = (0, 1) if group.group_id.startswith("b") else (0,)
        parts = [kind.Topic.Partition(partition_index=n, committed_offset=4, metadata="", error_code=error) for n in numbers]
        rows.append(kind(group_id=group.group_id, topics=[kind.Topic(name="t", partitions=parts)]))
    return OffsetFetchResponse(groups=rows)


@pytest.fixture
def harness() -> Harness:
    found = make()
    found.script.update(
        FindCoordinator=coordinators(ill=3), DescribeGroups=unless_ill(known), OffsetFetch=unless_ill(fetched), ListOffsets=offsets_of
    )
    return found


def outcome(harness: Harness, begin: calls.Begin) -> dict[Any, Any]:
    """The outcome of a call about groups of which `ill` has a coordinator that says nothing."""
    outcomes = call(harness, begin)
    harness.run(SECONDS - 0.1)
    assert outcomes == []  # it waits for one group
    harness.run(0.2)
    (found,) = outcomes
    assert not harness.machine._runs
    assert not harness.world.engine.cluster.wants("t")
    return found


def test_lags_of_groups_whose_coordinator_answers_are_found(harness: Harness) -> None:
    found = outcome(harness, calls.lags(["a", "ill", "b1", "b2", "u"]))
    assert list(found) == ["a", "ill", "b1", "b2", "u"]
    assert isinstance(found["ill"], KafkaTimeoutError)
    for name, ends in (("a", {T0: 10}), ("b1", {T0: 10, T1: 20}), ("b2", {T0: 10, T1: 20}), ("u", {T0: 10})):
        position = found[name]
        assert isinstance(position, GroupPosition)
        assert (position.description.group_id, position.ends, position.committed[T0]) == (name, ends, OffsetAndMetadata(4))
    asked = [tp for _, _, message in harness.of("ListOffsets") for t in message.topics for tp in t.partitions]
    assert len(asked) == 3  # each partition once, whatever the groups that have it; and once more for `u`, whose offsets come later
    assert {at for at, _, _ in harness.of("ListOffsets")} == {harness.of("DescribeGroups")[0][0]}  # at once


def test_the_metadata_of_a_topic_is_asked_for_once_in_a_call(harness: Harness) -> None:
    harness.script["FindCoordinator"] = coordinators(a=1, b=2)
    harness.script["DescribeGroups"] = lambda message, host: groups(b="COORDINATOR_LOAD_IN_PROGRESS")(message, host)
    outcomes = call(harness, calls.lags(["a", "b"]))
    harness.run(0.1)
    harness.script["DescribeGroups"] = known
    harness.run(SECONDS)
    assert [outcomes[0][name].ends for name in ("a", "b")] == [{T0: 10}, {T0: 10, T1: 20}]
    assert len(harness.of("ListOffsets")) == 3
    assert len([message for _, message in harness.world.asked if [topic.name for topic in message.topics or []] == ["t"]]) == 1
    assert not harness.machine._held


@pytest.mark.parametrize("in_flight", [False, True])
def test_an_end_is_asked_for_after_the_offsets_that_it_is_compared_with(harness: Harness, in_flight: bool) -> None:
    harness.script["FindCoordinator"] = coordinators(a=1, b=2, c=2)
    harness.script["OffsetFetch"] = lambda message, host: None if host == "h2" else fetched(message, host)
    if in_flight:
        harness.script["ListOffsets"] = lambda message, host: None
    outcomes = call(harness, calls.lags(["a", "b", "c"]))
    harness.run(0.1)
    (end,) = [held for held in harness.world.unanswered if isinstance(held[2], ListOffsetsRequest)] or [None]
    (late,) = [held for held in harness.world.unanswered if isinstance(held[2], OffsetFetchRequest)]
    kind = OffsetFetchResponse.Group
    part = kind.Topic.Partition(partition_index=0, committed_offset=110, metadata="")
    rows = [kind(group_id=name, topics=[kind.Topic(name="t", partitions=[part])]) for name in ("b", "c")]
    harness.world.answer(*late[:2], OffsetFetchResponse(groups=rows))  # meanwhile there are 110 records
    harness.script["ListOffsets"] = lambda message, host: offsets_of(message, "h11")
    harness.run(0.1)
    if end is not None:
        harness.world.answer(*end[:2], offsets_of(end[2], "h1"))
        harness.run(0.1)
    assert {name: found.ends for name, found in outcomes[0].items()} == {"a": {T0: 10}, "b": {T0: 110}, "c": {T0: 110}}
    assert len(harness.of("ListOffsets")) == 2


@pytest.mark.parametrize("silent", ["DescribeGroups", "ListOffsets"])
def test_topics_are_released_with_the_machine(harness: Harness, silent: str) -> None:
    harness.script[silent] = unless_ill(known) if silent == "DescribeGroups" else lambda message, host: None
    call(harness, calls.lags(["a", "ill"]))
    harness.run()
    assert harness.world.engine.cluster.wants("t")
    harness.world.engine.remove(harness.machine)
    harness.machine.dispose()
    assert not harness.world.engine.cluster.wants("t")


def test_an_end_that_nobody_tells_is_an_error_of_its_partition(harness: Harness) -> None:
    harness.script["ListOffsets"] = lambda message, host: None if host == "h2" else offsets_of(message, host)
    outcomes = call(harness, calls.lags(["a", "b"]))
    harness.run(SECONDS + 0.1)
    assert outcomes[0]["a"].ends == {T0: 10}
    ends = outcomes[0]["b"].ends
    assert (list(ends), ends[T0], type(ends[T1])) == ([T0, T1], 10, KafkaTimeoutError)


def test_groups_of_the_other_protocol_are_described_though_a_coordinator_is_silent(harness: Harness) -> None:
    kind = ConsumerGroupDescribeResponse.Group
    harness.script["ConsumerGroupDescribe"] = lambda message, host: ConsumerGroupDescribeResponse(
        groups=[kind(group_id=name, group_state="Stable") for name in message.group_ids]
    )
    found = outcome(harness, calls.described(["m", "ill", "a"]))
    assert [getattr(one, "state", type(one)) for one in found.values()] == ["Stable", KafkaTimeoutError, "Empty"]


def test_offsets_beside_an_open_transaction_are_fetched_though_a_coordinator_is_silent(harness: Harness) -> None:
    found = outcome(harness, calls.committed(["u", "ill", "b"], stable=False))
    assert found["u"] == {T0: OffsetAndMetadata(4)}
    assert found["b"] == {T0: OffsetAndMetadata(4), T1: OffsetAndMetadata(4)}
    assert isinstance(found["ill"], KafkaTimeoutError)


def test_members_of_a_group_that_is_not_deleted_are_named_though_a_coordinator_is_silent(harness: Harness) -> None:
    kind = DeleteGroupsResponse.Result
    occupied = BY_NAME["NON_EMPTY_GROUP"].code
    harness.script["DeleteGroups"] = unless_ill(
        lambda message, host: DeleteGroupsResponse(
            results=[kind(group_id=name, error_code=occupied if name.startswith("o") else 0) for name in message.groups_names]
        )
    )
    found = outcome(harness, calls.deleted(["o", "ill", "a"]))
    assert [type(one) for one in found.values()] == [GroupNotEmpty, KafkaTimeoutError, bool]
    assert "client me" in str(found["o"])


def test_states_that_are_not_listed_are_asked_for_though_a_broker_is_silent(harness: Harness) -> None:
    kind = ListGroupsResponse.Group

    def rows(message: Any, host: str) -> ListGroupsResponse:
        names = {"h1": ["a", "other"], "h2": ["b"]}[host]
        return ListGroupsResponse(groups=[kind(group_id=name, protocol_type="consumer") for name in names])

    harness.script["ListGroups"] = unless_ill(rows)
    found = outcome(harness, calls.listed(lambda group: group.group_id != "other"))
    assert {key for key in found if isinstance(key, int)} == {1, 2, 3}
    assert isinstance(found[3], KafkaTimeoutError)
    assert {key: found[key].state for key in found if isinstance(key, str)} == {"a": "Empty", "b": "Empty"}


def test_a_call_about_nothing_ends_at_once(harness: Harness) -> None:
    for begin in (calls.lags([]), calls.described([]), calls.committed([], stable=True), calls.deleted([])):
        assert call(harness, begin) == [{}]


def test_a_call_that_nobody_waits_for_ends(harness: Harness) -> None:
    harness.script["ListOffsets"] = lambda message, host: None
    outcomes: list[dict[Any, Any]] = []
    stop = calls.lags(["a", "ill"])(harness.machine, harness.world.now, SECONDS, outcomes.append)
    harness.run()
    assert harness.world.engine.cluster.wants("t")
    stop()
    assert not harness.machine._runs
    assert not harness.world.engine.cluster.wants("t")
    harness.run(SECONDS + 1.0)
    assert outcomes == []


def deletion(error: str) -> Answer:
    kind = DeleteGroupsResponse.Result
    return lambda message, host: DeleteGroupsResponse(
        results=[kind(group_id=name, error_code=BY_NAME[error].code) for name in message.groups_names]
    )


def test_a_group_that_is_gone_after_a_lost_response_was_deleted(harness: Harness) -> None:
    harness.script["DeleteGroups"] = lambda message, host: None
    outcomes = call(harness, calls.deleted(["a"]))
    harness.run()
    harness.script["DeleteGroups"] = deletion("GROUP_ID_NOT_FOUND")
    harness.world.lose(("h1", 1))  # the broker has deleted it
    harness.world.down.clear()
    harness.run(SECONDS - 1.0)
    assert outcomes == [{"a": True}]


def test_a_group_that_is_not_there_after_an_error_is_an_error(harness: Harness) -> None:
    harness.script["DeleteGroups"] = deletion("COORDINATOR_LOAD_IN_PROGRESS")
    outcomes = call(harness, calls.deleted(["a"]))
    harness.run(0.3)
    harness.script["DeleteGroups"] = deletion("GROUP_ID_NOT_FOUND")
    harness.run(SECONDS - 1.0)
    assert "GROUP_ID_NOT_FOUND" in str(outcomes[0]["a"])


@pytest.mark.parametrize("begin", [calls.described(["m"]), calls.described_with_shares(["m"])])
def test_protocols_that_are_turned_off_know_no_group(harness: Harness, begin: calls.Begin) -> None:
    """Kafka before 4.0 has the consumer protocol off by default, 4.1 has share groups off: both name an error for each group."""
    off = BY_NAME["UNSUPPORTED_VERSION"].code
    consumer, share = ConsumerGroupDescribeResponse, ShareGroupDescribeResponse
    harness.script["ConsumerGroupDescribe"] = lambda message, host: consumer(groups=[consumer.Group(group_id="m", error_code=off)])
    harness.script["ShareGroupDescribe"] = lambda message, host: share(groups=[share.Group(group_id="m", error_code=off)])
    outcomes = call(harness, begin)
    harness.run(SECONDS - 1.0)
    assert "GROUP_ID_NOT_FOUND" in str(outcomes[0]["m"])


def test_offsets_that_are_gone_after_a_lost_response_were_deleted(harness: Harness) -> None:
    harness.script["OffsetDelete"] = lambda message, host: None
    outcomes = harness.ask(DeleteOffsets("a"), GroupCoordinatorChoice(harness.machine.coordinators, "a"), [T0, T1])
    harness.run()
    harness.script["OffsetDelete"] = lambda message, host: OffsetDeleteResponse(error_code=BY_NAME["GROUP_ID_NOT_FOUND"].code)
    harness.world.lose(("h1", 1))
    harness.world.down.clear()
    harness.run(SECONDS - 1.0)
    assert outcomes == [{T0: True, T1: True}]
