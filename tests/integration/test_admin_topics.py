"""Administration of topics, records and offsets of share groups on real brokers: the same as other clients and Kafka's own tools see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient as Foreign

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.local.cluster import LocalCluster
from integration.waiting import until
from pykafka4 import (
    EARLIEST,
    LATEST,
    AdminClient,
    BrokerError,
    GroupNotEmpty,
    NewPartitions,
    NewTopic,
    PartialFailure,
    TopicDescription,
    TopicPartition,
)
from tests.integration.command_line import tools_bootstrap
from tests.integration.reading import LONG_S, delete_topics_of, produce
from tests.integration.sharing import configure, share, take_explicitly

pytestmark = pytest.mark.cluster

TOPICS = "org.apache.kafka.tools.TopicCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


@pytest.fixture
def topic(cluster: Cluster, topic: str) -> Iterator[str]:
    """Deleted at the end: with few replicas it would be without a leader when a later test kills a broker."""
    yield topic
    delete_topics_of(cluster, topic)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


def name_of(error: BaseException) -> str:
    assert isinstance(error, BrokerError), error
    return error.code.name


def tool(main: str, cluster: Cluster, *arguments: str) -> list[str]:
    return [line for line in run_tool(main, "--bootstrap-server", tools_bootstrap(cluster), *arguments).splitlines() if line.strip()]


def shown(line: str) -> dict[str, str]:
    """A line of kafka-topics: `Topic: a<tab>Partition: 0<tab>…`."""
    return {key: value.strip() for key, _, value in (part.partition(":") for part in line.strip().split("\t"))}


def numbers(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


def uuid_of(base64: Any) -> UUID:
    """An id of another client."""
    high, low = base64.get_most_significant_bits(), base64.get_least_significant_bits()
    return UUID(int=(high % 2**64) << 64 | low % 2**64)


# ---- topics


def test_a_topic_is_described_as_by_kafkas_tool_and_another_client(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    placed = NewTopic(assignments={0: [2, 1], 1: [3, 2]}, configs={"cleanup.policy": "compact"})
    created = admin.create_topics({topic: placed}, wait=True)[topic]
    admin.create_partitions({topic: NewPartitions(3, [[1, 3]])}, wait=True)
    found = admin.describe_topic(topic)
    assert (created.partitions, created.replication_factor) == (2, 2)
    assert [part.replicas for part in found.partitions] == [(2, 1), (3, 2), (1, 3)]
    assert created.topic_id is not None
    assert [p.replicas for p in admin.describe_topic(created.topic_id).partitions] == [p.replicas for p in found.partitions]
    (summary, *rows) = map(shown, tool(TOPICS, cluster, "--describe", "--topic", topic))
    assert (int(summary["PartitionCount"]), int(summary["ReplicationFactor"])) == (3, found.replication_factor)
    assert "cleanup.policy=compact" in summary["Configs"]
    ours = [(str(p.partition), str(p.leader), numbers(p.replicas), sorted(p.isr)) for p in found.partitions]
    assert ours == [(r["Partition"], r["Leader"], r["Replicas"], sorted(map(int, r["Isr"].split(",")))) for r in rows]
    foreign = Foreign(cluster.librdkafka)
    theirs = foreign.describe_topics(TopicCollection([topic]))[topic].result(LONG_S)
    assert uuid_of(theirs.topic_id) == found.topic_id == created.topic_id
    assert theirs.is_internal == found.is_internal


def test_topics_are_known_to_every_broker_when_a_call_that_waits_returns(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(20)]
    admin.create_topics(dict.fromkeys(names, 3), replication_factor=3, configs={"retention.ms": 3_600_000}, wait=True)
    assert [cluster.admin.led(node, names[-1]) for node in cluster.nodes] == [[0, 1, 2]] * 3
    admin.create_partitions(dict.fromkeys(names, 5), wait=True)
    assert [len(cluster.admin.led(node, names[-1])) for node in cluster.nodes] == [5, 5, 5]
    listed = admin.list_topics()
    assert {name: (listed[name].partitions, listed[name].replication_factor) for name in names} == dict.fromkeys(names, (5, 3))
    assert set(listed) == {name for name in Foreign(cluster.librdkafka).list_topics(timeout=LONG_S).topics if not name.startswith("__")}
    admin.delete_topics([*names[1:], listed[names[0]].topic_id], wait=True)  # type: ignore[list-item]
    assert not any(cluster.admin.knows(node, name) for node in cluster.nodes for name in names)


def test_what_brokers_refuse_is_named_and_the_rest_is_done(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    other = f"{topic}-2"
    admin.create_topics({topic: 2}, wait=True)
    with pytest.raises(BrokerError, match=rf"creating topic {other}: INVALID_CONFIG .*retention") as caught:
        admin.create_topics({other: 1}, configs={"retention.ms": "long"})
    assert name_of(caught.value) == "INVALID_CONFIG"
    with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topics({other: 1}, replication_factor=9)
    admin.create_topics({other: 1}, validate_only=True)
    assert other not in admin.list_topics()
    with pytest.raises(PartialFailure) as partly:
        admin.create_topics({topic: 2, other: 1}, wait=True)
    assert {key: name_of(error) for key, error in partly.value.errors.items()} == {topic: "TOPIC_ALREADY_EXISTS"}
    assert set(partly.value.done) == {other}
    with pytest.raises(PartialFailure) as partly:
        admin.create_partitions({topic: 2, other: 3})
    assert {key: name_of(error) for key, error in partly.value.errors.items()} == {topic: "INVALID_PARTITIONS"}
    nobody = uuid4()
    with pytest.raises(PartialFailure) as partly:
        admin.delete_topics([topic, other, f"{topic}-none", nobody], wait=True)
    found = {key: name_of(error) for key, error in partly.value.errors.items()}
    assert found == {f"{topic}-none": "UNKNOWN_TOPIC_OR_PARTITION", nobody: "UNKNOWN_TOPIC_ID"}
    assert set(partly.value.done) == {topic, other}
    admin.create_topics({topic: 2}, wait=True)
    looked = admin.describe_topics([topic, other, nobody])
    assert isinstance(looked[topic], TopicDescription)
    assert [name_of(looked[key]) for key in (other, nobody)] == ["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_ID"]  # type: ignore[arg-type]


# ---- records


def test_records_are_deleted_as_kafkas_tools_see_it(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: 3}, replication_factor=3, wait=True)
    for partition in range(3):
        produce(cluster, topic, 0, 30, partition)
    t0, t1, t2 = (TopicPartition(topic, number) for number in range(3))
    assert admin.delete_records({t0: 7, t1: LATEST}) == {t0: 7, t1: 30}
    assert admin.delete_records({t0: 3}) == {t0: 7}  # a log never grows back
    with pytest.raises(PartialFailure) as caught:
        admin.delete_records({t2: 31, t0: 8, (topic, 9): 0})
    assert caught.value.done == {t0: 8}
    errors = {tp: name_of(error) for tp, error in caught.value.errors.items()}
    assert errors == {t2: "OFFSET_OUT_OF_RANGE", TopicPartition(topic, 9): "UNKNOWN_TOPIC_OR_PARTITION"}
    ours = {tp: found.offset for tp, found in admin.list_offsets(dict.fromkeys((t0, t1, t2), EARLIEST)).items()}
    rows = [line.split(":") for line in tool(OFFSETS, cluster, "--topic", topic, "--time", "earliest")]
    assert ours == {TopicPartition(row[0], int(row[1])): int(row[2]) for row in rows} == {t0: 8, t1: 30, t2: 0}


# ---- share groups


def test_a_share_group_is_described_moved_and_deleted(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: 1}, replication_factor=3, wait=True)
    produce(cluster, topic, 0, 30, 0)
    group, tp = topic, TopicPartition(topic, 0)
    configure(cluster, group)
    with share(cluster, group, topic, client_id="me", share_acknowledgement_mode="explicit", max_poll_records=10) as consumer:
        take_explicitly(consumer, 10)
        found = admin.describe_group(group)
        assert (found.type, found.state, [member.client_id for member in found.members]) == ("share", "Stable", ["me"])
        assert found.members[0].partitions == (tp,)
        assert found.epoch > 0
        with pytest.raises(GroupNotEmpty, match="client me"):
            admin.delete_groups([group])
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            admin.alter_share_group_offsets(group, {tp: 0})
    until(lambda: not admin.describe_group(group).members, LONG_S, "the member to be gone")

    def stands() -> tuple[str, ...]:
        one = admin.share_group_offsets([group])[group][tp]  # type: ignore[index]
        assert one.error is None
        return str(one.offset), str(one.lag)

    rows = [line.split() for line in tool(SHARE_GROUPS, cluster, "--describe", "--group", group)]
    assert [tuple(row[3:5]) for row in rows if row[:3] == [group, topic, "0"]] == [stands()]
    admin.alter_share_group_offsets(group, {tp: 4})
    assert stands() == ("4", "26")
    assert admin.share_group_offsets([f"{group}-none"]) == {f"{group}-none": {}}
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.alter_share_group_offsets(group, {(f"{topic}-none", 0): 4})
    admin.delete_share_group_offsets(group, [topic])
    assert admin.share_group_offsets([group]) == {group: {}}
    admin.delete_groups([group])
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group(group)


# ---- without a controller


@pytest.fixture
def own() -> Iterator[Cluster]:
    with LocalCluster(3) as brokers:
        yield brokers


@pytest.mark.backend("local")
def test_changes_survive_a_killed_controller(own: Cluster) -> None:
    with AdminClient(**own.client) as admin:
        admin.create_topics({"before": 1}, replication_factor=3, wait=True)
        first = own.admin.active_controller()
        assert first is not None
        own.kill(first)
        admin.create_topics({"after": 2}, replication_factor=2, wait=True)
        admin.create_partitions({"after": 4}, wait=True)
        assert len(admin.describe_topic("after").partitions) == 4
        admin.unregister_broker(first)
        until(lambda: first not in [broker.id for broker in admin.describe_cluster().brokers], LONG_S, "brokers to forget it")
