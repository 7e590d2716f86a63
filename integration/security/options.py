"""Makes the security options of other clients from pykafka4's options, which have all that a client needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from integration.security.credentials import quoted

__all__ = ["for_java", "for_kafka_python", "for_librdkafka"]

LIBRDKAFKA = MappingProxyType(
    {
        "bootstrap_servers": "bootstrap.servers",
        "security_protocol": "security.protocol",
        "ssl_cafile": "ssl.ca.location",
        "ssl_certfile": "ssl.certificate.location",
        "ssl_keyfile": "ssl.key.location",
        "sasl_mechanism": "sasl.mechanism",
        "sasl_username": "sasl.username",
        "sasl_password": "sasl.password",
    }
)
MODULES = "org.apache.kafka.common.security"


def for_librdkafka(options: Mapping[str, Any]) -> dict[str, Any]:
    """For OAUTHBEARER the caller adds a function, `oauth_cb`."""
    return {LIBRDKAFKA[name]: value for name, value in options.items()}


def for_kafka_python(options: Mapping[str, Any]) -> dict[str, Any]:
    other = {"sasl_username": "sasl_plain_username", "sasl_password": "sasl_plain_password"}
    return {other.get(name, name): value for name, value in options.items()}


def for_java(options: Mapping[str, Any], subject: str = "") -> dict[str, str]:
    """Certificates are values of the properties. `subject` is the user of OAUTHBEARER."""
    found = {"security.protocol": str(options["security_protocol"])}
    if "ssl_cafile" in options:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": Path(options["ssl_cafile"]).read_text()}
    if "ssl_certfile" in options:
        found |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": Path(options["ssl_certfile"]).read_text()}
        found |= {"ssl.keystore.key": Path(options["ssl_keyfile"]).read_text()}
    if "sasl_mechanism" in options:
        found |= {"sasl.mechanism": options["sasl_mechanism"], "sasl.jaas.config": jaas(options, subject)}
    return found


def jaas(options: Mapping[str, Any], subject: str) -> str:
    if options["sasl_mechanism"] == "OAUTHBEARER":
        return f"{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub={quoted(subject)};"
    module = "plain.PlainLoginModule" if options["sasl_mechanism"] == "PLAIN" else "scram.ScramLoginModule"
    user, password = quoted(options["sasl_username"]), quoted(options["sasl_password"])
    return f"{MODULES}.{module} required username={user} password={password};"
