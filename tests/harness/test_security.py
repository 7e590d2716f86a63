"""What a secured cluster is made of, without brokers: settings, certificates, credentials, options."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from integration.kafka.settings import expand, write_properties
from integration.local.cluster import LocalCluster
from integration.security.certificates import Authority, Certificate, self_signed
from integration.security.credentials import quoted, unsecured_token
from integration.security.login import exchange, trusting
from integration.security.options import for_java, for_librdkafka
from integration.security.settings import Security

USUAL = expand(1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"protocol": "TLS"}, "protocol: 'TLS'"),
        ({"mechanisms": ["PLAIN", "GSSAPI"]}, "GSSAPI needs it"),
        ({"mechanisms": ["PLAIN", "NTLM"]}, "NTLM"),
        ({"mechanisms": []}, "needs a mechanism"),
        ({"client_auth": "requested"}, "client_auth: 'requested'"),
        ({"protocol": "SASL_PLAINTEXT", "client_auth": "required"}, "no certificate"),
        ({"protocol": "SSL", "authorizer": True}, "every client over SSL is ANONYMOUS"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_the_reason(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Security(**options)


def test_only_the_clients_listener_is_secured() -> None:
    found = Security(authorizer=True, super_users=["root"]).settings(USUAL, "/key.pem", "AUTHORITY")
    assert found["listener.security.protocol.map"] == "CLIENT:SASL_SSL,ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert found["super.users"] == "User:ANONYMOUS;User:root"
    others = [key for key in found if not key.startswith("listener.name.client.")]
    assert others == ["listener.security.protocol.map", "authorizer.class.name", "super.users", "allow.everyone.if.no.acl.found"]


def test_a_protocol_has_only_the_settings_that_it_needs() -> None:
    plain = Security("SASL_PLAINTEXT", mechanisms=["PLAIN"]).settings(USUAL, "/key.pem", "AUTHORITY", ["CLIENT", "DIRECT"])
    assert not any("ssl." in key for key in plain)
    assert plain["listener.name.direct.sasl.enabled.mechanisms"] == "PLAIN"
    tls = Security("SSL", client_auth="required").settings(USUAL, "/key.pem", "AUTHORITY")
    assert not any("sasl" in key for key in tls)
    assert tls["listener.name.client.ssl.client.auth"] == "required"
    assert tls["listener.name.client.ssl.keystore.location"] == "/key.pem"
    assert tls["listener.name.client.ssl.truststore.certificates"] == "AUTHORITY"


def test_what_cannot_be_secured_says_so() -> None:
    with pytest.raises(ValueError, match=r"security: .* not 3\.9\.1"):
        LocalCluster(version="3.9.1", security=Security())
    with pytest.raises(RuntimeError, match="without `security`"):
        _ = LocalCluster().access
    assert LocalCluster().client_security() == {}


def test_a_value_with_anything_in_it_is_written_as_java_reads_it(tmp_path: Path) -> None:
    write_properties(tmp_path / "p", {"a": 'x\\y "ü𝄞"\n', "b": "plain"})
    assert (tmp_path / "p").read_text() == 'a=x\\\\y "\\u00fc\\ud834\\udd1e"\\u000a\nb=plain\n'
    assert quoted('a"b\\c\n') == '"a\\"b\\\\c\\n"'


def test_a_token_names_its_subject_and_its_end() -> None:
    header, claims, signature = unsecured_token("alice", 60, issued=1000).split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {"sub": "alice", "iat": 1000, "exp": 1060}
    assert signature == ""
    assert json.loads(base64.urlsafe_b64decode(unsecured_token("a").split(".")[1] + "=="))["exp"] > time.time()


def test_scram_is_that_of_rfc_7677(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_urlsafe", lambda _size: "rOprNGfwEbeRWgbNEkqO")
    messages = exchange("SCRAM-SHA-256", "user", "pencil")
    assert next(messages) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = messages.send(f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    with pytest.raises(StopIteration):
        messages.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("server", ""),
        ("chained", ""),
        ("wrong_host", "IP address mismatch"),
        ("expired", "certificate has expired"),
        ("not_yet_valid", "not yet valid"),
        ("self_signed", "self-signed certificate"),
        ("other authority", "unable to get local issuer|self-signed certificate in"),
    ],
)
def test_a_certificate_is_wrong_in_the_way_its_name_says(kind: str, reason: str, tmp_path: Path) -> None:
    authority = Authority()
    shown = {"self_signed": self_signed, "other authority": Authority().server}.get(kind) or getattr(authority, kind)
    if reason:
        with pytest.raises(ssl.SSLCertVerificationError, match=reason):
            shake_hands(authority, shown(), tmp_path)
    else:
        shake_hands(authority, shown(), tmp_path)


def shake_hands(authority: Authority, shown: Certificate, folder: Path) -> None:
    """A client of the authority meets a server with that certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*shown.write(folder, "server"))
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    server = threading.Thread(target=serve, args=(context, theirs))
    server.start()
    try:
        with trusting(authority).wrap_socket(ours, server_hostname="127.0.0.1") as connection:
            assert connection.getpeercert(binary_form=True) == shown.der
    finally:
        ours.close()
        server.join(10)


def serve(context: ssl.SSLContext, connection: socket.socket) -> None:
    try:
        context.wrap_socket(connection, server_side=True).close()
    except OSError:
        connection.close()


def test_options_of_other_clients_are_made_from_ours(tmp_path: Path) -> None:
    cafile = Authority().write(tmp_path)
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(cafile),
        "sasl_mechanism": "PLAIN",
        "sasl_username": "a",
        "sasl_password": '"',
    }
    assert for_librdkafka(options)["ssl.ca.location"] == str(cafile)
    java = for_java(options)
    assert java["sasl.jaas.config"].endswith('PlainLoginModule required username="a" password="\\"";')
    assert java["ssl.truststore.certificates"] == cafile.read_text()
    token = for_java({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, subject="alice")
    assert 'unsecuredLoginStringClaim_sub="alice"' in token["sasl.jaas.config"]
