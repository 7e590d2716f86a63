"""Defines the options of TLS and SASL. Invariant: no `repr` shows a secret, and changed options that the security protocol or the SASL
mechanism does not use are refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final, Self

import attrs

from pykafka4.errors import ConfigError
from pykafka4.options.fields import Secret, changed_options, choice, flag, one_of_kind, path, pem_text, secret, text

__all__ = ["MECHANISMS", "SecurityConfig"]

log = logging.getLogger("pykafka4.config")

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
TLS: Final = (
    "ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_ca_pem", "ssl_cert_pem", "ssl_key_pem", "ssl_check_hostname",
    "ssl_ciphers", "ssl_context",
)  # fmt: skip
PASSWORD: Final = ("sasl_username", "sasl_password")
KERBEROS: Final = ("sasl_kerberos_service_name", "sasl_kerberos_principal", "sasl_kerberos_keytab")
TOKEN: Final = ("sasl_delegation_token",)
SASL: Final = ("sasl_mechanism", *PASSWORD, *TOKEN, "sasl_oauth_token", *KERBEROS)
NEEDED: Final = {"OAUTHBEARER": ("sasl_oauth_token",), "GSSAPI": ()}  # the other mechanisms need user name and password
OPTIONAL: Final = {"GSSAPI": KERBEROS, "SCRAM-SHA-256": TOKEN, "SCRAM-SHA-512": TOKEN}
EXCLUSIVE: Final = (("ssl_cafile", "ssl_ca_pem"), ("ssl_certfile", "ssl_cert_pem"), ("ssl_keyfile", "ssl_key_pem"))


def _is_context(value: object) -> bool:
    # Attributes are checked, not the class: `core` imports this module, and must not import `ssl`.
    return hasattr(value, "wrap_socket") and hasattr(value, "check_hostname")


@attrs.frozen(kw_only=True)
class SecurityConfig:
    """Options of encryption, and of the authentication of client and brokers."""

    security_protocol: str = choice(
        "PLAINTEXT", PROTOCOLS, "Protocol of the connections: SSL encrypts them, SASL authenticates the client."
    )
    ssl_cafile: str | None = path("PEM file with the certificates of the authorities to trust. Default: the system's authorities.")
    ssl_certfile: str | None = path("PEM file with the client's certificate and the intermediate certificates up to its authority.")
    ssl_keyfile: str | None = path("PEM file with the key of the client's certificate. Default: the key is in `ssl_certfile`.")
    ssl_password: Secret = secret("Password of the client's key.")
    ssl_ca_pem: str | None = pem_text("The content of `ssl_cafile`, in place of a file.")
    ssl_cert_pem: str | None = pem_text("The content of `ssl_certfile`, in place of a file.")
    ssl_key_pem: Secret = secret("The content of `ssl_keyfile`, in place of a file.", callables=False)
    ssl_check_hostname: bool = flag(True, "Whether a broker's certificate has to name the host that the client connects to.")
    ssl_ciphers: str | None = text(None, "Ciphers for TLS 1.2 as OpenSSL names them. Default: Python's.")
    ssl_context: Any = one_of_kind(
        "an ssl.SSLContext", _is_context, "A context of the application, used unchanged, in place of all other `ssl_*` options."
    )
    sasl_mechanism: str | None = choice(None, MECHANISMS, "How the client authenticates itself.")
    sasl_username: str | Callable[[], str] | None = secret("User name for PLAIN and SCRAM; a callable is called for each authentication.")
    sasl_password: Secret = secret("Password for PLAIN and SCRAM; a callable is called for each authentication.")
    sasl_delegation_token: bool = flag(
        False,
        "For SCRAM: user name and password are the id and the secret of a delegation token, as `AdminClient.create_token` returns them.",
    )
    sasl_oauth_token: Callable[[], Any] | None = one_of_kind(
        "a callable that returns a token",
        callable,
        "For OAUTHBEARER: a callable that returns a token; called on a helper thread, for a login without a fresh token.",
        hidden=True,
    )
    sasl_kerberos_service_name: str = text("kafka", "For GSSAPI: first part of the brokers' principals, as in `kafka/host@REALM`.")
    sasl_kerberos_principal: str | None = text(
        None, "For GSSAPI: the client's principal. Default: the principal of the keytab, or of the default ticket cache."
    )
    sasl_kerberos_keytab: str | None = text(
        None,
        "For GSSAPI: file with the client's key, for getting tickets. Default: the tickets of the default cache (`kinit`).",
    )

    @property
    def encrypts(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def authenticates(self) -> bool:
        return self.security_protocol.startswith("SASL")

    def __reduce_ex__(self, protocol: Any) -> Any:
        if secret := changed_options(self, [a.name for a in attrs.fields(type(self)) if not a.repr]):
            raise TypeError(f"a {type(self).__name__} with {', '.join(secret)} cannot be pickled, as that would show a secret")
        return super().__reduce_ex__(protocol)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __attrs_post_init__(self) -> None:
        self._refuse_without_effect()
        if self.encrypts:
            self._check_tls()
        if self.authenticates:
            self._check_sasl()

    def _refuse_without_effect(self) -> None:
        for names, needed, active in ((TLS, "SSL or SASL_SSL", self.encrypts), (SASL, "SASL_SSL or SASL_PLAINTEXT", self.authenticates)):
            idle = [] if active else changed_options(self, names)
            if idle:
                raise ConfigError(
                    f"{idle[0]} has no effect with security_protocol={self.security_protocol}; set security_protocol to {needed}, "
                    f"or leave out {', '.join(idle)}"
                )

    def _check_tls(self) -> None:
        if self.ssl_context is not None and (others := [name for name in changed_options(self, TLS) if name != "ssl_context"]):
            raise ConfigError(f"{others[0]} has no effect with ssl_context: set it in the context, or leave out one of the two")
        for file, content in EXCLUSIVE:
            if getattr(self, file) is not None and getattr(self, content) is not None:
                raise ConfigError(f"{file} and {content} are both set: leave out one of the two")
        certificate = self.ssl_certfile or self.ssl_cert_pem
        key = self.ssl_keyfile or self.ssl_key_pem
        if key is not None and certificate is None:
            raise ConfigError("a key without a certificate: set ssl_certfile (or ssl_cert_pem), too")
        if self.ssl_password is not None and certificate is None:
            raise ConfigError("ssl_password is the password of a key: set ssl_certfile and ssl_keyfile, too")

    def _check_sasl(self) -> None:
        mechanism = self.sasl_mechanism
        if mechanism is None:
            raise ConfigError(f"security_protocol={self.security_protocol} needs sasl_mechanism, one of {', '.join(MECHANISMS)}")
        needed = NEEDED.get(mechanism, PASSWORD)
        taken = (*needed, *OPTIONAL.get(mechanism, ()))
        for name in needed:
            if getattr(self, name) is None:
                raise ConfigError(f"{name} is missing: sasl_mechanism={mechanism} needs {' and '.join(needed)}")
        if idle := [name for name in changed_options(self, SASL[1:]) if name not in taken]:
            raise ConfigError(f"{idle[0]} has no effect with sasl_mechanism={mechanism}, which uses {' and '.join(taken)}")
        if mechanism in ("PLAIN", "OAUTHBEARER") and not self.encrypts:
            _warn_of_clear_text(mechanism)


_warned: set[str] = set()


def _warn_of_clear_text(mechanism: str) -> None:
    if mechanism not in _warned:
        _warned.add(mechanism)
        log.warning("security_protocol=SASL_PLAINTEXT with %s sends the credentials in clear text: use SASL_SSL", mechanism)
