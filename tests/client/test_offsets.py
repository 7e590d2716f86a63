"""Offsets by name and time, and offsets of groups, through the stateless calls of a client."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from pykafka4 import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    AuthorizationError,
    Client,
    CommittedOffset,
    ConfigError,
    ConsumerGroupMetadata,
    GroupNotEmpty,
    OffsetAndMetadata,
    Producer,
    UnsupportedVersion,
)
from pykafka4.errors.codes import BY_NAME
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.messages_group import OffsetFetchResponse
from tests.admin.administering import joined
from tests.client.lowlevel import T0, T1, T2, code_of
from tests.consumer.consuming import Maker, topic


def test_offsets_by_name(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3, 3)
    server.do(lambda cluster: cluster.delete_records("t", 0, 1))
    found = client.list_offsets({T0: EARLIEST, ("t", 1): LATEST, T2: MAX_TIMESTAMP})
    assert [(one.offset, one.timestamp_ms, one.error) for one in found.values()] == [(1, None, None), (3, None, None), (2, 1_002, None)]
    assert found[T2].leader_epoch is not None
    found = client.list_offsets({T0: EARLIEST_LOCAL, T1: LATEST_TIERED})
    assert [one.offset for one in found.values()] == [1, None]


def test_offsets_by_time(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3, 3)
    found = client.list_offsets({T0: 1_001, T1: datetime.fromtimestamp(1.002, UTC), T2: 1_003})
    assert [(one.offset, one.timestamp_ms) for one in found.values()] == [(1, 1_001), (2, 1_002), (None, None)]


def test_an_empty_log_has_no_highest_timestamp(server: ModelServer, client: Client) -> None:
    topic(server, 0)
    found = client.list_offsets({T0: MAX_TIMESTAMP})[T0]
    assert (found.offset, found.error) == (None, None)


def test_read_committed_ends_at_an_open_transaction(server: ModelServer, client: Client) -> None:
    topic(server, 2)
    with Producer(client, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"open", partition=0).result(10)
        assert client.list_offsets({T0: LATEST})[T0].offset == 3
        assert client.list_offsets({T0: LATEST}, isolation_level="read_committed")[T0].offset == 2
        producer.abort_transaction()


def test_a_bad_partition_does_not_hide_the_others(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    server.create_topic("secret", 1)
    server.do(lambda cluster: cluster.deny("topic", "secret", "DESCRIBE"))
    good, secret, none = client.list_offsets({T0: LATEST, ("secret", 0): LATEST, ("none", 0): LATEST}).values()
    assert good.offset == 3
    assert isinstance(secret.error, AuthorizationError)
    assert code_of(none.error) == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.model(release="2.8")
def test_a_name_that_the_leader_is_too_old_for_is_refused_alone(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3, 3)
    server.do(lambda cluster: [cluster.move_leader("t", n, 1) for n in range(3)])
    found = client.list_offsets({T0: LATEST, T1: MAX_TIMESTAMP, T2: LATEST_TIERED})
    assert (found[T0].offset, found[T0].error) == (3, None)
    for tp, text in ((T1, "MAX_TIMESTAMP needs ListOffsets v7, of Kafka 3.0"), (T2, "LATEST_TIERED needs ListOffsets v9, of Kafka 3.9")):
        assert isinstance(found[tp].error, UnsupportedVersion)
        assert f"{text}; the leader of {tp} has v6" in str(found[tp].error)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({T0: "earliest"}, r"the time of t-0: takes EARLIEST, LATEST or another OffsetSpec, .*, not 'earliest'"),
        ({T0: -5}, r"the time of t-0, in milliseconds, must be from 0"),
        ({T0: datetime(2026, 1, 1)}, r"has no time zone"),
        ([T0], r"list_offsets takes a mapping"),
    ],
)
def test_a_wrong_time_is_named(client: Client, wrong: Any, message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        client.list_offsets(wrong)


# ---- groups


def test_the_coordinator_of_a_group_has_its_address(server: ModelServer, client: Client) -> None:
    found = client.find_coordinator("g")
    assert found.group_id == "g"
    assert f"{found.host}:{found.port}" == server.bootstrap_servers.split(",")[found.node - 1]


def test_a_group_that_is_denied_is_raised(server: ModelServer, client: Client) -> None:
    server.do(lambda cluster: cluster.deny("group", "g", "DESCRIBE"))
    for call in (client.find_coordinator, client.committed_offsets):
        with pytest.raises(AuthorizationError, match=r"group 'g'|Group:g|group g"):
            call("g")


def test_offsets_of_a_group_without_members(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3)
    stored = client.commit_offsets("g", {T0: 1, ("t", 1): OffsetAndMetadata(2, 0, "why")})
    assert [one.error for one in stored.values()] == [None, None]
    assert client.committed_offsets("g") == {
        T0: CommittedOffset(T0, OffsetAndMetadata(1)),
        T1: CommittedOffset(T1, OffsetAndMetadata(2, 0, "why")),
    }
    found = client.committed_offsets("g", [T1, T2])
    assert [(one.offset, one.error) for one in found.values()] == [(2, None), (None, None)]
    assert client.committed_offsets("other") == {}


@pytest.mark.model(release="2.8")
def test_committed_offsets_do_not_wait_for_an_open_transaction(server: ModelServer, client: Client) -> None:
    kind = OffsetFetchResponse.Topic

    def unstable(call: Any) -> OffsetFetchResponse | None:
        if not call.message.require_stable:
            return None
        error = BY_NAME["UNSTABLE_OFFSET_COMMIT"].code
        row = kind.Partition(partition_index=0, committed_offset=-1, metadata="", error_code=error)
        return OffsetFetchResponse(topics=[kind(name="t", partitions=[row])])

    topic(server, 3)
    client.commit_offsets("g", {T0: 1})
    server.do(lambda cluster: cluster.control("OffsetFetch", unstable, keep=True))
    for partitions in (None, [T0]):
        assert client.committed_offsets("g", partitions, 5)[T0].committed == OffsetAndMetadata(1)


def test_require_stable_waits_for_an_open_transaction(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    client.commit_offsets("g", {T0: 1})
    with Producer(client, transactional_id="tx") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send_offsets_to_transaction({T0: OffsetAndMetadata(3)}, ConsumerGroupMetadata("g"))
        waiting = [client.futures.committed_offsets("g", partitions, 30, require_stable=True) for partitions in (None, [T0])]
        assert client.committed_offsets("g", [T0])[T0].offset == 1
        assert not any(one.done() for one in waiting)
        producer.commit_transaction()
    assert [one.result(30)[T0].offset for one in waiting] == [3, 3]


@pytest.mark.model(release="2.4")
def test_a_coordinator_that_does_not_know_require_stable_is_asked_without_it(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    client.commit_offsets("g", {T0: 1})
    for partitions in (None, [T0]):
        assert client.committed_offsets("g", partitions, 5, require_stable=True)[T0].offset == 1


def test_committed_offsets_of_partitions_with_an_old_coordinator(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3)
    client.commit_offsets("g", {T0: 1})
    assert [one.offset for one in client.committed_offsets("g", [T0, T1]).values()] == [1, None]


def test_a_coordinator_that_moved_is_found_again(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    client.commit_offsets("g", {T0: 1})
    server.do(lambda cluster: cluster.move_coordinator("g"))
    assert client.commit_offsets("g", {T0: 2})[T0].error is None
    assert client.committed_offsets("g", [T0])[T0].offset == 2


def test_members_keep_their_offsets(server: ModelServer, client: Client, make: Maker) -> None:
    topic(server, 3)
    joined(make)
    found = client.commit_offsets("g", {T0: 1})[T0]
    assert isinstance(found.error, GroupNotEmpty)
    assert len(found.error.members) == 1
    assert "offsets of group g cannot be committed" in str(found.error)


def test_a_topic_that_is_denied_does_not_hide_the_others(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    server.create_topic("secret", 1)
    server.do(lambda cluster: cluster.deny("topic", "secret", "READ"))
    stored = client.commit_offsets("g", {T0: 1, ("secret", 0): 1})
    assert stored[T0].error is None
    assert isinstance(stored["secret", 0].error, AuthorizationError)  # type: ignore[index]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda client: client.commit_offsets("", {}), r"a group id must not be empty"),
        (lambda client: client.commit_offsets(5, {}), r"a group id must be a str, not 5"),
        (lambda client: client.commit_offsets("g", [T0]), r"offsets must map partitions to offsets"),
        (lambda client: client.committed_offsets("g", "t"), r"partitions='t': takes a list of \(topic, partition\) pairs"),
        (lambda client: client.committed_offsets("g", T0), r"takes a list of \(topic, partition\) pairs"),
    ],
)
def test_a_wrong_argument_about_a_group_is_named(client: Client, call: Any, message: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=message):
        call(client)
