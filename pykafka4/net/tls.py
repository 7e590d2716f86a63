"""TLS. Rule: certificates are read again for each connection, never on the loop's thread; errors say what to change, and show no secret.

Python's `ssl` does the work. `Contexts` makes the context from the options, `explain_tls` turns what `ssl` raises into a message.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import ssl
import stat
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pykafka4.errors import AuthenticationError, ConfigError, ConnectionLost, KafkaError, caused_by
from pykafka4.logs import get_log
from pykafka4.security import SecurityConfig

__all__ = ["Contexts", "explain_tls"]

log = get_log("pykafka4.tls")

FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
CONTENTS: Final = ("ssl_ca_pem", "ssl_cert_pem", "ssl_key_pem")
LARGEST: Final = 16 << 20  # bytes of a file of certificates; the authorities of a system take a quarter of a MiB

TRUST: Final = "set ssl_cafile to the certificate of the authority that signed the broker's"
IDENTIFY: Final = "the broker demands a certificate that it trusts: set ssl_certfile and ssl_keyfile"
NO_TLS: Final = "it does not speak TLS: use its TLS port, or a security_protocol without SSL"
PARAMETERS: Final = "the client and the broker have no TLS version or cipher in common; this client needs TLS 1.2 or newer"
HINTS: Final = {  # by the reason of an SSLError
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "UNSUPPORTED_PROTOCOL": PARAMETERS,
    "NO_SHARED_CIPHER": PARAMETERS,
    "NO_PROTOCOLS_AVAILABLE": PARAMETERS,
    "TLSV1_ALERT_PROTOCOL_VERSION": PARAMETERS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": IDENTIFY,
    "SSLV3_ALERT_BAD_CERTIFICATE": IDENTIFY,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker says that the client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": IDENTIFY,
    "TLSV1_ALERT_UNKNOWN_CA": IDENTIFY,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": f"{PARAMETERS}, or {IDENTIFY}",
    "TLSV1_ALERT_INTERNAL_ERROR": "the broker failed; its log says why",
}
VERIFY: Final = {  # by OpenSSL's verify code
    10: "the certificate has expired; is the clock of this machine right?",
    9: "the certificate is not yet valid; is the clock of this machine right?",
    18: f"the certificate is self-signed; {TRUST}",
    19: f"the authority is not trusted; {TRUST}",
    20: f"the authority is not trusted; {TRUST}",
    21: f"the authority is not trusted; {TRUST}",
    62: "the certificate is for another host: connect to a name that it contains, or mend advertised.listeners or the certificate",
    64: "the certificate is for another address: connect to a name that it contains, or mend advertised.listeners or the certificate",
}
HANDSHAKE_ENDED: Final = f"the broker closed the connection during the TLS handshake; perhaps {NO_TLS}"


class Contexts:
    """Makes the `SSLContext` for each connection from the options. For several threads, none of them the loop's."""

    def __init__(self, config: SecurityConfig) -> None:
        """Raises ConfigError if the certificates cannot be used."""
        self._config = config
        self._lock = threading.Lock()
        self._made: tuple[bytes, ssl.SSLContext] | None = None  # from which content
        self._warned = False
        self.current()

    def current(self) -> ssl.SSLContext:
        """The context for a new connection; the last one unless a file has changed.

        If the files cannot be used now, because they are being replaced, the last context is used, and a warning is logged.
        """
        if self._config.ssl_context is not None:
            given: ssl.SSLContext = self._config.ssl_context
            return given
        with self._lock:
            try:
                content = {name: self._read(name) for name in FILES}
                digest = hashlib.sha256(repr(sorted(content.items(), key=str)).encode()).digest()
                if self._made is None or self._made[0] != digest:
                    self._made = digest, self._make()
                self._warned = False
            except ConfigError as error:
                if self._made is None:
                    raise
                if not self._warned:
                    self._warned = True
                    log.warning("the certificates cannot be read again; the ones that were read before are used: %s", error)
            return self._made[1]

    def _read(self, name: str) -> bytes | None:
        path = getattr(self._config, name)
        if path is None:
            return None
        try:
            with Path(path).open("rb") as file:
                if name != "ssl_cafile" and (name == "ssl_keyfile" or self._config.ssl_keyfile is None):
                    _warn_of_open_key(path, os.fstat(file.fileno()).st_mode)
                content = file.read(LARGEST + 1)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name}={path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if len(content) > LARGEST:
            raise ConfigError(f"{name}={path!r} has more than {LARGEST:,} bytes: it is no file of certificates")
        return content

    def _make(self) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = config.ssl_check_hostname
        if config.ssl_ciphers is not None:
            try:
                context.set_ciphers(config.ssl_ciphers)
            except ssl.SSLError:
                raise ConfigError(f"ssl_ciphers={config.ssl_ciphers!r} names no cipher that OpenSSL has") from None
        self._trust(context)
        self._identify(context)
        return context

    def _trust(self, context: ssl.SSLContext) -> None:
        config = self._config
        name = "ssl_cafile" if config.ssl_cafile is not None else "ssl_ca_pem"
        if config.ssl_cafile is None and config.ssl_ca_pem is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            return
        try:
            context.load_verify_locations(config.ssl_cafile, None, config.ssl_ca_pem)
        except (ssl.SSLError, OSError, ValueError):
            where = f"ssl_cafile={config.ssl_cafile!r}" if config.ssl_cafile is not None else name
            raise ConfigError(f"{where} contains no certificate in PEM format; {_way_out(config.ssl_cafile)}") from None

    def _identify(self, context: ssl.SSLContext) -> None:
        config = self._config
        if config.ssl_certfile is None and config.ssl_cert_pem is None:
            return
        with (
            _as_file(config.ssl_certfile, config.ssl_cert_pem) as certificate,
            _as_file(config.ssl_keyfile, _text(config.ssl_key_pem)) as key,
        ):
            try:
                context.load_cert_chain(certificate, key, lambda: _password(config))
            except (ssl.SSLError, OSError, ValueError) as error:
                raise ConfigError(self._misfit(error)) from None

    def _misfit(self, error: Exception) -> str:
        """Why the client's certificate cannot be used. The message of `error` may contain the name of a temporary file."""
        config = self._config
        where = f"ssl_certfile={config.ssl_certfile!r}" if config.ssl_certfile is not None else "ssl_cert_pem"
        if config.ssl_keyfile is not None:
            where += f" with ssl_keyfile={config.ssl_keyfile!r}"
        reason = getattr(error, "reason", None) or ""
        if reason == "KEY_VALUES_MISMATCH":
            return f"{where}: the key does not belong to the certificate"
        if reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ", "MAYBE_WRONG_PASSWORD"):
            return f"{where}: the key cannot be decrypted; is ssl_password right?"
        return f"{where}: no certificate and key in PEM format; {_way_out(config.ssl_certfile)}"


def _text(secret: Any) -> str | None:
    return secret if isinstance(secret, str) else None


def _way_out(path: str | None) -> str:
    name = path or "store"
    if str(name).endswith((".jks", ".p12", ".pfx", ".keystore", ".truststore")):
        return f"convert it: openssl pkcs12 -in {name} -out {name}.pem (a JKS first with keytool -importkeystore -deststoretype PKCS12)"
    return "it begins with -----BEGIN CERTIFICATE-----"


def _password(config: SecurityConfig) -> str:
    """Without a password OpenSSL would ask at the terminal."""
    password = config.ssl_password
    if password is None:
        raise ConfigError("the key is encrypted: set ssl_password")
    if isinstance(password, str):
        return password
    try:
        given = password()
    except Exception as error:
        raise ConfigError(f"ssl_password raised {type(error).__name__}") from None
    if not isinstance(given, str):
        raise ConfigError(f"ssl_password returned {type(given).__name__}: it must return a str")
    return given


@contextlib.contextmanager
def _as_file(path: str | None, content: str | None) -> Iterator[Any]:
    """A path to the content, since `ssl` reads certificates of clients from files only. Where the system can, the file is in memory."""
    if content is None:
        yield path
        return
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("pykafka4")
        with os.fdopen(fd, "wb") as file:
            file.write(content.encode())
            file.flush()
            yield f"/proc/self/fd/{fd}"
        return
    with tempfile.TemporaryDirectory() as folder:  # readable by its owner only
        place = Path(folder, "pem")
        place.write_text(content)
        yield str(place)


_warned_of: set[str] = set()


def _warn_of_open_key(path: str, mode: int) -> None:
    """Once for each file."""
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO) and path not in _warned_of:
        _warned_of.add(path)
        log.warning("the key in %s can be read or changed by other users (mode %o): chmod 600", path, stat.S_IMODE(mode))


def explain_tls(address: str, error: BaseException, *, shaking: bool) -> KafkaError:
    """The error for a connection that ended with `error`; `shaking`: during the handshake."""
    certain = True
    if isinstance(error, ssl.SSLCertVerificationError):
        what = VERIFY.get(error.verify_code, "")
        reason = f"the broker's certificate is refused: {error.verify_message}{f' ({what})' if what else ''}"
    elif isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        if not shaking:
            return ConnectionLost(f"{address}: the broker closed the connection")
        reason = HANDSHAKE_ENDED
        certain = False
    else:
        name = error.reason or type(error).__name__
        hint = HINTS.get(name)
        if hint is None and not shaking and "ALERT" not in name:
            return ConnectionLost(f"{address}: TLS: {name}")
        reason = f"TLS handshake failed: {name}{f' ({hint})' if hint else ''}"
    failed = AuthenticationError(f"{address}: {reason}")
    failed.certain = certain
    return caused_by(failed, error)
