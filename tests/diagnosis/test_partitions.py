"""Topics: rights, and disks that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka4.diagnosis.values import Outcome
from pykafka4.messages import MetadataResponse
from pykafka4.testing import ModelServer
from tests.diagnosis.looking import findings, of, wrong
from tests.diagnosis.test_steps import parts

READ, WRITE, DESCRIBE = 1 << 3, 1 << 4, 1 << 8
TOPIC = pytest.mark.model(brokers=1, topics={"t": 1})


def answers(server: ModelServer, **changes: Any) -> None:
    """Requests about topics are answered with one topic, of two replicas."""
    kind, (host, port) = MetadataResponse, parts(server.bootstrap_servers)
    row = {"error_code": 0, "partition_index": 0, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1], "offline_replicas": []}
    bits = changes.pop("bits", READ | WRITE)
    topic = kind.Topic(error_code=0, name="t", partitions=[kind.Topic.Partition(**{**row, **changes})], topic_authorized_operations=bits)

    def answer(call: Any) -> Any:
        brokers = [kind.Broker(node_id=1, host=host, port=port)]
        return kind(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic]) if call.message.topics != [] else None

    server.do(lambda cluster: cluster.control("Metadata", answer, keep=True))


@TOPIC
def test_topics_that_are_missing_or_denied_are_wrong(server: ModelServer) -> None:
    server.do(lambda cluster: cluster.deny("topic", "t", "DESCRIBE"))
    ways = {one.about: one.way_out for one in findings(server.bootstrap_servers, topics=["t", "nothing"]) if one.outcome is Outcome.WRONG}
    assert "--operation Describe --topic t" in ways["topic t"]
    assert "auto.create.topics.enable" in ways["topic nothing"]


RIGHTS = {
    "both": (READ | WRITE | DESCRIBE, [Outcome.FINE], ""),
    "to read": (READ | DESCRIBE, [Outcome.NOTICE], "--operation Write --topic t"),
    "neither": (DESCRIBE, [Outcome.WRONG, Outcome.WRONG], "--operation Write --topic t"),
}


@TOPIC
@pytest.mark.parametrize("case", RIGHTS)
def test_what_a_user_may_do_is_told(server: ModelServer, case: str) -> None:
    bits, expected, words = RIGHTS[case]
    answers(server, bits=bits)
    found = of(findings(server.bootstrap_servers, topics=["t"]), "topics")
    assert [one.outcome for one in found] == expected
    assert words in found[0].way_out


@TOPIC
def test_a_replica_that_is_offline_at_a_broker_that_is_up_is_a_lost_disk(server: ModelServer) -> None:
    answers(server, offline_replicas=[1])
    found = findings(server.bootstrap_servers)
    assert wrong(found) == [("replicas", "broker 1")]
    assert "repair the disk" in of(found, "replicas")[0].way_out


@TOPIC
def test_partitions_without_a_leader_name_the_brokers_that_have_to_come_back(server: ModelServer) -> None:
    answers(server, leader_id=-1, replica_nodes=[1, 7], isr_nodes=[7])
    found = findings(server.bootstrap_servers)
    assert wrong(found) == [("leaders", "")]
    assert of(found, "leaders")[0].evidence == "t-0 (replicas 1, 7; in sync 7)"
    assert of(found, "leaders")[0].way_out.startswith("start broker 7")


@TOPIC
@pytest.mark.parametrize(
    ("refused", "effect"), [(False, "they can be written and read"), (True, "their min.insync.replicas was not checked")]
)
def test_partitions_can_be_written_only_if_the_minimum_was_checked(server: ModelServer, refused: bool, effect: str) -> None:
    answers(server, replica_nodes=[1, 7])
    if refused:
        server.do(lambda cluster: cluster.deny("topic", "t", "DESCRIBE_CONFIGS"))
    found = of(findings(server.bootstrap_servers), "replicas")
    assert found[-1].what == f"1 of 1 partitions are under-replicated; {effect}"
