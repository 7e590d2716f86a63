"""Properties of TLS and SASL. Rule: no value that may be secret is shown, and nothing that protects a connection is dropped.

Java's stores (JKS, PKCS12) are refused with the commands that convert them: Python reads only PEM.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import attrs

from pykafka4.errors import ConfigError, shown
from pykafka4.options.pem import restore_lines

__all__ = ["NAMES", "Property", "Translating", "by_prefix", "parse_jaas"]

SECRET: Final = re.compile("user.?name|password|passphrase|jaas|key|token|secret|pem|certificate|credential|user.info", re.IGNORECASE)


@attrs.frozen
class Property:
    """A property, and where it is. As text it is `name='value'`, or only the name if the value may be secret."""

    name: str
    value: Any = attrs.field(repr=False)
    where: str  # "client.properties, line 3", or "the mapping"

    def __str__(self) -> str:
        return self.name if self.secret else f"{self.name}={shown(self.value)}"

    @property
    def secret(self) -> bool:
        """Whether the value must not be shown."""
        return SECRET.search(self.name) is not None

    @property
    def empty(self) -> bool:
        """Whether it leaves the default."""
        return self.value is None or (isinstance(self.value, str) and not self.value.strip())

    def text(self) -> str:
        """The value as text. Raises ConfigError if it is neither text nor a number."""
        if isinstance(self.value, str):
            return str.__str__(self.value)
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.error(f"must be text, not a {type(self.value).__name__}")
        return str(self.value)

    def error(self, why: str) -> ConfigError:
        """The error to raise: place, property, value and reason."""
        return ConfigError(f"{self.where}: {self}: {why}")


class Translating(Protocol):
    """What is needed of `pykafka4.properties.Translation`."""

    items: dict[str, Property]
    given: Mapping[str, Any]

    def set(self, option: str, item: Property, value: Any) -> None:
        """Set an option, unless the application passes it itself."""

    def ignore(self, item: Property, why: str) -> None:
        """Report that the property has no effect."""


Translate: TypeAlias = Callable[[Translating, Property], None]


def _as(option: str) -> Translate:
    """The value is that of `option`."""

    def translate(found: Translating, item: Property) -> None:
        if not item.empty and option not in found.given:
            found.set(option, item, restore_lines(item.text()) if option.endswith("_pem") else item.text())

    return translate


def _protocol(found: Translating, item: Property) -> None:
    """librdkafka's values are in lower case."""
    if not item.empty:
        found.set("security_protocol", item, item.text().strip().upper())


def _ignored(why: str) -> Translate:
    def translate(found: Translating, item: Property) -> None:
        if not item.empty:
            found.ignore(item, why)

    return translate


def _refused(why: str) -> Translate:
    def translate(found: Translating, item: Property) -> None:
        if not item.empty:
            raise item.error(why)

    return translate


# -- TLS


def _authorities(found: Translating, item: Property) -> None:
    """`probe` stands for the authorities of the system, which are the default."""
    if item.value != "probe":
        _as("ssl_cafile")(found, item)


CONTENTS: Final = {
    "keystore": ("ssl.keystore.certificate.chain", "ssl.keystore.key"),
    "truststore": ("ssl.truststore.certificates",),
}


def _store(name: str, options: tuple[str, ...]) -> Translate:
    """A store of certificates and keys: a PEM file is taken, others are refused with the way to convert them."""

    def translate(found: Translating, item: Property) -> None:
        if item.empty or options[0] in found.given:
            return
        if "-----BEGIN" in item.text():
            raise item.error(f"is the content of a file: must be its path; {', '.join(CONTENTS[name])} take contents")
        given = found.items.get(f"ssl.{name}.type")
        form = "" if given is None or given.empty else given.text().strip().upper()
        if form != "PEM":
            raise item.error(_conversion(name, options, item.text().strip(), form))
        for option in options:
            found.set(option, item, item.text().strip())

    return translate


def _conversion(name: str, options: tuple[str, ...], location: str, form: str) -> str:
    """What to do with a store of that form (empty: the property is missing)."""
    path = PurePath(location)
    pkcs12, pem = str(path.with_suffix(".p12")), str(path.with_suffix(".pem"))
    if not form and path.suffix.lower() in (".pem", ".crt", ".cer"):
        return f"ssl.{name}.type is missing, and Java's default is JKS; if {location} is a PEM file, add ssl.{name}.type=PEM"
    commands = []
    if form == "PKCS12" or (not form and path.suffix.lower() in (".p12", ".pfx")):
        pkcs12, form = location, "PKCS12"
    else:
        pkcs12 += ".p12" if pkcs12 == location else ""
        commands.append(
            f"keytool -importkeystore -srckeystore {shlex.quote(location)} -destkeystore {shlex.quote(pkcs12)} -deststoretype PKCS12"
        )
    what = "-nokeys" if name == "truststore" else "-nodes"
    commands.append(f"openssl pkcs12 -in {shlex.quote(pkcs12)} -out {shlex.quote(pem)} {what}")
    given = f"a {form} store" if form else "a JKS store (Java's default, as the type is missing)"
    passed = ", ".join(f"{option}={pem!r}" for option in options)
    convert = " && ".join(commands)
    return f"{given} cannot be read; convert it: `{convert}`; then pass {passed}, or set ssl.{name}.location={pem} and ssl.{name}.type=PEM"


def _check_hostname(found: Translating, item: Property) -> None:
    """Empty (Java) and `none` (librdkafka) switch the check off; None leaves the default."""
    if item.value is None or "ssl_check_hostname" in found.given:
        return
    value = item.text().strip().lower()
    if value not in ("https", "none", ""):
        raise item.error("must be https, or empty (Java) or none (librdkafka) to accept any host name")
    found.set("ssl_check_hostname", item, value == "https")


def _verification(found: Translating, item: Property) -> None:
    if str(item.value).strip().lower() in ("false", "f", "0"):
        raise item.error(
            "certificates of brokers are always verified; put the authority that signed them into ssl.ca.location, or pass ssl_cafile"
        )


def _ciphers(found: Translating, item: Property) -> None:
    if item.empty or "ssl_ciphers" in found.given:
        return
    names = [name.strip() for name in re.split("[,:]", item.text()) if name.strip()]
    if any(name.startswith(("TLS_", "SSL_")) for name in names):
        raise item.error("OpenSSL's names are needed, for TLS 1.2 (those of TLS 1.3 are fixed): `openssl ciphers -stdname` shows both")
    found.set("ssl_ciphers", item, ":".join(names))


# -- SASL

NO_SASL: Final = "security.protocol has no SASL"
TOKEN: Final = "pass sasl_oauth_token=…, a function that returns a token, to from_properties"
JAAS_TOKEN: Final = re.compile(r"""\s*(?:(?P<word>[\w.$-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[=;]))""", re.DOTALL)
ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _mechanism(found: Translating, item: Property) -> None:
    if item.empty or "sasl_mechanism" in found.given:
        return
    value = item.text().strip().upper()
    if value == "GSSAPI" and not _sasl(found):
        found.ignore(item, NO_SASL)
    else:
        found.set("sasl_mechanism", item, value)


def _sasl(found: Translating) -> bool:
    """Whether SASL is used at all: files of options often list Java's defaults, such as the mechanism GSSAPI."""
    item = found.items.get("security.protocol")
    protocol = found.given.get("security_protocol") or (item.value if item is not None else None)
    return str(protocol).strip().upper().startswith("SASL_")


def _oauth(found: Translating, item: Property) -> None:
    if item.empty:
        return
    if "sasl_oauth_token" in found.given:
        found.ignore(item, "sasl_oauth_token returns the tokens")
    elif _sasl(found):
        raise item.error(TOKEN)
    else:
        found.ignore(item, NO_SASL)


def _jaas(found: Translating, item: Property) -> None:
    if item.empty or found.given.keys() & {"sasl_password", "sasl_oauth_token", "sasl_kerberos_keytab"}:
        return
    try:
        module, options = parse_jaas(item.text())
    except ValueError as error:
        raise item.error(str(error)) from None
    _LOGIN_MODULES.get(module.rpartition(".")[2], _other_module)(found, item, module, options)


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """(class of the login module, its options) of `class flag name=value …;`, as Kafka reads it. ValueError, without any of the text."""
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = JAAS_TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot be read at character {at + 1}: a value with other characters than letters and digits needs quotes")
        tokens.append((match.lastgroup, match[match.lastgroup or 0]))
        at = match.end()
    if len(tokens) < 3 or tokens[-1] != ("sign", ";") or tokens.index(("sign", ";")) != len(tokens) - 1:
        raise ValueError("must be one login module: class, flag, options, and a semicolon at the end")
    (first, module), (second, flag), *rest = tokens[:-1]
    if first != "word" or second != "word" or flag.lower() not in ("required", "requisite", "sufficient", "optional") or len(rest) % 3:
        raise ValueError('must be `class required name="value" …;`')
    options = {}
    for (kind, name), sign, (form, value) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if kind != "word" or sign != ("sign", "=") or form == "sign":
            raise ValueError('an option must be name="value"')
        options[name] = value if form == "word" else ESCAPE.sub(_unescaped, value[1:-1])
    return module, options


def _unescaped(match: re.Match[str]) -> str:
    """As java.io.StreamTokenizer does it."""
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else ESCAPES.get(text, text)


def _password_module(found: Translating, item: Property, module: str, options: dict[str, str]) -> None:
    if options.get("tokenauth", "").lower() == "true":
        raise item.error("delegation tokens (tokenauth) are not supported; use the user's own name and password")
    for name, option in (("username", "sasl_username"), ("password", "sasl_password")):
        if name in options:
            found.set(option, item, options[name])
        elif option not in found.given:
            raise item.error(f"{name} is missing; add it, or pass {option}=… to from_properties")


def _token_module(found: Translating, item: Property, module: str, options: dict[str, str]) -> NoReturn:
    raise item.error(f"a login module cannot get the tokens here; {TOKEN}")


def _kerberos_module(found: Translating, item: Property, module: str, options: dict[str, str]) -> None:
    has_keytab = options.get("useKeyTab", "").lower() == "true"
    if has_keytab and "keyTab" not in options:
        raise item.error("keyTab is missing; add it, or pass sasl_kerberos_keytab=… to from_properties")
    if "ticketCache" in options and not has_keytab:
        raise item.error("ticketCache cannot be chosen for one client; set KRB5CCNAME in the environment of the process")
    wanted = {"serviceName": "sasl_kerberos_service_name", "principal": "sasl_kerberos_principal"}
    if has_keytab:
        wanted["keyTab"] = "sasl_kerberos_keytab"
    for name, option in wanted.items():
        if name in options:
            found.set(option, item, options[name])


def _kerberos(option: str) -> Translate:
    """Java and librdkafka have defaults for them, which files of options list whatever the mechanism is."""

    def translate(found: Translating, item: Property) -> None:
        if item.empty:
            return
        if _sasl(found) and _chosen_mechanism(found) == "GSSAPI":
            _as(option)(found, item)
        else:
            found.ignore(item, "sasl_mechanism is not GSSAPI")

    return translate


def _chosen_mechanism(found: Translating) -> str:
    items = [item for name in ("sasl.mechanism", "sasl.mechanisms") if (item := found.items.get(name)) is not None and not item.empty]
    return str(found.given.get("sasl_mechanism") or (items[0].value if items else "")).strip().upper()


def _other_module(found: Translating, item: Property, module: str, options: dict[str, str]) -> NoReturn:
    known = ", ".join(name for name in _LOGIN_MODULES if name != "OAuthBearerLoginModule")
    raise item.error(f"the login module is not supported, only {known}; for a service with tokens, {TOKEN}")


_LOGIN_MODULES: Final[dict[str, Callable[[Translating, Property, str, dict[str, str]], None]]] = {
    "PlainLoginModule": _password_module,
    "ScramLoginModule": _password_module,
    "OAuthBearerLoginModule": _token_module,
    "Krb5LoginModule": _kerberos_module,
}


# -- names, with dots as underscores

_VERSIONS: Final = _ignored("client and broker agree on the newest version of TLS that both have")
_JAVA: Final = _ignored("it concerns Java's own TLS")
_NO_PASSWORD: Final = _ignored("PEM files have no password of their own; that of the key is ssl.key.password")
_OPENSSL: Final = _refused("Python's ssl module cannot set it; remove the property, or set it in OpenSSL's own configuration")
_ENGINE: Final = _refused("certificates and keys are read from PEM files or text only; see docs/guide/properties.md")

NAMES: Final[dict[str, Translate]] = {
    "enable_ssl_certificate_verification": _verification,
    "oauth_cb": _oauth,
    "oauthbearer_token_refresh_cb": _oauth,
    "enable_sasl_oauthbearer_unsecure_jwt": _oauth,
    "sasl_client_callback_handler_class": _oauth,
    "sasl_jaas_config": _jaas,
    "sasl_kerberos_keytab": _kerberos("sasl_kerberos_keytab"),
    "sasl_kerberos_principal": _kerberos("sasl_kerberos_principal"),
    "sasl_kerberos_service_name": _kerberos("sasl_kerberos_service_name"),
    "sasl_login_callback_handler_class": _oauth,
    "sasl_login_class": _oauth,
    "sasl_mechanism": _mechanism,
    "sasl_mechanisms": _mechanism,
    "sasl_password": _as("sasl_password"),
    "sasl_username": _as("sasl_username"),
    "security_protocol": _protocol,
    "security_providers": _JAVA,
    "ssl_ca_certificate_stores": _ENGINE,
    "ssl_ca_location": _authorities,
    "ssl_ca_pem": _as("ssl_ca_pem"),
    "ssl_certificate_location": _as("ssl_certfile"),
    "ssl_certificate_pem": _as("ssl_cert_pem"),
    "ssl_cipher_suites": _ciphers,
    "ssl_crl_location": _OPENSSL,
    "ssl_curves_list": _OPENSSL,
    "ssl_enabled_protocols": _VERSIONS,
    "ssl_endpoint_identification_algorithm": _check_hostname,
    "ssl_engine_factory_class": _ENGINE,
    "ssl_engine_id": _ENGINE,
    "ssl_engine_location": _ENGINE,
    "ssl_key_location": _as("ssl_keyfile"),
    "ssl_key_password": _as("ssl_password"),
    "ssl_key_pem": _as("ssl_key_pem"),
    "ssl_keymanager_algorithm": _JAVA,
    "ssl_keystore_certificate_chain": _as("ssl_cert_pem"),
    "ssl_keystore_key": _as("ssl_key_pem"),
    "ssl_keystore_location": _store("keystore", ("ssl_certfile", "ssl_keyfile")),
    "ssl_keystore_password": _NO_PASSWORD,
    "ssl_keystore_type": lambda found, item: None,  # read with the location
    "ssl_protocol": _VERSIONS,
    "ssl_provider": _JAVA,
    "ssl_providers": _OPENSSL,
    "ssl_secure_random_implementation": _JAVA,
    "ssl_sigalgs_list": _OPENSSL,
    "ssl_trustmanager_algorithm": _JAVA,
    "ssl_truststore_certificates": _as("ssl_ca_pem"),
    "ssl_truststore_location": _store("truststore", ("ssl_cafile",)),
    "ssl_truststore_password": _NO_PASSWORD,
    "ssl_truststore_type": lambda found, item: None,
}
_PREFIXES: Final = {
    "sasl_kerberos_": _ignored("the Kerberos library gets and renews tickets itself"),
    "sasl_login_": _ignored("sasl_oauth_token is called when a token is needed"),
    "sasl_oauthbearer_": _oauth,
    "https_ca_": _ignored("it concerns the requests for tokens, which sasl_oauth_token makes"),
}


def by_prefix(name: str) -> Translate | None:
    """For names of which there are many."""
    return next((translate for prefix, translate in _PREFIXES.items() if name.startswith(prefix)), None)
