"""Unclean elections and brokers that are forgotten, on a cluster of its own: the same outcomes as those of Kafka's own tools."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pytest

from integration.cluster import Cluster
from integration.java.client import run_tool
from integration.local.cluster import LocalCluster
from integration.seam import State
from integration.waiting import until
from pykafka4 import AdminClient, BrokerError, NewTopic, TopicPartition
from tests.integration.command_line import tools_bootstrap
from tests.integration.reading import LONG_S, produce

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.backend("local")]

OURS, THEIRS, LOST = TopicPartition("ours", 0), TopicPartition("theirs", 0), TopicPartition("lost", 0)
KEPT = 10  # records that both replicas have
SETTINGS = {"min.insync.replicas": "1", "unclean.leader.election.enable": "false"}


@pytest.fixture
def own() -> Iterator[Cluster]:
    with LocalCluster(3) as brokers:
        yield brokers


def elect(cluster: Cluster, election: str, tp: TopicPartition) -> str:
    return run_tool(
        *("org.apache.kafka.tools.LeaderElectionCommand", "--bootstrap-server", tools_bootstrap(cluster), "--election-type", election),
        *("--topic", tp.topic, "--partition", str(tp.partition)),
    )


def forget(cluster: Cluster, broker: int) -> str:
    return run_tool("org.apache.kafka.tools.ClusterTool", "unregister", "--bootstrap-server", tools_bootstrap(cluster), "--id", str(broker))


def lose_the_only_replicas_in_sync(cluster: Cluster, admin: AdminClient) -> tuple[int, int]:
    """A broker alone in sync is gone, and the other replica of two of its topics lacks the last records. Returns both brokers."""
    alone, behind = (node for node in cluster.nodes if node != cluster.controller())
    both = [OURS.topic, THEIRS.topic]
    admin.create_topics({name: NewTopic(assignments={0: [alone, behind]}, configs=SETTINGS) for name in both}, wait=True)
    admin.create_topics({LOST.topic: NewTopic(assignments={0: [alone]}, configs=SETTINGS)}, wait=True)
    for name in both:
        produce(cluster, name, 0, KEPT, 0)
    cluster.wait_full_isr(both)
    cluster.freeze(behind)
    cluster.wait_fenced(behind)
    for name in both:
        produce(cluster, name, KEPT, KEPT + 5, 0)
    cluster.kill(alone)
    cluster.thaw(behind)
    until(lambda: {behind} == up(admin) - {cluster.controller()}, LONG_S, "the broker that is behind")
    until(lambda: leaders(admin, [*both, LOST.topic]) == {None}, LONG_S, "no leader of the topics")
    return alone, behind


def up(admin: AdminClient) -> set[int]:
    return {broker.id for broker in admin.describe_cluster().brokers if not broker.is_fenced}


def leaders(admin: AdminClient, topics: Iterable[str]) -> set[int | None]:
    return {admin.describe_topic(name).partitions[0].leader for name in topics}


def wait_registered(admin: AdminClient, nodes: Collection[int]) -> None:
    until(lambda: sorted(nodes) == [broker.id for broker in admin.describe_cluster().brokers], LONG_S, f"brokers {nodes} alone")


def test_an_unclean_election_and_forgotten_brokers_are_those_of_kafkas_tools(own: Cluster) -> None:
    with AdminClient(**own.client) as admin:
        alone, behind = lose_the_only_replicas_in_sync(own, admin)
        with pytest.raises(BrokerError, match="PREFERRED_LEADER_NOT_AVAILABLE"):
            admin.elect_leaders([OURS])
        with pytest.raises(RuntimeError, match="PreferredLeaderNotAvailableException"):
            elect(own, "preferred", THEIRS)
        assert admin.elect_leaders([OURS], unclean=True) == {OURS: True}
        assert f"Successfully completed leader election (UNCLEAN) for partitions {THEIRS}" in elect(own, "unclean", THEIRS)
        assert admin.elect_leaders([OURS], unclean=True) == {OURS: False}
        assert f"Valid replica already elected for partitions {THEIRS}" in elect(own, "unclean", THEIRS)
        assert [(own.wait_leader(tp.topic, 0, other_than=alone), own.offsets(tp.topic)) for tp in (OURS, THEIRS)] == [
            (behind, {0: (0, KEPT)}), (behind, {0: (0, KEPT)}),
        ]  # fmt: skip

        admin.unregister_broker(alone)
        wait_registered(admin, {*own.nodes} - {alone})
        with pytest.raises(BrokerError, match="BROKER_ID_NOT_REGISTERED"):
            admin.unregister_broker(alone)
        with pytest.raises(RuntimeError, match="BrokerIdNotRegisteredException"):
            forget(own, alone)
        with pytest.raises(BrokerError, match="ELIGIBLE_LEADERS_NOT_AVAILABLE"):
            admin.elect_leaders([LOST], unclean=True)
        with pytest.raises(RuntimeError, match="EligibleLeadersNotAvailableException"):
            elect(own, "unclean", LOST)

        own.start(alone)
        wait_registered(admin, own.nodes)
        own.wait_full_isr()
        admin.unregister_broker(behind)  # that runs, and goes on without a registration
        wait_registered(admin, {*own.nodes} - {behind})
        assert own.state(behind) is State.RUNNING
        own.kill(behind)
        own.start(behind)
        wait_registered(admin, own.nodes)
        assert forget(own, behind) == f"Broker {behind} is no longer registered.\n"
        wait_registered(admin, {*own.nodes} - {behind})
