"""Hostile TLS: a handshake with damaged bytes, and certificates that nobody should make. None is accepted, and each is named soon.

`make fuzz` damages many more handshakes, from a new seed.
"""

from __future__ import annotations

import datetime
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.net.net_helpers import serving
from tests.wire.memory_meter import peak_memory

pytest.importorskip("trustme")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from integration.security.certificates import DAY, Certificate, pkcs8
from pykafka4.errors import AuthenticationError, ConnectionLost
from pykafka4.net import dialling
from tests.core.sasl.sasl_peer import hostile
from tests.net.connection_ends import listening
from tests.net.tls_peers import AUTHORITY, context, wrapping
from tests.net.tls_refusals import hello, lost
from tests.net.transport_driver import CONNECTED, LOST, TLS, Driver
from tests.wire.hostile_bytes import edited

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
LONGEST = 1_000  # characters of a message


@pytest.fixture
def driver() -> Iterator[Driver]:
    it = Driver(TLS)
    yield it
    it.transport.shut()


# -- damaged bytes: with TLS 1.2 the certificate goes over the wire as it is

pieces = st.one_of(
    st.sampled_from([b"", b"\0", b"\xff", b"\xff\xff\xff", b"\x30\x82\xff\xff", b"*", b"kafka.invalid\0"]), st.binary(max_size=6)
)
edits = st.lists(st.tuples(st.integers(0, 2000), st.sampled_from([0, 1, 1, 1, 4, 300]), pieces), min_size=1, max_size=3)


def answered(server: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, data: bytes) -> bytes:
    """What a server says to these bytes."""
    incoming.write(data)
    try:
        server.do_handshake()
    except ssl.SSLError:
        pass  # it wants more, or does not like what the client made of its words
    return outgoing.read()


CONTEXTS = {version: context(AUTHORITY.server(), version=version) for version in (V12, V13)}


@pytest.mark.parametrize("version", [V12, V13])
@given(changes=edits)
@hostile
def test_a_damaged_handshake_is_refused(version: ssl.TLSVersion, changes: list[tuple[int, int, bytes]]) -> None:
    """Whatever byte it is, of the greeting, the certificates or the signature."""
    driver = Driver(TLS)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = CONTEXTS[version].wrap_bio(incoming, outgoing, server_side=True)
    try:
        with listening() as listener:
            driver.transport.connect(1, "127.0.0.1", listener.getsockname()[1])
            while not driver.sockets:
                driver.step(0.01)
            with listener.accept()[0] as peer:
                driver.step(0.0)
                valid = answered(server, incoming, outgoing, peer.recv(1 << 16))
                assert len(valid) > 300
                if (damaged := edited(valid, changes)) == valid:
                    return
                peer.sendall(damaged)
                peer.shutdown(socket.SHUT_WR)  # otherwise it may wait for the rest
                (reason,) = driver.until(LOST)
        assert CONNECTED not in {event.kind for event in driver.events}
        assert isinstance(reason, ConnectionLost)
        assert "127.0.0.1:" in str(reason)
        assert len(str(reason)) < LONGEST
    finally:
        driver.transport.shut()


# -- certificates that are whole, but odd


class Issuer:
    """An authority with a key of its own; the first one is that of the tests."""

    def __init__(self, name: x509.Name, key: Any, chain: bytes = b"") -> None:
        self.name, self.key, self.chain = name, key, chain

    def issue(self, subject: str, *extensions: x509.ExtensionType, unchecked: bool = False) -> Issuer:
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.datetime.now(datetime.UTC)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)])
        made = x509.CertificateBuilder(self.name, name, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY)
        for extension in extensions:
            made = made.add_extension(extension, critical=isinstance(extension, x509.NameConstraints))
        pem = made.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        return Issuer(name, key, pem + self.chain)

    @property
    def certificate(self) -> Certificate:
        return Certificate(self.chain, pkcs8(self.key))


def root() -> Issuer:
    ours = x509.load_pem_x509_certificate(AUTHORITY.pem)
    return Issuer(ours.subject, serialization.load_pem_private_key(AUTHORITY.issuer.private_key_pem.bytes(), None))


CA = x509.BasicConstraints(ca=True, path_length=None)


def names(*dns: str) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([x509.DNSName(name) for name in dns])


def authorities(count: int) -> Issuer:
    issuer = root()
    for number in range(count):
        issuer = issuer.issue(f"authority {number}", CA)
    return issuer


def limited() -> Issuer:
    """An authority for the names of another domain."""
    return root().issue("limited", CA, x509.NameConstraints([x509.DNSName("elsewhere.invalid")], None))


HOST = "kafka.invalid"
ODD: dict[str, tuple[str, Callable[[], Issuer], str]] = {  # the name that is dialled, the certificate, and what is said of it
    "NUL in a name": (HOST, lambda: root().issue("x", names(f"{HOST}\0.evil.invalid")), "Hostname mismatch"),
    "NUL in the common name": (HOST, lambda: root().issue(f"{HOST}\0.evil.invalid"), "Hostname mismatch"),
    "only the common name": (HOST, lambda: root().issue(HOST, names("elsewhere.invalid")), "Hostname mismatch"),
    "a star": (HOST, lambda: root().issue("*", names("*")), "Hostname mismatch"),
    "two stars": (HOST, lambda: root().issue("*.*", names("*.*")), "Hostname mismatch"),
    "a star before a top-level domain": (HOST, lambda: root().issue("x", names("*.invalid")), "Hostname mismatch"),
    "a star in a name": ("kafka.brokers.invalid", lambda: root().issue("x", names("ka*.brokers.invalid")), "Hostname mismatch"),
    "a star in the middle": ("a.b.brokers.invalid", lambda: root().issue("x", names("a.*.brokers.invalid")), "Hostname mismatch"),
    "a dot first": (HOST, lambda: root().issue("x", names(f".{HOST}")), "Hostname mismatch"),
    "a space behind": (HOST, lambda: root().issue("x", names(f"{HOST} ")), "Hostname mismatch"),
    "an address as a name": ("127.0.0.1", lambda: root().issue("127.0.0.1", names("127.0.0.1")), "IP address mismatch"),
    "the name as a URI": (
        HOST,
        lambda: root().issue("x", x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"https://{HOST}"), x509.DNSName("x")])),
        "Hostname mismatch",
    ),
    "no names": (HOST, lambda: root().issue("x", x509.SubjectAlternativeName([])), "Hostname mismatch"),
    "other letters": (HOST, lambda: root().issue("k\u0430fka.invalid", names("xn--kfka-43d.invalid")), "Hostname mismatch"),
    "a thousand names twice": (HOST, lambda: root().issue("x", names(*[f"{n}.invalid" for n in range(1000)] * 2)), "Hostname mismatch"),
    "an authority for others": (HOST, lambda: limited().issue("x", names(HOST)), "permitted subtree violation"),
    "issued by a server": (HOST, lambda: root().issue("x", names("x.invalid")).issue("y", names(HOST)), "invalid CA certificate"),
    "issued by a client": (
        HOST,
        lambda: root().issue("x", names(HOST), x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.CLIENT_AUTH])),
        "unsuitable certificate purpose",
    ),
    "a hundred authorities": (HOST, lambda: authorities(110).issue("x", names(HOST)), "certificate chain too long"),
    "two megabytes": (
        HOST,
        lambda: root().issue("x", names(HOST, *[f"{n:050}.invalid" for n in range(30_000)])),
        "EXCESSIVE_MESSAGE_SIZE (the broker sends more certificates than OpenSSL reads",
    ),
}


@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_certificate_is_refused(driver: Driver, monkeypatch: pytest.MonkeyPatch, odd: str, version: ssl.TLSVersion) -> None:
    host, issued, text = ODD[odd]
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: [(socket.AF_INET, ("127.0.0.1", port))])
    with serving(hello, wrapping(context(issued().certificate, version=version))) as port, peak_memory():
        reason = lost(driver, port, host)
    assert isinstance(reason, AuthenticationError)
    assert reason.certain
    assert str(reason).startswith(f"{host}:{port}: ")
    assert text in str(reason)
    assert len(str(reason)) < LONGEST


def test_certificates_that_are_made_like_these_are_accepted_if_nothing_is_odd(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: [(socket.AF_INET, ("127.0.0.1", port))])
    for link, issuer in enumerate((root().issue("x", names(HOST)), authorities(9).issue("x", names("*", HOST, HOST)))):
        with serving(hello, wrapping(context(issuer.certificate))) as port:
            driver.connect(port, link, HOST)
