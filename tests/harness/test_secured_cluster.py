"""Secured brokers: whoever may come in does, everybody else is refused, and faults change nothing about it.

The client is librdkafka or Java's, where it is not the harness's own login.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from integration.backends import backend, proxied
from integration.cluster import Cluster
from integration.faults.proxied import Proxied
from integration.java.client import JavaRecord, java_consume, java_produce
from integration.security.certificates import Authority, Certificate, self_signed
from integration.security.credentials import unsecured_token
from integration.security.login import Refused, login, trusting
from integration.security.options import for_java, for_librdkafka
from integration.security.settings import MECHANISMS, Mechanism, Security
from integration.waiting import until

pytestmark = pytest.mark.cluster

USERS = {"alice": 'wonder"l\\and; ü', "bob": "bob-secret", "root": "root-secret"}
HOUR_MS = 3_600_000
PROOF_S = 20.0  # seconds for a client to have something to show


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """Three brokers behind proxies, which demand TLS and a user, and forbid everything but to root."""
    security = Security(users=USERS, authorizer=True, super_users=["root"], reauthentication_ms=HOUR_MS)
    with proxied(request.config.getoption("--cluster"))(security=security) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def mutual(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One broker, to which a client's certificate says who it is."""
    kind = backend(request.config.getoption("--cluster"))
    with kind(brokers=1, security=Security("SSL", client_auth="required", authorizer=True)) as brokers:
        yield brokers


def token(_config: str) -> tuple[str, float]:
    return unsecured_token("root"), 4e9


def librdkafka(cluster: Cluster, options: dict[str, Any]) -> dict[str, Any]:
    told = {"bootstrap.servers": cluster.bootstrap, "log_level": 0, **for_librdkafka(options)}
    return {**told, "oauth_cb": token} if options.get("sasl_mechanism") == "OAUTHBEARER" else told


def outcome(cluster: Cluster, options: dict[str, Any], topic: str) -> int:
    """What comes of one record of a client with these options: 0, or why it is not written, by librdkafka's number."""
    told: list[int] = []
    errors: list[int] = []
    settings = {**librdkafka(cluster, options), "error_cb": lambda error: errors.append(error.code()), "message.timeout.ms": 60_000}
    producer = Producer(settings)
    producer.produce(topic, b"value", partition=0, on_delivery=lambda error, _message: told.append(error.code() if error else 0))
    fatal = {KafkaError._AUTHENTICATION, KafkaError._SSL}

    def settled() -> bool:
        producer.poll(0.05)
        return bool(told or fatal & set(errors))

    until(settled, PROOF_S, lambda: f"an outcome; errors up to now: {errors}")
    producer.purge()
    producer.flush(5)
    return told[0] if told and told[0] != KafkaError._PURGE_QUEUE else next(code for code in errors if code in fatal)


def read(cluster: Cluster, options: dict[str, Any], topic: str) -> bytes:
    """The first record of the topic."""
    consumer = Consumer(
        {**librdkafka(cluster, options), "group.id": "unused", "enable.auto.commit": False, "error_cb": lambda _error: None}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = until(lambda: consumer.poll(0.1), PROOF_S, "a record")
        if message.error():
            raise KafkaException(message.error())
        return bytes(message.value())
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_writes_and_reads_by_every_mechanism(cluster: Proxied, topic: str, mechanism: Mechanism) -> None:
    cluster.create_topic(topic, partitions=1)
    options = cluster.client_security("root", mechanism)
    assert outcome(cluster, options, topic) == 0
    assert read(cluster, options, topic) == b"value"
    assert [record.value for record in cluster.log(topic)[0]] == [b"value"], "the judge needs no password"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_javas_client_comes_in_with_the_same_options(cluster: Proxied, topic: str, mechanism: Mechanism) -> None:
    cluster.create_topic(topic, partitions=1)
    properties = for_java(cluster.client_security("root", mechanism), subject="root")
    java_produce(cluster.bootstrap, topic, [JavaRecord(value=b"from Java")], properties=properties)
    assert [record.value for record in java_consume(cluster.bootstrap, topic, properties=properties)] == [b"from Java"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_a_wrong_password_and_an_unknown_user_are_refused(cluster: Proxied, user: str, mechanism: Mechanism) -> None:
    wrong = unsecured_token(user, 1, issued=1000) if mechanism == "OAUTHBEARER" else "wrong"
    with pytest.raises(Refused) as refused:
        cluster.access.login(1, user, mechanism, wrong)
    assert refused.value.code == KafkaError.SASL_AUTHENTICATION_FAILED
    if mechanism == "SCRAM-SHA-256":
        assert outcome(cluster, cluster.client_security(user, mechanism, wrong), "any") == KafkaError._AUTHENTICATION


def test_a_session_ends_with_the_brokers_limit_or_with_the_token(cluster: Proxied) -> None:
    assert cluster.access.login(1, "alice", "PLAIN", USERS["alice"]).lifetime_ms == HOUR_MS
    assert 0 < cluster.access.login(1, "alice", "OAUTHBEARER", unsecured_token("alice", 60)).lifetime_ms <= 60_000


def test_users_come_change_and_go_while_the_brokers_run(cluster: Proxied) -> None:
    access = cluster.access
    access.set_password("carol", "SCRAM-SHA-512", "one")
    access.set_password("carol", "SCRAM-SHA-512", "two")
    assert cluster.client_security("carol", "SCRAM-SHA-512")["sasl_password"] == "two"
    assert [access.admits(node, "carol", "SCRAM-SHA-512", word) for node in cluster.nodes for word in ("one", "two")] == [False, True] * 3
    assert not access.admits(1, "carol", "SCRAM-SHA-256", "two")
    access.drop_user("carol")
    assert not any(access.admits(node, "carol", "SCRAM-SHA-512", "two") for node in cluster.nodes)
    with pytest.raises(ValueError, match="carol has no password"):
        access.drop_user("carol")
    with pytest.raises(ValueError, match="carol has no password of SCRAM-SHA-512; known are alice by"):
        cluster.client_security("carol", "SCRAM-SHA-512")
    with pytest.raises(ValueError, match="PLAIN: only passwords of SCRAM"):
        access.set_password("alice", "PLAIN", "new")


def test_what_is_forbidden_is_allowed_by_a_grant_until_it_is_revoked(cluster: Proxied, topic: str) -> None:
    cluster.create_topic(topic, partitions=1)
    options = cluster.client_security("bob")
    assert outcome(cluster, options, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    cluster.access.grant("bob", "write", "topic", topic)
    assert outcome(cluster, options, topic) == 0
    with pytest.raises(KafkaException, match=r"(TOPIC|GROUP)_AUTHORIZATION_FAILED"):
        read(cluster, options, topic)
    cluster.access.grant("bob", "read", "group", "unused")
    cluster.access.grant("bob", "read", "topic", topic[:10], pattern="prefixed")
    assert read(cluster, options, topic) == b"value"
    cluster.access.revoke("bob", "write", "topic", topic)
    assert outcome(cluster, options, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    cluster.access.revoke("bob", "read", "topic", topic[:10], pattern="prefixed")


def trusted(cluster: Cluster, node: int) -> None:
    """Be served, as a client that checks the broker's certificate."""
    login(cluster.address(node), trusting(cluster.access.authority), "PLAIN", "alice", USERS["alice"])


WRONG: dict[str, tuple[Callable[[Authority], Certificate], str]] = {
    "wrong host": (Authority.wrong_host, "not valid for '127.0.0.1'"),
    "expired": (Authority.expired, "has expired"),
    "not yet valid": (Authority.not_yet_valid, "not yet valid"),
    "self-signed": (lambda _authority: self_signed(), "self-signed"),
    "of another authority": (lambda _authority: Authority().server(), "unable to get local issuer|self-signed"),
}


def test_a_certificate_is_replaced_while_the_broker_runs(cluster: Proxied) -> None:
    access = cluster.access
    trusted(cluster, 2)
    for made, reason in WRONG.values():
        access.replace_certificate(2, made(access.authority))
        with pytest.raises(ssl.SSLCertVerificationError, match=reason):
            trusted(cluster, 2)
        trusted(cluster, 1)
    access.replace_certificate(2, access.authority.chained())
    trusted(cluster, 2)


def test_users_and_certificates_outlive_faults_and_restarts(cluster: Proxied) -> None:
    access = cluster.access
    cluster.kill(1)
    access.set_password("dave", "SCRAM-SHA-256", "told to two of three")
    cluster.freeze(2)
    cluster.thaw(2)
    cluster.start(1)
    assert [access.admits(node, "dave", "SCRAM-SHA-256", "told to two of three") for node in cluster.nodes] == [True] * 3
    cluster.restart_with(3, access.authority.expired())
    with pytest.raises(ssl.SSLCertVerificationError, match="has expired"):
        trusted(cluster, 3)
    access.replace_certificate(3, access.certificate(3))
    cluster.restart(3)
    trusted(cluster, 3)
    cluster.wait_full_isr()


def test_a_client_shows_a_certificate_that_says_who_it_is(mutual: Cluster, topic: str) -> None:
    mutual.create_topic(topic, partitions=1)
    options = mutual.client_security("alice")
    assert outcome(mutual, options, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    mutual.access.grant("alice", "all", "topic", topic)
    mutual.access.grant("alice", "read", "group", "unused")  # librdkafka looks for the group's coordinator, whether it is used or not
    assert outcome(mutual, options, topic) == 0
    assert read(mutual, options, topic) == b"value"
    assert outcome(mutual, mutual.client_security("bob"), topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_authorities_of_clients_are_replaced_while_the_brokers_run(mutual: Cluster) -> None:
    access, old, new = mutual.access, mutual.access.trusted[0], Authority()
    shown = {by: access.client_files("alice", by.client("alice")) for by in (old, new)}
    try:
        for trusted in ((old, new), (new,), (old,)):
            access.trust(*trusted)
            assert {by: access.believes(1, files) for by, files in shown.items()} == {by: by in trusted for by in shown}
        access.trust(new)
        mutual.restart(1)
        assert {by: access.believes(1, files) for by, files in shown.items()} == {old: False, new: True}
    finally:
        access.trust(old)


@pytest.mark.parametrize("shown", ["none", "expired", "of another authority"])
def test_a_client_without_a_right_certificate_is_refused(mutual: Cluster, shown: str) -> None:
    access = mutual.access
    made = {"expired": access.authority.expired_client, "of another authority": Authority().client}
    files = access.client_files("alice", made[shown]("alice")) if shown in made else None
    with pytest.raises((ssl.SSLError, ConnectionError)):
        login(mutual.address(1), trusting(access.authority, files))
    login(mutual.address(1), trusting(access.authority, access.client_files("alice")))
