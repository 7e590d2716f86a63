"""`Client.request` on model brokers: which broker gets a message, and what is repeated."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4 import (
    ANY,
    CONTROLLER,
    Client,
    ConfigError,
    ConnectionLost,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    UnsupportedVersion,
    coordinator,
    leader,
    messages,
)
from pykafka4.core.admin.requests import READERS
from pykafka4.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SaslHandshakeRequest,
)
from pykafka4.testing import ModelServer
from pykafka4.wire.protocol.schema import REQUESTS
from tests.client.lowlevel import T0
from tests.consumer.consuming import LONG, topic
from tests.net.net_helpers import until

SHORT = 2.0


def offsets(*partitions: int) -> ListOffsetsRequest:
    kind = ListOffsetsRequest.Topic
    rows = [kind.Partition(partition_index=number, timestamp=-1) for number in partitions]
    return ListOffsetsRequest(replica_id=-1, topics=[kind(name="t", partitions=rows)])


def deletion(partition: int, offset: int) -> DeleteRecordsRequest:
    kind = DeleteRecordsRequest.Topic
    rows = [kind.Partition(partition_index=partition, offset=offset)]
    return DeleteRecordsRequest(topics=[kind(name="t", partitions=rows)], timeout_ms=1_000)


def commit(offset: int) -> OffsetCommitRequest:
    kind = OffsetCommitRequest.Topic
    rows = [kind.Partition(partition_index=0, committed_offset=offset, committed_metadata="")]
    return OffsetCommitRequest(group_id="g", topics=[kind(name="t", partitions=rows)])


def test_any_broker_and_the_controller_and_a_number(client: Client) -> None:
    assert len(client.request(ANY, MetadataRequest(topics=[])).brokers) == 3
    assert client.request(CONTROLLER, DescribeClusterRequest()).controller_id == 1
    found = client.request(2, ApiVersionsRequest(client_software_name="x", client_software_version="1"))
    assert found.error_code == 0


def test_the_version_is_negotiated_and_may_be_limited(server: ModelServer, client: Client) -> None:
    seen = []
    server.do(lambda cluster: cluster.control("Metadata", lambda call: seen.append(call.version), keep=True))
    client.request(ANY, MetadataRequest(topics=[]), max_version=5)
    assert 5 in seen


def test_a_leader_that_moved_is_followed_by_a_reader(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    assert client.request(leader(T0), offsets(0)).topics[0].partitions[0].offset == 3
    server.do(lambda cluster: cluster.move_leader("t", 0))
    assert client.request(leader(("t", 0)), offsets(0)).topics[0].partitions[0].offset == 3


def test_a_coordinator_that_moved_is_followed_by_a_reader(server: ModelServer, client: Client) -> None:
    message = OffsetFetchRequest(topics=[], groups=[OffsetFetchRequest.Group(group_id="g", topics=None)])
    assert client.request(coordinator("g"), message, max_version=9).groups[0].error_code == 0
    server.do(lambda cluster: cluster.move_coordinator("g"))
    assert client.request(coordinator("g"), message, max_version=9).groups[0].error_code == 0


def test_the_response_of_a_numbered_broker_is_returned_though_another_one_leads_or_coordinates(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    leading = client.request(ANY, MetadataRequest(topics=[MetadataRequest.Topic(name="t")])).topics[0].partitions[0].leader_id
    refused = client.request(1 + leading % 3, offsets(0), SHORT).topics[0].partitions[0]
    assert refused.error_code == 6  # NOT_LEADER_OR_FOLLOWER
    coordinating = client.find_coordinator("g").node
    assert client.request(1 + coordinating % 3, DescribeGroupsRequest(groups=["g"]), SHORT).groups[0].error_code == 16  # NOT_COORDINATOR


def test_a_change_is_not_repeated_at_the_new_leader_which_later_ones_find(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    with Producer(client) as producer:  # which keeps the metadata of the topic
        producer.send("t", b"x", partition=0).result(LONG)
        _check_change(server, client)


def _check_change(server: ModelServer, client: Client) -> None:
    server.do(lambda cluster: cluster.move_leader("t", 0))
    refused = client.request(leader(T0), deletion(0, 1)).topics[0].partitions[0]
    assert refused.error_code == 6  # NOT_LEADER_OR_FOLLOWER
    until(lambda: client.request(leader(T0), deletion(0, 1)).topics[0].partitions[0].error_code == 0)


def test_a_response_that_refuses_a_part_is_returned(server: ModelServer, client: Client) -> None:
    topic(server, 3, 3, 3)
    rows = client.request(leader(T0), offsets(0, 1, 2)).topics[0].partitions
    assert {row.error_code for row in rows} == {0, 6}


def test_a_reader_is_repeated_after_a_lost_connection_and_a_change_is_not(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    server.disconnect("ListOffsets")
    assert client.request(leader(T0), offsets(0)).topics[0].partitions[0].offset == 3
    server.disconnect("OffsetCommit", after=True)
    with pytest.raises(ConnectionLost) as caught:
        client.request(coordinator("g"), commit(2), max_version=9)
    assert "it may have been carried out" in caught.value.__notes__[0]
    assert server.committed("g") == {T0: 2}
    server.assert_all_met()


def test_a_fetch_of_a_session_is_not_repeated(server: ModelServer, client: Client) -> None:
    """It moves the session on: a broker refuses the same epoch the second time."""
    topic(server, 1)
    kind = FetchRequest.Topic
    rows = [kind.Partition(partition=0, fetch_offset=0, partition_max_bytes=1_000)]
    message = FetchRequest(session_id=0, session_epoch=0, topics=[kind(topic="t", partitions=rows)])
    server.disconnect("Fetch")
    with pytest.raises(ConnectionLost):
        client.request(leader(T0), message, max_version=12)


def test_a_change_that_is_late_says_that_it_was_sent(server: ModelServer, client: Client) -> None:
    topic(server, 3)
    client.find_coordinator("g")
    server.delay("OffsetCommit", 1.0)
    with pytest.raises(KafkaTimeoutError, match=r"OffsetCommitRequest to the coordinator of group g: .* no answer within 0.3 s") as caught:
        client.request(coordinator("g"), commit(2), 0.3, max_version=9)
    assert "it may have been carried out" in caught.value.__notes__[0]


def test_a_produce_without_acknowledgement_has_no_response(server: ModelServer, client: Client) -> None:
    topic(server, 0)
    message = ProduceRequest(transactional_id=None, acks=0, timeout_ms=1_000, topic_data=[])
    assert client.request(leader(T0), message, max_version=9) is None


def test_topics_can_be_created(server: ModelServer, client: Client) -> None:
    kind = CreateTopicsRequest.Topic
    message = CreateTopicsRequest(topics=[kind(name="new", num_partitions=2, replication_factor=-1, assignments=[], configs=[])])
    assert [topic.error_code for topic in client.request(CONTROLLER, message).topics] == [0]
    assert client.partitions_for("new") == [0, 1]


def test_a_broker_that_is_not_there_is_named(client: Client) -> None:
    with pytest.raises(KafkaError, match=r"the cluster has no broker 9; its brokers are 1, 2, 3"):
        client.request(9, MetadataRequest(topics=[]))


@pytest.mark.model(release="2.8")
def test_a_request_that_the_broker_lacks_is_refused(client: Client) -> None:
    with pytest.raises(UnsupportedVersion, match=r"DescribeCluster"):
        client.request(ANY, DescribeClusterRequest())


@pytest.mark.parametrize(
    ("target", "message", "options", "text"),
    [
        ("g", MetadataRequest(topics=[]), {}, r"the target must be the number of a broker, ANY, .*, not 'g'"),
        (-1, MetadataRequest(topics=[]), {}, r"the target -1 is not the number of a broker; pass ANY"),
        (ANY, "Metadata", {}, r"the message must be a request of pykafka4\.messages, .*, not 'Metadata'"),
        (ANY, MetadataRequest(topics=5), {}, r"MetadataRequest\.topics is 5: must be a list"),  # type: ignore[arg-type]
        (ANY, SaslHandshakeRequest(mechanism="PLAIN"), {}, r"only the client authenticates its connections"),
        (ANY, MetadataRequest(topics=[]), {"max_version": 99}, r"max_version must be from 0 to 13"),
        (ANY, ListOffsetsRequest(replica_id=-1, topics=[]), {"max_version": 0}, r"the lowest version of ListOffsetsRequest here is 1"),
    ],
)
def test_a_wrong_argument_is_named(client: Client, target: Any, message: Any, options: Any, text: str) -> None:
    with pytest.raises((ConfigError, TypeError), match=text):
        client.request(target, message, **options)


def test_every_message_is_public_and_every_reader_is_one() -> None:
    declared = [cls for cls in REQUESTS.values() if cls.__module__.startswith("pykafka4.")]  # tests declare more
    requests = {cls.__name__ for cls in declared}
    assert set(messages.__all__) == requests | {cls.response.__name__ for cls in declared}
    assert {f"{name}Request" for name in READERS} <= requests
