"""Makes the settings of secured listeners. Invariant: only listeners for clients are secured; brokers, controllers and the judge use
PLAINTEXT.

So the harness itself needs no password, and a test that locks every client out can still ask the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import attrs

from integration.security.credentials import SCRAM, quoted

__all__ = ["ANONYMOUS", "MECHANISMS", "PASSWORDS", "Kerberos", "Mechanism", "Protocol", "Security"]

Protocol: TypeAlias = Literal["SASL_SSL", "SSL", "SASL_PLAINTEXT"]
Mechanism: TypeAlias = Literal["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER", "GSSAPI"]

PASSWORDS: Final[tuple[Mechanism, ...]] = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
MECHANISMS: Final[tuple[Mechanism, ...]] = (*PASSWORDS, "OAUTHBEARER")  # the mechanisms that need no server besides the brokers
ANONYMOUS: Final = "ANONYMOUS"  # the user of each connection to a PLAINTEXT listener: of the brokers and the harness
MODULES: Final = "org.apache.kafka.common.security"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
COMMON_NAME: Final = r"RULE:^CN=([^,]+).*$/$1/,DEFAULT"  # User:alice instead of User:CN=alice,OU=…


def names(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


@attrs.frozen
class Kerberos:
    """The brokers' settings for GSSAPI: the realm, its krb5.conf, and a keytab with the key of `service/host` for each host of a broker."""

    realm: str
    config: Path
    keytab: Path
    service: str = "kafka"

    def jaas(self, host: str) -> str:
        """The broker asks no KDC: its key is enough."""
        options = f"keyTab={quoted(str(self.keytab))} principal={quoted(f'{self.service}/{host}@{self.realm}')}"
        return f"com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false {options};"


@attrs.frozen
class Security:
    """The brokers' demands on clients.

    `users`: name -> password, the same for PLAIN and both SCRAM mechanisms. `client_auth="required"`: a client has to show a certificate of
    the cluster's authority; over SSL its common name is the user. `authorizer`: only `super_users` and the harness may do anything, until
    `Access.grant` allows it. `reauthentication_ms`: a connection must authenticate again within this time (KIP-368). `kerberos`: for
    GSSAPI, which is not among the usual mechanisms.
    """

    protocol: Protocol = "SASL_SSL"
    mechanisms: tuple[Mechanism, ...] = attrs.field(default=MECHANISMS, converter=names)
    client_auth: Literal["none", "required"] = "none"
    authorizer: bool = False
    users: Mapping[str, str] = attrs.field(factory=lambda: {"alice": "alice-secret"}, converter=dict)
    super_users: tuple[str, ...] = attrs.field(default=(), converter=names)
    reauthentication_ms: int | None = None
    kerberos: Kerberos | None = None

    def __attrs_post_init__(self) -> None:
        if self.protocol not in get_args(Protocol):
            raise ValueError(f"protocol: {self.protocol!r} is none of {', '.join(get_args(Protocol))}")
        if self.client_auth not in ("none", "required"):
            raise ValueError(f"client_auth: {self.client_auth!r} is neither none nor required")
        if unknown := set(self.mechanisms) - set(get_args(Mechanism)):
            raise ValueError(f"mechanisms: {', '.join(unknown)}; there are {', '.join(get_args(Mechanism))}")
        if self.sasl and not self.mechanisms:
            raise ValueError(f"{self.protocol} needs a mechanism")
        if ("GSSAPI" in self.mechanisms) != (self.kerberos is not None):
            raise ValueError("kerberos: it goes with the mechanism GSSAPI, and GSSAPI needs it")
        if self.client_auth == "required" and not self.tls:
            raise ValueError(f"client_auth: without TLS ({self.protocol}) a client has no certificate")
        if self.authorizer and not self.sasl and self.client_auth == "none":
            raise ValueError(f"authorizer: without client_auth every client over SSL is {ANONYMOUS}, who may do everything here")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def scram(self) -> tuple[Mechanism, ...]:
        """The mechanisms whose passwords the brokers keep in their metadata, and which can be changed at any time."""
        return tuple(name for name in self.mechanisms if self.sasl and name in SCRAM)

    @property
    def jvm(self) -> tuple[str, ...]:
        return () if self.kerberos is None else (f"-Djava.security.krb5.conf={self.kerberos.config}",)

    def settings(
        self, usual: Mapping[str, str], keystore: str, authority: str, listeners: Iterable[str] = ("CLIENT",), host: str = "localhost"
    ) -> dict[str, str]:
        """A broker's properties in addition to the `usual` ones.

        `keystore` is the broker's path of its PEM file, `authority` the PEM certificate of the authority of clients' certificates, `host`
        the name by which clients reach the broker.
        """
        wanted = dict.fromkeys(listeners, self.protocol)
        protocols = dict(entry.split(":") for entry in usual["listener.security.protocol.map"].split(","))
        found = {"listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in (protocols | wanted).items())}
        for name in wanted:
            listener = {**self.tls_settings(keystore, authority), **self.sasl_settings(host)}
            found |= {f"listener.name.{name.lower()}.{key}": value for key, value in listener.items()}
        if self.client_auth == "required":
            found["ssl.principal.mapping.rules"] = COMMON_NAME
        if self.authorizer:
            allowed = ";".join(f"User:{name}" for name in (ANONYMOUS, *self.super_users))
            found |= {"authorizer.class.name": AUTHORIZER, "super.users": allowed, "allow.everyone.if.no.acl.found": "false"}
        return found

    def tls_settings(self, keystore: str, authority: str) -> dict[str, str]:
        if not self.tls:
            return {}
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": keystore,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority,
            "ssl.client.auth": self.client_auth,
            # Otherwise a running broker refuses a certificate for another name.
            "ssl.allow.dn.changes": "true",
            "ssl.allow.san.changes": "true",
        }

    def sasl_settings(self, host: str) -> dict[str, str]:
        if not self.sasl:
            return {}
        found = {"sasl.enabled.mechanisms": ",".join(self.mechanisms)}
        for name in self.mechanisms:
            found[f"{name.lower()}.sasl.jaas.config"] = self.jaas(name, host)
            if self.reauthentication_ms is not None:
                found[f"{name.lower()}.connections.max.reauth.ms"] = str(self.reauthentication_ms)
        if self.kerberos is not None:
            found["sasl.kerberos.service.name"] = self.kerberos.service
        return found

    def jaas(self, mechanism: Mechanism, host: str) -> str:
        """With OAUTHBEARER, the brokers accept every unsigned token."""
        if mechanism == "GSSAPI" and self.kerberos is not None:
            return self.kerberos.jaas(host)
        if mechanism in SCRAM:
            return f"{MODULES}.scram.ScramLoginModule required;"
        if mechanism == "OAUTHBEARER":
            return f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        users = " ".join(f"{quoted(f'user_{name}')}={quoted(password)}" for name, password in self.users.items())
        return f"{MODULES}.plain.PlainLoginModule required {users};"
