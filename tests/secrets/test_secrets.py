"""No secret comes out of the client: not in a log at DEBUG, an error with its chain and locals, a `repr`, a status, a pickle.

Each test plants its own secrets, has them used, and puts everything that can be read into `outlets`; the fixture searches it at the end.
"""

from __future__ import annotations

import base64
import functools
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.inspection import inspect

pytest.importorskip("trustme", reason="makes certificates; pip install -e '.[test]'")

from pykafka4 import AuthenticationError, Client, Consumer, KafkaError, OidcToken, Producer, Token
from pykafka4.core.network import refusals
from pykafka4.core.producer.sender import Sender
from pykafka4.core.sasl.salted import Salted
from pykafka4.net import tls
from pykafka4.net.secure import SecureTransport
from pykafka4.options import security
from pykafka4.spark import partition_writer
from tests.net.net_helpers import SECONDS, serving, until
from tests.net.tls_peers import AUTHORITY, wrap
from tests.secrets.outlets import watching
from tests.secrets.planted import Planted
from tests.secrets.secret_world import World

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


@pytest.fixture
def world(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(security, "_warned", set())
    monkeypatch.setattr(tls, "_warned_of", set())
    monkeypatch.setattr(refusals, "DOUBT_S", 0.0)  # a guess is believed after three attempts: these tests are about words, not about time
    planted = Planted()
    with watching(planted, capfd, monkeypatch) as outlets:
        it = World(tmp_path, planted, outlets)
        try:
            yield it
        finally:
            it.close()


class Text(str):
    """A str of another class, which shows itself."""

    def __repr__(self) -> str:
        return f"Text({str(self)!r})"


def url(world: World, scheme: str, port: int) -> str:
    return f"{scheme}://{quote(world.proxy_user, safe='')}:{quote(world.proxy_word, safe='')}@127.0.0.1:{port}"


def look(world: World, *handles: Any) -> None:
    """Whatever handles show of themselves."""
    for handle in handles:
        outlets, name = world.outlets, type(handle).__name__
        outlets.add(f"{name}.status", handle.status())
        outlets.add(f"{name}.config", repr(getattr(handle, "config", None)))
        if hasattr(handle, "stats"):
            outlets.add(f"{name}.stats", handle.stats())
        assert outlets.objects(name, handle) > 20
    world.outlets.threads()


def fails(world: World, call: Callable[[], object], kinds: Any = KafkaError) -> Any:
    """The error of a call; the outlets get all of it."""
    with pytest.raises(kinds) as caught:
        call()
    world.outlets.error("an error", caught.value)
    return caught.value


def refused(world: World, options: dict[str, Any]) -> AuthenticationError:
    """By lookup and by record; what both clients show of themselves then."""
    with Client(**options) as client:
        error = fails(world, lambda: client.refresh_metadata(timeout=SECONDS))
        look(world, client)
    with Producer(**options, delivery_timeout_ms=SECONDS * 1000) as producer:
        found = producer.send("t", b"x").exception(SECONDS)
        world.outlets.error("a delivery", found)
        look(world, producer)
    assert isinstance(error, AuthenticationError), error
    return error


# -- success


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_who_is_let_in(world: World, mechanism: str, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With everything at once: a client's certificate, its encrypted key, a proxy, re-authentication."""
    if mechanism.startswith("SCRAM"):
        derive = Salted.derive

        def noted(*args: Any) -> Any:
            keys = derive(*args)
            world.planted.derive("client key", keys.client)
            world.planted.derive("server key", keys.server)
            return keys

        monkeypatch.setattr(Salted, "derive", noted)
    broker = world.broker(mechanism, lifetime_ms=1_000)
    options = world.options(broker, proxy_url=url(world, scheme, world.proxy(scheme).port))
    with (
        Client(**options) as client,
        Producer(client=client) as producer,
        Consumer(client=client, group_id="g", auto_offset_reset="earliest") as consumer,
    ):
        producer.send("t", b"x").result(SECONDS)
        consumer.subscribe(["t"])
        until(lambda: consumer.poll(0.1), "the record")
        before = broker.logins
        until(lambda: broker.logins > before, "authentication again")
        look(world, client, producer, consumer)
    assert broker.certificates[0]
    if mechanism.startswith("SCRAM"):
        for final in broker.received:
            world.planted.derive("proof", final.partition(b",p=")[2] or b"none of this kind")


FORMS = {
    "text": lambda secret: secret,
    "subclass": Text,
    "callable": lambda secret: lambda: secret,
    "partial": lambda secret: functools.partial(str, secret),
    "method": lambda secret: Text(secret).__str__,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_secret(world: World, form: str) -> None:
    broker, make = world.broker(), FORMS[form]
    options = world.options(broker, sasl_username=make(world.user), sasl_password=make(world.password), ssl_password=make(world.key_word))
    with Producer(**options) as producer:
        producer.send("t", b"x").result(SECONDS)
        look(world, producer)


def test_keys_in_files(world: World) -> None:
    """A key that others can read is warned of; one that is replaced by something else, too."""
    broker = world.broker()
    key = world.file("key.pem", world.open_key, mode=0o644)
    options = world.options(broker, ssl_key_pem=None, ssl_password=None, ssl_keyfile=key, ssl_cert_pem=None)
    options["ssl_certfile"] = world.file("cert.pem", world.certificate)
    with Client(**options) as client:
        client.refresh_metadata(timeout=SECONDS)
        world.file("key.pem", world.open_key.replace("\n", "\n!", 2))
        inspect(client).loop._transport._contexts.current()  # type: ignore[attr-defined]
        look(world, client)
    told = [text for where, text in world.outlets.texts if where.startswith("log pykafka4.tls")]
    assert any("can be read or changed by other users" in text for text in told)
    assert any("cannot be used now" in text for text in told)


# -- refusals


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_who_is_refused_with_words_that_repeat_the_secret(world: World, mechanism: str) -> None:
    broker = world.broker(mechanism)
    wrong = world.planted.plant("wrong password", "{}{}")
    others = {"sasl_oauth_token": lambda: wrong} if mechanism == "OAUTHBEARER" else {"sasl_password": wrong}
    error = refused(world, world.options(broker, **others))
    assert "refused" in str(error)
    assert broker.refusals


def test_a_mechanism_that_the_broker_lacks(world: World) -> None:
    broker = world.broker("SCRAM-SHA-256")
    assert "it offers SCRAM-SHA-256" in str(refused(world, world.options(broker, sasl_mechanism="PLAIN")))


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_a_proxy_that_refuses(world: World, scheme: str) -> None:
    broker, proxy = world.broker(), world.proxy(scheme)
    proxy.login = ("somebody", "else")
    error = refused(world, world.options(broker, proxy_url=url(world, scheme, proxy.port)))
    assert "it refuses the user name or the password" in str(error)


class Vault(Exception):
    """An application's error that says too much."""


def failing(secret: str) -> Callable[[], str]:
    def ask() -> str:
        hidden = f"curl --user admin:{secret}"
        try:
            raise ValueError(hidden)
        except ValueError as cause:
            error = Vault(f"cannot read {secret}", {"command": hidden})
            error.add_note(secret)
            raise error from cause

    return ask


@pytest.mark.parametrize("option", ["sasl_username", "sasl_password", "sasl_oauth_token"])
def test_a_callable_that_raises_with_the_secret_in_its_message(world: World, option: str) -> None:
    broker = world.broker("OAUTHBEARER" if option == "sasl_oauth_token" else "PLAIN")
    error = refused(world, world.options(broker, **{option: failing(world.password)}))
    assert f"raised Vault ({__file__}, line " in str(error)


@pytest.mark.parametrize("option", ["sasl_username", "sasl_password", "sasl_oauth_token"])
@pytest.mark.parametrize("make", [str.encode, lambda text: (text, text, text, text, text), lambda text: f"Bearer {text}\n\ud800"])
def test_a_callable_that_returns_something_else(world: World, option: str, make: Callable[[str], Any]) -> None:
    broker = world.broker("OAUTHBEARER" if option == "sasl_oauth_token" else "PLAIN")
    refused(world, world.options(broker, **{option: lambda: make(world.password)}))


def test_a_token_that_has_expired(world: World) -> None:
    broker = world.broker("OAUTHBEARER")
    error = refused(world, world.options(broker, sasl_oauth_token=lambda: (world.token, 1_000.0, world.user, {"pool": "x"})))
    assert "returned a token that expired" in str(error)


# -- what is wrong with an option is said without it


def certificates(world: World) -> dict[str, dict[str, Any]]:
    """Options of TLS with which no context can be made."""
    wrong = world.planted.plant("wrong key password")
    damaged = world.key.replace("\n", "\n!", 2)
    return {
        "the key cannot be decrypted": {"ssl_password": wrong},
        "cannot be decrypted": {"ssl_password": "\udc80" + wrong},
        "set ssl_password": {"ssl_password": None},
        "ssl_password raised Vault": {"ssl_password": failing(wrong)},
        "ssl_password returned bytes": {"ssl_password": wrong.encode},
        "has more than 1,024 bytes": {"ssl_password": wrong * 100},
        "is damaged": {"ssl_key_pem": damaged},
        "no key in PEM format": {"ssl_key_pem": wrong},
        "no certificate in PEM format": {"ssl_cert_pem": wrong},
        "ssl_ca_pem: no certificate": {"ssl_ca_pem": world.open_key},
        "no key in PEM format; PEM begins": {"ssl_key_pem": None, "ssl_keyfile": world.file("odd", wrong)},
        "is of type bytes": {"ssl_key_pem": world.open_key.encode()},
    }


@pytest.mark.parametrize("number", range(12))
def test_certificates_and_keys_that_cannot_be_used(world: World, number: int) -> None:
    says, others = list(certificates(world).items())[number]
    options = world.options(world.broker(), **others)
    for kind in (Client, Producer, Consumer):
        assert says in str(fails(world, lambda kind=kind: kind(**options)))


def wrong_options(world: World, right: dict[str, Any]) -> list[dict[str, Any]]:
    """Options with which no client can be made."""
    word = world.password
    return [
        {"sasl_pasword": word},
        {"password": word},
        {"sasl_plain_password": word},
        {"sasl.password": word},
        {"sasl_password": word.encode()},
        {"sasl_password": [word]},
        {"sasl_username": {"name": word}},
        {"sasl_oauth_token": word},
        {"sasl_mechanism": "OAUTHBEARER"},
        {"sasl_mechanism": "GSSAPI"},
        {"security_protocol": "SSL"},
        {"security_protocol": "PLAINTEXT"},
        {"ssl_context": word},
        {"ssl_keyfile": world.open_key, "ssl_key_pem": None},
        {"ssl_certfile": world.open_key.replace("\n", ""), "ssl_cert_pem": None},
        {"ssl_cafile": world.certificate + world.open_key, "ssl_ca_pem": None},
        {"ssl_password": word.encode()},
        {"ssl_key_pem": lambda: world.open_key},
        {"proxy_url": f"socks5://{word}"},
        {"proxy_url": f"https://anna:{word}@gw:1"},
        {"proxy_url": f"http://{quote(word, safe='')}:{quote(word, safe='')}@gw:port"},
        {"proxy_url": word.encode()},
        {"proxy_url": f"http://anna:{'%zz' + word}@gw:1"},
        {"bootstrap_servers": f"kafka://anna:{word}@b:9092"},
        {"bootstrap_servers": [f"anna:{world.token}@b:9092"]},
        {"bootstrap_servers": right},
        {"bootstrap_servers": [right]},
        {"bootstrap_servers": b"b:1" + word.encode() + b"@"},
        {"request_timeout_ms": "soon"},
    ]


def wrong_properties(world: World, dotted: dict[str, str]) -> list[Any]:
    """What `from_properties` refuses."""
    word = world.password
    return [
        {**dotted, "sasl.pasword": word},
        {**dotted, "sasl.password": word.encode()},
        {**dotted, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
        jaas(word, "username={user} password={word};"),
        jaas(word, 'username="a" password="{word}"'),
        jaas(word, 'username="a" passwort="{word}";'),
        jaas(word, 'tokenauth="true" password="{word}";'),
        jaas(word, 'username="a" password="{word}";', sasl__password="other"),
        jaas(word, 'oauth="{word}";', module="oauthbearer.OAuthBearerLoginModule"),
        jaas(word, 'x="{word}";', module="secret." + world.token),
        {**dotted, "ssl.keystore.location": world.open_key},
        {**dotted, "ssl.key.location": world.open_key, "security.protocol": "SSL"},
        {**dotted, "ssl.keystore.key": world.open_key, "security.protocol": "SSL"},
        {**dotted, "ssl.key.password": [word]},
        {**dotted, "oauth_cb": failing(word), "security.protocol": "SASL_SSL"},
        f"bootstrap.servers=b:1\nsasl.password={word}\n",
        f"sasl.password={word}",
        world.file("odd.properties", f"sasl.password={word}\\u12\n"),
        world.file("unknown.properties", f"sasl.pasword={word}\n"),
        world.file("twice.properties", f"bootstrap.servers=b:1\nsasl.password={word}\nsasl.password : other\n"),
        [dotted],
    ]


def wrong_clients(world: World, right: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """Calls of constructors that people get wrong."""
    word = world.password
    dotted = {"bootstrap.servers": "b:1", "sasl.password": word}
    for kind in (Client, Producer, Consumer):
        for given in (dotted, right, f"kafka://{world.user}:{word}@b:9092", [right]):
            yield functools.partial(kind, given)  # type: ignore[arg-type]
        for options in wrong_options(world, right):
            yield functools.partial(kind, **{**right, **options})  # type: ignore[arg-type]
        for properties in wrong_properties(world, dotted):
            yield functools.partial(kind.from_properties, properties)  # type: ignore[attr-defined]
        yield functools.partial(kind.from_properties, dotted, sasl_pasword=word)  # type: ignore[attr-defined]


def wrong_others(world: World, right: dict[str, Any]) -> Iterator[Callable[[], object]]:
    """The same for everything else that takes a secret."""
    word = world.password
    for writer in (
        {**right, "sasl_pasword": word},
        {**right, "ssl_keyfile": world.open_key, "ssl_key_pem": None},
        {**right, "linger_ms": word.encode},
    ):
        yield functools.partial(partition_writer, writer, topic="t")
    yield functools.partial(partition_writer, right, topic=None)  # type: ignore[arg-type]
    yield functools.partial(partition_writer, right, topic="t", value="")
    yield functools.partial(partition_writer, topic="t", **right)
    for arguments in (
        ("http://h/", "me", word),
        (f"https://me:{word}@h/", "me", word),
        (f"https://h/?{word}#x", "me", word),
        ("https://h/", "me", word.encode()),
        ("https://h/", "me", "\ud800" + word),
    ):
        yield functools.partial(OidcToken, *arguments)  # type: ignore[arg-type]
    yield functools.partial(OidcToken, "https://h/", "me", word, timeout=word)  # type: ignore[arg-type]
    for value in (f"Bearer {word}", word.encode(), "\ud800" + word):
        yield functools.partial(Token, value)  # type: ignore[arg-type]
    yield functools.partial(Token, world.token, "soon")  # type: ignore[arg-type]
    yield functools.partial(Token, world.token, 5.0, None, {"pool": word + "\n\0"})


def jaas(word: str, options: str, module: str = "plain.PlainLoginModule", **others: str) -> dict[str, str]:
    text = f"org.apache.kafka.common.security.{module} required " + options.replace("{word}", word).replace("{user}", word)
    more = {name.replace("__", "."): value for name, value in others.items()}
    return {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": text, **more}


def test_calls_that_are_wrong(world: World) -> None:
    right = world.options(world.broker())
    for call in (*wrong_clients(world, right), *wrong_others(world, right)):
        fails(world, call, (KafkaError, TypeError, OSError))


def test_properties_of_other_clients(world: World) -> None:
    """What is right in them is used, and what is ignored is logged."""
    broker = world.broker()
    common = {"bootstrap.servers": f"127.0.0.1:{broker.port}", "security.protocol": "SASL_SSL"}
    word = world.password.replace("\\", "\\\\")
    java = {
        **common,
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas(word, f'username="{world.user}" password="{word}";')["sasl.jaas.config"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": world.options(broker)["ssl_ca_pem"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": world.certificate.replace("\n", " "),
        "ssl.keystore.key": world.key.replace("\n", " "),
        "ssl.key.password": world.key_word,
        "ssl.keystore.password": world.key_word,
        "ssl.truststore.password": world.key_word,
        "sasl.login.retry.backoff.ms": "5",
    }
    librdkafka = {
        **common,
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": Text(world.user),
        "sasl.password": Text(world.password),
        "ssl.ca.pem": world.options(broker)["ssl_ca_pem"],
        "ssl.certificate.pem": world.certificate,
        "ssl.key.pem": world.key,
        "ssl.key.password": world.key_word,
    }
    escaped = (f"{name}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}\n" for name, value in java.items())
    for properties in (java, librdkafka, world.file("client.properties", "".join(escaped))):
        with Producer.from_properties(properties) as producer:
            producer.send("t", b"x").result(SECONDS)
            look(world, producer)
    assert broker.logins >= 3


# -- others


def test_a_writer_for_spark(world: World) -> None:
    """Its pickle has what it was given, as it has to travel; it shows none of it, and neither does the error of a task."""
    writer = partition_writer({**world.options(world.broker()), "sasl_password": "{}{}"}, topic="t")
    world.outlets.add("repr of a writer", repr(writer))
    error = fails(world, lambda: writer([{"value": "x"}]))
    assert "AuthenticationError" in repr(error.cause)
    gone = partition_writer(world.options(world.broker(), ssl_key_pem=None, ssl_keyfile="/not/there"), topic="t")
    assert "cannot be read" in str(fails(world, lambda: gone([{"value": "x"}])))


def echo(connection: socket.socket) -> None:
    """An issuer that repeats what it was sent, decoded, too."""
    head = connection.recv(65_536).decode()
    login = next(line for line in head.split("\r\n") if line.startswith("Authorization: Basic ")).rpartition(" ")[2]
    body = json.dumps({"error": base64.b64decode(login).decode(), "error_description": login}).encode()
    connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def test_an_issuer_of_tokens(world: World) -> None:
    """It refuses, repeats the secret, or is not there. Also called by the application itself: then the error has frames."""
    ca_file = world.file("ca.pem", AUTHORITY.pem.decode())
    broker = world.broker("OAUTHBEARER")
    with serving(echo, wrap) as port:
        issuer = OidcToken(f"https://localhost:{port}/?key={world.token}", "me", world.password, ca_file=ca_file, timeout=SECONDS)
        world.outlets.objects("OidcToken", issuer)
        assert "HTTP status 401" in str(fails(world, issuer))
        assert "HTTP status 401" in str(refused(world, world.options(broker, sasl_oauth_token=issuer)))
    assert "cannot be reached" in str(fails(world, issuer))
    unasked = OidcToken("https://localhost:1/", "me", failing(world.password), timeout=SECONDS)
    assert "raised Vault" in str(refused(world, world.options(broker, sasl_oauth_token=unasked)))


def test_a_crash_of_the_loop_while_it_sends_the_password(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    write = SecureTransport.write

    def broken(self: SecureTransport, link: int, buffers: list[Any], tell: bool) -> bool:
        if any(world.password.encode() in bytes(buffer) for buffer in buffers):
            raise RuntimeError("a bug")
        return write(self, link, buffers, tell)

    monkeypatch.setattr(SecureTransport, "write", broken)
    with Client(**world.options(world.broker())) as client:
        error = fails(world, lambda: client.refresh_metadata(timeout=SECONDS))
        assert "the loop crashed: RuntimeError: a bug" in str(error)
        look(world, client)
    places = [text for where, text in world.outlets.texts if where.startswith("log pykafka4.loop")]
    assert places, "the crash is not logged"


def test_an_internal_error_of_a_producer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Sender, now: float) -> Any:
        raise RuntimeError("a bug")

    with Producer(**world.options(world.broker())) as producer:
        producer.send("t", b"x").result(SECONDS)
        monkeypatch.setattr(Sender, "poll", broken)
        world.outlets.error("a delivery", producer.send("t", b"y").exception(SECONDS))
        look(world, producer)
