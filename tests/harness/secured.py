"""What every backend's secured cluster has to do, for the backends' own tests. The client is this project's."""

from __future__ import annotations

import ssl

import pytest

from integration.cluster import Cluster
from integration.java.client import java_consume
from integration.security.login import login, trusting
from integration.security.settings import Security
from pykafka4 import Consumer, Producer
from pykafka4.errors import KafkaError

__all__ = ["SECURITY", "certificate_fits", "certificate_is_for_another", "served_and_refused"]

ODD = 'wonder"l\\and; ü'  # all that a properties file, a shell or a login module might change
SECURITY = Security(users={"alice": ODD, "bob": "bob-secret"}, authorizer=True, super_users=["alice"])


def certificate_fits(cluster: Cluster, address: tuple[str, int]) -> None:
    """A client that checks the broker's certificate comes in there, and one without TLS does not."""
    login(address, trusting(cluster.access.authority), "PLAIN", "alice", ODD)
    with pytest.raises((OSError, TimeoutError)):
        login(address, None, "PLAIN", "alice", ODD, timeout=5)


def certificate_is_for_another(cluster: Cluster, address: tuple[str, int]) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        login(address, trusting(cluster.access.authority), "PLAIN", "alice", ODD)


def served_and_refused(cluster: Cluster, topic: str) -> None:
    """By its options a user writes and reads, Java's too; another user may not until it is granted."""
    cluster.create_topic(topic, partitions=1)
    with Producer(**cluster.client) as producer:
        producer.send(topic, b"value").result(60)
    assert [record.value for record in java_consume(cluster.bootstrap, topic, properties=cluster.java)] == [b"value"]
    bob = {"bootstrap_servers": cluster.bootstrap, **cluster.client_security("bob")}
    with Producer(**bob) as producer, pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        producer.send(topic, b"forbidden").result(60)
    cluster.access.grant("bob", "read", "topic", topic)
    with Consumer(**bob, group_id=None, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        assert [record.value for record in consumer.poll(timeout=60)] == [b"value"]
