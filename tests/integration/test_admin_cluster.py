"""Administration of the cluster, of replicas and of transactions on real brokers: the same as Kafka's own tools find and do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.waiting import until
from pykafka4 import LATEST, AdminClient, BrokerError, KafkaError, LogDir, NewTopic, PartialFailure, Producer, Replica, TopicPartition, aio
from pykafka4.admin.calls import value_or_raise
from pykafka4.client.client import Client
from pykafka4.client.targets import leader
from pykafka4.messages import ProduceRequest
from pykafka4.wire.records.batch import WireRecord, build_batch
from tests.integration.command_line import call_of, tools_bootstrap
from tests.integration.reading import LONG_S, delete_topics_of, produce

pytestmark = pytest.mark.cluster

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "admin.md"
UNVERIFIED = 11  # the last version of Produce that does not add partitions to a transaction
OURS = GUIDE.read_text().partition("\n## Cluster")[2]
BLOCKS = re.findall(r"^```py\n(.*?)^```$", OURS, re.MULTILINE | re.DOTALL)  # which the model cluster cannot run
Settings = dict[tuple[str, str | int | None], dict[str, Any]]
THROTTLE: Settings = {
    ("broker", node): {f"{role}.replication.throttled.rate": 200_000 for role in ("leader", "follower")} for node in (1, 2, 3)
}


@pytest.fixture
def topic(cluster: Cluster, topic: str) -> Iterator[str]:
    """Deleted at the end: with few replicas it would be without a leader when a later test kills a broker."""
    yield topic
    delete_topics_of(cluster, topic)


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(**cluster.client) as it:
        yield it


def tool(cluster: Cluster, main: str, *arguments: str) -> str:
    """The output of one of Kafka's tools."""
    return run_tool(f"org.apache.kafka.tools.{main}", "--bootstrap-server", tools_bootstrap(cluster), *arguments)


def rows(text: str) -> list[dict[str, str]]:
    """A table of Kafka's tools."""
    lines = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if "\t" in line]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


def reset(admin: AdminClient, settings: Settings) -> None:
    admin.alter_configs({resource: dict.fromkeys(names) for resource, names in settings.items()})


# ---- the cluster


def test_brokers_and_the_quorum_are_those_of_kafkas_tools(cluster: Cluster, admin: AdminClient) -> None:
    described = admin.describe_cluster()
    assert {broker.id: (broker.host, broker.port, broker.is_fenced) for broker in described.brokers} == {
        node: (*cluster.address(node), False) for node in cluster.nodes
    }
    quorum = admin.describe_quorum()
    theirs = {int(row["NodeId"]): row for row in rows(tool(cluster, "MetadataQuorumCommand", "describe", "--replication"))}
    assert sorted(theirs) == [one.id for one in (*quorum.voters, *quorum.observers)]
    assert [node for node, row in theirs.items() if row["Status"] == "Leader"] == [quorum.leader] == [cluster.controller()]
    status = tool(cluster, "MetadataQuorumCommand", "describe", "--status")
    assert f"ClusterId:              {described.cluster_id}" in status
    assert re.search(rf"LeaderEpoch: +{quorum.leader_epoch}\n", status)
    assert quorum.high_watermark <= int(re.findall(r"HighWatermark: +(\d+)", status)[0])


def test_features_are_those_of_kafkas_tool_and_a_level_is_lowered_only_on_purpose(cluster: Cluster, admin: AdminClient) -> None:
    level = admin.describe_features().features["streams.version"].level
    assert level
    with pytest.raises(BrokerError, match="INVALID_UPDATE_VERSION"):
        admin.update_features({"streams.version": level - 1})
    assert admin.update_features({"streams.version": level - 1}, downgrade="safe", validate_only=True)
    assert admin.describe_features().features["streams.version"].level == level
    try:
        admin.update_features({"streams.version": level - 1}, downgrade="safe")
        text = tool(cluster, "FeatureCommand", "describe")
        theirs = {name: int(found) for name, found in re.findall(r"Feature: (\S+)\s.*FinalizedVersionLevel: .*?(\d+)\s+Epoch", text)}
        assert theirs == {name: one.level or 0 for name, one in admin.describe_features().features.items()}
        assert theirs["streams.version"] == level - 1
    finally:
        admin.update_features({"streams.version": level})


def test_features_are_updated_all_or_none(admin: AdminClient) -> None:
    level = admin.describe_features().features["streams.version"].level
    assert level
    with pytest.raises(BrokerError, match=r"INVALID_UPDATE_VERSION .*none\.version"):
        admin.update_features({"streams.version": level - 1, "none.version": 1}, downgrade="safe")
    assert admin.describe_features().features["streams.version"].level == level


def test_a_broker_that_is_not_registered_cannot_be_forgotten(admin: AdminClient) -> None:
    with pytest.raises(BrokerError, match="BROKER_ID_NOT_REGISTERED"):
        admin.unregister_broker(99)


# ---- replicas


def test_log_directories_are_those_of_kafkas_tool(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    cluster.create_topic(topic, 2)
    produce(cluster, topic, 0, 100, 1)
    cluster.wait_full_isr([topic])
    text = tool(cluster, "LogDirsCommand", "--describe", "--topic-list", topic)
    theirs = {
        (broker["broker"], place["logDir"], row["partition"], row["size"], row["offsetLag"], row["isFuture"])
        for broker in json.loads(text.splitlines()[-1])["brokers"]
        for place in broker["logDirs"]
        for row in place["partitions"]
    }
    ours = set()
    for node, found in admin.describe_log_dirs().items():
        assert isinstance(found, tuple)
        for place in found:
            assert place.total_bytes
            assert place.usable_bytes
            sizes = {tp: size for tp, size in place.replicas.items() if tp.topic == topic}
            ours |= {(node, place.path, str(tp), size.size, size.lag, size.is_future) for tp, size in sizes.items()}
    assert ours == theirs
    assert len(ours) == 6


def test_replicas_are_moved_to_directories_that_there_are(admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: NewTopic(assignments={0: [1], 1: [1]})}, wait=True)
    found = admin.describe_log_dirs([1])[1]
    assert isinstance(found, tuple)
    (place,) = found
    assert isinstance(place, LogDir)
    with pytest.raises(PartialFailure, match="LOG_DIR_NOT_FOUND") as caught:
        admin.alter_replica_log_dirs({Replica(topic, 0, 1): place.path, Replica(topic, 1, 1): "/none"})
    assert caught.value.done == {Replica(topic, 0, 1): True}


@contextlib.contextmanager
def throttled(admin: AdminClient, topic: str) -> Iterator[None]:
    """Replicas of `topic` are copied slowly."""
    admin.alter_configs({("topic", topic): {f"{role}.replication.throttled.replicas": "*" for role in ("leader", "follower")}})
    admin.alter_configs(THROTTLE)
    try:
        yield
    finally:
        reset(admin, THROTTLE)


def test_a_move_is_listed_cancelled_and_followed_to_its_end(cluster: Cluster, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    admin.create_topics({topic: NewTopic(assignments={0: [1, 2], 1: [1, 2]})}, wait=True)
    produce(cluster, topic, 0, 4_000, 0, size=1_000)
    tp, still = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with throttled(admin, topic):
        with pytest.raises(PartialFailure, match="INVALID_REPLICA_ASSIGNMENT") as caught:
            admin.alter_reassignments({tp: [3, 2], still: [99]})
        assert caught.value.done == {tp: True}
        (move,) = admin.list_reassignments([tp, still]).values()
        assert (set(move.replicas), move.adding, move.removing, move.target) == ({1, 2, 3}, (3,), (1,), (3, 2))
        listed = tool(cluster, "reassign.ReassignPartitionsCommand", "--list")
        assert re.search(rf"{tp}: replicas: 3,2,1. adding: 3. removing: 1.", listed)
        assert admin.alter_reassignments({tp: None}) == {tp: True}
        assert admin.list_reassignments([tp]) == {}
        until(lambda: set(admin.describe_topic(topic).partitions[0].replicas) == {1, 2}, LONG_S, "brokers to know of the end")
        with pytest.raises(BrokerError, match="NO_REASSIGNMENT_IN_PROGRESS"):
            admin.alter_reassignments({tp: None})
        admin.alter_reassignments({tp: [3, 2]})
        progress = admin.reassignment_progress([tp])[tp]
        assert progress.total_bytes is not None
        assert progress.copied_bytes is not None
        assert progress.copied_bytes < progress.total_bytes
        assert progress.total_bytes > 4_000_000
    until(lambda: not admin.reassignment_progress([tp]), LONG_S, "the end of the move")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}]}))
    verified = tool(cluster, "reassign.ReassignPartitionsCommand", "--verify", "--reassignment-json-file", str(plan))
    assert f"Reassignment of partition {tp} is completed." in verified


def test_preferred_leaders_are_elected_once(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: NewTopic(assignments={0: [1, 2, 3], 1: [2, 1, 3]})}, wait=True)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    admin.alter_reassignments({first: [3, 1, 2]})
    until(lambda: not admin.list_reassignments([first]), LONG_S, "the new order")
    assert cluster.leader(topic) == 1
    assert admin.elect_leaders([first, second]) == {first: True, second: False}
    assert cluster.wait_leader(topic, 0, other_than=1) == 3
    shown = tool(cluster, "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {first}" in shown
    with pytest.raises(PartialFailure, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
        admin.elect_leaders([first, (topic, 7)], unclean=True)
    assert caught.value.done == {first: False}


# ---- producers and transactions


def test_producers_and_transactions_are_those_of_kafkas_tool(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    cluster.create_topic(topic, 2)
    with Producer(**cluster.client, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(3):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
        (listed,) = admin.list_transactions(states=["Ongoing"], pattern=topic)
        assert (listed.transactional_id, listed.state) == (topic, "Ongoing")
        assert [one.transactional_id for one in admin.list_transactions(producer_ids=[listed.producer_id])] == [topic]
        assert not len(admin.list_transactions(pattern=topic, running_longer_than=3_600))
        theirs = {row["TransactionalId"]: row for row in rows(tool(cluster, "TransactionsCommand", "list"))}[topic]
        assert (theirs["Coordinator"], theirs["ProducerId"], theirs["TransactionState"]) == tuple(
            map(str, (listed.coordinator, listed.producer_id, listed.state))
        )
        one = admin.describe_transaction(topic)
        assert one.partitions == (TopicPartition(topic, 0),)
        (row,) = rows(tool(cluster, "TransactionsCommand", "describe", "--transactional-id", topic))
        assert (row["CoordinatorId"], row["ProducerId"], row["ProducerEpoch"], row["TransactionState"]) == tuple(
            map(str, (one.coordinator, one.producer_id, one.producer_epoch, one.state))
        )
        assert (row["TransactionTimeoutMs"], row["CurrentTransactionStartTimeMs"]) == (str(one.timeout_ms), str(one.started_ms))
        assert row["TopicPartitions"] == f"{topic}-0"
        found = admin.describe_producers([(topic, 0), (topic, 1)])
        assert found[TopicPartition(topic, 1)] == ()
        (active,) = value_or_raise(found[TopicPartition(topic, 0)])
        (row,) = rows(tool(cluster, "TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0"))
        assert (active.transaction_start, active.last_sequence, active.coordinator_epoch) == (0, 2, None)
        names = ("ProducerId", "ProducerEpoch", "LastSequence", "LastTimestamp", "CurrentTransactionStartOffset")
        ours = (active.producer_id, active.epoch, active.last_sequence, active.last_timestamp_ms, 0)
        assert tuple(row[name] for name in names) == tuple(map(str, ours))
        assert admin.find_hanging_transactions([topic], older_than=0) == []
        producer.abort_transaction()
    until(lambda: admin.describe_transaction(topic).state == "CompleteAbort", LONG_S, "the end of the transaction")
    described = admin.describe_transactions([topic, f"{topic}-none"])
    assert not isinstance(described[topic], KafkaError)
    assert isinstance(described[f"{topic}-none"], BrokerError)


def leave_hanging(cluster: Cluster, admin: AdminClient, topic: str) -> int:
    """A record of a transaction that no coordinator knows of, as the bugs before KIP-890 left them; returns the producer's id.

    Brokers ask the coordinator about each first record of a transaction; that is switched off meanwhile.
    """
    check: Settings = {("broker", node): {"transaction.partition.verification.enable": "false"} for node in cluster.nodes}
    number = 1_000_000 + int(time.time())  # no broker has given it to a producer
    with Client(**cluster.client) as client:
        batch = build_batch(
            [WireRecord(value=b"lost", timestamp_ms=int(time.time() * 1000) - 3_600_000)],
            producer_id=number, producer_epoch=0, base_sequence=0, transactional=True,
        )  # fmt: skip
        kind = ProduceRequest.Topic
        rows = [kind(name=topic, partition_data=[kind.Partition(index=0, records=batch)])]
        message = ProduceRequest(transactional_id=f"{topic}-x", acks=-1, timeout_ms=10_000, topic_data=rows)
        admin.alter_configs(check)
        try:
            until(lambda: accepted(client, topic, message), LONG_S, "brokers to have the setting")
        finally:
            reset(admin, check)
    return number


def accepted(client: Client, topic: str, message: ProduceRequest) -> bool:
    (answer,) = client.request(leader((topic, 0)), message, max_version=UNVERIFIED).responses
    return answer.partition_responses[0].error_code == 0


def committed_end(admin: AdminClient, tp: TopicPartition) -> int | None:
    return admin.list_offsets({tp: LATEST}, isolation_level="read_committed")[tp].offset


def test_a_hanging_transaction_is_found_and_aborted(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    cluster.create_topic(topic, 1)
    tp = TopicPartition(topic, 0)
    number = leave_hanging(cluster, admin, topic)
    assert committed_end(admin, tp) == 0  # read_committed consumers wait behind it
    assert admin.find_hanging_transactions([topic], older_than=7_200) == []
    (found,) = admin.find_hanging_transactions([topic])
    assert (found.partition, found.producer.producer_id, found.producer.transaction_start) == (tp, number, 0)
    assert found.transactional_id is None
    named = ("--topic", topic, "--partition", "0", "--max-transaction-timeout", "15")
    (row,) = rows(tool(cluster, "TransactionsCommand", "find-hanging", *named))
    assert (row["Topic"], row["Partition"], row["ProducerId"], row["StartOffset"]) == (topic, "0", str(number), "0")
    admin.abort_transaction(tp, found.producer)
    until(lambda: committed_end(admin, tp) == 2, LONG_S, "the marker to be replicated")
    assert admin.find_hanging_transactions([topic]) == []


async def looks_awaited(cluster: Cluster, topic: str) -> tuple[Any, ...]:
    async with aio.AdminClient(**cluster.client) as admin:
        await admin.create_topics({topic: 2}, wait=True)
        return await admin.describe_quorum(), await admin.describe_topic(topic), await admin.list_transactions()


def test_looks_and_changes_are_awaited(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    quorum, described, transactions = asyncio.run(looks_awaited(cluster, topic))
    assert quorum.leader == admin.describe_quorum().leader
    assert described == admin.describe_topic(topic)
    assert not transactions.errors


# ---- the command line, and the guide


def command(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """The lines of JSON that a command prints."""
    done = subprocess.run(call_of(cluster, *arguments, "--json"), capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_command_moves_a_partition_and_ends_a_hanging_transaction(cluster: Cluster, admin: AdminClient, topic: str) -> None:
    admin.create_topics({topic: NewTopic(assignments={0: [1, 2]})}, wait=True)
    (plan,) = command(cluster, "cluster", "reassign", f"{topic}:0=2,3")
    assert (plan["replicas"], plan["new"], plan["executed"]) == ([1, 2], [2, 3], False)
    command(cluster, "cluster", "reassign", f"{topic}:0=2,3", "--execute", "--wait")
    until(lambda: admin.describe_topic(topic).partitions[0].replicas == (2, 3), LONG_S, "brokers to know of the end")
    number = leave_hanging(cluster, admin, topic)
    (hanging,) = command(cluster, "transactions", "hanging", topic)
    assert (hanging["topic"], hanging["producer_id"], hanging["transaction_start"]) == (topic, number, 0)
    assert [row["executed"] for row in command(cluster, "transactions", "abort", f"{topic}:0", "--execute")] == [True]
    assert command(cluster, "transactions", "hanging", topic) == []


@pytest.mark.parametrize("text", BLOCKS)
def test_the_code_of_the_guide_runs(cluster: Cluster, admin: AdminClient, topic: str, text: str) -> None:
    admin.create_topics({topic: NewTopic(assignments={0: [2]})}, wait=True)
    leave_hanging(cluster, admin, topic)
    exec(text.replace("localhost:9092", tools_bootstrap(cluster)).replace('"events"', repr(topic)), {})
    assert "abort" not in text or not admin.find_hanging_transactions([topic])
