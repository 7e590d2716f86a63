"""Names, ports and certificates: what is wrong is told for each address, with the way out, and in time."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("trustme")

from integration.security.certificates import Authority, Certificate, self_signed
from pykafka4.diagnosis.values import Finding, Outcome
from pykafka4.testing import ModelServer
from tests.diagnosis.looking import SLACK_S, closed, findings, mute, of, wrong
from tests.net.net_helpers import serving
from tests.net.tls_peers import AUTHORITY, context, wrapping

TRUST = {"security_protocol": "SSL", "ssl_ca_pem": AUTHORITY.pem.decode()}
Shaken = Callable[..., Finding]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that resolve as a test says; others of `.invalid` do not."""
    known: dict[str, str] = {}
    real = socket.getaddrinfo

    def look_up(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        if host.endswith(".invalid") and host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(known.get(host, host), port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


def test_a_name_that_does_not_resolve_hides_what_follows(names: dict[str, str]) -> None:
    found = findings("kafka.invalid:9092")
    assert wrong(found) == [("names", "kafka.invalid")]
    assert "bootstrap_servers" in found[0].way_out
    assert {one.outcome for one in found[1:]} == {Outcome.UNSEEN}
    assert [one.step for one in found] == ["names", "ports", "login", "brokers", "listeners", "controller", "topics"]


def test_a_resolver_that_hangs_is_told_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [over.wait()][1:])
    began = time.monotonic()
    found = findings("kafka.invalid:9092", timeout=1.0)
    over.set()
    assert time.monotonic() - began < 1.0 + SLACK_S
    assert wrong(found) == [("names", "kafka.invalid")]
    assert "resolv.conf" in found[0].way_out


def test_a_closed_port_is_told_and_the_others_are_looked_at(names: dict[str, str]) -> None:
    names["kafka.invalid"] = "127.0.0.1"
    shut = f"kafka.invalid:{closed().rpartition(':')[2]}"
    with mute() as frozen:
        found = findings(f"{shut},{frozen}", timeout=2.0)
    assert wrong(found) == [("ports", shut), ("login", frozen)]
    assert of(found, "ports")[0].evidence == "127.0.0.1: connection refused"


def test_dropped_packets_are_told_in_time() -> None:
    """Where the queue of a listener is full, the system drops what asks for a connection."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        address = "{}:{}".format(*listener.getsockname())
        began = time.monotonic()
        found = findings(address, timeout=1.0)
    assert time.monotonic() - began < 1.0 + SLACK_S
    assert wrong(found) == [("ports", address)]
    assert "firewalls" in of(found, "ports")[0].way_out


@pytest.mark.parametrize("options", [{}, TRUST], ids=["plain", "tls"])
def test_a_frozen_broker_is_told_in_time(options: dict[str, Any]) -> None:
    began = time.monotonic()
    with mute() as frozen:
        found = findings(frozen, timeout=1.5, **options)
    assert time.monotonic() - began < 1.5 + SLACK_S
    assert wrong(found) == [("tls" if options else "login", frozen)]
    (bad,) = [one for one in found if one.outcome is Outcome.WRONG]
    assert bad.what == "accepts connections, but does not respond"


# ---- TLS


@pytest.fixture
def shaken() -> Shaken:
    """The finding about the TLS of a server with this certificate."""

    def look(certificate: Certificate, **options: Any) -> Finding:
        with serving(lambda connection: connection.close(), wrap=wrapping(context(certificate))) as port:
            (found,) = of(findings(f"127.0.0.1:{port}", timeout=2.0, **{**TRUST, **options}), "tls")
        return found

    return look


WRONG = {
    "another authority": (Authority().server(), "set ssl_cafile"),
    "self-signed": (self_signed(), "set ssl_cafile"),
    "another host": (AUTHORITY.wrong_host(), "connect to a name that the certificate is for"),
    "expired": (AUTHORITY.expired(), "renew"),
    "not yet valid": (AUTHORITY.not_yet_valid(), "clock"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_certificate_is_shown_with_the_way_out(shaken: Shaken, case: str) -> None:
    certificate, way_out = WRONG[case]
    found = shaken(certificate)
    assert (found.outcome, found.what) == (Outcome.WRONG, "the TLS handshake fails")
    assert way_out in found.way_out
    assert "certificate of " in found.evidence
    assert ("elsewhere.invalid" if case == "another host" else "localhost") in found.evidence


def test_a_right_certificate_is_fine_and_one_that_ends_soon_is_a_notice(shaken: Shaken) -> None:
    found = shaken(AUTHORITY.server())
    assert found.outcome is Outcome.FINE
    assert found.evidence.startswith("TLSv1.3, certificate of ")
    found = shaken(AUTHORITY.issued(("127.0.0.1",), until=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=5.01)))
    assert found.outcome is Outcome.NOTICE
    assert found.what == "the certificate expires in 5.0 days"


def test_a_context_of_the_application_is_used_as_it_is(shaken: Shaken) -> None:
    mine = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    options = {"ssl_ca_pem": None, "ssl_context": mine}
    assert shaken(AUTHORITY.server(), **options).outcome is Outcome.FINE
    assert shaken(AUTHORITY.expired(), **options).outcome is Outcome.WRONG
    assert mine.verify_mode is ssl.CERT_REQUIRED


def test_a_certificate_that_the_context_does_not_verify_is_not_described(shaken: Shaken) -> None:
    mine = ssl.create_default_context()
    mine.check_hostname, mine.verify_mode = False, ssl.CERT_NONE
    found = shaken(AUTHORITY.expired(), ssl_ca_pem=None, ssl_context=mine)
    assert (found.outcome, found.what) == (Outcome.FINE, "handshake done")
    assert found.evidence == "TLSv1.3, the certificate is not verified: ssl_context has CERT_NONE"


def test_a_certificate_of_the_client_that_has_expired_is_the_one_to_renew() -> None:
    certificate = AUTHORITY.expired_client("alice")
    options = {**TRUST, "ssl_cert_pem": certificate.chain.decode(), "ssl_key_pem": certificate.key.decode()}
    demanding = context(AUTHORITY.server(), demand=True, version=ssl.TLSVersion.TLSv1_2)  # TLS 1.3 refuses after the handshake
    with serving(lambda connection: connection.close(), wrap=wrapping(demanding)) as port:
        (found,) = of(findings(f"127.0.0.1:{port}", timeout=2.0, **options), "tls")
    assert found.way_out == "renew the certificate in ssl_certfile"


@pytest.mark.model(brokers=1)
def test_a_port_without_tls_is_told(server: ModelServer) -> None:
    (found,) = of(findings(server.bootstrap_servers, **TRUST), "tls")
    assert found.outcome is Outcome.WRONG
    assert "security_protocol to PLAINTEXT" in found.way_out
