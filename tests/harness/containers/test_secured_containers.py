"""Containers that demand TLS and a user, on the published port and at the container's own address."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from integration.docker.cluster import DIRECT, DockerCluster
from integration.docker.no_registry import missing_for_engine
from pykafka4 import Producer
from tests.harness.secured import SECURITY, certificate_fits, certificate_is_for_another, served_and_refused

MISSING = "" if os.environ.get("DOCKER_HOST") else "; ".join(missing_for_engine())
pytestmark = [pytest.mark.docker, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.fixture(scope="module")
def secured() -> Iterator[DockerCluster]:
    with DockerCluster(brokers=3, security=SECURITY) as running:
        yield running


def direct(cluster: DockerCluster, node: int) -> tuple[str, int]:
    return cluster.networks[0].address(node), DIRECT


def test_a_certificate_is_for_the_published_port_and_for_the_containers_address(secured: DockerCluster) -> None:
    for node in secured.nodes:
        certificate_fits(secured, secured.address(node))
        certificate_fits(secured, direct(secured, node))


def test_users_write_and_read_what_they_may(secured: DockerCluster, topic: str) -> None:
    served_and_refused(secured, topic)


def test_clients_that_come_in_directly_stay_when_a_broker_is_cut_off(secured: DockerCluster, topic: str) -> None:
    secured.create_topic(topic, partitions=1)
    with Producer(bootstrap_servers=secured.direct_bootstrap, **secured.client_security()) as producer:
        producer.send(topic, b"before").result(60)
        victim = secured.wait_leader(topic)
        secured.cut(victim)
        producer.send(topic, b"after").result(60)
        secured.mend(victim)
    secured.wait_full_isr([topic])
    assert [record.value for record in secured.log(topic)[0]] == [b"before", b"after"]


def test_both_listeners_show_the_certificate_that_replaced_another_also_after_a_restart(secured: DockerCluster) -> None:
    other = secured.access.certificate(1)  # of another broker: right for the published port, which all share, but not for the address
    secured.access.replace_certificate(2, other)
    certificate_fits(secured, secured.address(2))
    certificate_is_for_another(secured, direct(secured, 2))
    secured.restart(2)
    certificate_is_for_another(secured, direct(secured, 2))
    secured.restart_with(2, secured.access.certificate(2))
    certificate_fits(secured, direct(secured, 2))
    secured.wait_full_isr()
