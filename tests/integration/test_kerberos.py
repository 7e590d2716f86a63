"""GSSAPI with a KDC and brokers: who has a ticket comes in; who has none is told so by the first call, with the cause and the way out."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from integration.local.cluster import LocalCluster
from integration.security.kerberos import Realm
from integration.security.settings import Kerberos, Protocol, Security
from integration.waiting import until
from integration.workload.load import Load, judge
from pykafka4 import AuthenticationError, Client, Consumer, Producer
from pykafka4.net.kerberos import Kerberos as Tickets
from tests.integration.first_use import SOON_S, by_lookup, by_poll, by_record, raised, refusal, works

pytestmark = [pytest.mark.kerberos, pytest.mark.backend("local")]

LONG_S = 60.0
PARTITIONS = 6
SESSION_MS = 5_000  # after which a connection has to authenticate again
HOSTS = ("localhost", "127.0.0.1")  # what clients call the brokers, in turn
SERVICES = [f"kafka/{host}" for host in HOSTS]


@pytest.fixture(scope="module")
def realm() -> Iterator[Realm]:
    """A KDC that this process and the brokers know, with the user alice."""
    with Realm() as found, pytest.MonkeyPatch.context() as patch:
        for name, value in found.environment.items():
            patch.setenv(name, value)
        patch.setenv("KRB5CCNAME", str(found.folder / "nobody's"))
        yield found


@pytest.fixture(scope="module")
def alice(realm: Realm) -> Path:
    """Her keytab."""
    return realm.add("alice")


@pytest.fixture(scope="module")
def service(realm: Realm) -> Path:
    """The keytab of all brokers."""
    return realm.add(*SERVICES)


def demanding(realm: Realm, service: Path, protocol: Protocol, reauthentication_ms: int | None = None) -> Security:
    kerberos = Kerberos(realm.name, realm.config, service)
    return Security(protocol, mechanisms=("GSSAPI",), kerberos=kerberos, reauthentication_ms=reauthentication_ms)


def named(node: int, real: tuple[str, int]) -> tuple[str, int]:
    return HOSTS[node % len(HOSTS)], real[1]


@pytest.fixture(scope="module")
def strict(realm: Realm, service: Path) -> Iterator[LocalCluster]:
    """Three brokers under two host names, with TLS; an authentication is valid for five seconds."""
    with LocalCluster(advertised=named, security=demanding(realm, service, "SASL_SSL", SESSION_MS)) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def plain(realm: Realm, service: Path) -> Iterator[LocalCluster]:
    """One broker without TLS."""
    with LocalCluster(1, advertised=named, security=demanding(realm, service, "SASL_PLAINTEXT")) as brokers:
        yield brokers


@pytest.fixture
def ticket(realm: Realm, alice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default cache, with a ticket of alice."""
    cache = tmp_path / "cache"
    realm.log_in(cache, alice, "alice")
    monkeypatch.setenv("KRB5CCNAME", str(cache))
    return cache


def keyed(cluster: LocalCluster, keytab: Path) -> dict[str, Any]:
    return {**cluster.client, "sasl_kerberos_keytab": str(keytab)}


def passes(options: dict[str, Any], topic: str) -> None:
    """A record goes in and comes out."""
    with Producer(**options) as producer, Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
        sent = {number: producer.send(topic, b"x", partition=number) for number in range(PARTITIONS)}
        for delivery in sent.values():
            delivery.result(LONG_S)
        consumer.subscribe([topic])
        read: set[int] = set()
        until(lambda: read.update(record.partition for record in consumer.poll(1)) or len(read) == PARTITIONS, LONG_S, "the records")


# ---- who comes in


@pytest.mark.parametrize("which", ["strict", "plain"])
def test_with_a_keytab(request: pytest.FixtureRequest, which: str, alice: Path, topic: str) -> None:
    cluster: LocalCluster = request.getfixturevalue(which)
    cluster.create_topic(topic, PARTITIONS)
    passes(keyed(cluster, alice), topic)


@pytest.mark.parametrize("which", ["strict", "plain"])
def test_with_a_ticket_of_the_default_cache(request: pytest.FixtureRequest, which: str, ticket: Path, topic: str) -> None:
    cluster: LocalCluster = request.getfixturevalue(which)
    cluster.create_topic(topic, PARTITIONS)
    passes(cluster.client, topic)


def test_the_principal_chooses_a_key_of_the_keytab(realm: Realm, plain: LocalCluster, topic: str) -> None:
    keytab = realm.add("bob", "carol")
    plain.create_topic(topic, PARTITIONS)
    passes({**keyed(plain, keytab), "sasl_kerberos_principal": realm.principal("carol")}, topic)


# ---- who does not


USES = [by_record, by_poll, by_lookup]


def refused(options: dict[str, Any], topic: str, *words: str, use: Any = by_lookup) -> None:
    """The error of the first use comes soon, and names broker, mechanism, cause and way out."""
    refusal(options, topic, "SASL GSSAPI", *words, use=use)


@pytest.mark.parametrize("use", USES)
def test_no_ticket(plain: LocalCluster, topic: str, use: Any) -> None:
    refused(plain.client, topic, "no ticket for kafka/127.0.0.1", "No Kerberos credentials available", "run `kinit`", use=use)


def test_a_ticket_of_somebody_else(plain: LocalCluster, ticket: Path, topic: str) -> None:
    options = {**plain.client, "sasl_kerberos_principal": "bob@PYKAFKA4.TEST"}
    refused(options, topic, "Can't find client principal bob@PYKAFKA4.TEST in cache collection", "run `kinit`")


def test_an_expired_ticket_and_a_new_one(realm: Realm, plain: LocalCluster, alice: Path, ticket: Path, topic: str) -> None:
    realm.log_in(ticket, alice, "alice", "1s")
    over = time.time() + 2  # the library believes a ticket for the whole of its last second
    until(lambda: time.time() > over and realm.has_expired(ticket), SOON_S, "the ticket to expire")
    refused(plain.client, topic, "Ticket expired", "run `kinit`")
    with Client(**plain.client) as client:
        assert isinstance(raised(lambda: client.refresh_metadata([], timeout=SOON_S)), AuthenticationError)
        realm.log_in(ticket, alice, "alice")
        until(lambda: works(client), LONG_S, "the client to work with the new ticket")


def test_a_keytab_that_is_not_there(plain: LocalCluster, topic: str) -> None:
    refused(keyed(plain, Path("/nowhere/alice.keytab")), topic, "sasl_kerberos_keytab='/nowhere/alice.keytab'", "klist -k")


def test_a_keytab_without_a_key_of_the_principal(plain: LocalCluster, alice: Path, topic: str) -> None:
    refused({**keyed(plain, alice), "sasl_kerberos_principal": "dave"}, topic, "has a key of dave", "klist -k")


def test_a_key_that_has_been_replaced(realm: Realm, plain: LocalCluster, topic: str) -> None:
    keytab = realm.add("erin")
    realm.administer("cpw -randkey erin")
    refused(keyed(plain, keytab), topic, "the key in the keytab is not the one that the KDC has")


@pytest.mark.parametrize("use", USES)
def test_a_wrong_service_name(plain: LocalCluster, alice: Path, topic: str, use: Any) -> None:
    options = {**keyed(plain, alice), "sasl_kerberos_service_name": "cafka"}
    words = "Server cafka/127.0.0.1@PYKAFKA4.TEST not found in Kerberos database", "check sasl_kerberos_service_name"
    refused(options, topic, *words, use=use)


@pytest.mark.parametrize("use", USES)
def test_no_kdc_and_then_one(realm: Realm, plain: LocalCluster, topic: str, use: Any) -> None:
    options = keyed(plain, realm.add(f"frank-{use.__name__}"))
    realm.stop()
    try:
        refused(options, topic, "Cannot contact any KDC for realm 'PYKAFKA4.TEST'", "krb5.conf", use=use)
        with Client(**options) as client:
            assert not works(client)
            realm.start()
            until(lambda: works(client), LONG_S, "the client to work with a KDC")
    finally:
        if not realm.listens():
            realm.start()


def test_a_broker_whose_key_is_not_that_of_the_kdc(realm: Realm, plain: LocalCluster, service: Path, topic: str) -> None:
    """The KDC gets a new key for the brokers before they do."""
    realm.administer(f"cpw -randkey {' '.join(SERVICES[1:])}")
    options = keyed(plain, realm.add("grace"))
    try:
        refused(options, topic, "the broker refused the credentials", "broker's keytab has the present key of kafka/127.0.0.1")
    finally:
        realm.export(service, *SERVICES[1:])
    with Client(**options) as client:
        until(lambda: works(client), LONG_S, "the client to work with the new key")


# ---- while it runs


def test_authentication_is_repeated_under_load(
    realm: Realm, strict: LocalCluster, alice: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions of five seconds, for twenty-five; in the middle the KDC is gone for a while: tickets are kept. No record notices."""
    strict.create_topic(topic, PARTITIONS)
    began = time.monotonic()
    ends = began + 5 * SESSION_MS / 1000
    read = 0
    hosts: list[str] = []
    make = Tickets.mechanism

    def counting(self: Tickets, host: str) -> Any:
        hosts.append(host)
        return make(self, host)

    monkeypatch.setattr(Tickets, "mechanism", counting)
    options = keyed(strict, alice)
    with Producer(**options) as producer, Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        load = Load(producer, topic, 2_000, lambda sent: time.monotonic() > ends)
        load.start()
        try:
            until(lambda: all(load.last_ack), LONG_S, "an acknowledgement from every partition")
            read += len(consumer.poll(LONG_S))
            realm.stop()
            while time.monotonic() < ends:
                read += len(consumer.poll(0.2))
        finally:
            realm.start()
        load.join(LONG_S)
        producer.flush(LONG_S)
        deadline = time.monotonic() + LONG_S
        while read < load.sent and time.monotonic() < deadline:
            read += len(consumer.poll(0.2))
    verdict = judge(strict, topic, load)
    assert verdict.complaints() == []
    assert len(hosts) >= 3 * 2 * len(strict.nodes)  # of either client, at each broker
    assert {re.sub(r":\d+", "", host) for host in hosts} == set(HOSTS)
    assert read == load.sent


def test_a_ticket_that_expires_under_load(realm: Realm, strict: LocalCluster, topic: str) -> None:
    """The KDC gives tickets of ten seconds, for half a minute: with a keytab the client gets the next ones in time."""
    keytab = realm.add("heidi")
    realm.administer("modprinc -maxlife 10s heidi")
    strict.create_topic(topic, PARTITIONS)
    ends = time.monotonic() + 30
    with Producer(**keyed(strict, keytab)) as producer:
        load = Load(producer, topic, 1_000, lambda sent: time.monotonic() > ends)
        load.start()
        load.join(LONG_S + 30)
        producer.flush(LONG_S)
    assert judge(strict, topic, load).complaints() == []
