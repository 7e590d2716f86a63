"""Real brokers whose names only a proxy knows: everything goes through it, TLS and SASL included, and its absence loses nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from integration.local.cluster import LocalCluster
from integration.security.settings import Security
from integration.waiting import until
from integration.workload.load import Load, judge
from pykafka4 import AuthenticationError, Client, Consumer, Producer
from tests.integration.reading import GROUP, LONG_S, assert_in_order, read, values
from tests.net.proxy_servers import SERVERS, ProxyServer

pytestmark = [pytest.mark.cluster, pytest.mark.lengthy, pytest.mark.backend("local")]

LOGIN = ("anna", "s3cr@t")
PARTITIONS = 6


@pytest.fixture(scope="module")
def hidden() -> Iterator[LocalCluster]:
    """Three brokers that demand SASL over TLS, under names that no resolver knows."""
    with LocalCluster(3, advertised=lambda node, real: (f"kafka-{node}.internal", real[1]), security=Security()) as brokers:
        yield brokers


@pytest.fixture(params=SERVERS)
def proxy(request: pytest.FixtureRequest, hidden: LocalCluster) -> Iterator[ProxyServer]:
    server = SERVERS[request.param]({f"kafka-{node}.internal": hidden.listener_address(node) for node in hidden.nodes}, LOGIN)
    try:
        yield server
    finally:
        server.stop()


def url(proxy: ProxyServer, password: str = "s3cr%40t") -> str:
    scheme = next(scheme for scheme, kind in SERVERS.items() if isinstance(proxy, kind))
    return f"{scheme}://anna:{password}@127.0.0.1:{proxy.port}"


def test_records_go_through_the_proxy_and_none_is_lost_while_it_is_away(hidden: LocalCluster, proxy: ProxyServer, topic: str) -> None:
    hidden.create_topic(topic, PARTITIONS)
    options = {**hidden.client, "proxy_url": url(proxy)}
    enough = threading.Event()
    with Producer(**options) as producer, Consumer(**options, **GROUP, group_id=topic) as consumer:
        consumer.subscribe([topic])
        load = Load(producer, topic, 500, lambda sent: enough.is_set())
        load.start()
        records = read(consumer, 500, LONG_S)
        for _ in range(2):
            proxy.stop()
            before = load.sent
            until(lambda before=before: load.sent > before + 200, LONG_S, "records that are sent while there is no proxy")
            proxy.start()
            records += read(consumer, 500, LONG_S)
        enough.set()
        load.join(LONG_S)
        producer.flush(LONG_S)
        records += read(consumer, load.sent - len(records), LONG_S)
    assert judge(hidden, topic, load).complaints() == []
    assert_in_order(records)
    assert values(records) == list(range(load.sent))
    assert {host for host, _ in proxy.asked} == {f"kafka-{node}.internal" for node in hidden.nodes}


def test_a_wrong_password_for_the_proxy_is_told_at_once(hidden: LocalCluster, proxy: ProxyServer, topic: str) -> None:
    refused = pytest.raises(AuthenticationError, match="refuses the user name or the password")
    with Client(**{**hidden.client, "proxy_url": url(proxy, "wrong-one")}) as client, refused as caught:
        client.partitions_for(topic, timeout=10.0)
    assert "wrong-one" not in repr(caught.value)
