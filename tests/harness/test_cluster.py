"""The cluster: faults really happen, end on request, and nothing outlives its owner."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import pytest

from integration.admin import Connection
from integration.cluster import Cluster, State, Unsupported
from pykafka4.errors import BrokerError
from pykafka4.wire.protocol.messages_cluster import MetadataRequest

pytestmark = pytest.mark.cluster


def replaced(cluster: Cluster, topic: str, fault: Callable[[int], None]) -> int:
    """The leader that this fault met, once another leads."""
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    fault(old)
    assert cluster.wait_leader(topic, other_than=old) != old
    return old


@pytest.mark.needs("disconnect")
def test_a_disconnected_broker_is_out_of_reach_and_comes_back(cluster: Cluster, topic: str) -> None:
    old = replaced(cluster, topic, cluster.disconnect)
    assert cluster.state(old) is State.RUNNING
    cluster.reconnect(old)
    cluster.wait_full_isr([topic])


@pytest.mark.needs("cut")
def test_a_broker_cut_off_from_the_others_still_answers_and_comes_back(cluster: Cluster, topic: str) -> None:
    old = replaced(cluster, topic, cluster.cut)
    host, _, port = cluster.direct_bootstrap.split(",")[old - 1].rpartition(":")
    with contextlib.closing(Connection((host, int(port)))) as connection:
        told = connection.request(MetadataRequest(topics=[MetadataRequest.Topic(name=topic)]))
    assert [row.leader_id for row in told.topics[0].partitions] == [old], "it has heard nothing of its successor"
    cluster.mend(old)
    cluster.wait_full_isr([topic])


def test_an_operation_that_the_backend_has_not_got_is_refused_with_the_reason(cluster: Cluster) -> None:
    for operation, why in cluster.lacks.items():
        with pytest.raises(Unsupported, match=f"{operation}.*{why}"):
            getattr(cluster, operation)(1)


def test_three_brokers_serve_and_agree_on_each_other(cluster: Cluster) -> None:
    views = [cluster.admin.describe_cluster(node) for node in cluster.nodes]
    assert all(view.brokers == {1, 2, 3} for view in views)
    assert len({view.cluster_id for view in views}) == 1
    assert cluster.controller() in cluster.nodes
    assert len(set(cluster.bootstrap.split(","))) == 3


def test_a_new_topic_has_leaders_and_full_isr_on_every_broker(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=5, configs={"max.message.bytes": "2000000"})
    cluster.wait_full_isr([topic])
    assert sorted(cluster.partitions(topic)) == [0, 1, 2, 3, 4]
    assert all(len(row.replicas) == 3 for row in cluster.partitions(topic).values())
    cluster.add_partitions(topic, 7)
    assert len(cluster.partitions(topic)) == 7


def test_creating_a_topic_twice_is_refused_by_name(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic(topic, partitions=1)


def test_a_deleted_topic_is_unknown_to_every_broker(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    cluster.delete_topic(topic)
    assert not any(cluster.admin.knows(node, topic) for node in cluster.nodes)
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        cluster.delete_topic(topic)


def test_a_killed_leader_is_replaced_and_comes_back_in_sync(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.kill(old)
    assert cluster.state(old) is State.DOWN
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(cluster.address(old), timeout=5)
    new = cluster.wait_leader(topic, other_than=old)
    assert new != old
    cluster.start(old)
    cluster.wait_full_isr([topic])
    assert set(cluster.partitions(topic)[0].isr) == {1, 2, 3}


def test_a_stopped_broker_hands_over_its_leaders_before_it_ends(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.stop(old)
    assert cluster.wait_leader(topic, other_than=old, timeout=5) != old
    cluster.start(old)
    cluster.wait_full_isr([topic])


def test_a_frozen_broker_accepts_and_is_silent_until_it_is_thawed(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    old = cluster.leader(topic)
    cluster.freeze(old)
    assert cluster.state(old) is State.FROZEN
    with socket.create_connection(cluster.address(old), timeout=5):
        cluster.wait_fenced(old)
    assert cluster.wait_leader(topic, other_than=old) != old
    cluster.thaw(old)
    cluster.wait_full_isr([topic])
    assert cluster.state(old) is State.RUNNING


def test_all_brokers_killed_come_back_together(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    for node in cluster.nodes:
        cluster.kill(node)
    cluster.start_all()
    cluster.wait_full_isr([topic])
    assert cluster.broken() == []


def test_a_leader_moves_to_the_given_broker(cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic, partitions=2)
    for to in cluster.nodes:
        cluster.move_leader(topic, 1, to)
        assert cluster.wait_leader(topic, 1) == to


def test_heal_mends_what_a_test_broke(cluster: Cluster) -> None:
    cluster.kill(1)
    cluster.freeze(2)
    assert cluster.broken() == ["broker 1 is down", "broker 2 is frozen"]
    cluster.heal()
    assert cluster.broken() == []
