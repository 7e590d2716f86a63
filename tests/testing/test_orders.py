"""Faults ordered by name: refused when they could never happen, met by the request they fit, reported when nothing asked for them."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

import pytest

from pykafka4.errors.codes import BY_NAME
from pykafka4.testing import ModelServer
from pykafka4.testing.faults.controls import Fault
from pykafka4.testing.faults.names import KEYS
from pykafka4.testing.requests.session import REACTIONS
from pykafka4.testing.server.orders import PLACES
from pykafka4.wire.protocol.frame import decode_response, encode_request
from pykafka4.wire.protocol.messages_admin import (
    ConsumerGroupDescribeRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
)
from pykafka4.wire.protocol.messages_cluster import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from pykafka4.wire.protocol.messages_fetch import FetchRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest
from pykafka4.wire.protocol.messages_group import (
    ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from pykafka4.wire.protocol.messages_produce import ProduceRequest
from pykafka4.wire.protocol.messages_share import ShareAcknowledgeRequest, ShareFetchRequest, ShareGroupHeartbeatRequest
from pykafka4.wire.protocol.messages_txn import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)
from pykafka4.wire.protocol.schema import Request
from tests.net.net_helpers import exactly

LIMIT_S = 10.0  # seconds; every wait in here ends

pytestmark = pytest.mark.model(brokers=1, topics={"t": 2})


def ask(server: ModelServer, message: Request[Any], version: int) -> Any:
    """The broker's answer; EOFError when it closes the connection instead."""
    host, _, port = server.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), LIMIT_S) as sock:
        sock.sendall(b"".join(bytes(part) for part in encode_request(message, version, 1, "t")))
        (size,) = struct.unpack(">i", exactly(sock, 4))
        return decode_response(type(message), version, exactly(sock, size))[1]


METADATA = MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=False)


# ---- refused when ordered


WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("fail", ("Prodce", "NOT_LEADER_OR_FOLLOWER"), {}, "did you mean 'Produce'"),
    ("fail", ("ProduceRequest", "NOT_LEADER_OR_FOLLOWER"), {}, "did you mean 'Produce'"),
    ("fail", (4711, "NOT_LEADER_OR_FOLLOWER"), {}, "4711 is not an API"),
    ("fail", ("Produce", "NOT_LEADER_FOR_PARTITION"), {}, "is not the name of a Kafka error; did you mean 'NOT_LEADER_OR_FOLLOWER'"),
    ("fail", ("Produce", "RequestTimedOut"), {}, "did you mean 'REQUEST_TIMED_OUT'"),
    ("fail", ("Produce", "NONE"), {}, "'NONE' is not the name of a Kafka error"),
    ("fail", ("Produce", 6), {}, "6 is not the name of a Kafka error"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"times": 0}, "times=0"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"times": True}, "times=True"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"partition": 1}, "without a topic"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"topic": "t", "partition": 2}, "partition=2 must be less than 2"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"topic": "t", "partition": -1}, "partition=-1"),
    ("fail", ("Produce", "REQUEST_TIMED_OUT"), {"topic": 5}, r"topic must be a str, not int \(5\)"),
    ("fail", ("Fetch", "REQUEST_TIMED_OUT"), {"after": True}, "after=True"),
    ("fail", ("Heartbeat", "UNKNOWN_MEMBER_ID"), {"topic": "t"}, "errors of Heartbeat cannot be ordered for single topics"),
    (
        "fail",
        ("Metadata", "UNKNOWN_TOPIC_ID"),
        {"topic": "t", "partition": 0},
        "errors of Metadata cannot be ordered for single partitions",
    ),
    ("fail", ("DescribeCluster", "UNKNOWN_SERVER_ERROR"), {}, "fail does not support DescribeCluster"),
    ("delay", ("Fech", 1.0), {}, "did you mean 'Fetch'"),
    ("delay", ("Fetch", 0), {}, "seconds=0"),
    ("delay", ("Fetch", float("nan")), {}, "seconds=nan"),
    ("delay", ("Fetch", 1.0), {"broker": 7}, "broker=7: the brokers are 1"),
    ("disconnect", ("Fetch",), {"times": -1}, "times=-1"),
]


@pytest.mark.parametrize(("method", "arguments", "names", "told"), WRONG, ids=str)
def test_an_order_that_could_never_be_met_is_refused_at_once(
    server: ModelServer, method: str, arguments: tuple[Any, ...], names: dict[str, Any], told: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=told):
        getattr(server, method)(*arguments, **names)
    assert server.unmet() == []
    assert ask(server, METADATA, 12).topics[0].error_code == 0, "the server goes on"


def test_an_api_that_the_release_lacks_is_refused() -> None:
    with (
        ModelServer(brokers=1, release="2.8") as server,
        pytest.raises(ValueError, match=r"the model of Kafka 2\.8 has no DescribeCluster"),
    ):
        server.disconnect("DescribeCluster")


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"2\.8, 3\.7"):
        ModelServer(release="2.9")


def test_the_cluster_itself_refuses_a_misspelt_name(server: ModelServer) -> None:
    with pytest.raises(ValueError, match="did you mean 'REQUEST_TIMED_OUT'"):
        server.do(lambda cluster: cluster.push_error(ProduceRequest, "REQUEST_TIMEDOUT"))


# ---- met


def join(**fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
        **fields,
    )


def requests() -> dict[str, tuple[Request[Any], int]]:
    """A request of each API that takes ordered errors, about partition 0 of t or group g."""
    produce = ProduceRequest.Topic(name="t", partition_data=[ProduceRequest.Topic.Partition(index=0, records=b"")])
    fetch = FetchRequest.Topic(topic="t", partitions=[FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=100)])
    offsets = ListOffsetsRequest.Topic(name="t", partitions=[ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)])
    epochs = OffsetForLeaderEpochRequest.Topic(
        topic="t", partitions=[OffsetForLeaderEpochRequest.Topic.Partition(partition=0, current_leader_epoch=-1, leader_epoch=0)]
    )
    commit = OffsetCommitRequest.Topic(
        name="t", partitions=[OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=0, committed_metadata="")]
    )
    protocols = [JoinGroupRequest.Protocol(name="range", metadata=b"")]
    member = {"group_id": "g", "member_id": ""}
    join = JoinGroupRequest(session_timeout_ms=6000, rebalance_timeout_ms=6000, protocol_type="consumer", protocols=protocols, **member)
    cut = DeleteRecordsRequest.Topic(name="t", partitions=[DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=0)])
    made = CreateTopicsRequest.Topic(name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    more = CreatePartitionsRequest.Topic(name="t", count=9, assignments=None)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=[AddPartitionsToTxnRequest.Topic(name="t", partitions=[0])],
    )
    part = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=0, committed_metadata="")
    pending = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=1,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequest.Topic(name="t", partitions=[part])],
    )
    sharer = {"group_id": "g", "member_id": "m"}
    taking = ShareFetchRequest(
        share_session_epoch=0, max_wait_ms=0, min_bytes=0, max_records=1, batch_size=1, topics=[], forgotten_topics_data=[], **sharer
    )
    return {
        "ShareGroupHeartbeat": (ShareGroupHeartbeatRequest(member_epoch=0, subscribed_topic_names=["t"], **sharer), 1),
        "ShareFetch": (taking, 1),
        "ShareAcknowledge": (ShareAcknowledgeRequest(share_session_epoch=1, topics=[], **sharer), 1),
        "Produce": (ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[produce]), 9),
        "Fetch": (FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=100, topics=[fetch]), 11),
        "ListOffsets": (ListOffsetsRequest(topics=[offsets]), 5),
        "OffsetForLeaderEpoch": (OffsetForLeaderEpochRequest(topics=[epochs]), 3),
        "Metadata": (METADATA, 12),
        "CreateTopics": (CreateTopicsRequest(topics=[made], timeout_ms=1000, validate_only=False), 5),
        "CreatePartitions": (CreatePartitionsRequest(topics=[more], timeout_ms=1000, validate_only=False), 1),
        "DeleteRecords": (DeleteRecordsRequest(topics=[cut], timeout_ms=1000), 2),
        "DeleteTopics": (DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5),
        "ApiVersions": (ApiVersionsRequest(), 3),
        "FindCoordinator": (FindCoordinatorRequest(key="g", key_type=0), 3),
        "InitProducerId": (InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4),
        "JoinGroup": (join, 5),
        "SyncGroup": (SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=[]), 3),
        "Heartbeat": (HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4),
        "LeaveGroup": (LeaveGroupRequest(group_id="g", member_id="m"), 2),
        "OffsetCommit": (OffsetCommitRequest(group_id="g", topics=[commit]), 8),
        "OffsetFetch": (OffsetFetchRequest(group_id="g", topics=None), 7),
        "AddPartitionsToTxn": (added, 3),
        "AddOffsetsToTxn": (AddOffsetsToTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, group_id="g"), 3),
        "EndTxn": (EndTxnRequest(transactional_id="x", producer_id=1, producer_epoch=0, committed=True), 3),
        "TxnOffsetCommit": (pending, 3),
        "ConsumerGroupHeartbeat": (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), 1),
        "DescribeGroups": (DescribeGroupsRequest(groups=["g"]), 5),
        "DeleteGroups": (DeleteGroupsRequest(groups_names=["g"]), 2),
        "ListGroups": (ListGroupsRequest(), 4),
        "DescribeLogDirs": (DescribeLogDirsRequest(topics=[]), 4),
        "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(group_ids=["g"]), 1),
        "OffsetDelete": (OffsetDeleteRequest(group_id="g", topics=[]), 0),
    }


def codes(answer: Any) -> set[int]:
    """Every error code anywhere in an answer."""
    if isinstance(answer, list):
        return set().union(*map(codes, answer)) if answer else set()
    fields = getattr(answer, "__attrs_attrs__", ())
    found = {getattr(answer, name) for name in ("error_code", "partition_error_code") if hasattr(answer, name)}
    return found.union(*(codes(getattr(answer, field.name)) for field in fields))


@pytest.mark.parametrize("api", sorted(PLACES))
def test_an_error_ordered_for_any_api_is_in_its_next_answer_and_not_in_the_one_after(server: ModelServer, api: str) -> None:
    ordered = "CLUSTER_AUTHORIZATION_FAILED"
    message, version = requests()[api]
    server.fail(api, ordered)
    assert server.unmet() == [f"fail({api!r}, {ordered!r}) (ordered: 1, happened: 0)"]
    assert BY_NAME[ordered].code in codes(ask(server, message, version))
    server.assert_all_met()
    assert BY_NAME[ordered].code not in codes(ask(server, message, version))


def test_every_api_that_the_model_answers_takes_delays_and_disconnects(server: ModelServer) -> None:
    for api in server.do(lambda cluster: [name for name, key in KEYS.items() if key in cluster.versions]):
        server.delay(api, 0.01)
        server.disconnect(api)


def test_an_error_for_one_partition_leaves_the_others_alone(server: ModelServer) -> None:
    server.fail("ListOffsets", "NOT_LEADER_OR_FOLLOWER", topic="t", partition=1, times=2)
    both = [ListOffsetsRequest.Topic.Partition(partition_index=n, timestamp=-1) for n in (0, 1)]
    message = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="t", partitions=both)])
    refused = BY_NAME["NOT_LEADER_OR_FOLLOWER"].code
    seen = [[part.error_code for part in ask(server, message, 5).topics[0].partitions] for _ in range(3)]
    assert seen == [[0, refused], [0, refused], [0, 0]]


@pytest.mark.parametrize(("after", "there"), [(False, []), (True, ["new"])])
def test_a_disconnect_comes_before_or_after_the_request_was_executed(server: ModelServer, after: bool, there: list[str]) -> None:
    server.disconnect("CreateTopics", after=after)
    with pytest.raises(EOFError):
        ask(server, *requests()["CreateTopics"])
    server.assert_all_met()
    assert server.do(lambda cluster: [name for name in cluster.topics if name == "new"]) == there


def test_a_delayed_request_is_answered_that_much_later(server: ModelServer) -> None:
    server.delay("Metadata", seconds=0.2)
    began = time.monotonic()
    ask(server, METADATA, 12)
    assert time.monotonic() - began >= 0.2


def test_ordered_faults_that_met_no_request_are_named(server: ModelServer) -> None:
    server.fail("Fetch", "UNKNOWN_TOPIC_ID", topic="t", partition=1)
    server.disconnect("Metadata", times=2)
    with pytest.raises(EOFError):
        ask(server, METADATA, 12)
    with pytest.raises(AssertionError) as told:
        server.assert_all_met()
    assert "fail('Fetch', 'UNKNOWN_TOPIC_ID', topic='t', partition=1) (ordered: 1, happened: 0)" in str(told.value)
    assert "disconnect('Metadata', after=False) (ordered: 2, happened: 1)" in str(told.value)


def test_every_fault_is_carried_out() -> None:
    before_execution = {Fault.DELAY, Fault.DROP_BEFORE}
    assert REACTIONS.keys() == set(Fault) - before_execution
