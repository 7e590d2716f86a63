"""Who may not come in is told so by the first call, soon and by name; who may come in again works again; nothing is lost meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from integration.backends import proxied
from integration.faults.proxied import Proxied
from integration.java.client import JavaRecord, java_produce
from integration.local.cluster import LocalCluster
from integration.security.certificates import Authority, Certificate, self_signed
from integration.security.credentials import unsecured_token
from integration.security.options import for_java
from integration.security.settings import Security
from integration.waiting import Deadline, until
from integration.workload.load import Load, judge
from pykafka4 import AuthenticationError, Client, Consumer, DeliveryFailed, Producer
from tests.integration.first_use import SOON_S, by_admin, by_ends, by_lookup, by_poll, by_record, by_refresh, raised, refusal, works
from tests.secrets.outlets import watching
from tests.secrets.planted import Planted

pytestmark = [pytest.mark.cluster, pytest.mark.backend("local")]

LONG_S = 60.0
PARTITIONS = 6
SESSION_MS = 5_000  # after which a connection has to authenticate again
TOKEN_SECONDS = 8.0  # that a token is valid
SECRET = "not-the-password"


@pytest.fixture(scope="module")
def mixed() -> Iterator[LocalCluster]:
    """One broker that takes SCRAM and tokens over TLS, but no PLAIN."""
    with LocalCluster(1, security=Security(mechanisms=("SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"))) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def mutual() -> Iterator[LocalCluster]:
    """One broker that wants a certificate of its clients."""
    with LocalCluster(1, security=Security("SSL", client_auth="required")) as brokers:
        yield brokers


@pytest.fixture(scope="module")
def strict() -> Iterator[Proxied]:
    """Three brokers behind proxies, where an authentication is valid for five seconds."""
    with proxied("local")(security=Security(reauthentication_ms=SESSION_MS)) as brokers:
        yield brokers


LENGTHY = pytest.mark.lengthy
USES = [by_record, *(pytest.param(use, marks=LENGTHY) for use in (by_poll, by_lookup, by_refresh, by_admin, by_ends))]
SLOW_USES = [by_record, pytest.param(by_poll, marks=LENGTHY)]  # where a refusal is a guess, which takes seconds to believe


def refused(cluster: LocalCluster, options: dict[str, Any], topic: str, *words: str, use: Any = by_lookup) -> AuthenticationError:
    """The error of the first use, which came soon, names the broker and shows no secret."""
    error = refusal(options, topic, *words, use=use)
    assert SECRET not in f"{error!r} {error.__cause__!r} {error.__context__!r}"
    return error


# ---- names and passwords


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password(mixed: LocalCluster, topic: str, mechanism: Any, use: Any) -> None:
    options = {**mixed.client, "sasl_mechanism": mechanism, "sasl_password": SECRET}
    refused(mixed, options, topic, f"SASL {mechanism}", "the broker refused the credentials", "check", use=use)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_no_password_comes_out(mixed: LocalCluster, topic: str, mechanism: Any, capfd: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the right one nor a wrong one: not in a log at DEBUG, an error, a status, a `repr`, a pickle."""
    planted = Planted()
    planted.know("password", mixed.client["sasl_password"])
    wrong = planted.plant("wrong password")
    with watching(planted, capfd, monkeypatch) as outlets:
        options = {**mixed.client, "sasl_mechanism": mechanism}
        with Producer(**options) as producer, Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
            producer.send(topic, b"x").result(LONG_S)
            consumer.subscribe([topic])
            until(lambda: consumer.poll(1), LONG_S, "the record")
            for handle in (producer, consumer):
                outlets.add("status", handle.status())
                assert outlets.objects("a client", handle) > 20
        outlets.error("an error", refused(mixed, {**options, "sasl_password": wrong}, topic, "the broker refused the credentials"))
        assert any(where.startswith("log pykafka4") for where, _ in outlets.texts)


def test_an_unknown_user(mixed: LocalCluster, topic: str) -> None:
    refused(mixed, {**mixed.client, "sasl_username": "mallory"}, topic, "the broker refused the credentials")


@pytest.mark.parametrize("use", USES)
def test_an_unknown_mechanism_names_those_that_the_broker_offers(mixed: LocalCluster, topic: str, use: Any) -> None:
    options = {**mixed.client, "sasl_mechanism": "PLAIN"}
    refused(mixed, options, topic, "SASL PLAIN", "it offers OAUTHBEARER, SCRAM-SHA-256, SCRAM-SHA-512", use=use)


def bearer(cluster: LocalCluster, token: Callable[[], Any]) -> dict[str, Any]:
    return {
        "bootstrap_servers": cluster.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": cluster.client["ssl_cafile"],
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token": token,
    }


def test_a_token_lets_the_client_in(mixed: LocalCluster, topic: str) -> None:
    with Producer(**bearer(mixed, lambda: unsecured_token("alice"))) as producer:
        assert producer.send(topic, b"x").result(LONG_S).offset == 0


def test_a_token_that_the_broker_finds_expired(mixed: LocalCluster, topic: str) -> None:
    hour_ago = time.time() - 3600
    options = bearer(mixed, lambda: unsecured_token("alice", 60, issued=hour_ago))
    refused(mixed, options, topic, "SASL OAUTHBEARER", "the token was refused", "expiry")


def test_a_token_that_the_client_knows_to_be_expired(mixed: LocalCluster, topic: str) -> None:
    options = bearer(mixed, lambda: (unsecured_token("alice"), time.time() - 60))
    refused(mixed, options, topic, "sasl_oauth_token returned a token that expired 60 s ago")


@pytest.mark.parametrize("use", SLOW_USES)
def test_a_callable_that_raises(mixed: LocalCluster, topic: str, use: Any) -> None:
    def fail() -> str:
        raise OSError("the vault is sealed")

    error = refused(mixed, bearer(mixed, fail), topic, "the application's callable for the credentials raised OSError", use=use)
    assert error.__cause__ is error.__context__ is None


@pytest.mark.parametrize("use", SLOW_USES)
def test_a_callable_that_hangs(mixed: LocalCluster, topic: str, use: Any) -> None:
    released = threading.Event()

    def hang() -> str:
        released.wait(LONG_S)
        return "x"

    try:
        refused(mixed, bearer(mixed, hang), topic, "the application's callable for the credentials has not returned", use=use)
    finally:
        released.set()


def test_kafka_takes_passwords_as_they_are_without_saslprep(mixed: LocalCluster, topic: str) -> None:
    """Java's client, which is Kafka's own code, is let in with the very characters, too, not with what RFC 4013 makes of them."""
    password, prepared = "\u2168\u00a0hidden", "IX hidden"
    mixed.access.set_password("roman", "SCRAM-SHA-512", password)
    options = {**mixed.client, "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "roman", "sasl_password": password}
    with Producer(**options) as producer:
        assert producer.send(topic, b"x").result(LONG_S).offset == 0
    properties = {**for_java(options), "delivery.timeout.ms": "30000", "request.timeout.ms": "10000"}
    assert len(java_produce(mixed.bootstrap, topic, [JavaRecord(b"k", b"y")], properties=properties)) == 1
    error = refused(mixed, {**options, "sasl_password": prepared}, topic)
    assert "SASLprep" not in str(error), "it would not change this one"
    text = "the password has characters that SASLprep changes: a server that applies it needs the prepared form"
    error = refused(mixed, {**options, "sasl_password": f"{password}!"}, topic, text)
    assert "hidden" not in str(error)


# ---- protocols that do not match


@pytest.mark.parametrize("use", USES)
def test_tls_at_a_port_that_does_not_speak_it(mixed: LocalCluster, topic: str, use: Any) -> None:
    host, port = mixed.admin_address(1)
    options = {**mixed.client, "bootstrap_servers": f"{host}:{port}"}
    refused(mixed, options, topic, "TLS", "does not speak TLS", use=use)


@pytest.mark.parametrize("use", USES)
def test_plain_text_at_a_port_that_speaks_tls(mixed: LocalCluster, topic: str, use: Any) -> None:
    refused(mixed, {"bootstrap_servers": mixed.bootstrap}, topic, "TLS", "security_protocol", use=use)


@pytest.mark.parametrize("use", SLOW_USES)
def test_no_authentication_where_the_broker_demands_it(mixed: LocalCluster, topic: str, use: Any) -> None:
    options = {"bootstrap_servers": mixed.bootstrap, "security_protocol": "SSL", "ssl_cafile": mixed.client["ssl_cafile"]}
    refused(mixed, options, topic, "SASL", use=use)


def test_authentication_where_the_broker_has_none(mutual: LocalCluster, topic: str) -> None:
    options = {
        **mutual.client,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "alice",
        "sasl_password": SECRET,
    }
    refused(mutual, options, topic, "SASL PLAIN")


# ---- certificates


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda authority: authority.wrong_host(), "is for another"),
        (lambda authority: authority.expired(), "has expired"),
        (lambda authority: authority.not_yet_valid(), "not yet valid"),
        (lambda authority: self_signed("localhost", "127.0.0.1"), "self-signed"),
        (lambda authority: Authority().server(), "not trusted"),
    ],
    ids=["wrong host", "expired", "not yet valid", "self-signed", "another authority"],
)
def test_a_broker_with_a_wrong_certificate(mutual: LocalCluster, topic: str, make: Callable[[Authority], Certificate], says: str) -> None:
    access = mutual.access
    mutual.access.replace_certificate(1, make(access.authority))
    try:
        with Client(**mutual.client) as client:
            began = time.monotonic()
            error = raised(lambda: client.refresh_metadata([], timeout=SOON_S))
            assert time.monotonic() - began < SOON_S
            assert isinstance(error, AuthenticationError)
            assert says in str(error) or says in str(error.__cause__)
            assert mutual.bootstrap in str(error)
            access.replace_certificate(1, access.certificate())
            until(lambda: works(client), SOON_S, "the client to work with the right certificate")
    finally:
        access.replace_certificate(1, access.certificate())


@pytest.mark.parametrize("use", USES)
def test_no_certificate_where_the_broker_demands_one(mutual: LocalCluster, topic: str, use: Any) -> None:
    options = {name: value for name, value in mutual.client.items() if name not in ("ssl_certfile", "ssl_keyfile")}
    refused(mutual, options, topic, "ssl_certfile", use=use)


def test_a_certificate_of_another_authority(mutual: LocalCluster, topic: str) -> None:
    cert, key = mutual.access.client_files("alice", Authority().client("alice"))
    refused(mutual, {**mutual.client, "ssl_certfile": cert, "ssl_keyfile": key}, topic, "ssl_certfile")


# ---- mended while the client runs


def test_a_refused_client_works_once_its_password_is_right(mixed: LocalCluster, topic: str) -> None:
    password = [SECRET]
    options = {**mixed.client, "sasl_password": lambda: password[0]}
    right = mixed.client["sasl_password"]
    with Producer(**options) as producer, Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        assert isinstance(producer.send(topic, b"0").exception(SOON_S), DeliveryFailed)
        assert isinstance(raised(lambda: consumer.poll(SOON_S)), AuthenticationError)
        password[0] = right
        until(lambda: producer.send(topic, b"1").exception(SOON_S) is None, SOON_S, "a record to be acknowledged")
        got: list[bytes] = []

        def read() -> bool:
            try:
                got.extend(record.value or b"" for record in consumer.poll(1))
            except AuthenticationError:  # one that was on its way already
                return False
            return bool(got)

        until(read, LONG_S, "the record")
        assert got == [b"1"]


@LENGTHY
def test_authentication_is_repeated_under_load(strict: Proxied, topic: str) -> None:
    """Sessions of five seconds, for twenty-five: each connection authenticates itself several times, and no record notices.

    A broker that has no time to read the next authentication ends the session, so on a busy machine a few connections are made again.
    """
    strict.create_topic(topic, PARTITIONS)
    opened = -sum(proxy.counters.connections for proxy in strict.proxies.values())
    ends = time.monotonic() + 5 * SESSION_MS / 1000
    read = 0
    asked: list[float] = []
    right = strict.client["sasl_password"]

    def password() -> str:
        asked.append(time.monotonic())
        return str(right)

    options = {**strict.client, "sasl_password": password}
    with Producer(**options) as producer, Consumer(**options, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        load = Load(producer, topic, 2_000, lambda sent: time.monotonic() > ends)
        load.start()
        while time.monotonic() < ends:
            read += len(consumer.poll(0.2))
        load.join(LONG_S)
        producer.flush(LONG_S)
        deadline = time.monotonic() + LONG_S
        while read < load.sent and time.monotonic() < deadline:
            read += len(consumer.poll(0.2))
    verdict = judge(strict, topic, load)
    assert verdict.complaints() == []
    opened += sum(proxy.counters.connections for proxy in strict.proxies.values())
    assert len(asked) >= 2 * opened, "each would authenticate itself once if its session were not continued"
    assert read == load.sent


def test_a_password_is_changed_under_load(strict: Proxied, topic: str) -> None:
    """The user gets another password while every connection is cut: the client is refused for a while, and nothing is lost."""
    strict.create_topic(topic, PARTITIONS)
    options, stop = strict.client, threading.Event()
    mechanism, old = options["sasl_mechanism"], options["sasl_password"]
    password = [old]
    with Producer(**{**options, "sasl_password": lambda: password[0]}) as producer:
        load = Load(producer, topic, 1_000, lambda sent: stop.is_set())
        load.start()
        try:
            until(lambda: all(load.last_ack), LONG_S, "an acknowledgement from every partition")
            strict.access.set_password("alice", mechanism, "the-next-one")
            for node in strict.nodes:
                strict.proxies[node].drop_connections()
            until(lambda: "refused" in str(producer.status()), LONG_S, "the client to be refused")
            password[0] = "the-next-one"
            changed = time.monotonic()
            until(lambda: all(at > changed for at in load.last_ack), LONG_S, "an acknowledgement from every partition")
        finally:
            stop.set()
            strict.access.set_password("alice", mechanism, old)
        load.join(LONG_S)
        producer.flush(LONG_S)
    assert judge(strict, topic, load).complaints() == []


@LENGTHY
def test_a_password_and_tokens_are_changed_under_load(strict: Proxied, topic: str) -> None:
    """The producer's password changes twice while the consumer's tokens, which live eight seconds, take turns. Nobody cuts a connection:
    each authenticates itself again after five seconds at most, with what is right by then."""
    strict.create_topic(topic, PARTITIONS)
    options, stop, tokens = strict.client, threading.Event(), list[str]()
    mechanism, old = options["sasl_mechanism"], options["sasl_password"]
    password = [old]

    def token() -> tuple[str, float]:
        tokens.append(unsecured_token("alice", TOKEN_SECONDS))
        return tokens[-1], time.time() + TOKEN_SECONDS

    read: list[int] = []
    with (
        Producer(**{**options, "sasl_password": lambda: password[0]}) as producer,
        Consumer(**bearer(strict, token), group_id=topic, auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe([topic])
        load = Load(producer, topic, 1_000, lambda sent: stop.is_set())
        load.start()

        def read_on(enough: Callable[[], bool]) -> None:
            deadline = Deadline(LONG_S)
            while not enough():
                assert not deadline.passed(), (len(read), load.sent, consumer.status())
                read.extend(int(record.value) for record in consumer.poll(0.2))

        try:
            for word in ("the-next-one", "the-one-after"):
                strict.access.set_password("alice", mechanism, word)
                password[0] = word
                changed, used = Deadline(SESSION_MS / 1000), len(tokens)
                read_on(lambda changed=changed, used=used: changed.passed() and len(tokens) > used)  # type: ignore[misc]
                sent = load.sent
                read_on(lambda sent=sent: set(range(sent, sent + PARTITIONS)) <= set(read[-5_000:]))  # type: ignore[misc]
        finally:
            stop.set()
            strict.access.set_password("alice", mechanism, old)
            password[0] = old
        load.join(LONG_S)
        producer.flush(LONG_S)
        read_on(lambda: len(read) >= load.sent)
    assert judge(strict, topic, load).complaints() == []
    assert sorted(read) == list(range(load.sent))
    assert len(set(tokens)) >= 3
