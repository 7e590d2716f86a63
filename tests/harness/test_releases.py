"""Which release needs what."""

from __future__ import annotations

import pytest

from integration.docker.cluster import DockerCluster
from integration.kafka.jars import KAFKA
from integration.kafka.releases import Kind, release
from integration.kafka.settings import expand
from integration.vagrant.cluster import VagrantCluster


@pytest.mark.parametrize(
    ("version", "scala", "quorum"),
    [
        (KAFKA, "2.13", Kind.RAFT),
        ("4.0.0", "2.13", Kind.RAFT),
        ("3.9.1", "2.13", Kind.ZOOKEEPER),
        ("2.8.2", "2.13", Kind.ZOOKEEPER),
        ("2.1.1", "2.12", Kind.ZOOKEEPER),
        ("0.11.0.3", "2.12", Kind.ZOOKEEPER),
        ("0.10.2.2", "2.12", Kind.ZOOKEEPER),
    ],
)
def test_a_release_has_the_row_of_the_last_change_before_it(version: str, scala: str, quorum: Kind) -> None:
    assert (release(version).scala, release(version).quorum) == (scala, quorum)


def test_zookeepers_that_cannot_resolve_an_address_are_replaced_and_others_are_not() -> None:
    assert release("2.1.1").profiles == "old-broker,zookeeper"
    assert release("2.8.2").profiles == "old-broker"


@pytest.mark.parametrize(("brokers", "replicas", "insync"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_what_is_replicated_follows_from_the_number_of_brokers(brokers: int, replicas: int, insync: int) -> None:
    found = expand(brokers)
    names = ("default", "offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    assert {found[f"{name}.replication.factor"] for name in names} == {str(replicas)}
    assert {found[name] for name in ("min.insync.replicas", *(f"{name}.min.isr" for name in names[2:]))} == {str(insync)}
    assert found["process.roles"] == "broker,controller"


def test_what_is_too_old_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"Kafka 0\.10\.0\.1 cannot be run here: 0\.10\.2 is the oldest"):
        release("0.10.0.1")


@pytest.mark.parametrize("backend", [DockerCluster, VagrantCluster])
def test_a_backend_that_has_no_zookeeper_refuses_releases_that_need_one_by_name(backend: type[DockerCluster | VagrantCluster]) -> None:
    with pytest.raises(ValueError, match=r"Kafka 4\.0 or newer, not .*2\.8\.2: such brokers run on the local backend"):
        backend(version="2.8.2")


def test_an_image_of_the_users_own_may_have_any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert DockerCluster(version="2.8.2", image="some/kafka:1").image == "some/kafka:1"
    monkeypatch.setenv("KAFKA_DOCKER_IMAGE", "another/kafka:1")
    assert DockerCluster().image == "another/kafka:1"
    assert DockerCluster(image="some/kafka:1").image == "some/kafka:1"
