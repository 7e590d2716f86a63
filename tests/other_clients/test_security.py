"""Properties of other clients for TLS and SASL: they become options, or the error says the way out; and no secret is shown."""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
import traceback
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka4 import ConfigError
from pykafka4.options.config import ClientConfig, ConsumerConfig, ProducerConfig
from pykafka4.options.from_properties import translate
from pykafka4.other_clients.security import parse_jaas
from pykafka4.other_clients.source import read
from pykafka4.other_clients.tables import OPTIONS, PROPERTIES
from tests.other_clients.translated import options, refused

CONFIGS = (ClientConfig, ProducerConfig, ConsumerConfig)
SERVERS = {"bootstrap.servers": "localhost:1"}
SECRET = "s3cret-0f-mine"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


# -- TLS and SASL


LOGIN = "org.apache.kafka.common.security."
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"security.protocol": "sasl_ssl"}, {"security_protocol": "SASL_SSL"}),
        ({"ssl.truststore.location": "ca.pem", "ssl.truststore.type": "PEM"}, {"ssl_cafile": "ca.pem"}),
        ({"ssl.truststore.certificates": PEM, "ssl.truststore.type": "PEM"}, {"ssl_ca_pem": PEM}),
        ({"ssl.keystore.type": "pem", "ssl.keystore.location": "me.pem"}, {"ssl_certfile": "me.pem", "ssl_keyfile": "me.pem"}),
        ({"ssl.keystore.certificate.chain": PEM, "ssl.keystore.key": PEM}, {"ssl_cert_pem": PEM, "ssl_key_pem": PEM}),
        ({"ssl.key.password": SECRET}, {"ssl_password": SECRET}),
        ({"ssl.endpoint.identification.algorithm": "https"}, {"ssl_check_hostname": True}),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl_check_hostname": False}),
        ({"ssl.endpoint.identification.algorithm": None}, {}),
        ({"ssl.ca.location": "ca.pem"}, {"ssl_cafile": "ca.pem"}),
        ({"ssl.ca.location": "probe"}, {}),
        ({"ssl.certificate.location": "c.pem", "ssl.key.location": "k.pem"}, {"ssl_certfile": "c.pem", "ssl_keyfile": "k.pem"}),
        ({"ssl.ca.pem": PEM, "ssl.certificate.pem": PEM, "ssl.key.pem": PEM}, {"ssl_ca_pem": PEM, "ssl_cert_pem": PEM, "ssl_key_pem": PEM}),
        ({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384, AES256-SHA"}, {"ssl_ciphers": "ECDHE-RSA-AES256-GCM-SHA384:AES256-SHA"}),
        ({"enable.ssl.certificate.verification": "true"}, {}),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2, TLSv1.3"}, {"security_protocol": "SSL"}),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": ""}, {"security_protocol": "SSL"}),
        ({"ssl.protocol": "TLSv1.3", "ssl.enabled.protocols": "TLSv1.3"}, {}),  # without TLS
        ({"sasl.mechanisms": "scram-sha-256"}, {"sasl_mechanism": "SCRAM-SHA-256"}),
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, {"sasl_mechanism": "PLAIN"}),
        ({"sasl.username": "me", "sasl.password": SECRET}, {"sasl_username": "me", "sasl_password": SECRET}),
        (
            {"sasl.jaas.config": f'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{SECRET}";'},
            {"sasl_username": "me", "sasl_password": SECRET},
        ),
        (
            {"sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required\n password='a\\'b' username=me ;"},
            {"sasl_username": "me", "sasl_password": "a'b"},
        ),
        (
            {"sasl.jaas.config": f'{LOGIN}scram.ScramLoginModule required username=id password={SECRET} tokenauth="true";'},
            {"sasl_username": "id", "sasl_password": SECRET, "sasl_delegation_token": True},
        ),
        ({"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"}, {}),  # Java's defaults, without SASL
        ({"sasl.jaas.config": f"{KRB5} useKeyTab=false keyTab=k serviceName=broker;"}, {"sasl_kerberos_service_name": "broker"}),
        ({"sasl.jaas.config": f"{KRB5} useTicketCache=true;"}, {}),
        (
            {"sasl.jaas.config": f'{KRB5} useKeyTab=true storeKey=true keyTab="/etc/me.keytab" principal="me@R";'},
            {"sasl_kerberos_keytab": "/etc/me.keytab", "sasl_kerberos_principal": "me@R"},
        ),
    ],
)
def test_names_of_tls_and_sasl_become_options(properties: dict[str, Any], expected: dict[str, Any]) -> None:
    for kind in CONFIGS:
        assert options(properties, kind) == expected
    assert options(properties, **dict.fromkeys(expected, "mine")) == {}


SASL = {"security.protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "certificates of brokers are always verified; put the authority"),
        ({"enable.ssl.certificate.verification": False}, "always verified"),
        ({"ssl.endpoint.identification.algorithm": "ldaps"}, "must be https"),
        ({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, "OpenSSL's names are needed"),
        ({"ssl.crl.location": "crl.pem"}, "OpenSSL's own configuration"),
        ({"ssl.engine.factory.class": "a.B"}, "PEM files"),
        ({**SASL, "ssl.enabled.protocols": "TLSv1.3"}, "the client also accepts TLS 1.2"),
        ({"ssl.truststore.location": "/etc/ca.pem"}, "if /etc/ca.pem is a PEM file, add ssl.truststore.type=PEM"),
        ({**SASL, "sasl.oauthbearer.token.endpoint.url": "http://x"}, "pass sasl_oauth_token"),
        ({**SASL, "oauth_cb": print}, "pass sasl_oauth_token"),
        ({"sasl.jaas.config": f"{LOGIN}oauthbearer.OAuthBearerLoginModule required;"}, "pass sasl_oauth_token"),
        ({"sasl.jaas.config": f"{KRB5} useKeyTab=true;"}, "keyTab is missing"),
        ({"sasl.jaas.config": f"{KRB5} useTicketCache=true ticketCache=cache;"}, "set KRB5CCNAME in the environment"),
        ({"sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"}, "only PlainLoginModule, ScramLoginModule"),
        ({"sasl.jaas.config": f"{LOGIN}plain.PlainLoginModule required password=x;"}, "username is missing"),
        ({"sasl.jaas.config": f'{LOGIN}plain.PlainLoginModule required username="x" password="y"'}, "a semicolon at the end"),
        ({"sasl.jaas.config": f"{LOGIN}plain.PlainLoginModule required; b.C required;"}, "must be one login module"),
        (
            {"sasl.username": "x", "sasl.jaas.config": "a.PlainLoginModule required username=y password=z;"},
            "sets the same option, sasl_username",
        ),
    ],
)
def test_what_tls_and_sasl_cannot_do_here_is_refused_with_the_way_out(properties: dict[str, Any], says: str) -> None:
    assert says in refused(properties)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        (
            {"ssl.truststore.location": "/etc/my trust.jks"},
            "a JKS store (Java's default, because the type is missing) cannot be read; convert it: `keytool -importkeystore -srckeystore "
            "'/etc/my trust.jks' -destkeystore '/etc/my trust.p12' -deststoretype PKCS12 && openssl pkcs12 -in '/etc/my trust.p12' "
            "-out '/etc/my trust.pem' -nokeys`; then pass ssl_cafile='/etc/my trust.pem', or set",
        ),
        (
            {"ssl.keystore.location": "me.p12", "ssl.keystore.type": "PKCS12"},
            "a PKCS12 store cannot be read; convert it: `openssl pkcs12 -in me.p12 -out me.pem -nodes`; then pass ssl_certfile='me.pem', "
            "ssl_keyfile='me.pem', or set ssl.keystore.location=me.pem and ssl.keystore.type=PEM",
        ),
        ({"ssl.keystore.location": "me.pfx"}, "`openssl pkcs12 -in me.pfx -out me.pem -nodes`"),
        ({"ssl.keystore.location": "me.p12", "ssl.keystore.type": "JKS"}, "-srckeystore me.p12 -destkeystore me.p12.p12 "),
    ],
)
def test_a_store_of_java_is_refused_with_the_commands_that_convert_it(properties: dict[str, Any], says: str) -> None:
    said = refused({**properties, "ssl.keystore.password": SECRET, "ssl.truststore.password": SECRET})
    assert says in said
    assert SECRET not in said


def test_a_keyword_replaces_what_would_be_refused() -> None:
    tls = {**SASL, "ssl.enabled.protocols": "TLSv1.3"}
    assert options(tls, ssl_context=ssl.create_default_context()) == {"security_protocol": "SASL_SSL"}
    jks = {"ssl.truststore.location": "t.jks", "ssl.keystore.location": "k.jks"}
    assert options(jks, ssl_cafile="ca.pem", ssl_certfile="me.pem") == {}
    krb = {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;", **SASL}
    assert options(krb, sasl_mechanism="PLAIN", sasl_username="me", sasl_password="x") == {"security_protocol": "SASL_SSL"}
    oauth = {**SASL, "sasl.login.callback.handler.class": "a.B", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": "a.B required;"}
    assert options(oauth, sasl_oauth_token=print) == {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    plain = {"sasl.jaas.config": "a.PlainLoginModule required username=y;"}
    assert options(plain, sasl_password="x", sasl_username="me") == {}


@pytest.mark.parametrize(("mechanism", "protocol"), [("sasl.mechanism", "SASL_SSL"), ("sasl.mechanisms", "sasl_ssl")])
def test_kerberos_is_configured_where_it_is_chosen(mechanism: str, protocol: str) -> None:
    sasl = {"security.protocol": protocol}
    names = {"sasl.kerberos.service.name": "broker", "sasl.kerberos.principal": "me@R", "sasl.kerberos.keytab": "/etc/me.keytab"}
    unused = {"sasl.kerberos.kinit.cmd": "kinit", "sasl.kerberos.min.time.before.relogin": 60000}
    expected = {
        "sasl_kerberos_service_name": "broker",
        "sasl_kerberos_principal": "me@R",
        "sasl_kerberos_keytab": "/etc/me.keytab",
        "sasl_mechanism": "GSSAPI",
        "security_protocol": "SASL_SSL",
    }
    assert options({**sasl, mechanism: "GSSAPI", **names, **unused}) == expected
    password = {"sasl_username": "me", "sasl_password": "x"}
    assert options({**sasl, mechanism: "GSSAPI", **names}, sasl_mechanism="PLAIN", **password) == {"security_protocol": "SASL_SSL"}
    assert options({**names, mechanism: "GSSAPI"}) == {}


QUOTED = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(QUOTED, QUOTED, st.sampled_from("\"'"))
def test_quoted_values_of_jaas_are_read_back(username: str, password: str, quote: str) -> None:
    def quoted(text: str) -> str:
        return quote + text.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote

    text = f"a.b.PlainLoginModule required username={quoted(username)}\n  password = {quoted(password)};"
    assert parse_jaas(text) == ("a.b.PlainLoginModule", {"username": username, "password": password})


@pytest.mark.parametrize(("text", "value"), [(r"a\tb", "a\tb"), (r"\101\7", "A\x07"), (r"\q", "q"), (r"\477", "'7")])
def test_escapes_in_jaas_are_those_of_javas_tokenizer(text: str, value: str) -> None:
    assert parse_jaas(f'm required x="{text}";') == ("m", {"x": value})


@given(st.text(max_size=40))
def test_any_text_is_jaas_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert parse_jaas(text)[0]


# -- secrets

# Locations are names of files, which the commands that convert them need.
NAMES = {**OPTIONS, **PROPERTIES, **attrs.fields_dict(ClientConfig)}
SECRETS = [
    name for name in NAMES if re.match("(ssl|sasl|oauth).*(password|jaas|key|token|secret|pem|certificate)(?!.*(location|[*])$)", name)
]
LEAKY = [
    *({name.replace("_", "."): SECRET} for name in SECRETS),
    *({**SASL, name.replace("_", "."): [SECRET]} for name in SECRETS),
    {"sasl.password": {"x": SECRET}},
    {"ssl.key.password": SECRET, "ssl.password": f"{SECRET}2"},
    {"sasl.password": SECRET, "sasl.jaas.config": f'a.PlainLoginModule required username="x" password="{SECRET}2";'},
    {"sasl.jass.config": f'a.PlainLoginModule required password="{SECRET}";'},
    {"sasl.pasword": SECRET},
    {"sasl.jaas.config": f"{SECRET} required password={SECRET}"},
    {"sasl.jaas.config": f"{SECRET} required password={SECRET};"},
    {"sasl.jaas.config": f"a.b.PlainLoginModule required password={SECRET}$%&;"},
    {**SASL, "sasl.oauthbearer.client.secret": SECRET},
    {"proxy.url": f"http://user:{SECRET}@h:99999999"},
]


@pytest.mark.parametrize("properties", LEAKY, ids=lambda properties: ",".join(properties))
def test_a_secret_is_in_no_error_log_line_or_repr(properties: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    shown = (
        [repr(item) + str(item) for item in read(properties)] if properties.keys().isdisjoint({"sasl.jass.config", "sasl.pasword"}) else []
    )
    with caplog.at_level(logging.DEBUG):
        try:
            shown.append(repr(translate(ProducerConfig, properties, {})))
        except ConfigError as error:
            shown += traceback.format_exception(error)
    assert SECRET not in "".join([*shown, *caplog.messages])


@pytest.mark.parametrize("content", ["sasl.password=", "sasl.password: ", "sasl.password:", "acks=1\nsasl.password "])
def test_the_content_of_a_file_in_place_of_its_path_is_in_no_error(content: str) -> None:
    with pytest.raises(ConfigError, match="perhaps the content of a file") as caught:
        list(read(content + SECRET))
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("path", ["no such file", "/etc/none.properties", "C:\\none.properties"])
def test_a_path_without_a_file_is_an_error_that_names_it(path: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        list(read(path))
    assert str(caught.value.filename) == path
