"""Makes the `SSLContext` for a connection from the options (`Contexts`), and turns exceptions of `ssl` into the errors of a connection.

Invariant: certificate files are read again before connections are made, never on the loop thread; errors name the setting to change if it
is known, and show no secret.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import ssl
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pykafka4.errors import AuthenticationError, ConfigError, ConnectionLost, KafkaError, caused_by
from pykafka4.errors.frames import place_of
from pykafka4.logs import get_log
from pykafka4.net.transport import explain
from pykafka4.options.pem import restore_lines
from pykafka4.options.security import SecurityConfig
from pykafka4.wire.protocol.frame import explain_bad_frame, explain_bad_rest

__all__ = ["Contexts", "explain_handshake", "explain_tls"]

log = get_log("pykafka4.tls")

FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile")
MAX_FILE_BYTES: Final = 16 << 20  # a system's list of authorities takes a quarter of a MiB
MAX_PASSWORD_BYTES: Final = 1024  # the limit of OpenSSL

TRUST: Final = "set ssl_cafile to the certificate of the authority that signed the broker's"
IDENTIFY: Final = "the broker demands a certificate that it trusts: set ssl_certfile and ssl_keyfile"
NO_TLS: Final = "it does not speak TLS: use its TLS port, or a security_protocol without SSL"
PARAMETERS: Final = "the client and the broker have no TLS version or cipher in common; this client needs TLS 1.2 or newer"
REFUSED: Final = {  # the alerts with which a broker refuses a client; with TLS 1.3 most of them come after the handshake
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": IDENTIFY,
    "SSLV3_ALERT_BAD_CERTIFICATE": IDENTIFY,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the broker says that the client's certificate has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "the broker says that the client's certificate has been revoked",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": IDENTIFY,
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": IDENTIFY,
    "SSLV3_ALERT_HANDSHAKE_FAILURE": f"{PARAMETERS}, or {IDENTIFY}",
    "TLSV1_ALERT_UNKNOWN_CA": IDENTIFY,
    "TLSV1_ALERT_ACCESS_DENIED": "the broker does not admit this client's certificate",
    "TLSV1_ALERT_DECRYPT_ERROR": IDENTIFY,
}
HINTS: Final = REFUSED | {  # by the reason of an SSLError
    "WRONG_VERSION_NUMBER": NO_TLS,
    "HTTP_REQUEST": NO_TLS,
    "RECORD_LAYER_FAILURE": NO_TLS,
    "PACKET_LENGTH_TOO_LONG": NO_TLS,
    "EXCESSIVE_MESSAGE_SIZE": "the broker sends more certificates than OpenSSL reads: at most 100 KiB",
    "UNSUPPORTED_PROTOCOL": PARAMETERS,
    "NO_SHARED_CIPHER": PARAMETERS,
    "NO_PROTOCOLS_AVAILABLE": PARAMETERS,
    "TLSV1_ALERT_PROTOCOL_VERSION": PARAMETERS,
    "TLSV1_ALERT_INSUFFICIENT_SECURITY": PARAMETERS,
    "TLSV1_UNRECOGNIZED_NAME": "the broker does not know the name that the client connects to",
    "TLSV1_ALERT_UNRECOGNIZED_NAME": "the broker does not know the name that the client connects to",
    "TLSV1_ALERT_INTERNAL_ERROR": "the broker failed; its log says why",
}
TEMPORARY_REASONS: Final = frozenset({"TLSV1_ALERT_INTERNAL_ERROR"})  # the reasons in HINTS that may be temporary
VERIFY: Final = {  # by OpenSSL's verify code
    9: "the certificate is not yet valid; is the clock of this machine right?",
    10: "the certificate has expired; is the clock of this machine right?",
    18: f"the certificate is self-signed; {TRUST}",
    19: f"the authority is not trusted; {TRUST}",
    20: f"the authority is not trusted; {TRUST}",
    21: f"the authority is not trusted; {TRUST}",
    62: "the certificate is for another host: connect to a name that it contains, or correct advertised.listeners or the certificate",
    64: "the certificate is for another address: connect to a name that it contains, or correct advertised.listeners or the certificate",
}
WEAK: Final = {  # by the reason of an SSLError, for the certificates of the client
    "EE_KEY_TOO_SMALL": "the key of the certificate is too small for OpenSSL: use a longer key",
    "CA_KEY_TOO_SMALL": "the key of an authority in it is too small for OpenSSL: the authority needs a longer key",
    "CA_MD_TOO_WEAK": "the hash of a signature in it is too weak for OpenSSL: have the certificate signed with SHA-256 or better",
}
HANDSHAKE_ENDED: Final = f"the broker closed the connection during the TLS handshake; perhaps {NO_TLS}"
ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class Contexts:
    """Provides the `SSLContext` for each connection. For one thread at a time, but not the loop thread."""

    def __init__(self, config: SecurityConfig, client_id: str = "pykafka4") -> None:
        """`client_id` is for the log. Raises ConfigError if an `ssl_*` option cannot be used."""
        given = config.ssl_context
        if given is not None and (not isinstance(given, ssl.SSLContext) or given.protocol == ssl.PROTOCOL_TLS_SERVER):
            raise ConfigError("ssl_context must be an ssl.SSLContext for clients: ssl.create_default_context() makes one")
        self._config, self._client_id = config, client_id
        self._made: tuple[bytes, ssl.SSLContext] | None = None  # (digest of the files, their context)
        self._warned = False
        self._warn_of_unchecked(self.current())

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection: the last one, unless a file has changed.

        If the files cannot be used now, perhaps because they are being replaced, return the last context. Only the first such call in a row
        logs a warning. Raises ConfigError if there is no last context.
        """
        if self._config.ssl_context is not None:
            given: ssl.SSLContext = self._config.ssl_context
            return given
        try:
            files = {name: self._read(name) for name in FILES}
            digest = hashlib.sha256(repr([files[name] for name in FILES]).encode()).digest()
            if self._made is None or self._made[0] != digest:
                self._made = digest, self._make(files)
            self._warned = False
        except ConfigError as error:
            if self._made is None:
                raise
            if not self._warned:
                self._warned = True
                log.warning(
                    "%s: the certificates cannot be used now; the client continues with the last ones: %s", self._client_id, str(error)
                )
        return self._made[1]

    def _warn_of_unchecked(self, context: ssl.SSLContext) -> None:
        """Without these checks, a stranger at an address that a broker advertises can pass for a broker."""
        if context.verify_mode != ssl.CERT_REQUIRED:
            log.warning("%s: ssl_context does not verify certificates: anybody in the network can read the traffic", self._client_id)
        elif not context.check_hostname:
            log.warning("%s: host names are not checked: any certificate of a trusted authority is accepted", self._client_id)

    def _read(self, name: str) -> bytes | None:
        config = self._config
        path = getattr(config, name)
        if path is None:
            return None
        key_here = name == "ssl_keyfile" or (name == "ssl_certfile" and config.ssl_keyfile is None and config.ssl_key_pem is None)
        try:
            with Path(path).open("rb") as file:
                if key_here:
                    _warn_of_open_key(path, os.fstat(file.fileno()).st_mode)
                content = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name}={path!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if len(content) > MAX_FILE_BYTES:
            raise ConfigError(f"{name}={path!r} has more than {MAX_FILE_BYTES:,} bytes: it is not a file of certificates or keys")
        return content

    def _make(self, files: dict[str, bytes | None]) -> ssl.SSLContext:
        config = self._config
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = config.ssl_check_hostname
        context.hostname_checks_common_name = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # every certificate in ssl_cafile is trusted, as in a Java truststore
        if config.ssl_ciphers is not None:
            try:
                context.set_ciphers(config.ssl_ciphers)
            except (ssl.SSLError, ValueError):
                raise ConfigError(f"ssl_ciphers={config.ssl_ciphers!r} names no cipher for TLS 1.2 that OpenSSL has") from None
        self._trust(context, files)
        self._identify(context, files)
        return context

    def _trust(self, context: ssl.SSLContext, files: dict[str, bytes | None]) -> None:
        config = self._config
        if config.ssl_cafile is None and config.ssl_ca_pem is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            return
        pem = None if config.ssl_ca_pem is None else _ascii(config.ssl_ca_pem).decode()
        try:
            context.load_verify_locations(config.ssl_cafile, None, pem)
        except (OSError, ValueError):
            content = files["ssl_cafile"] if pem is None else _ascii(pem)
            raise ConfigError(
                f"{_named('ssl_cafile', 'ssl_ca_pem', config.ssl_cafile)}: {_no_certificate(config.ssl_cafile, content)}"
            ) from None

    def _identify(self, context: ssl.SSLContext, files: dict[str, bytes | None]) -> None:
        config = self._config
        if config.ssl_certfile is None and config.ssl_cert_pem is None:
            return
        asked: list[None] = []

        def password() -> str:
            asked.append(None)
            return _password(config)

        key_pem = config.ssl_key_pem if isinstance(config.ssl_key_pem, str) else None
        with _as_file(config.ssl_certfile, config.ssl_cert_pem) as certificate, _as_file(config.ssl_keyfile, key_pem) as key:
            try:
                context.load_cert_chain(certificate, key, password)
                return
            except ConfigError:
                raise
            except (OSError, ValueError) as error:  # may show the password or a temporary path: `error` must not become a `__context__`
                reason = getattr(error, "reason", None)
        raise ConfigError(self._misfit(reason, bool(asked), files))

    def _misfit(self, reason: str | None, encrypted: bool, files: dict[str, bytes | None]) -> str:
        """Return why certificate or key cannot be used. `reason` is OpenSSL's, or None; `encrypted`: whether the key needs a password."""
        config = self._config
        where = _named("ssl_certfile", "ssl_cert_pem", config.ssl_certfile)
        content = files["ssl_certfile"] if config.ssl_cert_pem is None else _ascii(config.ssl_cert_pem)
        if not _has_certificates(content or b""):
            return f"{where}: {_no_certificate(config.ssl_certfile, content)}"
        if reason in WEAK:
            return f"{where}: {WEAK[reason]}"
        has_key = config.ssl_keyfile is not None or config.ssl_key_pem is not None
        if has_key:
            where = _named("ssl_keyfile", "ssl_key_pem", config.ssl_keyfile)
            content = files["ssl_keyfile"] if config.ssl_key_pem is None else _ascii(str(config.ssl_key_pem))
        if reason in ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
            return f"{where}: the key does not belong to the certificate"
        if encrypted:
            return f"{where}: the key cannot be decrypted; is ssl_password right?"
        if b"PRIVATE KEY-----" in (content or b""):
            return f"{where}: the key in it is damaged"
        return f"{where}: {_no_key(config.ssl_keyfile, content) if has_key else 'it contains no key: set ssl_keyfile'}"


def _ascii(pem: str) -> bytes:
    """Return PEM in the form that OpenSSL needs, without non-ASCII characters."""
    return restore_lines(pem).encode("ascii", "ignore")


def _named(file: str, content: str, path: str | None) -> str:
    return content if path is None else f"{file}={path!r}"


def _has_certificates(content: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("ascii", "ignore"))
    except (OSError, ValueError):
        return False
    return True


def _no_certificate(path: str | None, content: bytes | None) -> str:
    if content and b"CERTIFICATE-----" in content:
        return "a certificate in it is damaged"
    return f"no certificate in PEM format; {_way_out(path or 'store', content or b'', 'certificate')}"


def _no_key(path: str | None, content: bytes | None) -> str:
    return f"no key in PEM format; {_way_out(path or 'key', content or b'', 'key')}"


def _way_out(path: str, content: bytes, what: str) -> str:
    """A JKS begins with a magic number. PKCS12 is DER, and its version, 3, follows the length."""
    if content[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        jks = f"keytool -importkeystore -srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12"
        return f"it is a JKS: convert it with {jks}, then openssl pkcs12 -in {path}.p12 -out {path}.pem"
    if content[:1] == b"\x30" and b"\x02\x01\x03" in content[2:9]:
        return f"it is PKCS12: convert it with openssl pkcs12 -in {path} -out {path}.pem"
    if content[:1] == b"\x30":
        return f"it is DER: convert it with openssl {'x509' if what == 'certificate' else 'pkey'} -inform DER -in {path} -out {path}.pem"
    if not content:
        return "it is empty"
    return f"PEM begins with {'-----BEGIN CERTIFICATE-----' if what == 'certificate' else '-----BEGIN PRIVATE KEY-----'}"


def _password(config: SecurityConfig) -> str:
    """Return the password of the key. Raises ConfigError. Without a callback, OpenSSL would ask at the terminal."""
    given: Any = config.ssl_password
    if given is None:
        raise ConfigError("the key is encrypted: set ssl_password")
    if not isinstance(given, str):
        given = _asked(given)
    if not isinstance(given, str):
        raise ConfigError(f"ssl_password returned {type(given).__name__}: it must return a str")
    if len(given.encode(errors="replace")) > MAX_PASSWORD_BYTES:
        raise ConfigError(f"ssl_password has more than {MAX_PASSWORD_BYTES:,} bytes, which OpenSSL does not accept")
    return given


def _asked(callable: Callable[[], Any]) -> Any:
    """The ConfigError has no `__context__`, and repeats only the text of a KafkaError, because other exceptions may show the password."""
    try:
        return callable()
    except KafkaError as error:
        reason = f"ssl_password: {error}"
    except (Exception, SystemExit) as error:
        reason = f"ssl_password raised {type(error).__name__}{place_of(error)}"
    raise ConfigError(reason)


@contextlib.contextmanager
def _as_file(path: str | None, content: str | None) -> Iterator[Any]:
    """Yield `path`, or the path of a file with `content` (if possible in memory). `ssl` reads client certificates only from files."""
    if content is None:
        yield path
        return
    with contextlib.ExitStack() as stack:
        try:
            place = _in_memory(_ascii(content), stack) or _on_disk(_ascii(content), stack)
        except OSError as error:
            raise ConfigError(f"no temporary file for a certificate or a key can be written: {error.strerror}") from None
        yield place


def _in_memory(content: bytes, stack: contextlib.ExitStack) -> str | None:
    """Return the path of a file in memory; None if the system has no such files, does not allow them, or has no /proc."""
    if not hasattr(os, "memfd_create"):
        return None
    try:
        file = stack.enter_context(os.fdopen(os.memfd_create("pykafka4"), "wb"))
    except OSError:
        return None
    place = f"/proc/self/fd/{file.fileno()}"
    if not Path(place).exists():
        return None
    file.write(content)
    file.flush()
    return place


def _on_disk(content: bytes, stack: contextlib.ExitStack) -> str:
    place = Path(stack.enter_context(tempfile.TemporaryDirectory()), "pem")  # on POSIX, only the owner can enter the directory
    place.write_bytes(content)
    return str(place)


_warned_of: set[str] = set()


def _warn_of_open_key(path: str, mode: int) -> None:
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO) and path not in _warned_of:
        _warned_of.add(path)
        log.warning("the key in %s can be read or changed by other users (mode %o): chmod 600", path, stat.S_IMODE(mode))


# -- errors of connections


def explain_handshake(address: str, error: BaseException, heard: bytes, rest: bytes = b"") -> ConnectionLost:
    """`heard` has the first bytes from the peer; if it is empty, `rest` has the bytes after those that OpenSSL took from the socket."""
    certain = True
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = VERIFY.get(error.verify_code)
        reason = f"the broker's certificate is refused: {error.verify_message}{f' ({hint})' if hint else ''}"
    elif isinstance(error, ENDED) or getattr(error, "errno", None) == errno.ENOTCONN:
        reason, certain = HANDSHAKE_ENDED, False
    elif not isinstance(error, ssl.SSLError):
        return ConnectionLost(f"{address}: {explain(error)} during the TLS handshake")
    elif heard and not _is_tls(heard):
        reason = f"TLS handshake failed: {explain_bad_frame(heard) or NO_TLS}"
    else:
        name = _name(error)
        hint = HINTS.get(name)
        spoken = explain_bad_rest(rest) if hint is NO_TLS else None
        reason = f"TLS handshake failed: {spoken or name}{f' ({hint})' if hint and not spoken else ''}"
        certain = hint is not None and name not in TEMPORARY_REASONS
    failed = AuthenticationError(f"{address}: {reason}")
    failed.certain, failed.is_of_client = certain, isinstance(error, ssl.SSLError) and _name(error) in REFUSED
    return caused_by(failed, error)


def explain_tls(address: str, error: BaseException) -> ConnectionLost:
    if not isinstance(error, ssl.SSLError):
        return ConnectionLost(f"{address}: {explain(error)}")
    if isinstance(error, ENDED):
        return ConnectionLost(f"{address}: the broker closed the connection")
    name = _name(error)
    hint = HINTS.get(name)
    if name in REFUSED:
        refused = AuthenticationError(f"{address}: the broker refused this client: {name} ({hint})")
        refused.is_of_client = True
        return caused_by(refused, error)
    return caused_by(ConnectionLost(f"{address}: TLS: {name}"), error)


def _is_tls(heard: bytes) -> bool:
    """Whether a TLS record may begin like this: with its type, and with 3 for the version."""
    return 20 <= heard[0] <= 24 and heard[1:2] in (b"", b"\x03")


def _name(error: ssl.SSLError) -> str:
    """Python lacks names of reasons that are newer than itself; the error's text has the same words."""
    text = re.sub(r"^\[[^]]*\] *| *\(_ssl\.c:\d+\)$", "", str(error))
    return error.reason or text.upper().replace(" ", "_") or type(error).__name__
