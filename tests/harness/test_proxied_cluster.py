"""Clients of a proxied cluster meet its faults; the judge does not."""

from __future__ import annotations

import socket

import pytest

from integration.admin import Connection
from integration.faults.proxied import Proxied
from integration.waiting import until
from pykafka4.wire.protocol.messages_cluster import MetadataRequest

pytestmark = pytest.mark.cluster


def advertised(cluster: Proxied, node: int) -> dict[int, tuple[str, int]]:
    """The brokers' addresses as a client that comes through the proxy of `node` gets them."""
    connection = Connection(cluster.address(node))
    try:
        answer = connection.request(MetadataRequest(topics=[]))
    finally:
        connection.close()
    return {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}


def test_every_broker_advertises_its_proxy(proxied_cluster: Proxied) -> None:
    expected = {node: proxy.address for node, proxy in proxied_cluster.proxies.items()}
    assert [advertised(proxied_cluster, node) for node in (1, 2, 3)] == [expected] * 3
    assert proxied_cluster.bootstrap == ",".join(f"{host}:{port}" for host, port in expected.values())


def test_admin_and_replication_go_around_proxies_that_refuse(proxied_cluster: Proxied, topic: str) -> None:
    for proxy in proxied_cluster.proxies.values():
        proxy.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(proxied_cluster.address(1), timeout=5)
    proxied_cluster.create_topic(topic)
    proxied_cluster.wait_full_isr([topic])


def test_a_restarted_broker_is_found_behind_the_same_proxy(proxied_cluster: Proxied) -> None:
    before = proxied_cluster.address(2)
    proxied_cluster.kill(2)
    with pytest.raises(ConnectionResetError), socket.create_connection(before, timeout=5) as client:
        client.recv(1)  # the reset may also come as early as the connection
    proxied_cluster.start(2)
    assert proxied_cluster.address(2) == before
    assert set(advertised(proxied_cluster, 2)) == {1, 2, 3}


def test_a_frozen_broker_times_out_through_its_proxy_and_answers_when_thawed(proxied_cluster: Proxied) -> None:
    proxied_cluster.freeze(3)
    with pytest.raises(TimeoutError):
        Connection(proxied_cluster.address(3), timeout=0.5)
    proxied_cluster.thaw(3)
    assert set(until(lambda: advertised(proxied_cluster, 3), 30, "broker 3 to answer", forgive=(OSError,))) <= {1, 2, 3}
    proxied_cluster.wait_full_isr()
