"""Options of TLS and SASL: what fits together, what is refused with which words, and that no secret is shown."""

from __future__ import annotations

import logging
import ssl
import sys
from typing import Any

import pytest

from pykafka4 import Client, ConfigError, Consumer, Producer
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.security import MECHANISMS

B = {"bootstrap_servers": "b:9092"}
SECRET = "xyzzy-plugh"
KERBEROS = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "GSSAPI"}
USER = {"sasl_username": "alice", "sasl_password": SECRET}
SCRAM = {**B, "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", **USER}
CONFIGS = (ClientConfig, ProducerConfig, ConsumerConfig)


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"security_protocol": "SSL"},
        {"security_protocol": "SSL", "ssl_ca_pem": "PEM", "ssl_cert_pem": "PEM", "ssl_key_pem": "PEM", "ssl_password": lambda: "x"},
        {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **USER},
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "a", "sasl_password": lambda: "b"},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": lambda: "token"},
        KERBEROS,
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", **USER, "sasl_delegation_token": True},
        {**KERBEROS, "sasl_kerberos_service_name": "k", "sasl_kerberos_principal": "me@R", "sasl_kerberos_keytab": "/etc/me.keytab"},
    ],
)
def test_what_fits_together_is_taken(config: type[ClientConfig], options: dict[str, Any]) -> None:
    made = config.parse({**B, **options})
    assert {name: getattr(made, name) for name in options} == options


WRONG = [
    ({"security_protocol": "TLS"}, "security_protocol='TLS': must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ({"ssl_cafile": "ca.pem"}, "ssl_cafile has no effect with security_protocol=PLAINTEXT; set security_protocol to SSL or SASL_SSL"),
    ({"ssl_check_hostname": False}, "ssl_check_hostname has no effect"),
    (USER, "sasl_username has no effect with security_protocol=PLAINTEXT; set security_protocol to SASL_SSL"),
    ({"security_protocol": "SSL", **USER}, "sasl_username has no effect with security_protocol=SSL"),
    ({"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", **USER, "ssl_cafile": "ca"}, "ssl_cafile has no effect"),
    ({"security_protocol": "SASL_SSL", **USER}, f"needs sasl_mechanism, one of {', '.join(MECHANISMS)}"),
    ({"security_protocol": "SASL_SSL", "sasl_mechanism": "NTLM"}, "sasl_mechanism='NTLM': must be one of PLAIN"),
    ({"sasl_kerberos_keytab": "k"}, "sasl_kerberos_keytab has no effect with security_protocol=PLAINTEXT"),
    ({**SCRAM, "sasl_kerberos_service_name": "k"}, "sasl_kerberos_service_name has no effect with sasl_mechanism=SCRAM-SHA-512"),
    ({**KERBEROS, **USER}, "sasl_username has no effect with sasl_mechanism=GSSAPI, which uses sasl_kerberos_service_name and"),
    ({**KERBEROS, "sasl_kerberos_service_name": ""}, "sasl_kerberos_service_name='': must be a non-empty string"),
    ({**KERBEROS, "sasl_kerberos_keytab": b"k"}, "sasl_kerberos_keytab=b'k': must be a non-empty string or None"),
    ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "a"}, "sasl_password is missing"),
    ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_password": SECRET}, "sasl_username is missing"),
    ({"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}, "sasl_oauth_token is missing"),
    (
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token": lambda: "t", "sasl_password": SECRET},
        "sasl_password has no effect with sasl_mechanism=OAUTHBEARER, which uses sasl_oauth_token",
    ),
    ({**SCRAM, "sasl_oauth_token": lambda: "t"}, "sasl_oauth_token has no effect with sasl_mechanism=SCRAM-SHA-512"),
    (
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **USER, "sasl_delegation_token": True},
        "sasl_delegation_token has no effect with sasl_mechanism=PLAIN, which uses sasl_username and sasl_password",
    ),
    ({**SCRAM, "sasl_password": ""}, "sasl_password is an empty string: must be a non-empty string or a callable"),
    ({**SCRAM, "sasl_password": SECRET.encode()}, "sasl_password is of type bytes"),
    ({**SCRAM, "sasl_username": 5}, "sasl_username is of type int"),
    ({"security_protocol": "SSL", "ssl_cafile": "a", "ssl_ca_pem": "b"}, "ssl_cafile and ssl_ca_pem are both set"),
    ({"security_protocol": "SSL", "ssl_certfile": "a", "ssl_cert_pem": "b"}, "ssl_certfile and ssl_cert_pem are both set"),
    ({"security_protocol": "SSL", "ssl_keyfile": "a"}, "a key without a certificate: set ssl_certfile"),
    ({"security_protocol": "SSL", "ssl_password": SECRET}, "ssl_password is the password of a key"),
    ({"security_protocol": "SSL", "ssl_key_pem": lambda: SECRET, "ssl_cert_pem": "b"}, "ssl_key_pem is of type function"),
    ({"security_protocol": "SSL", "ssl_context": object()}, "ssl_context is of type object: must be an ssl.SSLContext"),
    (
        {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_cafile": "a"},
        "ssl_cafile has no effect with ssl_context",
    ),
]


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize(("options", "says"), WRONG)
def test_what_does_not_is_refused_with_the_way_out(config: type[ClientConfig], options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse({**B, **options})
    assert says in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", [b"-----BEGIN PRIVATE KEY-----\nhunter2", ["-----BEGIN PRIVATE KEY-----\nhunter2"], "hunter2\n"])
def test_the_content_of_a_key_in_place_of_its_path_is_not_shown(key: Any) -> None:
    with pytest.raises(ConfigError, match="ssl_keyfile is ") as caught:
        ClientConfig(bootstrap_servers="b", security_protocol="SSL", ssl_certfile="cert.pem", ssl_keyfile=key)
    assert "hunter2" not in str(caught.value)


def test_a_long_password_in_an_address_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="without a scheme") as caught:
        ClientConfig(bootstrap_servers=f"sasl_ssl://me:{'hunter2' * 40}@b:9092")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("config", CONFIGS)
def test_no_secret_is_in_the_repr_of_a_configuration(config: type[ClientConfig]) -> None:
    key = {"ssl_cert_pem": f"certificate {SECRET}", "ssl_key_pem": f"key {SECRET}", "ssl_password": SECRET, "ssl_ca_pem": SECRET}
    assert SECRET not in repr(config.parse({**SCRAM, **key}))


@pytest.mark.parametrize("handle", [Client, Producer, Consumer])
def test_a_certificate_that_cannot_be_read_is_refused_at_once(handle: Any) -> None:
    with pytest.raises(ConfigError, match=r"ssl_cafile=./nowhere/ca\.pem. cannot be read: No such file or directory"):
        handle(bootstrap_servers="b:9092", security_protocol="SSL", ssl_cafile="/nowhere/ca.pem")


def test_a_password_in_clear_text_is_warned_of_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykafka4.options.security._warned", set())
    with caplog.at_level(logging.WARNING, "pykafka4.config"):
        for _ in range(3):
            ClientConfig.parse({**B, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", **USER})
        ClientConfig.parse({**B, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", **USER})
    assert [record.getMessage() for record in caplog.records] == [
        "security_protocol=SASL_PLAINTEXT with PLAIN sends the credentials in clear text: use SASL_SSL"
    ]


@pytest.mark.parametrize("handle", [Client, Producer, Consumer])
def test_gssapi_without_its_package_is_refused_at_once(handle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(ConfigError, match=r"needs the package gssapi .*pip install 'pykafka4\[gssapi\]'.*apt-get install"):
        handle(bootstrap_servers="b:9092", **KERBEROS)
