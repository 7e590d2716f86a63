"""Translates properties of TLS and SASL. Invariant: no error shows a password, a key, a token or the options of a login module.

Rule: a property whose loss would weaken a connection is refused, not ignored. The error for a Java store (JKS, PKCS12) contains the
commands that convert the store, because Python reads only PEM files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any, Final, TypeAlias

from pykafka4.other_clients.source import Property
from pykafka4.other_clients.translation import Translation

__all__ = ["RULES", "Rule", "parse_jaas"]

Rule: TypeAlias = Callable[[Translation, Property, str], Any]  # returns the value of the option, or None for no value

NO_SASL: Final = "security.protocol has no SASL"
TOKEN: Final = "pass sasl_oauth_token=…, a function that returns a token, to from_properties"
CONTENTS: Final = {"keystore": "ssl.keystore.certificate.chain, ssl.keystore.key", "truststore": "ssl.truststore.certificates"}
JAAS_TOKEN: Final = re.compile(r"""\s*(?:(?P<word>[\w.$-]+)|(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign>[=;]))""", re.DOTALL)
ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


# -- TLS


def _store(name: str, others: tuple[str, ...], found: Translation, item: Property, option: str) -> str:
    """Return the path of a PEM file. Raises ConfigError if the type is missing or not PEM, or the value is the content of a file."""
    location = item.text().strip()
    if "-----BEGIN" in location:
        raise item.error(f"is the content of a file: must be its path; for contents set {CONTENTS[name]}")
    given = found.items.get(f"ssl.{name}.type")
    form = "" if given is None or given.empty else given.text().strip().upper()
    if form != "PEM":
        raise item.error(_conversion(name, (option, *others), location, form))
    for other in others:
        found.set(other, item, location)
    return location


def _conversion(name: str, options: tuple[str, ...], location: str, form: str) -> str:
    """An empty `form` means that ssl.….type is missing or empty."""
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
    given = f"a {form} store" if form else "a JKS store (Java's default, because the type is missing)"
    passed, convert = ", ".join(f"{option}={pem!r}" for option in options), " && ".join(commands)
    return f"{given} cannot be read; convert it: `{convert}`; then pass {passed}, or set ssl.{name}.location={pem} and ssl.{name}.type=PEM"


def _check_hostname(found: Translation, item: Property, option: str) -> bool:
    """An empty value (Java) and `none` (librdkafka) switch the check off."""
    value = item.text().strip().lower()
    if value not in ("https", "none", ""):
        raise item.error("must be https, or empty (Java) or none (librdkafka) to accept any host name")
    return value == "https"


def _ciphers(found: Translation, item: Property, option: str) -> str:
    names = [name.strip() for name in re.split("[,:]", item.text()) if name.strip()]
    if any(name.startswith(("TLS_", "SSL_")) for name in names):
        raise item.error(
            "OpenSSL's names are needed, for TLS 1.2 (the ciphers of TLS 1.3 are fixed): `openssl ciphers -stdname` shows both"
        )
    return ":".join(names)


def _protocols(found: Translation, item: Property, option: str) -> None:
    """With TLS, refuse a list without TLSv1.2, because the client always accepts this version. Ignore any other list."""
    versions = [version.strip().upper() for version in item.text().split(",")]
    if found.said("security_protocol").upper().endswith("SSL") and "TLSV1.2" not in versions:
        raise item.error(
            "the client also accepts TLS 1.2; add TLSv1.2 to the list, or remove the properties of TLS and pass as ssl_context an "
            "ssl.SSLContext with the certificates and minimum_version"
        )
    found.ignore(item, "the client accepts TLS 1.2 and 1.3")


# -- SASL


def _uses_sasl(found: Translation) -> bool:
    """Files without SASL often list Java's SASL defaults, such as the mechanism GSSAPI."""
    return found.said("security_protocol").upper().startswith("SASL_")


def _mechanism(found: Translation, item: Property, option: str) -> str | None:
    value = item.text().strip().upper()
    if value != "GSSAPI" or _uses_sasl(found):
        return value
    found.ignore(item, NO_SASL)
    return None


def _token(found: Translation, item: Property, option: str) -> Any:
    if item.option_name == option:
        return item.value
    if _uses_sasl(found):
        raise item.error(TOKEN)
    found.ignore(item, NO_SASL)
    return None


def _kerberos(found: Translation, item: Property, option: str) -> str | None:
    """Ignore the property unless the client uses GSSAPI, because files often list other clients' Kerberos defaults for any mechanism."""
    if _uses_sasl(found) and found.said("sasl_mechanism").upper() == "GSSAPI":
        return item.text()
    found.ignore(item, "the client does not authenticate itself with GSSAPI")
    return None


def _jaas(found: Translation, item: Property, option: str) -> None:
    if found.given.keys() & {"sasl_oauth_token", "sasl_kerberos_keytab"}:  # the application replaces the login module
        return
    try:
        module, options = parse_jaas(item.text())
    except ValueError as error:
        raise item.error(str(error)) from None
    known = {"PlainLoginModule": _password, "ScramLoginModule": _password, "Krb5LoginModule": _keytab}
    name = module.rpartition(".")[2]
    if name == "OAuthBearerLoginModule":
        raise item.error(f"a login module cannot get the tokens here; {TOKEN}")
    if name not in known:
        raise item.error(f"the login module is not supported, only {', '.join(known)}; for a service with tokens, {TOKEN}")
    for option, value in known[name](found, item, options).items():
        found.set(option, item, value)


def _password(found: Translation, item: Property, options: dict[str, str]) -> dict[str, Any]:
    for name in ("username", "password"):
        if name not in options and f"sasl_{name}" not in found.given:
            raise item.error(f"{name} is missing; add it, or pass sasl_{name}=… to from_properties")
    is_token = options.get("tokenauth", "").lower() == "true"
    given = {f"sasl_{name}": options[name] for name in ("username", "password") if name in options}
    return {**given, **({"sasl_delegation_token": True} if is_token else {})}


def _keytab(found: Translation, item: Property, options: dict[str, str]) -> dict[str, str]:
    has_keytab = options.get("useKeyTab", "").lower() == "true"
    if has_keytab and "keyTab" not in options:
        raise item.error("keyTab is missing; add it, or pass sasl_kerberos_keytab=… to from_properties")
    if "ticketCache" in options and not has_keytab:
        raise item.error("ticketCache cannot be chosen for one client; set KRB5CCNAME in the environment of the process")
    names = {"serviceName": "service_name", "principal": "principal", **({"keyTab": "keytab"} if has_keytab else {})}
    return {f"sasl_kerberos_{ours}": options[name] for name, ours in names.items() if name in options}


def parse_jaas(text: str) -> tuple[str, dict[str, str]]:
    """Parse `class flag name=value …;`, and return the class of the login module and the module's options.

    Raises ValueError with a message that repeats no part of `text`.
    """
    tokens, at, end = [], 0, len(text.rstrip())
    while at < end:
        match = JAAS_TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot be read at character {at + 1}: a value with characters other than letters and digits needs quotes")
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
    """The character of an escape, as java.io.StreamTokenizer reads it."""
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else ESCAPES.get(text, text)


# Keys are names of properties or of options. A rule for the name of the property takes precedence.
RULES: Final[dict[str, Rule]] = {
    "sasl_jaas_config": _jaas,
    **dict.fromkeys(("sasl_kerberos_keytab", "sasl_kerberos_principal", "sasl_kerberos_service_name"), _kerberos),
    "sasl_mechanism": _mechanism,
    "sasl_oauth_token": _token,
    "security_protocol": lambda found, item, option: item.text().strip().upper(),  # librdkafka's values are in lower case
    "ssl_ca_location": lambda found, item, option: None if item.value == "probe" else item.text(),  # "probe" is the default here
    "ssl_ciphers": _ciphers,
    "ssl_enabled_protocols": _protocols,
    "ssl_endpoint_identification_algorithm": _check_hostname,
    "ssl_keystore_location": partial(_store, "keystore", ("ssl_keyfile",)),
    "ssl_truststore_location": partial(_store, "truststore", ()),
    **dict.fromkeys(("ssl_keystore_type", "ssl_truststore_type"), lambda found, item, option: None),  # read with the location
}
