"""Certificates on a connection: the broker's must be right for the name that was dialled, and the broker may demand one of the client."""

from __future__ import annotations

import socket
import ssl
import time
import warnings
from collections.abc import Callable

import pytest

from tests.net.net_helpers import SECONDS, serving

pytest.importorskip("trustme")

from integration.security.certificates import Authority, Certificate, self_signed
from pykafka4.errors import AuthenticationError
from pykafka4.net import dialling
from pykafka4.net.secure import _server_name
from tests.net.tls_peers import AUTHORITY, context, wrap, wrapping
from tests.net.tls_refusals import hello, lost, refused
from tests.net.transport_driver import CONNECTED, FRAME, LOST, Driver, framed

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture
def driver(opened: Callable[..., Driver]) -> Driver:
    return opened()


# -- who it is


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (AUTHORITY.wrong_host(), "IP address mismatch, certificate is not valid for '127.0.0.1'. (the certificate is for another address"),
        (AUTHORITY.expired(), "certificate has expired (the certificate has expired; is the clock of this machine right?)"),
        (AUTHORITY.not_yet_valid(), "certificate is not yet valid (the certificate is not yet valid; is the clock of this machine right?)"),
        (self_signed(), "the certificate is self-signed; set ssl_cafile to the certificate of the authority that signed the broker's"),
        (Authority().server(), "the authority is not trusted; set ssl_cafile to the certificate of the authority"),
    ],
    ids=["host", "expired", "not-yet-valid", "self-signed", "authority"],
)
@pytest.mark.parametrize("version", [V12, V13])
def test_a_wrong_certificate_is_refused(driver: Driver, certificate: Certificate, text: str, version: ssl.TLSVersion) -> None:
    with serving(hello, wrapping(context(certificate, version=version))) as port:
        refused(
            driver, port, f"the broker's certificate is refused: {text}" if text[0] != "t" else text, cause=ssl.SSLCertVerificationError
        )


def test_a_chain_of_authorities_is_trusted_from_its_root_or_from_any_part(opened: Callable[..., Driver]) -> None:
    """As a truststore of Java: what is in it is trusted, whether it is a root or not."""
    chained = AUTHORITY.chained()
    _, intermediate = chained.chain.decode().split("-----END CERTIFICATE-----\n")[:2]
    with serving(hello, wrapping(context(chained))) as port:
        for options in ({}, {"ssl_ca_pem": f"{intermediate}-----END CERTIFICATE-----\n"}):
            driver = opened(**options)
            driver.connect(port)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is this machine's."""
    monkeypatch.setattr(dialling, "_look_up", lambda host, port: [(socket.AF_INET, ("127.0.0.1", port))])


@pytest.mark.parametrize(
    ("host", "is_right"),
    [
        ("kafka.invalid", True),
        ("KAFKA.invalid", True),
        ("kafka.invalid.", True),
        ("1.brokers.invalid", True),
        ("localhost", True),
        ("other.invalid", False),
        ("brokers.invalid", False),
        ("1.2.brokers.invalid", False),
        ("xkafka.invalid", False),
    ],
)
def test_the_certificate_must_contain_the_name_that_was_dialled(driver: Driver, names: None, host: str, is_right: bool) -> None:
    with driver.serving(hello) as port:
        if is_right:
            driver.connect(port, host=host)
        else:
            refused(driver, port, f"Hostname mismatch, certificate is not valid for '{host}'. (the certificate is for another host", host)


def test_a_certificate_for_another_address_is_refused(driver: Driver) -> None:
    with serving(hello, wrapping(context(AUTHORITY.server("127.0.0.2", "localhost")))) as port:
        refused(driver, port, "IP address mismatch")
        driver.connect(port, link=2, host="localhost")


def test_the_name_is_told_to_the_server(driver: Driver, names: None) -> None:
    """A server with several certificates chooses by it. An address is no name."""
    told: list[str | None] = []
    made = context(AUTHORITY.server("kafka.invalid", "127.0.0.1"))
    made.sni_callback = lambda sock, name, used: told.append(name)
    with serving(hello, wrapping(made)) as port:
        driver.connect(port, host="kafka.invalid.")
        driver.connect(port, link=2)
    assert told == ["kafka.invalid", None]


def test_the_name_is_not_checked_if_that_is_asked_for(opened: Callable[..., Driver]) -> None:
    with serving(hello, wrapping(context(AUTHORITY.wrong_host()))) as port:
        opened(ssl_check_hostname=False).connect(port)
    with serving(hello, wrapping(context(Authority().server()))) as port:
        refused(opened(ssl_check_hostname=False), port, "the authority is not trusted")


def test_a_zone_is_no_part_of_the_name() -> None:
    """fe80::1%eth0 is an address of this machine's, and the certificate cannot know the zone."""
    assert _server_name("fe80::1%eth0") == "fe80::1"
    assert _server_name("kafka.") == "kafka"
    with pytest.raises(ValueError):
        _server_name("a..b")


@pytest.mark.parametrize("host", ["a..b", "", ".", "x" * 70, "a\0b", ".kafka"])
@pytest.mark.parametrize("checks", [True, False])
def test_a_name_that_no_certificate_can_have_is_a_lost_connection(
    opened: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, host: str, checks: bool
) -> None:
    """A resolver may find an address for it all the same."""
    with serving(hello, wrap) as port:
        monkeypatch.setattr(dialling, "_look_up", lambda host, port: [(socket.AF_INET, ("127.0.0.1", port))])
        reason = lost(opened(ssl_check_hostname=checks), port, host)
    assert "during the TLS handshake" in str(reason)


# -- who the client is


def client_options(certificate: Certificate) -> dict[str, str]:
    return {"ssl_cert_pem": certificate.chain.decode(), "ssl_key_pem": certificate.key.decode()}


@pytest.mark.parametrize("version", [V12, V13])
def test_a_client_shows_its_certificate(opened: Callable[..., Driver], version: ssl.TLSVersion) -> None:
    shown = []
    made = context(AUTHORITY.server(), demand=True, version=version)
    with serving(lambda c: (shown.append(c.getpeercert()), hello(c)), wrapping(made)) as port:
        driver = opened(**client_options(AUTHORITY.client("alice")))
        driver.connect(port)
        driver.until(FRAME)
    assert "alice" in str(shown[0]["subject"])


@pytest.mark.parametrize(
    ("certificate", "text"),
    [
        (None, "the broker demands a certificate that it trusts: set ssl_certfile and ssl_keyfile"),
        (Authority().client("mallory"), "TLSV1_ALERT_UNKNOWN_CA (the broker demands a certificate that it trusts"),
        (AUTHORITY.expired_client("late"), "the broker says that the client's certificate has expired"),
    ],
    ids=["none", "stranger", "expired"],
)
@pytest.mark.parametrize("version", [V12, V13])
@pytest.mark.parametrize("writes", [False, True])
def test_a_server_that_refuses_the_client_is_quoted(
    opened: Callable[..., Driver], certificate: Certificate | None, text: str, version: ssl.TLSVersion, writes: bool
) -> None:
    """With TLS 1.3 it refuses after the client's side of the handshake has ended, perhaps when a request was written already."""
    driver = opened(**({} if certificate is None else client_options(certificate)))
    made = context(AUTHORITY.server(), demand=True, version=version)
    with serving(hello, wrapping(made)) as port:
        driver.transport.connect(1, "127.0.0.1", port)
        if version is V13:
            driver.until(CONNECTED)
            deadline = time.monotonic() + SECONDS
            while writes and not [event for event in driver.events if event.kind is LOST]:
                driver.transport.write(1, [framed(b"a request")], False)
                driver.step(0.001)
                assert time.monotonic() < deadline
        (reason,) = driver.until(LOST)
        assert isinstance(reason, AuthenticationError)
        assert reason.certain
        assert reason.is_of_client
        assert isinstance(reason.__cause__, ssl.SSLError)
        assert text in str(reason)
        assert str(reason).startswith(f"127.0.0.1:{port}: ")


def test_no_common_version_or_cipher_is_said(opened: Callable[..., Driver]) -> None:
    old = context(AUTHORITY.server())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("ALL:@SECLEVEL=0")
    with serving(hello, wrapping(old)) as port:
        refused(opened(), port, "no TLS version or cipher in common; this client needs TLS 1.2 or newer")
    other = context(AUTHORITY.server(), version=V12)
    other.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    with serving(hello, wrapping(other)) as port:
        refused(opened(ssl_ciphers="ECDHE-ECDSA-AES256-GCM-SHA384"), port, "no TLS version or cipher in common")
        opened(ssl_ciphers="ECDHE-ECDSA-AES128-GCM-SHA256").connect(port)
