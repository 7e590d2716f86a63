"""Stateless calls on real brokers: leaders that move and die, groups without members beside other clients, rights per item."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as Foreign
from confluent_kafka import TopicPartition as ForeignPartition

from integration.cluster import Cluster
from integration.java.client import run_tool
from pykafka4 import (
    ANY,
    CONTROLLER,
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    Client,
    Consumer,
    GroupNotEmpty,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    coordinator,
    leader,
)
from pykafka4.messages import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from tests.client.lowlevel import code_of
from tests.integration.command_line import tools_bootstrap
from tests.integration.reading import GROUP, LONG_S, poll_until

pytestmark = pytest.mark.cluster

PARTITIONS, RECORDS = 6, 500
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with Client(**cluster.client) as it:
        yield it


@pytest.fixture
def filled(cluster: Cluster, topic: str) -> list[TopicPartition]:
    """The partitions of a topic with three replicas and the records `0` to `499` in each partition."""
    cluster.create_topic(topic, PARTITIONS, 3)
    with Producer(**cluster.client) as producer:
        for partition in range(PARTITIONS):
            producer.send_many(topic, [str(n) for n in range(RECORDS)], partition=partition)
    return [TopicPartition(topic, partition) for partition in range(PARTITIONS)]


def read_all(client: Client, partitions: list[TopicPartition], until: int, max_bytes: int) -> dict[TopicPartition, list[int]]:
    """The values of each partition up to `until`, by fetches of all partitions that are not done."""
    values: dict[TopicPartition, list[int]] = {tp: [] for tp in partitions}
    places = dict.fromkeys(partitions, 0)
    while left := {tp: (offset, max_bytes) for tp, offset in places.items() if offset < until}:
        for tp, found in client.fetch(left, LONG_S).items():
            assert found.error is None, found.error
            values[tp] += [int(record.value or b"") for record in found.records]
            places[tp] = found.next_offset
    return values


@pytest.mark.main_job
def test_fetches_and_offsets_go_on_while_leaders_are_killed(cluster: Cluster, client: Client, filled: list[TopicPartition]) -> None:
    victim = cluster.leader(filled[0].topic, 0)
    read: list[dict[TopicPartition, list[int]]] = []
    reader = threading.Thread(target=lambda: read.append(read_all(client, filled, RECORDS, 200)))
    reader.start()
    cluster.kill(victim)
    try:
        ends = client.list_offsets(dict.fromkeys(filled, LATEST), LONG_S)
        assert [(end.offset, end.error) for end in ends.values()] == [(RECORDS, None)] * PARTITIONS
        reader.join(LONG_S)
        assert read == [{tp: list(range(RECORDS)) for tp in filled}]
        rows = [ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1)]
        message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.Topic(name=filled[0].topic, partitions=rows)])
        assert client.request(leader(filled[0]), message, LONG_S).topics[0].partitions[0].offset == RECORDS
    finally:
        cluster.start(victim)


def test_offsets_by_name(cluster: Cluster, client: Client, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with Producer(**cluster.client) as producer:
        for timestamp_ms in (5_000, 9_000, 7_000):
            producer.send(topic, b"x", partition=0, timestamp_ms=timestamp_ms).result(LONG_S)
    full, empty = (topic, 0), (topic, 1)
    names = (EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, 6_000, 9_001)
    found = [client.list_offsets({full: name, empty: name}) for name in names]
    assert not [one.error for both in found for one in both.values() if one.error]
    assert [(both[full].offset, both[empty].offset) for both in found] == [  # type: ignore[index]
        *((0, 0), (3, 0), (1, None), (0, 0), (None, None), (1, None), (None, None))
    ]
    assert found[2][full].timestamp_ms == 9_000  # type: ignore[index]


def test_an_outcome_for_each_item(client: Client, filled: list[TopicPartition]) -> None:
    good, beyond, missing, unknown = filled[0], filled[1], TopicPartition(filled[0].topic, 99), TopicPartition("no-such-topic", 0)
    found = client.fetch({good: RECORDS - 1, beyond: RECORDS + 1, missing: 0, unknown: 0})
    assert [record.value for record in found[good].records] == [b"499"]
    assert [code_of(found[tp].error) for tp in (beyond, missing, unknown)] == [
        "OFFSET_OUT_OF_RANGE",
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    ends = client.list_offsets({good: LATEST, unknown: LATEST})
    assert (ends[good].offset, code_of(ends[unknown].error)) == (RECORDS, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_group_without_members_beside_other_clients(cluster: Cluster, client: Client, filled: list[TopicPartition], topic: str) -> None:
    first, second = filled[:2]
    stored = client.commit_offsets(topic, {first: 7, second: OffsetAndMetadata(8, 0, "why")})
    assert [one.error for one in stored.values()] == [None, None]
    other = Foreign({**cluster.librdkafka, "group.id": topic})
    try:
        theirs = other.committed([ForeignPartition(*first), ForeignPartition(*second)], timeout=LONG_S)
        assert [one.offset for one in theirs] == [7, 8]
        other.commit(offsets=[ForeignPartition(*first, 9)], asynchronous=False)
    finally:
        other.close()
    found = client.committed_offsets(topic, [first, second, filled[2]])
    assert [one.committed for one in found.values()] == [OffsetAndMetadata(9), OffsetAndMetadata(8, 0, "why"), None]
    assert {tp: one.offset for tp, one in client.committed_offsets(topic).items()} == {first: 9, second: 8}
    shown = run_tool(TOOL, "--bootstrap-server", tools_bootstrap(cluster), "--describe", "--group", topic)
    assert [line.split()[3] for line in shown.splitlines() if line.startswith(topic)] == ["9", "8"]


def test_members_keep_their_offsets(cluster: Cluster, client: Client, filled: list[TopicPartition], topic: str) -> None:
    with Consumer(**cluster.client, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic])
        poll_until(consumer, consumer.assignment)
        refused = client.commit_offsets(topic, {filled[0]: 1})[filled[0]]
        assert isinstance(refused.error, GroupNotEmpty)
        assert len(refused.error.members) == 1


def test_requests_to_every_kind_of_broker(cluster: Cluster, client: Client, topic: str) -> None:
    assert {broker.node_id for broker in client.request(ANY, MetadataRequest(topics=[])).brokers} == set(cluster.nodes)
    assert client.request(CONTROLLER, DescribeClusterRequest()).error_code == 0
    for node in cluster.nodes:
        found = client.request(node, ApiVersionsRequest(client_software_name="test", client_software_version="1"))
        assert (found.error_code, any(api.api_key == 1 for api in found.api_keys)) == (0, True)
    (group,) = client.request(coordinator(topic), DescribeGroupsRequest(groups=[topic])).groups
    assert (group.group_id, group.group_state) == (topic, "Dead")
    assert client.find_coordinator(topic).node in cluster.nodes


def test_a_consumer_looks_up_the_end_of_its_isolation_level(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    tp = TopicPartition(topic, 0)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", timestamp_ms=5_000).result(LONG_S)
        with Consumer(**cluster.client) as plain, Consumer(**cluster.client, isolation_level="read_committed") as committed:
            assert (plain.end_offsets([tp]), committed.end_offsets([tp])) == ({tp: 1}, {tp: 0})
            assert plain.beginning_offsets([tp]) == {tp: 0}
            found = plain.offsets_for_times({tp: 4_000})[tp]
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (0, 5_000)
            assert committed.offsets_for_times({tp: 4_000}) == {tp: None}
        producer.abort_transaction()
