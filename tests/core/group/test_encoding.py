"""Subscriptions and assignments as bytes."""

from __future__ import annotations

import pytest

from pykafka4.assignors import GroupMember
from pykafka4.core.group.encoding import assigned_partitions, assignment_bytes, group_member, group_members, subscription_bytes
from pykafka4.records import TopicPartition
from pykafka4.wire.protocol.messages_group import ConsumerProtocolSubscription, JoinGroupResponse
from pykafka4.wire.protocol.schema import decode_data, encode_data

OWNED = (TopicPartition("a", 3), TopicPartition("b", 0), TopicPartition("a", 1))


def test_subscription_and_assignment_survive_their_bytes() -> None:
    sent = subscription_bytes(["b", "a"], OWNED, 7, "east", b"data")
    sorted_owned = (TopicPartition("a", 1), TopicPartition("a", 3), TopicPartition("b", 0))
    assert group_member("m", "i", sent, "c: group g") == GroupMember("m", frozenset("ab"), "i", sorted_owned, 7, "east", b"data")
    tps = [TopicPartition("a", 1), TopicPartition("b", 0), TopicPartition("a", 3)]
    assert sorted(assigned_partitions(assignment_bytes(tps))) == sorted(tps)
    assert assigned_partitions(b"") == []


def test_topics_and_owned_partitions_are_sent_in_order_and_in_the_newest_version() -> None:
    sent = subscription_bytes(["b", "a"], OWNED)
    assert sent[:2] == b"\0\x03"
    read = decode_data(ConsumerProtocolSubscription, sent)
    assert read.topics == ["a", "b"]
    assert [(t.topic, t.partitions) for t in read.owned_partitions] == [("a", [1, 3]), ("b", [0])]


def test_what_a_version_of_a_subscription_lacks_is_unknown() -> None:
    whole = ConsumerProtocolSubscription(
        topics=["t"],
        user_data=b"u",
        owned_partitions=[ConsumerProtocolSubscription.Topic(topic="t", partitions=[2])],
        generation_id=5,
        rack_id="r",
    )
    read = [group_member("m", None, encode_data(whole, version), "c: group g") for version in range(4)]
    assert [member.owned for member in read] == [(), (TopicPartition("t", 2),), (TopicPartition("t", 2),), (TopicPartition("t", 2),)]
    assert [member.generation for member in read] == [-1, -1, 5, 5]
    assert [member.rack for member in read] == [None, None, None, "r"]
    assert {member.user_data for member in read} == {b"u"}


def test_an_empty_rack_and_a_negative_generation_are_unknown() -> None:
    whole = ConsumerProtocolSubscription(topics=["t"], generation_id=-7, rack_id="")
    member = group_member("m", None, encode_data(whole, 3), "c: group g")
    assert (member.generation, member.rack) == (-1, None)


def test_members_with_the_same_topics_are_read_as_if_each_were_the_only_one() -> None:
    whole = [
        subscription_bytes(["a", "b"], OWNED, 7, "east", b"data"),
        subscription_bytes(["a", "b"], OWNED[:1], 8),
        subscription_bytes(["a", "b"])[:-3],
        subscription_bytes(["a", "c"], OWNED),
        subscription_bytes(["a"]),
        b"\0",
        subscription_bytes([], OWNED),
        subscription_bytes(["a"]),
    ]
    rows = [JoinGroupResponse.Member(member_id=f"m{n}", metadata=data) for n, data in enumerate(whole)]
    alone = [group_member(row.member_id, None, row.metadata, "") for row in rows]
    assert alone[2].topics == frozenset()
    assert list(group_members(rows, "")) == alone


@pytest.mark.parametrize("version", range(4))
def test_a_subscription_that_ends_as_version_0_is_read_if_it_names_1(version: int) -> None:
    """kafka-go sends these."""
    fields = encode_data(ConsumerProtocolSubscription(topics=["t"], user_data=b"u"), 0)[2:]
    sent = version.to_bytes(2, "big") + fields
    read = GroupMember("m", frozenset(["t"]), user_data=b"u") if version < 2 else GroupMember("m", frozenset())
    assert group_member("m", None, sent, "c") == read
    rows = [JoinGroupResponse.Member(member_id="m", metadata=sent)] * 2
    assert group_members(rows, "c") == (read, read)


def test_a_member_whose_subscription_cannot_be_read_gets_nothing() -> None:
    assert group_member("m", None, b"\x00", "c: group g").topics == frozenset()


def test_a_member_id_cannot_forge_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    group_member("id\x1b[2J\nforged", None, b"no subscription", "c: group g")
    group_member("id\x1b[2J\nforged", None, subscription_bytes(["a\nb"]), "c: group g")
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == 2
    assert all(line.isprintable() for line in logged)
